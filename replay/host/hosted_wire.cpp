#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/host/host.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/spec.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t most_kept = 1024;
constexpr std::int64_t patience = 100'000'000;  // maximum time to wait for a full transmit queue

}  // namespace

WireResult<void> check_not_owned(const std::string& wire_name, const HostOptions& options) {
  const auto wrong = [&](WireError::Kind kind, std::string message) {
    return tl::unexpected(WireError{kind, 0, wire_name + ": " + std::move(message)});
  };
  if (options.mac >> 48 || options.mac >> 40 & 1 || options.mac == 0)
    return wrong(
        WireError::Kind::specification,
        fmt::format("{} cannot be the MAC of a host: expected a nonzero unicast address", mac_text(options.mac)));
  const auto spec = WireSpec::parse(wire_name);
  if (!spec || spec->kind != "packet") return {};

  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return wrong(WireError::Kind::system, "cannot read the addresses of this host");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> freed(all, &freeifaddrs);
  const HostOptions with_local{.mac = options.mac, .addresses = Host(options).addresses()};
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr) continue;
    if (one->ifa_addr->sa_family == AF_PACKET) {
      const auto* link = reinterpret_cast<const sockaddr_ll*>(one->ifa_addr);
      if (link->sll_halen == 6 && load_be(link->sll_addr, 6) == options.mac && spec->address == one->ifa_name)
        return wrong(WireError::Kind::unsupported,
                     fmt::format("the MAC {} belongs to {} on this host, whose kernel would also answer; choose "
                                 "another MAC, for example 02:00:00:00:00:01",
                                 mac_text(options.mac), one->ifa_name));
      continue;
    }
    IpAddress owned;
    if (one->ifa_addr->sa_family == AF_INET)
      owned = IpAddress::v4(ntohl(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr));
    else if (one->ifa_addr->sa_family == AF_INET6)
      owned = IpAddress::of_v6(reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr.s6_addr);
    else
      continue;
    // Linux answers ARP requests for addresses of all its interfaces.
    if (std::find(with_local.addresses.begin(), with_local.addresses.end(), owned) != with_local.addresses.end())
      return wrong(WireError::Kind::unsupported,
                   fmt::format("the address {} belongs to {} on this host, whose kernel would also answer; choose an "
                               "unused address",
                               to_string(owned), one->ifa_name));
  }
  return {};
}

WireResult<std::unique_ptr<HostedWire>> HostedWire::make(std::unique_ptr<Wire> wire, HostOptions options) {
  if (wire->capabilities().link != LinkType::ethernet)
    return tl::unexpected(WireError{WireError::Kind::unsupported, 0, wire->name() + ": requires an Ethernet wire"});
  if (auto free = check_not_owned(wire->name(), options); !free) return tl::unexpected(free.error());
  std::unique_ptr<HostedWire> made(new HostedWire(std::move(wire), std::move(options)));
  SimulatedHostOutput output;
  made->host_.announce(output);
  // The peer may start later and send its own requests.
  if (auto said = made->say(output); !said && said.error().kind != WireError::Kind::down)
    return tl::unexpected(said.error());
  return made;
}

WireResult<void> HostedWire::say(SimulatedHostOutput& output) {
  std::vector<Outgoing> frames;
  for (const SimulatedHostOutput::Frame& frame : output.frames) frames.push_back({frame.bytes, frame.time});
  const auto sent = send_all(*wire_, frames, wire_->now() + patience);
  if (!sent) return tl::unexpected(sent.error());
  return {};
}

// Receives the next frame that is not for the simulated host. With `wanted`, returns as soon as its MAC is resolved or
// unreachable.
WireResult<std::optional<Received>> HostedWire::from_wire(std::int64_t deadline, bool until_resolved,
                                                          const IpAddress* wanted) {
  for (;;) {
    SimulatedHostOutput output;
    if (host_.wakes() <= wire_->now()) {
      host_.woken(wire_->now(), output);
      if (auto said = say(output); !said && said.error().kind != WireError::Kind::down)
        return tl::unexpected(said.error());
    }
    if (until_resolved && (host_.neighbor(*wanted) || host_.unreachable(*wanted))) return std::nullopt;
    auto received = wire_->receive(std::min(deadline, host_.wakes()));
    if (!received) return received;
    if (!*received) {
      if (wire_->now() >= deadline || host_.wakes() == SimulatedHost::never) return std::nullopt;
      continue;
    }
    output.frames.clear();
    if ((*received)->own || !host_.takes((*received)->frame, (*received)->time, output)) return received;
    if (auto said = say(output); !said && said.error().kind != WireError::Kind::down)
      return tl::unexpected(said.error());
  }
}

WireResult<std::optional<Received>> HostedWire::receive(std::int64_t deadline) {
  if (!kept_.empty()) {
    current_ = std::move(kept_.front());
    kept_.pop_front();
    current_.received.frame = current_.bytes;
    return current_.received;
  }
  return from_wire(deadline, false, nullptr);
}

WireResult<MacAddress> HostedWire::resolve(const IpAddress& address) {
  SimulatedHostOutput output;
  host_.resolve(address, wire_->now(), output);
  if (auto said = say(output); !said) return tl::unexpected(said.error());
  for (;;) {
    if (const auto mac = host_.neighbor(address)) return *mac;
    if (host_.unreachable(address))
      return tl::unexpected(WireError{
          WireError::Kind::missing, 0,
          fmt::format("{}: no reply from {}; check that it is up and on this link", name(), to_string(address))});
    auto received = from_wire(Wire::forever, true, &address);
    if (!received) return tl::unexpected(received.error());
    if (*received && kept_.size() < most_kept) {
      Kept kept{{(*received)->frame.begin(), (*received)->frame.end()}, **received};
      kept_.push_back(std::move(kept));
    }
  }
}

}  // namespace rdmawire::replay
