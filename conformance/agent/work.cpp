/// post_send, post_recv.

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <list>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"

namespace rdmawire::agent {
namespace {

constexpr std::size_t most_requests = 4096;
constexpr std::size_t most_sges = 256;

/// {"mr","offset","length"} or {"addr","length","lkey"}. Inline data is copied from this process without a key check.
/// Therefore its address is computed here and cannot be chosen by the controller.
std::vector<ibv_sge> read_sges(Arguments& request, bool is_inline) {
  std::vector<ibv_sge> sges;
  for (Arguments& entry : request.inner_list("sges", most_sges)) {
    ibv_sge sge{};
    if (entry.has("mr")) {
      const auto* mr = entry.object<Mr>("mr");
      const std::uint64_t has = mr != nullptr ? mr->length() : 0;
      const auto offset = entry.number_or<std::uint64_t>("offset", 0, {0, has});
      const auto left = std::min<std::uint64_t>(has - std::min(offset, has), UINT32_MAX);
      sge.length = entry.number_or<std::uint32_t>("length", static_cast<std::uint32_t>(left), {0, left});
      if (mr != nullptr) {
        sge.addr = (is_inline ? reinterpret_cast<std::uintptr_t>(mr->memory()) : mr->iova()) + offset;
        sge.lkey = mr->verbs()->lkey;
      }
    } else {
      sge.addr = entry.number<std::uint64_t>("addr");
      sge.length = entry.number<std::uint32_t>("length");
      sge.lkey = entry.number<std::uint32_t>("lkey");
      if (is_inline) entry.report_error("addr", EINVAL, "inline requires entries of the form mr, offset, length");
    }
    sges.push_back(sge);
  }
  return sges;
}

/// A work request and the data it refers to.
struct SendRequest {
  ibv_send_wr wr{};
  std::vector<ibv_sge> sges;
  std::uint64_t opcode = 0;
  std::vector<std::uint8_t> bytes;  ///< for atomic_write
  std::uint32_t flush_length = 0;
  std::uint8_t flush_type = 0, flush_level = 0;
};

void read_remote(Arguments& request, SendRequest& into) {
  switch (into.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case opcode_flush:
    case opcode_atomic_write:
      into.wr.wr.rdma.remote_addr = request.number<std::uint64_t>("remote_addr");
      into.wr.wr.rdma.rkey = request.number<std::uint32_t>("rkey");
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      into.wr.wr.atomic.remote_addr = request.number<std::uint64_t>("remote_addr");
      into.wr.wr.atomic.rkey = request.number<std::uint32_t>("rkey");
      if (into.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        into.wr.wr.atomic.compare_add = request.number<std::uint64_t>("compare");
        into.wr.wr.atomic.swap = request.number<std::uint64_t>("swap");
      } else {
        into.wr.wr.atomic.compare_add = request.number<std::uint64_t>("add");
      }
      break;
    default: break;
  }
}

void read_send(Arguments& request, const Qp* qp, SendRequest& into) {
  const ibv_qp_type type = qp != nullptr ? qp->verbs()->qp_type : IBV_QPT_RC;
  ibv_send_wr& wr = into.wr;
  wr.wr_id = request.number_or<std::uint64_t>("wr_id", 0);
  into.opcode = request.choice("opcode", names::opcode);
  wr.opcode = static_cast<ibv_wr_opcode>(into.opcode);
  wr.send_flags = static_cast<unsigned>(request.bits("flags", names::send_flags));
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  into.sges = read_sges(request, is_inline);
  if (is_inline) {
    std::uint64_t length = 0;
    for (const ibv_sge& sge : into.sges) length += sge.length;
    if (qp != nullptr && length > qp->granted.max_inline_data) {
      request.report_error(
          "sges", EINVAL,
          fmt::format("{} inline bytes; the limit of the queue pair is {}", length, qp->granted.max_inline_data));
    }
  }
  if (qp != nullptr && into.sges.size() > qp->granted.max_send_sge) {
    request.report_error(
        "sges", EINVAL,
        fmt::format("{} entries; the limit of the queue pair is {}", into.sges.size(), qp->granted.max_send_sge));
  }
  wr.sg_list = into.sges.data();
  wr.num_sge = static_cast<int>(into.sges.size());

  if (into.opcode == IBV_WR_SEND_WITH_IMM || into.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    wr.imm_data = htobe32(request.number<std::uint32_t>("imm"));
  }
  if (into.opcode == IBV_WR_SEND_WITH_INV || into.opcode == IBV_WR_LOCAL_INV) {
    wr.invalidate_rkey = request.number<std::uint32_t>("invalidate_rkey");
  }
  if (into.opcode == IBV_WR_BIND_MW) {
    const auto* mw = request.object<Mw>("mw");
    const auto* mr = request.maybe_object<Mr>("mr");
    wr.bind_mw.mw = mw != nullptr ? mw->verbs() : nullptr;
    wr.bind_mw.rkey = request.number<std::uint32_t>("new_rkey");
    wr.bind_mw.bind_info.mr = mr != nullptr ? mr->verbs() : nullptr;
    wr.bind_mw.bind_info.addr = request.number_or<std::uint64_t>("addr", mr != nullptr ? mr->iova() : 0);
    wr.bind_mw.bind_info.length = request.number_or<std::uint64_t>("length", mr != nullptr ? mr->length() : 0);
    wr.bind_mw.bind_info.mw_access_flags = static_cast<unsigned>(request.bits("access", names::access));
  }
  if (into.opcode == opcode_atomic_write) {
    into.bytes = request.bytes("bytes", 8);
    if (into.bytes.size() != 8) request.report_error("bytes", EINVAL, "must be eight bytes");
  }
  if (into.opcode == opcode_flush) {
    into.flush_length = request.number<std::uint32_t>("length");
    into.flush_type = static_cast<std::uint8_t>(request.bits("placement", names::flush_type));
    into.flush_level = static_cast<std::uint8_t>(request.choice("selectivity", names::flush_level));
  }
  read_remote(request, into);
  if (type == IBV_QPT_UD) {
    const auto* ah = request.object<Ah>("ah");
    wr.wr.ud.ah = ah != nullptr ? ah->verbs() : nullptr;
    wr.wr.ud.remote_qpn = request.number<std::uint32_t>("remote_qpn");
    wr.wr.ud.remote_qkey = request.number<std::uint32_t>("remote_qkey");
    const bool sends = into.opcode == IBV_WR_SEND || into.opcode == IBV_WR_SEND_WITH_IMM;
    if (!sends) request.report_error("opcode", EINVAL, "must be send or send_imm with UD");
  }
  if (type == IBV_QPT_XRC_SEND) wr.qp_type.xrc.remote_srqn = request.number<std::uint32_t>("remote_srqn");
}

/// True if only the ibv_wr_ calls can post the request.
bool is_extended(const SendRequest& request) {
  return request.opcode == opcode_flush || request.opcode == opcode_atomic_write;
}

int post_extended(const Qp& qp, const SendRequest& request) {
  const std::uint64_t needed = number_of(names::send_ops, name_of(names::opcode, request.opcode)).value_or(0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp.verbs());
  if (extended == nullptr || (qp.send_ops & needed) == 0) return EOPNOTSUPP;
  if (request.opcode == opcode_atomic_write) {
    ibv_wr_start(extended);
    extended->wr_id = request.wr.wr_id;
    extended->wr_flags = request.wr.send_flags;
    ibv_wr_atomic_write(extended, request.wr.wr.rdma.rkey, request.wr.wr.rdma.remote_addr, request.bytes.data());
    return ibv_wr_complete(extended);
  }
#ifdef RDMAWIRE_HAVE_FLUSH
  ibv_wr_start(extended);
  extended->wr_id = request.wr.wr_id;
  extended->wr_flags = request.wr.send_flags;
  ibv_wr_flush(extended, request.wr.wr.rdma.rkey, request.wr.wr.rdma.remote_addr, request.flush_length,
               request.flush_type, request.flush_level);
  return ibv_wr_complete(extended);
#else
  return EOPNOTSUPP;
#endif
}

tl::unexpected<Error> bad_request(std::string_view call, int number, std::size_t index) {
  Error error = verbs_failed(call, number);
  error.message = fmt::format("requests[{}]: {}; the preceding requests were posted", index, error.message);
  return tl::unexpected(std::move(error));
}

Result<Json> post_send(Session&, Arguments& arguments) {
  const auto* qp = arguments.object<Qp>("qp");
  auto given = arguments.inner_list("requests", most_requests);
  std::vector<SendRequest> requests(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) read_send(given[i], qp, requests[i]);
  if (given.empty()) arguments.report_error("requests", EINVAL, "requires at least one entry");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);

  // Sequences of requests for ibv_post_send. Other requests are posted one by one.
  for (std::size_t i = 0; i < requests.size();) {
    if (is_extended(requests[i])) {
      if (const int wrong = post_extended(*qp, requests[i]); wrong != 0) {
        auto error = bad_request("ibv_wr_complete", wrong, i);
        if (wrong == EOPNOTSUPP) {
          error.value().message = fmt::format(
              "requests[{}]: opcode: {} requires support in libibverbs and the driver, and a queue pair created with "
              "it in "
              "send_ops; the preceding requests were posted",
              i, name_of(names::opcode, requests[i].opcode));
        }
        return error;
      }
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    for (; end < requests.size() && !is_extended(requests[end]); ++end) requests[end - 1].wr.next = &requests[end].wr;
    ibv_send_wr* bad = nullptr;
    if (const int wrong = ibv_post_send(qp->verbs(), &requests[i].wr, &bad); wrong != 0) {
      std::size_t index = i;
      while (index + 1 < end && &requests[index].wr != bad) ++index;
      return bad_request("ibv_post_send", wrong, bad == nullptr ? i : index);
    }
    i = end;
  }
  return Json{{"posted", requests.size()}};
}

struct ReceiveRequest {
  ibv_recv_wr wr{};
  std::vector<ibv_sge> sges;
};

Result<Json> post_recv(Session&, Arguments& arguments) {
  const auto* qp = arguments.maybe_object<Qp>("qp");
  const auto* srq = arguments.maybe_object<Srq>("srq");
  if (arguments.has("qp") == arguments.has("srq")) arguments.report_error("qp", EINVAL, "either qp or srq is required");
  auto given = arguments.inner_list("requests", most_requests);
  std::vector<ReceiveRequest> requests(given.size());
  const std::uint32_t most = qp != nullptr ? qp->granted.max_recv_sge : srq != nullptr ? srq->most_sge : 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    ReceiveRequest& into = requests[i];
    into.wr.wr_id = given[i].number_or<std::uint64_t>("wr_id", 0);
    into.sges = read_sges(given[i], false);
    if (into.sges.size() > most) {
      given[i].report_error("sges", EINVAL,
                            fmt::format("{} entries; the limit of the queue is {}", into.sges.size(), most));
    }
    into.wr.sg_list = into.sges.data();
    into.wr.num_sge = static_cast<int>(into.sges.size());
    if (i > 0) requests[i - 1].wr.next = &into.wr;
  }
  if (given.empty()) arguments.report_error("requests", EINVAL, "requires at least one entry");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);

  // A QP with an SRQ has no receive queue, and libraries report that differently.
  if (qp != nullptr && qp->verbs()->srq != nullptr)
    return fail(EINVAL, "qp: {} uses an srq; post to the srq", qp->handle());
  ibv_recv_wr* bad = nullptr;
  const int wrong = qp != nullptr ? ibv_post_recv(qp->verbs(), &requests[0].wr, &bad)
                                  : ibv_post_srq_recv(srq->verbs(), &requests[0].wr, &bad);
  if (wrong != 0) {
    std::size_t index = 0;
    while (index + 1 < requests.size() && &requests[index].wr != bad) ++index;
    return bad_request(qp != nullptr ? "ibv_post_recv" : "ibv_post_srq_recv", wrong, bad == nullptr ? 0 : index);
  }
  return Json{{"posted", requests.size()}};
}

}  // namespace

std::span<const Command> work_commands() {
  static const Command all[] = {
      {"post_send",
       "Posts send requests. If a request is rejected, the preceding ones are posted: the message contains "
       "`requests[2]`. "
       "No request is posted if one is malformed.\n\n"
       "A request has `opcode`: `write`, `write_imm`, `send`, `send_imm`, `send_inv`, `read`, `compare_swap`, "
       "`fetch_add`, `local_inv`, `bind_mw`, `flush`, `atomic_write`, and these members:\n\n"
       "| member | of | |\n|---|---|---|\n"
       "| `wr_id` | all | optional number (default 0) |\n"
       "| `flags` | all | optional list: `signaled`, `solicited`, `fence`, `inline`, `ip_csum` |\n"
       "| `sges` | all | optional list of `{mr, offset, length}` (`offset` 0, `length` to the region's end), or, with "
       "any address and key, `{addr, length, lkey}`. `inline` requires the first form |\n"
       "| `imm` | `send_imm`, `write_imm` | number, in host byte order |\n"
       "| `invalidate_rkey` | `send_inv`, `local_inv` | number |\n"
       "| `remote_addr`, `rkey` | `write`, `write_imm`, `read`, atomics, `flush`, `atomic_write` | numbers |\n"
       "| `compare`, `swap` | `compare_swap` | 64-bit numbers |\n"
       "| `add` | `fetch_add` | 64-bit number |\n"
       "| `mw`, `mr`, `new_rkey`, `addr`, `length`, `access` | `bind_mw` | as for `bind_mw` (unbinds without `mr`) |\n"
       "| `bytes` | `atomic_write` | eight bytes |\n"
       "| `length`, `placement`, `selectivity` | `flush` | bytes, list of `global` and `persistent`, `range` or `mr` "
       "|\n"
       "| `ah`, `remote_qpn`, `remote_qkey` | all, with UD | handle, numbers |\n"
       "| `remote_srqn` | all, with XRC | number |",
       {{"qp", "handle of a queue pair"}, {"requests", "list, 1 to 4096"}},
       {{"posted", "number of posted requests"}},
       R"({"qp":9,"requests":[{"opcode":"write","wr_id":7,"flags":["signaled"],"sges":[{"mr":4,"length":64}],)"
       R"("remote_addr":140216412057600,"rkey":1137}]})",
       R"({"posted":1})",
       &post_send},
      {"post_recv",
       "Posts receive requests to a queue pair or a shared receive queue. A request has `wr_id` (optional number, 0) "
       "and "
       "`sges` (optional, as for `post_send`).",
       {{"qp", "optional handle of a queue pair"},
        {"srq", "optional handle of a shared receive queue (either qp or srq is required)"},
        {"requests", "list, 1 to 4096"}},
       {{"posted", "number of posted requests"}},
       R"({"qp":9,"requests":[{"wr_id":1,"sges":[{"mr":4,"offset":1024,"length":64}]}]})",
       R"({"posted":1})",
       &post_recv},
  };
  return all;
}

}  // namespace rdmawire::agent
