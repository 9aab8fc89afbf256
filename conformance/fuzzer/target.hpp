#pragma once
/// Targets of the fuzzer.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/device/roce/faults.hpp"
#include "conformance/fuzzer/edge_map.hpp"
#include "conformance/fuzzer/reference_model.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::fuzzer {

/// Limits for the minimization of one finding.
struct MinimizeLimits {
  std::uint64_t trials = 4000;  ///< scripts to execute
  double seconds = 60;          ///< time, until a restart
  std::uint64_t restarts = 12;  ///< restarts of the device after a trial that ended it
  double restart_seconds = 60;  ///< time, after a restart
};

class Target;

/// A conforming device of a family with one injected fault.
struct FaultyReference {
  std::string_view name{};                            ///< name of the fault
  std::span<const std::string_view> rules{};          ///< ids of the violated rules
  std::function<std::unique_ptr<Target>()> device{};  ///< creates the device, with the tolerance of the target
};

class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// Family of supported scripts.
  [[nodiscard]] virtual Family family() const { return Family::roce; }
  /// Create new objects. Returns the error, if any.
  virtual std::optional<std::string> start(std::uint64_t seed) = 0;
  /// Return the reference model for a new script. It generates only steps that the target supports.
  [[nodiscard]] virtual std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const = 0;
  /// Perform a step at the device. `model`, from create_model(), has already performed it.
  virtual void perform(const Step& step, ReferenceModel& model, Outcome& outcome) = 0;
  /// Add the executed code edges of the following scripts to `map`, which must outlive them. nullptr: stop this.
  /// Returns false if the target reports no coverage.
  virtual bool trace(EdgeMap* /*map*/) { return false; }
  /// Return a number that identifies the code that trace() observes.
  [[nodiscard]] virtual std::uint64_t code() const { return 0; }
  /// Finish a script: destroy queue pairs and connections. This can also crash a device.
  virtual void finish() {}
  /// Return the device's memory. Empty: it was not read.
  virtual Bytes memory() = 0;
  [[nodiscard]] virtual Tolerance tolerance() const { return {}; }
  /// Return the reference devices with one fault each, for comparison with a finding.
  [[nodiscard]] virtual std::vector<FaultyReference> broken() const { return {}; }
  /// Return why the device can no longer be used, or nothing.
  virtual std::optional<std::string> gone() { return std::nullopt; }
  /// Return the kernel messages since the last call.
  virtual std::vector<std::string> complaints() { return {}; }
  /// Restart or replace a lost device. Returns the error, if any.
  virtual std::optional<std::string> revive() { return std::nullopt; }
  [[nodiscard]] virtual MinimizeLimits allowance() const { return {}; }
  /// Steps per script.
  [[nodiscard]] virtual std::size_t steps_per_execution() const { return 64; }
  /// True if the device made a permitted choice that differs from the model, so that later steps cannot be compared.
  [[nodiscard]] virtual bool diverged() const { return false; }
};

/// Opens the device, or reopens it after it was lost.
using Reopen = std::function<tl::expected<std::unique_ptr<conformance::Target>, conformance::TargetError>()>;
/// Return a device behind an agent. RoCE steps use verbs and a wire, iWARP steps use verbs, the CM and TCP.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> remote_target(Reopen reopen, std::string name);

/// Implements Target::broken() for RoCE.
std::vector<FaultyReference> broken_reference(const Tolerance& tolerance);
/// Return an in-process reference device with these faults. `tolerance`: permitted differences from the reference
/// (default: none).
std::unique_ptr<Target> reference_target(const device::Faults& faults, std::string name = "reference",
                                         const Tolerance& tolerance = {});

}  // namespace rdmawire::fuzzer
