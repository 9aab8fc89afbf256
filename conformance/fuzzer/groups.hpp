#pragma once
/// Groups of findings that probably have the same cause.

#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

struct FindingGroup {
  std::string cause;                    ///< injected fault with the same effect, violated rules, or oracle and step
  std::vector<std::string> rules;       ///< ids of all violated rules
  std::vector<std::size_t> findings{};  ///< indexes, in ascending order
};

/// Return the groups in the order of their first finding. Each finding belongs to one group.
///
/// The smallest set of injected faults that explains all findings with such a fault is approximated: the fault that
/// explains most of the remaining findings is selected repeatedly. A finding without a fault belongs to the group that
/// violates all of its rules, otherwise to the findings with equal rules, or without rules with equal oracle and last
/// step.
std::vector<FindingGroup> groups_of(std::span<const Finding> findings);

}  // namespace rdmawire::fuzzer
