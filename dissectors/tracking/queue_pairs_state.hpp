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
/// Maximum number of directions that are considered because their requests have the PSN of a response.
inline constexpr std::size_t considered = 2048;
/// Size of PSN ranges (as a power of two). Directions with requests in the same range are distinguished by more than
/// one response.
inline constexpr unsigned stretch_bits = 8;
/// Maximum number of explained bad CRCs per connection.
inline constexpr std::uint32_t explained = 4096;

inline constexpr std::uint32_t congestion_experienced = 3;

inline bool has_answers(Service service) { return service == Service::rc || service == Service::xrc; }

/// A direction whose requests match these responses.
struct QueuePairs::Candidate {
  Index at = none;
  // Number of responses that do not match the candidate, or match another candidate much better.
  std::uint32_t against = 0;
  std::int64_t delay = 0;  // delay of the current response (negative: no match)
};

struct QueuePairs::Search {
  std::vector<TransportPacket> held;
  std::vector<Event> events;  // events of the waiting packets, whose connection is unknown
  std::size_t reported = 0;   // number of reported `events`
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> stretches;  // PSN ranges of the direction's requests
  bool late = false;                     // the direction's packets no longer wait
  bool looked = false;
  bool rivals = false;  // other directions have nearby PSNs
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
  bool datagram = false;
  bool reported = false;  // CM events were reported, so its end must be reported even without packets
  std::uint32_t lone_at = 0;
  std::size_t bytes = 0;  // memory of the requesters, when last computed
  std::uint32_t good_crcs = 0, bad_crcs = 0;
  std::vector<Event> unexplained;  // events of bad CRCs, as long as no CRC was good
  std::uint16_t port[2] = {0, 0}, previous_port[2] = {0, 0};
  std::uint8_t path_changes[2] = {0, 0};
  std::int64_t last_time = 0;  // time of the last processed packet, without waiting packets
  std::uint64_t last_frame = 0;
  std::uint32_t qkey[2] = {0, 0};
  std::uint64_t evidence_frame = 0;
  std::unique_ptr<Event> odd_pkey, second_pkey;  // events for the first two packets, until the right P_Key is known
  std::unique_ptr<Search> search;
  std::unique_ptr<NegotiatedParameters> agreement;  // only with TrackerOptions::transport
  std::unique_ptr<TransportPacket>
      jump[2];  // a request far from all earlier ones: a new connection's first request, or a stray

  [[nodiscard]] bool joined() const { return info.paired_by != JoinedBy::nothing; }
};

}  // namespace rdmawire::tracking
