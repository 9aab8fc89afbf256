#pragma once
/// The files of cases: a function each, a file for a section of the specification.

#include <span>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

std::span<const Case> rc_responder_psn_cases();

}  // namespace rdmawire::conformance
