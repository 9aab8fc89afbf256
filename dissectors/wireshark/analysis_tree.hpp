// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// What is known of a frame beside its own bytes, as a subtree and as expert items.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

/// Appends the gist to the protocol's own line: ", connection 26 a → b, PSN +5".
void append_summary(proto_item* item, const FrameFacts& facts);

/// An end of a connection as people name it: "10.0.0.2 QP 0x000011", "10.0.0.2 port 18515", "LID 4 QP 0x000012". Lives
/// as long as the packet is looked at.
const char* end_text(packet_info* pinfo, const ConnectionFacts& connection, Side end);

/// Adds the analysis, messages, events and violations. `tree` may be null: then only expert items are told of.
void show_analysis(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const Session& session, std::uint64_t frame,
                   const FrameFacts& facts);

}  // namespace rdmawire::wireshark
