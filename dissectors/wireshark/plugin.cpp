// SPDX-License-Identifier: GPL-2.0-or-later
/// What Wireshark asks of a plugin: who it is, and what it registers.

#include <memory>
#include <new>
#include <optional>

#include "dissectors/wireshark/compat.hpp"
#include "dissectors/wireshark/fields.hpp"
#include "dissectors/wireshark/session.hpp"
#include "dissectors/wireshark/tree.hpp"

namespace rdmawire::wireshark {
namespace {

int proto = -1;
std::unique_ptr<Session> session;
FrameFacts facts;

struct Preferences {
  gboolean lower_layers = FALSE;
  gboolean verify_crcs = TRUE;
  gboolean check_rules = TRUE;
  guint roce_port = 0;
} preferences;

std::optional<LinkType> link_of(int encapsulation) {
  switch (encapsulation) {
    case WTAP_ENCAP_ETHERNET: return LinkType::ethernet;
    case WTAP_ENCAP_NULL: return LinkType::null_loopback;
    case WTAP_ENCAP_RAW_IP: return LinkType::raw_ip;
    case WTAP_ENCAP_RAW_IP4: return LinkType::ipv4;
    case WTAP_ENCAP_RAW_IP6: return LinkType::ipv6;
    case WTAP_ENCAP_SLL: return LinkType::linux_sll;
    case WTAP_ENCAP_SLL2: return LinkType::linux_sll2;
    case WTAP_ENCAP_INFINIBAND: return LinkType::infiniband;
    default: return {};
  }
}

void begin() {
  try {
    SessionOptions options;
    options.dissector.verify_crcs = preferences.verify_crcs != FALSE;
    options.dissector.decode.extra_roce_v2_port = static_cast<std::uint16_t>(preferences.roce_port);
    options.monitors = preferences.check_rules != FALSE;
    session = std::make_unique<Session>(options);
  } catch (const std::bad_alloc&) {
    session.reset();
  }
}

void end() { session.reset(); }

void first_pass_is_over() {
  try {
    if (session) session->finish();
  } catch (const std::bad_alloc&) {
    session.reset();
  }
}

/// The frame, dissected; nullptr: nothing can be said of it.
const Packet* packet_of(tvbuff_t* tvb, packet_info* pinfo) {
  const auto link = link_of(pinfo->rec->rec_header.packet_header.pkt_encap);
  if (!session || !link || pinfo->rec->rec_type != REC_TYPE_PACKET) return nullptr;
  Frame frame;
  frame.number = pinfo->num;
  frame.time_ns = static_cast<std::int64_t>(pinfo->abs_ts.secs) * 1'000'000'000 + pinfo->abs_ts.nsecs;
  frame.link = *link;
  const guint length = tvb_captured_length(tvb);
  frame.bytes = {length ? tvb_get_ptr(tvb, 0, static_cast<gint>(length)) : nullptr, length};
  frame.wire_length = tvb_reported_length(tvb);
  try {
    const bool is_new = !pinfo->fd->visited && !session->finished() && frame.number > session->last_frame();
    const Packet& packet = is_new ? session->add(frame) : session->again(frame);
    session->facts_of(frame.number, facts);
    return &packet;
  } catch (const std::bad_alloc&) {
    // Wireshark is written in C: nothing may be thrown through it. What was gathered is given up.
    session.reset();
    return nullptr;
  }
}

int dissect(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void*) {
  const Packet* packet = packet_of(tvb, pinfo);
  if (!packet) return 0;
  const bool worth_showing =
      concerns(*packet, session->is_iwarp(packet->number)) || !facts.events.empty() || !facts.violations.empty();
  if (worth_showing) show(tvb, pinfo, tree, proto, *session, *packet, facts, {preferences.lower_layers != FALSE});
  return static_cast<int>(tvb_captured_length(tvb));
}

void register_preferences() {
  module_t* module = prefs_register_protocol(proto, nullptr);
  prefs_register_bool_preference(module, "lower_layers", "Show the layers below RDMA",
                                 "Also show the headers below the RDMA transport, which Wireshark shows anyway",
                                 &preferences.lower_layers);
  prefs_register_bool_preference(module, "verify_crcs", "Verify ICRC, VCRC and MPA's CRC", nullptr,
                                 &preferences.verify_crcs);
  prefs_register_bool_preference(module, "check_rules", "Check the rules of the specifications",
                                 "Show deviations from the specifications as expert items", &preferences.check_rules);
  prefs_register_uint_preference(module, "roce_port", "A further UDP port of RoCEv2", "Beside 4791; 0: none", 10,
                                 &preferences.roce_port);
}

void register_protocol() {
  proto = proto_register_protocol("RDMA on the wire (rdmawire)", "rdmawire", "rdmawire");
  register_fields(proto);
  register_preferences();
  register_init_routine(begin);
  register_cleanup_routine(end);
  register_postseq_cleanup_routine(first_pass_is_over);
  register_postdissector(register_dissector("rdmawire", dissect, proto));
}

void hand_off() {}

}  // namespace
}  // namespace rdmawire::wireshark

// A const at namespace scope is not exported by itself in C++: declared first.
#define RDMAWIRE_EXPORT extern "C" __attribute__((visibility("default")))
RDMAWIRE_EXPORT const char plugin_version[];
RDMAWIRE_EXPORT const int plugin_want_major;
RDMAWIRE_EXPORT const int plugin_want_minor;
RDMAWIRE_EXPORT void plugin_register();

const char plugin_version[] = RDMAWIRE_VERSION;
const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
const int plugin_want_minor = WIRESHARK_VERSION_MINOR;

void plugin_register() {
  static proto_plugin plugin;
  plugin.register_protoinfo = rdmawire::wireshark::register_protocol;
  plugin.register_handoff = rdmawire::wireshark::hand_off;
  proto_register_plugin(&plugin);
}
