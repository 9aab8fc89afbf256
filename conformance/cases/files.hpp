#pragma once
/// The files of cases: a function each, a file for a section of the specification.

#include <span>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

std::span<const Case> rc_responder_psn_cases();
std::span<const Case> rc_responder_acknowledge_cases();
std::span<const Case> rc_responder_duplicates_cases();
std::span<const Case> rc_responder_sequence_cases();
std::span<const Case> rc_responder_lengths_cases();
std::span<const Case> rc_responder_keys_cases();

}  // namespace rdmawire::conformance
