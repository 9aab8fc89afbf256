#pragma once
/// What the fuzzer does to a device, as data: steps, and how their frames are changed. A script is what a finding is
/// reproduced by; it names queue pairs, keys and addresses by what they are, so that it runs against any device.

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/protocol/header.hpp"

namespace rdmawire::fuzzer {

/// What a step does.
enum class StepKind : std::uint8_t {
  connect,        ///< a fresh queue pair in its place, in the state that is asked for
  request,        ///< a packet to the device's responder
  answer,         ///< a packet to the device's requester
  receive,        ///< the device's consumer posts a receive request
  post,           ///< it posts a send request
  wait,           ///< time passes
  modify,         ///< it changes the queue pair's state and attributes
  notify,         ///< it asks for a notification of the completion queue
  bind,           ///< it binds a memory window, by a work request
  fast_register,  ///< it registers memory by a work request
  invalidate,     ///< it invalidates a key by a work request
  deregister,     ///< it deregisters the region of a key
  attach,         ///< it attaches a queue pair to a multicast group
  detach,
  destroy,     ///< it destroys the queue pair
  destroy_cq,  ///< it destroys the completion queue
};
inline constexpr std::size_t step_kinds = static_cast<std::size_t>(StepKind::destroy_cq) + 1;
std::string_view to_string(StepKind kind);

/// Keys of the device's memory, by what they open. See world.hpp for where each lies.
enum class Key : std::uint8_t {
  everything,        ///< a region with all rights
  read_only,         ///< a region that may be read
  write_only,        ///< a region that may be written
  closed,            ///< a region without remote rights
  foreign,           ///< a region with all rights in another protection domain
  fast,              ///< a region for fast registration: bad until it is registered
  window,            ///< a type 2 window, for reading, of the first queue pair
  window_elsewhere,  ///< a type 2 window of the second queue pair
  window_1,          ///< a type 1 window
  unknown,           ///< no key of the device's
};
inline constexpr std::size_t keys = static_cast<std::size_t>(Key::unknown) + 1;
std::string_view to_string(Key key);

/// How a frame is changed, before checksums are made good again or after.
struct Mutation {
  enum class Kind : std::uint8_t {
    set,         ///< a field gets `value`
    add,         ///< `value` is added to a field, modulo its width
    bad_icrc,    ///< the ICRC is not the right one: `value` is xored to it
    bad_sum,     ///< the IPv4 checksum is not made good
    stale_icrc,  ///< the ICRC stays as it was before fields were changed
    truncate,    ///< the last `value` octets before the ICRC are left out
    extend,      ///< `value` octets come before the ICRC
    cut,         ///< the frame ends `value` octets sooner, without ICRC
    duplicate,   ///< it is sent twice
    drop,        ///< it is not sent
    hold,        ///< it is sent behind the next step's
    splice,      ///< it ends as the frame before it did: `value` octets of that
  };
  Kind kind = Kind::set;
  const HeaderInfo* header = nullptr;  ///< of set and add
  const Field* field = nullptr;        ///< likewise
  std::int64_t value = 0;

  friend bool operator==(const Mutation&, const Mutation&) = default;
};
std::string_view to_string(Mutation::Kind kind);

/// One thing that happens to the device. Which members are meant depends on the kind; the others stay at their
/// defaults.
struct Step {
  StepKind kind = StepKind::wait;
  std::int64_t at = 0;       ///< which of the device's two queue pairs
  std::int64_t opcode = 0;   ///< of packets: the BTH's; of post: device::WorkOpcode
  std::int64_t psn = 0;      ///< of requests from the expected one on, of answers from the oldest that waits on;
                             ///< of connect: the first that is expected
  std::int64_t own_psn = 0;  ///< of connect: the device's first
  std::int64_t payload = 0;  ///< octets
  std::int64_t length = 0;   ///< of a RETH or a work request; of connect and receive: of each receive request
  std::int64_t key = 0;      ///< a Key
  std::int64_t offset = 0;   ///< octets from where the key's memory begins
  std::int64_t flags = 0;    ///< of packets: StepFlags; of post: bit 0 solicited, bit 1 fence, bit 2 unsignaled
  std::int64_t syndrome = 0;
  std::int64_t msn = 0;
  std::int64_t immediate = 0;
  std::int64_t value = 0;    ///< of AtomicETH: swap or add; of AtomicAckETH: the original; of FETH: placement
  std::int64_t compare = 0;  ///< of AtomicETH; of FETH: selectivity
  std::int64_t way = 0;      ///< a Way
  std::int64_t number = 0;   ///< of XRC: which shared receive queue; of bind: which window; of connect: over IPv4,
                             ///< IPv6, or as RoCEv1; of destroy_cq: 1 the small one
  std::int64_t nanoseconds = 0;
  std::int64_t service = 0;  ///< of connect: device::QpType, or gsi_service
  std::int64_t state = 0;    ///< of connect and modify: device::QpState
  std::int64_t rights = 0;   ///< of connect, bind and fast_register
  std::int64_t depth = 0;    ///< of connect: READs and atomics at a time
  std::int64_t count = 0;    ///< of connect: receive requests
  std::int64_t timeout = 0;  ///< of connect: code
  std::int64_t retries = 0;  ///< of connect
  std::int64_t queues = 0;   ///< of connect: 1 a small completion queue, 2 a shared receive queue
  std::int64_t mask = 0;     ///< of modify: which attributes are given
  std::vector<Mutation> mutations{};
  bool mutated = false;  ///< it is meant to be wrong

  friend bool operator==(const Step&, const Step&) = default;
};

/// Bits of Step::flags of a packet.
namespace step_flags {
inline constexpr std::int64_t ack_request = 1, solicited = 2, not_migrated = 4, other_pkey = 8, other_qkey = 16,
                              congested = 32, no_such_qp = 64, qp_zero = 128, limited_pkey = 256, multicast_qp = 512,
                              second_pkey = 1024;
}

/// Which way a packet takes.
enum class Way : std::uint8_t {
  usual,           ///< as the queue pair is connected
  foreign_source,  ///< from an address that is not the tester's
  foreign_target,  ///< to an address that is not the device's
  other_version,   ///< as RoCEv1
  ipv6,            ///< over IPv6, where the queue pair is connected over IPv4
  group,           ///< to a multicast group
};
inline constexpr std::size_t ways = static_cast<std::size_t>(Way::group) + 1;
std::string_view to_string(Way way);

/// A number of a step, by name.
struct StepMember {
  std::string_view name;
  std::int64_t Step::*member;
};
extern const std::array<StepMember, 26> step_members;

struct Script {
  std::uint64_t seed = 1;  ///< of the device's own numbers, where it has a seed
  std::vector<Step> steps{};
};

/// {"seed": 1, "steps": [{"do": "connect", "service": 0, …}, …]}: members that are 0 are left out.
nlohmann::ordered_json to_json(const Script& script);
nlohmann::ordered_json to_json(const Step& step);
/// An error names the step and what is wrong with it.
tl::expected<Script, std::string> parse_script(const std::string& text);
/// One line: "request RC RDMA WRITE Only psn +0 key everything offset 4089 payload 8; bth.pad = 3"
std::string text_of(const Step& step);

}  // namespace rdmawire::fuzzer
