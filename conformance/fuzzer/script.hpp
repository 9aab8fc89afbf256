#pragma once
/// Fuzzer scripts: steps to perform on a device, and the mutations of their frames. A script reproduces a finding. It
/// refers to queue pairs, keys and addresses by role, so that it can run on every device.

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/protocol/header.hpp"

namespace rdmawire::fuzzer {

/// Device families, each with a reference model.
enum class Family : std::uint8_t { roce, iwarp };
std::string_view to_string(Family family);

/// Action of a step. A different meaning for iWARP follows after "iWARP:".
enum class StepKind : std::uint8_t {
  connect,  ///< create a queue pair in its slot and move it to a state. iWARP: open a stream over TCP and negotiate MPA
  request,  ///< send a packet to the device's responder
  answer,   ///< send a packet to the device's requester
  receive,  ///< post a receive request
  post,     ///< post a send request
  wait,     ///< let time pass
  modify,   ///< modify state and attributes of the queue pair
  notify,   ///< request a notification of the completion queue
  bind,     ///< bind a memory window by a work request
  fast_register,  ///< register memory by a work request
  invalidate,     ///< invalidate a key by a work request
  deregister,     ///< deregister the region of a key
  attach,         ///< attach a queue pair to a multicast group
  detach,
  destroy,        ///< destroy the queue pair
  destroy_cq,     ///< destroy the completion queue
  cm,             ///< send a message to the device's communication manager
  cm_connect,     ///< the device requests a connection to the tester
  cm_accept,      ///< accept a requested connection
  cm_reject,      ///< reject a requested connection
  cm_disconnect,  ///< disconnect the connection
  // iWARP
  setup,       ///< send the tester's MPA Request or Reply Frame
  accept,      ///< accept the pending request
  reject,      ///< reject the pending request
  segment,     ///< send an FPDU with one DDP segment
  fin,         ///< send FIN
  abort,       ///< send RST
  disconnect,  ///< the device disconnects the stream
};
inline constexpr std::size_t step_kinds = static_cast<std::size_t>(StepKind::disconnect) + 1;
std::string_view to_string(StepKind kind);
bool belongs_to(StepKind kind, Family family);
/// True if the step sends RoCE frames to the device.
constexpr bool is_packet(StepKind kind) {
  return kind == StepKind::request || kind == StepKind::answer || kind == StepKind::cm;
}
/// True if the step uses the communication manager.
constexpr bool is_of_connections(StepKind kind) { return kind >= StepKind::cm && kind <= StepKind::cm_disconnect; }

/// Keys of the device's memory. layout.hpp defines the memory ranges.
enum class Key : std::uint8_t {
  everything,        ///< region with all rights
  read_only,         ///< region with remote read
  write_only,        ///< region with remote write
  closed,            ///< region without remote rights
  foreign,           ///< region with all rights in another protection domain
  fast,              ///< region for fast registration, invalid until it is registered
  window,            ///< type 2 window of the first queue pair, with remote read
  window_elsewhere,  ///< type 2 window of the second queue pair
  window_1,          ///< type 1 window
  unknown,           ///< unknown key
};
inline constexpr std::size_t keys = static_cast<std::size_t>(Key::unknown) + 1;
std::string_view to_string(Key key);

/// A modification of a frame, before or after checksums are recomputed.
struct Mutation {
  enum class Kind : std::uint8_t {
    set,         ///< set a field to `value`
    add,         ///< add `value` to a field, modulo its width
    bad_icrc,    ///< replace the ICRC by ICRC XOR `value`
    bad_sum,     ///< do not recompute the IPv4 checksum
    stale_icrc,  ///< do not recompute the ICRC
    truncate,    ///< remove the last `value` bytes before the ICRC
    extend,      ///< insert `value` bytes before the ICRC
    cut,         ///< remove the last `value` bytes of the frame, including the ICRC
    duplicate,   ///< send the frame twice
    drop,        ///< do not send the frame
    hold,        ///< send the frame after the next step's frame
    splice,      ///< replace the end of the frame by the last `value` bytes of the previous one
    // iWARP. Mutations at the end of a frame change the end of the ULPDU. The CRC is that of the mutated FPDU.
    bad_crc,    ///< replace the CRC by CRC XOR `value`
    stale_crc,  ///< do not recompute the CRC
    pad,        ///< fill the pad with `value`
    marker,     ///< add `value` to the FPDUPTR of the last marker
    split,      ///< split the TCP segment after `value` bytes
    join,       ///< send the bytes in the same TCP segment as those of the next step
  };
  static constexpr std::size_t kinds = static_cast<std::size_t>(Kind::join) + 1;
  Kind kind = Kind::set;
  const HeaderInfo* header = nullptr;  ///< set and add
  const Field* field = nullptr;        ///< set and add
  std::int64_t value = 0;

  friend bool operator==(const Mutation&, const Mutation&) = default;
};
std::string_view to_string(Mutation::Kind kind);

/// One action on the device. The kind determines which members are used. The others have their default values.
struct Step {
  StepKind kind = StepKind::wait;
  std::int64_t at = 0;      ///< slot: index of the device's queue pair
  std::int64_t opcode = 0;  ///< packets: BTH opcode. post: device::WorkOpcode. cm: attribute of the message
  std::int64_t psn =
      0;  ///< request: relative to the expected PSN. answer: to the oldest outstanding PSN. connect: first expected PSN
  std::int64_t own_psn = 0;  ///< connect: first PSN of the device
  std::int64_t payload = 0;  ///< number of bytes
  std::int64_t length = 0;   ///< bytes of the RETH, of the work request or of each receive request. MRA: timeout code
  std::int64_t key = 0;      ///< a Key
  std::int64_t offset = 0;   ///< bytes from the start of the key's memory
  std::int64_t flags = 0;    ///< packets: step_flags. post: bit 0 solicited, bit 1 fence, bit 2 unsignaled
  std::int64_t syndrome = 0;
  std::int64_t msn = 0;
  std::int64_t immediate = 0;
  std::int64_t value =
      0;  ///< AtomicETH: swap or add. AtomicAckETH: original. FETH: placement. MRA or REJ: the message it refers to
  std::int64_t compare = 0;  ///< AtomicETH: compare. FETH: selectivity. REJ: reason
  std::int64_t way = 0;      ///< a Way
  std::int64_t number = 0;   ///< XRC: index of the SRQ. bind: window. connect: 0 IPv4, 1 IPv6, 2 RoCEv1. destroy_cq: 1
                             ///< the small CQ. REQ: 1 a retransmission
  std::int64_t nanoseconds = 0;  ///< iWARP: 1 in a step other than wait: the next step follows before the device sends.
                                 ///< wait with a length: send that many bytes
  std::int64_t service = 0;      ///< connect: device::QpType, or gsi_service
  std::int64_t state = 0;        ///< connect and modify: device::QpState
  std::int64_t rights = 0;       ///< connect, bind and fast_register
  std::int64_t depth = 0;        ///< connect: concurrent READs and atomics
  std::int64_t count = 0;        ///< connect: receive requests
  std::int64_t timeout = 0;      ///< connect: timeout code
  std::int64_t retries = 0;      ///< connect
  std::int64_t queues = 0;       ///< connect: 1 a small completion queue, 2 an SRQ
  std::int64_t mask = 0;         ///< modify: attributes to set. iWARP atomics: mask
  // iWARP:
  // - opcode: segments: RDMAP opcode
  // - msn, mo: difference from the expected value of the queue
  // - offset: responses: difference from the expected offset
  // - number: atomics: operation. connect: 1 if the device is the initiator
  // - payload: MPA frames: bytes of private data. Messages without payload: bytes after the header
  std::int64_t mo = 0;
  std::int64_t queue = 0;         ///< difference from the queue number of the opcode
  std::int64_t ird = 0, ord = 0;  ///< values in the enhanced MPA frame
  std::int64_t own_depth = 0;     ///< connect: READs and atomics that the device may have outstanding
  std::int64_t compare_mask = 0;
  std::vector<Mutation> mutations{};
  bool mutated = false;  ///< true: the step is intentionally invalid

  friend bool operator==(const Step&, const Step&) = default;
};

/// Bits of Step::flags of a packet.
namespace step_flags {
inline constexpr std::int64_t ack_request = 1, solicited = 2, not_migrated = 4, other_pkey = 8, other_qkey = 16,
                              congested = 32, no_such_qp = 64, qp_zero = 128, limited_pkey = 256, multicast_qp = 512,
                              second_pkey = 1024;
}

/// Addressing variant of a packet.
enum class Way : std::uint8_t {
  usual,           ///< from the tester to the device, as configured in the queue pair
  foreign_source,  ///< from an address that is not the tester's
  foreign_target,  ///< to an address that is not the device's
  other_version,   ///< as RoCEv1
  ipv6,            ///< over IPv6 although the queue pair uses IPv4
  group,           ///< to a multicast group
};
inline constexpr std::size_t ways = static_cast<std::size_t>(Way::group) + 1;
std::string_view to_string(Way way);

/// A numeric member of a step and its name.
struct StepMember {
  std::string_view name;
  std::int64_t Step::*member;
};
extern const std::array<StepMember, 32> step_members;

struct Script {
  Family family = Family::roce;
  std::uint64_t seed = 1;  ///< seed of the device's random numbers
  std::vector<Step> steps{};
};

/// Bits of Step::flags of a segment.
namespace segment_flags {
inline constexpr std::int64_t more = 1,  ///< not the last segment of its message
    other_model = 2,                     ///< tagged for an untagged opcode, or untagged for a tagged opcode
    other_stag = 4,                      ///< another STag than the correct one
    other_id = 8;                        ///< Atomic Response: identifier of another request
}
/// Bits of Step::flags of connect and setup: the tester's MPA frame. Default: CRCs requested, revision 1.
namespace setup_flags {
inline constexpr std::int64_t no_crc = 1, markers = 2, enhanced = 4, peer_to_peer = 8, rtr_send = 16, rtr_write = 32,
                              rtr_read = 64, reject = 128,
                              other_key = 256,  ///< key of the other frame type
    no_key = 512,                               ///< unknown key
    silent = 1024,                              ///< connect: no frame yet
    short_data = 2048;                          ///< enhanced without enhanced data: only private data
}
/// Bits of Step::service of connect: MPA settings of the device's streams.
namespace stream_settings {
inline constexpr std::int64_t revision_1 = 1, markers = 2, no_crc = 4, peer_to_peer = 8, not_enhanced = 16,
                              rtr_write_only = 32, rtr_send_only = 64, rdmac = 128, no_extensions = 256;
}

/// Return {"seed": 1, "steps": [{"do": "connect", "service": 0, …}, …]}. Members with value 0 are omitted. iWARP
/// scripts have the member "family": "iwarp".
nlohmann::ordered_json to_json(const Script& script);
nlohmann::ordered_json to_json(const Step& step);
/// Parse a script. Errors contain the step and the reason.
tl::expected<Script, std::string> parse_script(const std::string& text);
/// Parse one step of a family.
tl::expected<Step, std::string> parse_step(const std::string& text, Family family);
/// Describe a step in one line: "request RC RDMA WRITE Only psn +0 key everything offset 4089 payload 8; bth.pad = 3"
std::string text_of(const Step& step);

}  // namespace rdmawire::fuzzer
