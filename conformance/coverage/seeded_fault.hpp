#pragma once
/// The faults that can be injected into the reference devices of both families.

#include <span>
#include <string_view>
#include <vector>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

struct SeededFault {
  Family family = Family::infiniband;    ///< family of the reference device
  std::string_view name;                 ///< "naks-every-packet", "ignores-crc"
  std::string_view sentence;             ///< the faulty behavior
  std::vector<std::string_view> broken;  ///< ids of the violated rules, declared in advance
  bool on_the_wire = true;               ///< false: only completions, events or timing show the fault
  std::string_view unseen;   ///< reason why monitors do not detect the fault in the frames. Empty if they do, or if no
                             ///< violated rule has a monitor
  std::string_view related;  ///< other rules whose cases or monitors may report the fault: aliases or ids, separated by
                             ///< blanks. "*": any rule
};

/// All faults: first RoCE, then iWARP, each in the order of its table.
std::span<const SeededFault> seeded_faults();

}  // namespace rdmawire::conformance
