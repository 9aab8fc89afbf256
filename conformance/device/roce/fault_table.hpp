#pragma once
/// What each fault breaks, and whether that shows on the wire.

#include <array>
#include <span>
#include <string_view>

#include "conformance/device/roce/faults.hpp"

namespace rdmawire::device {

struct FaultRow {
  Fault fault;
  std::string_view name;  ///< by which it is chosen: "naks-every-packet"
  /// Of the rules, at most three.
  std::array<std::string_view, 3> rules{};
  bool on_the_wire = true;    ///< else only verbs show it
  std::string_view sentence;  ///< what the device does

  [[nodiscard]] constexpr std::span<const std::string_view> broken() const {
    return {rules.data(), rules[0].empty() ? 0U : rules[1].empty() ? 1U : rules[2].empty() ? 2U : 3U};
  }
};

/// In the order of Fault.
extern const std::array<FaultRow, fault_count> fault_rows;

inline const FaultRow& row_of(Fault fault) { return fault_rows[static_cast<std::size_t>(fault)]; }
/// The fault of that name, or nullptr.
const FaultRow* find_fault(std::string_view name);

}  // namespace rdmawire::device
