#include "replay/rpc/device_commands.hpp"

namespace rdmawire::rpc {
namespace {

constexpr Limits extension{.extension = true};
constexpr Limits port_number{.least = 1};

}  // namespace

const Structure& GidEntry::structure() {
  static const Structure& it = *new Structure{
      "GidEntry",
      "An entry of a port's GID table.",
      {required<&GidEntry::index>("index"), required<&GidEntry::gid>("gid", "in IPv6 notation"),
       required<&GidEntry::type>("type"), optional<&GidEntry::netdev>("netdev", "name of its network interface")}};
  return it;
}

const Structure& PortAttributes::structure() {
  using P = PortAttributes;
  static const Structure& it =
      *new Structure{"PortAttributes",
                     "The state and the tables of a port.",
                     {required<&P::port>("port"),
                      required<&P::state>("state"),
                      optional<&P::phys_state>("phys_state"),
                      required<&P::link_layer>("link_layer"),
                      optional<&P::netdev>("netdev", "name of its network interface, or null", {.null = true}),
                      required<&P::max_mtu>("max_mtu", "bytes"),
                      required<&P::active_mtu>("active_mtu", "bytes"),
                      optional<&P::max_msg_size>("max_msg_size", "bytes"),
                      required<&P::lid>("lid", "LIDs, and numbers of the PortInfo attribute"),
                      optional<&P::lmc>("lmc", same),
                      optional<&P::sm_lid>("sm_lid", same),
                      optional<&P::sm_sl>("sm_sl", same),
                      optional<&P::max_vl>("max_vl", same),
                      optional<&P::subnet_timeout>("subnet_timeout", same),
                      optional<&P::active_width>("active_width", same),
                      optional<&P::active_speed>("active_speed", same),
                      optional<&P::grh_required>("grh_required"),
                      optional<&P::bad_pkey_counter>("bad_pkey_counter"),
                      optional<&P::qkey_violations>("qkey_violations"),
                      optional<&P::capabilities>("capabilities"),
                      optional<&P::gid_table_length>("gid_table_length", "entries, including empty ones"),
                      required<&P::gids>("gids"),
                      optional<&P::pkeys>("pkeys")}};
  return it;
}

const Structure& DeviceEntry::structure() {
  using D = DeviceEntry;
  static const Structure& it = *new Structure{
      "DeviceEntry",
      "A device of the host.",
      {required<&D::name>("name"), optional<&D::node_type>("node_type"), optional<&D::transport>("transport"),
       optional<&D::guid>("guid"), optional<&D::problem>("problem", "why the device cannot be opened"),
       optional<&D::ports>("ports", "absent if the device cannot be opened")}};
  return it;
}

const Command& Devices::command() {
  static const Command& it = *new Command{
      .name = "devices",
      .does =
          "Lists the RDMA devices of the host with their ports. Each device is opened and closed. A device that "
          "cannot be opened has a `problem` instead of ports.",
      .result = {required<&Result::devices>("devices"),
                 optional<&Result::reason>("reason", "why the list is empty, only if it is")},
      .example = "{}",
      .answers =
          R"({"devices":[],"reason":"the kernel has no user-space verbs; load ib_uverbs and the driver of a device"})"};
  return it;
}

const Command& Open::command() {
  static const Command& it =
      *new Command{.name = "open",
                   .does =
                       "Opens a device. Its asynchronous events are reported as "
                       "`{\"event\":\"async\",\"type\":\"port_active\",\"device\":1,\"port\":1}`.",
                   .arguments = {required<&Open::name>("name", "as in `devices`")},
                   .result = {required<&Result::device>("device"),
                              optional<&Result::comp_vectors>("comp_vectors", "completion vectors")},
                   .example = R"({"name":"rxe0"})",
                   .answers = R"({"device":1,"comp_vectors":2})"};
  return it;
}

const Structure& PciAtomics::structure() {
  using P = PciAtomics;
  static const Structure& it = *new Structure{
      "PciAtomics",
      "Sizes of atomic operations on PCI, as bits.",
      {required<&P::fetch_add>("fetch_add"), required<&P::swap>("swap"), required<&P::compare_swap>("compare_swap")}};
  return it;
}

const Structure& OnDemandPaging::structure() {
  using O = OnDemandPaging;
  static const Structure& it =
      *new Structure{"OnDemandPaging",
                     "Support of on-demand paging: in general, and by transport service.",
                     {required<&O::general>("general"), required<&O::rc>("rc", "operations"),
                      required<&O::uc>("uc", same), required<&O::ud>("ud", same), required<&O::xrc>("xrc", same)}};
  return it;
}

const Structure& CqModeration::structure() {
  using C = CqModeration;
  static const Structure& it = *new Structure{
      "CqModeration",
      "Limits of the moderation of completion events.",
      {required<&C::max_count>("max_count", "completions"), required<&C::max_period_us>("max_period_us", "µs")}};
  return it;
}

const Structure& CongestionBehavior::structure() {
  using C = CongestionBehavior;
  static const Structure& it =
      *new Structure{"CongestionBehavior",
                     "Documented congestion behavior of a device.",
                     {required<&C::pacing>("pacing", "`queue_pair`: the device sends CNPs for each QP"),
                      required<&C::interval_ns>("interval_ns", "minimum time between CNPs"),
                      required<&C::on_loss>("on_loss", "whether a lost packet causes CNPs")}};
  return it;
}

const Command& Describe::command() {
  static const Command& it = *new Command{
      .name = "describe",
      .does = "Returns the attributes and capabilities of a device.",
      .arguments = {required<&Describe::device>("device")},
      .result = {optional<&Result::name>("name"),
                 optional<&Result::node_type>("node_type"),
                 required<&Result::transport>("transport"),
                 optional<&Result::guid>("guid", "GUIDs of node and system"),
                 optional<&Result::sys_image_guid>("sys_image_guid", same),
                 optional<&Result::firmware>("firmware", "version of the firmware"),
                 optional<&Result::vendor_id>("vendor_id", "numbers of vendor, part and version"),
                 optional<&Result::vendor_part_id>("vendor_part_id", same),
                 optional<&Result::hw_ver>("hw_ver", same),
                 optional<&Result::limits>("limits", "with the names of ibv_device_attr in unabbreviated form"),
                 optional<&Result::capabilities>("capabilities"),
                 optional<&Result::capability_flags>("capability_flags", "`capabilities` as a number"),
                 optional<&Result::atomic>("atomic"),
                 optional<&Result::pci_atomic>("pci_atomic"),
                 optional<&Result::odp>("odp"),
                 optional<&Result::timestamp_mask>("timestamp_mask", "as in ibv_device_attr_ex"),
                 optional<&Result::core_clock_khz>("core_clock_khz", same),
                 optional<&Result::max_dm_size>("max_dm_size", same),
                 optional<&Result::cq_moderation>("cq_moderation"),
                 optional<&Result::comp_vectors>("comp_vectors", "completion vectors"),
                 optional<&Result::congestion_control>("congestion_control", "whether the device sends and obeys CNPs",
                                                       extension),
                 optional<&Result::congestion>("congestion", {}, extension),
                 optional<&Result::rfc7306>("rfc7306", "whether the iWARP device supports RFC 7306", extension),
                 required<&Result::ports>("ports")},
      .example = R"({"device":1})",
      .answers =
          R"({"name":"rxe0","node_type":"ca","transport":"ib","limits":{"max_qp":1048560},"atomic":"hca","ports":[]})"};
  return it;
}

const Command& QueryPort::command() {
  static const Command& it = *new Command{
      .name = "port",
      .does = "Returns the state and the tables of a port.",
      .arguments = {required<&QueryPort::device>("device"), optional<&QueryPort::port>("port", {}, port_number)},
      .result = PortAttributes::structure().fields,
      .example = R"({"device":1})",
      .answers = R"({"port":1,"state":"active","link_layer":"ethernet","netdev":"eth0","active_mtu":1024,)"
                 R"("max_mtu":4096,"lid":0,)"
                 R"("gids":[{"index":1,"gid":"::ffff:10.0.0.2","type":"roce_v2","netdev":"eth0"}],"pkeys":[65535]})"};
  return it;
}

const Command& Counters::command() {
  static const Command& it = *new Command{
      .name = "counters",
      .does = "Returns counters of a port and of the device from sysfs. The set of counters depends on the driver.",
      .arguments = {required<&Counters::device>("device"), optional<&Counters::port>("port", {}, port_number)},
      .result = {required<&Result::counters>("counters", "port counters of the specification"),
                 required<&Result::hw_counters>("hw_counters", "port counters of the driver"),
                 optional<&Result::device_hw_counters>("device_hw_counters", "device counters of the driver")},
      .example = R"({"device":1,"port":1})",
      .answers = R"({"counters":{},"hw_counters":{"duplicate_request":0,"rcvd_pkts":12},"device_hw_counters":{}})"};
  return it;
}

const Command& AllocPd::command() {
  static const Command& it = *new Command{.name = "alloc_pd",
                                          .does = "Allocates a protection domain.",
                                          .arguments = {required<&AllocPd::device>("device")},
                                          .result = {required<&Result::pd>("pd")},
                                          .example = R"({"device":1})",
                                          .answers = R"({"pd":2})"};
  return it;
}

const Command& OpenXrcd::command() {
  static const Command& it = *new Command{.name = "open_xrcd",
                                          .does = "Opens an XRC domain that is not shared.",
                                          .arguments = {required<&OpenXrcd::device>("device")},
                                          .result = {required<&Result::xrcd>("xrcd")},
                                          .example = R"({"device":1})",
                                          .answers = R"({"xrcd":3})"};
  return it;
}

}  // namespace rdmawire::rpc
