#pragma once
/// What QueuePairs keeps of each connection. Not part of the library's interface.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::tracking {

/// One direction's packets wait for the other one at most so many, and so long.
inline constexpr std::size_t patience_packets = 160;
inline constexpr std::int64_t patience_ns = 10'000'000'000;
/// So many directions without another half are looked through, the newest first.
inline constexpr std::size_t looked_through = 128;
/// And so many whose requests have the PSN of a response.
inline constexpr std::size_t considered = 2048;
/// PSNs that are this near are told from each other by more than one answer.
inline constexpr unsigned stretch_bits = 8;
/// Bad CRCs that are explained, for each connection.
inline constexpr std::uint32_t explained = 4096;

inline constexpr std::uint32_t congestion_experienced = 3;

inline bool has_answers(Service service) { return service == Service::rc || service == Service::xrc; }

/// A direction whose requests these responses may answer.
struct QueuePairs::Candidate {
  Index at = none;
  std::uint32_t against = 0;  // responses that do not fit it, or fit another one much better
  std::int64_t delay = 0;     // of the response that is looked at; negative: it does not fit
};

struct QueuePairs::Search {
  std::vector<TransportPacket> held;
  std::vector<Event> events;  // of the packets that are held: which connection's they are is open, too
  std::size_t told = 0;       // of these
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> stretches;  // that its requests are in
  bool late = false;                     // its packets do not wait any more
  bool looked = false;
  bool rivals = false;  // other directions have PSNs near by
  std::uint32_t matches = 0;
  Psn last_match;
  std::int64_t since = 0;
};

struct QueuePairs::Followed {
  Connection info;
  Requester requesters[2];
  bool knows[2] = {false, false};  // this end's direction has its entry
  bool recent = true;
  bool lone = false;
  bool datagram = false;
  bool told = false;  // the CM's events of it have been: it has to say farewell, even without packets
  std::uint32_t lone_at = 0;
  std::size_t bytes = 0;  // of its requesters, as they were weighed last
  std::uint32_t good_crcs = 0, bad_crcs = 0;
  std::vector<Event> unexplained;  // bad CRCs, while none was good
  std::uint16_t port[2] = {0, 0}, previous_port[2] = {0, 0};
  std::uint8_t path_changes[2] = {0, 0};
  std::int64_t last_time = 0;  // of what was followed, not waiting
  std::uint64_t last_frame = 0;
  std::uint32_t qkey[2] = {0, 0};
  std::uint64_t evidence_frame = 0;
  std::unique_ptr<Event> odd_pkey, second_pkey;  // the first two packets, while their P_Keys are not judged
  std::unique_ptr<Search> search;
  std::unique_ptr<NegotiatedParameters> agreement;  // TrackerOptions::transport only
  std::unique_ptr<TransportPacket> jump[2];  // a request far from all before: another connection's first, or a stray

  [[nodiscard]] bool joined() const { return info.paired_by != JoinedBy::nothing; }
};

}  // namespace rdmawire::tracking
