#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/monitored.hpp"
#include "conformance/report/conditions.hpp"
#include "conformance/report/report.hpp"

namespace rdmawire::conformance {
namespace {

const char* mark(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::sent: return "──▶";
    case Step::Kind::received: return "◀──";
    case Step::Kind::verbs: return "verbs";
    case Step::Kind::expected: return "as expected:";
    case Step::Kind::note: return "note:";
    case Step::Kind::violation: return "DEVIATES:";
    case Step::Kind::link: break;
  }
  return "";
}

/// "rows: 8123 at strength 2, with 1234 of 1250 possible combinations of parameter values (1300 exist)"
std::string text_of_rows(const Report& report) {
  std::size_t rows = 0;
  for (const CaseResult& result : report.results) rows += std::max<std::size_t>(1, result.rows.size());
  const CombinationCounts counts = combinations_of(report);
  return fmt::format("rows: {} at strength {}, with {} of {} possible combinations of parameter values ({} exist)\n",
                     rows, report.strength, counts.covered, counts.possible, counts.existing);
}

}  // namespace

std::map<Verdict, std::size_t> Report::counts() const {
  std::map<Verdict, std::size_t> counts;
  for (const CaseResult& result : results) ++counts[result.judgment.verdict];
  return counts;
}

std::string attempts_of(const CaseResult& result) {
  std::map<Verdict, std::size_t> counts;
  for (const Attempt& one : result.attempts) ++counts[one.verdict];
  std::string text = fmt::format("of {} runs", result.attempts.size());
  const char* separator = " ";
  for (const auto& [verdict, count] : counts) {
    text += fmt::format("{}{} {}", separator, count, to_string(verdict));
    separator = ", ";
  }
  return text;
}

Observation Report::observed() const {
  Observation all;
  for (const CaseResult& result : results) all.add(result.observed);
  return all;
}

std::vector<RuleId> Report::watched() const {
  std::vector<RuleId> watched;
  for (const RuleId rule : monitored)
    if (rule->services != Services::mrc && std::any_of(results.begin(), results.end(), [&](const CaseResult& result) {
          return (result.of->family() == Family::iwarp) == contains(rule->services, Services::iwarp);
        }))
      watched.push_back(rule);
  return watched;
}

std::string_view to_string(Disposition disposition) {
  switch (disposition) {
    case Disposition::expected: return "expected";
    case Disposition::known: return "known";
    case Disposition::waived: return "waived";
    case Disposition::expired: return "waiver expired";
    case Disposition::unexpected: break;
  }
  return "unexpected";
}

Disposition disposition_of(const CaseResult& result, const Report& report) {
  static const ExpectedResults nothing;
  const ExpectedResults& expected = report.expected ? *report.expected : nothing;
  if (!expected.expects(result, report.date, report.strict)) {
    const auto applied = applied_to(result, report);
    const bool over = std::any_of(applied.begin(), applied.end(), [](const Applied& one) { return one.expired; });
    return over ? Disposition::expired : Disposition::unexpected;
  }
  Disposition disposition = Disposition::expected;
  for (const Applied& one : applied_to(result, report)) {
    // A waiver of observed violations covers only these.
    if (one.expired || (is_failure(result.judgment.verdict) && !one.of_verdict)) continue;
    if (!one.known->until.empty()) return Disposition::waived;
    disposition = Disposition::known;
  }
  return disposition;
}

std::vector<Applied> applied_to(const CaseResult& result, const Report& report) {
  if (!report.expected) return {};
  const ExpectedResults& expected = *report.expected;
  std::vector<Applied> all;
  const auto holds = [](const Known& known, Verdict verdict) {
    return known.verdict == verdict || known.instead == verdict;
  };
  const auto add_observed = [&](const Rule& rule, Verdict verdict, bool of_verdict) {
    const std::string of = fmt::format("{} as observed", rule.alias.empty() ? rule.id : rule.alias);
    if (std::any_of(all.begin(), all.end(), [&](const Applied& one) { return one.of == of; })) return;
    if (const Known* known = expected.find_observed(rule, report.date)) {
      if (holds(*known, verdict)) all.push_back({known, of, false, of_verdict});
    } else if (const Known* over = expected.expired_observed(rule, report.date)) {
      all.push_back({over, of, true, of_verdict});
    }
  };
  const Verdict verdict = result.judgment.verdict;
  if (result.judgment.rule) {
    add_observed(*result.judgment.rule, verdict, true);
  } else if (const Known* known = expected.find(*result.of, report.date)) {
    if (verdict != Verdict::pass && holds(*known, verdict)) all.push_back({known, {}, false, true});
  } else if (const Known* over = expected.expired(*result.of, report.date)) {
    if (is_failure(verdict)) all.push_back({over, {}, true, true});
  }
  for (const Violation& violation : result.observed.violations) add_observed(violation.of(), Verdict::fail, false);
  return all;
}

std::string text_of(const Applied& applied) {
  const Known& known = *applied.known;
  return fmt::format("{}{}{}{}", applied.of, applied.of.empty() ? "" : ": ",
                     known.until.empty() ? "" : fmt::format("waived until {}: ", known.until), known.reason);
}

std::string remark_of(const CaseResult& result, const Report& report) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  for (const Applied& one : applied_to(result, report)) add(text_of(one));
  static const ExpectedResults nothing;
  const ExpectedResults& expected = report.expected ? *report.expected : nothing;
  const Verdict verdict = result.judgment.verdict;
  if (expected.expects(result, report.date, report.strict)) return text;
  if (const Known* known = result.judgment.rule ? nullptr : expected.find(*result.of, report.date);
      known && known->verdict != verdict && known->instead != verdict && !(known->waiver && verdict == Verdict::pass))
    add(fmt::format("the known result is {}: {}", to_string(known->verdict), known->reason));
  for (const Violation& violation : result.observed.violations)
    if (!expected.find_observed(violation.of(), report.date))
      add(fmt::format("monitors observe a violation of {}",
                      violation.of().alias.empty() ? violation.of().id : violation.of().alias));
  return text;
}

std::uint64_t run_seed_of(const CaseResult& result, const Report& report) {
  for (const Attempt& one : result.attempts)
    if (one.verdict == result.judgment.verdict) return one.seed;
  return report.seed;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,@%+-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string repeat_command(const CaseResult& result, const Report& report) {
  if (!report.arguments || (!is_failure(result.judgment.verdict) && result.observed.violations.empty())) return {};
  std::string command = "rdmawire certify";
  for (const std::string& argument : *report.arguments) command += " " + shell_word(argument);
  command += fmt::format(" --only {} --seed {}", shell_word(result.of->id()), run_seed_of(result, report));
  const std::string row = text_of_row(result.row);
  return row.empty() ? command : command + " --row " + shell_word(row);
}

std::string text_of(const CaseResult& result, bool steps) {
  const Rule& rule = *result.of->rule;
  const Judgment& judgment = result.judgment;
  std::string text = fmt::format("{:<16} {:<9} {}\n", to_string(judgment.verdict), rule.alias, result.of->id());
  const bool deviates = judgment.verdict == Verdict::fail || judgment.verdict == Verdict::fail_wrong_code;
  if (judgment.rule)
    text += fmt::format("    violates  {}{}{}\n", judgment.rule->alias, judgment.rule->alias.empty() ? "" : " ",
                        judgment.rule->id);
  if (deviates) text += fmt::format("    reference {}\n", clauses_of(judgment.rule ? *judgment.rule : rule));
  if (!judgment.expected.empty()) text += fmt::format("    expected  {}\n", judgment.expected);
  if (!judgment.actual.empty())
    text += fmt::format("    {}  {}\n", deviates ? "actual  " : "because ", judgment.actual);
  for (const WireViolation& violation : result.wire)
    if (&*violation.rule != judgment.rule && (judgment.rule || &*violation.rule != &rule || !deviates))
      text += fmt::format("    in {} frame{}  {}: expected {}; got {}\n", violation.count,
                          violation.count == 1 ? "" : "s", violation.rule->id, violation.expected, violation.actual);
  for (const Violation& violation : result.observed.violations)
    text += fmt::format("    observed  {} {}\n    reference {}\n    expected  {}\n    actual    {}\n",
                        violation.of().alias, violation.of().id, clauses_of(violation.of()),
                        violation.statement.expected, violation.statement.actual);
  if (const std::string row = text_of_row(result.row); !row.empty()) text += fmt::format("    row       {}\n", row);
  if (result.rows.size() > 1 && is_failure(judgment.verdict)) {
    const std::vector<EvaluatedRow> rows = environment_rows_of(result);
    const auto failed = std::count_if(rows.begin(), rows.end(), [](const EvaluatedRow& row) { return row.failed; });
    text += fmt::format("    rows      {} failed, {} passed\n", failed, rows.size() - static_cast<std::size_t>(failed));
    const auto is_error = [](const RowResult& row) { return row.verdict == Verdict::error; };
    const bool all_ran = std::none_of(result.rows.begin(), result.rows.end(), is_error);
    if (const auto whenever = separating_combinations(rows); all_ran && !whenever.empty())
      text += fmt::format("    whenever  {}\n", text_of_alternatives(whenever));
  }
  if (result.attempts.size() > 1)
    text += fmt::format("    {}  {}\n", result.flaky() ? "flaky   " : "repeated", attempts_of(result));
  for (const std::string& complaint : result.complaints) text += fmt::format("    kernel message: {}\n", complaint);
  if (!steps) return text;
  const std::int64_t begin = result.transcript.empty() ? 0 : result.transcript.front().time;
  for (const Step& step : result.transcript) {
    if (step.kind == Step::Kind::link) continue;  // only in the capture
    text += fmt::format("    {:>10.3f} ms  {} {}\n", static_cast<double>(step.time - begin) / 1e6, mark(step.kind),
                        step.text);
  }
  return text;
}

std::string summary(const Report& report) {
  std::string text = fmt::format("{} case{} in {:.1f} s (wire clock):", report.results.size(),
                                 report.results.size() == 1 ? "" : "s", static_cast<double>(report.nanoseconds) / 1e9);
  const char* separator = " ";
  for (const auto& [verdict, count] : report.counts()) {
    text += fmt::format("{}{} {}", separator, count, to_string(verdict));
    separator = ", ";
  }
  const auto with = [&](auto... dispositions) {
    return std::count_if(report.results.begin(), report.results.end(), [&](const CaseResult& result) {
      const Disposition disposition = disposition_of(result, report);
      return ((disposition == dispositions) || ...);
    });
  };
  if (const auto unexpected = with(Disposition::unexpected, Disposition::expired))
    text += fmt::format("; {} UNEXPECTED", unexpected);
  const auto flaky = std::count_if(report.results.begin(), report.results.end(),
                                   [](const CaseResult& result) { return result.flaky(); });
  if (flaky) text += fmt::format("; {} flaky", flaky);
  text += fmt::format("; {}, seed {}\n", report.device, report.seed);
  const Observation observed = report.observed();
  const auto count = [&](auto which) {
    return std::count_if(observed.counters.begin(), observed.counters.end(), [&](const auto& entry) {
      return !only_positive(RuleId::at(entry.first)) && which(entry.second);
    });
  };
  // A rule whose monitor cannot detect a violation is no evidence.
  const auto confirmed = std::count_if(observed.counters.begin(), observed.counters.end(), [](const auto& entry) {
    return only_positive(RuleId::at(entry.first)) && entry.second.passed != 0;
  });
  text += fmt::format("monitors: {} rules passed, {} violated, {} inconclusive, {} not exercised; {} only confirmed\n",
                      count([](const ResultCounters& t) { return t.passed != 0 && t.violated == 0; }),
                      count([](const ResultCounters& t) { return t.violated != 0; }),
                      count([](const ResultCounters& t) { return t.passed == 0 && t.violated == 0; }),
                      report.watched().size() - observed.counters.size(), confirmed);
  for (const BasicViolation& basic : report.basic)
    text += fmt::format("every transfer of {} violates {}; cases of other rules are inconclusive\n",
                        to_string(basic.family), text_of_violation(basic.judgment));
  const auto repeated = std::count_if(report.results.begin(), report.results.end(),
                                      [](const CaseResult& result) { return result.attempts.size() > 1; });
  if (repeated > 0)
    text += fmt::format("repeated: {} of {} cases have the same verdict in all runs\n", repeated - flaky, repeated);
  if (report.strength > 0) text += text_of_rows(report);
  text += text_of(failure_conditions(report));
  text += text_of(environment_conditions(report));
  if (const auto waived = with(Disposition::waived), over = with(Disposition::expired); waived || over)
    text +=
        fmt::format("waivers: {} result{} waived, {} with an expired waiver\n", waived, waived == 1 ? "" : "s", over);
  if (!report.ics.empty()) text += text_of(report.ics);
  if (!report.partial.empty()) text += fmt::format("PARTIAL: {}\n", report.partial);
  return text;
}

}  // namespace rdmawire::conformance
