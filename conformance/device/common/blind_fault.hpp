#pragma once
/// Blind faults: realistic firmware faults whose authors did not know the test cases. They measure how many unknown
/// faults the test suite detects. The seeded faults are a different table: each of them has a case that detects it.

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace rdmawire::device {

/// A blind fault of a device with these decisions.
template <class Decisions>
struct BlindFault {
  std::string_view name;                           ///< name on the command line: "credits-rounded-up"
  std::string_view area;                           ///< "RC responder"
  std::string_view sentence;                       ///< description of the faulty behavior
  std::string_view trigger;                        ///< legal stimulus that shows the fault, and the difference
  void (*add_to)(Decisions& decisions) = nullptr;  ///< adds the overrides
  unsigned round = 1;                              ///< round of faults that were written together
  std::string_view date = "2026-11-28";            ///< of the round
};

/// Return pointers to the faults of all parts of a table.
template <class Decisions>
std::vector<const BlindFault<Decisions>*> all_of(std::span<const std::span<const BlindFault<Decisions>>> parts) {
  std::vector<const BlindFault<Decisions>*> all;
  for (const auto& part : parts)
    for (const BlindFault<Decisions>& fault : part) all.push_back(&fault);
  return all;
}

/// Return the fault with this name, or nullptr.
template <class Decisions>
const BlindFault<Decisions>* find_in(std::span<const BlindFault<Decisions>* const> faults, std::string_view name) {
  const auto found = std::ranges::find(faults, name, [](const auto* fault) { return fault->name; });
  return found == faults.end() ? nullptr : *found;
}

}  // namespace rdmawire::device
