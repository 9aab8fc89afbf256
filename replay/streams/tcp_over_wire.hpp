#pragma once
/// A user-space TCP (lwIP) on an Ethernet wire, which gives full control over segmentation.
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
  MacAddress mac = 0x020000000001;      ///< unicast, not used by another host
  IpAddress address{};                  ///< not used by another host on the link. Not link-local
  std::size_t passed_bytes = 64 << 20;  ///< limit of take_passed(). The oldest frames are dropped
};

/// Answers ARP, neighbor discovery and ping for its address, and connects to hosts on the same link. Segments are never
/// merged and not limited by a congestion window, only by the peer's window. Received data is acknowledged immediately.
/// The only TCP options are MSS and window scale. The receive window is 65535 bytes per connection and is filled by
/// data that receive() has not returned. send() creates segments of at most 1460 bytes.
///
/// Lost segments are retransmitted after half a second or more, an unanswered SYN after three seconds. Frames that a
/// wire does not accept within 20 ms count as lost.
///
/// A separate thread reads frames, so that the peer never blocks. A process may have several hosts, even with equal
/// addresses. Calls do not block each other.
class TcpOverWire : public TcpHost {
 public:
  /// `wire` must be a real-time Ethernet wire that allows one thread to send while another receives, for example unix:
  /// or packet:. WireError::Kind::unsupported: it is not, or this host owns the address or the MAC.
  static WireResult<std::unique_ptr<TcpOverWire>> make(std::unique_ptr<Wire> wire, const TcpOverWireOptions& options);

  /// The MAC of an address on the link. WireError::Kind::missing if there is no reply before `deadline`.
  virtual WireResult<MacAddress> resolve(const IpAddress& address, std::int64_t deadline) = 0;
  /// Limits TCP frames from now on. Replies to ARP, neighbor discovery and ping are not limited.
  virtual void restrain(SendLimits restraint) = 0;
  /// Number of frames that take_passed() dropped.
  [[nodiscard]] virtual std::uint64_t passed_lost() const = 0;
};

}  // namespace rdmawire::replay
