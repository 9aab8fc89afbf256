#pragma once
/// Congestion control of RoCEv2: the receiver of ECN-marked packets (notification point) sends CNPs to their sender
/// (reaction point), which reduces its rate. CA17-44 to CA17-46 require this, but leave rates and intervals to the
/// implementation. This implementation follows DCQCN. Pure functions. Time is an argument, in nanoseconds.

#include <algorithm>
#include <cstdint>

namespace rdmawire::machines {

/// Selects the ECN-marked packets for which a CNP is sent: at most one per interval. CA17-44 allows one CNP for several
/// marked packets.
struct NotificationPoint {
  std::int64_t quiet_until = 0;  ///< no CNP before this time

  [[nodiscard]] constexpr bool notifies(std::int64_t now) const { return now >= quiet_until; }
  /// Returns the state after a CNP was sent.
  [[nodiscard]] static constexpr NotificationPoint notified(std::int64_t now, std::int64_t interval) {
    return {now + interval};
  }
};

struct ReactionSettings {
  std::uint64_t line = 100'000'000'000;  ///< rate without congestion, in bits per second
  std::uint64_t least = 10'000'000;      ///< minimum rate, in bits per second
  std::int64_t interval = 55'000;        ///< time from a decrease or an increase to the next increase, in nanoseconds
  std::int64_t fall_interval = 4'000;    ///< minimum time between two decreases. CNPs in this time have no effect
  std::uint32_t fast_recovery_steps =
      5;  ///< number of increases that only halve the distance to the target, before the target increases
  std::uint64_t additive = 1'000'000'000;  ///< increase of the target in each later step, in bits per second
};

/// State of a sender that receives CNPs.
struct ReactionPoint {
  static constexpr std::uint32_t one = 1024;  ///< value of `alpha` that means 1

  std::uint64_t rate = 0;     ///< bits per second (0: unlimited)
  std::uint64_t target = 0;   ///< rate toward which `rate` increases
  std::uint32_t alpha = one;  ///< estimated degree of congestion, in units of 1/1024
  std::int64_t next_rise = 0;
  std::int64_t last_fall = 0;
  std::uint32_t rises = 0;  ///< number of increases since the last decrease

  [[nodiscard]] constexpr bool is_limited() const { return rate != 0; }
  friend constexpr bool operator==(const ReactionPoint&, const ReactionPoint&) = default;
};

/// Returns the state after a CNP: the rate decreases, the first time by half. CA17-45.
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

/// Returns the state after a time without CNPs. Each interval moves the rate halfway to the target. After
/// `fast_recovery_steps` intervals, each interval increases the target first. The limit is removed at line rate.
/// CA17-46.
constexpr ReactionPoint passed(ReactionPoint at, std::int64_t now, const ReactionSettings& settings) {
  while (at.is_limited() && now >= at.next_rise) {
    at.alpha -= at.alpha / 16;
    if (at.rises++ >= settings.fast_recovery_steps) at.target = std::min(settings.line, at.target + settings.additive);
    // An increase of at least one ensures that the loop terminates.
    at.rate += std::max<std::uint64_t>((at.target - std::min(at.rate, at.target)) / 2, 1);
    if (at.target - std::min(at.rate, at.target) < settings.least) at.rate = at.target;
    at.next_rise += settings.interval;
    if (at.rate >= settings.line) return {};
  }
  return at;
}

/// Returns the minimum time from the start of a packet of `bytes` bytes to the start of the next packet.
constexpr std::int64_t spacing(const ReactionPoint& at, std::uint64_t bytes) {
  return at.is_limited() ? static_cast<std::int64_t>(bytes * 8 * 1'000'000'000 / at.rate) : 0;
}

}  // namespace rdmawire::machines
