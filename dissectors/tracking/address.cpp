#include "dissectors/tracking/address.hpp"

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::tracking {

std::optional<FlowKey> ports_of(const HeaderStack& stack) {
  if (stack.wire == Wire::infiniband) {
    const auto lrh = stack.get<Lrh>();
    if (!lrh) return std::nullopt;
    return FlowKey{PortAddress::of_lid(lrh->get<"slid">()), PortAddress::of_lid(lrh->get<"dlid">()), 0};
  }
  const auto layers = stack.layers();
  if (stack.network >= layers.size()) return std::nullopt;
  const Layer& network = layers[stack.network];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  if (network.header == &info<Ipv4>) {
    const View<Ipv4> ip(at);
    return FlowKey{PortAddress::of_ipv4(ip.get<"src">()), PortAddress::of_ipv4(ip.get<"dst">()), 0};
  }
  // The addresses are at the same offsets in IPv6 and GRH headers.
  return FlowKey{PortAddress::of_gid(at + 8), PortAddress::of_gid(at + 24), 0};
}

}  // namespace rdmawire::tracking
