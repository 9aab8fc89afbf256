// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// What is known of a frame beside its own octets, as a subtree and as expert items.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

/// Appends the gist to the protocol's own line: ", connection 26 a → b, PSN +5".
void append_summary(proto_item* item, const FrameFacts& facts);

/// Adds the analysis, messages, events and violations. `tree` may be null: then only expert items are told of.
void show_analysis(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const Session& session, std::uint64_t frame,
                   const FrameFacts& facts);

}  // namespace rdmawire::wireshark
