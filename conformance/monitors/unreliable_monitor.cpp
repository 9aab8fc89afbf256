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
  if (watch.copy || t.damaged) return;
  constexpr std::int32_t far = 1 << 16, remembered = 64;
  const std::int32_t ahead = started_ ? t.psn - next_ : 0;
  if (!started_ || ahead > far || -ahead > far) {
    started_ = true;
    first_ = next_ = t.psn;
    seen_ = 0;
    sequence_known_ = false;
    watch.open("uc.requester.psn.increments", Reason::start_not_seen);
  }
  if (ahead < 0) {
    const std::int32_t back = -ahead - 1;
    if (back >= remembered) {
      watch.open("uc.requester.completion.when-sent", Reason::out_of_window);
      return;
    }
    const bool before = seen_ >> back & 1;
    seen_ |= std::uint64_t{1} << back;
    // What was not seen came late; what was seen comes again.
    if (!before) {
      watch.open("uc.requester.psn.increments", Reason::order_unknown);
      return;
    }
    // The next packet of the message with the same PSN is no repetition.
    const bool goes_on = back == 0 && sequence_.inside && !t.op->begins_message();
    watch.say(goes_on ? RuleId("uc.requester.psn.increments") : RuleId("uc.requester.completion.when-sent"),
              RuleResult::violated(), watch.from, [&] {
                return Statement{
                    "nothing is sent again", fmt::format("the PSN of {} packets before once more", back + 1), {}};
              });
    return;
  }
  if (ahead > 0) {
    watch.say(
        "uc.requester.psn.increments",
        RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::capture_lost), watch.from, [&] {
          return Statement{"the PSN behind the last one's", fmt::format("{} PSNs are left out", ahead), {last_frame_}};
        });
    sequence_known_ = false;
  } else {
    watch.holds("uc.requester.psn.increments");
  }
  watch.holds("uc.requester.completion.when-sent");
  seen_ = ahead >= remembered ? 0 : seen_ << ahead;
  seen_ = seen_ << 1 | 1;
  next_ = t.psn + 1;
  sequence_ = sequence_.after(*t.op);
  last_frame_ = t.frame;
  // Whether a message with a gap in it is dropped only the receiver shows; on the wire: that it says nothing.
  watch.holds("uc.responder.response.none");
}

void judge_unreliable_response(const MonitoredPacket& watch) {
  watch.say("uc.responder.response.none",
            RuleResult::violated()
                .unless(watch.t.damaged, Reason::damaged)
                .unless(!watch.joined, Reason::paired_by_inference),
            watch.from, [&] {
              return Statement{"no response of any kind", std::string(watch.t.op->name), {}};
            });
}

}  // namespace rdmawire::conformance
