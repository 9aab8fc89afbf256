/// Agent commands for connections.

#include <arpa/inet.h>

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

namespace {

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

Result<Gid> address_of(const std::string& text, std::string_view name) {
  const auto address = parse_address(text);
  if (!address) return refuse(EINVAL, fmt::format("{}: is not an IPv4 or IPv6 address", name));
  return *address;
}

/// Check the port space. Datagram port spaces require SIDR, which the device does not support.
Result<void> check_port_space(const std::optional<rpc::Choice<rpc::names::port_space>>& port_space) {
  if (port_space && port_space->name != "tcp")
    return refuse(EOPNOTSUPP, "port_space: the reference device's CM supports only tcp");
  return {};
}

Result<CmParameters> parameters_of(const rpc::ConnectionParameters& request) {
  if (request.qp && request.qp_num) return refuse(EINVAL, "qp_num: cannot be combined with qp");
  if (!request.qp && !request.qp_num) return refuse(EINVAL, "qp: either qp or qp_num is required");
  CmParameters with;
  with.private_data = request.private_data;
  with.responder_resources = request.responder_resources;
  with.initiator_depth = request.initiator_depth;
  with.flow_control = request.flow_control;
  with.rnr_retry_count = request.rnr_retry_count;
  with.srq = request.srq;
  with.qp = number_of(request.qp);
  with.qpn = request.qp_num.value_or(0);
  with.answers_disconnect = request.answer_disconnect;
  return with;
}

void set_peer(rpc::CmEvent& report, const CmPeer& peer) {
  report.private_data = peer.private_data;
  // Swap these fields, as librdmacm does: each value of the peer limits the other one of this side.
  report.responder_resources = peer.initiator_depth;
  report.initiator_depth = peer.responder_resources;
  report.flow_control = peer.flow_control ? 1 : 0;
  report.retry_count = peer.retry_count;
  report.rnr_retry_count = peer.rnr_retry_count;
  report.srq = peer.srq ? 1 : 0;
  report.qp_num = peer.qpn;
}

void set_endpoints(rpc::CmEvent& report, const CmEvent& event, const std::string& device) {
  report.device = device;
  report.port_num = 1;
  report.local_address = address_text(event.local.address);
  report.local_port = event.local.port;
  report.remote_address = address_text(event.remote.address);
  report.remote_port = event.remote.port;
}

}  // namespace

rpc::CmEvent VerbsRpcHandler::report_of(const CmEvent& event) const {
  rpc::CmEvent report;
  report.cm_id = {event.cm_id};
  report.type = names::name_of(names::cm_event, static_cast<unsigned>(event.type));
  if (event.error != 0) {
    report.error = static_cast<std::uint32_t>(event.error);
    report.error_name = errno_name(event.error);
  }
  switch (event.type) {
    case CmEventType::addr_resolved: set_endpoints(report, event, name_); break;
    case CmEventType::connect_request:
      report.listener = {event.listener};
      set_endpoints(report, event, name_);
      set_peer(report, event.peer);
      break;
    case CmEventType::connect_response:
    case CmEventType::established: set_peer(report, event.peer); break;
    case CmEventType::rejected:
      if (event.error == 0) report.reason = event.reason;
      [[fallthrough]];
    case CmEventType::disconnected:
    case CmEventType::connect_error:
    case CmEventType::unreachable: report.private_data = event.peer.private_data; break;
    case CmEventType::failed:
      report.step = event.step;
      report.message = event.message;
      break;
    default: break;
  }
  if (event.stream_error)
    report.stream_error = {event.stream_error->layer, event.stream_error->type, event.stream_error->code,
                           event.stream_error->of_peer ? "peer" : "device"};
  return report;
}

Result<rpc::CmListen::Result> VerbsRpcHandler::cm_listen(const rpc::CmListen& request) {
  const auto address = address_of(request.address, "address");
  if (!address) return tl::unexpected(address.error());
  if (auto done = check_port_space(request.port_space); !done) return tl::unexpected(done.error());
  const auto listening = verbs_.cm_listen({*address, request.port}, request.backlog);
  if (!listening) return tl::unexpected(listening.error());
  return rpc::CmListen::Result{{add(Kind::cm_id, listening->cm_id)}, listening->port};
}

Result<rpc::CmConnect::Result> VerbsRpcHandler::cm_connect(const rpc::CmConnect& request) {
  const auto address = address_of(request.address, "address");
  if (!address) return tl::unexpected(address.error());
  const auto source = request.source ? address_of(*request.source, "source") : Result<Gid>(Gid{});
  if (!source) return tl::unexpected(source.error());
  auto with = parameters_of(request);
  if (!with) return tl::unexpected(with.error());
  with->retry_count = request.retry_count;
  with->establishes = request.establish;
  with->ack_timeout = request.ack_timeout;
  with->traffic_class = request.tos.value_or(0);
  if (auto done = check_port_space(request.port_space); !done) return tl::unexpected(done.error());
  const auto made = verbs_.cm_connect({*address, request.port}, *source, std::move(*with));
  if (!made) return tl::unexpected(made.error());
  return rpc::CmConnect::Result{{add(Kind::cm_id, *made)}};
}

Result<rpc::Nothing> VerbsRpcHandler::cm_accept(const rpc::CmAccept& request) {
  auto with = parameters_of(request);
  if (!with) return tl::unexpected(with.error());
  return nothing(verbs_.cm_accept(number_of(request.cm_id), std::move(*with)));
}

Result<rpc::Nothing> VerbsRpcHandler::cm_establish(const rpc::CmEstablish& request) {
  return nothing(verbs_.cm_establish(number_of(request.cm_id)));
}

Result<rpc::Nothing> VerbsRpcHandler::cm_reject(const rpc::CmReject& request) {
  return nothing(verbs_.cm_reject(number_of(request.cm_id), request.private_data));
}

Result<rpc::Nothing> VerbsRpcHandler::cm_disconnect(const rpc::CmDisconnect& request) {
  return nothing(verbs_.cm_disconnect(number_of(request.cm_id)));
}

}  // namespace rdmawire::device
