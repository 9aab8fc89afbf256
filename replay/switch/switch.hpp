#pragma once
/// An Ethernet switch in this process: it joins wires, does to frames what a fault program says, and can write down
/// what arrived and what left.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "captures/io/writer.hpp"
#include "replay/faults/engine.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct SwitchOptions {
  FaultProgram faults;
  FaultEngineOptions fault_options;
  /// Every frame as it arrived, at its time of arrival, on the interface of its port; comments say what was done to it.
  std::optional<captures::Writer> arrived;
  /// Every frame as it left, on the interface of the port that it left by, likewise. Not those that were dropped.
  std::optional<captures::Writer> left;
  /// Every frame on the interface of the port that it came by, with the same comments: as it left and when it did, each
  /// copy by itself; as it arrived when it was dropped.
  std::optional<captures::Writer> passed;
  std::size_t queue_frames = 4096;      ///< that wait to leave by a port; further ones are lost and counted
  std::size_t delayed_frames = 65'536;  ///< that wait for their time; likewise
  std::size_t addresses = 4096;         ///< learnt at most; then all are forgotten and learnt again
};

/// Of one port, since the start.
struct SwitchPortCounters {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t flooded = 0;     ///< of those received: to an address that is not known, or to many
  std::uint64_t queue_full = 0;  ///< lost on the way out, because the port's queue was full
  std::uint64_t down = 0;        ///< lost on the way out, because nobody was there
  std::string trouble;           ///< the last error of its wire; empty: none
};

struct SwitchCounters {
  std::vector<SwitchPortCounters> ports;
  std::uint64_t delayed_full = 0;  ///< lost because too many waited for their time
  std::string tap_trouble;         ///< why writing down ended; empty: it did not
};

/// Ports are called a, b, … in the fault language, in the order of the wires. A frame to an address that was learnt
/// leaves by that port, one to another or to many by all but its own. Frames that leave a port stay in order but for
/// the faults. All calls can be made from any thread.
class Switch {
 public:
  /// Starts a thread that forwards. At least two wires, at most 26, in real time; an error otherwise.
  static WireResult<std::unique_ptr<Switch>> start(std::vector<std::unique_ptr<Wire>> wires, SwitchOptions options);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Ends the thread, sends what is held, closes wires and captures. A second call does nothing.
  void stop();
  /// From now on these; what the old ones hold leaves now, and counts and coordinates begin anew.
  void set_faults(FaultProgram faults, const FaultEngineOptions& options = {});

  [[nodiscard]] SwitchCounters counters() const;
  [[nodiscard]] std::vector<FaultCount> fault_counts() const;
  [[nodiscard]] std::vector<FaultLogEntry> fault_log() const;
  [[nodiscard]] FaultProgram faults() const;
  [[nodiscard]] std::uint64_t seed() const;

 private:
  class Fabric;
  Switch();
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace rdmawire::replay
