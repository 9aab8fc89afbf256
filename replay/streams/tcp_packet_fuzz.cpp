// Fuzz target: parsing any packet stays within its bounds, and changes stay within the parsed packet.

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
  // The changed address must be read back. The restored packet is not compared: an incremental update may exchange the
  // two representations of a zero checksum.
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
