#pragma once
/// Table of the injectable faults and the rule that each fault violates.

#include <array>
#include <string_view>

#include "conformance/device/iwarp/faults.hpp"

namespace rdmawire::endpoint {

enum class FaultShows : std::uint8_t {
  bytes,   ///< in the bytes that the endpoint sends
  timing,  ///< in the time of a transmission, or in its absence
  verbs,   ///< only in memory, completions or events
};

struct FaultRow {
  Fault fault;
  std::string_view name;   ///< name on the command line: "ignores-crc"
  std::string_view check;  ///< alias of the violated rule: "FPD-004"
  FaultShows shows = FaultShows::bytes;
  std::string_view sentence;  ///< description of the faulty behavior
};

/// One row for each Fault, in the order of the enumeration. No endpoint can violate FPD-002 (a test of the tester),
/// FPD-019 (the TCP implementation controls sequence numbers), FPD-022 (a capture that starts inside a stream) and
/// RDM-020 (both outcomes are allowed).
extern const std::array<FaultRow, fault_count> fault_rows;

inline const FaultRow& row_of(Fault fault) { return fault_rows[static_cast<std::size_t>(fault)]; }
/// Return the fault with this name, or nullptr.
const FaultRow* find_fault(std::string_view name);

}  // namespace rdmawire::endpoint
