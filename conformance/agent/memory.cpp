/// register, reregister, write, read, fill, checksum, alloc_mw, bind_mw.

#include <zlib.h>

#include <algorithm>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"
#include "replay/rpc/memory_commands.hpp"
#include "replay/rpc/range.hpp"

namespace rdmawire::agent {
namespace {

/// Checks the value of a fill pattern. nullopt: it is valid.
std::optional<Error> check_value(const rpc::Choice<names::pattern>& pattern, std::uint64_t value,
                                 std::string_view name) {
  if (pattern.name == "random" || value <= 0xff) return std::nullopt;
  return rpc::out_of_range(name, 0, 0xff, value);
}

struct Part {
  std::uint8_t* begin = nullptr;
  std::uint64_t length = 0;
};

/// Returns a part of a region. Fails if it exceeds the region.
Result<Part> part_of(const Mr& mr, std::uint64_t offset, std::optional<std::uint64_t> length) {
  const auto range = rpc::range_of(offset, length, mr.length());
  if (!range) return tl::unexpected(range.error());
  return Part{mr.memory() + range->offset, range->length};
}
template <class Request>
Result<Part> part_of(Session& session, const Request& request) {
  return part_of(session.objects().of<Mr>(request.mr), request.offset, request.length);
}

Result<rpc::Register::Result> register_memory(Session& session, const rpc::Register& request) {
  const Pd& pd = session.objects().of<Pd>(request.pd);
  const std::uint64_t length = request.length, most = session.settings().most_memory;
  const auto access = static_cast<unsigned>(request.access.bits());
  if (length > most) return tl::unexpected(rpc::out_of_range("length", 1, most, length));
  if (request.fill) {
    if (auto wrong = check_value(request.fill->pattern, request.fill->value, "fill: value"))
      return tl::unexpected(*wrong);
  }
  if (length > most - std::min(session.memory, most)) {
    return fail(ENOMEM, "length: the session has {} bytes in memory regions, the limit is {} (--memory)",
                session.memory, most);
  }
  std::uint8_t* memory = map_memory(length);
  if (memory == nullptr) return fail(ENOMEM, "length: cannot allocate {} bytes", length);
  if (request.fill) rpc::fill({memory, length}, request.fill->pattern, request.fill->value);
  errno = 0;
  ibv_mr* mr = request.iova ? ibv_reg_mr_iova(pd.verbs(), memory, length, *request.iova, access)
                            : ibv_reg_mr(pd.verbs(), memory, length, access);
  if (mr == nullptr) {
    const int number = errno;
    unmap_memory(memory, length);
    return tl::unexpected(verbs_failed(request.iova ? "ibv_reg_mr_iova" : "ibv_reg_mr", number));
  }
  std::uint64_t first = reinterpret_cast<std::uintptr_t>(memory);
  if (request.iova) first = *request.iova;
  if (!request.iova && (access & IBV_ACCESS_ZERO_BASED) != 0) first = 0;
  const Mr& added = session.objects().add(std::make_unique<Mr>(session, mr, memory, length, first), {&pd});
  return rpc::Register::Result{{added.handle()}, first, length, mr->lkey, mr->rkey};
}

Result<rpc::Reregister::Result> reregister(Session& session, const rpc::Reregister& request) {
  const Mr& mr = session.objects().of<Mr>(request.mr);
  const auto* pd = session.objects().of<Pd>(request.pd);
  const int flags = (pd != nullptr ? IBV_REREG_MR_CHANGE_PD : 0) | (request.access ? IBV_REREG_MR_CHANGE_ACCESS : 0);
  if (flags == 0) return fail(EINVAL, "no change requested; specify pd, access or both");
  errno = 0;
  const int wrong = ibv_rereg_mr(mr.verbs(), flags, pd != nullptr ? pd->verbs() : nullptr, nullptr, 0,
                                 static_cast<int>(request.access ? request.access->bits() : 0));
  if (wrong != 0) {
    Error error = verbs_failed("ibv_rereg_mr", errno);
    const bool refused = error.number == EOPNOTSUPP || error.number == ENOSYS;
    if (!refused && (wrong == IBV_REREG_MR_ERR_CMD || wrong == IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW)) {
      error.message += "; the region is unusable, destroy it";
    }
    return tl::unexpected(error);
  }
  return rpc::Reregister::Result{mr.verbs()->lkey, mr.verbs()->rkey};
}

Result<rpc::Write::Result> write(Session& session, const rpc::Write& request) {
  const Mr& mr = session.objects().of<Mr>(request.mr);
  const auto part = part_of(mr, request.offset, std::nullopt);
  if (!part) return tl::unexpected(part.error());
  if (request.bytes.size() > part->length) {
    return fail(ERANGE, "bytes: {} bytes at offset {} exceed the region of {} bytes", request.bytes.size(),
                request.offset, mr.length());
  }
  std::copy(request.bytes.begin(), request.bytes.end(), part->begin);
  return rpc::Write::Result{request.bytes.size()};
}

Result<rpc::Read::Result> read(Session& session, const rpc::Read& request) {
  const auto part = part_of(session, request);
  if (!part) return tl::unexpected(part.error());
  if (part->length > rpc::most_bytes) {
    return fail(EMSGSIZE, "length: the response limit is {} bytes, not {}; read the region in parts", rpc::most_bytes,
                part->length);
  }
  return rpc::Read::Result{{part->begin, part->begin + part->length}};
}

Result<rpc::Fill::Result> fill(Session& session, const rpc::Fill& request) {
  const auto part = part_of(session, request);
  if (!part) return tl::unexpected(part.error());
  if (auto wrong = check_value(request.pattern, request.value, "value")) return tl::unexpected(*wrong);
  rpc::fill({part->begin, part->length}, request.pattern, request.value);
  return rpc::Fill::Result{part->length};
}

Result<rpc::Checksum::Result> checksum(Session& session, const rpc::Checksum& request) {
  const auto part = part_of(session, request);
  if (!part) return tl::unexpected(part.error());
  const auto crc = static_cast<std::uint32_t>(crc32_z(crc32_z(0, nullptr, 0), part->begin, part->length));
  return rpc::Checksum::Result{crc, part->length};
}

Result<rpc::AllocMw::Result> alloc_mw(Session& session, const rpc::AllocMw& request) {
  const Pd& pd = session.objects().of<Pd>(request.pd);
  errno = 0;
  ibv_mw* mw = ibv_alloc_mw(pd.verbs(), static_cast<ibv_mw_type>(request.type));
  if (mw == nullptr) return tl::unexpected(verbs_failed("ibv_alloc_mw", errno));
  const Mw& added = session.objects().add(std::make_unique<Mw>(mw), {&pd});
  return rpc::AllocMw::Result{{added.handle()}, mw->rkey};
}

Result<rpc::BindMw::Result> bind_mw(Session& session, const rpc::BindMw& request) {
  const Qp& qp = session.objects().of<Qp>(request.qp);
  const Mw& mw = session.objects().of<Mw>(request.mw);
  const auto* mr = session.objects().of<Mr>(request.mr);
  ibv_mw_bind bind{};
  bind.wr_id = request.wr_id;
  bind.send_flags = static_cast<unsigned>(request.flags.bits());
  bind.bind_info = bind_info(mr, request.addr, request.length, request.access.bits());
  if (const int wrong = ibv_bind_mw(qp.verbs(), mw.verbs(), &bind); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_bind_mw", wrong));
  }
  return rpc::BindMw::Result{mw.verbs()->rkey};
}

}  // namespace

std::vector<Handler> memory_handlers() {
  return {handler(register_memory), handler(reregister), handler(write),  handler(read), handler(fill),
          handler(checksum),        handler(alloc_mw),   handler(bind_mw)};
}

}  // namespace rdmawire::agent
