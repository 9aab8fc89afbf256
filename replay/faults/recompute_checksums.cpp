#include "replay/faults/recompute_checksums.hpp"

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::replay {
namespace {

template <class H, FixedString Name>
void store(MutableBytes frame, const Layer& layer, std::uint64_t value) {
  constexpr Field f = detail::field_of<H>(Name.view());
  f.store(frame.data() + layer.offset, value);
}

void mend_ipv4(MutableBytes frame, const Layer& layer) {
  store<Ipv4, "checksum">(frame, layer, 0);
  store<Ipv4, "checksum">(frame, layer, internet_checksum(frame.subspan(layer.offset, layer.length)));
}

// The pseudo header of TCP, UDP and ICMPv6. RFC 9293, 3.1, RFC 8200, 8.1.
std::uint32_t pseudo_header(MutableBytes frame, const Layer& network, std::uint8_t protocol, std::uint32_t bytes) {
  const bool ipv6 = network.header == &info<Ipv6>;
  std::uint32_t sum = protocol + (bytes >> 16) + (bytes & 0xffff);
  const std::uint32_t from = network.offset + (ipv6 ? 8 : 12), to = network.offset + (ipv6 ? 40 : 20);
  for (std::uint32_t at = from; at < to; at += 2) sum += static_cast<std::uint32_t>(load_be<2>(frame.data() + at));
  return sum;
}

}  // namespace

bool set_ecn(MutableBytes frame, const HeaderStack& stack, std::uint8_t ecn) {
  if (stack.network == HeaderStack::none) return false;
  const Layer& layer = stack.layers()[stack.network];
  if (layer.header == &info<Ipv4>) {
    const std::uint64_t before = load_be<2>(frame.data() + layer.offset);
    store<Ipv4, "tos.ecn">(frame, layer, ecn);
    // Incremental update: an invalid checksum stays invalid by the same difference.
    const std::uint64_t after = load_be<2>(frame.data() + layer.offset);
    const std::uint64_t checksum = load_be<2>(frame.data() + layer.offset + 10);
    std::uint64_t sum = (~checksum & 0xffff) + (~before & 0xffff) + after;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    store<Ipv4, "checksum">(frame, layer, ~sum & 0xffff);
    return true;
  }
  if (layer.header == &info<Ipv6>) {
    store<Ipv6, "traffic_class.ecn">(frame, layer, ecn);
    return true;
  }
  if (layer.header == &info<Grh>) {
    store<Grh, "traffic_class.ecn">(frame, layer, ecn);
    return true;
  }
  return false;
}

bool mend_icrc(MutableBytes frame) { return mend_icrc(frame, decode(frame)); }
bool mend_icrc(MutableBytes frame, const HeaderStack& stack) {
  if (stack.icrc.length != 4) return false;
  store_icrc(frame.data() + stack.icrc.offset, compute_icrc(stack));
  return true;
}

bool mend_vcrc(MutableBytes frame, const HeaderStack& stack) {
  if (stack.vcrc.length != 2 || !stack.find(info<Lrh>)) return false;
  store_le(frame.data() + stack.vcrc.offset, 2, compute_vcrc(stack));
  return true;
}

bool mend_ip_checksums(MutableBytes frame) { return mend_ip_checksums(frame, decode(frame)); }
bool mend_ip_checksums(MutableBytes frame, const HeaderStack& stack) {
  bool any = false;
  for (const Layer& layer : stack.layers())
    if (layer.header == &info<Ipv4>) {
      mend_ipv4(frame, layer);
      any = true;
    }
  return any;
}

bool mend_transport_checksum(MutableBytes frame) { return mend_transport_checksum(frame, decode(frame)); }
bool mend_transport_checksum(MutableBytes frame, const HeaderStack& stack) {
  if (stack.fragment || stack.network == HeaderStack::none) return false;
  const auto layers = stack.layers();
  const Layer& network = layers[stack.network];
  if (network.header != &info<Ipv4> && network.header != &info<Ipv6>) return false;
  for (const Layer& layer : layers) {
    const bool udp = layer.header == &info<Udp>, icmp = layer.header == &info<Icmpv6>;
    if ((!udp && !icmp && layer.header != &info<Tcp>) || layer.offset < network.offset) continue;
    const std::uint64_t total = network.header == &info<Ipv4>
                                    ? network.offset + load_be<2>(frame.data() + network.offset + 2)
                                    : network.offset + Ipv6::size + load_be<2>(frame.data() + network.offset + 4);
    if (total > frame.size() || total < layer.offset + layer.length) return false;
    const auto bytes = static_cast<std::uint32_t>(total - layer.offset);
    const std::uint32_t at = layer.offset + (icmp ? 2 : udp ? 6 : 16);
    if (udp && load_be<2>(frame.data() + at) == 0) return false;  // no checksum was sent
    store_be(frame.data() + at, 2, 0);
    const std::uint8_t protocol = icmp ? ip_protocol::icmpv6 : udp ? ip_protocol::udp : ip_protocol::tcp;
    std::uint16_t sum =
        internet_checksum(frame.subspan(layer.offset, bytes), pseudo_header(frame, network, protocol, bytes));
    if (udp && sum == 0) sum = 0xffff;
    store_be(frame.data() + at, 2, sum);
    return true;
  }
  return false;
}

}  // namespace rdmawire::replay
