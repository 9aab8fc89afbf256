#include "replay/wires/delivery.hpp"

#include <algorithm>
#include <cerrno>

#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"

namespace rdmawire::replay {
namespace {

WireError missing(const Interface& interface, std::uint64_t frames, std::string_view what, bool carrier_lost) {
  return wire_error(WireError::Kind::down, ENETDOWN, "{}: {} accepted frame{} {} the interface{}", interface.wire(),
                    frames, frames == 1 ? "" : "s", what,
                    carrier_lost ? ", because the carrier was lost (check the cable and the peer)"
                                 : " (see ip -s link show and tc -s qdisc show)");
}

}  // namespace

void Delivery::settle(const WireCounters& accepted, const std::optional<LinkCounters>& now) {
  before_ = now;
  settled_ = {accepted.sent, accepted.sent_bytes};
  unknown_ = {};
}

// The counters were not available at the opening, or are no longer.
WireResult<bool> Delivery::without_counters(const Interface& interface, const Amount& open, bool released,
                                            const WireResult<void>& link) {
  const bool known = released && !before_;
  unknown_ = known ? Amount{} : open;
  if (!link) return tl::unexpected(link.error());
  if (!before_ || open.frames == 0) return released;
  return tl::unexpected(interface.is_there() ? missing(interface, open.frames, "may not have left", false)
                                             : interface.failed("flush", ENODEV));
}

WireResult<bool> Delivery::check(const Interface& interface, const WireCounters& accepted, bool released,
                                 const WireResult<void>& link, std::int64_t deadline) {
  constexpr std::int64_t pause = 10'000'000, longest_update = 2'000'000'000;
  if (!released)
    released_ = 0;
  else if (released_ == 0)
    released_ = wire_clock::now();
  const Amount open{accepted.sent - settled_.frames, accepted.sent_bytes - settled_.bytes};
  for (;;) {
    const auto now = before_ ? interface.counters() : std::nullopt;
    if (!now || now->sent < before_->sent) {
      auto result = without_counters(interface, open, released, link);
      if (released && (!before_ || now)) {
        // A driver that was restarted counts from 0. These frames stay unknown.
        const Amount unknown = unknown_;
        settle(accepted, now);
        lost_.frames += unknown.frames;
        lost_.bytes += unknown.bytes;
      }
      return result;
    }
    const std::uint64_t sent = now->sent - before_->sent;
    if (released && sent >= open.frames) {
      settle(accepted, now);
      return true;
    }
    // Other programs may have sent frames while those of the wire are still queued.
    unknown_.frames = std::max<std::uint64_t>(open.frames - std::min(open.frames, sent), 1);
    unknown_.bytes = open.bytes - std::min(open.bytes, now->sent_bytes - before_->sent_bytes);
    const bool carrier_lost = now->losses > before_->losses;
    if (!released) {
      if (link) return false;
      return tl::unexpected(carrier_lost ? missing(interface, unknown_.frames, "may not have left", true)
                                         : link.error());
    }
    if (wire_clock::now() >= released_ + longest_update) {
      const Amount gone = unknown_;
      settle(accepted, now);
      lost_.frames += gone.frames;
      lost_.bytes += gone.bytes;
      return tl::unexpected(missing(interface, gone.frames, "did not leave", carrier_lost));
    }
    if (wire_clock::now() >= deadline) return false;
    wire_clock::sleep_until(std::min(deadline, wire_clock::now() + pause));
  }
}

}  // namespace rdmawire::replay
