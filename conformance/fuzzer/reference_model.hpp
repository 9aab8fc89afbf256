#pragma once
/// Interface to a family-specific reference model. Sessions, corpus, minimizer and reports are family-independent: they
/// use steps, outcomes and alarms. The model generates steps, predicts a conforming device's outcome, and knows the
/// permitted differences.

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
  bool sent = false;  ///< sent to the device
  std::size_t step = 0;
  std::int64_t time = 0;
  std::vector<std::uint8_t> frame;

  friend bool operator==(const Exchanged&, const Exchanged&) = default;
};

/// One script: new objects, and the steps performed on them. The target performs each step after the model, and may
/// use data of the model.
class ReferenceModel {
 public:
  ReferenceModel() = default;
  ReferenceModel(const ReferenceModel&) = delete;
  ReferenceModel& operator=(const ReferenceModel&) = delete;
  virtual ~ReferenceModel() = default;

  /// Return the next step for the current connection state, possibly with one mutation.
  virtual Step next() = 0;
  /// Return a step that ignores the state, for comparison.
  virtual Step plain() = 0;

  /// Perform a step.
  virtual void perform(const Step& step) = 0;
  /// Outcome of the last step in the model.
  [[nodiscard]] virtual const Outcome& outcome() const = 0;
  [[nodiscard]] virtual Bytes memory() = 0;
  [[nodiscard]] virtual std::int64_t now() const = 0;

  /// Return a number that identifies state, step and response.
  [[nodiscard]] virtual std::uint64_t edge(const Step& step, const Outcome& actual) const = 0;
  /// Return the first alarm for the last step at a device, or nothing. `memory` is empty if it was not read.
  [[nodiscard]] virtual std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                                   const Tolerance& tolerance) = 0;
  /// Append the frames of the last step in order.
  virtual void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) = 0;
};

/// Hash two numbers.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return device::Random(a * 0x9e3779b97f4a7c15ULL + b).next();
}

}  // namespace rdmawire::fuzzer
