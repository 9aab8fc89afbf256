#include "conformance/monitors/evaluator.hpp"

#include <algorithm>

namespace rdmawire::conformance {

std::string RuleSet::choose(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  const bool excludes = patterns.front().starts_with('!');
  chosen_.fill(excludes);
  for (const std::string& pattern : patterns) {
    const bool exclude = pattern.starts_with('!');
    const auto selected = select_rules(std::string_view(pattern).substr(exclude ? 1 : 0));
    if (selected.empty()) return pattern;
    for (const Rule* rule : selected) chosen_[static_cast<std::size_t>(rule - rules.data())] = !exclude;
  }
  return {};
}

void RuleSet::at_least(Level level) {
  for (std::size_t i = 0; i < rules.size(); ++i) chosen_[i] = chosen_[i] && rules[i].level <= level;
}

bool EvaluatedPacket::concerns(RuleId rule) const {
  const std::string_view id = rule->id, after_group = id.substr(id.find('.') + 1);
  const bool of_requester = after_group.starts_with("requester.");
  const bool of_responder = after_group.starts_with("responder.") || after_group.starts_with("receiver.");
  const bool of_sender = of_requester ? !response : !of_responder || response;
  return checked[static_cast<std::size_t>(of_sender ? from : tracking::other(from))];
}

std::uint64_t Evaluator::key_of(std::size_t rule, const Place& place) {
  const std::uint64_t where = place.by_flow ? place.flow.hash() : place.connection * 0x9e3779b97f4a7c15;
  return (where ^ where >> 31 ^ (rule * 2 + static_cast<std::uint64_t>(place.end) + 1)) * 0xbf58476d1ce4e5b9;
}

Violation* Evaluator::find(RuleId rule, const Place& place) {
  const std::uint64_t key = key_of(rule.index(), place);
  if (const auto known = known_.find(key); known != known_.end()) {
    known->second->last_frame = std::max(known->second->last_frame, place.frame);
    return known->second;
  }
  if (violations_.size() >= most_violations_) {
    ++omitted_;
    return nullptr;
  }
  Violation& reported = violations_.emplace_back();
  reported.rule = rule.index();
  reported.place = place;
  connections_.insert(place.connection);
  reported.last_frame = place.frame;
  known_.emplace(key, &reported);
  return &reported;
}

void Evaluator::renamed(std::uint64_t id, std::uint64_t now, bool swapped) {
  for (Violation& violation : violations_) {
    if (violation.place.connection != id) continue;
    const std::uint64_t key = key_of(violation.rule, violation.place);
    assign(violation, now);
    if (swapped) {
      violation.place.end = tracking::other(violation.place.end);
      for (SequenceEntry& entry : violation.sequence) entry.from = tracking::other(entry.from);
    }
    if (violation.place.by_flow) continue;
    known_.erase(key);
    known_.emplace(key_of(violation.rule, violation.place), &violation);
  }
}

}  // namespace rdmawire::conformance
