// Fuzzes the parser of reports, and the comparison of two reports.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "conformance/runner/comparison.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t half = text.find('\n');
  const auto before = parse_outcomes(text.substr(0, half), "a");
  const auto after = parse_outcomes(half == std::string::npos ? text : text.substr(half), "b");
  if ((!before && before.error().empty()) || (!after && after.error().empty())) std::abort();
  if (!before || !after) return 0;
  // Each case is compared at most once, and a report equals itself.
  if (compare(before->cases, after->cases, SlowerLimits{}).size() > before->cases.size() + after->cases.size())
    std::abort();
  if (!compare(before->cases, before->cases).empty()) std::abort();
  return 0;
}
