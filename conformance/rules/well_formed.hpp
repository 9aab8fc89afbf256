#pragma once
/// Compile-time checks of the tables of rules.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "conformance/rules/rule.hpp"

namespace rdmawire::conformance {

/// Returns whether the text has four parts, separated by dots, of lower-case letters, digits and single hyphens.
constexpr bool is_rule_id(std::string_view id) {
  std::size_t dots = 0;
  bool in_word = false;
  for (const char c : id) {
    if (c == '.' || c == '-') {
      if (!in_word) return false;
      in_word = false;
      dots += c == '.';
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      in_word = true;
    } else {
      return false;
    }
  }
  return in_word && dots == 3;
}

/// Returns whether the text has the form of an alias: two or three capital letters, a hyphen and three digits.
constexpr bool is_alias(std::string_view alias) {
  const std::size_t hyphen = alias.find('-');
  if (hyphen < 2 || hyphen > 3 || alias.size() != hyphen + 4) return false;
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::ranges::all_of(alias.substr(0, hyphen), is_capital) &&
         std::ranges::all_of(alias.substr(hyphen + 1), is_digit);
}

/// Returns whether the text is one sentence: it does not start with a lowercase letter or a space, ends with ".", and
/// contains no ". " or "  ".
constexpr bool is_sentence(std::string_view text) {
  return text.size() > 1 && !(text.front() >= 'a' && text.front() <= 'z') && text.front() != ' ' &&
         text.ends_with('.') && text.find(". ") == std::string_view::npos && text.find("  ") == std::string_view::npos;
}

/// Returns the first error of a rule, or an empty text.
constexpr std::string_view fault_of(const Rule& rule) {
  if (!is_rule_id(rule.id)) return "the id is not SUBJECT.ROLE.TOPIC.STATEMENT";
  if (!rule.alias.empty() && !is_alias(rule.alias)) return "the alias does not have the form RSP-009";
  if (rule.services == Services::none) return "it applies to no service";
  if (rule.clause_count() == 0) return "it has no clause";
  for (const Clause& clause : rule.sources()) {
    if (clause.verified ? clause.number.empty() : clause.title.empty()) return "a clause has no number or title";
    if (clause.verified && !clause.is_specification()) return "a verified clause is not in a specification";
  }
  if (!is_sentence(rule.sentence)) return "it is not one sentence with a full stop";
  if (rule.stimulus.empty() || rule.stimulus.ends_with('.')) return "the stimulus is not a phrase";
  if (rule.applies.ends_with('.')) return "the precondition is not a phrase";
  return {};
}

/// Returns the index of the first rule with an error, or `table.size()`.
constexpr std::size_t first_fault(std::span<const Rule> table) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (!fault_of(table[i]).empty()) return i;
  return table.size();
}

/// Returns whether all ids and aliases are distinct.
template <std::size_t Size>
constexpr bool are_unique(const std::array<Rule, Size>& table) {
  std::array<std::string_view, 2 * Size> names{};
  std::size_t count = 0;
  for (const Rule& rule : table) {
    names[count++] = rule.id;
    if (!rule.alias.empty()) names[count++] = rule.alias;
  }
  std::sort(names.begin(), names.begin() + count);
  return std::adjacent_find(names.begin(), names.begin() + count) == names.begin() + count;
}

/// Returns whether the first rules of a group have the aliases PREFIX-001 to PREFIX-`count`, and the others no alias.
constexpr bool follows_catalog(std::span<const Rule> group, std::string_view prefix, std::size_t count) {
  if (group.size() < count) return false;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::string_view alias = group[i].alias;
    if (i >= count) {
      if (!alias.empty()) return false;
      continue;
    }
    const std::size_t number = i + 1;
    if (!is_alias(alias) || alias.substr(0, alias.find('-')) != prefix) return false;
    const std::string_view digits = alias.substr(alias.find('-') + 1);
    if (digits[0] != static_cast<char>('0' + number / 100) || digits[1] != static_cast<char>('0' + number / 10 % 10) ||
        digits[2] != static_cast<char>('0' + number % 10))
      return false;
  }
  return true;
}

}  // namespace rdmawire::conformance
