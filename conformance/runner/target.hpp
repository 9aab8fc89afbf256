#pragma once
/// Opens devices by name for certification.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/cases/device_under_test.hpp"
#include "conformance/runner/interruptible_wire.hpp"

namespace rdmawire::conformance {

struct TargetOptions {
  std::string device = "reference";             ///< "reference", "lab:rxe", "lab:siw". With `wire` "agent:ADDRESS"
  Family family = Family::infiniband;           ///< family of the reference device
  std::uint64_t seed = 1;                       ///< seed of the reference device
  std::vector<std::string> faults{};            ///< faults of the reference device, see the fault_table.hpp files
  std::string wire{};                           ///< "packet:eth0"
  std::string kernel = "debian";                ///< kernel of the lab: "debian", "newest", or the path of one
  std::string modules{};                        ///< with a path: its modules (lib/modules/RELEASE)
  std::filesystem::path agent{};                ///< agent program for the lab
  std::string credentials{};                    ///< file with the key of the agent, see credentials.hpp. Empty: none
  std::vector<std::string> allowed{};           ///< permitted destination addresses, for devices on a bench
  bool multicast = false;                       ///< permit multicast frames to a device on a bench
  std::uint32_t frames_per_second = 10'000;     ///< maximum rate on a real wire. 0: unlimited
  std::optional<bool> congestion_management{};  ///< whether the device has it enabled. rxe does not support it
  bool slow = false;                            ///< run cases that take more than a minute of a real device's time
  bool dangerous = false;                       ///< run cases of RunPolicy::dangerous
  int stop = -1;                                ///< file descriptor. When readable, work stops
  std::function<void(std::string_view)> progress{};
};

struct TargetError {
  bool usage = false;   ///< the name or an option is invalid
  std::string message;  ///< action, object, result, and corrective action
};

/// The cause of a device loss.
struct DeviceLost {
  bool device = false;  ///< the device itself crashed, e.g. a kernel panic. Otherwise the path to it failed
  std::string why;      ///< one line
};

/// An open device. It stays reachable for the lifetime of this object.
class Target {
 public:
  static tl::expected<std::unique_ptr<Target>, TargetError> open(const TargetOptions& options);
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  virtual DeviceUnderTest& device() = 0;
  [[nodiscard]] virtual const DeviceUnderTest& device() const = 0;
  /// The device's description of itself, one line.
  [[nodiscard]] virtual std::string details() const = 0;
  /// The name for built-in known results: "rxe-6.1", "siw-6.1". Empty: none.
  [[nodiscard]] virtual std::string known_as() const { return {}; }
  /// The wire's name.
  [[nodiscard]] std::string wire();
  /// The destinations of frames: MAC, IP addresses, and QPs or TCP, one line.
  [[nodiscard]] std::string destinations();
  /// The device's kernel messages since the last call.
  virtual std::vector<std::string> complaints() { return {}; }
  /// Replaces the faults of a reference device. Ignores faults of the other family. Fails for an unknown name and for
  /// other devices.
  virtual tl::expected<void, TargetError> set_faults(const std::vector<std::string>& names);
  /// The names of the active faults.
  [[nodiscard]] virtual std::vector<std::string> faults() { return {}; }
  /// The cause of the device loss, or nullopt while the device is usable.
  [[nodiscard]] virtual std::optional<DeviceLost> gone() const;
  /// Makes all later and current operations on the device and its wire fail. Callable from any thread.
  virtual void interrupt();

 protected:
  /// Inserts interruptible layers between the cases and the wire of device(), if it has one.
  void guard();

 private:
  std::unique_ptr<InterruptibleWire> guarded_;
};

/// Returns whether a device of this name is in-process, so that each case gets its own.
bool is_cheap(const std::string& device);
/// Returns whether a device of this name is physical, which requires permitted addresses and a rate limit.
bool is_on_bench(const std::string& device);

}  // namespace rdmawire::conformance
