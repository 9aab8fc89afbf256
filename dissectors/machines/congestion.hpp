#pragma once
/// Congestion control of RoCEv2: who sees marks tells the sender (the notification point), and the sender slows down
/// (the reaction point). The specification says that it is so: CA17-44 to CA17-46; how often and how much is the
/// device's, and here as DCQCN has it. Pure functions; time comes in as an argument, in nanoseconds.

#include <algorithm>
#include <cstdint>

namespace rdmawire::machines {

/// Decides which marked packets draw a notification: one an interval. CA17-44 allows a single one for several marks.
struct NotificationPoint {
  std::int64_t quiet_until = 0;  ///< no other before

  [[nodiscard]] constexpr bool notifies(std::int64_t now) const { return now >= quiet_until; }
  /// After one was sent.
  [[nodiscard]] static constexpr NotificationPoint notified(std::int64_t now, std::int64_t interval) {
    return {now + interval};
  }
};

struct ReactionSettings {
  std::uint64_t line = 100'000'000'000;    ///< bits a second: as fast as it goes without congestion
  std::uint64_t least = 10'000'000;        ///< bits a second: it does not fall below
  std::int64_t interval = 55'000;          ///< how long after a fall, or a rise, the next rise comes
  std::int64_t fall_interval = 4'000;      ///< notifications closer than this count as one
  std::uint32_t fast_recovery_steps = 5;   ///< rises that only halve the way back
  std::uint64_t additive = 1'000'000'000;  ///< bits a second that the target rises by after them
};

/// The rate of one sender.
struct ReactionPoint {
  static constexpr std::uint32_t one = 1024;  ///< of alpha

  std::uint64_t rate = 0;     ///< bits a second; 0: without limit
  std::uint64_t target = 0;   ///< that it recovers to
  std::uint32_t alpha = one;  ///< how bad congestion seems, in 1/1024
  std::int64_t next_rise = 0;
  std::int64_t last_fall = 0;
  std::uint32_t rises = 0;  ///< since the last fall

  [[nodiscard]] constexpr bool is_limited() const { return rate != 0; }
  friend constexpr bool operator==(const ReactionPoint&, const ReactionPoint&) = default;
};

/// After a notification: the rate falls, by half at first. CA17-45.
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

/// After time has passed without a notification: halfway back each interval, then the target itself rises; at the
/// line's rate there is no limit any more. CA17-46.
constexpr ReactionPoint passed(ReactionPoint at, std::int64_t now, const ReactionSettings& settings) {
  while (at.is_limited() && now >= at.next_rise) {
    at.alpha -= at.alpha / 16;
    if (at.rises++ >= settings.fast_recovery_steps) at.target = std::min(settings.line, at.target + settings.additive);
    // What is left of the way, so that it ends.
    at.rate += std::max<std::uint64_t>((at.target - std::min(at.rate, at.target)) / 2, 1);
    if (at.target - std::min(at.rate, at.target) < settings.least) at.rate = at.target;
    at.next_rise += settings.interval;
    if (at.rate >= settings.line) return {};
  }
  return at;
}

/// When a packet of so many bytes may be followed by the next one.
constexpr std::int64_t spacing(const ReactionPoint& at, std::uint64_t bytes) {
  return at.is_limited() ? static_cast<std::int64_t>(bytes * 8 * 1'000'000'000 / at.rate) : 0;
}

}  // namespace rdmawire::machines
