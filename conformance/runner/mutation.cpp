#include "conformance/runner/mutation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <sstream>

#include "captures/analysis/workers.hpp"
#include "conformance/coverage/exceptions.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

/// Cases whose traffic includes every kind of packet, for the monitors.
constexpr std::string_view traffic[] = {
    "rc.responder.ack.in-order",
    "rc.responder.ack.coalesced",
    "rc.responder.order.responses-by-psn",
    "rc.responder.duplicate.read-part-replayed",
    "rc.responder.rnr.then-executed-once",
    "rc.requester.retry.go-back-n",
    "rc.requester.rnr.timer-kept",
    "uc.requester.psn.increments",
    "ud.sender.ack-request.clear",
    "congestion.notification-point.cnp.format",
    "xrc.requester.headers.xrceth",
    "roce.sender.icrc.over-ipv6",
    // iWARP
    "terminate.sender.message.at-boundary",
    "terminate.sender.control.bits",
    "rdmap.endpoint.atomic.shares-read-depth",
    "rdmap.receiver.immediate.after-write",
};

bool contains(std::span<const std::string_view> list, std::string_view id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

const Rule& rule_by_id(std::string_view id) { return *find_rule(id); }
std::string name_of(const Rule& rule) { return std::string(rule.alias.empty() ? rule.id : rule.alias); }

/// The rule of a case id.
const Rule& rule_of(const std::string& id) { return rule_by_id(std::string_view(id).substr(0, id.find('/'))); }

/// Lists rules with the number of their cases if more than one: "RSP-002 (3), RSP-004".
std::string by_rule(std::span<const std::string> ids) {
  std::vector<std::pair<std::string, unsigned>> counts;
  for (const std::string& id : ids) {
    const std::string name = name_of(rule_of(id));
    if (counts.empty() || counts.back().first != name) counts.emplace_back(name, 0);
    ++counts.back().second;
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(count == 1 ? name : fmt::format("{} ({})", name, count));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Returns the first names of faults for a cell of the table of cases, and the number of the others.
std::string some_of(std::span<const std::string_view> faults) {
  constexpr std::size_t most = 3;
  std::string text;
  for (const std::string_view fault : faults.first(std::min(faults.size(), most)))
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", fault);
  if (faults.size() > most) text += fmt::format(" and {} more", faults.size() - most);
  return text.empty() ? "—" : text;
}

/// The table of the cases and the faults under which they fail.
std::string table_of_cases(std::span<const Mutation> mutations) {
  std::string text =
      "\n## Cases\n\n"
      "- **faults of its rule**: faults that violate the rule of the case, and under which the case fails\n"
      "- **other faults**: faults of other rules under which the case fails\n\n"
      "| case | faults of its rule | other faults |\n"
      "|---|---|---|\n";
  for (const Case& which : cases()) {
    const std::string id = which.id();
    std::vector<std::string_view> own, others;
    for (const Mutation& m : mutations)
      if (m.failed.contains(id)) (contains(m.fault->broken, which.rule->id) ? own : others).push_back(m.fault->name);
    text += fmt::format("| `{}` | {} | {} |\n", id, some_of(own), some_of(others));
  }
  text += "\n## Cases that fail under no fault of their rule\n\n| case | reason |\n|---|---|\n";
  for (const UndetectingCase& one : undetecting_cases()) text += fmt::format("| `{}` | {} |\n", one.id, reason_of(one));
  return text;
}

}  // namespace

std::set<std::string> Mutation::unrelated() const {
  std::set<std::string> found = suspected;
  for (const std::string& id : noticed) found.insert(name_of(rule_of(id)));
  std::istringstream related{std::string(fault->related)};
  for (std::string rule; related >> rule;) {
    if (rule == "*") return {};
    found.erase(rule);
  }
  return found;
}

CleanRun clean_run(std::uint64_t seed) {
  CleanRun clean;
  for (const Case& which : cases()) {
    const auto target = Target::open({.family = which.family(), .seed = seed});
    if (target) clean[which.id()] = run_case(which, (*target)->device(), seed).judgment.verdict;
  }
  return clean;
}

Mutation mutate(const SeededFault& fault, Breadth breadth, std::uint64_t seed, const CleanRun& clean) {
  Mutation mutation;
  mutation.fault = &fault;
  const auto& broken = fault.broken;
  for (const std::string_view id : broken) {
    const Rule& rule = rule_by_id(id);
    const RuleId at = RuleId::at(static_cast<std::size_t>(&rule - rules.data()));
    if (is_monitored(at) && !only_positive(at)) mutation.watched.insert(name_of(rule));
  }
  for (const Case& which : cases()) {
    if (which.family() != fault.family) continue;
    const bool meant = contains(broken, which.rule->id);
    if (meant) mutation.meant.push_back(which.id());
    if (!meant && breadth != Breadth::all && !contains(traffic, which.rule->id)) continue;
    const auto without = clean.find(which.id());
    if (without == clean.end() || is_failure(without->second)) continue;
    // A new device for each case, so that a case does not affect the next one.
    const auto target = Target::open({.family = fault.family, .seed = seed, .faults = {std::string(fault.name)}});
    if (!target) continue;
    const CaseResult result = run_case(which, (*target)->device(), seed);
    const Verdict verdict = result.judgment.verdict;
    const bool reports = which.rule->level == Level::may && verdict == Verdict::may && without->second == Verdict::pass;
    // Frames can violate a rule other than that of the case.
    const Rule& violated = result.judgment.rule ? *result.judgment.rule : *which.rule;
    if (is_failure(verdict) || reports) {
      mutation.failed.insert(which.id());
      if (meant && &violated == &*which.rule)
        mutation.caught.push_back(which.id());
      else if (!contains(broken, violated.id))
        mutation.noticed.push_back(result.judgment.rule ? std::string(violated.id) : which.id());
    }
    for (const Violation& violation : result.observed.violations)
      (contains(broken, violation.of().id) ? mutation.accused : mutation.suspected).insert(name_of(violation.of()));
  }
  return mutation;
}

std::vector<Mutation> mutate_all(Breadth breadth, std::uint64_t seed, unsigned threads,
                                 const std::function<void(const Mutation&)>& progress,
                                 std::span<const std::string> names) {
  const CleanRun clean = clean_run(seed);
  std::vector<const SeededFault*> faults;
  for (const SeededFault& fault : seeded_faults())
    if (names.empty() || std::find(names.begin(), names.end(), fault.name) != names.end()) faults.push_back(&fault);
  std::vector<Mutation> mutations(faults.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t at = next++; at < mutations.size(); at = next++) {
      mutations[at] = mutate(*faults[at], breadth, seed, clean);
      if (progress) progress(mutations[at]);
    }
  };
  captures::analysis::work_together(std::min<std::size_t>(threads, faults.size()), work);
  return mutations;
}

std::string table_of(std::span<const Mutation> mutations) {
  std::string text;
  std::size_t by_case = 0, by_monitor = 0, missed = 0;
  for (const Mutation& m : mutations) {
    by_case += !m.caught.empty();
    by_monitor += !m.accused.empty();
    missed += m.missed();
    text += fmt::format("{:<8} {:<36} {}  {} of {} cases; monitors: {}", m.missed() ? "MISSED" : "caught",
                        m.fault->name, fmt::join(m.fault->broken, ", "), m.caught.size(), m.meant.size(),
                        !m.accused.empty()     ? fmt::format("{}", fmt::join(m.accused, ", "))
                        : m.watched.empty()    ? "none"
                        : m.fault->on_the_wire ? "NOTHING"
                                               : "not on the wire");
    if (const auto unrelated = m.unrelated(); !unrelated.empty())
      text += fmt::format("; UNRELATED: {}", fmt::join(unrelated, ", "));
    text += "\n";
  }
  return text + fmt::format("{} faults: {} caught by cases, {} by monitors, {} by neither\n", mutations.size(), by_case,
                            by_monitor, missed);
}

std::string document_of(std::span<const Mutation> mutations) {
  std::string text =
      "# Mutation test of the conformance suite\n\n"
      "Generated by `rdmawire certify --mutations`; a test compares this page. Faults are injected into the reference "
      "devices, one\n"
      "at a time. All cases of the device's family run against each fault, and the monitors check the frames of the "
      "cases. Rules\n"
      "are listed by alias, with the number of failed cases if there are several.\n\n"
      "- **rules**: rules that the fault violates, declared in advance\n"
      "- **cases**: failed cases of these rules, and the number of their cases\n"
      "- **monitors**: those of these rules that monitors report as violated\n"
      "- **also**: other rules with failed cases; rules in *italics* are reported only by monitors\n\n"
      "| fault | device behavior | rules | cases | monitors | also |\n"
      "|---|---|---|---|---|---|\n";
  for (const Mutation& m : mutations) {
    const std::string_view unseen = m.fault->unseen;
    std::vector<std::string> broken;
    for (const std::string_view id : m.fault->broken) broken.push_back(name_of(rule_by_id(id)));
    std::string monitors = fmt::format("{}", fmt::join(m.accused, ", "));
    if (m.accused.empty())
      monitors = m.watched.empty() ? "—" : m.fault->on_the_wire ? "not detectable" : "not on the wire";
    std::string also = by_rule(m.noticed);
    std::set<std::string> listed;
    for (const std::string& id : m.noticed) listed.insert(name_of(rule_of(id)));
    for (const std::string& name : m.suspected)
      if (!listed.contains(name)) also += fmt::format("{}*{}*", also.empty() ? "" : ", ", name);
    text += fmt::format("| `{}` | {} | {} | {} of {} | {}{} | {} |\n", m.fault->name, m.fault->sentence,
                        fmt::join(broken, ", "), m.caught.size(), m.meant.size(), monitors,
                        m.accused.empty() && !unseen.empty() ? fmt::format(": {}", unseen) : "", also);
  }
  return text + table_of_cases(mutations);
}

}  // namespace rdmawire::conformance
