// Fuzzes the parser of clause numbers. Writes the numbers of an accepted file to a new file, and parses
// that file.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "conformance/rules/clause_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  const auto numbers = parse_clause_file(std::string(reinterpret_cast<const char*>(data), size), "a file");
  if (!numbers) {
    if (numbers.error().empty()) std::abort();
    return 0;
  }
  for (const auto& [where, number] : *numbers)
    if (!lacks_number(rules[where.first].sources()[where.second]) || number.release.empty()) std::abort();
  if (numbers->empty()) return 0;
  const auto again = parse_clause_file(clause_file_template(*numbers).dump(), "a template");
  if (!again || *again != *numbers) std::abort();
  return 0;
}
