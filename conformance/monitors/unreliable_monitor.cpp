#include "conformance/monitors/unreliable_monitor.hpp"

#include <fmt/format.h>

#include "conformance/monitors/connection_monitor.hpp"
#include "conformance/monitors/state_number.hpp"

namespace rdmawire::conformance {

void UnreliableSender::states(std::vector<std::uint64_t>& states) const {
  states.push_back(
      state_number(started_, sequence_known_, sequence_.inside, sequence_.inside ? sequence_.operation : Operation{}));
}

void UnreliableSender::packet(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (watch.duplicate || t.damaged) return;
  constexpr std::int32_t far = 1 << 16, remembered = 64;
  const std::int32_t ahead = started_ ? t.psn - next_ : 0;
  if (!started_ || ahead > far || -ahead > far) {
    started_ = true;
    first_ = next_ = t.psn;
    seen_ = 0;
    sequence_known_ = false;
    watch.inconclusive("uc.requester.psn.increments", Reason::start_not_seen);
  }
  if (ahead < 0) {
    const std::int32_t back = -ahead - 1;
    if (back >= remembered) {
      watch.inconclusive("uc.requester.completion.when-sent", Reason::out_of_window);
      return;
    }
    const bool before = seen_ >> back & 1;
    seen_ |= std::uint64_t{1} << back;
    // If the PSN was not captured before, the packet is late. Otherwise the PSN was used twice.
    if (!before) {
      watch.inconclusive("uc.requester.psn.increments", Reason::order_unknown);
      return;
    }
    // If the packet continues the message, the sender did not increment the PSN. Otherwise it retransmitted the packet.
    const bool continues = back == 0 && sequence_.inside && !t.op->begins_message();
    watch.report(continues ? RuleId("uc.requester.psn.increments") : RuleId("uc.requester.completion.when-sent"),
                 RuleResult::violation().unless(watch.identical, Reason::order_unknown), watch.from, [&] {
                   return Statement{fmt::format("relative PSN {}", next_ - first_),
                                    fmt::format("relative PSN {} for the second time", t.psn - first_),
                                    {}};
                 });
    return;
  }
  if (ahead > 0) {
    watch.report("uc.requester.psn.increments",
                 RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::capture_lost), watch.from, [&] {
                   return Statement{fmt::format("relative PSN {}", next_ - first_),
                                    fmt::format("relative PSN {}, after skipped PSNs", t.psn - first_),
                                    {last_frame_}};
                 });
    sequence_known_ = false;
  } else {
    watch.pass("uc.requester.psn.increments");
  }
  watch.pass("uc.requester.completion.when-sent");
  seen_ = ahead >= remembered ? 0 : seen_ << ahead;
  seen_ = seen_ << 1 | 1;
  next_ = t.psn + 1;
  sequence_ = sequence_.after(*t.op);
  last_frame_ = t.frame;
  // The capture does not show whether the receiver drops a message with a gap, only that it sends no response.
  watch.pass("uc.responder.response.none");
}

void check_unreliable_response(const MonitoredPacket& watch) {
  watch.report("uc.responder.response.none",
               RuleResult::violation()
                   .unless(watch.t.damaged, Reason::damaged)
                   .unless(!watch.paired, Reason::paired_by_inference),
               watch.from, [&] {
                 return Statement{"no response of any kind", std::string(watch.t.op->name), {}};
               });
}

}  // namespace rdmawire::conformance
