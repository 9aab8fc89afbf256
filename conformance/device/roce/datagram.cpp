/// Received datagrams. IBTA vol 1, 9.8.3, A17.4.5.

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "dissectors/machines/ud.hpp"

namespace rdmawire::device {

namespace {

/// Packet attributes for the state machine, which faults may change.
struct ReceivedDatagram {
  const Opcode* op;
  std::uint32_t mtu;
  std::uint64_t capacity;
};
ReceivedDatagram attributes_of(const Core& core, const Packet& packet, const ReceiveRequest* next) {
  ReceivedDatagram datagram{packet.op, core.port.mtu, next ? next->bytes() : 0};
  if (core.faults[Fault::takes_beyond_mtu]) datagram.mtu = 65'536;
  return datagram;
}

void answer_not_ready(Core& core, QueuePair& qp, const Packet& packet) {
  constexpr std::uint8_t acknowledge = 0x11;
  OutgoingPacket answer = packet_of(core, qp, acknowledge, packet.fields.psn);
  answer.path.dgid = packet.sgid;
  answer.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
  answer.fields.dest_qpn = packet.fields.source_qpn;
  answer.fields.syndrome = Syndrome::rnr_nak(0).bits();
  if (core.control.size() < Core::most_control) core.control.push_back(std::move(answer));
}

}  // namespace

void receive_datagram(Core& core, QueuePair& qp, const Packet& packet) {
  const ReceiveRequest* next = next_receive(core, qp, qp.options.srq);
  const ReceivedDatagram datagram = attributes_of(core, packet, next);
  const auto bytes_there = static_cast<std::uint32_t>(packet.payload.size());
  const auto reaction =
      machines::judge_datagram(*datagram.op, bytes_there, datagram.mtu, next != nullptr, datagram.capacity);
  const bool stale = core.faults[Fault::checks_ud_psn] && qp.responder.faults.expected_datagram &&
                     packet.fields.psn != *qp.responder.faults.expected_datagram;
  if (!stale) qp.responder.faults.expected_datagram = packet.fields.psn + 1;
  if (reaction == machines::UdReaction::drop || stale) {
    if (!next) ++core.counters.no_receive;
    if (!next && core.faults[Fault::ud_sends_rnr]) answer_not_ready(core, qp, packet);
    if (next && bytes_there + machines::ud_header_bytes > datagram.capacity &&
        core.faults[Fault::error_for_long_datagrams])
      enter_error(core, qp);
    return;
  }
  // A17.4.5.2: an IPv4 header is in the second half of the 40 bytes. The first half is undefined.
  std::vector<std::uint8_t> bytes(machines::ud_header_bytes, 0);
  std::copy_n(packet.network.begin(), std::min<std::size_t>(packet.network.size(), machines::ud_header_bytes),
              bytes.begin() +
                  static_cast<std::ptrdiff_t>(packet.is_ipv4 && !core.faults[Fault::network_header_at_front] ? 20 : 0));
  bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
  const SharedReceiveQueue* shared = core.srq(qp.options.srq);
  const std::uint32_t pd = shared ? shared->pd : qp.options.pd;
  const auto request = take_receive(core, qp, qp.options.srq);
  qp.responder.receive_srq = qp.options.srq;
  Completion completion;
  completion.opcode = CompletionOpcode::receive;
  completion.status = scatter(core.memory, pd, request->sges, 0, bytes);
  completion.bytes =
      core.faults[Fault::byte_len_without_header] ? bytes_there : static_cast<std::uint32_t>(bytes.size());
  completion.has_immediate = packet.op->immediate && !core.faults[Fault::loses_ud_immediate];
  completion.immediate = completion.has_immediate ? packet.fields.immediate : 0;
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
