// Parses the options of verbs: wires.

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/verbs.hpp"

namespace rdmawire::replay {
namespace {

WireResult<VerbsSteering> steering_of(const WireSpec& spec) {
  VerbsSteering steering;
  const auto wrong = [&](std::string_view what) { return tl::unexpected(specification_error(spec.text, what)); };
  if (const auto mac = spec.value("mac")) {
    std::array<unsigned, 6> bytes{};
    int end = 0;
    if (std::sscanf(mac->c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4],
                    &bytes[5], &end) != 6 ||
        static_cast<std::size_t>(end) != mac->size())
      return wrong(fmt::format("mac={}: expected a MAC address, for example 02:00:00:00:00:01", *mac));
    steering.mac.emplace();
    std::transform(bytes.begin(), bytes.end(), steering.mac->begin(),
                   [](unsigned byte) { return static_cast<std::uint8_t>(byte); });
  }
  if (const auto ip = spec.value("ip")) {
    for (const auto& [family, bytes] : {std::pair{AF_INET, 4U}, std::pair{AF_INET6, 16U}}) {
      steering.ip.resize(bytes);
      if (inet_pton(family, ip->c_str(), steering.ip.data()) == 1) break;
      steering.ip.clear();
    }
    if (steering.ip.empty()) return wrong(fmt::format("ip={}: expected an IPv4 or IPv6 address", *ip));
  }
  for (const auto& [option, place] : {std::pair{"ethertype", &steering.ethertype}, std::pair{"udp", &steering.udp}}) {
    const auto number = spec.number(option, 0, 0, 65535);
    if (!number) return tl::unexpected(number.error());
    if (spec.has(option)) *place = static_cast<std::uint16_t>(*number);
  }
  return steering;
}

}  // namespace

WireResult<VerbsWireOptions> verbs_options(const WireSpec& spec) {
  if (auto known = spec.check({{"burst", true, "burst size in bytes for rate"},
                               {"depth", true, "maximum number of outstanding frames"},
                               {"ethertype", true, "receive frames of this EtherType"},
                               {"hwtime", false, "use device timestamps"},
                               {"inline", true, "maximum length of inline frames"},
                               {"ip", true, "receive frames to this address"},
                               {"mac", true, "receive frames to this address"},
                               {"mtu", true, "MTU of the port; default: MTU of the interface"},
                               {"noreceive", false, "send-only"},
                               {"post", false, "use ibv_post_send instead of ibv_wr_*"},
                               {"queues", true, "number of QPs"},
                               {"rate", true, "hardware rate limit in bits per second, for example 10G"},
                               {"receive", true, "number of receive buffers"},
                               {"rest", false, "receive frames that match no other receiver"},
                               {"signal", true, "request a completion for every Nth frame"},
                               {"threads", false, "one thread per QP"},
                               {"txtimes", false, "report when frames left"},
                               {"typical", true, "typical frame length in bytes for rate"},
                               {"udp", true, "receive frames to this port"}});
      !known)
    return tl::unexpected(known.error());
  const auto wrong = [&](std::string_view what) { return tl::unexpected(specification_error(spec.text, what)); };
  VerbsWireOptions options;
  options.name = spec.text;
  const std::size_t slash = spec.address.find('/');
  options.device = spec.address.substr(0, slash);
  if (slash != std::string::npos) {
    const std::string port = spec.address.substr(slash + 1);
    if (port.empty() || port.size() > 3 || port.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(port) > 255)
      return wrong(fmt::format("invalid port \"{}\"; ports start at 1", port));
    options.port = static_cast<std::uint32_t>(std::stoi(port));
  }
  const auto number = [&](const char* option, auto& place, std::uint64_t least,
                          std::uint64_t most) -> WireResult<void> {
    const auto value = spec.number(option, place, least, most);
    if (!value) return tl::unexpected(value.error());
    place = static_cast<std::remove_reference_t<decltype(place)>>(*value);
    return {};
  };
  std::uint32_t mtu = 0;
  for (const auto& given :
       {number("burst", options.burst_bytes, 1, 1U << 30), number("depth", options.send_depth, 2, 1U << 20),
        number("inline", options.inline_bytes, 14, 1024), number("mtu", mtu, 68, 65'535),
        number("rate", options.rate, 1000, 1'000'000'000'000), number("receive", options.receive_depth, 1, 1U << 20),
        number("queues", options.queues, 1, 64), number("signal", options.signal_every, 1, 1U << 20),
        number("typical", options.typical_bytes, 14, 65'535)})
    if (!given) return tl::unexpected(given.error());
  if (mtu) options.max_bytes = mtu + static_cast<std::uint32_t>(Ethernet::size + Vlan::size);
  options.requests = !spec.has("post");
  options.departures = spec.has("txtimes");
  options.threads = spec.has("threads");
  if (options.threads && options.queues < 2) return wrong("threads requires queues=2 or more");
  if (options.departures && options.queues > 1) return wrong("txtimes requires a single QP");
  options.hardware_time = spec.has("hwtime");
  if ((spec.has("burst") || spec.has("typical")) && !spec.has("rate")) return wrong("burst and typical require rate");
  auto steering = steering_of(spec);
  if (!steering) return tl::unexpected(steering.error());
  const bool steers = spec.has("mac") || spec.has("ip") || spec.has("udp") || spec.has("ethertype");
  if (steers + spec.has("rest") + spec.has("noreceive") > 1)
    return wrong("noreceive, rest, and the filters mac, ip, udp and ethertype exclude each other");
  using Receive = VerbsWireOptions::Receive;
  if (spec.only_sends) options.receive = Receive::nothing;
  if (steers) options.receive = Receive::steered;
  if (spec.has("rest")) options.receive = Receive::rest;
  if (spec.has("noreceive")) options.receive = Receive::nothing;
  options.steering = std::move(*steering);
  return options;
}

WireResult<std::unique_ptr<Wire>> open_verbs_wire(const WireSpec& spec) {
  const auto options = verbs_options(spec);
  if (!options) return tl::unexpected(options.error());
  return open_verbs_wire(*options);
}

}  // namespace rdmawire::replay
