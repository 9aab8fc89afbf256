#pragma once
/// Congestion control of RoCEv2: the receiver of ECN marks (notification point) notifies the sender (reaction
/// point), which reduces its rate. Required by CA17-44 to CA17-46. Rates and intervals are implementation-defined
/// and follow DCQCN here. Pure functions. Time is an argument, in nanoseconds.

#include <algorithm>
#include <cstdint>

namespace rdmawire::machines {

/// Selects the marked packets that cause a CNP: at most one per interval. CA17-44 allows one CNP for several marks.
struct NotificationPoint {
  std::int64_t quiet_until = 0;  ///< no CNP before this time

  [[nodiscard]] constexpr bool notifies(std::int64_t now) const { return now >= quiet_until; }
  /// State after a CNP was sent.
  [[nodiscard]] static constexpr NotificationPoint notified(std::int64_t now, std::int64_t interval) {
    return {now + interval};
  }
};

struct ReactionSettings {
  std::uint64_t line = 100'000'000'000;    ///< bits per second: rate without congestion
  std::uint64_t least = 10'000'000;        ///< bits per second: minimum rate
  std::int64_t interval = 55'000;          ///< time from a decrease or an increase to the next increase
  std::int64_t fall_interval = 4'000;      ///< minimum time between two decreases: CNPs before its end have no effect
  std::uint32_t fast_recovery_steps = 5;   ///< number of increases that only halve the distance to the target
  std::uint64_t additive = 1'000'000'000;  ///< bits per second: increase of the target in each later step
};

/// The rate of one sender.
struct ReactionPoint {
  static constexpr std::uint32_t one = 1024;  ///< alpha = 1

  std::uint64_t rate = 0;     ///< bits per second (0: unlimited)
  std::uint64_t target = 0;   ///< rate to recover to
  std::uint32_t alpha = one;  ///< estimated congestion, in 1/1024
  std::int64_t next_rise = 0;
  std::int64_t last_fall = 0;
  std::uint32_t rises = 0;  ///< number of increases since the last decrease

  [[nodiscard]] constexpr bool is_limited() const { return rate != 0; }
  friend constexpr bool operator==(const ReactionPoint&, const ReactionPoint&) = default;
};

/// State after a CNP: decreases the rate, initially by half. CA17-45.
constexpr ReactionPoint notified(ReactionPoint at, std::int64_t now, const ReactionSettings& settings) {
  if (at.is_limited() && now - at.last_fall < settings.fall_interval) return at;
  const std::uint64_t rate = at.is_limited() ? at.rate : settings.line;
  at.target = rate;
  at.rate = std::max<std::uint64_t>(settings.least, rate - rate * at.alpha / (2ULL * ReactionPoint::one));
  at.alpha = std::min(ReactionPoint::one, at.alpha - at.alpha / 16 + ReactionPoint::one / 16);
  at.rises = 0;
  at.last_fall = now;
  at.next_rise = now + settings.interval;
  return at;
}

/// State after time without CNPs: moves halfway to the target each interval, then increases the target. Removes
/// the limit at line rate. CA17-46.
constexpr ReactionPoint passed(ReactionPoint at, std::int64_t now, const ReactionSettings& settings) {
  while (at.is_limited() && now >= at.next_rise) {
    at.alpha -= at.alpha / 16;
    if (at.rises++ >= settings.fast_recovery_steps) at.target = std::min(settings.line, at.target + settings.additive);
    // The minimum of one ensures that the loop terminates.
    at.rate += std::max<std::uint64_t>((at.target - std::min(at.rate, at.target)) / 2, 1);
    if (at.target - std::min(at.rate, at.target) < settings.least) at.rate = at.target;
    at.next_rise += settings.interval;
    if (at.rate >= settings.line) return {};
  }
  return at;
}

/// Minimum time from a packet of `bytes` bytes to the next packet.
constexpr std::int64_t spacing(const ReactionPoint& at, std::uint64_t bytes) {
  return at.is_limited() ? static_cast<std::int64_t>(bytes * 8 * 1'000'000'000 / at.rate) : 0;
}

}  // namespace rdmawire::machines
