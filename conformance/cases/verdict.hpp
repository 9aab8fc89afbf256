#pragma once
/// The verdict of a case.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::conformance {

struct Rule;

enum class Verdict : std::uint8_t {
  pass,
  fail,
  fail_wrong_code,  ///< the right kind of reaction with another code
  may,              ///< optional behavior, which is only reported
  unsupported,      ///< the device, its agent or the wire lacks a required feature
  inconclusive,     ///< no verdict is possible, for the given reason
  error,            ///< the tester failed, or the transfer that checks the bench
};
std::string_view to_string(Verdict verdict);
/// Returns whether the verdict is fail, fail_wrong_code or error.
constexpr bool is_failure(Verdict verdict) {
  return verdict == Verdict::fail || verdict == Verdict::fail_wrong_code || verdict == Verdict::error;
}

struct Judgment {
  Verdict verdict = Verdict::pass;
  std::string expected;  ///< for fail and fail_wrong_code: the requirement of the clause, in our reading
  std::string actual;    ///< the behavior of the device, or the reason
  /// For a failure: the violated rule if it is not that of the case, for example the ICRC rule. Otherwise nullptr.
  const Rule* rule = nullptr;

  friend bool operator==(const Judgment&, const Judgment&) = default;
};

/// Ends a case early. Thrown only by the vocabulary of cases, and caught by the runner.
struct CaseEnd {
  Judgment judgment;
};

}  // namespace rdmawire::conformance
