/// Agent commands for work requests.

#include <algorithm>

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

namespace {

constexpr std::size_t most_requests = 4096, most_request_sges = 256;

Error at_request(std::size_t index, const Error& error) {
  return {error.number, fmt::format("requests[{}]: {}; the preceding requests were posted", index, error.message)};
}

void read_remote(ArgumentReader& arguments, SendRequest& into) {
  switch (into.opcode) {
    case WorkOpcode::write:
    case WorkOpcode::write_imm:
    case WorkOpcode::read:
    case WorkOpcode::flush:
    case WorkOpcode::atomic_write:
    case WorkOpcode::compare_swap:
    case WorkOpcode::fetch_add:
      into.remote_address = arguments.number<std::uint64_t>("remote_addr");
      into.rkey = arguments.number<std::uint32_t>("rkey");
      break;
    default: break;
  }
  if (into.opcode == WorkOpcode::compare_swap) {
    into.compare = arguments.number<std::uint64_t>("compare");
    into.swap_add = arguments.number<std::uint64_t>("swap");
  }
  if (into.opcode == WorkOpcode::fetch_add) into.swap_add = arguments.number<std::uint64_t>("add");
}

}  // namespace

std::vector<Sge> VerbsRpcHandler::read_sges(ArgumentReader& arguments, std::vector<std::uint8_t>* inline_bytes) {
  std::vector<Sge> sges;
  arguments.each("sges", most_request_sges, [&](ArgumentReader& entry) {
    Sge sge;
    if (entry.has("mr")) {
      const Part part = read_part(entry);
      if (part.region)
        sge = {part.region->iova + part.offset, static_cast<std::uint32_t>(part.length), part.region->key};
      if (inline_bytes && part.region) {
        const MutableBytes bytes = verbs_.memory(part.address, part.length);
        inline_bytes->insert(inline_bytes->end(), bytes.begin(), bytes.end());
      }
    } else {
      sge.address = entry.number<std::uint64_t>("addr");
      sge.length = entry.number<std::uint32_t>("length");
      sge.lkey = entry.number<std::uint32_t>("lkey");
      if (inline_bytes) entry.report_error("mr", EINVAL, "is required for inline data");
    }
    sges.push_back(sge);
  });
  return sges;
}

SendRequest VerbsRpcHandler::read_send(ArgumentReader& arguments, std::uint32_t qp) {
  SendRequest into;
  into.id = arguments.number_or<std::uint64_t>("wr_id", 0);
  const auto opcode = arguments.optional_choice("opcode", names::opcode);
  if (!opcode) arguments.report_error("opcode", EINVAL, "is required");
  into.opcode = static_cast<WorkOpcode>(opcode.value_or(2));
  const auto flags = arguments.optional_bits("flags", names::send_flags).value_or(0);
  into.fence = (flags & 1) != 0;
  into.signaled = (flags & 2) != 0;
  into.solicited = (flags & 4) != 0;
  into.is_inline = (flags & 8) != 0;
  into.sges = read_sges(arguments, into.is_inline ? &into.bytes : nullptr);
  if (into.opcode == WorkOpcode::send_imm || into.opcode == WorkOpcode::write_imm) {
    into.immediate_data = arguments.number<std::uint64_t>("imm", 0, most_immediate());
    into.immediate = static_cast<std::uint32_t>(into.immediate_data);
  }
  if (into.opcode == WorkOpcode::send_inv) into.immediate = arguments.number<std::uint32_t>("invalidate_rkey");
  if (into.opcode == WorkOpcode::local_inv) into.rkey = arguments.number<std::uint32_t>("invalidate_rkey");
  if (into.opcode == WorkOpcode::bind_mw || into.opcode == WorkOpcode::reg_mr) {
    if (into.opcode == WorkOpcode::bind_mw) into.window = arguments.number<std::uint32_t>("mw");
    into.region = arguments.number_or<std::uint32_t>("mr", 0);
    into.new_key = arguments.number<std::uint32_t>("new_rkey");
    const Region* region = verbs_.region(into.region);
    const auto piece = pieces_.find(into.region);
    const std::uint64_t begin = into.opcode == WorkOpcode::reg_mr ? (piece == pieces_.end() ? 0 : piece->second)
                                : region                          ? region->iova
                                                                  : 0;
    const std::uint64_t length = !region ? 0 : into.opcode == WorkOpcode::reg_mr ? region->most : region->length;
    into.address = arguments.number_or<std::uint64_t>("addr", begin);
    into.bytes_bound = arguments.number_or<std::uint64_t>("length", length);
    into.iova = arguments.number_or<std::uint64_t>("iova", into.address);
    into.rights = static_cast<std::uint32_t>(arguments.optional_bits("access", names::access).value_or(0));
  }
  if (into.opcode == WorkOpcode::atomic_write) {
    into.bytes = arguments.bytes("bytes", 8);
    into.is_inline = true;
    if (into.bytes.size() != 8) arguments.report_error("bytes", EINVAL, "must be eight bytes");
  }
  if (into.opcode == WorkOpcode::flush) {
    into.length = arguments.number<std::uint32_t>("length");
    into.placement = static_cast<std::uint8_t>(arguments.optional_bits("placement", names::flush_type).value_or(0));
    into.selectivity =
        static_cast<std::uint8_t>(arguments.optional_choice("selectivity", names::flush_level).value_or(0));
  }
  read_remote(arguments, into);
  read_more(arguments, qp, into);
  return into;
}

Result<Json> VerbsRpcHandler::post_send(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("qp");
  std::vector<SendRequest> requests;
  arguments.each("requests", most_requests,
                 [&](ArgumentReader& entry) { requests.push_back(read_send(entry, handle)); });
  if (requests.empty()) arguments.report_error("requests", EINVAL, "is required, with at least one entry");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (auto posted = verbs_.post_send(handle, std::move(requests[i])); !posted)
      return tl::unexpected(at_request(i, posted.error()));
  return Json{{"posted", requests.size()}};
}

Result<Json> VerbsRpcHandler::post_recv(ArgumentReader& arguments) {
  const auto qp = arguments.optional_number<std::uint32_t>("qp");
  const auto srq = arguments.optional_number<std::uint32_t>("srq");
  if (qp.has_value() == srq.has_value()) arguments.report_error("qp", EINVAL, "either qp or srq is required");
  std::vector<ReceiveRequest> requests;
  arguments.each("requests", most_requests, [&](ArgumentReader& entry) {
    ReceiveRequest request;
    request.id = entry.number_or<std::uint64_t>("wr_id", 0);
    request.sges = read_sges(entry);
    requests.push_back(std::move(request));
  });
  if (requests.empty()) arguments.report_error("requests", EINVAL, "is required, with at least one entry");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto posted =
        qp ? verbs_.post_recv(*qp, std::move(requests[i])) : post_srq_recv(*srq, std::move(requests[i]));
    if (!posted) return tl::unexpected(at_request(i, posted.error()));
  }
  return Json{{"posted", requests.size()}};
}

}  // namespace rdmawire::device
