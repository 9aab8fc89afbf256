#pragma once
/// QPs of InfiniBand's transport: assigns packets to connections and pairs the two directions of each connection.
///
/// A BTH contains only the destination QP, so each direction is looked up by (from, to, destination QP), and the
/// pairing must be inferred. Sources: the CM exchange, a text exchange of the applications, UDP source ports that
/// common stacks compute from both QP numbers, or responses of one direction that match requests of the other.
/// Packets wait until the directions are paired, so that they are processed in order.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dissectors/tracking/number_table.hpp"
#include "dissectors/tracking/pair_evidence.hpp"
#include "dissectors/tracking/pool.hpp"
#include "dissectors/tracking/requester.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::tracking {

/// UDP source ports that common network stacks compute from QP numbers.
namespace source_port {
/// Returns the source port that Linux computes from both QP numbers. It is equal in both directions (the flow label
/// convention of rdma-core and the kernel).
std::uint16_t of_pair(std::uint32_t local_qp, std::uint32_t remote_qp);
/// Returns the source port that Linux's rdma_rxe computes from the QP number of the sender.
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
  /// Processes a packet that the caller has read into `t`. If TrackerOptions::transport is set, `t` must contain the
  /// CRC of the payload.
  void add(const Packet& packet, const TransportPacket& t);
  void note_addresses(const PortAddress& from, const PortAddress& to) {
    // Usually, consecutive packets are between the same two ports.
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

  /// See Tracker::Prefetcher.
  void fetch_slot(std::uint64_t hash) const;
  void fetch_connection(std::uint64_t hash, bool response) const;
  void fetch_requests(std::uint64_t hash, bool response) const;
  [[nodiscard]] bool worth_fetching() const { return connections() >= 256; }

  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  [[nodiscard]] std::size_t memory() const;
  /// Memory in bytes to which TrackerOptions::memory applies: that of connections and waiting packets. It depends only
  /// on the processed packets. most_used() is its maximum so far.
  [[nodiscard]] std::size_t used() const { return used_ + (options_.sink_bytes ? *options_.sink_bytes : 0); }
  [[nodiscard]] std::size_t most_used() const { return most_used_; }
  [[nodiscard]] std::size_t most_connections() const { return most_connections_; }
  [[nodiscard]] std::size_t most_waiting() const { return most_waiting_; }
  /// Number of connections, and number of connections that are reduced to their single packet.
  [[nodiscard]] std::size_t connections() const { return alive_ + singles_alive_; }
  [[nodiscard]] std::size_t singles() const { return singles_alive_; }

 private:
  /// Index in followed_, or with single_bit in singles_.
  using Index = std::uint32_t;
  static constexpr Index none = UINT32_MAX;
  static constexpr Index single_bit = 1U << 31;
  [[nodiscard]] static bool is_single(Index at) { return (at & single_bit) != 0; }

  /// A connection with one known direction, while the other direction is searched.
  struct Search;
  struct Candidate;
  struct Followed;
  /// A connection with one packet. Its state is restored from the packet when it is needed.
  struct Single;
  /// A new connection. It is in recent_ until it has a second packet, or enough other connections followed.
  struct Recent;
  class LoneList;
  class LoneLists;
  struct Costs;
  struct Slot {
    std::uint64_t hash = 0;
    Index at = none;
    Side end = Side::a;  // endpoint that sends in this direction
  };
  [[nodiscard]] static std::uint64_t number_of(const TransportPacket& packet);
  Slot* find(const FlowKey& key);
  [[nodiscard]] const Slot* find_slot(std::uint64_t hash) const;
  void insert(const FlowKey& key, Index at, Side end);
  void erase(const FlowKey& key);
  void grow();
  [[nodiscard]] static FlowKey key_from(const Followed& f, Side end);
  [[nodiscard]] FlowKey key_of(const Slot& slot) const;
  Slot* find_unexpanded(const FlowKey& key);
  Slot* find_damaged(const TransportPacket& packet);

  Index create();
  void note_recent(Index at, const TransportPacket& first);
  void compress(const Recent& recent);
  Index expand(Index single);
  void release(Index at);
  std::unique_ptr<Search> new_search();
  void end_search(std::unique_ptr<Search> search);
  void make_room();
  void update_memory_usage(Followed& f);
  void charge(Search& search);
  [[nodiscard]] bool exceeds_memory() const { return used() > options_.memory && connections() > 1; }
  void enforce_memory();
  Index begin(const TransportPacket& packet);
  void fill(Followed& f, const TransportPacket& packet) const;
  /// Reports and removes a connection. `time` is the end of the connection, as far as known.
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
  [[nodiscard]] FlowKey lone_ports(Index at) const;
  [[nodiscard]] LoneList* lone_list(const PortAddress& from, const PortAddress& to);
  void try_source_port(Index at);
  [[nodiscard]] static std::uint64_t place_of(const Followed& f, bool reversed, std::uint64_t number);
  [[nodiscard]] static std::uint64_t place_of(const TransportPacket& request);
  [[nodiscard]] static std::uint64_t stretch_of(const TransportPacket& request);
  void note_request(Index at, const TransportPacket& packet);
  void move_request(const TransportPacket& packet, Index from, Index to);
  void forget_requests(Index at);
  [[nodiscard]] bool is_valid(Index at, const Candidate& candidate) const;
  [[nodiscard]] bool can_be_other_half(Index at, Index candidate) const;
  [[nodiscard]] bool can_respond(Index at, Index candidate, const TransportPacket& response) const;
  void look_for_candidates(Index at, const TransportPacket& packet);
  void weigh_candidates(Search& search, const TransportPacket& packet);
  void try_answers(Index at, const TransportPacket& packet);
  static std::optional<std::int64_t> answers(const Followed& requests, const TransportPacket& response,
                                             std::uint64_t before);
  static bool contradicts(const Followed& requests, const Followed& responses);
  Index join(Index at, Index with, JoinedBy by, Confidence confidence);
  void give_up(Index at);
  void release_waiting(Index at);

  /// Reports an event of the CM for a connection. `swapped`: endpoint a is endpoint b of the evidence.
  void report(Followed& f, Event event, bool swapped);
  Followed* of_evidence(const PairEvidence& evidence, bool& swapped);

  Sink* sink_;
  TrackerOptions options_;
  std::vector<Slot> slots_;
  std::size_t slots_used_ = 0;
  using FollowedPool = Pool<Followed, 11>;
  FollowedPool followed_;
  std::vector<std::unique_ptr<Search>> spare_searches_;
  std::size_t alive_ = 0;  // number of connections in followed_
  Pool<Single, 12> singles_;
  std::size_t singles_alive_ = 0;
  std::size_t used_ = 0, most_used_ = 0;  // bytes, without those of the sink
  std::size_t most_connections_ = 0, most_waiting_ = 0;
  std::size_t hand_ = 0, singles_hand_ = 0;  // positions of the clock hands that evict
  std::vector<Recent> recent_;               // a ring
  std::size_t recent_at_ = 0;
  std::unique_ptr<LoneLists> lone_;
  std::size_t waiting_ = 0;  // number of packets that wait for pairing
  /// Waiting requests by pair of ports, direction and PSN. stretches_: number of directions in each range of PSNs.
  NumberTable requests_, stretches_;
  std::uint64_t evicted_ = 0;
  AddressBook addresses_;
  PortAddress noted_[2];  // ports of the last packet
  Moment last_;           // the last packet
};

}  // namespace rdmawire::tracking
