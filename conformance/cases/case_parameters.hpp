#pragma once
/// The parameters of a case that is one row of a covering array, see parameters.hpp.

#include <cstddef>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

struct CaseParameter {
  std::string name, value;  ///< "path MTU", "256"
};

/// The parameters of a case in the order of their declaration. All rows of a file have the same names. Empty: the case
/// has no parameters.
const std::vector<CaseParameter>& parameters_of(const Case& which);

namespace transfers_cases {
/// The parameters of all()[index].
std::vector<CaseParameter> parameters_of_row(std::size_t index);
}  // namespace transfers_cases

}  // namespace rdmawire::conformance
