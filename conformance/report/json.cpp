#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "conformance/monitors/monitored.hpp"
#include "conformance/report/conditions.hpp"
#include "conformance/report/json_integer.hpp"
#include "conformance/report/report.hpp"
#include "conformance/rules/clause_numbers.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::ordered_json;

struct KindName {
  Step::Kind kind;
  std::string_view name;
};
constexpr KindName kind_names[] = {
    {Step::Kind::sent, "sent"},         {Step::Kind::received, "received"}, {Step::Kind::verbs, "verbs"},
    {Step::Kind::expected, "expected"}, {Step::Kind::note, "note"},         {Step::Kind::violation, "violation"},
    {Step::Kind::link, "link"},
};

std::string_view to_string(Step::Kind kind) {
  return std::find_if(std::begin(kind_names), std::end(kind_names), [&](const KindName& n) { return n.kind == kind; })
      ->name;
}

std::optional<std::vector<std::uint8_t>> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes(hex.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* digits = hex.data() + 2 * i;
    if (const auto read = std::from_chars(digits, digits + 2, bytes[i], 16); read.ptr != digits + 2)
      return std::nullopt;
  }
  return bytes;
}

std::optional<Step> step_of(const nlohmann::json& json) {
  const std::string kind = json.value("kind", "");
  const auto known =
      std::find_if(std::begin(kind_names), std::end(kind_names), [&](const KindName& n) { return n.name == kind; });
  auto frame = bytes_of(json.value("frame", ""));
  if (known == std::end(kind_names) || !frame) return std::nullopt;
  return Step{known->kind, integer_in<std::int64_t>(json, "time_ns"), json.value("text", ""), std::move(*frame)};
}

}  // namespace

Transcript abridged(const Transcript& all, std::size_t first, std::size_t last) {
  if (all.size() <= first + last) return all;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = all.end() - static_cast<std::ptrdiff_t>(last);
  Transcript some(all.begin(), begin);
  some.push_back(
      {Step::Kind::note, begin->time, fmt::format("{} further steps are only in the capture", end - begin), {}});
  some.insert(some.end(), end, all.end());
  return some;
}

Json steps_json(const Transcript& transcript) {
  Json steps = Json::array();
  for (const Step& step : transcript) {
    Json one{{"kind", to_string(step.kind)}, {"time_ns", step.time}, {"text", step.text}};
    if (!step.frame.empty()) {
      std::string hex;
      for (const std::uint8_t byte : step.frame) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
      one["frame"] = std::move(hex);
    }
    steps.push_back(std::move(one));
  }
  return steps;
}

namespace {

/// A row as text with one digit for each parameter: "0203…". No parameter has more than 10 values.
std::string digits_of(const ParameterRow& row) {
  std::string digits;
  for (const std::size_t value : row) digits += static_cast<char>('0' + value);
  return digits;
}

std::optional<ParameterRow> row_of(const std::string& digits) {
  if (digits.size() != parameter_count) return std::nullopt;
  ParameterRow row;
  for (std::size_t i = 0; i < parameter_count; ++i) {
    const std::size_t value = static_cast<unsigned char>(digits[i]) - std::size_t{'0'};
    if (value >= all_parameters()[i].values.size()) return std::nullopt;
    row.push_back(value);
  }
  return row;
}

/// Adds the rows of the environment and the use of its parameters.
void add_rows(Json& json, const CaseResult& result) {
  if (result.rows.empty() && result.row == default_row() && result.free == 0 && result.fixed.empty()) return;
  json["row"] = text_of_row(result.row);
  Json varied = Json::array(), fixed = Json::array();
  for (const ParameterInfo& info : all_parameters())
    if ((result.free >> static_cast<unsigned>(info.parameter) & 1U) != 0) varied.push_back(info.name);
  for (const FixedParameter& one : result.fixed)
    fixed.push_back({{"name", info_of(one.parameter).name}, {"reason", one.reason}});
  json["parameters"] = {{"varied", std::move(varied)}, {"fixed", std::move(fixed)}};
  if (result.rows.empty()) return;
  Json& rows = json["rows"] = Json::array();
  for (const RowResult& one : result.rows) {
    Json row{{"values", digits_of(one.row)}, {"verdict", to_string(one.verdict)}};
    if (one.violated) row["violated"] = one.violated->id;
    if (one.flaky) row["flaky"] = true;
    rows.push_back(std::move(row));
  }
}

/// Reads the members of add_rows(). Returns false if they are malformed.
bool read_rows(const nlohmann::json& json, CaseResult& result) {
  const auto row = parse_row(json.value("row", ""));
  if (!row) return false;
  result.row = *row;
  const auto find = [](const std::string& name) {
    const auto infos = all_parameters();
    const auto found = std::ranges::find(infos, name, &ParameterInfo::name);
    return found == infos.end() ? nullptr : &*found;
  };
  const nlohmann::json parameters = json.value("parameters", nlohmann::json::object());
  for (const nlohmann::json& name : parameters.value("varied", nlohmann::json::array())) {
    const ParameterInfo* info = find(name.get<std::string>());
    if (!info) return false;
    result.free |= 1U << static_cast<unsigned>(info->parameter);
  }
  for (const nlohmann::json& one : parameters.value("fixed", nlohmann::json::array())) {
    const ParameterInfo* info = find(one.value("name", ""));
    if (!info) return false;
    result.fixed.push_back({info->parameter, one.value("reason", "")});
  }
  for (const nlohmann::json& one : json.value("rows", nlohmann::json::array())) {
    auto values = row_of(one.value("values", ""));
    const auto verdict = verdict_of(one.value("verdict", ""));
    const std::string violated = one.value("violated", "");
    const Rule* rule = violated.empty() ? nullptr : find_rule(violated);
    if (!values || !verdict || (!violated.empty() && !rule)) return false;
    result.rows.push_back({std::move(*values), *verdict, rule, one.value("flaky", false)});
  }
  return true;
}

/// The parameters of the rows, in the order of the digits of "values".
Json parameters_json() {
  Json list = Json::array();
  for (const ParameterInfo& info : all_parameters())
    list.push_back({{"name", info.name}, {"meaning", info.sentence}, {"values", info.values}});
  return list;
}

}  // namespace

Json to_json(const CaseResult& result) {
  // Limits the size of the report if a case has very many packets.
  constexpr std::size_t first_steps = 1000, last_steps = 200;
  const Rule& rule = *result.of->rule;
  Json json{{"id", result.of->id()},
            {"rule", rule.id},
            {"alias", rule.alias},
            {"level", conformance::to_string(rule.level)},
            {"clauses", clauses_of(rule)},
            {"sentence", rule.sentence},
            {"verdict", to_string(result.judgment.verdict)}};
  if (!result.judgment.expected.empty()) json["expected"] = result.judgment.expected;
  if (!result.judgment.actual.empty()) json["actual"] = result.judgment.actual;
  if (const Rule* other = result.judgment.rule)
    json["violated"] = {{"rule", other->id}, {"alias", other->alias}, {"clauses", clauses_of(*other)}};
  json["seed"] = result.seed;
  json["duration_ns"] = result.nanoseconds;
  if (!result.attempts.empty()) {
    Json& attempts = json["attempts"] = Json::array();
    for (const Attempt& one : result.attempts)
      attempts.push_back({{"verdict", to_string(one.verdict)}, {"seed", one.seed}});
    json["flaky"] = result.flaky();
  }
  add_rows(json, result);
  if (!result.complaints.empty()) json["kernel_messages"] = result.complaints;
  if (!result.wire.empty()) {
    Json& wire = json["frames"] = Json::array();
    for (const WireViolation& one : result.wire)
      wire.push_back({{"rule", one.rule->id},
                      {"alias", one.rule->alias},
                      {"clauses", clauses_of(*one.rule)},
                      {"count", one.count},
                      {"lost", one.lost},
                      {"expected", one.expected},
                      {"actual", one.actual}});
  }
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
  json["steps"] = steps_json(abridged(result.transcript, first_steps, last_steps));
  return json;
}

std::optional<CaseResult> result_of(const nlohmann::json& json) {
  try {
    const Case* which = find_case(json.value("id", ""));
    const auto verdict = verdict_of(json.value("verdict", ""));
    if (!which || !verdict) return std::nullopt;
    CaseResult result;
    result.of = which;
    result.judgment = {*verdict, json.value("expected", ""), json.value("actual", "")};
    if (const auto other = json.find("violated"); other != json.end()) {
      result.judgment.rule = find_rule(other->value("rule", ""));
      if (!result.judgment.rule) return std::nullopt;
    }
    for (const nlohmann::json& one : json.value("frames", nlohmann::json::array())) {
      const Rule* rule = find_rule(one.value("rule", ""));
      if (!rule) return std::nullopt;
      result.wire.push_back({RuleId::at(static_cast<std::size_t>(rule - rules.data())), one.value("expected", ""),
                             one.value("actual", ""), one.value("lost", false),
                             integer_in<std::uint64_t>(one, "count")});
    }
    result.seed = integer_in<std::uint64_t>(json, "seed");
    result.nanoseconds = integer_in<std::int64_t>(json, "duration_ns");
    for (const nlohmann::json& one : json.value("attempts", nlohmann::json::array())) {
      const auto ended = verdict_of(one.value("verdict", ""));
      if (!ended) return std::nullopt;
      result.attempts.push_back({*ended, integer_in<std::uint64_t>(one, "seed")});
    }
    if (!read_rows(json, result)) return std::nullopt;
    for (const nlohmann::json& one : json.value("observed", nlohmann::json::array())) {
      const Rule* rule = find_rule(one.value("rule", ""));
      if (!rule) return std::nullopt;
      Violation& violation = result.observed.violations.emplace_back();
      violation.rule = static_cast<std::size_t>(rule - rules.data());
      violation.place.frame = integer_in<std::uint64_t>(one, "frame");
      violation.count = integer_in<std::uint64_t>(one, "count");
      violation.statement = {one.value("expected", ""), one.value("actual", ""), {}};
    }
    result.complaints = json.value("kernel_messages", std::vector<std::string>());
    for (const nlohmann::json& one : json.value("steps", nlohmann::json::array())) {
      auto step = step_of(one);
      if (!step) return std::nullopt;
      result.transcript.push_back(std::move(*step));
    }
    return result;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // another format
  }
}

namespace {

/// The monitored rules of the cases' family, with their results over the whole run.
Json rules_of(const Report& report) {
  const Observation observed = report.observed();
  Json list = Json::array();
  for (const RuleId rule : report.watched()) {
    const auto found = observed.counters.find(rule.index());
    const ResultCounters counts = found == observed.counters.end() ? ResultCounters{} : found->second;
    list.push_back({{"rule", rule->id},
                    {"alias", rule->alias},
                    {"state", counts.state()},
                    {"detects_violations", !only_positive(rule)},
                    {"passed", counts.passed},
                    {"violated", counts.violated},
                    {"inconclusive", counts.inconclusive()}});
  }
  return list;
}

/// Adds whether the result was expected, and the matching known result.
void add_known(Json& json, const CaseResult& result, const Report& report) {
  static const ExpectedResults nothing;
  const ExpectedResults& expected = report.expected ? *report.expected : nothing;
  json["unexpected"] = !expected.expects(result, report.date, report.strict);
  json["assessment"] = to_string(disposition_of(result, report));
  if (std::string command = repeat_command(result, report); !command.empty()) json["repeat"] = std::move(command);
  const auto words = [](const Known& known) {
    Json object{{"verdict", to_string(known.verdict)}, {"reason", known.reason}};
    for (const auto& [key, text] : {std::pair("evidence", &known.evidence), std::pair("right", &known.right),
                                    std::pair("until", &known.until), std::pair("approved_by", &known.approved_by)})
      if (!text->empty()) object[key] = *text;
    return object;
  };
  if (const Known* known = expected.find(*result.of, report.date)) json["known"] = words(*known);
  for (std::size_t i = 0; i < result.observed.violations.size(); ++i)
    if (const Known* known = expected.find_observed(result.observed.violations[i].of(), report.date))
      json["observed"][i]["known"] = words(*known);
  if (const Known* over = expected.expired(*result.of, report.date)) json["expired"] = words(*over);
}

}  // namespace

Json to_json(const Report& report) {
  Json counts = Json::object();
  for (const auto& [verdict, count] : report.counts()) counts[std::string(to_string(verdict))] = count;
  Json json{{"format", 1},
            {"program", "rdmawire " RDMAWIRE_VERSION},
            {"note", disclaimer},
            {"device", report.device},
            {"details", report.details},
            {"seed", report.seed},
            {"duration_ns", report.nanoseconds},
            {"verdicts", std::move(counts)},
            {"rules", rules_of(report)}};
  if (!report.date.empty()) json["date"] = report.date;
  if (const ClauseNumberCounts numbers = count_clause_numbers(); numbers.supplied > 0)
    json["clause_numbers"] = {{"supplied", numbers.supplied}, {"missing", numbers.missing}};
  if (!report.partial.empty()) json["partial"] = report.partial;
  if (!report.basic.empty()) {
    Json& basic = json["basic"] = Json::array();
    for (const BasicViolation& one : report.basic)
      basic.push_back({{"rule", one.judgment.rule->id},
                       {"alias", one.judgment.rule->alias},
                       {"clauses", clauses_of(*one.judgment.rule)},
                       {"family", to_string(one.family)},
                       {"expected", one.judgment.expected},
                       {"actual", one.judgment.actual}});
  }
  if (!report.preflight.empty()) {
    Json& lines = json["preflight"] = Json::array();
    for (const Finding& one : report.preflight) {
      lines.push_back({{"status", to_string(one.status)}, {"check", one.what}, {"observed", one.found}});
      if (!one.advice.empty()) lines.back()["advice"] = one.advice;
    }
  }
  if (const auto conditions = failure_conditions(report); !conditions.empty())
    json["failure_conditions"] = to_json(conditions);
  if (report.strength > 0) {
    const CombinationCounts combinations = combinations_of(report);
    json["strength"] = report.strength;
    json["combinations"] = {
        {"existing", combinations.existing}, {"possible", combinations.possible}, {"tested", combinations.covered}};
    json["parameters"] = parameters_json();
  }
  if (const auto conditions = environment_conditions(report); !conditions.empty())
    json["environment_conditions"] = to_json(conditions);
  if (!report.ics.empty()) json["ics"] = to_json(report.ics);
  if (!report.changes.empty()) {
    Json& changes = json["changes"] = Json::array();
    for (const Change& one : report.changes) {
      changes.push_back({{"kind", to_string(one.kind)}, {"id", one.id}, {"before", one.before}, {"after", one.after}});
      if (!one.observed.empty()) changes.back()["observed"] = one.observed;
    }
  }
  Json& cases = json["cases"] = Json::array();
  for (const CaseResult& result : report.results) {
    cases.push_back(to_json(result));
    add_known(cases.back(), result, report);
  }
  return json;
}

}  // namespace rdmawire::conformance
