// SPDX-License-Identifier: GPL-2.0-or-later
/// Tables and windows known from TCP: conversations, endpoints, service response times, statistics. Each is also
/// available with tshark's -z.

#include <cstring>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/wireshark/analysis_tree.hpp"
#include "dissectors/wireshark/plugin.hpp"

namespace rdmawire::wireshark {
namespace {

int packets_tap = -1;

const Current& frame_of(const void* data) { return *static_cast<const Current*>(data); }

// ------------------------------------------------------------------------------------- conversations and endpoints

/// Returns an endpoint as an address of type text, because tshark's tables omit ports of protocols other than TCP and
/// UDP.
address end_of(packet_info* pinfo, const FrameFacts& facts, Side end) {
  address result;
  const char* text = end_text(pinfo, *facts.connection, end);
  set_address(&result, AT_STRINGZ, static_cast<int>(std::strlen(text)) + 1, text);
  return result;
}

const char* field_of(conv_filter_type_e filter) {
  switch (filter) {
    case CONV_FT_SRC_ADDRESS: return "rdmawire.analysis.from";
    case CONV_FT_DST_ADDRESS: return "rdmawire.analysis.to";
    case CONV_FT_ANY_ADDRESS: return "rdmawire.analysis.endpoint";
    default: return CONV_FILTER_INVALID;
  }
}
const char* conversation_field(conv_item_t*, conv_filter_type_e filter) { return field_of(filter); }
const char* endpoint_field(endpoint_item_t*, conv_filter_type_e filter) { return field_of(filter); }

tap_packet_status count_conversation(void* table, packet_info* pinfo, epan_dissect_t*, const void* data,
                                     tap_flags_t flags) {
  static ct_dissector_info_t info{conversation_field};
  const FrameFacts& facts = frame_of(data).known();
  if (!facts.note || !facts.connection) return TAP_PACKET_DONT_REDRAW;
  auto* hash = static_cast<conv_hash_t*>(table);
  hash->flags = flags;
  const address from = end_of(pinfo, facts, facts.note->end), to = end_of(pinfo, facts, other(facts.note->end));
  add_conversation_table_data(hash, &from, &to, 0, 0, 1, static_cast<int>(pinfo->fd->pkt_len), &pinfo->rel_ts,
                              &pinfo->abs_ts, &info, CONVERSATION_NONE);
  return TAP_PACKET_REDRAW;
}

tap_packet_status count_endpoints(void* table, packet_info* pinfo, epan_dissect_t*, const void* data,
                                  tap_flags_t flags) {
  static et_dissector_info_t info{endpoint_field};
  const FrameFacts& facts = frame_of(data).known();
  if (!facts.note || !facts.connection) return TAP_PACKET_DONT_REDRAW;
  auto* hash = static_cast<conv_hash_t*>(table);
  hash->flags = flags;
  const int bytes = static_cast<int>(pinfo->fd->pkt_len);
  const address from = end_of(pinfo, facts, facts.note->end), to = end_of(pinfo, facts, other(facts.note->end));
  add_endpoint_table_data(hash, &from, 0, TRUE, 1, bytes, &info, ENDPOINT_NONE);
  add_endpoint_table_data(hash, &to, 0, FALSE, 1, bytes, &info, ENDPOINT_NONE);
  return TAP_PACKET_REDRAW;
}

// ----------------------------------------------------------------------------------------- service response times

/// Adds the rows of the table, one for each kind of operation. The names are zero-terminated constants.
void begin_response_times(register_srt*, GArray* tables) {
  srt_stat_table* table = init_srt_table("RDMA operations", "RDMA", tables, static_cast<int>(tracking::message_kinds),
                                         "Operation", "rdmawire.message.operation", nullptr);
  for (std::size_t i = 0; i < tracking::message_kinds; ++i)
    init_srt_table_row(table, static_cast<int>(i), to_string(static_cast<tracking::MessageKind>(i)).data());
}

tap_packet_status count_response_times(void* tables, packet_info* pinfo, epan_dissect_t*, const void* data,
                                       tap_flags_t) {
  srt_stat_table* table = g_array_index(static_cast<srt_data_t*>(tables)->srt_array, srt_stat_table*, 0);
  bool any = false;
  for (const auto& [part, message] : frame_of(data).known().messages) {
    if (part != Part::answer || message->start == 0) continue;
    const nstime_t start = nstime_of(message->start);
    add_srt_table_data(table, static_cast<int>(message->kind), &start, pinfo);
    any = true;
  }
  return any ? TAP_PACKET_REDRAW : TAP_PACKET_DONT_REDRAW;
}

// --------------------------------------------------------------------------------------------------- statistics

constexpr const char* packets_title = "RDMA packets by operation";
constexpr const char* events_title = "RDMA events";
constexpr const char* rules_title = "Violations of the specification";
int packets_node, events_node, rules_node;

void begin_operations(stats_tree* tree) {
  packets_node = stats_tree_create_node(tree, packets_title, 0, STAT_DT_INT, TRUE);
}

tap_packet_status count_operations(stats_tree* tree, packet_info*, epan_dissect_t*, const void* data, tap_flags_t) {
  const Packet& packet = *frame_of(data).packet;
  const auto count = [&](std::string_view name) {
    stats_tree_tick_pivot(tree, packets_node, name.empty() ? "unknown" : name.data());
  };
  if (const auto bth = packet.stack.get<Bth>()) {
    const Opcode& op = opcode(bth->get<"opcode">());
    count(op.known ? op.name : std::string_view{});
  }
  for (const tracking::Pdu& pdu : packet.pdus)
    if (const auto control = pdu.stack.get<Rdmap>()) count(rdmap_opcode(control->get<"opcode">()).name);
  return TAP_PACKET_REDRAW;
}

void begin_events(stats_tree* tree) {
  events_node = stats_tree_create_node(tree, events_title, 0, STAT_DT_INT, TRUE);
  rules_node = stats_tree_create_node(tree, rules_title, 0, STAT_DT_INT, TRUE);
}

tap_packet_status count_events(stats_tree* tree, packet_info*, epan_dissect_t*, const void* data, tap_flags_t) {
  const FrameFacts& facts = frame_of(data).known();
  for (const Event* event : facts.events) {
    const std::string_view kind = to_string(event->kind);
    stats_tree_manip_node_int(MN_INCREASE, tree, events_title, 0, TRUE, 1);
    const int node = stats_tree_manip_node_int(MN_INCREASE, tree, kind.data(), events_node, TRUE, 1);
    if (event->cause != tracking::Cause::none)
      stats_tree_manip_node_int(MN_INCREASE, tree, to_string(event->cause).data(), node, FALSE, 1);
  }
  for (const ViolationFacts& violation : facts.violations) {
    stats_tree_manip_node_int(MN_INCREASE, tree, rules_title, 0, TRUE, 1);
    stats_tree_manip_node_int(MN_INCREASE, tree, violation.violation->of().id.data(), rules_node, FALSE, 1);
  }
  return facts.events.empty() && facts.violations.empty() ? TAP_PACKET_DONT_REDRAW : TAP_PACKET_REDRAW;
}

}  // namespace

void register_taps(int proto) {
  packets_tap = register_tap("rdmawire");
  register_conversation_table(proto, TRUE, count_conversation, count_endpoints);
  register_srt_table(proto, nullptr, 1, count_response_times, begin_response_times, nullptr);
  stats_tree_register_plugin("rdmawire", "rdmawire", "RDMA/Packets by operation", 0, count_operations, begin_operations,
                             nullptr);
  stats_tree_register_plugin("rdmawire", "rdmawire_events", "RDMA/Events and violations", 0, count_events, begin_events,
                             nullptr);
  register_follow_taps(proto);
  register_filter(
      "rdmawire", "RDMA connection",
      [](packet_info* pinfo, auto...) -> Boolean {
        static FrameFacts facts;
        if (!session()) return FALSE;
        session()->facts_of(pinfo->num, facts);
        return facts.connection != nullptr;
      },
      [](packet_info* pinfo, auto...) -> char* {
        guint stream = 0;
        return connection_filter(pinfo, stream);
      });
}

void tap(packet_info* pinfo, const Current& current) {
  if (have_tap_listener(packets_tap)) tap_queue_packet(packets_tap, pinfo, &current);
  tap_payload(pinfo, current);
}

}  // namespace rdmawire::wireshark
