#pragma once
/// All rules, and how one is found.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "conformance/rules/rc_responder.hpp"
#include "conformance/rules/rule.hpp"

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

/// Every rule, by group, in the catalogue's order.
inline constexpr auto rules = detail::join(rc_responder_rules);

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

/// The rule of that id or alias, or nullptr.
const Rule* find_rule(std::string_view id_or_alias);

/// Whether the rule's id or alias matches a pattern with * and ?, in which letters' case does not matter:
/// "rc.responder.*", "RSP-*".
bool matches(const Rule& rule, std::string_view pattern);

/// "IBTA vol 1, C9-148 (9.7.7.1)", "IBTA vol 1, retry rule (number unverified)"; several with "; ".
std::string to_string(const Clause& clause);
std::string clauses_of(const Rule& rule);
std::string_view to_string(Level level);
std::string_view to_string(Mode mode);

}  // namespace rdmawire::conformance
