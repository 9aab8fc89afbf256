/// States of the stream: errors and close. RFC 5040, 6.2 and 7.1, RFC 5041, 6.2, RFC 5044, 8.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

using machines::IwarpError;
using machines::MpaPhase;
using machines::StreamEvent;
using machines::StreamState;
using machines::StreamStep;
using Type = ConnectionEvent::Type;

void report(Stream& stream, Type type, IwarpError error) {
  if (type == Type::disconnected) {
    if (stream.end_reported) return;
    stream.end_reported = true;
  }
  stream.events.push_back({.type = type, .error = stream.decisions().states.reported_error(type, error)});
}

void fail(Stream& stream, IwarpError error, const machines::TerminateCause& cause) {
  const StateDecisions& decisions = stream.decisions().states;
  const StreamStep step = decisions.step_after_error(stream, error);
  if (decisions.reports_error(stream, step)) stream.terminate = stream.decisions().terminate.message(error, cause);
  if (step != StreamStep{stream.state, {}}) apply(stream, step, Type::error, error);
}

void apply(Stream& stream, const StreamStep& step, Type reported, IwarpError error) {
  stream.state = step.state;
  if (step.actions.fin) stream.fin = true;
  if (step.actions.reset) stream.reset = true;
  if (step.actions.tell_error) {
    report(stream, reported, error);
    const bool access = error.layer == terminate_layer::rdma &&
                        error.type == machines::iwarp_error::protection_rights.type && reported == Type::error;
    stream.rnic.raise_event(access ? device::EventType::qp_access_error : device::EventType::qp_fatal, stream.number);
  }
  if (step.actions.flush) stream.decisions().states.flush(stream);
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
  // Flush requests after a failed one even if they were sent: the peer may have executed them. RFC 5040, 6.2.1
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
  while (!stream.receives.empty()) complete_receive(stream, {.status = device::Status::flushed});
  stream.answers.clear();
  stream.depth.serving = 0;
}

namespace conforming {

void begin_event(Stream& stream, std::int64_t now) { stream.now = now; }

bool receives(StreamState state) { return state == StreamState::operating || state == StreamState::closing; }

StreamStep step_after_error(const Stream& stream, IwarpError /*error*/) {
  const StreamStep step = machines::after(stream.state, StreamEvent::error);
  return step.actions.terminate && stream.phase == MpaPhase::awaits_first_fpdu ? aborted : step;
}

bool reports_error(const Stream& /*stream*/, const StreamStep& step) { return step.actions.terminate; }

IwarpError reported_error(Type /*type*/, IwarpError error) { return error; }

void flush_at_end(Stream& stream) { flush(stream); }

bool is_inside_message(const Stream& stream) {
  return std::ranges::any_of(stream.ddp.queues, &machines::UntaggedQueue::open) || !stream.pending.empty() ||
         stream.tagged_open;
}

void end_by_fin(Stream& stream) {
  const bool inside = stream.decisions().states.is_inside_message(stream);
  apply(stream, machines::after(stream.state, inside ? StreamEvent::fin_in_message : StreamEvent::fin), Type::error,
        machines::iwarp_error::tcp_lost);
  if (stream.state != StreamState::peer_closed) return;
  // The peer sends no more responses, so flush the requests. Responses to the peer's requests are still sent.
  if (!stream.requested.empty()) flush_sends(stream);
  if (stream.options.closes_with_peer) stream.closing = true;
}

void end_by_loss(Stream& stream) {
  stream.segments.clear();
  stream.outgoing.reset();
  apply(stream, machines::after(stream.state, StreamEvent::lost), Type::error, machines::iwarp_error::tcp_lost);
}

void close(Stream& stream, Output& output) { output.fin = stream.fin_sent = true; }

}  // namespace conforming

}  // namespace rdmawire::endpoint
