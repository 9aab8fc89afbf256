/// create_srq, modify_srq, query_srq, create_ah, create_qp, modify_qp, query_qp, multicast.

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"
#include "replay/rpc/queue_pair_commands.hpp"

namespace rdmawire::agent {
namespace {

Error invalid_gid(std::string_view path) { return {EINVAL, fmt::format("{}: must be a GID in IPv6 notation", path)}; }

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

/// Converts an address vector for libibverbs. `port`: default of its port. `path`: prefix of member names in errors.
Result<ibv_ah_attr> address_vector(const rpc::AddressVector& request, std::uint8_t port, std::string_view path) {
  ibv_ah_attr address{};
  address.dlid = request.dlid;
  address.sl = request.sl;
  address.src_path_bits = request.src_path_bits;
  address.static_rate = request.static_rate;
  address.port_num = request.port.value_or(port);
  if (!request.grh) return address;
  address.is_global = 1;
  if (inet_pton(AF_INET6, request.grh->dgid.c_str(), address.grh.dgid.raw) != 1)
    return tl::unexpected(invalid_gid(fmt::format("{}grh: dgid", path)));
  address.grh.sgid_index = request.grh->sgid_index;
  address.grh.hop_limit = request.grh->hop_limit;
  address.grh.traffic_class = request.grh->traffic_class;
  address.grh.flow_label = request.grh->flow_label;
  return address;
}

rpc::Capacity capacity_of(const ibv_qp_cap& cap) {
  return {cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data};
}
ibv_qp_cap cap_of(const rpc::Capacity& capacity) {
  return {capacity.max_send_wr, capacity.max_recv_wr, capacity.max_send_sge, capacity.max_recv_sge,
          capacity.max_inline_data};
}

Result<rpc::CreateSrq::Result> create_srq(Session& session, const rpc::CreateSrq& request) {
  const Pd& pd = session.objects().of<Pd>(request.pd);
  ibv_srq_init_attr_ex attributes{};
  attributes.attr = {request.max_wr, request.max_sge, request.limit};
  const bool is_xrc = request.is_xrc();
  const auto* xrcd = is_xrc ? &session.objects().of<Xrcd>(request.xrcd) : nullptr;
  const auto* cq = is_xrc ? &session.objects().of<Cq>(request.cq) : nullptr;

  errno = 0;
  ibv_srq* srq = nullptr;
  std::string_view call = "ibv_create_srq";
  ibv_srq_init_attr basic{nullptr, attributes.attr};
  if (is_xrc) {
    call = "ibv_create_srq_ex";
    attributes.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attributes.srq_type = IBV_SRQT_XRC;
    attributes.pd = pd.verbs();
    attributes.xrcd = xrcd->verbs();
    attributes.cq = cq->verbs();
    srq = ibv_create_srq_ex(pd.verbs()->context, &attributes);
  } else {
    srq = ibv_create_srq(pd.verbs(), &basic);
  }
  if (srq == nullptr) return tl::unexpected(verbs_failed(call, errno));
  const ibv_srq_attr& granted = is_xrc ? attributes.attr : basic.attr;
  const Srq& added = session.objects().add(std::make_unique<Srq>(srq, granted.max_sge), {&pd, xrcd, cq});
  rpc::CreateSrq::Result result{{added.handle()}, granted.max_wr, granted.max_sge, {}};
  std::uint32_t number = 0;
  if (is_xrc && ibv_get_srq_num(srq, &number) == 0) result.srq_num = number;
  return result;
}

Result<rpc::Nothing> modify_srq(Session& session, const rpc::ModifySrq& request) {
  const Srq& srq = session.objects().of<Srq>(request.srq);
  ibv_srq_attr attributes{request.max_wr.value_or(0), 0, request.limit.value_or(0)};
  const int mask = (request.max_wr ? IBV_SRQ_MAX_WR : 0) | (request.limit ? IBV_SRQ_LIMIT : 0);
  if (const int wrong = ibv_modify_srq(srq.verbs(), &attributes, mask); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_modify_srq", wrong));
  }
  return rpc::Nothing();
}

Result<rpc::QuerySrq::Result> query_srq(Session& session, const rpc::QuerySrq& request) {
  ibv_srq_attr attributes{};
  if (const int wrong = ibv_query_srq(session.objects().of<Srq>(request.srq).verbs(), &attributes); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_srq", wrong));
  }
  return rpc::QuerySrq::Result{attributes.max_wr, attributes.max_sge, attributes.srq_limit};
}

void create_ah(Session& session, const rpc::CreateAh& request, const AnswerTo<rpc::CreateAh>& answer) {
  const Pd& pd = session.objects().of<Pd>(request.pd);
  const auto address = address_vector(request, 1, "");
  if (!address) return answer(tl::unexpected(address.error()));
  const auto made = std::make_shared<ibv_ah*>(nullptr);
  // A slow call, because the kernel or the driver resolves the neighbor's MAC address.
  const auto make = [made, verbs = pd.verbs(), to = *address]() mutable {
    errno = 0;
    *made = ibv_create_ah(verbs, &to);
    return *made == nullptr ? errno : 0;
  };
  const auto then = [&session, made, &pd, answer](int number) {
    if (*made == nullptr) return answer(tl::unexpected(verbs_failed("ibv_create_ah", number)));
    answer(rpc::CreateAh::Result{{session.objects().add(std::make_unique<Ah>(*made), {&pd}).handle()}});
  };
  session.make_slow_call({make, then, {pd.handle()}});
}

Result<rpc::CreateQp::Result> create_qp(Session& session, const rpc::CreateQp& request) {
  const Objects& objects = session.objects();
  // XRC target QPs have an XRC domain instead of a PD and CQs.
  const bool receives_xrc = request.is_xrc_target();
  const auto* xrcd = receives_xrc ? &objects.of<Xrcd>(request.xrcd) : nullptr;
  const auto* pd = receives_xrc ? nullptr : &objects.of<Pd>(request.pd);
  const auto* send_cq = receives_xrc ? nullptr : &objects.of<Cq>(request.send_cq);
  const auto* recv_cq = request.is_not_xrc() ? &objects.of<Cq>(request.recv_cq) : nullptr;
  const auto* srq = objects.of<Srq>(request.srq);
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = static_cast<ibv_qp_type>(request.type.value());
  attributes.cap = cap_of(request.capacity());
  attributes.sq_sig_all = request.sq_sig_all ? 1 : 0;
  attributes.send_cq = send_cq != nullptr ? send_cq->verbs() : nullptr;
  attributes.recv_cq = recv_cq != nullptr ? recv_cq->verbs() : nullptr;
  attributes.srq = srq != nullptr ? srq->verbs() : nullptr;
  if (request.create_flags) {
    attributes.create_flags = static_cast<std::uint32_t>(request.create_flags->bits());
    attributes.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  }
  const std::uint64_t send_ops = request.send_ops ? request.send_ops->bits() : 0;
  attributes.send_ops_flags = send_ops;
  if (request.send_ops) attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  ibv_context* context = nullptr;
  if (receives_xrc) {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    attributes.xrcd = xrcd->verbs();
    context = xrcd->verbs()->context;
  } else {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attributes.pd = pd->verbs();
    context = pd->verbs()->context;
  }
  for (const Cq* cq : {send_cq, recv_cq}) {
    if (cq != nullptr && cq->verbs()->context != context) {
      return fail(EINVAL, "cq {} and the protection domain belong to different devices", cq->handle());
    }
  }
  if (srq != nullptr && srq->verbs()->context != context) {
    return fail(EINVAL, "srq {} and the protection domain belong to different devices", srq->handle());
  }
  errno = 0;
  ibv_qp* qp = ibv_create_qp_ex(context, &attributes);
  if (qp == nullptr) {
    return tl::unexpected(
        verbs_failed(attributes.comp_mask == IBV_QP_INIT_ATTR_PD ? "ibv_create_qp" : "ibv_create_qp_ex", errno));
  }
  const Qp& added =
      session.objects().add(std::make_unique<Qp>(qp, attributes.cap, send_ops), {pd, xrcd, send_cq, recv_cq, srq});
  return rpc::CreateQp::Result({added.handle()}, qp->qp_num, capacity_of(attributes.cap));
}

/// Sets the attributes that the request contains, and returns their mask. `attributes` must contain the default port of
/// address vectors.
Result<int> attributes_of(const rpc::ModifyQp& request, ibv_qp_attr& attributes) {
  int mask = 0;
  const auto set = [&mask](auto& member, const auto& value, int bit) {
    if (!value) return;
    member = *value;
    mask |= bit;
  };
  const auto choose = [&mask](auto& member, const auto& choice, int bit) {
    if (!choice) return;
    member = static_cast<std::remove_reference_t<decltype(member)>>(choice->value());
    mask |= bit;
  };
  choose(attributes.qp_state, request.state, IBV_QP_STATE);
  choose(attributes.cur_qp_state, request.cur_state, IBV_QP_CUR_STATE);
  choose(attributes.path_mig_state, request.path_mig_state, IBV_QP_PATH_MIG_STATE);
  set(attributes.pkey_index, request.pkey_index, IBV_QP_PKEY_INDEX);
  set(attributes.port_num, request.port, IBV_QP_PORT);
  set(attributes.qkey, request.qkey, IBV_QP_QKEY);
  set(attributes.timeout, request.timeout, IBV_QP_TIMEOUT);
  set(attributes.retry_cnt, request.retry_cnt, IBV_QP_RETRY_CNT);
  set(attributes.rnr_retry, request.rnr_retry, IBV_QP_RNR_RETRY);
  set(attributes.rq_psn, request.rq_psn, IBV_QP_RQ_PSN);
  set(attributes.sq_psn, request.sq_psn, IBV_QP_SQ_PSN);
  set(attributes.max_rd_atomic, request.max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC);
  set(attributes.max_dest_rd_atomic, request.max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC);
  set(attributes.min_rnr_timer, request.min_rnr_timer, IBV_QP_MIN_RNR_TIMER);
  set(attributes.dest_qp_num, request.dest_qp_num, IBV_QP_DEST_QPN);
  set(attributes.rate_limit, request.rate_limit, IBV_QP_RATE_LIMIT);
  set(attributes.en_sqd_async_notify, request.sqd_async_notify, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  if (request.access) {
    attributes.qp_access_flags = static_cast<unsigned>(request.access->bits());
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  if (request.path_mtu) {
    for (const ibv_mtu code : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
      if (*request.path_mtu == 128U << code) attributes.path_mtu = code;
    }
    if (attributes.path_mtu == 0) return fail(ERANGE, "path_mtu: must be 256, 512, 1024, 2048 or 4096");
    mask |= IBV_QP_PATH_MTU;
  }
  const std::uint8_t port = request.port.value_or(1);
  if (request.ah_attr) {
    const auto address = address_vector(*request.ah_attr, port, "ah_attr: ");
    if (!address) return tl::unexpected(address.error());
    attributes.ah_attr = *address;
    mask |= IBV_QP_AV;
  }
  if (const auto& alternate = request.alt_path) {
    attributes.alt_pkey_index = alternate->pkey_index;
    attributes.alt_port_num = alternate->port.value_or(port);
    attributes.alt_timeout = alternate->timeout;
    const auto address = address_vector(alternate->ah_attr, attributes.alt_port_num, "alt_path: ah_attr: ");
    if (!address) return tl::unexpected(address.error());
    attributes.alt_ah_attr = *address;
    mask |= IBV_QP_ALT_PATH;
  }
  if (request.cap) {
    attributes.cap = cap_of(*request.cap);
    mask |= IBV_QP_CAP;
  }
  return mask;
}

void modify_qp(Session& session, const rpc::ModifyQp& request, const AnswerTo<rpc::ModifyQp>& answer) {
  const Qp& qp = session.objects().of<Qp>(request.qp);
  ibv_qp_attr attributes{};
  const auto mask = attributes_of(request, attributes);
  if (!mask) return answer(tl::unexpected(mask.error()));
  const auto make = [verbs = qp.verbs(), attributes, bits = *mask] {
    ibv_qp_attr changed = attributes;
    return ibv_modify_qp(verbs, &changed, bits);
  };
  const auto then = [&qp, answer](int number) {
    if (number != 0) return answer(tl::unexpected(verbs_failed("ibv_modify_qp", number)));
    answer(rpc::ModifyQp::Result{rpc::Choice<names::qp_state>::of(qp.verbs()->state)});
  };
  // The call is slow if it has an address vector, because the kernel resolves the neighbor's MAC address.
  if ((*mask & (IBV_QP_AV | IBV_QP_ALT_PATH)) != 0) {
    session.make_slow_call({make, then, {qp.handle()}, qp.handle()});
  } else {
    then(make());
  }
}

Result<rpc::QueryQp::Result> query_qp(Session& session, const rpc::QueryQp& request) {
  const Qp& qp = session.objects().of<Qp>(request.qp);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  constexpr int all = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                      IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_DEST_QPN;
  if (const int wrong = ibv_query_qp(qp.verbs(), &a, all, &init); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_qp", wrong));
  }
  using State = rpc::Choice<names::qp_state>;
  rpc::QueryQp::Result result;
  result.qp_num = qp.verbs()->qp_num;
  result.type = rpc::Choice<names::qp_type>::of(qp.verbs()->qp_type);
  result.state = State::of(a.qp_state);
  result.cur_state = State::of(a.cur_qp_state);
  result.path_mtu = a.path_mtu == 0 ? 0U : 128U << (a.path_mtu & 15U);
  result.path_mig_state = rpc::Choice<names::mig_state>::of(a.path_mig_state);
  result.qkey = a.qkey;
  result.rq_psn = a.rq_psn;
  result.sq_psn = a.sq_psn;
  result.dest_qp_num = a.dest_qp_num;
  result.access = rpc::Flags<names::access>::of(a.qp_access_flags);
  result.cap = capacity_of(a.cap);
  result.ah_attr = address_of(a.ah_attr);
  result.alt_path = {address_of(a.alt_ah_attr), a.alt_pkey_index, a.alt_port_num, a.alt_timeout};
  result.pkey_index = a.pkey_index;
  result.sq_draining = a.sq_draining != 0;
  result.max_rd_atomic = a.max_rd_atomic;
  result.max_dest_rd_atomic = a.max_dest_rd_atomic;
  result.min_rnr_timer = a.min_rnr_timer;
  result.port = a.port_num;
  result.timeout = a.timeout;
  result.retry_cnt = a.retry_cnt;
  result.rnr_retry = a.rnr_retry;
  result.rate_limit = a.rate_limit;
  result.sq_sig_all = init.sq_sig_all != 0;
  return result;
}

template <class Request>
Result<rpc::Nothing> multicast(Session& session, const Request& request, std::string_view call,
                               int (*act)(ibv_qp*, const ibv_gid*, std::uint16_t)) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, request.gid.c_str(), gid.raw) != 1) return tl::unexpected(invalid_gid("gid"));
  const int wrong = act(session.objects().of<Qp>(request.qp).verbs(), &gid, request.lid);
  if (wrong != 0) return tl::unexpected(verbs_failed(call, wrong));
  return rpc::Nothing();
}

Result<rpc::Nothing> attach_multicast(Session& session, const rpc::AttachMulticast& request) {
  return multicast(session, request, "ibv_attach_mcast", ibv_attach_mcast);
}

Result<rpc::Nothing> detach_multicast(Session& session, const rpc::DetachMulticast& request) {
  return multicast(session, request, "ibv_detach_mcast", ibv_detach_mcast);
}

}  // namespace

rpc::AddressVector address_of(const ibv_ah_attr& address) {
  rpc::AddressVector report{.dlid = address.dlid,
                            .sl = address.sl,
                            .src_path_bits = address.src_path_bits,
                            .static_rate = address.static_rate,
                            .port = address.port_num,
                            .grh = {}};
  if (address.is_global == 0) return report;
  report.grh = {gid_text(address.grh.dgid), address.grh.sgid_index, address.grh.hop_limit, address.grh.traffic_class,
                address.grh.flow_label};
  return report;
}

std::vector<Handler> queue_pair_handlers() {
  return {handler(create_srq), handler(modify_srq),       handler(query_srq),
          handler(create_ah),  handler(create_qp),        handler(modify_qp),
          handler(query_qp),   handler(attach_multicast), handler(detach_multicast)};
}

}  // namespace rdmawire::agent
