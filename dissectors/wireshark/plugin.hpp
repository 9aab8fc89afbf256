// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Shared by all parts of the plugin: its protocol, its preferences, and the current file.

#include <array>
#include <vector>

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

inline constexpr std::size_t upper_layer_count = static_cast<std::size_t>(Upper::smb_direct) + 1;

/// The user's preferences.
struct Preferences {
  Boolean lower_layers = FALSE;
  Boolean verify_crcs = TRUE;
  Boolean check_rules = TRUE;
  Boolean main_dissector = FALSE;
  Boolean read_once = FALSE;
  Boolean info_prefixes = TRUE;
  Boolean coloring_rules = TRUE;
  Boolean only_plausible_rpc = TRUE;
  Boolean mrc = TRUE;
  guint roce_port = 0;
  guint kept_megabytes = 16;
  guint connection_megabytes = 512;
  range_t* iwarp_ports = nullptr;
  /// Destination QPs, or TCP ports of iWARP, by protocol.
  std::array<range_t*, upper_layer_count> upper_layers{};
};
extern Preferences preferences;

/// The protocol "rdmawire".
int protocol();

/// Returns the session of the current file, or nullptr without a file or if memory is exhausted.
const Session* session();

/// A frame while it is dissected, with its analysis.
struct Current {
  const Packet* packet = nullptr;  ///< nullptr: no analysis available
  tvbuff_t* tvb = nullptr;         ///< bytes of the packet

  /// Analysis of the frame, computed on first use.
  [[nodiscard]] const FrameFacts& known() const;

  mutable FrameFacts facts;
  mutable bool facts_known = false;
};
/// Returns the frame of `pinfo`. `tvb` is a part of the frame. The first call for a frame dissects it.
const Current& current_frame(tvbuff_t* tvb, packet_info* pinfo);
/// The same, for dissectors whose bytes can be reassembled from several frames.
const Current& current_frame_of(packet_info* pinfo);

/// Registers the taps: conversations, endpoints, service response times, statistics trees, follow. taps.cpp
void register_taps(int proto);
/// Passes the frame to the taps.
void tap(packet_info* pinfo, const Current& current);

/// Registers Follow Stream. follow.cpp
void register_follow_taps(int proto);
/// Discards the state of Follow Stream. Call when a file is closed.
void forget_follow_windows();
/// Passes the frame's data to Follow Stream.
void tap_payload(packet_info* pinfo, const Current& current);
/// Returns the display filter of the frame's connection and sets the number of its stream, or returns nullptr if it has
/// no connection. The caller frees the filter with g_free().
gchar* connection_filter(packet_info* pinfo, guint& stream);

/// Registers the flow graph. flow_graph.cpp
void register_flow_graph(int proto);

/// Adds coloring rules for RDMA to those of the profile, or removes them, according to the preference.
/// coloring_rules.cpp
void update_coloring_rules();

/// Lets the built-in dissector of RPC-over-RDMA process only messages that can be RPC-over-RDMA. rpc_guard.cpp
void guard_rpc_dissector();

/// Registers the menu of the main window. menu.cpp
void register_menu(int proto);

/// Registers rdmawire's dissector as an alternative for RoCE and iWARP. main_dissector.cpp
void register_main_dissector(int proto);
void hand_off_main_dissector();
/// Called after all protocols are registered.
void hand_off();
/// Returns a UDP port other than 4791 that Decode As or the built-in dissector's preference assigned to RoCE, or 0 if
/// there is none.
std::uint16_t port_decoded_as_roce();
/// Appends the TCP ports that Decode As assigned to rdmawire.
void append_ports_decoded_as_iwarp(std::vector<tracking::NumberRange>& ports);
/// Replaces RoCE's and InfiniBand's dissectors in Wireshark's tables, or restores them, according to the
/// preference. Called at the start of each file, because other dissectors' preferences may have changed the tables.
void take_places();

}  // namespace rdmawire::wireshark
