// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Shows the analysis of a frame as a subtree and as expert items.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

/// Appends a summary to the protocol's line: ", connection 26 a → b, PSN +5".
void append_summary(proto_item* item, const FrameFacts& facts);

/// Prepends the frame's events to the column Info: "[RDMA Retransmission] ".
void show_in_info(packet_info* pinfo, const Packet& packet, const FrameFacts& facts);

/// Returns an endpoint as text: "10.0.0.2 QP 0x000011", "10.0.0.2 port 18515", "LID 4 QP 0x000012". Valid while the
/// packet is dissected.
const char* end_text(packet_info* pinfo, const ConnectionFacts& connection, Side end);

/// Adds the analysis, messages, events and violations. If `tree` is null, only adds expert items.
void show_analysis(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const Session& session, std::uint64_t frame,
                   const FrameFacts& facts);

}  // namespace rdmawire::wireshark
