#include "replay/peer/connection_manager.hpp"

#include <algorithm>

#include "replay/peer/handle_state.hpp"

namespace rdmawire::peer {

using nlohmann::json;

namespace {

std::string hex(Bytes bytes) { return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }

json arguments_of(const CmParameters& parameters) {
  json arguments = {{"rnr_retry_count", parameters.rnr_retry_count}, {"flow_control", parameters.flow_control}};
  if (!parameters.private_data.empty()) arguments["private_data"] = hex(parameters.private_data);
  if (parameters.responder_resources) arguments["responder_resources"] = *parameters.responder_resources;
  if (parameters.initiator_depth) arguments["initiator_depth"] = *parameters.initiator_depth;
  return arguments;
}

PeerResult<CmEvent> read_event(Event event) {
  Reader reader(event.body);
  CmEvent read;
  read.type = reader.text("type");
  const auto data = from_hex(reader.text_or("private_data", ""));
  if (data) read.private_data.assign(data->begin(), data->end());
  read.number = reader.maybe_number<int>("errno").value_or(0);
  read.name = reader.text_or("name", "");
  read.reason = reader.maybe_number<int>("reason").value_or(0);
  read.qp_num = reader.maybe_number<std::uint32_t>("qp_num");
  if (reader.wrong() || !data) return unreadable("event cm", reader.wrong().value_or("\"private_data\""));
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
  json arguments = arguments_of(parameters);
  arguments.update({{"address", to.address},
                    {"port", to.port},
                    {"port_space", to.port_space},
                    {"qp", qp.handle()},
                    {"retry_count", parameters.retry_count}});
  if (!to.source.empty()) arguments["source"] = to.source;
  const auto result = peer.call("cm_connect", arguments);
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(peer.session(), "cm_connect", *result, "cm_id", {object_of(qp)});
  if (!object) return tl::unexpected(object.error());
  return CmConnection(std::move(*object));
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
    Reader reader(event->body);
    std::string why = fmt::format("expected CM event {}, received {}", type, event->type);
    if (event->reason != 0) why += fmt::format(", reason {}", event->reason);
    if (const auto message = reader.text_or("message", ""); !message.empty()) why += ": " + message;
    return tl::unexpected(PeerError{PeerError::Kind::refused, event->number, event->name, std::move(why)});
  }
}

PeerResult<void> CmConnection::accept(const QueuePair& qp, const CmParameters& parameters) {
  json arguments = arguments_of(parameters);
  arguments["qp"] = qp.handle();
  return done(ask("cm_accept", "cm_id", std::move(arguments)));
}

PeerResult<void> CmConnection::reject(Bytes private_data) const {
  json arguments = json::object();
  if (!private_data.empty()) arguments["private_data"] = hex(private_data);
  return done(ask("cm_reject", "cm_id", std::move(arguments)));
}

PeerResult<void> CmConnection::disconnect() const { return done(ask("cm_disconnect", "cm_id")); }

PeerResult<Listener> Listener::listen(Peer& peer, const CmAddress& to, std::uint32_t backlog) {
  json arguments = {{"port", to.port}, {"backlog", backlog}, {"port_space", to.port_space}};
  if (!to.address.empty()) arguments["address"] = to.address;
  const auto result = peer.call("cm_listen", arguments);
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(peer.session(), "cm_listen", *result, "cm_id", {});
  if (!object) return tl::unexpected(object.error());
  Listener listener(std::move(*object));
  Reader reader(*result);
  listener.port_ = reader.number<std::uint16_t>("port");
  if (reader.wrong()) return unreadable("cm_listen", *reader.wrong());
  return listener;
}

PeerResult<CmConnection> Listener::request(Deadline deadline) const {
  auto event = next_of(
      session(), deadline, [&](const Event& one) { return is_of(one, "listener", handle()); }, "connect_request");
  if (!event) return tl::unexpected(event.error());
  auto object = take_in(session(), "event cm", event->body, "cm_id", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  CmConnection connection(std::move(*object));
  connection.request_ = std::move(*event);
  return connection;
}

}  // namespace rdmawire::peer
