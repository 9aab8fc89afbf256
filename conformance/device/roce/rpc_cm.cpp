/// Agent commands for connections.

#include <arpa/inet.h>

#include <charconv>

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

namespace {

constexpr std::size_t most_private_data = 255;

std::optional<Gid> parse_address(const std::string& text) {
  Gid gid;
  std::uint8_t ipv4[4];
  if (inet_pton(AF_INET, text.c_str(), ipv4) == 1) {
    const auto address = static_cast<std::uint32_t>(load_be<4>(ipv4));
    return address == 0 ? gid : Gid::ipv4(address);
  }
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
  return std::nullopt;
}

std::string address_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4())
    inet_ntop(AF_INET, gid.bytes.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

Gid read_address(ArgumentReader& arguments, const std::string& name) {
  if (!arguments.has(name)) return {};
  const auto address = parse_address(arguments.text(name));
  if (!address) arguments.report_error(name, EINVAL, "must be an IPv4 or IPv6 address");
  return address.value_or(Gid{});
}

/// Return false for datagram port spaces, which need SIDR. The device does not support SIDR.
bool connects(ArgumentReader& arguments) {
  return !arguments.has("port_space") || arguments.optional_choice("port_space", names::port_space).value_or(0) == 0;
}

tl::unexpected<Error> no_datagrams() {
  return tl::unexpected(Error{EOPNOTSUPP, "port_space: the reference device's CM supports only tcp"});
}

CmParameters read_parameters(ArgumentReader& arguments, bool asks) {
  CmParameters with;
  if (arguments.has("private_data")) with.private_data = arguments.bytes("private_data", most_private_data);
  with.responder_resources = arguments.optional_number<std::uint8_t>("responder_resources");
  with.initiator_depth = arguments.optional_number<std::uint8_t>("initiator_depth");
  with.flow_control = arguments.boolean_or("flow_control", false);
  if (asks) with.retry_count = arguments.number_or<std::uint8_t>("retry_count", 7, 0, 7);
  with.rnr_retry_count = arguments.number_or<std::uint8_t>("rnr_retry_count", 7, 0, 7);
  with.srq = arguments.boolean_or("srq", false);
  const auto qp = arguments.optional_number<std::uint32_t>("qp", 1);
  const auto number = arguments.optional_number<std::uint32_t>("qp_num", 0, 0xffffff);
  if (qp && number) arguments.report_error("qp_num", EINVAL, "must not be combined with qp");
  if (!qp && !number) arguments.report_error("qp", EINVAL, "is required unless qp_num is given");
  with.qp = qp.value_or(0);
  with.qpn = number.value_or(0);
  with.answers_disconnect = arguments.boolean_or("answer_disconnect", true);
  return with;
}

void tell_peer(Json& json, const CmPeer& peer) {
  json["private_data"] = to_hex(peer.private_data);
  // librdmacm swaps these fields: the peer's request is the limit of the local response.
  json["responder_resources"] = peer.initiator_depth;
  json["initiator_depth"] = peer.responder_resources;
  json["flow_control"] = peer.flow_control ? 1 : 0;
  json["retry_count"] = peer.retry_count;
  json["rnr_retry_count"] = peer.rnr_retry_count;
  json["srq"] = peer.srq ? 1 : 0;
  json["qp_num"] = peer.qpn;
}

void tell_ends(Json& json, const CmEvent& event, const std::string& device) {
  json["device"] = device;
  json["port_num"] = 1;
  json["local_address"] = address_text(event.local.address);
  json["local_port"] = event.local.port;
  json["remote_address"] = address_text(event.remote.address);
  json["remote_port"] = event.remote.port;
}

Result<Json> nothing(const Result<void>& done) {
  if (!done) return tl::unexpected(done.error());
  return Json::object();
}

}  // namespace

Json VerbsRpcHandler::cm_json(const CmEvent& event) const {
  Json json = {{"event", "cm"},
               {"cm_id", event.cm_id},
               {"type", names::name_of(names::cm_event, static_cast<unsigned>(event.type))}};
  if (event.error != 0) {
    json["errno"] = event.error;
    json["name"] = errno_name(event.error);
  }
  switch (event.type) {
    case CmEventType::addr_resolved: tell_ends(json, event, name_); break;
    case CmEventType::connect_request:
      json["listener"] = event.listener;
      tell_ends(json, event, name_);
      tell_peer(json, event.peer);
      break;
    case CmEventType::connect_response:
    case CmEventType::established: tell_peer(json, event.peer); break;
    case CmEventType::rejected:
      if (event.error == 0) json["reason"] = event.reason;
      [[fallthrough]];
    case CmEventType::disconnected:
    case CmEventType::connect_error:
    case CmEventType::unreachable: json["private_data"] = to_hex(event.peer.private_data); break;
    case CmEventType::failed:
      json["step"] = event.step;
      json["message"] = event.message;
      break;
    default: break;
  }
  if (event.stream_error)
    json["stream_error"] = {{"layer", event.stream_error->layer},
                            {"type", event.stream_error->type},
                            {"code", event.stream_error->code},
                            {"by", event.stream_error->of_peer ? "peer" : "device"}};
  return json;
}

Result<Json> VerbsRpcHandler::cm_listen(ArgumentReader& arguments) {
  CmEndpoint at;
  at.address = read_address(arguments, "address");
  at.port = arguments.number_or<std::uint16_t>("port", 0);
  const auto backlog = arguments.number_or<std::uint32_t>("backlog", 16, 0, 1024);
  const bool served = connects(arguments);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (!served) return no_datagrams();
  const auto listening = verbs_.cm_listen(at, backlog);
  if (!listening) return tl::unexpected(listening.error());
  return Json{{"cm_id", add(Kind::cm_id, listening->cm_id)}, {"port", listening->port}};
}

Result<Json> VerbsRpcHandler::cm_connect(ArgumentReader& arguments) {
  CmEndpoint to;
  if (!arguments.has("address")) arguments.report_error("address", EINVAL, "is required");
  to.address = read_address(arguments, "address");
  to.port = arguments.number<std::uint16_t>("port");
  const Gid source = read_address(arguments, "source");
  CmParameters with = read_parameters(arguments, true);
  with.establishes = arguments.boolean_or("establish", true);
  with.ack_timeout = arguments.optional_number<std::uint8_t>("ack_timeout", 0, 31);
  with.traffic_class = arguments.number_or<std::uint8_t>("tos", 0);
  arguments.optional_number<std::uint32_t>("timeout_ms", 1, 60'000);
  const bool served = connects(arguments);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (!served) return no_datagrams();
  const auto made = verbs_.cm_connect(to, source, std::move(with));
  if (!made) return tl::unexpected(made.error());
  return Json{{"cm_id", add(Kind::cm_id, *made)}};
}

Result<Json> VerbsRpcHandler::cm_accept(ArgumentReader& arguments) {
  const auto id = arguments.number<std::uint32_t>("cm_id");
  CmParameters with = read_parameters(arguments, false);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return nothing(verbs_.cm_accept(id, std::move(with)));
}

Result<Json> VerbsRpcHandler::cm_establish(ArgumentReader& arguments) {
  const auto id = arguments.number<std::uint32_t>("cm_id");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return nothing(verbs_.cm_establish(id));
}

Result<Json> VerbsRpcHandler::cm_reject(ArgumentReader& arguments) {
  const auto id = arguments.number<std::uint32_t>("cm_id");
  const auto data =
      arguments.has("private_data") ? arguments.bytes("private_data", most_private_data) : std::vector<std::uint8_t>();
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return nothing(verbs_.cm_reject(id, data));
}

Result<Json> VerbsRpcHandler::cm_disconnect(ArgumentReader& arguments) {
  const auto id = arguments.number<std::uint32_t>("cm_id");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return nothing(verbs_.cm_disconnect(id));
}

}  // namespace rdmawire::device
