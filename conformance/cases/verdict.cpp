#include "conformance/cases/verdict.hpp"

namespace rdmawire::conformance {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "pass";
    case Verdict::fail: return "fail";
    case Verdict::fail_wrong_code: return "fail-wrong-code";
    case Verdict::may: return "may";
    case Verdict::unsupported: return "unsupported";
    case Verdict::inconclusive: return "inconclusive";
    case Verdict::error: return "error";
  }
  return "error";
}

}  // namespace rdmawire::conformance
