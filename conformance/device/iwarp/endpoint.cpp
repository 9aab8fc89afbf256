#include "conformance/device/iwarp/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::endpoint {

using machines::IwarpError;
using machines::MpaPhase;
using machines::MpaRole;
using machines::StreamEvent;
using machines::StreamState;
using Type = ConnectionEvent::Type;
using enum Fault;

namespace {

using device::refuse;

}  // namespace

Stream::Stream(Rnic& interface, EndpointOptions with)
    : rnic(interface), options(std::move(with)), number(rnic.new_handle()) {
  if (has(asks_for_no_crc)) options.mpa.crc = false;
  msn.fill(has(msn_from_zero) ? 0 : 1);
  ddp.queue_count = machines::RdmapAbilities{.extensions = rnic.options().extensions}.queues();
}

// Connections

device::Result<void> Endpoint::prepare(EndpointOptions options) {
  if (stream_.started) return refuse(EINVAL, "prepare: the endpoint was already used");
  stream_.options = std::move(options);
  if (stream_.has(asks_for_no_crc)) stream_.options.mpa.crc = false;
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
  stream_.deadline = stream_.has(waits_forever_for_request) ? never : now + stream_.options.setup_timeout;
  return {};
}

device::Result<void> Endpoint::accept(Bytes private_data) {
  if (stream_.phase != MpaPhase::awaits_consumer) return refuse(EINVAL, "accept: no pending request");
  if (const auto most = machines::most_private_data(stream_.request.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("accept: {} bytes of private data: the maximum is {}", private_data.size(), most));
  auto pending = stream_.request;
  if (stream_.has(negotiates_all_ones)) {
    if (pending.data.ird == mpa::no_negotiation) --pending.data.ird;
    if (pending.data.ord == mpa::no_negotiation) --pending.data.ord;
  }
  auto [reply, agreement] = machines::accept_request(stream_.options.mpa, pending);
  if (stream_.has(ignores_peers_crc_wish)) agreement.crc = stream_.options.mpa.crc;
  if (stream_.has(markers_both_ways))
    agreement.send_markers = agreement.receive_markers = agreement.send_markers || reply.markers;
  if (stream_.has(ord_above_ird) && reply.enhanced) reply.data.ord = agreement.ord = stream_.options.mpa.ord;
  if (stream_.has(replies_without_rtr)) reply.data.rtr = {};
  if (stream_.has(replies_rtr_unasked)) reply.data.rtr = stream_.options.mpa.rtr;
  if (stream_.has(replies_unenhanced)) reply.enhanced = false;
  if (stream_.has(replies_enhanced_unasked) && !reply.enhanced) {
    reply.enhanced = true;
    reply.revision = 2;
    reply.data = {.ird = agreement.ird, .ord = agreement.ord};
  }
  send_setup(stream_, reply, private_data);
  stream_.phase = *machines::after(stream_.phase, machines::MpaSetupEvent::accepted);
  operate(stream_, agreement);
  report(stream_, Type::established);
  take_fpdus(stream_);
  return {};
}

device::Result<void> Endpoint::reject(Bytes private_data) {
  if (stream_.phase != MpaPhase::awaits_consumer) return refuse(EINVAL, "reject: no pending request");
  if (const auto most = machines::most_private_data(stream_.request.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("reject: {} bytes of private data: the maximum is {}", private_data.size(), most));
  if (!stream_.has(rejects_by_closing))
    send_setup(stream_, machines::reject_request(stream_.options.mpa, stream_.request), private_data);
  end_setup(stream_, false, std::nullopt);
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
    // Still part of the MPA negotiation: RFC 6581, 9.3.
    if (stream_.has(silent_setup_error))
      return apply(stream_, {StreamState::closed, {.reset = true, .flush = true}}, Type::error, {});
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

// MPA negotiation

void send_setup(Stream& stream, const machines::MpaSetupFrame& frame, Bytes private_data) {
  const bool request = frame.sender == MpaRole::initiator || stream.has(replies_with_request_key);
  const std::string_view key = request ? mpa::request_key : mpa::reply_key;
  HeaderValue header = Value<MpaFrame>()
                           .set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()))
                           .set<"markers">(frame.markers)
                           .set<"crc">(frame.crc)
                           .set<"reject">(frame.reject)
                           .set<"enhanced">(frame.enhanced)
                           .set<"revision">(frame.revision)
                           .set<"reserved">(stream.has(sends_reserved_setup_bits) ? 5 : 0);
  std::vector<std::uint8_t> tail;
  if (frame.enhanced) {
    const auto data = Value<MpaEnhanced>()
                          .set<"peer_to_peer">(frame.data.peer_to_peer)
                          .set<"rtr_send">(frame.data.rtr.send)
                          .set<"rtr_write">(frame.data.rtr.write)
                          .set<"rtr_read">(frame.data.rtr.read)
                          .set<"ird">(frame.data.ird)
                          .set<"ord">(frame.data.ord);
    tail.assign(data.bytes().begin(), data.bytes().end());
  }
  tail.insert(tail.end(), private_data.begin(), private_data.end());
  header.set_tail(tail);
  Frame whole;
  whole /= header;
  stream.segments.push_back(whole.encode());
  stream.waiting_bytes += stream.segments.back().size();
}

void process_setup(Stream& stream) {
  std::vector<std::uint8_t> bytes(stream.pending.begin(),
                                  stream.pending.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                               stream.pending.size(), MpaFrame::size + 0xffff)));
  const MpaRole other = stream.role == MpaRole::initiator ? MpaRole::responder : MpaRole::initiator;
  const std::string_view key = other == MpaRole::initiator ? mpa::request_key : mpa::reply_key;
  if (bytes.size() >= MpaFrame::size) {
    std::uint8_t& flags = bytes[16];
    auto length = load_be<2>(bytes.data() + 18);
    const bool is_request = MpaFrame::is_request(bytes.data());
    if (stream.has(accepts_any_key) || (stream.has(takes_request_as_reply) && is_request))
      std::copy(key.begin(), key.end(), bytes.begin());
    if (stream.has(minds_reserved_setup_bits) && (flags & 0x0f) != 0) return end_setup(stream, true);
    if (stream.has(minds_reject_bit_of_request) && is_request && (flags & 0x20) != 0) return end_setup(stream, true);
    if (stream.has(half_the_private_data) && length > 256) return end_setup(stream, true);
    if (stream.has(accepts_long_private_data)) length = std::min<std::uint64_t>(length, mpa::max_private_data);
    if (stream.has(does_not_wait_for_private_data))
      length = std::min<std::uint64_t>(length, bytes.size() - MpaFrame::size);
    if (stream.has(accepts_short_enhanced_data) && length < MpaEnhanced::size) flags &= 0xef;
    if (stream.has(takes_enhanced_for_plain) && stream.options.mpa.revision < 2) {
      flags &= 0xef;
      bytes[17] = 1;
    }
    if (stream.has(accepts_any_revision)) bytes[17] = std::min(bytes[17], stream.options.mpa.revision);
    if (stream.has(takes_revision_0_for_1) && bytes[17] == 0) bytes[17] = 1;
    if (stream.has(operates_when_rejected)) flags &= 0xdf;
    store_be(bytes.data() + 18, 2, length);
  }
  const auto arrival = machines::read_setup(bytes, other);
  using State = machines::MpaSetupArrival::State;
  if (arrival.state == State::improper || (arrival.state == State::more && stream.has(needs_setup_in_one_piece)))
    return end_setup(stream, true);
  if (arrival.state == State::more) {
    if (stream.has(waits_forever_for_frame_end)) stream.deadline = never;
    return;
  }
  if (stream.role == MpaRole::responder)
    take_request(stream, arrival);
  else
    take_reply(stream, arrival);
}

void take_request(Stream& stream, const machines::MpaSetupArrival& arrival) {
  // The initiator sends nothing between request and reply: PD_Length is too small. RFC 5044, 7.1.1
  const bool more_follows = stream.pending.size() > arrival.bytes;
  if (more_follows && !stream.has(accepts_long_private_data) && !stream.has(does_not_wait_for_private_data))
    return end_setup(stream, true);
  if (stream.has(refuses_revision_1) && arrival.frame.revision == 1) return end_setup(stream, true);
  stream.request = arrival.frame;
  switch (machines::judge_request(stream.options.mpa, stream.request)) {
    case machines::MpaRequestVerdict::close: return end_setup(stream, true);
    case machines::MpaRequestVerdict::answer_and_close:
      send_setup(stream,
                 {.sender = MpaRole::responder, .markers = stream.options.mpa.markers, .crc = stream.options.mpa.crc},
                 {});
      return end_setup(stream, false);
    case machines::MpaRequestVerdict::ask_consumer: break;
  }
  stream.phase = *machines::after(stream.phase, machines::MpaSetupEvent::request);
  stream.deadline = never;
  ConnectionEvent event{.type = Type::request,
                        .ird = stream.request.data.ird,
                        .ord = stream.request.data.ord,
                        .revision = stream.request.revision};
  event.private_data.assign(stream.pending.begin() + arrival.private_at, stream.pending.begin() + arrival.bytes);
  stream.pending.clear();
  if (stream.has(refuses_markers) && stream.request.markers) {
    send_setup(stream, machines::reject_request(stream.options.mpa, stream.request), {});
    return end_setup(stream, false, std::nullopt);
  }
  stream.events.push_back(std::move(event));
}

void take_reply(Stream& stream, const machines::MpaSetupArrival& arrival) {
  using Kind = machines::MpaReplyVerdict::Kind;
  auto verdict = machines::judge_reply(stream.options.mpa, stream.request, arrival.frame);
  if (stream.has(accepts_any_revision) && verdict.kind == Kind::close) verdict.kind = Kind::operate;
  ConnectionEvent event{.type = verdict.kind == Kind::rejected ? Type::rejected : Type::established,
                        .ird = arrival.frame.data.ird,
                        .ord = arrival.frame.data.ord,
                        .revision = arrival.frame.revision};
  event.private_data.assign(stream.pending.begin() + arrival.private_at, stream.pending.begin() + arrival.bytes);
  stream.pending.erase(stream.pending.begin(), stream.pending.begin() + arrival.bytes);
  if (stream.has(loses_what_follows_setup)) stream.pending.clear();
  if (verdict.kind == Kind::close) return end_setup(stream, arrival.frame.revision != 0);
  if (verdict.kind == Kind::rejected) {
    stream.events.push_back(std::move(event));
    return end_setup(stream, false, std::nullopt);
  }
  stream.phase = *machines::after(stream.phase, machines::MpaSetupEvent::reply);
  if (verdict.kind == Kind::terminate) {
    const bool goes_on = verdict.error == machines::iwarp_error::insufficient_ird ? stream.has(ignores_missing_ird)
                                                                                  : stream.has(ignores_missing_rtr);
    verdict.agreement.crc = stream.request.crc || arrival.frame.crc;
    operate(stream, verdict.agreement);
    if (!goes_on) return fail(stream, verdict.error);
  } else {
    if (stream.has(ignores_peers_crc_wish)) verdict.agreement.crc = stream.options.mpa.crc;
    if (stream.has(markers_both_ways))
      verdict.agreement.send_markers = verdict.agreement.receive_markers =
          verdict.agreement.send_markers || verdict.agreement.receive_markers;
    operate(stream, verdict.agreement);
  }
  stream.rtr_waits = stream.agreement.rtr != machines::Rtr::none && !stream.has(sends_no_rtr);
  stream.events.push_back(std::move(event));
  take_fpdus(stream);
}

void operate(Stream& stream, const machines::MpaAgreement& agreement) {
  stream.agreement = agreement;
  stream.deadline = never;
  stream.ddp.version = agreement.version;
  stream.depth.ird = agreement.ird;
  stream.depth.ord = agreement.ord;
  stream.sender.emplace(
      MpaSender::Modes{.markers = agreement.send_markers || stream.has(sends_markers_unasked), .crc = agreement.crc},
      stream.has(no_first_marker) ? mpa::marker_bytes : 0);
}

void end_setup(Stream& stream, bool reset, std::optional<Type> reported) {
  stream.phase = MpaPhase::ended;
  stream.state = StreamState::closed;
  stream.deadline = never;
  stream.pending.clear();
  (reset ? stream.reset : stream.fin) = true;
  if (reported)
    report(stream, *reported, *reported == Type::failed ? machines::iwarp_error::setup_frame : IwarpError{});
  flush(stream);
  if (!stream.end_reported) report(stream, Type::disconnected);
}

// End of the stream

void report(Stream& stream, Type type, IwarpError error) {
  if (type == Type::disconnected) {
    if (stream.end_reported) return;
    stream.end_reported = true;
  }
  if (type == Type::terminated && stream.has(terminate_untold)) error = {};
  stream.events.push_back({.type = type, .error = error});
}

void fail(Stream& stream, IwarpError error, const machines::TerminateCause& cause) {
  auto step = machines::after(stream.state, StreamEvent::error);
  // A responder must not send an FPDU before it receives one. RFC 5044, 7.1.2 rule 4
  if (stream.phase == MpaPhase::awaits_first_fpdu && step.actions.terminate && !stream.has(responder_sends_first))
    step = machines::StreamStep{StreamState::closed, {.reset = true, .flush = true, .tell_error = true}};
  if (stream.has(resets_for_crc_error) && error.layer == terminate_layer::llp && step.actions.terminate)
    step = machines::StreamStep{StreamState::closed, {.reset = true, .flush = true, .tell_error = true}};
  const bool replaces = stream.has(tells_last_error) && stream.terminate && step.state == StreamState::terminating;
  if (step.actions.terminate || replaces) stream.terminate = terminate_of(stream, error, cause);
  if (step != machines::StreamStep{stream.state, {}}) apply(stream, step, Type::error, error);
}

void apply(Stream& stream, const machines::StreamStep& step, Type reported, IwarpError error) {
  const bool failed = step.actions.tell_error;
  stream.state = step.state;
  if (step.actions.fin) stream.fin = true;
  if (step.actions.reset) stream.reset = true;
  if (failed) {
    report(stream, reported, error);
    const bool access = error.layer == terminate_layer::rdma &&
                        error.type == machines::iwarp_error::protection_rights.type && reported == Type::error;
    stream.rnic.raise_event(access ? device::EventType::qp_access_error : device::EventType::qp_fatal, stream.number);
  }
  if (step.actions.flush && !stream.has(forgets_to_flush)) flush(stream);
  if (stream.state == StreamState::peer_closed) report(stream, Type::peer_closed);
  if (stream.state == StreamState::closed) {
    stream.phase = MpaPhase::ended;
    stream.deadline = never;
    if (stream.reset) stream.outgoing.reset();
    report(stream, Type::disconnected);
  } else if (stream.state != StreamState::operating && stream.state != StreamState::peer_closed) {
    stream.deadline = stream.now + stream.options.close_timeout;
  }
}

void flush_sends(Stream& stream) {
  // Requests after a failed request may have arrived. RFC 5040, 6.2.1
  bool after_failure = false;
  for (Work& work : stream.work) {
    if (!work.done || (after_failure && work.status == device::Status::success)) work.status = device::Status::flushed;
    work.done = true;
    after_failure = after_failure || work.status != device::Status::success;
  }
  complete_sends(stream);
  stream.requested.clear();
  stream.depth.outstanding = 0;
}

void flush(Stream& stream) {
  flush_sends(stream);
  while (!stream.receives.empty()) {
    const std::uint64_t id = stream.receives.front().id;
    stream.receives.pop_front();
    complete(stream, stream.options.receive_cq,
             {.id = id, .status = device::Status::flushed, .opcode = device::CompletionOpcode::receive}, false);
  }
  stream.answers.clear();
  stream.depth.serving = 0;
}

void complete(Stream& stream, std::uint32_t cq, device::Completion completion, bool solicited) {
  completion.qpn = stream.number;
  if (stream.rnic.complete(cq, completion, solicited) || stream.state != StreamState::operating) return;
  fail(stream, machines::iwarp_error::local_catastrophic);
}

void complete_sends(Stream& stream) {
  using device::WorkOpcode;
  while (!stream.work.empty() && stream.work.front().done) {
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (!work.request.signaled && work.status == device::Status::success) continue;
    auto opcode = device::CompletionOpcode::send;
    switch (work.request.opcode) {
      case WorkOpcode::write:
      case WorkOpcode::write_imm: opcode = device::CompletionOpcode::write; break;
      case WorkOpcode::read: opcode = device::CompletionOpcode::read; break;
      case WorkOpcode::compare_swap: opcode = device::CompletionOpcode::compare_swap; break;
      case WorkOpcode::fetch_add: opcode = device::CompletionOpcode::fetch_add; break;
      case WorkOpcode::bind_mw: opcode = device::CompletionOpcode::bind_mw; break;
      case WorkOpcode::local_inv: opcode = device::CompletionOpcode::local_inv; break;
      case WorkOpcode::reg_mr: opcode = device::CompletionOpcode::reg_mr; break;
      default: break;
    }
    complete(stream, stream.options.send_cq,
             {.id = work.request.id, .status = work.status, .opcode = opcode, .bytes = work.bytes}, false);
  }
}

// TCP

void Endpoint::received(Bytes bytes, std::int64_t now) {
  stream_.now = now;
  write_deferred(stream_);
  if (!stream_.started || bytes.empty()) return;
  if (stream_.rnic.is_dead()) fail(stream_, machines::iwarp_error::local_catastrophic);
  if (stream_.state == StreamState::peer_closed && !stream_.has(takes_data_after_fin))
    return fail(stream_, machines::iwarp_error::tcp_lost);  // RFC 5041, 6.2.1
  const bool listens = stream_.state == StreamState::operating || stream_.state == StreamState::closing ||
                       (stream_.has(takes_data_after_fin) && stream_.state != StreamState::closed) ||
                       (stream_.has(places_after_error) && stream_.state == StreamState::terminating) ||
                       stream_.has(tells_last_error);
  if (stream_.phase == MpaPhase::ended || !listens) return;
  if (stream_.phase == MpaPhase::awaits_consumer) return end_setup(stream_, true);  // FPDU before the reply
  stream_.pending.insert(stream_.pending.end(), bytes.begin(), bytes.end());
  if (machines::is_timed(stream_.phase))
    process_setup(stream_);
  else
    take_fpdus(stream_);
}

void Endpoint::peer_closed(std::int64_t now) {
  stream_.now = now;
  write_deferred(stream_);
  if (!stream_.started || stream_.end_reported) return;
  if (!machines::takes_fpdus(stream_.phase)) return end_setup(stream_, false);
  const bool any_open = std::ranges::any_of(stream_.ddp.queues, &machines::UntaggedQueue::open) ||
                        !stream_.pending.empty() || stream_.tagged_open;
  if (!stream_.any_fpdu && stream_.has(forgets_close_before_rtr)) {
    stream_.phase = MpaPhase::ended;
    stream_.fin = stream_.end_reported = true;
    return;
  }
  const bool inside = any_open && !stream_.has(takes_fin_in_message);
  apply(stream_, machines::after(stream_.state, inside ? StreamEvent::fin_in_message : StreamEvent::fin), Type::error,
        machines::iwarp_error::tcp_lost);
  if (stream_.state != StreamState::peer_closed) return;
  // Responses can no longer arrive, but responses to the peer's requests are still sent.
  if (!stream_.requested.empty()) flush_sends(stream_);
  if (stream_.options.closes_with_peer) stream_.closing = true;
}

void Endpoint::lost(std::int64_t now) {
  stream_.now = now;
  write_deferred(stream_);
  if (!stream_.started || stream_.end_reported) return;
  if (!machines::takes_fpdus(stream_.phase)) return end_setup(stream_, true);
  if (!stream_.any_fpdu && stream_.has(forgets_close_before_rtr)) {
    stream_.phase = MpaPhase::ended;
    stream_.end_reported = true;
    return;
  }
  stream_.segments.clear();
  stream_.outgoing.reset();
  apply(stream_, machines::after(stream_.state, StreamEvent::lost), Type::error, machines::iwarp_error::tcp_lost);
}

void Endpoint::woken(std::int64_t now) {
  stream_.now = now;
  write_deferred(stream_);
  if (now < stream_.deadline) return;
  stream_.deadline = never;
  if (machines::is_timed(stream_.phase)) return end_setup(stream_, true);
  apply(stream_, machines::after(stream_.state, StreamEvent::timeout), Type::error, machines::iwarp_error::tcp_lost);
}

void Endpoint::set_emss(std::uint32_t emss) {
  if (!stream_.has(ignores_new_emss)) stream_.options.emss = emss;
}

void write_deferred(Stream& stream) {
  for (const auto& [address, bytes] : stream.deferred) {
    const MutableBytes to = stream.rnic.memory().at(address, bytes.size());
    std::copy_n(bytes.begin(), to.size(), to.begin());
  }
  stream.deferred.clear();
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
  pump(stream_, most);
  output.segments = std::move(stream_.segments);
  stream_.segments.clear();
  stream_.waiting_bytes = 0;
  if (stream_.fin && !stream_.fin_sent && !stream_.outgoing && !stream_.terminate) {
    output.fin = stream_.fin_sent = true;
    if (stream_.has(resets_after_terminate) && stream_.state == StreamState::terminating) {
      output.fin = false;
      stream_.reset = true;
    }
  }
  return output;
}

}  // namespace rdmawire::endpoint
