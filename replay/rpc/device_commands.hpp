#pragma once
/// Commands about devices and their ports.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// An entry of a port's GID table.
struct GidEntry {
  std::uint32_t index = 0;
  std::string gid = {};
  Choice<names::gid_type> type = {};
  std::optional<std::string> netdev = {};
  static const Structure& structure();
};

struct PortAttributes {
  std::uint8_t port = 1;
  Choice<names::port_state> state = {};
  std::optional<Choice<names::phys_state>> phys_state = {};
  Choice<names::link_layer> link_layer = {};
  std::optional<std::string> netdev = {};
  std::uint32_t max_mtu = 0, active_mtu = 0;
  std::optional<std::uint32_t> max_msg_size = {};
  std::uint16_t lid = 0;
  std::optional<std::uint8_t> lmc = {};
  std::optional<std::uint16_t> sm_lid = {};
  std::optional<std::uint8_t> sm_sl = {}, max_vl = {}, subnet_timeout = {}, active_width = {};
  std::optional<std::uint32_t> active_speed = {};
  std::optional<bool> grh_required = {};
  std::optional<std::uint32_t> bad_pkey_counter = {}, qkey_violations = {};
  std::optional<Flags<names::port_caps>> capabilities = {};
  std::optional<std::uint32_t> gid_table_length = {};
  std::vector<GidEntry> gids = {};
  std::optional<std::vector<std::uint16_t>> pkeys = {};
  static const Structure& structure();
};

/// A device in the list of the host's devices.
struct DeviceEntry {
  std::string name = {};
  std::optional<Choice<names::node_type>> node_type = {};
  std::optional<Choice<names::transport>> transport = {};
  std::optional<std::string> guid = {}, problem = {};
  std::optional<std::vector<PortAttributes>> ports = {};
  static const Structure& structure();
};

struct Devices {
  struct Result {
    std::vector<DeviceEntry> devices = {};
    std::optional<std::string> reason = {};
  };
  static const Command& command();
};

struct Open {
  std::string name = {};
  struct Result {
    DeviceHandle device = {};
    std::optional<std::uint32_t> comp_vectors = {};
  };
  static const Command& command();
};

/// Sizes of atomic operations on PCI.
struct PciAtomics {
  std::uint32_t fetch_add = 0, swap = 0, compare_swap = 0;
  static const Structure& structure();
};

/// On-demand paging.
struct OnDemandPaging {
  Flags<names::odp_general> general = {};
  Flags<names::odp_transport> rc = {}, uc = {}, ud = {}, xrc = {};
  static const Structure& structure();
};

/// Interrupt moderation of completion queues.
struct CqModeration {
  std::uint32_t max_count = 0, max_period_us = 0;
  static const Structure& structure();
};

/// Documented congestion behavior.
struct CongestionBehavior {
  std::string pacing = {};
  std::uint64_t interval_ns = 0;
  bool on_loss = false;
  static const Structure& structure();
};

struct Describe {
  DeviceHandle device = {};
  struct Result {
    std::optional<std::string> name = {};
    std::optional<Choice<names::node_type>> node_type = {};
    Choice<names::transport> transport = {};
    std::optional<std::string> guid = {}, sys_image_guid = {}, firmware = {};
    std::optional<std::uint32_t> vendor_id = {}, vendor_part_id = {}, hw_ver = {};
    std::map<std::string, std::uint64_t> limits = {};
    std::optional<Flags<names::device_caps>> capabilities = {};
    std::optional<std::uint64_t> capability_flags = {};
    std::optional<Choice<names::atomic_cap>> atomic = {};
    std::optional<PciAtomics> pci_atomic = {};
    std::optional<OnDemandPaging> odp = {};
    std::optional<std::uint64_t> timestamp_mask = {}, core_clock_khz = {}, max_dm_size = {};
    std::optional<CqModeration> cq_moderation = {};
    std::optional<std::uint32_t> comp_vectors = {};
    std::optional<bool> congestion_control = {}, rfc7306 = {};
    std::optional<CongestionBehavior> congestion = {};
    std::vector<PortAttributes> ports = {};
  };
  static const Command& command();
};

struct QueryPort {
  DeviceHandle device = {};
  std::uint8_t port = 1;
  using Result = PortAttributes;
  static const Command& command();
};

struct Counters {
  DeviceHandle device = {};
  std::uint8_t port = 1;
  struct Result {
    std::map<std::string, std::uint64_t> counters = {}, hw_counters = {}, device_hw_counters = {};
  };
  static const Command& command();
};

struct AllocPd {
  DeviceHandle device = {};
  struct Result {
    PdHandle pd = {};
  };
  static const Command& command();
};

struct OpenXrcd {
  DeviceHandle device = {};
  struct Result {
    XrcdHandle xrcd = {};
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
