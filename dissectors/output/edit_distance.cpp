#include "dissectors/output/edit_distance.hpp"

#include <algorithm>

namespace rdmawire::output {

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return std::max(a.size(), b.size());
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  std::size_t least_before = 0;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
      least = std::min(least, next[j]);
    }
    // A transposition uses the row before the previous one, so the result exceeds the limit only if both rows do.
    if (std::min(least, least_before) > limit) return least;
    least_before = least;
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t least = SIZE_MAX;
  for (const std::string_view name : names) {
    const std::size_t limit = std::max(word.size(), name.size()) / 3;
    const std::size_t distance = edit_distance(word, name, limit);
    if (distance > limit || distance >= least) continue;
    least = distance;
    best = name;
  }
  return best.empty() ? std::string() : "; did you mean " + std::string(best) + "?";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  return did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end()));
}

}  // namespace rdmawire::output
