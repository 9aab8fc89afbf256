#pragma once
/// Tracks dissected packets, and reports connections, messages and events.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/level.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

struct TrackerOptions {
  std::uint32_t connections = 1U << 24;      ///< maximum number of connections
  std::uint32_t waiting_packets = 1U << 20;  ///< maximum number of packets that wait for pairing
  /// Maximum memory in bytes of connections between QPs, and of their waiting packets. Connections are evicted at the
  /// maximum: first those with a single packet, then approximately the least recently used ones. Other tables have
  /// limits of their own, which add up to about 150 MiB.
  std::size_t memory = std::size_t{512} << 20;
  /// Bytes that the sink uses for open connections, which count toward `memory` (nullptr: none).
  const std::size_t* sink_bytes = nullptr;
  std::uint32_t conversations = 1U << 15;      ///< maximum number of CM exchanges
  std::uint32_t iwarp_connections = 1U << 14;  ///< maximum number of iWARP connections
  std::uint32_t iwarp_messages =
      1U << 17;  ///< maximum number of iWARP messages that wait for an acknowledgement or response, in all connections
  /// A connection that still has a single packet after this number of new connections is reduced to the packet. This
  /// affects only the memory.
  std::uint32_t recent_connections = 1024;
  bool use_connection_manager =
      true;  ///< use this kind of evidence for pairing. Tests disable one kind to test the others
  bool use_text = true;
  bool use_source_port = true;
  bool notes_addresses = true;  ///< add() calls note_addresses()
  bool packets = false;         ///< call Sink::packet
  bool transport = false;       ///< call Sink::transport and Sink::stream
};

/// A frame and its time.
struct Moment {
  std::uint64_t frame = 0;  ///< 0: none
  std::int64_t time = 0;    ///< nanoseconds since 1970

  [[nodiscard]] const Moment& later(const Moment& other) const { return other.frame > frame ? other : *this; }
};

class Tracker {
 public:
  explicit Tracker(Sink& sink, const TrackerOptions& options = {});
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  /// Processes a packet of Dissector. Packets must be in capture order, with increasing frame numbers.
  void add(const Packet& packet);
  /// Processes a packet that the caller has read with read_transport_packet() (nullptr: it returned false), and with
  /// read_payload_crc() if TrackerOptions::transport is set.
  void add(const Packet& packet, const TransportPacket* transport);
  /// Pairs two QPs that the caller has connected, like a CM exchange does. The connection gets JoinedBy::caller. Their
  /// earlier connections have ended.
  void pair(const PairEvidence& evidence);
  /// Adds a packet's addresses to the candidates for the original of a rewritten address. Must be called for packets
  /// that another tracker processes. add() calls it if TrackerOptions::notes_addresses is set.
  void note_addresses(const PortAddress& from, const PortAddress& to);
  /// Reports all waiting packets and messages, and all connections. Must be called after the last packet.
  void finish() { finish({}); }
  /// Like finish(), if other trackers processed other packets of the capture. `last` is the maximum of last() of all
  /// trackers. It determines the silence at the end of each connection.
  void finish(const Moment& last);
  /// Returns the last packet with a BTH.
  [[nodiscard]] Moment last() const;

  /// For callers that know packets in advance: prefetches the memory that add() will need. If there are many
  /// connections, almost every packet would otherwise cause cache misses. There are three steps, which should be some
  /// packets apart. A wrong flow is harmless.
  struct Prefetcher {
    std::uint64_t hash = 0;  ///< hash of the flow (from, to, destination QP)
    bool response = false;   ///< the packet is a response
  };
  void fetch_slot(const Prefetcher& packet) const;
  void fetch_connection(const Prefetcher& packet) const;
  void fetch_requests(const Prefetcher& packet) const;
  /// Returns whether prefetching is useful. It is not if the connections fit into the cache.
  [[nodiscard]] bool worth_fetching() const;

  /// Number of entries that were evicted because a table was full: connections, waiting packets, CM and text exchanges,
  /// iWARP messages.
  [[nodiscard]] std::uint64_t evicted() const;
  /// Memory in use, approximately, in bytes.
  [[nodiscard]] std::size_t memory() const;
  /// Number of open connections between QPs, and number of those that are reduced to their single packet.
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t singles() const;
  /// Appends the levels of the tables that trackers of other packets share, always in the same order.
  void append_levels(std::vector<Level>& levels) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::tracking
