#include "conformance/device/roce/rpc_handler.hpp"

#include "conformance/device/roce/names.hpp"

namespace rdmawire::device {

RpcHandler::RpcHandler(Device& device, Step step)
    : VerbsRpcHandler(device, std::move(step), "reference", "rdmawire reference device"), device_(device) {
  add_commands({
      {"open_xrcd", by(this, &RpcHandler::open_xrcd)},
      {"create_srq", by(this, &RpcHandler::create_srq)},
      {"modify_srq", by(this, &RpcHandler::modify_srq)},
      {"query_srq", by(this, &RpcHandler::query_srq)},
      {"create_ah", by(this, &RpcHandler::create_ah)},
      {"create_qp", by(this, &RpcHandler::create_qp)},
      {"modify_qp", by(this, &RpcHandler::modify_qp)},
      {"query_qp", by(this, &RpcHandler::query_qp)},
      {"attach_multicast", by(this, &RpcHandler::attach_multicast)},
      {"detach_multicast", by(this, &RpcHandler::detach_multicast)},
  });
}

Result<void> RpcHandler::release_other(Kind kind, std::uint32_t handle) {
  if (kind == Kind::xrcd) return device_.close_xrcd(handle);
  return kind == Kind::srq ? device_.destroy_srq(handle) : device_.destroy_ah(handle);
}

Result<void> RpcHandler::post_srq_recv(std::uint32_t srq, ReceiveRequest request) {
  return device_.post_srq_recv(srq, std::move(request));
}

void RpcHandler::read_more(ArgumentReader& arguments, std::uint32_t handle, SendRequest& into) {
  const QueuePair* qp = device_.qp(handle);
  if (qp && qp->options.type == QpType::ud) {
    into.ah = arguments.number<std::uint32_t>("ah");
    into.remote_qpn = arguments.number<std::uint32_t>("remote_qpn");
    into.remote_qkey = arguments.number<std::uint32_t>("remote_qkey");
  }
  if (qp && qp->options.type == QpType::xrc_initiator) into.xrc_srq = arguments.number<std::uint32_t>("remote_srqn");
}

Json RpcHandler::own_port() {
  const Port& at = device_.port();
  Json gids = Json::array();
  for (std::size_t i = 0; i < at.gids.size(); ++i) {
    if (at.gids[i].gid.is_zero()) continue;
    const std::string netdev = at.gids[i].vlan == 0 ? "reference" : fmt::format("reference.{}", at.gids[i].vlan);
    gids.push_back(
        {{"index", i}, {"gid", gid_text(at.gids[i].gid)}, {"type", device_.gid_type(at.gids[i])}, {"netdev", netdev}});
  }
  return {{"max_mtu", at.mtu},
          {"active_mtu", at.mtu},
          {"max_msg_size", machines::longest_message},
          {"grh_required", true},
          {"bad_pkey_counter", device_.counters().bad_pkeys},
          {"qkey_violations", device_.counters().qkey_violations},
          {"capabilities", Json::array({"cm", "ip_based_gids"})},
          {"gid_table_length", at.gids.size()},
          {"gids", std::move(gids)},
          {"pkeys", device_.pkeys()}};
}

Json RpcHandler::description() {
  const DeviceOptions& o = device_.options();
  const Json limits = {{"max_mr_size", 256ULL << 20},
                       {"max_qp", o.most_objects},
                       {"max_qp_wr", o.most_work},
                       {"max_sge", 256},
                       {"max_sge_rd", 256},
                       {"max_cq", o.most_objects},
                       {"max_cqe", o.most_work},
                       {"max_mr", o.most_objects},
                       {"max_mw", o.most_objects},
                       {"max_pd", o.most_objects},
                       {"max_ah", o.most_objects},
                       {"max_srq", o.most_objects},
                       {"max_srq_wr", o.most_work},
                       {"max_srq_sge", 256},
                       {"max_qp_rd_atomic", o.most_rd_atomic},
                       {"max_qp_init_rd_atomic", o.most_rd_atomic},
                       {"max_res_rd_atomic", o.most_rd_atomic * o.most_objects},
                       {"max_multicast_groups", 256},
                       {"max_multicast_qp_attach", o.most_objects},
                       {"max_total_multicast_qp_attach", o.most_objects},
                       {"max_pkeys", o.port.pkeys.size()},
                       {"local_ca_ack_delay", 1}};
  Json capabilities =
      Json::array({"bad_pkey_counter", "bad_qkey_counter", "cur_qp_state_mod", "rc_rnr_nak_gen", "mem_window",
                   "mem_mgt_extensions", "mem_window_type_2b", "flush_global", "flush_persistent", "atomic_write"});
  if (o.xrc) capabilities.push_back("xrc");
  return {{"limits", limits},
          {"capabilities", std::move(capabilities)},
          {"atomic", "hca"},
          {"congestion_control", o.congestion_control},
          {"congestion", {{"pacing", "queue_pair"}, {"interval_ns", o.cnp_interval}, {"on_loss", false}}}};
}

Json RpcHandler::counters_json() {
  Json own = Json::object();
  for (const CounterName& counter : counter_names) own[std::string(counter.name)] = device_.counters().*counter.value;
  return own;
}

}  // namespace rdmawire::device
