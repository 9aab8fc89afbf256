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

/// Families of devices, each with a shadow of its own.
enum class Family : std::uint8_t { roce, iwarp };
std::string_view to_string(Family family);

/// What a step does. Where a word means something else of iWARP, that stands behind it.
enum class StepKind : std::uint8_t {
  connect,        ///< a fresh queue pair in its place, in the state that is asked for; a stream, its TCP and its set-up
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
  destroy,        ///< it destroys the queue pair
  destroy_cq,     ///< it destroys the completion queue
  cm,             ///< a message to the device's communication manager
  cm_connect,     ///< its consumer asks the tester for a connection
  cm_accept,      ///< it agrees to the connection that it was asked for
  cm_reject,      ///< it does not
  cm_disconnect,  ///< it ends the connection
  // Of iWARP
  setup,       ///< the tester's MPA Request or Reply Frame
  accept,      ///< the device's consumer accepts the request that waits for it
  reject,      ///< it rejects it
  segment,     ///< an FPDU of one DDP segment
  fin,         ///< the tester's FIN
  abort,       ///< its RST
  disconnect,  ///< the device's consumer ends the stream
};
inline constexpr std::size_t step_kinds = static_cast<std::size_t>(StepKind::disconnect) + 1;
std::string_view to_string(StepKind kind);
bool belongs_to(StepKind kind, Family family);
/// Whether the step is one by which frames are sent to the device; of iWARP there are none, but bytes.
constexpr bool is_packet(StepKind kind) {
  return kind == StepKind::request || kind == StepKind::answer || kind == StepKind::cm;
}
/// Whether it is about a connection that the communication manager makes.
constexpr bool is_of_connections(StepKind kind) { return kind >= StepKind::cm && kind <= StepKind::cm_disconnect; }

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
    truncate,    ///< the last `value` bytes before the ICRC are left out
    extend,      ///< `value` bytes come before the ICRC
    cut,         ///< the frame ends `value` bytes sooner, without ICRC
    duplicate,   ///< it is sent twice
    drop,        ///< it is not sent
    hold,        ///< it is sent behind the next step's
    splice,      ///< it ends as the frame before it did: `value` bytes of that
    // Of iWARP, where the last bytes are those of the ULPDU, and the CRC is made good for what the FPDU then holds
    bad_crc,    ///< the CRC is not the right one: `value` is xored to it
    stale_crc,  ///< the CRC stays as it was before fields were changed
    pad,        ///< the pad's bytes are `value`
    marker,     ///< `value` is added to the FPDUPTR of the last marker
    split,      ///< the TCP segment ends behind `value` bytes, and the rest follows
    join,       ///< what comes next is in the same TCP segment
  };
  static constexpr std::size_t kinds = static_cast<std::size_t>(Kind::join) + 1;
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
  std::int64_t opcode = 0;   ///< of packets: the BTH's; of post: device::WorkOpcode; of cm: the message's attribute
  std::int64_t psn = 0;      ///< of requests from the expected one on, of answers from the oldest that waits on;
                             ///< of connect: the first that is expected
  std::int64_t own_psn = 0;  ///< of connect: the device's first
  std::int64_t payload = 0;  ///< bytes
  std::int64_t length = 0;   ///< of a RETH or a work request; of connect and receive: of each receive request; of an
                             ///< MRA: the code of its time
  std::int64_t key = 0;      ///< a Key
  std::int64_t offset = 0;   ///< bytes from where the key's memory begins
  std::int64_t flags = 0;    ///< of packets: StepFlags; of post: bit 0 solicited, bit 1 fence, bit 2 unsignaled
  std::int64_t syndrome = 0;
  std::int64_t msn = 0;
  std::int64_t immediate = 0;
  std::int64_t value = 0;    ///< of AtomicETH: swap or add; of AtomicAckETH: the original; of FETH: placement; of an
                             ///< MRA or REJ: which message it is about
  std::int64_t compare = 0;  ///< of AtomicETH; of FETH: selectivity; of a REJ: the reason
  std::int64_t way = 0;      ///< a Way
  std::int64_t number = 0;   ///< of XRC: which shared receive queue; of bind: which window; of connect: over IPv4,
                             ///< IPv6, or as RoCEv1; of destroy_cq: 1 the small one; of a REQ: 1 the same again
  std::int64_t nanoseconds = 0;  ///< of iWARP: of a step other than wait, 1: the next one comes before the device has
                                 ///< sent anything; of wait with a length: so many bytes are sent
  std::int64_t service = 0;      ///< of connect: device::QpType, or gsi_service
  std::int64_t state = 0;        ///< of connect and modify: device::QpState
  std::int64_t rights = 0;       ///< of connect, bind and fast_register
  std::int64_t depth = 0;        ///< of connect: READs and atomics at a time
  std::int64_t count = 0;        ///< of connect: receive requests
  std::int64_t timeout = 0;      ///< of connect: code
  std::int64_t retries = 0;      ///< of connect
  std::int64_t queues = 0;       ///< of connect: 1 a small completion queue, 2 a shared receive queue
  std::int64_t mask = 0;         ///< of modify: which attributes are given; of an atomic of iWARP
  // Of iWARP: `opcode` of segments is RDMAP's, `msn` and `mo` count from what is expected of the queue, `offset` of
  // responses from what is waited for, `number` of atomics is their operation, of connect 1 where the device asks for
  // the stream; `payload` of a set-up frame is private data, of messages that are a header what comes behind it.
  std::int64_t mo = 0;
  std::int64_t queue = 0;         ///< counts from the opcode's own
  std::int64_t ird = 0, ord = 0;  ///< of an enhanced set-up frame
  std::int64_t own_depth = 0;     ///< of connect: READs and atomics that the device may have outstanding
  std::int64_t compare_mask = 0;
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
extern const std::array<StepMember, 32> step_members;

struct Script {
  Family family = Family::roce;
  std::uint64_t seed = 1;  ///< of the device's own numbers, where it has a seed
  std::vector<Step> steps{};
};

/// Bits of Step::flags of a segment.
namespace segment_flags {
inline constexpr std::int64_t more = 1,  ///< it is not its message's last
    other_model = 2,                     ///< tagged where the opcode is untagged, and the other way round
    other_stag = 4,                      ///< an STag beside the right one
    other_id = 8;                        ///< of an Atomic Response: another request's identifier
}
/// Bits of Step::flags of connect and setup: the tester's MPA frame. Without any: CRCs asked for, revision 1.
namespace setup_flags {
inline constexpr std::int64_t no_crc = 1, markers = 2, enhanced = 4, peer_to_peer = 8, rtr_send = 16, rtr_write = 32,
                              rtr_read = 64, reject = 128,
                              other_key = 256,  ///< the key of the other kind of frame
    no_key = 512,                               ///< no key at all
    silent = 1024,                              ///< of connect: no frame yet
    short_data = 2048;                          ///< enhanced, without the data: private data alone
}
/// Bits of Step::service of connect: how the device's streams are set up.
namespace stream_settings {
inline constexpr std::int64_t revision_1 = 1, markers = 2, no_crc = 4, peer_to_peer = 8, not_enhanced = 16,
                              rtr_write_only = 32, rtr_send_only = 64, rdmac = 128, no_extensions = 256;
}

/// {"seed": 1, "steps": [{"do": "connect", "service": 0, …}, …]}: members that are 0 are left out. Scripts of
/// iWARP say so: "family": "iwarp".
nlohmann::ordered_json to_json(const Script& script);
nlohmann::ordered_json to_json(const Step& step);
/// An error names the step and what is wrong with it.
tl::expected<Script, std::string> parse_script(const std::string& text);
/// One step, of a family.
tl::expected<Step, std::string> parse_step(const std::string& text, Family family);
/// One line: "request RC RDMA WRITE Only psn +0 key everything offset 4089 payload 8; bth.pad = 3"
std::string text_of(const Step& step);

}  // namespace rdmawire::fuzzer
