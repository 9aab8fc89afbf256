#pragma once
/// Dissected packets in, connections, messages and events out.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

struct TrackerOptions {
  std::uint32_t connections = 1U << 18;      ///< so many are kept at once; then those that were idle longest go
  std::uint32_t waiting_packets = 1U << 20;  ///< held back in all while the other half of a connection is looked for
  /// Bytes that all connections' outstanding packets and messages take; beyond, connections go as if there were too
  /// many. What a connection takes by itself, and packets that are held back, come on top.
  std::size_t outstanding_bytes = std::size_t{2} << 30;
  bool use_connection_manager = true;  ///< evidence for joining; all are used but for measuring how good the rest is
  bool use_text = true;
  bool use_source_port = true;
  bool notes_addresses = true;  ///< of the packets it gets
  bool packets = false;         ///< tell Sink::packet
  bool transport = false;       ///< tell Sink::transport and Sink::stream
};

/// A packet and its time.
struct Moment {
  std::uint64_t frame = 0;  ///< 0: there is none
  std::int64_t time = 0;    ///< nanoseconds since 1970

  [[nodiscard]] const Moment& later(const Moment& other) const { return other.frame > frame ? other : *this; }
};

class Tracker {
 public:
  explicit Tracker(Sink& sink, const TrackerOptions& options = {});
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  /// Packets come in the capture's order, as Dissector gives them. Frame numbers must rise.
  void add(const Packet& packet);
  /// Two queue pairs that the caller connected: what a CM's exchange would have told, with JoinedBy::told. What used
  /// them before is over.
  void pair(const PairEvidence& evidence);
  /// Addresses of a packet, whether add() gets it or not: where an address was changed on the way, those that were
  /// seen are tried. Not needed when TrackerOptions::notes_addresses is set.
  void note_addresses(const PortAddress& from, const PortAddress& to);
  /// No more packets: what waits is told, every connection says farewell.
  void finish() { finish({}); }
  /// The same, where other trackers had other packets of the capture: `last` is the last() of them all. How long a
  /// connection was silent before the capture ended is told by that.
  void finish(const Moment& last);
  /// The last packet with a BTH.
  [[nodiscard]] Moment last() const;

  /// For who knows packets some time before they are added: brings the memory that add() will need of the packet's
  /// connection into the cache, in three steps that should be some packets apart. With many connections almost every
  /// packet would wait for memory. Changes nothing else, however wrong the flow is.
  struct Prefetcher {
    std::uint64_t hash = 0;  ///< of the flow: (from, to, destination queue pair)
    bool response = false;   ///< the packet is a response
  };
  void fetch_slot(const Prefetcher& packet) const;
  void fetch_connection(const Prefetcher& packet) const;
  void fetch_requests(const Prefetcher& packet) const;
  /// False: connections are few enough to be in the cache anyway.
  [[nodiscard]] bool worth_fetching() const;

  /// Connections and waiting packets that had to go for want of room.
  [[nodiscard]] std::uint64_t evicted() const;
  /// Bytes of memory that are held, about.
  [[nodiscard]] std::size_t memory() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::tracking
