#pragma once
/// Devices by name, ready to be certified.

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
  std::string device = "reference";             ///< "reference", "lab:rxe", "lab:siw"; with `wire` "agent:ADDRESS"
  Family family = Family::infiniband;           ///< of the reference device: which of the two
  std::uint64_t seed = 1;                       ///< of the reference device
  std::vector<std::string> faults{};            ///< of the reference device, by name: device/, endpoint/fault_table.hpp
  std::string wire{};                           ///< "packet:eth0"
  std::string kernel = "debian";                ///< of the lab
  std::filesystem::path agent{};                ///< the agent's program, for the lab
  std::string secret_file{};                    ///< that the agent shares with us; empty: none
  std::vector<std::string> allowed{};           ///< addresses that may be sent to; the reference and the lab need none
  bool multicast = false;                       ///< frames to groups may be sent; likewise
  std::uint32_t frames_per_second = 10'000;     ///< at most, on a real wire; 0: as many as it takes
  std::optional<bool> congestion_management{};  ///< whether the device has it on; of rxe it is known to have none
  bool slow = false;                            ///< cases that take more than a minute of a real device's time are run
  bool dangerous = false;                       ///< cases that have left a device hanging are run
  int stop = -1;                                ///< becomes readable when work is to end
  std::function<void(std::string_view)> progress{};
};

struct TargetError {
  bool usage = false;   ///< the name makes no sense
  std::string message;  ///< what was being done, to what, what was found, what to do
};

/// That a device cannot be used any more.
struct DeviceLost {
  bool device = false;  ///< it is the device itself that ended, a kernel that panicked; else the way to it
  std::string why;      ///< one line
};

/// A device that can be reached, for as long as this lives.
class Target {
 public:
  static tl::expected<std::unique_ptr<Target>, TargetError> open(const TargetOptions& options);
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  virtual DeviceUnderTest& device() = 0;
  [[nodiscard]] virtual const DeviceUnderTest& device() const = 0;
  /// What it says of itself, one line.
  [[nodiscard]] virtual std::string details() const = 0;
  /// Under which name results are known of it: "rxe-6.1", "siw-6.1"; empty: none that this product knows.
  [[nodiscard]] virtual std::string known_as() const { return {}; }
  /// The wire's name.
  [[nodiscard]] std::string wire();
  /// Who is sent frames: MAC, IP addresses and queue pairs or TCP, one line.
  [[nodiscard]] std::string destinations();
  /// What the device itself complained of since this was asked last: a kernel's warnings.
  virtual std::vector<std::string> complaints() { return {}; }
  /// A reference device breaks the specification in exactly these ways from now on; of the other family's faults
  /// nothing comes. An error where a name is none, or the device is no reference device.
  virtual tl::expected<void, TargetError> set_faults(const std::vector<std::string>& names);
  /// The ways in which it does, by name.
  [[nodiscard]] virtual std::vector<std::string> faults() { return {}; }
  /// Nothing while it can be used.
  [[nodiscard]] virtual std::optional<DeviceLost> gone() const;
  /// Whatever is asked of the device or its wire fails from now on, what waits for it at once. From any thread.
  virtual void interrupt();

 protected:
  /// Puts what can be interrupted between the cases and the wire of device(), where it has one.
  void guard();

 private:
  std::unique_ptr<InterruptibleWire> guarded_;
};

/// Whether a device of that name is made anew so easily that each case gets its own.
bool is_cheap(const std::string& device);
/// Whether it is a real one, on a bench: what is sent to it needs to be allowed, and keeps to a rate.
bool is_on_bench(const std::string& device);

}  // namespace rdmawire::conformance
