#pragma once
/// A small host that is only a program: it owns addresses, and answers who asks for them. So a device can talk to a
/// tester that is not in any kernel's stack.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "replay/wires/simulated_host.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

using MacAddress = std::uint64_t;  ///< 48 bits, the first byte highest

/// An IPv4 or IPv6 address.
struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> storage{};  ///< IPv4: the first four

  static IpAddress v4(std::uint32_t address);
  static IpAddress of_v6(Bytes sixteen);
  /// Of "10.0.0.2", "fd00::2"; nothing when it is neither.
  static std::optional<IpAddress> parse(const std::string& text);
  [[nodiscard]] Bytes bytes() const { return Bytes(storage).first(v6 ? 16 : 4); }
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};
std::string to_string(const IpAddress& address);
/// "02:00:00:00:00:01"
std::string mac_text(MacAddress mac);
/// The address in fe80::/64 that is made from a MAC. RFC 4291, appendix A.
IpAddress link_local(MacAddress mac);

struct HostOptions {
  MacAddress mac = 0x020000000001;        ///< not of a group
  std::vector<IpAddress> addresses = {};  ///< its own; the link-local one is added
  bool answers_ping = true;
  std::int64_t retry = 250'000'000;  ///< nanoseconds between questions for a MAC, 1 s in RFC 4861
  unsigned tries = 3;                ///< questions for a MAC
  std::size_t neighbors = 1024;      ///< whose MACs are known at most
};

/// Answers ARP (RFC 826), neighbor discovery (RFC 4861; duplicate address detection is met with a defense, RFC 4862,
/// 5.4.4) and ping (RFC 792, RFC 4443) for its addresses, and learns its neighbors' MACs. Pure.
class Host final : public SimulatedHost {
 public:
  explicit Host(HostOptions options);

  /// What the host answered, or asks; everything that is not its own to answer is left to the others.
  void arrived(Bytes frame, std::int64_t time, SimulatedHostOutput& output) override {
    (void)takes(frame, time, output);
  }
  [[nodiscard]] std::int64_t wakes() const override;
  void woken(std::int64_t time, SimulatedHostOutput& output) override;

  /// The same as arrived(); true when the frame was for the host alone: ARP, neighbor discovery, or a ping that it
  /// answered.
  bool takes(Bytes frame, std::int64_t time, SimulatedHostOutput& output);

  /// Tells everybody that the addresses are here: ARP announcements (RFC 5227, 2.3), unsolicited advertisements.
  void announce(SimulatedHostOutput& output) const;

  /// Asks for the MAC of `address` unless it is known; asks again by woken() until `tries` questions were asked.
  void resolve(const IpAddress& address, std::int64_t time, SimulatedHostOutput& output);
  /// Its MAC, when it is known.
  [[nodiscard]] std::optional<MacAddress> neighbor(const IpAddress& address) const;
  /// Whether the last resolve() of it ended without an answer.
  [[nodiscard]] bool unreachable(const IpAddress& address) const;

  [[nodiscard]] MacAddress mac() const { return options_.mac; }
  /// With the link-local one, which is the last.
  [[nodiscard]] const std::vector<IpAddress>& addresses() const { return options_.addresses; }
  [[nodiscard]] bool owns(const IpAddress& address) const;

 private:
  struct Question {
    unsigned left = 0;
    std::int64_t next = 0;
  };
  void ask(const IpAddress& address, SimulatedHostOutput& output) const;
  void learn(const IpAddress& address, MacAddress mac, bool anew);
  /// The one of its addresses to speak to `other` with.
  [[nodiscard]] std::optional<IpAddress> own_for(const IpAddress& other) const;

  HostOptions options_;
  std::map<IpAddress, MacAddress> neighbors_;
  std::deque<IpAddress> learnt_order_;
  std::map<IpAddress, Question> questions_;
  std::map<IpAddress, bool> silent_;
};

/// Whether some stack of this machine owns the MAC or one of the addresses on the wire `wire_name` ("packet:eth0"):
/// then the kernel would answer for the host. Other wires than packet: have no stack of this machine, and are always
/// free.
WireResult<void> check_not_owned(const std::string& wire_name, const HostOptions& options);

/// A wire with a host at our end of it: it answers while the caller receives, and the caller gets the rest.
class HostedWire final : public Wire {
 public:
  /// Checks that nobody else owns the addresses, and announces them. `wire` is an Ethernet wire.
  static WireResult<std::unique_ptr<HostedWire>> make(std::unique_ptr<Wire> wire, HostOptions options);

  [[nodiscard]] const std::string& name() const override { return wire_->name(); }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return wire_->capabilities(); }
  [[nodiscard]] std::int64_t now() const override { return wire_->now(); }
  [[nodiscard]] int descriptor() const override { return wire_->descriptor(); }
  [[nodiscard]] WireCounters counters() const override { return wire_->counters(); }
  WireResult<bool> writable(std::int64_t deadline) override { return wire_->writable(deadline); }
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override { return wire_->send(frames); }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  void close() override { wire_->close(); }

  /// The MAC of `address`, asked for when it is not known; WireError::Kind::missing when nobody answers. What arrives
  /// for the caller meanwhile is kept for receive(), the first 1024 frames of it.
  WireResult<MacAddress> resolve(const IpAddress& address);

  [[nodiscard]] Host& host() { return host_; }

 private:
  HostedWire(std::unique_ptr<Wire> wire, HostOptions options) : wire_(std::move(wire)), host_(std::move(options)) {}
  WireResult<void> say(SimulatedHostOutput& output);
  WireResult<std::optional<Received>> from_wire(std::int64_t deadline, bool until_resolved, const IpAddress* wanted);

  struct Kept {
    std::vector<std::uint8_t> bytes;
    Received received;
  };
  std::unique_ptr<Wire> wire_;
  Host host_;
  std::deque<Kept> kept_;
  Kept current_;
};

}  // namespace rdmawire::replay
