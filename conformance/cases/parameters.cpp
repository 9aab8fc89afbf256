#include "conformance/cases/parameters.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rdmawire::conformance {
namespace {

/// Values of some parameters, by ascending parameter.
using Combination = std::vector<std::pair<std::size_t, std::size_t>>;

/// Calls `use` with each set of `size` parameters, in lexicographic order.
template <class Use>
void each_set(std::size_t parameters, std::size_t size, const Use& use) {
  std::vector<std::size_t> chosen(size);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (size > parameters) return;
  for (;;) {
    use(chosen);
    std::size_t at = size;
    while (at > 0 && chosen[at - 1] == parameters - size + at - 1) --at;
    if (at == 0) return;
    ++chosen[at - 1];
    for (; at < size; ++at) chosen[at] = chosen[at - 1] + 1;
  }
}

bool contains(const ParameterRow& row, const Combination& combination) {
  return std::all_of(combination.begin(), combination.end(),
                     [&](const auto& one) { return row[one.first] == one.second; });
}

class Builder {
 public:
  explicit Builder(const CoveringOptions& options)
      : options_(options), size_(std::min<std::size_t>(options.strength, options.values.size())) {
    each_set(options.values.size(), size_, [&](const std::vector<std::size_t>& parameters) { add(parameters, {}); });
    existing_ = left_.size();
    std::erase_if(left_, [&](const Combination& one) {
      ParameterRow row = empty();
      for (const auto& [parameter, value] : one) row[parameter] = value;
      return !complete(row);
    });
    possible_ = left_.size();
  }

  std::vector<ParameterRow> build() {
    std::vector<ParameterRow> rows = options_.given;
    for (const ParameterRow& row : rows) cover(row);
    while (!left_.empty()) {
      ParameterRow row = empty();
      for (const auto& [parameter, value] : left_.front()) row[parameter] = value;
      complete(row);
      cover(row);
      rows.push_back(std::move(row));
    }
    return rows;
  }
  CombinationCounts count(const std::vector<ParameterRow>& rows) {
    for (const ParameterRow& row : rows) cover(row);
    return {existing_, possible_, possible_ - left_.size()};
  }

 private:
  [[nodiscard]] ParameterRow empty() const { return ParameterRow(options_.values.size(), unset_parameter); }
  [[nodiscard]] bool allowed(const ParameterRow& row) const { return !options_.allowed || options_.allowed(row); }

  /// Adds all combinations of values of these parameters that start with `first`.
  void add(const std::vector<std::size_t>& parameters, const Combination& first) {
    if (first.size() == parameters.size()) {
      left_.push_back(first);
      return;
    }
    for (std::size_t value = 0; value < options_.values[parameters[first.size()]]; ++value) {
      Combination next = first;
      next.emplace_back(parameters[first.size()], value);
      add(parameters, next);
    }
  }

  /// Returns the number of uncovered combinations that a row contains.
  [[nodiscard]] std::size_t gain(const ParameterRow& row) const {
    return static_cast<std::size_t>(
        std::count_if(left_.begin(), left_.end(), [&](const Combination& one) { return contains(row, one); }));
  }

  /// Sets the unset parameters, so that the row contains many of the uncovered combinations. Returns false if it is
  /// impossible.
  bool complete(ParameterRow& row) const {
    if (!allowed(row)) return false;
    const auto unset = std::find(row.begin(), row.end(), unset_parameter);
    if (unset == row.end()) return true;
    const auto parameter = static_cast<std::size_t>(unset - row.begin());
    std::vector<std::pair<std::size_t, std::size_t>> order;  // gain, value
    for (std::size_t value = 0; value < options_.values[parameter]; ++value) {
      row[parameter] = value;
      order.emplace_back(gain(row), value);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    for (const auto& [unused, value] : order) {
      ParameterRow tried = row;
      tried[parameter] = value;
      if (complete(tried)) {
        row = std::move(tried);
        return true;
      }
    }
    row[parameter] = unset_parameter;
    return false;
  }
  void cover(const ParameterRow& row) {
    std::erase_if(left_, [&](const Combination& one) { return contains(row, one); });
  }

  const CoveringOptions& options_;
  const std::size_t size_;
  std::vector<Combination> left_;
  std::size_t existing_ = 0, possible_ = 0;
};

}  // namespace

std::vector<ParameterRow> covering_rows(const CoveringOptions& options) { return Builder(options).build(); }

CombinationCounts count_combinations(const CoveringOptions& options, const std::vector<ParameterRow>& rows) {
  return Builder(options).count(rows);
}

}  // namespace rdmawire::conformance
