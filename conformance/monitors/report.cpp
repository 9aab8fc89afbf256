/// The result of a check as one JSON object.

#include "conformance/monitors/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "captures/analysis/findings.hpp"
#include "captures/analysis/memory_reserve.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/rules/clause_numbers.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {
namespace {

using captures::analysis::to_text;

std::string seconds(std::int64_t ns) {
  std::string text;
  output::append_seconds(text, ns);
  return text;
}
Json frame_or_null(std::uint64_t frame) { return frame == 0 ? Json() : Json(frame); }
std::string_view text(Side end) { return end == Side::a ? "a" : "b"; }

Json rule_head(const Rule& rule) {
  return Json{{"rule", rule.id},
              {"alias", rule.alias.empty() ? Json() : Json(rule.alias)},
              {"level", to_string(rule.level)},
              {"clause", clauses_of(rule)},
              {"sentence", rule.sentence}};
}

/// Describes an AETH.
Json response_of(const SequenceEntry& entry) {
  if (!entry.has_aeth) return {};
  return fmt::format("{}, MSN {}", to_string(Syndrome(entry.syndrome)), entry.msn);
}

Json entry_json(const SequenceEntry& entry, const Violation& violation) {
  const auto& related = violation.statement.related;
  const bool is_related = std::find(related.begin(), related.end(), entry.frame) != related.end();
  return Json{{"frame", entry.frame},
              {"time", seconds(entry.time)},
              {"from", text(entry.from)},
              {"opcode", entry.opcode},
              {"opcode_name", entry.label.empty() ? opcode(entry.opcode).name : entry.label},
              {"psn", entry.psn},
              {"payload", entry.payload},
              {"ack_request", entry.ack_request},
              {"response", response_of(entry)},
              {"note", entry.frame == violation.place.frame ? Json("violation")
                       : is_related                         ? Json("related")
                       : entry.repeated                     ? Json("captured twice")
                                                            : Json()}};
}

Json end_json(const tracking::PortAddress& address, std::optional<std::uint32_t> qp) {
  return Json{{"address", to_text(address)}, {"qp", qp ? Json(*qp) : Json()}};
}

Json violation_json(const Violation& violation, const CheckResult& result, std::size_t number) {
  Json json{{"number", number}};
  json.update(rule_head(violation.of()));
  const auto connection = result.connections.find(violation.place.connection);
  if (connection != result.connections.end()) {
    const Connection& c = connection->second;
    const auto& own = c.at(violation.place.end);
    const auto& peer = c.at(tracking::other(violation.place.end));
    json["connection"] = c.id;
    json["service"] = to_string(c.service);
    json["end"] = text(violation.place.end);
    json["from"] = end_json(own.address, own.qp_known ? std::optional(own.qp) : std::nullopt);
    json["to"] = end_json(peer.address, peer.qp_known ? std::optional(peer.qp) : std::nullopt);
  } else {
    json["connection"] = Json();
    json["service"] = Json();
    json["end"] = Json();
    const std::uint64_t number_of_flow = violation.place.flow.number;
    const bool datagram = number_of_flow >> 48 & 1;  // the number contains both QP numbers
    json["from"] =
        end_json(violation.place.flow.from,
                 datagram ? std::optional(static_cast<std::uint32_t>(number_of_flow >> 24 & 0xffffff)) : std::nullopt);
    json["to"] = end_json(violation.place.flow.to, static_cast<std::uint32_t>(number_of_flow & 0xffffff));
  }
  json["frame"] = violation.place.frame;
  json["last_frame"] = violation.last_frame;
  json["count"] = violation.count;
  json["time"] = seconds(violation.place.time);
  json["psn"] = violation.place.psn;
  json["expected"] = violation.statement.expected;
  json["actual"] = violation.statement.actual;
  json["related"] = Json::array();
  for (const std::uint64_t frame : violation.statement.related)
    if (frame != 0) json["related"].push_back(frame);
  json["sequence"] = Json::array();
  for (const SequenceEntry& entry : violation.sequence) json["sequence"].push_back(entry_json(entry, violation));
  return json;
}

Json rule_json_of(std::size_t index, const ResultCounters& counts) {
  Json json = rule_head(rules[index]);
  json["monitored"] = is_monitored(RuleId::at(index));
  json["state"] = counts.state();
  json["evaluated"] = counts.evaluated();
  json["passed"] = counts.passed;
  json["violated"] = counts.violated;
  json["inconclusive"] = counts.inconclusive();
  json["reasons"] = Json::object();
  for (std::size_t i = 0; i < reasons; ++i)
    if (counts.inconclusive_by_reason[i])
      json["reasons"][std::string(to_string(static_cast<Reason>(i)))] = counts.inconclusive_by_reason[i];
  return json;
}

Json input_json(const CheckResult& result) {
  Json files = Json::array();
  for (const auto& file : result.input.files) {
    Json json{{"name", file.name},
              {"packets", file.packets},
              {"bytes", file.bytes},
              {"first_frame", frame_or_null(file.first_frame)},
              {"lost_by_capture", file.lost_by_capture ? Json(*file.lost_by_capture) : Json()}};
    if (!file.error.empty()) json["error"] = file.error;
    files.push_back(std::move(json));
  }
  return Json{{"files", std::move(files)},
              {"filter", result.input.filter.empty() ? Json() : Json(result.input.filter)},
              {"connection", frame_or_null(result.input.connection)},
              {"memory", result.input.memory ? Json(result.input.memory) : Json()},
              {"exact", result.evicted_connections + result.evicted_packets == 0},
              {"evicted_connections", result.evicted_connections},
              {"evicted_packets", result.evicted_packets}};
}

Json summary_json(const CheckResult& result) {
  std::uint64_t packets = 0, passed = 0, violated = 0, inconclusive = 0;
  for (const auto& file : result.input.files) packets += file.packets;
  Json states{{"passed", 0}, {"violated", 0}, {"inconclusive", 0}, {"not exercised", 0}};
  Json levels{{"shall", 0}, {"should", 0}, {"may", 0}, {"tool", 0}};
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const ResultCounters& counts = result.counters[i];
    passed += counts.passed;
    violated += counts.violated;
    inconclusive += counts.inconclusive();
    const Json rule = rule_json_of(i, counts);
    Json& state = states[rule["state"].get<std::string>()];
    state = state.get<int>() + 1;
    if (counts.violated) {
      Json& level = levels[std::string(to_string(rules[i].level))];
      level = level.get<int>() + 1;
    }
  }
  return Json{{"packets", packets},
              {"connections", result.all_connections},
              {"rules", states},
              {"violated_by_level", levels},
              {"evaluations", {{"passed", passed}, {"violated", violated}, {"inconclusive", inconclusive}}},
              {"violations", result.violations.size()},
              {"omitted_violations", result.omitted}};
}

}  // namespace

Json report_of(const CheckResult& result) {
  Json report{{"schema", "rdmawire.check/2"}, {"program", "rdmawire " RDMAWIRE_VERSION}, {"notice", notice}};
  // Reserve memory: ordered_json copies all members when their list grows, because const keys cannot be moved.
  report.get_ref<Json::object_t&>().reserve(32);
  if (const ClauseNumberCounts counts = count_clause_numbers(); counts.supplied > 0)
    report["clause_numbers"] = Json{{"supplied", counts.supplied}, {"missing", counts.missing}};
  report["input"] = input_json(result);
  report["summary"] = summary_json(result);
  report["violations"] = Json::array();
  for (std::size_t i = 0; i < result.violations.size(); ++i) {
    captures::analysis::MemoryReserve::check();
    report["violations"].push_back(violation_json(result.violations[i], result, i + 1));
  }
  report["rules"] = Json::array();
  for (std::size_t i = 0; i < rules.size(); ++i) report["rules"].push_back(rule_json_of(i, result.counters[i]));
  return report;
}

}  // namespace rdmawire::conformance
