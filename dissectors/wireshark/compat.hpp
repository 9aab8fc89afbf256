// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Wireshark's headers and all version differences. Other files of this directory do not depend on the version.
/// Built and run with 4.0, 4.4 and 4.6 (details in docs/how-to/use-wireshark-plugin.md). Support for 4.2 follows its
/// release notes and is untested.

#ifndef HAVE_SSIZE_T
#define HAVE_SSIZE_T 1
#endif
#include <ws_version.h>

#define RDMAWIRE_WIRESHARK_AT_LEAST(major, minor) \
  (WIRESHARK_VERSION_MAJOR > (major) || (WIRESHARK_VERSION_MAJOR == (major) && WIRESHARK_VERSION_MINOR >= (minor)))

#include <algorithm>
#include <cstdint>

#include "dissectors/protocol/time.hpp"

// Suppress warnings in inline functions of the C headers.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <epan/packet.h>
//
#include <epan/address_types.h>
#include <epan/color_filters.h>
#include <epan/column-utils.h>
#include <epan/conversation.h>
#include <epan/conversation_filter.h>
#include <epan/conversation_table.h>
#include <epan/dissectors/packet-infiniband.h>
#include <epan/dissectors/packet-iwarp-ddp-rdmap.h>
#include <epan/expert.h>
#include <epan/follow.h>
#include <epan/funnel.h>
#include <epan/plugin_if.h>
#include <epan/prefs.h>
#include <epan/proto.h>
#include <epan/srt_table.h>
#include <epan/stats_tree.h>
#include <epan/tap.h>
#include <epan/to_str.h>
#include <epan/tvbuff.h>
#include <wiretap/wtap.h>
#pragma GCC diagnostic pop

namespace rdmawire::wireshark {

// 4.4 replaced glib's gboolean (an int) with bool, so callback types differ.
#if RDMAWIRE_WIRESHARK_AT_LEAST(4, 4)
using Boolean = bool;
#else
using Boolean = gboolean;
#endif

// Fields that are not registered yet are 0 since 4.4, and -1 before.
#if RDMAWIRE_WIRESHARK_AT_LEAST(4, 4)
inline constexpr int unregistered = 0;
#else
inline constexpr int unregistered = -1;
#endif

/// Converts nanoseconds to Wireshark's time type.
inline nstime_t nstime_of(std::int64_t nanoseconds) {
  nstime_t time;
  time.secs = static_cast<time_t>(nanoseconds / 1'000'000'000);
  time.nsecs = static_cast<int>(nanoseconds % 1'000'000'000);
  return time;
}

/// Converts Wireshark's time type to nanoseconds, limited like bounded_time().
inline std::int64_t time_of(const nstime_t& time) {
  constexpr std::int64_t second = 1'000'000'000, farthest = farthest_time / second;
  return bounded_time(std::clamp<std::int64_t>(time.secs, -farthest, farthest) * second + time.nsecs);
}

/// Registers "follow" for a connection. 4.4 added functions for sub-streams, which do not exist here.
inline void register_follow(int proto, const char* tap, follow_conv_filter_func of_packet,
                            follow_index_filter_func of_index, follow_address_filter_func of_addresses,
                            follow_port_to_display_func port, tap_packet_cb data) {
#if RDMAWIRE_WIRESHARK_AT_LEAST(4, 4)
  register_follow_stream(proto, tap, of_packet, of_index, of_addresses, port, data, nullptr, nullptr);
#else
  register_follow_stream(proto, tap, of_packet, of_index, of_addresses, port, data);
#endif
}

/// Registers a filter for the connection of a packet. Later versions pass a second, unused argument to the functions.
/// Generic lambdas accept both forms.
template <class Valid, class Text>
void register_filter(const char* proto, const char* name, Valid valid, Text text) {
#if RDMAWIRE_WIRESHARK_AT_LEAST(4, 2)
  register_conversation_filter(proto, name, valid, text, nullptr);
#else
  register_conversation_filter(proto, name, valid, text);
#endif
}

}  // namespace rdmawire::wireshark
