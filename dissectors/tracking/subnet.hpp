#pragma once
/// Extracts records from management packets of a native InfiniBand subnet: multicast groups that ports join, requested
/// and returned paths, port counters. IBTA vol 1, chapters 15 and 16.1.

#include <cstdint>
#include <optional>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// A request to subnet administration, with its response.
struct SubnetQuestion {
  PortAddress asker;
  std::uint64_t request_frame = 0, frame = 0;  ///< frames of the request and of the response (0: not captured)
  std::int64_t request_time = 0,
               time = 0;     ///< times of the request and of the response, in nanoseconds since 1970 (0: not captured)
  std::uint16_t status = 0;  ///< MAD status of the response (0: success)
};

/// SubnAdmSet and SubnAdmDelete of an MCMemberRecord. IBTA vol 1, 15.2.5.17.
struct MulticastMembership {
  SubnetQuestion question;
  bool leaves = false;
  PortAddress group, port;  ///< GIDs of the group and of the port
  std::uint16_t mlid = 0;
  std::uint32_t qkey = 0;
  std::uint16_t pkey = 0;
  std::uint32_t mtu = 0;        ///< bytes (0: not specified)
  std::uint8_t join_state = 0;  ///< bits of the join state, from the lowest: full member, non-member, send-only
                                ///< non-member, send-only full member
};

/// A PathRecord, requested or returned. IBTA vol 1, 15.2.5.16.
struct PathGiven {
  SubnetQuestion question;
  PortAddress from, to;  ///< GIDs of the two ports
  std::uint16_t from_lid = 0, to_lid = 0;
  std::uint16_t pkey = 0;
  std::uint8_t service_level = 0;
  std::uint32_t mtu = 0;       ///< bytes (0: not specified)
  std::uint8_t rate = 0;       ///< rate code, see rate_names
  std::int64_t life_time = 0;  ///< maximum propagation time in nanoseconds
};

/// PortCounters or PortCountersExtended in the response of a port. IBTA vol 1, 16.1.3.5 and 16.1.4.11. Traffic is in
/// bytes and packets. PortCounters saturate at their maximum. Members that the attribute does not contain are nullopt.
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
      transmit_wait;  ///< ticks during which data waited for credits
};

class ManagementSink {
 public:
  /// Receives a membership when its response is captured. Subnet::finish() reports requests without a response, with
  /// question.frame 0.
  virtual void multicast(const MulticastMembership&) {}
  /// Receives each path in a response. A request without a response is also reported, with the fields of the request.
  virtual void path(const PathGiven&) {}
  virtual void port_counters(const PortCounterReading&) {}

 protected:
  ~ManagementSink() = default;
};

/// Keeps at most `capacity` requests that wait for their response. If there are more, evicts the oldest one and counts
/// the eviction.
class Subnet {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 12;
  explicit Subnet(ManagementSink& sink, std::uint32_t capacity = default_capacity);

  /// Processes a packet. Packets must be in capture order. Packets that are not management datagrams cost a few
  /// comparisons.
  void add(const Packet& packet);
  /// Reports the requests without a response. Must be called after the last packet.
  void finish();

  /// Number of requests that were evicted because the table was full.
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
  LruTable<FlowKey, Question>
      questions_;  ///< the key contains the ports of the request, from the requester, and the transaction ID
};

}  // namespace rdmawire::tracking
