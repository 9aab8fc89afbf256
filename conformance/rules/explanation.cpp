#include "conformance/rules/explanation.hpp"

#include "conformance/rules/explain_rules.hpp"
#include "dissectors/output/explain.hpp"
#include "dissectors/output/explain_events.hpp"

namespace rdmawire::conformance {
namespace {

/// Finds the rules that `query` selects by "rules", "rules PATTERN", an id, an alias, or a pattern with * or ?.
std::vector<const Rule*> find_rules(const std::string& query) {
  constexpr std::string_view word = "rules ";
  if (query == "rules") return select_rules("*");
  if (query.starts_with(word)) return select_rules(std::string_view(query).substr(word.size()));
  if (const Rule* rule = find_rule(query)) return {rule};
  if (query.find_first_of("*?") != std::string::npos) return select_rules(query);
  return {};
}

std::string rules_text(const std::vector<const Rule*>& rules, bool json, bool colors) {
  if (rules.empty()) return {};
  if (!json) return rules.size() == 1 ? explain_rule(*rules.front(), colors) : list_rules(rules, colors);
  std::string out;
  for (const Rule* rule : rules) out += rule_json(*rule) + "\n";
  return out;
}

/// Explains headers, fields, values and events with this name. Returns an empty text if there are none.
std::string meanings(const std::string& query, bool json, bool colors) {
  std::string out;
  const bool all_events = query == "events";
  const std::string_view event = all_events ? std::string_view() : std::string_view(query);
  const std::string events = json ? output::explain_events_json(event) : output::explain_events(event, colors);
  const std::vector<output::Topic> topics = all_events ? std::vector<output::Topic>() : output::find_topics(query);
  for (std::size_t i = 0; i < topics.size(); ++i) {
    if (json) {
      out += output::explain_json(topics[i]) + "\n";
      continue;
    }
    if (i) out += '\n';
    out += output::explain(topics[i], colors);
  }
  if (!events.empty() && !topics.empty() && !json) out += '\n';
  return out + events;
}

}  // namespace

std::string explanation(const std::string& query, bool json, bool colors) {
  std::string out = rules_text(find_rules(query), json, colors);
  if (out.empty()) out = meanings(query, json, colors);
  // A query such as "rc.responder" or "C9-148" selects rules only if nothing else has this name.
  if (out.empty()) out = rules_text(select_rules(query), json, colors);
  return out;
}

std::vector<std::string> nearest_explained(const std::string& query) {
  std::vector<std::string> names;
  for (const std::string_view rule : nearest_rules(query)) names.emplace_back(rule);
  if (names.empty()) names = output::nearest_topics(query);
  return names;
}

}  // namespace rdmawire::conformance
