#include "conformance/fuzzer/saved.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace rdmawire::fuzzer {

namespace {

using SortedJson = nlohmann::json;

constexpr int deepest = 16;

struct InvalidMember {
  std::string what;
};

struct Count {
  std::string_view name;
  std::uint64_t Statistics::*member;
};
constexpr std::array saved_counts{
    Count{"executions", &Statistics::executions}, Count{"steps", &Statistics::steps},
    Count{"lives", &Statistics::lives},           Count{"connections", &Statistics::connections},
    Count{"findings", &Statistics::findings},     Count{"alarms", &Statistics::alarms},
    Count{"restarts", &Statistics::restarts},
};

struct FindingCount {
  std::string_view name;
  std::uint64_t Finding::*member;
};
constexpr std::array finding_counts{
    FindingCount{"trials", &Finding::trials}, FindingCount{"restarts", &Finding::restarts},
    FindingCount{"seed", &Finding::seed},     FindingCount{"execution", &Finding::execution},
    FindingCount{"times", &Finding::times},
};

std::uint64_t count_of(const SortedJson& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end()) return 0;
  if (!found->is_number_unsigned()) throw InvalidMember{fmt::format("{} is not a count", name)};
  return found->get<std::uint64_t>();
}

std::string text_of(const SortedJson& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) throw InvalidMember{fmt::format("{} is not a string", name)};
  return found->get<std::string>();
}

bool flag_of(const SortedJson& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_boolean()) throw InvalidMember{fmt::format("{} is not a Boolean", name)};
  return found->get<bool>();
}

std::vector<std::string> texts_of(const SortedJson& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) throw InvalidMember{fmt::format("{} is not a list", name)};
  std::vector<std::string> texts;
  for (const SortedJson& one : *found) {
    if (!one.is_string()) throw InvalidMember{fmt::format("{} contains an element that is not a string", name)};
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

Script script_of(const SortedJson& json, std::string_view name, Family family) {
  const auto found = json.find(name);
  if (found == json.end()) throw InvalidMember{fmt::format("{} is missing", name)};
  auto script = parse_script(found->dump());
  if (!script) throw InvalidMember{fmt::format("{}: {}", name, script.error())};
  if (script->family != family)
    throw InvalidMember{fmt::format("{} is a script of {}", name, to_string(script->family))};
  if (script->steps.empty()) throw InvalidMember{fmt::format("{} has no steps", name)};
  return std::move(*script);
}

Oracle oracle_of(const SortedJson& json) {
  const std::string name = text_of(json, "oracle");
  for (std::size_t i = 0; i < oracles; ++i)
    if (to_string(static_cast<Oracle>(i)) == name) return static_cast<Oracle>(i);
  throw InvalidMember{"unknown oracle"};
}

Finding read_finding(const SortedJson& json, Family family) {
  if (!json.is_object()) throw InvalidMember{"not an object"};
  Finding finding;
  finding.alarm = {.oracle = oracle_of(json),
                   .expected = text_of(json, "expected"),
                   .actual = text_of(json, "actual"),
                   .signature = text_of(json, "signature")};
  finding.script = script_of(json, "found", family);
  finding.minimal = script_of(json, "script", family);
  finding.reproduced = flag_of(json, "reproduced");
  finding.whole = flag_of(json, "whole");
  for (const FindingCount& count : finding_counts) finding.*count.member = count_of(json, count.name);
  finding.like = texts_of(json, "like");
  finding.shown = texts_of(json, "shown");
  finding.rules = texts_of(json, "rules");
  return finding;
}

Statistics read_statistics(const SortedJson& json) {
  Statistics statistics;
  for (const Count& count : saved_counts) statistics.*count.member = count_of(json, count.name);
  if (const auto seconds = json.find("seconds"); seconds != json.end()) {
    if (!seconds->is_number() || !std::isfinite(seconds->get<double>()) || seconds->get<double>() < 0)
      throw InvalidMember{"seconds is not a duration"};
    statistics.seconds = seconds->get<double>();
  }
  if (const auto kinds = json.find("by_kind"); kinds != json.end()) {
    if (!kinds->is_array() || kinds->size() > step_kinds) throw InvalidMember{"by_kind is not a list of counts"};
    for (std::size_t i = 0; i < kinds->size(); ++i) {
      if (!(*kinds)[i].is_number_unsigned()) throw InvalidMember{"by_kind is not a list of counts"};
      statistics.by_kind[i] = (*kinds)[i].get<std::uint64_t>();
    }
  }
  return statistics;
}

}  // namespace

nlohmann::ordered_json saved(const Statistics& statistics) {
  nlohmann::ordered_json json;
  for (const Count& count : saved_counts) json[std::string(count.name)] = statistics.*count.member;
  json["seconds"] = statistics.seconds;
  json["by_kind"] = statistics.by_kind;
  return json;
}

nlohmann::ordered_json saved(const Finding& finding) {
  nlohmann::ordered_json json;
  json["oracle"] = to_string(finding.alarm.oracle);
  json["signature"] = finding.alarm.signature;
  json["expected"] = finding.alarm.expected;
  json["actual"] = finding.alarm.actual;
  json["reproduced"] = finding.reproduced;
  json["whole"] = finding.whole;
  for (const FindingCount& count : finding_counts) json[std::string(count.name)] = finding.*count.member;
  json["like"] = finding.like;
  json["shown"] = finding.shown;
  json["rules"] = finding.rules;
  json["found"] = to_json(finding.script);
  json["script"] = to_json(finding.minimal);
  return json;
}

tl::expected<SortedJson, std::string> parse_saved(const std::string& text) {
  bool too_deep = false;
  const auto shallow = [&](int depth, SortedJson::parse_event_t, const SortedJson&) {
    too_deep |= depth > deepest;
    return depth <= deepest;
  };
  SortedJson json = SortedJson::parse(text, shallow, false);
  if (too_deep) return tl::unexpected(fmt::format("nested more than {} deep", deepest));
  if (json.is_discarded()) return tl::unexpected(std::string("invalid JSON"));
  if (!json.is_object()) return tl::unexpected(std::string("not an object"));
  return json;
}

tl::expected<Statistics, std::string> saved_statistics(const SortedJson& json) {
  try {
    return read_statistics(json);
  } catch (const InvalidMember& wrong) {
    return tl::unexpected(wrong.what);
  }
}

tl::expected<Finding, std::string> saved_finding(const SortedJson& json, Family family) {
  try {
    return read_finding(json, family);
  } catch (const InvalidMember& wrong) {
    return tl::unexpected(wrong.what);
  }
}

}  // namespace rdmawire::fuzzer
