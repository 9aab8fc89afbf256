/// Send queues of UC and UD. A request completes when its last packet is sent. IBTA vol 1, 9.8.2, 9.8.3.

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "dissectors/machines/ud.hpp"

namespace rdmawire::device {

namespace {

bool is_send(WorkOpcode opcode) { return opcode == WorkOpcode::send || opcode == WorkOpcode::send_imm; }
bool is_write(WorkOpcode opcode) { return opcode == WorkOpcode::write || opcode == WorkOpcode::write_imm; }

Status prepare_unreliable(Core& core, const QueuePair& qp, SendWork& work) {
  const bool uc = qp.options.type == QpType::uc;
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

void finish(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const SendRequest request = std::move(at.queue.front().request);
  at.queue.pop_front();
  at.packet = 0;
  complete_send(core, qp, request, Status::success, 0);
  check_drained(core, qp);
}

void address_datagram(Core& core, const QueuePair& qp, const SendRequest& request, OutgoingPacket& packet) {
  const auto ah = core.ahs.find(request.ah);
  packet.path = ah->second.path;
  packet.fields.dest_qpn = request.remote_qpn;
  packet.fields.qkey = core.faults[Fault::sends_privileged_qkey]
                           ? request.remote_qkey
                           : machines::sent_qkey(request.remote_qkey, qp.attributes.qkey);
  packet.fields.source_qpn = qp.qpn;
}

}  // namespace

std::optional<OutgoingPacket> next_unreliable(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const bool ud = qp.options.type == QpType::ud;
  if (!qp.sends() || core.now < qp.next_send) return std::nullopt;
  while (!at.queue.empty()) {
    SendWork& work = at.queue.front();
    const SendRequest& request = work.request;
    if (work.done) {  // set only by a fault
      if (at.queue.size() == 1) return std::nullopt;
      finish(core, qp);
      continue;
    }
    if (!work.started) {
      if (qp.state != QpState::rts && !core.faults[Fault::sends_while_drained]) return std::nullopt;
      work.started = true;
      const Status status = is_local(request.opcode)                            ? execute_local(core, qp, request)
                            : ud && core.ahs.find(request.ah) == core.ahs.end() ? Status::local_qp_operation
                                                                                : prepare_unreliable(core, qp, work);
      if (status != Status::success) {
        fail(core, qp, 0, status);
        return std::nullopt;
      }
    }
    // C10-93.1.1: a datagram above the port's MTU is silently discarded and completes successfully.
    if (is_local(request.opcode) || (ud && work.length > core.port.mtu && !core.faults[Fault::sends_beyond_mtu])) {
      finish(core, qp);
      if (!qp.sends()) return std::nullopt;
      continue;
    }
    if (ud && core.ahs.find(request.ah) == core.ahs.end()) {
      fail(core, qp, 0, Status::local_qp_operation);
      return std::nullopt;
    }
    const std::uint32_t mtu =
        ud ? std::max<std::uint32_t>(core.port.mtu, static_cast<std::uint32_t>(work.length)) : qp.attributes.path_mtu;
    const Position position = work.psns == 1               ? Position::only
                              : at.packet == 0             ? Position::first
                              : at.packet + 1 == work.psns ? Position::last
                                                           : Position::middle;
    const bool ends = position == Position::only || position == Position::last;
    const bool immediate = request.opcode == WorkOpcode::send_imm || request.opcode == WorkOpcode::write_imm;
    const Operation operation = is_send(request.opcode) ? Operation::send : Operation::rdma_write;
    const Opcode* op = find_opcode(qp.transport(), operation, position, ends && immediate);
    const std::uint32_t step = core.faults[Fault::uc_psn_by_message] ? 0 : at.packet;
    OutgoingPacket packet = packet_of(core, qp, op->value, work.first + step);
    packet.fields.va = request.remote_address;
    packet.fields.rkey = request.rkey;
    packet.fields.length = static_cast<std::uint32_t>(work.length);
    packet.fields.immediate = request.immediate;
    packet.fields.solicited = ends && request.solicited && (is_send(request.opcode) || immediate);
    if (ud) address_datagram(core, qp, request, packet);
    const std::uint64_t from = std::uint64_t{at.packet} * mtu;
    const Status status = gather(core.memory, qp.options.pd, request, from,
                                 std::min<std::uint64_t>(mtu, work.length - from), packet.payload);
    if (status != Status::success) {
      fail(core, qp, 0, status);
      return std::nullopt;
    }
    packet.fields.ack_request = ends && core.faults[Fault::asks_datagrams_acknowledged];
    if (!core.faults[Fault::uc_psn_by_message] || ends || ud)
      at.window = {packet.fields.psn + 1, packet.fields.psn + 1};
    ++at.packet;
    const bool waits = core.faults[Fault::completes_uc_late] && !ud && at.queue.size() == 1;
    if (ends && waits) work.done = true;
    if (ends && !waits) finish(core, qp);
    return packet;
  }
  return std::nullopt;
}

}  // namespace rdmawire::device
