#pragma once
/// A packet at one capture point: its identity, which is the same at all points, and fields that may change on the
/// path.

#include <algorithm>
#include <cstdint>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures::vantage {

using tracking::FlowKey;
using tracking::PortAddress;

/// Limits a timestamp from a file to the years 1970 to 2096, so that differences do not overflow.
constexpr std::int64_t sane_time(std::int64_t ns) { return std::clamp<std::int64_t>(ns, 0, 4'000'000'000'000'000'000); }

/// Number of a TCP flow in its FlowKey: a mark, the source port and the destination port. Other flows use the QP
/// number.
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

/// Kind of a packet. It determines what shows that the packet was delivered.
enum class Role : std::uint8_t {
  request,      ///< request of a reliable QP: it is retransmitted if it is lost, and acknowledged if it is delivered
  acknowledge,  ///< acknowledgement, which includes earlier ones, so a later one replaces a lost one
  response,     ///< READ or atomic response: if it is lost, the request is retried
  datagram,     ///< packet without acknowledgement: UC, UD, CNPs, management
  segment,      ///< TCP
};

struct Observation {
  static constexpr std::uint8_t no_priority = 0xff;

  /// Hash of everything that does not change on the path. It is equal for all observations of a packet, and for a
  /// retransmission with identical contents.
  std::uint64_t identity = 0;
  std::int64_t time = 0;  ///< time of the capture's clock in nanoseconds
  std::uint64_t frame = 0;
  FlowKey flow;                    ///< the number is the destination QP, or TcpFlow::number()
  std::uint32_t psn = 0;           ///< PSN (TCP: sequence number)
  std::uint32_t acknowledged = 0;  ///< TCP: acknowledgement number, valid if `acknowledges`
  std::uint32_t bytes = 0;         ///< number of payload bytes
  CrcCheck::Status icrc = CrcCheck::Status::absent;
  Role role = Role::datagram;
  Wire wire = Wire::none;               ///< Wire::none: TCP, which may be iWARP
  std::uint16_t source_port = 0;        ///< UDP source port
  std::uint8_t traffic_class = 0;       ///< DSCP and ECN
  std::uint8_t ttl = 0;                 ///< TTL or hop limit (0: none)
  std::uint8_t priority = no_priority;  ///< PCP of the outermost VLAN tag, or SL of native InfiniBand
  Syndrome syndrome{0};                 ///< RoCE and InfiniBand: valid if `acknowledges`
  bool acknowledges = false;
  bool read_request = false;
};

/// Which data the hash of the identity includes. All capture points of a comparison must use the same data.
enum class IdentityBy : std::uint8_t {
  icrc,     ///< BTH, extension headers, ICRC. Rewritten addresses do not matter
  headers,  ///< for captures that are truncated before the ICRC: addresses, ports and IP identification in place of the
            ///< ICRC
};

/// Fills `observation`. `packet` must be a result of Dissector, or of decode() and check_icrc(). Returns false if the
/// packet is neither RDMA nor TCP, is a fragment, or lacks a part of the data for the identity.
bool observe(Observation& observation, const tracking::Packet& packet, IdentityBy by);

/// Returns whether the packet is an RDMA packet that the capture truncated before the ICRC.
bool cut_before_icrc(const tracking::Packet& packet);

}  // namespace rdmawire::captures::vantage
