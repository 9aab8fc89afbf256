#include "dissectors/protocol/arp.hpp"

namespace rdmawire {

Step decode_arp(Cursor& c) {
  if (!c.need(info<Arp>, Arp::size)) return done;
  const View<Arp> arp(c.here());
  if (!c.take(info<Arp>, Arp::size)) return done;
  const bool ipv4 = arp.get<"protocol">() == ethertype::ipv4 && arp.get<"protocol_length">() == 4;
  const auto hardware = arp.get<"hardware">();
  const auto bytes = arp.get<"hardware_length">();
  const HeaderInfo* addresses = nullptr;
  if (ipv4 && hardware == arp_hardware::ethernet && bytes == 6) addresses = &info<ArpEthernet>;
  if (ipv4 && hardware == arp_hardware::infiniband && bytes == 20) addresses = &info<ArpInfiniband>;
  if (addresses && (!c.need(*addresses, addresses->size) || !c.take(*addresses, addresses->size))) return done;
  c.payload();
  return done;
}

}  // namespace rdmawire
