#include "conformance/runner/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "conformance/files/json_file.hpp"
#include "conformance/runner/certify.hpp"
#include "conformance/runner/expected.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::json;

/// Reads optional members of an object, and keeps the first error.
class Members {
 public:
  Members(const Json& object, std::string& error, std::string where)
      : object_(object), error_(error), where_(std::move(where)) {}

  std::string text(const char* name) {
    const Json* found = find(name);
    if (!found) return {};
    if (found->is_string()) return found->get<std::string>();
    return fail(name, "a string"), std::string();
  }
  std::uint64_t number(const char* name, std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    const Json* found = find(name);
    if (!found) return 0;
    if (found->is_number_unsigned() && found->get<std::uint64_t>() <= most) return found->get<std::uint64_t>();
    return fail(name, fmt::format("a whole number of at most {}", most)), 0;
  }
  bool flag(const char* name) {
    const Json* found = find(name);
    if (!found) return false;
    if (found->is_boolean()) return found->get<bool>();
    return fail(name, "true or false"), false;
  }
  std::size_t length(const char* name) {
    const Json* found = find(name);
    if (!found) return 0;
    if (found->is_array()) return found->size();
    return fail(name, "a list"), 0;
  }

 private:
  const Json* find(const char* name) {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void fail(const char* name, const std::string& expected) {
    if (error_.empty()) error_ = fmt::format("{}\"{}\" must be {}", where_, name, expected);
  }

  const Json& object_;
  std::string& error_;
  std::string where_;
};

Outcome outcome_of(const CaseResult& result) {
  Outcome outcome{result.of->id(),
                  std::string(to_string(result.judgment.verdict)),
                  result.judgment.actual,
                  result.nanoseconds,
                  false,
                  false,
                  result.attempts.size()};
  for (const Violation& violation : result.observed.violations) outcome.observed.emplace_back(violation.of().id);
  return outcome;
}

/// The rules that monitors observed as violated only in `one`, except the rule of a failed case, which its verdict
/// covers.
std::vector<std::string> only_in(const Outcome& one, const Outcome& other) {
  std::vector<std::string> rules;
  for (const std::string& rule : one.observed) {
    const bool own = (one.failed() || other.failed()) && other.id.substr(0, other.id.find('/')) == rule;
    const auto holds = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), rule) != list.end();
    };
    if (!own && !holds(other.observed) && !holds(rules)) rules.push_back(rule);
  }
  return rules;
}

/// The severity of a verdict: 0 for a success, 1 for a missing result, 2 for a failure.
int severity(const std::string& verdict) {
  const auto known = verdict_of(verdict);
  if (!known || is_failure(*known)) return 2;
  return *known == Verdict::unsupported || *known == Verdict::inconclusive ? 1 : 0;
}

/// Compares two results of the same case. nullopt: equal.
std::optional<Change> changed(const Outcome& before, const Outcome& after, const std::optional<SlowerLimits>& slower) {
  Change change{after.id, before.verdict, after.verdict};
  change.was_ns = before.nanoseconds;
  change.is_ns = after.nanoseconds;
  const int was = severity(before.verdict), is = severity(after.verdict);
  change.observed = only_in(after, before);
  // A waiver of observed violations covers only these: a worse verdict and a longer duration still count.
  change.waived = after.waived && (is == 2 || after.verdict_waived || (is <= was && !change.observed.empty()));
  if (!change.observed.empty()) {
    change.kind = Change::Kind::worse;
    change.was = before.actual;
    change.is = after.actual;
    return change;
  }
  if (before.verdict != after.verdict) {
    change.kind = is > was ? Change::Kind::worse : is < was ? Change::Kind::better : Change::Kind::other_reason;
    change.was = before.actual;
    change.is = after.actual;
    return change;
  }
  if (after.failed() && before.actual != after.actual) {
    change.kind = Change::Kind::other_reason;
    change.was = before.actual;
    change.is = after.actual;
    return change;
  }
  change.observed = only_in(before, after);
  if (!change.observed.empty()) {
    change.kind = Change::Kind::better;
    return change;
  }
  if (slower && after.nanoseconds - before.nanoseconds >= slower->nanoseconds &&
      static_cast<double>(after.nanoseconds) >= slower->factor * static_cast<double>(before.nanoseconds)) {
    change.kind = Change::Kind::slower;
    return change;
  }
  return std::nullopt;
}

}  // namespace

bool Outcome::failed() const { return severity(verdict) == 2; }

tl::expected<Outcomes, std::string> parse_outcomes(const std::string& text, const std::string& name) {
  const auto json = parse_json(text);
  if (!json) return tl::unexpected(fmt::format("{}: {}", name, json.error()));
  const auto list = json->is_object() ? json->find("cases") : json->end();
  if (!json->is_object() || list == json->end() || !list->is_array())
    return tl::unexpected(fmt::format("{}: not a report of a run: \"cases\" is missing", name));
  std::string error;
  Outcomes outcomes;
  Members head(*json, error, "");
  outcomes.program = head.text("program");
  outcomes.date = head.text("date");
  outcomes.device = head.text("device");
  outcomes.details = head.text("details");
  outcomes.partial = head.text("partial");
  outcomes.seed = head.number("seed");
  outcomes.strength = static_cast<unsigned>(head.number("strength", most_strength));
  std::map<std::string, std::size_t, std::less<>> ids;
  for (std::size_t i = 0; i < list->size() && error.empty(); ++i) {
    const Json& one = (*list)[i];
    if (!one.is_object() || !one.contains("id") || !one["id"].is_string() || !one.contains("verdict") ||
        !one["verdict"].is_string()) {
      error = fmt::format("case {}: \"id\" and \"verdict\" must be strings", i + 1);
      break;
    }
    Members members(one, error, fmt::format("case {}: ", one["id"].get<std::string>()));
    Outcome& outcome = outcomes.cases.emplace_back();
    outcome.id = members.text("id");
    outcome.verdict = members.text("verdict");
    outcome.actual = members.text("actual");
    outcome.nanoseconds = static_cast<std::int64_t>(
        members.number("duration_ns", static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
    outcome.unexpected = members.flag("unexpected");
    outcome.waived = members.text("assessment") == "waived";
    const Json known = one.value("known", Json::object());
    outcome.verdict_waived = outcome.waived && known.is_object() && known.contains("until");
    outcome.attempts = members.length("attempts");
    auto row = parse_row(members.text("row"));
    if (!row && error.empty()) error = fmt::format("case {}: {}", outcome.id, row.error());
    if (row) outcome.row = std::move(*row);
    const Json seen = one.value("observed", Json::array());
    if (!seen.is_array() && error.empty()) error = fmt::format("case {}: \"observed\" must be a list", outcome.id);
    for (const Json& violation : seen) {
      if (!violation.is_object() || !violation.contains("rule") || !violation["rule"].is_string()) {
        if (error.empty()) error = fmt::format("case {}: observed: \"rule\" must be a string", outcome.id);
        break;
      }
      outcome.observed.push_back(violation["rule"].get<std::string>());
    }
    if (!verdict_of(outcome.verdict) && error.empty())
      error = fmt::format("case {}: unknown verdict \"{}\"", outcome.id, outcome.verdict);
    if (!ids.emplace(outcome.id, i).second && error.empty())
      error = fmt::format("case {}: is listed twice", outcome.id);
  }
  if (!error.empty()) return tl::unexpected(fmt::format("{}: {}", name, error));
  return outcomes;
}

tl::expected<Outcomes, std::string> read_outcomes(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path, error)) {
    file /= "report.json";
    if (!std::filesystem::exists(file, error) && std::filesystem::exists(path / "results.ndjson", error))
      return tl::unexpected(
          fmt::format("{0}: the run was not finished; continue it with rdmawire certify --resume {0} and the other "
                      "options of the run",
                      path.string()));
  }
  const auto text = text_of_file(file);
  if (!text) return tl::unexpected(text.error());
  return parse_outcomes(*text, file.string());
}

bool Change::is_regression() const {
  switch (kind) {
    case Kind::worse:
    case Kind::slower: return !waived;
    case Kind::gone: return true;
    case Kind::appeared: return !waived && (severity(after) == 2 || !observed.empty());
    default: return false;
  }
}

std::string_view to_string(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::worse: return "worse";
    case Change::Kind::better: return "better";
    case Change::Kind::appeared: return "new";
    case Change::Kind::gone: return "gone";
    case Change::Kind::slower: return "slower";
    case Change::Kind::other_reason: break;
  }
  return "other";
}

std::vector<Change> compare(std::span<const Outcome> before, std::span<const Outcome> after,
                            const std::optional<SlowerLimits>& slower) {
  std::map<std::string_view, const Outcome*> earlier;
  for (const Outcome& one : before) earlier.emplace(one.id, &one);
  std::vector<Change> changes;
  for (const Outcome& now : after) {
    const auto was = earlier.find(now.id);
    if (was == earlier.end()) {
      Change change{now.id, "", now.verdict, Change::Kind::appeared};
      change.waived = now.waived;
      change.observed = now.observed;
      changes.push_back(std::move(change));
      continue;
    }
    if (auto change = changed(*was->second, now, slower)) changes.push_back(std::move(*change));
    earlier.erase(was);
  }
  for (const Outcome& one : before)
    if (earlier.contains(one.id)) changes.push_back({one.id, one.verdict, "", Change::Kind::gone});
  return changes;
}

tl::expected<std::vector<Change>, std::string> compare(const std::filesystem::path& before,
                                                       std::span<const CaseResult> after) {
  const auto earlier = read_outcomes(before);
  if (!earlier) return tl::unexpected(earlier.error());
  std::vector<Outcome> now;
  for (const CaseResult& result : after) now.push_back(outcome_of(result));
  return compare(earlier->cases, now);
}

}  // namespace rdmawire::conformance
