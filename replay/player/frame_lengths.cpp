#include "replay/player/frame_lengths.hpp"

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/faults/recompute_checksums.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t icrc_bytes = 4;
constexpr std::size_t fragment_unit = 8;
constexpr std::size_t fragment_header_bytes = 8;
constexpr std::uint8_t ipv6_fragment = 44;  // protocol number of the fragment header

template <class H, FixedString Name>
void store(MutableBytes frame, std::uint32_t offset, std::uint64_t value) {
  detail::field_of<H>(Name.view()).store(frame.data() + offset, value);
}

/// The end of the outermost IP packet. Padding, trailers and a frame check sequence follow it.
std::size_t end_of_packet(const HeaderStack& stack) {
  for (const Layer& layer : stack.layers()) {
    const std::uint8_t* const at = stack.bytes.data() + layer.offset;
    if (layer.header == &info<Ipv4>) return layer.offset + load_field<Ipv4, "total_length">(at);
    if (layer.header == &info<Ipv6>) return layer.offset + Ipv6::size + load_field<Ipv6, "payload_length">(at);
    if (layer.header == &info<Grh>) return layer.offset + Grh::size + load_field<Grh, "payload_length">(at);
  }
  return stack.bytes.size();
}

/// The end of a shortened RoCE packet with an ICRC. 0: its headers do not fit.
std::size_t end_of_roce(const HeaderStack& stack, const Layer& bth, std::size_t most) {
  std::size_t headers = bth.offset + bth.length;
  for (const Layer& layer : stack.layers()) headers = std::max<std::size_t>(headers, layer.offset + layer.length);
  if (headers + icrc_bytes > most || stack.bytes.size() < headers) return 0;
  // The payload and the padding are a multiple of 4 bytes. IBTA vol 1, 9.2.
  return headers + (most - headers - icrc_bytes) / 4 * 4 + icrc_bytes;
}

}  // namespace

std::optional<std::size_t> shorten_frame(MutableBytes frame, LinkType link, std::size_t most) {
  const HeaderStack stack = decode(frame, link);
  if (stack.network == HeaderStack::none) return std::min(most, frame.size());
  const Layer& network = stack.layers()[stack.network];
  std::size_t end = std::min({most, frame.size(), end_of_packet(stack)});
  const Layer* const bth = stack.find(info<Bth>);
  const Layer* const udp = stack.find(info<Udp>);
  if (stack.wire == rdmawire::Wire::infiniband) return std::nullopt;
  const bool to_roce =
      udp && load_field<Udp, "dst_port">(frame.data() + udp->offset) == DecodeOptions::roce_v2_udp_port;
  if (!bth && !stack.fragment && (to_roce || network.header == &info<Grh>)) return std::nullopt;
  if (bth) {
    end = end_of_roce(stack, *bth, end);
    if (end == 0) return std::nullopt;
    store<Bth, "pad">(frame, bth->offset, 0);
  }
  const std::size_t least = udp ? udp->offset + udp->length : network.offset + network.length;
  if (end < least) return std::nullopt;
  // Also those of tunnels.
  for (const Layer& layer : stack.layers()) {
    const std::size_t length = end - layer.offset;
    if (layer.header == &info<Ipv4>)
      store<Ipv4, "total_length">(frame, layer.offset, length);
    else if (layer.header == &info<Ipv6>)
      store<Ipv6, "payload_length">(frame, layer.offset, length - Ipv6::size);
    else if (layer.header == &info<Grh>)
      store<Grh, "payload_length">(frame, layer.offset, length - Grh::size);
    else if (layer.header == &info<Udp> && !stack.fragment)
      store<Udp, "length">(frame, layer.offset, length);
  }
  const MutableBytes shortened = frame.first(end);
  const HeaderStack after = decode(shortened, link);
  mend_icrc(shortened, after);
  mend_ip_checksums(shortened, after);
  mend_transport_checksum(shortened, after);
  return end;
}

namespace {

/// The parts of a packet that is divided.
struct Divided {
  std::size_t headers = 0;  ///< bytes of the link and IP headers
  std::size_t end = 0;      ///< end of the packet
  std::size_t room = 0;     ///< payload bytes of a fragment
};

std::vector<std::vector<std::uint8_t>> fragment_ipv4(Bytes frame, LinkType link, const Layer& network,
                                                     std::size_t most) {
  const std::uint8_t* const header = frame.data() + network.offset;
  const View<Ipv4> ip(header);
  Divided parts{network.offset + Ipv4::size, network.offset + ip.get<"total_length">(), 0};
  if (network.length != Ipv4::size || parts.end > frame.size() || parts.end <= parts.headers) return {};
  if (most < parts.headers + fragment_unit) return {};
  parts.room = (most - parts.headers) / fragment_unit * fragment_unit;
  const std::size_t first = ip.get<"fragment_offset">();
  const bool more = ip.get<"mf">();
  std::vector<std::vector<std::uint8_t>> fragments;
  for (std::size_t at = parts.headers; at < parts.end; at += parts.room) {
    const std::size_t bytes = std::min(parts.room, parts.end - at);
    auto& out = fragments.emplace_back(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(parts.headers));
    out.insert(out.end(), frame.begin() + static_cast<std::ptrdiff_t>(at),
               frame.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    store<Ipv4, "total_length">(out, network.offset, Ipv4::size + bytes);
    store<Ipv4, "fragment_offset">(out, network.offset, first + (at - parts.headers) / fragment_unit);
    store<Ipv4, "mf">(out, network.offset, more || at + bytes < parts.end);
    mend_ip_checksums(out, decode(out, link));
  }
  return fragments;
}

std::vector<std::vector<std::uint8_t>> fragment_ipv6(Bytes frame, const Layer& network, std::size_t most,
                                                     std::uint32_t identification) {
  const View<Ipv6> ip(frame.data() + network.offset);
  const auto next = static_cast<std::uint8_t>(ip.get<"next_header">());
  constexpr std::uint8_t hop_by_hop = 0, routing = 43, destination = 60;
  if (next == hop_by_hop || next == routing || next == destination || next == ipv6_fragment) return {};
  Divided parts{network.offset + Ipv6::size, network.offset + Ipv6::size + ip.get<"payload_length">(), 0};
  if (parts.end > frame.size() || parts.end == parts.headers) return {};
  if (most < parts.headers + fragment_header_bytes + fragment_unit) return {};
  parts.room = (most - parts.headers - fragment_header_bytes) / fragment_unit * fragment_unit;
  std::vector<std::vector<std::uint8_t>> fragments;
  for (std::size_t at = parts.headers; at < parts.end; at += parts.room) {
    const std::size_t bytes = std::min(parts.room, parts.end - at);
    auto& out = fragments.emplace_back(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(parts.headers));
    out.resize(parts.headers + fragment_header_bytes);
    const std::size_t offset = (at - parts.headers) / fragment_unit;
    const bool more = at + bytes < parts.end;
    out[parts.headers] = next;
    store_be(out.data() + parts.headers + 2, 2, offset << 3 | (more ? 1U : 0U));
    store_be(out.data() + parts.headers + 4, 4, identification);
    out.insert(out.end(), frame.begin() + static_cast<std::ptrdiff_t>(at),
               frame.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    store<Ipv6, "payload_length">(out, network.offset, fragment_header_bytes + bytes);
    store<Ipv6, "next_header">(out, network.offset, ipv6_fragment);
  }
  return fragments;
}

}  // namespace

std::vector<std::vector<std::uint8_t>> fragment_frame(Bytes frame, LinkType link, std::size_t most,
                                                      std::uint32_t identification) {
  const HeaderStack stack = decode(frame, link);
  // The outermost IP header: that of a tunnel, if there is one.
  for (const Layer& layer : stack.layers()) {
    if (layer.header == &info<Ipv4>) return fragment_ipv4(frame, link, layer, most);
    if (layer.header == &info<Ipv6>) return fragment_ipv6(frame, layer, most, identification);
  }
  return {};
}

}  // namespace rdmawire::replay
