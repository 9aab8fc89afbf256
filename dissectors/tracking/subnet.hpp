#pragma once
/// Extracts records from management packets of a native InfiniBand subnet: joined multicast groups, requested and
/// returned paths, port counters. IBTA vol 1, chapters 15 and 16.1.

#include <cstdint>
#include <optional>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// A request to subnet administration and its response.
struct SubnetQuestion {
  PortAddress asker;
  std::uint64_t request_frame = 0, frame = 0;  ///< frames of the request and of the response (0: not captured)
  std::int64_t request_time = 0, time = 0;     ///< times of both, nanoseconds since 1970 (0: not captured)
  std::uint16_t status = 0;                    ///< MAD status of the response (0: success)
};

/// SubnAdmSet and SubnAdmDelete of MCMemberRecord. IBTA vol 1, 15.2.5.17.
struct MulticastMembership {
  SubnetQuestion question;
  bool leaves = false;
  PortAddress group, port;  ///< GIDs
  std::uint16_t mlid = 0;
  std::uint32_t qkey = 0;
  std::uint16_t pkey = 0;
  std::uint32_t mtu = 0;  ///< bytes (0: not specified)
  std::uint8_t join_state =
      0;  ///< bits, from the lowest: full member, non-member, send-only non-member, send-only full
};

/// PathRecord, requested and returned. IBTA vol 1, 15.2.5.16.
struct PathGiven {
  SubnetQuestion question;
  PortAddress from, to;  ///< GIDs
  std::uint16_t from_lid = 0, to_lid = 0;
  std::uint16_t pkey = 0;
  std::uint8_t service_level = 0;
  std::uint32_t mtu = 0;       ///< bytes (0: not specified)
  std::uint8_t rate = 0;       ///< code: rate_names
  std::int64_t life_time = 0;  ///< nanoseconds, maximum propagation time
};

/// PortCounters or PortCountersExtended from a port's response. IBTA vol 1, 16.1.3.5 and 16.1.4.11. Traffic in
/// bytes and packets. PortCounters saturate at their maximum. Members that the attribute does not contain are
/// nullopt.
struct PortCounterReading {
  PortAddress node;  ///< sender of the response
  std::uint8_t port = 0;
  bool extended = false;
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0, sent_packets = 0, received_packets = 0;
  std::optional<std::uint32_t> symbol_errors, link_error_recoveries, link_downed, receive_errors,
      receive_remote_physical_errors, receive_switch_relay_errors, transmit_discards, transmit_constraint_errors,
      receive_constraint_errors, local_link_integrity_errors, excessive_buffer_overruns, vl15_dropped,
      transmit_wait;  ///< ticks
};

class ManagementSink {
 public:
  /// Receives a membership with its response. Requests without response are reported by Subnet::finish(), with
  /// question.frame 0.
  virtual void multicast(const MulticastMembership&) {}
  /// Receives each path of a response. A request without response is reported, too, with the fields of the request.
  virtual void path(const PathGiven&) {}
  virtual void port_counters(const PortCounterReading&) {}

 protected:
  ~ManagementSink() = default;
};

/// Bounded: at most `capacity` requests wait for their response. Evicts the oldest and counts evictions.
class Subnet {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 12;
  explicit Subnet(ManagementSink& sink, std::uint32_t capacity = default_capacity);

  /// Processes a packet. Calls must be in capture order. Packets other than management cost a few comparisons.
  void add(const Packet& packet);
  /// Reports the requests without response. Call after the last packet.
  void finish();

  /// Requests evicted because the table was full.
  [[nodiscard]] std::uint64_t evicted() const { return questions_.evicted(); }
  /// Memory in use, approximately, in bytes.
  [[nodiscard]] std::size_t memory() const { return questions_.memory(); }

 private:
  struct Question {
    bool multicast = false;
    MulticastMembership membership;
    PathGiven path;
  };
  void administration(const Packet& packet, const FlowKey& ports);
  void performance(const Packet& packet, const FlowKey& ports);

  ManagementSink& sink_;
  LruTable<FlowKey, Question> questions_;  ///< key: from the requester, with the transaction ID
};

}  // namespace rdmawire::tracking
