#pragma once
/// Mutation test of the suite: faults are injected into the reference device, one at a time. The cases of the violated
/// rules must detect the fault, and so must the monitors if it is visible in the frames. No other rule may fail unless
/// it is declared as related.

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

/// The result of one injected fault. Cases are listed by id, rules by alias, or by id if they have no alias.
struct Mutation {
  const SeededFault* fault = nullptr;  ///< not nullptr
  std::vector<std::string> meant;      ///< cases of the violated rules
  std::vector<std::string> caught;     ///< those of them that fail
  std::set<std::string> watched;       ///< violated rules with a monitor that can detect violations
  std::set<std::string> accused;       ///< those of them that monitors report as violated
  std::vector<std::string> noticed;    ///< other cases that fail, or the rules that frames violate in them
  std::set<std::string> failed;        ///< all cases that fail
  std::set<std::string> suspected;     ///< other rules that monitors report as violated

  [[nodiscard]] bool missed() const { return caught.empty() && accused.empty(); }
  /// Returns whether the monitors missed a fault that is visible on the wire.
  [[nodiscard]] bool unseen() const { return fault->on_the_wire && !watched.empty() && accused.empty(); }
  /// Returns noticed and suspected rules that are not declared as related.
  [[nodiscard]] std::set<std::string> unrelated() const;
};

/// The cases that run against a fault.
enum class Breadth : std::uint8_t {
  meant,  ///< those of the violated rules, and some with traffic of every kind for the monitors
  all,
};

/// Verdicts without a fault, by case id.
using CleanRun = std::map<std::string, Verdict>;
CleanRun clean_run(std::uint64_t seed);

/// Runs cases against a reference device with this fault. Ignores cases that fail without the fault. A case of a rule
/// of Level::may, which never fails, counts as failed if its report differs from that without the fault.
Mutation mutate(const SeededFault& fault, Breadth breadth, std::uint64_t seed, const CleanRun& clean);

/// Runs all faults, or those in `names`, in several threads. `progress`: called after each fault, possibly by several
/// threads concurrently.
std::vector<Mutation> mutate_all(Breadth breadth, std::uint64_t seed, unsigned threads,
                                 const std::function<void(const Mutation&)>& progress = {},
                                 std::span<const std::string> names = {});

/// One line for each fault, and the numbers of faults that were caught by cases, by monitors, and by neither.
std::string table_of(std::span<const Mutation> mutations);
/// The whole matrix of faults and cases: docs/reference/mutations.md.
std::string document_of(std::span<const Mutation> mutations);

}  // namespace rdmawire::conformance
