// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// What the parts of the plugin share: its protocol, its preferences, and the file that is open.

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/session.hpp"

namespace rdmawire::wireshark {

/// What the user chose.
struct Preferences {
  Boolean lower_layers = FALSE;
  Boolean verify_crcs = TRUE;
  Boolean check_rules = TRUE;
  Boolean main_dissector = FALSE;
  Boolean read_once = FALSE;
  guint roce_port = 0;
  guint kept_megabytes = 32;
};
extern Preferences preferences;

/// The protocol "rdmawire".
int protocol();

/// The file that is open; nullptr: none, or there was no room for what it says.
const Session* session();

/// A frame while it is dissected: what the core says of it.
struct Current {
  const Packet* packet = nullptr;  ///< nullptr: nothing can be said of it
  tvbuff_t* tvb = nullptr;         ///< its bytes

  /// What is known of it beside its bytes. Found when it is first asked for.
  [[nodiscard]] const FrameFacts& known() const;

  mutable FrameFacts facts;
  mutable bool facts_known = false;
};
/// The frame that `pinfo` is of, which `tvb` is a part of. Dissected at the first call for each frame.
const Current& current_frame(tvbuff_t* tvb, packet_info* pinfo);

/// Registers what is called when packets are tapped: conversations, endpoints, service response times, statistics
/// trees, follow. taps.cpp
void register_taps(int proto);
/// Gives the frame to who taps.
void tap(packet_info* pinfo, const Current& current);

/// Registers the window's menu. menu.cpp
void register_menu(int proto);

/// Registers ours as a dissector of RoCE and iWARP to be chosen. main_dissector.cpp
void register_main_dissector(int proto);
void hand_off_main_dissector();
/// A UDP port beside 4791 that Decode As, or the built-in's own preference, gave to RoCE; 0: none.
std::uint16_t port_decoded_as_roce();
/// Takes RoCE's and InfiniBand's places in Wireshark's tables, or gives them back, as the preference says. At the
/// beginning of each file: other dissectors' preferences may have put others there.
void take_places();

}  // namespace rdmawire::wireshark
