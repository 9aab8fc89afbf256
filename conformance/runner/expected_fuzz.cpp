// Fuzzes the parser of expected results.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "conformance/runner/expected.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  const auto read = ExpectedResults::parse(std::string(reinterpret_cast<const char*>(data), size), "a file");
  if (!read && read.error().empty()) std::abort();
  if (read)
    for (const Case& which : cases()) static_cast<void>(read->find(which, "2026-11-21"));
  return 0;
}
