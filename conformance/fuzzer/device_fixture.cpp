#include "conformance/fuzzer/device_fixture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/reference.hpp"

namespace rdmawire::fuzzer {

using device::Device;
using device::Gid;
using device::QpState;
using device::QpType;
using device::Region;
using device::SendRequest;
using device::WorkOpcode;
namespace access = device::access;

namespace {

constexpr std::uint32_t all_rights = access::local_write | access::remote_write | access::remote_read |
                                     access::remote_atomic | access::mw_bind | access::flush_global |
                                     access::flush_persistent;
constexpr std::int64_t usual_pause = 20'000;
constexpr std::uint32_t max_wakes = 4096;  // limit per step, because a faulty queue pair may send forever
const Gid group = Gid::ipv4(0xe0000101);

std::uint8_t byte(std::int64_t value) { return static_cast<std::uint8_t>(static_cast<std::uint64_t>(value)); }
template <class Enum>
Enum clamped(std::int64_t value, Enum last) {
  return static_cast<Enum>(std::clamp<std::int64_t>(value, 0, static_cast<std::int64_t>(last)));
}

}  // namespace

DeviceFixture::DeviceFixture(std::uint64_t seed, const device::Faults& faults) {
  device_ = std::make_unique<Device>(device::reference_options(seed));
  Device& d = *device_;
  d.set_faults(faults);
  const device::Port tester = tester_port(d.port());
  for (const device::GidEntry& entry : tester.gids) d.port().learn(entry.gid, tester.mac);
  pd_ = *d.alloc_pd();
  other_pd_ = *d.alloc_pd();
  channel_ = *d.create_channel();
  cq_ = *d.create_cq(1024, channel_);
  small_cq_ = *d.create_cq(3, channel_);
  memory_.buffer = *d.alloc(layout::size);
  fill_memory(d.memory(memory_.buffer, layout::size));
  memory_.register_regions(all_rights, [&](layout::Range range, std::uint32_t rights, bool foreign) -> const Region& {
    return **d.reg_mr(foreign ? other_pd_ : pd_, memory_.buffer + range.offset, range.bytes, rights);
  });
  memory_.regions[5] = (*d.alloc_mr(pd_, layout::fast.bytes))->handle;
  memory_.windows = {(*d.alloc_mw(pd_, 2))->handle, (*d.alloc_mw(pd_, 2))->handle, (*d.alloc_mw(pd_, 1))->handle};
  srq_ = *d.create_srq(pd_, 8, 1);
  xrcd_ = *d.open_xrcd();
  other_xrcd_ = *d.open_xrcd();
  xrc_srq_ = *d.create_srq(pd_, 8, 1, 0, xrcd_, cq_);
  other_xrc_srq_ = *d.create_srq(pd_, 8, 1, 0, other_xrcd_, cq_);
  for (const std::uint32_t queue : {srq_, xrc_srq_, other_xrc_srq_})
    for (std::uint64_t i = 0; i < 4; ++i)
      (void)d.post_srq_recv(
          queue, {.id = 900 + i, .sges = {{memory_.buffer + layout::receives.offset, 512, memory_.receive_key}}});
  ah_ = *d.create_ah(pd_, path_of(3));
  objects_.srqs = {d.srq(xrc_srq_)->number, d.srq(other_xrc_srq_)->number, 0x00abcdef};
  objects_.memory[static_cast<std::size_t>(Key::unknown)] = {0x5a5a5a5a, memory_.buffer + layout::everything.offset};
  (void)d.cm_listen({.address = {}, .port = cm_port}, 4);
  for (std::size_t i = 0; i < qps_.size(); ++i)
    objects_.connections[i].tester_id = static_cast<std::uint32_t>((i + 1) << 16);
  update_objects();
}

device::AddressVector DeviceFixture::path_of(std::int64_t gid) const {
  device::AddressVector path;
  path.sgid_index = gid == 1 ? 5 : gid == 2 ? 2 : 3;
  path.dgid = Gid::ipv4(0x0a000009);
  if (gid == 1) {
    path.dgid = device_->port().gids[5].gid;
    path.dgid.bytes[15] = 9;
  }
  return path;
}

void DeviceFixture::update_objects() {
  for (std::size_t i = 0; i < qps_.size(); ++i)
    if (const device::QueuePair* qp = device_->qp(qps_[i])) objects_.qpns[i] = qp->qpn;
  memory_.tell(
      objects_, [&](std::uint32_t handle) { return device_->region(handle); },
      [&](std::uint32_t handle) { return device_->window(handle); });
}

const device::QueuePair* DeviceFixture::queue_pair(std::int64_t at) const {
  return device_->qp(qps_[static_cast<std::size_t>(at)]);
}

bool DeviceFixture::window_is_bound(std::int64_t number) const {
  const device::Window* window = device_->window(memory_.windows[static_cast<std::size_t>(number)]);
  return window && window->region != 0;
}

void DeviceFixture::receive(std::int64_t at, std::int64_t bytes, Outcome& outcome) {
  const device::QueuePair* qp = queue_pair(at);
  const std::uint32_t srq = qp ? qp->options.srq : 0;
  const device::Sge place = memory_.receive(received_++, bytes);
  device::ReceiveRequest request{.id = 500 + received_, .sges = {place}};
  if (qp && qp->options.type == QpType::xrc_target)
    tell(outcome, device_->post_srq_recv(xrc_srq_, std::move(request)));
  else if (srq != 0)
    tell(outcome, device_->post_srq_recv(srq, std::move(request)));
  else
    tell(outcome, device_->post_recv(qps_[static_cast<std::size_t>(at)], std::move(request)));
}

void DeviceFixture::connect(const Step& step, Outcome& outcome) {
  Device& d = *device_;
  const auto at = static_cast<std::size_t>(step.at);
  const bool gsi = step.service == gsi_service;
  const QpType type = gsi ? QpType::ud : clamped(step.service, QpType::xrc_target);
  const QpState state = clamped(step.state, QpState::err);
  const bool recreate = (step.queues & 4) != 0 && d.qp(qps_[at]) && d.qp(qps_[at])->options.type == type;
  if (recreate) {
    tell(outcome, d.modify_qp(qps_[at], {.state = QpState::reset}));
  } else {
    if (qps_[at] != 0 && d.qp(qps_[at])) tell(outcome, d.destroy_qp(qps_[at]));
    device::QueuePairOptions options{.type = type, .pd = pd_, .send_cq = cq_, .recv_cq = cq_};
    options.max_send_wr = options.max_recv_wr = 16;
    if ((step.queues & 1) != 0) options.recv_cq = small_cq_;
    if ((step.queues & 2) != 0 && type != QpType::xrc_target && type != QpType::xrc_initiator) options.srq = srq_;
    if (type == QpType::xrc_target) options.xrcd = xrcd_;
    options.gsi = gsi;
    const auto made = d.create_qp(options);
    tell(outcome, made);
    if (!made) return;
    qps_[at] = *made;
  }
  const std::uint32_t qp = qps_[at];
  const bool ud = type == QpType::ud, target = type == QpType::xrc_target;
  if (state == QpState::reset) return;
  device::QueuePairChange init{.state = QpState::init, .pkey_index = 0, .port = 1};
  if (ud)
    init.qkey = gsi ? gsi_qkey : usual_qkey;
  else
    init.access = low(step.rights) & access::all & ~access::local_write & ~access::mw_bind;
  tell(outcome, d.modify_qp(qp, init));
  if (!target && (step.queues & 2) == 0)
    for (std::int64_t i = 0; i < step.count; ++i) receive(step.at, step.length, outcome);
  if (state == QpState::init) return;
  device::QueuePairChange rtr{.state = QpState::rtr};
  device::QueuePairChange rts{.state = QpState::rts, .sq_psn = low(step.own_psn) & 0xffffffU};
  const bool reliable = machines::is_reliable(type);
  if (!ud) {
    rtr.path_mtu = 256;
    rtr.path = path_of(step.number);
    rtr.dest_qpn = tester_qpn;
    rtr.rq_psn = low(step.psn) & 0xffffffU;
  }
  if (reliable && type != QpType::xrc_initiator) {
    rtr.max_dest_rd_atomic = low(step.depth);
    rtr.min_rnr_timer = 1;
  }
  if (reliable) rts.timeout = byte(step.timeout);
  if (reliable && !target) {
    rts.retry_count = byte(step.retries);
    rts.rnr_retry = byte(step.retries);
    rts.max_rd_atomic = std::max<std::uint32_t>(low(step.depth), 1);
  }
  tell(outcome, d.modify_qp(qp, rtr));
  if (state == QpState::rtr) return;
  tell(outcome, d.modify_qp(qp, rts));
  if (state == QpState::sqd || state == QpState::err)
    tell(outcome,
         d.modify_qp(qp, {.state = state, .sqd_notify = state == QpState::sqd ? std::optional(true) : std::nullopt}));
}

machines::CmState DeviceFixture::connection(std::int64_t at) const {
  const auto& all = device_->connections().connections;
  const auto found = all.find(objects_.connections[static_cast<std::size_t>(at)].device_id);
  return found == all.end() ? machines::CmState::idle : found->second.machine.state;
}

/// Create a queue pair in RESET for the communication manager.
void DeviceFixture::fresh_queue_pair(std::int64_t at, Outcome& outcome) {
  const auto place = static_cast<std::size_t>(at);
  Device& d = *device_;
  if (const device::QueuePair* qp = d.qp(qps_[place])) {
    if (qp->state == QpState::reset && qp->options.type == QpType::rc) return;
    tell(outcome, d.destroy_qp(qps_[place]));
  }
  device::QueuePairOptions options{.type = QpType::rc, .pd = pd_, .send_cq = cq_, .recv_cq = cq_};
  options.max_send_wr = options.max_recv_wr = 16;
  const auto made = d.create_qp(options);
  tell(outcome, made);
  if (made) qps_[place] = *made;
}

/// Perform an application call of the communication manager.
void DeviceFixture::perform_cm_step(const Step& step, Outcome& outcome) {
  const auto at = static_cast<std::size_t>(step.at);
  Device& d = *device_;
  const auto retries = static_cast<std::uint8_t>(byte(step.retries) & 7);
  switch (step.kind) {
    case StepKind::cm_connect: {
      fresh_queue_pair(step.at, outcome);
      const auto made = d.cm_connect({Gid::ipv4(0x0a000009), cm_port}, {},
                                     {.retry_count = retries, .rnr_retry_count = retries, .qp = qps_[at]});
      tell(outcome, made);
      if (!made) return;
      connections_[at] = *made;
      ++objects_.connections[at].tester_id;
      objects_.connections[at].device_id = 0;
      break;
    }
    case StepKind::cm_accept:
      if ((step.flags & 1) == 0) fresh_queue_pair(step.at, outcome);
      tell(outcome, d.cm_accept(connections_[at],
                                {.rnr_retry_count = retries, .qp = qps_[at], .answers_disconnect = step.number == 0}));
      for (std::int64_t i = 0; i < step.count; ++i) receive(step.at, step.length, outcome);
      break;
    case StepKind::cm_reject: tell(outcome, d.cm_reject(connections_[at], {})); break;
    default: tell(outcome, d.cm_disconnect(connections_[at])); break;
  }
}

/// Add a CM event to the outcome. A connection request belongs to the slot of the tester's QP number.
void DeviceFixture::listen_to(const device::CmEvent& event) {
  if (event.type == device::CmEventType::connect_request) {
    const std::size_t at = event.peer.qpn & 1U;
    connections_[at] = event.cm_id;
    objects_.connections[at].device_id = event.connection;
    return;
  }
  for (std::size_t at = 0; at < connections_.size(); ++at)
    if (connections_[at] == event.cm_id && event.type == device::CmEventType::addr_resolved)
      objects_.connections[at].device_id = event.connection;
}

void DeviceFixture::modify(const Step& step, Outcome& outcome) {
  device::QueuePairChange change;
  const auto in_mask = [&](unsigned bit) { return (static_cast<std::uint64_t>(step.mask) >> bit & 1) != 0; };
  if (in_mask(0)) change.state = clamped(step.state, QpState::err);
  if (in_mask(1)) change.pkey_index = static_cast<std::uint16_t>(0);
  if (in_mask(2)) change.port = static_cast<std::uint8_t>(1);
  if (in_mask(3)) change.access = low(step.rights) & access::all;
  if (in_mask(4)) change.qkey = in_mask(15) ? 0x80010000U : usual_qkey;
  if (in_mask(5)) change.path_mtu = 256U;
  if (in_mask(6)) change.path = path_of(0);
  if (in_mask(7)) change.dest_qpn = tester_qpn;
  if (in_mask(8)) change.rq_psn = low(step.psn) & 0xffffffU;
  if (in_mask(9)) change.sq_psn = low(step.own_psn) & 0xffffffU;
  if (in_mask(10)) change.max_rd_atomic = low(step.depth);
  if (in_mask(11)) change.max_dest_rd_atomic = low(step.depth);
  if (in_mask(12)) change.min_rnr_timer = static_cast<std::uint8_t>(1);
  if (in_mask(13)) {
    change.timeout = byte(step.timeout) & 31U;
    change.retry_count = change.rnr_retry = byte(step.retries) & 7U;
  }
  if (in_mask(14)) change.sqd_notify = true;
  tell(outcome, device_->modify_qp(qps_[static_cast<std::size_t>(step.at)], change));
}

void DeviceFixture::post(const Step& step, Outcome& outcome) {
  SendRequest request = FixtureMemory::remote_work(step, ++last_id_);
  const std::uint32_t length = low(step.length);
  const bool atomic = request.opcode == WorkOpcode::compare_swap || request.opcode == WorkOpcode::fetch_add;
  if (request.opcode != WorkOpcode::flush) request.sges = {memory_.local(step, atomic ? 8U : length)};
  request.length = length;
  request.ah = ah_;
  request.remote_qpn = tester_qpn;
  request.remote_qkey = (step.flags & 8) != 0 ? privileged_qkey : usual_qkey;
  request.xrc_srq = 0x4321;
  tell(outcome, device_->post_send(qps_[static_cast<std::size_t>(step.at)], std::move(request)));
}

void DeviceFixture::post_work(const Step& step, Outcome& outcome) {
  update_objects();
  SendRequest request = memory_.local_work(step, ++last_id_, objects_);
  const std::uint32_t qp = qps_[static_cast<std::size_t>(step.at)];
  if (step.kind == StepKind::bind && std::clamp<std::int64_t>(step.number, 0, 2) == 2 && (step.flags & 4) != 0)
    tell(outcome, device_->bind_mw(qp, std::move(request)));
  else
    tell(outcome, device_->post_send(qp, std::move(request)));
}

void DeviceFixture::send(Bytes frame, Outcome& outcome) {
  replay::SimulatedHostOutput output;
  device_->arrived(frame, now_, output);
  for (auto& sent : output.frames) outcome.frames.push_back(std::move(sent.bytes));
}

void DeviceFixture::run(std::int64_t nanoseconds, Outcome& outcome) {
  const std::int64_t until = now_ + nanoseconds;
  replay::SimulatedHostOutput output;
  for (std::uint32_t i = 0; i < max_wakes; ++i) {
    const std::int64_t next = device_->wakes();
    if (next == device::never || std::max(next, now_) > until) break;
    now_ = std::max(now_, next);
    output.frames.clear();
    device_->woken(now_, output);
    for (auto& sent : output.frames) outcome.frames.push_back(std::move(sent.bytes));
  }
  now_ = until;
}

void DeviceFixture::drain(Outcome& outcome) {
  if (auto done = device_->poll_cq(cq_, 4096); done && !done->empty())
    outcome.completions.insert(outcome.completions.end(), done->begin(), done->end());
  while (const auto event = device_->get_async_event()) outcome.events.push_back(*event);
  for (auto notification = device_->get_cq_event(channel_); notification && *notification;
       notification = device_->get_cq_event(channel_))
    ++outcome.notified;
  while (const auto event = device_->get_cm_event()) {
    listen_to(*event);
    outcome.connection_events.push_back(
        fmt::format("{}: error {}, reason {}, QP {:#x}, PSN {}, depths {} and {}",
                    device::names::name_of(device::names::cm_event, static_cast<std::uint64_t>(event->type)),
                    event->error, event->reason, event->peer.qpn, event->peer.starting_psn,
                    event->peer.responder_resources, event->peer.initiator_depth));
  }
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    const device::QueuePair* qp = device_->qp(qps_[i]);
    outcome.states[i] = qp ? qp->state : QpState::reset;
    outcome.receives[i] = qp ? static_cast<std::uint32_t>(qp->receives.size()) : 0;
  }
}

void DeviceFixture::perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome) {
  outcome.clear();
  const std::uint32_t qp = qps_[static_cast<std::size_t>(step.at)];
  std::int64_t pause = usual_pause;
  switch (step.kind) {
    case StepKind::connect:
      (void)device_->poll_cq(small_cq_, 16);
      connect(step, outcome);
      break;
    case StepKind::cm:
      if (step.opcode == device::cm_attribute::req && step.number == 0) {
        KnownConnection& known = objects_.connections[static_cast<std::size_t>(step.at)];
        ++known.tester_id;
        known.device_id = 0;
      }
      [[fallthrough]];
    case StepKind::request:
    case StepKind::answer:
      for (const auto& frame : frames) send(frame, outcome);
      if (step.nanoseconds > 0) pause = step.nanoseconds;
      break;
    case StepKind::receive: receive(step.at, step.length, outcome); break;
    case StepKind::post: post(step, outcome); break;
    case StepKind::wait: pause = step.nanoseconds; break;
    case StepKind::modify: modify(step, outcome); break;
    case StepKind::notify: tell(outcome, device_->req_notify_cq(cq_, (step.flags & 1) != 0)); break;
    case StepKind::bind:
    case StepKind::fast_register:
    case StepKind::invalidate: post_work(step, outcome); break;
    case StepKind::deregister:
      tell(outcome, device_->dereg_mr(memory_.regions[static_cast<std::size_t>(std::min<std::int64_t>(step.key, 5))]));
      break;
    case StepKind::attach: tell(outcome, device_->attach_mcast(qp, group)); break;
    case StepKind::detach: tell(outcome, device_->detach_mcast(qp, group)); break;
    case StepKind::destroy: tell(outcome, device_->destroy_qp(qp)); break;
    case StepKind::destroy_cq: tell(outcome, device_->destroy_cq(step.number == 0 ? cq_ : small_cq_)); break;
    case StepKind::cm_connect:
    case StepKind::cm_accept:
    case StepKind::cm_reject:
    case StepKind::cm_disconnect: perform_cm_step(step, outcome); break;
    default: break;  // steps of iWARP
  }
  run(pause, outcome);
  drain(outcome);
  update_objects();  // update now, so that destroyed objects keep their last keys
}

}  // namespace rdmawire::fuzzer
