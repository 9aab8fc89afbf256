#include "conformance/device/roce/rpc_handler.hpp"

#include "conformance/device/roce/names.hpp"

namespace rdmawire::device {

RpcHandler::RpcHandler(Device& device, Step step)
    : VerbsRpcHandler(device, std::move(step), "reference", "rdmawire reference device"), device_(device) {
  using R = RpcHandler;
  add_commands({by(this, &R::open_xrcd), by(this, &R::create_srq), by(this, &R::modify_srq), by(this, &R::query_srq),
                by(this, &R::create_ah), by(this, &R::create_qp), by(this, &R::modify_qp), by(this, &R::query_qp),
                by(this, &R::attach_multicast), by(this, &R::detach_multicast)});
}

Result<void> RpcHandler::release_other(Kind kind, std::uint32_t handle) {
  if (kind == Kind::xrcd) return device_.close_xrcd(handle);
  return kind == Kind::srq ? device_.destroy_srq(handle) : device_.destroy_ah(handle);
}

Result<void> RpcHandler::post_srq_recv(std::uint32_t srq, ReceiveRequest request) {
  return device_.post_srq_recv(srq, std::move(request));
}

Result<void> RpcHandler::read_more(const rpc::SendRequest& request, std::uint32_t handle, SendRequest& into) {
  const QueuePair* qp = device_.qp(handle);
  const auto missing = [](std::string_view name) {
    return refuse(EINVAL, fmt::format("{}: missing required argument", name));
  };
  if (qp && qp->options.type == QpType::ud) {
    if (!request.ah) return missing("ah");
    if (!request.remote_qpn) return missing("remote_qpn");
    if (!request.remote_qkey) return missing("remote_qkey");
    into.ah = number_of(request.ah);
    into.remote_qpn = *request.remote_qpn;
    into.remote_qkey = *request.remote_qkey;
  } else if (request.ah || request.remote_qpn || request.remote_qkey) {
    return refuse(EINVAL, "ah, remote_qpn, remote_qkey: only with UD");
  }
  const bool is_xrc = qp && qp->options.type == QpType::xrc_initiator;
  if (is_xrc && !request.remote_srqn) return missing("remote_srqn");
  if (!is_xrc && request.remote_srqn) return refuse(EINVAL, "remote_srqn: only with XRC");
  into.xrc_srq = request.remote_srqn.value_or(0);
  return {};
}

void RpcHandler::describe_port(rpc::PortAttributes& report) {
  const Port& at = device_.port();
  for (std::size_t i = 0; i < at.gids.size(); ++i) {
    if (at.gids[i].gid.is_zero()) continue;
    const std::string netdev = at.gids[i].vlan == 0 ? "reference" : fmt::format("reference.{}", at.gids[i].vlan);
    report.gids.push_back({.index = static_cast<std::uint32_t>(i),
                           .gid = gid_text(at.gids[i].gid),
                           .type = std::string(device_.gid_type(at.gids[i])),
                           .netdev = netdev});
  }
  report.max_mtu = report.active_mtu = static_cast<std::uint32_t>(at.mtu);
  report.max_msg_size = machines::longest_message;
  report.grh_required = true;
  report.bad_pkey_counter = static_cast<std::uint32_t>(device_.counters().bad_pkeys);
  report.qkey_violations = static_cast<std::uint32_t>(device_.counters().qkey_violations);
  report.capabilities = {"cm", "ip_based_gids"};
  report.gid_table_length = static_cast<std::uint32_t>(at.gids.size());
  report.pkeys = device_.pkeys();
}

void RpcHandler::describe_device(rpc::Describe::Result& report) {
  const DeviceOptions& o = device_.options();
  report.limits = {{"max_mr_size", 256ULL << 20},
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
  auto& capabilities = report.capabilities.emplace().names;
  capabilities = {"bad_pkey_counter",   "bad_qkey_counter",   "cur_qp_state_mod", "rc_rnr_nak_gen",   "mem_window",
                  "mem_mgt_extensions", "mem_window_type_2b", "flush_global",     "flush_persistent", "atomic_write"};
  if (o.xrc) capabilities.emplace_back("xrc");
  report.atomic = "hca";
  report.congestion_control = o.congestion_control;
  report.congestion = {"queue_pair", static_cast<std::uint64_t>(o.cnp_interval), false};
}

std::map<std::string, std::uint64_t> RpcHandler::counters() {
  std::map<std::string, std::uint64_t> own;
  for (const CounterName& counter : counter_names) own[std::string(counter.name)] = device_.counters().*counter.value;
  return own;
}

}  // namespace rdmawire::device
