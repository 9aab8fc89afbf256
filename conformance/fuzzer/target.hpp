#pragma once
/// What is fuzzed.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/oracle.hpp"
#include "conformance/fuzzer/walk.hpp"
#include "conformance/fuzzer/world.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::fuzzer {

/// A step as it was made at the sound reference device.
struct Made {
  const Step& step;
  const Bases& bases;
  std::span<const std::vector<std::uint8_t>> frames;
  const KnownObjects& objects;
  const Outcome& outcome;
  Bytes memory;  ///< of that device, afterwards
};

class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// The world's objects, fresh. An error: why there are none.
  virtual std::optional<std::string> start(std::uint64_t seed) = 0;
  virtual void perform(const Made& made, Outcome& outcome) = 0;
  /// As World::memory(); empty: it was not read.
  virtual Bytes memory() = 0;
  [[nodiscard]] virtual Tolerance tolerance() const { return {}; }
  /// Which steps it can make.
  [[nodiscard]] virtual WalkOptions walk() const { return {}; }
  /// Why it cannot be used any more; nothing while it can.
  virtual std::optional<std::string> gone() { return std::nullopt; }
  /// What its kernel said since this was asked last.
  virtual std::vector<std::string> complaints() { return {}; }
  /// Brings one that is gone back, or starts a fresh one. An error: why not.
  virtual std::optional<std::string> revive() { return std::nullopt; }
  /// How many runs minimising may take.
  [[nodiscard]] virtual std::size_t affordable_runs() const { return 4000; }
  /// How many seconds.
  [[nodiscard]] virtual double affordable_seconds() const { return 60; }
  /// Steps of one life, before everything is made anew.
  [[nodiscard]] virtual std::size_t life() const { return 64; }
};

/// A device that can be reached, with what is needed to reach it again when it is gone.
using Reopen = std::function<tl::expected<std::unique_ptr<conformance::Target>, conformance::TargetError>()>;
/// A device behind an agent, RoCE's, by its verbs and a wire.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> remote_target(Reopen reopen, std::string name);

/// The reference device, in this process, with these faults.
std::unique_ptr<Target> reference_target(const device::Faults& faults, std::string name = "reference");

}  // namespace rdmawire::fuzzer
