#pragma once
/// Whether the suite sees what it is there to see: the reference device is broken on purpose, one way at a time, and
/// the cases of the rules that this breaks must find it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/device/fault_table.hpp"

namespace rdmawire::conformance {

/// What became of one fault.
struct Mutation {
  const device::FaultRow* fault = nullptr;  ///< not nullptr
  std::vector<std::string> meant;           ///< cases of the rules that it breaks, by id; empty: there is none yet
  std::vector<std::string> caught;          ///< of these, those that deviate
  std::vector<std::string> unrelated;       ///< other cases that deviate

  [[nodiscard]] bool missed() const { return !meant.empty() && caught.empty(); }
};

/// Runs cases against a reference device with that fault: those that are meant for it, or with `all` every one.
Mutation mutate(const device::FaultRow& fault, bool all, std::uint64_t seed);

/// One line a fault, and how many were caught, missed, or have no case.
std::string table_of(std::span<const Mutation> mutations);

}  // namespace rdmawire::conformance
