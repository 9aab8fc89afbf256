#pragma once
/// All rules, and how one is found.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/rules/congestion.hpp"
#include "conformance/rules/ddp.hpp"
#include "conformance/rules/fpdu.hpp"
#include "conformance/rules/headers.hpp"
#include "conformance/rules/mpa.hpp"
#include "conformance/rules/queue_pairs.hpp"
#include "conformance/rules/rc_requester.hpp"
#include "conformance/rules/rc_responder.hpp"
#include "conformance/rules/rdmap.hpp"
#include "conformance/rules/rdmap_extensions.hpp"
#include "conformance/rules/rule.hpp"
#include "conformance/rules/terminate.hpp"
#include "conformance/rules/uc.hpp"
#include "conformance/rules/ud.hpp"
#include "conformance/rules/xrc.hpp"

namespace rdmawire::conformance {

namespace detail {
template <std::size_t... Sizes>
consteval auto join(const std::array<Rule, Sizes>&... groups) {
  std::array<Rule, (Sizes + ... + 0)> all{};
  std::size_t at = 0;
  const auto append = [&](const auto& group) {
    for (const Rule& rule : group) all[at++] = rule;
  };
  (append(groups), ...);
  return all;
}
}  // namespace detail

/// Every rule, by group, in the catalog's order.
inline constexpr auto rules = detail::join(header_rules, rc_responder_rules, rc_requester_rules, uc_rules, ud_rules,
                                           xrc_rules, congestion_rules, queue_pair_rules, mpa_rules, fpdu_rules,
                                           ddp_rules, rdmap_rules, terminate_rules, rdmap_extension_rules);

/// Rules that stand together.
struct Group {
  std::string_view prefix;  ///< of its aliases: "RSP"
  std::string_view title;
  std::size_t size = 0;
  std::size_t first = 0;  ///< in `rules`

  [[nodiscard]] constexpr std::span<const Rule> rules() const {
    return std::span(conformance::rules).subspan(first, size);
  }
};

namespace detail {
template <std::size_t Size>
consteval std::array<Group, Size> lay_out(std::array<Group, Size> groups) {
  std::size_t at = 0;
  for (Group& group : groups) {
    group.first = at;
    at += group.size;
  }
  if (at != rules.size()) throw "a group is missing here or among the rules";
  return groups;
}
}  // namespace detail

/// The groups, in the order of `rules`.
inline constexpr auto groups = detail::lay_out(std::to_array<Group>({
    {"HDR", "Headers, ICRC and RoCEv2", header_rules.size()},
    {"RSP", "RC responder", rc_responder_rules.size()},
    {"REQ", "RC requester", rc_requester_rules.size()},
    {"UC", "Unreliable connection", uc_rules.size()},
    {"UD", "Datagrams, management datagrams, multicast", ud_rules.size()},
    {"XRC", "Extended reliable connection", xrc_rules.size()},
    {"CNP", "Congestion management", congestion_rules.size()},
    {"QPS", "Queue pair states, memory, the CM, and what verbs show", queue_pair_rules.size()},
    {"MPA", "MPA connection set-up", mpa_rules.size()},
    {"FPD", "MPA FPDUs, markers, CRC", fpdu_rules.size()},
    {"DDP", "DDP segments", ddp_rules.size()},
    {"RDM", "RDMAP operations and streams", rdmap_rules.size()},
    {"TRM", "The Terminate message", terminate_rules.size()},
    {"EXT", "RFC 7306: immediate data and atomics", rdmap_extension_rules.size()},
}));

/// A rule that exists: a wrong id does not compile.
///
///     constexpr RuleId rule = "rc.responder.psn.sequence-error";
class RuleId {
 public:
  // Cases write the id where a rule is meant.
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval RuleId(const char* id) : index_(find(id)) {}
  [[nodiscard]] static constexpr RuleId at(std::size_t index) { return RuleId(index, 0); }

  [[nodiscard]] constexpr std::size_t index() const { return index_; }
  [[nodiscard]] constexpr const Rule& operator*() const { return rules[index_]; }
  [[nodiscard]] constexpr const Rule* operator->() const { return &rules[index_]; }
  friend constexpr bool operator==(RuleId, RuleId) = default;

 private:
  constexpr RuleId(std::size_t index, int) : index_(index) {}
  static consteval std::size_t find(std::string_view id) {
    for (std::size_t i = 0; i < rules.size(); ++i)
      if (rules[i].id == id) return i;
    throw "there is no such rule";
  }
  std::size_t index_;
};

/// The rule of that id or alias, or nullptr. Letters' case does not matter.
const Rule* find_rule(std::string_view id_or_alias);

/// Whether the rule's id or alias matches a pattern with * (any characters) and ? (one), in which letters' case does
/// not matter: "rc.responder.*", "RSP-*".
bool matches(const Rule& rule, std::string_view pattern);

/// The rules that match, in the order of `rules`; also those whose id begins with the pattern's parts, "rc.responder",
/// and those that cite a clause of that number, "C9-148".
std::vector<const Rule*> select_rules(std::string_view pattern);

/// The ids, or aliases, most like `name`, nearest first; at most `count`, and none that is mostly different.
std::vector<std::string_view> nearest_rules(std::string_view name, std::size_t count = 5);

/// "IBTA vol 1, C9-148 (9.7.7.1)", "IBTA vol 1, one NAK for a gap (near 9.7.5.2.2, number unverified)".
std::string to_string(const Clause& clause);
/// All of the rule's, with "; " between.
std::string clauses_of(const Rule& rule);
std::string_view to_string(Level level);
std::string_view to_string(Mode mode);
/// "RC, XRC"
std::string to_string(Services services);

}  // namespace rdmawire::conformance
