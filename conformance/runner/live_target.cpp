#include "conformance/runner/live_target.hpp"

#include <algorithm>

namespace rdmawire::conformance {
namespace {

replay::IpAddress address_of(const std::array<std::uint8_t, 16>& gid, bool v4) {
  if (!v4) return replay::IpAddress::of_v6(gid);
  return replay::IpAddress::v4(static_cast<std::uint32_t>(load_be<4>(gid.data() + 12)));
}

replay::reactive::LiveWay way_of(const Path& path, std::uint32_t gid_index) {
  replay::reactive::LiveWay way;
  way.our_mac = load_be<6>(path.tester_mac.data());
  way.device_mac = load_be<6>(path.device_mac.data());
  way.our_address = address_of(path.tester_address, path.is_ipv4());
  way.device_address = address_of(path.device_address, path.is_ipv4());
  way.vlan = path.vlan;
  way.gid_index = gid_index;
  return way;
}

}  // namespace

replay::reactive::LiveDevice live_device(Target& target) {
  const DeviceUnderTest& device = target.device();
  replay::reactive::LiveDevice live;
  live.name = device.name;
  live.peer = device.peer;
  live.verbs = device.device;
  live.wire = device.wire;
  live.tcp = device.tcp;
  live.address = device.address;
  live.way = way_of(device.path, device.gid_index);
  if (device.ipv6) live.ipv6 = way_of(device.ipv6->path, device.ipv6->gid_index);
  return live;
}

}  // namespace rdmawire::conformance
