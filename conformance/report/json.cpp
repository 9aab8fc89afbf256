#include <fmt/format.h>

#include "conformance/monitors/monitored.hpp"
#include "conformance/report/report.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::ordered_json;

std::string_view to_string(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::sent: return "sent";
    case Step::Kind::received: return "received";
    case Step::Kind::verbs: return "verbs";
    case Step::Kind::expected: return "expected";
    case Step::Kind::note: return "note";
    case Step::Kind::deviation: return "deviation";
  }
  return "note";
}

Json case_of(const CaseResult& result) {
  const Rule& rule = *result.of->rule;
  Json steps = Json::array();
  for (const Step& step : result.transcript) {
    Json one{{"kind", to_string(step.kind)}, {"time_ns", step.time}, {"text", step.text}};
    if (!step.frame.empty()) {
      std::string hex;
      for (const std::uint8_t octet : step.frame) fmt::format_to(std::back_inserter(hex), "{:02x}", octet);
      one["frame"] = std::move(hex);
    }
    steps.push_back(std::move(one));
  }
  Json json{{"id", result.of->id()},
            {"rule", rule.id},
            {"alias", rule.alias},
            {"level", conformance::to_string(rule.level)},
            {"clauses", clauses_of(rule)},
            {"sentence", rule.sentence},
            {"verdict", to_string(result.judgement.verdict)}};
  if (!result.judgement.expected.empty()) json["expected"] = result.judgement.expected;
  if (!result.judgement.actual.empty()) json["actual"] = result.judgement.actual;
  json["seed"] = result.seed;
  json["duration_ns"] = result.nanoseconds;
  Json observed = Json::array();
  for (const Violation& violation : result.observed.violations)
    observed.push_back({{"rule", violation.of().id},
                        {"alias", violation.of().alias},
                        {"clauses", clauses_of(violation.of())},
                        {"frame", violation.place.frame},
                        {"count", violation.count},
                        {"expected", violation.statement.expected},
                        {"actual", violation.statement.actual}});
  json["observed"] = std::move(observed);
  json["steps"] = std::move(steps);
  return json;
}

/// Every rule that monitors judge, and how it fared over the whole run.
Json rules_of(const Observation& observed) {
  Json list = Json::array();
  for (const RuleId rule : monitored) {
    const auto found = observed.tallies.find(rule.index());
    const Tally tally = found == observed.tallies.end() ? Tally{} : found->second;
    list.push_back({{"rule", rule->id},
                    {"alias", rule->alias},
                    {"state", tally.state()},
                    {"held", tally.holds},
                    {"violated", tally.violated},
                    {"inconclusive", tally.inconclusive()}});
  }
  return list;
}

}  // namespace

Json to_json(const Report& report) {
  Json counts = Json::object();
  for (const auto& [verdict, count] : report.counts()) counts[std::string(to_string(verdict))] = count;
  Json cases = Json::array();
  for (const CaseResult& result : report.results) cases.push_back(case_of(result));
  return {{"format", 1},
          {"note", disclaimer},
          {"device", report.device},
          {"details", report.details},
          {"seed", report.seed},
          {"duration_ns", report.nanoseconds},
          {"verdicts", std::move(counts)},
          {"rules", rules_of(report.observed())},
          {"cases", std::move(cases)}};
}

}  // namespace rdmawire::conformance
