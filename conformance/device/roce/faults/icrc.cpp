#include "conformance/device/roce/faults/icrc.hpp"

#include <algorithm>
#include <vector>

#include "dissectors/protocol/crc.hpp"

namespace rdmawire::device {

std::uint32_t icrc_with(Bytes datagram, bool ipv4, const IcrcMasks& masks) {
  const std::size_t ip = ipv4 ? 20 : 40, udp = 8, bth = 12;
  std::vector<std::uint8_t> covered(8, 0xff);
  covered.insert(covered.end(), datagram.begin(), datagram.end());
  const auto at = [&](std::size_t offset) -> std::uint8_t& { return covered[8 + offset]; };
  if (datagram.size() < ip + udp + bth) return 0;
  if (ipv4) {
    at(1) = at(10) = at(11) = 0xff;
    if (masks.hops) at(8) = 0xff;
  } else {
    at(0) |= 0x0f;
    at(1) = at(2) = at(3) = 0xff;
    if (masks.hops) at(7) = 0xff;
  }
  at(ip + 6) = at(ip + 7) = 0xff;
  if (masks.reserved) at(ip + udp + 4) = 0xff;
  const std::size_t open = datagram.size() - ip - udp - bth;
  covered.erase(covered.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(open, masks.left_out)),
                covered.end());
  const Bytes after_bth = datagram.subspan(ip + udp + bth);
  const Bytes repeated = after_bth.first(std::min<std::size_t>(after_bth.size(), masks.headers_again));
  return __builtin_bswap32(crc32(repeated, crc32(covered)));
}

}  // namespace rdmawire::device
