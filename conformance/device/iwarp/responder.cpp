/// Execution of the peer's messages: RDMA Write, Send, Immediate Data, RDMA Read and atomics. RFC 5040, 5.1 to 5.3, RFC
/// 7306, 5.2.1 and 6.3.

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

using machines::DdpSegment;
using machines::IwarpError;
namespace errors = machines::iwarp_error;

namespace {

void receive_send(Stream& stream, const DdpSegment& message, Bytes ulpdu) {
  const ResponderDecisions& decisions = stream.decisions().responder;
  if (rdmap_opcode(machines::operation_of(message.control)).invalidate &&
      !decisions.invalidate(stream, message.invalidate_stag))
    return fail(stream, errors::cannot_invalidate, {.segment = ulpdu});
  decisions.deliver(stream, message);
}

void receive_read_request(Stream& stream, Bytes ulpdu) {
  const Bytes header = Bytes(stream.fixed[1]).first(RdmapReadRequest::size);
  if (const auto error = stream.decisions().responder.judge_read(stream, header))
    return fail(stream, *error, {.segment = ulpdu, .request = header});
  ++stream.depth.serving;
  stream.answers.push_back(
      {.atomic = false, .segment = {ulpdu.begin(), ulpdu.end()}, .header = {header.begin(), header.end()}});
}

void receive_atomic_request(Stream& stream, Bytes ulpdu) {
  const Bytes header = Bytes(stream.fixed[1]).first(RdmapAtomicRequest::size);
  const View<RdmapAtomicRequest> request(header.data());
  const std::uint64_t to = request.get<"to">();
  const auto opened =
      stream.rnic.memory().open(stream.accessor(), request.get<"stag">(), to, 8, device::access::remote_atomic);
  // Check the alignment of the memory address, which differs from the TO if the buffer is zero-based.
  if (const auto error =
          stream.decisions().responder.judge_atomic(request.get<"operation">(), opened.address.value_or(to)))
    return fail(stream, *error, {.segment = ulpdu});
  if (!opened.address)
    return fail(stream, machines::protection_error(opened.decision.reason, to, 8), {.segment = ulpdu});
  ++stream.depth.serving;
  stream.answers.push_back(
      {.atomic = true, .segment = {ulpdu.begin(), ulpdu.end()}, .header = {header.begin(), header.end()}});
}

}  // namespace

void receive_message(Stream& stream, const DdpSegment& message, Bytes ulpdu) {
  const ResponderDecisions& decisions = stream.decisions().responder;
  const auto operation = machines::operation_of(message.control);
  if (const auto error = decisions.judge_message(operation, message.bytes))
    return decisions.reject_message(stream, operation, *error, ulpdu);
  switch (operation) {
    case RdmapOperation::read_request: return receive_read_request(stream, ulpdu);
    case RdmapOperation::atomic_request: return receive_atomic_request(stream, ulpdu);
    case RdmapOperation::atomic_response: return receive_atomic_response(stream, ulpdu);
    case RdmapOperation::terminate: return receive_terminate(stream, ulpdu);
    default: return receive_send(stream, message, ulpdu);
  }
}

namespace conforming {

bool place(Stream& stream, const DdpSegment& segment, Bytes ulpdu) {
  const auto verdict = stream.decisions().segments.judge_tagged(stream, segment);
  if (!verdict.valid) {
    stream.decisions().segments.reject(stream, segment, verdict.error, ulpdu);
    return false;
  }
  if (segment.bytes == 0) return true;
  const auto address =
      stream.rnic.memory()
          .open(stream.accessor(), segment.stag, segment.to, segment.bytes, device::access::remote_write)
          .address;
  stream.decisions().responder.write(stream, *address, ulpdu.subspan(machines::ddp_header_bytes(true)));
  return true;
}

void write(Stream& stream, std::uint64_t address, Bytes bytes) {
  const MutableBytes memory = stream.rnic.memory().at(address, bytes.size());
  std::copy_n(bytes.begin(), std::min(memory.size(), bytes.size()), memory.begin());
}

std::optional<IwarpError> judge_message(RdmapOperation operation, std::uint64_t bytes) {
  return machines::judge_length(operation, bytes);
}

void reject_message(Stream& stream, RdmapOperation /*operation*/, IwarpError error, Bytes ulpdu) {
  fail(stream, error, {.segment = ulpdu});
}

bool invalidate(Stream& stream, std::uint32_t stag) {
  return stream.rnic.memory().invalidate_remote(stag, stream.accessor());
}

void deliver(Stream& stream, const DdpSegment& message) {
  const ResponderDecisions& decisions = stream.decisions().responder;
  const auto operation = machines::operation_of(message.control);
  device::Completion completion = decisions.receive_completion(stream, message);
  completion.id = decisions.consume_receive(stream, operation);
  complete(stream, stream.options.receive_cq, completion, decisions.is_solicited(operation));
}

device::Completion receive_completion(Stream& stream, const DdpSegment& message) {
  const auto operation = machines::operation_of(message.control);
  device::Completion completion{.opcode = device::CompletionOpcode::receive, .bytes = message.bytes};
  if (rdmap_opcode(operation).invalidate) {
    completion.has_invalidated = true;
    completion.immediate = message.invalidate_stag;
  }
  if (machines::is_immediate(operation)) {
    completion.has_immediate = true;
    completion.immediate_data = View<RdmapImmediateData>(stream.fixed[0].data()).get<"data">();
    completion.immediate = static_cast<std::uint32_t>(completion.immediate_data);
  }
  return completion;
}

std::uint64_t consume_receive(Stream& stream, RdmapOperation /*operation*/) {
  const std::uint64_t id = stream.receives.front().id;
  stream.receives.pop_front();
  return id;
}

bool is_solicited(RdmapOperation operation) { return rdmap_opcode(operation).solicited_event; }

std::optional<IwarpError> judge_read(const Stream& stream, Bytes header) {
  const View<RdmapReadRequest> request(header.data());
  const std::uint32_t bytes = request.get<"size">();
  if (bytes == 0) return std::nullopt;
  const std::uint64_t from = request.get<"src_to">();
  const auto opened =
      stream.rnic.memory().open(stream.accessor(), request.get<"src_stag">(), from, bytes, device::access::remote_read);
  if (opened.address) return std::nullopt;
  return machines::protection_error(opened.decision.reason, from, bytes);
}

std::optional<IwarpError> judge_atomic(std::uint8_t operation, std::uint64_t address) {
  return machines::judge_atomic(operation, address);
}

void write_atomic(Stream& stream, std::uint64_t address, Bytes value) { write(stream, address, value); }

}  // namespace conforming

}  // namespace rdmawire::endpoint
