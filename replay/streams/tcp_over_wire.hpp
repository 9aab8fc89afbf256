#pragma once
/// A TCP in user space (lwIP) at our end of an Ethernet wire: nobody's kernel has a say in what is a segment.
///
///     auto host = TcpOverWire::make(open_wire("unix:/run/lab/eth0").value(),
///                                   {.address = *IpAddress::parse("10.77.0.200")}).value();
///     auto connection = host->connect({*IpAddress::parse("10.77.0.1"), 7471}, {}, host->now() + 5'000'000'000);

#include <cstddef>
#include <memory>

#include "replay/streams/tcp.hpp"
#include "replay/wires/limited_wire.hpp"

namespace rdmawire::replay {

struct TcpOverWireOptions {
  MacAddress mac = 0x020000000001;      ///< our own; not of a group
  IpAddress address{};                  ///< our own, which nobody else has on that link; not link-local
  std::size_t passed_bytes = 64 << 20;  ///< that take_passed() keeps at most; beyond that the oldest frames go
};

/// It answers ARP, neighbor discovery and ping for its address, and speaks to whoever is on the same link. What lwIP
/// would decide for itself is not left to it: segments are never joined, no congestion window holds them back (the
/// other end's window does), everything that arrives is acknowledged at once. It sends no TCP options but MSS and
/// window scale; its window is 65535 bytes a connection, and what receive() has not been asked for fills it. send()
/// makes segments of at most 1460 bytes.
///
/// A segment that is lost is sent again, as TCP does: after half a second or more. A SYN that nobody answers is sent
/// again after three seconds. What a wire does not take within 20 ms counts as lost.
///
/// Frames are read by a thread of its own, so that nothing stands still while nobody receives. Several can live in one
/// process, with the same addresses, too; each call of any of them is short but for its waiting.
class TcpOverWire : public TcpHost {
 public:
  /// `wire` is an Ethernet wire in real time that lets one thread send while another receives, as unix: and packet: do.
  /// WireError::Kind::unsupported: it is not, or the address or the MAC is this machine's own.
  static WireResult<std::unique_ptr<TcpOverWire>> make(std::unique_ptr<Wire> wire, const TcpOverWireOptions& options);

  /// The MAC of an address on the link. WireError::Kind::missing when nobody answers for it until `deadline`.
  virtual WireResult<MacAddress> resolve(const IpAddress& address, std::int64_t deadline) = 0;
  /// From now on frames of TCP keep to that; answers to ARP, neighbor discovery and ping are not held to it.
  virtual void restrain(SendLimits restraint) = 0;
  /// Frames that take_passed() could not keep, since the host began.
  [[nodiscard]] virtual std::uint64_t passed_lost() const = 0;
};

}  // namespace rdmawire::replay
