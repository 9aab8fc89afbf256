#include "conformance/report/traceability.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "conformance/cases/case_parameters.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/rules/clause_numbers.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::ordered_json;

/// The result of a rule's monitor over the whole run, as text.
std::string monitor_of(const Rule& rule, const Observation& observed) {
  const std::size_t index = static_cast<std::size_t>(&rule - rules.data());
  const auto found = observed.counters.find(index);
  if (std::none_of(monitored.begin(), monitored.end(), [&](const RuleId one) { return one.index() == index; }))
    return "none";
  return std::string(found == observed.counters.end() ? ResultCounters{}.state() : found->second.state());
}

/// Why a rule has no result.
std::string reason_of(const Rule& rule, const Report& report) {
  bool any = false, family = false;
  for (const Case& which : cases())
    if (&*which.rule == &rule) {
      any = true;
      family |= std::any_of(report.results.begin(), report.results.end(),
                            [&](const CaseResult& result) { return result.of->family() == which.family(); });
    }
  if (!any) return fmt::format("the rule has no case (mode {})", to_string(rule.mode));
  if (!report.results.empty() && !family) return "the device does not support this transport";
  return report.partial.empty() ? "no case of this rule was selected" : "the cases of this rule did not run";
}

Json row_of(const CaseResult& result, const Report& report) {
  Json parameters = Json::object();
  if (!result.of->variant.empty()) parameters["variant"] = result.of->variant;
  for (const CaseParameter& one : parameters_of(*result.of)) parameters[one.name] = one.value;
  Json row{{"parameters", std::move(parameters)},
           {"seed", run_seed_of(result, report)},
           {"verdict", to_string(result.judgment.verdict)},
           {"assessment", to_string(disposition_of(result, report))}};
  if (const Rule* violated = result.judgment.rule) row["violated"] = violated->id;
  row["capture"] = "captures/" + capture_name(result);
  row["frames"] = frames_of(result);
  row["evidence"] = evidence_of(result);
  if (std::string command = repeat_command(result, report); !command.empty()) row["repeat"] = std::move(command);
  return row;
}

std::map<const Rule*, std::vector<const CaseResult*>> results_by_rule(const Report& report) {
  std::map<const Rule*, std::vector<const CaseResult*>> by_rule;
  for (const CaseResult& result : report.results) by_rule[&*result.of->rule].push_back(&result);
  return by_rule;
}

/// A field of RFC 4180. Spreadsheets execute a field that starts with one of =+-@ as a formula.
std::string field(std::string_view text) {
  std::string quoted =
      text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos ? "\"" : "\"'";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_row(std::span<const std::string> fields) {
  std::string row;
  for (const std::string& one : fields) row += (row.empty() ? "" : ",") + field(one);
  return row + "\r\n";
}

}  // namespace

std::uint64_t frames_of(const CaseResult& result) {
  return static_cast<std::uint64_t>(std::count_if(result.transcript.begin(), result.transcript.end(),
                                                  [](const Step& step) { return !step.frame.empty(); }));
}

std::vector<std::uint64_t> evidence_of(const CaseResult& result) {
  std::set<std::uint64_t> frames;
  std::uint64_t frame = 0;
  for (const Step& step : result.transcript) {
    if (!step.frame.empty()) ++frame;
    // A violation without a frame before it is a comment of the first frame.
    if (step.kind == Step::Kind::violation) frames.insert(std::max<std::uint64_t>(frame, 1));
  }
  for (const Violation& violation : result.observed.violations) frames.insert(violation.place.frame);
  const std::uint64_t all = frames_of(result);
  std::erase_if(frames, [&](std::uint64_t one) { return one == 0 || one > all; });
  return {frames.begin(), frames.end()};
}

Json traceability(const Report& report) {
  const auto by_rule = results_by_rule(report);
  const Observation observed = report.observed();
  Json list = Json::array();
  for (const Rule& rule : rules) {
    Json clauses = Json::array();
    for (const auto& [clause, is_supplied] : sources_of(rule)) {
      clauses.push_back({{"clause", to_string(clause)}, {"verified", clause.verified}});
      if (is_supplied) clauses.back()["supplied"] = true;
    }
    Json one{{"rule", rule.id},           {"alias", rule.alias},           {"level", to_string(rule.level)},
             {"sentence", rule.sentence}, {"clauses", std::move(clauses)}, {"monitor", monitor_of(rule, observed)},
             {"cases", Json::array()}};
    if (const auto found = by_rule.find(&rule); found != by_rule.end()) {
      for (const CaseResult* result : found->second)
        one["cases"].push_back({{"case", result->of->id()}, {"rows", Json::array({row_of(*result, report)})}});
    } else {
      one["not_tested"] = reason_of(rule, report);
    }
    list.push_back(std::move(one));
  }
  return {{"format", 1},
          {"note", disclaimer},
          {"device", report.device},
          {"details", report.details},
          {"rules", std::move(list)}};
}

std::string traceability_csv(const Report& report) {
  const auto by_rule = results_by_rule(report);
  const Observation observed = report.observed();
  std::string text =
      "clause,clause number verified,rule,alias,level,sentence,case,parameters,seed,verdict,assessment,capture,frames,"
      "evidence frames,monitor,remark,repeat\r\n";
  for (const Rule& rule : rules) {
    const auto found = by_rule.find(&rule);
    const std::string monitor = monitor_of(rule, observed);
    for (const auto& [clause, is_supplied] : sources_of(rule)) {
      const std::vector<std::string> start{to_string(clause),
                                           is_supplied       ? "supplied"
                                           : clause.verified ? "yes"
                                                             : "no",
                                           std::string(rule.id),
                                           std::string(rule.alias),
                                           std::string(to_string(rule.level)),
                                           std::string(rule.sentence)};
      const auto add = [&](std::vector<std::string> end) {
        std::vector<std::string> all = start;
        all.insert(all.end(), end.begin(), end.end());
        text += csv_row(all);
      };
      if (found == by_rule.end()) {
        add({"", "", "", "not tested", "", "", "", "", monitor, reason_of(rule, report), ""});
        continue;
      }
      for (const CaseResult* result : found->second)
        add({result->of->id(), std::string(result->of->variant), std::to_string(run_seed_of(*result, report)),
             std::string(to_string(result->judgment.verdict)), std::string(to_string(disposition_of(*result, report))),
             "captures/" + capture_name(*result), std::to_string(frames_of(*result)),
             fmt::format("{}", fmt::join(evidence_of(*result), " ")), monitor, remark_of(*result, report),
             repeat_command(*result, report)});
    }
  }
  return text;
}

}  // namespace rdmawire::conformance
