#pragma once
/// RoCEv2 and TCP frames between 10.0.0.2 (side a) and 10.0.0.3 (side b), for tests.

#include <vector>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::replay::testing {

namespace op {
inline constexpr std::uint8_t send_first = 0x00, send_middle = 0x01, send_last = 0x02, send_only = 0x04,
                              read_request = 0x0c, read_only = 0x10, acknowledge = 0x11;
}

inline Frame between(bool from_a) {
  return Value<Ethernet>()
             .set<"dst">(from_a ? 0x525400000003 : 0x525400000002)
             .set<"src">(from_a ? 0x525400000002 : 0x525400000003) /
         Value<Ipv4>()
             .set<"src">(from_a ? 0x0a000002 : 0x0a000003)
             .set<"dst">(from_a ? 0x0a000003 : 0x0a000002)
             .set<"tos">(0x02);
}
/// Returns a frame from a to QP 0x11 of b, or from b to QP 0x12 of a.
inline std::vector<std::uint8_t> packet(bool from_a, std::uint8_t opcode, std::uint32_t psn, std::uint32_t qp = 0) {
  Frame frame = between(from_a) / Value<Udp>() /
                Value<Bth>().set<"opcode">(opcode).set<"psn">(psn).set<"dest_qp">(qp       ? qp
                                                                                  : from_a ? 0x11
                                                                                           : 0x12);
  if (opcode == op::read_request) frame /= Value<Reth>().set<"length">(16);
  if (opcode == op::acknowledge || opcode == op::read_only) frame /= Value<Aeth>();
  if (opcode != op::acknowledge && opcode != op::read_request) frame.payload = {1, 2, 3, 4, 5, 6, 7, 8};
  return frame.encode();
}
inline std::vector<std::uint8_t> request(std::uint32_t psn) { return packet(true, op::send_only, psn); }
inline std::vector<std::uint8_t> answer(std::uint32_t psn) { return packet(false, op::acknowledge, psn); }

inline std::vector<std::uint8_t> tcp(bool from_a, std::uint32_t seq, std::size_t bytes, bool syn = false) {
  Frame frame = between(from_a) / Value<Tcp>()
                                      .set<"src_port">(from_a ? 40'000 : 7471)
                                      .set<"dst_port">(from_a ? 7471 : 40'000)
                                      .set<"seq">(seq)
                                      .set<"syn">(syn)
                                      .set<"ack">(1);
  frame.payload.assign(bytes, 0x5a);
  return frame.encode();
}

}  // namespace rdmawire::replay::testing
