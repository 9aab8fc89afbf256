// Fuzzes the parser of implementation conformance statements.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "conformance/report/ics.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  const auto ics = Ics::parse(std::string(reinterpret_cast<const char*>(data), size), "a file");
  if (!ics) {
    if (ics.error().empty()) std::abort();
    return 0;
  }
  ReportedCapabilities reported;
  reported.family = ics->family;
  const auto findings = check_ics(*ics, reported, {});
  // Only a query or a case makes a statement pass or fail.
  for (const IcsFinding& one : findings)
    if (one.status == IcsFinding::Status::fail || one.status == IcsFinding::Status::pass) std::abort();
  if (findings.size() != ics->capabilities.size() + ics->limits.size() || text_of(findings).empty()) std::abort();
  return 0;
}
