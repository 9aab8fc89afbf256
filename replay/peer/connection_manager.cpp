#include "replay/peer/connection_manager.hpp"

#include <algorithm>

#include "replay/peer/handle_state.hpp"
#include "replay/rpc/connection_commands.hpp"

namespace rdmawire::peer {

namespace {

void set_parameters(rpc::ConnectionParameters& request, const QueuePair& qp, const CmParameters& parameters) {
  request.qp = {qp.handle()};
  request.private_data = parameters.private_data;
  request.responder_resources = parameters.responder_resources;
  request.initiator_depth = parameters.initiator_depth;
  request.rnr_retry_count = parameters.rnr_retry_count;
  request.flow_control = parameters.flow_control;
}

PeerResult<CmEvent> read_event(Event event) {
  const auto report = rpc::read_event<rpc::CmEvent>(event.body);
  if (!report) return unreadable("event cm", '"' + report.error() + '"');
  CmEvent read{.type = report->type.name,
               .private_data = report->private_data.value_or(ByteVector()),
               .number = static_cast<int>(report->error.value_or(0)),
               .name = report->error_name.value_or(""),
               .reason = static_cast<int>(report->reason.value_or(0)),
               .cm_id = report->cm_id.number,
               .qp_num = report->qp_num,
               .message = report->message.value_or(""),
               .ah = report->ah};
  read.body = std::move(event.body);
  return read;
}

PeerResult<CmEvent> next_of(const std::shared_ptr<Session>& session, Deadline deadline, const Peer::EventFilter& filter,
                            std::string_view awaited) {
  if (!session) return tl::unexpected(peer_error(PeerError::Kind::usage, EBADF, "empty handle"));
  auto event = session->next_event(deadline, filter);
  if (!event) return tl::unexpected(event.error());
  if (!*event)
    return tl::unexpected(
        peer_error(PeerError::Kind::timeout, ETIMEDOUT, fmt::format("no CM event {} in time", awaited)));
  return read_event(std::move(**event));
}

bool is_of(const Event& event, const char* key, std::uint64_t number) {
  const auto found = event.body.find(key);
  return event.name == "cm" && found != event.body.end() && *found == number;
}

constexpr std::string_view ends_in_vain[] = {"rejected",   "failed",      "unreachable",
                                             "addr_error", "route_error", "connect_error"};

}  // namespace

PeerResult<CmConnection> CmConnection::connect(Peer& peer, const QueuePair& qp, const CmAddress& to,
                                               const CmParameters& parameters) {
  rpc::CmConnect message;
  set_parameters(message, qp, parameters);
  message.retry_count = parameters.retry_count;
  message.address = to.address;
  message.port = to.port;
  message.port_space = to.port_space;
  if (!to.source.empty()) message.source = to.source;
  const auto made = peer::request(*peer.session(), message);
  if (!made) return tl::unexpected(made.error());
  return CmConnection(adopt(peer.session(), made->cm_id.number, {object_of(qp)}));
}

PeerResult<CmEvent> CmConnection::next_event(Deadline deadline) const {
  return next_of(
      session(), deadline, [&](const Event& event) { return is_of(event, "cm_id", handle()); }, "anything");
}

PeerResult<CmEvent> CmConnection::wait_for(const std::string& type, Deadline deadline) const {
  for (;;) {
    auto event = next_of(
        session(), deadline, [&](const Event& one) { return is_of(one, "cm_id", handle()); }, type);
    if (!event || event->type == type) return event;
    if (std::find(std::begin(ends_in_vain), std::end(ends_in_vain), event->type) == std::end(ends_in_vain)) continue;
    std::string why = fmt::format("expected CM event {}, received {}", type, event->type);
    if (event->reason != 0) why += fmt::format(", reason {}", event->reason);
    if (!event->message.empty()) why += ": " + event->message;
    return tl::unexpected(PeerError{PeerError::Kind::refused, event->number, event->name, std::move(why)});
  }
}

PeerResult<void> CmConnection::accept(const QueuePair& qp, const CmParameters& parameters) {
  rpc::CmAccept message;
  set_parameters(message, qp, parameters);
  message.cm_id = {handle()};
  return done(Handle::request(message));
}

PeerResult<void> CmConnection::reject(Bytes private_data) const {
  return done(
      Handle::request(rpc::CmReject{.cm_id = {handle()}, .private_data = {private_data.begin(), private_data.end()}}));
}

PeerResult<void> CmConnection::disconnect() const {
  return done(Handle::request(rpc::CmDisconnect{.cm_id = {handle()}}));
}

PeerResult<Listener> Listener::listen(Peer& peer, const CmAddress& to, std::uint32_t backlog) {
  rpc::CmListen message{.port = to.port, .backlog = backlog, .port_space = to.port_space};
  if (!to.address.empty()) message.address = to.address;
  const auto made = peer::request(*peer.session(), message);
  if (!made) return tl::unexpected(made.error());
  Listener listener(adopt(peer.session(), made->cm_id.number, {}));
  listener.port_ = made->port;
  return listener;
}

PeerResult<CmConnection> Listener::request(Deadline deadline) const {
  auto event = next_of(
      session(), deadline, [&](const Event& one) { return is_of(one, "listener", handle()); }, "connect_request");
  if (!event) return tl::unexpected(event.error());
  CmConnection connection(adopt(session(), event->cm_id, {object_of(*this)}));
  connection.request_ = std::move(*event);
  return connection;
}

}  // namespace rdmawire::peer
