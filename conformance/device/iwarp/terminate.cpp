/// Terminate messages. RFC 5040, 4.8 and 5.4.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

void receive_terminate(Stream& stream, Bytes ulpdu) {
  stream.terminate_came = true;
  const auto reported = machines::read_terminate(stream.fixed[2]);
  if (!reported)
    return stream.decisions().responder.reject_message(stream, RdmapOperation::terminate,
                                                       machines::iwarp_error::operation_unspecified, ulpdu);
  stream.decisions().terminate.handle(stream, reported->error);
}

namespace conforming {

std::vector<std::uint8_t> terminate_message(machines::IwarpError error, const machines::TerminateCause& cause) {
  return machines::terminate_message(error, cause);
}

void handle_terminate(Stream& stream, machines::IwarpError error) {
  stream.decisions().terminate.fail_quoted_read(stream, error);
  apply(stream, machines::after(stream.state, machines::StreamEvent::terminate), ConnectionEvent::Type::terminated,
        error);
}

void fail_quoted_read(Stream& stream, machines::IwarpError error) {
  const bool protection =
      error.layer == terminate_layer::rdma && error.type == machines::iwarp_error::protection_rights.type;
  if (!protection || stream.requested.empty() || !stream.requested.front().work ||
      stream.state != machines::StreamState::operating)
    return;
  const auto work = std::ranges::find(stream.work, *stream.requested.front().work, &Work::number);
  if (work == stream.work.end() || work->done) return;
  work->done = true;
  work->status = device::Status::remote_access;
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
