/// post_send, post_recv.

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <list>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"
#include "replay/rpc/range.hpp"
#include "replay/rpc/work_commands.hpp"

namespace rdmawire::agent {
namespace {

/// Converts work requests of the controller for libibverbs, and stores the first error.
class Converter {
 public:
  explicit Converter(const Objects& objects) : objects_(&objects) {}

  void start(std::size_t index) { path_ = fmt::format("requests[{}]: ", index); }
  void report_error(const Error& error) {
    if (!error_) error_ = Error{error.number, path_ + error.message};
  }
  void report_error(std::string_view name, int number, std::string_view what) {
    report_error({number, fmt::format("{}: {}", name, what)});
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  /// libibverbs copies inline data from this process without a key check. Therefore the address is computed here, from
  /// a region and an offset, and not chosen by the controller.
  std::vector<ibv_sge> sges(const std::vector<rpc::Sge>& given, bool is_inline);
  void limit_sges(std::size_t count, std::uint32_t most, std::string_view what) {
    if (count > most)
      report_error("sges", EINVAL, fmt::format("{} entries; the limit of the {} is {}", count, what, most));
  }
  /// The value of a member that this request must have.
  template <class T>
  T mandatory(const std::optional<T>& value, std::string_view name) {
    if (!value) report_error(name, EINVAL, "missing required argument");
    return value.value_or(T());
  }
  /// A member that this request must not have.
  template <class T>
  void absent(const std::optional<T>& value, std::string_view name, std::string_view condition) {
    if (value) report_error(name, EINVAL, condition);
  }
  [[nodiscard]] const Objects& objects() const { return *objects_; }

 private:
  const Objects* objects_;
  std::string path_;
  std::optional<Error> error_;
};

std::vector<ibv_sge> Converter::sges(const std::vector<rpc::Sge>& given, bool is_inline) {
  std::vector<ibv_sge> sges;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const rpc::Sge& entry = given[i];
    const auto wrong = [&](std::string_view name, int number, std::string_view what) {
      report_error(fmt::format("sges[{}]: {}", i, name), number, what);
    };
    ibv_sge sge{};
    if (const auto* mr = objects_->of<Mr>(entry.mr)) {
      const auto range = rpc::range_of(entry.offset, entry.length, mr->length());
      if (!range) {
        report_error(fmt::format("sges[{}]", i), range.error().number, range.error().message);
        return sges;
      }
      sge.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(range->length, UINT32_MAX));
      sge.addr = (is_inline ? reinterpret_cast<std::uintptr_t>(mr->memory()) : mr->iova()) + range->offset;
      sge.lkey = mr->verbs()->lkey;
    } else {
      if (!entry.length) wrong("length", EINVAL, "missing required argument");
      if (is_inline) wrong("addr", EINVAL, "inline requires entries of the form mr, offset, length");
      sge = {entry.addr, entry.length.value_or(0), entry.lkey};
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
  const rpc::SendRequest* request = nullptr;
};

void convert_send(Converter& convert, const rpc::SendRequest& request, const Qp& qp, SendRequest& into) {
  const ibv_qp_type type = qp.verbs()->qp_type;
  ibv_send_wr& wr = into.wr;
  into.request = &request;
  into.opcode = request.opcode.value();
  wr.wr_id = request.wr_id;
  wr.opcode = static_cast<ibv_wr_opcode>(into.opcode);
  wr.send_flags = static_cast<unsigned>(request.flags.bits());
  if (request.is_reg_mr()) convert.report_error("opcode", EOPNOTSUPP, "reg_mr is supported only by reference devices");
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  into.sges = convert.sges(request.sges, is_inline);
  if (is_inline) {
    std::uint64_t length = 0;
    for (const ibv_sge& sge : into.sges) length += sge.length;
    if (length > qp.granted.max_inline_data) {
      convert.report_error(
          "sges", EINVAL,
          fmt::format("{} inline bytes; the limit of the queue pair is {}", length, qp.granted.max_inline_data));
    }
  }
  convert.limit_sges(into.sges.size(), qp.granted.max_send_sge, "queue pair");
  wr.sg_list = into.sges.data();
  wr.num_sge = static_cast<int>(into.sges.size());

  if (request.has_immediate()) {
    if (request.imm > UINT32_MAX) convert.report_error(rpc::out_of_range("imm", 0, UINT32_MAX, request.imm));
    wr.imm_data = htobe32(static_cast<std::uint32_t>(request.imm));
  }
  if (request.invalidates()) wr.invalidate_rkey = request.invalidate_rkey;
  if (request.is_bind_mw()) {
    wr.bind_mw.mw = convert.objects().of<Mw>(request.mw).verbs();
    wr.bind_mw.rkey = request.new_rkey;
    wr.bind_mw.bind_info =
        bind_info(convert.objects().of<Mr>(request.mr), request.addr, request.length, request.access.bits());
  } else if (request.is_compare_swap()) {
    wr.wr.atomic = {request.remote_addr, request.compare, request.swap, request.rkey};
  } else if (request.is_fetch_add()) {
    wr.wr.atomic = {request.remote_addr, request.add, 0, request.rkey};
  } else if (request.is_remote()) {
    wr.wr.rdma = {request.remote_addr, request.rkey};
  }
  if (request.is_flush()) {
    const auto length = convert.mandatory(request.length, "length");
    if (length > UINT32_MAX) convert.report_error(rpc::out_of_range("length", 0, UINT32_MAX, length));
  }
  if (type == IBV_QPT_UD) {
    wr.wr.ud.ah = nullptr;
    if (const auto* ah = convert.objects().of<Ah>(request.ah)) {
      wr.wr.ud.ah = ah->verbs();
    } else {
      convert.report_error("ah", EINVAL, "missing required argument");
    }
    wr.wr.ud.remote_qpn = convert.mandatory(request.remote_qpn, "remote_qpn");
    wr.wr.ud.remote_qkey = convert.mandatory(request.remote_qkey, "remote_qkey");
    if (request.opcode.name != "send" && request.opcode.name != "send_imm")
      convert.report_error("opcode", EINVAL, "must be send or send_imm with UD");
  } else {
    convert.absent(request.ah, "ah", "only with UD");
    convert.absent(request.remote_qpn, "remote_qpn", "only with UD");
    convert.absent(request.remote_qkey, "remote_qkey", "only with UD");
  }
  if (type == IBV_QPT_XRC_SEND) {
    wr.qp_type.xrc.remote_srqn = convert.mandatory(request.remote_srqn, "remote_srqn");
  } else {
    convert.absent(request.remote_srqn, "remote_srqn", "only with XRC");
  }
}

/// True if only the ibv_wr_ calls can post the request.
bool is_extended(const SendRequest& request) {
  return request.request->is_flush() || request.request->is_atomic_write();
}

int post_extended(const Qp& qp, const SendRequest& sent) {
  const rpc::SendRequest& request = *sent.request;
  const std::uint64_t needed = number_of(names::send_ops, request.opcode.name).value_or(0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp.verbs());
  if (extended == nullptr || (qp.send_ops & needed) == 0) return EOPNOTSUPP;
  if (request.is_atomic_write()) {
    ibv_wr_start(extended);
    extended->wr_id = sent.wr.wr_id;
    extended->wr_flags = sent.wr.send_flags;
    ibv_wr_atomic_write(extended, request.rkey, request.remote_addr, request.bytes.data());
    return ibv_wr_complete(extended);
  }
#ifdef RDMAWIRE_HAVE_FLUSH
  ibv_wr_start(extended);
  extended->wr_id = sent.wr.wr_id;
  extended->wr_flags = sent.wr.send_flags;
  ibv_wr_flush(extended, request.rkey, request.remote_addr, *request.length,
               static_cast<std::uint8_t>(request.placement.bits()),
               static_cast<std::uint8_t>(request.selectivity.value()));
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

Result<rpc::PostSend::Result> post_send(Session& session, const rpc::PostSend& request) {
  const Qp& qp = session.objects().of<Qp>(request.qp);
  Converter convert(session.objects());
  std::vector<SendRequest> requests(request.requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    convert.start(i);
    convert_send(convert, request.requests[i], qp, requests[i]);
  }
  if (convert.error()) return tl::unexpected(*convert.error());

  // Post consecutive requests for ibv_post_send together, and the others one by one.
  for (std::size_t i = 0; i < requests.size();) {
    if (is_extended(requests[i])) {
      if (const int wrong = post_extended(qp, requests[i]); wrong != 0) {
        auto error = bad_request("ibv_wr_complete", wrong, i);
        if (wrong == EOPNOTSUPP) {
          error.value().message = fmt::format(
              "requests[{}]: opcode: {} requires support in libibverbs and the driver, and a queue pair created with "
              "it in send_ops; the preceding requests were posted",
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
    if (const int wrong = ibv_post_send(qp.verbs(), &requests[i].wr, &bad); wrong != 0) {
      std::size_t index = i;
      while (index + 1 < end && &requests[index].wr != bad) ++index;
      return bad_request("ibv_post_send", wrong, bad == nullptr ? i : index);
    }
    i = end;
  }
  return rpc::PostSend::Result{requests.size()};
}

struct ReceiveRequest {
  ibv_recv_wr wr{};
  std::vector<ibv_sge> sges;
};

Result<rpc::PostRecv::Result> post_recv(Session& session, const rpc::PostRecv& request) {
  const auto* qp = session.objects().of<Qp>(request.qp);
  const auto* srq = session.objects().of<Srq>(request.srq);
  if ((qp != nullptr) == (srq != nullptr)) return fail(EINVAL, "qp: either qp or srq is required");
  Converter convert(session.objects());
  std::vector<ReceiveRequest> requests(request.requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ReceiveRequest& into = requests[i];
    convert.start(i);
    into.wr.wr_id = request.requests[i].wr_id;
    into.sges = convert.sges(request.requests[i].sges, false);
    convert.limit_sges(into.sges.size(), qp != nullptr ? qp->granted.max_recv_sge : srq->most_sge, "queue");
    into.wr.sg_list = into.sges.data();
    into.wr.num_sge = static_cast<int>(into.sges.size());
    if (i > 0) requests[i - 1].wr.next = &into.wr;
  }
  if (convert.error()) return tl::unexpected(*convert.error());

  // A QP with an SRQ has no receive queue. Check this here, because drivers return different errors for it.
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
  return rpc::PostRecv::Result{requests.size()};
}

}  // namespace

std::vector<Handler> work_handlers() { return {handler(post_send), handler(post_recv)}; }

}  // namespace rdmawire::agent
