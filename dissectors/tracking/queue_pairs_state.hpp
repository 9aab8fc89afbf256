#pragma once
/// State of each connection in QueuePairs. Internal: not part of the library's interface.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::tracking {

/// Limits for packets of one direction that wait for pairing: their number, and the time in nanoseconds.
inline constexpr std::size_t patience_packets = 160;
inline constexpr std::int64_t patience_ns = 10'000'000'000;
/// Maximum number of unpaired directions among which a pair is searched, newest first.
inline constexpr std::size_t looked_through = 128;
/// Maximum number of directions that are considered because their requests have the PSN of a response.
inline constexpr std::size_t considered = 2048;
/// Size of a range of PSNs, as a power of two. If other directions have requests in the same range or in a neighboring
/// one, one response is not enough evidence for a pairing.
inline constexpr unsigned stretch_bits = 8;
/// Maximum number of bad CRCs per connection that are explained.
inline constexpr std::uint32_t explained = 4096;

inline bool has_answers(Service service) { return service == Service::rc || service == Service::xrc; }

/// A direction that may be the other direction of a connection, because its requests match the responses.
struct QueuePairs::Candidate {
  Index at = none;
  std::uint64_t id = 0;       // identifies the connection, because its slot can be reused by another one
  std::uint32_t against = 0;  // number of responses that do not match it, or match another candidate much better
  std::int64_t delay = 0;     // delay of the current response in nanoseconds (negative: it does not match)
};

struct QueuePairs::Search {
  std::vector<TransportPacket> held;
  std::vector<Event> events;  // events of the waiting packets, whose connection is not known yet
  std::size_t reported = 0;   // number of `events` that were reported
  std::size_t charged = 0;    // bytes of this search that QueuePairs::used_ includes
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> stretches;  // ranges of PSNs that the direction's requests use
  bool late = false;                     // the direction's packets no longer wait
  bool looked = false;
  bool rivals = false;  // other directions have PSNs nearby
  std::uint32_t matches = 0;
  Psn last_match;
  std::int64_t since = 0;
};

struct QueuePairs::Followed {
  Connection info;
  Requester requesters[2];
  bool knows[2] = {false, false};  // the table has an entry for packets of this endpoint
  bool recent = true;
  bool lone = false;
  bool candidate = false;  // the search of another direction refers to this direction as a candidate
  bool datagram = false;
  bool reported = false;  // events of the CM were reported, so the end of the connection must be reported even if there
                          // are no packets
  std::uint32_t lone_at = 0;
  std::size_t bytes = 0;  // memory of the requesters when it was last computed
  std::uint32_t good_crcs = 0, bad_crcs = 0;
  std::vector<Event> unexplained;  // events of bad CRCs. They wait as long as no CRC was good
  std::uint16_t port[2] = {0, 0}, previous_port[2] = {0, 0};
  std::uint8_t path_changes[2] = {0, 0};
  std::int64_t last_time = 0;  // time of the last packet that was processed (packets that wait do not count)
  std::uint64_t last_frame = 0;
  std::uint32_t qkey[2] = {0, 0};
  std::uint64_t evidence_frame = 0;
  std::unique_ptr<Event> odd_pkey,
      second_pkey;  // events for the first two packets, as long as it is unknown which P_Key is right
  std::unique_ptr<Search> search;
  std::unique_ptr<NegotiatedParameters> agreement;  // only set if TrackerOptions::transport is
  std::unique_ptr<TransportPacket> jump[2];  // a request far from all earlier ones, which is either the first request
                                             // of a new connection, or a stray

  [[nodiscard]] bool joined() const { return info.paired_by != JoinedBy::nothing; }
};

struct QueuePairs::Single {
  TransportPacket packet;
  std::uint32_t lone_at = 0;
  bool lone = false;
  bool held = false;      // true: the packet waits for pairing. false: it was processed
  bool good_crc = false;  // the CRC was verified and is good
};

struct QueuePairs::Recent {
  Index at = none;
  std::uint64_t id = 0;  // Connection::id
  TransportPacket first;
};

/// Unpaired directions from one port to another. They are in order of age, except after a removal. A list of one
/// direction, the most frequent case, needs no additional memory.
class QueuePairs::LoneList {
 public:
  [[nodiscard]] std::size_t size() const { return many_ ? many_->size() : one_ != none; }
  [[nodiscard]] Index operator[](std::size_t i) const { return many_ ? (*many_)[i] : one_; }
  void set(std::size_t i, Index at) { (many_ ? (*many_)[i] : one_) = at; }
  void push_back(Index at) {
    if (size() == 0) {
      one_ = at;
      return;
    }
    if (!many_) many_ = std::make_unique<std::vector<Index>>(1, one_);
    many_->push_back(at);
  }
  /// Requires that the list has more than one direction.
  void pop_back() { many_->pop_back(); }
  void clear() {
    one_ = none;
    many_.reset();
  }
  [[nodiscard]] std::size_t memory() const { return many_ ? sizeof(*many_) + many_->capacity() * sizeof(Index) : 0; }

 private:
  Index one_ = none;
  std::unique_ptr<std::vector<Index>> many_;
};

/// All lists, by source and destination port.
class QueuePairs::LoneLists {
 public:
  /// Returns the list, or nullptr if it is empty. `ports_of(direction)` must return the ports of a direction.
  template <class PortsOf>
  [[nodiscard]] LoneList* find(const PortAddress& from, const PortAddress& to, const PortsOf& ports_of) {
    const Index* number = numbers_.find(key(from, to), [&](Index list) {
      const FlowKey ports = ports_of(lists_[list][0]);
      return ports.from == from && ports.to == to;
    });
    return number ? &lists_[*number] : nullptr;
  }
  /// Adds an empty list, which the caller must fill.
  LoneList& add(const PortAddress& from, const PortAddress& to) {
    if (free_.empty()) {
      lists_.emplace_back();
      free_.reserve(lists_.capacity());
      free_.push_back(static_cast<Index>(lists_.size() - 1));
    }
    numbers_.insert(key(from, to), free_.back());
    LoneList& list = lists_[free_.back()];
    free_.pop_back();
    return list;
  }
  void remove(const PortAddress& from, const PortAddress& to, LoneList& list) {
    const auto number = static_cast<Index>(&list - lists_.data());
    numbers_.erase(key(from, to), [&](Index other) { return other == number; });
    list.clear();
    free_.push_back(number);
  }
  [[nodiscard]] std::size_t memory() const {
    std::size_t bytes = numbers_.memory() + lists_.capacity() * sizeof(LoneList) + free_.capacity() * sizeof(Index);
    for (const LoneList& list : lists_) bytes += list.memory();
    return bytes;
  }

 private:
  static std::uint64_t key(const PortAddress& from, const PortAddress& to) { return FlowKey{from, to, 0}.hash(); }
  NumberTable numbers_;
  std::vector<LoneList> lists_;
  std::vector<Index> free_;
};

/// Bytes that count for TrackerOptions::memory. Where a table has unused parts, they are averages.
struct QueuePairs::Costs {
  static constexpr std::size_t slot = 2 * sizeof(Slot) + sizeof(Slot) / 2;
  static constexpr std::size_t lone = NumberTable::entry_bytes + sizeof(LoneList) + 2 * sizeof(Index);
  static constexpr std::size_t request = NumberTable::entry_bytes;
  /// The P_Key events of the first two packets and both jumps are counted for every connection.
  static constexpr std::size_t followed =
      FollowedPool::object_bytes() + 2 * slot + lone + 2 * sizeof(Event) + 2 * sizeof(TransportPacket);
  static constexpr std::size_t single = Pool<Single, 12>::object_bytes() + slot + lone + 2 * request;
  static constexpr std::size_t search = sizeof(Search);
};

}  // namespace rdmawire::tracking
