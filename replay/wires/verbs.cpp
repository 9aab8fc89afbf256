#include "replay/wires/verbs.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/interface.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t batch = 64;
constexpr std::int64_t event_check_interval = 1'000'000;
constexpr std::int64_t pause = 5'000;           // between two looks at a completion queue
constexpr std::int64_t look_up = 50'000'000;    // at the port, while nothing arrives
constexpr std::int64_t linger = 1'000'000'000;  // for what waits when the wire is closed
constexpr std::uint32_t unknown_mtu = 9216;

// What is given back in one way only: a function of libibverbs.
template <auto give_back>
struct Return {
  template <class T>
  void operator()(T* what) const {
    give_back(what);
  }
};
using Context = std::unique_ptr<ibv_context, Return<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, Return<ibv_dealloc_pd>>;
using Region = std::unique_ptr<ibv_mr, Return<ibv_dereg_mr>>;
using Channel = std::unique_ptr<ibv_comp_channel, Return<ibv_destroy_comp_channel>>;
using Queue = std::unique_ptr<ibv_cq, Return<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Return<ibv_destroy_qp>>;
using Flow = std::unique_ptr<ibv_flow, Return<ibv_destroy_flow>>;

// Slots of one length, in whole pages.
class Slots {
 public:
  Slots() = default;
  Slots(std::size_t count, std::size_t octets) : each_((octets + 63) / 64 * 64), all_(each_ * count) {
    void* const at = mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    begin_ = at == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(at);
  }
  Slots(const Slots&) = delete;
  Slots& operator=(Slots&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(each_, other.each_);
    std::swap(all_, other.all_);
    return *this;
  }
  ~Slots() {
    if (begin_) munmap(begin_, all_);
  }
  [[nodiscard]] std::uint8_t* at(std::size_t slot) const { return begin_ + slot * each_; }
  [[nodiscard]] std::size_t octets() const { return all_; }
  explicit operator bool() const { return begin_ != nullptr; }

 private:
  std::uint8_t* begin_ = nullptr;
  std::size_t each_ = 0, all_ = 0;
};

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
      hint = "; the device is not there (any more)";
      break;
    case ENOMEM: hint = "; is the memory that may be locked (ulimit -l) enough?"; break;
    case EOPNOTSUPP:
    case ENOSYS: kind = WireError::Kind::unsupported; break;
    default: break;
  }
  return wire_error(kind, number, "{}: {}: {}{}", name, doing, errno_text(number), hint);
}

class DeviceList {
 public:
  static WireResult<DeviceList> get(const std::string& name) {
    DeviceList list;
    list.devices_ = ibv_get_device_list(&list.count_);
    if (list.devices_) return list;
    if (errno == ENOSYS)
      return tl::unexpected(wire_error(WireError::Kind::unsupported, ENOSYS,
                                       "{}: this kernel has no RDMA; its module ib_uverbs is not there or not loaded: "
                                       "modprobe ib_uverbs",
                                       name));
    return tl::unexpected(failed(name, "asking for the RDMA devices", errno));
  }
  DeviceList() = default;
  DeviceList(DeviceList&& other) noexcept
      : devices_(std::exchange(other.devices_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceList& operator=(DeviceList&&) = delete;
  ~DeviceList() {
    if (devices_) ibv_free_device_list(devices_);
  }
  [[nodiscard]] ibv_device** begin() const { return devices_; }
  [[nodiscard]] ibv_device** end() const { return devices_ + count_; }

 private:
  ibv_device** devices_ = nullptr;
  int count_ = 0;
};

std::string_view state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initialising";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active, deferring";
    default: return "in no known state";
  }
}

// The network interface of a port: the GID table tells, in kernels from 5.10 on.
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

struct Device {
  Context context;
  ibv_device_attr_ex attributes{};
  ibv_port_attr port{};
  std::string interface;
};

// Opens a device and asks what it is.
WireResult<Device> open_device(const std::string& name, ibv_device* which, std::uint32_t port) {
  Device device;
  device.context.reset(ibv_open_device(which));
  if (!device.context) return tl::unexpected(failed(name, "opening the device", errno));
  if (const int number = ibv_query_device_ex(device.context.get(), nullptr, &device.attributes))
    return tl::unexpected(failed(name, "asking what the device can do", number));
  const std::uint32_t ports =
      std::max<std::uint32_t>(device.attributes.orig_attr.phys_port_cnt, device.attributes.phys_port_cnt_ex);
  if (port == 0 || port > ports)
    return tl::unexpected(wire_error(WireError::Kind::missing, 0, "{}: there is no port {}; {} has 1 to {}", name, port,
                                     ibv_get_device_name(which), ports));
  if (const int number = ibv_query_port(device.context.get(), static_cast<std::uint8_t>(port), &device.port))
    return tl::unexpected(failed(name, "asking for the port", number));
  device.interface = interface_of(device.context.get(), port, device.port.gid_tbl_len);
  return device;
}

WireResult<void> check_link_layer(const std::string& name, const Device& device) {
  if (device.port.link_layer == IBV_LINK_LAYER_ETHERNET) return {};
  return tl::unexpected(wire_error(WireError::Kind::unsupported, 0,
                                   "{}: the port's link layer is {}; raw packets need Ethernet", name,
                                   device.port.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "unknown"));
}

// Of a queue pair that could not be made.
WireError no_raw_packets(const std::string& name, const Device& device, int number) {
  if (number != EINVAL && number != EOPNOTSUPP && number != ENOSYS)
    return failed(name, "making a raw-packet queue pair", number);
  return wire_error(WireError::Kind::unsupported, number,
                    "{}: the driver of {} makes no raw-packet queue pairs ({}); those of mlx4 and mlx5 do; packet:{} "
                    "goes through the kernel instead",
                    name, ibv_get_device_name(device.context->device), errno_text(number),
                    device.interface.empty() ? "INTERFACE" : device.interface);
}

struct Sizes {
  std::uint32_t send = 1, receive = 1, inline_octets = 0;
};

// With ibv_wr_* when `requests` is set and the device offers them; clears it otherwise. errno says why none was made.
QueuePair make_queue_pair(ibv_context* context, ibv_pd* domain, ibv_cq* send, ibv_cq* receive, const Sizes& sizes,
                          bool& requests) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = send;
  attributes.recv_cq = receive;
  attributes.cap = {sizes.send, sizes.receive, 1, 1, sizes.inline_octets};
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

// How a completion queue stamps what arrives.
enum class Stamp : std::uint8_t { none, ticks, wallclock };

class VerbsWire final : public Wire {
 public:
  static WireResult<std::unique_ptr<Wire>> open(const VerbsWireOptions& options);
  ~VerbsWire() override { close(); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return channel_ ? channel_->fd : -1; }
  [[nodiscard]] WireCounters counters() const override { return counters_; }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (!pair_) return tl::unexpected(closed_error(name_));
    return send_when_due(frames, batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
  }
  WireResult<bool> writable(std::int64_t deadline) override {
    return wait_until(deadline, [this] { return posted_ - done_ < send_depth_; });
  }
  WireResult<bool> flush(std::int64_t deadline) override {
    return wait_until(deadline, [this] { return posted_ == done_; });
  }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  void close() override;

 private:
  VerbsWire() = default;
  WireResult<void> find(const VerbsWireOptions& options);
  WireResult<void> make_queues(const VerbsWireOptions& options);
  WireResult<void> make_receive_queue(bool hardware_time);
  WireResult<void> start(const VerbsWireOptions& options);
  WireResult<void> limit_rate(const VerbsWireOptions& options);
  WireResult<void> take_flow(const VerbsWireOptions& options);
  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames);
  int post_requests(std::size_t count, std::size_t& taken);
  int post_list(std::size_t count, std::size_t& taken);
  void reap();
  WireResult<void> check_events();
  [[nodiscard]] WireError down(ibv_port_state state) const;
  template <class Ready>
  WireResult<bool> wait_until(std::int64_t deadline, Ready ready);
  WireResult<void> give_buffers();
  int poll_received();
  void arrived(std::uint64_t slot, std::uint32_t octets, std::int64_t time);
  [[nodiscard]] std::int64_t time_of(std::uint64_t stamp, std::int64_t now);

  std::string name_;
  WireCapabilities capabilities_;
  WireCounters counters_;
  Device device_;
  std::uint8_t port_ = 1;

  // Given back from the last to the first.
  Slots send_slots_, receive_slots_;
  Domain domain_;
  Region send_region_, receive_region_;
  Channel channel_;
  Queue send_queue_, receive_queue_;
  QueuePair pair_;
  Flow flow_;
  ibv_qp_ex* requests_ = nullptr;
  ibv_cq_ex* stamped_ = nullptr;

  // Sending. A request's number is how many were posted before it.
  std::uint32_t send_depth_ = 0, signal_every_ = 0, inline_octets_ = 0, unsignalled_ = 0;
  std::uint64_t posted_ = 0, done_ = 0;
  std::vector<std::uint32_t> lengths_;  // of the frame in each slot
  std::array<ibv_send_wr, batch> posts_{};
  std::array<ibv_sge, batch> pieces_{};
  std::optional<WireError> failed_;
  std::int64_t events_checked_ = 0;
  bool port_down_ = false;

  // Receiving.
  struct Arrived {
    std::uint64_t slot = 0;
    std::uint32_t octets = 0;
    std::int64_t time = 0;
  };
  std::array<Arrived, batch> arrived_;
  std::size_t next_ = 0, count_ = 0;
  std::vector<std::uint64_t> free_;  // slots that are to be posted
  std::optional<WireError> receive_failed_;
  Stamp stamp_ = Stamp::none;
  std::optional<std::int64_t> device_clock_;  // to be added to the device's times
  std::int64_t last_time_ = 0;
};

WireResult<void> VerbsWire::find(const VerbsWireOptions& options) {
  auto list = DeviceList::get(name_);
  if (!list) return tl::unexpected(list.error());
  std::vector<std::string> names;
  for (ibv_device* device : *list) {
    names.emplace_back(ibv_get_device_name(device));
    if (names.back() != options.device) continue;
    auto opened = open_device(name_, device, options.port);
    if (!opened) return tl::unexpected(opened.error());
    device_ = std::move(*opened);
  }
  if (!device_.context)
    return tl::unexpected(wire_error(WireError::Kind::missing, ENODEV, "{}: there is no RDMA device \"{}\"; {}", name_,
                                     options.device,
                                     names.empty() ? std::string("there is none at all: rdma link add … makes one of "
                                                                 "software, but raw packets need a card")
                                                   : fmt::format("there are {}", fmt::join(names, ", "))));
  if (auto ethernet = check_link_layer(name_, device_); !ethernet) return ethernet;
  port_ = static_cast<std::uint8_t>(options.port);
  if (device_.port.state != IBV_PORT_ACTIVE) return tl::unexpected(down(device_.port.state));

  std::uint32_t mtu = unknown_mtu;
  if (!device_.interface.empty()) {
    const auto interface = Interface::find(name_, device_.interface);
    if (interface) {
      mtu = interface->mtu();
      capabilities_.bits_per_second = interface->bits_per_second();
    }
  }
  capabilities_.most_octets =
      options.most_octets ? options.most_octets : mtu + static_cast<std::uint32_t>(Ethernet::size + Vlan::size);
  capabilities_.least_octets = Ethernet::size;
  capabilities_.batch = batch;
  capabilities_.receives = options.receive != VerbsWireOptions::Receive::nothing;
  // Sniffers of devices that offload RDMA see both directions.
  capabilities_.sees_own = options.receive == VerbsWireOptions::Receive::sniffer;
  return {};
}

WireError VerbsWire::down(ibv_port_state state) const {
  return wire_error(WireError::Kind::down, ENETDOWN,
                    "{}: port {} is {}; is the cable in, the other end up, and the interface{} set up?", name_, port_,
                    state_name(state), device_.interface.empty() ? "" : " " + device_.interface);
}

// The queue of what arrives; with the device's times, in the finest form that it has.
WireResult<void> VerbsWire::make_receive_queue(bool hardware_time) {
  const int depth = static_cast<int>(std::max<std::size_t>(1, free_.size()));
  if (!hardware_time) {
    receive_queue_.reset(ibv_create_cq(device_.context.get(), depth, nullptr, channel_.get(), 0));
    if (!receive_queue_) return tl::unexpected(failed(name_, "making a completion queue", errno));
    return {};
  }
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = static_cast<std::uint32_t>(depth);
  attributes.channel = channel_.get();
  const auto ticks = device_.attributes.completion_timestamp_mask && device_.attributes.hca_core_clock;
  for (const auto& [stamp, flag] : {std::pair{Stamp::wallclock, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK},
                                    std::pair{Stamp::ticks, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP}}) {
    if (stamp == Stamp::ticks && !ticks) continue;
    attributes.wc_flags = static_cast<std::uint64_t>(IBV_WC_EX_WITH_BYTE_LEN) | static_cast<std::uint64_t>(flag);
    stamped_ = ibv_create_cq_ex(device_.context.get(), &attributes);
    if (!stamped_) continue;
    stamp_ = stamp;
    receive_queue_.reset(ibv_cq_ex_to_cq(stamped_));
    capabilities_.hardware_times = true;
    return {};
  }
  return tl::unexpected(wire_error(WireError::Kind::unsupported, errno,
                                   "{}: the device does not stamp what arrives: {}; leave hwtime away, times are taken "
                                   "when a frame is found then",
                                   name_, errno_text(errno)));
}

WireResult<void> VerbsWire::make_queues(const VerbsWireOptions& options) {
  const auto most = static_cast<std::uint32_t>(std::max(1, device_.attributes.orig_attr.max_qp_wr));
  if (options.send_depth > most || options.receive_depth > most)
    return tl::unexpected(wire_error(WireError::Kind::unsupported, 0,
                                     "{}: queues of {} and {} frames; the device has at most {}", name_,
                                     options.send_depth, options.receive_depth, most));
  ibv_context* const context = device_.context.get();
  send_depth_ = std::max<std::uint32_t>(2, options.send_depth);
  signal_every_ = std::clamp<std::uint32_t>(options.signal_every, 1, send_depth_ / 2);
  inline_octets_ = options.inline_octets;
  lengths_.resize(send_depth_);
  if (capabilities_.receives)
    for (std::uint64_t slot = 0; slot < std::max<std::uint32_t>(1, options.receive_depth); ++slot)
      free_.push_back(slot);

  domain_.reset(ibv_alloc_pd(context));
  if (!domain_) return tl::unexpected(failed(name_, "making a protection domain", errno));
  if (capabilities_.receives) {
    channel_.reset(ibv_create_comp_channel(context));
    if (!channel_) return tl::unexpected(failed(name_, "making a channel for events", errno));
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  }
  // A request that fails is completed aloud even when it was not to be: room for all.
  send_queue_.reset(ibv_create_cq(context, static_cast<int>(send_depth_), nullptr, nullptr, 0));
  if (!send_queue_) return tl::unexpected(failed(name_, "making a completion queue", errno));
  if (auto made = make_receive_queue(options.hardware_time && capabilities_.receives); !made) return made;

  bool requests = options.requests;
  const Sizes sizes{send_depth_, static_cast<std::uint32_t>(free_.size()), inline_octets_};
  pair_ = make_queue_pair(context, domain_.get(), send_queue_.get(), receive_queue_.get(), sizes, requests);
  if (!pair_) return tl::unexpected(no_raw_packets(name_, device_, errno));
  if (requests) requests_ = ibv_qp_to_qp_ex(pair_.get());

  const auto registered = [&](Slots& slots, Region& region, std::size_t count, int access) -> WireResult<void> {
    slots = Slots(count, capabilities_.most_octets);
    if (!slots) return tl::unexpected(failed(name_, "taking memory for frames", errno));
    region.reset(ibv_reg_mr(domain_.get(), slots.at(0), slots.octets(), access));
    if (!region) return tl::unexpected(failed(name_, "registering memory for frames", errno));
    return {};
  };
  if (auto memory = registered(send_slots_, send_region_, send_depth_, 0); !memory) return memory;
  if (!capabilities_.receives) return {};
  return registered(receive_slots_, receive_region_, free_.size(), IBV_ACCESS_LOCAL_WRITE);
}

WireResult<void> VerbsWire::limit_rate(const VerbsWireOptions& options) {
  const ibv_packet_pacing_caps& pacing = device_.attributes.packet_pacing_caps;
  if (pacing.qp_rate_limit_max == 0 || !(pacing.supported_qpts & (1U << IBV_QPT_RAW_PACKET)))
    return tl::unexpected(wire_error(WireError::Kind::unsupported, EOPNOTSUPP,
                                     "{}: the device does not pace raw-packet queue pairs; leave rate away", name_));
  const std::uint64_t kilobits = options.rate / 1000;
  if (kilobits < pacing.qp_rate_limit_min || kilobits > pacing.qp_rate_limit_max)
    return tl::unexpected(wire_error(WireError::Kind::unsupported, EINVAL,
                                     "{}: a rate of {} kbit/s; the device paces from {} to {} kbit/s", name_, kilobits,
                                     pacing.qp_rate_limit_min, pacing.qp_rate_limit_max));
  return {};
}

// INIT, RTR, RTS, each with the attributes that this kind of queue pair takes.
WireResult<void> VerbsWire::start(const VerbsWireOptions& options) {
  if (options.rate != 0)
    if (auto possible = limit_rate(options); !possible) return possible;
  const bool simple_rate = options.rate != 0 && !options.burst_octets && !options.typical_octets;
  const auto modify = [&](ibv_qp_state state, int mask, std::string_view doing) -> WireResult<void> {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.port_num = port_;
    attributes.rate_limit = static_cast<std::uint32_t>(options.rate / 1000);
    if (const int number = ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE | mask))
      return tl::unexpected(failed(name_, doing, number));
    return {};
  };
  if (auto r = modify(IBV_QPS_INIT, IBV_QP_PORT, "bringing the queue pair to INIT"); !r) return r;
  if (auto r = modify(IBV_QPS_RTR, 0, "bringing the queue pair to RTR"); !r) return r;
  if (auto r = modify(IBV_QPS_RTS, simple_rate ? IBV_QP_RATE_LIMIT : 0, "bringing the queue pair to RTS"); !r) return r;
  if (options.rate != 0 && !simple_rate) {
    ibv_qp_rate_limit_attr limit{};
    limit.rate_limit = static_cast<std::uint32_t>(options.rate / 1000);
    limit.max_burst_sz = options.burst_octets;
    limit.typical_pkt_sz = options.typical_octets;
    if (const int number = ibv_modify_qp_rate_limit(pair_.get(), &limit))
      return tl::unexpected(failed(name_, "limiting the rate", number));
  }
  fcntl(device_.context->async_fd, F_SETFL, fcntl(device_.context->async_fd, F_GETFL) | O_NONBLOCK);
  if (!capabilities_.receives) return {};
  if (auto given = give_buffers(); !given) return given;
  return take_flow(options);
}

// A flow's attributes with its specifications right behind them, as ibv_create_flow wants them.
struct FlowRequest {
  ibv_flow_attr attributes{};
  std::array<std::uint8_t, sizeof(ibv_flow_spec_eth) + sizeof(ibv_flow_spec_ipv6) + sizeof(ibv_flow_spec_tcp_udp)>
      specifications{};

  template <class Specification>
  void add(Specification specification, ibv_flow_spec_type type) {
    specification.type = type;
    specification.size = sizeof specification;
    std::memcpy(specifications.data() + (attributes.size - sizeof attributes), &specification, sizeof specification);
    attributes.size = static_cast<std::uint16_t>(attributes.size + sizeof specification);
    ++attributes.num_of_specs;
  }
};
static_assert(offsetof(FlowRequest, specifications) == sizeof(ibv_flow_attr));

FlowRequest steered(const VerbsSteering& steering) {
  FlowRequest request;
  request.attributes.size = sizeof request.attributes;
  ibv_flow_spec_eth eth{};
  if (steering.mac) {
    std::copy(steering.mac->begin(), steering.mac->end(), eth.val.dst_mac);
    std::fill_n(eth.mask.dst_mac, 6, std::uint8_t{0xff});
  }
  std::optional<std::uint16_t> type = steering.ethertype;
  if (!type && steering.ip.size() == 4) type = std::uint16_t{0x0800};
  if (!type && steering.ip.size() == 16) type = std::uint16_t{0x86dd};
  if (type) {
    eth.val.ether_type = htons(*type);
    eth.mask.ether_type = 0xffff;
  }
  request.add(eth, IBV_FLOW_SPEC_ETH);
  if (steering.ip.size() == 4) {
    ibv_flow_spec_ipv4 ip{};
    std::memcpy(&ip.val.dst_ip, steering.ip.data(), 4);
    ip.mask.dst_ip = 0xffffffff;
    request.add(ip, IBV_FLOW_SPEC_IPV4);
  } else if (steering.ip.size() == 16) {
    ibv_flow_spec_ipv6 ip{};
    std::memcpy(ip.val.dst_ip, steering.ip.data(), 16);
    std::fill_n(ip.mask.dst_ip, 16, std::uint8_t{0xff});
    request.add(ip, IBV_FLOW_SPEC_IPV6);
  }
  if (steering.udp) {
    ibv_flow_spec_tcp_udp udp{};
    udp.val.dst_port = htons(*steering.udp);
    udp.mask.dst_port = 0xffff;
    request.add(udp, IBV_FLOW_SPEC_UDP);
  }
  return request;
}

WireResult<void> VerbsWire::take_flow(const VerbsWireOptions& options) {
  using Receive = VerbsWireOptions::Receive;
  FlowRequest request;
  request.attributes.size = sizeof request.attributes;
  std::string_view what = "a sniffer flow", instead;
  switch (options.receive) {
    case Receive::steered:
      request = steered(options.steering);
      request.attributes.type = IBV_FLOW_ATTR_NORMAL;
      what = "a steered flow";
      break;
    case Receive::rest:
      request.attributes.type = IBV_FLOW_ATTR_ALL_DEFAULT;
      what = "the all-default flow";
      break;
    default:
      request.attributes.type = IBV_FLOW_ATTR_SNIFFER;
      instead = "; the options rest and mac=… receive otherwise, send needs none";
      break;
  }
  request.attributes.port = port_;
  flow_.reset(ibv_create_flow(pair_.get(), &request.attributes));
  if (!flow_) {
    const int number = errno;
    WireError error = failed(name_, fmt::format("making {}", what), number);
    // What is wrong with a flow that was given in right form is that the device has no such flows.
    if (number == EINVAL) error.kind = WireError::Kind::unsupported;
    if (error.kind == WireError::Kind::unsupported) error.message += instead;
    return tl::unexpected(error);
  }
  capabilities_.how = fmt::format("{}, {}", what, requests_ ? "ibv_wr_*" : "ibv_post_send");
  return {};
}

WireResult<std::unique_ptr<Wire>> VerbsWire::open(const VerbsWireOptions& options) {
  std::unique_ptr<VerbsWire> wire(new VerbsWire());
  wire->name_ = options.name.empty() ? fmt::format("verbs:{}/{}", options.device, options.port) : options.name;
  if (auto found = wire->find(options); !found) return tl::unexpected(found.error());
  if (auto made = wire->make_queues(options); !made) return tl::unexpected(made.error());
  wire->capabilities_.how = wire->requests_ ? "ibv_wr_*" : "ibv_post_send";
  if (auto started = wire->start(options); !started) return tl::unexpected(started.error());
  if (options.rate != 0) wire->capabilities_.how += fmt::format(", paced to {} kbit/s", options.rate / 1000);
  if (wire->stamp_ != Stamp::none)
    wire->capabilities_.how += wire->stamp_ == Stamp::ticks ? ", the device's ticks" : ", the device's clock";
  return std::unique_ptr<Wire>(std::move(wire));
}

// What the device says of itself: a port that lost its carrier, a card that died.
WireResult<void> VerbsWire::check_events() {
  const std::int64_t now = wire_clock::now();
  if (now - events_checked_ >= event_check_interval) {
    events_checked_ = now;
    ibv_async_event event;
    while (ibv_get_async_event(device_.context.get(), &event) == 0) {
      const ibv_event_type type = event.event_type;
      const bool ours = event.element.port_num == port_;
      ibv_ack_async_event(&event);
      if (ours && type == IBV_EVENT_PORT_ERR) port_down_ = true;
      if (ours && type == IBV_EVENT_PORT_ACTIVE) port_down_ = false;
      if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_CQ_ERR)
        failed_ = wire_error(type == IBV_EVENT_DEVICE_FATAL ? WireError::Kind::missing : WireError::Kind::system, EIO,
                             "{}: the device says: {}; {} frames of {} had left", name_, ibv_event_type_str(type),
                             done_, posted_);
    }
    if (port_down_) {
      // An event may be older than the port's state.
      if (ibv_query_port(device_.context.get(), port_, &device_.port) == 0)
        port_down_ = device_.port.state != IBV_PORT_ACTIVE;
      else
        device_.port.state = IBV_PORT_DOWN;
    }
  }
  if (failed_) return tl::unexpected(*failed_);
  if (port_down_) return tl::unexpected(down(device_.port.state));
  return {};
}

// Counts what has left. Requests complete in their order, those before a loud one with it.
void VerbsWire::reap() {
  const auto count_until = [this](std::uint64_t end) {
    counters_.sent += end - done_;
    for (; done_ < end; ++done_) counters_.sent_octets += lengths_[done_ % send_depth_];
  };
  std::array<ibv_wc, 16> completions;
  for (;;) {
    if (failed_) return;
    const int count = ibv_poll_cq(send_queue_.get(), completions.size(), completions.data());
    if (count < 0) {
      failed_ = wire_error(WireError::Kind::system, 0,
                           "{}: asking what was sent: the completion queue failed; {} "
                           "frames of {} had left",
                           name_, done_, posted_);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      if (completion.status == IBV_WC_SUCCESS) {
        count_until(completion.wr_id + 1);
        continue;
      }
      count_until(completion.wr_id);
      auto kind = WireError::Kind::system;
      if (completion.status == IBV_WC_LOC_LEN_ERR) kind = WireError::Kind::frame;
      if (completion.status == IBV_WC_FATAL_ERR) kind = WireError::Kind::missing;
      failed_ = wire_error(kind, 0,
                           "{}: sending: frame {} was not sent, nor any after it: {} (vendor's code 0x{:x}); the queue "
                           "pair is lost, open the wire anew",
                           name_, completion.wr_id + 1, ibv_wc_status_str(completion.status), completion.vendor_err);
      return;
    }
    if (count < static_cast<int>(completions.size())) return;
  }
}

int VerbsWire::post_requests(std::size_t count, std::size_t& taken) {
  ibv_wr_start(requests_);
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_send_wr& post = posts_[i];
    requests_->wr_id = post.wr_id;
    requests_->wr_flags = post.send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    ibv_wr_send(requests_);
    const ibv_sge& piece = pieces_[i];
    if (post.send_flags & IBV_SEND_INLINE)
      ibv_wr_set_inline_data(requests_, reinterpret_cast<void*>(piece.addr), piece.length);
    else
      ibv_wr_set_sge(requests_, piece.lkey, piece.addr, piece.length);
  }
  // All of them or none.
  const int number = ibv_wr_complete(requests_);
  taken = number == 0 ? count : 0;
  return number;
}

int VerbsWire::post_list(std::size_t count, std::size_t& taken) {
  for (std::size_t i = 0; i < count; ++i) posts_[i].next = i + 1 < count ? &posts_[i + 1] : nullptr;
  ibv_send_wr* bad = nullptr;
  const int number = ibv_post_send(pair_.get(), posts_.data(), &bad);
  taken = number == 0 ? count : bad ? static_cast<std::size_t>(bad - posts_.data()) : 0;
  return number;
}

WireResult<std::size_t> VerbsWire::hand_over(std::span<const Outgoing> frames) {
  if (auto well = check_events(); !well) return tl::unexpected(well.error());
  reap();
  if (failed_) return tl::unexpected(*failed_);
  const std::size_t room = send_depth_ - (posted_ - done_);
  const std::size_t most = std::min({frames.size(), room, batch});
  std::size_t count = 0;
  const std::uint32_t lkey = send_region_->lkey;
  std::uint32_t unsignalled = unsignalled_;
  for (; count < most; ++count) {
    const Bytes frame = frames[count].frame;
    if (frame.size() < capabilities_.least_octets || frame.size() > capabilities_.most_octets) {
      if (count > 0) break;
      return tl::unexpected(wire_error(WireError::Kind::frame, EMSGSIZE, "{}: a frame of {} octets; it takes {} to {}",
                                       name_, frame.size(), capabilities_.least_octets, capabilities_.most_octets));
    }
    const std::uint64_t number = posted_ + count;
    const std::size_t slot = number % send_depth_;
    std::uint8_t* const at = send_slots_.at(slot);
    std::memcpy(at, frame.data(), frame.size());
    const auto octets = static_cast<std::uint32_t>(frame.size());
    lengths_[slot] = octets;
    pieces_[count] = {reinterpret_cast<std::uintptr_t>(at), octets, lkey};
    ibv_send_wr& post = posts_[count];
    post.wr_id = number;
    post.sg_list = &pieces_[count];
    post.num_sge = 1;
    post.opcode = IBV_WR_SEND;
    post.send_flags = octets <= inline_octets_ ? static_cast<unsigned>(IBV_SEND_INLINE) : 0U;
    if (++unsignalled >= signal_every_) {
      post.send_flags |= IBV_SEND_SIGNALED;
      unsignalled = 0;
    }
  }
  if (count == 0) return 0;
  // The last says when all have left.
  posts_[count - 1].send_flags |= IBV_SEND_SIGNALED;
  std::size_t taken = 0;
  const int number = requests_ ? post_requests(count, taken) : post_list(count, taken);
  posted_ += taken;
  unsignalled_ = 0;
  for (std::size_t i = taken; i > 0 && !(posts_[i - 1].send_flags & IBV_SEND_SIGNALED); --i) ++unsignalled_;
  if (number == 0 || number == ENOMEM || taken > 0) return taken;
  if (number == EINVAL)
    return tl::unexpected(wire_error(WireError::Kind::frame, number,
                                     "{}: posting a frame of {} octets: {}; some devices demand the first octets of a "
                                     "frame in line: inline=…",
                                     name_, frames.front().frame.size(), errno_text(number)));
  return tl::unexpected(failed(name_, "posting frames", number));
}

template <class Ready>
WireResult<bool> VerbsWire::wait_until(std::int64_t deadline, Ready ready) {
  if (!pair_) return tl::unexpected(closed_error(name_));
  for (;;) {
    reap();
    if (ready()) return true;
    if (auto well = check_events(); !well) return tl::unexpected(well.error());
    const std::int64_t now = wire_clock::now();
    if (now >= deadline) return false;
    wire_clock::sleep_until(std::min(deadline, now + pause));
  }
}

// Posts the receive buffers that are free.
WireResult<void> VerbsWire::give_buffers() {
  std::array<ibv_recv_wr, batch> posts{};
  std::array<ibv_sge, batch> pieces{};
  while (!free_.empty()) {
    const std::size_t count = std::min(batch, free_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t slot = free_[free_.size() - count + i];
      pieces[i] = {reinterpret_cast<std::uintptr_t>(receive_slots_.at(slot)), capabilities_.most_octets,
                   receive_region_->lkey};
      posts[i].wr_id = slot;
      posts[i].next = i + 1 < count ? &posts[i + 1] : nullptr;
      posts[i].sg_list = &pieces[i];
      posts[i].num_sge = 1;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int number = ibv_post_recv(pair_.get(), posts.data(), &bad))
      return tl::unexpected(failed(name_, "giving buffers for what arrives", number));
    free_.resize(free_.size() - count);
  }
  return {};
}

std::int64_t VerbsWire::time_of(std::uint64_t stamp, std::int64_t now) {
  if (stamp_ == Stamp::none || stamp == 0) return now;
  std::int64_t time = static_cast<std::int64_t>(stamp);
  if (stamp_ == Stamp::ticks) {
    __extension__ using Wide = unsigned __int128;  // kHz
    time = static_cast<std::int64_t>(Wide{stamp} * 1'000'000U / device_.attributes.hca_core_clock);
  }
  if (!device_clock_) device_clock_ = stamp_ == Stamp::wallclock ? wire_clock::minus_realtime() : now - time;
  return time + *device_clock_;
}

void VerbsWire::arrived(std::uint64_t slot, std::uint32_t octets, std::int64_t time) {
  last_time_ = std::max(last_time_, time);
  arrived_[count_++] = {slot, octets, last_time_};
}

// Takes what has arrived, up to a batch; gives how many entries the queue had.
int VerbsWire::poll_received() {
  next_ = count_ = 0;
  const auto wrong = [this](ibv_wc_status status) {
    receive_failed_ = wire_error(status == IBV_WC_LOC_LEN_ERR ? WireError::Kind::frame : WireError::Kind::system, 0,
                                 "{}: receiving: {}; frames may have {} octets (mtu=… says otherwise); the queue pair "
                                 "is lost, open the wire anew",
                                 name_, ibv_wc_status_str(status), capabilities_.most_octets);
  };
  if (!stamped_) {
    std::array<ibv_wc, batch> completions;
    const int count = ibv_poll_cq(receive_queue_.get(), completions.size(), completions.data());
    const std::int64_t now = wire_clock::now();
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      if (completion.status == IBV_WC_SUCCESS)
        arrived(completion.wr_id, completion.byte_len, now);
      else if (!receive_failed_)
        wrong(completion.status);
    }
    return count;
  }
  ibv_poll_cq_attr nothing{};
  int number = ibv_start_poll(stamped_, &nothing);
  if (number == ENOENT) return 0;
  if (number != 0) return -1;
  const std::int64_t now = wire_clock::now();
  int count = 0;
  do {
    ++count;
    const std::uint64_t stamp = stamp_ == Stamp::wallclock ? ibv_wc_read_completion_wallclock_ns(stamped_)
                                                           : ibv_wc_read_completion_ts(stamped_);
    if (stamped_->status == IBV_WC_SUCCESS)
      arrived(stamped_->wr_id, ibv_wc_read_byte_len(stamped_), time_of(stamp, now));
    else if (!receive_failed_)
      wrong(stamped_->status);
  } while (count_ < batch && (number = ibv_next_poll(stamped_)) == 0);
  ibv_end_poll(stamped_);
  return number == 0 || number == ENOENT ? count : -1;
}

WireResult<std::optional<Received>> VerbsWire::receive(std::int64_t deadline) {
  if (!pair_) return tl::unexpected(closed_error(name_));
  if (!capabilities_.receives) return receive_nothing(name_, deadline);
  while (next_ == count_) {
    // The last frame that was given is not looked at any more.
    for (std::size_t i = 0; i < count_; ++i) free_.push_back(arrived_[i].slot);
    next_ = count_ = 0;
    if (receive_failed_) return tl::unexpected(*receive_failed_);
    if (auto given = give_buffers(); !given) return tl::unexpected(given.error());
    int found = poll_received();
    if (found == 0) {
      ibv_cq* queue = nullptr;
      void* own = nullptr;
      while (ibv_get_cq_event(channel_.get(), &queue, &own) == 0) ibv_ack_cq_events(queue, 1);
      if (const int number = ibv_req_notify_cq(receive_queue_.get(), 0))
        return tl::unexpected(failed(name_, "asking to be told of arrivals", number));
      // Something may have come before that.
      found = poll_received();
    }
    if (found < 0)
      return tl::unexpected(
          wire_error(WireError::Kind::system, 0, "{}: receiving: the completion queue failed", name_));
    if (found > 0) continue;
    if (wire_clock::wait_for(channel_->fd, POLLIN, std::min(deadline, now() + look_up))) continue;
    // The channel says nothing of a port that is down or a card that went away.
    ibv_port_attr port{};
    if (const int number = ibv_query_port(device_.context.get(), port_, &port))
      return tl::unexpected(failed(name_, "looking at the port", number));
    if (port.state != IBV_PORT_ACTIVE) return tl::unexpected(down(port.state));
    if (now() >= deadline) return std::nullopt;
  }
  const Arrived& frame = arrived_[next_++];
  ++counters_.received;
  counters_.received_octets += frame.octets;
  return Received{Bytes(receive_slots_.at(frame.slot), frame.octets), frame.time, frame.octets, false};
}

void VerbsWire::close() {
  if (!device_.context) return;
  if (pair_) static_cast<void>(flush(wire_clock::now() + linger));
  // In this order: a device refuses to give back what is still in use.
  flow_.reset();
  pair_.reset();
  requests_ = nullptr;
  receive_queue_.reset();
  stamped_ = nullptr;
  send_queue_.reset();
  channel_.reset();
  receive_region_.reset();
  send_region_.reset();
  domain_.reset();
  device_.context.reset();
}

WireResult<VerbsSteering> steering_of(const WireSpec& spec) {
  VerbsSteering steering;
  const auto wrong = [&](std::string_view what) { return tl::unexpected(specification_error(spec.text, what)); };
  if (const auto mac = spec.value("mac")) {
    std::array<unsigned, 6> octets{};
    int end = 0;
    if (std::sscanf(mac->c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &octets[0], &octets[1], &octets[2], &octets[3],
                    &octets[4], &octets[5], &end) != 6 ||
        static_cast<std::size_t>(end) != mac->size())
      return wrong(fmt::format("mac={}: a MAC address is written 02:00:00:00:00:01", *mac));
    steering.mac.emplace();
    std::transform(octets.begin(), octets.end(), steering.mac->begin(),
                   [](unsigned octet) { return static_cast<std::uint8_t>(octet); });
  }
  if (const auto ip = spec.value("ip")) {
    for (const auto& [family, octets] : {std::pair{AF_INET, 4U}, std::pair{AF_INET6, 16U}}) {
      steering.ip.resize(octets);
      if (inet_pton(family, ip->c_str(), steering.ip.data()) == 1) break;
      steering.ip.clear();
    }
    if (steering.ip.empty()) return wrong(fmt::format("ip={}: it takes an IPv4 or IPv6 address", *ip));
  }
  for (const auto& [option, place] : {std::pair{"ethertype", &steering.ethertype}, std::pair{"udp", &steering.udp}}) {
    const auto number = spec.number(option, 0, 0, 65535);
    if (!number) return tl::unexpected(number.error());
    if (spec.has(option)) *place = static_cast<std::uint16_t>(*number);
  }
  return steering;
}

}  // namespace

WireResult<std::unique_ptr<Wire>> open_verbs_wire(const VerbsWireOptions& options) { return VerbsWire::open(options); }

WireResult<VerbsWireOptions> verbs_options(const WireSpec& spec) {
  if (auto known = spec.check({{"burst", true, "octets that may leave at once under rate"},
                               {"depth", true, "frames that may be on their way"},
                               {"ethertype", true, "receive frames of this EtherType"},
                               {"hwtime", false, "the device stamps what arrives"},
                               {"inline", true, "frames up to so many octets are posted in line"},
                               {"ip", true, "receive frames to this address"},
                               {"mac", true, "receive frames to this address"},
                               {"mtu", true, "of the port; its interface's otherwise"},
                               {"noreceive", false, "only sends"},
                               {"post", false, "ibv_post_send even where ibv_wr_* is offered"},
                               {"rate", true, "bits a second that the device paces to, as 10G"},
                               {"receive", true, "buffers for what arrives"},
                               {"rest", false, "receive what nobody else was given"},
                               {"signal", true, "of how many frames one is completed aloud"},
                               {"typical", true, "octets of a frame, for rate"},
                               {"udp", true, "receive frames to this port"}});
      !known)
    return tl::unexpected(known.error());
  const auto wrong = [&](std::string_view what) { return tl::unexpected(specification_error(spec.text, what)); };
  VerbsWireOptions options;
  options.name = spec.text;
  const std::size_t slash = spec.address.find('/');
  options.device = spec.address.substr(0, slash);
  if (slash != std::string::npos) {
    const std::string port = spec.address.substr(slash + 1);
    if (port.empty() || port.size() > 3 || port.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(port) > 255)
      return wrong(fmt::format("the port \"{}\" is no number; ports count from 1", port));
    options.port = static_cast<std::uint32_t>(std::stoi(port));
  }
  const auto number = [&](const char* option, auto& place, std::uint64_t least,
                          std::uint64_t most) -> WireResult<void> {
    const auto value = spec.number(option, place, least, most);
    if (!value) return tl::unexpected(value.error());
    place = static_cast<std::remove_reference_t<decltype(place)>>(*value);
    return {};
  };
  std::uint32_t mtu = 0;
  for (const auto& given :
       {number("burst", options.burst_octets, 1, 1U << 30), number("depth", options.send_depth, 2, 1U << 20),
        number("inline", options.inline_octets, 14, 1024), number("mtu", mtu, 68, 65'535),
        number("rate", options.rate, 1000, 1'000'000'000'000), number("receive", options.receive_depth, 1, 1U << 20),
        number("signal", options.signal_every, 1, 1U << 20), number("typical", options.typical_octets, 14, 65'535)})
    if (!given) return tl::unexpected(given.error());
  if (mtu) options.most_octets = mtu + static_cast<std::uint32_t>(Ethernet::size + Vlan::size);
  options.requests = !spec.has("post");
  options.hardware_time = spec.has("hwtime");
  if ((spec.has("burst") || spec.has("typical")) && !spec.has("rate")) return wrong("burst and typical go with rate");
  auto steering = steering_of(spec);
  if (!steering) return tl::unexpected(steering.error());
  const bool steers = spec.has("mac") || spec.has("ip") || spec.has("udp") || spec.has("ethertype");
  if (steers + spec.has("rest") + spec.has("noreceive") > 1)
    return wrong("one of noreceive, rest, and mac, ip, udp, ethertype");
  using Receive = VerbsWireOptions::Receive;
  if (spec.only_sends) options.receive = Receive::nothing;
  if (steers) options.receive = Receive::steered;
  if (spec.has("rest")) options.receive = Receive::rest;
  if (spec.has("noreceive")) options.receive = Receive::nothing;
  options.steering = std::move(*steering);
  return options;
}

WireResult<std::unique_ptr<Wire>> open_verbs_wire(const WireSpec& spec) {
  const auto options = verbs_options(spec);
  if (!options) return tl::unexpected(options.error());
  return open_verbs_wire(*options);
}

WireResult<std::vector<VerbsPort>> verbs_ports() {
  auto list = DeviceList::get("verbs");
  if (!list) return tl::unexpected(list.error());
  std::vector<VerbsPort> ports;
  for (ibv_device* which : *list) {
    std::uint32_t count = 1;
    for (std::uint32_t number = 1; number <= count; ++number) {
      VerbsPort port;
      port.device = ibv_get_device_name(which);
      port.port = number;
      const std::string name = fmt::format("verbs:{}/{}", port.device, number);
      auto device = open_device(name, which, number);
      if (!device) {
        port.why_not = device.error().message;
        ports.push_back(std::move(port));
        continue;
      }
      const ibv_device_attr_ex& attributes = device->attributes;
      count = std::max<std::uint32_t>(attributes.orig_attr.phys_port_cnt, attributes.phys_port_cnt_ex);
      port.state = state_name(device->port.state);
      port.interface = device->interface;
      port.link_layer = device->port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
      port.hardware_times = attributes.completion_timestamp_mask != 0;
      if (attributes.packet_pacing_caps.supported_qpts & (1U << IBV_QPT_RAW_PACKET)) {
        port.least_rate = attributes.packet_pacing_caps.qp_rate_limit_min * 1000ULL;
        port.most_rate = attributes.packet_pacing_caps.qp_rate_limit_max * 1000ULL;
      }
      if (const auto ethernet = check_link_layer(name, *device); !ethernet) {
        port.why_not = ethernet.error().message;
      } else {
        const Domain domain(ibv_alloc_pd(device->context.get()));
        const Queue queue(domain ? ibv_create_cq(device->context.get(), 2, nullptr, nullptr, 0) : nullptr);
        port.requests = true;
        const QueuePair pair(
            queue ? make_queue_pair(device->context.get(), domain.get(), queue.get(), queue.get(), {}, port.requests)
                  : nullptr);
        port.raw_packets = pair != nullptr;
        if (!pair) port.why_not = no_raw_packets(name, *device, errno).message;
        port.requests = port.requests && pair;
      }
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

}  // namespace rdmawire::replay
