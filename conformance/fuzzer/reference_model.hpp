#pragma once
/// What the families of devices have apart. A session, its corpus, its minimizing and its reports know steps, outcomes
/// and alarms alone; what a step says on the wire, what may come next, and what two devices of a family may do
/// differently, its shadow knows: a sound device of that family, and the tester beside it.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/fuzzer/oracle.hpp"
#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/rng.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// A frame between tester and device.
struct Exchanged {
  bool sent = false;  ///< to the device
  std::size_t step = 0;
  std::int64_t time = 0;
  std::vector<std::uint8_t> frame;

  friend bool operator==(const Exchanged&, const Exchanged&) = default;
};

/// One life: fresh objects, and the steps that were made on them. A target makes each step behind it, and may ask its
/// own shadows for more.
class ReferenceModel {
 public:
  ReferenceModel() = default;
  ReferenceModel(const ReferenceModel&) = delete;
  ReferenceModel& operator=(const ReferenceModel&) = delete;
  virtual ~ReferenceModel() = default;

  /// What comes next, by where the connection stands; some of it is wrong in one way.
  virtual Step next() = 0;
  /// What comes next for who knows nothing of states: what to compare with.
  virtual Step plain() = 0;

  /// Makes a step.
  virtual void perform(const Step& step) = 0;
  /// What came of the last one, here.
  [[nodiscard]] virtual const Outcome& outcome() const = 0;
  [[nodiscard]] virtual Bytes memory() = 0;
  [[nodiscard]] virtual std::int64_t now() const = 0;

  /// A number for where the connection stands, what the step said and what was answered to it.
  [[nodiscard]] virtual std::uint64_t edge(const Step& step, const Outcome& actual) const = 0;
  /// The first alarm of what came of the last step at a device, or nothing. `memory` is empty where it was not read.
  [[nodiscard]] virtual std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                                   const Tolerance& tolerance) = 0;
  /// The frames of the last step, in their order, appended.
  virtual void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) = 0;
};

/// One number of two.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return device::Random(a * 0x9e3779b97f4a7c15ULL + b).next();
}

}  // namespace rdmawire::fuzzer
