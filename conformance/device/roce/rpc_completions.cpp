/// Agent commands for completions.

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

namespace {

Json completion_json(const Completion& c) {
  Json json = {{"wr_id", c.id},
               {"status", names::name_of(names::status, static_cast<unsigned>(c.status))},
               {"status_number", static_cast<unsigned>(c.status)},
               {"vendor_err", 0},
               {"qp_num", c.qpn}};
  if (c.status != Status::success) return json;
  json["opcode"] = names::name_of(names::completion_opcode, static_cast<unsigned>(c.opcode));
  json["byte_len"] = c.bytes;
  Json flags = Json::array();
  if (c.has_grh) flags.push_back("grh");
  if (c.has_immediate) flags.push_back("imm");
  if (c.has_invalidated) flags.push_back("inv");
  json["flags"] = std::move(flags);
  if (c.has_immediate) json["imm"] = c.immediate;
  if (c.has_immediate && c.immediate_data != 0) json["imm64"] = c.immediate_data;  // complete value over iWARP
  if (c.has_invalidated) json["invalidated_rkey"] = c.immediate;
  if (c.opcode == CompletionOpcode::receive || c.opcode == CompletionOpcode::receive_write_imm) {
    json["src_qp"] = c.source_qpn;
    json["pkey_index"] = c.pkey_index;
    json["slid"] = 0;
    json["sl"] = c.sl;
    json["dlid_path_bits"] = 0;
  }
  return json;
}

}  // namespace

Result<Json> VerbsRpcHandler::create_channel(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto channel = verbs_.create_channel();
  if (!channel) return tl::unexpected(channel.error());
  return Json{{"channel", add(Kind::channel, *channel)}};
}

Result<Json> VerbsRpcHandler::create_cq(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  const auto entries = arguments.number<std::uint32_t>("cqe");
  const auto channel = arguments.number_or<std::uint32_t>("channel", 0);
  arguments.optional_number<std::uint32_t>("comp_vector");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto cq = verbs_.create_cq(entries, channel);
  if (!cq) return tl::unexpected(cq.error());
  return Json{{"cq", add(Kind::cq, *cq)}, {"cqe", entries}};
}

Result<Json> VerbsRpcHandler::notify(ArgumentReader& arguments) {
  const auto cq = arguments.number<std::uint32_t>("cq");
  const bool solicited = arguments.boolean_or("solicited_only", false);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (auto done = verbs_.req_notify_cq(cq, solicited); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> VerbsRpcHandler::poll(ArgumentReader& arguments) {
  const auto cq = arguments.number<std::uint32_t>("cq");
  const auto most = arguments.number_or<std::uint32_t>("max", 16, 1, 4096);
  const auto least = arguments.number_or<std::uint32_t>("min", 1, 1, most);
  const auto timeout = arguments.number_or<std::uint32_t>("timeout_ms", 0, 0, 3'600'000);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const std::int64_t deadline = verbs_.now() + std::int64_t{timeout} * 1'000'000;
  Json found = Json::array();
  for (bool more = true;;) {
    const auto taken = verbs_.poll_cq(cq, most - found.size());
    if (!taken) return tl::unexpected(taken.error());
    for (const Completion& completion : *taken) found.push_back(completion_json(completion));
    if (found.size() >= least || !more) break;
    more = step_(deadline);
  }
  return Json{{"completions", std::move(found)}};
}

}  // namespace rdmawire::device
