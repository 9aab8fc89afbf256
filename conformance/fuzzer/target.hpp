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
  std::uint64_t trials = 4000;  ///< executed scripts
  double seconds = 60;          ///< if no trial ends the device
  std::uint64_t restarts = 12;  ///< restarts of a device that a trial ended
  double restart_seconds = 60;  ///< replaces `seconds` after a restart
};

class Target;

/// A conforming device of a family with one injected fault.
struct FaultyReference {
  std::string_view name{};                            ///< name of the fault
  std::span<const std::string_view> rules{};          ///< ids of the violated rules
  std::function<std::unique_ptr<Target>()> device{};  ///< the device, compared with the target's tolerance
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
  /// Return a reference model for the script that starts with start(). It generates only steps that the target
  /// supports.
  [[nodiscard]] virtual std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const = 0;
  /// Perform a step that a reference model created by create_model() has performed.
  virtual void perform(const Step& step, ReferenceModel& model, Outcome& outcome) = 0;
  /// Add executed code edges, from the next start() on, to `map`, which must outlive the use. nullptr: disable.
  /// Returns false if the target reports no coverage.
  virtual bool trace(EdgeMap* /*map*/) { return false; }
  /// Return a number that identifies the code that trace() observes.
  [[nodiscard]] virtual std::uint64_t code() const { return 0; }
  /// Finish a script: destroy queue pairs and connections, which can crash a device, too.
  virtual void finish() {}
  /// See ReferenceModel::memory(). Empty if it was not read.
  virtual Bytes memory() = 0;
  [[nodiscard]] virtual Tolerance tolerance() const { return {}; }
  /// Return all faulty variants of the conforming device, for comparison with a finding.
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

/// Opens a device, also after it was lost.
using Reopen = std::function<tl::expected<std::unique_ptr<conformance::Target>, conformance::TargetError>()>;
/// Return a device behind an agent: RoCE by verbs and a wire, iWARP by verbs, CM and TCP.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> remote_target(Reopen reopen, std::string name);

/// Implements Target::broken() for RoCE.
std::vector<FaultyReference> broken_reference(const Tolerance& tolerance);
/// Return an in-process reference device with these faults. `tolerance`: compare it like another device.
std::unique_ptr<Target> reference_target(const device::Faults& faults, std::string name = "reference",
                                         const Tolerance& tolerance = {});

}  // namespace rdmawire::fuzzer
