#pragma once
/// State of each connection in QueuePairs. Not part of the library's interface.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::tracking {

/// Maximum number and time of one direction's packets that wait for pairing.
inline constexpr std::size_t patience_packets = 160;
inline constexpr std::int64_t patience_ns = 10'000'000'000;
/// Maximum number of unpaired directions that are searched, newest first.
inline constexpr std::size_t looked_through = 128;
/// Maximum number of directions whose requests have the PSN of a response.
inline constexpr std::size_t considered = 2048;
/// PSNs within this range need more than one response to be distinguished.
inline constexpr unsigned stretch_bits = 8;
/// Maximum number of explained bad CRCs per connection.
inline constexpr std::uint32_t explained = 4096;

inline constexpr std::uint32_t congestion_experienced = 3;

inline bool has_answers(Service service) { return service == Service::rc || service == Service::xrc; }

/// A direction whose requests match these responses.
struct QueuePairs::Candidate {
  Index at = none;
  std::uint32_t against = 0;  // responses that do not match it, or match another candidate much better
  std::int64_t delay = 0;     // of the current response (negative: no match)
};

struct QueuePairs::Search {
  std::vector<TransportPacket> held;
  std::vector<Event> events;  // of the waiting packets, whose connection is unknown
  std::size_t reported = 0;   // number of reported `events`
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> stretches;  // PSN ranges of its requests
  bool late = false;                     // its packets no longer wait
  bool looked = false;
  bool rivals = false;  // other directions have nearby PSNs
  std::uint32_t matches = 0;
  Psn last_match;
  std::int64_t since = 0;
};

struct QueuePairs::Followed {
  Connection info;
  Requester requesters[2];
  bool knows[2] = {false, false};  // the direction of this endpoint has its table entry
  bool recent = true;
  bool lone = false;
  bool datagram = false;
  bool reported = false;  // CM events were reported, so its end must be reported even without packets
  std::uint32_t lone_at = 0;
  std::size_t bytes = 0;  // of its requesters, when last computed
  std::uint32_t good_crcs = 0, bad_crcs = 0;
  std::vector<Event> unexplained;  // bad CRCs, while none was good
  std::uint16_t port[2] = {0, 0}, previous_port[2] = {0, 0};
  std::uint8_t path_changes[2] = {0, 0};
  std::int64_t last_time = 0;  // of the last processed packet, without waiting ones
  std::uint64_t last_frame = 0;
  std::uint32_t qkey[2] = {0, 0};
  std::uint64_t evidence_frame = 0;
  std::unique_ptr<Event> odd_pkey, second_pkey;  // the first two packets, until their P_Keys are checked
  std::unique_ptr<Search> search;
  std::unique_ptr<NegotiatedParameters> agreement;  // only with TrackerOptions::transport
  std::unique_ptr<TransportPacket>
      jump[2];  // a request far from all earlier ones: a new connection's first request, or a stray

  [[nodiscard]] bool joined() const { return info.paired_by != JoinedBy::nothing; }
};

}  // namespace rdmawire::tracking
