/// Validation of received segments: DDP (RFC 5041, 7.1), then RDMAP (RFC 5040, 7.2).

#include "conformance/device/iwarp/stream.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::endpoint {

using machines::DdpSegment;
using machines::DdpVerdict;
using machines::IwarpError;
namespace errors = machines::iwarp_error;

namespace {

/// True if the segment is a Send that is the initiator's RTR indication, which is not passed to the application: RFC
/// 6581, 9.2.
bool is_rtr_indication(const Stream& stream, const DdpSegment& segment) {
  return !stream.any_fpdu && stream.role == machines::MpaRole::responder && stream.agreement.peer_to_peer &&
         machines::operation_of(segment.control) == RdmapOperation::send && segment.bytes == 0 && segment.last;
}

void receive_untagged(Stream& stream, DdpSegment segment, Bytes ulpdu) {
  const SegmentDecisions& decisions = stream.decisions().segments;
  const DdpVerdict verdict = decisions.judge_untagged(stream, segment);
  if (!verdict.valid) return decisions.reject(stream, segment, verdict.error, ulpdu);
  const bool indication = is_rtr_indication(stream, segment);
  const Bytes payload =
      decisions.placed_payload(stream, segment, ulpdu.subspan(machines::ddp_header_bytes(segment.tagged)));
  segment.bytes = static_cast<std::uint32_t>(payload.size());
  if (!machines::is_send(machines::operation_of(segment.control))) {
    stream.fixed[segment.qn].insert(stream.fixed[segment.qn].end(), payload.begin(), payload.end());
  } else if (!indication && segment.bytes != 0 &&
             scatter(stream.rnic.memory(), stream.options.pd, stream.receives.front().sges, segment.mo, payload) !=
                 device::Status::success) {
    complete_receive(stream, {.status = device::Status::local_protection});
    return fail(stream, errors::local_catastrophic);
  }
  const std::uint32_t before = stream.ddp.queues[segment.qn].placed;
  stream.ddp = machines::placed(stream.ddp, segment);
  if (!verdict.delivers || indication) return;
  segment.bytes += before;
  receive_message(stream, segment, ulpdu);
  stream.fixed[segment.qn].clear();
}

void receive_tagged(Stream& stream, const DdpSegment& segment, Bytes ulpdu) {
  stream.tagged_open = !segment.last;
  if (machines::operation_of(segment.control) == RdmapOperation::read_response)
    receive_read_response(stream, segment, ulpdu);
  else
    (void)stream.decisions().responder.place(stream, segment, ulpdu);
}

}  // namespace

void receive_ulpdu(Stream& stream, Bytes ulpdu) {
  const SegmentDecisions& decisions = stream.decisions().segments;
  const auto segment = decisions.read(stream, ulpdu);
  if (!segment) return decisions.reject_unreadable(stream, ulpdu);
  if (segment->version != stream.ddp.version)
    return fail(stream, machines::version_error(segment->tagged), {.segment = ulpdu});
  if (const auto error = decisions.judge(stream, *segment)) return decisions.reject(stream, *segment, *error, ulpdu);
  if (segment->tagged)
    receive_tagged(stream, *segment, ulpdu);
  else
    receive_untagged(stream, *segment, ulpdu);
}

namespace conforming {

std::optional<DdpSegment> read_segment(const Stream& /*stream*/, Bytes ulpdu) { return machines::read_segment(ulpdu); }

void reject_unreadable(Stream& stream, Bytes /*ulpdu*/) { fail(stream, errors::ddp_local_catastrophic); }

std::optional<IwarpError> judge_segment(const Stream& stream, const DdpSegment& segment) {
  return machines::judge_control(segment,
                                 {.version = stream.ddp.version, .extensions = stream.rnic.options().extensions});
}

machines::UntaggedBuffer buffer(const Stream& stream, const DdpSegment& segment) {
  const auto size = [](std::size_t bytes) { return machines::UntaggedBuffer{true, bytes}; };
  constexpr machines::UntaggedBuffer none;
  switch (segment.qn) {
    case 0:
      if (stream.receives.empty()) return none;
      return size(machines::is_immediate(machines::operation_of(segment.control)) ? RdmapImmediateData::size
                                                                                  : stream.receives.front().bytes());
    case 1:
      if (!stream.depth.has_buffer()) return none;
      return size(stream.rnic.options().extensions ? RdmapAtomicRequest::size : RdmapReadRequest::size);
    case 2: return stream.terminate_came ? none : size(256);
    default:
      return stream.requested.empty() || !stream.requested.front().atomic ? none : size(RdmapAtomicResponse::size);
  }
}

DdpVerdict judge_untagged(const Stream& stream, const DdpSegment& segment) {
  if (const auto error = machines::judge_continuation(stream.ddp.queues[segment.qn], segment))
    return machines::ddp_refused(*error);
  return machines::judge_untagged(stream.ddp, segment, [&](std::uint32_t /*queue*/) {
    return is_rtr_indication(stream, segment) ? machines::UntaggedBuffer{true, 0}
                                              : stream.decisions().segments.buffer(stream, segment);
  });
}

Bytes placed_payload(const Stream& /*stream*/, const DdpSegment& /*segment*/, Bytes payload) { return payload; }

DdpVerdict judge_tagged(const Stream& stream, const DdpSegment& segment) {
  return machines::judge_tagged(stream.ddp.version, segment, [&] {
    return stream.rnic.memory()
        .open(stream.accessor(), segment.stag, segment.to, segment.bytes, device::access::remote_write)
        .decision;
  });
}

void reject_segment(Stream& stream, const DdpSegment& segment, IwarpError error, Bytes ulpdu) {
  if (error == errors::untagged_too_long && segment.qn == 0 && !stream.receives.empty())
    complete_receive(stream, {.status = device::Status::local_length});
  fail(stream, error, {.segment = ulpdu});
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
