// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Shows a packet and its analysis as a Wireshark tree.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

struct TreeOptions {
  bool lower_layers = false;  ///< also show the headers below the RDMA transport, which Wireshark already shows
};

/// Fills the tree below `item`, the protocol's line. `tvb` contains the bytes from which packet.stack was decoded. If
/// `item` is null, only adds expert items.
void show(tvbuff_t* tvb, packet_info* pinfo, proto_item* item, const Session& session, const Packet& packet,
          const FrameFacts& facts, const TreeOptions& options);

/// True if the packet is related to RDMA. Other packets have no tree.
bool concerns(const Packet& packet, bool is_iwarp);

}  // namespace rdmawire::wireshark
