#pragma once
/// A wire to a simulated host in this process, in virtual time: calls never block, and runs are reproducible.

#include <deque>
#include <map>
#include <string>

#include "replay/wires/simulated_host.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct EmbeddedWireOptions {
  std::string name = "embedded";
  std::int64_t delay = 0;            ///< one-way delay in nanoseconds
  std::uint32_t max_bytes = 65'536;  ///< maximum frame length. Longer frames of the simulated host are dropped
  std::size_t frames = 65'536;       ///< queue limit of each direction
  /// How often the simulated host may be woken at the same time before it is an error.
  std::size_t wakes_at_once = 100'000;
};

/// receive(deadline) advances the clock to the next event, or to `deadline` if there is none. With `forever`, it
/// returns nullopt without advancing the clock if the simulated host only waits for this side.
class EmbeddedWire final : public Wire {
 public:
  /// `station` must outlive the wire.
  explicit EmbeddedWire(SimulatedHost& station, EmbeddedWireOptions options = {});

  [[nodiscard]] const std::string& name() const override { return options_.name; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::int64_t now() const override { return now_; }
  [[nodiscard]] WireCounters counters() const override { return counters_; }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override;
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  void close() override { closed_ = true; }

 private:
  void take(SimulatedHostOutput& output);

  SimulatedHost& station_;
  EmbeddedWireOptions options_;
  WireCapabilities capabilities_;
  WireCounters counters_;
  std::int64_t now_ = 0;
  std::int64_t last_sent_ = 0;
  std::deque<SimulatedHostOutput::Frame> to_station_;                    ///< by time, in transmission order
  std::multimap<std::int64_t, std::vector<std::uint8_t>> from_station_;  ///< by arrival time
  std::vector<std::uint8_t> current_;
  bool closed_ = false;
};

}  // namespace rdmawire::replay
