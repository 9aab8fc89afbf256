#pragma once
/// All rules, and functions to find them.

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
#include "conformance/rules/mrc.hpp"
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

/// All rules by group, in the order of the catalog.
inline constexpr auto rules = detail::join(header_rules, rc_responder_rules, rc_requester_rules, uc_rules, ud_rules,
                                           xrc_rules, congestion_rules, queue_pair_rules, mpa_rules, fpdu_rules,
                                           ddp_rules, rdmap_rules, terminate_rules, rdmap_extension_rules, mrc_rules);

/// A group of rules with a common alias prefix.
struct Group {
  std::string_view prefix;  ///< prefix of the aliases: "RSP"
  std::string_view title;
  std::size_t size = 0;
  std::size_t first = 0;  ///< index of the first rule in `rules`

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
  if (at != rules.size()) throw "a group is missing here or in the rules";
  return groups;
}
}  // namespace detail

/// The groups, in the order of `rules`.
inline constexpr auto groups = detail::lay_out(std::to_array<Group>({
    {"HDR", "Headers, ICRC and RoCEv2", header_rules.size()},
    {"RSP", "RC responder", rc_responder_rules.size()},
    {"REQ", "RC requester", rc_requester_rules.size()},
    {"UC", "Unreliable connection", uc_rules.size()},
    {"UD", "Datagrams, management datagrams and multicast", ud_rules.size()},
    {"XRC", "Extended reliable connection", xrc_rules.size()},
    {"CNP", "Congestion management", congestion_rules.size()},
    {"QPS", "Queue pair states, memory, CM and verbs", queue_pair_rules.size()},
    {"MPA", "MPA connection establishment", mpa_rules.size()},
    {"FPD", "MPA FPDUs, markers, CRC", fpdu_rules.size()},
    {"DDP", "DDP segments", ddp_rules.size()},
    {"RDM", "RDMAP operations and streams", rdmap_rules.size()},
    {"TRM", "The Terminate message", terminate_rules.size()},
    {"EXT", "RFC 7306: immediate data and atomics", rdmap_extension_rules.size()},
    {"MRC", "MRC, Multipath Reliable Connection", mrc_rules.size()},
}));

/// Reference to an existing rule. An unknown id is a compile-time error.
///
///     constexpr RuleId rule = "rc.responder.psn.sequence-error";
class RuleId {
 public:
  // Not explicit, so that cases can write an id where a rule is expected.
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

/// Returns the rule with this id or alias, or nullptr. Case-insensitive.
const Rule* find_rule(std::string_view id_or_alias);

/// Returns whether the rule's id or alias matches a pattern with * (any characters) and ? (one character).
/// Case-insensitive: "rc.responder.*", "RSP-*".
bool matches(const Rule& rule, std::string_view pattern);

/// Returns the rules that the pattern selects, in the order of `rules`: those that match it, whose id starts with its
/// parts ("rc.responder"), or that cite the clause with this number ("C9-148").
std::vector<const Rule*> select_rules(std::string_view pattern);

/// Returns up to `count` ids or aliases similar to `name`, nearest first.
std::vector<std::string_view> nearest_rules(std::string_view name, std::size_t count = 5);

/// Describes a clause: "IBTA vol 1, C9-148 (9.7.7.1)", "IBTA vol 1, one NAK for a gap (near 9.7.5.2.2, clause number
/// not verified)".
std::string to_string(const Clause& clause);
/// Describes all clauses of the rule, separated by "; ".
std::string clauses_of(const Rule& rule);
std::string_view to_string(Level level);
std::string_view to_string(Mode mode);
/// Returns the names of the services: "RC, XRC".
std::string to_string(Services services);

}  // namespace rdmawire::conformance
