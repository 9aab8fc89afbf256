/// Agent commands for work requests.

#include <algorithm>

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

namespace {

tl::unexpected<Error> at_request(std::size_t index, const Error& error, std::string_view then) {
  return refuse(error.number, fmt::format("requests[{}]: {}{}", index, error.message, then));
}

constexpr std::string_view others_posted = "; the preceding requests were posted";

}  // namespace

Result<std::vector<Sge>> VerbsRpcHandler::sges_of(const std::vector<rpc::Sge>& given,
                                                  std::vector<std::uint8_t>* inline_bytes) {
  std::vector<Sge> sges;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const rpc::Sge& entry = given[i];
    const auto wrong = [i](const Error& error) {
      return refuse(error.number, fmt::format("sges[{}]: {}", i, error.message));
    };
    if (entry.mr) {
      const auto part = part_of(*entry.mr, entry.offset, entry.length);
      if (!part) return wrong(part.error());
      sges.push_back({part->region->iova + part->offset, static_cast<std::uint32_t>(part->length), part->region->key});
      if (inline_bytes) {
        const MutableBytes bytes = verbs_.memory(part->address, part->length);
        inline_bytes->insert(inline_bytes->end(), bytes.begin(), bytes.end());
      }
    } else {
      if (!entry.length) return wrong({EINVAL, "length: missing required argument"});
      if (inline_bytes) return wrong({EINVAL, "mr: is required for inline data"});
      sges.push_back({entry.addr, *entry.length, entry.lkey});
    }
  }
  return sges;
}

Result<SendRequest> VerbsRpcHandler::send_request(const rpc::SendRequest& request, std::uint32_t qp) {
  SendRequest into;
  into.id = request.wr_id;
  into.opcode = static_cast<WorkOpcode>(number_of(names::opcode, request.opcode.name).value_or(0));
  const auto flags = request.flags.bits();
  into.fence = (flags & 1) != 0;
  into.signaled = (flags & 2) != 0;
  into.solicited = (flags & 4) != 0;
  into.is_inline = (flags & 8) != 0;
  if ((flags & ~std::uint64_t{15}) != 0)
    return refuse(EOPNOTSUPP, "flags: the reference device does not support ip_csum");
  auto sges = sges_of(request.sges, into.is_inline ? &into.bytes : nullptr);
  if (!sges) return tl::unexpected(sges.error());
  into.sges = std::move(*sges);
  if (request.has_immediate()) {
    if (request.imm > most_immediate())
      return refuse(ERANGE, fmt::format("imm: must be from 0 to {}, not {}", most_immediate(), request.imm));
    into.immediate_data = request.imm;
    into.immediate = static_cast<std::uint32_t>(request.imm);
  }
  if (into.opcode == WorkOpcode::send_inv) into.immediate = request.invalidate_rkey;
  if (into.opcode == WorkOpcode::local_inv) into.rkey = request.invalidate_rkey;
  if (request.creates_key()) {
    into.window = number_of(request.mw);
    into.region = number_of(request.mr);
    into.new_key = request.new_rkey;
    const Region* region = verbs_.region(into.region);
    const auto piece = pieces_.find(into.region);
    const std::uint64_t begin = request.is_reg_mr() ? (piece == pieces_.end() ? 0 : piece->second)
                                : region            ? region->iova
                                                    : 0;
    const std::uint64_t length = !region ? 0 : request.is_reg_mr() ? region->most : region->length;
    into.address = request.addr.value_or(begin);
    into.bytes_bound = request.length.value_or(length);
    into.iova = request.iova.value_or(into.address);
    const auto rights = rights_of(request.access);
    if (!rights) return tl::unexpected(rights.error());
    into.rights = *rights;
  }
  if (request.is_atomic_write()) {
    into.bytes = request.bytes;
    into.is_inline = true;
  }
  if (request.is_flush()) {
    if (!request.length) return refuse(EINVAL, "length: missing required argument");
    if (*request.length > 0xffff'ffff) return refuse(ERANGE, "length: must have 32 bits");
    into.length = static_cast<std::uint32_t>(*request.length);
    into.placement = static_cast<std::uint8_t>(request.placement.bits());
    into.selectivity = static_cast<std::uint8_t>(request.selectivity.value());
  }
  if (request.is_remote()) {
    into.remote_address = request.remote_addr;
    into.rkey = request.rkey;
    into.compare = request.compare;
    into.swap_add = request.is_fetch_add() ? request.add : request.swap;
  }
  if (auto done = read_more(request, qp, into); !done) return tl::unexpected(done.error());
  return into;
}

Result<rpc::PostSend::Result> VerbsRpcHandler::post_send(const rpc::PostSend& request) {
  const std::uint32_t qp = number_of(request.qp);
  std::vector<SendRequest> requests;
  for (const rpc::SendRequest& one : request.requests) {
    auto converted = send_request(one, qp);
    if (!converted) return at_request(requests.size(), converted.error(), "");
    requests.push_back(std::move(*converted));
  }
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (auto posted = verbs_.post_send(qp, std::move(requests[i])); !posted)
      return at_request(i, posted.error(), others_posted);
  return rpc::PostSend::Result{requests.size()};
}

Result<rpc::PostRecv::Result> VerbsRpcHandler::post_recv(const rpc::PostRecv& request) {
  if (request.qp.has_value() == request.srq.has_value()) return refuse(EINVAL, "qp: either qp or srq is required");
  std::vector<ReceiveRequest> requests;
  for (const rpc::ReceiveRequest& one : request.requests) {
    auto sges = sges_of(one.sges, nullptr);
    if (!sges) return at_request(requests.size(), sges.error(), "");
    requests.push_back({.id = one.wr_id, .sges = std::move(*sges)});
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto posted = request.qp ? verbs_.post_recv(number_of(request.qp), std::move(requests[i]))
                                   : post_srq_recv(number_of(request.srq), std::move(requests[i]));
    if (!posted) return at_request(i, posted.error(), others_posted);
  }
  return rpc::PostRecv::Result{requests.size()};
}

}  // namespace rdmawire::device
