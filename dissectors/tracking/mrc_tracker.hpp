#pragma once
/// Tracks MRC: the WRITEs to each QP, their paths (entropy values), SACKs, NACKs, trimmed packets, probes and messages.

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/level.hpp"
#include "dissectors/tracking/mrc_flow.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/psn_window.hpp"

namespace rdmawire::tracking {

/// Tracks flows within a limit of memory. Reports and removes the least recently used flows when the limit is reached.
class MrcTracker {
 public:
  static constexpr std::size_t default_memory = std::size_t{64} << 20, most_paths = 1024, window = 4096;

  /// `sink` receives each flow once: when it is evicted, or in finish(). It may be nullptr. `memory` is the limit in
  /// bytes.
  explicit MrcTracker(Sink* sink = nullptr, std::size_t memory = default_memory) : sink_(sink), limit_(memory) {}
  MrcTracker(const MrcTracker&) = delete;
  MrcTracker& operator=(const MrcTracker&) = delete;

  /// Processes a packet of Dissector. Ignores packets without MRC.
  void add(const Packet& packet) {
    const HeaderStack& stack = packet.stack;
    note_.connection = 0;
    if (stack.transport < stack.layers().size() && stack.layers()[stack.transport].header == &info<MrcBth>)
      take(packet);
  }
  /// Returns the role of the last packet.
  [[nodiscard]] const MrcNote& note() const { return note_; }
  /// Reports and removes the flows that were not reported yet, in the order of their first packets.
  void finish();
  /// Returns the flows that were not reported yet, in the order of their first packets.
  [[nodiscard]] std::vector<MrcFlow> flows() const;
  /// Number of flows, and of pairs of ports without flows, that were removed because of a limit.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  /// Approximate memory of the flows in bytes. TrackerOptions::sink_bytes can refer to the result.
  [[nodiscard]] const std::size_t& memory() const { return used_; }
  [[nodiscard]] Level level() const { return {most_used_, limit_}; }

 private:
  struct Transmission {
    std::uint32_t psn = 0;
    std::uint32_t path = 0;
    bool known = false, trimmed = false, acknowledged = false, ends = false, counted = false;
  };
  struct State {
    MrcFlow flow;
    std::unordered_map<std::uint32_t, std::uint32_t> path_of;  // index of a path by label and port
    PsnWindow<Transmission, window> sent{};
    std::vector<Psn> open_messages{};                           // last PSNs of messages that are not acknowledged yet
    std::unordered_map<std::uint16_t, std::uint32_t> probes{};  // index of the path by probe identifier
    Psn highest, lowest;
    bool started = false;
    std::size_t bytes = 0;               // bytes of this flow that used_ includes
    std::size_t place = 0;               // index in Ports::flows
    std::list<FlowKey>::iterator use{};  // position in uses_
  };
  /// A direction from one port to another.
  struct Ports {
    std::vector<State*> flows;
    MrcEndpointOperations operations;
  };
  struct KeyHash {
    std::size_t operator()(const FlowKey& key) const { return key.hash(); }
  };

  void take(const Packet& packet);
  State* flow_of_writes(const Packet& packet, const FlowKey& ports, std::uint32_t qp);
  State* flow_of_feedback(const Packet& packet, const FlowKey& ports, std::uint32_t first_qp, std::uint32_t second_qp);
  void use(State& state);
  static MrcPath* path(State& state, std::uint32_t label, std::uint32_t port, std::uint32_t* index = nullptr);
  static MrcPath* path_of_entropy(State& state, std::uint64_t entropy);
  static bool acknowledge(State& state, Psn psn);
  static void acknowledge_up_to(State& state, Psn psn);
  State* write(const Packet& packet, const FlowKey& ports);
  State* sack(const Packet& packet, const FlowKey& ports);
  State* nack(const Packet& packet, const FlowKey& ports);
  State* probe(const Packet& packet, const FlowKey& ports);
  State* acknowledgement(const Packet& packet, const FlowKey& ports);
  void endpoint_request(const Packet& packet, const FlowKey& ports);
  void endpoint_response(const FlowKey& ports);
  Ports* ports_of_operations(const FlowKey& ports);
  void count_memory(State& state);
  void remove(const FlowKey& key, CloseReason reason);
  [[nodiscard]] MrcFlow reported(const State& state) const;

  void note_path(const MrcPath* path);

  Sink* sink_;
  MrcNote note_;
  const std::size_t limit_;
  std::size_t used_ = 0, most_used_ = 0;
  std::uint64_t evicted_ = 0;
  std::unordered_map<FlowKey, State, KeyHash>
      states_;                                         // the number in the key is the low 16 bits of the destination QP
  std::unordered_map<FlowKey, Ports, KeyHash> ports_;  // the number in the key is 0
  std::size_t idle_ports_ = 0;                         // number of entries of ports_ without flows
  std::list<FlowKey> uses_;                            // the most recently used flow is the first
};

}  // namespace rdmawire::tracking
