/// Datagrams that arrive. IBTA vol 1, 9.8.3, A17.4.5.

#include <algorithm>

#include "conformance/device/core.hpp"
#include "dissectors/machines/ud.hpp"

namespace rdmawire::device {

void receive_datagram(Core& core, QueuePair& qp, const Packet& packet) {
  const ReceiveRequest* next = next_receive(core, qp, qp.options.srq);
  const auto reaction = machines::judge_datagram(*packet.op, static_cast<std::uint32_t>(packet.payload.size()),
                                                 core.port.mtu, next != nullptr, next ? next->octets() : 0);
  if (reaction == machines::UdReaction::drop) {
    if (!next) ++core.counters.no_receive;
    return;
  }
  // A17.4.5.2: an IPv4 header stands in the second half of the 40 octets; before it nothing is promised.
  std::vector<std::uint8_t> octets(machines::ud_header_octets, 0);
  std::copy_n(packet.network.begin(), std::min<std::size_t>(packet.network.size(), machines::ud_header_octets),
              octets.begin() + static_cast<std::ptrdiff_t>(packet.is_ipv4 ? 20 : 0));
  octets.insert(octets.end(), packet.payload.begin(), packet.payload.end());
  const SharedReceiveQueue* shared = core.srq(qp.options.srq);
  const std::uint32_t pd = shared ? shared->pd : qp.options.pd;
  const auto request = take_receive(core, qp, qp.options.srq);
  qp.responder.receive_srq = qp.options.srq;
  Completion completion;
  completion.opcode = CompletionOpcode::receive;
  completion.status = scatter(core, pd, request->sges, 0, octets);
  completion.octets = static_cast<std::uint32_t>(octets.size());
  completion.has_immediate = packet.op->immediate;
  completion.immediate = packet.op->immediate ? packet.fields.immediate : 0;
  completion.has_grh = true;
  completion.source_qpn = packet.fields.source_qpn;
  completion.pkey_index = qp.attributes.pkey_index;
  completion.sl = packet.sl;
  completion.is_ipv4 = packet.is_ipv4;
  completion.source_mac = packet.source_mac;
  const bool failed = completion.status != Status::success;
  complete_receive(core, qp, *request, completion, packet.fields.solicited);
  if (failed) enter_error(core, qp);
}

}  // namespace rdmawire::device
