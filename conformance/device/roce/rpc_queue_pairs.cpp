/// Agent commands for queue pairs, SRQs and address handles.

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

Result<Json> RpcHandler::open_xrcd(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto xrcd = device_.open_xrcd();
  if (!xrcd) return tl::unexpected(xrcd.error());
  return Json{{"xrcd", add(Kind::xrcd, *xrcd)}};
}

AddressVector RpcHandler::read_path(ArgumentReader& arguments) {
  AddressVector path;
  arguments.optional_number<std::uint16_t>("dlid");
  arguments.optional_number<std::uint8_t>("src_path_bits");
  arguments.optional_number<std::uint8_t>("static_rate");
  arguments.optional_number<std::uint8_t>("port", 1, 1);
  path.sl = arguments.number_or<std::uint8_t>("sl", 0, 0, 15);
  if (!arguments.has("grh")) arguments.report_error("grh", EINVAL, "is required on Ethernet");
  arguments.inner("grh", [&](ArgumentReader& grh) {
    path.dgid = grh.gid("dgid");
    path.sgid_index = grh.number<std::uint8_t>("sgid_index");
    path.hop_limit = grh.number_or<std::uint8_t>("hop_limit", 64);
    path.traffic_class = grh.number_or<std::uint8_t>("traffic_class", 0);
    path.flow_label = grh.number_or<std::uint32_t>("flow_label", 0, 0, 0xFFFFF);
  });
  return path;
}

Result<Json> RpcHandler::create_srq(ArgumentReader& arguments) {
  const auto pd = arguments.number<std::uint32_t>("pd");
  const auto most = arguments.number<std::uint32_t>("max_wr");
  const auto sges = arguments.number_or<std::uint32_t>("max_sge", 1);
  const auto limit = arguments.number_or<std::uint32_t>("limit", 0);
  const bool xrc = arguments.optional_choice("type", names::srq_type).value_or(0) == 1;
  const auto xrcd = xrc ? arguments.number<std::uint32_t>("xrcd") : 0;
  const auto cq = xrc ? arguments.number<std::uint32_t>("cq") : 0;
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto srq = device_.create_srq(pd, most, sges, limit, xrcd, cq);
  if (!srq) return tl::unexpected(srq.error());
  Json result = {{"srq", add(Kind::srq, *srq)}, {"max_wr", most}, {"max_sge", sges}};
  if (xrc) result["srq_num"] = device_.srq(*srq)->number;
  return result;
}

Result<Json> RpcHandler::modify_srq(ArgumentReader& arguments) {
  const auto srq = arguments.number<std::uint32_t>("srq");
  const auto limit = arguments.optional_number<std::uint32_t>("limit");
  const bool resizes = arguments.optional_number<std::uint32_t>("max_wr").has_value();
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (resizes) return tl::unexpected(Error{EOPNOTSUPP, "max_wr: the reference device cannot resize an SRQ"});
  if (auto done = device_.modify_srq(srq, limit.value_or(0)); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> RpcHandler::query_srq(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("srq");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const SharedReceiveQueue* srq = device_.srq(handle);
  if (!srq) return tl::unexpected(Error{ENOENT, fmt::format("srq: unknown handle {}", handle)});
  return Json{{"max_wr", srq->capacity}, {"max_sge", srq->most_sges}, {"limit", srq->limit}};
}

Result<Json> RpcHandler::create_ah(ArgumentReader& arguments) {
  const auto pd = arguments.number<std::uint32_t>("pd");
  const AddressVector path = read_path(arguments);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto ah = device_.create_ah(pd, path);
  if (!ah) return tl::unexpected(ah.error());
  return Json{{"ah", add(Kind::ah, *ah)}};
}

Result<Json> RpcHandler::create_qp(ArgumentReader& arguments) {
  QueuePairOptions options;
  const auto type = arguments.optional_choice("type", names::qp_type);
  if (!type) arguments.report_error("type", EINVAL, "is required");
  options.type = static_cast<QpType>(type.value_or(0));
  const bool target = options.type == QpType::xrc_target, initiator = options.type == QpType::xrc_initiator;
  if (target) options.xrcd = arguments.number<std::uint32_t>("xrcd");
  if (!target) options.pd = arguments.number<std::uint32_t>("pd");
  if (!target) options.send_cq = arguments.number<std::uint32_t>("send_cq");
  if (!target && !initiator) options.recv_cq = arguments.number<std::uint32_t>("recv_cq");
  if (!target) options.srq = arguments.number_or<std::uint32_t>("srq", 0);
  const bool receives = !target && !initiator && options.srq == 0;
  options.max_send_wr = arguments.number_or<std::uint32_t>("max_send_wr", target ? 0 : 16);
  options.max_recv_wr = arguments.number_or<std::uint32_t>("max_recv_wr", receives ? 16 : 0);
  options.max_send_sge = arguments.number_or<std::uint32_t>("max_send_sge", target ? 0 : 1);
  options.max_recv_sge = arguments.number_or<std::uint32_t>("max_recv_sge", receives ? 1 : 0);
  options.max_inline = arguments.number_or<std::uint32_t>("max_inline_data", 0);
  options.all_signaled = arguments.boolean_or("sq_sig_all", false);
  arguments.optional_bits("send_ops", names::send_ops);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
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

Result<Json> RpcHandler::modify_qp(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("qp");
  QueuePairChange change;
  const auto state = [&](const char* name) -> std::optional<QpState> {
    const auto value = arguments.optional_choice(name, names::qp_state);
    return value ? std::optional(static_cast<QpState>(*value)) : std::nullopt;
  };
  change.state = state("state");
  change.current = state("cur_state");
  arguments.optional_choice("path_mig_state", names::mig_state);
  change.pkey_index = arguments.optional_number<std::uint16_t>("pkey_index");
  change.port = arguments.optional_number<std::uint8_t>("port");
  change.qkey = arguments.optional_number<std::uint32_t>("qkey");
  change.timeout = arguments.optional_number<std::uint8_t>("timeout");
  change.retry_count = arguments.optional_number<std::uint8_t>("retry_cnt");
  change.rnr_retry = arguments.optional_number<std::uint8_t>("rnr_retry");
  change.rq_psn = arguments.optional_number<std::uint32_t>("rq_psn");
  change.sq_psn = arguments.optional_number<std::uint32_t>("sq_psn");
  change.max_rd_atomic = arguments.optional_number<std::uint8_t>("max_rd_atomic");
  change.max_dest_rd_atomic = arguments.optional_number<std::uint8_t>("max_dest_rd_atomic");
  change.min_rnr_timer = arguments.optional_number<std::uint8_t>("min_rnr_timer");
  change.dest_qpn = arguments.optional_number<std::uint32_t>("dest_qp_num");
  change.path_mtu = arguments.optional_number<std::uint32_t>("path_mtu");
  if (arguments.has("sqd_async_notify")) change.sqd_notify = arguments.boolean_or("sqd_async_notify", false);
  if (const auto rights = arguments.optional_bits("access", names::access))
    change.access = static_cast<std::uint32_t>(*rights);
  arguments.inner("ah_attr", [&](ArgumentReader& part) { change.path = read_path(part); });
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (auto done = device_.modify_qp(handle, change); !done) return tl::unexpected(done.error());
  return Json{{"state", names::name_of(names::qp_state, static_cast<unsigned>(device_.qp(handle)->state))}};
}

Result<Json> RpcHandler::query_qp(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("qp");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const QueuePair* qp = device_.qp(handle);
  if (!qp) return tl::unexpected(Error{ENOENT, fmt::format("qp: unknown handle {}", handle)});
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
              {"sq_draining", qp->state == QpState::sqd && !qp->requester.drained_reported},
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

Result<Json> RpcHandler::attach_multicast(ArgumentReader& arguments) {
  const auto qp = arguments.number<std::uint32_t>("qp");
  const Gid gid = arguments.gid("gid");
  arguments.optional_number<std::uint16_t>("lid");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (auto done = device_.attach_mcast(qp, gid); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> RpcHandler::detach_multicast(ArgumentReader& arguments) {
  const auto qp = arguments.number<std::uint32_t>("qp");
  const Gid gid = arguments.gid("gid");
  arguments.optional_number<std::uint16_t>("lid");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (auto done = device_.detach_mcast(qp, gid); !done) return tl::unexpected(done.error());
  return Json::object();
}

}  // namespace rdmawire::device
