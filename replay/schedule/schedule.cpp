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

RateCap::RateCap(std::uint64_t bits_per_second, std::int64_t burst) : bits_(bits_per_second), burst_(burst) {}

std::int64_t RateCap::allow(std::int64_t time, std::uint32_t bytes) {
  if (bits_ == 0) return time;
  if (due_ < time) {
    due_ = time;
    rest_ = 0;
  }
  const std::int64_t at = std::max(time, due_ - burst_);
  const std::uint64_t cost = std::uint64_t{bytes} * 8 * 1'000'000'000 + rest_;
  due_ += static_cast<std::int64_t>(cost / bits_);
  rest_ = cost % bits_;
  return at;
}

}  // namespace rdmawire::replay
