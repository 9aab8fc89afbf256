// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Shared by all parts of the plugin: its protocol, its preferences, and the current file.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

/// The user's preferences.
struct Preferences {
  Boolean lower_layers = FALSE;
  Boolean verify_crcs = TRUE;
  Boolean check_rules = TRUE;
  Boolean main_dissector = FALSE;
  Boolean read_once = FALSE;
  guint roce_port = 0;
  guint kept_megabytes = 32;
  guint connection_megabytes = 512;
};
extern Preferences preferences;

/// The protocol "rdmawire".
int protocol();

/// The session of the current file. nullptr: no file, or memory is exhausted.
const Session* session();

/// A frame while it is dissected, with its analysis.
struct Current {
  const Packet* packet = nullptr;  ///< nullptr: no analysis available
  tvbuff_t* tvb = nullptr;         ///< its bytes

  /// Analysis of the frame, computed on first use.
  [[nodiscard]] const FrameFacts& known() const;

  mutable FrameFacts facts;
  mutable bool facts_known = false;
};
/// Returns the frame of `pinfo`, of which `tvb` is a part. Dissects it on the first call for each frame.
const Current& current_frame(tvbuff_t* tvb, packet_info* pinfo);

/// Registers the taps: conversations, endpoints, service response times, statistics trees, follow. taps.cpp
void register_taps(int proto);
/// Passes the frame to the taps.
void tap(packet_info* pinfo, const Current& current);

/// Registers the window's menu. menu.cpp
void register_menu(int proto);

/// Registers our dissector as an alternative for RoCE and iWARP. main_dissector.cpp
void register_main_dissector(int proto);
void hand_off_main_dissector();
/// Returns a UDP port other than 4791 that Decode As, or the built-in dissector's preference, assigned to RoCE. 0:
/// none.
std::uint16_t port_decoded_as_roce();
/// Replaces RoCE's and InfiniBand's dissectors in Wireshark's tables, or restores them, according to the
/// preference. Called at the start of each file, because other dissectors' preferences may have changed the tables.
void take_places();

}  // namespace rdmawire::wireshark
