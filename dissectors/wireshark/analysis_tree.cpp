// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/analysis_tree.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "dissectors/output/value.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/wireshark/fields.hpp"

namespace rdmawire::wireshark {
namespace {

constexpr const char* name(Side end) { return end == Side::a ? "a" : "b"; }

/// A subtree of generated items, which have no bytes in the frame.
class Branch {
 public:
  Branch(proto_tree* tree, tvbuff_t* tvb) : tree_(tree), tvb_(tvb) {}

  Branch below(proto_item* item, Subtree subtree) const {
    return {item ? proto_item_add_subtree(item, subtree_id(subtree)) : nullptr, tvb_};
  }
  proto_item* heading(Own field) const { return mark(proto_tree_add_item(tree_, field_id(field), tvb_, 0, 0, ENC_NA)); }
  proto_item* number(Own field, std::uint64_t value) const {
    return mark(proto_tree_add_uint(tree_, field_id(field), tvb_, 0, 0, static_cast<guint32>(value)));
  }
  proto_item* wide(Own field, std::uint64_t value) const {
    return mark(proto_tree_add_uint64(tree_, field_id(field), tvb_, 0, 0, value));
  }
  proto_item* flag(Own field, bool value) const {
    return mark(proto_tree_add_boolean(tree_, field_id(field), tvb_, 0, 0, value));
  }
  /// Adds a frame number, or nothing if it is 0.
  void frame(Own field, std::uint64_t value) const {
    if (value) number(field, value);
  }
  void duration(Own field, std::int64_t nanoseconds) const {
    const nstime_t time = nstime_of(nanoseconds);
    mark(proto_tree_add_time(tree_, field_id(field), tvb_, 0, 0, &time));
  }
  /// `value` must be zero-terminated.
  proto_item* text(Own field, const char* value) const {
    return mark(proto_tree_add_string(tree_, field_id(field), tvb_, 0, 0, value));
  }

 private:
  static proto_item* mark(proto_item* item) {
    proto_item_set_generated(item);
    return item;
  }
  proto_tree* tree_;
  tvbuff_t* tvb_;
};

const char* part_text(Part part, const MessageFacts& message) {
  switch (part) {
    case Part::begins: return message.first_frame == message.last_frame ? "sent here" : "starts here";
    case Part::ends: return "ends here";
    case Part::first_response: return "first response";
    case Part::answer: return "completed here";
  }
  return "";
}

void add_message(const Branch& tree, std::uint64_t frame, const MessageFacts& message, const char* part) {
  const Branch inside = tree.below(tree.text(Own::ended, part), Subtree::message);
  inside.number(Own::message, message.number);
  inside.number(Own::message_of, index(message.end));
  inside.number(Own::message_operation, index(message.kind));
  inside.number(Own::message_outcome, index(message.outcome));
  inside.wide(Own::message_size, message.size);
  inside.number(Own::message_packets, message.packets);
  if (message.repeated_packets) inside.number(Own::message_repeated, message.repeated_packets);
  inside.number(Own::message_first_psn, message.first_psn);
  inside.number(Own::message_last_psn, message.last_psn);
  if (message.has_remote) {
    inside.number(Own::message_key, message.key);
    inside.wide(Own::message_address, message.remote_address);
  }
  if (message.first_frame != frame) inside.frame(Own::request_in, message.first_frame);
  if (message.last_frame != message.first_frame && message.last_frame != frame)
    inside.frame(Own::request_ends_in, message.last_frame);
  if (message.first_response_frame != frame) inside.frame(Own::response_in, message.first_response_frame);
  if (message.answer_frame != frame) inside.frame(Own::acknowledged_in, message.answer_frame);
  if (message.end_time > message.start) inside.duration(Own::request_time, message.end_time - message.start);
  if (message.first_response_time) inside.duration(Own::response_time, message.first_response_time - message.start);
  if (message.answer_time && message.start)
    inside.duration(Own::acknowledgement_time, message.answer_time - message.start);
}

void add_event(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const Event& event) {
  const tracking::EventRow& row = tracking::event_rows[index(event.kind)];
  proto_item* item = nullptr;
  if (tree) {
    const Branch above(tree, tvb);
    item = above.text(Own::event, row.name.data());
    proto_item_append_text(item, ": %s", row.meaning.data());
    const Branch inside = above.below(item, Subtree::event);
    inside.number(Own::event_kind, index(event.kind));
    inside.number(Own::event_severity, index(row.severity));
    inside.number(Own::event_cause, index(event.cause));
    inside.number(Own::event_end, index(event.end));
    if (event.connection) inside.number(Own::event_connection, event.connection);
    inside.frame(Own::event_frame, event.frame);
    inside.frame(Own::event_last_frame, event.last_frame);
    inside.frame(Own::event_origin_frame, event.origin_frame);
    inside.frame(Own::event_cause_frame, event.cause_frame);
    inside.duration(Own::event_duration, event.duration);
    inside.wide(Own::event_packets, event.packets);
    inside.wide(Own::event_bytes, event.bytes);
    inside.number(Own::event_psn, event.psn);
    inside.wide(Own::event_value, event.value);
    inside.wide(Own::event_found, event.found);
  }
  // A constant text: Wireshark compares each item with all different texts.
  expert_add_info(pinfo, item, &expert_of(event.kind));
}

void add_violation(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const ViolationFacts& facts) {
  const conformance::Violation& violation = *facts.violation;
  const conformance::Rule& rule = violation.of();
  const std::string_view known = conformance::harmless_deviation(facts.stack, rule);
  proto_item* item = nullptr;
  // Texts of rules are zero-terminated constants. Statements are persistent strings.
  if (tree) {
    const Branch above(tree, tvb);
    item = above.text(Own::violation, rule.sentence.data());
    const Branch inside = above.below(item, Subtree::violation);
    inside.text(Own::violation_rule, rule.id.data());
    if (!rule.alias.empty()) inside.text(Own::violation_alias, rule.alias.data());
    inside.text(Own::violation_level, conformance::to_string(rule.level).data());
    // Wireshark may leave this function by longjmp(), so allocated memory must remain reachable.
    static std::string clauses;
    clauses = conformance::clauses_of(rule);
    inside.text(Own::violation_clause, clauses.c_str());
    inside.text(Own::violation_expected, violation.statement.expected.c_str());
    inside.text(Own::violation_actual, violation.statement.actual.c_str());
    inside.wide(Own::violation_count, violation.count);
    inside.frame(Own::violation_last_frame, violation.last_frame);
    for (const std::uint64_t related : violation.statement.related) inside.frame(Own::violation_related, related);
    if (!known.empty()) inside.text(Own::violation_known, known.data());
  }
  if (known.empty())
    expert_add_info(pinfo, item, &expert_of(rule));
  else
    expert_add_info_format(pinfo, item, &known_deviation(), "%s", known.data());
}

/// Index of the connection, its times, and its captured parts.
void add_stream(const Branch& tree, packet_info* pinfo, const FrameFacts& facts) {
  const ConnectionFacts& connection = *facts.connection;
  if (connection.stream == ConnectionFacts::no_stream) return;
  tree.number(Own::stream, connection.stream);
  tree.duration(Own::time_relative, time_of(pinfo->abs_ts) - connection.first_time);
  tree.duration(Own::time_delta, facts.since_previous);
  struct PartOfConnection {
    bool seen;
    char letter;
    const char* name;
  };
  const PartOfConnection parts[] = {{connection.opened_frame != 0, 'E', "establishment"},
                                    {connection.requests, 'Q', "requests"},
                                    {connection.responses, 'R', "responses"},
                                    {connection.closed_frame != 0, 'C', "close"},
                                    {connection.aborted, 'A', "abort"}};
  unsigned value = 0;
  char letters[std::size(parts) * 2 + 1] = "", names[80] = "";
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    const char letter[] = {parts[i].letter, '\0'};
    g_strlcat(letters, parts[i].seen ? letter : "\u00b7", sizeof letters);
    if (!parts[i].seen) continue;
    value |= 1U << i;
    if (names[0]) g_strlcat(names, ", ", sizeof names);
    g_strlcat(names, parts[i].name, sizeof names);
  }
  proto_item_append_text(tree.number(Own::completeness, value), " (%s)", names);
  tree.text(Own::completeness_text, letters);
}

/// Adds the connection that a CM packet establishes or closes.
void add_cm(const Branch& tree, packet_info* pinfo, std::uint64_t frame, const FrameFacts& facts) {
  const ConnectionFacts& connection = *facts.connection;
  tree.number(Own::connection, connection.id);
  add_stream(tree, pinfo, facts);
  if (connection.opened_frame != frame) tree.frame(Own::opened_in, connection.opened_frame);
  if (connection.closed_frame != frame) tree.frame(Own::closed_in, connection.closed_frame);
}

/// Adds the requester's window after the packet, and the effect of a response on the window.
void add_window(const Branch& tree, const PacketNote& note, const FrameFacts& facts) {
  tree.number(Own::outstanding, note.outstanding);
  if (note.outstanding_bytes) tree.number(Own::outstanding_bytes, note.outstanding_bytes);
  if (note.reads || note.read_limit) tree.number(Own::reads, note.reads);
  if (note.read_limit) tree.number(Own::reads_allowed, note.read_limit);
  if (note.credits) tree.number(Own::credits, *note.credits);
  if (note.acknowledged) tree.number(Own::acknowledges, note.acknowledged);
  const auto completed = std::count_if(facts.messages.begin(), facts.messages.end(),
                                       [](const auto& one) { return one.first == Part::answer; });
  if (completed) tree.number(Own::completes, static_cast<std::uint64_t>(completed));
  if (note.answered == tracking::Answered::acknowledged) tree.flag(Own::duplicate_acknowledgement, true);
  if (facts.duplicate_number) tree.number(Own::duplicate_number, facts.duplicate_number);
  if (facts.repeated_response) tree.flag(Own::repeated_response, true);
  if (note.answered == tracking::Answered::unseen) tree.flag(Own::unseen_request, true);
}

/// Adds the role of a packet in its MRC connection.
void add_mrc(const Branch& tree, const tracking::MrcNote& note) {
  tree.number(Own::mrc_connection, note.connection);
  if (note.retransmission) tree.flag(Own::mrc_retransmission, true);
  if (note.out_of_order) tree.flag(Own::mrc_out_of_order, true);
  if (!note.has_path) return;
  tree.number(Own::mrc_path_state, index(note.state));
  tree.frame(Own::mrc_path_state_frame, note.state_frame);
}

/// Adds the retransmission burst that contains the frame.
void add_round(const Branch& tree, const FrameFacts& facts, const Event& round) {
  const Branch inside = tree.below(tree.number(Own::round, facts.round), Subtree::event);
  inside.frame(Own::round_frame, round.frame);
  inside.frame(Own::round_last_frame, round.last_frame);
  inside.frame(Own::round_origin_frame, round.origin_frame);
  // Unknown while the burst continues.
  if (round.packets) {
    inside.wide(Own::round_packets, round.packets);
    inside.wide(Own::round_bytes, round.bytes);
  }
  inside.number(Own::round_cause, index(round.cause));
  inside.frame(Own::round_cause_frame, round.cause_frame);
  if (facts.reaction) inside.duration(Own::round_reaction, facts.reaction);
  if (round.packets || round.duration) inside.duration(Own::round_cost, round.duration);
}

/// Adds `value` and `found` of an event as fields that depend on its kind.
void add_typed(const Branch& tree, const Event& event) {
  using enum tracking::EventKind;
  switch (event.kind) {
    case rnr_nak:
    case retransmission:
      if (event.kind == retransmission && event.cause != tracking::Cause::rnr) break;
      tree.duration(Own::rnr_timer, static_cast<std::int64_t>(event.value));
      if (event.found) tree.duration(Own::rnr_wait, static_cast<std::int64_t>(event.found));
      if (event.found && event.found < event.value) tree.flag(Own::rnr_early, true);
      break;
    case msn_jump:
      tree.number(Own::msn_expected, event.value);
      tree.number(Own::msn_found, event.found);
      break;
    case cnp:
      if (event.value) tree.wide(Own::cnp_rate_before, event.value);
      if (event.value) tree.wide(Own::cnp_rate_after, event.found);
      break;
    default: break;
  }
}

/// Adds the target and the cause of a congestion notification.
void add_notification(const Branch& tree, packet_info* pinfo, const FrameFacts& facts) {
  const NotificationFacts& found = *facts.notification;
  if (facts.connection) {
    const Side slowed = tracking::other(facts.note->end);
    tree.text(Own::cnp_flow, wmem_strdup_printf(pinfo->pool, "%s to %s", end_text(pinfo, *facts.connection, slowed),
                                                end_text(pinfo, *facts.connection, facts.note->end)));
  }
  tree.number(Own::cnp_marked, found.marked);
  if (found.marked_frame) {
    tree.frame(Own::cnp_ce_frame, found.marked_frame);
    tree.duration(Own::cnp_latency, found.after);
  }
  if (found.before_frame) {
    tree.frame(Own::cnp_before, found.before_frame);
    tree.duration(Own::cnp_interval, found.interval);
  }
}

/// Adds a reassembled message as a data source, with its frames.
template <class Frames>
void add_whole(const Branch& here, proto_tree* tree, tvbuff_t* tvb, packet_info* pinfo, Bytes bytes,
               const Frames& frames) {
  const auto length = static_cast<guint>(bytes.size());
  auto* copy = static_cast<guint8*>(wmem_memdup(pinfo->pool, bytes.data(), length));
  tvbuff_t* message = tvb_new_child_real_data(tvb, copy, length, static_cast<gint>(length));
  add_new_data_source(pinfo, message, "Reassembled RDMA message");
  proto_item* item = proto_tree_add_item(tree, field_id(Own::reassembled_data), message, 0, -1, ENC_NA);
  proto_item_set_generated(item);
  const Branch inside = here.below(item, Subtree::message);
  inside.number(Own::reassembled_length, length);
  for (const auto one : frames) inside.frame(Own::segment, one);
}

/// Adds the messages that end in this frame. If the frame contains another segment, adds the frame in which the message
/// is complete.
void add_reassembly(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const Session& session, std::uint64_t frame,
                    const FrameFacts& facts) {
  if (!tree) return;
  static Reassembly whole;  // see above
  const Branch here(tree, tvb);
  if (session.reassemble(frame, whole))
    add_whole(here, tree, tvb, pinfo, whole.bytes, whole.frames);
  else
    here.frame(Own::reassembled_in, session.reassembled_in(frame));
  for (const StreamMessage* message : facts.whole) add_whole(here, tree, tvb, pinfo, message->bytes, message->frames);
  for (const StreamMessage* message : facts.parts) here.frame(Own::reassembled_in, message->frames.back());
}

/// True if the frame deserves attention.
bool is_flagged(const FrameFacts& facts) {
  const auto is_bad = [](tracking::EventKind kind) {
    const tracking::Severity severity = tracking::event_rows[index(kind)].severity;
    return severity == tracking::Severity::warning || severity == tracking::Severity::error;
  };
  return facts.retransmission || facts.repeated_response ||
         std::any_of(facts.events.begin(), facts.events.end(),
                     [&](const Event* event) { return is_bad(event->kind); }) ||
         std::any_of(facts.early.begin(), facts.early.end(),
                     [&](const EarlyResult& result) { return is_bad(result.kind); }) ||
         std::any_of(facts.violations.begin(), facts.violations.end(), [](const ViolationFacts& violation) {
           return violation.stack == conformance::Stack::unknown &&
                  violation.violation->of().level != conformance::Level::may;
         });
}

/// The text of an event in the column Info. nullptr: none. The built-in dissector shows NAKs, CNPs, pause frames,
/// connection management and Terminates.
constexpr const char* info_text(tracking::EventKind kind) {
  switch (kind) {
    using enum tracking::EventKind;
    case retransmission:
    case tcp_retransmission: return "RDMA Retransmission";
    case lost_in_network: return "RDMA Packet Loss";
    case lost_in_capture:
    case psn_gap: return "RDMA Previous Packet Not Captured";
    case out_of_order: return "RDMA Out-Of-Order";
    case duplicate: return "RDMA Duplicate";
    case ghost_acknowledgement: return "RDMA Duplicate ACK";
    case unsolicited_response: return "RDMA Unsolicited Response";
    case unanswered: return "RDMA Unanswered";
    case msn_jump: return "RDMA Unexpected MSN";
    case crc_bad: return "RDMA Bad CRC";
    case truncated: return "RDMA Truncated";
    case pkey_mismatch: return "RDMA P_Key Mismatch";
    case qkey_mismatch: return "RDMA Q_Key Mismatch";
    case segmentation: return "RDMA Wrong Length";
    case opcode_sequence: return "RDMA Opcode Sequence";
    case read_limit: return "RDMA Too Many READs";
    case ecn_marked: return "RDMA ECN Marked";
    case stall: return "RDMA Stall";
    case rejected: return "RDMA Connection Rejected";
    case replaced: return "RDMA QP Reused";
    case path_change: return "RDMA Path Change";
    default: return nullptr;
  }
}

}  // namespace

void show_in_info(packet_info* pinfo, const Packet& packet, const FrameFacts& facts) {
  // Texts are constants: equal texts have equal addresses.
  std::array<const char*, 16> texts;
  std::size_t count = 0;
  const auto add = [&](const char* text) {
    if (text && count < texts.size() && std::find(texts.begin(), texts.begin() + count, text) == texts.begin() + count)
      texts[count++] = text;
  };
  const auto again = [&](const tracking::Cause cause) {
    add(cause == tracking::Cause::spurious ? "RDMA Spurious Retransmission"
                                           : info_text(tracking::EventKind::retransmission));
  };
  const bool response = facts.note && facts.note->answered != tracking::Answered::nothing;
  const auto result = [&](tracking::EventKind kind, tracking::Cause cause) {
    if (kind == tracking::EventKind::retransmission || kind == tracking::EventKind::tcp_retransmission)
      again(cause);
    else if (kind == tracking::EventKind::duplicate && response)
      add(info_text(tracking::EventKind::ghost_acknowledgement));
    else
      add(info_text(kind));
  };
  if (facts.retransmission) again(facts.retransmission->cause);
  for (const EarlyResult& early : facts.early) result(early.kind, early.cause);
  for (const Event* event : facts.events) result(event->kind, event->cause);
  if (facts.repeated_response) add("RDMA Repeated Response");
  const auto bth = packet.stack.get<Bth>();
  if (response && bth && opcode(bth->get<"opcode">()).operation == Operation::acknowledge) {
    if (facts.note->answered == tracking::Answered::acknowledged)
      add(info_text(tracking::EventKind::ghost_acknowledgement));
    else if (facts.note->answered == tracking::Answered::unseen)
      add("RDMA ACKed Unseen Request");
  }
  for (const ViolationFacts& violation : facts.violations)
    if (violation.stack == conformance::Stack::unknown && violation.violation->of().level == conformance::Level::shall)
      add("RDMA Violation");
  while (count > 0) col_prepend_fence_fstr(pinfo->cinfo, COL_INFO, "[%s] ", texts[--count]);
}

void append_summary(proto_item* item, const FrameFacts& facts) {
  if (!facts.note) return;
  proto_item_append_text(item, ", connection %" G_GUINT64_FORMAT " %s to %s", facts.note->connection,
                         name(facts.note->end), name(tracking::other(facts.note->end)));
}

const char* end_text(packet_info* pinfo, const ConnectionFacts& connection, Side end) {
  const tracking::ConnectionEnd& one = connection.ends[index(end)];
  static std::string text;
  text.clear();
  std::uint8_t bytes[16];
  store_be(bytes, 8, one.address.high);
  store_be(bytes + 8, 8, one.address.low);
  constexpr std::uint64_t lids = 0x10000, mapped = 0xffff;
  if (one.address.high == 0 && one.address.low < lids) {
    text = "LID ";
    output::append_decimal(text, one.address.low);
  } else if (one.address.high == 0 && one.address.low >> 32 == mapped) {
    output::append_ipv4(text, bytes + 12);
  } else {
    output::append_ipv6(text, bytes);
  }
  if (one.qp_known && connection.service == tracking::Service::iwarp) {
    text += " port ";
    output::append_decimal(text, one.qp);
  } else if (one.qp_known) {
    text += " QP ";
    output::append_hex(text, one.qp, 6);
  }
  return wmem_strdup(pinfo->pool, text.c_str());
}

void show_analysis(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const Session& session, std::uint64_t frame,
                   const FrameFacts& facts) {
  proto_tree* where = nullptr;
  if (tree && (facts.note || facts.connection || facts.mrc || !facts.messages.empty() || !facts.events.empty() ||
               !facts.violations.empty() || !facts.early.empty() || !facts.whole.empty() || !facts.parts.empty())) {
    const Branch root(tree, tvb);
    proto_item* heading = root.heading(Own::analysis);
    where = proto_item_add_subtree(heading, subtree_id(Subtree::analysis));
  }
  if (where && is_flagged(facts)) Branch(where, tvb).heading(Own::flags);
  // Events precede the other results.
  if (facts.retransmission && facts.retransmission->frame != frame)
    expert_add_info(pinfo, where, &expert_of(facts.retransmission->kind));
  for (const EarlyResult& result : facts.early) expert_add_info(pinfo, where, &expert_of(result.kind));
  for (const Event* event : facts.events) add_event(tvb, pinfo, where, *event);
  for (const ViolationFacts& violation : facts.violations) add_violation(tvb, pinfo, where, violation);
  if (where && facts.mrc) add_mrc(Branch(where, tvb), *facts.mrc);
  if (where && facts.connection && !facts.note) add_cm(Branch(where, tvb), pinfo, frame, facts);
  if (where && facts.note) {
    const Branch inside(where, tvb);
    const PacketNote& note = *facts.note;
    inside.number(Own::connection, note.connection);
    if (facts.connection) {
      add_stream(inside, pinfo, facts);
      inside.number(Own::service, index(facts.connection->service));
      inside.number(Own::paired_by, index(facts.connection->paired_by));
      const auto &own = facts.connection->ends[index(note.end)],
                 &peer = facts.connection->ends[index(tracking::other(note.end))];
      if (facts.connection->mtu) inside.number(Own::mtu, facts.connection->mtu);
      inside.frame(Own::opened_in, facts.connection->opened_frame);
      if (facts.connection->open_duration) inside.duration(Own::open_time, facts.connection->open_duration);
      inside.frame(Own::closed_in, facts.connection->closed_frame);
      if (own.qp_known) inside.number(Own::own_qp, own.qp);
      if (peer.qp_known) inside.number(Own::peer_qp, peer.qp);
      const char* from = end_text(pinfo, *facts.connection, note.end);
      const char* to = end_text(pinfo, *facts.connection, tracking::other(note.end));
      inside.text(Own::from, from);
      inside.text(Own::to, to);
      for (const char* one : {from, to}) proto_item_set_hidden(inside.text(Own::endpoint, one));
      for (const auto* one : {&own, &peer})
        if (one->qp_known) proto_item_set_hidden(inside.number(Own::either_qp, one->qp));
    }
    inside.number(Own::sender, index(note.end));
    inside.number(Own::relative_psn, note.relative_psn);
    add_window(inside, note, facts);
    if (note.again) inside.flag(Own::again, true);
    if (note.related_frame) {
      inside.frame(note.again ? Own::first_sent_in : Own::answers_frame, note.related_frame);
      inside.duration(note.again ? Own::first_sent_ago : Own::answers_after, note.related_delay);
    }
    inside.frame(Own::retransmitted_in, facts.retransmitted_in);
    if (facts.retransmission && facts.retransmission->kind == tracking::EventKind::retransmission)
      add_round(inside, facts, *facts.retransmission);
    else if (facts.early_round)
      add_round(inside, facts, *facts.early_round);
    for (const Event* event : facts.events) add_typed(inside, *event);
    if (facts.notification) add_notification(inside, pinfo, facts);
    inside.frame(Own::ce_notified_in, facts.notified_in);
    const bool listed = facts.message && std::any_of(facts.messages.begin(), facts.messages.end(),
                                                     [&](const auto& one) { return one.second == facts.message; });
    if (facts.message && !listed) {
      add_message(inside, frame, *facts.message, "belongs to");
    } else if (note.message && !facts.message) {
      inside.number(Own::message, note.message);
      inside.number(Own::message_of, index(note.requester));
    }
  }
  if (where)
    for (const auto& [part, message] : facts.messages)
      add_message(Branch(where, tvb), frame, *message, part_text(part, *message));
  add_reassembly(tvb, pinfo, where, session, frame, facts);
}

}  // namespace rdmawire::wireshark
