/// Queue pairs, shared receive queues and address handles, as the agent's protocol has them.

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/rpc_handler.hpp"

namespace rdmawire::device {

namespace {

Json path_json(const AddressVector& path) {
  return {{"dlid", 0},
          {"sl", path.sl},
          {"src_path_bits", 0},
          {"static_rate", 0},
          {"port", 1},
          {"grh",
           {{"dgid", gid_text(path.dgid)},
            {"sgid_index", path.sgid_index},
            {"hop_limit", path.hop_limit},
            {"traffic_class", path.traffic_class},
            {"flow_label", path.flow_label}}}};
}

}  // namespace

Result<Json> RpcHandler::open_xrcd(ArgumentReader& given) {
  given.number<std::uint32_t>("device");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto xrcd = device_.open_xrcd();
  if (!xrcd) return tl::unexpected(xrcd.error());
  return Json{{"xrcd", add(Kind::xrcd, *xrcd)}};
}

AddressVector RpcHandler::read_path(ArgumentReader& given) {
  AddressVector path;
  given.maybe<std::uint16_t>("dlid");
  given.maybe<std::uint8_t>("src_path_bits");
  given.maybe<std::uint8_t>("static_rate");
  given.maybe<std::uint8_t>("port", 1, 1);
  path.sl = given.number_or<std::uint8_t>("sl", 0, 0, 15);
  if (!given.has("grh")) given.report_error("grh", EINVAL, "is needed on Ethernet");
  given.inner("grh", [&](ArgumentReader& grh) {
    path.dgid = grh.gid("dgid");
    path.sgid_index = grh.number<std::uint8_t>("sgid_index");
    path.hop_limit = grh.number_or<std::uint8_t>("hop_limit", 64);
    path.traffic_class = grh.number_or<std::uint8_t>("traffic_class", 0);
    path.flow_label = grh.number_or<std::uint32_t>("flow_label", 0, 0, 0xFFFFF);
  });
  return path;
}

Result<Json> RpcHandler::create_srq(ArgumentReader& given) {
  const auto pd = given.number<std::uint32_t>("pd");
  const auto most = given.number<std::uint32_t>("max_wr");
  const auto sges = given.number_or<std::uint32_t>("max_sge", 1);
  const auto limit = given.number_or<std::uint32_t>("limit", 0);
  const bool xrc = given.maybe_choice("type", names::srq_type).value_or(0) == 1;
  const auto xrcd = xrc ? given.number<std::uint32_t>("xrcd") : 0;
  const auto cq = xrc ? given.number<std::uint32_t>("cq") : 0;
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto srq = device_.create_srq(pd, most, sges, limit, xrcd, cq);
  if (!srq) return tl::unexpected(srq.error());
  Json result = {{"srq", add(Kind::srq, *srq)}, {"max_wr", most}, {"max_sge", sges}};
  if (xrc) result["srq_num"] = device_.srq(*srq)->number;
  return result;
}

Result<Json> RpcHandler::modify_srq(ArgumentReader& given) {
  const auto srq = given.number<std::uint32_t>("srq");
  const auto limit = given.maybe<std::uint32_t>("limit");
  const bool resizes = given.maybe<std::uint32_t>("max_wr").has_value();
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (resizes) return tl::unexpected(Error{EOPNOTSUPP, "max_wr: the reference device does not resize"});
  if (auto done = device_.modify_srq(srq, limit.value_or(0)); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> RpcHandler::query_srq(ArgumentReader& given) {
  const auto handle = given.number<std::uint32_t>("srq");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const SharedReceiveQueue* srq = device_.srq(handle);
  if (!srq) return tl::unexpected(Error{ENOENT, fmt::format("srq: there is no {}", handle)});
  return Json{{"max_wr", srq->capacity}, {"max_sge", srq->most_sges}, {"limit", srq->limit}};
}

Result<Json> RpcHandler::create_ah(ArgumentReader& given) {
  const auto pd = given.number<std::uint32_t>("pd");
  const AddressVector path = read_path(given);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto ah = device_.create_ah(pd, path);
  if (!ah) return tl::unexpected(ah.error());
  return Json{{"ah", add(Kind::ah, *ah)}};
}

Result<Json> RpcHandler::create_qp(ArgumentReader& given) {
  QueuePairOptions options;
  const auto type = given.maybe_choice("type", names::qp_type);
  if (!type) given.report_error("type", EINVAL, "is needed");
  options.type = static_cast<QpType>(type.value_or(0));
  const bool target = options.type == QpType::xrc_target, initiator = options.type == QpType::xrc_initiator;
  if (target) options.xrcd = given.number<std::uint32_t>("xrcd");
  if (!target) options.pd = given.number<std::uint32_t>("pd");
  if (!target) options.send_cq = given.number<std::uint32_t>("send_cq");
  if (!target && !initiator) options.recv_cq = given.number<std::uint32_t>("recv_cq");
  if (!target) options.srq = given.number_or<std::uint32_t>("srq", 0);
  const bool receives = !target && !initiator && options.srq == 0;
  options.max_send_wr = given.number_or<std::uint32_t>("max_send_wr", target ? 0 : 16);
  options.max_recv_wr = given.number_or<std::uint32_t>("max_recv_wr", receives ? 16 : 0);
  options.max_send_sge = given.number_or<std::uint32_t>("max_send_sge", target ? 0 : 1);
  options.max_recv_sge = given.number_or<std::uint32_t>("max_recv_sge", receives ? 1 : 0);
  options.max_inline = given.number_or<std::uint32_t>("max_inline_data", 0);
  options.all_signaled = given.boolean_or("sq_sig_all", false);
  given.maybe_bits("send_ops", names::send_ops);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  // ATOMIC WRITE takes its eight bytes along with the request.
  const auto qp = device_.create_qp(options);
  if (!qp) return tl::unexpected(qp.error());
  return Json{{"qp", add(Kind::qp, *qp)},
              {"qp_num", device_.qp(*qp)->qpn},
              {"max_send_wr", options.max_send_wr},
              {"max_recv_wr", options.max_recv_wr},
              {"max_send_sge", options.max_send_sge},
              {"max_recv_sge", options.max_recv_sge},
              {"max_inline_data", options.max_inline}};
}

Result<Json> RpcHandler::modify_qp(ArgumentReader& given) {
  const auto handle = given.number<std::uint32_t>("qp");
  QueuePairChange change;
  const auto state = [&](const char* name) -> std::optional<QpState> {
    const auto value = given.maybe_choice(name, names::qp_state);
    return value ? std::optional(static_cast<QpState>(*value)) : std::nullopt;
  };
  change.state = state("state");
  change.current = state("cur_state");
  given.maybe_choice("path_mig_state", names::mig_state);
  change.pkey_index = given.maybe<std::uint16_t>("pkey_index");
  change.port = given.maybe<std::uint8_t>("port");
  change.qkey = given.maybe<std::uint32_t>("qkey");
  change.timeout = given.maybe<std::uint8_t>("timeout");
  change.retry_count = given.maybe<std::uint8_t>("retry_cnt");
  change.rnr_retry = given.maybe<std::uint8_t>("rnr_retry");
  change.rq_psn = given.maybe<std::uint32_t>("rq_psn");
  change.sq_psn = given.maybe<std::uint32_t>("sq_psn");
  change.max_rd_atomic = given.maybe<std::uint8_t>("max_rd_atomic");
  change.max_dest_rd_atomic = given.maybe<std::uint8_t>("max_dest_rd_atomic");
  change.min_rnr_timer = given.maybe<std::uint8_t>("min_rnr_timer");
  change.dest_qpn = given.maybe<std::uint32_t>("dest_qp_num");
  change.path_mtu = given.maybe<std::uint32_t>("path_mtu");
  if (given.has("sqd_async_notify")) change.sqd_notify = given.boolean_or("sqd_async_notify", false);
  if (const auto rights = given.maybe_bits("access", names::access))
    change.access = static_cast<std::uint32_t>(*rights);
  given.inner("ah_attr", [&](ArgumentReader& part) { change.path = read_path(part); });
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (auto done = device_.modify_qp(handle, change); !done) return tl::unexpected(done.error());
  return Json{{"state", names::name_of(names::qp_state, static_cast<unsigned>(device_.qp(handle)->state))}};
}

Result<Json> RpcHandler::query_qp(ArgumentReader& given) {
  const auto handle = given.number<std::uint32_t>("qp");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const QueuePair* qp = device_.qp(handle);
  if (!qp) return tl::unexpected(Error{ENOENT, fmt::format("qp: there is no {}", handle)});
  const QueuePairAttributes& a = qp->attributes;
  const std::string state = names::name_of(names::qp_state, static_cast<unsigned>(qp->state));
  return Json{{"qp_num", qp->qpn},
              {"type", names::name_of(names::qp_type, static_cast<unsigned>(qp->options.type))},
              {"state", state},
              {"cur_state", state},
              {"path_mtu", a.path_mtu},
              {"path_mig_state", "migrated"},
              {"qkey", a.qkey},
              {"rq_psn", a.rq_psn},
              {"sq_psn", a.sq_psn},
              {"dest_qp_num", a.dest_qpn},
              {"access", names::names_of_bits(names::access, a.access)},
              {"cap",
               {{"max_send_wr", qp->options.max_send_wr},
                {"max_recv_wr", qp->options.max_recv_wr},
                {"max_send_sge", qp->options.max_send_sge},
                {"max_recv_sge", qp->options.max_recv_sge},
                {"max_inline_data", qp->options.max_inline}}},
              {"ah_attr", path_json(a.path)},
              {"pkey_index", a.pkey_index},
              {"sq_draining", qp->state == QpState::sqd && !qp->requester.drained_told},
              {"max_rd_atomic", a.max_rd_atomic},
              {"max_dest_rd_atomic", a.max_dest_rd_atomic},
              {"min_rnr_timer", a.min_rnr_timer},
              {"port", a.port},
              {"timeout", a.timeout},
              {"retry_cnt", a.retry_count},
              {"rnr_retry", a.rnr_retry},
              {"rate_limit", 0},
              {"sq_sig_all", qp->options.all_signaled}};
}

Result<Json> RpcHandler::attach_multicast(ArgumentReader& given) {
  const auto qp = given.number<std::uint32_t>("qp");
  const Gid gid = given.gid("gid");
  given.maybe<std::uint16_t>("lid");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (auto done = device_.attach_mcast(qp, gid); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> RpcHandler::detach_multicast(ArgumentReader& given) {
  const auto qp = given.number<std::uint32_t>("qp");
  const Gid gid = given.gid("gid");
  given.maybe<std::uint16_t>("lid");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (auto done = device_.detach_mcast(qp, gid); !done) return tl::unexpected(done.error());
  return Json::object();
}

}  // namespace rdmawire::device
