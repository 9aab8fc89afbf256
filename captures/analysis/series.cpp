#include "captures/analysis/series.hpp"

#include <algorithm>

namespace rdmawire::captures::analysis {

void Series::coarsen() {
  const std::int64_t first = floor_divide(first_, 2);
  const std::int64_t last = floor_divide(first_ + static_cast<std::int64_t>(steps_.size()) - 1, 2);
  std::vector<Step> steps(static_cast<std::size_t>(last - first + 1));
  for (std::size_t i = 0; i < steps_.size(); ++i)
    steps[static_cast<std::size_t>(floor_divide(first_ + static_cast<std::int64_t>(i), 2) - first)] += steps_[i];
  steps_ = std::move(steps);
  first_ = first;
  step_ *= 2;
}

void Series::reach(std::int64_t time) {
  if (steps_.empty()) {
    first_ = floor_divide(time, step_);
    steps_.resize(1);
    return;
  }
  for (;;) {
    const std::int64_t at = floor_divide(time, step_);
    const std::int64_t last = first_ + static_cast<std::int64_t>(steps_.size()) - 1;
    const std::int64_t from = std::min(at, first_), to = std::max(at, last);
    if (to - from >= max_steps) {
      coarsen();
      continue;
    }
    if (from < first_) steps_.insert(steps_.begin(), static_cast<std::size_t>(first_ - from), Step{});
    first_ = from;
    steps_.resize(static_cast<std::size_t>(to - from + 1));
    return;
  }
}

Series::Step& Series::find(std::int64_t time) {
  // The limits of a step outside of this range (years 1823 to 2116) may exceed 64 bits.
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  time = std::clamp(time, -limit, limit);
  reach(time);
  const std::int64_t at = floor_divide(time, step_);
  current_ = static_cast<std::size_t>(at - first_);
  current_from_ = at * step_;
  return steps_[current_];
}

void Series::merge(const Series& other) {
  if (other.steps_.empty()) return;
  if (steps_.empty()) {
    *this = other;
    return;
  }
  Series theirs = other;
  while (theirs.step_ < step_) theirs.coarsen();
  while (step_ < theirs.step_) coarsen();
  const auto last_of = [&] { return theirs.first_ + static_cast<std::int64_t>(theirs.steps_.size()) - 1; };
  reach(theirs.first_ * theirs.step_);
  reach(last_of() * theirs.step_);
  while (theirs.step_ < step_) theirs.coarsen();
  for (std::size_t i = 0; i < theirs.steps_.size(); ++i)
    steps_[static_cast<std::size_t>(theirs.first_ - first_) + i] += theirs.steps_[i];
  current_ = steps_.size();  // marks it as invalid, because the step may have moved
}

}  // namespace rdmawire::captures::analysis
