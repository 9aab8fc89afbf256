#pragma once
/// Devices by name, ready to be certified.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/cases/device_under_test.hpp"

namespace rdmawire::conformance {

struct TargetOptions {
  std::string device = "reference";             ///< "reference", "lab:rxe"; of agents: "agent:ADDRESS" with `wire`
  std::uint64_t seed = 1;                       ///< of the reference device
  std::vector<std::string> faults{};            ///< of the reference device, by name: device/fault_table.hpp
  std::string wire{};                           ///< "packet:eth0"
  std::string kernel = "debian";                ///< of the lab
  std::filesystem::path agent{};                ///< the agent's program, for the lab
  std::optional<bool> congestion_management{};  ///< whether the device has it on; of rxe it is known to have none
  int stop = -1;                                ///< becomes readable when work is to end
  std::function<void(std::string_view)> progress{};
};

struct TargetError {
  bool usage = false;   ///< the name makes no sense
  std::string message;  ///< what was being done, to what, what was found, what to do
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
  /// What it says of itself, one line.
  [[nodiscard]] virtual std::string details() const = 0;
  /// What the device itself complained of since this was asked last: a kernel's warnings.
  virtual std::vector<std::string> complaints() { return {}; }
};

}  // namespace rdmawire::conformance
