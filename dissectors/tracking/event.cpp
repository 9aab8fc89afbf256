#include "dissectors/tracking/event.hpp"

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking {
namespace {

using enum EventKind;
using enum Severity;

constexpr Cause retransmission_causes[] = {Cause::sequence_error_nak, Cause::timeout,  Cause::rnr,
                                           Cause::implied_nak,        Cause::spurious, Cause::reordered,
                                           Cause::corrupted,          Cause::unknown};
constexpr Cause tcp_retransmission_causes[] = {Cause::fast_retransmit, Cause::timeout, Cause::spurious, Cause::unknown};
constexpr Cause network_causes[] = {Cause::before_capture, Cause::after_capture};
constexpr Cause out_of_order_causes[] = {
    Cause::after_capture};  // no cause: the packet was reordered before the capture point
constexpr Cause nak_causes[] = {Cause::psn_sequence_error, Cause::invalid_request, Cause::remote_access_error,
                                Cause::remote_operational_error, Cause::invalid_rd_request};
constexpr Cause crc_causes[] = {Cause::source_port,
                                Cause::address,
                                Cause::ip_identification,
                                Cause::payload,
                                Cause::pad,
                                Cause::ttl_not_masked,
                                Cause::traffic_class_not_masked,
                                Cause::checksum_not_masked,
                                Cause::bth_reserved_not_masked,
                                Cause::unknown};
constexpr Cause stall_causes[] = {Cause::nothing_outstanding, Cause::credit, Cause::rnr, Cause::window, Cause::peer};
constexpr Cause closed_causes[] = {Cause::unknown};  // unknown: the DREQ has no response
constexpr Cause cnp_causes[] = {Cause::rate_fell, Cause::rate_unchanged, Cause::unknown};

}  // namespace

constexpr std::array<EventRow, event_kinds> event_rows{{
    {retransmission, "retransmission", warning,
     "go-back-N retransmission: the requester resent packets starting at an earlier PSN", retransmission_causes},
    {lost_in_network, "lost_in_network", warning,
     "packets lost in the network, upstream or downstream of the capture point", network_causes},
    {lost_in_capture,
     "lost_in_capture",
     info,
     "packets missing from the capture but acknowledged by the peer (capture loss)",
     {}},
    {psn_gap, "psn_gap", warning, "missing PSNs; network loss and capture loss cannot be distinguished", {}},
    {out_of_order, "out_of_order", warning, "packet arrived out of order (not a retransmission)", out_of_order_causes},
    {duplicate, "duplicate", warning, "duplicate packet from the network or the capture point", {}},
    {nak, "nak", warning, "NAK: request rejected or PSN sequence error", nak_causes},
    {rnr_nak,
     "rnr_nak",
     warning,
     "receiver not ready: no receive work request was posted; the requester must retry",
     {}},
    {ghost_acknowledgement,
     "ghost_acknowledgement",
     warning,
     "repeated acknowledgement without a request that would cause it",
     {}},
    {unsolicited_response, "unsolicited_response", warning, "a response to a request that was never sent", {}},
    {unanswered, "unanswered", warning, "requests without any response before the end of the capture", {}},
    {msn_jump, "msn_jump", warning, "unexpected MSN: does not match the number of completed messages", {}},
    {crc_bad, "crc_bad", error, "the packet's CRC is wrong", crc_causes},
    {truncated, "truncated", error, "packet shorter than the length fields of its headers indicate", {}},
    {pkey_mismatch, "pkey_mismatch", error, "P_Key differs from the connection's P_Key", {}},
    {qkey_mismatch, "qkey_mismatch", error, "Q_Key of a datagram differs from the destination QP's Q_Key", {}},
    {segmentation,
     "segmentation",
     error,
     "payload length does not match the path MTU or the packet's position in the message",
     {}},
    {opcode_sequence,
     "opcode_sequence",
     error,
     "invalid opcode sequence: a message was not started or not finished",
     {}},
    {read_limit, "read_limit", warning, "more reads and atomics outstanding than were negotiated", {}},
    {ecn_marked, "ecn_marked", info, "ECN mark: a switch on the path set Congestion Experienced (CE)", {}},
    {cnp, "cnp", info, "the receiver notified the sender of congestion", cnp_causes},
    {pause, "pause", info, "IEEE 802.3x/802.1Qbb pause frame received", {}},
    {stall, "stall", info, "no packets of the connection for a long time", stall_causes},
    {opened, "opened", note, "the connection was established", {}},
    {rejected, "rejected", error, "the connection request was rejected", {}},
    {closed, "closed", note, "the connection was closed", closed_causes},
    {replaced, "replaced", note, "the QP was reused for another connection", {}},
    {path_change, "path_change", info, "packets of the connection take another path from this frame on", {}},
    {tcp_retransmission, "tcp_retransmission", warning, "TCP retransmission that delayed the messages in the stream",
     tcp_retransmission_causes},
    {tcp_reset, "tcp_reset", error, "the TCP connection was reset", {}},
    {terminate, "terminate", error, "an endpoint ended the stream with a Terminate message because of an error", {}},
}};

namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < event_rows.size(); ++i)
    if (static_cast<std::size_t>(event_rows[i].kind) != i) return false;
  return true;
}
static_assert(in_order());

constexpr std::array<std::string_view, causes> cause_names{
    "none",
    "unknown",
    "sequence_error_nak",
    "timeout",
    "rnr",
    "implied_nak",
    "spurious",
    "before_capture",
    "after_capture",
    "psn_sequence_error",
    "invalid_request",
    "remote_access_error",
    "remote_operational_error",
    "invalid_rd_request",
    "source_port",
    "address",
    "ip_identification",
    "payload",
    "pad",
    "ttl_not_masked",
    "traffic_class_not_masked",
    "checksum_not_masked",
    "bth_reserved_not_masked",
    "nothing_outstanding",
    "credit",
    "window",
    "peer",
    "rate_fell",
    "rate_unchanged",
    "fast_retransmit",
    "reordered",
    "corrupted",
};
static_assert(!cause_names.back().empty());

}  // namespace

std::string_view to_string(EventKind kind) { return event_rows[static_cast<std::size_t>(kind)].name; }
std::string_view to_string(Cause cause) { return cause_names[static_cast<std::size_t>(cause)]; }

std::string_view to_string(Certainty certainty) {
  switch (certainty) {
    case Certainty::possible: return "possible";
    case Certainty::likely: return "likely";
    case Certainty::certain: return "certain";
  }
  return {};
}

std::string_view to_string(Unobserved unobserved) {
  switch (unobserved) {
    case Unobserved::nothing: return "nothing";
    case Unobserved::send_order: return "send_order";
    case Unobserved::arrival: return "arrival";
    case Unobserved::trigger: return "trigger";
  }
  return {};
}

std::string_view sentence_of(Unobserved unobserved) {
  switch (unobserved) {
    case Unobserved::nothing: return {};
    case Unobserved::send_order:
      return "The order in which the sender sent the packets: its IP identifications do not increase. A capture at the "
             "sender's port would show this order.";
    case Unobserved::arrival:
      return "Whether and when the packets arrived at the receiver. A capture at the receiver's port would show it.";
    case Unobserved::trigger:
      return "The NAK, response or expired timer that caused the retransmission. A capture at the requester's port "
             "would show it.";
  }
  return {};
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case note: return "note";
    case info: return "info";
    case warning: return "warning";
    case error: return "error";
  }
  return {};
}

std::string_view to_string(MessageKind kind) {
  switch (kind) {
    case MessageKind::send: return "send";
    case MessageKind::write: return "write";
    case MessageKind::read: return "read";
    case MessageKind::compare_swap: return "compare_swap";
    case MessageKind::fetch_add: return "fetch_add";
    case MessageKind::flush: return "flush";
    case MessageKind::atomic_write: return "atomic_write";
    case MessageKind::swap: return "swap";
    case MessageKind::terminate: return "terminate";
    case MessageKind::other: return "other";
  }
  return {};
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::completed: return "completed";
    case Outcome::sent: return "sent";
    case Outcome::refused: return "refused";
    case Outcome::unanswered: return "unanswered";
    case Outcome::partial: return "partial";
  }
  return {};
}

std::string_view to_string(Answered answered) {
  switch (answered) {
    case Answered::nothing: return "nothing";
    case Answered::outstanding: return "outstanding";
    case Answered::acknowledged: return "acknowledged";
    case Answered::unseen: return "unseen";
  }
  return {};
}

std::string_view to_string(JoinedBy paired_by) {
  switch (paired_by) {
    case JoinedBy::nothing: return "nothing";
    case JoinedBy::connection_manager: return "connection_manager";
    case JoinedBy::text: return "text";
    case JoinedBy::caller: return "caller";
    case JoinedBy::source_port: return "source_port";
    case JoinedBy::answers: return "answers";
    case JoinedBy::stream: return "stream";
    case JoinedBy::datagram: return "datagram";
  }
  return {};
}

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::none: return "none";
    case Confidence::low: return "low";
    case Confidence::high: return "high";
    case Confidence::certain: return "certain";
  }
  return {};
}

std::string_view to_string(Service service) {
  switch (service) {
    case Service::rc: return "RC";
    case Service::uc: return "UC";
    case Service::ud: return "UD";
    case Service::xrc: return "XRC";
    case Service::rd: return "RD";
    case Service::iwarp: return "iWARP";
    case Service::vendor: return "vendor";
  }
  return {};
}

}  // namespace rdmawire::tracking
