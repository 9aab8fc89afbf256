/// Agent commands for completions.

#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

namespace {

rpc::Completion completion_of(const Completion& c) {
  rpc::Completion report;
  report.wr_id = c.id;
  report.status = decltype(report.status)::of(static_cast<unsigned>(c.status));
  report.status_number = static_cast<unsigned>(c.status);
  report.qp_num = c.qpn;
  if (c.status != Status::success) return report;
  report.opcode = rpc::Choice<rpc::names::wc_opcode>::of(static_cast<unsigned>(c.opcode));
  report.byte_len = c.bytes;
  auto& flags = report.flags.emplace().names;
  if (c.has_grh) flags.emplace_back("grh");
  if (c.has_immediate) flags.emplace_back("imm");
  if (c.has_invalidated) flags.emplace_back("inv");
  if (c.has_immediate) report.imm = c.immediate;
  if (c.has_immediate && c.immediate_data != 0) report.imm64 = c.immediate_data;  // iWARP: all 64 bits
  if (c.has_invalidated) report.invalidated_rkey = c.immediate;
  if (c.opcode == CompletionOpcode::receive || c.opcode == CompletionOpcode::receive_write_imm) {
    report.src_qp = c.source_qpn;
    report.pkey_index = c.pkey_index;
    report.slid = 0;
    report.sl = c.sl;
    report.dlid_path_bits = 0;
  }
  return report;
}

}  // namespace

Result<rpc::CreateChannel::Result> VerbsRpcHandler::create_channel(const rpc::CreateChannel&) {
  const auto channel = verbs_.create_channel();
  if (!channel) return tl::unexpected(channel.error());
  return rpc::CreateChannel::Result{{add(Kind::channel, *channel)}};
}

Result<rpc::CreateCq::Result> VerbsRpcHandler::create_cq(const rpc::CreateCq& request) {
  const auto cq = verbs_.create_cq(request.cqe, number_of(request.channel));
  if (!cq) return tl::unexpected(cq.error());
  return rpc::CreateCq::Result{{add(Kind::cq, *cq)}, request.cqe};
}

Result<rpc::Nothing> VerbsRpcHandler::notify(const rpc::Notify& request) {
  return nothing(verbs_.req_notify_cq(number_of(request.cq), request.solicited_only));
}

Result<rpc::Poll::Result> VerbsRpcHandler::poll(const rpc::Poll& request) {
  if (request.min > request.max)
    return refuse(ERANGE, fmt::format("min: must be from 1 to {}, not {}", request.max, request.min));
  const std::int64_t deadline = verbs_.now() + std::int64_t{request.timeout_ms} * 1'000'000;
  rpc::Poll::Result found;
  for (bool more = true;;) {
    const auto taken = verbs_.poll_cq(number_of(request.cq), request.max - found.completions.size());
    if (!taken) return tl::unexpected(taken.error());
    for (const Completion& completion : *taken) found.completions.push_back(completion_of(completion));
    if (found.completions.size() >= request.min || !more) break;
    more = step_(deadline);
  }
  return found;
}

}  // namespace rdmawire::device
