#include "replay/wires/verbs.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/interface.hpp"
#include "replay/wires/verbs_queues.hpp"
#include "replay/wires/verbs_wire.hpp"

namespace rdmawire::replay {
namespace rdma {
namespace {

constexpr std::int64_t event_check_interval = 1'000'000;
constexpr std::int64_t linger = 1'000'000'000;  // maximum wait for outstanding frames in close()
constexpr std::uint32_t unknown_mtu = 9216;

}  // namespace

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
    return tl::unexpected(
        wire_error(WireError::Kind::missing, ENODEV, "{}: no RDMA device \"{}\"; {}", name_, options.device,
                   names.empty() ? std::string("no RDMA device exists; rdma link add creates "
                                               "a software device, but raw packets require a hardware device")
                                 : fmt::format("available: {}", fmt::join(names, ", "))));
  if (auto ethernet = check_link_layer(name_, device_); !ethernet) return ethernet;
  port_ = static_cast<std::uint8_t>(options.port);
  if (device_.port.state != IBV_PORT_ACTIVE) return tl::unexpected(down(device_.port.state));

  std::uint32_t mtu = unknown_mtu;
  if (!device_.interface.empty()) {
    auto interface = Interface::find(name_, device_.interface);
    if (interface) {
      if (auto link = interface->check_link(); !link) return tl::unexpected(link.error());
      mtu = interface->mtu();
      capabilities_.bits_per_second = interface->bits_per_second();
    }
  }
  capabilities_.max_bytes =
      options.max_bytes ? options.max_bytes : mtu + static_cast<std::uint32_t>(Ethernet::size + Vlan::size);
  capabilities_.min_bytes = Ethernet::size;
  capabilities_.batch = batch;
  capabilities_.receives = options.receive != VerbsWireOptions::Receive::nothing;
  // On devices with RDMA offload, a sniffer receives both directions.
  capabilities_.sees_own = options.receive == VerbsWireOptions::Receive::sniffer;
  return {};
}

WireError VerbsWire::down(ibv_port_state state) const {
  return wire_error(WireError::Kind::down, ENETDOWN,
                    "{}: port {} is {}; check the cable, the peer and that the interface{} is up", name_, port_,
                    state_name(state), device_.interface.empty() ? "" : " " + device_.interface);
}

// Creates the receive CQ, with the best available device timestamps if requested.
WireResult<void> VerbsWire::make_receive_queue(bool hardware_time) {
  const int depth = static_cast<int>(std::max<std::size_t>(1, free_.size()));
  if (!hardware_time) {
    receive_queue_.reset(ibv_create_cq(device_.context.get(), depth, nullptr, channel_.get(), 0));
    if (!receive_queue_) return tl::unexpected(failed(name_, "create a completion queue", errno));
    return {};
  }
  stamped_ = make_stamped_queue(static_cast<std::uint32_t>(depth), channel_.get(), stamp_);
  if (stamped_) {
    receive_queue_.reset(ibv_cq_ex_to_cq(stamped_));
    capabilities_.hardware_times = true;
    return {};
  }
  return tl::unexpected(wire_error(WireError::Kind::unsupported, errno,
                                   "{}: the device does not timestamp received frames: {}; remove hwtime to use "
                                   "software timestamps",
                                   name_, errno_text(errno)));
}

ibv_cq_ex* VerbsWire::make_stamped_queue(std::uint32_t depth, ibv_comp_channel* channel, Stamp& stamp) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = depth;
  attributes.channel = channel;
  const auto ticks = device_.attributes.completion_timestamp_mask && device_.attributes.hca_core_clock;
  for (const auto& [kind, flag] : {std::pair{Stamp::wallclock, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK},
                                   std::pair{Stamp::ticks, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP}}) {
    if (kind == Stamp::ticks && !ticks) continue;
    attributes.wc_flags = static_cast<std::uint64_t>(IBV_WC_EX_WITH_BYTE_LEN) | static_cast<std::uint64_t>(flag);
    ibv_cq_ex* const queue = ibv_create_cq_ex(device_.context.get(), &attributes);
    if (!queue) continue;
    stamp = kind;
    return queue;
  }
  return nullptr;
}

// Failed requests always create a completion, so the CQ must hold all of them.
WireResult<void> VerbsWire::make_send_queue(bool stamps) {
  if (!stamps) {
    send_queue_.reset(ibv_create_cq(device_.context.get(), static_cast<int>(send_depth_), nullptr, nullptr, 0));
    if (!send_queue_) return tl::unexpected(failed(name_, "create a completion queue", errno));
    return {};
  }
  stamped_sends_ = make_stamped_queue(send_depth_, nullptr, send_stamp_);
  if (!stamped_sends_)
    return tl::unexpected(wire_error(WireError::Kind::unsupported, errno,
                                     "{}: the device does not timestamp completions: {} (remove txtimes)", name_,
                                     errno_text(errno)));
  send_queue_.reset(ibv_cq_ex_to_cq(stamped_sends_));
  signal_every_ = 1;
  return {};
}

WireResult<void> VerbsWire::make_queues(const VerbsWireOptions& options) {
  const auto most = static_cast<std::uint32_t>(std::max(1, device_.attributes.orig_attr.max_qp_wr));
  if (options.send_depth > most || options.receive_depth > most)
    return tl::unexpected(wire_error(WireError::Kind::unsupported, 0,
                                     "{}: queues of {} and {} work requests; the maximum of the device is {}", name_,
                                     options.send_depth, options.receive_depth, most));
  ibv_context* const context = device_.context.get();
  send_depth_ = std::max<std::uint32_t>(2, options.send_depth);
  signal_every_ = std::clamp<std::uint32_t>(options.signal_every, 1, send_depth_ / 2);
  inline_bytes_ = options.inline_bytes;
  lengths_.resize(send_depth_);
  if (capabilities_.receives)
    for (std::uint64_t slot = 0; slot < std::max<std::uint32_t>(1, options.receive_depth); ++slot)
      free_.push_back(slot);

  domain_.reset(ibv_alloc_pd(context));
  if (!domain_) return tl::unexpected(failed(name_, "create a protection domain", errno));
  if (capabilities_.receives) {
    channel_.reset(ibv_create_comp_channel(context));
    if (!channel_) return tl::unexpected(failed(name_, "create a completion channel", errno));
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  }
  if (auto made = make_send_queue(options.departures); !made) return made;
  if (auto made = make_receive_queue(options.hardware_time && capabilities_.receives); !made) return made;

  bool requests = options.requests;
  const Sizes sizes{send_depth_, static_cast<std::uint32_t>(free_.size()), inline_bytes_};
  pair_ = make_queue_pair(context, domain_.get(), send_queue_.get(), receive_queue_.get(), sizes, requests);
  if (!pair_) return tl::unexpected(no_raw_packets(name_, device_, errno));
  if (requests) requests_ = ibv_qp_to_qp_ex(pair_.get());

  const auto registered = [&](Slots& slots, Region& region, std::size_t count, int access) -> WireResult<void> {
    slots = Slots(count, capabilities_.max_bytes);
    if (!slots) return tl::unexpected(failed(name_, "allocate memory for frames", errno));
    region.reset(ibv_reg_mr(domain_.get(), slots.at(0), slots.bytes(), access));
    if (!region) return tl::unexpected(failed(name_, "register memory for frames", errno));
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
                                     "{}: the device does not support rate limits for raw-packet QPs; remove rate",
                                     name_));
  const std::uint64_t kilobits = options.rate / 1000;
  if (kilobits < pacing.qp_rate_limit_min || kilobits > pacing.qp_rate_limit_max)
    return tl::unexpected(wire_error(WireError::Kind::unsupported, EINVAL,
                                     "{}: rate of {} kbit/s; the device supports {} to {} kbit/s", name_, kilobits,
                                     pacing.qp_rate_limit_min, pacing.qp_rate_limit_max));
  return {};
}

// INIT, RTR, RTS, each with the attributes required for raw-packet QPs.
WireResult<void> VerbsWire::start(const VerbsWireOptions& options) {
  if (options.rate != 0)
    if (auto possible = limit_rate(options); !possible) return possible;
  const bool simple_rate = options.rate != 0 && !options.burst_bytes && !options.typical_bytes;
  const auto modify = [&](ibv_qp_state state, int mask, std::string_view doing) -> WireResult<void> {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.port_num = port_;
    attributes.rate_limit = static_cast<std::uint32_t>(options.rate / 1000);
    if (const int number = ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE | mask))
      return tl::unexpected(failed(name_, doing, number));
    return {};
  };
  if (auto r = modify(IBV_QPS_INIT, IBV_QP_PORT, "change the QP to INIT"); !r) return r;
  if (auto r = modify(IBV_QPS_RTR, 0, "change the QP to RTR"); !r) return r;
  if (auto r = modify(IBV_QPS_RTS, simple_rate ? IBV_QP_RATE_LIMIT : 0, "change the QP to RTS"); !r) return r;
  if (options.rate != 0 && !simple_rate) {
    ibv_qp_rate_limit_attr limit{};
    limit.rate_limit = static_cast<std::uint32_t>(options.rate / 1000);
    limit.max_burst_sz = options.burst_bytes;
    limit.typical_pkt_sz = options.typical_bytes;
    if (const int number = ibv_modify_qp_rate_limit(pair_.get(), &limit))
      return tl::unexpected(failed(name_, "set the rate limit", number));
  }
  fcntl(device_.context->async_fd, F_SETFL, fcntl(device_.context->async_fd, F_GETFL) | O_NONBLOCK);
  if (!capabilities_.receives) return {};
  if (auto given = give_buffers(); !given) return given;
  return take_flow(options);
}

WireResult<std::unique_ptr<Wire>> VerbsWire::open(const VerbsWireOptions& options) {
  std::unique_ptr<VerbsWire> wire(new VerbsWire());
  wire->name_ = options.name.empty() ? fmt::format("verbs:{}/{}", options.device, options.port) : options.name;
  if (auto found = wire->find(options); !found) return tl::unexpected(found.error());
  if (auto made = wire->make_queues(options); !made) return tl::unexpected(made.error());
  wire->capabilities_.how = wire->requests_ ? "ibv_wr_*" : "ibv_post_send";
  if (auto started = wire->start(options); !started) return tl::unexpected(started.error());
  if (options.rate != 0) wire->capabilities_.how += fmt::format(", limited to {} kbit/s", options.rate / 1000);
  if (wire->stamp_ != Stamp::none)
    wire->capabilities_.how += wire->stamp_ == Stamp::ticks ? ", device ticks" : ", device clock";
  return std::unique_ptr<Wire>(std::move(wire));
}

// Handles asynchronous device events: lost carrier, fatal device error.
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
                             "{}: device event: {}; {} of {} work requests were completed", name_,
                             ibv_event_type_str(type), done_, posted_);
    }
    if (port_down_) {
      // The event may be older than the current port state.
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

void VerbsWire::close() {
  if (!device_.context) return;
  if (pair_) static_cast<void>(flush(wire_clock::now() + linger));
  // The order matters, because the device refuses to destroy objects in use.
  flow_.reset();
  pair_.reset();
  requests_ = nullptr;
  receive_queue_.reset();
  stamped_ = stamped_sends_ = nullptr;
  send_queue_.reset();
  channel_.reset();
  receive_region_.reset();
  send_region_.reset();
  domain_.reset();
  device_.context.reset();
}

}  // namespace rdma

WireResult<std::unique_ptr<Wire>> open_verbs_wire(const VerbsWireOptions& options) {
  if (options.queues <= 1) return rdma::VerbsWire::open(options);
  std::vector<std::unique_ptr<Wire>> wires;
  VerbsWireOptions one = options;
  one.rate = options.rate / options.queues;
  for (std::uint32_t i = 0; i < options.queues; ++i) {
    if (i == 1) one.receive = VerbsWireOptions::Receive::nothing;
    auto wire = rdma::VerbsWire::open(one);
    if (!wire) return wire;
    wires.push_back(std::move(*wire));
  }
  std::string name = wires.front()->name();
  return make_queues(std::move(wires), options.threads, std::move(name));
}

}  // namespace rdmawire::replay
