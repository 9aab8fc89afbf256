// SPDX-License-Identifier: GPL-2.0-or-later
/// The built-in heuristic dissector of RPC-over-RDMA accepts SENDs that are too short for its header, and fails. It
/// remains in its lists, after a check of the message's first bytes.

#include "dissectors/wireshark/plugin.hpp"

namespace rdmawire::wireshark {
namespace {

/// A list of heuristic dissectors, and the built-in dissector.
struct Guarded {
  const char* list;
  heur_dissector_t built_in = nullptr;
};
Guarded infiniband{"infiniband.payload"}, iwarp{"iwarp_ddp_rdmap"};

template <Guarded& guarded>
Boolean if_plausible(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void* data) {
  if (preferences.only_plausible_rpc && session()) {
    const Current& frame = current_frame_of(pinfo);
    if (frame.packet && session()->is_not_rpc(frame.packet->number)) return FALSE;
  }
  return guarded.built_in(tvb, pinfo, tree, data);
}

template <Guarded& guarded>
void guard() {
  if (!has_heur_dissector_list(guarded.list)) return;
  heur_dissector_table_foreach(
      guarded.list,
      [](const gchar*, struct heur_dtbl_entry* entry, gpointer) {
        if (guarded.built_in || !entry->protocol) return;
        const int id = proto_get_id(entry->protocol);
        if (g_strcmp0(proto_get_protocol_filter_name(id), "rpcordma") != 0) return;
        guarded.built_in = entry->dissector;
        entry->dissector = if_plausible<guarded>;
      },
      nullptr);
}

}  // namespace

void guard_rpc_dissector() {
  guard<infiniband>();
  guard<iwarp>();
}

}  // namespace rdmawire::wireshark
