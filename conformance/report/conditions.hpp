#pragma once
/// The smallest combinations of parameter values that occur in all failed rows of a parameterized rule and in no passed
/// one: "fails whenever path MTU = 256 and first PSN = wraps".

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conformance/cases/parameters.hpp"
#include "conformance/report/report.hpp"

namespace rdmawire::conformance {

struct ParameterValue {
  std::string name, value;  ///< "path MTU", "256"

  friend bool operator==(const ParameterValue&, const ParameterValue&) = default;
};
/// A combination of values. All of them must hold.
using Combination = std::vector<ParameterValue>;

/// One row of a covering array: its values, in the order of the parameters.
struct EvaluatedRow {
  Combination values;
  bool failed = false;
};

/// The smallest combinations of values that occur in all failed rows and in no passed one, at most `most`. Empty if
/// nothing separates the rows, or if all rows have the same result. All rows have the same parameters.
std::vector<Combination> separating_combinations(const std::vector<EvaluatedRow>& rows, std::size_t most = 4);

/// The failed rows of a rule.
struct FailureConditions {
  const Rule* rule = nullptr;      ///< the rule of the cases
  const Rule* violated = nullptr;  ///< the violated rule. The same as `rule`, or one about every frame
  std::size_t failed = 0, passed = 0;
  std::size_t other = 0;              ///< rows without a verdict, or that violate another rule
  std::vector<Combination> whenever;  ///< equivalent for these rows
  Combination shared;                 ///< values that all failed rows have, if nothing separates them from passed rows
  std::vector<std::string> cases;     ///< ids of the failed rows
};
/// The rows of the environment of a case: for each parameter that the rows vary, its value. Contains only the
/// rows that passed or that violate the rule of the result.
std::vector<EvaluatedRow> environment_rows_of(const CaseResult& result);
/// The failed rows of the environments of cases that fail under the same condition.
struct EnvironmentConditions {
  const Rule* violated = nullptr;
  std::size_t failed = 0, passed = 0;
  std::vector<Combination> whenever;  ///< equivalent for these rows. Empty: no combination separates the rows
  std::vector<std::string> cases;     ///< ids of the failed cases
};
/// For the cases of which some rows passed and some violate the rule of the result, in the order of their first cases.
/// Cases whose rows were canceled because the tester or the device failed are left out.
std::vector<EnvironmentConditions> environment_conditions(const Report& report);
/// "12 cases fail whenever path MTU = 256: violates RSP-009, 40 rows failed, 96 passed (first: ID)", one line for each
/// condition.
std::string text_of(const std::vector<EnvironmentConditions>& conditions);
nlohmann::ordered_json to_json(const std::vector<EnvironmentConditions>& conditions);
/// "path MTU = 256 and tester PSN = 0, or equally whenever history = NAK"
std::string text_of_alternatives(const std::vector<Combination>& whenever);

/// The combinations of parameter values of all cases of a run.
CombinationCounts combinations_of(const Report& report);

/// For each rule with parameters of which at least two rows have a verdict and one failed.
std::vector<FailureConditions> failure_conditions(const Report& report);

/// "RSP-013 fails whenever path MTU = 256 and first PSN = wraps: 4 rows failed, 97 passed", one line for each rule.
std::string text_of(const std::vector<FailureConditions>& conditions);
nlohmann::ordered_json to_json(const std::vector<FailureConditions>& conditions);

}  // namespace rdmawire::conformance
