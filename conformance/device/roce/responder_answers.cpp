/// Responses of the responder, in PSN order. READ responses are sent packet by packet. IBTA vol 1, 9.7.5.1.

#include <algorithm>
#include <functional>

#include "conformance/device/roce/responder.hpp"

namespace rdmawire::device {

namespace {

constexpr std::size_t most_answers = 4096;

OutgoingPacket packet_for(Core& core, QueuePair& qp, const Response& response, Operation operation,
                          Position position = Position::only) {
  const Opcode* op = find_opcode(qp.transport(), operation, position);
  OutgoingPacket packet = packet_of(core, qp, op->value, response.psn);
  packet.fields.syndrome = response.syndrome;
  packet.fields.msn = response.msn.value();
  packet.fields.original = response.original;
  return packet;
}

void count_nak(Core& core, std::uint8_t syndrome) {
  if (Syndrome(syndrome).is_nak()) ++core.counters.naks_sent;
  if (Syndrome(syndrome).is_rnr_nak()) ++core.counters.rnr_naks_sent;
}

}  // namespace

void keep_for_reads(Core& core, QueuePair& qp, Bytes changing) {
  for (Response& waiting : qp.responder.answers) {
    if (waiting.kind != Response::Kind::read || waiting.left == 0 || !waiting.kept.empty()) continue;
    const auto host =
        core.memory.remote({waiting.pd, qp.qpn}, waiting.rkey, waiting.va, waiting.left, access::remote_read);
    const Bytes asked = host ? Bytes(core.memory.at(*host, waiting.left)) : Bytes{};
    const bool overlap = !asked.empty() && std::less<>()(asked.data(), changing.data() + changing.size()) &&
                         std::less<>()(changing.data(), asked.data() + asked.size());
    if (!overlap) continue;
    waiting.kept.assign(asked.begin(), asked.end());
    waiting.kept_va = waiting.va;
  }
}

void answer(Core& core, QueuePair& qp, Response response) {
  auto& answers = qp.responder.answers;
  if (answers.size() >= most_answers) return;
  if (!Syndrome(response.syndrome).is_ack()) response.msn = qp.responder.state.msn;
  response.pd = qp.responder.pd;
  const auto place = static_cast<std::ptrdiff_t>(core.decisions.responder.place_of(answers, response));
  answers.insert(answers.begin() + place, response);
}

void answer_kept(Core& core, QueuePair& qp, const machines::RcAnswer& kept, const machines::RcRequest& request) {
  const ResponderDecisions& decisions = core.decisions.responder;
  Response response;
  response.psn = response.request = request.psn;
  response.msn = qp.responder.state.msn;
  response.syndrome = decisions.credits(core, qp);
  response.kind = decisions.kind_of_answer(kept.operation);
  if (response.kind == Response::Kind::atomic) response.original = kept.original;
  if (response.kind == Response::Kind::read) {
    response.va = request.va;
    response.rkey = request.rkey;
    response.left = request.length;
    response.msn = decisions.read_response_msn(qp.responder);
    // A retry of the READ replaces its pending response. The new one starts at the requested PSN.
    const Psn last = kept.psn + (kept.psns - 1);
    std::erase_if(qp.responder.answers, [&](const Response& waiting) {
      return waiting.kind == Response::Kind::read && waiting.psn - kept.psn >= 0 && waiting.psn - last <= 0;
    });
  }
  answer(core, qp, response);
}

std::optional<OutgoingPacket> next_answer(Core& core, QueuePair& qp) {
  auto& answers = qp.responder.answers;
  if (answers.empty() || !qp.takes_requests() || core.now < qp.next_send) return std::nullopt;
  Response& front = answers.front();
  Operation operation = Operation::acknowledge;
  switch (front.kind) {
    case Response::Kind::read: {
      auto packet = core.decisions.responder.next_of_read(core, qp, front);
      if (packet) {
        if (front.left == 0) answers.pop_front();
        return packet;
      }
      // The region is no longer accessible. A NAK replaces the packet and ends the response.
      front = {.psn = core.decisions.responder.read_error_psn(front),
               .syndrome = Syndrome::nak(nak_code::remote_access_error).bits(),
               .msn = front.msn,
               .fatal = true};
      qp.responder.rejecting = true;
      core.event(EventType::qp_access_error, qp.handle);
      break;
    }
    case Response::Kind::atomic: operation = Operation::atomic_acknowledge; break;
    case Response::Kind::placed: operation = Operation::rdma_read_response; break;
    case Response::Kind::acknowledge: break;
  }
  const Response response = front;
  answers.pop_front();
  count_nak(core, response.syndrome);
  OutgoingPacket packet = packet_for(core, qp, response, operation);
  if (response.fatal) enter_error(core, qp);
  return packet;
}

namespace conforming {

std::uint8_t credits(const Core& /*core*/, QueuePair& qp) {
  constexpr std::uint8_t not_used = 31;
  if (qp.options.srq != 0 || qp.options.type == QpType::xrc_target) return not_used;
  std::uint8_t code = 0;
  while (code < 30 && credits_of_code(code + 1U) <= qp.receives.size()) ++code;
  return code;
}

std::size_t place_of(const std::deque<Response>& answers, const Response& response) {
  return static_cast<std::size_t>(
      std::ranges::find_if(answers, [&](const Response& waiting) { return waiting.psn - response.psn > 0; }) -
      answers.begin());
}

Response::Kind kind_of_answer(Operation operation) {
  if (operation == Operation::rdma_read_request) return Response::Kind::read;
  return machines::is_atomic(operation) ? Response::Kind::atomic : Response::Kind::placed;
}

Msn read_response_msn(const Responder& at) { return at.state.msn; }

std::uint32_t read_response_mtu(const QueuePair& qp, const Response& /*response*/) { return qp.attributes.path_mtu; }

std::optional<OutgoingPacket> next_of_read(Core& core, QueuePair& qp, Response& response) {
  const ResponderDecisions& decisions = core.decisions.responder;
  const std::uint32_t mtu = decisions.read_response_mtu(qp, response);
  const std::uint32_t count = std::min(response.left, mtu);
  auto found = decisions.bytes_of_read(core, qp, response, count);
  if (!found) return std::nullopt;
  const bool first = response.psn == response.request, last = response.left <= mtu;
  const Position position = first && last ? Position::only
                            : first       ? Position::first
                            : last        ? Position::last
                                          : Position::middle;
  OutgoingPacket packet = packet_for(core, qp, response, Operation::rdma_read_response, position);
  packet.payload = std::move(*found);
  response.va += count;
  response.left -= count;
  response.psn = response.psn + 1;
  return packet;
}

std::optional<std::vector<std::uint8_t>> bytes_of_read(Core& core, const QueuePair& qp, const Response& response,
                                                       std::uint32_t count) {
  if (count == 0) return std::vector<std::uint8_t>{};
  const auto host = core.memory.remote({response.pd, qp.qpn}, response.rkey, response.va, count, access::remote_read);
  Bytes found = host ? Bytes(core.memory.at(*host, count)) : Bytes{};
  if (!found.empty() && !response.kept.empty())
    found = Bytes(response.kept).subspan(response.va - response.kept_va, count);
  if (found.empty()) return std::nullopt;
  return std::vector<std::uint8_t>(found.begin(), found.end());
}

Psn read_error_psn(const Response& response) { return response.psn; }

}  // namespace conforming

}  // namespace rdmawire::device
