#include "conformance/rules/clause_numbers.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

namespace rdmawire::conformance {
namespace {

/// Document and number of one supplied clause.
struct Supplied {
  std::string document, number;
};
using AllSupplied = std::map<std::pair<std::size_t, std::size_t>, Supplied>;

std::atomic<const AllSupplied*> supplied = nullptr;

const Supplied* find_supplied(const Rule& rule, std::size_t clause) {
  const AllSupplied* all = supplied.load(std::memory_order_acquire);
  // A rule that is not in `rules`, for example one of a test, has no index.
  if (!all || std::less<>()(&rule, rules.data()) || !std::less<>()(&rule, rules.data() + rules.size())) return nullptr;
  const auto found = all->find({static_cast<std::size_t>(&rule - rules.data()), clause});
  return found == all->end() ? nullptr : &found->second;
}

}  // namespace

std::string to_string(const ClauseNumber& number) {
  std::string text = number.section;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (!number.statement.empty()) add(number.statement);
  if (!number.table.empty()) add("table " + number.table);
  return text;
}

bool lacks_number(const Clause& clause) { return clause.document == "IBTA vol 1" && !clause.verified; }

void use_clause_numbers(ClauseNumbers numbers) {
  auto all = std::make_unique<AllSupplied>();
  for (const auto& [where, number] : numbers) {
    const auto& [rule, clause] = where;
    if (number.is_known() && rule < rules.size() && clause < rules[rule].clause_count())
      all->emplace(where, Supplied{std::string(rules[rule].clauses[clause].document) + " release " + number.release,
                                   to_string(number)});
  }
  // Never released, because clauses refer to these texts.
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const AllSupplied>> kept;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(all));
  supplied.store(kept.back().get(), std::memory_order_release);
}

std::vector<Source> sources_of(const Rule& rule) {
  std::vector<Source> sources;
  for (const Clause& clause : rule.sources()) {
    const Supplied* number = find_supplied(rule, sources.size());
    sources.push_back(number ? Source{{number->document, number->number, clause.title}, true} : Source{clause});
  }
  return sources;
}

ClauseNumberCounts count_clause_numbers() {
  ClauseNumberCounts counts;
  for (const Rule& rule : rules)
    for (const Source& source : sources_of(rule)) {
      counts.supplied += source.is_supplied ? 1 : 0;
      counts.missing += lacks_number(source.clause) ? 1 : 0;
    }
  return counts;
}

}  // namespace rdmawire::conformance
