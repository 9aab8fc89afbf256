#include "conformance/cases/queue_pair.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::uint8_t positive_no_credits = 0x1f;

std::uint32_t ipv4_of(const std::array<std::uint8_t, 16>& address) {
  return static_cast<std::uint32_t>(load_be<4>(address.data() + mapped.size()));
}

std::uint8_t opcode_of(Transport transport, Operation operation, Position position) {
  const Opcode* op = find_opcode(transport, operation, position);
  return op ? op->value : 0xff;
}

}  // namespace

bool Path::is_ipv4() const { return std::equal(mapped.begin(), mapped.end(), device_address.begin()); }

Frame headers_to_device(const Path& path) {
  Frame frame;
  frame /=
      Value<Ethernet>().set<"dst">(load_be<6>(path.device_mac.data())).set<"src">(load_be<6>(path.tester_mac.data()));
  if (path.vlan != 0) frame /= Value<Vlan>().set<"priority">(path.priority).set<"id">(path.vlan);
  if (path.roce_v1)
    return frame /= Value<Grh>()
                        .set<"traffic_class">(path.traffic_class)
                        .set<"hop_limit">(path.hop_limit)
                        .set<"sgid">(Bytes(path.tester_address))
                        .set<"dgid">(Bytes(path.device_address));
  if (path.is_ipv4())
    frame /= Value<Ipv4>()
                 .set<"tos">(path.traffic_class)
                 .set<"df">(1)
                 .set<"ttl">(path.hop_limit)
                 .set<"src">(ipv4_of(path.tester_address))
                 .set<"dst">(ipv4_of(path.device_address));
  else
    frame /= Value<Ipv6>()
                 .set<"traffic_class">(path.traffic_class)
                 .set<"hop_limit">(path.hop_limit)
                 .set<"src">(Bytes(path.tester_address))
                 .set<"dst">(Bytes(path.device_address));
  frame /= Value<Udp>().set<"src_port">(path.udp_source_port);
  return frame;
}

Frame TesterQueuePair::headers(std::uint8_t opcode, Psn absolute) const {
  return headers_to_device(path) /
         Value<Bth>()
             .set<"opcode">(opcode)
             .set<"migreq">(1)
             .set<"pkey">(path.pkey)
             .set<"dest_qp">(device_qpn)
             .set<"ack_request">(rdmawire::opcode(opcode).direction == Direction::request ? 1 : 0)
             .set<"psn">(absolute.value());
}

Stimulus TesterQueuePair::compose(std::uint8_t opcode, Psn absolute, psn at, const Operands& operands,
                                  std::uint8_t syndrome, std::uint32_t msn, std::uint64_t original) const {
  const Opcode& op = rdmawire::opcode(opcode);
  Frame frame = headers(opcode, absolute);
  for (const HeaderInfo* header : op.extension_headers()) {
    if (header == &info<Reth>)
      frame /= Value<Reth>().set<"va">(operands.va).set<"rkey">(operands.rkey).set<"length">(operands.length);
    else if (header == &info<AtomicEth>)
      frame /= Value<AtomicEth>()
                   .set<"va">(operands.va)
                   .set<"rkey">(operands.rkey)
                   .set<"swap_add">(operands.swap_or_add)
                   .set<"compare">(operands.compare);
    else if (header == &info<ImmDt>)
      frame /= Value<ImmDt>().set<"data">(operands.immediate);
    else if (header == &info<Ieth>)
      frame /= Value<Ieth>().set<"rkey">(operands.invalidated_rkey);
    else if (header == &info<Xrceth>)
      frame /= Value<Xrceth>().set<"xrcsrq">(operands.xrc_srq.value_or(xrc_srq));
    else if (header == &info<Deth>)
      frame /= Value<Deth>().set<"qkey">(operands.qkey).set<"src_qp">(tester_qpn);
    else if (header == &info<Feth>)
      frame /= Value<Feth>().set<"placement">(operands.placement).set<"selectivity">(operands.selectivity);
    else if (header == &info<Aeth>)
      frame /= Value<Aeth>().set<"syndrome">(syndrome).set<"msn">(msn);
    else if (header == &info<AtomicAckEth>)
      frame /= Value<AtomicAckEth>().set<"original">(original);
    else
      frame /= HeaderValue(*header);
  }
  frame.payload.assign(operands.payload.begin(), operands.payload.end());
  std::string text = op.known ? std::string(op.name) : fmt::format("opcode {:#04x}", opcode);
  text += fmt::format(", PSN {}", to_string(at));
  if (!operands.payload.empty()) text += fmt::format(", {} bytes", operands.payload.size());
  return {std::move(frame), std::move(text)};
}

Stimulus TesterQueuePair::request(std::uint8_t opcode, psn at, const Operands& operands) const {
  return compose(opcode, ours + at.value, at, operands, 0, 0, 0);
}
Stimulus TesterQueuePair::request(Operation operation, Position position, psn at, const Operands& operands) const {
  return request(opcode_of(transport, operation, position), at, operands);
}
Stimulus TesterQueuePair::send_first(psn at, const std::string& payload) const {
  return request(Operation::send, Position::first, at, {.payload = payload});
}
Stimulus TesterQueuePair::send_middle(psn at, const std::string& payload) const {
  return request(Operation::send, Position::middle, at, {.payload = payload});
}
Stimulus TesterQueuePair::send_last(psn at, const std::string& payload) const {
  return request(Operation::send, Position::last, at, {.payload = payload});
}
Stimulus TesterQueuePair::send_only(psn at, const std::string& payload) const {
  return request(Operation::send, Position::only, at, {.payload = payload});
}
Stimulus TesterQueuePair::write_first(psn at, const Operands& operands) const {
  return request(Operation::rdma_write, Position::first, at, operands);
}
Stimulus TesterQueuePair::write_middle(psn at, const std::string& payload) const {
  return request(Operation::rdma_write, Position::middle, at, {.payload = payload});
}
Stimulus TesterQueuePair::write_last(psn at, const std::string& payload) const {
  return request(Operation::rdma_write, Position::last, at, {.payload = payload});
}
Stimulus TesterQueuePair::write_only(psn at, Operands operands) const {
  if (operands.length == 0) operands.length = static_cast<std::uint32_t>(operands.payload.size());
  return request(Operation::rdma_write, Position::only, at, operands);
}
Stimulus TesterQueuePair::read(psn at, const Operands& operands) const {
  return request(Operation::rdma_read_request, Position::only, at, operands);
}
Stimulus TesterQueuePair::compare_swap(psn at, const Operands& operands) const {
  return request(Operation::compare_swap, Position::only, at, operands);
}
Stimulus TesterQueuePair::fetch_add(psn at, const Operands& operands) const {
  return request(Operation::fetch_add, Position::only, at, operands);
}

Stimulus TesterQueuePair::datagram(psn at, std::uint32_t qkey, const std::string& payload) const {
  return request(opcode_of(Transport::ud, Operation::send, Position::only), at, {.payload = payload, .qkey = qkey})
      .without_ack_request();
}
Stimulus TesterQueuePair::cnp() const {
  constexpr std::uint8_t opcode = 0x81;
  return request(opcode, psn(0) + (Psn(0) - ours), {}).without_ack_request();
}

Stimulus TesterQueuePair::response(std::uint8_t opcode, psn at, std::uint8_t syndrome, std::uint32_t msn,
                                   const std::string& payload, std::uint64_t original) const {
  constexpr std::uint32_t msns = 1U << 24;
  return compose(opcode, theirs + at.value, at, {.payload = payload}, syndrome, (msn + tester_msn) % msns, original);
}
Stimulus TesterQueuePair::ack(psn at, std::uint32_t msn) const {
  return response(opcode_of(transport, Operation::acknowledge, Position::only), at, positive_no_credits, msn);
}
Stimulus TesterQueuePair::nak(std::uint8_t code, psn at, std::uint32_t msn) const {
  return response(opcode_of(transport, Operation::acknowledge, Position::only), at,
                  static_cast<std::uint8_t>(syndrome_kind::nak << 5 | code), msn);
}
Stimulus TesterQueuePair::rnr_nak(std::uint8_t timer, psn at, std::uint32_t msn) const {
  return response(opcode_of(transport, Operation::acknowledge, Position::only), at,
                  static_cast<std::uint8_t>(syndrome_kind::rnr_nak << 5 | timer), msn);
}
Stimulus TesterQueuePair::read_response(Position position, psn at, std::uint32_t msn,
                                        const std::string& payload) const {
  return response(opcode_of(transport, Operation::rdma_read_response, position), at, positive_no_credits, msn, payload);
}
Stimulus TesterQueuePair::atomic_acknowledge(psn at, std::uint32_t msn, std::uint64_t original) const {
  return response(opcode_of(transport, Operation::atomic_acknowledge, Position::only), at, positive_no_credits, msn, {},
                  original);
}

}  // namespace rdmawire::conformance
