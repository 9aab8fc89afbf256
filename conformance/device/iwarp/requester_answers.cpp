/// Responses of the peer: RDMA Read Responses and Atomic Responses, in the order of their requests. RFC 5040, 5.2.2 and
/// 5.5 rule 20, RFC 7306, 5.2.2.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::endpoint {

using machines::DdpSegment;
namespace errors = machines::iwarp_error;

namespace {

void end_request(Stream& stream) {
  const Requested requested = std::move(stream.requested.front());
  stream.requested.pop_front();
  if (requested.counts && stream.depth.outstanding != 0) --stream.depth.outstanding;
  if (!requested.work) return;
  const auto work = std::ranges::find(stream.work, *requested.work, &Work::number);
  if (work == stream.work.end() || work->done) return;
  work->done = true;
  work->bytes = requested.atomic ? 8 : requested.sink.bytes;
  complete_sends(stream);
}

}  // namespace

void receive_read_response(Stream& stream, const DdpSegment& segment, Bytes ulpdu) {
  const RequesterDecisions& decisions = stream.decisions().requester;
  if (const auto error = decisions.judge_response(stream, segment))
    return stream.decisions().segments.reject(stream, segment, *error, ulpdu);
  if (!decisions.place_response(stream, segment, ulpdu.subspan(machines::ddp_header_bytes(true))))
    return fail(stream, errors::local_catastrophic);
  stream.requested.front().sink.received += segment.bytes;
  if (segment.last) end_request(stream);
}

void receive_atomic_response(Stream& stream, Bytes ulpdu) {
  const View<RdmapAtomicResponse> response(stream.fixed[3].data());
  const Requested& oldest = stream.requested.front();
  if (response.get<"request_id">() != oldest.id) return fail(stream, errors::operation_unspecified, {.segment = ulpdu});
  const std::uint64_t original = response.get<"original">();
  std::array<std::uint8_t, 8> bytes;
  std::memcpy(bytes.data(), &original, 8);
  if (scatter(stream.rnic.memory(), stream.options.pd, oldest.sges, 0, bytes) != device::Status::success)
    return fail(stream, errors::local_catastrophic);
  end_request(stream);
}

const Requested* oldest_read(const Stream& stream) {
  return stream.requested.empty() || stream.requested.front().atomic ? nullptr : &stream.requested.front();
}

namespace conforming {

std::optional<machines::IwarpError> judge_response(const Stream& stream, const DdpSegment& segment) {
  const Requested* oldest = oldest_read(stream);
  return machines::judge_response(oldest ? &oldest->sink : nullptr, segment);
}

bool place_response(Stream& stream, const DdpSegment& segment, Bytes payload) {
  const Requested& oldest = stream.requested.front();
  return segment.bytes == 0 || scatter(stream.rnic.memory(), stream.options.pd, oldest.sges, oldest.sink.received,
                                       payload) == device::Status::success;
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
