/// Agent commands for queue pairs, SRQs and address handles.

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/rpc_handler.hpp"

namespace rdmawire::device {

namespace {

rpc::AddressVector address_of(const AddressVector& path) {
  return {.sl = path.sl,
          .port = 1,
          .grh = rpc::GlobalRoute{.dgid = gid_text(path.dgid),
                                  .sgid_index = path.sgid_index,
                                  .hop_limit = path.hop_limit,
                                  .traffic_class = path.traffic_class,
                                  .flow_label = path.flow_label}};
}

Result<AddressVector> path_of(const rpc::AddressVector& address) {
  if (address.port.value_or(1) != 1) return refuse(ERANGE, fmt::format("port: must be 1, not {}", *address.port));
  if (!address.grh) return refuse(EINVAL, "grh: is required on Ethernet");
  const auto dgid = gid_of(address.grh->dgid, "grh: dgid");
  if (!dgid) return tl::unexpected(dgid.error());
  AddressVector path;
  path.sl = address.sl;
  path.dgid = *dgid;
  path.sgid_index = address.grh->sgid_index;
  path.hop_limit = address.grh->hop_limit;
  path.traffic_class = address.grh->traffic_class;
  path.flow_label = address.grh->flow_label;
  return path;
}

}  // namespace

Result<rpc::OpenXrcd::Result> RpcHandler::open_xrcd(const rpc::OpenXrcd&) {
  const auto xrcd = device_.open_xrcd();
  if (!xrcd) return tl::unexpected(xrcd.error());
  return rpc::OpenXrcd::Result{{add(Kind::xrcd, *xrcd)}};
}

Result<rpc::CreateSrq::Result> RpcHandler::create_srq(const rpc::CreateSrq& request) {
  const auto srq = device_.create_srq(number_of(request.pd), request.max_wr, request.max_sge, request.limit,
                                      number_of(request.xrcd), number_of(request.cq));
  if (!srq) return tl::unexpected(srq.error());
  rpc::CreateSrq::Result result{.srq = {add(Kind::srq, *srq)}, .max_wr = request.max_wr, .max_sge = request.max_sge};
  if (request.is_xrc()) result.srq_num = device_.srq(*srq)->number;
  return result;
}

Result<rpc::Nothing> RpcHandler::modify_srq(const rpc::ModifySrq& request) {
  if (request.max_wr) return refuse(EOPNOTSUPP, "max_wr: the reference device cannot resize an SRQ");
  return nothing(device_.modify_srq(number_of(request.srq), request.limit.value_or(0)));
}

Result<rpc::QuerySrq::Result> RpcHandler::query_srq(const rpc::QuerySrq& request) {
  const SharedReceiveQueue* srq = device_.srq(number_of(request.srq));
  if (!srq) return refuse(ENOENT, fmt::format("srq: unknown handle {}", request.srq.number));
  return rpc::QuerySrq::Result{static_cast<std::uint32_t>(srq->capacity), static_cast<std::uint32_t>(srq->most_sges),
                               static_cast<std::uint32_t>(srq->limit)};
}

Result<rpc::CreateAh::Result> RpcHandler::create_ah(const rpc::CreateAh& request) {
  const auto path = path_of(request);
  if (!path) return tl::unexpected(path.error());
  const auto ah = device_.create_ah(number_of(request.pd), *path);
  if (!ah) return tl::unexpected(ah.error());
  return rpc::CreateAh::Result{{add(Kind::ah, *ah)}};
}

Result<rpc::CreateQp::Result> RpcHandler::create_qp(const rpc::CreateQp& request) {
  if (request.create_flags) return refuse(EOPNOTSUPP, "create_flags: not supported by the reference device");
  const rpc::Capacity capacity = request.capacity();
  QueuePairOptions options;
  options.type = static_cast<QpType>(number_of(names::qp_type, request.type.name).value_or(0));
  options.xrcd = number_of(request.xrcd);
  options.pd = number_of(request.pd);
  options.send_cq = number_of(request.send_cq);
  options.recv_cq = number_of(request.recv_cq);
  options.srq = number_of(request.srq);
  options.max_send_wr = capacity.max_send_wr;
  options.max_recv_wr = capacity.max_recv_wr;
  options.max_send_sge = capacity.max_send_sge;
  options.max_recv_sge = capacity.max_recv_sge;
  options.max_inline = capacity.max_inline_data;
  options.all_signaled = request.sq_sig_all;
  const auto qp = device_.create_qp(options);
  if (!qp) return tl::unexpected(qp.error());
  return rpc::CreateQp::Result({add(Kind::qp, *qp)}, device_.qp(*qp)->qpn, capacity);
}

Result<rpc::ModifyQp::Result> RpcHandler::modify_qp(const rpc::ModifyQp& request) {
  if (request.alt_path || request.cap || request.rate_limit)
    return refuse(EOPNOTSUPP, "alt_path, cap, rate_limit: not supported by the reference device");
  const std::uint32_t handle = number_of(request.qp);
  const auto state = [](const std::optional<rpc::Choice<rpc::names::qp_state>>& choice) {
    return choice ? std::optional(static_cast<QpState>(choice->value())) : std::nullopt;
  };
  QueuePairChange change;
  change.state = state(request.state);
  change.current = state(request.cur_state);
  change.pkey_index = request.pkey_index;
  change.port = request.port;
  change.qkey = request.qkey;
  change.timeout = request.timeout;
  change.retry_count = request.retry_cnt;
  change.rnr_retry = request.rnr_retry;
  change.rq_psn = request.rq_psn;
  change.sq_psn = request.sq_psn;
  change.max_rd_atomic = request.max_rd_atomic;
  change.max_dest_rd_atomic = request.max_dest_rd_atomic;
  change.min_rnr_timer = request.min_rnr_timer;
  change.dest_qpn = request.dest_qp_num;
  change.path_mtu = request.path_mtu;
  change.sqd_notify = request.sqd_async_notify;
  if (request.access) {
    const auto rights = rights_of(*request.access);
    if (!rights) return tl::unexpected(rights.error());
    change.access = *rights;
  }
  if (request.ah_attr) {
    const auto path = path_of(*request.ah_attr);
    if (!path) return refuse(path.error().number, "ah_attr: " + path.error().message);
    change.path = *path;
  }
  if (auto done = device_.modify_qp(handle, change); !done) return tl::unexpected(done.error());
  return rpc::ModifyQp::Result{rpc::Choice<rpc::names::qp_state>::of(static_cast<unsigned>(device_.qp(handle)->state))};
}

Result<rpc::QueryQp::Result> RpcHandler::query_qp(const rpc::QueryQp& request) {
  const QueuePair* qp = device_.qp(number_of(request.qp));
  if (!qp) return refuse(ENOENT, fmt::format("qp: unknown handle {}", request.qp.number));
  const QueuePairAttributes& a = qp->attributes;
  rpc::QueryQp::Result report;
  report.qp_num = qp->qpn;
  report.type = names::name_of(names::qp_type, static_cast<unsigned>(qp->options.type));
  report.state = decltype(report.state)::of(static_cast<unsigned>(qp->state));
  report.cur_state = report.state;
  report.path_mtu = a.path_mtu;
  report.path_mig_state = "migrated";
  report.qkey = a.qkey;
  report.rq_psn = a.rq_psn;
  report.sq_psn = a.sq_psn;
  report.dest_qp_num = a.dest_qpn;
  report.access = rpc::Flags<rpc::names::access>::of(a.access);
  report.cap = {qp->options.max_send_wr, qp->options.max_recv_wr, qp->options.max_send_sge, qp->options.max_recv_sge,
                qp->options.max_inline};
  report.ah_attr = address_of(a.path);
  report.pkey_index = a.pkey_index;
  report.sq_draining = qp->state == QpState::sqd && !qp->requester.drained_reported;
  report.max_rd_atomic = a.max_rd_atomic;
  report.max_dest_rd_atomic = a.max_dest_rd_atomic;
  report.min_rnr_timer = a.min_rnr_timer;
  report.port = a.port;
  report.timeout = a.timeout;
  report.retry_cnt = a.retry_count;
  report.rnr_retry = a.rnr_retry;
  report.rate_limit = 0;
  report.sq_sig_all = qp->options.all_signaled;
  return report;
}

Result<rpc::Nothing> RpcHandler::attach_multicast(const rpc::AttachMulticast& request) {
  const auto gid = gid_of(request.gid, "gid");
  if (!gid) return tl::unexpected(gid.error());
  return nothing(device_.attach_mcast(number_of(request.qp), *gid));
}

Result<rpc::Nothing> RpcHandler::detach_multicast(const rpc::DetachMulticast& request) {
  const auto gid = gid_of(request.gid, "gid");
  if (!gid) return tl::unexpected(gid.error());
  return nothing(device_.detach_mcast(number_of(request.qp), *gid));
}

}  // namespace rdmawire::device
