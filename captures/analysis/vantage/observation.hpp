#pragma once
/// A packet as one vantage point saw it: what makes it recognizable at the others, and what the way can change.

#include <algorithm>
#include <cstdint>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures::vantage {

using tracking::FlowKey;
using tracking::PortAddress;

/// A file can claim any time. Those outside of 1970 to 2096 are brought to the edge, so that differences have room.
constexpr std::int64_t sane_time(std::int64_t ns) { return std::clamp<std::int64_t>(ns, 0, 4'000'000'000'000'000'000); }

/// Numbers of TCP's flows: this, source port and destination port. Those of other flows are queue pairs.
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

/// What a packet is to the question whether it arrived.
enum class Role : std::uint8_t {
  request,      ///< of a reliable queue pair: lost, it is sent again; arrived, it is acknowledged
  acknowledge,  ///< says what arrived; lost, a later one says it too
  response,     ///< of a READ or an atomic: lost, it is asked for again
  datagram,     ///< nobody answers for it: UC, UD, CNPs, management
  segment,      ///< of TCP
};

struct Observation {
  static constexpr std::uint8_t no_priority = 0xff;

  /// A hash of everything that does not change on the way. Copies of a packet have the same one; so do a packet and
  /// its retransmission when the sender made them alike.
  std::uint64_t identity = 0;
  std::int64_t time = 0;  ///< nanoseconds, by the clock of its capture
  std::uint64_t frame = 0;
  FlowKey flow;                    ///< number: the destination queue pair, or TcpFlow::number()
  std::uint32_t psn = 0;           ///< TCP: the sequence number
  std::uint32_t acknowledged = 0;  ///< TCP with `acknowledges`
  std::uint32_t bytes = 0;         ///< of payload
  CrcCheck::Status icrc = CrcCheck::Status::absent;
  Role role = Role::datagram;
  Wire wire = Wire::none;               ///< Wire::none: TCP that nothing showed to be iWARP yet
  std::uint16_t source_port = 0;        ///< UDP's
  std::uint8_t traffic_class = 0;       ///< DSCP and ECN
  std::uint8_t ttl = 0;                 ///< hops left; 0: the packet has none
  std::uint8_t priority = no_priority;  ///< of the outermost VLAN tag; the SL of native InfiniBand
  std::uint8_t syndrome = 0;            ///< with `acknowledges`, RoCE and InfiniBand
  bool acknowledges = false;
  bool read_request = false;
};

/// What identities are made of. All vantage points of one comparison must use the same.
enum class IdentityBy : std::uint8_t {
  icrc,     ///< BTH, extension headers, ICRC: holds even where addresses were rewritten
  headers,  ///< for captures that cut packets before the ICRC: addresses, ports and IP identification in its stead
};

/// `packet` as Dissector or decode() and check_icrc() left it. False: it is neither RDMA nor TCP, a fragment, or cut
/// before what its identity needs.
bool sight(Observation& sighting, const tracking::Packet& packet, IdentityBy by);

/// The packet is RDMA, and too short for an identity by ICRC.
bool cut_before_icrc(const tracking::Packet& packet);

}  // namespace rdmawire::captures::vantage
