#include "conformance/device/roce/reference.hpp"

namespace rdmawire::device {

DeviceOptions reference_options(std::uint64_t seed) {
  DeviceOptions options;
  options.seed = seed;
  options.port.pkeys = {0xffff, 0x8005};
  Gid global;
  global.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  for (const Gid& gid : {Gid::link_local(options.port.mac), Gid::ipv4(0x0a000001), global})
    for (const GidType type : {GidType::roce_v1, GidType::roce_v2}) options.port.gids.push_back({gid, type});
  constexpr std::uint16_t vlan = 7;
  for (const GidType type : {GidType::roce_v1, GidType::roce_v2})
    options.port.gids.push_back({Gid::ipv4(0x0a000701), type, vlan});
  return options;
}

Reference::Reference(DeviceOptions options)
    : device_(std::move(options)),
      wire_(device_),
      handler_(device_, [this](std::int64_t until) { return wire_.step(until); }) {}

peer::PeerResult<std::unique_ptr<Reference>> Reference::start(DeviceOptions options) {
  std::unique_ptr<Reference> reference(new Reference(std::move(options)));
  auto server = RpcServer::start(reference->wire_.mutex(), [&handler = reference->handler_](std::string_view line) {
    return handler.process_line(line);
  });
  if (!server) return tl::unexpected(server.error());
  reference->server_ = std::move(*server);
  return reference;
}

void Reference::learn(const Gid& gid, const Mac& mac) {
  const std::lock_guard lock(wire_.mutex());
  device_.port().learn(gid, mac);
}

}  // namespace rdmawire::device
