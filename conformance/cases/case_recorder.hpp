#pragma once
/// Records the steps of a running case, and ends a case early.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/cases/transcript.hpp"
#include "conformance/cases/verdict.hpp"
#include "conformance/cases/wire_violation.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::conformance {

/// Timeouts for the device in nanoseconds.
struct Timeouts {
  std::int64_t answer = 2'000'000'000;  ///< time after which a response counts as missing
  std::int64_t silence = 50'000'000;    ///< time without a frame that counts as silence
  bool upper_bounds = false;            ///< a late response is a violation, because device and tester share a clock
};

class CaseRecorder {
 public:
  explicit CaseRecorder(const Timeouts& patience) : patience_(patience) {}
  CaseRecorder(const CaseRecorder&) = delete;
  CaseRecorder& operator=(const CaseRecorder&) = delete;
  virtual ~CaseRecorder() = default;

  /// The current time in nanoseconds of the clock of the frames.
  [[nodiscard]] virtual std::int64_t now() const = 0;
  /// Lets time pass. Frames that arrive are kept for later.
  virtual void pass(std::int64_t nanoseconds) = 0;

  /// Checks a result of verbs or a computed value. Ends the case with `otherwise` if `holds` is false.
  void require(bool holds, const std::string& expected, const std::string& actual, Verdict otherwise = Verdict::fail);
  void note(std::string text) { record(Step::Kind::note, std::move(text)); }
  void record(Step::Kind kind, std::string text, Bytes frame = {}) { record_at(now(), kind, std::move(text), frame); }
  void record_at(std::int64_t time, Step::Kind kind, std::string text, Bytes frame = {});
  /// Records the connection of a QP.
  void record(const Pairing& pairing);

  /// Ends the case with this verdict because the result differs from the expectation.
  [[noreturn]] void deviate(Verdict verdict, const std::string& expected, const std::string& actual);

  /// Records a failure and continues, so that later steps are checked too. The first failure determines the verdict
  /// unless the case ends otherwise.
  void deviates(Verdict verdict, const std::string& expected, const std::string& actual);
  [[nodiscard]] const std::optional<Judgment>& deviation() const { return deviation_; }

  /// Records a rule that a frame or FPDU of the device violates, independent of the tested rule, and continues.
  void violates(WireViolation violation);
  /// The violated rules, each once, in the order of their first violation.
  [[nodiscard]] const std::vector<WireViolation>& wire_violations() const { return wire_violations_; }

  [[nodiscard]] const Timeouts& patience() const { return patience_; }
  [[nodiscard]] const Transcript& transcript() const { return transcript_; }
  /// Returns the transcript and starts a new one, for programs that run indefinitely.
  [[nodiscard]] Transcript take_transcript() { return std::exchange(transcript_, {}); }

 private:
  Timeouts patience_;
  Transcript transcript_;
  std::optional<Judgment> deviation_;
  std::vector<WireViolation> wire_violations_;
};

/// Ends the case with this verdict and reason.
[[noreturn]] void end_case(Verdict verdict, std::string reason);

}  // namespace rdmawire::conformance
