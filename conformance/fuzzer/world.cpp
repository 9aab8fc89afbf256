#include "conformance/fuzzer/world.hpp"

#include <algorithm>

#include "conformance/device/reference.hpp"

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
constexpr std::uint32_t most_wakes = 4096;  // in one step: a queue pair that sends for ever ends nothing
constexpr std::uint32_t receive_places = 8;
const Gid group = Gid::ipv4(0xe0000101);

std::uint32_t low(std::int64_t value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)); }
std::uint8_t octet(std::int64_t value) { return static_cast<std::uint8_t>(static_cast<std::uint64_t>(value)); }
template <class Enum>
Enum clamped(std::int64_t value, Enum last) {
  return static_cast<Enum>(std::clamp<std::int64_t>(value, 0, static_cast<std::int64_t>(last)));
}

}  // namespace

void Outcome::clear() {
  frames.clear();
  results.clear();
  completions.clear();
  events.clear();
  notified = 0;
  states = {};
  receives = {};
}

World::World(std::uint64_t seed, const device::Faults& faults) {
  device_ = std::make_unique<Device>(device::reference_options(seed));
  Device& d = *device_;
  d.faults() = faults;
  const device::Port tester = tester_port(d.port());
  for (const device::GidEntry& entry : tester.gids) d.port().learn(entry.gid, tester.mac);
  pd_ = *d.alloc_pd();
  other_pd_ = *d.alloc_pd();
  channel_ = *d.create_channel();
  cq_ = *d.create_cq(1024, channel_);
  small_cq_ = *d.create_cq(3, channel_);
  buffer_ = *d.alloc(layout::size);
  const MutableBytes octets = d.memory(buffer_, layout::size);
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8));
  const auto add = [&](layout::Range range, std::uint32_t rights, std::uint32_t pd) {
    return *d.reg_mr(pd, buffer_ + range.offset, range.octets, rights);
  };
  const std::uint32_t of[] = {all_rights, access::remote_read, access::local_write | access::remote_write,
                              access::local_write, all_rights};
  const layout::Range at[] = {layout::everything, layout::read_only, layout::write_only, layout::closed,
                              layout::foreign};
  for (std::size_t i = 0; i < std::size(of); ++i)
    regions_[i] = add(at[i], of[i], i == static_cast<std::size_t>(Key::foreign) ? other_pd_ : pd_)->handle;
  regions_[5] = (*d.alloc_mr(pd_, layout::fast.octets))->handle;
  receive_key_ = add(layout::receives, access::local_write, pd_)->key;
  local_key_ = add(layout::local, access::local_write, pd_)->key;
  windows_ = {(*d.alloc_mw(pd_, 2))->handle, (*d.alloc_mw(pd_, 2))->handle, (*d.alloc_mw(pd_, 1))->handle};
  srq_ = *d.create_srq(pd_, 8, 1);
  xrcd_ = *d.open_xrcd();
  other_xrcd_ = *d.open_xrcd();
  xrc_srq_ = *d.create_srq(pd_, 8, 1, 0, xrcd_, cq_);
  other_xrc_srq_ = *d.create_srq(pd_, 8, 1, 0, other_xrcd_, cq_);
  for (const std::uint32_t queue : {srq_, xrc_srq_, other_xrc_srq_})
    for (std::uint64_t i = 0; i < 4; ++i)
      (void)d.post_srq_recv(queue, {.id = 900 + i, .sges = {{buffer_ + layout::receives.offset, 512, receive_key_}}});
  ah_ = *d.create_ah(pd_, path_of(3));
  objects_.srqs = {d.srq(xrc_srq_)->number, d.srq(other_xrc_srq_)->number, 0x00abcdef};
  objects_.memory[static_cast<std::size_t>(Key::unknown)] = {0x5a5a5a5a, buffer_ + layout::everything.offset};
  learn_objects();
}

device::AddressVector World::path_of(std::int64_t gid) const {
  device::AddressVector path;
  path.sgid_index = gid == 1 ? 5 : gid == 2 ? 2 : 3;
  path.dgid = Gid::ipv4(0x0a000009);
  if (gid == 1) {
    path.dgid = device_->port().gids[5].gid;
    path.dgid.octets[15] = 9;
  }
  return path;
}

void World::learn_objects() {
  for (std::size_t i = 0; i < qps_.size(); ++i)
    if (const device::QueuePair* qp = device_->qp(qps_[i])) objects_.qpns[i] = qp->qpn;
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (const Region* region = device_->region(regions_[i]))
      objects_.memory[i] = {region->key,
                            i == static_cast<std::size_t>(Key::fast) ? buffer_ + layout::fast.offset : region->iova};
  for (std::size_t i = 0; i < windows_.size(); ++i)
    if (const device::Window* window = device_->window(windows_[i]))
      objects_.memory[static_cast<std::size_t>(Key::window) + i] = {window->key, buffer_ + layout::everything.offset};
}

const device::QueuePair* World::queue_pair(std::int64_t at) const {
  return device_->qp(qps_[static_cast<std::size_t>(at)]);
}

void World::receive(std::int64_t at, std::int64_t octets, Outcome& outcome) {
  constexpr std::uint64_t each = layout::receives.octets / receive_places;
  const std::uint32_t length = std::min<std::uint32_t>(low(octets), layout::receives.octets);
  const std::uint64_t place = length > each ? 0 : each * (received_ % receive_places);
  ++received_;
  const device::QueuePair* qp = queue_pair(at);
  const std::uint32_t srq = qp ? qp->options.srq : 0;
  device::ReceiveRequest request{.id = 500 + received_,
                                 .sges = {{buffer_ + layout::receives.offset + place, length, receive_key_}}};
  if (qp && qp->options.type == QpType::xrc_target)
    tell(outcome, device_->post_srq_recv(xrc_srq_, std::move(request)));
  else if (srq != 0)
    tell(outcome, device_->post_srq_recv(srq, std::move(request)));
  else
    tell(outcome, device_->post_recv(qps_[static_cast<std::size_t>(at)], std::move(request)));
}

void World::connect(const Step& step, Outcome& outcome) {
  Device& d = *device_;
  const auto at = static_cast<std::size_t>(step.at);
  const bool gsi = step.service == gsi_service;
  const QpType type = gsi ? QpType::ud : clamped(step.service, QpType::xrc_target);
  const QpState state = clamped(step.state, QpState::err);
  const bool again = (step.queues & 4) != 0 && d.qp(qps_[at]) && d.qp(qps_[at])->options.type == type;
  if (again) {
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
  if (reliable) rts.timeout = octet(step.timeout);
  if (reliable && !target) {
    rts.retry_count = octet(step.retries);
    rts.rnr_retry = octet(step.retries);
    rts.max_rd_atomic = std::max<std::uint32_t>(low(step.depth), 1);
  }
  tell(outcome, d.modify_qp(qp, rtr));
  if (state == QpState::rtr) return;
  tell(outcome, d.modify_qp(qp, rts));
  if (state == QpState::sqd || state == QpState::err)
    tell(outcome,
         d.modify_qp(qp, {.state = state, .sqd_notify = state == QpState::sqd ? std::optional(true) : std::nullopt}));
}

void World::modify(const Step& step, Outcome& outcome) {
  device::QueuePairChange change;
  const auto given = [&](unsigned bit) { return (static_cast<std::uint64_t>(step.mask) >> bit & 1) != 0; };
  if (given(0)) change.state = clamped(step.state, QpState::err);
  if (given(1)) change.pkey_index = static_cast<std::uint16_t>(0);
  if (given(2)) change.port = static_cast<std::uint8_t>(1);
  if (given(3)) change.access = low(step.rights) & access::all;
  if (given(4)) change.qkey = given(15) ? 0x80010000U : usual_qkey;
  if (given(5)) change.path_mtu = 256U;
  if (given(6)) change.path = path_of(0);
  if (given(7)) change.dest_qpn = tester_qpn;
  if (given(8)) change.rq_psn = low(step.psn) & 0xffffffU;
  if (given(9)) change.sq_psn = low(step.own_psn) & 0xffffffU;
  if (given(10)) change.max_rd_atomic = low(step.depth);
  if (given(11)) change.max_dest_rd_atomic = low(step.depth);
  if (given(12)) change.min_rnr_timer = static_cast<std::uint8_t>(1);
  if (given(13)) {
    change.timeout = octet(step.timeout) & 31U;
    change.retry_count = change.rnr_retry = octet(step.retries) & 7U;
  }
  if (given(14)) change.sqd_notify = true;
  tell(outcome, device_->modify_qp(qps_[static_cast<std::size_t>(step.at)], change));
}

void World::post(const Step& step, Outcome& outcome) {
  SendRequest asked{.id = ++last_id_, .opcode = clamped(step.opcode, WorkOpcode::unknown)};
  const std::uint32_t length = low(step.length);
  const bool atomic = asked.opcode == WorkOpcode::compare_swap || asked.opcode == WorkOpcode::fetch_add;
  if (asked.opcode != WorkOpcode::flush)
    asked.sges = {{buffer_ + layout::local.offset + (low(step.offset) & 0x7ffU), atomic ? 8U : length, local_key_}};
  asked.solicited = (step.flags & 1) != 0;
  asked.fence = (step.flags & 2) != 0;
  asked.signaled = (step.flags & 4) == 0;
  asked.remote_address = tester_address;
  asked.rkey = tester_key;
  asked.immediate = low(step.immediate);
  asked.swap_add = static_cast<std::uint64_t>(step.value);
  asked.compare = static_cast<std::uint64_t>(step.compare);
  asked.length = length;
  asked.ah = ah_;
  asked.remote_qpn = tester_qpn;
  asked.remote_qkey = (step.flags & 8) != 0 ? 0x80000005U : usual_qkey;
  asked.xrc_srq = 0x4321;
  tell(outcome, device_->post_send(qps_[static_cast<std::size_t>(step.at)], std::move(asked)));
}

void World::post_work(const Step& step, Outcome& outcome) {
  learn_objects();
  SendRequest asked{.id = ++last_id_};
  const auto key = static_cast<std::size_t>(step.key);
  const std::uint64_t address = objects_.memory[key].address + static_cast<std::uint64_t>(step.offset);
  asked.rights = low(step.rights) & access::all;
  asked.address = asked.iova = address;
  asked.octets_bound = static_cast<std::uint64_t>(step.length);
  asked.fence = (step.flags & 2) != 0;
  if (step.kind == StepKind::bind) {
    asked.opcode = WorkOpcode::bind_mw;
    asked.window = windows_[static_cast<std::size_t>(std::clamp<std::int64_t>(step.number, 0, 2))];
    asked.region = regions_[std::min<std::size_t>(key, 5)];
    asked.new_key = low(step.immediate);
  } else if (step.kind == StepKind::fast_register) {
    asked.opcode = WorkOpcode::reg_mr;
    asked.region = regions_[5];
    asked.address = buffer_ + layout::fast.offset + static_cast<std::uint64_t>(step.offset);
    asked.iova = asked.address;
    asked.new_key = low(step.immediate);
  } else {
    asked.opcode = WorkOpcode::local_inv;
    asked.rkey = objects_.memory[key].key;
  }
  const std::uint32_t qp = qps_[static_cast<std::size_t>(step.at)];
  if (step.kind == StepKind::bind && std::clamp<std::int64_t>(step.number, 0, 2) == 2 && (step.flags & 4) != 0)
    tell(outcome, device_->bind_mw(qp, std::move(asked)));
  else
    tell(outcome, device_->post_send(qp, std::move(asked)));
}

void World::send(Bytes frame, Outcome& outcome) {
  replay::StationOutput output;
  device_->arrived(frame, now_, output);
  for (auto& sent : output.frames) outcome.frames.push_back(std::move(sent.bytes));
}

void World::run(std::int64_t nanoseconds, Outcome& outcome) {
  const std::int64_t until = now_ + nanoseconds;
  replay::StationOutput output;
  for (std::uint32_t i = 0; i < most_wakes; ++i) {
    const std::int64_t next = device_->wakes();
    if (next == device::never || std::max(next, now_) > until) break;
    now_ = std::max(now_, next);
    output.frames.clear();
    device_->woken(now_, output);
    for (auto& sent : output.frames) outcome.frames.push_back(std::move(sent.bytes));
  }
  now_ = until;
}

void World::drain(Outcome& outcome) {
  if (auto done = device_->poll_cq(cq_, 4096); done && !done->empty())
    outcome.completions.insert(outcome.completions.end(), done->begin(), done->end());
  while (const auto event = device_->get_async_event()) outcome.events.push_back(*event);
  for (auto told = device_->get_cq_event(channel_); told && *told; told = device_->get_cq_event(channel_))
    ++outcome.notified;
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    const device::QueuePair* qp = device_->qp(qps_[i]);
    outcome.states[i] = qp ? qp->state : QpState::reset;
    outcome.receives[i] = qp ? static_cast<std::uint32_t>(qp->receives.size()) : 0;
  }
}

void World::perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome) {
  outcome.clear();
  const std::uint32_t qp = qps_[static_cast<std::size_t>(step.at)];
  std::int64_t pause = usual_pause;
  switch (step.kind) {
    case StepKind::connect:
      (void)device_->poll_cq(small_cq_, 16);
      connect(step, outcome);
      break;
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
      tell(outcome, device_->dereg_mr(regions_[static_cast<std::size_t>(std::min<std::int64_t>(step.key, 5))]));
      break;
    case StepKind::attach: tell(outcome, device_->attach_mcast(qp, group)); break;
    case StepKind::detach: tell(outcome, device_->detach_mcast(qp, group)); break;
    case StepKind::destroy: tell(outcome, device_->destroy_qp(qp)); break;
    case StepKind::destroy_cq: tell(outcome, device_->destroy_cq(step.number == 0 ? cq_ : small_cq_)); break;
  }
  run(pause, outcome);
  drain(outcome);
  learn_objects();  // now: what is gone later keeps the key that it had last
}

}  // namespace rdmawire::fuzzer
