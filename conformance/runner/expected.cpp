#include "conformance/runner/expected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "conformance/files/json_file.hpp"
#include "conformance/runner/expected_files.hpp"
#include "dissectors/output/edit_distance.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::json;

constexpr std::array verdicts{Verdict::pass, Verdict::fail,        Verdict::fail_wrong_code,
                              Verdict::may,  Verdict::unsupported, Verdict::inconclusive,
                              Verdict::error};

constexpr std::string_view as_observed = "/as observed";

/// The keys of a case in a file of results, the most specific first.
std::array<std::string, 3> names_of(const Case& which) {
  return {which.id(), std::string(which.rule->id), std::string(which.rule->alias)};
}

bool holds_on(const Known& known, const std::string& day) { return known.until.empty() || known.until >= day; }

bool names_something(std::string_view id) {
  if (id.ends_with(as_observed)) id.remove_suffix(as_observed.size());
  return find_rule(id) || find_case(id);
}

std::string invalid(std::string_view member, std::string_view value) {
  std::string expected;
  for (const Verdict verdict : verdicts)
    expected += fmt::format("{}{}", expected.empty() ? "" : ", ", to_string(verdict));
  return fmt::format("invalid \"{}\": \"{}\"; expected one of {}", member, value, expected);
}

/// The members of a known result.
constexpr std::array<std::string_view, 7> members{"verdict", "or",    "reason",     "evidence",
                                                  "right",   "until", "approved_by"};

/// Returns why a known result is malformed: an unknown member, or a value that is not a string. Empty: it is not.
std::string malformed(const Json& entry) {
  for (const auto& [name, value] : entry.items()) {
    if (std::find(members.begin(), members.end(), name) == members.end())
      return fmt::format("unknown member \"{}\"{}", name, output::did_you_mean(name, members));
    if (!value.is_string()) return fmt::format("\"{}\" must be a string", name);
  }
  return {};
}

std::string text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() ? found->get<std::string>() : std::string();
}

}  // namespace

std::optional<Verdict> verdict_of(std::string_view text) {
  for (const Verdict verdict : verdicts)
    if (to_string(verdict) == text) return verdict;
  return std::nullopt;
}

tl::expected<ExpectedResults, std::string> ExpectedResults::read(const std::filesystem::path& path, ResultsFile file) {
  const auto text = text_of_file(path);
  if (!text) return tl::unexpected(text.error());
  return parse(*text, path.string(), file);
}

tl::expected<ExpectedResults, std::string> ExpectedResults::parse(const std::string& text, const std::string& name,
                                                                  ResultsFile file) {
  const auto wrong = [&](const std::string& what) { return tl::unexpected(fmt::format("{}: {}", name, what)); };
  auto parsed = parse_json(text);
  if (!parsed) return wrong(parsed.error());
  const Json& json = *parsed;
  if (const std::string why = wrong_format(json, text); !why.empty()) return wrong(why);
  const auto list = json.find("cases");
  if (list == json.end() || !list->is_object()) return wrong("missing object \"cases\"");
  Layer known_here;
  for (const auto& [id, entry] : list->items()) {
    const auto wrong_entry = [&, id = id](const std::string& what) {
      return wrong(fmt::format("{}: {}: {}", line_of(text, {"cases", id}), id, what));
    };
    if (!names_something(id)) {
      const auto near = nearest_rules(id, 1);
      return wrong_entry("unknown case or rule" +
                         (near.empty() ? "" : fmt::format("; did you mean {}?", near.front())));
    }
    if (!entry.is_object()) return wrong_entry("the value must be an object");
    if (const std::string why = malformed(entry); !why.empty()) return wrong_entry(why);
    Known known;
    const auto verdict = verdict_of(text_member(entry, "verdict"));
    if (!verdict) return wrong_entry(invalid("verdict", text_member(entry, "verdict")));
    known.verdict = *verdict;
    if (const std::string instead = text_member(entry, "or"); !instead.empty())
      if (known.instead = verdict_of(instead); !known.instead) return wrong_entry(invalid("or", instead));
    known.reason = text_member(entry, "reason");
    if (known.reason.empty())
      return wrong_entry(entry.contains("reason") ? "\"reason\" must not be empty" : "missing \"reason\"");
    known.evidence = text_member(entry, "evidence");
    known.right = text_member(entry, "right");
    known.until = text_member(entry, "until");
    known.approved_by = text_member(entry, "approved_by");
    if (!known.until.empty() && !is_date(known.until))
      return wrong(fmt::format("{}: {}: invalid \"until\": \"{}\"; expected a date YYYY-MM-DD",
                               line_of(text, {"cases", id, "until"}), id, known.until));
    known.waiver = file == ResultsFile::waivers;
    if (known.waiver && known.until.empty()) return wrong_entry("missing \"until\": a waiver requires an end date");
    known_here.emplace(id, std::move(known));
  }
  ExpectedResults results;
  results.layers_.push_back(std::move(known_here));
  return results;
}

std::optional<ExpectedResults> ExpectedResults::of_device(std::string_view name) {
  for (const ExpectedFile& file : expected_files)
    if (file.name == name)
      if (auto known = parse(std::string(file.text), std::string(name))) return std::move(*known);
  return std::nullopt;
}

std::vector<std::string> ExpectedResults::devices() {
  std::vector<std::string> names;
  for (const ExpectedFile& file : expected_files) names.emplace_back(file.name);
  return names;
}

void ExpectedResults::add_below(const ExpectedResults& more) {
  layers_.insert(layers_.end(), more.layers_.begin(), more.layers_.end());
}

std::vector<std::string> ExpectedResults::keys() const {
  std::set<std::string> all;
  for (const Layer& layer : layers_)
    for (const auto& [key, known] : layer) all.insert(key);
  return {all.begin(), all.end()};
}

std::size_t ExpectedResults::size() const { return keys().size(); }

template <class Takes>
const Known* ExpectedResults::first(std::span<const std::string> names, const Takes& takes) const {
  for (const Layer& layer : layers_)
    for (const std::string& name : names) {
      const auto found = layer.find(name);
      if (found != layer.end() && takes(found->second)) return &found->second;
    }
  return nullptr;
}

const Known* ExpectedResults::find(const Case& which, const std::string& today) const {
  return first(names_of(which), [&](const Known& known) { return holds_on(known, today); });
}

const Known* ExpectedResults::expired(const Case& which, const std::string& today) const {
  return first(names_of(which), [&](const Known& known) { return !holds_on(known, today); });
}

const Known* ExpectedResults::find_observed(const Rule& rule, const std::string& today) const {
  const std::array names{std::string(rule.id).append(as_observed), std::string(rule.alias).append(as_observed)};
  return first(names, [&](const Known& known) { return holds_on(known, today); });
}

const Known* ExpectedResults::expired_observed(const Rule& rule, const std::string& today) const {
  const std::array names{std::string(rule.id).append(as_observed), std::string(rule.alias).append(as_observed)};
  return first(names, [&](const Known& known) { return !holds_on(known, today); });
}

std::vector<const Rule*> ExpectedResults::held_unexpectedly(std::span<const CaseResult> results,
                                                            const std::string& today) const {
  Observation all;
  for (const CaseResult& result : results) all.add(result.observed);
  std::vector<const Rule*> unexpected;
  for (const auto& [rule, counts] : all.counters)
    if (const Known* known = find_observed(rules[rule], today);
        known && !known->waiver && counts.passed != 0 && counts.violated == 0)
      unexpected.push_back(&rules[rule]);
  return unexpected;
}

bool ExpectedResults::expects(const CaseResult& result, const std::string& today, bool strict) const {
  const Verdict verdict = result.judgment.verdict;
  // A violation of another rule in the frames is expected if it is known as "RULE/as observed".
  const Rule* other = result.judgment.rule;
  const Known* known = other ? find_observed(*other, today) : find(*result.of, today);
  const auto weighs = [&](const Rule& rule) { return strict || rule.level != Level::should; };
  // A corrected device no longer needs its waiver.
  const bool corrected = known && known->waiver && verdict == Verdict::pass;
  const bool as_known = known ? corrected || known->verdict == verdict || known->instead == verdict
                              : !is_failure(verdict) || (verdict != Verdict::error && !weighs(*result.of->rule));
  const auto& seen = result.observed.violations;
  return (as_known || result.left_out) && std::all_of(seen.begin(), seen.end(), [&](const Violation& violation) {
           // A monitor violation of the rule that the case is known to fail is expected.
           const bool own = known && !other && is_failure(known->verdict) && violation.of().id == result.of->rule->id;
           const Known* observed = find_observed(violation.of(), today);
           return own || (observed ? observed->verdict == Verdict::fail : !weighs(violation.of()));
         });
}

}  // namespace rdmawire::conformance
