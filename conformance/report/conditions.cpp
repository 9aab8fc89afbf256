#include "conformance/report/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "conformance/cases/case_parameters.hpp"

namespace rdmawire::conformance {
namespace {

/// Larger combinations are not searched: they describe single rows.
constexpr std::size_t largest_combination = 4;

bool holds(const Combination& combination, const EvaluatedRow& row) {
  return std::all_of(combination.begin(), combination.end(), [&](const ParameterValue& one) {
    return std::find(row.values.begin(), row.values.end(), one) != row.values.end();
  });
}

/// The values that all failed rows have.
Combination shared_by_failures(const std::vector<EvaluatedRow>& rows) {
  Combination shared;
  bool is_first = true;
  for (const EvaluatedRow& row : rows) {
    if (!row.failed) continue;
    if (std::exchange(is_first, false))
      shared = row.values;
    else
      std::erase_if(shared, [&](const ParameterValue& one) { return !holds({one}, row); });
  }
  return shared;
}

bool is_deviation(Verdict verdict) { return verdict == Verdict::fail || verdict == Verdict::fail_wrong_code; }

/// Returns whether a row tested the case.
bool has_tested(Verdict verdict) {
  return is_deviation(verdict) || verdict == Verdict::pass || verdict == Verdict::may;
}

std::string name_of(const Rule& rule) { return std::string(rule.alias.empty() ? rule.id : rule.alias); }

std::string text_of(const Combination& combination) {
  std::string text;
  for (const auto& [name, value] : combination)
    text += fmt::format("{}{} = {}", text.empty() ? "" : " and ", name, value);
  return text;
}

nlohmann::ordered_json to_json(const Combination& combination) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const auto& [name, value] : combination) values[name] = value;
  return values;
}

}  // namespace

std::vector<Combination> separating_combinations(const std::vector<EvaluatedRow>& rows, std::size_t most) {
  const bool any_passed = std::any_of(rows.begin(), rows.end(), [](const EvaluatedRow& row) { return !row.failed; });
  const Combination shared = shared_by_failures(rows);
  std::vector<Combination> found;
  if (!any_passed) return found;
  for (std::size_t size = 1; size <= std::min(largest_combination, shared.size()) && found.empty(); ++size) {
    // All subsets of this size: the permutations of a mask.
    std::vector<bool> chosen(shared.size());
    std::fill(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(size), true);
    do {
      Combination combination;
      for (std::size_t i = 0; i < shared.size(); ++i)
        if (chosen[i]) combination.push_back(shared[i]);
      if (std::none_of(rows.begin(), rows.end(),
                       [&](const EvaluatedRow& row) { return !row.failed && holds(combination, row); }))
        found.push_back(std::move(combination));
    } while (found.size() < most && std::prev_permutation(chosen.begin(), chosen.end()));
  }
  return found;
}

std::string text_of_alternatives(const std::vector<Combination>& whenever) {
  std::string text;
  for (const Combination& one : whenever)
    text += fmt::format("{}{}", text.empty() ? "" : ", or equally whenever ", text_of(one));
  return text;
}

// ---- rows of environments

std::vector<EvaluatedRow> environment_rows_of(const CaseResult& result) {
  std::vector<EvaluatedRow> rows;
  const auto violated_by = [&](const Rule* violated) { return violated ? violated : &*result.of->rule; };
  const Rule* const violated = violated_by(result.judgment.rule);
  for (const RowResult& one : result.rows) {
    const bool failed = is_deviation(one.verdict);
    if (!failed && one.verdict != Verdict::pass && one.verdict != Verdict::may) continue;
    if (failed && violated_by(one.violated) != violated) continue;
    EvaluatedRow& row = rows.emplace_back();
    row.failed = failed;
    for (const ParameterInfo& info : all_parameters())
      if ((result.free >> static_cast<unsigned>(info.parameter) & 1U) != 0)
        row.values.push_back(
            {std::string(info.name), std::string(info.values[one.row[static_cast<std::size_t>(info.parameter)]])});
  }
  return rows;
}

std::vector<EnvironmentConditions> environment_conditions(const Report& report) {
  std::vector<EnvironmentConditions> all;
  for (const CaseResult& result : report.results) {
    const auto is_error = [](const RowResult& one) { return one.verdict == Verdict::error; };
    if (std::any_of(result.rows.begin(), result.rows.end(), is_error)) continue;
    const std::vector<EvaluatedRow> rows = environment_rows_of(result);
    const auto failed =
        static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [](auto& row) { return row.failed; }));
    if (failed == 0 || failed == rows.size()) continue;
    auto whenever = separating_combinations(rows);
    const Rule* const violated = result.judgment.rule ? result.judgment.rule : &*result.of->rule;
    auto found = std::find_if(all.begin(), all.end(), [&](const EnvironmentConditions& one) {
      return one.violated == violated && one.whenever == whenever;
    });
    if (found == all.end())
      found = all.insert(all.end(), {.violated = violated, .whenever = std::move(whenever), .cases = {}});
    found->failed += failed;
    found->passed += rows.size() - failed;
    found->cases.push_back(result.of->id());
  }
  return all;
}

std::string text_of(const std::vector<EnvironmentConditions>& conditions) {
  std::string text;
  for (const EnvironmentConditions& one : conditions) {
    const std::size_t count = one.cases.size();
    const std::string who = count == 1 ? one.cases.front() : fmt::format("{} cases", count);
    text += fmt::format("{} fail{} {}: violates {}, {} row{} failed, {} passed", who, count == 1 ? "s" : "",
                        one.whenever.empty() ? "in some rows" : "whenever " + text_of_alternatives(one.whenever),
                        name_of(*one.violated), one.failed, one.failed == 1 ? "" : "s", one.passed);
    text += count == 1 ? "\n" : fmt::format(" (first: {})\n", one.cases.front());
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<EnvironmentConditions>& conditions) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EnvironmentConditions& one : conditions) {
    nlohmann::ordered_json whenever = nlohmann::ordered_json::array();
    for (const Combination& combination : one.whenever) whenever.push_back(to_json(combination));
    list.push_back({{"violated", one.violated->id},
                    {"alias", one.violated->alias},
                    {"failed", one.failed},
                    {"passed", one.passed},
                    {"whenever", std::move(whenever)},
                    {"cases", one.cases}});
  }
  return list;
}

namespace {

EnvironmentLimits limits_of(const Report& report, Family family) {
  const auto found = report.limits.find(family);
  return found == report.limits.end() ? EnvironmentLimits() : found->second;
}

}  // namespace

CombinationCounts combinations_of(const Report& report) {
  CombinationCounts sum;
  if (report.strength == 0) return sum;
  if (report.combinations) return *report.combinations;
  std::map<std::pair<ParameterSet, std::vector<ParameterRow>>, CombinationCounts> known;
  for (const CaseResult& result : report.results) {
    std::vector<ParameterRow> rows;
    for (const RowResult& one : result.rows)
      if (has_tested(one.verdict)) rows.push_back(one.row);
    if (result.rows.empty() && has_tested(result.judgment.verdict)) rows.push_back(result.row);
    auto [found, is_new] = known.try_emplace({result.free, std::move(rows)});
    if (is_new)
      found->second = environment_combinations(result.free, limits_of(report, result.of->family()), report.strength,
                                               found->first.second);
    sum.existing += found->second.existing;
    sum.possible += found->second.possible;
    sum.covered += found->second.covered;
  }
  return sum;
}

namespace {

/// The result of a case in its default row. Other rows do not separate cases from one another.
struct DefaultResult {
  explicit DefaultResult(const CaseResult& result)
      : of(&result), verdict(result.judgment.verdict), violated(result.judgment.rule) {
    if (!result.rows.empty()) {
      verdict = result.rows.front().verdict;
      violated = result.rows.front().violated;
    }
    if (!violated) violated = &*result.of->rule;
  }
  const CaseResult* of;
  Verdict verdict;
  const Rule* violated;
};

}  // namespace

std::vector<FailureConditions> failure_conditions(const Report& report) {
  // The rows of each rule, in the order of the rules.
  std::map<const Rule*, std::vector<std::pair<DefaultResult, Combination>>> rows_of;
  for (const CaseResult& result : report.results) {
    Combination values;
    for (const CaseParameter& one : parameters_of(*result.of)) values.push_back({one.name, one.value});
    if (!values.empty()) rows_of[&*result.of->rule].emplace_back(DefaultResult(result), std::move(values));
  }
  std::vector<FailureConditions> all;
  for (const auto& [rule, results] : rows_of) {
    std::vector<const Rule*> violated;
    for (const auto& [result, values] : results)
      if (is_failure(result.verdict) && std::find(violated.begin(), violated.end(), result.violated) == violated.end())
        violated.push_back(result.violated);
    for (const Rule* one : violated) {
      FailureConditions conditions{.rule = rule, .violated = one, .whenever = {}, .shared = {}, .cases = {}};
      std::vector<EvaluatedRow> rows;
      for (const auto& [result, values] : results) {
        const bool failed = is_failure(result.verdict) && result.violated == one;
        if (failed) {
          ++conditions.failed;
          conditions.cases.push_back(result.of->of->id());
        } else if (result.verdict == Verdict::pass) {
          ++conditions.passed;
        } else {
          ++conditions.other;
          continue;
        }
        rows.push_back({values, failed});
      }
      if (rows.size() < 2) continue;
      conditions.whenever = separating_combinations(rows);
      if (conditions.whenever.empty() && conditions.passed > 0) conditions.shared = shared_by_failures(rows);
      all.push_back(std::move(conditions));
    }
  }
  return all;
}

std::string text_of(const std::vector<FailureConditions>& conditions) {
  std::string text;
  for (const FailureConditions& one : conditions) {
    text += name_of(*one.rule);
    if (one.violated != one.rule) text += fmt::format(" (violates {})", name_of(*one.violated));
    if (one.passed == 0) {
      text += one.other == 0 ? " fails in all rows" : " fails in all rows with a verdict on it";
    } else if (!one.whenever.empty()) {
      text += " fails whenever " + text_of_alternatives(one.whenever);
    } else {
      text += fmt::format(" fails in some rows: no combination of up to {} parameter values separates them",
                          largest_combination);
      if (!one.shared.empty()) text += fmt::format(", and all have {}", text_of(one.shared));
    }
    text += fmt::format(": {} row{} failed, {} passed", one.failed, one.failed == 1 ? "" : "s", one.passed);
    if (one.other > 0) text += fmt::format(", {} without a verdict on it", one.other);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<FailureConditions>& conditions) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FailureConditions& one : conditions) {
    nlohmann::ordered_json whenever = nlohmann::ordered_json::array();
    for (const Combination& combination : one.whenever) whenever.push_back(to_json(combination));
    list.push_back({{"rule", one.rule->id},
                    {"alias", one.rule->alias},
                    {"violated", one.violated->id},
                    {"failed", one.failed},
                    {"passed", one.passed},
                    {"other", one.other},
                    {"whenever", std::move(whenever)}});
    if (!one.shared.empty()) list.back()["shared"] = to_json(one.shared);
    list.back()["cases"] = one.cases;
  }
  return list;
}

}  // namespace rdmawire::conformance
