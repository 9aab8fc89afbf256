/// Terminate messages. RFC 5040, 4.8 and 5.4.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

using enum Fault;

void receive_terminate(Stream& stream, Bytes ulpdu) {
  stream.terminate_came = true;
  const auto reported = machines::read_terminate(stream.fixed[2]);
  if (!reported)
    return stream.decisions().responder.reject_message(stream, RdmapOperation::terminate,
                                                       machines::iwarp_error::operation_unspecified, ulpdu);
  stream.decisions().terminate.handle(stream, reported->error);
}

std::vector<std::uint8_t> terminate_of(const Stream& stream, machines::IwarpError error,
                                       const machines::TerminateCause& cause) {
  machines::TerminateCause quoted = cause;
  if (stream.has(terminated_read_stands)) quoted.answered = 0;
  auto message = machines::terminate_message(error, quoted);
  const std::uint8_t kind = message[0], layer = kind >> 4;
  const bool quotes = message.size() > Terminate::size;
  const auto with_read = [&] {
    message[2] |= 0x20;
    message.resize(message.size() + RdmapReadRequest::size);
  };
  if (stream.has(terminate_without_read) && (message[2] & 0x20) != 0) {
    message.resize(message.size() - RdmapReadRequest::size);
    message[2] &= 0xdf;
  }
  const std::uint8_t opcode = quotes ? message[7] & 0x0f : 0;
  if (stream.has(operation_quotes_read) && kind == 0x02 && quotes) with_read();
  if (stream.has(atomic_error_quotes) && kind == 0x01 && opcode == 10) {
    with_read();
    const Bytes header = cause.segment.subspan(machines::ddp_header_bytes(false));
    std::copy_n(header.begin(), RdmapReadRequest::size, message.end() - RdmapReadRequest::size);
  }
  if ((stream.has(protection_without_header) && kind == 0x01) ||
      (stream.has(ddp_error_without_header) && layer == terminate_layer::ddp)) {
    message.resize(Terminate::size);
    message[2] = 0;
  }
  if (stream.has(mpa_error_with_header) && layer == terminate_layer::llp) message[2] = 0x40;
  if (stream.has(catastrophe_quotes) && kind == 0x00) {
    message[2] = 0xc0;
    message.resize(Terminate::size + DdpSegmentLength::size + machines::ddp_header_bytes(false));
  }
  if (message.size() > 6) {
    if (stream.has(terminate_length_of_payload))
      store_be(message.data() + 4, 2,
               load_be<2>(message.data() + 4) - machines::ddp_header_bytes((message[6] & 0x80) != 0));
    if (stream.has(terminate_quotes_zeros)) std::fill(message.begin() + 6, message.end(), std::uint8_t{0});
  }
  if (stream.has(terminate_of_no_table)) message[1] = 0x7e;
  if (stream.has(wrap_is_catastrophic) && error == machines::iwarp_error::tagged_to_wrap)
    message[0] = 0x10, message[1] = 0;
  if (stream.has(unspecified_read_errors) && kind == 0x01) message[1] = 0xff;
  if (stream.has(terminate_as_little_endian)) {
    message[0] = static_cast<std::uint8_t>(kind << 4 | layer);
    const std::uint8_t bits = message[2];
    message[2] = static_cast<std::uint8_t>(bits >> 7 | (bits & 0x40) >> 5 | (bits & 0x20) >> 3);
  }
  return message;
}

namespace conforming {

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
