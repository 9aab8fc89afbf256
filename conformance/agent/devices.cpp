/// devices, open, describe, port, counters, alloc_pd, open_xrcd.

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"

namespace rdmawire::agent {
namespace {

namespace fs = std::filesystem;

using DeviceList = std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)>;

/// The devices of this host.
Result<DeviceList> list_devices(int& count) {
  errno = 0;
  count = 0;
  DeviceList list(ibv_get_device_list(&count), ibv_free_device_list);
  if (list == nullptr) return tl::unexpected(verbs_failed("ibv_get_device_list", errno));
  return list;
}

std::string why_no_devices() {
  std::error_code ignored;
  if (!fs::exists("/sys/class/infiniband_verbs", ignored)) {
    return "the kernel has no user-space verbs; load ib_uverbs and the driver of a device";
  }
  if (fs::is_empty("/sys/class/infiniband", ignored)) {
    return "the kernel has no RDMA device; rdma link add creates one for a network interface";
  }
  return "libibverbs has no driver for the RDMA devices, or no permission to open /dev/infiniband";
}

std::string guid_text(__be64 guid) {
  const std::uint64_t number = be64toh(guid);
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", number >> 48, number >> 32 & 0xFFFF, number >> 16 & 0xFFFF,
                     number & 0xFFFF);
}

Json gid_json(const ibv_gid_entry& entry) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, entry.gid.raw, text, sizeof text);
  Json json = {{"index", entry.gid_index}, {"gid", text}, {"type", name_of(names::gid_type, entry.gid_type)}};
  char interface[IF_NAMESIZE];
  if (entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, interface) != nullptr) json["netdev"] = interface;
  return json;
}

constexpr std::size_t most_gids = 4096;

std::vector<ibv_gid_entry> gids_of(ibv_context* context) {
  std::vector<ibv_gid_entry> entries(256);
  for (;;) {
    const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
    if (count >= 0) {
      entries.resize(static_cast<std::size_t>(count));
      return entries;
    }
    // Older kernels do not report the table size and reject a buffer that is too small.
    if (entries.size() >= most_gids) return {};
    entries.resize(entries.size() * 4);
  }
}

/// Width and speed as in the PortInfo attribute, IBTA vol 1, 14.2.5.6.
Json port_json(ibv_context* context, std::uint8_t number, const ibv_port_attr& port,
               const std::vector<ibv_gid_entry>& gids) {
  Json gid_list = Json::array();
  std::string netdev;
  for (const ibv_gid_entry& entry : gids) {
    if (entry.port_num != number) continue;
    gid_list.push_back(gid_json(entry));
    if (netdev.empty() && gid_list.back().contains("netdev")) netdev = gid_list.back()["netdev"].get<std::string>();
  }
  Json pkeys = Json::array();
  for (int i = 0; i < port.pkey_tbl_len; ++i) {
    __be16 pkey = 0;
    if (ibv_query_pkey(context, number, i, &pkey) != 0) break;
    pkeys.push_back(be16toh(pkey));
  }
  const auto mtu = [](ibv_mtu value) { return value == 0 ? 0 : 128U << static_cast<unsigned>(value & 15); };
  return {{"port", number},
          {"state", name_of(names::port_state, port.state)},
          {"phys_state", name_of(names::phys_state, port.phys_state)},
          {"link_layer", name_of(names::link_layer, port.link_layer)},
          {"netdev", netdev.empty() ? Json(nullptr) : Json(netdev)},
          {"max_mtu", mtu(port.max_mtu)},
          {"active_mtu", mtu(port.active_mtu)},
          {"max_msg_size", port.max_msg_sz},
          {"lid", port.lid},
          {"lmc", port.lmc},
          {"sm_lid", port.sm_lid},
          {"sm_sl", port.sm_sl},
          {"max_vl", port.max_vl_num},
          {"subnet_timeout", port.subnet_timeout},
          {"active_width", port.active_width},
          {"active_speed", port.active_speed},
          {"grh_required", (port.flags & IBV_QPF_GRH_REQUIRED) != 0},
          {"bad_pkey_counter", port.bad_pkey_cntr},
          {"qkey_violations", port.qkey_viol_cntr},
          {"capabilities", names_of_bits(names::port_caps, port.port_cap_flags)},
          {"gid_table_length", port.gid_tbl_len},
          {"gids", std::move(gid_list)},
          {"pkeys", std::move(pkeys)}};
}

Result<Json> query_port(ibv_context* context, std::uint8_t number, const std::vector<ibv_gid_entry>& gids) {
  ibv_port_attr port{};
  if (const int wrong = ibv_query_port(context, number, &port); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_port", wrong));
  }
  return port_json(context, number, port, gids);
}

Result<Json> ports_json(ibv_context* context, unsigned count) {
  Json ports = Json::array();
  const auto gids = gids_of(context);
  for (unsigned number = 1; number <= std::min(count, 255U); ++number) {
    auto port = query_port(context, static_cast<std::uint8_t>(number), gids);
    if (!port) return port;
    ports.push_back(std::move(*port));
  }
  return ports;
}

unsigned port_count(const ibv_device_attr_ex& attributes) {
  return attributes.phys_port_cnt_ex != 0 ? attributes.phys_port_cnt_ex : attributes.orig_attr.phys_port_cnt;
}

Result<ibv_device_attr_ex> query_device(ibv_context* context) {
  ibv_device_attr_ex attributes{};
  if (const int wrong = ibv_query_device_ex(context, nullptr, &attributes); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_device_ex", wrong));
  }
  return attributes;
}

Json identity(ibv_device* device) {
  return {{"name", ibv_get_device_name(device)},
          {"node_type", name_of(names::node_type, static_cast<std::uint64_t>(device->node_type))},
          {"transport", name_of(names::transport, static_cast<std::uint64_t>(device->transport_type))},
          {"guid", guid_text(ibv_get_device_guid(device))}};
}

Result<Json> devices(Session&, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  int count = 0;
  const auto list = list_devices(count);
  // A host may have no devices.
  if (!list && list.error().number != ENOSYS) return tl::unexpected(list.error());
  Json all = Json::array();
  for (int i = 0; list && i < count; ++i) {
    ibv_device* device = list->get()[i];
    Json entry = identity(device);
    errno = 0;
    ibv_context* context = ibv_open_device(device);
    if (context == nullptr) {
      entry["problem"] = verbs_failed("ibv_open_device", errno).message;
    } else {
      const auto attributes = query_device(context);
      const auto ports = attributes ? ports_json(context, port_count(*attributes)) : tl::unexpected(attributes.error());
      if (ports) {
        entry["ports"] = *ports;
      } else {
        entry["problem"] = ports.error().message;
      }
      ibv_close_device(context);
    }
    all.push_back(std::move(entry));
  }
  Json result = {{"devices", std::move(all)}};
  if (result["devices"].empty()) result["reason"] = why_no_devices();
  return result;
}

Result<Json> open(Session& session, Arguments& arguments) {
  const std::string name = arguments.text("name");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  int count = 0;
  const auto list = list_devices(count);
  if (!list) return tl::unexpected(list.error());
  std::string known;
  for (int i = 0; i < count; ++i) {
    ibv_device* device = list->get()[i];
    if (name != ibv_get_device_name(device)) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", ibv_get_device_name(device));
      continue;
    }
    errno = 0;
    ibv_context* context = ibv_open_device(device);
    if (context == nullptr) return tl::unexpected(verbs_failed("ibv_open_device", errno));
    const int vectors = context->num_comp_vectors;
    const Device& opened = session.objects().add(std::make_unique<Device>(session, context, true));
    return Json{{"device", opened.handle()}, {"comp_vectors", vectors}};
  }
  return fail(ENODEV, "name: unknown device; {}", known.empty() ? why_no_devices() : "available: " + known);
}

Json limits_json(const ibv_device_attr& a) {
  return {{"max_mr_size", a.max_mr_size},
          {"page_sizes", a.page_size_cap},
          {"max_qp", a.max_qp},
          {"max_qp_wr", a.max_qp_wr},
          {"max_sge", a.max_sge},
          {"max_sge_rd", a.max_sge_rd},
          {"max_cq", a.max_cq},
          {"max_cqe", a.max_cqe},
          {"max_mr", a.max_mr},
          {"max_mw", a.max_mw},
          {"max_pd", a.max_pd},
          {"max_ah", a.max_ah},
          {"max_srq", a.max_srq},
          {"max_srq_wr", a.max_srq_wr},
          {"max_srq_sge", a.max_srq_sge},
          {"max_qp_rd_atomic", a.max_qp_rd_atom},
          {"max_qp_init_rd_atomic", a.max_qp_init_rd_atom},
          {"max_res_rd_atomic", a.max_res_rd_atom},
          {"max_multicast_groups", a.max_mcast_grp},
          {"max_multicast_qp_attach", a.max_mcast_qp_attach},
          {"max_total_multicast_qp_attach", a.max_total_mcast_qp_attach},
          {"max_pkeys", a.max_pkeys},
          {"local_ca_ack_delay", a.local_ca_ack_delay}};
}

Result<Json> describe_device(Session&, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  ibv_context* context = device->context();
  const auto attributes = query_device(context);
  if (!attributes) return tl::unexpected(attributes.error());
  auto ports = ports_json(context, port_count(*attributes));
  if (!ports) return ports;
  const ibv_device_attr& a = attributes->orig_attr;
  const std::uint64_t flags = attributes->device_cap_flags_ex | a.device_cap_flags;
  const auto odp = [](std::uint32_t bits) { return names_of_bits(names::odp_transport, bits); };
  Json result = identity(context->device);
  result["firmware"] = std::string(a.fw_ver, strnlen(a.fw_ver, sizeof a.fw_ver));
  result["sys_image_guid"] = guid_text(a.sys_image_guid);
  result["vendor_id"] = a.vendor_id;
  result["vendor_part_id"] = a.vendor_part_id;
  result["hw_ver"] = a.hw_ver;
  result["limits"] = limits_json(a);
  result["capabilities"] = names_of_bits(names::device_caps, flags);
  result["capability_flags"] = flags;
  result["atomic"] = name_of(names::atomic_cap, a.atomic_cap);
  const auto& pci = attributes->pci_atomic_caps;
  result["pci_atomic"] = {{"fetch_add", pci.fetch_add}, {"swap", pci.swap}, {"compare_swap", pci.compare_swap}};
  const auto& per_transport = attributes->odp_caps.per_transport_caps;
  result["odp"] = {{"general", names_of_bits(names::odp_general, attributes->odp_caps.general_caps)},
                   {"rc", odp(per_transport.rc_odp_caps)},
                   {"uc", odp(per_transport.uc_odp_caps)},
                   {"ud", odp(per_transport.ud_odp_caps)},
                   {"xrc", odp(attributes->xrc_odp_caps)}};
  result["timestamp_mask"] = attributes->completion_timestamp_mask;
  result["core_clock_khz"] = attributes->hca_core_clock;
  result["max_dm_size"] = attributes->max_dm_size;
  result["cq_moderation"] = {{"max_count", attributes->cq_mod_caps.max_cq_count},
                             {"max_period_us", attributes->cq_mod_caps.max_cq_period}};
  result["comp_vectors"] = context->num_comp_vectors;
  result["ports"] = std::move(*ports);
  return result;
}

Result<Json> port(Session&, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  const auto number = arguments.number_or<std::uint8_t>("port", 1, {1, 255});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return query_port(device->context(), number, gids_of(device->context()));
}

/// The files of a directory that contain a number, by name.
Json read_counters(const fs::path& directory) {
  std::error_code wrong;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(directory, wrong), end; !wrong && at != end; at.increment(wrong)) {
    files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  Json counters = Json::object();
  for (const fs::path& file : files) {
    std::uint64_t number = 0;
    // A setting: how long the driver caches counters.
    if (file.filename() == "lifespan") continue;
    if (std::ifstream(file) >> number) counters[file.filename().string()] = number;
  }
  return counters;
}

Result<Json> counters(Session&, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  const auto number = arguments.number_or<std::uint8_t>("port", 1, {1, 255});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  const fs::path base = device->context()->device->ibdev_path;
  const fs::path port_base = base / "ports" / std::to_string(number);
  std::error_code ignored;
  if (!fs::is_directory(port_base, ignored)) return fail(EINVAL, "port: {} is not a directory", port_base.string());
  return Json{{"counters", read_counters(port_base / "counters")},
              {"hw_counters", read_counters(port_base / "hw_counters")},
              {"device_hw_counters", read_counters(base / "hw_counters")}};
}

Result<Json> alloc_pd(Session& session, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  errno = 0;
  ibv_pd* pd = ibv_alloc_pd(device->context());
  if (pd == nullptr) return tl::unexpected(verbs_failed("ibv_alloc_pd", errno));
  return Json{{"pd", session.objects().add(std::make_unique<Pd>(pd), {device}).handle()}};
}

Result<Json> open_xrcd(Session& session, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = -1;  // not shared
  attributes.oflags = O_CREAT;
  errno = 0;
  ibv_xrcd* xrcd = ibv_open_xrcd(device->context(), &attributes);
  if (xrcd == nullptr) return tl::unexpected(verbs_failed("ibv_open_xrcd", errno));
  return Json{{"xrcd", session.objects().add(std::make_unique<Xrcd>(xrcd), {device}).handle()}};
}

}  // namespace

std::span<const Command> device_commands() {
  static constexpr std::string_view a_device = "handle of an opened device";
  static const Command all[] = {
      {"devices",
       "Lists the RDMA devices of the host with their ports. Each device is opened and closed. A device that "
       "cannot be opened has a `problem` instead of ports.",
       {},
       {{"devices",
         "list of `name`, `node_type`, `transport` (`ib`, `iwarp`), `guid`, `ports` (as returned by `port`)"},
        {"reason", "text, only when the list is empty"}},
       "{}",
       R"({"devices":[],"reason":"the kernel has no user-space verbs; load ib_uverbs and the driver of a device"})",
       &devices},
      {"open",
       "Opens a device. Its asynchronous events are reported as "
       "`{\"event\":\"async\",\"type\":\"port_active\",\"device\":1,\"port\":1}`, with `qp`, `cq` or `srq` if they "
       "refer to one.",
       {{"name", "text: as in `devices`"}},
       {{"device", "handle"}, {"comp_vectors", "number of completion vectors"}},
       R"({"name":"rxe0"})",
       R"({"device":1,"comp_vectors":2})",
       &open},
      {"describe",
       "Returns the attributes and capabilities of a device.",
       {{"device", a_device}},
       {{"name, node_type, transport, guid, sys_image_guid", "identification"},
        {"firmware, vendor_id, vendor_part_id, hw_ver", "hardware and firmware"},
        {"limits", "object of numbers, with the names of ibv_device_attr in unabbreviated form"},
        {"capabilities", "list of names"},
        {"capability_flags", "the same as a number"},
        {"atomic", "`none`, `hca` or `global`"},
        {"pci_atomic", "sizes of atomic operations on PCI, as bits: `fetch_add`, `swap`, `compare_swap`"},
        {"odp", "on-demand paging: lists `general`, `rc`, `uc`, `ud`, `xrc`"},
        {"timestamp_mask, core_clock_khz, max_dm_size, cq_moderation, comp_vectors", "numbers of ibv_device_attr_ex"},
        {"ports", "list, as returned by `port`"}},
       R"({"device":1})",
       R"({"name":"rxe0","node_type":"ca","transport":"ib","limits":{"max_qp":1048560},"atomic":"hca","ports":[]})",
       &describe_device},
      {"port",
       "Returns the state and the tables of a port.",
       {{"device", a_device}, {"port", "optional number, 1 to 255 (default 1)"}},
       {{"port, state, phys_state, link_layer", "`active`, `link_up`, `ethernet`, …"},
        {"netdev", "name of its network interface, or null"},
        {"max_mtu, active_mtu, max_msg_size", "bytes"},
        {"lid, lmc, sm_lid, sm_sl, max_vl, subnet_timeout, active_width, active_speed",
         "numbers of the PortInfo attribute"},
        {"grh_required", "boolean"},
        {"bad_pkey_counter, qkey_violations", "numbers"},
        {"capabilities", "list of names"},
        {"gid_table_length", "number of entries, including empty ones"},
        {"gids", "list of `index`, `gid`, `type` (`ib`, `roce_v1`, `roce_v2`), `netdev`"},
        {"pkeys", "list of numbers"}},
       R"({"device":1})",
       R"({"port":1,"state":"active","link_layer":"ethernet","netdev":"eth0","active_mtu":1024,)"
       R"("gids":[{"index":1,"gid":"::ffff:10.0.0.2","type":"roce_v2","netdev":"eth0"}],"pkeys":[65535]})",
       &port},
      {"counters",
       "Returns counters of a port and of the device from sysfs. The set of counters depends on the driver.",
       {{"device", a_device}, {"port", "optional number, 1 to 255 (default 1)"}},
       {{"counters", "object of numbers: port counters of the specification"},
        {"hw_counters", "object of numbers: port counters of the driver"},
        {"device_hw_counters", "object of numbers: device counters of the driver"}},
       R"({"device":1,"port":1})",
       R"({"counters":{},"hw_counters":{"duplicate_request":0,"rcvd_pkts":12},"device_hw_counters":{}})",
       &counters},
      {"alloc_pd",
       "Allocates a protection domain.",
       {{"device", a_device}},
       {{"pd", "handle"}},
       R"({"device":1})",
       R"({"pd":2})",
       &alloc_pd},
      {"open_xrcd",
       "Opens an XRC domain that is not shared.",
       {{"device", a_device}},
       {{"xrcd", "handle"}},
       R"({"device":1})",
       R"({"xrcd":3})",
       &open_xrcd},
  };
  return all;
}

}  // namespace rdmawire::agent
