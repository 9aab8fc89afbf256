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

/// Bounded: beyond the limit of memory, the least recently used flows are reported and removed.
class MrcTracker {
 public:
  static constexpr std::size_t default_memory = std::size_t{64} << 20, most_paths = 1024, window = 4096;

  /// `sink`: receives each flow once, when it is evicted, or by finish() (nullptr: none). `memory`: limit in bytes.
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
  /// The role of the last packet.
  [[nodiscard]] const MrcNote& note() const { return note_; }
  /// Reports the flows that are not yet reported, in the order of their first packets, and removes them.
  void finish();
  /// The open flows in the order of their first packets.
  [[nodiscard]] std::vector<MrcFlow> flows() const;
  /// Number of flows, and of pairs of ports without flows, that were removed because of a limit.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  /// Memory of the open flows in bytes, approximately. The reference is for TrackerOptions::sink_bytes.
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
    std::unordered_map<std::uint32_t, std::uint32_t> path_of;  // by label and port
    PsnWindow<Transmission, window> sent{};
    std::vector<Psn> open_messages{};                           // last PSNs, not yet acknowledged
    std::unordered_map<std::uint16_t, std::uint32_t> probes{};  // path by identifier
    Psn highest, lowest;
    bool started = false;
    std::size_t bytes = 0;               // as counted in used_
    std::size_t place = 0;               // in Ports::flows
    std::list<FlowKey>::iterator use{};  // in uses_
  };
  /// The direction from one port to another.
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
  std::unordered_map<FlowKey, State, KeyHash> states_;  // number: low 16 bits of the destination QP
  std::unordered_map<FlowKey, Ports, KeyHash> ports_;   // number: 0
  std::size_t idle_ports_ = 0;                          // entries of ports_ without flows
  std::list<FlowKey> uses_;                             // most recently used first
};

}  // namespace rdmawire::tracking
