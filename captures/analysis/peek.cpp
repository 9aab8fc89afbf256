#include "captures/analysis/peek.hpp"

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::captures::analysis {
namespace {

using tracking::PortAddress;

constexpr std::uint16_t raw_ip = 0;  ///< there is no EtherType: use the version in the IP header

/// Reads opcode, QP and payload length. `bytes` is the length from the BTH to the ICRC, inclusive.
void look_at_bth(Peek& peek, const std::uint8_t* bth, std::uint64_t bytes) {
  peek.bth = true;
  peek.opcode = bth[0];
  peek.dest_qp = static_cast<std::uint32_t>(load_be<4>(bth + 4)) & 0xffffff;
  const Opcode& row = opcode(bth[0]);
  if (!row.known || !row.payload) return;
  const std::uint64_t rest = Bth::size + row.header_bytes + 4 + (bth[1] >> 4 & 3);
  if (bytes > rest) peek.payload = bytes - rest;
}

/// Returns whether the data can be part of "0000:000011:a1b2c3…" (hexadecimal numbers with colons and a final zero), or
/// a digit and a zero. True for all data that tracking::TextExchange evaluates, and for little other data.
bool is_text(Bytes data) {
  constexpr std::size_t enough = 16;
  const Bytes begin = data.first(std::min(data.size(), enough));
  const auto is_digit = [](std::uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':';
  };
  return std::all_of(begin.begin(), begin.end(), [&](std::uint8_t c) { return c == 0 || is_digit(c); }) &&
         (begin.size() == 1 || std::any_of(begin.begin(), begin.end(), is_digit));
}

}  // namespace

Peek peek(Bytes frame, LinkType link, std::uint32_t wire_length, std::uint16_t extra_roce_port) {
  Peek result;
  std::size_t at = 0;
  std::uint16_t type = raw_ip;
  const std::uint8_t* const p = frame.data();
  switch (link) {
    case LinkType::ethernet:
      if (frame.size() < Ethernet::size) return result;
      type = static_cast<std::uint16_t>(load_be<2>(p + 12));
      at = Ethernet::size;
      while (type == ethertype::vlan || type == ethertype::provider_vlan || type == ethertype::old_provider_vlan) {
        if (frame.size() < at + Vlan::size) return result;
        type = static_cast<std::uint16_t>(load_be<2>(p + at + 2));
        at += Vlan::size;
      }
      break;
    case LinkType::linux_sll:
      if (frame.size() < LinuxSll::size) return result;
      type = static_cast<std::uint16_t>(load_be<2>(p + 14));
      at = LinuxSll::size;
      break;
    case LinkType::linux_sll2:
      if (frame.size() < LinuxSll2::size) return result;
      type = static_cast<std::uint16_t>(load_be<2>(p));
      at = LinuxSll2::size;
      break;
    default: return result;
  }
  std::uint8_t next = 0;
  bool fragment = false;
  std::uint64_t end = wire_length;
  if (type == ethertype::ipv4) {
    if (frame.size() < at + Ipv4::size) return result;
    const std::uint8_t* ip = p + at;
    const std::size_t header = std::size_t{4} * (ip[0] & 15);
    if (ip[0] >> 4 != 4 || header < Ipv4::size) return result;
    next = ip[9];
    fragment = (load_be<2>(ip + 6) & 0x1fff) != 0;
    result.from = PortAddress::of_ipv4(static_cast<std::uint32_t>(load_be<4>(ip + 12)));
    result.to = PortAddress::of_ipv4(static_cast<std::uint32_t>(load_be<4>(ip + 16)));
    end = at + load_be<2>(ip + 2);
    at += header;
  } else if (type == ethertype::ipv6 || type == ethertype::roce_v1) {
    if (frame.size() < at + Ipv6::size) return result;
    const std::uint8_t* ip = p + at;
    if (ip[0] >> 4 != 6) return result;
    next = ip[6];
    result.from = PortAddress::of_gid(ip + 8);
    result.to = PortAddress::of_gid(ip + 24);
    at += Ipv6::size;
    end = at + load_be<2>(ip + 4);
    if (type == ethertype::roce_v1) {
      result.known = true;
      if (frame.size() >= at + Bth::size && end >= at) look_at_bth(result, p + at, end - at);
      return result;
    }
  } else {
    return result;
  }
  switch (next) {
    case ip_protocol::tcp:
    case ip_protocol::udp:
    case ip_protocol::icmp:
    case ip_protocol::icmpv6:
    case ip_protocol::fragment:
    case ip_protocol::hop_by_hop:
    case ip_protocol::destination:
    case ip_protocol::routing: break;
    default: return result;
  }
  if (next == ip_protocol::tcp) {
    result.known = true;
    if (!fragment && frame.size() >= at + Tcp::size) {
      const std::size_t data = at + std::size_t{4} * (p[at + 12] >> 4);
      const std::size_t last = std::min<std::size_t>(frame.size(), end);
      result.text = data < last && is_text(frame.subspan(data, last - data));
    }
  } else if (next == ip_protocol::udp && !fragment) {
    if (frame.size() < at + 8) return result;
    const auto port = static_cast<std::uint16_t>(load_be<2>(p + at + 2));
    if (port == udp_port::vxlan) return result;
    result.known = true;
    const bool roce = port == DecodeOptions::roce_v2_udp_port || (extra_roce_port && port == extra_roce_port);
    at += 8;
    if (roce && frame.size() >= at + Bth::size && end >= at) look_at_bth(result, p + at, end - at);
  } else {
    result.known = true;
  }
  return result;
}

std::optional<std::uint64_t> endpoint_pair(const Peek& seen, Bytes frame, LinkType link) {
  if (seen.known) return seen.pair_hash();
  const HeaderStack stack = decode(frame, link);
  const auto ports = stack.wire == Wire::infiniband ? std::nullopt : tracking::ports_of(stack);
  if (!ports) return std::nullopt;
  Peek decoded;
  decoded.from = ports->from;
  decoded.to = ports->to;
  return decoded.pair_hash();
}

unsigned Sharder::next(const Peek& seen, Bytes frame, LinkType link) {
  if (loads_.size() <= 1) return 0;
  const auto pair = endpoint_pair(seen, frame, link);
  if (!pair) {
    ++loads_[0];
    return 0;
  }
  std::uint16_t& shard = shard_[*pair & (pairs - 1)];
  if (shard == none) {
    shard = static_cast<std::uint16_t>(std::min_element(loads_.begin(), loads_.end()) - loads_.begin());
    // A new pair counts as load, so that pairs which start at the same time are distributed evenly.
    constexpr std::uint64_t a_pair = 1000;
    loads_[shard] += a_pair;
  }
  ++loads_[shard];
  return shard;
}

}  // namespace rdmawire::captures::analysis
