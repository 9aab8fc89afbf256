/// Connection management of the adapter, with the behavior of Linux's iWARP CM: application calls, events and TCP.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/iwarp/adapter.hpp"

namespace rdmawire::endpoint {

using device::CmEvent;
using device::CmEventType;
using device::CmParameters;
using device::Error;
using device::Gid;
using device::Result;
using Type = ConnectionEvent::Type;

namespace {

using device::refuse;

Gid gid_of(const replay::IpAddress& address) {
  return Gid::ipv4(static_cast<std::uint32_t>(load_be<4>(address.storage.data())));
}
device::CmEndpoint end_of(const replay::TcpAddress& address) { return {gid_of(address.address), address.port}; }

}  // namespace

// Look-up

std::uint32_t Adapter::listener_at(std::uint16_t port) const {
  for (const auto& [id, cm] : cm_ids_)
    if (cm.role == Role::listener && cm.port == port) return id;
  return 0;
}

Adapter::Stream* Adapter::find_stream(std::uint32_t stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

Endpoint* Adapter::endpoint_of(const Stream& stream) {
  if (stream.own) return stream.own.get();
  QueuePair* qp = find_qp(stream.qp);
  return qp ? qp->endpoint.get() : nullptr;
}

Result<Adapter::CmId*> Adapter::find_cm(std::uint32_t cm_id, const char* call) {
  const auto found = cm_ids_.find(cm_id);
  if (found == cm_ids_.end()) return refuse(ENOENT, fmt::format("{}: cm_id: unknown connection {}", call, cm_id));
  if (found->second.role == Role::listener)
    return refuse(EINVAL, fmt::format("{}: cm_id: {} is a listener, not a connection", call, cm_id));
  return &found->second;
}

Result<Adapter::QueuePair*> Adapter::free_qp(const CmParameters& with, const char* call) {
  QueuePair* qp = find_qp(with.qp);
  if (!qp && with.qp == 0)
    return refuse(EINVAL, fmt::format("{}: qp: iWARP requires a queue pair handle; a number is not sufficient", call));
  if (!qp) return refuse(ENOENT, fmt::format("{}: qp: unknown handle {}", call, with.qp));
  if (qp->cm_id != 0 || qp->endpoint->started())
    return refuse(EINVAL, fmt::format("{}: qp: {} already has or had a connection", call, with.qp));
  return qp;
}

// Application calls

Result<device::Listening> Adapter::cm_listen(const device::CmEndpoint& at, std::uint32_t backlog) {
  if (!at.address.is_zero() && at.address != gid_of(options_.address))
    return refuse(ENODEV, "cm_listen: address is not assigned to the device");
  std::uint16_t port = at.port;
  if (port == 0)
    for (port = 32'768; listener_at(port) != 0;) ++port;
  if (listener_at(port) != 0) return refuse(EADDRINUSE, fmt::format("cm_listen: port {} is in use", port));
  return new_object("cm_listen").map([&](std::uint32_t handle) {
    cm_ids_[handle] = CmId{.role = Role::listener, .port = port, .backlog = std::max(backlog, 1U)};
    return device::Listening{handle, port};
  });
}

Result<std::uint32_t> Adapter::cm_connect(const device::CmEndpoint& to, const Gid& source, CmParameters with) {
  const auto qp = free_qp(with, "cm_connect");
  if (!qp) return tl::unexpected(qp.error());
  if (!to.address.is_ipv4()) return refuse(EAFNOSUPPORT, "cm_connect: address: this device supports only IPv4");
  if (!source.is_zero() && source != gid_of(options_.address))
    return refuse(ENODEV, "cm_connect: source is not assigned to the device");
  for (const auto& depth : {with.responder_resources, with.initiator_depth})
    if (depth && *depth > options_.most_depth)
      return refuse(
          EINVAL, fmt::format("cm_connect: {} concurrent operations: the maximum is {}", *depth, options_.most_depth));
  const auto handle = new_object("cm_connect");
  if (!handle) return handle;
  const replay::TcpAddress remote{replay::IpAddress::v4(to.address.ipv4_address()), to.port};
  const std::uint16_t port = next_port_;
  next_port_ = next_port_ == 65'535 ? 49'152 : static_cast<std::uint16_t>(next_port_ + 1);
  const std::uint32_t id = ++last_stream_;
  streams_[id] = Stream{.qp = with.qp, .cm_id = *handle, .local = {options_.address, port}, .remote = remote};
  (*qp)->cm_id = *handle;
  (*qp)->init = true;
  CmId cm{.role = Role::active, .stream = id, .with = std::move(with)};
  cm.ird = cm.ord = options_.most_depth;
  cm_ids_[*handle] = std::move(cm);
  pending_requests_.push_back({id, port, remote});
  CmEvent resolved{.type = CmEventType::addr_resolved, .cm_id = *handle};
  resolved.local = {gid_of(options_.address), port};
  resolved.remote = to;
  report(resolved);
  resolved.type = CmEventType::route_resolved;
  report(resolved);
  return handle;
}

Result<void> Adapter::cm_accept(std::uint32_t cm_id, CmParameters with) {
  const auto cm = find_cm(cm_id, "cm_accept");
  if (!cm) return tl::unexpected(cm.error());
  if ((*cm)->role != Role::passive || (*cm)->answered)
    return refuse(EINVAL, fmt::format("cm_accept: cm_id: {} is not a pending request", cm_id));
  const auto qp = free_qp(with, "cm_accept");
  if (!qp) return tl::unexpected(qp.error());
  Stream* stream = find_stream((*cm)->stream);
  if (!stream || !stream->own) return refuse(ECONNRESET, "cm_accept: the peer closed the connection");
  const Endpoint& accepted = *stream->own;
  CmId answer = **cm;
  answer.with = with;
  if (auto ready = (*qp)->endpoint->prepare(endpoint_options(**qp, answer, stream->emss)); !ready) return ready;
  if (accepted.phase() != machines::MpaPhase::awaits_consumer)
    return refuse(ECONNRESET, "cm_accept: the peer closed the connection");
  if (auto adopted = (*qp)->endpoint->adopt(*stream->own); !adopted) return adopted;
  stream->own.reset();
  stream->qp = with.qp;
  (*qp)->cm_id = cm_id;
  (*cm)->answered = true;
  (*cm)->with = std::move(with);
  auto done = (*qp)->endpoint->accept((*cm)->with.private_data);
  drain((*cm)->stream);
  return done;
}

Result<void> Adapter::cm_establish(std::uint32_t cm_id) {
  const auto cm = find_cm(cm_id, "cm_establish");
  if (!cm) return tl::unexpected(cm.error());
  return refuse(EINVAL, "cm_establish: not supported by iWARP");
}

Result<void> Adapter::cm_reject(std::uint32_t cm_id, Bytes private_data) {
  const auto cm = find_cm(cm_id, "cm_reject");
  if (!cm) return tl::unexpected(cm.error());
  Stream* stream = find_stream((*cm)->stream);
  if ((*cm)->role != Role::passive || (*cm)->answered || !stream || !stream->own)
    return refuse(EINVAL, fmt::format("cm_reject: cm_id: {} is not a pending request", cm_id));
  (*cm)->answered = true;
  auto done = stream->own->reject(private_data);
  drain((*cm)->stream);
  return done;
}

Result<void> Adapter::cm_disconnect(std::uint32_t cm_id) {
  const auto cm = find_cm(cm_id, "cm_disconnect");
  if (!cm) return tl::unexpected(cm.error());
  Stream* stream = find_stream((*cm)->stream);
  Endpoint* endpoint = stream && (*cm)->established ? endpoint_of(*stream) : nullptr;
  if (!endpoint) return refuse(EINVAL, fmt::format("cm_disconnect: cm_id: {} is not connected", cm_id));
  endpoint->disconnect();
  drain((*cm)->stream);
  return {};
}

Result<void> Adapter::cm_destroy(std::uint32_t cm_id) {
  const auto found = cm_ids_.find(cm_id);
  if (found == cm_ids_.end()) return refuse(ENOENT, fmt::format("cm_destroy: unknown handle {}", cm_id));
  const CmId cm = std::move(found->second);
  cm_ids_.erase(found);
  --objects_;
  // Cancel a connection attempt that has not started.
  if (std::erase_if(pending_requests_, [&](const PendingRequest& pending) { return pending.stream == cm.stream; }) !=
      0) {
    if (QueuePair* qp = find_qp(cm.with.qp)) qp->cm_id = 0;
    forgotten(cm.stream);
  }
  Stream* stream = find_stream(cm.stream);
  if (!stream) return {};
  stream->cm_id = 0;
  if (stream->own && !cm.answered) {
    (void)stream->own->reject({});  // unanswered request
    drain(cm.stream);
  } else if (!stream->own && !stream->fin_sent) {
    abandon(cm.stream);
  }
  return {};
}

std::optional<CmEvent> Adapter::get_cm_event() {
  if (events_.empty()) return std::nullopt;
  CmEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// Events

void Adapter::report(CmEvent event) {
  if (events_.size() < most_events) events_.push_back(std::move(event));
}

device::CmPeer Adapter::peer_of(const ConnectionEvent& event) const {
  device::CmPeer peer;
  peer.private_data = event.private_data;
  // The depths are this device's maximum if the peer sent no enhanced frame.
  const auto depth = [&](std::uint16_t reported) {
    const bool said = event.revision >= 2 && reported != mpa::no_negotiation;
    return static_cast<std::uint8_t>(std::min(said ? reported : options_.most_depth, options_.most_depth));
  };
  peer.responder_resources = depth(event.ird);
  peer.initiator_depth = depth(event.ord);
  return peer;
}

void Adapter::report_disconnect(std::uint32_t cm_id, const std::optional<device::StreamError>& why) {
  const auto found = cm_ids_.find(cm_id);
  if (found == cm_ids_.end() || found->second.end_reported || !found->second.established) return;
  found->second.end_reported = true;
  CmEvent event{.type = CmEventType::disconnected, .cm_id = cm_id};
  event.stream_error = why;
  report(std::move(event));
}

void Adapter::request(std::uint32_t id, const ConnectionEvent& event) {
  Stream& stream = streams_.at(id);
  const auto listener = cm_ids_.find(stream.listener);
  const auto waiting = std::ranges::count_if(cm_ids_, [&](const auto& one) {
    const Stream* other = find_stream(one.second.stream);
    return one.second.role == Role::passive && !one.second.answered && other && other->listener == stream.listener;
  });
  if (listener == cm_ids_.end() || waiting >= listener->second.backlog) return abandon(id);
  const auto handle = new_object("connect_request");
  if (!handle) return abandon(id);
  stream.cm_id = *handle;
  CmId cm{.role = Role::passive, .stream = id};
  CmEvent reported{.type = CmEventType::connect_request, .listener = stream.listener, .cm_id = *handle};
  reported.local = end_of(stream.local);
  reported.remote = end_of(stream.remote);
  reported.peer = peer_of(event);
  cm.ird = reported.peer.responder_resources;
  cm.ord = reported.peer.initiator_depth;
  cm_ids_[*handle] = std::move(cm);
  report(std::move(reported));
}

void Adapter::on_event(std::uint32_t id, const ConnectionEvent& event, int cause) {
  if (event.type == Type::request) return request(id, event);
  const Stream& stream = streams_.at(id);
  const std::uint32_t cm_id = stream.cm_id;
  if (event.type == Type::error || event.type == Type::terminated) {
    ++(event.type == Type::error ? counters_.errors : counters_.terminates_received);
    why_.try_emplace(
        id, device::StreamError{event.error.layer, event.error.type, event.error.code, event.type == Type::terminated});
  }
  const auto found = cm_ids_.find(cm_id);
  if (found == cm_ids_.end()) return;
  CmId& cm = found->second;
  CmEvent reported{.type = CmEventType::established, .cm_id = cm_id};
  // The initiator found an error in the reply, so its application was not notified yet. RFC 6581, 9.1 and 9.2.
  const bool unborn = event.type == Type::error && cm.role == Role::active && !cm.established && !cm.end_reported;
  if (unborn) {
    cm.end_reported = true;
    reported.type = CmEventType::connect_error;
    reported.error = cause;
    return report(std::move(reported));
  }
  switch (event.type) {
    case Type::established:
      ++counters_.connections;
      cm.established = true;
      if (cm.role == Role::active) reported.peer = peer_of(event);
      return report(std::move(reported));
    case Type::rejected:
      cm.end_reported = true;
      reported.type = CmEventType::rejected;
      reported.error = ECONNRESET;
      reported.peer.private_data = event.private_data;
      return report(std::move(reported));
    case Type::failed:
      if (cm.role != Role::active) return;
      cm.end_reported = true;
      reported.type = cause == ETIMEDOUT    ? CmEventType::unreachable
                      : cause == ECONNRESET ? CmEventType::rejected
                                            : CmEventType::connect_error;
      reported.error = cause;
      return report(std::move(reported));
    case Type::peer_closed: return report_disconnect(cm_id, {});
    case Type::disconnected: {
      const auto why = why_.find(id);
      return report_disconnect(cm_id, why == why_.end() ? std::nullopt : std::optional(why->second));
    }
    default: return;
  }
}

void Adapter::drain(std::uint32_t id, int cause) {
  for (;;) {
    Stream* stream = find_stream(id);
    Endpoint* endpoint = stream ? endpoint_of(*stream) : nullptr;
    const auto event = endpoint ? endpoint->next_event() : std::nullopt;
    if (!event) return;
    on_event(id, *event, cause);
  }
}

void Adapter::abandon(std::uint32_t id) {
  Stream* stream = find_stream(id);
  if (!stream) return;
  if (Endpoint* endpoint = endpoint_of(*stream)) {
    endpoint->lost(now_);
    while (endpoint->next_event()) {
    }
  }
  stream->own.reset();
  stream->qp = stream->cm_id = 0;
  stream->reset_due = !stream->fin_sent;
}

// TCP

std::uint32_t Adapter::connected(std::uint16_t port, const replay::TcpAddress& from, std::uint32_t emss) {
  const std::uint32_t id = ++last_stream_;
  Stream& stream = streams_[id];
  stream.listener = listener_at(port);
  stream.emss = emss;
  stream.local = {options_.address, port};
  stream.remote = from;
  EndpointOptions options;
  options.mpa = mpa_;
  options.emss = emss;
  stream.own = std::make_unique<Endpoint>(rnic_, options);
  (void)stream.own->await(now_);
  return id;
}

std::optional<TcpUser::PendingRequest> Adapter::next_connect_request() {
  if (pending_requests_.empty()) return std::nullopt;
  const PendingRequest pending = pending_requests_.front();
  pending_requests_.pop_front();
  return pending;
}

void Adapter::answered(std::uint32_t id, int error, std::uint32_t emss) {
  Stream* stream = find_stream(id);
  if (!stream) return;
  const auto found = cm_ids_.find(stream->cm_id);
  QueuePair* qp = find_qp(stream->qp);
  if (found == cm_ids_.end() || !qp) return abandon(id);
  CmId& cm = found->second;
  std::string message = error == 0 ? "" : "rdma_connect: " + std::string(strerrordesc_np(error));
  if (error == 0) {
    stream->emss = emss;
    auto begun = qp->endpoint->prepare(endpoint_options(*qp, cm, emss));
    if (begun) begun = qp->endpoint->connect(cm.with.private_data, now_);
    if (begun) return drain(id);
    error = begun.error().number;
    message = begun.error().message;
    stream->reset_due = true;
  }
  // Detach the queue pair, which can then be connected again.
  qp->cm_id = 0;
  stream->qp = stream->cm_id = 0;
  cm.end_reported = true;
  CmEvent failed{.type = CmEventType::failed, .cm_id = found->first, .error = error, .message = message};
  failed.step = "connect";
  report(std::move(failed));
}

void Adapter::received(std::uint32_t id, Bytes bytes) {
  counters_.bytes_received += bytes.size();
  Stream* stream = find_stream(id);
  Endpoint* endpoint = stream ? endpoint_of(*stream) : nullptr;
  if (!endpoint) return;
  endpoint->received(bytes, now_);
  drain(id, EPROTO);
}

void Adapter::peer_closed(std::uint32_t id) {
  Stream* stream = find_stream(id);
  Endpoint* endpoint = stream ? endpoint_of(*stream) : nullptr;
  if (!endpoint) return;
  endpoint->peer_closed(now_);
  drain(id, ECONNRESET);
}

void Adapter::lost(std::uint32_t id) {
  Stream* stream = find_stream(id);
  Endpoint* endpoint = stream ? endpoint_of(*stream) : nullptr;
  if (!endpoint) return;
  endpoint->lost(now_);
  drain(id, ECONNRESET);
}

Output Adapter::take(std::uint32_t id, std::size_t most) {
  Output output;
  Stream* stream = find_stream(id);
  if (!stream) return output;
  if (stream->reset_due) {
    stream->reset_due = false;
    output.reset = true;
    return output;
  }
  if (Endpoint* endpoint = endpoint_of(*stream)) {
    output = endpoint->take(now_, most);
    stream->fin_sent = stream->fin_sent || output.fin || output.reset;
    for (const auto& segment : output.segments) counters_.bytes_sent += segment.size();
    drain(id);
  }
  return output;
}

void Adapter::forgotten(std::uint32_t id) {
  streams_.erase(id);
  why_.erase(id);
}

std::int64_t Adapter::wakes() const {
  std::int64_t soonest = never;
  for (const auto& [id, stream] : streams_) {
    const auto qp = qps_.find(stream.qp);
    const Endpoint* endpoint = stream.own ? stream.own.get() : qp != qps_.end() ? qp->second.endpoint.get() : nullptr;
    if (endpoint) soonest = std::min(soonest, endpoint->wakes());
  }
  return soonest;
}

void Adapter::woken() {
  std::vector<std::uint32_t> due;
  for (const auto& [id, stream] : streams_) due.push_back(id);
  for (const std::uint32_t id : due) {
    Stream* stream = find_stream(id);
    Endpoint* endpoint = stream ? endpoint_of(*stream) : nullptr;
    if (!endpoint || endpoint->wakes() > now_) continue;
    endpoint->woken(now_);
    drain(id, ETIMEDOUT);
  }
}

}  // namespace rdmawire::endpoint
