#include "captures/extract/checksums.hpp"

#include <algorithm>
#include <optional>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire::captures {
namespace {

std::uint64_t sum_of(Bytes bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load_be<2>(bytes.data() + i);
  if (bytes.size() % 2) sum += static_cast<std::uint64_t>(bytes.back()) << 8;
  return sum;
}
std::uint16_t folded(std::uint64_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

/// Extent of the datagram after a network header.
struct Datagram {
  std::uint32_t end = 0;  ///< end according to the length field
  bool fragment = false;
  Range addresses;
  std::uint8_t protocol = 0;  ///< protocol after all extension headers
};

Datagram datagram_of(const HeaderStack& stack, std::size_t index) {
  const Layer& ip = stack.layers()[index];
  const std::uint8_t* header = stack.bytes.data() + ip.offset;
  const auto captured = static_cast<std::uint32_t>(stack.bytes.size());
  Datagram datagram;
  if (ip.header == &info<Ipv4>) {
    const View<Ipv4> view(header);
    // Segmentation offload sets the length to 0. The datagram then ends where the packet ends.
    const std::uint32_t length = view.get<"total_length">();
    datagram.end = length ? ip.offset + length : std::max(captured, stack.wire_length);
    datagram.fragment = view.get<"mf">() || view.get<"fragment_offset">();
    datagram.addresses = {ip.offset + 12, 8};
    datagram.protocol = view.get<"protocol">();
    return datagram;
  }
  const View<Ipv6> view(header);
  const std::uint32_t length = view.get<"payload_length">();
  datagram.end = length ? ip.offset + Ipv6::size + length : std::max(captured, stack.wire_length);
  datagram.addresses = {ip.offset + 8, 32};
  datagram.protocol = view.get<"next_header">();
  for (std::size_t i = index + 1; i < stack.layers().size(); ++i) {
    const Layer& layer = stack.layers()[i];
    const std::uint8_t* extension = stack.bytes.data() + layer.offset;
    if (layer.header == &info<Ipv6Fragment>)
      datagram.fragment |= View<Ipv6Fragment>(extension).get<"more">() || View<Ipv6Fragment>(extension).get<"offset">();
    else if (layer.header != &info<Ipv6Extension> && layer.header != &info<Ipv6Authentication>)
      break;
    datagram.protocol = extension[0];
  }
  return datagram;
}

std::uint16_t computed(const Checksum& checksum, Bytes packet) {
  std::uint64_t sum = checksum.constant;
  sum += sum_of(packet.subspan(checksum.addresses.offset, checksum.addresses.length));
  sum += sum_of(packet.subspan(checksum.covered.offset, checksum.covered.length));
  // The checksum field counts as zero. Its offset in the covered bytes is even.
  sum += 0xffff - load_be<2>(packet.data() + checksum.at);
  const auto value = static_cast<std::uint16_t>(~folded(sum));
  return checksum.zero_is_none && value == 0 ? 0xffff : value;
}

}  // namespace

std::vector<Checksum> checksums_of(const HeaderStack& stack) {
  std::vector<Checksum> all;
  const auto captured = static_cast<std::uint32_t>(stack.bytes.size());
  auto add = [&](std::string_view name, std::uint32_t at, std::uint32_t from, std::uint32_t end, const Datagram* pseudo,
                 std::uint8_t protocol, bool fragment) {
    if (at + 2 > captured || end < at + 2) return;
    Checksum checksum;
    checksum.name = name;
    checksum.at = at;
    checksum.covered = {from, std::min(end, captured) - from};
    checksum.whole = end <= captured && !fragment;
    if (pseudo) {
      checksum.addresses = pseudo->addresses;
      checksum.constant = end - from + protocol;
    }
    checksum.zero_is_none = protocol == ip_protocol::udp;
    const auto value = static_cast<std::uint16_t>(load_be<2>(stack.bytes.data() + at));
    checksum.status = checksum.zero_is_none && value == 0 ? CrcCheck::Status::absent
                      : !checksum.whole                   ? CrcCheck::Status::unverifiable
                      // 0 and 0xffff are equal in one's complement.
                      : folded(value) % 0xffff == computed(checksum, stack.bytes) % 0xffff ? CrcCheck::Status::good
                                                                                           : CrcCheck::Status::bad;
    all.push_back(checksum);
  };

  std::optional<Datagram> datagram;
  for (std::size_t i = 0; i < stack.layers().size(); ++i) {
    const Layer& layer = stack.layers()[i];
    const std::uint8_t* header = stack.bytes.data() + layer.offset;
    if (layer.header == &info<Ipv4> || layer.header == &info<Ipv6>) {
      datagram = datagram_of(stack, i);
      if (layer.header == &info<Ipv4>)
        add("IP checksum", layer.offset + 10, layer.offset, layer.offset + layer.length, nullptr, 0, false);
    }
    if (!datagram) continue;
    if (layer.header == &info<Icmp>)
      add("ICMP checksum", layer.offset + 2, layer.offset, datagram->end, nullptr, 0, datagram->fragment);
    if (layer.header == &info<Icmpv6>)
      add("ICMPv6 checksum", layer.offset + 2, layer.offset, datagram->end, &*datagram, ip_protocol::icmpv6,
          datagram->fragment);
    if (layer.header == &info<Tcp>)
      add("TCP checksum", layer.offset + 16, layer.offset, datagram->end, &*datagram, ip_protocol::tcp,
          datagram->fragment);
    if (layer.header == &info<Udp>) {
      const std::uint32_t length = View<Udp>(header).get<"length">();
      const std::uint32_t end = length >= Udp::size ? layer.offset + length : datagram->end;
      add("UDP checksum", layer.offset + 6, layer.offset, end, &*datagram, ip_protocol::udp, datagram->fragment);
    }
    if (layer.header == &info<Gre> && layer.length >= 8 && View<Gre>(header).get<"checksum_present">())
      add("GRE checksum", layer.offset + 4, layer.offset, datagram->end, nullptr, 0, datagram->fragment);
  }
  std::reverse(all.begin(), all.end());
  return all;
}

void recompute(const Checksum& checksum, Bytes before, MutableBytes packet) {
  if (checksum.status == CrcCheck::Status::absent) return;
  std::uint16_t value = 0;
  if (checksum.whole) {
    value = computed(checksum, packet);
  } else {
    // The checksum itself is equal in both packets and cancels out.
    std::uint64_t sum = 0xffff - load_be<2>(before.data() + checksum.at);
    for (const Range& range : {checksum.addresses, checksum.covered}) {
      sum += 0xffff - folded(sum_of(before.subspan(range.offset, range.length)));
      sum += folded(sum_of(packet.subspan(range.offset, range.length)));
    }
    value = static_cast<std::uint16_t>(~folded(sum));
    if (checksum.zero_is_none && value == 0) value = 0xffff;
  }
  store_be(packet.data() + checksum.at, 2, value);
}

}  // namespace rdmawire::captures
