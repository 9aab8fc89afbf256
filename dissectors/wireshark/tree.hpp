// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// A packet, and what is known of its frame, as a tree of Wireshark's.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

struct TreeOptions {
  bool lower_layers = false;  ///< the headers below the RDMA transport, too, which Wireshark shows anyway
};

/// Fills our tree below `item`, the protocol's own line. `tvb` has the frame's bytes, those that packet.stack was
/// decoded from; `item` may be null: then only expert items are told of.
void show(tvbuff_t* tvb, packet_info* pinfo, proto_item* item, const Session& session, const Packet& packet,
          const FrameFacts& facts, const TreeOptions& options);

/// Whether the packet has to do with RDMA: others get no tree.
bool concerns(const Packet& packet, bool is_iwarp);

}  // namespace rdmawire::wireshark
