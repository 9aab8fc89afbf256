#include "conformance/device/roce/device.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace rdmawire::device {

namespace {

constexpr std::uint32_t most_sges = 256;

}  // namespace

Device::Device(DeviceOptions options) : core_(std::move(options)) {
  // Entry 0 of the P_Key table is the default partition (C10-2). Entry 0 of the GID table is the port's link-local
  // address.
  if (core_.port.pkeys.empty()) core_.port.pkeys = {0xffff};
  if (core_.port.gids.empty())
    for (const GidType type : {GidType::roce_v1, GidType::roce_v2})
      core_.port.gids.push_back({Gid::link_local(core_.port.mac), type});
}

void Device::send_out(replay::SimulatedHostOutput& output) {
  std::vector<std::vector<std::uint8_t>> frames;
  transmit(core_, frames);
  for (auto& frame : frames) output.send(std::move(frame), core_.now);
}

void Device::arrived(Bytes frame, std::int64_t time, replay::SimulatedHostOutput& output) {
  core_.now = std::max(core_.now, time);
  receive_frame(core_, frame);
  send_out(output);
}

std::int64_t Device::wakes() const { return core_.has_work ? core_.now : next_wake(core_); }

void Device::woken(std::int64_t time, replay::SimulatedHostOutput& output) {
  core_.now = std::max(core_.now, time);
  core_.has_work = false;
  send_out(output);
}

Counters Device::counters() const { return core_.decisions.verbs.reported_counters(core_.counters); }

std::string_view Device::gid_type(const GidEntry& entry) const {
  return core_.decisions.verbs.reported_gid_type(entry);
}

std::vector<std::uint16_t> Device::pkeys() const { return core_.decisions.verbs.reported_pkeys(core_.port); }

void Device::set_faults(const Faults& faults) {
  core_.faults = faults;
  update_decisions();
}

void Device::set_blind_faults(std::vector<const RoceBlindFault*> faults) {
  blind_faults_ = std::move(faults);
  update_decisions();
}

void Device::update_decisions() {
  core_.decisions = decisions_with(core_.faults);
  for (const RoceBlindFault* fault : blind_faults_) fault->add_to(core_.decisions);
}

Result<std::uint32_t> Device::new_object(const char* call) {
  if (objects_ >= core_.options.most_objects)
    return refuse(ENOMEM, fmt::format("{}: the limit of {} objects is reached", call, objects_));
  ++objects_;
  return ++last_handle_;
}

Result<QueuePair*> Device::find_qp(std::uint32_t handle, const char* call) {
  const auto found = qpns_.find(handle);
  if (found == qpns_.end()) return refuse(ENOENT, fmt::format("{}: unknown queue pair {}", call, handle));
  return core_.qp(found->second);
}

const QueuePair* Device::qp(std::uint32_t handle) const {
  const auto found = qpns_.find(handle);
  return found == qpns_.end() ? nullptr : &core_.qps.at(found->second);
}

std::uint32_t Device::new_qpn() {
  for (;;) {
    const std::uint32_t qpn = core_.random.bits(24);
    if (qpn > 1 && qpn != 0xffffff && !core_.qp(qpn)) return qpn;
  }
}

Result<std::uint32_t> Device::create_qp(const QueuePairOptions& options) {
  const auto needs = [&](auto& table, std::uint32_t handle, const char* what) -> std::optional<Error> {
    if (table.contains(handle)) return std::nullopt;
    return Error{ENOENT, fmt::format("create_qp: {}: unknown handle {}", what, handle)};
  };
  const bool sends = options.type != QpType::xrc_target, receives = options.type != QpType::xrc_initiator;
  if (sends || options.pd != 0)
    if (auto error = needs(core_.pds, options.pd, "pd")) return tl::unexpected(*error);
  if (sends)
    if (auto error = needs(core_.cqs, options.send_cq, "send_cq")) return tl::unexpected(*error);
  if (options.type == QpType::xrc_target) {
    if (auto error = needs(core_.xrcds, options.xrcd, "xrcd")) return tl::unexpected(*error);
  } else if (receives) {
    if (auto error = needs(core_.cqs, options.recv_cq, "recv_cq")) return tl::unexpected(*error);
    if (options.srq != 0)
      if (auto error = needs(core_.srqs, options.srq, "srq")) return tl::unexpected(*error);
  }
  if (options.max_send_wr > core_.options.most_work || options.max_recv_wr > core_.options.most_work)
    return refuse(EINVAL, fmt::format("create_qp: max_send_wr {}, max_recv_wr {}: the maximum is {}",
                                      options.max_send_wr, options.max_recv_wr, core_.options.most_work));
  if (options.max_send_sge > most_sges || options.max_recv_sge > most_sges || options.max_inline > 4096)
    return refuse(EINVAL, "create_qp: at most 256 elements per request and 4096 inline bytes are allowed");
  if (options.gsi && (options.type != QpType::ud || core_.qp(1)))
    return refuse(options.type == QpType::ud ? EBUSY : EINVAL, "create_qp: the device allows one QP 1, of type UD");
  const auto handle = new_object("create_qp");
  if (!handle) return handle;
  QueuePair qp;
  qp.handle = *handle;
  qp.qpn = options.gsi ? 1 : new_qpn();
  qp.options = options;
  qp.options.privileged = options.privileged || options.gsi;
  // All packets of the queue pair have the same UDP source port, so that they use the same path: A17.9.4.
  qp.source_port = static_cast<std::uint16_t>(0xc000 | core_.random.bits(14));
  qpns_[*handle] = qp.qpn;
  if (options.pd != 0) ++core_.pds[options.pd];
  if (options.xrcd != 0) ++core_.xrcds[options.xrcd];
  core_.qps.emplace(qp.qpn, std::move(qp));
  return handle;
}

Result<void> Device::modify_qp(std::uint32_t handle, const QueuePairChange& change) {
  const auto qp = find_qp(handle, "modify_qp");
  if (!qp) return tl::unexpected(qp.error());
  core_.has_work = true;
  return modify(core_, **qp, change);
}

Result<void> Device::destroy_qp(std::uint32_t handle) {
  const auto qp = find_qp(handle, "destroy_qp");
  if (!qp) return tl::unexpected(qp.error());
  if (auto may = core_.decisions.verbs.may_destroy(core_, **qp); !may) return may;
  core_.memory.unbind_windows_of((*qp)->qpn);
  for (Group& group : core_.groups) std::erase(group.qpns, (*qp)->qpn);
  const QueuePair gone = std::move(**qp);
  core_.qps.erase(gone.qpn);
  qpns_.erase(handle);
  if (gone.options.pd != 0) --core_.pds[gone.options.pd];
  if (gone.options.xrcd != 0) --core_.xrcds[gone.options.xrcd];
  --objects_;
  return {};
}

Result<void> Device::post_send(std::uint32_t handle, SendRequest request) {
  const auto found = find_qp(handle, "post_send");
  if (!found) return tl::unexpected(found.error());
  QueuePair& qp = **found;
  using machines::PostAnswer;
  const PostAnswer answer = core_.decisions.verbs.post_send(qp);
  if (answer == PostAnswer::refused)
    return refuse(EINVAL, fmt::format("post_send: not allowed in state {}", machines::to_string(qp.state)));
  if (qp.requester.queue.size() >= qp.options.max_send_wr)
    return refuse(ENOMEM, fmt::format("post_send: the send queue is full ({} requests)", qp.options.max_send_wr));
  if (request.sges.size() > qp.options.max_send_sge ||
      (request.is_inline && request.opcode != WorkOpcode::atomic_write && request.bytes.size() > qp.options.max_inline))
    return refuse(EINVAL,
                  fmt::format("post_send: {} elements, {} inline bytes: the maximum is {} and {}", request.sges.size(),
                              request.bytes.size(), qp.options.max_send_sge, qp.options.max_inline));
  if (answer == PostAnswer::flushed) {
    complete_send(core_, qp, request, Status::flushed, 0);
    return {};
  }
  SendWork work;
  if (request.is_inline)
    work.length = request.bytes.size();
  else
    for (const Sge& sge : request.sges) work.length += sge.length;
  work.request = std::move(request);
  qp.requester.queue.push_back(std::move(work));
  core_.has_work = true;
  return {};
}

Result<std::uint32_t> Device::bind_mw(std::uint32_t handle, SendRequest request) {
  const std::uint32_t key = request.new_key = core_.memory.fresh_key();
  const auto posted = post_send(handle, std::move(request));
  if (!posted) return tl::unexpected(posted.error());
  return key;
}

void Device::forget_everything() {
  core_.qps.clear();
  core_.cqs.clear();
  core_.channels.clear();
  core_.srqs.clear();
  core_.ahs.clear();
  core_.pds.clear();
  core_.xrcds.clear();
  core_.groups.clear();
  core_.events.clear();
  core_.control.clear();
  core_.cm = {};
  core_.memory.clear();
  qpns_.clear();
  objects_ = 0;
}

Result<void> Device::post_recv(std::uint32_t handle, ReceiveRequest request) {
  const auto found = find_qp(handle, "post_recv");
  if (!found) return tl::unexpected(found.error());
  QueuePair& qp = **found;
  using machines::PostAnswer;
  const PostAnswer answer = core_.decisions.verbs.post_receive(qp);
  if (qp.options.srq != 0 || answer == PostAnswer::refused)
    return refuse(EINVAL, qp.options.srq != 0
                              ? "post_recv: the queue pair uses a shared receive queue"
                              : fmt::format("post_recv: not allowed in state {}", machines::to_string(qp.state)));
  if (qp.receives.size() >= qp.options.max_recv_wr)
    return refuse(ENOMEM, fmt::format("post_recv: the receive queue is full ({} requests)", qp.options.max_recv_wr));
  if (request.sges.size() > qp.options.max_recv_sge)
    return refuse(
        EINVAL, fmt::format("post_recv: {} elements: the maximum is {}", request.sges.size(), qp.options.max_recv_sge));
  if (answer == PostAnswer::flushed) {
    complete_receive(core_, qp, request, {.status = Status::flushed, .opcode = CompletionOpcode::receive}, false);
    return {};
  }
  qp.receives.push_back(std::move(request));
  return {};
}

namespace conforming {

Counters reported_counters(const Counters& counters) { return counters; }

std::string_view reported_gid_type(const GidEntry& entry) {
  return entry.type == GidType::roce_v2 ? "roce_v2" : "roce_v1";
}

std::vector<std::uint16_t> reported_pkeys(const Port& port) { return port.pkeys; }

Result<void> may_destroy(const Core& /*core*/, const QueuePair& qp) {
  if (qp.groups == 0) return {};
  return refuse(EBUSY, fmt::format("destroy_qp: queue pair {} is attached to {} groups", qp.handle, qp.groups));
}

machines::PostAnswer post_send(const QueuePair& qp) { return machines::post_send(qp.options.type, qp.state); }

machines::PostAnswer post_receive(const QueuePair& qp) { return machines::post_receive(qp.options.type, qp.state); }

bool uses_cq(const QueuePair& qp, std::uint32_t cq) { return qp.options.send_cq == cq || qp.options.recv_cq == cq; }

}  // namespace conforming

}  // namespace rdmawire::device
