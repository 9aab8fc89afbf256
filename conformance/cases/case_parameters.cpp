#include "conformance/cases/case_parameters.hpp"

#include <map>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance {

const std::vector<CaseParameter>& parameters_of(const Case& which) {
  static const auto by_id = [] {
    std::map<std::string, std::vector<CaseParameter>, std::less<>> all;
    const std::span<const Case> rows = transfers_cases::all();
    for (std::size_t i = 0; i < rows.size(); ++i) all.emplace(rows[i].id(), transfers_cases::parameters_of_row(i));
    return all;
  }();
  static const std::vector<CaseParameter> none;
  const auto found = by_id.find(which.id());
  return found == by_id.end() ? none : found->second;
}

}  // namespace rdmawire::conformance
