/// Connection manager: processes messages, application calls and timeouts. IBTA vol 1, 12.9, 12.10, A17.6 (RoCEv2
/// ignores LIDs).

#include "dissectors/protocol/cm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

namespace cm_reason = machines::cm_reason;
using machines::CmMessage;
using machines::CmNotification;
using machines::CmStep;

constexpr std::size_t most_request_data = 56, most_reply_data = 196, most_rejection_data = 148;

std::int64_t time_of(std::uint8_t code) { return static_cast<std::int64_t>(exponential_time_ns(code & 31U)); }

std::uint8_t mtu_code(std::uint32_t bytes) {
  std::uint8_t code = 1;
  while (code < 5 && 128U << (code + 1) <= bytes) ++code;
  return code;
}

std::int64_t round_trip_time(const Core& core) { return 2 * time_of(core.options.cm.packet_lifetime); }

std::uint64_t new_transaction(Core& core) { return core.random.next(); }

CmConnection* new_connection(Core& core) {
  CmService& cm = core.cm;
  if (cm.connections.size() >= CmService::most_connections) return nullptr;
  std::uint32_t id = 0;
  while (id == 0 || cm.connections.contains(id)) id = core.random.bits(32);
  CmConnection& made = cm.connections[id];
  made.id = id;
  made.guid = guid_of(core.port.mac);
  made.starting_psn = core.random.bits(24);
  return &made;
}

void report(Core& core, const CmConnection& at, CmEvent event) {
  if (at.forgotten || core.cm.events.size() >= CmService::most_events) return;
  event.connection = at.id;
  event.cm_id = at.handle;
  event.local = at.local;
  event.remote = at.remote;
  core.cm.events.push_back(std::move(event));
}

// Queue pair

QueuePair* queue_pair_of(Core& core, const CmConnection& at) {
  if (at.own.qp == 0) return nullptr;
  QueuePair* qp = core.qp(at.own.qpn);
  return qp && qp->handle == at.own.qp ? qp : nullptr;
}

Result<void> to_init(Core& core, const CmConnection& at, QueuePair& qp) {
  if (qp.state != QpState::reset) return {};
  const auto entry =
      std::ranges::find_if(core.port.pkeys, [&](std::uint16_t own) { return pkeys_match(own, at.pkey); });
  const auto index = entry == core.port.pkeys.end() ? 0 : entry - core.port.pkeys.begin();
  constexpr std::uint32_t rights = access::remote_write | access::remote_read | access::remote_atomic;
  return modify(core, qp,
                {.state = QpState::init, .pkey_index = static_cast<std::uint16_t>(index), .port = 1, .access = rights});
}

/// Move the queue pair to RTS with the negotiated parameters. The first PSN that it expects is the one that this
/// endpoint announced: 12.7.
Result<void> to_rts(Core& core, const CmConnection& at, QueuePair& qp) {
  const bool reliable = qp.is_reliable();
  QueuePairChange rtr{.state = QpState::rtr};
  rtr.path_mtu = 128U << at.peer.path_mtu;
  rtr.path = at.data_path;
  rtr.dest_qpn = at.peer.qpn;
  rtr.rq_psn = at.starting_psn;
  if (reliable) {
    rtr.max_dest_rd_atomic =
        std::min<std::uint32_t>(at.own.responder_resources.value_or(0), core.options.most_rd_atomic);
    rtr.min_rnr_timer = 0;
  }
  if (auto done = modify(core, qp, rtr); !done) return done;
  QueuePairChange rts{.state = QpState::rts};
  rts.sq_psn = core.decisions.cm.sending_psn(at);
  if (reliable) {
    const CmSettings& settings = core.options.cm;
    rts.timeout = core.decisions.cm.ack_timeout(at, settings);
    rts.retry_count = at.active ? at.own.retry_count : at.peer.retry_count;
    rts.rnr_retry = at.peer.rnr_retry_count;
    rts.max_rd_atomic = std::min<std::uint32_t>(at.own.initiator_depth.value_or(0), core.options.most_rd_atomic);
  }
  return modify(core, qp, rts);
}

void stop(Core& core, const CmConnection& at) {
  QueuePair* qp = queue_pair_of(core, at);
  if (qp && qp->state != QpState::reset) core.decisions.cm.end_queue_pair(core, *qp);
}

// Outgoing messages

std::uint8_t rejected_message(const CmConnection& at) {
  constexpr std::uint8_t request = 0, reply = 1;
  return at.active ? reply : request;
}

/// Encode the message that the step sends, from the state of the connection.
std::vector<std::uint8_t> message_of(Core& core, CmConnection& at, const CmStep& step, Bytes private_data) {
  const CmSettings& settings = core.options.cm;
  switch (*step.sends) {
    case CmMessage::req: {
      const QueuePair* qp = core.qp(at.own.qpn);
      return request_of(at, settings, mtu_code(core.port.mtu), !qp || qp->is_reliable(),
                        core.port.gids[at.data_path.sgid_index].gid);
    }
    case CmMessage::mra: return mra_of(at, settings);
    case CmMessage::rep: return core.decisions.cm.reply(at, settings);
    case CmMessage::rtu: return short_of(at, cm_attribute::rtu, at.transaction);
    case CmMessage::dreq: at.last_transaction = new_transaction(core); return disconnect_of(at);
    case CmMessage::drep: return short_of(at, cm_attribute::drep, at.last_transaction);
    case CmMessage::rej: {
      // If the reason is a timeout, no message is rejected. The peer's ID may then be known from an MRA or its REQ.
      const bool gives_up = step.reason == cm_reason::timeout;
      return rejection_of(at.id, core.decisions.cm.rejected_id(at, step.reason), at.transaction,
                          gives_up ? 2 : rejected_message(at), step.reason, private_data);
    }
  }
  return {};
}

void send_message(Core& core, CmConnection& at, const CmStep& step, Bytes private_data = {}) {
  if (!step.sends) return;
  std::vector<std::uint8_t>& kept = at.sent[static_cast<std::size_t>(*step.sends)];
  if (!step.again || kept.empty()) kept = message_of(core, at, step, private_data);
  if (step.again) core.decisions.cm.repeat(*step.sends, kept);
  send_mad(core, at.way, kept);
}

// State transitions

Result<void> establish(Core& core, CmConnection& at);
Result<void> disconnect(Core& core, CmConnection& at);

CmEvent event_of(const CmConnection& at, CmEventType type) {
  CmEvent event{type};
  event.peer = at.peer;
  return event;
}

/// Report a notification of the state machine to the application, and perform automatic actions.
void handle_notification(Core& core, CmConnection& at, CmNotification told, std::uint16_t reason = 0) {
  switch (told) {
    case CmNotification::nothing: break;
    case CmNotification::request: {
      CmEvent event = event_of(at, CmEventType::connect_request);
      event.listener = at.listener;
      report(core, at, std::move(event));
      break;
    }
    case CmNotification::response: {
      CmEvent event = event_of(at, CmEventType::connect_response);
      const auto done = at.own.establishes ? establish(core, at) : Result<void>();
      if (at.own.establishes && done) event.type = CmEventType::established;
      report(core, at, std::move(event));
      if (done) break;
      CmEvent failed{CmEventType::failed};
      failed.error = done.error().number;
      failed.message = done.error().message;
      report(core, at, std::move(failed));
      break;
    }
    case CmNotification::established: report(core, at, CmEvent{CmEventType::established}); break;
    case CmNotification::rejected: {
      stop(core, at);
      CmEvent event = event_of(at, CmEventType::rejected);
      event.reason = reason;
      report(core, at, std::move(event));
      break;
    }
    case CmNotification::unreachable: {
      stop(core, at);
      CmEvent event{CmEventType::unreachable};
      event.error = ETIMEDOUT;
      report(core, at, std::move(event));
      break;
    }
    case CmNotification::disconnected:
      report(core, at, CmEvent{CmEventType::disconnected});
      if (at.machine.state != machines::CmState::dreq_received) stop(core, at);
      if (at.machine.state == machines::CmState::dreq_received && (at.own.answers_disconnect || at.forgotten))
        (void)disconnect(core, at);
      break;
    case CmNotification::timewait_exit: report(core, at, CmEvent{CmEventType::timewait_exit}); break;
  }
}

Result<void> call(Core& core, CmConnection& at, machines::CmCall what, const char* name, Bytes private_data = {}) {
  const CmStep step = machines::asked(at.machine, what, core.now);
  if (step.refused) return refuse(EINVAL, fmt::format("{}: invalid connection state", name));
  at.machine = step.next;
  send_message(core, at, step, private_data);
  return {};
}

Result<void> establish(Core& core, CmConnection& at) {
  if (at.machine.state != machines::CmState::rep_received)
    return refuse(ENOTCONN, "cm_establish: no pending response from the peer");
  if (QueuePair* qp = queue_pair_of(core, at))
    if (auto done = to_rts(core, at, *qp); !done) return done;
  return call(core, at, machines::CmCall::establish, "cm_establish");
}

Result<void> disconnect(Core& core, CmConnection& at) {
  stop(core, at);
  return call(core, at, machines::CmCall::disconnect, "cm_disconnect");
}

/// Remove connections that are idle and that the application has destroyed.
void sweep(Core& core) {
  std::erase_if(core.cm.connections, [](const auto& entry) {
    return entry.second.machine.state == machines::CmState::idle && entry.second.forgotten;
  });
}

// Received messages

void reject(Core& core, const Packet& packet, const CmIncoming& message, std::uint8_t rejected, std::uint8_t reason,
            Bytes additional = {}) {
  send_mad(core, way_back(core, packet),
           rejection_of(0, message.local_id, message.transaction, rejected, reason, {}, additional));
}

const CmListener* listener_for(const Core& core, const CmRequest& request) {
  for (const auto& [handle, listener] : core.cm.listeners)
    if (request.by_ip && request.service_id == service_of_port(listener.at.port) &&
        (listener.at.address.is_zero() || listener.at.address == request.to.address))
      return &listener;
  return nullptr;
}

void receive_request(Core& core, const Packet& packet, const CmIncoming& message) {
  const CmRequest request = read_request(message);
  using machines::CmState;
  for (auto& [id, at] : core.cm.connections) {
    const bool theirs = at.way.path.dgid == packet.sgid && at.machine.state != CmState::idle && !at.active;
    if (!theirs || at.peer.ca_guid != request.peer.ca_guid) continue;
    if (at.remote_id == message.local_id) {
      const CmStep step = machines::received(at.machine, {CmMessage::req}, core.now);
      at.machine = step.next;
      send_message(core, at, step);
      return;
    }
    // The peer's queue pair still has another connection here. 12.9.8.3 (clause number not verified).
    if (at.peer.qpn == request.peer.qpn && at.machine.state != CmState::timewait)
      return reject(core, packet, message, 0, cm_reason::stale_connection);
  }
  const CmListener* listener = listener_for(core, request);
  if (const std::uint8_t reason = core.decisions.cm.rejection_reason(core, packet, request, listener)) {
    const std::uint8_t largest[] = {mtu_code(core.port.mtu)};
    return reject(core, packet, message, 0, reason, reason == cm_reason::invalid_path_mtu ? Bytes(largest) : Bytes());
  }
  CmConnection* made = new_connection(core);
  if (!made) return reject(core, packet, message, 0, cm_reason::no_resources);
  CmConnection& at = *made;
  at.remote_id = message.local_id;
  at.listener = listener->handle;
  at.transaction = message.transaction;
  at.way = way_back(core, packet);
  at.local = request.to;
  at.remote = request.from;
  at.peer = request.peer;
  at.pkey = request.pkey;
  at.data_path = {.dgid = request.local_gid,
                  .sgid_index = *core.port.find(request.remote_gid, packet.type, packet.vlan),
                  .hop_limit = std::max<std::uint8_t>(request.hop_limit, 1),
                  .traffic_class = request.traffic_class,
                  .sl = request.sl};
  // The REQ contains the response time of its sender's CM.
  at.machine.times = {.answer = time_of(request.local_response_timeout) + round_trip_time(core),
                      .way = round_trip_time(core),
                      .timewait = round_trip_time(core),
                      .retries = request.retries};
  const CmStep step = machines::received(at.machine, {CmMessage::req}, core.now);
  at.machine = step.next;
  handle_notification(core, at, step.told);
}

/// Return the connection that a message belongs to: the local ID must match, and also the remote ID if it is known.
CmConnection* connection_of(Core& core, const Packet& packet, const CmIncoming& message) {
  std::uint32_t id = message.remote_id;
  // A REJ for a timeout may omit this endpoint's ID: 12.6.7.
  if (id == 0 && message.attribute == cm_attribute::rej)
    for (const auto& [own, at] : core.cm.connections)
      if (at.remote_id == message.local_id && at.way.path.dgid == packet.sgid) id = own;
  const auto found = core.cm.connections.find(id);
  if (found == core.cm.connections.end() || found->second.machine.state == machines::CmState::idle) return nullptr;
  CmConnection& at = found->second;
  const bool names_itself = message.attribute != cm_attribute::rej || message.local_id != 0;
  if (at.remote_id != 0 && names_itself && at.remote_id != message.local_id) return nullptr;
  return at.way.path.dgid == packet.sgid ? &at : nullptr;
}

std::optional<CmMessage> message_of(std::uint16_t attribute) {
  switch (attribute) {
    case cm_attribute::mra: return CmMessage::mra;
    case cm_attribute::rej: return CmMessage::rej;
    case cm_attribute::rep: return CmMessage::rep;
    case cm_attribute::rtu: return CmMessage::rtu;
    case cm_attribute::dreq: return CmMessage::dreq;
    case cm_attribute::drep: return CmMessage::drep;
    default: return std::nullopt;
  }
}

void receive_unknown(Core& core, const Packet& packet, const CmIncoming& message) {
  constexpr std::uint8_t reply = 1, invalid_id = 6;
  switch (message.attribute) {
    case cm_attribute::rep: reject(core, packet, message, reply, invalid_id); break;
    case cm_attribute::dreq:
    case cm_attribute::lap:
    case cm_attribute::sidr_req: send_mad(core, way_back(core, packet), response_to_unknown(message, false)); break;
    default: break;
  }
}

/// Store message contents in the connection and return the input for the state machine.
machines::CmReceived take_in(CmConnection& at, const CmIncoming& message, CmMessage what) {
  machines::CmReceived received{what};
  const std::uint8_t bits = message.body[8];  // MRA, REJ: type of the message that is acknowledged or rejected
  if (what == CmMessage::mra) {
    received.about = bits >> 6 == 0 ? CmMessage::req : CmMessage::rep;
    received.service = time_of(message.body[9] >> 3);
  }
  if (what == CmMessage::dreq) at.last_transaction = message.transaction;
  if (what == CmMessage::rep && at.machine.waits_for_reply()) {
    const std::uint8_t mtu = at.peer.path_mtu;
    at.peer = read_reply(message);
    at.peer.path_mtu = mtu;
  }
  // A REJ may omit its sender's ID.
  if (at.remote_id == 0 && message.local_id != 0) at.remote_id = message.local_id;
  return received;
}

}  // namespace

void receive_cm(Core& core, const Packet& packet) {
  const CmIncoming message = read_cm(packet.payload);
  if (message.attribute == cm_attribute::req) return receive_request(core, packet, message);
  CmConnection* at = connection_of(core, packet, message);
  const auto what = message_of(message.attribute);
  if (at && message.attribute == cm_attribute::lap)
    return send_mad(core, way_back(core, packet), response_to_unknown(message, true));
  if (!at || !what) return receive_unknown(core, packet, message);
  if (!core.decisions.cm.processes(*what)) return;
  const machines::CmReceived received = take_in(*at, message, *what);
  const CmStep step = machines::received(at->machine, received, core.now);
  at->machine = step.next;
  std::uint16_t reason = 0;
  if (*what == CmMessage::rej) {
    reason = static_cast<std::uint16_t>(load_be<2>(message.body.data() + 10));
    const Bytes data = message.body.subspan(CmRej::size);
    at->peer.private_data.assign(data.begin(), data.end());
  }
  send_message(core, *at, step);
  handle_notification(core, *at, step.told, reason);
  sweep(core);
}

void cm_timers(Core& core) {
  for (auto& [id, at] : core.cm.connections) {
    if (core.now < at.machine.deadline) continue;
    const CmStep step = core.decisions.cm.time_out(at, core.now);
    at.machine = step.next;
    send_message(core, at, step);
    handle_notification(core, at, step.told);
  }
  sweep(core);
}

std::int64_t next_cm(const Core& core) {
  std::int64_t next = never;
  for (const auto& [id, at] : core.cm.connections) next = std::min(next, at.machine.deadline);
  return next;
}

// Application calls

namespace {

Result<void> check_data(const char* call, const CmParameters& with, std::size_t most) {
  if (with.private_data.size() <= most) return {};
  return refuse(EINVAL, fmt::format("{}: private_data has {} bytes; at most {} are allowed", call,
                                    with.private_data.size(), most));
}

/// Limit the depths to those that both endpoints permit. Unspecified ones become the largest permitted.
void limit(CmParameters& with, std::uint32_t most, std::uint32_t most_answers, std::uint32_t most_asked) {
  with.responder_resources = static_cast<std::uint8_t>(std::min<std::uint32_t>(
      with.responder_resources.value_or(static_cast<std::uint8_t>(std::min(most, most_answers))), 255));
  with.initiator_depth = static_cast<std::uint8_t>(std::min<std::uint32_t>(
      with.initiator_depth.value_or(static_cast<std::uint8_t>(std::min(most, most_asked))), 255));
}

}  // namespace

Result<std::uint16_t> cm_listen(Core& core, std::uint32_t handle, CmEndpoint at, std::uint32_t backlog) {
  const auto taken = [&](std::uint16_t port) {
    return std::ranges::any_of(core.cm.listeners, [&](const auto& entry) {
      const CmEndpoint& other = entry.second.at;
      return other.port == port && (other.address.is_zero() || at.address.is_zero() || other.address == at.address);
    });
  };
  if (at.port != 0 && taken(at.port)) return refuse(EADDRINUSE, fmt::format("cm_listen: port {} is in use", at.port));
  if (!at.address.is_zero() &&
      std::ranges::none_of(core.port.gids, [&](const GidEntry& entry) { return entry.gid == at.address; }))
    return refuse(EADDRNOTAVAIL, "cm_listen: address is not assigned to the device");
  for (std::uint16_t port = 49'152; at.port == 0 && port != 0; ++port)
    if (!taken(port)) at.port = port;
  core.cm.listeners[handle] = {handle, at, backlog};
  return at.port;
}

Result<void> cm_connect(Core& core, std::uint32_t handle, const CmEndpoint& to, const Gid& source, CmParameters with) {
  if (auto right = check_data("cm_connect", with, most_request_data); !right) return right;
  CmConnection* made = new_connection(core);
  if (!made) return refuse(ENOMEM, "cm_connect: too many connections");
  CmConnection& at = *made;
  at.handle = handle;
  at.active = true;
  at.remote = to;
  const auto from = core.port.source_for(to.address, source);
  if (!from || !core.port.mac_of(to.address)) {
    CmEvent event{CmEventType::addr_error};
    event.error = EHOSTUNREACH;
    report(core, at, std::move(event));
    return {};
  }
  at.local = {core.port.gids[*from].gid, static_cast<std::uint16_t>(0x8000 | core.random.bits(14))};
  at.data_path = {.dgid = to.address, .sgid_index = *from, .traffic_class = with.traffic_class};
  at.pkey = core.port.pkeys[0];
  at.way = {.path = at.data_path, .pkey = at.pkey};
  at.transaction = new_transaction(core);
  at.peer.path_mtu = mtu_code(core.port.mtu);
  limit(with, core.options.most_rd_atomic, 255, 255);
  const CmSettings& settings = core.options.cm;
  if (!with.ack_timeout) with.ack_timeout = ack_timeout_code(settings.packet_lifetime, settings.ack_delay);
  at.own = std::move(with);
  at.machine.times = {.answer = time_of(settings.response_timeout) + round_trip_time(core),
                      .way = round_trip_time(core),
                      .timewait = round_trip_time(core),
                      .retries = settings.retries};
  report(core, at, CmEvent{CmEventType::addr_resolved});
  report(core, at, CmEvent{CmEventType::route_resolved});
  if (QueuePair* qp = queue_pair_of(core, at))
    if (auto done = to_init(core, at, *qp); !done) return done;
  return call(core, at, machines::CmCall::connect, "cm_connect");
}

Result<void> cm_accept(Core& core, CmConnection& at, CmParameters with) {
  if (!at.machine.waits_for_consumer()) return refuse(EINVAL, "cm_accept: no pending connection request");
  if (auto right = check_data("cm_accept", with, most_reply_data); !right) return right;
  limit(with, core.options.most_rd_atomic, at.peer.initiator_depth, at.peer.responder_resources);
  at.own = std::move(with);
  if (QueuePair* qp = queue_pair_of(core, at)) {
    if (auto done = to_init(core, at, *qp); !done) return done;
    if (auto done = to_rts(core, at, *qp); !done) return done;
  }
  return call(core, at, machines::CmCall::accept, "cm_accept");
}

Result<void> cm_establish(Core& core, CmConnection& at) { return establish(core, at); }

Result<void> cm_reject(Core& core, CmConnection& at, Bytes private_data) {
  if (private_data.size() > most_rejection_data)
    return refuse(EINVAL, fmt::format("cm_reject: private_data has {} bytes; at most {} are allowed",
                                      private_data.size(), most_rejection_data));
  return call(core, at, machines::CmCall::reject, "cm_reject", private_data);
}

Result<void> cm_disconnect(Core& core, CmConnection& at) { return disconnect(core, at); }

void cm_forget(Core& core, CmConnection& at) {
  using machines::CmCall;
  at.forgotten = true;
  at.handle = 0;
  std::erase_if(core.cm.events, [&](const CmEvent& event) { return event.connection == at.id; });
  for (const CmCall what : {CmCall::reject, CmCall::disconnect})
    if (!machines::asked(at.machine, what, core.now).refused) {
      if (what == CmCall::disconnect) stop(core, at);
      (void)call(core, at, what, "destroy");
      break;
    }
  // If the active endpoint gives up, it sends a REJ with the reason timeout.
  if (at.machine.waits_for_reply()) {
    CmStep step{at.machine, CmMessage::rej, false, cm_reason::timeout};
    step.next.state = machines::CmState::idle;
    at.machine = step.next;
    send_message(core, at, step);
  }
  sweep(core);
}

namespace conforming {

std::uint32_t sending_psn(const CmConnection& at) { return at.peer.starting_psn; }

std::uint8_t ack_timeout(const CmConnection& at, const CmSettings& settings) {
  return at.active ? ack_timeout_code(settings.packet_lifetime, at.peer.ack_delay) : at.peer.ack_timeout;
}

void end_queue_pair(Core& core, QueuePair& qp) { enter_error(core, qp); }

std::vector<std::uint8_t> reply(const CmConnection& at, const CmSettings& settings) { return reply_of(at, settings); }

std::uint32_t rejected_id(const CmConnection& at, std::uint16_t /*reason*/) { return at.remote_id; }

void repeat(CmMessage /*message*/, std::vector<std::uint8_t>& /*mad*/) {}

std::uint8_t rejection_reason(const Core& core, const Packet& packet, const CmRequest& request,
                              const CmListener* listener) {
  if (!listener) return cm_reason::invalid_service_id;
  if (request.service_type > 1) return cm_reason::invalid_transport_type;
  if (!core.port.find(request.remote_gid, packet.type, packet.vlan)) return cm_reason::primary_gid_rejected;
  if (request.peer.path_mtu == 0 || request.peer.path_mtu > mtu_code(core.port.mtu)) return cm_reason::invalid_path_mtu;
  std::size_t waiting = 0;
  for (const auto& [id, connection] : core.cm.connections)
    if (connection.listener == listener->handle && connection.machine.waits_for_consumer()) ++waiting;
  if (waiting >= std::max(listener->backlog, 1U)) return cm_reason::no_resources;
  return 0;
}

bool processes(CmMessage /*message*/) { return true; }

CmStep time_out(CmConnection& at, std::int64_t now) { return machines::timed_out(at.machine, now); }

}  // namespace conforming

}  // namespace rdmawire::device
