#pragma once
/// What is fuzzed.

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

/// What cutting one finding down may cost, at most.
struct MinimizeLimits {
  std::uint64_t trials = 4000;  ///< scripts that are run
  double seconds = 60;          ///< where no trial ends the device
  std::uint64_t restarts = 12;  ///< of a device that a trial ended
  double restart_seconds = 60;  ///< instead of `seconds`, where a trial did
};

class Target;

/// A sound device of a target's family, broken in one known way.
struct FaultyReference {
  std::string_view name{};                            ///< of the seeded fault
  std::span<const std::string_view> rules{};          ///< ids of those that it breaks
  std::function<std::unique_ptr<Target>()> device{};  ///< that is compared as the target is
};

class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// Whose scripts it takes.
  [[nodiscard]] virtual Family family() const { return Family::roce; }
  /// The world's objects, fresh. An error: why there are none.
  virtual std::optional<std::string> start(std::uint64_t seed) = 0;
  /// The sound device of its family, for the life that begins with start(); it walks as this target can follow.
  [[nodiscard]] virtual std::unique_ptr<ReferenceModel> shadow(std::uint64_t seed, Rng& chance) const = 0;
  /// Makes a step that a shadow of its own has made.
  virtual void perform(const Step& step, ReferenceModel& shadow, Outcome& outcome) = 0;
  /// From the next start() on: the edges of the device's code that its steps run through are added to `map`, which must
  /// outlive that; nullptr: to none. False: it does not tell them.
  virtual bool trace(EdgeMap* /*map*/) { return false; }
  /// A number of the code that those are of: with another number they are others.
  [[nodiscard]] virtual std::uint64_t code() const { return 0; }
  /// A life ends well: lets go of its queue pairs and connections, which a device can die of, too.
  virtual void finish() {}
  /// As Shadow::memory(); empty: it was not read.
  virtual Bytes memory() = 0;
  [[nodiscard]] virtual Tolerance tolerance() const { return {}; }
  /// Every way in which a sound device of its family can be broken: what a finding is compared with.
  [[nodiscard]] virtual std::vector<FaultyReference> broken() const { return {}; }
  /// Why it cannot be used any more; nothing while it can.
  virtual std::optional<std::string> gone() { return std::nullopt; }
  /// What its kernel said since this was asked last.
  virtual std::vector<std::string> complaints() { return {}; }
  /// Brings one that is gone back, or starts a fresh one. An error: why not.
  virtual std::optional<std::string> revive() { return std::nullopt; }
  [[nodiscard]] virtual MinimizeLimits allowance() const { return {}; }
  /// Steps of one life, before everything is made anew.
  [[nodiscard]] virtual std::size_t life() const { return 64; }
  /// Whether it did what a device may do and the sound one did otherwise: what follows in this life is not comparable.
  [[nodiscard]] virtual bool adrift() const { return false; }
};

/// A device that can be reached, with what is needed to reach it again when it is gone.
using Reopen = std::function<tl::expected<std::unique_ptr<conformance::Target>, conformance::TargetError>()>;
/// A device behind an agent: of RoCE by its verbs and a wire, of iWARP by its verbs, its CM and TCP.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> remote_target(Reopen reopen, std::string name);

/// Target::broken() of RoCE's.
std::vector<FaultyReference> broken_reference(const Tolerance& tolerance);
/// The reference device, in this process, with these faults; compared as another device is, if that is said.
std::unique_ptr<Target> reference_target(const device::Faults& faults, std::string name = "reference",
                                         const Tolerance& tolerance = {});

}  // namespace rdmawire::fuzzer
