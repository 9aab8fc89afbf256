// Whatever is in a packet: what is found lies inside it, and nothing outside is touched.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "replay/streams/tcp_packet.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire;
  using replay::TcpPacket;
  std::vector<std::uint8_t> packet(data, data + size);
  const auto tcp = TcpPacket::find(packet);
  if (!tcp) return 0;
  if (tcp->bytes > size || tcp->transport > tcp->bytes) std::abort();
  // There and back again, it is the same but for the two forms of a checksum's zero.
  for (const auto end : {TcpPacket::End::source, TcpPacket::End::destination}) {
    const replay::IpAddress before = tcp->address(packet, end);
    replay::IpAddress other = before;
    other.storage[3] ^= 0x55;
    tcp->set_address(packet, end, other);
    if (tcp->address(packet, end) != other) std::abort();
    tcp->set_address(packet, end, before);
  }
  tcp->set_announced_mss(packet, 536);
  if (packet.size() != size) std::abort();
  return 0;
}
