#include "captures/analysis/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "dissectors/output/value.hpp"

namespace rdmawire::captures::analysis {
namespace {

using enum EventKind;

/// What a finding says, written once by kind and cause. A row with Cause::none stands for all causes that have no row.
struct Advice {
  EventKind kind;
  Cause cause;
  std::string_view one, many;  ///< what is counted
  std::string_view meaning;
  std::string_view next;
};

constexpr Advice advices[] = {
    {retransmission, Cause::sequence_error_nak, "retransmission round", "retransmission rounds",
     "packets were lost on the way to the responder, which said so with sequence-error NAKs; the requester went back "
     "and sent from there again",
     "the loss is in the network between the two, not in the capture; look at drops and buffers of the switches on the "
     "way (is this traffic class lossless?); the hosts count it as out_of_sequence (responder) and packet_seq_err "
     "(requester)"},
    {retransmission, Cause::timeout, "retransmission after a timeout", "retransmissions after timeouts",
     "the requester waited for an acknowledgement until its timer ran out, then sent again: the last packets of a "
     "message, or the acknowledgement itself, were lost or late, and no later packet could show the gap",
     "compare the wait with the queue pair's timeout (4.096 µs times 2^timeout): a shorter one recovers sooner; find "
     "the loss on the way, acknowledgements' way back included; the requester counts it as local_ack_timeout_err"},
    {retransmission, Cause::rnr, "retransmission after RNR NAKs", "retransmissions after RNR NAKs",
     "the receiver had no receive request posted when a message arrived; the sender waited as told and sent again",
     "the receiving application posts receives too late or too few: a deeper receive queue or SRQ, or flow control "
     "above; the responder counts it as out_of_buffer, the requester as rnr_nak_retry_err once retries are exhausted"},
    {retransmission, Cause::implied_nak, "retransmission after an implied NAK", "retransmissions after implied NAKs",
     "a response came that skips earlier ones: read responses or atomic answers were lost on the way back, so the "
     "requester asked again",
     "look for loss on the way from responder to requester; the requester counts it as implied_nak_seq_err"},
    {retransmission, Cause::spurious, "needless retransmission", "needless retransmissions",
     "the packets sent again had arrived, and their acknowledgement was on its way: the requester's timer is too short "
     "for this path, or the acknowledgement was late",
     "compare the acknowledgement latency below with the queue pair's timeout; look for congestion or pauses on the "
     "acknowledgements' way; the responder counts it as duplicate_request"},
    {retransmission, Cause::none, "retransmission round", "retransmission rounds",
     "the requester went back and sent packets again; why, the capture does not show",
     "capture nearer to the requester, in both directions, to see what it reacts to; compare packet_seq_err, "
     "local_ack_timeout_err and implied_nak_seq_err of the requester"},
    {lost_in_network, Cause::before_capture, "loss before the capturing point", "losses before the capturing point",
     "packets that the sender must have sent never came by, and the receiver missed them too",
     "look between the sender and the capturing point: the sender's port, cable and first switch (discards, symbol and "
     "FCS errors)"},
    {lost_in_network, Cause::after_capture, "loss behind the capturing point", "losses behind the capturing point",
     "packets came by here, and the receiver still missed them",
     "look between the capturing point and the receiver: drops of the last switches, and rx_discards_phy or "
     "rx_prio*_discards of the receiver"},
    {lost_in_network, Cause::none, "loss in the network", "losses in the network",
     "packets were lost between sender and receiver", "look at the drop counters of the switches on the way"},
    {lost_in_capture, Cause::none, "gap in the capture", "gaps in the capture",
     "packets that the capture does not have were acknowledged or answered: the capture lost them, the network did "
     "not. This is no fault of the network",
     "give the capture a larger buffer or a shorter snap length; until then take byte counts and latencies with care"},
    {psn_gap, Cause::none, "gap in the PSNs", "gaps in the PSNs",
     "PSNs were not seen, and nothing tells whether the network or the capture lost them",
     "see whether the capture reports drops of its own; capture the other direction too: its NAKs and acknowledgements "
     "tell the difference"},
    {out_of_order, Cause::none, "packet out of order", "packets out of order",
     "packets overtook one another; a responder without out-of-order support takes that for loss and sends NAKs",
     "look for packet spraying or adaptive routing, link aggregation by packet, or a path change; is the device's "
     "out-of-order mode meant to be on? The responder counts it as out_of_sequence"},
    {duplicate, Cause::none, "packet seen twice", "packets seen twice",
     "the same packet was captured twice within a short time: usually a mirror port that copies both ways, or a "
     "capture "
     "on several interfaces of one host",
     "mirror one direction of the port only, capture on one interface, or remove duplicates; if the receiver counts "
     "duplicate_request, the network itself copies"},
    {nak, Cause::psn_sequence_error, "sequence-error NAK", "sequence-error NAKs",
     "the responder misses packets; it asked for them again, and the retransmission is not in the capture",
     "look for loss on the way to the responder; it counts out_of_sequence, the requester packet_seq_err"},
    {nak, Cause::invalid_request, "request refused as invalid", "requests refused as invalid",
     "the responder does not take this operation, length or sequence of packets; the queue pair goes to error",
     "compare both ends' settings: is the operation enabled (qp_access_flags)? is the message longer than the receive "
     "buffer? are more reads outstanding than max_dest_rd_atomic allows? The requester counts "
     "req_remote_invalid_request"},
    {nak, Cause::remote_access_error, "request refused: remote access error", "requests refused: remote access errors",
     "the remote key, the address range or the access right does not match the responder's memory region; the queue "
     "pair goes to error",
     "compare address and key with the regions below; was the region deregistered, the key invalidated or exchanged "
     "wrongly, or the right not granted? The requester counts req_remote_access_errors"},
    {nak, Cause::remote_operational_error, "request failed at the responder", "requests failed at the responder",
     "the responder could not complete the request for a reason of its own; the queue pair goes to error",
     "look at the responder: its log, memory, and asynchronous events; the requester counts resp_cqe_error or "
     "req_cqe_error"},
    {nak, Cause::none, "request refused", "requests refused", "the responder refused a request",
     "look at the responder's log and asynchronous events"},
    {rnr_nak, Cause::none, "RNR NAK", "RNR NAKs",
     "the receiver had no receive request posted and asked the sender to wait",
     "the receiving application posts receives too late or too few; the responder counts out_of_buffer; when the "
     "sender gives up it counts rnr_nak_retry_err"},
    {ghost_acknowledgement, Cause::none, "needless acknowledgement", "needless acknowledgements",
     "acknowledgements of what was acknowledged before, though nothing asked for them again: duplicates arrived at the "
     "responder that this capture did not see, or its firmware repeats itself",
     "see whether the responder counts duplicate_request; capture at the responder's port"},
    {unsolicited_response, Cause::none, "response without request", "responses without request",
     "responses to requests that were never seen: the capture lacks the requests, or the responder answers a stale "
     "queue pair",
     "see that both directions are captured; a queue pair number that is used again too early shows like this too"},
    {unanswered, Cause::none, "request without any answer", "requests without any answer",
     "requests drew no response at all until the capture ended: the peer does not take them, or its answers take a way "
     "that is not captured",
     "does the peer's queue pair exist and stand in RTR? Are both ends on the same RoCE version and GID index, MTU and "
     "VLAN? Does a firewall drop UDP port 4791? The requester ends with retry exceeded "
     "(req_transport_retries_exceeded)"},
    {msn_jump, Cause::none, "MSN that jumps", "MSNs that jump",
     "the responder's count of completed messages does not follow the messages that it completed",
     "packets may be missing from the capture; else this is the responder's firmware: take it to its vendor with "
     "these frames"},
    {crc_bad, Cause::source_port, "packet with a bad ICRC: source port changed",
     "packets with a bad ICRC: source port changed",
     "the ICRC fits another UDP source port than the packet has: a device on the way rewrote it, or the capture was "
     "anonymized after the fact",
     "look for address translation, load balancers and tools that edited this capture; receivers drop such packets and "
     "count rx_icrc_encapsulated"},
    {crc_bad, Cause::address, "packet with a bad ICRC: address changed", "packets with a bad ICRC: address changed",
     "the ICRC fits other IP addresses: address translation on the way, or an edited capture",
     "RoCE cannot pass NAT; look for it, and for tools that edited this capture; receivers count rx_icrc_encapsulated"},
    {crc_bad, Cause::ip_identification, "packet with a bad ICRC: IP identification changed",
     "packets with a bad ICRC: IP identification changed",
     "the ICRC fits another IP identification: something rewrote it on the way or after capturing",
     "look for devices or drivers that number packets anew; receivers count rx_icrc_encapsulated"},
    {crc_bad, Cause::payload, "packet with a bad ICRC: payload damaged", "packets with a bad ICRC: payload damaged",
     "the headers are whole and the payload is not: memory or a link damaged it inside a device that then computed the "
     "frame's checksum anew",
     "look for a switch or NIC with failing memory: the path that the damaged packets share; receivers count "
     "rx_icrc_encapsulated"},
    {crc_bad, Cause::pad, "packet with a bad ICRC: pad bytes", "packets with a bad ICRC: pad bytes",
     "the ICRC is right for other pad bytes: the sender computes it over a pad that it does not send",
     "a fault of the sender's firmware: take it to its vendor with these frames"},
    {crc_bad, Cause::ttl_not_masked, "packet with a bad ICRC: TTL not masked",
     "packets with a bad ICRC: TTL not masked",
     "the sender computed the ICRC with the TTL in it, which routers change: it holds on the first link only",
     "a fault of the sender; take it to its vendor; it shows only behind a router"},
    {crc_bad, Cause::traffic_class_not_masked, "packet with a bad ICRC: traffic class not masked",
     "packets with a bad ICRC: traffic class not masked",
     "the sender computed the ICRC with DSCP and ECN in it, which switches change",
     "a fault of the sender; take it to its vendor; it shows when a switch marks or remarks"},
    {crc_bad, Cause::checksum_not_masked, "packet with a bad ICRC: checksum not masked",
     "packets with a bad ICRC: checksum not masked",
     "the sender computed the ICRC with an IP or UDP checksum in it that should count as ones",
     "a fault of the sender; take it to its vendor"},
    {crc_bad, Cause::bth_reserved_not_masked, "packet with a bad ICRC: BTH's reserved byte not masked",
     "packets with a bad ICRC: BTH's reserved byte not masked",
     "the sender computed the ICRC with the BTH's byte 4 (FECN, BECN, reserved) in it, which counts as ones",
     "a fault of the sender; take it to its vendor"},
    {crc_bad, Cause::none, "packet with a bad CRC", "packets with a bad CRC",
     "the packet was damaged or changed on the way, and no single change explains it; receivers drop it",
     "look at FCS and symbol errors of the links on the way; receivers count rx_icrc_encapsulated"},
    {truncated, Cause::none, "packet shorter than its headers say", "packets shorter than their headers say",
     "the packet ends before its own headers say: it was cut by its sender or by a device on the way",
     "see whether the capturing tool cut it (snap length); else look for a device with a smaller MTU that cuts"},
    {pkey_mismatch, Cause::none, "packet with another P_Key", "packets with another P_Key",
     "a packet's P_Key is not that of its connection: the receiver drops it",
     "compare the partition membership of both ports (P_Key tables); the receiver counts a P_Key violation"},
    {qkey_mismatch, Cause::none, "datagram with another Q_Key", "datagrams with another Q_Key",
     "a datagram's Q_Key is not the one that its queue pair takes: the receiver drops it silently",
     "compare the Q_Key that both ends exchanged; the receiver's port counts a Q_Key violation"},
    {segmentation, Cause::none, "packet that does not fit the path MTU", "packets that do not fit the path MTU",
     "a packet's payload is longer than the path MTU, or a first or middle packet does not fill it: the two ends do "
     "not agree about the MTU",
     "compare path_mtu of both queue pairs and the Ethernet MTU of ports and switches: small messages work and large "
     "ones hang when they differ"},
    {opcode_sequence, Cause::none, "packet that cannot follow the one before",
     "packets that cannot follow the one before",
     "a message was continued that was not begun, or begun while another was not ended",
     "see whether the capture lost packets there; else this is the sender's firmware"},
    {read_limit, Cause::none, "excess of outstanding reads", "excesses of outstanding reads",
     "more reads and atomics were outstanding than the responder granted (its responder resources)",
     "compare max_rd_atomic of the requester with max_dest_rd_atomic of the responder; the responder may answer with "
     "invalid-request NAKs"},
    {ecn_marked, Cause::none, "congestion signal", "congestion signals",
     "switches marked packets (ECN), and receivers told the senders of it (CNP): the network is congested, and "
     "congestion control works on it",
     "see whether the senders' rates fell afterwards (congestion below), and which receiver is the hot spot (incast, "
     "talkers); hosts count np_ecn_marked_roce_packets, np_cnp_sent and rp_cnp_handled"},
    {pause, Cause::none, "pause frame", "pause frames",
     "a port told its neighbor to stop sending: flow control works, or a slow receiver holds up the network",
     "see which port sends them and whether they persist: a receiver that pauses for long spreads congestion (ethtool "
     "-S: tx_pause_ctrl_phy, rx_prio3_pause, rx_prio3_pause_duration); look for a slow host or PCIe bottleneck"},
    {stall, Cause::credit, "stall for want of credits", "stalls for want of credits",
     "the sender had used up the credits that the receiver's acknowledgements grant: the receiver posts receives too "
     "slowly",
     "look at the receiving application, not at the network"},
    {stall, Cause::rnr, "wait for a receiver that was not ready", "waits for a receiver that was not ready",
     "the sender kept still as RNR NAKs asked", "the receiving application posts receives too late or too few"},
    {stall, Cause::window, "stall with a full window", "stalls with a full window",
     "the sender had as much outstanding as it ever has, and waited for acknowledgements: the round trip bounds its "
     "rate, or the responder was slow",
     "compare acknowledgement latency with that of other connections; a longer queue of work requests would hide it"},
    {stall, Cause::peer, "stall of the peer", "stalls of the peer",
     "requests were outstanding, and the responder kept still for long before it answered",
     "look at the responder: host memory, PCIe, page faults (on-demand paging), power saving; if it had answered in "
     "time, pauses on the way back"},
    {stall, Cause::none, "long silence", "long silences", "the connection was silent for long with work outstanding",
     "see which side sent last before the silence"},
    {rejected, Cause::none, "connection refused", "connections refused",
     "the connection manager refused to set up a connection",
     "the reject's reason stands in its frame (rdmawire dissect -V --frame N): is the service listening, on this port "
     "and address? do both ends ask for compatible parameters?"},
    {path_change, Cause::none, "change of path", "changes of path",
     "packets of a connection came another way from some frame on (other link addresses, TTL or source port): a route "
     "or a bond failed over",
     "compare with the events of switches and bonds at that time"},
    {tcp_retransmission, Cause::none, "TCP retransmission", "TCP retransmissions",
     "TCP below iWARP sent bytes again: packets were lost or late on the way",
     "look for drops on the way, as for any TCP connection; iWARP's own delays follow from these"},
    {tcp_reset, Cause::none, "TCP reset", "TCP resets",
     "the TCP connection below iWARP was reset: the peer does not know it, or gave it up",
     "see which side reset, and whether a Terminate message came before it"},
    {terminate, Cause::none, "Terminate message", "Terminate messages",
     "an end of the iWARP stream met an error and ended the stream; the message says which layer and what",
     "read it: rdmawire dissect -V --frame N shows layer, type, code and the header that it quotes"},
};

/// Where iWARP means something else by it, or other things help.
constexpr Advice iwarp_advices[] = {
    {unsolicited_response, Cause::none, "response without request", "responses without request",
     "read responses whose read request was never seen, or named another place to put the data",
     "see that both directions are captured, and that the response's STag and tagged offset are what the request asks "
     "for (rdmawire dissect -V --frame N)"},
    {unanswered, Cause::none, "request without any answer", "requests without any answer",
     "read requests drew no response until the capture ended: the peer does not take them, its answers take a way that "
     "is not captured, or they fit no request",
     "see whether TCP acknowledged the request and whether a Terminate message follows it; if a response is there, "
     "compare its STag and tagged offset with what the request asks for"},
    {msn_jump, Cause::none, "MSN that jumps", "MSNs that jump",
     "the sender does not number the untagged messages of a queue one by one from 1, as RFC 5041 (5.3) has it: the "
     "receiver ends the stream with a Terminate message, or is lax",
     "packets may be missing from the capture; else this is the sender's iWARP implementation: take it to its maker "
     "with these frames"},
    {out_of_order, Cause::none, "packet out of order", "packets out of order",
     "TCP segments overtook one another; TCP bears that, and may take it for loss",
     "look for packet spraying or adaptive routing, link aggregation by packet, or a path change"},
    {psn_gap, Cause::none, "gap in the stream", "gaps in the stream",
     "bytes of the TCP stream were not seen, and nothing tells whether the network or the capture lost them",
     "see whether the capture reports drops of its own; capture the other direction too"},
    {duplicate, Cause::none, "packet seen twice", "packets seen twice",
     "the same TCP segment was captured twice within a short time: usually a mirror port that copies both ways, or a "
     "capture on several interfaces of one host",
     "mirror one direction of the port only, capture on one interface, or remove duplicates"},
    {segmentation, Cause::none, "segment that does not fit its message", "segments that do not fit their message",
     "a message's DDP segments do not add up: one does not go on where the one before it ended, or there are more or "
     "fewer bytes than were asked for",
     "see whether the capture lacks packets there; else this is the sender's iWARP implementation"},
    {rejected, Cause::none, "connection refused", "connections refused", "the MPA reply refused to set up a connection",
     "is the service listening, on this port and address? do both ends ask for compatible parameters (markers, CRC, "
     "enhanced set-up)? The reply's private data may say why: rdmawire dissect -V --frame N"},
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
  // A request that was refused failed for good; missing packets are asked for again.
  if (kind == nak && cause != Cause::psn_sequence_error) return Severity::error;
  return tracking::event_rows[static_cast<std::size_t>(kind)].severity;
}

/// What happened to one sufferer, of one kind and cause, with what belongs to it.
struct Case {
  std::uint64_t connection = 0;
  const ConnectionEvents* troubled = nullptr;
  Group group;
  std::vector<Evidence> evidence;
};

/// The cause of retransmissions that another kind of event is a part of; none: of no retransmission.
std::vector<Cause> explained_by(EventKind kind, Cause cause) {
  switch (kind) {
    case nak:
      if (cause != Cause::psn_sequence_error) return {};
      return {Cause::sequence_error_nak, Cause::implied_nak, Cause::timeout, Cause::unknown};
    case rnr_nak: return {Cause::rnr};
    case lost_in_network:
    case psn_gap: return {Cause::sequence_error_nak, Cause::implied_nak, Cause::timeout};
    case stall:
      return cause == Cause::rnr ? std::vector{Cause::rnr} : std::vector{Cause::timeout, Cause::sequence_error_nak};
    case ghost_acknowledgement: return {Cause::spurious};
    default: return {};
  }
}

std::vector<Case> cases_of(std::uint64_t connection, const ConnectionEvents& troubled) {
  std::vector<Case> cases;
  // Marks and notifications are one matter.
  Group congestion;
  congestion.kind = ecn_marked;
  std::vector<Evidence> congestion_evidence;
  std::vector<Group> groups = troubled.groups;
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tie(a.kind, a.cause, a.end) < std::tie(b.kind, b.cause, b.end);
  });
  for (const Group& group : groups) {
    if (group.kind == ecn_marked || group.kind == cnp) {
      if (congestion.count == 0) congestion.end = group.end;
      congestion.merge(group);
      congestion_evidence.push_back({to_string(group.kind), to_string(group.cause), group.count, group.packets});
    } else if (group.kind == retransmission || group.kind == tcp_retransmission) {
      cases.push_back({connection, &troubled, group, {}});
    }
  }
  const std::size_t rounds = cases.size();
  for (const Group& group : groups) {
    if (group.kind == ecn_marked || group.kind == cnp || group.kind == retransmission ||
        group.kind == tcp_retransmission)
      continue;
    Case* part_of = nullptr;
    for (const Cause cause : explained_by(group.kind, group.cause)) {
      for (std::size_t i = 0; i < rounds && !part_of; ++i)
        if ((cases[i].group.cause == cause || cases[i].group.kind == tcp_retransmission) &&
            cases[i].group.end == group.end)
          part_of = &cases[i];
      if (part_of) break;
    }
    if (part_of)
      part_of->evidence.push_back({to_string(group.kind), to_string(group.cause), group.count, group.packets});
    else
      cases.push_back({connection, &troubled, group, {}});
  }
  if (congestion.count) cases.push_back({connection, &troubled, congestion, congestion_evidence});
  return cases;
}

std::string title_of(const Finding& finding, const Advice& advice) {
  const bool copies = finding.kind == to_string(duplicate);  // they come in rows
  std::string title = counted(copies ? finding.packets : finding.count, advice.one, advice.many);
  if (copies) return title;
  if (finding.kind == to_string(retransmission)) {
    title += fmt::format(", {} again", counted(finding.packets, "packet", "packets"));
    if (finding.share >= 0.1)
      title += fmt::format(" ({:.0f} %)", finding.share * 100);
    else if (finding.share >= 0)
      title += fmt::format(" ({:.2g} %)", finding.share * 100);
  } else if (finding.packets > finding.count) {
    title += fmt::format(", {}", counted(finding.packets, "packet", "packets"));
  }
  if (finding.cost_ns > 0)
    title += fmt::format(", {} {}", duration_text(finding.cost_ns),
                         finding.kind == to_string(out_of_order) ? "late" : "lost");
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
}

/// A few sentences about causes that only show from the whole.
void remark(Finding& finding, const Analysis& analysis) {
  if (finding.kind == to_string(crc_bad) && analysis.crcs_bad == analysis.crcs_checked && finding.count > 1)
    finding.meaning +=
        "; every CRC that could be verified is wrong, so it is the way this capture was made or edited, "
        "or a fault of the sender, rather than the network";
}

/// Packets that were sent by who sent the group's again: of a read, its responses are.
std::uint64_t sent_by_sender(const Case& of) {
  const Side sender = of.group.cause == Cause::implied_nak ? tracking::other(of.group.end) : of.group.end;
  return of.troubled->packets[static_cast<std::size_t>(sender)];
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
  finding.who = of.connection ? who(of.troubled->ends, of.troubled->service, of.group.end) : "no known connection";
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
  finding.who = counted(finding.connections, "connection", "connections");
  for (const auto& [key, sum] : evidence) finding.evidence.push_back(sum);
  for (std::size_t i = 0; i < std::min<std::size_t>(5, cases.size()); ++i)
    finding.worst.push_back({cases[i].connection,
                             cases[i].connection
                                 ? who(cases[i].troubled->ends, cases[i].troubled->service, cases[i].group.end)
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
  finding.who = "the capture";
  finding.count = count;
  finding.first_frame = finding.last_frame = first_frame == UINT64_MAX ? 0 : first_frame;
  if (finding.first_frame) finding.frames = {finding.first_frame};
  finding.title = std::move(title);
  finding.meaning = std::move(meaning);
  finding.next = std::move(next);
  return finding;
}

/// Whether the capture has most packets twice. No network copies that much, and no sender repeats that much so soon.
bool captured_twice(const Analysis& analysis) {
  constexpr std::uint64_t fewest = 10;
  return analysis.copies >= fewest &&
         analysis.copies >= (analysis.copyable - std::min(analysis.copies, analysis.copyable)) / 4 * 3;
}

/// One finding instead of a duplicate at every connection.
Finding captured_twice_finding(const Analysis& analysis, std::vector<Case>& copies) {
  Group all;
  for (const Case& one : copies) all.merge(one.group);
  Finding finding = of_capture(
      Severity::warning, "captured_twice", all.count, all.first_frame,
      fmt::format("most packets are in it twice: {} copies among {}", analysis.copies, analysis.copyable),
      "the same packets were captured at two places: on two interfaces of a host or bridge (device any), or at a "
      "mirror "
      "port that copies both ways. Counts of packets and bytes are too high; retransmissions, packets out of order "
      "and "
      "datagrams below may be nothing but second copies",
      "capture on one interface, or mirror one direction; or remove the copies first (editcap -w 0.001 IN OUT)");
  take_group(finding, all);
  return finding;
}

void add_capture_wide(std::vector<Finding>& findings, const Analysis& analysis, const InputFacts& input) {
  if (input.lost_by_capture)
    findings.push_back(of_capture(
        Severity::info, "capture_lost", input.lost_by_capture, 0,
        fmt::format("the capture itself lost {}, as it says", counted(input.lost_by_capture, "packet", "packets")),
        "packets are missing for the capture's own sake; gaps need not be the network's",
        "give the capture a larger buffer (dumpcap -B, rdmawire capture --buffer) or a shorter snap length"));
  if (analysis.one_way.connections) {
    const bool all = analysis.two_way.connections == 0;
    const bool both_versions = analysis.wires[static_cast<std::size_t>(Wire::roce_v1)] &&
                               analysis.wires[static_cast<std::size_t>(Wire::roce_v2)];
    std::string meaning =
        all ? "of no connection both directions are there: the capture sees one way only (a mirror of one direction), "
              "or nobody answers"
            : "some connections show one direction only while others show both: the peer does not answer, or answers "
              "another way";
    if (both_versions)
      meaning += "; RoCEv1 and RoCEv2 are both here: ends with different GID indexes do not hear each other";
    findings.push_back(of_capture(
        all ? Severity::info : Severity::warning, "one_way", analysis.one_way.connections, analysis.one_way.first_frame,
        fmt::format("{} without the other direction",
                    counted(analysis.one_way.connections, "connection", "connections")),
        meaning,
        all ? "capture both directions; if this port should see both, compare GID index, RoCE version and routes of "
              "the "
              "two ends"
            : "compare GID index and RoCE version of the two ends (show_gids), the route back, and firewalls for UDP "
              "port 4791"));
  }
  if (analysis.partial_messages)
    findings.push_back(of_capture(
        Severity::info, "begins_in_the_middle", analysis.partial_messages, analysis.first_partial,
        fmt::format("{} cut by the capture's edges or gaps", counted(analysis.partial_messages, "message", "messages")),
        "the capture begins, or has a gap, in the middle of messages: their size and beginning are not known",
        "nothing is wrong with the network for this; begin the capture before the traffic where whole messages "
        "matter"));
  if (analysis.other_class.connections)
    findings.push_back(of_capture(
        Severity::info, "traffic_class", analysis.other_class.connections, analysis.other_class.first_frame,
        fmt::format("{} whose requests and responses travel in different traffic classes",
                    counted(analysis.other_class.connections, "connection", "connections")),
        "requests and responses have different DSCP: one of them may travel in a class that is not lossless, or waits "
        "behind other traffic",
        "compare the traffic class of both ends (tos of RDMA-CM, cma_roce_tos, the queue pair's traffic_class) with "
        "the "
        "switches' mapping; some acknowledge in a class of their own on purpose"));
  if (analysis.evicted_connections || analysis.overflow())
    findings.push_back(
        of_capture(Severity::info, "inexact", analysis.evicted_connections + analysis.overflow(), 0,
                   "not everything found room: some numbers are too low",
                   "there were more connections, or pairs of addresses, than are kept at once; the oldest went first",
                   "narrow the report: --filter, --from, --to"));
}

}  // namespace

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

std::string who(const std::array<tracking::ConnectionEnd, 2>& ends, tracking::Service service, Side from) {
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
  for (const auto& [connection, troubled] : analysis.troubled())
    for (Case& one : cases_of(connection, troubled))
      by_kind[{one.group.kind, one.group.cause}].push_back(std::move(one));
  std::vector<Finding> findings;
  const bool twice = captured_twice(analysis);
  for (auto& [key, cases] : by_kind) {
    if (twice && key.first == duplicate) continue;
    const auto is_iwarp = [](const Case& one) { return one.troubled->service == tracking::Service::iwarp; };
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
  std::sort(findings.begin(), findings.end(), before);
  // These come first: they say how to read the others.
  if (twice) findings.insert(findings.begin(), captured_twice_finding(analysis, by_kind[{duplicate, Cause::none}]));
  if (input.overlapping_files)
    findings.insert(
        findings.begin(),
        of_capture(
            Severity::warning, "files_overlap", input.overlapping_files, 0,
            fmt::format("{} recorded while another one was",
                        counted(input.overlapping_files, "file was", "files were")),
            "several files are read one after the other, as the pieces of one capture; these were recorded at "
            "the same time. What both have is taken for sent again, and order and times between them are wrong",
            "captures of several places: --capture-points compares them; of one place: mergecap makes one of them "
            "first"));
  return findings;
}

}  // namespace rdmawire::captures::analysis
