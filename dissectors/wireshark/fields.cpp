// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/fields.hpp"

#include <array>
#include <deque>
#include <string>
#include <unordered_map>

#include "dissectors/output/json.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/registry.hpp"
#include "dissectors/tracking/connection.hpp"

namespace rdmawire::wireshark {
namespace {

/// Returns a zero-terminated copy of the text that is never freed, because Wireshark keeps the pointer.
const char* keep(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}
const char* keep(std::string_view text) { return keep(std::string(text)); }

// ---------------------------------------------------------------------------------------------------- header tables

/// The names of an enumeration in Wireshark's format.
struct ValueStrings {
  std::vector<value_string> narrow;
  std::vector<val64_string> wide;
};

const ValueStrings& values_of(const Names& names) {
  static std::unordered_map<const Names*, ValueStrings> known;
  const auto [at, fresh] = known.try_emplace(&names);
  if (fresh) {
    for (const Name& entry : names.entries) {
      const char* text = keep(entry.name);
      at->second.narrow.push_back({static_cast<guint32>(entry.value), text});
      at->second.wide.push_back({entry.value, text});
    }
    at->second.narrow.push_back({0, nullptr});
    at->second.wide.push_back({0, nullptr});
  }
  return at->second;
}

struct Kind {
  ftenum type;
  int display;
  const void* strings = nullptr;
};

Kind number_kind(const Field& field, int base) {
  const bool wide = field.width > 32 || field.is_decoded();
  Kind kind{wide                ? FT_UINT64
            : field.width <= 8  ? FT_UINT8
            : field.width <= 16 ? FT_UINT16
            : field.width <= 24 ? FT_UINT24
                                : FT_UINT32,
            base};
  if (!field.names) return kind;
  const ValueStrings& values = values_of(*field.names);
  if (wide) {
    kind.display |= BASE_VAL64_STRING;
    kind.strings = values.wide.data();
  } else {
    kind.strings = values.narrow.data();
  }
  return kind;
}

Kind kind_of(const Field& field) {
  if (!field.is_number())
    return field.display == Display::ipv6   ? Kind{FT_IPv6, BASE_NONE}
           : field.display == Display::text ? Kind{FT_STRINGZPAD, BASE_NONE}
                                            : Kind{FT_BYTES, BASE_NONE};
  switch (field.display) {
    case Display::hexadecimal:
    case Display::reserved: return number_kind(field, BASE_HEX);
    case Display::flag: return field.names ? number_kind(field, BASE_DEC) : Kind{FT_BOOLEAN, BASE_NONE};
    case Display::time: return {FT_RELATIVE_TIME, BASE_NONE};
    case Display::mac: return {FT_ETHER, BASE_NONE};
    case Display::ipv4: return {FT_IPv4, BASE_NONE};
    case Display::guid: return {FT_EUI64, BASE_NONE};
    case Display::text: return {FT_STRINGZPAD, BASE_NONE};
    case Display::bytes: return {FT_BYTES, BASE_NONE};
    default: return number_kind(field, BASE_DEC);
  }
}

/// Returns the last part of a part's name.
std::string_view label_of(const Field& field) { return field.name.substr(field.name.rfind('.') + 1); }

std::unordered_map<const HeaderInfo*, HeaderFields>& header_fields() {
  static std::unordered_map<const HeaderInfo*, HeaderFields> all;
  return all;
}

hf_register_info row(int* id, std::string_view name, std::string abbreviation, Kind kind, std::string_view meaning) {
  hf_register_info info{};
  info.p_id = id;
  info.hfinfo.name = keep(name);
  info.hfinfo.abbrev = keep(std::move(abbreviation));
  info.hfinfo.type = kind.type;
  info.hfinfo.display = kind.display;
  info.hfinfo.strings = kind.strings;
  info.hfinfo.blurb = meaning.empty() ? nullptr : keep(meaning);
  info.hfinfo.id = -1;
  info.hfinfo.ref_type = HF_REF_TYPE_NONE;
  info.hfinfo.same_name_prev_id = -1;
  return info;
}

void add_header(const HeaderInfo& header, std::vector<hf_register_info>& rows, std::vector<int*>& trees) {
  HeaderFields& ids = header_fields()[&header];
  const std::string prefix = "rdmawire." + std::string(header.name);
  ids.fields.assign(header.fields.size(), unregistered);
  ids.whole.assign(header.fields.size(), -1);
  rows.push_back(row(&ids.header, header.title, prefix, {FT_NONE, BASE_NONE}, header.section));
  trees.push_back(&ids.tree);
  for (std::size_t i = 0; i < header.fields.size(); ++i) {
    const Field& field = header.fields[i];
    rows.push_back(
        row(&ids.fields[i], label_of(field), prefix + "." + std::string(field.name), kind_of(field), field.meaning));
    if (!field.is_part()) continue;
    const std::string_view whole = field.name.substr(0, field.name.rfind('.'));
    for (std::size_t j = 0; j < i; ++j)
      if (header.fields[j].name == whole) ids.whole[i] = static_cast<int>(j);
  }
  if (!header.tail.empty())
    rows.push_back(row(&ids.tail, header.tail, prefix + "." + std::string(header.tail), {FT_BYTES, BASE_NONE}, {}));
}

// ----------------------------------------------------------------------------------------------------- own fields

/// Returns the value_strings of an enumeration, with the names of to_string() for the values from 0 to `count` - 1.
template <class Enumeration>
const value_string* words(std::size_t count) {
  auto& all = *new std::vector<value_string>;  // persistent: Wireshark keeps the pointer
  for (std::size_t i = 0; i < count; ++i)
    all.push_back({static_cast<guint32>(i), keep(to_string(static_cast<Enumeration>(i)))});
  all.push_back({0, nullptr});
  return all.data();
}

const value_string* wire_words() {
  static std::vector<value_string> all;
  for (const Wire wire : {Wire::infiniband, Wire::roce_v1, Wire::roce_v2, Wire::iwarp})
    all.push_back({static_cast<guint32>(wire), keep(output::wire_name(wire))});
  all.push_back({0, nullptr});
  return all.data();
}

const value_string mrc_path_words[] = {{0, "good"}, {1, "congested"}, {2, "failed"}, {0, nullptr}};
const value_string end_words[] = {{0, "a"}, {1, "b"}, {0, nullptr}};

struct OwnRow {
  Own field;
  const char* abbreviation;
  const char* name;
  Kind kind;
  const char* meaning;
};

std::vector<OwnRow> own_rows() {
  using enum Own;
  const Kind number{FT_UINT32, BASE_DEC}, wide{FT_UINT64, BASE_DEC}, text{FT_STRING, BASE_NONE},
      bytes{FT_BYTES, BASE_NONE}, flag{FT_BOOLEAN, BASE_NONE}, frame{FT_FRAMENUM, BASE_NONE},
      request{FT_FRAMENUM, BASE_NONE, FRAMENUM_TYPE(FT_FRAMENUM_REQUEST)},
      response{FT_FRAMENUM, BASE_NONE, FRAMENUM_TYPE(FT_FRAMENUM_RESPONSE)},
      acknowledgement{FT_FRAMENUM, BASE_NONE, FRAMENUM_TYPE(FT_FRAMENUM_ACK)}, duration{FT_RELATIVE_TIME, BASE_NONE},
      none{FT_NONE, BASE_NONE}, hexadecimal{FT_UINT32, BASE_HEX}, address{FT_UINT64, BASE_HEX};
  const auto named = [](const value_string* strings) { return Kind{FT_UINT8, BASE_DEC, strings}; };
  const value_string* status = words<CrcCheck::Status>(4);
  const value_string* service_words = words<tracking::Service>(index(tracking::Service::vendor) + 1);
  const value_string* joined_words = words<tracking::JoinedBy>(index(tracking::JoinedBy::datagram) + 1);
  const value_string* kinds = words<tracking::EventKind>(tracking::event_kinds);
  const value_string* causes = words<tracking::Cause>(tracking::causes);
  const value_string* severities = words<tracking::Severity>(4);
  const value_string* operations = words<tracking::MessageKind>(tracking::message_kinds);
  const value_string* outcomes = words<tracking::Outcome>(index(tracking::Outcome::partial) + 1);
  const value_string* upper_words = words<Upper>(index(Upper::smb_direct) + 1);
  const value_string* finding_words = words<ParseError::Kind>(4);
  return {
      {wire, "wire", "Wire", named(wire_words()), "RDMA wire format of the packet"},
      {payload, "payload", "Payload", bytes, "bytes after all headers, without padding and CRCs"},
      {payload_length, "payload.length", "Payload length", number,
       "payload bytes of the transport on the wire, including upper layer headers, without padding"},
      {pad, "pad", "Pad", bytes, "padding bytes after the payload"},
      {icrc, "icrc", "Invariant CRC", hexadecimal, "value in the packet"},
      {icrc_status, "icrc.status", "Status", named(status), "result of the CRC check"},
      {icrc_computed, "icrc.computed", "Computed", hexadecimal, "value computed from the packet's bytes"},
      {icrc_source_port, "icrc.source_port", "Source port with valid CRC", number,
       "the CRC is valid with this UDP source port, which was modified in transit"},
      {vcrc, "vcrc", "Variant CRC", {FT_UINT16, BASE_HEX}, "value in the packet"},
      {vcrc_status, "vcrc.status", "Status", named(status), "result of the CRC check"},
      {vcrc_computed, "vcrc.computed", "Computed", {FT_UINT16, BASE_HEX}, "value computed from the packet's bytes"},
      {pdu, "pdu", "PDU", none, "a unit of the byte stream that ends in this frame: an MPA frame or an FPDU"},
      {pdu_offset, "pdu.offset", "Offset in this frame", number, "offset of the PDU's bytes in this frame"},
      {pdu_length, "pdu.length", "Bytes in this frame", number,
       "number of bytes of the PDU in this frame (0: the PDU only waited for this frame)"},
      {pdu_reassembled, "pdu.reassembled", "Reassembled", flag,
       "reassembled from several frames, or markers were removed"},
      {pdu_markers, "pdu.markers", "Markers", number, "number of markers removed"},
      {pdu_wrong_marker, "pdu.wrong_marker", "Wrong marker", flag,
       "one of the markers does not point to the start of the FPDU"},
      {crc, "crc", "MPA CRC", hexadecimal, "value in the FPDU"},
      {crc_status, "crc.status", "Status", named(status), "result of the CRC check"},
      {crc_computed, "crc.computed", "Computed", hexadecimal, "value computed from the FPDU's bytes"},
      {upper, "upper", "Upper layer protocol", named(upper_words), "protocol that the connection transports"},
      {upper_reason, "upper.reason", "Reason", text, "evidence for the upper layer protocol"},
      {upper_frame, "upper.frame", "Detected in", frame, "frame of the evidence"},
      {note, "note", "Note", text, "note about the frame's role in its connection, such as \"TCP retransmission\""},
      {finding, "finding", "Finding", text, "an error found while decoding"},
      {finding_kind, "finding.kind", "Kind", named(finding_words), nullptr},
      {finding_offset, "finding.offset", "Offset", number, "offset of the layer"},
      {stream, "stream", "Stream index", number,
       "index of the connection, from 0. In one pass in the order of arrival, afterwards in the order of first frames"},
      {time_delta, "time_delta", "Time since previous frame in this connection", duration, nullptr},
      {time_relative, "time_relative", "Time since first frame in this connection", duration, nullptr},
      {completeness,
       "completeness",
       "Completeness",
       {FT_UINT8, BASE_DEC},
       "parts of the connection that were captured: 1 establishment, 2 requests, 4 responses, 8 close, 16 abort "
       "(rejected, terminated or reset)"},
      {completeness_text, "completeness.str", "Completeness flags", text,
       "the same as letters: E, Q, R, C, A, or a dot"},
      {analysis, "analysis", "Analysis", none, "role of the frame in its connection"},
      {flags, "analysis.flags", "RDMA analysis flags", none,
       "the frame is a retransmission, or has a warning, an error, or a violation that is not a known harmless "
       "deviation"},
      {connection, "analysis.connection", "Connection", number, "number of the connection's first frame"},
      {service, "analysis.service", "Service", named(service_words), nullptr},
      {paired_by, "analysis.paired_by", "Directions paired by", named(joined_words),
       "evidence for pairing the two directions of the connection"},
      {mtu, "analysis.mtu", "Path MTU", number, "maximum payload in bytes, negotiated or inferred"},
      {opened_in, "analysis.opened_in", "Opened in", frame, "frame that completed the connection establishment"},
      {open_time, "analysis.open_time", "Time to open", duration, "from the connection request to the reply"},
      {closed_in, "analysis.closed_in", "Closed in", frame, nullptr},
      {sender, "analysis.sender", "Sender", named(end_words),
       "endpoint that sent the frame (a: sender of the first frame or of the connection request)"},
      {from, "analysis.from", "From", text, "the sender: address and QP, or TCP port"},
      {to, "analysis.to", "To", text, "the receiver: address and QP, or TCP port"},
      {endpoint, "analysis.endpoint", "Either endpoint", text, "for filters"},
      {own_qp, "analysis.qp", "Sender's QP", {FT_UINT32, BASE_HEX_DEC}, "for iWARP the sender's TCP port"},
      {peer_qp, "analysis.peer_qp", "Receiver's QP", {FT_UINT32, BASE_HEX_DEC}, "for iWARP the receiver's TCP port"},
      {either_qp, "analysis.either_qp", "QP of either endpoint", {FT_UINT32, BASE_HEX_DEC}, "for filters"},
      {relative_psn, "analysis.relative_psn", "Relative PSN", number,
       "relative to the first PSN of its direction's requests"},
      {outstanding, "analysis.outstanding", "Packets in flight", number,
       "number of unacknowledged packets of the requester after this frame"},
      {outstanding_bytes, "analysis.outstanding_bytes", "Bytes in flight", number,
       "payload bytes of these packets, as far as their first transmission was seen"},
      {acknowledges, "analysis.acknowledges", "Packets acknowledged", number,
       "packets that this frame acknowledges for the first time (more than one: coalesced acknowledgements)"},
      {completes, "analysis.completes", "Messages completed", number, "number of messages that this frame completes"},
      {duplicate_acknowledgement, "analysis.duplicate_acknowledgement", "Acknowledged before", flag,
       "a response to a request that was already acknowledged"},
      {duplicate_number, "analysis.duplicate_acknowledgement.number", "Duplicate acknowledgement number", number,
       "number of this duplicate since the last new acknowledgement"},
      {repeated_response, "analysis.repeated_response", "Repeated READ response", flag,
       "a READ response whose PSN was in an earlier frame of the connection"},
      {unseen_request, "analysis.unseen_request", "Response to unseen request", flag,
       "a response to a request that is missing in the capture so far"},
      {reads, "analysis.reads_outstanding", "READs and atomics outstanding", number,
       "number of READs and atomics without a response"},
      {reads_allowed, "analysis.reads_allowed", "READs and atomics allowed", number,
       "negotiated maximum of outstanding READs and atomics"},
      {credits, "analysis.credits", "Credits left", number,
       "additional messages that the responder can accept, from its last acknowledgement"},
      {again, "analysis.seen_before", "Seen before", flag, "retransmitted or duplicate packet"},
      {first_sent_in, "analysis.first_sent_in", "First seen in", frame, "first frame with the same packet"},
      {first_sent_ago, "analysis.first_sent_ago", "Time since it was first seen", duration, nullptr},
      {answers_frame, "analysis.answers", "Response to request in", request,
       "frame with the first transmission of the request"},
      {answers_after, "analysis.answers_after", "Time since that request", duration,
       "since the last transmission of the request"},
      {retransmitted_in, "analysis.retransmitted_in", "Retransmitted in", frame, "next frame with the same packet"},
      {round, "analysis.go_back_n", "Go back N", number, "number of the retransmission burst of the requester, from 1"},
      {round_frame, "analysis.go_back_n.starts_in", "Starts in", frame, "first retransmitted packet"},
      {round_last_frame, "analysis.go_back_n.ends_in", "Ends in", frame, "last retransmitted packet"},
      {round_origin_frame, "analysis.go_back_n.goes_back_to", "First transmission in", frame,
       "frame with the first transmission of the burst's first packet. If it was not captured, the last captured frame "
       "before the gap"},
      {round_packets, "analysis.go_back_n.packets", "Retransmitted packets", wide, "number of packets in the burst"},
      {round_bytes, "analysis.go_back_n.bytes", "Retransmitted bytes", wide, "number of payload bytes in the burst"},
      {round_cause, "analysis.go_back_n.cause", "Cause", named(causes), nullptr},
      {round_cause_frame, "analysis.go_back_n.cause_frame", "Caused by", frame, nullptr},
      {round_reaction, "analysis.go_back_n.reaction_time", "Reaction time", duration,
       "from the NAK or RNR NAK to the first retransmitted packet"},
      {round_cost, "analysis.go_back_n.time", "Time since first transmission", duration,
       "time since the first transmission of the burst's first packet (for a timeout the duration of the timer)"},
      {mrc_connection, "analysis.mrc.connection", "MRC connection", number,
       "frame of the first WRITE to the QP, which identifies the connection"},
      {mrc_retransmission, "analysis.mrc.retransmission", "Retransmission", flag,
       "the PSN was sent before, or the packet has RTX"},
      {mrc_out_of_order, "analysis.mrc.out_of_order", "Out of order", flag, "a later PSN was captured before"},
      {mrc_path_state, "analysis.mrc.path_state", "State of the path", named(mrc_path_words),
       "state of the entropy value after this packet: that of a WRITE or probe, or that in a SACK or NACK"},
      {mrc_path_state_frame, "analysis.mrc.path_state_frame", "State since", frame, "packet that caused the state"},
      {rnr_timer, "analysis.rnr_timer", "RNR timer", duration, "minimum wait requested by the receiver"},
      {rnr_wait, "analysis.rnr_wait", "RNR wait", duration, "actual wait"},
      {rnr_early, "analysis.rnr_early", "Retried too early", flag, "retransmitted before the RNR timer expired"},
      {msn_expected, "analysis.msn_expected", "MSN expected", number,
       "MSN according to the number of completed messages"},
      {msn_found, "analysis.msn_found", "MSN found", number, nullptr},
      {cnp_flow, "analysis.cnp.flow", "CNP to the flow", text,
       "addresses of the flow whose sender must reduce its rate"},
      {cnp_ce_frame, "analysis.cnp.ce_frame", "CNP for", frame,
       "last frame of that flow with an ECN mark (congestion experienced)"},
      {cnp_latency, "analysis.cnp.latency", "Time since that mark", duration, nullptr},
      {cnp_marked, "analysis.cnp.marked", "Frames marked", number,
       "ECN-marked frames of that flow since the previous CNP (0: no cause in the capture)"},
      {cnp_before, "analysis.cnp.previous", "Previous CNP", frame, "preceding frame with a CNP to this flow"},
      {cnp_interval, "analysis.cnp.interval", "Time since previous CNP", duration, nullptr},
      {cnp_rate_before, "analysis.cnp.rate_before", "Rate before", wide, "payload rate of the flow, bits per second"},
      {cnp_rate_after, "analysis.cnp.rate_after", "Rate after", wide, "payload rate of the flow, bits per second"},
      {ce_notified_in, "analysis.ecn_marked.cnp_in", "CNP in", frame, "first CNP to this flow after the mark"},
      {message, "message.number", "Message", number, "number of the requester's message, from 1"},
      {message_of, "message.requester", "Requester", named(end_words), "endpoint that sent the request"},
      {message_operation, "message.operation", "Operation", named(operations), nullptr},
      {message_outcome, "message.outcome", "Outcome", named(outcomes), nullptr},
      {message_size, "message.size", "Size", wide,
       "number of payload bytes that were sent, written, or requested by a READ. Each packet of the message has this "
       "field. Sums need payload.length"},
      {message_packets, "message.packets", "Packets", number, "number of different packets, without retransmissions"},
      {message_repeated, "message.repeated", "Retransmitted packets", number, nullptr},
      {message_key, "message.key", "Key", hexadecimal, "R_Key or STag"},
      {message_address, "message.address", "Remote address", address, nullptr},
      {message_first_psn, "message.first_psn", "First PSN", number, "for iWARP the MSN"},
      {message_last_psn, "message.last_psn", "Last PSN", number, "for a READ the last PSN of its responses"},
      {request_in, "analysis.request_in", "Request in", request, "first frame of the message"},
      {request_ends_in, "analysis.request_ends_in", "Request ends in", request, nullptr},
      {response_in, "analysis.response_in", "First response in", response, nullptr},
      {acknowledged_in, "analysis.acknowledged_in", "Acknowledged in", acknowledgement,
       "acknowledgement or response that completed the message"},
      {response_time, "analysis.response_time", "Time to the first response", duration,
       "from the message's first packet"},
      {acknowledgement_time, "analysis.acknowledgement_time", "Time to the acknowledgement", duration,
       "from the message's first packet to the frame that completed it"},
      {request_time, "analysis.request_time", "Time to send the request", duration,
       "from the message's first packet to its last"},
      {ended, "analysis.message_part", "Message", text, "role of the frame in a message"},
      {event, "event", "Event", text, "event that starts in this frame"},
      {event_kind, "event.kind", "Kind", named(kinds), nullptr},
      {event_severity, "event.severity", "Severity", named(severities), nullptr},
      {event_cause, "event.cause", "Cause", named(causes), "reason or location of the event"},
      {event_end, "event.end", "Affected endpoint", named(end_words), "a or b, as in rdmawire.analysis.sender"},
      {event_connection, "event.connection", "Connection", number, nullptr},
      {event_frame, "event.frame", "First frame", frame, nullptr},
      {event_last_frame, "event.last_frame", "Last frame", frame, nullptr},
      {event_origin_frame, "event.origin_frame", "Related frame", frame,
       "frame of the retransmitted or acknowledged packet, or of the packet before the gap"},
      {event_cause_frame, "event.cause_frame", "Caused by", frame,
       "frame of the NAK or RNR NAK, or of the response that implies a NAK"},
      {event_duration, "event.duration", "Cost", duration,
       "time from the first transmission to the retransmission, or waiting time"},
      {event_packets, "event.packets", "Packets", wide, "number of retransmitted, missing or marked packets"},
      {event_bytes, "event.bytes", "Bytes", wide, "number of RDMA payload bytes of these packets"},
      {event_psn, "event.psn", "PSN", number, "first affected PSN (iWARP: MSN, TCP: sequence number)"},
      {event_value, "event.value", "Value", wide,
       "expected or reference value, which depends on the kind, such as an RNR timer in ns or an expected MSN"},
      {event_found, "event.found", "Found", wide, "observed value"},
      {violation, "violation", "Violation of the specification", text, "according to our reading of the specification"},
      {violation_rule, "violation.rule", "Rule", text, nullptr},
      {violation_alias, "violation.alias", "Catalog number", text, nullptr},
      {violation_level, "violation.level", "Level", text, "shall, should or may"},
      {violation_clause, "violation.clause", "Clause", text, nullptr},
      {violation_expected, "violation.expected", "Expected", text, nullptr},
      {violation_actual, "violation.actual", "Actual", text, nullptr},
      {violation_count, "violation.count", "Count on this connection", wide, nullptr},
      {violation_last_frame, "violation.last_frame", "Last seen in", frame, nullptr},
      {violation_related, "violation.related", "See also", frame, "another frame of the violation"},
      {violation_known, "violation.known_deviation", "Known deviation", text,
       "the sender is a known stack, and this deviation does not affect its peers"},
      {reassembled_in, "reassembled_in", "Reassembled in", frame, "frame with the complete message"},
      {reassembled_length, "reassembled.length", "Reassembled bytes", number, nullptr},
      {reassembled_data, "reassembled.data", "Reassembled message", bytes, nullptr},
      {segment, "segment", "Segment of the message", frame, "a frame with a part of the message"},
  };
}

std::array<int, index(Own::count_)> own_ids;
std::array<int, index(Subtree::count_)> subtree_ids;
std::array<expert_field, tracking::event_kinds> event_experts;
std::array<expert_field, conformance::rules.size()> rule_experts;
expert_field known_deviation_expert;
std::array<expert_field, 4> finding_experts;

constexpr int severity_of(tracking::Severity severity) {
  switch (severity) {
    case tracking::Severity::note: return PI_CHAT;
    case tracking::Severity::info: return PI_NOTE;
    case tracking::Severity::warning: return PI_WARN;
    case tracking::Severity::error: return PI_ERROR;
  }
  return PI_NOTE;
}

ei_register_info expert_row(expert_field& id, std::string name, int group, int severity, std::string_view summary) {
  id = EI_INIT;
  ei_register_info info{};
  info.ids = &id;
  info.eiinfo.name = keep(std::move(name));
  info.eiinfo.group = group;
  info.eiinfo.severity = severity;
  info.eiinfo.summary = keep(summary);
  return info;
}

void register_experts(int proto) {
  auto& rows = *new std::vector<ei_register_info>;  // persistent, like Wireshark's own tables
  for (const tracking::EventRow& event : tracking::event_rows)
    rows.push_back(expert_row(event_experts[index(event.kind)], "rdmawire.analysis." + std::string(event.name),
                              event.kind == tracking::EventKind::crc_bad ? PI_CHECKSUM : PI_SEQUENCE,
                              severity_of(event.severity), event.meaning));
  constexpr int level_severities[] = {PI_ERROR, PI_WARN, PI_NOTE, PI_NOTE};
  for (std::size_t i = 0; i < rule_experts.size(); ++i) {
    const conformance::Rule& rule = conformance::rules[i];
    rows.push_back(expert_row(rule_experts[i], "rdmawire.rule." + std::string(rule.id), PI_PROTOCOL,
                              level_severities[index(rule.level)],
                              std::string(rule.id) + ": " + std::string(rule.sentence)));
  }
  rows.push_back(expert_row(known_deviation_expert, "rdmawire.analysis.known_deviation", PI_PROTOCOL, PI_NOTE,
                            "known deviation of the sender's stack, without effect on its peer"));
  constexpr int finding_severities[] = {PI_NOTE, PI_ERROR, PI_WARN, PI_WARN};
  constexpr const char* findings[] = {"the capture truncated the packet: decoding stopped here",
                                      "malformed packet: decoding stopped here", "unknown value: decoding stopped here",
                                      "limit of nesting or length reached: decoding stopped here"};
  for (std::size_t i = 0; i < finding_experts.size(); ++i) {
    const auto kind = static_cast<ParseError::Kind>(i);
    rows.push_back(expert_row(finding_experts[i], "rdmawire.finding.is_" + std::string(to_string(kind)), PI_MALFORMED,
                              finding_severities[i], findings[i]));
  }
  expert_register_field_array(expert_register_protocol(proto), rows.data(), static_cast<int>(rows.size()));
}

}  // namespace

const HeaderFields& fields_of(const HeaderInfo& header) { return header_fields().at(&header); }
int field_id(Own field) { return own_ids[index(field)]; }
int subtree_id(Subtree subtree) { return subtree_ids[index(subtree)]; }
expert_field& expert_of(tracking::EventKind kind) { return event_experts[index(kind)]; }
expert_field& expert_of(const conformance::Rule& rule) {
  return rule_experts[static_cast<std::size_t>(&rule - conformance::rules.data())];
}
expert_field& known_deviation() { return known_deviation_expert; }
expert_field& expert_of(ParseError::Kind kind) { return finding_experts[index(kind)]; }

void register_fields(int proto) {
  own_ids.fill(unregistered);
  subtree_ids.fill(-1);
  auto& rows = *new std::vector<hf_register_info>;  // persistent: Wireshark keeps pointers into it
  std::vector<int*> trees;
  for (const HeaderInfo* header : all_headers()) add_header(*header, rows, trees);
  for (const OwnRow& own : own_rows())
    rows.push_back(row(&own_ids[index(own.field)], own.name, std::string("rdmawire.") + own.abbreviation, own.kind,
                       own.meaning ? own.meaning : ""));
  for (int& id : subtree_ids) trees.push_back(&id);
  proto_register_field_array(proto, rows.data(), static_cast<int>(rows.size()));
  proto_register_subtree_array(trees.data(), static_cast<int>(trees.size()));
  register_experts(proto);
}

}  // namespace rdmawire::wireshark
