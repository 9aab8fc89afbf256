#include "conformance/device/iwarp/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace rdmawire::endpoint {

using device::Error;
using device::QpState;
using device::Result;
using machines::StreamState;

namespace {

using device::refuse;

tl::unexpected<Error> no_such(const char* call, const char* what, std::uint32_t handle) {
  return refuse(ENOENT, fmt::format("{}: {}: unknown handle {}", call, what, handle));
}
tl::unexpected<Error> in_use(const char* call, std::uint32_t handle) {
  return refuse(EBUSY, fmt::format("{}: {} is in use", call, handle));
}

}  // namespace

QpState Adapter::QueuePair::state() const {
  if (!endpoint->started()) return init ? QpState::init : QpState::reset;
  if (endpoint->ended()) return QpState::err;
  if (!machines::takes_fpdus(endpoint->phase())) return QpState::init;
  switch (endpoint->stream()) {
    case StreamState::operating:
    case StreamState::peer_closed: return QpState::rts;
    case StreamState::closing: return QpState::sqd;
    case StreamState::terminating: return QpState::sqe;
    default: return QpState::err;
  }
}

Adapter::Adapter(AdapterOptions options) : options_(std::move(options)), rnic_(options_.rnic) {
  mpa_.ird = mpa_.ord = mpa_.most_ird = options_.most_depth;
}

void Adapter::forget_everything() {
  for (auto& [id, stream] : streams_) abandon(id);
  qps_.clear();
  cm_ids_.clear();
  for (const PendingRequest& pending : pending_requests_) forgotten(pending.stream);
  pending_requests_.clear();
  events_.clear();
  why_.clear();
  pds_.clear();
  cqs_.clear();
  channels_.clear();
  rnic_.forget_everything();
  objects_ = 0;
}

Result<std::uint32_t> Adapter::new_object(const char* call) {
  if (objects_ >= options_.most_objects)
    return refuse(ENOMEM, fmt::format("{}: the limit of {} objects is reached", call, options_.most_objects));
  ++objects_;
  return rnic_.new_handle();
}

void Adapter::set_emss(std::uint32_t emss) {
  for (auto& [id, stream] : streams_) {
    stream.emss = emss;
    if (Endpoint* endpoint = endpoint_of(stream)) endpoint->set_emss(emss);
  }
}

// Memory

Result<void> Adapter::free(std::uint64_t address) {
  if (rnic_.memory().release(address)) return {};
  return refuse(ENOENT, fmt::format("free: no allocation starts at 0x{:x}", address));
}

Result<std::uint32_t> Adapter::alloc_pd() {
  const auto pd = new_object("alloc_pd");
  if (pd) pds_.insert(*pd);
  return pd;
}

Result<void> Adapter::dealloc_pd(std::uint32_t pd) {
  if (!pds_.contains(pd)) return no_such("dealloc_pd", "pd", pd);
  const bool serves = std::ranges::any_of(qps_, [&](const auto& one) { return one.second.options.pd == pd; });
  if (serves || rnic_.memory().uses(pd)) return in_use("dealloc_pd", pd);
  pds_.erase(pd);
  --objects_;
  return {};
}

Result<const device::Region*> Adapter::reg_mr(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                              std::uint32_t rights, std::optional<std::uint64_t> iova) {
  if (!pds_.contains(pd)) return no_such("reg_mr", "pd", pd);
  return new_object("reg_mr").and_then([&](std::uint32_t handle) -> Result<const device::Region*> {
    auto region = rnic_.memory().register_region(handle, pd, address, bytes, iova.value_or(address), rights);
    if (region) return *region;
    --objects_;
    return tl::unexpected(region.error());
  });
}

Result<const device::Region*> Adapter::alloc_mr(std::uint32_t pd, std::uint64_t max_bytes) {
  if (!pds_.contains(pd)) return no_such("alloc_mr", "pd", pd);
  return new_object("alloc_mr").and_then([&](std::uint32_t handle) -> Result<const device::Region*> {
    return *rnic_.memory().allocate_region(handle, pd, max_bytes);
  });
}

Result<void> Adapter::dereg_mr(std::uint32_t mr) {
  return rnic_.memory().deregister(mr).map([&] { --objects_; });
}

Result<const device::Window*> Adapter::alloc_mw(std::uint32_t pd, std::uint8_t type) {
  if (!pds_.contains(pd)) return no_such("alloc_mw", "pd", pd);
  return new_object("alloc_mw").and_then([&](std::uint32_t handle) -> Result<const device::Window*> {
    auto window = rnic_.memory().allocate_window(handle, pd, type);
    if (window) return *window;
    --objects_;
    return tl::unexpected(window.error());
  });
}

Result<void> Adapter::dealloc_mw(std::uint32_t mw) {
  return rnic_.memory().release_window(mw).map([&] { --objects_; });
}

// Completions

Result<std::uint32_t> Adapter::create_channel() {
  const auto channel = new_object("create_comp_channel");
  if (channel) channels_[*channel];
  return channel;
}

Result<void> Adapter::destroy_channel(std::uint32_t channel) {
  if (!channels_.contains(channel)) return no_such("destroy_comp_channel", "channel", channel);
  if (std::ranges::any_of(cqs_, [&](const auto& cq) { return cq.second == channel; }))
    return in_use("destroy_comp_channel", channel);
  channels_.erase(channel);
  --objects_;
  return {};
}

Result<std::uint32_t> Adapter::create_cq(std::uint32_t capacity, std::uint32_t channel) {
  if (channel != 0 && !channels_.contains(channel)) return no_such("create_cq", "channel", channel);
  if (capacity == 0 || capacity > options_.most_work)
    return refuse(EINVAL, fmt::format("create_cq: cqe: {}; allowed are 1 to {}", capacity, options_.most_work));
  if (objects_ >= options_.most_objects) return new_object("create_cq");
  ++objects_;
  const std::uint32_t cq = rnic_.create_cq(capacity);
  cqs_[cq] = channel;
  return cq;
}

Result<void> Adapter::destroy_cq(std::uint32_t cq) {
  if (!cqs_.contains(cq)) return no_such("destroy_cq", "cq", cq);
  const auto uses = [&](const auto& one) {
    return one.second.options.send_cq == cq || one.second.options.recv_cq == cq;
  };
  if (std::ranges::any_of(qps_, uses)) return in_use("destroy_cq", cq);
  for (auto& [channel, notified] : channels_) std::erase(notified, cq);
  rnic_.destroy_cq(cq);
  cqs_.erase(cq);
  --objects_;
  return {};
}

Result<std::vector<device::Completion>> Adapter::poll_cq(std::uint32_t cq, std::size_t most) {
  if (!cqs_.contains(cq)) return no_such("poll_cq", "cq", cq);
  return rnic_.poll(cq, most);
}

Result<void> Adapter::req_notify_cq(std::uint32_t cq, bool solicited_only) {
  if (!cqs_.contains(cq)) return no_such("req_notify_cq", "cq", cq);
  rnic_.arm(cq, solicited_only);
  return {};
}

Result<std::optional<std::uint32_t>> Adapter::get_cq_event(std::uint32_t channel) {
  while (const auto cq = rnic_.next_notification())
    if (const auto found = cqs_.find(*cq); found != cqs_.end() && found->second != 0)
      channels_[found->second].push_back(*cq);
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return no_such("get_cq_event", "channel", channel);
  std::optional<std::uint32_t> reported;
  if (!found->second.empty()) {
    reported = found->second.front();
    found->second.pop_front();
  }
  return reported;
}

// Queue pairs

Adapter::QueuePair* Adapter::find_qp(std::uint32_t handle) {
  const auto found = qps_.find(handle);
  return found == qps_.end() ? nullptr : &found->second;
}

const Adapter::QueuePair* Adapter::qp(std::uint32_t handle) const {
  const auto found = qps_.find(handle);
  return found == qps_.end() ? nullptr : &found->second;
}

EndpointOptions Adapter::endpoint_options(const QueuePair& qp, const CmId& cm, std::uint32_t emss) const {
  EndpointOptions options;
  options.pd = qp.options.pd;
  options.send_cq = qp.options.send_cq;
  options.receive_cq = qp.options.recv_cq;
  options.mpa = qp.mpa;
  options.mpa.ird = cm.with.responder_resources.value_or(static_cast<std::uint8_t>(std::min<int>(cm.ord, 255)));
  options.mpa.ord = cm.with.initiator_depth.value_or(static_cast<std::uint8_t>(std::min<int>(cm.ird, 255)));
  if (emss != 0) options.emss = emss;
  options.closes_with_peer = cm.with.answers_disconnect;
  options.most_work = std::max(qp.options.max_send_wr, qp.options.max_recv_wr);
  return options;
}

Result<std::uint32_t> Adapter::create_qp(const device::QueuePairOptions& options) {
  if (options.type != device::QpType::rc) return refuse(EOPNOTSUPP, "create_qp: type: iWARP supports only rc");
  if (options.srq != 0) return refuse(EOPNOTSUPP, "create_qp: srq: this device does not support shared receive queues");
  if (!pds_.contains(options.pd)) return no_such("create_qp", "pd", options.pd);
  for (const std::uint32_t cq : {options.send_cq, options.recv_cq})
    if (!cqs_.contains(cq)) return no_such("create_qp", "cq", cq);
  const auto wants = std::max(options.max_send_wr, options.max_recv_wr);
  const auto sges = std::max(options.max_send_sge, options.max_recv_sge);
  if (wants > options_.most_work || sges > options_.most_sges || options.max_inline > 4096)
    return refuse(EINVAL, fmt::format("create_qp: {} requests of {} elements, {} inline bytes: the maximum is {}, {} "
                                      "and 4096",
                                      wants, sges, options.max_inline, options_.most_work, options_.most_sges));
  if (objects_ >= options_.most_objects) return new_object("create_qp");
  ++objects_;
  QueuePair qp{.options = options, .mpa = mpa_};
  qp.endpoint = std::make_unique<Endpoint>(rnic_, endpoint_options(qp, CmId(), 0));
  const std::uint32_t handle = qp.endpoint->number();
  qps_.emplace(handle, std::move(qp));
  return handle;
}

Result<void> Adapter::modify_qp(std::uint32_t handle, QpState state) {
  QueuePair* qp = find_qp(handle);
  if (!qp) return no_such("modify_qp", "qp", handle);
  const QpState now = qp->state();
  const auto refused = [&] {
    return refuse(
        EINVAL,
        fmt::format("modify_qp: queue pair {}: invalid transition from state {}; the connection determines the state",
                    handle, static_cast<unsigned>(now)));
  };
  if (state == now) return {};
  switch (state) {
    case QpState::init:
      if (now != QpState::reset) return refused();
      qp->init = true;
      return {};
    case QpState::reset:
      if (qp->endpoint->started()) return refused();
      qp->init = false;
      return {};
    case QpState::sqd:
      if (now != QpState::rts) return refused();
      qp->endpoint->disconnect();
      break;
    case QpState::sqe:
      if (now != QpState::rts) return refused();
      qp->endpoint->fail_locally();
      break;
    case QpState::err:
      if (qp->endpoint->started())
        qp->endpoint->fail_locally();
      else
        qp->endpoint->stop();
      break;
    default: return refused();
  }
  if (const auto cm = cm_ids_.find(qp->cm_id); cm != cm_ids_.end()) drain(cm->second.stream);
  return {};
}

Result<void> Adapter::set_rights(std::uint32_t handle, std::uint32_t rights) {
  QueuePair* qp = find_qp(handle);
  if (!qp) return no_such("modify_qp", "qp", handle);
  qp->rights = rights;
  return {};
}

Result<void> Adapter::destroy_qp(std::uint32_t handle) {
  QueuePair* qp = find_qp(handle);
  if (!qp) return no_such("destroy_qp", "qp", handle);
  for (auto& [id, stream] : streams_) {
    if (stream.qp != handle) continue;
    if (stream.cm_id != 0) report_disconnect(stream.cm_id, {});
    abandon(id);
  }
  rnic_.memory().unbind_windows_of(handle);
  qps_.erase(handle);
  --objects_;
  return {};
}

Result<void> Adapter::post_send(std::uint32_t handle, device::SendRequest request) {
  QueuePair* qp = find_qp(handle);
  if (!qp) return no_such("post_send", "qp", handle);
  if (request.sges.size() > qp->options.max_send_sge || request.bytes.size() > qp->options.max_inline)
    return refuse(EINVAL,
                  fmt::format("post_send: {} elements, {} inline bytes: the maximum is {} and {}", request.sges.size(),
                              request.bytes.size(), qp->options.max_send_sge, qp->options.max_inline));
  request.signaled = request.signaled || qp->options.all_signaled;
  return qp->endpoint->post_send(std::move(request));
}

Result<void> Adapter::post_recv(std::uint32_t handle, device::ReceiveRequest request) {
  QueuePair* qp = find_qp(handle);
  if (!qp) return no_such("post_recv", "qp", handle);
  if (request.sges.size() > qp->options.max_recv_sge)
    return refuse(EINVAL, fmt::format("post_recv: {} elements: the maximum is {}", request.sges.size(),
                                      qp->options.max_recv_sge));
  return qp->endpoint->post_receive(std::move(request));
}

Result<std::uint32_t> Adapter::bind_mw(std::uint32_t handle, device::SendRequest request) {
  const std::uint32_t key = rnic_.memory().fresh_key();
  request.new_key = key;
  return post_send(handle, std::move(request)).map([&] { return key; });
}

}  // namespace rdmawire::endpoint
