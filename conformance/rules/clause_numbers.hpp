#pragma once
/// Numbers of clauses that the tables of rules lack, because they were not verified. A licensee of the InfiniBand
/// specification can supply them in a file, see conformance/rules/clause_file.hpp.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// The position of a clause in a release of the specification. Without section, statement and table, it is unknown.
struct ClauseNumber {
  std::string release;    ///< "1.7"
  std::string section;    ///< "9.7.5.2.8", "A17.4.5.2"
  std::string statement;  ///< a compliance statement: "C9-110", "o10-37.2.30"
  std::string table;      ///< "45"

  [[nodiscard]] bool is_known() const { return !section.empty() || !statement.empty() || !table.empty(); }
  friend bool operator==(const ClauseNumber&, const ClauseNumber&) = default;
};
/// "9.7.5.2.8, C9-110, table 45"
std::string to_string(const ClauseNumber& number);

/// Returns whether a licensee can supply the number: a clause of the InfiniBand specification with no verified number.
bool lacks_number(const Clause& clause);

/// Clause numbers by the indexes of the rule and of the clause in its sources().
using ClauseNumbers = std::map<std::pair<std::size_t, std::size_t>, ClauseNumber>;

/// All later texts of this process contain these numbers. Replaces earlier ones. Thread-safe.
void use_clause_numbers(ClauseNumbers numbers);

/// A clause as texts show it.
struct Source {
  Clause clause{};           ///< its texts exist until the process ends
  bool is_supplied = false;  ///< the number is one of use_clause_numbers()
};
/// The clauses of a rule, with the supplied numbers.
std::vector<Source> sources_of(const Rule& rule);

/// The clauses that lack a number in the tables.
struct ClauseNumberCounts {
  std::size_t supplied = 0, missing = 0;
};
ClauseNumberCounts count_clause_numbers();

}  // namespace rdmawire::conformance
