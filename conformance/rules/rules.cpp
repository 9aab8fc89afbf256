#include "conformance/rules/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "conformance/rules/clause_numbers.hpp"
#include "conformance/rules/well_formed.hpp"
#include "dissectors/output/edit_distance.hpp"

namespace rdmawire::conformance {

// rules_test reports which rule has which error.
static_assert(first_fault(rules) == rules.size(), "a rule is not well-formed; its place in `rules` is on the left");
static_assert(are_unique(rules), "two rules have the same id or alias");
static_assert(follows_catalog(header_rules, "HDR", 42));
static_assert(follows_catalog(rc_responder_rules, "RSP", 72));
static_assert(follows_catalog(rc_requester_rules, "REQ", 44));
static_assert(follows_catalog(uc_rules, "UC", 13));
static_assert(follows_catalog(ud_rules, "UD", 20));
static_assert(follows_catalog(xrc_rules, "XRC", 9));
static_assert(follows_catalog(congestion_rules, "CNP", 13));
static_assert(follows_catalog(queue_pair_rules, "QPS", 31));
static_assert(follows_catalog(mpa_rules, "MPA", 37));
static_assert(follows_catalog(fpdu_rules, "FPD", 22));
static_assert(follows_catalog(ddp_rules, "DDP", 29));
static_assert(follows_catalog(rdmap_rules, "RDM", 35));
static_assert(follows_catalog(terminate_rules, "TRM", 18));
static_assert(follows_catalog(rdmap_extension_rules, "EXT", 19));
static_assert(follows_catalog(mrc_rules, "MRC", 37));

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

/// Returns whether `text` matches `pattern`. Only the last * is retried, so the time is at most proportional to the
/// product of the lengths.
bool fits(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || lower(pattern[p]) == lower(text[t]))) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool begins_with_parts(std::string_view id, std::string_view parts) {
  return !parts.empty() && id.size() > parts.size() && id[parts.size()] == '.' &&
         equal(id.substr(0, parts.size()), parts);
}

/// Returns whether the rule cites a number. A supplied number may consist of several: "9.7.5.2.8, C9-110".
bool cites(const Rule& rule, std::string_view number) {
  const auto contains_part = [&](std::string_view parts) {
    while (!parts.empty()) {
      const std::size_t end = std::min(parts.find(", "), parts.size());
      if (equal(parts.substr(0, end), number)) return true;
      parts.remove_prefix(std::min(end + 2, parts.size()));
    }
    return false;
  };
  return !number.empty() && std::ranges::any_of(sources_of(rule), [&](const Source& source) {
    return source.is_supplied ? contains_part(source.clause.number) : equal(source.clause.number, number);
  });
}

}  // namespace

const Rule* find_rule(std::string_view id_or_alias) {
  if (id_or_alias.empty()) return nullptr;
  for (const Rule& rule : rules)
    if (equal(rule.id, id_or_alias) || equal(rule.alias, id_or_alias)) return &rule;
  return nullptr;
}

bool matches(const Rule& rule, std::string_view pattern) {
  return fits(rule.id, pattern) || (!rule.alias.empty() && fits(rule.alias, pattern));
}

std::vector<const Rule*> select_rules(std::string_view pattern) {
  std::vector<const Rule*> found;
  for (const Rule& rule : rules)
    if (matches(rule, pattern) || begins_with_parts(rule.id, pattern) || cites(rule, pattern)) found.push_back(&rule);
  return found;
}

std::vector<std::string_view> nearest_rules(std::string_view name, std::size_t count) {
  std::string wanted(name.substr(0, 80));
  std::ranges::transform(wanted, wanted.begin(), lower);
  struct Near {
    std::size_t distance;
    std::size_t differs;  // number of characters after the common start
    std::string_view name;
  };
  std::vector<Near> near;
  const auto consider = [&](std::string_view candidate) {
    std::string plain(candidate);
    std::ranges::transform(plain, plain.begin(), lower);
    const std::size_t limit = std::max(wanted.size(), plain.size()) / 3;
    const std::size_t distance = output::edit_distance(wanted, plain, limit);
    if (distance > limit) return;
    const auto first = std::ranges::mismatch(wanted, plain).in2;
    near.push_back({distance, static_cast<std::size_t>(plain.end() - first), candidate});
  };
  for (const Rule& rule : rules) {
    consider(rule.id);
    if (!rule.alias.empty()) consider(rule.alias);
  }
  std::ranges::stable_sort(near, [](const Near& a, const Near& b) {
    return std::tie(a.distance, a.differs) < std::tie(b.distance, b.differs);
  });
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < std::min(count, near.size()); ++i) names.push_back(near[i].name);
  return names;
}

std::string to_string(const Clause& clause) {
  if (!clause.is_specification()) return fmt::format("{}: {}", clause.document, clause.title);
  if (clause.verified)
    return clause.title.empty() ? fmt::format("{}, {}", clause.document, clause.number)
                                : fmt::format("{}, {} ({})", clause.document, clause.number, clause.title);
  return clause.number.empty() ? fmt::format("{}, {} (clause number not verified)", clause.document, clause.title)
                               : fmt::format("{}, {} (near {}, clause number not verified)", clause.document,
                                             clause.title, clause.number);
}

std::string clauses_of(const Rule& rule) {
  std::string out;
  for (const Source& source : sources_of(rule)) out += (out.empty() ? "" : "; ") + to_string(source.clause);
  return out;
}

std::string_view to_string(Level level) {
  switch (level) {
    case Level::shall: return "shall";
    case Level::should: return "should";
    case Level::may: return "may";
    case Level::tool: return "tool";
  }
  return "unknown";
}

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::active: return "active";
    case Mode::passive: return "passive";
    case Mode::both: return "both";
    case Mode::unit: return "unit";
  }
  return "unknown";
}

std::string to_string(Services services) {
  std::string out;
  const auto name = [&](Services one, std::string_view text) {
    if (contains(services, one)) fmt::format_to(std::back_inserter(out), "{}{}", out.empty() ? "" : ", ", text);
  };
  name(Services::rc, "RC");
  name(Services::uc, "UC");
  name(Services::ud, "UD");
  name(Services::xrc, "XRC");
  name(Services::iwarp, "iWARP");
  name(Services::mrc, "MRC");
  return out;
}

}  // namespace rdmawire::conformance
