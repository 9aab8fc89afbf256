#pragma once
/// Internal: frames of one sender that its interface did not send.

#include <cstdint>
#include <optional>

#include "replay/wires/interface.hpp"

namespace rdmawire::replay {

/// Compares the frames that the kernel accepted from one sender with the frames that the interface sent. Frames of
/// other programs hide missing ones, so that the number of missing frames is a minimum.
class Delivery {
 public:
  /// Starts the comparison. Without it, frames that the kernel released count as sent.
  void begin(const Interface& interface) { before_ = interface.counters(); }
  /// The kernel accepted more frames.
  void accepted() { released_ = 0; }
  /// Result of Wire::flush(). `accepted`: frames and bytes since the wire was opened. `released`: the kernel and the
  /// driver hold none of them. `link`: the error of the link, if waiting for the release ended with it. Waits until
  /// `deadline` for counters that the driver updates late, at most 2 s after the release.
  WireResult<bool> check(const Interface& interface, const WireCounters& accepted, bool released,
                         const WireResult<void>& link, std::int64_t deadline);
  /// Frames that did not leave, or for which this is unknown.
  [[nodiscard]] std::uint64_t frames() const { return lost_.frames + unknown_.frames; }
  [[nodiscard]] std::uint64_t bytes() const { return lost_.bytes + unknown_.bytes; }

 private:
  struct Amount {
    std::uint64_t frames = 0, bytes = 0;
  };
  WireResult<bool> without_counters(const Interface& interface, const Amount& open, bool released,
                                    const WireResult<void>& link);
  void settle(const WireCounters& accepted, const std::optional<LinkCounters>& now);

  std::optional<LinkCounters> before_;  ///< at the last settlement. nullopt: no comparison
  Amount settled_;                      ///< accepted frames until then
  Amount lost_;                         ///< frames that did not leave, or whose counters were reset
  Amount unknown_;                      ///< frames that may not have left, at the last check
  std::int64_t released_ = 0;           ///< when the kernel had released all frames. 0: it has not
};

}  // namespace rdmawire::replay
