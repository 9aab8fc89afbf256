#include "conformance/cases/parameters.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace rdmawire::conformance {
namespace {

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

/// A set of parameters whose combinations of values a covering array contains.
struct ParameterGroup {
  std::vector<std::size_t> parameters;  ///< ascending
  std::vector<std::size_t> strides;     ///< distance of the combinations of adjacent values, for each parameter
  std::size_t begin = 0, count = 0;     ///< its combinations among those of all groups
};

class Builder {
 public:
  explicit Builder(const CoveringOptions& options) : options_(options), groups_of_(options.values.size()) {
    const std::size_t size = std::min<std::size_t>(options.strength, options.values.size());
    each_set(options.values.size(), size, [&](const std::vector<std::size_t>& parameters) { add(parameters); });
    existing_ = left_.size();
    for (const ParameterGroup& group : groups_)
      for (std::size_t i = 0; i < group.count; ++i) left_[group.begin + i] = is_possible(row_with(group, i));
    possible_ = left_count();
  }

  std::vector<ParameterRow> build() {
    std::vector<ParameterRow> rows = options_.given;
    for (const ParameterRow& row : rows) cover(row);
    for (const ParameterGroup& group : groups_)
      for (std::size_t i = 0; i < group.count; ++i) {
        if (!left_[group.begin + i]) continue;
        ParameterRow row = row_with(group, i);
        complete(row);
        cover(row);
        rows.push_back(std::move(row));
      }
    return rows;
  }
  CombinationCounts count(const std::vector<ParameterRow>& rows) {
    for (const ParameterRow& row : rows) cover(row);
    return {existing_, possible_, possible_ - left_count()};
  }

 private:
  [[nodiscard]] bool allowed(const ParameterRow& row) const { return !options_.allowed || options_.allowed(row); }
  [[nodiscard]] std::size_t left_count() const {
    return static_cast<std::size_t>(std::count(left_.begin(), left_.end(), true));
  }

  void add(const std::vector<std::size_t>& parameters) {
    ParameterGroup group{.parameters = parameters,
                         .strides = std::vector<std::size_t>(parameters.size()),
                         .begin = left_.size(),
                         .count = 1};
    for (std::size_t i = parameters.size(); i > 0; --i) {
      group.strides[i - 1] = group.count;
      group.count *= options_.values[parameters[i - 1]];
    }
    left_.resize(left_.size() + group.count, true);
    for (const std::size_t parameter : parameters) groups_of_[parameter].push_back(groups_.size());
    groups_.push_back(std::move(group));
  }

  /// A row with the values of one combination of a group.
  [[nodiscard]] ParameterRow row_with(const ParameterGroup& group, std::size_t combination) const {
    ParameterRow row(options_.values.size(), unset_parameter);
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const std::size_t parameter = group.parameters[i];
      row[parameter] = combination / group.strides[i] % options_.values[parameter];
    }
    return row;
  }
  /// Returns the index in `left_` of the group's combination that the row contains, or nullopt if one of its parameters
  /// is unset.
  static std::optional<std::size_t> index_in(const ParameterGroup& group, const ParameterRow& row) {
    std::size_t index = group.begin;
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const std::size_t value = row[group.parameters[i]];
      if (value == unset_parameter) return std::nullopt;
      index += value * group.strides[i];
    }
    return index;
  }

  /// Returns the number of uncovered combinations that the row contains and that include the parameter.
  [[nodiscard]] std::size_t gain(const ParameterRow& row, std::size_t parameter) const {
    std::size_t count = 0;
    for (const std::size_t group : groups_of_[parameter])
      if (const auto index = index_in(groups_[group], row); index && left_[*index]) ++count;
    return count;
  }

  /// Returns whether the unset parameters have possible values.
  [[nodiscard]] bool is_possible(const ParameterRow& row) const {
    if (!allowed(row)) return false;
    ParameterRow tried = row;
    std::replace(tried.begin(), tried.end(), unset_parameter, std::size_t{0});
    if (allowed(tried)) return true;
    tried = row;
    return complete(tried);
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
      order.emplace_back(gain(row, parameter), value);
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
    for (const ParameterGroup& group : groups_)
      if (const auto index = index_in(group, row)) left_[*index] = false;
  }

  const CoveringOptions& options_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::vector<std::size_t>> groups_of_;  ///< the indices of the groups of each parameter
  std::vector<bool> left_;                           ///< the possible and uncovered combinations of all groups
  std::size_t existing_ = 0, possible_ = 0;
};

}  // namespace

std::vector<ParameterRow> covering_rows(const CoveringOptions& options) { return Builder(options).build(); }

CombinationCounts count_combinations(const CoveringOptions& options, const std::vector<ParameterRow>& rows) {
  return Builder(options).count(rows);
}

}  // namespace rdmawire::conformance
