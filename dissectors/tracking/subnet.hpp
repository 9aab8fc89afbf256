#pragma once
/// What management of a native InfiniBand subnet says in passing, as plain records: who joined which multicast group,
/// which paths were asked for and given, what ports counted. IBTA vol 1, chapters 15 and 16.1.

#include <cstdint>
#include <optional>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// A question to subnet administration and its answer.
struct SubnetQuestion {
  PortAddress asker;
  std::uint64_t request_frame = 0, frame = 0;  ///< 0: not captured; `frame`: the answer
  std::int64_t request_time = 0, time = 0;     ///< nanoseconds since 1970, likewise
  std::uint16_t status = 0;                    ///< the answer's MAD status; 0: well
};

/// SubnAdmSet and SubnAdmDelete of MCMemberRecord. IBTA vol 1, 15.2.5.17.
struct MulticastMembership {
  SubnetQuestion question;
  bool leaves = false;
  PortAddress group, port;  ///< GIDs
  std::uint16_t mlid = 0;
  std::uint32_t qkey = 0;
  std::uint16_t pkey = 0;
  std::uint32_t mtu = 0;  ///< bytes; 0: not said
  std::uint8_t join_state =
      0;  ///< bits, from the lowest: full member, non-member, send-only non-member, send-only full
};

/// PathRecord, asked for and given. IBTA vol 1, 15.2.5.16.
struct PathGiven {
  SubnetQuestion question;
  PortAddress from, to;  ///< GIDs
  std::uint16_t from_lid = 0, to_lid = 0;
  std::uint16_t pkey = 0;
  std::uint8_t service_level = 0;
  std::uint32_t mtu = 0;       ///< bytes; 0: not said
  std::uint8_t rate = 0;       ///< code: rate_names
  std::int64_t life_time = 0;  ///< nanoseconds, the longest propagation
};

/// PortCounters or PortCountersExtended of a port, as it answered. IBTA vol 1, 16.1.3.5 and 16.1.4.11. Traffic in
/// bytes and packets; those of PortCounters stop at their largest value. What the form lacks is nullopt.
struct PortCounterReading {
  PortAddress node;  ///< who answered
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
  /// With the answer; or, when none came, from Subnet::finish() with question.frame 0.
  virtual void multicast(const MulticastMembership&) {}
  /// Each path of an answer; one that was asked for and never given likewise, as far as the question names it.
  virtual void path(const PathGiven&) {}
  virtual void port_counters(const PortCounterReading&) {}

 protected:
  ~ManagementSink() = default;
};

/// Bounded: at most `capacity` questions wait for their answers; those that wait longest go first and are counted.
class Subnet {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 12;
  explicit Subnet(ManagementSink& sink, std::uint32_t capacity = default_capacity);

  /// Packets come in the capture's order; those that are not management cost a few comparisons.
  void add(const Packet& packet);
  /// No more packets: tells the questions that nobody answered.
  void finish();

  /// Questions dropped for want of room.
  [[nodiscard]] std::uint64_t evicted() const { return questions_.evicted(); }
  /// Bytes of memory that are held, about.
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
  LruTable<FlowKey, Question> questions_;  ///< from the asker, with the transaction id
};

}  // namespace rdmawire::tracking
