#pragma once
/// Flow maps for tests: live values for all captured values, and the inverse map.

#include <random>

#include "dissectors/tracking/captures_for_test.hpp"
#include "replay/rewrite/learn.hpp"

namespace rdmawire::replay::testing {

inline Learnt learn(const std::string& path) {
  FlowLearner learner;
  tracking::testing::dissect_capture(path, [&](const tracking::Packet& packet) { learner.add(packet); });
  return learner.finish();
}

/// Sets a different live value for each captured value. Equal addresses get equal live addresses.
inline void invent_live(FlowMap& map, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<PortAddress> addresses;
  auto place = [&](const PortAddress& address) {
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (addresses[i] == address) return static_cast<std::uint32_t>(i);
    addresses.push_back(address);
    return static_cast<std::uint32_t>(addresses.size() - 1);
  };
  std::uint32_t next = 0x200;
  for (MappedConnection& c : map.connections) {
    const std::uint32_t key_mask = c.service == tracking::Service::iwarp ? 0xffff : 0xffffff;
    if (c.pkey.captured) c.pkey.live = 0x8123;
    for (MappedEnd& end : c.ends) {
      const std::uint32_t host = place(*end.address.captured);
      end.address.live = is_ipv4(*end.address.captured) ? PortAddress::of_ipv4(0xc0a80a01 + host)
                                                        : PortAddress{0xfd99000000000000, 0x100 + host};
      if (end.mac.captured) end.mac.live = 0x020000000000 + host;
      if (end.qp.captured) end.qp.live = ++next & key_mask;
      if (end.psn.captured) {
        end.psn.live = random();
        if (c.service != tracking::Service::iwarp) *end.psn.live &= 0xffffff;
      }
      if (end.msn.captured) end.msn.live = random() & 0xffffff;
      if (end.qkey.captured) end.qkey.live = random();
      if (end.source_port.captured) end.source_port.live = static_cast<std::uint16_t>(0xc000 + (random() & 0xfff));
      if (end.comm_id.captured) end.comm_id.live = random();
      for (MappedRegion& region : end.regions) {
        region.key.live = ++next << 8;
        region.base.live = std::uint64_t{random()} << 20;
      }
    }
  }
}

/// The inverse map, provided that different captured connections have different live values.
inline FlowMap turned(FlowMap map) {
  for (MappedConnection& c : map.connections) {
    std::swap(c.pkey.captured, c.pkey.live);
    for (MappedEnd& end : c.ends) {
      std::swap(end.address.captured, end.address.live);
      std::swap(end.mac.captured, end.mac.live);
      std::swap(end.qp.captured, end.qp.live);
      std::swap(end.psn.captured, end.psn.live);
      std::swap(end.msn.captured, end.msn.live);
      std::swap(end.qkey.captured, end.qkey.live);
      std::swap(end.source_port.captured, end.source_port.live);
      std::swap(end.comm_id.captured, end.comm_id.live);
      for (MappedRegion& region : end.regions) {
        std::swap(region.key.captured, region.key.live);
        std::swap(region.base.captured, region.base.live);
      }
    }
  }
  return map;
}

}  // namespace rdmawire::replay::testing
