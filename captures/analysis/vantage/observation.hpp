#pragma once
/// A packet at one capture point: an identity that all points agree on, and fields that may change on the path.

#include <algorithm>
#include <cstdint>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures::vantage {

using tracking::FlowKey;
using tracking::PortAddress;

/// Clamps a file's timestamp to the years 1970 to 2096, so that differences do not overflow.
constexpr std::int64_t sane_time(std::int64_t ns) { return std::clamp<std::int64_t>(ns, 0, 4'000'000'000'000'000'000); }

/// Flow number of a TCP flow: mark, source port and destination port. Other flows use the QP number.
struct TcpFlow {
  static constexpr std::uint64_t mark = std::uint64_t{1} << 32;
  std::uint16_t source = 0, destination = 0;
  [[nodiscard]] constexpr std::uint64_t number() const { return mark | std::uint64_t{source} << 16 | destination; }
  static constexpr bool is(const FlowKey& flow) { return (flow.number & mark) != 0; }
  static constexpr TcpFlow of(const FlowKey& flow) {
    return {static_cast<std::uint16_t>(flow.number >> 16), static_cast<std::uint16_t>(flow.number)};
  }
  [[nodiscard]] constexpr TcpFlow reversed() const { return {destination, source}; }
};

/// Kind of a packet, which determines the evidence for its delivery.
enum class Role : std::uint8_t {
  request,      ///< of a reliable QP: retransmitted if lost, acknowledged if delivered
  acknowledge,  ///< cumulative, so a later one replaces a lost one
  response,     ///< READ or atomic response: the request is retried if lost
  datagram,     ///< without acknowledgement: UC, UD, CNPs, management
  segment,      ///< TCP
};

struct Observation {
  static constexpr std::uint8_t no_priority = 0xff;

  /// Hash of everything that does not change on the path. Equal for all observations of a packet, and for a
  /// retransmission with identical contents.
  std::uint64_t identity = 0;
  std::int64_t time = 0;  ///< nanoseconds, by the clock of its capture
  std::uint64_t frame = 0;
  FlowKey flow;                    ///< number: destination QP, or TcpFlow::number()
  std::uint32_t psn = 0;           ///< TCP: sequence number
  std::uint32_t acknowledged = 0;  ///< TCP: valid if `acknowledges`
  std::uint32_t bytes = 0;         ///< payload
  CrcCheck::Status icrc = CrcCheck::Status::absent;
  Role role = Role::datagram;
  Wire wire = Wire::none;               ///< Wire::none: TCP, possibly iWARP
  std::uint16_t source_port = 0;        ///< UDP source port
  std::uint8_t traffic_class = 0;       ///< DSCP and ECN
  std::uint8_t ttl = 0;                 ///< TTL or hop limit (0: none)
  std::uint8_t priority = no_priority;  ///< PCP of the outermost VLAN tag, or SL of native InfiniBand
  Syndrome syndrome{0};                 ///< RoCE and InfiniBand: valid if `acknowledges`
  bool acknowledges = false;
  bool read_request = false;
};

/// Input of the identity hash. All capture points of a comparison must use the same input.
enum class IdentityBy : std::uint8_t {
  icrc,     ///< BTH, extension headers, ICRC: independent of rewritten addresses
  headers,  ///< for captures truncated before the ICRC: addresses, ports and IP identification instead of the ICRC
};

/// Fills `observation`. `packet` must result from Dissector, or from decode() and check_icrc(). Returns false for
/// packets other than RDMA and TCP, for fragments, and for packets truncated before the end of the identity's input.
bool observe(Observation& observation, const tracking::Packet& packet, IdentityBy by);

/// Returns whether the packet is RDMA and truncated before the ICRC.
bool cut_before_icrc(const tracking::Packet& packet);

}  // namespace rdmawire::captures::vantage
