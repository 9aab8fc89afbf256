#pragma once
/// A wire to a simulated host in virtual time. The owner can also process the host's events one by one, for example
/// while a verbs call waits. Frames from the host are then queued until they are received.

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
  static constexpr std::size_t most_frames = 65'536;  ///< limit of each queue
  static constexpr std::uint32_t max_bytes = 65'536;

  /// `station` must outlive the wire. `delay`: one-way delay in nanoseconds.
  explicit VirtualWire(replay::SimulatedHost& station, std::int64_t delay = 1000);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const replay::WireCapabilities& capabilities() const override { return capabilities_; }
  /// Return the one-way delay in nanoseconds.
  [[nodiscard]] std::int64_t delay() const { return delay_; }
  [[nodiscard]] std::int64_t now() const override;
  [[nodiscard]] replay::WireCounters counters() const override;
  using Wire::send;
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> frames) override;
  /// `deadline` may be `forever`. If the host only waits for frames from this side, the call then returns nothing, and
  /// the clock stays.
  replay::WireResult<std::optional<replay::Received>> receive(std::int64_t deadline) override;
  void close() override;

  /// Lock this mutex while using the host or step().
  std::mutex& mutex() { return mutex_; }
  /// Process the host's next event until the time `until`. If there is none, advances the clock to `until` and returns
  /// false.
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
