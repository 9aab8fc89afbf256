#pragma once
/// A small simulated host that owns addresses and answers ARP, neighbor discovery and ping. A device can exchange
/// packets with a tester that uses this host instead of a kernel's stack.

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

using MacAddress = std::uint64_t;  ///< 48 bits, the first byte is the most significant

/// An IPv4 or IPv6 address.
struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> storage{};  ///< IPv4: the first four bytes

  static IpAddress v4(std::uint32_t address);
  static IpAddress of_v6(Bytes sixteen);
  /// Parses "10.0.0.2" or "fd00::2". nullopt if it is neither.
  static std::optional<IpAddress> parse(const std::string& text);
  [[nodiscard]] Bytes bytes() const { return Bytes(storage).first(v6 ? 16 : 4); }
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};
std::string to_string(const IpAddress& address);
/// "02:00:00:00:00:01"
std::string mac_text(MacAddress mac);
/// The link-local address derived from a MAC. RFC 4291, appendix A.
IpAddress link_local(MacAddress mac);

struct HostOptions {
  MacAddress mac = 0x020000000001;        ///< unicast
  std::vector<IpAddress> addresses = {};  ///< the link-local address is added
  bool answers_ping = true;
  std::int64_t retry = 250'000'000;  ///< nanoseconds between requests for a MAC. 1 s in RFC 4861
  unsigned tries = 3;                ///< maximum number of requests for a MAC
  std::size_t neighbors = 1024;      ///< limit of known MACs
};

/// Answers ARP (RFC 826), neighbor discovery (RFC 4861), duplicate address detection (RFC 4862, 5.4.4) and ping (RFC
/// 792, RFC 4443) for its addresses, and learns the MACs of its neighbors. Free of I/O.
class Host final : public SimulatedHost {
 public:
  explicit Host(HostOptions options);

  /// Handles a frame. Frames that do not concern the host are ignored.
  void arrived(Bytes frame, std::int64_t time, SimulatedHostOutput& output) override {
    (void)takes(frame, time, output);
  }
  [[nodiscard]] std::int64_t wakes() const override;
  void woken(std::int64_t time, SimulatedHostOutput& output) override;

  /// Same as arrived(), but returns true if the caller may ignore the frame: ARP, neighbor discovery, or a ping that
  /// the host answered.
  bool takes(Bytes frame, std::int64_t time, SimulatedHostOutput& output);

  /// Announces the addresses: ARP announcements (RFC 5227, 2.3) and unsolicited neighbor advertisements.
  void announce(SimulatedHostOutput& output) const;

  /// Requests the MAC of `address` if it is unknown. woken() repeats the request up to `tries` times.
  void resolve(const IpAddress& address, std::int64_t time, SimulatedHostOutput& output);
  /// The MAC if it is known.
  [[nodiscard]] std::optional<MacAddress> neighbor(const IpAddress& address) const;
  /// True if the last resolve() of the address timed out.
  [[nodiscard]] bool unreachable(const IpAddress& address) const;

  [[nodiscard]] MacAddress mac() const { return options_.mac; }
  /// Includes the link-local address, which is the last one if HostOptions did not contain it.
  [[nodiscard]] const std::vector<IpAddress>& addresses() const { return options_.addresses; }
  [[nodiscard]] bool owns(const IpAddress& address) const;

 private:
  struct Question {
    unsigned left = 0;
    std::int64_t next = 0;
  };
  void ask(const IpAddress& address, SimulatedHostOutput& output) const;
  void learn(const IpAddress& address, MacAddress mac, bool anew);
  /// The source address to use for `other`.
  [[nodiscard]] std::optional<IpAddress> own_for(const IpAddress& other) const;

  HostOptions options_;
  std::map<IpAddress, MacAddress> neighbors_;
  std::deque<IpAddress> learnt_order_;
  std::map<IpAddress, Question> questions_;
  std::map<IpAddress, bool> silent_;
};

/// Returns an error if this host's kernel owns the MAC or one of the addresses on the wire `wire_name` ("packet:eth0"),
/// because the kernel would then answer as well. Applies only to packet: wires.
WireResult<void> check_not_owned(const std::string& wire_name, const HostOptions& options);

/// A wire with a simulated host on the local end. It answers while the caller receives. The caller gets all other
/// frames.
class HostedWire final : public Wire {
 public:
  /// Checks that the kernel does not own the addresses, and announces them. `wire` must be an Ethernet wire.
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

  /// Returns the MAC of `address` and requests it if unknown. WireError::Kind::missing if there is no reply. The first
  /// 1024 frames that arrive in the meantime are kept for receive().
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
