#pragma once
/// Events of connections that matter for troubleshooting, with the frames that show them.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdmawire::tracking {

enum class EventKind : std::uint8_t {
  // Losses and their consequences
  retransmission,
  lost_in_network,
  lost_in_capture,
  psn_gap,
  out_of_order,
  duplicate,
  // Errors and responses of the responder
  nak,
  rnr_nak,
  ghost_acknowledgement,
  unsolicited_response,
  unanswered,
  msn_jump,
  // Damaged packets and protocol violations
  crc_bad,
  truncated,
  pkey_mismatch,
  qkey_mismatch,
  segmentation,
  opcode_sequence,
  read_limit,
  // Congestion and stalls
  ecn_marked,
  cnp,
  pause,
  stall,
  // Connection management
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

/// Reason or location of an event. event_rows lists the possible causes of each kind.
enum class Cause : std::uint8_t {
  none,
  unknown,
  // Causes of a retransmission
  sequence_error_nak,
  timeout,
  rnr,
  implied_nak,
  spurious,
  // Where packets were lost or reordered, relative to the capture point
  before_capture,
  after_capture,
  // Codes of a NAK
  psn_sequence_error,
  invalid_request,
  remote_access_error,
  remote_operational_error,
  invalid_rd_request,
  // Changes in transit, or errors of the sender, that explain a bad CRC
  source_port,
  address,
  ip_identification,
  payload,
  pad,
  ttl_not_masked,
  traffic_class_not_masked,
  checksum_not_masked,
  bth_reserved_not_masked,
  // Missing conditions of a stall
  nothing_outstanding,
  credit,
  window,
  peer,
  // Reactions of the sender to a CNP
  rate_fell,
  rate_unchanged,
  // What caused a TCP retransmission: duplicate or selective acknowledgements
  fast_retransmit,
  // Causes of a retransmission without loss: a packet or response was late or damaged
  reordered,
  corrupted,
};
inline constexpr std::size_t causes = static_cast<std::size_t>(Cause::corrupted) + 1;

/// Returns the name in JSON and CSV, such as "sequence_error_nak".
std::string_view to_string(EventKind kind);
std::string_view to_string(Cause cause);

/// How certain the kind and the cause of an event are.
enum class Certainty : std::uint8_t {
  possible,  ///< one of several explanations of the packets
  likely,    ///< the evidence favors this explanation, but the capture cannot exclude others
  certain,   ///< the packets show it
};
std::string_view to_string(Certainty certainty);

/// A fact that the capture does not show, and that would make the cause certain.
enum class Unobserved : std::uint8_t {
  nothing,
  send_order,  ///< order in which the sender sent the packets, unknown because its IP identifications do not increase
  arrival,     ///< whether and when the packet arrived, unknown because the capture point is upstream of the receiver
  trigger,     ///< the NAK, response or expired timer that caused a retransmission
};
inline constexpr std::size_t unobserved_values = static_cast<std::size_t>(Unobserved::trigger) + 1;
std::string_view to_string(Unobserved unobserved);
/// Returns one sentence: the fact that was not observed, and the measurement that would show it. Empty for `nothing`.
std::string_view sentence_of(Unobserved unobserved);

/// Severity of a kind of event.
enum class Severity : std::uint8_t {
  note,     ///< part of normal operation, such as an established connection
  info,     ///< useful information, not a fault, such as ECN marks
  warning,  ///< costs time or bandwidth
  error,    ///< a failure or corrupted data
};
std::string_view to_string(Severity severity);

/// Description of a kind of event, which all output formats use.
struct EventRow {
  EventKind kind;
  std::string_view name;
  Severity severity;
  std::string_view meaning;  ///< one sentence
  std::span<const Cause> causes;
};
/// Rows by EventKind.
extern const std::array<EventRow, event_kinds> event_rows;

/// An endpoint of a connection. The value is an index of Connection::ends.
enum class Side : std::uint8_t { a = 0, b = 1 };
constexpr Side other(Side end) { return end == Side::a ? Side::b : Side::a; }

/// An event. Frames are numbered from 1 as in the capture (0: none). Times are nanoseconds since 1970, and durations
/// are in nanoseconds.
struct Event {
  EventKind kind = EventKind::retransmission;
  Cause cause = Cause::none;
  /// The affected endpoint. It is the requester of the packets, or the requester that receives unsolicited packets of a
  /// responder. For events of a single packet (CRC, ECN, truncated), it is the sender.
  Side end = Side::a;
  Certainty certainty = Certainty::certain;
  Unobserved unobserved = Unobserved::nothing;
  std::uint64_t connection = 0;  ///< Connection::id (0: pause frames, bad packets of unknown flows)
  std::uint64_t frame = 0;       ///< first frame of the event
  std::uint64_t last_frame =
      0;  ///< last frame of the event, such as of a retransmission burst or a stall (otherwise equal to `frame`)
  std::uint64_t origin_frame =
      0;  ///< frame of a related earlier packet: the retransmitted or acknowledged packet, or the packet before a gap
  std::uint64_t cause_frame = 0;  ///< frame of the NAK, RNR NAK or response (implied NAK) that caused the event
  std::int64_t time = 0;          ///< time of `frame`
  std::int64_t duration =
      0;  ///< lost time: from the first transmission to the retransmission, or the time spent waiting
  std::uint64_t packets = 1;  ///< number of retransmitted, missing or marked packets
  std::uint64_t bytes = 0;    ///< bytes of RDMA payload in these packets, as far as known
  std::uint32_t psn = 0;      ///< first affected PSN (iWARP: the MSN, TCP: the sequence number)
  std::uint64_t value = 0;  ///< expected or reference value, depending on the kind: RNR timer in ns, expected MSN, MTU,
                            ///< original source port
  std::uint64_t found = 0;  ///< observed value, depending on the kind: time spent waiting in ns, MSN, bytes
};

}  // namespace rdmawire::tracking
