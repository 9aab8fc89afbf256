#pragma once
/// The ways in which the reference devices can be broken on purpose, of both families.

#include <span>
#include <string_view>
#include <vector>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

struct SeededFault {
  Family family = Family::infiniband;    ///< of which reference device
  std::string_view name;                 ///< by which it is chosen: "naks-every-packet", "ignores-crc"
  std::string_view sentence;             ///< what the device does
  std::vector<std::string_view> broken;  ///< ids of the rules that it breaks, declared before any run
  bool on_the_wire = true;               ///< else only verbs show it, or time
  std::string_view unseen;   ///< why the frames alone do not show it to the monitors of its rules; empty: they do, or
                             ///< there is none
  std::string_view related;  ///< other rules whose cases or monitors it touches: aliases or ids, with blanks between
                             ///< them; "*": every exchange needs it
};

/// Those of RoCE first, each family's in its table's order.
std::span<const SeededFault> seeded_faults();

}  // namespace rdmawire::conformance
