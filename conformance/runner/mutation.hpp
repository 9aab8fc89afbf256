#pragma once
/// Whether the suite sees what it is there to see: the reference device is broken on purpose, one way at a time. The
/// cases of the rules that this breaks must find it, and so must the monitors in the frames of the cases, where it
/// shows there; nothing else may, but for what was declared to be related.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/coverage/seeded_fault.hpp"

namespace rdmawire::conformance {

/// What became of one fault. Cases are named by their ids, rules by their aliases, or ids where they have none.
struct Mutation {
  const SeededFault* fault = nullptr;  ///< not nullptr
  std::vector<std::string> meant;      ///< cases of the rules that it breaks
  std::vector<std::string> caught;     ///< of these, those that deviate
  std::set<std::string> watched;       ///< of the rules that it breaks, those that a monitor can find broken
  std::set<std::string> accused;       ///< of these, those that monitors found broken
  std::vector<std::string> noticed;    ///< other cases that deviate
  std::set<std::string> suspected;     ///< other rules that monitors found broken

  [[nodiscard]] bool missed() const { return caught.empty() && accused.empty(); }
  /// It is on the wire, a rule that it breaks has a monitor, and none found it.
  [[nodiscard]] bool unseen() const { return fault->on_the_wire && !watched.empty() && accused.empty(); }
  /// Noticed and suspected rules that were not declared to be related.
  [[nodiscard]] std::set<std::string> unrelated() const;
};

/// Which cases are run against a fault.
enum class Breadth : std::uint8_t {
  meant,  ///< those of the rules that it breaks, and some that make traffic of every kind for the monitors
  all,
};

/// How cases end without a fault, by id.
using CleanRun = std::map<std::string, Verdict>;
CleanRun clean_run(std::uint64_t seed);

/// Runs cases against a reference device with that fault. A case that deviates without it too says nothing; one of a
/// rule of Level::may, which never fails, deviates when it reports what it does not report without the fault.
Mutation mutate(const SeededFault& fault, Breadth breadth, std::uint64_t seed, const CleanRun& clean);

/// All faults, or those of `names`, by so many threads. `progress`: called after each, by whichever thread.
std::vector<Mutation> mutate_all(Breadth breadth, std::uint64_t seed, unsigned threads,
                                 const std::function<void(const Mutation&)>& progress = {},
                                 std::span<const std::string> names = {});

/// One line a fault, and how many were caught, missed, or have no case.
std::string table_of(std::span<const Mutation> mutations);
/// The whole matrix, as docs/mutations.md has it.
std::string document_of(std::span<const Mutation> mutations);

}  // namespace rdmawire::conformance
