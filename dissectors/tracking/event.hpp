#pragma once
/// What happened to a connection that a person who looks for trouble wants to know, each time with its frames.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdmawire::tracking {

enum class EventKind : std::uint8_t {
  // Loss, and what follows from it
  retransmission,
  lost_in_network,
  lost_in_capture,
  psn_gap,
  out_of_order,
  duplicate,
  // What the responder refused
  nak,
  rnr_nak,
  ghost_acknowledgement,
  unsolicited_response,
  unanswered,
  msn_jump,
  // Damaged, or not as agreed
  crc_bad,
  truncated,
  pkey_mismatch,
  qkey_mismatch,
  segmentation,
  opcode_sequence,
  read_limit,
  // Congestion and time
  ecn_marked,
  cnp,
  pause,
  stall,
  // The connection's life
  opened,
  rejected,
  closed,
  replaced,
  path_change,
  // iWARP
  tcp_retransmission,
  tcp_reset,
  terminate,
};
inline constexpr std::size_t event_kinds = static_cast<std::size_t>(EventKind::terminate) + 1;

/// Why it happened, or where. Which causes a kind can have is said in its row of event_rows.
enum class Cause : std::uint8_t {
  none,
  unknown,
  // Of a retransmission
  sequence_error_nak,
  timeout,
  rnr,
  implied_nak,
  spurious,
  // Of a loss in the network, as seen from where the capture was taken
  before_capture,
  after_capture,
  // Of a NAK: its code
  psn_sequence_error,
  invalid_request,
  remote_access_error,
  remote_operational_error,
  invalid_rd_request,
  // Of a bad CRC: the change on the way, or the sender's fault, that explains it
  source_port,
  address,
  ip_identification,
  payload,
  pad,
  ttl_not_masked,
  traffic_class_not_masked,
  checksum_not_masked,
  bth_reserved_not_masked,
  // Of a stall: what was waited for
  nothing_outstanding,
  credit,
  window,
  peer,
  // Of a CNP: what the sender's rate did after it
  rate_fell,
  rate_unchanged,
  // Of a TCP retransmission: duplicate or selective acknowledgements asked for it
  fast_retransmit,
};
inline constexpr std::size_t causes = static_cast<std::size_t>(Cause::fast_retransmit) + 1;

/// "sequence_error_nak"; the names of JSON and CSV.
std::string_view to_string(EventKind kind);
std::string_view to_string(Cause cause);

/// How much a kind of event means by itself.
enum class Severity : std::uint8_t {
  note,     ///< part of normal work: a connection was opened
  info,     ///< worth knowing, not a fault: ECN marks
  warning,  ///< costs time or bytes
  error,    ///< something failed or is broken
};
std::string_view to_string(Severity severity);

/// A kind of event, explained once: what every face says about it.
struct EventRow {
  EventKind kind;
  std::string_view name;
  Severity severity;
  std::string_view meaning;  ///< one sentence
  std::span<const Cause> causes;
};
/// In the order of EventKind.
extern const std::array<EventRow, event_kinds> event_rows;

/// One of a connection's two ends, Connection::ends.
enum class Side : std::uint8_t { a = 0, b = 1 };
constexpr Side other(Side end) { return end == Side::a ? Side::b : Side::a; }

/// Frames are numbered as in the capture, from 1; 0: none. Times are nanoseconds since 1970, durations nanoseconds.
struct Event {
  EventKind kind = EventKind::retransmission;
  Cause cause = Cause::none;
  /// Who suffers: the requester whose packets these are; for what a responder sends unasked, the requester it is
  /// sent to; for a packet by itself (CRC, ECN, truncated), its sender.
  Side end = Side::a;
  std::uint64_t connection = 0;    ///< Connection::id; 0: no connection (pause frames, bad packets of unknown flows)
  std::uint64_t frame = 0;         ///< where it shows first
  std::uint64_t last_frame = 0;    ///< the last frame that belongs to it: of a round, of a stall; else `frame`
  std::uint64_t origin_frame = 0;  ///< what it goes back to: the packet that is sent again or acknowledged, or stands
                                   ///< before the gap
  std::uint64_t cause_frame = 0;   ///< what brought it about: the NAK, the RNR NAK, the response that implies a NAK
  std::int64_t time = 0;           ///< of `frame`
  std::int64_t duration = 0;       ///< what it cost: from the first sending to the one that repeats it, the time waited
  std::uint64_t packets = 1;       ///< how many: sent again, missing, marked
  std::uint64_t bytes = 0;         ///< RDMA payload of these packets, as far as known
  std::uint32_t psn = 0;           ///< first PSN concerned; iWARP: the MSN; TCP: the sequence number
  std::uint64_t value = 0;  ///< what the kind calls for: RNR timer in ns, expected MSN, MTU, restored source port
  std::uint64_t found = 0;  ///< and what was there instead, or happened: time waited in ns, the MSN, bytes
};

}  // namespace rdmawire::tracking
