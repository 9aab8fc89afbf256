#pragma once
/// A wire to a station in virtual time whose events can also be stepped through from the station's other side: while a
/// verbs call waits, frames go on flying, and those that arrive here are kept.

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "replay/wires/simulated_host.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::device {

class VirtualWire final : public replay::Wire {
 public:
  static constexpr std::size_t most_frames = 65'536;  ///< that wait in each direction
  static constexpr std::uint32_t max_bytes = 65'536;

  /// `station` must outlive the wire. `delay`: nanoseconds on the way, in each direction.
  explicit VirtualWire(replay::SimulatedHost& station, std::int64_t delay = 1000);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const replay::WireCapabilities& capabilities() const override { return capabilities_; }
  /// Nanoseconds on the way.
  [[nodiscard]] std::int64_t delay() const { return delay_; }
  [[nodiscard]] std::int64_t now() const override;
  [[nodiscard]] replay::WireCounters counters() const override;
  using Wire::send;
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> frames) override;
  /// With `forever` and a station that waits for us alone, it gives nothing and leaves the clock.
  replay::WireResult<std::optional<replay::Received>> receive(std::int64_t deadline) override;
  void close() override;

  /// Held by who uses the station itself, and step().
  std::mutex& mutex() { return mutex_; }
  /// The next thing that happens to the station until a time; false: nothing, and the clock stands there.
  bool step(std::int64_t until);

 private:
  struct InFlightFrame {
    std::int64_t time;
    std::vector<std::uint8_t> bytes;
  };
  [[nodiscard]] std::int64_t next_there() const;
  void happen(std::int64_t time);

  replay::SimulatedHost& station_;
  std::int64_t delay_;
  std::string name_ = "reference";
  replay::WireCapabilities capabilities_;
  mutable std::mutex mutex_;
  replay::WireCounters counters_;
  std::int64_t now_ = 0, last_sent_ = -1;
  std::deque<InFlightFrame> to_station_;  ///< by time
  std::multimap<std::int64_t, std::vector<std::uint8_t>> here_;
  std::vector<std::uint8_t> current_;
  bool closed_ = false;
};

}  // namespace rdmawire::device
