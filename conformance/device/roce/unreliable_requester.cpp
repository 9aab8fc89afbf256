/// Send queues of UC and UD. A request completes when its last packet is sent. IBTA vol 1, 9.8.2, 9.8.3.

#include <algorithm>

#include "conformance/device/roce/requester.hpp"
#include "dissectors/machines/ud.hpp"

namespace rdmawire::device {

namespace {

bool is_send(WorkOpcode opcode) { return opcode == WorkOpcode::send || opcode == WorkOpcode::send_imm; }
bool is_write(WorkOpcode opcode) { return opcode == WorkOpcode::write || opcode == WorkOpcode::write_imm; }

bool knows_destination(const Core& core, const QueuePair& qp, const SendRequest& request) {
  return qp.options.type != QpType::ud || core.ahs.contains(request.ah);
}

/// Assign the message's PSNs. Returns an error status if the request cannot be sent.
Status prepare_unreliable(Core& core, const QueuePair& qp, SendWork& work) {
  const bool uc = qp.options.type == QpType::uc;
  if (!knows_destination(core, qp, work.request)) return Status::local_qp_operation;
  if (!is_send(work.request.opcode) && !(uc && is_write(work.request.opcode))) return Status::local_qp_operation;
  if (work.length > machines::longest_message) return Status::local_length;
  if (!work.request.is_inline)
    if (const Status status = check_local(core.memory, qp.options.pd, work.request.sges, false);
        status != Status::success)
      return status;
  work.psns = uc ? machines::psns_of_read(static_cast<std::uint32_t>(work.length), qp.attributes.path_mtu) : 1;
  work.first = qp.requester.window.next;
  return Status::success;
}

/// Start the oldest request, and return its status. nullopt: it must wait.
std::optional<Status> start_unreliable(Core& core, QueuePair& qp) {
  SendWork& work = qp.requester.queue.front();
  if (core.decisions.requester.sending(qp) != machines::Sending::everything) return std::nullopt;
  work.started = true;
  return is_local(work.request.opcode) ? execute_local(core, qp, work.request) : prepare_unreliable(core, qp, work);
}

void finish(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const SendRequest request = std::move(at.queue.front().request);
  at.queue.pop_front();
  at.packet = 0;
  complete_send(core, qp, request, Status::success, 0);
  check_drained(core, qp);
}

void address_datagram(Core& core, const QueuePair& qp, const SendRequest& request, OutgoingPacket& packet) {
  packet.path = core.ahs.at(request.ah).path;
  packet.fields.dest_qpn = request.remote_qpn;
  packet.fields.qkey = core.decisions.requester.datagram_qkey(qp, request);
  packet.fields.source_qpn = qp.qpn;
}

/// Build the next packet of the oldest request. nullopt: the request failed.
std::optional<OutgoingPacket> build_unreliable(Core& core, QueuePair& qp) {
  const RequesterDecisions& decisions = core.decisions.requester;
  const bool ud = qp.options.type == QpType::ud;
  Requester& at = qp.requester;
  const SendWork& work = at.queue.front();
  const SendRequest& request = work.request;
  const Position position = position_of(at.packet, work.psns);
  const bool ends = position == Position::only || position == Position::last;
  const bool immediate = request.opcode == WorkOpcode::send_imm || request.opcode == WorkOpcode::write_imm;
  const Operation operation = is_send(request.opcode) ? Operation::send : Operation::rdma_write;
  const Opcode* op = find_opcode(qp.transport(), operation, position, ends && immediate);
  OutgoingPacket packet = packet_of(core, qp, op->value, decisions.psn_of(work, at.packet));
  packet.fields.va = request.remote_address;
  packet.fields.rkey = request.rkey;
  packet.fields.length = static_cast<std::uint32_t>(work.length);
  packet.fields.immediate = request.immediate;
  packet.fields.solicited = ends && request.solicited && (is_send(request.opcode) || immediate);
  packet.fields.ack_request = decisions.requests_acknowledgement(qp, *op);
  if (ud) address_datagram(core, qp, request, packet);
  const std::uint64_t part = ud ? work.length : qp.attributes.path_mtu, from = at.packet * part;
  const Status status =
      gather(core.memory, qp.options.pd, request, from, std::min(part, work.length - from), packet.payload);
  if (status != Status::success) {
    fail(core, qp, 0, status);
    return std::nullopt;
  }
  return packet;
}

/// Update the state after a packet was sent.
void sent_unreliable(Core& core, QueuePair& qp, const OutgoingPacket& packet) {
  Requester& at = qp.requester;
  SendWork& work = at.queue.front();
  at.window = {packet.fields.psn + 1, packet.fields.psn + 1};
  work.done = ++at.packet == work.psns;
  if (work.done && core.decisions.requester.completes_when_sent(qp)) finish(core, qp);
}

}  // namespace

std::optional<OutgoingPacket> next_unreliable(Core& core, QueuePair& qp) {
  const RequesterDecisions& decisions = core.decisions.requester;
  Requester& at = qp.requester;
  if (!qp.sends() || core.now < qp.next_send) return std::nullopt;
  while (!at.queue.empty()) {
    const SendWork& work = at.queue.front();
    if (work.done) {
      if (!decisions.completes_when_sent(qp)) return std::nullopt;
      finish(core, qp);
      continue;
    }
    const auto status = work.started ? Status::success : start_unreliable(core, qp);
    if (!status) return std::nullopt;
    if (*status != Status::success) {
      fail(core, qp, 0, *status);
      return std::nullopt;
    }
    const bool ud = qp.options.type == QpType::ud;
    if (is_local(work.request.opcode) || (ud && decisions.discards_datagram(core.port, work.length))) {
      finish(core, qp);
      if (!qp.sends()) return std::nullopt;
      continue;
    }
    if (!knows_destination(core, qp, work.request)) {  // the application destroyed the address handle
      fail(core, qp, 0, Status::local_qp_operation);
      return std::nullopt;
    }
    auto packet = build_unreliable(core, qp);
    if (packet) sent_unreliable(core, qp, *packet);
    return packet;
  }
  return std::nullopt;
}

namespace conforming {

Psn psn_of(const SendWork& work, std::uint32_t packet) { return work.first + packet; }

bool completes_when_sent(const QueuePair& /*qp*/) { return true; }

bool discards_datagram(const Port& port, std::uint64_t bytes) { return bytes > port.mtu; }

std::uint32_t datagram_qkey(const QueuePair& qp, const SendRequest& request) {
  return machines::sent_qkey(request.remote_qkey, qp.attributes.qkey);
}

}  // namespace conforming

}  // namespace rdmawire::device
