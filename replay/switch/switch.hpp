#pragma once
/// An Ethernet switch in this process. It connects wires, injects faults according to a fault program, and can record
/// received and sent frames.

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
  /// Records each received frame at its arrival time, on the interface of its input port. Comments describe its faults.
  std::optional<captures::Writer> arrived;
  /// Records each sent frame on the interface of its output port, with the same comments. Dropped frames are omitted.
  std::optional<captures::Writer> left;
  /// Records each frame on the interface of its input port, with the same comments: each sent copy as sent, with its
  /// transmission time, and each dropped frame as received.
  std::optional<captures::Writer> passed;
  std::size_t queue_frames = 4096;  ///< limit of each port's queue. Further frames are dropped and counted
  std::size_t delayed_frames =
      65'536;                    ///< limit of frames that wait for their time. Further frames are dropped and counted
  std::size_t addresses = 4096;  ///< limit of learned addresses. If it is exceeded, all are forgotten
};

/// Counters of one port since the start.
struct SwitchPortCounters {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t flooded = 0;     ///< received frames to an unknown or group address
  std::uint64_t queue_full = 0;  ///< dropped because the output queue was full
  std::uint64_t down = 0;        ///< dropped because the peer of the port was down
  std::string trouble;           ///< last error of the wire. Empty: none
};

struct SwitchCounters {
  std::vector<SwitchPortCounters> ports;
  std::uint64_t delayed_full = 0;  ///< dropped because too many frames waited for their time
  std::string tap_trouble;         ///< why recording stopped. Empty: it did not
};

/// Ports are named a, b, … in the fault language, in the order of the wires. A frame to a learned address is sent to
/// its port only. Other frames are sent to all ports except their own. Frames sent by a port stay in order, except for
/// faults. All functions are thread-safe.
class Switch {
 public:
  /// Starts the forwarding thread. Requires 2 to 26 real-time wires.
  static WireResult<std::unique_ptr<Switch>> start(std::vector<std::unique_ptr<Wire>> wires, SwitchOptions options);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Stops the thread, sends all held frames, and closes wires and captures. A second call has no effect.
  void stop();
  /// Replaces the fault program. Frames held by the old one are sent immediately. Counters and coordinates restart.
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
