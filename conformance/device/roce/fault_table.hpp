#pragma once
/// Table of the injectable faults and the rules that each fault violates.

#include <array>
#include <span>
#include <string_view>

#include "conformance/device/roce/faults.hpp"

namespace rdmawire::device {

struct FaultRow {
  Fault fault;
  std::string_view name;  ///< name on the command line: "naks-every-packet"
  /// Violated rules, at most three.
  std::array<std::string_view, 3> rules{};
  bool on_the_wire = true;    ///< false if only verbs show the fault
  std::string_view sentence;  ///< description of the faulty behavior

  [[nodiscard]] constexpr std::span<const std::string_view> broken() const {
    return {rules.data(), rules[0].empty() ? 0U : rules[1].empty() ? 1U : rules[2].empty() ? 2U : 3U};
  }
};

/// One row for each Fault, in the order of the enumeration.
extern const std::array<FaultRow, fault_count> fault_rows;

inline const FaultRow& row_of(Fault fault) { return fault_rows[static_cast<std::size_t>(fault)]; }
/// Return the fault with this name, or nullptr.
const FaultRow* find_fault(std::string_view name);

}  // namespace rdmawire::device
