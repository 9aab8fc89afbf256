// SPDX-License-Identifier: GPL-2.0-or-later
/// The plugin's entry points: version and registration.

#include "dissectors/wireshark/plugin.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>

#include "dissectors/wireshark/analysis_tree.hpp"
#include "dissectors/wireshark/fields.hpp"
#include "dissectors/wireshark/tree.hpp"

namespace rdmawire::wireshark {

Preferences preferences;

namespace {

int proto = -1;
std::unique_ptr<Session> file;
Current current;
const packet_info* current_of = nullptr;

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

// Wireshark is written in C, so exceptions must not leave the plugin. If memory is exhausted, the analysis of the
// file is discarded.
template <class Work>
void unless_out_of_memory(const Work& work) {
  try {
    work();
  } catch (const std::exception&) {
    file.reset();
    current.packet = nullptr;
  }
}

template <class Add>
void append_ranges(const range_t* ranges, const Add& add) {
  if (!ranges) return;
  for (guint i = 0; i < ranges->nranges; ++i) add({ranges->ranges[i].low, ranges->ranges[i].high});
}

void begin() {
  current_of = nullptr;
  unless_out_of_memory([] {
    SessionOptions options;
    options.dissector.verify_crcs = preferences.verify_crcs;
    options.dissector.decode.mrc = preferences.mrc;
    options.dissector.decode.extra_roce_v2_port =
        preferences.roce_port ? static_cast<std::uint16_t>(preferences.roce_port) : port_decoded_as_roce();
    append_ranges(preferences.iwarp_ports,
                  [&](const tracking::NumberRange& ports) { options.dissector.iwarp_ports.push_back(ports); });
    append_ports_decoded_as_iwarp(options.dissector.iwarp_ports);
    for (std::size_t i = 0; i < upper_layer_count; ++i)
      append_ranges(preferences.upper_layers[i], [&](const tracking::NumberRange& numbers) {
        options.dissector.upper_layers.push_back({numbers, static_cast<Upper>(i)});
      });
    options.monitors = preferences.check_rules;
    options.kept_bytes = std::size_t{preferences.kept_megabytes} << 20;
    options.tracked_bytes = std::size_t{preferences.connection_megabytes} << 20;
    file = std::make_unique<Session>(options);
    if (preferences.read_once) file->read_once();
  });
  take_places();
  update_coloring_rules();
}

void end() {
  current_of = nullptr;
  current.packet = nullptr;
  forget_follow_windows();
  file.reset();
}

void first_pass_is_over() {
  unless_out_of_memory([] {
    if (file) file->finish();
  });
}

/// Runs after all other dissectors, so that their data is complete.
int dissect_after_all(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void*) {
  const Current& frame = current_frame(tvb, pinfo);
  current_of = nullptr;  // the next dissection of the frame may use data of later frames
  if (!frame.packet) return 0;
  const bool eventful = file->eventful(frame.packet->number);
  if (!eventful && !concerns(*frame.packet, file->is_iwarp(frame.packet->number))) return 0;
  // Compute only the required fields, because most passes need few fields of a packet.
  proto_item* item = proto_tree_add_item(tree, proto, frame.tvb, 0, -1, ENC_NA);
  const bool wanted = tree && proto_field_is_referenced(tree, proto);
  if (wanted || eventful) {
    const FrameFacts& facts = frame.known();
    if (frame.packet && eventful && preferences.info_prefixes) show_in_info(pinfo, *frame.packet, facts);
    if (frame.packet)
      show(frame.tvb, pinfo, wanted ? item : nullptr, *file, *frame.packet, facts, {preferences.lower_layers != FALSE});
  }
  if (frame.packet) tap(pinfo, frame);
  return static_cast<int>(tvb_captured_length(tvb));
}

/// Preferences for captures that do not contain the start of their connections.
void register_number_preferences(module_t* module) {
  constexpr guint32 last_port = 0xffff, last_qp = 0xffffff;
  preferences.iwarp_ports = range_empty(wmem_epan_scope());
  prefs_register_range_preference(module, "iwarp_ports", "TCP ports of iWARP",
                                  "Connections of these ports are iWARP, also without MPA frames and valid CRCs. Other "
                                  "connections are recognized. Applies to the next file",
                                  &preferences.iwarp_ports, last_port);
  struct UpperLayer {
    Upper protocol;
    const char *name, *title;
  };
  static constexpr UpperLayer rows[] = {
      {Upper::nvme, "upper_layers.nvme", "QPs or TCP ports of NVMe over Fabrics"},
      {Upper::rpc_rdma, "upper_layers.rpc_rdma", "QPs or TCP ports of RPC-over-RDMA"},
      {Upper::iser, "upper_layers.iser", "QPs or TCP ports of iSER"},
      {Upper::srp, "upper_layers.srp", "QPs of SRP"},
      {Upper::smb_direct, "upper_layers.smb_direct", "QPs or TCP ports of SMB Direct"}};
  for (const UpperLayer& row : rows) {
    range_t*& numbers = preferences.upper_layers[static_cast<std::size_t>(row.protocol)];
    numbers = range_empty(wmem_epan_scope());
    prefs_register_range_preference(module, row.name, row.title,
                                    "Destination QPs, or TCP ports of iWARP, of connections whose start was not "
                                    "captured. Evidence of the capture takes precedence. Applies to the next file",
                                    &numbers, last_qp);
  }
}

void register_preferences() {
  module_t* module = prefs_register_protocol(proto, nullptr);
  prefs_register_bool_preference(
      module, "main_dissector", "Replace Wireshark's own RoCE and iWARP dissectors",
      "Upper layer dissectors are the same; infiniband.* and iwarp_* fields are not available",
      &preferences.main_dissector);
  prefs_register_bool_preference(module, "lower_layers", "Show the layers below RDMA",
                                 "Also show the headers below the RDMA transport, which Wireshark already shows",
                                 &preferences.lower_layers);
  prefs_register_bool_preference(module, "verify_crcs", "Verify ICRC, VCRC and MPA's CRC",
                                 "Bad CRCs are shown as expert items, and the probable cause in the packet's analysis",
                                 &preferences.verify_crcs);
  prefs_register_bool_preference(module, "check_rules", "Check the rules of the specifications",
                                 "Violations of the specifications are shown as expert items",
                                 &preferences.check_rules);
  prefs_register_bool_preference(module, "info_prefixes", "Show events in the column Info",
                                 "Such as [RDMA Retransmission], before the text of the other dissectors",
                                 &preferences.info_prefixes);
  prefs_register_bool_preference(
      module, "coloring_rules", "Add coloring rules",
      "Add the rules for RDMA before yours, unless a rule with the same name exists. Applies to the next file",
      &preferences.coloring_rules);
  prefs_register_bool_preference(module, "only_plausible_rpc", "Pass only plausible messages to the RPC dissector",
                                 "The built-in RPC-over-RDMA dissector reports other messages as malformed",
                                 &preferences.only_plausible_rpc);
  prefs_register_bool_preference(module, "mrc", "Recognize MRC",
                                 "Other manufacturers can use the opcodes of MRC. Applies to the next file",
                                 &preferences.mrc);
  prefs_register_uint_preference(module, "roce_port", "Additional UDP port of RoCEv2",
                                 "Port 4791 is always RoCEv2; 0: no other port", 10, &preferences.roce_port);
  prefs_register_uint_preference(module, "kept_megabytes", "Megabytes for messages of several packets",
                                 "Maximum payload kept for reassembly; of other messages only the headers are shown",
                                 10, &preferences.kept_megabytes);
  prefs_register_uint_preference(module, "connection_megabytes", "Megabytes for connections",
                                 "Maximum memory of connections and of the checks. Beyond it, connections are evicted: "
                                 "the oldest ones with one packet, then the least recently used ones.",
                                 10, &preferences.connection_megabytes);
  prefs_register_bool_preference(
      module, "read_once", "Forget old frames (tshark in one pass only)",
      "Discard the analysis of a frame about 65,000 frames later, to limit memory for captures of any length. "
      "Do not use it in the main window or with tshark -2, which dissect old frames again",
      &preferences.read_once);
  register_number_preferences(module);
}

void register_protocol() {
  proto = proto_register_protocol("RDMA on the wire (rdmawire)", "rdmawire", "rdmawire");
  register_fields(proto);
  register_preferences();
  register_init_routine(begin);
  register_cleanup_routine(end);
  register_postseq_cleanup_routine(first_pass_is_over);
  register_postdissector(register_dissector("rdmawire", dissect_after_all, proto));
  register_main_dissector(proto);
  register_taps(proto);
  register_flow_graph(proto);
  register_menu(proto);
}

}  // namespace

void hand_off() {
  hand_off_main_dissector();
  guard_rpc_dissector();
}

int protocol() { return proto; }
const Session* session() { return file.get(); }

const FrameFacts& Current::known() const {
  if (!facts_known)
    unless_out_of_memory([this] {
      if (packet && file) file->facts_of(packet->number, facts);
      facts_known = true;
    });
  return facts;
}

const Current& current_frame(tvbuff_t* tvb, packet_info* pinfo) {
  tvbuff_t* whole = tvb_get_ds_tvb(tvb);
  if (current_of == pinfo && current.packet && current.packet->number == pinfo->num && current.tvb == whole)
    return current;
  current.packet = nullptr;
  current.tvb = whole;
  const auto link = link_of(pinfo->rec->rec_header.packet_header.pkt_encap);
  if (!file || !link || pinfo->rec->rec_type != REC_TYPE_PACKET) return current;
  Frame frame;
  frame.number = pinfo->num;
  frame.time_ns = time_of(pinfo->abs_ts);
  frame.link = *link;
  const guint length = tvb_captured_length(whole);
  // The tvb contains reassembled IP fragments, and not the frame's bytes in the file.
  if (length != pinfo->fd->cap_len) return current;
  frame.bytes = {length ? tvb_get_ptr(whole, 0, static_cast<gint>(length)) : nullptr, length};
  frame.wire_length = tvb_reported_length(whole);
  unless_out_of_memory([&] {
    const bool is_new = !pinfo->fd->visited && !file->finished() && frame.number > file->last_frame();
    current.packet = is_new ? &file->add(frame) : &file->again(frame);
    current.facts_known = false;
  });
  current_of = pinfo;
  return current;
}

const Current& current_frame_of(packet_info* pinfo) {
  // The first data source contains the bytes of the file.
  const auto* source = pinfo->data_src ? static_cast<const struct data_source*>(pinfo->data_src->data) : nullptr;
  if (tvbuff_t* frame = source ? get_data_source_tvb(source) : nullptr) return current_frame(frame, pinfo);
  current.packet = nullptr;
  current_of = nullptr;
  return current;
}

}  // namespace rdmawire::wireshark

// A const at namespace scope has internal linkage in C++ unless declared extern first.
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
