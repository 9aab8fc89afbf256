#pragma once
/// How a case ends.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::conformance {

enum class Verdict : std::uint8_t {
  pass,
  fail,
  fail_wrong_code,  ///< the right kind of reaction, with another code
  may,              ///< optional behavior: what the device does is reported, and not judged
  unsupported,      ///< the device, its agent or the wire lacks something that the case needs
  inconclusive,     ///< nothing can be said, for the reason given
  error,            ///< the tester failed, or the transfer that shows that everything works did
};
std::string_view to_string(Verdict verdict);

struct Judgment {
  Verdict verdict = Verdict::pass;
  std::string expected;  ///< of fail and fail_wrong_code: what the clause asks for, as we read it
  std::string actual;    ///< what the device did; else the reason

  friend bool operator==(const Judgment&, const Judgment&) = default;
};

/// Ends a case early. Thrown by the vocabulary of cases and caught by who runs them; nothing else throws it.
struct CaseEnd {
  Judgment judgment;
};

}  // namespace rdmawire::conformance
