#include "conformance/monitors/congestion_monitor.hpp"

#include <fmt/format.h>

#include "conformance/monitors/connection_monitor.hpp"

namespace rdmawire::conformance {

void CongestionMonitor::packet(const MonitoredPacket& watch, std::array<CongestionMonitor, 2>& ends) {
  const auto& t = watch.t;
  if (watch.duplicate || t.damaged) return;
  constexpr std::uint32_t congestion_experienced = 3;
  if (t.op->operation != Operation::congestion_notification) {
    if ((t.traffic_class & 3U) != congestion_experienced) return;
    ++marked_;
    marked_frame_ = t.frame;
    marked_pkey_ = t.pkey;
    return;
  }
  ++notifications_;
  const CongestionMonitor& marks = ends[static_cast<std::size_t>(tracking::other(watch.from))];
  if (marks.marked_ == 0) {
    // A switch downstream of the capture point may have set an ECN mark, or the device may have sent the CNP after a
    // loss.
    watch.inconclusive("congestion.notification-point.cnp.answers-mark", Reason::maybe_lost_downstream);
    watch.pass("congestion.notification-point.cnp.on-loss");
    return;
  }
  watch.pass("congestion.notification-point.cnp.answers-mark");
  watch.report("congestion.notification-point.pacing.interval",
               RuleResult::of(notifications_ <= marks.marked_)
                   .unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream),
               watch.from, [&] {
                 return Statement{fmt::format("at most {} CNPs, one for each marked packet", marks.marked_),
                                  fmt::format("{} CNPs", notifications_),
                                  {marks.marked_frame_}};
               });
  constexpr std::uint16_t base = 0x7fff;  // without the membership bit
  watch.report("congestion.notification-point.cnp.format", RuleResult::of(((t.pkey ^ marks.marked_pkey_) & base) == 0),
               watch.from, [&] {
                 return Statement{fmt::format("P_Key {:#06x} of the marked packet", marks.marked_pkey_),
                                  fmt::format("P_Key {:#06x}", t.pkey),
                                  {marks.marked_frame_}};
               });
}

}  // namespace rdmawire::conformance
