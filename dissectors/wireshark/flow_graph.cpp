// SPDX-License-Identifier: GPL-2.0-or-later
/// Statistics, Flow Graph: the packets of RDMA connections with relative PSNs. tshark: -z flow,rdmawire,network.

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/wireshark/plugin.hpp"

// Wireshark exports these functions, but its development packages do not contain their header. The structures are the
// interface of epan/sequence_analysis.h up to the last member used here.
extern "C" {
struct FlowGraphItem {
  guint32 frame_number;
  address source;
  guint16 source_port;
  address destination;
  guint16 destination_port;
  gchar *label, *time, *comment;
  guint16 conversation;
  unsigned foreground, background;
  rdmawire::wireshark::Boolean has_color, display;
  guint source_node, destination_node;
  guint16 line_width;
};
struct FlowGraph {
  const char* name;
  rdmawire::wireshark::Boolean any_address;
  int conversations;
  GQueue* items;
};
void register_seq_analysis(const char* name, const char* title, const int proto, const char* tap, guint tap_flags,
                           tap_packet_cb function);
FlowGraphItem* sequence_analysis_create_sai_with_addresses(packet_info* pinfo, FlowGraph* graph);
void sequence_analysis_use_color_filter(packet_info* pinfo, FlowGraphItem* item);
}

namespace rdmawire::wireshark {
namespace {

/// Returns the operations of the packet: "RC SEND Only", the title of its CM message, or the operations of its PDUs.
void append_operations(GString* text, const Packet& packet) {
  if (const tracking::CmMessage cm = tracking::read_cm_message(packet.stack); cm.kind) {
    g_string_append_len(text, cm.kind->title.data(), static_cast<gssize>(cm.kind->title.size()));
    return;
  }
  const auto append = [&](std::string_view name) {
    if (text->len) g_string_append(text, ", ");
    g_string_append(text, name.empty() ? "unknown opcode" : name.data());
  };
  if (const auto bth = packet.stack.get<Bth>()) {
    const Opcode& op = opcode(bth->get<"opcode">());
    append(op.known ? op.name : std::string_view{});
  }
  for (const tracking::Pdu& pdu : packet.pdus)
    if (const auto control = pdu.stack.get<Rdmap>()) append(rdmap_opcode(control->get<"opcode">()).name);
}

tap_packet_status add_to_graph(void* data, packet_info* pinfo, epan_dissect_t*, const void* given, tap_flags_t) {
  auto* graph = static_cast<FlowGraph*>(data);
  const Current& frame = *static_cast<const Current*>(given);
  const FrameFacts& facts = frame.known();
  if (!frame.packet || !facts.connection) return TAP_PACKET_DONT_REDRAW;
  FlowGraphItem* item = sequence_analysis_create_sai_with_addresses(pinfo, graph);
  if (!item) return TAP_PACKET_DONT_REDRAW;
  item->frame_number = pinfo->num;
  constexpr std::uint32_t cm_qp = 1;
  std::uint32_t from = cm_qp, to = cm_qp;
  if (facts.note) {
    from = facts.connection->ends[static_cast<std::size_t>(facts.note->end)].qp;
    to = facts.connection->ends[static_cast<std::size_t>(tracking::other(facts.note->end))].qp;
  }
  // Ports of the graph have 16 bits, QP numbers 24. The comment contains the QP.
  item->source_port = static_cast<guint16>(from);
  item->destination_port = static_cast<guint16>(to);
  GString* label = g_string_new(nullptr);
  append_operations(label, *frame.packet);
  GString* comment = g_string_new(nullptr);
  g_string_printf(comment, "RDMA: Stream=%u QP=0x%06x", facts.connection->stream, to);
  if (facts.note) g_string_append_printf(comment, " PSN=+%u", facts.note->relative_psn);
  if (facts.note && facts.note->message)
    g_string_append_printf(comment, " Message=%" G_GUINT64_FORMAT, facts.note->message);
  if (facts.note && facts.note->again) g_string_append(comment, " (seen before)");
  item->label = g_string_free(label, FALSE);
  item->comment = g_string_free(comment, FALSE);
  item->conversation = static_cast<guint16>(facts.connection->stream);
  item->line_width = 2;
  item->display = TRUE;
  sequence_analysis_use_color_filter(pinfo, item);
  g_queue_push_tail(graph->items, item);
  return TAP_PACKET_REDRAW;
}

}  // namespace

void register_flow_graph(int proto) {
  register_seq_analysis("rdmawire", "RDMA Flows", proto, "rdmawire", 0, add_to_graph);
}

}  // namespace rdmawire::wireshark
