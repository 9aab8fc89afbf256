/// Responses to the peer: RDMA Read Responses and Atomic Responses. RFC 5040, 5.2.2, RFC 7306, 5.2.2.

#include <cstring>

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

bool answer_atomic(Stream& stream, const Answer& answer) {
  const ResponderDecisions& decisions = stream.decisions().responder;
  if (stream.depth.serving != 0) --stream.depth.serving;
  const View<RdmapAtomicRequest> request(answer.header.data());
  const std::uint64_t to = request.get<"to">();
  const auto opened =
      stream.rnic.memory().open(stream.accessor(), request.get<"stag">(), to, 8, device::access::remote_atomic);
  const MutableBytes memory = opened.address ? stream.rnic.memory().at(*opened.address, 8) : MutableBytes();
  if (memory.empty()) {
    fail(stream, machines::protection_error(opened.decision.reason, to, 8), {.segment = answer.segment});
    return stream.outgoing || choose_next(stream);
  }
  // Operands use the host byte order: RFC 7306, 5.1.
  std::uint64_t original = 0;
  std::memcpy(&original, memory.data(), 8);
  const std::uint64_t value = decisions.operate(answer.header, original);
  std::vector<std::uint8_t> bytes(8);
  std::memcpy(bytes.data(), &value, 8);
  decisions.write_atomic(stream, *opened.address, bytes);
  begin(stream, RdmapOperation::atomic_response, decisions.atomic_response(answer.header, original));
  return true;
}

}  // namespace

bool choose_answer(Stream& stream) {
  if (stream.answers.empty()) return false;
  const ResponderDecisions& decisions = stream.decisions().responder;
  const auto next = stream.answers.begin() + static_cast<std::ptrdiff_t>(decisions.next_answer(stream.answers));
  Answer answer = std::move(*next);
  stream.answers.erase(next);
  if (answer.atomic) return answer_atomic(stream, answer);
  stream.outgoing = decisions.read_response(answer.header);
  stream.outgoing->answer = std::move(answer);
  return true;
}

namespace conforming {

std::size_t next_answer(const std::deque<Answer>& /*answers*/) { return 0; }

Outgoing read_response(Bytes header) {
  const View<RdmapReadRequest> request(header.data());
  return {.operation = RdmapOperation::read_response,
          .stag = request.get<"sink_stag">(),
          .to = request.get<"sink_to">(),
          .bytes = request.get<"size">()};
}

std::uint64_t operate(Bytes header, std::uint64_t original) {
  const View<RdmapAtomicRequest> request(header.data());
  const std::uint64_t data = request.get<"add_swap_data">(), mask = request.get<"add_swap_mask">();
  if (request.get<"operation">() == machines::atomic_compare_swap)
    return machines::compare_swap(original, request.get<"compare_data">(), request.get<"compare_mask">(), data, mask);
  return machines::fetch_add(original, data, mask);
}

std::vector<std::uint8_t> atomic_response(Bytes header, std::uint64_t original) {
  const View<RdmapAtomicRequest> request(header.data());
  const auto response =
      Value<RdmapAtomicResponse>().set<"request_id">(request.get<"request_id">()).set<"original">(original);
  return {response.bytes().begin(), response.bytes().end()};
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
