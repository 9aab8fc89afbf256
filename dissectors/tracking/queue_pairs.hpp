#pragma once
/// QPs of InfiniBand's transport: assigns packets to connections and pairs the two directions of each connection.
///
/// A BTH contains only the destination QP, so each direction is looked up by (from, to, destination QP), and the
/// pairing must be inferred. Sources: the CM exchange, a text exchange of the applications, UDP source ports that
/// common stacks compute from both QP numbers, or responses of one direction that match requests of the other.
/// Packets wait until the directions are paired, so that they are processed in order.

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dissectors/tracking/pair_evidence.hpp"
#include "dissectors/tracking/pool.hpp"
#include "dissectors/tracking/requester.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::tracking {

/// UDP source ports that common stacks compute from QP numbers.
namespace source_port {
/// Source port that Linux computes from both QP numbers, equal in both directions (the flow label convention of
/// rdma-core and the kernel).
std::uint16_t of_pair(std::uint32_t local_qp, std::uint32_t remote_qp);
/// Source port that Linux's rdma_rxe computes from the sender's QP number.
std::uint16_t of_sender(std::uint32_t local_qp);
}  // namespace source_port

class QueuePairs final : public PairSink {
 public:
  QueuePairs(Sink& sink, const TrackerOptions& options);
  ~QueuePairs();
  QueuePairs(const QueuePairs&) = delete;
  QueuePairs& operator=(const QueuePairs&) = delete;

  /// Processes a packet with a BTH. Ignores other packets.
  void add(const Packet& packet);
  void note_addresses(const PortAddress& from, const PortAddress& to) {
    // Packets between two ports arrive in bursts.
    if ((from == noted_[0] && to == noted_[1]) || (from == noted_[1] && to == noted_[0])) return;
    noted_[0] = from;
    noted_[1] = to;
    addresses_.note(from);
    addresses_.note(to);
  }
  void finish(const Moment& last = {});
  [[nodiscard]] const Moment& last() const { return last_; }

  void pair(const PairEvidence& evidence) override;
  void opened(const PairEvidence& evidence, const Event& event) override;
  void rejected(const PairEvidence& evidence, const Event& event, const Rejection& rejection) override;
  void path_changed(const PairEvidence& evidence, const Event& event, const FlowKey& path) override;
  void closing(const PairEvidence& evidence, std::uint64_t frame, std::int64_t time) override;
  void closed(const PairEvidence& evidence, const Event& event) override;

  /// See Tracker.
  void fetch_slot(std::uint64_t hash) const;
  void fetch_connection(std::uint64_t hash, bool response) const;
  void fetch_requests(std::uint64_t hash, bool response) const;
  [[nodiscard]] bool worth_fetching() const { return alive_ >= 256; }

  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  [[nodiscard]] std::size_t memory() const;

 private:
  using Index = std::uint32_t;
  static constexpr Index none = UINT32_MAX;

  /// A connection with one known direction, while its pair is searched.
  struct Search;
  struct Candidate;
  struct Followed;
  struct Slot {
    std::uint64_t hash = 0;
    Index at = none;
    Side end = Side::a;  // endpoint that sends in this direction
  };
  struct PortPair {
    PortAddress low, high;
    friend bool operator==(const PortPair&, const PortPair&) = default;
  };
  struct PortPairHash {
    std::size_t operator()(const PortPair& p) const { return FlowKey{p.low, p.high, 0}.hash(); }
  };
  /// Unpaired directions between two ports. `from[0]`: sent by the lower address, `from[1]`: sent by the higher.
  struct UnpairedDirections {
    std::vector<Index> from[2];
  };

  [[nodiscard]] static std::uint64_t number_of(const TransportPacket& packet);
  Slot* find(const FlowKey& key);
  [[nodiscard]] const Slot* find_slot(std::uint64_t hash) const;
  void insert(const FlowKey& key, Index at, Side end);
  void erase(const FlowKey& key);
  void grow();
  [[nodiscard]] FlowKey key_from(const Followed& f, Side end) const;

  Index create();
  void release(Index at);
  std::unique_ptr<Search> new_search();
  void end_search(std::unique_ptr<Search> search);
  void make_room();
  void update_memory_usage(Followed& f);
  Index begin(const TransportPacket& packet);
  /// Reports and removes a connection. `time`: end of the connection, as far as known.
  void close_reason(Index at, CloseReason why, std::int64_t time);
  void process(Followed& f, Side end, const TransportPacket& packet);
  void swap_ends(Index at);
  void take(Index at, Side end, const Packet& packet, const TransportPacket& transport);
  void tell(Followed& f, const Event& event);
  void tell_waiting(const Followed& f, Search& search, Side end, std::uint64_t frame);
  void count(Followed& f, Side end, const TransportPacket& packet);
  void follow(Index at, Side end, const TransportPacket& packet);
  [[nodiscard]] static bool begins_anew(const Followed& f, const TransportPacket& packet);
  void settle_jump(Followed& f, Side end);
  void replace(Index at, const TransportPacket& first, const TransportPacket* second);
  bool replaced(Index at, Side end, const TransportPacket& packet);
  void judge_pkey(Followed& f, const TransportPacket& packet, Event& event);
  void note_path(Followed& f, Side end, const TransportPacket& packet);
  void tell_stall(Followed& f, Side end, const TransportPacket& packet);
  void tell_unexplained(Followed& f, Cause cause, std::uint64_t value);
  bool judge_crc(Followed& f, Side end, const Packet& packet, const TransportPacket& transport, bool& changed);

  // Pairing
  void add_lone(Index at);
  void remove_lone(Index at);
  [[nodiscard]] static int direction_of(const Followed& f);
  void try_source_port(Index at);
  [[nodiscard]] std::uint64_t place_of(const Followed& f, bool reversed, std::uint64_t number) const;
  void note_request(Index at, const TransportPacket& packet);
  void forget_requests(Index at);
  [[nodiscard]] bool can_be_other_half(Index at, Index candidate) const;
  void look_for_candidates(Index at, const TransportPacket& packet);
  void weigh_candidates(Search& search, const TransportPacket& packet);
  void try_answers(Index at, const TransportPacket& packet);
  static std::optional<std::int64_t> answers(const Followed& requests, const TransportPacket& response,
                                             std::uint64_t before);
  static bool contradicts(const Followed& requests, const Followed& responses);
  Index join(Index at, Index with, JoinedBy by, Confidence confidence);
  void give_up(Index at);
  void release_waiting(Index at);

  /// Reports an event of the CM for a connection. `swapped`: its endpoint a is endpoint b of the evidence.
  void report(Followed& f, Event event, bool swapped);
  Followed* of_evidence(const PairEvidence& evidence, bool& swapped);

  Sink& sink_;
  TrackerOptions options_;
  std::vector<Slot> slots_;
  std::size_t slots_used_ = 0;
  Pool<Followed> followed_;
  std::vector<std::unique_ptr<Search>> spare_searches_;
  std::size_t alive_ = 0;
  std::size_t bytes_ = 0;  // memory of all requesters
  std::size_t hand_ = 0;   // position of the eviction clock
  std::unordered_map<PortPair, UnpairedDirections, PortPairHash> lone_;
  std::size_t waiting_ = 0;  // packets that wait for pairing
  /// Waiting requests by port pair, direction and PSN, and the number of directions in each range of PSNs.
  std::unordered_multimap<std::uint64_t, Index> requests_;
  std::unordered_map<std::uint64_t, std::uint32_t> stretches_;
  std::uint64_t evicted_ = 0;
  AddressBook addresses_;
  PortAddress noted_[2];  // ports of the last packet
  Moment last_;           // the last packet
};

}  // namespace rdmawire::tracking
