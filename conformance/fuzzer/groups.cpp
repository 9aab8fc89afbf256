#include "conformance/fuzzer/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "conformance/rules/rules.hpp"

namespace rdmawire::fuzzer {

namespace {

void add(FindingGroup& group, const Finding& finding, std::size_t index) {
  group.findings.push_back(index);
  std::set<std::string> rules(group.rules.begin(), group.rules.end());
  rules.insert(finding.rules.begin(), finding.rules.end());
  group.rules.assign(rules.begin(), rules.end());
}

/// Return the fault that explains the most remaining findings. If there are several, return the first by name.
std::string most_frequent_fault(std::span<const Finding> findings, const std::set<std::size_t>& remaining) {
  std::map<std::string, std::size_t> counts;
  for (const std::size_t index : remaining)
    for (const std::string& fault : findings[index].like) ++counts[fault];
  return std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->first;
}

std::string cause_without_fault(const Finding& finding) {
  std::string names;
  for (const std::string& id : finding.rules) {
    const conformance::Rule* rule = conformance::find_rule(id);
    names += fmt::format("{}{}", names.empty() ? "violates " : ", ", rule ? rule->alias : id);
  }
  if (!names.empty()) return names;
  const std::vector<Step>& steps = finding.minimal.steps;
  return fmt::format("{} after {}", to_string(finding.alarm.oracle),
                     steps.empty() ? "no step" : to_string(steps.back().kind));
}

}  // namespace

std::vector<FindingGroup> groups_of(std::span<const Finding> findings) {
  std::vector<FindingGroup> groups;
  std::set<std::size_t> remaining;
  for (std::size_t i = 0; i < findings.size(); ++i)
    if (!findings[i].like.empty()) remaining.insert(i);
  while (!remaining.empty()) {
    const std::string fault = most_frequent_fault(findings, remaining);
    FindingGroup group{.cause = "like the fault " + fault, .rules = {}};
    for (const std::size_t index : remaining)
      if (std::ranges::find(findings[index].like, fault) != findings[index].like.end())
        add(group, findings[index], index);
    for (const std::size_t index : group.findings) remaining.erase(index);
    groups.push_back(std::move(group));
  }
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    if (!finding.like.empty()) continue;
    const std::string cause = cause_without_fault(finding);
    auto group = std::ranges::find_if(groups, [&](const FindingGroup& one) {
      return one.cause == cause || (!finding.rules.empty() && std::ranges::includes(one.rules, finding.rules));
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {.cause = cause, .rules = {}});
    add(*group, finding, i);
  }
  for (FindingGroup& group : groups) std::ranges::sort(group.findings);
  std::ranges::sort(groups, {}, [](const FindingGroup& group) { return group.findings.front(); });
  return groups;
}

}  // namespace rdmawire::fuzzer
