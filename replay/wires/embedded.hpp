#pragma once
/// A wire to a station in this process, in virtual time: nobody waits, and every run is the same.

#include <deque>
#include <map>
#include <string>

#include "replay/wires/simulated_host.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct EmbeddedWireOptions {
  std::string name = "embedded";
  std::int64_t delay = 0;            ///< nanoseconds on the way, in each direction
  std::uint32_t max_bytes = 65'536;  ///< of a frame; a station's longer ones are lost
  std::size_t frames = 65'536;       ///< that wait in each direction at most
  /// How often the station may be woken without that time goes on: more is an error of the station.
  std::size_t wakes_at_once = 100'000;
};

/// receive(deadline) lets the clock jump to the next thing that happens, and to `deadline` when nothing does; with
/// `forever` and a station that waits for us alone, it gives nothing and leaves the clock.
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
  std::deque<SimulatedHostOutput::Frame> to_station_;                    ///< by time: they leave in their order
  std::multimap<std::int64_t, std::vector<std::uint8_t>> from_station_;  ///< by time of arrival
  std::vector<std::uint8_t> current_;
  bool closed_ = false;
};

}  // namespace rdmawire::replay
