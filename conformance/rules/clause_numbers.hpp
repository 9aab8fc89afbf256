#pragma once
/// Supplied clause numbers. The tables of rules lack numbers that were not verified. A licensee of the InfiniBand
/// specification can supply them in a file. See conformance/rules/clause_file.hpp.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// Numbers of a clause in a release of the specification. Unknown if section, statement and table are empty.
struct ClauseNumber {
  std::string release;    ///< "1.7"
  std::string section;    ///< "9.7.5.2.8", "A17.4.5.2"
  std::string statement;  ///< a compliance statement: "C9-110", "o10-37.2.30"
  std::string table;      ///< number of the table: "45"

  [[nodiscard]] bool is_known() const { return !section.empty() || !statement.empty() || !table.empty(); }
  friend bool operator==(const ClauseNumber&, const ClauseNumber&) = default;
};
/// Returns the known numbers: "9.7.5.2.8, C9-110, table 45".
std::string to_string(const ClauseNumber& number);

/// Returns whether a licensee can supply the number: the clause is of the InfiniBand specification, and its number is
/// not verified.
bool lacks_number(const Clause& clause);

/// Clause numbers by two indexes: of the rule in `rules`, and of the clause in Rule::sources().
using ClauseNumbers = std::map<std::pair<std::size_t, std::size_t>, ClauseNumber>;

/// Sets the supplied numbers, which all later texts of this process contain. Replaces earlier ones. Thread-safe.
void use_clause_numbers(ClauseNumbers numbers);

/// A clause as it is shown to users.
struct Source {
  Clause clause{};           ///< its texts exist until the process ends
  bool is_supplied = false;  ///< true: the number comes from use_clause_numbers()
};
/// Returns the clauses of a rule, with supplied numbers.
std::vector<Source> sources_of(const Rule& rule);

/// Counts of clauses without a number in the tables: with and without a supplied number.
struct ClauseNumberCounts {
  std::size_t supplied = 0, missing = 0;
};
ClauseNumberCounts count_clause_numbers();

}  // namespace rdmawire::conformance
