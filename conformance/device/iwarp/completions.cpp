/// Completions of the application's requests. RFC 5040, 5.5.

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

device::CompletionOpcode completion_opcode(device::WorkOpcode opcode) {
  using device::WorkOpcode;
  switch (opcode) {
    case WorkOpcode::write:
    case WorkOpcode::write_imm: return device::CompletionOpcode::write;
    case WorkOpcode::read: return device::CompletionOpcode::read;
    case WorkOpcode::compare_swap: return device::CompletionOpcode::compare_swap;
    case WorkOpcode::fetch_add: return device::CompletionOpcode::fetch_add;
    case WorkOpcode::bind_mw: return device::CompletionOpcode::bind_mw;
    case WorkOpcode::local_inv: return device::CompletionOpcode::local_inv;
    case WorkOpcode::reg_mr: return device::CompletionOpcode::reg_mr;
    default: return device::CompletionOpcode::send;
  }
}

}  // namespace

void complete(Stream& stream, std::uint32_t cq, device::Completion completion, bool solicited) {
  completion.qpn = stream.number;
  if (stream.rnic.complete(cq, completion, solicited) || stream.state != machines::StreamState::operating) return;
  fail(stream, machines::iwarp_error::local_catastrophic);
}

void complete_sends(Stream& stream) {
  while (!stream.work.empty() && stream.work.front().done) {
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (!work.request.signaled && work.status == device::Status::success) continue;
    complete(stream, stream.options.send_cq,
             {.id = work.request.id,
              .status = work.status,
              .opcode = completion_opcode(work.request.opcode),
              .bytes = work.bytes},
             false);
  }
}

void complete_receive(Stream& stream, device::Completion completion) {
  completion.id = stream.receives.front().id;
  completion.opcode = device::CompletionOpcode::receive;
  stream.receives.pop_front();
  complete(stream, stream.options.receive_cq, completion, false);
}

}  // namespace rdmawire::endpoint
