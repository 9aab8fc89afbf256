#include "conformance/device/iwarp/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace rdmawire::endpoint {

using machines::MpaPhase;
using machines::MpaRole;
using machines::StreamEvent;
using machines::StreamState;
using Type = ConnectionEvent::Type;

namespace {

using device::refuse;
using device::WorkOpcode;

constexpr bool has_immediate(WorkOpcode opcode) {
  return opcode == WorkOpcode::write_imm || opcode == WorkOpcode::send_imm;
}
constexpr bool is_of_iwarp(WorkOpcode opcode, bool extensions) {
  switch (opcode) {
    case WorkOpcode::write:
    case WorkOpcode::send:
    case WorkOpcode::send_inv:
    case WorkOpcode::read:
    case WorkOpcode::local_inv:
    case WorkOpcode::bind_mw:
    case WorkOpcode::reg_mr: return true;
    default: return extensions && (is_atomic(opcode) || has_immediate(opcode));
  }
}
std::uint64_t bytes_of(const device::SendRequest& request) {
  if (request.is_inline) return request.bytes.size();
  std::uint64_t sum = 0;
  for (const device::Sge& sge : request.sges) sum += sge.length;
  return sum;
}

}  // namespace

Stream::Stream(Rnic& interface, EndpointOptions with)
    : rnic(interface), options(std::move(with)), number(rnic.new_handle()) {
  options.mpa = decisions().setup.settings(options.mpa);
  msn.fill(decisions().transmit.first_msn());
  ddp.queue_count = machines::RdmapAbilities{.extensions = rnic.options().extensions}.queues();
}

// Connections

device::Result<void> Endpoint::prepare(EndpointOptions options) {
  if (stream_.started) return refuse(EINVAL, "prepare: the endpoint was already used");
  stream_.options = std::move(options);
  stream_.options.mpa = stream_.decisions().setup.settings(stream_.options.mpa);
  return {};
}

device::Result<void> Endpoint::adopt(Endpoint& pending) {
  if (stream_.started) return refuse(EINVAL, "adopt: the endpoint was already used");
  if (pending.stream_.phase != MpaPhase::awaits_consumer)
    return refuse(EINVAL, "adopt: the other endpoint has no pending request");
  stream_.started = true;
  stream_.now = pending.stream_.now;
  stream_.role = pending.stream_.role;
  stream_.phase = pending.stream_.phase;
  stream_.request = pending.stream_.request;
  stream_.pending = std::move(pending.stream_.pending);
  pending.stream_.pending.clear();
  pending.stream_.phase = MpaPhase::ended;
  pending.stream_.end_reported = true;
  return {};
}

device::Result<void> Endpoint::connect(Bytes private_data, std::int64_t now) {
  if (stream_.started) return refuse(EINVAL, "connect: the endpoint was already used");
  const auto request = machines::request_of(stream_.options.mpa);
  if (const auto most = machines::most_private_data(request.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("connect: {} bytes of private data: the maximum is {}", private_data.size(), most));
  stream_.started = true;
  stream_.now = now;
  stream_.role = MpaRole::initiator;
  stream_.phase = machines::begins(stream_.role);
  stream_.request = request;
  stream_.deadline = now + stream_.options.setup_timeout;
  send_setup(stream_, request, private_data);
  return {};
}

device::Result<void> Endpoint::await(std::int64_t now) {
  if (stream_.started) return refuse(EINVAL, "await: the endpoint was already used");
  stream_.started = true;
  stream_.now = now;
  stream_.role = MpaRole::responder;
  stream_.phase = machines::begins(stream_.role);
  stream_.deadline = stream_.decisions().setup.request_deadline(stream_);
  return {};
}

device::Result<void> Endpoint::accept(Bytes private_data) {
  if (stream_.phase != MpaPhase::awaits_consumer) return refuse(EINVAL, "accept: no pending request");
  if (const auto most = machines::most_private_data(stream_.request.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("accept: {} bytes of private data: the maximum is {}", private_data.size(), most));
  const auto [reply, agreement] = stream_.decisions().setup.accept_request(stream_.options.mpa, stream_.request);
  send_setup(stream_, reply, private_data);
  stream_.phase = *machines::after(stream_.phase, machines::MpaSetupEvent::accepted);
  operate(stream_, agreement);
  report(stream_, Type::established);
  receive_fpdus(stream_);
  return {};
}

device::Result<void> Endpoint::reject(Bytes private_data) {
  if (stream_.phase != MpaPhase::awaits_consumer) return refuse(EINVAL, "reject: no pending request");
  if (const auto most = machines::most_private_data(stream_.request.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("reject: {} bytes of private data: the maximum is {}", private_data.size(), most));
  reject_setup(stream_, private_data);
  return {};
}

void Endpoint::disconnect() {
  if (!stream_.started || stream_.end_reported) return;
  if (machines::takes_fpdus(stream_.phase))
    stream_.closing = true;
  else if (stream_.phase != MpaPhase::ended)
    end_setup(stream_, false, std::nullopt);
}

void Endpoint::stop() {
  if (stream_.started) return;
  stream_.started = stream_.end_reported = true;
  stream_.phase = MpaPhase::ended;
  stream_.state = StreamState::closed;
  flush(stream_);
}

void Endpoint::fail_locally() {
  if (stream_.phase == MpaPhase::full_operation && !stream_.any_fpdu && stream_.agreement.peer_to_peer) {
    // Until the first FPDU, a local error counts as an error of the MPA negotiation: RFC 6581, 9.3.
    return fail(stream_, machines::iwarp_error::setup_local);
  }
  if (machines::takes_fpdus(stream_.phase)) return fail(stream_, machines::iwarp_error::local_catastrophic);
  if (stream_.phase != MpaPhase::ended) end_setup(stream_, true);
}

std::optional<ConnectionEvent> Endpoint::next_event() {
  if (stream_.events.empty()) return std::nullopt;
  ConnectionEvent event = std::move(stream_.events.front());
  stream_.events.pop_front();
  return event;
}

// Verbs

device::Result<void> Endpoint::post_send(device::SendRequest request) {
  if (!is_of_iwarp(request.opcode, stream_.rnic.options().extensions))
    return refuse(EINVAL, fmt::format("post_send: opcode {}: not supported by this endpoint",
                                      static_cast<unsigned>(request.opcode)));
  if (stream_.work.size() >= stream_.options.most_work)
    return refuse(ENOMEM, fmt::format("post_send: the send queue is full ({} requests)", stream_.work.size()));
  if (!machines::takes_fpdus(stream_.phase) && !stream_.end_reported && !machines::may_send_fpdus(stream_.phase))
    return refuse(EINVAL, "post_send: no connection");
  Work work{.number = stream_.next_work++, .request = std::move(request), .length = 0};
  device::SendRequest& posted = work.request;
  if (posted.opcode == WorkOpcode::read && (posted.is_inline || posted.sges.size() > 1))
    return refuse(EINVAL, "post_send: an RDMA Read requires one response buffer");
  if (is_atomic(posted.opcode) && (posted.sges.size() != 1 || posted.sges[0].length != 8))
    return refuse(EINVAL, "post_send: an atomic requires one response buffer of eight bytes");
  work.length = posted.opcode == WorkOpcode::send_imm ? 0 : bytes_of(posted);
  if (work.length > UINT32_MAX)
    return refuse(EINVAL, fmt::format("post_send: {} bytes: a message must be shorter than 2^32 bytes", work.length));
  if (posted.opcode == WorkOpcode::write_imm) work.parts = 2;
  if (posted.opcode == WorkOpcode::bind_mw) {
    const device::Window* window = stream_.rnic.memory().window(posted.window);
    if (window != nullptr && window->type == 1 && posted.new_key == 0)
      posted.new_key = stream_.rnic.memory().fresh_key();
  }
  if (stream_.state != StreamState::operating && stream_.state != StreamState::peer_closed) {
    work.done = true;
    work.status = device::Status::flushed;
  }
  stream_.work.push_back(std::move(work));
  complete_sends(stream_);
  return {};
}

device::Result<void> Endpoint::post_receive(device::ReceiveRequest request) {
  if (stream_.receives.size() >= stream_.options.most_work)
    return tl::unexpected(device::Error{ENOMEM, "post_receive: the queue is full"});
  if (stream_.end_reported || (stream_.state != StreamState::operating && stream_.state != StreamState::closing)) {
    complete(stream_, stream_.options.receive_cq,
             {.id = request.id, .status = device::Status::flushed, .opcode = device::CompletionOpcode::receive}, false);
    return {};
  }
  stream_.receives.push_back(std::move(request));
  return {};
}

// TCP

void Endpoint::received(Bytes bytes, std::int64_t now) {
  stream_.decisions().states.begin_event(stream_, now);
  if (!stream_.started || bytes.empty()) return;
  if (stream_.rnic.has_failed()) fail(stream_, machines::iwarp_error::local_catastrophic);
  const bool receives = stream_.decisions().states.receives(stream_.state);
  if (stream_.state == StreamState::peer_closed && !receives)
    return fail(stream_, machines::iwarp_error::tcp_lost);  // RFC 5041, 6.2.1
  if (stream_.phase == MpaPhase::ended || !receives) return;
  if (stream_.phase == MpaPhase::awaits_consumer) return end_setup(stream_, true);  // FPDU before the reply
  stream_.pending.insert(stream_.pending.end(), bytes.begin(), bytes.end());
  if (machines::is_timed(stream_.phase))
    receive_setup(stream_);
  else
    receive_fpdus(stream_);
}

void Endpoint::peer_closed(std::int64_t now) {
  stream_.decisions().states.begin_event(stream_, now);
  if (!stream_.started || stream_.end_reported) return;
  if (machines::takes_fpdus(stream_.phase))
    stream_.decisions().states.end_by_fin(stream_);
  else
    end_setup(stream_, false);
}

void Endpoint::lost(std::int64_t now) {
  stream_.decisions().states.begin_event(stream_, now);
  if (!stream_.started || stream_.end_reported) return;
  if (machines::takes_fpdus(stream_.phase))
    stream_.decisions().states.end_by_loss(stream_);
  else
    end_setup(stream_, true);
}

void Endpoint::woken(std::int64_t now) {
  stream_.decisions().states.begin_event(stream_, now);
  if (now < stream_.deadline) return;
  stream_.deadline = never;
  if (machines::is_timed(stream_.phase)) return end_setup(stream_, true);
  apply(stream_, machines::after(stream_.state, StreamEvent::timeout), Type::error, machines::iwarp_error::tcp_lost);
}

void Endpoint::set_emss(std::uint32_t emss) {
  stream_.options.emss = stream_.decisions().fpdus.new_emss(stream_, emss);
}

Output Endpoint::take(std::int64_t now, std::size_t most) {
  stream_.now = now;
  Output output;
  if (stream_.reset) {
    stream_.reset = false;
    stream_.fin = false;
    stream_.segments.clear();
    stream_.waiting_bytes = 0;
    output.reset = true;
    stream_.fin_sent = true;
    return output;
  }
  transmit(stream_, most);
  output.segments = std::move(stream_.segments);
  stream_.segments.clear();
  stream_.waiting_bytes = 0;
  if (stream_.fin && !stream_.fin_sent && !stream_.outgoing && !stream_.terminate)
    stream_.decisions().states.close(stream_, output);
  return output;
}

}  // namespace rdmawire::endpoint
