// Encodes a RoCEv2 packet and decodes it again, using only the installed package.

#include <cstdint>
#include <iostream>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

using namespace rdmawire;

int main() {
  constexpr std::uint8_t rc_send_only = 0x04;
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000002).set<"dst">(0x0a000003);
  frame /= Value<Udp>();
  frame /= Value<Bth>().set<"opcode">(rc_send_only).set<"dest_qp">(0x11).set<"psn">(0xabcdef);
  frame.payload = {'h', 'e', 'l', 'l', 'o'};
  const std::vector<std::uint8_t> packet = frame.encode();

  const HeaderStack stack = decode(packet);
  for (const ParseError& finding : stack.findings()) std::cout << to_string(finding) << '\n';
  const auto bth = stack.get<Bth>();
  if (!bth) return 1;
  const bool good = check_icrc(stack).status == CrcCheck::Status::good;
  std::cout << "consumer: " << opcode(bth->get<"opcode">()).name << " to QP " << bth->get<"dest_qp">() << ", PSN "
            << bth->get<"psn">() << ", " << stack.payload.length << " bytes, ICRC " << (good ? "good" : "bad") << '\n';
  return good && bth->get<"psn">() == 0xabcdef && stack.payload.length == 5 ? 0 : 1;
}
