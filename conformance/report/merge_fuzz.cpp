// Fuzzes the parser of the parts of report.json that a merged package contains.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "conformance/report/merge.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  const auto read = parse_report_remainder(std::string(reinterpret_cast<const char*>(data), size), "a report");
  if (!read && read.error().empty()) std::abort();
  if (read)
    for (const BasicViolation& basic : read->basic)
      if (!basic.judgment.rule) std::abort();
  return 0;
}
