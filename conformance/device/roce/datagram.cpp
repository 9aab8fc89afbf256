/// Received datagrams. IBTA vol 1, 9.8.3, A17.4.5.

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "dissectors/machines/ud.hpp"

namespace rdmawire::device {

void receive_datagram(Core& core, QueuePair& qp, const Packet& packet) {
  const ReceiveRequest* next = next_receive(core, qp, qp.options.srq);
  const DatagramDecisions& decisions = core.decisions.datagrams;
  const auto reaction =
      machines::judge_datagram(*packet.op, static_cast<std::uint32_t>(packet.payload.size()),
                               decisions.largest_datagram(core.port), next != nullptr, next ? next->bytes() : 0);
  const bool accepted = decisions.accepts_psn(qp, packet.fields.psn);
  if (reaction == machines::UdReaction::drop || !accepted) {
    decisions.drop(core, qp, packet, next);
    return;
  }
  std::vector<std::uint8_t> bytes(machines::ud_header_bytes, 0);
  std::copy_n(packet.network.begin(), std::min<std::size_t>(packet.network.size(), machines::ud_header_bytes),
              bytes.begin() + decisions.network_header_offset(packet));
  bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
  const SharedReceiveQueue* shared = core.srq(qp.options.srq);
  const std::uint32_t pd = shared ? shared->pd : qp.options.pd;
  const auto request = take_receive(core, qp, qp.options.srq);
  qp.responder.receive_srq = qp.options.srq;
  Completion completion = decisions.completion(qp, packet);
  completion.status = scatter(core.memory, pd, request->sges, 0, bytes);
  const bool failed = completion.status != Status::success;
  complete_receive(core, qp, *request, completion, packet.fields.solicited);
  if (failed) enter_error(core, qp);
}

namespace conforming {

std::uint32_t largest_datagram(const Port& port) { return port.mtu; }

bool accepts_datagram_psn(QueuePair& /*qp*/, Psn /*psn*/) { return true; }

void drop_datagram(Core& core, QueuePair& /*qp*/, const Packet& /*packet*/, const ReceiveRequest* next) {
  if (!next) ++core.counters.no_receive;
}

std::ptrdiff_t network_header_offset(const Packet& packet) { return packet.is_ipv4 ? 20 : 0; }

Completion datagram_completion(const QueuePair& qp, const Packet& packet) {
  Completion completion;
  completion.opcode = CompletionOpcode::receive;
  completion.bytes = static_cast<std::uint32_t>(machines::ud_header_bytes + packet.payload.size());
  completion.has_immediate = packet.op->immediate;
  completion.immediate = completion.has_immediate ? packet.fields.immediate : 0;
  completion.has_grh = true;
  completion.source_qpn = packet.fields.source_qpn;
  completion.pkey_index = qp.attributes.pkey_index;
  completion.sl = packet.sl;
  completion.is_ipv4 = packet.is_ipv4;
  completion.source_mac = packet.source_mac;
  return completion;
}

}  // namespace conforming

}  // namespace rdmawire::device
