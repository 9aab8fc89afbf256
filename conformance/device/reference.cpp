#include "conformance/device/reference.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace rdmawire::device {

DeviceOptions reference_options(std::uint64_t seed) {
  DeviceOptions options;
  options.seed = seed;
  options.port.pkeys = {0xffff, 0x8005};
  Gid global;
  global.octets = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
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
      face_(device_, [this](std::int64_t until) { return wire_.step(until); }) {}

peer::PeerResult<std::unique_ptr<Reference>> Reference::start(DeviceOptions options) {
  std::unique_ptr<Reference> reference(new Reference(std::move(options)));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return tl::unexpected(
        peer::peer_error(peer::PeerError::Kind::lost, errno, "reference device: a pair of sockets cannot be made"));
  reference->descriptor_ = ends[0];
  reference->server_ = std::thread([&served = *reference, descriptor = ends[0]] { served.serve(descriptor); });
  peer::Options client;
  client.heartbeat = std::chrono::milliseconds(0);
  auto peer = peer::Peer::over(peer::Descriptor(ends[1]), client);
  if (!peer) return tl::unexpected(peer.error());
  reference->peer_ = std::make_unique<peer::Peer>(std::move(*peer));
  return reference;
}

Reference::~Reference() {
  peer_.reset();
  if (descriptor_ >= 0) shutdown(descriptor_, SHUT_RDWR);
  if (server_.joinable()) server_.join();
  if (descriptor_ >= 0) close(descriptor_);
}

void Reference::learn(const Gid& gid, const Mac& mac) {
  const std::lock_guard lock(wire_.mutex());
  device_.port().learn(gid, mac);
}

void Reference::serve(int descriptor) {
  constexpr std::size_t most_line = 4U << 20;
  std::string input;
  char octets[65'536];
  for (;;) {
    const ssize_t count = read(descriptor, octets, sizeof octets);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    input.append(octets, static_cast<std::size_t>(count));
    std::string output;
    for (std::size_t end; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1)) {
      const std::lock_guard lock(wire_.mutex());
      for (const std::string& line : face_.ask(std::string_view(input).substr(0, end))) output += line + '\n';
    }
    if (input.size() > most_line) return;
    for (std::string_view left = output; !left.empty();) {
      const ssize_t sent = send(descriptor, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
}

}  // namespace rdmawire::device
