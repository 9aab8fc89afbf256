#pragma once
/// What each fault breaks, and where that shows.

#include <array>
#include <string_view>

#include "conformance/device/iwarp/faults.hpp"

namespace rdmawire::endpoint {

enum class FaultShows : std::uint8_t {
  bytes,   ///< in what the endpoint sends
  timing,  ///< in when it sends, or that it does not
  verbs,   ///< in memory, completions or events alone
};

struct FaultRow {
  Fault fault;
  std::string_view name;   ///< by which it is chosen: "ignores-crc"
  std::string_view check;  ///< the catalog's: "FPD-004"
  FaultShows shows = FaultShows::bytes;
  std::string_view sentence;  ///< what the endpoint does
};

/// In the order of Fault. No endpoint can break FPD-002 (a test of the tester), FPD-019 (TCP's sequence numbers are not
/// its own), FPD-022 (a capture that begins in the middle) and RDM-020 (both outcomes are allowed).
extern const std::array<FaultRow, fault_count> fault_rows;

inline const FaultRow& row_of(Fault fault) { return fault_rows[static_cast<std::size_t>(fault)]; }
/// The fault of that name, or nullptr.
const FaultRow* find_fault(std::string_view name);

}  // namespace rdmawire::endpoint
