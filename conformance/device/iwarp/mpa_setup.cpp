/// MPA negotiation: Request and Reply Frames. RFC 5044, 7.1, RFC 6581.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::endpoint {

using machines::MpaPhase;
using machines::MpaRole;
using Type = ConnectionEvent::Type;

namespace {

void receive_request(Stream& stream, const machines::MpaSetupArrival& arrival) {
  const SetupDecisions& decisions = stream.decisions().setup;
  const bool more_follows = stream.pending.size() > arrival.bytes;
  stream.request = arrival.frame;
  const machines::MpaSettings& own = stream.options.mpa;
  switch (decisions.judge_request(own, stream.request, more_follows)) {
    case machines::MpaRequestVerdict::close: return end_setup(stream, true);
    case machines::MpaRequestVerdict::answer_and_close:
      send_setup(stream, {.sender = MpaRole::responder, .markers = own.markers, .crc = own.crc}, {});
      return end_setup(stream, false);
    case machines::MpaRequestVerdict::ask_consumer: break;
  }
  stream.phase = *machines::after(stream.phase, machines::MpaSetupEvent::request);
  stream.deadline = never;
  ConnectionEvent event{.type = Type::request,
                        .ird = stream.request.data.ird,
                        .ord = stream.request.data.ord,
                        .revision = stream.request.revision};
  event.private_data = decisions.private_data(Bytes(stream.pending).first(arrival.bytes).subspan(arrival.private_at));
  stream.pending.clear();
  if (!decisions.asks_application(stream.request)) return reject_setup(stream, {});
  stream.events.push_back(std::move(event));
}

void receive_reply(Stream& stream, const machines::MpaSetupArrival& arrival) {
  using Kind = machines::MpaReplyVerdict::Kind;
  const SetupDecisions& decisions = stream.decisions().setup;
  const auto verdict = decisions.judge_reply(stream.options.mpa, stream.request, arrival.frame);
  ConnectionEvent event{.type = verdict.kind == Kind::rejected ? Type::rejected : Type::established,
                        .ird = arrival.frame.data.ird,
                        .ord = arrival.frame.data.ord,
                        .revision = arrival.frame.revision};
  event.private_data = decisions.private_data(Bytes(stream.pending).first(arrival.bytes).subspan(arrival.private_at));
  stream.pending.erase(stream.pending.begin(), stream.pending.begin() + arrival.bytes);
  stream.pending = decisions.bytes_after_reply(std::move(stream.pending));
  if (verdict.kind == Kind::close) return end_setup(stream, arrival.frame.revision != 0);
  if (verdict.kind == Kind::rejected) {
    stream.events.push_back(std::move(event));
    return end_setup(stream, false, std::nullopt);
  }
  stream.phase = *machines::after(stream.phase, machines::MpaSetupEvent::reply);
  operate(stream, verdict.agreement);
  if (verdict.kind == Kind::terminate) return fail(stream, verdict.error);
  stream.rtr_waits = decisions.sends_rtr(stream.agreement);
  stream.events.push_back(std::move(event));
  receive_fpdus(stream);
}

}  // namespace

void send_setup(Stream& stream, const machines::MpaSetupFrame& frame, Bytes private_data) {
  stream.segments.push_back(stream.decisions().setup.encode(frame, private_data));
  stream.waiting_bytes += stream.segments.back().size();
}

void receive_setup(Stream& stream) {
  const SetupDecisions& decisions = stream.decisions().setup;
  const auto arrival = decisions.read(stream, stream.pending);
  switch (arrival.state) {
    case machines::MpaSetupArrival::State::improper: return end_setup(stream, true);
    case machines::MpaSetupArrival::State::more: stream.deadline = decisions.rest_deadline(stream); return;
    case machines::MpaSetupArrival::State::whole: break;
  }
  if (stream.role == MpaRole::responder)
    receive_request(stream, arrival);
  else
    receive_reply(stream, arrival);
}

void reject_setup(Stream& stream, Bytes private_data) {
  if (const auto reply = stream.decisions().setup.reject_request(stream.options.mpa, stream.request))
    send_setup(stream, *reply, private_data);
  end_setup(stream, false, std::nullopt);
}

void operate(Stream& stream, const machines::MpaAgreement& agreement) {
  stream.agreement = agreement;
  stream.deadline = never;
  stream.ddp.version = agreement.version;
  stream.depth.ird = agreement.ird;
  stream.depth.ord = agreement.ord;
  stream.sender = stream.decisions().fpdus.sender(agreement);
}

void end_setup(Stream& stream, bool reset, std::optional<Type> reported) {
  stream.phase = MpaPhase::ended;
  stream.state = machines::StreamState::closed;
  stream.deadline = never;
  stream.pending.clear();
  (reset ? stream.reset : stream.fin) = true;
  if (reported)
    report(stream, *reported, *reported == Type::failed ? machines::iwarp_error::setup_frame : machines::IwarpError{});
  flush(stream);
  if (!stream.end_reported) report(stream, Type::disconnected);
}

namespace conforming {

machines::MpaSettings settings(const machines::MpaSettings& configured) { return configured; }

std::int64_t request_deadline(const Stream& stream) { return stream.now + stream.options.setup_timeout; }

std::int64_t rest_deadline(const Stream& stream) { return stream.deadline; }

std::vector<std::uint8_t> encode_setup(const machines::MpaSetupFrame& frame, Bytes private_data) {
  const std::string_view key = frame.sender == MpaRole::initiator ? mpa::request_key : mpa::reply_key;
  HeaderValue header = Value<MpaFrame>()
                           .set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()))
                           .set<"markers">(frame.markers)
                           .set<"crc">(frame.crc)
                           .set<"reject">(frame.reject)
                           .set<"enhanced">(frame.enhanced)
                           .set<"revision">(frame.revision);
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
  return whole.encode();
}

machines::MpaSetupArrival read_setup(const Stream& stream, Bytes bytes) {
  return machines::read_setup(bytes, stream.role == MpaRole::initiator ? MpaRole::responder : MpaRole::initiator);
}

machines::MpaRequestVerdict judge_request(const machines::MpaSettings& own, const machines::MpaSetupFrame& request,
                                          bool more_follows) {
  return more_follows ? machines::MpaRequestVerdict::close : machines::judge_request(own, request);
}

bool asks_application(const machines::MpaSetupFrame& /*request*/) { return true; }

machines::MpaAnswer accept_request(const machines::MpaSettings& own, const machines::MpaSetupFrame& request) {
  return machines::accept_request(own, request);
}

std::optional<machines::MpaSetupFrame> reject_request(const machines::MpaSettings& own,
                                                      const machines::MpaSetupFrame& request) {
  return machines::reject_request(own, request);
}

machines::MpaReplyVerdict judge_reply(const machines::MpaSettings& own, const machines::MpaSetupFrame& request,
                                      const machines::MpaSetupFrame& reply) {
  return machines::judge_reply(own, request, reply);
}

std::vector<std::uint8_t> private_data(Bytes received) { return {received.begin(), received.end()}; }

std::vector<std::uint8_t> bytes_after_reply(std::vector<std::uint8_t> following) { return following; }

bool sends_rtr(const machines::MpaAgreement& agreement) { return agreement.rtr != machines::Rtr::none; }

}  // namespace conforming

}  // namespace rdmawire::endpoint
