#pragma once
/// What more there is to say of some faults: why monitors cannot see one although it changes frames, and which other
/// rules it touches of necessity. Declared before any run; what a run shows beyond it is a fault of the suite.

#include <span>
#include <string_view>

#include "conformance/device/faults.hpp"

namespace rdmawire::device {

struct FaultNotes {
  Fault fault;
  /// Why the frames alone do not show it to the monitors of its rules; empty: they do.
  std::string_view unseen{};
  /// Patterns of rules, as matches() takes them.
  std::span<const std::string_view> related{};
  std::string_view why{};  ///< they are related
};

/// Empty where there is nothing more to say.
const FaultNotes& notes_of(Fault fault);

}  // namespace rdmawire::device
