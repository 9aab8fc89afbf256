#pragma once
/// Groups of findings that probably have the same cause.

#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

struct FindingGroup {
  std::string cause;                    ///< fault with the same effect, or violated rules, or oracle and step
  std::vector<std::string> rules;       ///< ids of all violated rules
  std::vector<std::size_t> findings{};  ///< indexes, in ascending order
};

/// Return the groups in the order of their first finding. Each finding belongs to one group.
///
/// Findings that injected faults explain are grouped by fault. The number of faults is approximately minimal: the fault
/// that explains the most remaining findings is selected repeatedly. A finding that no fault explains joins a group
/// that violates all of its rules. If there is none, findings with equal rules form a group. Findings without rules are
/// grouped by oracle and last step.
std::vector<FindingGroup> groups_of(std::span<const Finding> findings);

}  // namespace rdmawire::fuzzer
