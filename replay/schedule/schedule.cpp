#include "replay/schedule/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace rdmawire::replay {
namespace {

constexpr long double second = 1e9L;

std::int64_t rounded(long double nanoseconds) {
  constexpr auto most = static_cast<long double>(std::numeric_limits<std::int64_t>::max() / 2);
  return std::llroundl(std::clamp(nanoseconds, -most, most));
}

}  // namespace

Schedule::Schedule(const Pace& pace, std::int64_t anchor) : pace_(pace), anchor_(anchor), latest_(anchor) {}

std::int64_t Schedule::next(std::int64_t time, std::uint32_t bytes) {
  std::int64_t at = anchor_;
  switch (pace_.kind) {
    case Pace::Kind::captured: {
      if (!first_) first_ = highest_ = time;
      if (time > highest_) {
        if (time - highest_ > pace_.most_gap) cut_ += time - highest_ - pace_.most_gap;
        highest_ = time;
      }
      const std::int64_t elapsed = time - *first_ - cut_;
      at += pace_.rate == 1 ? elapsed : rounded(static_cast<long double>(elapsed) / pace_.rate);
      break;
    }
    case Pace::Kind::packets:
    case Pace::Kind::bits:
    case Pace::Kind::top: at += length(); break;
  }
  ++frames_;
  bytes_ += bytes;
  latest_ = std::max(latest_, at);
  return at;
}

std::int64_t Schedule::length() const {
  switch (pace_.kind) {
    case Pace::Kind::captured: return latest_ - anchor_;
    case Pace::Kind::packets:
      return rounded(static_cast<long double>(frames_ / pace_.burst * pace_.burst) * (second / pace_.rate));
    case Pace::Kind::bits: return rounded(static_cast<long double>(bytes_) * (8 * second / pace_.rate));
    case Pace::Kind::top: break;
  }
  return 0;
}

void Schedule::begin_again(std::int64_t pause) {
  if (pace_.kind == Pace::Kind::captured) {
    anchor_ = latest_ + pause;
    first_.reset();
    cut_ = 0;
  } else {
    anchor_ += pause;
  }
}

__extension__ using Wide = unsigned __int128;

RateCap::RateCap(std::uint64_t bits_per_second)
    : bits_(bits_per_second), budget_(static_cast<std::uint64_t>(Wide{bits_per_second} * window / 8 / 1'000'000'000)) {}

std::int64_t RateCap::allowed(std::int64_t time, std::uint32_t bytes, std::uint64_t before) const {
  if (bits_ == 0) return time;
  // Generic cell rate algorithm: keeps the average rate.
  const auto preceding = static_cast<std::int64_t>(Wide{before} * 8 * 1'000'000'000 / bits_);
  std::int64_t at = std::max(time, std::max(due_, time) + preceding - burst);
  // Sliding window: limits each 10 ms.
  std::uint64_t sum = total_ + before + bytes;
  for (const Group& group : groups_) {
    if (group.last + window > at) {
      if (sum <= budget_) break;
      at = group.last + window;
    }
    sum -= group.bytes;
  }
  return before != 0 && sum > budget_ ? std::max(at, time + window) : at;
}

void RateCap::sent(std::int64_t time, std::uint64_t bytes) {
  if (bits_ == 0) return;
  if (due_ < time) {
    due_ = time;
    rest_ = 0;
  }
  const Wide cost = Wide{bytes} * 8 * 1'000'000'000 + rest_;
  due_ += static_cast<std::int64_t>(cost / bits_);
  rest_ = static_cast<std::uint64_t>(cost % bits_);
  while (!groups_.empty() && groups_.front().last + window <= time) {
    total_ -= groups_.front().bytes;
    groups_.pop_front();
  }
  total_ += bytes;
  if (!groups_.empty() && time - groups_.back().first < grouped) {
    groups_.back().last = std::max(groups_.back().last, time);
    groups_.back().bytes += bytes;
  } else {
    groups_.push_back({time, time, bytes});
  }
}

}  // namespace rdmawire::replay
