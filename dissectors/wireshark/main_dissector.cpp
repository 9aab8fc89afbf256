// SPDX-License-Identifier: GPL-2.0-or-later
/// Replaces the built-in dissectors of RoCE, InfiniBand and iWARP, if the preference or Decode As selects it. Passes
/// payload to the same tables of upper layer dissectors.

#include <algorithm>

#include "dissectors/output/json.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/wireshark/plugin.hpp"

namespace rdmawire::wireshark {
namespace {

dissector_handle_t data, on_tcp;
heur_dissector_list_t infiniband_payload, iwarp_payload;

/// An entry of a Wireshark dissector table, with handles of the built-in dissector and of rdmawire. Several handles of
/// rdmawire distinguish the user's choice (Decode As) from changes by the preference.
struct Place {
  const char* table;
  guint32 value;
  dissector_handle_t built_in = nullptr;
  dissector_handle_t ours = nullptr;    ///< offered by Decode As
  dissector_handle_t taking = nullptr;  ///< the same, selected by the preference
  dissector_handle_t by_preference =
      nullptr;  ///< the temporary default, to detect that the user chose the built-in dissector
};
constexpr guint32 roce_v1_type = 0x8915;
Place on_udp{"udp.port", DecodeOptions::roce_v2_udp_port};
Place on_ethernet{"ethertype", roce_v1_type};
Place on_link{"wtap_encap", WTAP_ENCAP_INFINIBAND};
Place* const places[] = {&on_udp, &on_ethernet, &on_link};

tvbuff_t* piece_of(tvbuff_t* frame, Range range) {
  return tvb_new_subset_length_caplen(frame, static_cast<gint>(range.offset), static_cast<gint>(range.length),
                                      static_cast<gint>(range.length));
}

/// Returns the packet data for payload dissectors, as declared in packet-infiniband.h.
infinibandinfo info_of(const HeaderStack& stack, std::uint8_t op, proto_tree* tree) {
  infinibandinfo info{};
  info.payload_tree = tree;
  info.opCode = op;
  if (const auto bth = stack.get<Bth>()) {
    info.pad_count = bth->get<"pad">();
    info.packet_seq_num = bth->get<"psn">();
  }
  if (const auto reth = stack.get<Reth>()) {
    info.reth_remote_address = reth->get<"va">();
    info.reth_remote_key = reth->get<"rkey">();
    info.reth_dma_length = reth->get<"length">();
  }
  return info;
}

void give(heur_dissector_list_t list, tvbuff_t* payload, packet_info* pinfo, proto_tree* tree, void* info) {
  heur_dtbl_entry_t* entry = nullptr;
  if (list && dissector_try_heuristic(list, payload, pinfo, tree, &entry, info)) return;
  if (tvb_reported_length(payload)) call_dissector(data, payload, pinfo, tree);
}

void set_columns(packet_info* pinfo, const HeaderStack& stack, const Opcode& op) {
  const auto bth = stack.get<Bth>();
  col_set_str(pinfo->cinfo, COL_PROTOCOL,
              stack.wire == Wire::roce_v2   ? "RoCEv2"
              : stack.wire == Wire::roce_v1 ? "RoCEv1"
                                            : "InfiniBand");
  col_add_fstr(pinfo->cinfo, COL_INFO, "%s QP=0x%06x PSN=%u", op.known ? op.name.data() : "unknown opcode",
               static_cast<unsigned>(bth->get<"dest_qp">()), static_cast<unsigned>(bth->get<"psn">()));
  if (const auto aeth = stack.get<Aeth>()) {
    const Field* kind = info<Aeth>.find("syndrome.kind");
    const Name* name = kind && kind->names ? kind->names->find(kind->value(aeth->data())) : nullptr;
    if (name)
      col_append_fstr(pinfo->cinfo, COL_INFO, " %s MSN=%u", name->name.data(),
                      static_cast<unsigned>(aeth->get<"msn">()));
  }
}

/// Returns the sender's QP, which packets of a connection do not contain: from the CM if known, else from the analysis.
/// Returns 0xffffffff if it is unknown, like the built-in dissector.
guint32 source_queue_pair(packet_info* pinfo, const FrameFacts& facts) {
  static const int infiniband = proto_get_id_by_filter_name("infiniband");
  if (const conversation_t* conversation = find_conversation(pinfo->num, &pinfo->dst, &pinfo->dst, CONVERSATION_IBQP,
                                                             pinfo->destport, pinfo->destport, NO_ADDR_B | NO_PORT_B))
    if (const auto* known =
            static_cast<const conversation_infiniband_data*>(conversation_get_proto_data(conversation, infiniband)))
      return known->src_qp;
  constexpr guint32 unknown = 0xffffffff;
  if (!facts.note || !facts.connection) return unknown;
  const tracking::ConnectionEnd& own = facts.connection->ends[static_cast<std::size_t>(facts.note->end)];
  return own.qp_known ? own.qp : unknown;
}

/// Dissects RoCE and InfiniBand. Called for UDP, Ethernet or the link layer.
int dissect_transport(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, dissector_handle_t built_in) {
  const Current& frame = current_frame(tvb, pinfo);
  const auto back = [&] { return built_in ? call_dissector_only(built_in, tvb, pinfo, tree, nullptr) : 0; };
  if (!frame.packet) return back();
  const HeaderStack& stack = frame.packet->stack;
  const auto bth = stack.get<Bth>();
  // The built-in dissector handles management datagrams, because its tables contain the upper layer protocol of each
  // connection.
  if (!bth || stack.find(info<Mad>)) return back();
  const std::uint8_t number = bth->get<"opcode">();
  const Opcode& op = opcode(number);
  set_columns(pinfo, stack, op);
  pinfo->ptype = PT_IBQP;
  pinfo->destport = bth->get<"dest_qp">();
  pinfo->srcport = source_queue_pair(pinfo, frame.known());
  const Range range = message_bytes(stack);
  // Upper layers need the headers of a READ request, which has no payload.
  const bool asks = op.operation == Operation::rdma_read_request;
  if (range.length == 0 && !asks) return static_cast<int>(tvb_captured_length(tvb));
  // Call the upper layer dissector for each packet, as it expects. It reassembles messages by opcode.
  infinibandinfo upper = info_of(stack, number, tree);
  give(infiniband_payload, piece_of(frame.tvb, range), pinfo, tree, &upper);
  return static_cast<int>(tvb_captured_length(tvb));
}

template <Place& place>
int dissect_at(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void*) {
  return dissect_transport(tvb, pinfo, tree, place.built_in);
}

template <Place& place>
int dissect_by_preference(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void* given) {
  if (preferences.main_dissector) return dissect_at<place>(tvb, pinfo, tree, given);
  return place.built_in ? call_dissector_only(place.built_in, tvb, pinfo, tree, given) : 0;
}

template <Place& place>
void register_place(const char* name, int proto, int preferring) {
  place.ours = register_dissector(name, dissect_at<place>, proto);
  place.taking = create_dissector_handle(dissect_at<place>, proto);
  place.by_preference = create_dissector_handle(dissect_by_preference<place>, preferring);
}

/// Dissects the TCP segments of connections that the tracker has identified as iWARP.
bool dissect_iwarp(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree) {
  if (!session()) return false;
  const Current& frame = current_frame(tvb, pinfo);
  if (!frame.packet || !session()->is_iwarp(frame.packet->number)) return false;
  col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
  col_clear(pinfo->cinfo, COL_INFO);
  for (const tracking::Pdu& pdu : frame.packet->pdus) {
    const HeaderStack& stack = pdu.stack;
    const auto control = stack.get<Rdmap>();
    if (!control) {
      col_append_sep_str(pinfo->cinfo, COL_INFO, ", ", "MPA");
      continue;
    }
    const std::uint8_t number = control->get<"opcode">();
    const auto& op = rdmap_opcode(number);
    col_append_sep_str(pinfo->cinfo, COL_INFO, ", ", op.known ? op.name.data() : "unknown opcode");
    const auto untagged = stack.get<DdpUntagged>();
    const auto ddp = stack.get<Ddp>();
    if (!untagged || !ddp || number < RDMA_SEND || number > RDMA_SEND_SE_INVALIDATE) continue;
    if (!ddp->get<"last">()) continue;
    rdmapinfo upper{};
    upper.opcode = number;
    upper.last_flag = TRUE;
    upper.message_seq_num = untagged->get<"msn">();
    // Upper layers need whole messages.
    const Range range = message_bytes(stack);
    Bytes bytes = stack.bytes_of(range);
    if (untagged->get<"mo">() != 0) {
      const auto& whole = frame.known().whole;
      const auto found = std::find_if(whole.begin(), whole.end(), [&](const StreamMessage* message) {
        return !message->tagged && message->msn == upper.message_seq_num;
      });
      if (found == whole.end()) continue;
      bytes = (*found)->bytes;
    }
    if (bytes.empty()) continue;
    auto* copy = static_cast<guint8*>(wmem_memdup(pinfo->pool, bytes.data(), bytes.size()));
    tvbuff_t* payload =
        tvb_new_child_real_data(frame.tvb, copy, static_cast<guint>(bytes.size()), static_cast<gint>(bytes.size()));
    add_new_data_source(pinfo, payload, "RDMAP message");
    give(iwarp_payload, payload, pinfo, tree, &upper);
  }
  return true;
}

/// Heuristic dissector for TCP, used if the preference is set.
Boolean guess_iwarp(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void*) {
  return preferences.main_dissector && dissect_iwarp(tvb, pinfo, tree);
}

/// Dissector that Decode As selects for a TCP port.
int dissect_tcp(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void*) {
  return dissect_iwarp(tvb, pinfo, tree) ? static_cast<int>(tvb_captured_length(tvb)) : 0;
}

}  // namespace

void register_main_dissector(int proto) {
  // Decode As lists dissectors by name, so it needs a separate name.
  const int preferring =
      proto_register_protocol_in_name_only("RDMA on the wire, selected by preference", "rdmawire by preference",
                                           "rdmawire_by_preference", proto, FT_PROTOCOL);
  register_place<on_udp>("rdmawire.roce_v2", proto, preferring);
  register_place<on_ethernet>("rdmawire.roce_v1", proto, preferring);
  register_place<on_link>("rdmawire.infiniband", proto, preferring);
  on_tcp = register_dissector("rdmawire.iwarp", dissect_tcp, proto);
}

void hand_off_main_dissector() {
  for (Place* place : places) {
    place->built_in = dissector_get_default_uint_handle(place->table, place->value);
    // The command line and the profile can select the dissector before preferences are loaded.
    dissector_add_uint(place->table, place->value, place->by_preference);
  }
  dissector_add_for_decode_as(on_udp.table, on_udp.ours);
  dissector_add_for_decode_as(on_ethernet.table, on_ethernet.ours);
  dissector_add_for_decode_as("tcp.port", on_tcp);
  data = find_dissector("data");
  infiniband_payload = find_heur_dissector_list("infiniband.payload");
  iwarp_payload = find_heur_dissector_list("iwarp_ddp_rdmap");
  heur_dissector_add("tcp", guess_iwarp, "iWARP by rdmawire", "rdmawire_tcp", protocol(), HEURISTIC_ENABLE);
}

std::uint16_t port_decoded_as_roce() {
  std::uint16_t port = 0;
  dissector_table_foreach(
      on_udp.table,
      [](const gchar*, ftenum_t, gpointer key, gpointer value, gpointer found) {
        dissector_handle_t handle = dtbl_entry_get_handle(static_cast<dtbl_entry_t*>(value));
        const auto number = GPOINTER_TO_UINT(key);
        if (handle && (handle == on_udp.ours || handle == on_udp.built_in) && number != on_udp.value)
          *static_cast<std::uint16_t*>(found) = static_cast<std::uint16_t>(number);
      },
      &port);
  return port;
}

void append_ports_decoded_as_iwarp(std::vector<tracking::NumberRange>& ports) {
  dissector_table_foreach(
      "tcp.port",
      [](const gchar*, ftenum_t, gpointer key, gpointer value, gpointer to) {
        if (dtbl_entry_get_handle(static_cast<dtbl_entry_t*>(value)) != on_tcp) return;
        const guint port = GPOINTER_TO_UINT(key);
        static_cast<std::vector<tracking::NumberRange>*>(to)->push_back({port, port});
      },
      &ports);
}

void take_places() {
  for (Place* place : places) {
    dissector_table_t table = find_dissector_table(place->table);
    if (!table) continue;
    dissector_handle_t first = dissector_get_default_uint_handle(place->table, place->value);
    dissector_handle_t now = dissector_get_uint_handle(table, place->value);
    const bool chosen = now != first && now != place->taking;
    if (preferences.main_dissector) {
      // The built-in dissector's own preferences restore it as default.
      if (first != place->by_preference) dissector_add_uint(place->table, place->value, place->by_preference);
      // This entry differs from the default, so that it takes precedence over dissectors of a lower source port.
      dissector_change_uint(place->table, place->value, chosen ? now : place->taking);
    } else if (first == place->by_preference) {
      if (place->built_in)
        dissector_add_uint(place->table, place->value, place->built_in);
      else
        dissector_delete_uint(place->table, place->value, first);
      if (chosen) dissector_change_uint(place->table, place->value, now);
    }
  }
}

}  // namespace rdmawire::wireshark
