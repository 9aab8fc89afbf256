#include "replay/wires/verbs_device.hpp"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "replay/wires/error.hpp"
#include "replay/wires/verbs.hpp"

namespace rdmawire::replay {
namespace rdma {

WireError failed(const std::string& name, std::string_view doing, int number) {
  auto kind = WireError::Kind::system;
  std::string_view hint;
  switch (number) {
    case EPERM:
    case EACCES:
      kind = WireError::Kind::forbidden;
      hint = needs_net_raw;
      break;
    case ENODEV:
    case ENXIO:
    case EIO:
      kind = WireError::Kind::missing;
      hint = "; the device does not exist";
      break;
    case ENOMEM: hint = "; check the limit of locked memory (ulimit -l)"; break;
    case EOPNOTSUPP:
    case ENOSYS: kind = WireError::Kind::unsupported; break;
    default: break;
  }
  return wire_error(kind, number, "{}: {}: {}{}", name, doing, errno_text(number), hint);
}

WireResult<DeviceList> DeviceList::get(const std::string& name) {
  DeviceList list;
  list.devices_ = ibv_get_device_list(&list.count_);
  if (list.devices_) return list;
  if (errno == ENOSYS)
    return tl::unexpected(wire_error(WireError::Kind::unsupported, ENOSYS,
                                     "{}: the kernel has no RDMA support or the module ib_uverbs is not loaded; run: "
                                     "modprobe ib_uverbs",
                                     name));
  return tl::unexpected(failed(name, "list the RDMA devices", errno));
}

std::string_view state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initializing";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active, deferring";
    default: return "in an unknown state";
  }
}

namespace {

// The network interface of a port, from the GID table (Linux 5.10 and later).
std::string interface_of(ibv_context* context, std::uint32_t port, int gids) {
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(std::clamp(gids, 0, 256)); ++i) {
    ibv_gid_entry entry{};
    char name[IF_NAMESIZE];
    if (ibv_query_gid_ex(context, port, i, &entry, 0) == 0 && entry.ndev_ifindex != 0 &&
        if_indextoname(entry.ndev_ifindex, name))
      return name;
  }
  return {};
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  return text;
}

// The network interface of a port, from sysfs. The GID table is empty if RoCE is disabled.
std::string interface_in_sysfs(const std::filesystem::path& device, std::uint32_t port) {
  struct Candidate {
    std::string name;
    bool has_port;
  };
  std::vector<Candidate> candidates;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(device / "device" / "net", error)) {
    // Interfaces that represent virtual functions and subfunctions have names such as pf0vf1 and pf0sf2.
    const std::string role = text_of(entry.path() / "phys_port_name");
    if (role.starts_with("pf") && (role.find("vf") != std::string::npos || role.find("sf") != std::string::npos))
      continue;
    const std::string number = text_of(entry.path() / "dev_port");
    candidates.push_back({entry.path().filename().string(), number == std::to_string(port - 1)});
  }
  // The dev_port of a single port may differ from 0, for example if it is the port's number on the card.
  if (candidates.size() == 1) return candidates.front().name;
  for (const Candidate& candidate : candidates)
    if (candidate.has_port) return candidate.name;
  return {};
}

}  // namespace

WireResult<Device> open_device(const std::string& name, ibv_device* which, std::uint32_t port) {
  Device device;
  device.context.reset(ibv_open_device(which));
  if (!device.context) return tl::unexpected(failed(name, "open the device", errno));
  if (const int number = ibv_query_device_ex(device.context.get(), nullptr, &device.attributes))
    return tl::unexpected(failed(name, "query the device attributes", number));
  const std::uint32_t ports =
      std::max<std::uint32_t>(device.attributes.orig_attr.phys_port_cnt, device.attributes.phys_port_cnt_ex);
  if (port == 0 || port > ports)
    return tl::unexpected(wire_error(WireError::Kind::missing, 0, "{}: no port {}; {} has ports 1 to {}", name, port,
                                     ibv_get_device_name(which), ports));
  if (const int number = ibv_query_port(device.context.get(), static_cast<std::uint8_t>(port), &device.port))
    return tl::unexpected(failed(name, "query the port", number));
  device.interface = interface_of(device.context.get(), port, device.port.gid_tbl_len);
  if (device.interface.empty()) device.interface = interface_in_sysfs(which->ibdev_path, port);
  return device;
}

WireResult<void> check_link_layer(const std::string& name, const Device& device) {
  if (device.port.link_layer == IBV_LINK_LAYER_ETHERNET) return {};
  return tl::unexpected(wire_error(WireError::Kind::unsupported, 0,
                                   "{}: the link layer of the port is {}; raw packets require Ethernet", name,
                                   device.port.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "unknown"));
}

WireError no_raw_packets(const std::string& name, const Device& device, int number) {
  if (number != EINVAL && number != EOPNOTSUPP && number != ENOSYS)
    return failed(name, "create a raw-packet QP", number);
  return wire_error(WireError::Kind::unsupported, number,
                    "{}: the driver of {} does not support raw-packet QPs ({}); mlx4 and mlx5 do; packet:{} "
                    "sends through the kernel instead",
                    name, ibv_get_device_name(device.context->device), errno_text(number),
                    device.interface.empty() ? "INTERFACE" : device.interface);
}

QueuePair make_queue_pair(ibv_context* context, ibv_pd* domain, ibv_cq* send, ibv_cq* receive, const Sizes& sizes,
                          bool& requests) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = send;
  attributes.recv_cq = receive;
  attributes.cap = {sizes.send, sizes.receive, 1, 1, sizes.inline_bytes};
  attributes.qp_type = IBV_QPT_RAW_PACKET;
  attributes.pd = domain;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.send_ops_flags = IBV_QP_EX_WITH_SEND;
  QueuePair pair;
  if (requests) {
    pair.reset(ibv_create_qp_ex(context, &attributes));
    if (pair || errno == EPERM) return pair;
    requests = false;
  }
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  pair.reset(ibv_create_qp_ex(context, &attributes));
  return pair;
}

}  // namespace rdma

WireResult<std::vector<VerbsPort>> verbs_ports() {
  auto list = rdma::DeviceList::get("verbs");
  if (!list) return tl::unexpected(list.error());
  std::vector<VerbsPort> ports;
  for (ibv_device* which : *list) {
    std::uint32_t count = 1;
    for (std::uint32_t number = 1; number <= count; ++number) {
      VerbsPort port;
      port.device = ibv_get_device_name(which);
      port.port = number;
      const std::string name = fmt::format("verbs:{}/{}", port.device, number);
      auto device = rdma::open_device(name, which, number);
      if (!device) {
        port.why_not = device.error().message;
        ports.push_back(std::move(port));
        continue;
      }
      const ibv_device_attr_ex& attributes = device->attributes;
      count = std::max<std::uint32_t>(attributes.orig_attr.phys_port_cnt, attributes.phys_port_cnt_ex);
      port.state = rdma::state_name(device->port.state);
      port.interface = device->interface;
      port.link_layer = device->port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
      port.hardware_times = attributes.completion_timestamp_mask != 0;
      if (attributes.packet_pacing_caps.supported_qpts & (1U << IBV_QPT_RAW_PACKET)) {
        port.least_rate = attributes.packet_pacing_caps.qp_rate_limit_min * 1000ULL;
        port.most_rate = attributes.packet_pacing_caps.qp_rate_limit_max * 1000ULL;
      }
      if (const auto ethernet = rdma::check_link_layer(name, *device); !ethernet) {
        port.why_not = ethernet.error().message;
      } else {
        const rdma::Domain domain(ibv_alloc_pd(device->context.get()));
        const rdma::Queue queue(domain ? ibv_create_cq(device->context.get(), 2, nullptr, nullptr, 0) : nullptr);
        port.requests = true;
        const rdma::QueuePair pair(queue ? rdma::make_queue_pair(device->context.get(), domain.get(), queue.get(),
                                                                 queue.get(), {}, port.requests)
                                         : nullptr);
        port.raw_packets = pair != nullptr;
        if (!pair) port.why_not = rdma::no_raw_packets(name, *device, errno).message;
        port.requests = port.requests && pair;
      }
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

}  // namespace rdmawire::replay
