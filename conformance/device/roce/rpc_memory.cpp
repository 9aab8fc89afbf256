/// Agent commands for memory.

#include <algorithm>

#include "conformance/device/roce/verbs_rpc_handler.hpp"
#include "dissectors/protocol/crc.hpp"
#include "replay/rpc/range.hpp"

namespace rdmawire::device {

Result<VerbsRpcHandler::Part> VerbsRpcHandler::part_of(rpc::MrHandle mr, std::uint64_t offset,
                                                       std::optional<std::uint64_t> length) {
  Part part;
  part.region = verbs_.region(number_of(mr));
  const auto piece = pieces_.find(number_of(mr));
  if (!part.region || piece == pieces_.end()) return refuse(ENOENT, fmt::format("mr: unknown region {}", mr.number));
  // The memory of a fast registration can be accessed before the registration, up to its maximum length.
  const std::uint64_t has = std::max(part.region->length, part.region->most);
  const auto range = rpc::range_of(offset, length, has);
  if (!range) return refuse(range.error().number, range.error().message);
  part.offset = range->offset;
  part.length = range->length;
  part.address = piece->second + offset;
  return part;
}

Result<rpc::AllocPd::Result> VerbsRpcHandler::alloc_pd(const rpc::AllocPd&) {
  const auto pd = verbs_.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  return rpc::AllocPd::Result{{add(Kind::pd, *pd)}};
}

Result<rpc::Register::Result> VerbsRpcHandler::register_memory(const rpc::Register& request) {
  const auto rights = rights_of(request.access);
  if (!rights) return tl::unexpected(rights.error());
  const auto address = verbs_.alloc(request.length);
  if (!address) return tl::unexpected(address.error());
  if (request.fill) rpc::fill(verbs_.memory(*address, request.length), request.fill->pattern, request.fill->value);
  const auto region = verbs_.reg_mr(number_of(request.pd), *address, request.length, *rights, request.iova);
  if (!region) {
    (void)verbs_.free(*address);
    return tl::unexpected(region.error());
  }
  pieces_[(*region)->handle] = *address;
  return rpc::Register::Result{
      {add(Kind::mr, (*region)->handle)}, (*region)->iova, request.length, (*region)->key, (*region)->key};
}

Result<rpc::AllocMr::Result> VerbsRpcHandler::alloc_mr(const rpc::AllocMr& request) {
  const auto address = verbs_.alloc(request.length);
  if (!address) return tl::unexpected(address.error());
  const auto region = verbs_.alloc_mr(number_of(request.pd), request.length);
  if (!region) {
    (void)verbs_.free(*address);
    return tl::unexpected(region.error());
  }
  pieces_[(*region)->handle] = *address;
  return rpc::AllocMr::Result{{add(Kind::mr, (*region)->handle)}, *address, (*region)->key};
}

Result<rpc::Write::Result> VerbsRpcHandler::write(const rpc::Write& request) {
  const auto part = part_of(request.mr, request.offset, std::nullopt);
  if (!part) return tl::unexpected(part.error());
  if (request.bytes.size() > part->length) return refuse(ERANGE, "bytes: exceed the region");
  const MutableBytes to = verbs_.memory(part->address, request.bytes.size());
  std::copy_n(request.bytes.begin(), to.size(), to.begin());
  return rpc::Write::Result{request.bytes.size()};
}

Result<rpc::Read::Result> VerbsRpcHandler::read(const rpc::Read& request) {
  const auto part = part_of(request.mr, request.offset, request.length);
  if (!part) return tl::unexpected(part.error());
  if (part->length > rpc::most_bytes)
    return refuse(EMSGSIZE, fmt::format("length: a response contains at most {} bytes", rpc::most_bytes));
  const MutableBytes bytes = verbs_.memory(part->address, part->length);
  return rpc::Read::Result{{bytes.begin(), bytes.end()}};
}

Result<rpc::Fill::Result> VerbsRpcHandler::fill(const rpc::Fill& request) {
  const auto part = part_of(request.mr, request.offset, request.length);
  if (!part) return tl::unexpected(part.error());
  rpc::fill(verbs_.memory(part->address, part->length), request.pattern, request.value);
  return rpc::Fill::Result{part->length};
}

Result<rpc::Checksum::Result> VerbsRpcHandler::checksum(const rpc::Checksum& request) {
  const auto part = part_of(request.mr, request.offset, request.length);
  if (!part) return tl::unexpected(part.error());
  return rpc::Checksum::Result{crc32(verbs_.memory(part->address, part->length)), part->length};
}

Result<rpc::AllocMw::Result> VerbsRpcHandler::alloc_mw(const rpc::AllocMw& request) {
  const auto window = verbs_.alloc_mw(number_of(request.pd), request.type);
  if (!window) return tl::unexpected(window.error());
  return rpc::AllocMw::Result{{add(Kind::mw, (*window)->handle)}, (*window)->key};
}

Result<rpc::BindMw::Result> VerbsRpcHandler::bind_mw(const rpc::BindMw& given) {
  SendRequest request;
  request.opcode = WorkOpcode::bind_mw;
  request.window = number_of(given.mw);
  request.region = number_of(given.mr);
  const Region* region = verbs_.region(request.region);
  request.id = given.wr_id;
  const auto flags = given.flags.bits();
  request.fence = (flags & 1) != 0;
  request.signaled = (flags & 2) != 0;
  request.address = given.addr.value_or(region ? region->iova : 0);
  request.bytes_bound = given.length.value_or(region ? region->length : 0);
  const auto rights = rights_of(given.access);
  if (!rights) return tl::unexpected(rights.error());
  request.rights = *rights;
  const Window* window = verbs_.window(request.window);
  if (!window) return refuse(ENOENT, "mw: unknown window");
  if (window->type != 1) return refuse(EINVAL, "mw: is of type 2; bind it with post_send");
  const auto key = verbs_.bind_mw(number_of(given.qp), request);
  if (!key) return tl::unexpected(key.error());
  return rpc::BindMw::Result{*key};
}

}  // namespace rdmawire::device
