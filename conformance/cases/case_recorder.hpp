#pragma once
/// What a case is written down in while it runs, and how it ends early.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "conformance/cases/transcript.hpp"
#include "conformance/cases/verdict.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::conformance {

/// How long a device is waited for, nanoseconds.
struct Timeouts {
  std::int64_t answer = 2'000'000'000;  ///< before a missing answer counts as none
  std::int64_t silence = 50'000'000;    ///< without a frame before that counts as silence
  bool upper_bounds = false;            ///< a late answer can be blamed on the device: its clock is ours
};

class CaseRecorder {
 public:
  explicit CaseRecorder(const Timeouts& patience) : patience_(patience) {}
  CaseRecorder(const CaseRecorder&) = delete;
  CaseRecorder& operator=(const CaseRecorder&) = delete;
  virtual ~CaseRecorder() = default;

  /// Nanoseconds of the clock that frames have their times of.
  [[nodiscard]] virtual std::int64_t now() const = 0;
  /// Lets time pass; what comes meanwhile is kept for later.
  virtual void pass(std::int64_t nanoseconds) = 0;

  /// What is seen by verbs or computed: ends the case with that verdict unless it holds.
  void require(bool holds, const std::string& expected, const std::string& actual, Verdict otherwise = Verdict::fail);
  void note(std::string text) { record(Step::Kind::note, std::move(text)); }
  void record(Step::Kind kind, std::string text, Bytes frame = {}) { record_at(now(), kind, std::move(text), frame); }
  void record_at(std::int64_t time, Step::Kind kind, std::string text, Bytes frame = {});
  /// A queue pair is connected.
  void record(const Pairing& pairing);

  /// Ends the case with that verdict: what came is not what was expected.
  [[noreturn]] void deviate(Verdict verdict, const std::string& expected, const std::string& actual);

  /// The same, but the case goes on: what follows is judged, too. The first such deviation is the verdict unless the
  /// case ends otherwise.
  void deviates(Verdict verdict, const std::string& expected, const std::string& actual);
  [[nodiscard]] const std::optional<Judgment>& deviation() const { return deviation_; }

  [[nodiscard]] const Timeouts& patience() const { return patience_; }
  [[nodiscard]] const Transcript& transcript() const { return transcript_; }
  /// Gives it, and begins anew: of a story that has no end.
  [[nodiscard]] Transcript take_transcript() { return std::exchange(transcript_, {}); }

 private:
  Timeouts patience_;
  Transcript transcript_;
  std::optional<Judgment> deviation_;
};

/// Ends the case with that verdict and reason.
[[noreturn]] void end_case(Verdict verdict, std::string reason);

}  // namespace rdmawire::conformance
