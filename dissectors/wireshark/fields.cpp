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

/// Texts with a zero at their end that stay: Wireshark keeps the pointers.
const char* keep(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}
const char* keep(std::string_view text) { return keep(std::string(text)); }

constexpr std::size_t index(auto value) { return static_cast<std::size_t>(value); }

// ---------------------------------------------------------------------------------------------------- header tables

/// The names of an enumeration as Wireshark takes them.
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

/// The field's name within the field that it is part of.
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

/// value_strings of an enumeration whose words to_string() gives, from 0 to `count` - 1.
template <class Enumeration>
const value_string* words(std::size_t count) {
  auto& all = *new std::vector<value_string>;  // stays: Wireshark keeps the pointer
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
      {wire, "wire", "Wire", named(wire_words()), "which RDMA wire the packet belongs to"},
      {payload, "payload", "Payload", bytes, "what no header claimed, without pad and CRCs"},
      {pad, "pad", "Pad", bytes, "padding bytes behind the payload"},
      {icrc, "icrc", "Invariant CRC", hexadecimal, "as the packet holds it"},
      {icrc_status, "icrc.status", "Status", named(status), "the CRC, verified"},
      {icrc_computed, "icrc.computed", "Computed", hexadecimal, "what the packet's bytes give"},
      {icrc_source_port, "icrc.source_port", "Source port that makes it good", number,
       "with this UDP source port the CRC would be right: it was changed on the way"},
      {vcrc, "vcrc", "Variant CRC", {FT_UINT16, BASE_HEX}, "as the packet holds it"},
      {vcrc_status, "vcrc.status", "Status", named(status), "the CRC, verified"},
      {vcrc_computed, "vcrc.computed", "Computed", {FT_UINT16, BASE_HEX}, "what the packet's bytes give"},
      {pdu, "pdu", "PDU", none, "a unit of the byte stream that ends in this frame: an MPA frame or an FPDU"},
      {pdu_offset, "pdu.offset", "Offset in this frame", number, "of those of its bytes that this frame carried"},
      {pdu_length, "pdu.length", "Bytes in this frame", number, "of the PDU; 0: it was only waiting for this frame"},
      {pdu_reassembled, "pdu.reassembled", "Reassembled", flag,
       "other frames carried some of it, or markers were taken out"},
      {pdu_markers, "pdu.markers", "Markers", number, "that were taken out"},
      {pdu_wrong_marker, "pdu.wrong_marker", "Wrong marker", flag,
       "one of the markers does not point to the FPDU's beginning"},
      {crc, "crc", "MPA CRC", hexadecimal, "as the FPDU holds it"},
      {crc_status, "crc.status", "Status", named(status), "the CRC, verified"},
      {crc_computed, "crc.computed", "Computed", hexadecimal, "what the FPDU's bytes give"},
      {upper, "upper", "Upper layer protocol", named(upper_words), "which the connection carries"},
      {upper_reason, "upper.reason", "Because", text, "why that is known"},
      {upper_frame, "upper.frame", "Known from", frame, "where it was seen"},
      {note, "note", "Note", text, "what is remarkable about the frame in its connection"},
      {finding, "finding", "Finding", text, "what decoding found wrong"},
      {finding_kind, "finding.kind", "Kind", named(finding_words), nullptr},
      {finding_offset, "finding.offset", "Offset", number, "of the layer"},
      {analysis, "analysis", "Analysis", none, "what the frame is to its connection"},
      {connection, "analysis.connection", "Connection", number, "named by the number of its first frame"},
      {service, "analysis.service", "Service", named(service_words), nullptr},
      {paired_by, "analysis.paired_by", "Directions joined by", named(joined_words),
       "what says that the two directions are one connection's"},
      {mtu, "analysis.mtu", "Path MTU", number, "bytes of payload; as the CM or the programs said, or as it shows"},
      {opened_in, "analysis.opened_in", "Opened in", frame, "what made the connection ready"},
      {open_time, "analysis.open_time", "Time to open it", duration, "from the request to the reply that opened it"},
      {closed_in, "analysis.closed_in", "Closed in", frame, nullptr},
      {sender, "analysis.sender", "Sender", named(end_words),
       "which end sent the frame; a: sent the first frame, or the request for the connection"},
      {from, "analysis.from", "From", text, "the sender: address and queue pair, or TCP port"},
      {to, "analysis.to", "To", text, "the receiver: address and queue pair, or TCP port"},
      {endpoint, "analysis.endpoint", "Either end", text, "to filter by"},
      {own_qp, "analysis.qp", "Sender's queue pair", {FT_UINT32, BASE_HEX_DEC}, "iWARP: its TCP port"},
      {peer_qp, "analysis.peer_qp", "Receiver's queue pair", {FT_UINT32, BASE_HEX_DEC}, "iWARP: its TCP port"},
      {either_qp, "analysis.either_qp", "Queue pair of either end", {FT_UINT32, BASE_HEX_DEC}, "to filter by"},
      {relative_psn, "analysis.relative_psn", "Relative PSN", number, "from the first PSN of its direction's requests"},
      {outstanding, "analysis.outstanding", "Packets in flight", number,
       "packets of the requester that are not acknowledged after this one"},
      {outstanding_bytes, "analysis.outstanding_bytes", "Bytes in flight", number,
       "of payload, of these packets, as far as their first sending was seen"},
      {acknowledges, "analysis.acknowledges", "Packets acknowledged", number,
       "packets of the requester that this one acknowledges first; more than one: acknowledgements were coalesced"},
      {completes, "analysis.completes", "Messages completed", number,
       "that this frame answers or acknowledges in full"},
      {duplicate_acknowledgement, "analysis.duplicate_acknowledgement", "Acknowledged before", flag,
       "a response to what had been acknowledged before"},
      {unseen_request, "analysis.unseen_request", "Answers what was not seen", flag,
       "a response to a request that the capture does not have, so far"},
      {reads, "analysis.reads_outstanding", "READs and atomics outstanding", number, "that wait for their answers"},
      {reads_allowed, "analysis.reads_allowed", "READs and atomics allowed", number,
       "that may be outstanding, as the CM said"},
      {credits, "analysis.credits", "Credits left", number,
       "messages that the responder will take beyond those that were sent, as its last acknowledgement says"},
      {again, "analysis.again", "Seen before", flag, "the packet was seen before"},
      {first_sent_in, "analysis.first_sent_in", "First seen in", frame, "where the same packet was seen first"},
      {first_sent_ago, "analysis.first_sent_ago", "Time since it was first seen", duration, nullptr},
      {answers_frame, "analysis.answers", "Answers the request in", request, nullptr},
      {answers_after, "analysis.answers_after", "Time since that request", duration, nullptr},
      {sent_again_in, "analysis.sent_again_in", "Sent again in", frame, "where the same packet comes next"},
      {round, "analysis.go_back_n", "Go back N", number,
       "a round of sending again that the frame belongs to: so many of its requester's rounds, from 1"},
      {round_frame, "analysis.go_back_n.begins_in", "Begins in", frame, "the first packet that is sent again"},
      {round_last_frame, "analysis.go_back_n.ends_in", "Ends in", frame, "the last packet that is sent again"},
      {round_origin_frame, "analysis.go_back_n.goes_back_to", "Goes back to", frame,
       "the first sending of the first packet; or what stands before it, where that was not captured"},
      {round_packets, "analysis.go_back_n.packets", "Packets sent again", wide, "in the round"},
      {round_bytes, "analysis.go_back_n.bytes", "Bytes sent again", wide, "in the round, of payload"},
      {round_cause, "analysis.go_back_n.cause", "Cause", named(causes), nullptr},
      {round_cause_frame, "analysis.go_back_n.cause_frame", "Brought about by", frame, nullptr},
      {round_reaction, "analysis.go_back_n.reaction_time", "Time to react", duration,
       "from the NAK, or RNR NAK, to the first packet that is sent again"},
      {round_cost, "analysis.go_back_n.time", "Time since the first sending", duration,
       "of the first packet: for a timeout, how long the timer ran"},
      {rnr_timer, "analysis.rnr_timer", "RNR timer", duration, "how long the receiver asked the requester to wait"},
      {rnr_wait, "analysis.rnr_wait", "RNR wait", duration, "how long it waited"},
      {rnr_early, "analysis.rnr_early", "Did not wait long enough", flag, "sent again before the RNR timer ended"},
      {msn_expected, "analysis.msn_expected", "MSN expected", number, "by the messages that were completed"},
      {msn_found, "analysis.msn_found", "MSN found", number, nullptr},
      {cnp_flow, "analysis.cnp.flow", "CNP to the flow", text, "whose sender shall slow down: from and to"},
      {cnp_ce_frame, "analysis.cnp.ce_frame", "CNP for", frame,
       "the last frame of that flow that a switch had marked (congestion experienced)"},
      {cnp_latency, "analysis.cnp.latency", "Time since that mark", duration, nullptr},
      {cnp_marked, "analysis.cnp.marked", "Frames marked", number,
       "of that flow, since the CNP before; 0: the capture shows no reason for the CNP"},
      {cnp_before, "analysis.cnp.previous", "CNP before", frame, "to the same flow"},
      {cnp_interval, "analysis.cnp.interval", "Time since the CNP before", duration, nullptr},
      {cnp_rate_before, "analysis.cnp.rate_before", "Rate before", wide, "of the flow, bits a second of payload"},
      {cnp_rate_after, "analysis.cnp.rate_after", "Rate after", wide, "likewise"},
      {ce_notified_in, "analysis.ecn_marked.cnp_in", "CNP in", frame, "the first one to this flow after the mark"},
      {message, "message.number", "Message", number, "of its requester's messages, from 1"},
      {message_of, "message.requester", "Requester", named(end_words), "whose message it is"},
      {message_operation, "message.operation", "Operation", named(operations), nullptr},
      {message_outcome, "message.outcome", "Outcome", named(outcomes), nullptr},
      {message_size, "message.size", "Size", wide, "bytes of payload: sent, written, or asked for by a read"},
      {message_packets, "message.packets", "Packets", number, "that carry it, each counted once"},
      {message_repeated, "message.repeated", "Packets sent again", number, nullptr},
      {message_key, "message.key", "Key", hexadecimal, "rkey or STag"},
      {message_address, "message.address", "Remote address", address, nullptr},
      {message_first_psn, "message.first_psn", "First PSN", number, "iWARP: MSN"},
      {message_last_psn, "message.last_psn", "Last PSN", number, "of a read: of its responses"},
      {request_in, "analysis.request_in", "Request in", request, "where the message begins"},
      {request_ends_in, "analysis.request_ends_in", "Request ends in", request, nullptr},
      {response_in, "analysis.response_in", "First response in", response, nullptr},
      {acknowledged_in, "analysis.acknowledged_in", "Acknowledged in", acknowledgement,
       "the acknowledgement, or the response, that completed the message"},
      {response_time, "analysis.response_time", "Time to the first response", duration,
       "from the message's first packet"},
      {acknowledgement_time, "analysis.acknowledgement_time", "Time to the acknowledgement", duration,
       "from the message's first packet to what completed it"},
      {request_time, "analysis.request_time", "Time to send the request", duration,
       "from the message's first packet to its last"},
      {ended, "analysis.message_part", "Message", text, "what the frame is to a message"},
      {event, "event", "Event", text, "what happened here"},
      {event_kind, "event.kind", "Kind", named(kinds), nullptr},
      {event_severity, "event.severity", "Severity", named(severities), nullptr},
      {event_cause, "event.cause", "Cause", named(causes), "why it happened, or where"},
      {event_end, "event.end", "AffectedConnection", named(end_words), "which end of the connection"},
      {event_connection, "event.connection", "Connection", number, nullptr},
      {event_frame, "event.frame", "Shows first in", frame, nullptr},
      {event_last_frame, "event.last_frame", "Last frame", frame, "that belongs to it"},
      {event_origin_frame, "event.origin_frame", "Goes back to", frame,
       "the packet that is sent again or acknowledged, or stands before the gap"},
      {event_cause_frame, "event.cause_frame", "Brought about by", frame,
       "the NAK, the RNR NAK, the response that implies a NAK"},
      {event_duration, "event.duration", "Cost", duration, "from the first sending to the one that repeats it; waited"},
      {event_packets, "event.packets", "Packets", wide, "sent again, missing, marked"},
      {event_bytes, "event.bytes", "Bytes", wide, "of RDMA payload of these packets"},
      {event_psn, "event.psn", "PSN", number, "the first one concerned; iWARP: MSN; TCP: sequence number"},
      {event_value, "event.value", "Value", wide, "what the kind calls for: RNR timer in ns, expected MSN, MTU"},
      {event_found, "event.found", "Found", wide, "what was there instead, or happened"},
      {violation, "violation", "Deviation from the specification", text,
       "as we read it, and as far as these packets show"},
      {violation_rule, "violation.rule", "Rule", text, nullptr},
      {violation_alias, "violation.alias", "Catalog number", text, nullptr},
      {violation_level, "violation.level", "Level", text, "shall, should or may"},
      {violation_clause, "violation.clause", "Clause", text, nullptr},
      {violation_expected, "violation.expected", "Expected", text, nullptr},
      {violation_actual, "violation.actual", "Actual", text, nullptr},
      {violation_count, "violation.count", "Times on this connection", wide, nullptr},
      {violation_last_frame, "violation.last_frame", "Last seen in", frame, nullptr},
      {violation_related, "violation.related", "See also", frame, "another frame that shows it"},
      {reassembled_in, "reassembled_in", "Reassembled in", frame, "where the whole message is shown"},
      {reassembled_length, "reassembled.length", "Reassembled bytes", number, nullptr},
      {reassembled_data, "reassembled.data", "Reassembled message", bytes, nullptr},
      {segment, "segment", "Segment of the message", frame, "a frame that carries a part of it"},
  };
}

std::array<int, index(Own::count_)> own_ids;
std::array<int, index(Subtree::count_)> subtree_ids;
std::array<expert_field, tracking::event_kinds> event_experts;
std::array<expert_field, 4> level_experts;
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
  auto& rows = *new std::vector<ei_register_info>;  // stays, as Wireshark's own tables do
  for (const tracking::EventRow& event : tracking::event_rows)
    rows.push_back(expert_row(event_experts[index(event.kind)], "rdmawire.analysis." + std::string(event.name),
                              event.kind == tracking::EventKind::crc_bad ? PI_CHECKSUM : PI_SEQUENCE,
                              severity_of(event.severity), event.meaning));
  constexpr const char* levels[] = {"shall", "should", "may", "tool"};
  constexpr int level_severities[] = {PI_ERROR, PI_WARN, PI_NOTE, PI_NOTE};
  for (std::size_t i = 0; i < level_experts.size(); ++i)
    rows.push_back(expert_row(level_experts[i], std::string("rdmawire.violation.of_") + levels[i], PI_PROTOCOL,
                              level_severities[i], "a deviation from the specification"));
  constexpr int finding_severities[] = {PI_NOTE, PI_ERROR, PI_WARN, PI_WARN};
  for (std::size_t i = 0; i < finding_experts.size(); ++i) {
    const auto kind = static_cast<ParseError::Kind>(i);
    rows.push_back(expert_row(finding_experts[i], "rdmawire.finding.is_" + std::string(to_string(kind)), PI_MALFORMED,
                              finding_severities[i], "decoding could not go on here"));
  }
  expert_register_field_array(expert_register_protocol(proto), rows.data(), static_cast<int>(rows.size()));
}

}  // namespace

const HeaderFields& fields_of(const HeaderInfo& header) { return header_fields().at(&header); }
int field_id(Own field) { return own_ids[index(field)]; }
int subtree_id(Subtree subtree) { return subtree_ids[index(subtree)]; }
expert_field& expert_of(tracking::EventKind kind) { return event_experts[index(kind)]; }
expert_field& expert_of(conformance::Level level) { return level_experts[index(level)]; }
expert_field& expert_of(ParseError::Kind kind) { return finding_experts[index(kind)]; }

void register_fields(int proto) {
  own_ids.fill(unregistered);
  subtree_ids.fill(-1);
  auto& rows = *new std::vector<hf_register_info>;  // stays: Wireshark keeps pointers into it
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
