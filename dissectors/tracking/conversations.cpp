#include "dissectors/tracking/conversations.hpp"

#include <algorithm>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/crc_cause.hpp"

namespace rdmawire::tracking {
namespace {

constexpr std::uint64_t sidr_bit = std::uint64_t{1} << 32;

// Converts a timeout code to nanoseconds: 4.096 µs * 2^code. Code 0 means that there is no timeout.
std::int64_t timeout_of(std::uint64_t code, std::uint64_t nanoseconds) {
  return code == 0 ? 0 : static_cast<std::int64_t>(nanoseconds);
}

// Returns the path in a message. Its addresses are LIDs on native InfiniBand, otherwise GIDs. If the message does not
// contain an address, the packet's is used. LIDs in a message are 0xffff if the path contains a router.
FlowKey path_of(Wire wire, const FlowKey& ports, std::uint16_t local_lid, std::uint16_t remote_lid,
                const std::array<std::uint8_t, 16>& local_gid, const std::array<std::uint8_t, 16>& remote_gid) {
  if (wire == Wire::infiniband) {
    const auto named = [](std::uint16_t lid, const PortAddress& otherwise) {
      return lid == 0 || lid == 0xffff ? otherwise : PortAddress::of_lid(lid);
    };
    return {named(local_lid, ports.from), named(remote_lid, ports.to), 0};
  }
  const auto named = [](const std::array<std::uint8_t, 16>& gid, const PortAddress& otherwise) {
    const PortAddress address = PortAddress::of_gid(gid.data());
    return address.is_zero() ? otherwise : address;
  };
  return {named(local_gid, ports.from), named(remote_gid, ports.to), 0};
}

Event event_of(EventKind kind, const Packet& packet) {
  Event event;
  event.kind = kind;
  event.frame = event.last_frame = packet.number;
  event.time = packet.time_ns;
  return event;
}

}  // namespace

Conversations::Conversations(PairSink& sink, std::uint32_t capacity) : sink_(sink), conversations_(capacity) {}

void Conversations::add(const Packet& packet) {
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  if (stack.transport >= layers.size()) return;
  const Layer& transport = layers[stack.transport];
  if (transport.header != &info<Bth>) return;
  const View<Bth> bth(stack.bytes.data() + transport.offset);
  if (bth.get<"dest_qp">() != 1 || opcode(bth.get<"opcode">()).transport != Transport::ud) return;
  const auto mad = stack.get<Mad>();
  if (!mad || mad->get<"class">() != management_class::communication) return;
  const auto ports = ports_of(stack);
  const CmMessage cm = read_cm_message(stack);
  if (!ports || !cm.kind) return;
  // Damaged packets must not create connections.
  if (packet.icrc.status == CrcCheck::Status::bad && is_damage(explain_icrc(stack).kind)) return;

  if (cm.kind == &info<CmRep> && packet.icrc.status == CrcCheck::Status::good)
    if (const Found found = find(*ports, cm); found.conversation) found.conversation->evidence.crcs_good = true;
  if (cm.kind == &info<CmReq> || cm.kind == &info<CmSidrReq>)
    request(packet, *ports, cm);
  else if (cm.kind == &info<CmRep>)
    reply(packet, *ports, cm);
  else if (cm.kind == &info<CmRtu>)
    ready(packet, *ports, cm);
  else if (cm.kind == &info<CmRej>)
    reject(packet, *ports, cm);
  else if (cm.kind == &info<CmLap>)
    propose(packet, *ports, cm);
  else if (cm.kind == &info<CmApr>)
    answer_proposal(packet, *ports, cm);
  else if (cm.kind == &info<CmDreq>)
    disconnect(packet, *ports, cm);
  else if (cm.kind == &info<CmDrep>)
    disconnected(packet, *ports, cm);
  else if (cm.kind == &info<CmSidrRep>)
    datagram_reply(packet, *ports, cm);
  else if (const Found found = find(*ports, cm); found.conversation)  // MRA
    ++found.conversation->evidence.receipts;
}

// Finds the conversation of a message. Messages of the requester contain its ID as the local one, and messages of the
// responder as the remote one. Each CA chooses its own IDs, so both IDs can be equal. Then the responder's ID decides,
// if it is known.
Conversations::Found Conversations::find(const FlowKey& ports, const CmMessage& cm) {
  const auto agrees = [](const Conversation& c, std::uint32_t responder_id) {
    return c.responder_id == 0 || responder_id == 0 || c.responder_id == responder_id;
  };
  if (cm.local_id != 0)
    if (Conversation* c = conversations_.find(ports.with(cm.local_id)); c && agrees(*c, cm.remote_id)) return {c, 0};
  if (cm.remote_id != 0)
    if (Conversation* c = conversations_.find(ports.reversed(cm.remote_id)); c && agrees(*c, cm.local_id))
      return {c, 1};
  return {};
}

void Conversations::request(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  const bool datagram = cm.kind == &info<CmSidrReq>;
  const FlowKey key = ports.with(cm.local_id | (datagram ? sidr_bit : 0));
  if (Conversation* known = conversations_.find(key);
      known && known->evidence.sides[0].qp == cm.qp && known->responder_psn == cm.starting_psn &&
      known->evidence.service_id == cm.service_id && known->evidence.request_frame != 0) {
    ++known->evidence.requests;
    known->last_request_frame = packet.number;
    known->last_request_time = packet.time_ns;
    return;
  }
  Conversation c;
  c.datagram = datagram;
  c.last_request_frame = packet.number;
  c.last_request_time = packet.time_ns;
  PairEvidence& e = c.evidence;
  e.request_frame = e.frame = packet.number;
  e.request_time = e.time = packet.time_ns;
  e.requests = 1;
  e.service_id = cm.service_id;
  e.service_port = cm.port;
  PairEvidence::Side &requester = e.sides[0], &responder = e.sides[1];
  if (datagram) {
    e.service = Service::ud;
    e.pkey = cm.as<CmSidrReq>().get<"pkey">();
    requester.address = ports.from;
    responder.address = ports.to;
    conversations_.put(key, c);
    return;
  }
  const auto req = cm.as<CmReq>();
  switch (req.get<"transport_service_type">()) {
    case 0: e.service = Service::rc; break;
    case 1: e.service = Service::uc; break;
    case 2: e.service = Service::rd; break;
    default:
      constexpr unsigned xrc = 1;
      e.service = Service::xrc;
      e.service_known = req.get<"extended_transport_type">() == xrc;
  }
  e.mtu = bytes_of_mtu(req.get<"path_mtu">());
  e.pkey = req.get<"pkey">();
  const FlowKey path =
      path_of(packet.stack.wire, ports, req.get<"primary_local_lid">(), req.get<"primary_remote_lid">(),
              req.get<"primary_local_gid">(), req.get<"primary_remote_gid">());
  requester.address = path.from;
  responder.address = path.to;
  requester.qp = cm.qp;
  requester.reads_as_responder = req.get<"responder_resources">();
  requester.reads_as_requester = req.get<"initiator_depth">();
  // The REQ contains the timeout of its receiver: 12.7.34. The timeout of its sender depends on the delay of the other
  // CA. It is assumed to be equal.
  requester.acknowledgement_timeout = responder.acknowledgement_timeout =
      timeout_of(req.get<"primary_local_ack_timeout">(), req.get<"primary_local_ack_timeout.limit">());
  // "Starting PSN" is the first PSN that the receiver of the message sends: 12.7.31 (clause number not verified).
  // Example from rping.pcap: the REQ contains 0x9d7fd1, the PSN of the responder's first RDMA READ, and the REP
  // contains 0x806831, the PSN of the requester's first SEND.
  responder.first_psn = c.responder_psn = cm.starting_psn;
  responder.retries = req.get<"retry_count">();
  responder.rnr_retries = req.get<"rnr_retry_count">();
  conversations_.put(key, c);
}

void Conversations::reply(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  Conversation* c = conversations_.find(ports.reversed(cm.remote_id));
  if (!c || c->evidence.request_frame == 0) return;
  if (c->state != State::requested) return;  // a retransmitted REP
  const auto rep = cm.as<CmRep>();
  PairEvidence& e = c->evidence;
  PairEvidence::Side &requester = e.sides[0], &responder = e.sides[1];
  c->state = State::replied;
  c->responder_id = cm.local_id;
  // XRC: the target QP is in the field that RD uses for the end-to-end context. Annex A14 (clause number not verified).
  responder.qp = e.service == Service::xrc && cm.qp == 0 ? rep.get<"local_eecn">() : cm.qp;
  requester.first_psn = cm.starting_psn;
  requester.rnr_retries = rep.get<"rnr_retry_count">();
  responder.reads_as_responder = rep.get<"responder_resources">();
  responder.reads_as_requester = rep.get<"initiator_depth">();
  e.frame = packet.number;
  e.time = packet.time_ns;
  sink_.pair(e);
}

void Conversations::ready(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  const Found found = find(ports, cm);
  if (!found.conversation || found.sender != 0 || found.conversation->state != State::replied) return;
  Conversation& c = *found.conversation;
  c.state = State::ready;
  Event event = event_of(EventKind::opened, packet);
  event.origin_frame = c.evidence.request_frame;
  event.cause_frame = c.evidence.frame;
  event.duration = c.evidence.time - c.evidence.request_time;
  event.packets = c.evidence.requests;
  sink_.opened(c.evidence, event);
}

void Conversations::reject(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  Found found = find(ports, cm);
  constexpr std::uint8_t of_reply = 1;
  const auto rej = cm.as<CmRej>();
  if (!found.conversation) {
    // The capture does not contain the start of the connection. The requester sent the REJ, because only it can reject
    // a REP.
    Conversation c;
    c.datagram = false;
    found.sender = rej.get<"message">() == of_reply ? 0 : 1;
    c.evidence.service_known = false;
    c.evidence.sides[found.sender].address = ports.from;
    c.evidence.sides[1 - found.sender].address = ports.to;
    found.conversation = &conversations_.put(found.sender ? ports.reversed(cm.remote_id) : ports.with(cm.local_id), c);
  }
  Conversation& c = *found.conversation;
  if (c.state == State::over || c.state == State::closing) return;
  c.state = State::over;
  Rejection rejection;
  rejection.by = found.sender;
  rejection.reason = rej.get<"reason">();
  rejection.message = rej.get<"message">();
  if (const Name* name = cm_rej_reason_names.find(rejection.reason)) {
    rejection.reason_name = name->name;
    rejection.reason_meaning = name->meaning;
  }
  constexpr std::size_t ari_at = CmRej::size - CmRej::ari_bytes;
  rejection.additional = Bytes(cm.header + ari_at, std::min<std::size_t>(rej.get<"info_length">(), CmRej::ari_bytes));
  Event event = event_of(EventKind::rejected, packet);
  event.origin_frame = c.evidence.request_frame;
  event.duration = c.evidence.request_frame ? packet.time_ns - c.evidence.request_time : 0;
  event.packets = std::max(c.evidence.requests, 1U);
  event.value = rejection.reason;
  event.end = found.sender == 0 && rejection.message == of_reply ? Side::b : Side::a;
  sink_.rejected(c.evidence, event, rejection);
}

void Conversations::propose(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  const Found found = find(ports, cm);
  if (!found.conversation || (found.conversation->state != State::ready && found.conversation->state != State::replied))
    return;
  Conversation& c = *found.conversation;
  if (c.proposal_frame != 0) return;  // a retransmitted LAP
  const auto lap = cm.as<CmLap>();
  const FlowKey path =
      path_of(packet.stack.wire, ports, lap.get<"alternate_local_lid">(), lap.get<"alternate_remote_lid">(),
              lap.get<"alternate_local_gid">(), lap.get<"alternate_remote_gid">());
  c.proposal_frame = packet.number;
  c.proposal_time = packet.time_ns;
  c.proposed_by = found.sender;
  c.proposal = found.sender == 0 ? path : path.reversed(0);
}

void Conversations::answer_proposal(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  const Found found = find(ports, cm);
  if (!found.conversation || found.conversation->proposal_frame == 0) return;
  Conversation& c = *found.conversation;
  Event event = event_of(EventKind::path_change, packet);
  event.origin_frame = c.proposal_frame;
  event.duration = packet.time_ns - c.proposal_time;
  event.value = cm.as<CmApr>().get<"status">();
  event.end = c.proposed_by == 0 ? Side::a : Side::b;
  c.proposal_frame = 0;
  sink_.path_changed(c.evidence, event, c.proposal);
}

void Conversations::disconnect(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  Found found = find(ports, cm);
  if (!found.conversation) {
    Conversation c;
    c.state = State::ready;
    c.responder_id = cm.remote_id;
    c.evidence.service_known = false;
    c.evidence.sides[0].address = ports.from;
    c.evidence.sides[1].address = ports.to;
    c.evidence.sides[1].qp = cm.qp;
    found.conversation = &conversations_.put(ports.with(cm.local_id), c);
  }
  Conversation& c = *found.conversation;
  if (c.state == State::over) return;
  // A DREQ contains the QP number of its receiver. If the start was not captured, this number is still unknown.
  if (PairEvidence::Side& receiver = c.evidence.sides[1 - found.sender]; receiver.qp == 0) receiver.qp = cm.qp;
  if (c.state == State::closing) {
    // The DREQ is a retransmission, or both sides disconnect simultaneously.
    c.end.last_frame = packet.number;
    if ((c.end.end == Side::a) == (found.sender == 0)) ++c.end.packets;
    return;
  }
  c.state = State::closing;
  c.end = event_of(EventKind::closed, packet);
  c.end.end = found.sender == 0 ? Side::a : Side::b;
  sink_.closing(c.evidence, packet.number, packet.time_ns);
}

void Conversations::disconnected(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  const Found found = find(ports, cm);
  if (!found.conversation || found.conversation->state != State::closing) return;
  Conversation& c = *found.conversation;
  c.state = State::over;
  c.end.last_frame = packet.number;
  c.end.duration = packet.time_ns - c.end.time;
  sink_.closed(c.evidence, c.end);
}

void Conversations::datagram_reply(const Packet& packet, const FlowKey& ports, const CmMessage& cm) {
  Conversation* c = conversations_.find(ports.reversed(cm.remote_id | sidr_bit));
  if (!c || c->state != State::requested) return;
  const auto rep = cm.as<CmSidrRep>();
  PairEvidence& e = c->evidence;
  c->state = State::over;
  e.frame = packet.number;
  e.time = packet.time_ns;
  const std::uint8_t status = rep.get<"status">();
  if (status == 0) {
    e.sides[1].qp = cm.qp;
    e.qkey = rep.get<"qkey">();
    sink_.datagram_service(e);
    return;
  }
  Rejection rejection;
  rejection.datagram = true;
  rejection.reason = status;
  if (const Name* name = cm_sidr_status_names.find(status)) {
    rejection.reason_name = name->name;
    rejection.reason_meaning = name->meaning;
  }
  constexpr std::size_t info_at = CmSidrRep::size - CmSidrRep::info_bytes;
  rejection.additional =
      Bytes(cm.header + info_at, std::min<std::size_t>(rep.get<"info_length">(), CmSidrRep::info_bytes));
  Event event = event_of(EventKind::rejected, packet);
  event.origin_frame = e.request_frame;
  event.duration = packet.time_ns - e.request_time;
  event.packets = e.requests;
  event.value = status;
  sink_.rejected(e, event, rejection);
}

void Conversations::finish() {
  conversations_.for_each_oldest_first([&](const FlowKey&, Conversation& c) {
    if (c.state == State::requested && c.evidence.request_frame != 0) {
      c.state = State::over;
      Event event;
      event.kind = EventKind::unanswered;
      event.frame = c.evidence.request_frame;
      event.last_frame = c.last_request_frame;
      event.time = c.evidence.request_time;
      event.duration = c.last_request_time - event.time;
      event.packets = c.evidence.requests;
      sink_.unanswered(c.evidence, event);
      return;
    }
    if (c.state != State::closing) return;
    c.state = State::over;
    c.end.cause = Cause::unknown;
    sink_.closed(c.evidence, c.end);
  });
}

}  // namespace rdmawire::tracking
