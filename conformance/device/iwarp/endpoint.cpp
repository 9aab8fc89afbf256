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

Endpoint::Endpoint(Rnic& rnic, EndpointOptions options)
    : rnic_(rnic), options_(std::move(options)), number_(rnic.new_handle()) {
  if (has(asks_for_no_crc)) options_.mpa.crc = false;
  msn_.fill(has(msn_from_zero) ? 0 : 1);
  ddp_.queue_count = machines::RdmapAbilities{.extensions = rnic_.options().extensions}.queues();
}

// Connections

device::Result<void> Endpoint::prepare(EndpointOptions options) {
  if (started_) return refuse(EINVAL, "prepare: the endpoint was already used");
  options_ = std::move(options);
  if (has(asks_for_no_crc)) options_.mpa.crc = false;
  return {};
}

device::Result<void> Endpoint::adopt(Endpoint& pending) {
  if (started_) return refuse(EINVAL, "adopt: the endpoint was already used");
  if (pending.phase_ != MpaPhase::awaits_consumer)
    return refuse(EINVAL, "adopt: the other endpoint has no pending request");
  started_ = true;
  now_ = pending.now_;
  role_ = pending.role_;
  phase_ = pending.phase_;
  request_ = pending.request_;
  pending_ = std::move(pending.pending_);
  pending.pending_.clear();
  pending.phase_ = MpaPhase::ended;
  pending.end_reported_ = true;
  return {};
}

device::Result<void> Endpoint::connect(Bytes private_data, std::int64_t now) {
  if (started_) return refuse(EINVAL, "connect: the endpoint was already used");
  const auto request = machines::request_of(options_.mpa);
  if (const auto most = machines::most_private_data(request.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("connect: {} bytes of private data: the maximum is {}", private_data.size(), most));
  started_ = true;
  now_ = now;
  role_ = MpaRole::initiator;
  phase_ = machines::begins(role_);
  request_ = request;
  deadline_ = now + options_.setup_timeout;
  send_setup(request, private_data);
  return {};
}

device::Result<void> Endpoint::await(std::int64_t now) {
  if (started_) return refuse(EINVAL, "await: the endpoint was already used");
  started_ = true;
  now_ = now;
  role_ = MpaRole::responder;
  phase_ = machines::begins(role_);
  deadline_ = has(waits_forever_for_request) ? never : now + options_.setup_timeout;
  return {};
}

device::Result<void> Endpoint::accept(Bytes private_data) {
  if (phase_ != MpaPhase::awaits_consumer) return refuse(EINVAL, "accept: no pending request");
  if (const auto most = machines::most_private_data(request_.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("accept: {} bytes of private data: the maximum is {}", private_data.size(), most));
  auto pending = request_;
  if (has(negotiates_all_ones)) {
    if (pending.data.ird == mpa::no_negotiation) --pending.data.ird;
    if (pending.data.ord == mpa::no_negotiation) --pending.data.ord;
  }
  auto [reply, agreement] = machines::accept_request(options_.mpa, pending);
  if (has(ignores_peers_crc_wish)) agreement.crc = options_.mpa.crc;
  if (has(markers_both_ways))
    agreement.send_markers = agreement.receive_markers = agreement.send_markers || reply.markers;
  if (has(ord_above_ird) && reply.enhanced) reply.data.ord = agreement.ord = options_.mpa.ord;
  if (has(replies_without_rtr)) reply.data.rtr = {};
  if (has(replies_rtr_unasked)) reply.data.rtr = options_.mpa.rtr;
  if (has(replies_unenhanced)) reply.enhanced = false;
  if (has(replies_enhanced_unasked) && !reply.enhanced) {
    reply.enhanced = true;
    reply.revision = 2;
    reply.data = {.ird = agreement.ird, .ord = agreement.ord};
  }
  send_setup(reply, private_data);
  phase_ = *machines::after(phase_, machines::MpaSetupEvent::accepted);
  operate(agreement);
  report(Type::established);
  take_fpdus();
  return {};
}

device::Result<void> Endpoint::reject(Bytes private_data) {
  if (phase_ != MpaPhase::awaits_consumer) return refuse(EINVAL, "reject: no pending request");
  if (const auto most = machines::most_private_data(request_.enhanced); private_data.size() > most)
    return refuse(EINVAL,
                  fmt::format("reject: {} bytes of private data: the maximum is {}", private_data.size(), most));
  if (!has(rejects_by_closing)) send_setup(machines::reject_request(options_.mpa, request_), private_data);
  end_setup(false, std::nullopt);
  return {};
}

void Endpoint::disconnect() {
  if (!started_ || end_reported_) return;
  if (machines::takes_fpdus(phase_))
    closing_ = true;
  else if (phase_ != MpaPhase::ended)
    end_setup(false, std::nullopt);
}

void Endpoint::stop() {
  if (started_) return;
  started_ = end_reported_ = true;
  phase_ = MpaPhase::ended;
  stream_ = StreamState::closed;
  flush();
}

void Endpoint::fail_locally() {
  if (phase_ == MpaPhase::full_operation && !any_fpdu_ && agreement_.peer_to_peer) {
    // Still part of the MPA negotiation: RFC 6581, 9.3.
    if (has(silent_setup_error)) return apply({StreamState::closed, {.reset = true, .flush = true}}, Type::error, {});
    return fail(machines::iwarp_error::setup_local);
  }
  if (machines::takes_fpdus(phase_)) return fail(machines::iwarp_error::local_catastrophic);
  if (phase_ != MpaPhase::ended) end_setup(true);
}

std::optional<ConnectionEvent> Endpoint::next_event() {
  if (events_.empty()) return std::nullopt;
  ConnectionEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// MPA negotiation

void Endpoint::send_setup(const machines::MpaSetupFrame& frame, Bytes private_data) {
  const bool request = frame.sender == MpaRole::initiator || has(replies_with_request_key);
  const std::string_view key = request ? mpa::request_key : mpa::reply_key;
  HeaderValue header = Value<MpaFrame>()
                           .set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()))
                           .set<"markers">(frame.markers)
                           .set<"crc">(frame.crc)
                           .set<"reject">(frame.reject)
                           .set<"enhanced">(frame.enhanced)
                           .set<"revision">(frame.revision)
                           .set<"reserved">(has(sends_reserved_setup_bits) ? 5 : 0);
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
  segments_.push_back(whole.encode());
  waiting_bytes_ += segments_.back().size();
}

void Endpoint::process_setup() {
  std::vector<std::uint8_t> bytes(
      pending_.begin(),
      pending_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(pending_.size(), MpaFrame::size + 0xffff)));
  const MpaRole other = role_ == MpaRole::initiator ? MpaRole::responder : MpaRole::initiator;
  const std::string_view key = other == MpaRole::initiator ? mpa::request_key : mpa::reply_key;
  if (bytes.size() >= MpaFrame::size) {
    std::uint8_t& flags = bytes[16];
    auto length = load_be<2>(bytes.data() + 18);
    const bool is_request = MpaFrame::is_request(bytes.data());
    if (has(accepts_any_key) || (has(takes_request_as_reply) && is_request))
      std::copy(key.begin(), key.end(), bytes.begin());
    if (has(minds_reserved_setup_bits) && (flags & 0x0f) != 0) return end_setup(true);
    if (has(minds_reject_bit_of_request) && is_request && (flags & 0x20) != 0) return end_setup(true);
    if (has(half_the_private_data) && length > 256) return end_setup(true);
    if (has(accepts_long_private_data)) length = std::min<std::uint64_t>(length, mpa::max_private_data);
    if (has(does_not_wait_for_private_data)) length = std::min<std::uint64_t>(length, bytes.size() - MpaFrame::size);
    if (has(accepts_short_enhanced_data) && length < MpaEnhanced::size) flags &= 0xef;
    if (has(takes_enhanced_for_plain) && options_.mpa.revision < 2) {
      flags &= 0xef;
      bytes[17] = 1;
    }
    if (has(accepts_any_revision)) bytes[17] = std::min(bytes[17], options_.mpa.revision);
    if (has(takes_revision_0_for_1) && bytes[17] == 0) bytes[17] = 1;
    if (has(operates_when_rejected)) flags &= 0xdf;
    store_be(bytes.data() + 18, 2, length);
  }
  const auto arrival = machines::read_setup(bytes, other);
  using State = machines::MpaSetupArrival::State;
  if (arrival.state == State::improper || (arrival.state == State::more && has(needs_setup_in_one_piece)))
    return end_setup(true);
  if (arrival.state == State::more) {
    if (has(waits_forever_for_frame_end)) deadline_ = never;
    return;
  }
  if (role_ == MpaRole::responder)
    take_request(arrival);
  else
    take_reply(arrival);
}

void Endpoint::take_request(const machines::MpaSetupArrival& arrival) {
  // The initiator sends nothing between request and reply: PD_Length is too small. RFC 5044, 7.1.1
  const bool more_follows = pending_.size() > arrival.bytes;
  if (more_follows && !has(accepts_long_private_data) && !has(does_not_wait_for_private_data)) return end_setup(true);
  if (has(refuses_revision_1) && arrival.frame.revision == 1) return end_setup(true);
  request_ = arrival.frame;
  switch (machines::judge_request(options_.mpa, request_)) {
    case machines::MpaRequestVerdict::close: return end_setup(true);
    case machines::MpaRequestVerdict::answer_and_close:
      send_setup({.sender = MpaRole::responder, .markers = options_.mpa.markers, .crc = options_.mpa.crc}, {});
      return end_setup(false);
    case machines::MpaRequestVerdict::ask_consumer: break;
  }
  phase_ = *machines::after(phase_, machines::MpaSetupEvent::request);
  deadline_ = never;
  ConnectionEvent event{
      .type = Type::request, .ird = request_.data.ird, .ord = request_.data.ord, .revision = request_.revision};
  event.private_data.assign(pending_.begin() + arrival.private_at, pending_.begin() + arrival.bytes);
  pending_.clear();
  if (has(refuses_markers) && request_.markers) {
    send_setup(machines::reject_request(options_.mpa, request_), {});
    return end_setup(false, std::nullopt);
  }
  events_.push_back(std::move(event));
}

void Endpoint::take_reply(const machines::MpaSetupArrival& arrival) {
  using Kind = machines::MpaReplyVerdict::Kind;
  auto verdict = machines::judge_reply(options_.mpa, request_, arrival.frame);
  if (has(accepts_any_revision) && verdict.kind == Kind::close) verdict.kind = Kind::operate;
  ConnectionEvent event{.type = verdict.kind == Kind::rejected ? Type::rejected : Type::established,
                        .ird = arrival.frame.data.ird,
                        .ord = arrival.frame.data.ord,
                        .revision = arrival.frame.revision};
  event.private_data.assign(pending_.begin() + arrival.private_at, pending_.begin() + arrival.bytes);
  pending_.erase(pending_.begin(), pending_.begin() + arrival.bytes);
  if (has(loses_what_follows_setup)) pending_.clear();
  if (verdict.kind == Kind::close) return end_setup(arrival.frame.revision != 0);
  if (verdict.kind == Kind::rejected) {
    events_.push_back(std::move(event));
    return end_setup(false, std::nullopt);
  }
  phase_ = *machines::after(phase_, machines::MpaSetupEvent::reply);
  if (verdict.kind == Kind::terminate) {
    const bool goes_on =
        verdict.error == machines::iwarp_error::insufficient_ird ? has(ignores_missing_ird) : has(ignores_missing_rtr);
    verdict.agreement.crc = request_.crc || arrival.frame.crc;
    operate(verdict.agreement);
    if (!goes_on) return fail(verdict.error);
  } else {
    if (has(ignores_peers_crc_wish)) verdict.agreement.crc = options_.mpa.crc;
    if (has(markers_both_ways))
      verdict.agreement.send_markers = verdict.agreement.receive_markers =
          verdict.agreement.send_markers || verdict.agreement.receive_markers;
    operate(verdict.agreement);
  }
  rtr_waits_ = agreement_.rtr != machines::Rtr::none && !has(sends_no_rtr);
  events_.push_back(std::move(event));
  take_fpdus();
}

void Endpoint::operate(const machines::MpaAgreement& agreement) {
  agreement_ = agreement;
  deadline_ = never;
  ddp_.version = agreement.version;
  depth_.ird = agreement.ird;
  depth_.ord = agreement.ord;
  sender_.emplace(
      MpaSender::Modes{.markers = agreement.send_markers || has(sends_markers_unasked), .crc = agreement.crc},
      has(no_first_marker) ? mpa::marker_bytes : 0);
}

void Endpoint::end_setup(bool reset, std::optional<Type> reported) {
  phase_ = MpaPhase::ended;
  stream_ = StreamState::closed;
  deadline_ = never;
  pending_.clear();
  (reset ? reset_ : fin_) = true;
  if (reported) report(*reported, *reported == Type::failed ? machines::iwarp_error::setup_frame : IwarpError{});
  flush();
  if (!end_reported_) report(Type::disconnected);
}

// End of the stream

void Endpoint::report(Type type, IwarpError error) {
  if (type == Type::disconnected) {
    if (end_reported_) return;
    end_reported_ = true;
  }
  if (type == Type::terminated && has(terminate_untold)) error = {};
  events_.push_back({.type = type, .error = error});
}

void Endpoint::fail(IwarpError error, const machines::TerminateCause& cause) {
  auto step = machines::after(stream_, StreamEvent::error);
  // A responder must not send an FPDU before it receives one. RFC 5044, 7.1.2 rule 4
  if (phase_ == MpaPhase::awaits_first_fpdu && step.actions.terminate && !has(responder_sends_first))
    step = machines::StreamStep{StreamState::closed, {.reset = true, .flush = true, .tell_error = true}};
  if (has(resets_for_crc_error) && error.layer == terminate_layer::llp && step.actions.terminate)
    step = machines::StreamStep{StreamState::closed, {.reset = true, .flush = true, .tell_error = true}};
  const bool replaces = has(tells_last_error) && terminate_ && step.state == StreamState::terminating;
  if (step.actions.terminate || replaces) terminate_ = terminate_of(error, cause);
  if (step != machines::StreamStep{stream_, {}}) apply(step, Type::error, error);
}

void Endpoint::apply(const machines::StreamStep& step, Type reported, IwarpError error) {
  const bool failed = step.actions.tell_error;
  stream_ = step.state;
  if (step.actions.fin) fin_ = true;
  if (step.actions.reset) reset_ = true;
  if (failed) {
    report(reported, error);
    const bool access = error.layer == terminate_layer::rdma &&
                        error.type == machines::iwarp_error::protection_rights.type && reported == Type::error;
    rnic_.raise_event(access ? device::EventType::qp_access_error : device::EventType::qp_fatal, number_);
  }
  if (step.actions.flush && !has(forgets_to_flush)) flush();
  if (stream_ == StreamState::peer_closed) report(Type::peer_closed);
  if (stream_ == StreamState::closed) {
    phase_ = MpaPhase::ended;
    deadline_ = never;
    if (reset_) outgoing_.reset();
    report(Type::disconnected);
  } else if (stream_ != StreamState::operating && stream_ != StreamState::peer_closed) {
    deadline_ = now_ + options_.close_timeout;
  }
}

void Endpoint::flush_sends() {
  // Requests after a failed request may have arrived. RFC 5040, 6.2.1
  bool after_failure = false;
  for (Work& work : work_) {
    if (!work.done || (after_failure && work.status == device::Status::success)) work.status = device::Status::flushed;
    work.done = true;
    after_failure = after_failure || work.status != device::Status::success;
  }
  complete_sends();
  requested_.clear();
  depth_.outstanding = 0;
}

void Endpoint::flush() {
  flush_sends();
  while (!receives_.empty()) {
    const std::uint64_t id = receives_.front().id;
    receives_.pop_front();
    complete(options_.receive_cq,
             {.id = id, .status = device::Status::flushed, .opcode = device::CompletionOpcode::receive}, false);
  }
  answers_.clear();
  depth_.serving = 0;
}

void Endpoint::complete(std::uint32_t cq, device::Completion completion, bool solicited) {
  completion.qpn = number_;
  if (rnic_.complete(cq, completion, solicited) || stream_ != StreamState::operating) return;
  fail(machines::iwarp_error::local_catastrophic);
}

void Endpoint::complete_sends() {
  using device::WorkOpcode;
  while (!work_.empty() && work_.front().done) {
    const Work work = std::move(work_.front());
    work_.pop_front();
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
    complete(options_.send_cq, {.id = work.request.id, .status = work.status, .opcode = opcode, .bytes = work.bytes},
             false);
  }
}

// TCP

void Endpoint::received(Bytes bytes, std::int64_t now) {
  now_ = now;
  write_deferred();
  if (!started_ || bytes.empty()) return;
  if (rnic_.is_dead()) fail(machines::iwarp_error::local_catastrophic);
  if (stream_ == StreamState::peer_closed && !has(takes_data_after_fin))
    return fail(machines::iwarp_error::tcp_lost);  // RFC 5041, 6.2.1
  const bool listens = stream_ == StreamState::operating || stream_ == StreamState::closing ||
                       (has(takes_data_after_fin) && stream_ != StreamState::closed) ||
                       (has(places_after_error) && stream_ == StreamState::terminating) || has(tells_last_error);
  if (phase_ == MpaPhase::ended || !listens) return;
  if (phase_ == MpaPhase::awaits_consumer) return end_setup(true);  // FPDU before the reply
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  if (machines::is_timed(phase_))
    process_setup();
  else
    take_fpdus();
}

void Endpoint::peer_closed(std::int64_t now) {
  now_ = now;
  write_deferred();
  if (!started_ || end_reported_) return;
  if (!machines::takes_fpdus(phase_)) return end_setup(false);
  const bool any_open =
      std::ranges::any_of(ddp_.queues, &machines::UntaggedQueue::open) || !pending_.empty() || tagged_open_;
  if (!any_fpdu_ && has(forgets_close_before_rtr)) {
    phase_ = MpaPhase::ended;
    fin_ = end_reported_ = true;
    return;
  }
  const bool inside = any_open && !has(takes_fin_in_message);
  apply(machines::after(stream_, inside ? StreamEvent::fin_in_message : StreamEvent::fin), Type::error,
        machines::iwarp_error::tcp_lost);
  if (stream_ != StreamState::peer_closed) return;
  // Responses can no longer arrive, but responses to the peer's requests are still sent.
  if (!requested_.empty()) flush_sends();
  if (options_.closes_with_peer) closing_ = true;
}

void Endpoint::lost(std::int64_t now) {
  now_ = now;
  write_deferred();
  if (!started_ || end_reported_) return;
  if (!machines::takes_fpdus(phase_)) return end_setup(true);
  if (!any_fpdu_ && has(forgets_close_before_rtr)) {
    phase_ = MpaPhase::ended;
    end_reported_ = true;
    return;
  }
  segments_.clear();
  outgoing_.reset();
  apply(machines::after(stream_, StreamEvent::lost), Type::error, machines::iwarp_error::tcp_lost);
}

void Endpoint::woken(std::int64_t now) {
  now_ = now;
  write_deferred();
  if (now < deadline_) return;
  deadline_ = never;
  if (machines::is_timed(phase_)) return end_setup(true);
  apply(machines::after(stream_, StreamEvent::timeout), Type::error, machines::iwarp_error::tcp_lost);
}

void Endpoint::set_emss(std::uint32_t emss) {
  if (!has(ignores_new_emss)) options_.emss = emss;
}

void Endpoint::write_deferred() {
  for (const auto& [address, bytes] : deferred_) {
    const MutableBytes to = rnic_.memory().at(address, bytes.size());
    std::copy_n(bytes.begin(), to.size(), to.begin());
  }
  deferred_.clear();
}

Output Endpoint::take(std::int64_t now, std::size_t most) {
  now_ = now;
  Output output;
  if (reset_) {
    reset_ = false;
    fin_ = false;
    segments_.clear();
    waiting_bytes_ = 0;
    output.reset = true;
    fin_sent_ = true;
    return output;
  }
  pump(most);
  output.segments = std::move(segments_);
  segments_.clear();
  waiting_bytes_ = 0;
  if (fin_ && !fin_sent_ && !outgoing_ && !terminate_) {
    output.fin = fin_sent_ = true;
    if (has(resets_after_terminate) && stream_ == StreamState::terminating) {
      output.fin = false;
      reset_ = true;
    }
  }
  return output;
}

}  // namespace rdmawire::endpoint
