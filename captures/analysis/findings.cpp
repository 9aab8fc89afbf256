#include "captures/analysis/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "dissectors/output/value.hpp"

namespace rdmawire::captures::analysis {
namespace {

using enum EventKind;

/// Texts of a finding, by kind and cause. A row with Cause::none applies to all causes of the kind that have no row of
/// their own.
struct Advice {
  EventKind kind;
  Cause cause;
  std::string_view one, many;  ///< name of the counted events in singular and plural
  std::string_view meaning;
  std::string_view next;
};

constexpr Advice advices[] = {
    {retransmission, Cause::sequence_error_nak, "NAK recovery", "NAK recoveries",
     "Packets were lost on the way to the responder, which sent sequence-error NAKs. The requester went back to the "
     "missing PSN and retransmitted (go-back-N).",
     "The loss is in the network, not in the capture. Check drop counters and buffers of the switches on the path, and "
     "whether this traffic class is lossless. Host counters: out_of_sequence (responder), packet_seq_err (requester)."},
    {retransmission, Cause::timeout, "timeout retransmission", "timeout retransmissions",
     "The requester retransmitted because its ACK timer expired. The last packets of a message or their "
     "acknowledgement were lost or late, and no later packet revealed the gap.",
     "Compare the wait with the QP's timeout (4.096 µs times 2^timeout): a shorter timeout recovers sooner. Check both "
     "directions of the path for loss. Requester counter: local_ack_timeout_err."},
    {retransmission, Cause::rnr, "RNR retransmission", "RNR retransmissions",
     "The receiver had no receive work request posted when a message arrived (RNR NAK). The sender retransmitted after "
     "the requested wait.",
     "The receiving application posts receives too late or too few. Use a deeper receive queue or SRQ, or flow control "
     "in the application. Counters: out_of_buffer (responder), and rnr_nak_retry_err (requester) after the last "
     "retry."},
    {retransmission, Cause::implied_nak, "implied-NAK retransmission", "implied-NAK retransmissions",
     "A response skipped the PSNs of earlier responses. READ or atomic responses were lost on the way back, so the "
     "requester retried the requests.",
     "Check the path from the responder to the requester for loss. Requester counter: implied_nak_seq_err."},
    {retransmission, Cause::spurious, "spurious retransmission", "spurious retransmissions",
     "The packets had already been received and the ACK was in flight. The ACK timeout is too short for this path, or "
     "the ACK was delayed.",
     "Compare the acknowledgement latency below with the QP's timeout. Check the path of the acknowledgements for "
     "congestion and pauses. Responder counter: duplicate_request."},
    {retransmission, Cause::reordered, "recovery after reordering", "recoveries after reordering",
     "Later packets overtook a packet, and no packet was lost. The responder dropped the packets that arrived early "
     "and sent sequence-error NAKs, so the requester retransmitted (go-back-N).",
     "Check for packet spraying, adaptive routing, per-packet link aggregation or a path change. Use these only with "
     "devices in out-of-order mode. Host counters: out_of_sequence (responder), packet_seq_err (requester)."},
    {retransmission, Cause::corrupted, "recovery after damage", "recoveries after damage",
     "The receiver dropped packets that were damaged on the path, so the requester retransmitted. The damaged packets "
     "are in the capture, with a bad ICRC.",
     "See the packets with a bad ICRC below. Check FCS and symbol errors of the links between the sender and the "
     "capture point. Receiver counter: rx_icrc_encapsulated."},
    {retransmission, Cause::none, "recovery", "recoveries",
     "The requester retransmitted (go-back-N). The cause is not visible in this capture.",
     "Capture both directions close to the requester. Compare packet_seq_err, local_ack_timeout_err and "
     "implied_nak_seq_err of the requester."},
    {lost_in_network, Cause::before_capture, "loss upstream of the capture point",
     "losses upstream of the capture point",
     "Packets from the sender are missing at the capture point and at the receiver.",
     "Check the path from the sender to the capture point: port, cable and first switch (discards, symbol and FCS "
     "errors)."},
    {lost_in_network, Cause::after_capture, "loss downstream of the capture point",
     "losses downstream of the capture point", "Packets passed the capture point and did not reach the receiver.",
     "Check the path from the capture point to the receiver: drops of the last switches, and rx_discards_phy or "
     "rx_prio*_discards of the receiver."},
    {lost_in_network, Cause::none, "loss in the network", "losses in the network",
     "Packets were lost between sender and receiver.", "Check the drop counters of the switches on the path."},
    {lost_in_capture, Cause::none, "gap in the capture", "gaps in the capture",
     "The peer acknowledged packets that are missing from the capture. The capture lost them, and the network "
     "delivered them.",
     "Use a larger capture buffer or a shorter snap length. Byte counts and latencies of this capture are unreliable."},
    {psn_gap, Cause::none, "gap in the PSNs", "gaps in the PSNs",
     "PSNs are missing. Network loss and capture loss cannot be distinguished.",
     "Check whether the capturing tool reports drops. Capture the other direction too: its NAKs and acknowledgements "
     "show the difference."},
    {out_of_order, Cause::after_capture, "packet reordered downstream of the capture point",
     "packets reordered downstream of the capture point",
     "A NAK requested the packet, and a later response shows that the packet arrived before its retransmission. Later "
     "packets overtook it after the capture point.",
     "Check the path from the capture point to the receiver for packet spraying, adaptive routing, per-packet link "
     "aggregation or a path change. Responder counter: out_of_sequence."},
    {out_of_order, Cause::none, "out-of-order packet", "out-of-order packets",
     "Packets arrived out of order. A responder without out-of-order support treats this as loss and sends NAKs.",
     "Check for packet spraying, adaptive routing, per-packet link aggregation or a path change. Check the device's "
     "out-of-order mode. Responder counter: out_of_sequence."},
    {duplicate, Cause::none, "duplicate packet", "duplicate packets",
     "The same packet was captured twice. Either the network duplicates packets, or the capture contains them twice: a "
     "mirror port that copies both directions, or a capture on several interfaces of one host.",
     "If the receiver counts duplicate_request or repeats acknowledgements, the network duplicates packets. Otherwise "
     "mirror only one direction of the port, or capture on one interface."},
    {nak, Cause::psn_sequence_error, "sequence-error NAK", "sequence-error NAKs",
     "The responder reported missing packets. The retransmission is not in the capture.",
     "Check the path to the responder for loss. Counters: out_of_sequence (responder), packet_seq_err (requester)."},
    {nak, Cause::invalid_request, "request rejected as invalid", "requests rejected as invalid",
     "The responder does not accept this operation, length or packet sequence. The QP enters the Error state.",
     "Compare the settings of both endpoints. Is the operation enabled (qp_access_flags)? Is the message longer than "
     "the receive buffer? Are more READs outstanding than max_dest_rd_atomic allows? Requester counter: "
     "req_remote_invalid_request."},
    {nak, Cause::remote_access_error, "request rejected: remote access error",
     "requests rejected: remote access errors",
     "The remote key, the address range or the access right does not match the responder's memory region. The QP "
     "enters the Error state.",
     "Compare address and key with the regions below. Was the region deregistered, the key invalidated or exchanged "
     "incorrectly, or the right not granted? Requester counter: req_remote_access_errors."},
    {nak, Cause::remote_operational_error, "request failed at the responder", "requests failed at the responder",
     "The responder could not complete the request due to an internal error. The QP enters the Error state.",
     "Check the responder's log, memory and asynchronous events. Requester counters: resp_cqe_error, req_cqe_error."},
    {nak, Cause::none, "request rejected", "requests rejected", "The responder rejected a request.",
     "Check the responder's log and asynchronous events."},
    {rnr_nak, Cause::none, "RNR NAK", "RNR NAKs",
     "The receiver had no receive work request posted and requested a wait.",
     "The receiving application posts receives too late or too few. Counters: out_of_buffer (responder), and "
     "rnr_nak_retry_err (requester) after the last retry."},
    {ghost_acknowledgement, Cause::none, "repeated acknowledgement", "repeated acknowledgements",
     "Acknowledgements were repeated without a request that would cause them. The responder received duplicates that "
     "are not in this capture, the network duplicated the acknowledgements, or the responder repeats them.",
     "Check whether the responder counts duplicate_request. Capture at the responder's port."},
    {unsolicited_response, Cause::none, "response without request", "responses without request",
     "Responses have no request in the capture. The capture lacks the requests, or the responder uses a stale QP.",
     "Check that both directions are captured. A QP number that is reused too early has the same effect."},
    {unanswered, Cause::none, "request without any response", "requests without any response",
     "The capture ends without a response to these requests. The peer ignores them, or its responses take a different "
     "path.",
     "Does the peer's QP exist and is it in RTR? Do both endpoints have the same RoCE version, GID index, MTU and "
     "VLAN? Does a firewall drop UDP port 4791? The requester ends with retry exceeded "
     "(req_transport_retries_exceeded)."},
    {msn_jump, Cause::none, "unexpected MSN", "unexpected MSNs",
     "The responder's MSN does not match the number of completed messages.",
     "Packets may be missing from the capture. Otherwise report these frames to the vendor of the responder's "
     "firmware."},
    {crc_bad, Cause::source_port, "packet with a bad ICRC: source port changed",
     "packets with a bad ICRC: source port changed",
     "The ICRC is valid for a different UDP source port. A device on the path rewrote the port, or the capture was "
     "anonymized.",
     "Check for address translation, load balancers and tools that edited this capture. Receivers drop such packets "
     "and count rx_icrc_encapsulated."},
    {crc_bad, Cause::address, "packet with a bad ICRC: address changed", "packets with a bad ICRC: address changed",
     "The ICRC is valid for different IP addresses: NAT on the path, or an edited capture.",
     "RoCE cannot pass NAT. Check for NAT and for tools that edited this capture. Receiver counter: "
     "rx_icrc_encapsulated."},
    {crc_bad, Cause::ip_identification, "packet with a bad ICRC: IP identification changed",
     "packets with a bad ICRC: IP identification changed",
     "The ICRC is valid for a different IP identification, which was rewritten on the path or after capturing.",
     "Check for devices or drivers that renumber packets. Receiver counter: rx_icrc_encapsulated."},
    {crc_bad, Cause::payload, "packet with a bad ICRC: payload damaged", "packets with a bad ICRC: payload damaged",
     "The headers are intact and the payload is damaged. The damage occurred inside a device that then computed a "
     "valid frame checksum.",
     "Check for a switch or NIC with failing memory on the common path of the damaged packets. Receiver counter: "
     "rx_icrc_encapsulated."},
    {crc_bad, Cause::pad, "packet with a bad ICRC: pad bytes", "packets with a bad ICRC: pad bytes",
     "The ICRC is valid for different pad bytes. The sender computes it over a pad that it does not send.",
     "This is an error in the sender's firmware. Report these frames to its vendor."},
    {crc_bad, Cause::ttl_not_masked, "packet with a bad ICRC: TTL not masked",
     "packets with a bad ICRC: TTL not masked",
     "The sender includes the TTL in the ICRC. Routers change the TTL, so the ICRC is valid only on the first link.",
     "This is an error of the sender. Report it to the vendor. It affects only routed packets."},
    {crc_bad, Cause::traffic_class_not_masked, "packet with a bad ICRC: traffic class not masked",
     "packets with a bad ICRC: traffic class not masked",
     "The sender includes DSCP and ECN in the ICRC. Switches change these fields.",
     "This is an error of the sender. Report it to the vendor. It affects only packets that a switch ECN-marks or "
     "re-marks."},
    {crc_bad, Cause::checksum_not_masked, "packet with a bad ICRC: checksum not masked",
     "packets with a bad ICRC: checksum not masked",
     "The sender includes an IP or UDP checksum in the ICRC. The ICRC is calculated with ones instead of checksums.",
     "This is an error of the sender. Report it to the vendor."},
    {crc_bad, Cause::bth_reserved_not_masked, "packet with a bad ICRC: BTH's reserved byte not masked",
     "packets with a bad ICRC: BTH's reserved byte not masked",
     "The sender includes byte 4 of the BTH (FECN, BECN, reserved) in the ICRC. The ICRC is calculated with ones "
     "instead.",
     "This is an error of the sender. Report it to the vendor."},
    {crc_bad, Cause::none, "packet with a bad CRC", "packets with a bad CRC",
     "The packet was damaged or changed on the path. No single change explains the CRC. Receivers drop such packets.",
     "Check FCS and symbol errors of the links on the path. Receiver counter: rx_icrc_encapsulated."},
    {truncated, Cause::none, "packet shorter than the length fields of its headers indicate",
     "packets shorter than the length fields of their headers indicate",
     "The packet is shorter than the length fields of its headers indicate. Its sender or a device on the path "
     "truncated it.",
     "Check the snap length of the capturing tool, and then for a device with a smaller MTU."},
    {pkey_mismatch, Cause::none, "packet with a different P_Key", "packets with a different P_Key",
     "The P_Key differs from the connection's P_Key. The receiver drops the packet.",
     "Compare the P_Key tables of both ports. The receiver counts a P_Key violation."},
    {qkey_mismatch, Cause::none, "datagram with a different Q_Key", "datagrams with a different Q_Key",
     "The Q_Key differs from the Q_Key of the destination QP. The receiver drops the datagram silently.",
     "Compare the Q_Key that both endpoints exchanged. The receiver's port counts a Q_Key violation."},
    {segmentation, Cause::none, "packet that does not fit the path MTU", "packets that do not fit the path MTU",
     "A payload exceeds the path MTU, or a First or Middle packet is shorter than the path MTU. The endpoints use "
     "different MTUs.",
     "Compare path_mtu of both QPs and the Ethernet MTU of ports and switches. With different MTUs, small messages "
     "pass and large messages stall."},
    {opcode_sequence, Cause::none, "packet with an invalid opcode sequence", "packets with an invalid opcode sequence",
     "The opcode does not follow the preceding opcode: a message is incomplete.",
     "Check whether the capture lost packets at this point. Otherwise the sender's firmware is the cause."},
    {read_limit, Cause::none, "READ or atomic above the negotiated limit",
     "READs or atomics above the negotiated limit",
     "More READs and atomics were outstanding than the responder granted (responder resources).",
     "Compare max_rd_atomic of the requester with max_dest_rd_atomic of the responder. The responder may send "
     "invalid-request NAKs."},
    {ecn_marked, Cause::none, "congestion signal", "congestion signals",
     "Switches ECN-marked packets, and receivers notified the senders (CNP). The network is congested and congestion "
     "control is active.",
     "Check whether the senders' rates fell afterwards (congestion below), and which receiver is the hot spot (incast, "
     "talkers). Host counters: np_ecn_marked_roce_packets, np_cnp_sent, rp_cnp_handled."},
    {pause, Cause::none, "pause frame", "pause frames",
     "A port requested its neighbor to stop sending. Flow control is active, or a slow receiver blocks the network.",
     "Check which port sends pause frames, and for how long. A receiver that pauses for long spreads congestion "
     "(ethtool -S: tx_pause_ctrl_phy, rx_prio3_pause, rx_prio3_pause_duration). Check for a slow host or PCIe "
     "bottleneck."},
    {stall, Cause::credit, "credit stall", "credit stalls",
     "The sender used all credits of the receiver's acknowledgements. The receiver posts receives too slowly.",
     "Check the receiving application. The network is not the cause."},
    {stall, Cause::rnr, "RNR wait", "RNR waits", "The sender waited as requested by RNR NAKs.",
     "The receiving application posts receives too late or too few."},
    {stall, Cause::window, "stall with a full window", "stalls with a full window",
     "The sender reached its maximum of outstanding packets and waited for acknowledgements. The round-trip time "
     "limits its rate, or the responder was slow.",
     "Compare the acknowledgement latency with other connections. More outstanding work requests would hide it."},
    {stall, Cause::peer, "stall of the peer", "stalls of the peer",
     "Requests were outstanding, and the responder was silent for long before it responded.",
     "Check the responder: host memory, PCIe, page faults (on-demand paging), power saving. Check the return path for "
     "pauses."},
    {stall, Cause::none, "long silence", "long silences", "The connection was silent for long with outstanding work.",
     "Check which endpoint sent the last packet before the silence."},
    {rejected, Cause::none, "rejected connection", "rejected connections",
     "The connection manager rejected a connection request.",
     "The frame contains the reject reason (rdmawire dissect -V --frame N). Is the service listening on this port and "
     "address? Do both endpoints request compatible parameters?"},
    {path_change, Cause::none, "path change", "path changes",
     "The packets of a connection began to arrive by a different path: link addresses, TTL or source port "
     "changed. A route or a bond failed over.",
     "Compare with the events of switches and bonds at that time."},
    {tcp_retransmission, Cause::none, "TCP retransmission", "TCP retransmissions",
     "TCP below iWARP retransmitted bytes. Packets were lost or late on the path.",
     "Check the path for drops, as for any TCP connection. Lost TCP segments also delay iWARP messages."},
    {tcp_reset, Cause::none, "TCP reset", "TCP resets",
     "The TCP connection below iWARP was reset. The peer does not know the connection, or aborted it.",
     "Check which endpoint sent the reset, and whether a Terminate message preceded it."},
    {terminate, Cause::none, "Terminate message", "Terminate messages",
     "An endpoint detected an error and terminated the iWARP stream. The message contains the layer and the error "
     "code.",
     "rdmawire dissect -V --frame N shows layer, type, code and the quoted header."},
};

/// Texts for iWARP that replace those in `advices`.
constexpr Advice iwarp_advices[] = {
    {unsolicited_response, Cause::none, "response without request", "responses without request",
     "Read Responses have no Read Request in the capture, or specify a different data sink.",
     "Check that both directions are captured, and that STag and tagged offset of the response match the request "
     "(rdmawire dissect -V --frame N)."},
    {unanswered, Cause::none, "request without any response", "requests without any response",
     "The capture ends without a response to these Read Requests. The peer ignores them, its responses take a "
     "different path, or the responses do not match.",
     "Check whether TCP acknowledged the request and whether a Terminate message follows. If there is a response, "
     "compare its STag and tagged offset with the request."},
    {msn_jump, Cause::none, "unexpected MSN", "unexpected MSNs",
     "The MSNs of the untagged messages of a queue must be consecutive from 1 (RFC 5041, 5.3). A strict "
     "receiver terminates the stream.",
     "Packets may be missing from the capture. Otherwise report these frames to the vendor of the sender's iWARP "
     "implementation."},
    {out_of_order, Cause::none, "out-of-order packet", "out-of-order packets",
     "TCP segments arrived out of order. TCP tolerates this, or treats it as loss.",
     "Check for packet spraying, adaptive routing, per-packet link aggregation or a path change."},
    {psn_gap, Cause::none, "gap in the stream", "gaps in the stream",
     "Bytes of the TCP stream are missing. Network loss and capture loss cannot be distinguished.",
     "Check whether the capturing tool reports drops. Capture the other direction too."},
    {duplicate, Cause::none, "duplicate packet", "duplicate packets",
     "The same TCP segment was captured twice within a short time. Usual causes are a mirror port that copies both "
     "directions, and a capture on several interfaces of one host.",
     "Mirror only one direction of the port, capture on one interface, or remove duplicates."},
    {segmentation, Cause::none, "segment that does not fit its message", "segments that do not fit their message",
     "The DDP segments of a message are not contiguous, or their total length differs from the requested length.",
     "Check whether the capture lacks packets at this point. Otherwise the sender's iWARP implementation is the "
     "cause."},
    {rejected, Cause::none, "rejected connection", "rejected connections", "The MPA Reply rejected the connection.",
     "Is the service listening on this port and address? Do both endpoints request compatible parameters (markers, "
     "CRC, enhanced connection setup)? The private data of the reply may contain the reason: rdmawire dissect -V "
     "--frame N."},
};

const Advice* advice_of(EventKind kind, Cause cause, bool iwarp) {
  if (iwarp)
    for (const Advice& advice : iwarp_advices)
      if (advice.kind == kind) return &advice;
  const Advice* general = nullptr;
  for (const Advice& advice : advices) {
    if (advice.kind != kind) continue;
    if (advice.cause == cause) return &advice;
    if (advice.cause == Cause::none) general = &advice;
  }
  return general;
}

Severity severity_of(EventKind kind, Cause cause) {
  // A rejected request fails, but missing packets are retransmitted.
  if (kind == nak && cause != Cause::psn_sequence_error) return Severity::error;
  return tracking::event_rows[static_cast<std::size_t>(kind)].severity;
}

/// Events of one connection that have the same kind and cause, with related events.
struct Case {
  std::uint64_t connection = 0;
  const ConnectionEvents* affected = nullptr;
  Group group;
  std::vector<Evidence> evidence;
};

/// Returns causes of retransmissions. If a connection has such a retransmission, its finding includes the events of
/// this kind. If there are none, the events form their own finding.
std::vector<Cause> explained_by(EventKind kind, Cause cause) {
  switch (kind) {
    case nak:
      if (cause != Cause::psn_sequence_error) return {};
      return {Cause::sequence_error_nak, Cause::reordered, Cause::corrupted,
              Cause::implied_nak,        Cause::timeout,   Cause::unknown};
    case out_of_order: return {Cause::reordered};
    case rnr_nak: return {Cause::rnr};
    case lost_in_network:
    case psn_gap: return {Cause::sequence_error_nak, Cause::implied_nak, Cause::timeout};
    case stall:
      return cause == Cause::rnr ? std::vector{Cause::rnr} : std::vector{Cause::timeout, Cause::sequence_error_nak};
    case ghost_acknowledgement: return {Cause::spurious};
    default: return {};
  }
}

std::vector<Case> cases_of(std::uint64_t connection, const ConnectionEvents& affected) {
  std::vector<Case> cases;
  // Combine ECN marks and CNPs into one finding.
  Group congestion;
  congestion.kind = ecn_marked;
  std::vector<Evidence> congestion_evidence;
  std::vector<Group> groups = affected.groups;
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tie(a.kind, a.cause, a.end) < std::tie(b.kind, b.cause, b.end);
  });
  for (const Group& group : groups) {
    if (group.kind == ecn_marked || group.kind == cnp) {
      if (congestion.count == 0) congestion.end = group.end;
      congestion.merge(group);
      congestion_evidence.push_back({to_string(group.kind), to_string(group.cause), group.count, group.packets});
    } else if (group.kind == retransmission || group.kind == tcp_retransmission) {
      cases.push_back({connection, &affected, group, {}});
    }
  }
  const std::size_t recoveries = cases.size();
  for (const Group& group : groups) {
    if (group.kind == ecn_marked || group.kind == cnp || group.kind == retransmission ||
        group.kind == tcp_retransmission)
      continue;
    Case* part_of = nullptr;
    for (const Cause cause : explained_by(group.kind, group.cause)) {
      for (std::size_t i = 0; i < recoveries && !part_of; ++i)
        if ((cases[i].group.cause == cause || cases[i].group.kind == tcp_retransmission) &&
            cases[i].group.end == group.end)
          part_of = &cases[i];
      if (part_of) break;
    }
    if (part_of)
      part_of->evidence.push_back({to_string(group.kind), to_string(group.cause), group.count, group.packets});
    else
      cases.push_back({connection, &affected, group, {}});
  }
  if (congestion.count) cases.push_back({connection, &affected, congestion, congestion_evidence});
  return cases;
}

std::string title_of(const Finding& finding, const Advice& advice) {
  const bool copies = finding.kind == to_string(duplicate);  // one event of this kind covers several packets
  std::string title = counted(copies ? finding.packets : finding.count, advice.one, advice.many);
  if (copies) return title;
  if (finding.kind == to_string(retransmission)) {
    title += fmt::format(": {}", counted(finding.packets, "packet", "packets"));
    if (finding.share >= 0.1)
      title += fmt::format(" ({:.0f} %)", finding.share * 100);
    else if (finding.share >= 0)
      title += fmt::format(" ({:.2g} %)", finding.share * 100);
  } else if (finding.packets > finding.count) {
    title += fmt::format(", {}", counted(finding.packets, "packet", "packets"));
  }
  if (finding.cost_ns > 0)
    title += fmt::format(", {} {}", duration_text(finding.cost_ns),
                         finding.kind == to_string(out_of_order) ? "late" : "stalled");
  return title;
}

void take_group(Finding& finding, const Group& group) {
  finding.count = group.count;
  finding.packets = group.packets;
  finding.bytes = group.bytes;
  finding.cost_ns = group.cost_ns;
  finding.first_frame = group.first_frame == UINT64_MAX ? 0 : group.first_frame;
  finding.last_frame = group.last_frame;
  finding.first_time = group.first_time == INT64_MAX ? 0 : group.first_time;
  finding.last_time = group.last_time == INT64_MIN ? 0 : group.last_time;
  finding.frames.assign(group.frames.begin(), group.frames.begin() + group.frame_count);
  finding.by_certainty = group.by_certainty;
  for (std::size_t i = 1; i < group.by_unobserved.size(); ++i)
    if (group.by_unobserved[i] != 0) finding.unobserved.push_back(static_cast<tracking::Unobserved>(i));
  std::stable_sort(finding.unobserved.begin(), finding.unobserved.end(), [&](auto a, auto b) {
    return group.by_unobserved[static_cast<std::size_t>(a)] > group.by_unobserved[static_cast<std::size_t>(b)];
  });
}

/// Adds remarks about totals of the capture.
void remark(Finding& finding, const Analysis& analysis) {
  if (finding.kind == to_string(crc_bad) && analysis.crcs_bad == analysis.crcs_checked && finding.count > 1)
    finding.meaning +=
        " All verifiable CRCs are bad, so the cause is the capturing tool, an edited capture or the sender, rather "
        "than the network.";
}

/// Returns the number of packets that the sender of the lost packets sent. The sender is the responder for an implied
/// NAK, otherwise the requester.
std::uint64_t sent_by_sender(const Case& of) {
  const Side sender = of.group.cause == Cause::implied_nak ? tracking::other(of.group.end) : of.group.end;
  return of.affected->packets[static_cast<std::size_t>(sender)];
}

Finding finding_of(const Case& of, const Advice& advice, const Analysis& analysis) {
  Finding finding;
  finding.kind = to_string(of.group.kind);
  finding.cause = to_string(of.group.cause);
  finding.severity = severity_of(of.group.kind, of.group.cause);
  finding.connection = of.connection;
  finding.end = of.group.end;
  take_group(finding, of.group);
  const std::uint64_t sent = sent_by_sender(of);
  if (of.group.kind == retransmission && sent)
    finding.share = std::min(1.0, static_cast<double>(finding.packets) / static_cast<double>(sent));
  finding.flow =
      of.connection ? flow_name(of.affected->ends, of.affected->service, of.group.end) : "no known connection";
  finding.evidence = of.evidence;
  finding.meaning = advice.meaning;
  finding.next = advice.next;
  finding.title = title_of(finding, advice);
  remark(finding, analysis);
  return finding;
}

bool before(const Finding& a, const Finding& b) {
  const auto key = [](const Finding& f) { return std::tie(f.severity, f.cost_ns, f.bytes, f.packets, f.count); };
  const auto tie = [](const Finding& f) { return std::tie(f.first_frame, f.connection, f.kind, f.cause, f.end); };
  if (key(a) != key(b)) return key(a) > key(b);
  return tie(a) < tie(b);
}

bool costlier(const Case& a, const Case& b) {
  const auto key = [](const Case& c) { return std::tie(c.group.cost_ns, c.group.packets, c.group.count); };
  if (key(a) != key(b)) return key(a) > key(b);
  return std::tie(a.connection, a.group.end) < std::tie(b.connection, b.group.end);
}

Finding collective_finding(std::vector<Case>& cases, const Advice& advice, const Analysis& analysis) {
  std::sort(cases.begin(), cases.end(), costlier);
  Group all;
  std::uint64_t sent = 0;
  std::map<std::pair<std::string_view, std::string_view>, Evidence> evidence;
  std::vector<std::uint64_t> connections;
  for (const Case& one : cases) {
    all.merge(one.group);
    sent += sent_by_sender(one);
    connections.push_back(one.connection);
    for (const Evidence& part : one.evidence) {
      Evidence& sum =
          evidence.try_emplace({part.kind, part.cause}, Evidence{part.kind, part.cause, 0, 0}).first->second;
      sum.count += part.count;
      sum.packets += part.packets;
    }
  }
  std::sort(connections.begin(), connections.end());
  connections.erase(std::unique(connections.begin(), connections.end()), connections.end());
  Finding finding;
  finding.kind = to_string(cases.front().group.kind);
  finding.cause = to_string(cases.front().group.cause);
  finding.severity = severity_of(cases.front().group.kind, cases.front().group.cause);
  finding.connections = connections.size();
  take_group(finding, all);
  if (cases.front().group.kind == retransmission && sent)
    finding.share = std::min(1.0, static_cast<double>(finding.packets) / static_cast<double>(sent));
  finding.flow = counted(finding.connections, "connection", "connections");
  for (const auto& [key, sum] : evidence) finding.evidence.push_back(sum);
  for (std::size_t i = 0; i < std::min<std::size_t>(5, cases.size()); ++i)
    finding.worst.push_back({cases[i].connection,
                             cases[i].connection
                                 ? flow_name(cases[i].affected->ends, cases[i].affected->service, cases[i].group.end)
                                 : "no known connection",
                             cases[i].group.count, cases[i].group.cost_ns});
  finding.meaning = advice.meaning;
  finding.next = advice.next;
  finding.title = title_of(finding, advice);
  remark(finding, analysis);
  return finding;
}

Finding of_capture(Severity severity, std::string_view kind, std::uint64_t count, std::uint64_t first_frame,
                   std::string title, std::string meaning, std::string next) {
  Finding finding;
  finding.severity = severity;
  finding.kind = kind;
  finding.cause = "none";
  finding.connections = 0;
  finding.flow = "the capture";
  finding.count = count;
  finding.first_frame = finding.last_frame = first_frame == UINT64_MAX ? 0 : first_frame;
  if (finding.first_frame) finding.frames = {finding.first_frame};
  finding.title = std::move(title);
  finding.meaning = std::move(meaning);
  finding.next = std::move(next);
  return finding;
}

/// Returns whether most packets were captured twice. Neither networks nor senders duplicate most packets within such a
/// short time.
bool captured_twice(const Analysis& analysis) {
  constexpr std::uint64_t fewest = 10;
  return analysis.duplicates >= fewest &&
         analysis.duplicates >= (analysis.duplicable - std::min(analysis.duplicates, analysis.duplicable)) / 4 * 3;
}

/// Returns one finding for the whole capture, which replaces the findings about duplicates of single connections.
Finding captured_twice_finding(const Analysis& analysis, std::vector<Case>& copies) {
  Group all;
  for (const Case& one : copies) all.merge(one.group);
  Finding finding = of_capture(
      Severity::warning, "captured_twice", all.count, all.first_frame,
      fmt::format("most packets are captured twice: {} duplicates, {} packets", analysis.duplicates,
                  analysis.duplicable),
      "The same packets were captured at two places: on two interfaces of a host or bridge (device any), or at a "
      "mirror port that copies both directions. Packet and byte counts are too high. Retransmissions, out-of-order "
      "packets and datagrams below may be duplicates.",
      "Capture on one interface, mirror only one direction, or remove the duplicates first (editcap -w 0.001 IN OUT).");
  take_group(finding, all);
  return finding;
}

void add_capture_wide(std::vector<Finding>& findings, const Analysis& analysis, const InputFacts& input) {
  if (input.lost_by_capture)
    findings.push_back(
        of_capture(Severity::info, "capture_lost", input.lost_by_capture, 0,
                   fmt::format("capture loss: the capture reports {} dropped",
                               counted(input.lost_by_capture, "packet", "packets")),
                   "The capture lost packets, so gaps are not necessarily network loss.",
                   "Use a larger capture buffer (dumpcap -B, rdmawire capture --buffer) or a shorter snap length."));
  if (analysis.one_way.connections) {
    const bool all = analysis.two_way.connections == 0;
    const bool both_versions = analysis.wires[static_cast<std::size_t>(Wire::roce_v1)] &&
                               analysis.wires[static_cast<std::size_t>(Wire::roce_v2)];
    std::string meaning =
        all ? "No connection has both directions in the capture. The capture contains one direction only (a mirror of "
              "one direction), or the peers do not respond."
            : "Some connections have only one direction in the capture, others have both. The peer does not respond, "
              "or its responses take a different path.";
    if (both_versions)
      meaning += " The capture contains both RoCEv1 and RoCEv2: check for endpoints with different GID indexes.";
    findings.push_back(of_capture(
        all ? Severity::info : Severity::warning, "one_way", analysis.one_way.connections, analysis.one_way.first_frame,
        fmt::format("{} with packets in one direction only",
                    counted(analysis.one_way.connections, "connection", "connections")),
        meaning,
        all ? "Capture both directions. If this port should carry both, compare GID index, RoCE version and routes of "
              "the two endpoints."
            : "Compare GID index and RoCE version of the two endpoints (show_gids), the return path, and firewalls for "
              "UDP port 4791."));
  }
  if (analysis.partial_messages)
    findings.push_back(
        of_capture(Severity::info, "incomplete_messages", analysis.partial_messages, analysis.first_partial,
                   fmt::format("{} truncated by the start of the capture or by gaps",
                               counted(analysis.partial_messages, "message", "messages")),
                   "The capture starts, or has a gap, within messages. Their size and start are unknown.",
                   "This is not a network problem. Start the capture before the traffic if complete messages matter."));
  if (analysis.other_class.connections)
    findings.push_back(of_capture(
        Severity::info, "traffic_class", analysis.other_class.connections, analysis.other_class.first_frame,
        fmt::format("{} with different traffic classes for requests and responses",
                    counted(analysis.other_class.connections, "connection", "connections")),
        "Requests and responses have different DSCP values. One class may be lossy or congested.",
        "Compare the traffic class of both endpoints (tos of RDMA-CM, cma_roce_tos, traffic_class of the QP) with the "
        "switches' mapping. Some devices intentionally use a separate class for acknowledgements."));
  const std::uint64_t evicted = analysis.evicted_connections + analysis.evicted_mrc_flows;
  if (evicted || analysis.overflow())
    findings.push_back(of_capture(
        Severity::info, "inexact", evicted + analysis.overflow(), 0,
        fmt::format("limits were reached: {} evicted, {} not counted", counted(evicted, "connection", "connections"),
                    counted(analysis.overflow(), "table entry", "table entries")),
        "The capture has more connections or addresses than the memory limit permits. The oldest connections with one "
        "packet were evicted first, then the least recently used ones. An evicted connection that continues is counted "
        "as a new one, and its messages and retransmissions are incomplete. The numbers of packets and bytes of the "
        "capture are exact.",
        "Set a larger limit with --memory, or narrow the report with --filter, --from and --to."));
}

std::string mrc_flow_name(const tracking::MrcFlow& flow) {
  return fmt::format("MRC QP {} → {:#x}  {} → {}", flow.from_qp_known ? fmt::format("{:#x}", flow.from_qp) : "?",
                     flow.dest_qp, to_text(flow.from), to_text(flow.to));
}

struct MrcCase {
  const tracking::MrcFlow* flow;
  tracking::MrcFinding finding;
};

/// Returns one finding for one connection, or for all connections of a kind. `cases` must contain at least one.
Finding mrc_finding(std::vector<MrcCase>& cases, const tracking::MrcFindingRow& row) {
  Finding finding;
  finding.severity = row.severity;
  finding.kind = row.name;
  finding.cause = "none";
  finding.connections = cases.size();
  finding.meaning = row.meaning;
  finding.next = row.next;
  for (const MrcCase& one : cases) {
    const tracking::MrcCount& seen = one.finding.seen;
    finding.count += seen.count;
    if (finding.first_frame == 0 || seen.first_frame < finding.first_frame) finding.first_frame = seen.first_frame;
    finding.last_frame = std::max(finding.last_frame, seen.last_frame);
    for (const std::string_view field : one.finding.unverified)
      if (std::ranges::find(finding.unverified, field) == finding.unverified.end()) finding.unverified.push_back(field);
  }
  finding.packets = finding.count;
  finding.frames = {finding.first_frame};
  if (finding.last_frame != finding.first_frame) finding.frames.push_back(finding.last_frame);
  const auto certainty = finding.unverified.empty() ? tracking::Certainty::certain : tracking::Certainty::likely;
  finding.by_certainty[static_cast<std::size_t>(certainty)] = finding.count;
  if (cases.size() == 1) {
    finding.flow = mrc_flow_name(*cases[0].flow);
    finding.title = cases[0].finding.title;
  } else {
    finding.flow = counted(cases.size(), "MRC connection", "MRC connections");
    finding.title = fmt::format("{} ({} packets), the worst: {}", row.name.substr(row.name.find('_') + 1),
                                finding.count, cases[0].finding.title);
    std::ranges::replace(finding.title, '_', ' ');
    constexpr std::size_t most_listed = 5;
    for (std::size_t i = 0; i < std::min(most_listed, cases.size()); ++i)
      finding.worst.push_back(
          {cases[i].flow->first_frame, mrc_flow_name(*cases[i].flow), cases[i].finding.seen.count, 0});
  }
  if (!finding.unverified.empty()) {
    finding.title += " (unverified)";
    std::string fields;
    for (const std::string_view field : finding.unverified) fields += (fields.empty() ? "" : ", ") + std::string(field);
    finding.meaning +=
        " This depends on fields that only one source describes, or that the sources describe differently: " + fields +
        ".";
  }
  return finding;
}

void add_mrc(std::vector<Finding>& findings, const Analysis& analysis, std::size_t collective) {
  if (analysis.mrc_flows == 0) return;
  const std::vector<tracking::MrcFlow> flows = analysis.mrc.sorted();
  std::array<std::vector<MrcCase>, tracking::mrc_finding_kinds> by_kind;
  for (const tracking::MrcFlow& flow : flows)
    for (tracking::MrcFinding& finding : tracking::findings_of(flow))
      by_kind[static_cast<std::size_t>(finding.kind)].push_back({&flow, std::move(finding)});
  for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
    std::vector<MrcCase>& cases = by_kind[kind];
    const tracking::MrcFindingRow& row = tracking::mrc_finding_rows[kind];
    if (cases.size() > collective) {
      std::ranges::stable_sort(cases, std::greater<>{}, [](const MrcCase& one) { return one.finding.seen.count; });
      findings.push_back(mrc_finding(cases, row));
      continue;
    }
    for (MrcCase& one : cases) {
      std::vector<MrcCase> single;
      single.push_back(std::move(one));
      findings.push_back(mrc_finding(single, row));
    }
  }
}

}  // namespace

tracking::Certainty certainty_of(const Finding& finding) {
  const auto& [possible, likely, certain] = finding.by_certainty;
  const std::uint64_t all = possible + likely + certain;
  if (2 * possible > all) return tracking::Certainty::possible;
  return likely + possible == 0 || 2 * certain > all ? tracking::Certainty::certain : tracking::Certainty::likely;
}

std::string to_text(const PortAddress& address) {
  std::string out;
  if (address.high == 0 && address.low != 0 && address.low <= 0xffff) return fmt::format("LID {}", address.low);
  std::array<std::uint8_t, 16> bytes{};
  store_be(bytes.data(), 8, address.high);
  store_be(bytes.data() + 8, 8, address.low);
  if (address.high == 0 && address.low >> 32 == 0xffff)
    output::append_ipv4(out, bytes.data() + 12);
  else
    output::append_ipv6(out, bytes.data());
  return out;
}

std::string flow_name(const std::array<tracking::ConnectionEnd, 2>& ends, tracking::Service service, Side from) {
  const tracking::ConnectionEnd& mine = ends[static_cast<std::size_t>(from)];
  const tracking::ConnectionEnd& theirs = ends[static_cast<std::size_t>(tracking::other(from))];
  if (service == tracking::Service::iwarp)
    return fmt::format("{}:{} → {}:{}", to_text(mine.address), mine.qp, to_text(theirs.address), theirs.qp);
  const auto qp = [](const tracking::ConnectionEnd& end) {
    return end.qp_known ? fmt::format("{:#x}", end.qp) : std::string("?");
  };
  return fmt::format("QP {} → {}  {} → {}", qp(mine), qp(theirs), to_text(mine.address), to_text(theirs.address));
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string duration_text(std::int64_t ns) {
  if (ns < 0) return "-" + duration_text(ns == INT64_MIN ? INT64_MAX : -ns);
  struct Unit {
    double size;
    std::string_view name;
  };
  if (ns < 1000) return fmt::format("{} ns", ns);
  if (ns >= 60'000'000'000) {
    const std::int64_t seconds = ns / 1'000'000'000;
    if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
    return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  }
  constexpr Unit units[] = {{1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};
  for (const Unit& unit : units) {
    const double value = static_cast<double>(ns) / unit.size;
    if (value >= 999.5 && &unit != &units[2]) continue;
    if (value >= 99.95) return fmt::format("{:.0f} {}", value, unit.name);
    if (value >= 9.995) return fmt::format("{:.1f} {}", value, unit.name);
    return fmt::format("{:.2f} {}", value, unit.name);
  }
  return {};
}

std::vector<Finding> findings_of(const Analysis& analysis, const InputFacts& input, std::size_t collective) {
  std::map<std::pair<EventKind, Cause>, std::vector<Case>> by_kind;
  for (const auto& [connection, affected] : analysis.affected())
    for (Case& one : cases_of(connection, affected))
      by_kind[{one.group.kind, one.group.cause}].push_back(std::move(one));
  std::vector<Finding> findings;
  const bool twice = captured_twice(analysis);
  for (auto& [key, cases] : by_kind) {
    if (twice && key.first == duplicate) continue;
    const auto is_iwarp = [](const Case& one) { return one.affected->service == tracking::Service::iwarp; };
    const Advice* advice = advice_of(key.first, key.second, std::all_of(cases.begin(), cases.end(), is_iwarp));
    if (!advice) continue;
    if (cases.size() > collective) {
      findings.push_back(collective_finding(cases, *advice, analysis));
      continue;
    }
    for (const Case& one : cases)
      findings.push_back(finding_of(one, *advice_of(key.first, key.second, is_iwarp(one)), analysis));
  }
  add_capture_wide(findings, analysis, input);
  add_mrc(findings, analysis, collective);
  std::sort(findings.begin(), findings.end(), before);
  // The following findings precede all others, because they affect their interpretation.
  if (twice) findings.insert(findings.begin(), captured_twice_finding(analysis, by_kind[{duplicate, Cause::none}]));
  if (input.overlapping_files)
    findings.insert(
        findings.begin(),
        of_capture(
            Severity::warning, "files_overlap", input.overlapping_files, 0,
            fmt::format("{} recorded at the same time as another file",
                        counted(input.overlapping_files, "file was", "files were")),
            "Multiple files are read in sequence, as parts of one capture. These files were recorded at the same time. "
            "Packets in both files count as retransmissions, and order and times between the files are incorrect.",
            "For several capture points, use --capture-points. For one capture point, merge the files with mergecap "
            "first."));
  return findings;
}

}  // namespace rdmawire::captures::analysis
