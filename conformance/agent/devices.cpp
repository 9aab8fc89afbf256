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
#include "replay/rpc/device_commands.hpp"

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

rpc::GidEntry gid_entry(const ibv_gid_entry& entry) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, entry.gid.raw, text, sizeof text);
  rpc::GidEntry report{
      .index = entry.gid_index, .gid = text, .type = decltype(report.type)::of(entry.gid_type), .netdev = {}};
  char interface[IF_NAMESIZE];
  if (entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, interface) != nullptr) report.netdev = interface;
  return report;
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
rpc::PortAttributes port_attributes(ibv_context* context, std::uint8_t number, const ibv_port_attr& port,
                                    const std::vector<ibv_gid_entry>& gids) {
  rpc::PortAttributes report;
  for (const ibv_gid_entry& entry : gids) {
    if (entry.port_num != number) continue;
    report.gids.push_back(gid_entry(entry));
    if (!report.netdev) report.netdev = report.gids.back().netdev;
  }
  auto& pkeys = report.pkeys.emplace();
  for (int i = 0; i < port.pkey_tbl_len; ++i) {
    __be16 pkey = 0;
    if (ibv_query_pkey(context, number, i, &pkey) != 0) break;
    pkeys.push_back(be16toh(pkey));
  }
  const auto mtu = [](ibv_mtu value) { return value == 0 ? 0 : 128U << static_cast<unsigned>(value & 15); };
  report.port = number;
  report.state = decltype(report.state)::of(port.state);
  report.phys_state = rpc::Choice<names::phys_state>::of(port.phys_state);
  report.link_layer = decltype(report.link_layer)::of(port.link_layer);
  report.max_mtu = mtu(port.max_mtu);
  report.active_mtu = mtu(port.active_mtu);
  report.max_msg_size = port.max_msg_sz;
  report.lid = port.lid;
  report.lmc = port.lmc;
  report.sm_lid = port.sm_lid;
  report.sm_sl = port.sm_sl;
  report.max_vl = port.max_vl_num;
  report.subnet_timeout = port.subnet_timeout;
  report.active_width = port.active_width;
  report.active_speed = port.active_speed;
  report.grh_required = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  report.bad_pkey_counter = port.bad_pkey_cntr;
  report.qkey_violations = port.qkey_viol_cntr;
  report.capabilities = rpc::Flags<names::port_caps>::of(port.port_cap_flags);
  report.gid_table_length = static_cast<std::uint32_t>(port.gid_tbl_len);
  return report;
}

Result<rpc::PortAttributes> query_port(ibv_context* context, std::uint8_t number,
                                       const std::vector<ibv_gid_entry>& gids) {
  ibv_port_attr port{};
  if (const int wrong = ibv_query_port(context, number, &port); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_port", wrong));
  }
  return port_attributes(context, number, port, gids);
}

using Ports = std::vector<rpc::PortAttributes>;

Result<Ports> query_ports(ibv_context* context, unsigned count) {
  Ports ports;
  const auto gids = gids_of(context);
  for (unsigned number = 1; number <= std::min(count, 255U); ++number) {
    auto port = query_port(context, static_cast<std::uint8_t>(number), gids);
    if (!port) return tl::unexpected(port.error());
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

/// Sets the members that identify a device.
template <class Report>
void identify(Report& report, ibv_device* device) {
  report.name = ibv_get_device_name(device);
  report.node_type = rpc::Choice<names::node_type>::of(static_cast<std::uint64_t>(device->node_type));
  report.transport = rpc::Choice<names::transport>::of(static_cast<std::uint64_t>(device->transport_type));
  report.guid = guid_text(ibv_get_device_guid(device));
}

Result<rpc::Devices::Result> devices(Session&, const rpc::Devices&) {
  int count = 0;
  const auto list = list_devices(count);
  // ENOSYS: the kernel has no verbs. The list is then empty.
  if (!list && list.error().number != ENOSYS) return tl::unexpected(list.error());
  rpc::Devices::Result all;
  for (int i = 0; list && i < count; ++i) {
    ibv_device* device = list->get()[i];
    rpc::DeviceEntry& entry = all.devices.emplace_back();
    identify(entry, device);
    errno = 0;
    ibv_context* context = ibv_open_device(device);
    if (context == nullptr) {
      entry.problem = verbs_failed("ibv_open_device", errno).message;
      continue;
    }
    const auto attributes = query_device(context);
    auto ports = attributes ? query_ports(context, port_count(*attributes)) : tl::unexpected(attributes.error());
    if (ports) {
      entry.ports = std::move(*ports);
    } else {
      entry.problem = ports.error().message;
    }
    ibv_close_device(context);
  }
  if (all.devices.empty()) all.reason = why_no_devices();
  return all;
}

Result<rpc::Open::Result> open(Session& session, const rpc::Open& request) {
  int count = 0;
  const auto list = list_devices(count);
  if (!list) return tl::unexpected(list.error());
  std::string known;
  for (int i = 0; i < count; ++i) {
    ibv_device* device = list->get()[i];
    if (request.name != ibv_get_device_name(device)) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", ibv_get_device_name(device));
      continue;
    }
    errno = 0;
    ibv_context* context = ibv_open_device(device);
    if (context == nullptr) return tl::unexpected(verbs_failed("ibv_open_device", errno));
    const auto vectors = static_cast<std::uint32_t>(context->num_comp_vectors);
    const Device& opened = session.objects().add(std::make_unique<Device>(session, context, true));
    return rpc::Open::Result{{opened.handle()}, vectors};
  }
  return fail(ENODEV, "name: unknown device; {}", known.empty() ? why_no_devices() : "available: " + known);
}

std::map<std::string, std::uint64_t> limits_of(const ibv_device_attr& a) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {{"max_mr_size", number(a.max_mr_size)},
          {"page_sizes", number(a.page_size_cap)},
          {"max_qp", number(a.max_qp)},
          {"max_qp_wr", number(a.max_qp_wr)},
          {"max_sge", number(a.max_sge)},
          {"max_sge_rd", number(a.max_sge_rd)},
          {"max_cq", number(a.max_cq)},
          {"max_cqe", number(a.max_cqe)},
          {"max_mr", number(a.max_mr)},
          {"max_mw", number(a.max_mw)},
          {"max_pd", number(a.max_pd)},
          {"max_ah", number(a.max_ah)},
          {"max_srq", number(a.max_srq)},
          {"max_srq_wr", number(a.max_srq_wr)},
          {"max_srq_sge", number(a.max_srq_sge)},
          {"max_qp_rd_atomic", number(a.max_qp_rd_atom)},
          {"max_qp_init_rd_atomic", number(a.max_qp_init_rd_atom)},
          {"max_res_rd_atomic", number(a.max_res_rd_atom)},
          {"max_multicast_groups", number(a.max_mcast_grp)},
          {"max_multicast_qp_attach", number(a.max_mcast_qp_attach)},
          {"max_total_multicast_qp_attach", number(a.max_total_mcast_qp_attach)},
          {"max_pkeys", number(a.max_pkeys)},
          {"local_ca_ack_delay", number(a.local_ca_ack_delay)}};
}

Result<rpc::Describe::Result> describe_device(Session& session, const rpc::Describe& request) {
  ibv_context* context = session.objects().of<Device>(request.device).context();
  const auto attributes = query_device(context);
  if (!attributes) return tl::unexpected(attributes.error());
  auto ports = query_ports(context, port_count(*attributes));
  if (!ports) return tl::unexpected(ports.error());
  const ibv_device_attr& a = attributes->orig_attr;
  const std::uint64_t flags = attributes->device_cap_flags_ex | a.device_cap_flags;
  using Operations = rpc::Flags<names::odp_transport>;
  rpc::Describe::Result result;
  identify(result, context->device);
  result.firmware = std::string(a.fw_ver, strnlen(a.fw_ver, sizeof a.fw_ver));
  result.sys_image_guid = guid_text(a.sys_image_guid);
  result.vendor_id = a.vendor_id;
  result.vendor_part_id = a.vendor_part_id;
  result.hw_ver = a.hw_ver;
  result.limits = limits_of(a);
  result.capabilities = rpc::Flags<names::device_caps>::of(flags);
  result.capability_flags = flags;
  result.atomic = rpc::Choice<names::atomic_cap>::of(a.atomic_cap);
  const auto& pci = attributes->pci_atomic_caps;
  result.pci_atomic = {pci.fetch_add, pci.swap, pci.compare_swap};
  const auto& per_transport = attributes->odp_caps.per_transport_caps;
  result.odp = {rpc::Flags<names::odp_general>::of(attributes->odp_caps.general_caps),
                Operations::of(per_transport.rc_odp_caps), Operations::of(per_transport.uc_odp_caps),
                Operations::of(per_transport.ud_odp_caps), Operations::of(attributes->xrc_odp_caps)};
  result.timestamp_mask = attributes->completion_timestamp_mask;
  result.core_clock_khz = attributes->hca_core_clock;
  result.max_dm_size = attributes->max_dm_size;
  result.cq_moderation = {attributes->cq_mod_caps.max_cq_count, attributes->cq_mod_caps.max_cq_period};
  result.comp_vectors = static_cast<std::uint32_t>(context->num_comp_vectors);
  result.ports = std::move(*ports);
  return result;
}

Result<rpc::PortAttributes> port(Session& session, const rpc::QueryPort& request) {
  ibv_context* context = session.objects().of<Device>(request.device).context();
  return query_port(context, request.port, gids_of(context));
}

/// Returns the numbers in the files of a directory, by file name.
std::map<std::string, std::uint64_t> read_counters(const fs::path& directory) {
  std::error_code wrong;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(directory, wrong), end; !wrong && at != end; at.increment(wrong)) {
    files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  std::map<std::string, std::uint64_t> counters;
  for (const fs::path& file : files) {
    std::uint64_t number = 0;
    // Not a counter, but a setting: the time for which the driver caches counters.
    if (file.filename() == "lifespan") continue;
    if (std::ifstream(file) >> number) counters[file.filename().string()] = number;
  }
  return counters;
}

Result<rpc::Counters::Result> counters(Session& session, const rpc::Counters& request) {
  const fs::path base = session.objects().of<Device>(request.device).context()->device->ibdev_path;
  const fs::path port_base = base / "ports" / std::to_string(request.port);
  std::error_code ignored;
  if (!fs::is_directory(port_base, ignored)) return fail(EINVAL, "port: {} is not a directory", port_base.string());
  return rpc::Counters::Result{read_counters(port_base / "counters"), read_counters(port_base / "hw_counters"),
                               read_counters(base / "hw_counters")};
}

Result<rpc::AllocPd::Result> alloc_pd(Session& session, const rpc::AllocPd& request) {
  const Device& device = session.objects().of<Device>(request.device);
  errno = 0;
  ibv_pd* pd = ibv_alloc_pd(device.context());
  if (pd == nullptr) return tl::unexpected(verbs_failed("ibv_alloc_pd", errno));
  return rpc::AllocPd::Result{{session.objects().add(std::make_unique<Pd>(pd), {&device}).handle()}};
}

Result<rpc::OpenXrcd::Result> open_xrcd(Session& session, const rpc::OpenXrcd& request) {
  const Device& device = session.objects().of<Device>(request.device);
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = -1;  // not shared
  attributes.oflags = O_CREAT;
  errno = 0;
  ibv_xrcd* xrcd = ibv_open_xrcd(device.context(), &attributes);
  if (xrcd == nullptr) return tl::unexpected(verbs_failed("ibv_open_xrcd", errno));
  return rpc::OpenXrcd::Result{{session.objects().add(std::make_unique<Xrcd>(xrcd), {&device}).handle()}};
}

}  // namespace

std::vector<Handler> device_handlers() {
  return {handler(devices),  handler(open),     handler(describe_device), handler(port),
          handler(counters), handler(alloc_pd), handler(open_xrcd)};
}

}  // namespace rdmawire::agent
