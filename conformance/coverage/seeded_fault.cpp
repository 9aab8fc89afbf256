#include "conformance/coverage/seeded_fault.hpp"

#include "conformance/device/iwarp/fault_notes.hpp"
#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/fault_notes.hpp"
#include "conformance/device/roce/fault_table.hpp"

namespace rdmawire::conformance {

std::span<const SeededFault> seeded_faults() {
  static const std::vector<SeededFault> all = [] {
    std::vector<SeededFault> faults;
    for (const device::FaultRow& row : device::fault_rows)
      faults.push_back({.family = Family::infiniband,
                        .name = row.name,
                        .sentence = row.sentence,
                        .broken = {row.broken().begin(), row.broken().end()},
                        .on_the_wire = row.on_the_wire,
                        .unseen = device::unseen_because(row.fault),
                        .related = device::related_to(row.fault)});
    for (const endpoint::FaultRow& row : endpoint::fault_rows)
      faults.push_back({.family = Family::iwarp,
                        .name = row.name,
                        .sentence = row.sentence,
                        .broken = {find_rule(row.check)->id},
                        .on_the_wire = row.shows == endpoint::FaultShows::bytes,
                        .unseen = endpoint::unseen_because(row.fault),
                        .related = endpoint::related_to(row.fault)});
    return faults;
  }();
  return all;
}

}  // namespace rdmawire::conformance
