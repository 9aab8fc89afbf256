#include "conformance/device/iwarp/rpc_handler.hpp"

#include "conformance/device/roce/names.hpp"

namespace rdmawire::endpoint {

namespace names = device::names;
using device::Error;
using device::Json;
using device::Result;

namespace {

Result<void> has_none(const char* what) {
  return tl::unexpected(Error{EOPNOTSUPP, std::string(what) + ": not supported by the reference iWARP device"});
}

}  // namespace

RpcHandler::RpcHandler(Adapter& adapter, Step step)
    : VerbsRpcHandler(adapter, std::move(step), "reference", "rdmawire reference endpoint"), adapter_(adapter) {
  add_commands({
      {"create_qp", by(this, &RpcHandler::create_qp)},
      {"modify_qp", by(this, &RpcHandler::modify_qp)},
      {"query_qp", by(this, &RpcHandler::query_qp)},
  });
}

Result<void> RpcHandler::release_other(Kind, std::uint32_t) { return has_none("object"); }
Result<void> RpcHandler::post_srq_recv(std::uint32_t, device::ReceiveRequest) { return has_none("srq"); }

void RpcHandler::read_more(ArgumentReader& arguments, std::uint32_t, device::SendRequest& into) {
  if (into.opcode == device::WorkOpcode::compare_swap) {
    into.swap_add_mask = arguments.number_or<std::uint64_t>("swap_mask", ~0ULL);
    into.compare_mask = arguments.number_or<std::uint64_t>("compare_mask", ~0ULL);
  }
  if (into.opcode == device::WorkOpcode::fetch_add)
    into.swap_add_mask = arguments.number_or<std::uint64_t>("add_mask", 0);
}

Json RpcHandler::own_port() {
  // As in siw, the GID is the MAC address of the network interface.
  return {{"max_mtu", 1024},
          {"active_mtu", 1024},
          {"max_msg_size", 0xffff'ffffU},
          {"grh_required", false},
          {"bad_pkey_counter", 0},
          {"qkey_violations", 0},
          {"capabilities", Json::array({"cm"})},
          {"gid_table_length", 1},
          {"gids", Json::array({{{"index", 0}, {"gid", "200:0:1::"}, {"type", "ib"}, {"netdev", "reference"}}})},
          {"pkeys", Json::array({0xffff})}};
}

Json RpcHandler::description() {
  const AdapterOptions& o = adapter_.options();
  const Json limits = {{"max_mr_size", 256ULL << 20},
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
  const bool extensions = adapter_.rnic().options().extensions;
  return {{"limits", limits},
          {"capabilities", Json::array({"mem_window", "mem_mgt_extensions", "mem_window_type_2b"})},
          {"atomic", extensions ? "hca" : "none"},
          {"rfc7306", extensions}};
}

Json RpcHandler::counters_json() {
  const Adapter::Counters& c = adapter_.counters();
  return {{"connections", c.connections},
          {"terminates_received", c.terminates_received},
          {"errors", c.errors},
          {"received_bytes", c.bytes_received},
          {"sent_bytes", c.bytes_sent}};
}

Result<Json> RpcHandler::create_qp(ArgumentReader& arguments) {
  device::QueuePairOptions options;
  const auto type = arguments.optional_choice("type", names::qp_type);
  if (!type) arguments.report_error("type", EINVAL, "is required");
  options.type = static_cast<device::QpType>(type.value_or(0));
  const std::pair<const char*, std::uint32_t*> handles[] = {
      {"pd", &options.pd}, {"send_cq", &options.send_cq}, {"recv_cq", &options.recv_cq}};
  for (const auto& [name, into] : handles) *into = arguments.number<std::uint32_t>(name);
  options.srq = arguments.number_or<std::uint32_t>("srq", 0);
  struct Size {
    const char* name;
    std::uint32_t* into;
    std::uint32_t usual;
  };
  const Size sizes[] = {{"max_send_wr", &options.max_send_wr, 16},
                        {"max_recv_wr", &options.max_recv_wr, 16},
                        {"max_send_sge", &options.max_send_sge, 1},
                        {"max_recv_sge", &options.max_recv_sge, 1},
                        {"max_inline_data", &options.max_inline, 0}};
  for (const Size& size : sizes) *size.into = arguments.number_or<std::uint32_t>(size.name, size.usual);
  options.all_signaled = arguments.boolean_or("sq_sig_all", false);
  arguments.optional_bits("send_ops", names::send_ops);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto qp = adapter_.create_qp(options);
  if (!qp) return tl::unexpected(qp.error());
  Json made = {{"qp", add(Kind::qp, *qp)}, {"qp_num", *qp}};
  for (const Size& size : sizes) made[size.name] = *size.into;
  return made;
}

Result<Json> RpcHandler::modify_qp(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("qp");
  const auto state = arguments.optional_choice("state", names::qp_state);
  const auto rights = arguments.optional_bits("access", names::access);
  // Attributes without meaning for iWARP are accepted, as in Linux drivers.
  arguments.optional_choice("cur_state", names::qp_state);
  arguments.optional_number<std::uint16_t>("pkey_index");
  arguments.optional_number<std::uint8_t>("port", 1, 1);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (rights)
    if (auto done = adapter_.set_rights(handle, static_cast<std::uint32_t>(*rights)); !done)
      return tl::unexpected(done.error());
  if (state)
    if (auto done = adapter_.modify_qp(handle, static_cast<device::QpState>(*state)); !done)
      return tl::unexpected(done.error());
  const Adapter::QueuePair* qp = adapter_.qp(handle);
  if (!qp) return tl::unexpected(Error{ENOENT, fmt::format("qp: unknown handle {}", handle)});
  return Json{{"state", names::name_of(names::qp_state, static_cast<unsigned>(qp->state()))}};
}

Result<Json> RpcHandler::query_qp(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("qp");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const Adapter::QueuePair* qp = adapter_.qp(handle);
  if (!qp) return tl::unexpected(Error{ENOENT, fmt::format("qp: unknown handle {}", handle)});
  const std::string state = names::name_of(names::qp_state, static_cast<unsigned>(qp->state()));
  const device::QueuePairOptions& o = qp->options;
  const machines::MpaAgreement& agreed = qp->endpoint->agreement();
  return Json{{"qp_num", handle},
              {"type", "rc"},
              {"state", state},
              {"cur_state", state},
              {"path_mtu", 1024},
              {"access", names::names_of_bits(names::access, qp->rights)},
              {"cap",
               {{"max_send_wr", o.max_send_wr},
                {"max_recv_wr", o.max_recv_wr},
                {"max_send_sge", o.max_send_sge},
                {"max_recv_sge", o.max_recv_sge},
                {"max_inline_data", o.max_inline}}},
              {"port", 1},
              {"max_rd_atomic", agreed.ord},
              {"max_dest_rd_atomic", agreed.ird},
              {"sq_draining", false},
              {"sq_sig_all", o.all_signaled}};
}

}  // namespace rdmawire::endpoint
