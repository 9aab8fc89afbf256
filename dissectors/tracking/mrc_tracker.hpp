#pragma once
/// Tracks MRC: the WRITEs to each QP, their paths (entropy values), SACKs, NACKs, trimmed packets, probes and messages.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/psn_window.hpp"

namespace rdmawire::tracking {

/// State of a path, as the packets show it. The requester can also deny a path, which packets do not show.
enum class MrcPathState : std::uint8_t {
  good,
  congested,  ///< the latest signal is a trimmed packet, or a SACK with M 1
  failed,     ///< the latest signal is a SACK with M 2, or a packet that was retransmitted without any response
};
std::string_view to_string(MrcPathState state);

/// The packets of a QP with one entropy value.
struct MrcPath {
  std::uint16_t label = 0, port = 0;  ///< low 16 bits of the IPv6 flow label, UDP source port
  std::uint64_t packets = 0, retransmissions = 0, probes = 0, probe_responses = 0;
  std::uint64_t marked = 0, trimmed = 0;                             ///< captured with ECN CE, captured without payload
  std::uint64_t congested_sacks = 0, bad_sacks = 0, rejections = 0;  ///< SACKs with M 1 and M 2, NACKs
  std::uint64_t silent =
      0;  ///< packets that were captured completely, but not acknowledged before their retransmission
  MrcPathState state = MrcPathState::good;
  std::uint64_t state_frame = 0;  ///< frame that caused the state. 0: none
};

/// The WRITEs to one QP and their responses.
struct MrcFlow {
  PortAddress from, to;
  std::uint32_t dest_qp = 0;
  std::uint64_t first_frame = 0, last_frame = 0;
  std::int64_t first_time = 0, last_time = 0;
  std::uint64_t packets = 0, payload_bytes = 0, retransmissions = 0, trimmed = 0, marked = 0;
  std::uint64_t missing = 0;  ///< PSNs of which only a retransmission, or no packet, was captured
  std::uint64_t sacks = 0, acknowledgements = 0, unmatched_entropy = 0;  ///< unmatched: its packet is missing
  std::array<std::uint64_t, 256> nacks{};                                ///< by reason
  std::uint64_t probes = 0, probe_responses = 0;
  std::uint64_t messages = 0, completed_messages = 0;  ///< messages whose last packet was captured
  std::uint32_t reordering = 0;                        ///< maximum distance of a late first transmission, in PSNs
  std::uint64_t late = 0;                              ///< first transmissions after a later PSN
  bool paths_limited = false;                          ///< more paths than MrcTracker::most_paths
  std::vector<MrcPath> paths;                          ///< in the order of their first packets
};

/// Sentences about the flow for troubleshooting, the most important first. Empty if there is nothing to report.
std::vector<std::string> findings_of(const MrcFlow& flow);

/// Bounded: at most `flows` QPs with `most_paths` paths each. Further QPs are counted in evicted().
class MrcTracker {
 public:
  static constexpr std::size_t default_flows = 4096, most_paths = 1024, window = 4096;

  explicit MrcTracker(std::size_t flows = default_flows) : most_flows_(flows) {}

  /// Processes a packet of Dissector. Ignores packets without MRC.
  void add(const Packet& packet);
  /// The flows in the order of their first packets.
  [[nodiscard]] std::vector<MrcFlow> flows() const;
  /// Number of packets that belong to no tracked QP because of the limit.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

 private:
  struct Transmission {
    std::uint32_t psn = 0;
    std::uint32_t path = 0;
    bool known = false, trimmed = false, acknowledged = false, ends = false, counted = false;
  };
  struct State {
    MrcFlow flow;
    std::unordered_map<std::uint32_t, std::uint32_t> path_of;  // by label and port
    PsnWindow<Transmission, window> sent{};
    std::vector<std::uint32_t> open_messages{};                 // last PSNs, not yet acknowledged
    std::unordered_map<std::uint16_t, std::uint32_t> probes{};  // path by identifier
    std::uint32_t highest = 0, lowest = 0;
    bool started = false;
  };

  State* flow_of_writes(const Packet& packet, const FlowKey& ports, std::uint32_t qp);
  State* flow_of_feedback(const FlowKey& ports, std::uint32_t first_qp, std::uint32_t second_qp);
  static MrcPath* path(State& state, std::uint32_t label, std::uint32_t port, std::uint32_t* index = nullptr);
  static MrcPath* path_of_entropy(State& state, std::uint64_t entropy);
  static void acknowledge(State& state, std::uint32_t psn);
  static void acknowledge_up_to(State& state, std::uint32_t psn);
  void write(const Packet& packet, const FlowKey& ports);
  void sack(const Packet& packet, const FlowKey& ports);
  void nack(const Packet& packet, const FlowKey& ports);
  void probe(const Packet& packet, const FlowKey& ports);
  void acknowledgement(const Packet& packet, const FlowKey& ports);

  struct KeyHash {
    std::size_t operator()(const FlowKey& key) const { return key.hash(); }
  };
  const std::size_t most_flows_;
  std::uint64_t evicted_ = 0;
  std::unordered_map<FlowKey, State, KeyHash> states_;  // number: low 16 bits of the destination QP
};

}  // namespace rdmawire::tracking
