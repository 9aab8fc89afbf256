#pragma once
/// Interface to the reference model of a family. The model generates steps, predicts a conforming device's outcome, and
/// determines the permitted differences. Sessions, corpus, minimizer and reports are independent of the family.

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
  bool sent = false;  ///< true: from the tester to the device
  std::size_t step = 0;
  std::int64_t time = 0;
  std::vector<std::uint8_t> frame;

  friend bool operator==(const Exchanged&, const Exchanged&) = default;
};

/// Reference device with new objects, on which one script is performed. The target performs each step after the model,
/// and may read the model's data.
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

  /// Return the edge of a step: a number that identifies the state, the step and the response.
  [[nodiscard]] virtual std::uint64_t edge(const Step& step, const Outcome& actual) const = 0;
  /// Compare a device's outcome of the last step with the model's. Returns the first alarm, or nothing. `memory` is
  /// empty if it was not read.
  [[nodiscard]] virtual std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                                   const Tolerance& tolerance) = 0;
  /// Append the frames that tester and device exchanged in the last step, in order.
  virtual void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) = 0;
};

/// Return a hash of two numbers.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return device::Random(a * 0x9e3779b97f4a7c15ULL + b).next();
}

}  // namespace rdmawire::fuzzer
