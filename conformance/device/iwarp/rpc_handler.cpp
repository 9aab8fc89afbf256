#include "conformance/device/iwarp/rpc_handler.hpp"

#include <algorithm>

#include "conformance/device/roce/names.hpp"

namespace rdmawire::endpoint {

using device::number_of;
using device::refuse;
using device::Result;

namespace {

Result<void> has_none(const char* what) {
  return refuse(EOPNOTSUPP, std::string(what) + ": not supported by the reference iWARP device");
}

}  // namespace

RpcHandler::RpcHandler(Adapter& adapter, Step step)
    : VerbsRpcHandler(adapter, std::move(step), "reference", "rdmawire reference endpoint"), adapter_(adapter) {
  add_commands({by(this, &RpcHandler::create_qp), by(this, &RpcHandler::modify_qp), by(this, &RpcHandler::query_qp)});
}

Result<void> RpcHandler::release_other(Kind, std::uint32_t) { return has_none("object"); }
Result<void> RpcHandler::post_srq_recv(std::uint32_t, device::ReceiveRequest) { return has_none("srq"); }

Result<void> RpcHandler::read_more(const rpc::SendRequest& request, std::uint32_t, device::SendRequest& into) {
  if (request.ah || request.remote_qpn || request.remote_qkey || request.remote_srqn)
    return has_none("ah, remote_qpn, remote_qkey, remote_srqn");
  if (request.is_compare_swap()) {
    into.swap_add_mask = request.swap_mask.value_or(~0ULL);
    into.compare_mask = request.compare_mask.value_or(~0ULL);
  }
  if (request.is_fetch_add()) into.swap_add_mask = request.add_mask.value_or(0);
  return {};
}

void RpcHandler::describe_port(rpc::PortAttributes& port) {
  port.max_mtu = port.active_mtu = 1024;
  port.max_msg_size = 0xffff'ffffU;
  port.grh_required = false;
  port.bad_pkey_counter = port.qkey_violations = 0;
  port.capabilities = {"cm"};
  port.gid_table_length = 1;
  // The GID is the MAC address of the network interface, as in siw.
  port.gids.push_back({.gid = "200:0:1::", .type = "ib", .netdev = "reference"});
  port.pkeys = {0xffff};
}

void RpcHandler::describe_device(rpc::Describe::Result& report) {
  const AdapterOptions& o = adapter_.options();
  report.limits = {{"max_mr_size", 256ULL << 20},
                   {"max_qp", o.most_objects},
                   {"max_qp_wr", o.most_work},
                   {"max_sge", o.most_sges},
                   {"max_sge_rd", 1},
                   {"max_cq", o.most_objects},
                   {"max_cqe", o.most_work},
                   {"max_mr", o.most_objects},
                   {"max_mw", o.most_objects},
                   {"max_pd", o.most_objects},
                   {"max_srq", 0},
                   {"max_qp_rd_atomic", o.most_depth},
                   {"max_qp_init_rd_atomic", o.most_depth},
                   {"max_res_rd_atomic", o.most_depth * o.most_objects}};
  report.capabilities = {"mem_window", "mem_mgt_extensions", "mem_window_type_2b"};
  report.rfc7306 = adapter_.rnic().options().extensions;
  report.atomic = *report.rfc7306 ? "hca" : "none";
}

std::map<std::string, std::uint64_t> RpcHandler::counters() {
  const Adapter::Counters& c = adapter_.counters();
  return {{"connections", c.connections},
          {"terminates_received", c.terminates_received},
          {"errors", c.errors},
          {"received_bytes", c.bytes_received},
          {"sent_bytes", c.bytes_sent}};
}

Result<rpc::CreateQp::Result> RpcHandler::create_qp(const rpc::CreateQp& request) {
  if (request.create_flags) return tl::unexpected(has_none("create_flags").error());
  device::QueuePairOptions options;
  options.type = static_cast<device::QpType>(number_of(device::names::qp_type, request.type.name).value_or(0));
  options.pd = number_of(request.pd);
  options.send_cq = number_of(request.send_cq);
  options.recv_cq = number_of(request.recv_cq);
  options.srq = number_of(request.srq);
  const rpc::Capacity capacity = request.capacity();
  options.max_send_wr = capacity.max_send_wr;
  options.max_recv_wr = capacity.max_recv_wr;
  options.max_send_sge = capacity.max_send_sge;
  options.max_recv_sge = capacity.max_recv_sge;
  options.max_inline = capacity.max_inline_data;
  options.all_signaled = request.sq_sig_all;
  const auto qp = adapter_.create_qp(options);
  if (!qp) return tl::unexpected(qp.error());
  return rpc::CreateQp::Result({add(Kind::qp, *qp)}, *qp, capacity);
}

Result<rpc::ModifyQp::Result> RpcHandler::modify_qp(const rpc::ModifyQp& request) {
  // cur_state and pkey_index are accepted, as in Linux drivers, although they have no meaning for iWARP.
  static constexpr std::string_view supported[] = {"qp", "state", "cur_state", "access", "pkey_index", "port"};
  const rpc::Json given = rpc::arguments_of(request);
  for (const auto& [name, value] : given.items())
    if (std::ranges::find(supported, name) == std::end(supported))
      return tl::unexpected(has_none(name.c_str()).error());
  if (request.port.value_or(1) != 1) return refuse(ERANGE, fmt::format("port: must be 1, not {}", *request.port));
  const std::uint32_t handle = number_of(request.qp);
  if (request.access) {
    const auto rights = device::rights_of(*request.access);
    if (!rights) return tl::unexpected(rights.error());
    if (auto done = adapter_.set_rights(handle, *rights); !done) return tl::unexpected(done.error());
  }
  if (request.state)
    if (auto done = adapter_.modify_qp(handle, static_cast<device::QpState>(request.state->value())); !done)
      return tl::unexpected(done.error());
  const Adapter::QueuePair* qp = adapter_.qp(handle);
  if (!qp) return refuse(ENOENT, fmt::format("qp: unknown handle {}", handle));
  return rpc::ModifyQp::Result{rpc::Choice<rpc::names::qp_state>::of(static_cast<unsigned>(qp->state()))};
}

Result<rpc::QueryQp::Result> RpcHandler::query_qp(const rpc::QueryQp& request) {
  const std::uint32_t handle = number_of(request.qp);
  const Adapter::QueuePair* qp = adapter_.qp(handle);
  if (!qp) return refuse(ENOENT, fmt::format("qp: unknown handle {}", handle));
  const device::QueuePairOptions& o = qp->options;
  const machines::MpaAgreement& agreed = qp->endpoint->agreement();
  rpc::QueryQp::Result report;
  report.qp_num = handle;
  report.type = "rc";
  report.state = decltype(report.state)::of(static_cast<unsigned>(qp->state()));
  report.cur_state = report.state;
  report.path_mtu = 1024;
  report.access = rpc::Flags<rpc::names::access>::of(qp->rights);
  report.cap = {o.max_send_wr, o.max_recv_wr, o.max_send_sge, o.max_recv_sge, o.max_inline};
  report.sq_draining = false;
  report.max_rd_atomic = agreed.ord;
  report.max_dest_rd_atomic = agreed.ird;
  report.port = 1;
  report.sq_sig_all = o.all_signaled;
  return report;
}

}  // namespace rdmawire::endpoint
