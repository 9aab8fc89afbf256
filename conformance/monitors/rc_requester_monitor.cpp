/// Judgments on the requester of a reliable connection.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/machines/rc_requester.hpp"

namespace rdmawire::conformance {
namespace {

using machines::InvalidRequest;

/// What packets are called in sentences.
std::string name_of(std::uint8_t opcode_value) { return std::string(opcode(opcode_value).name); }

}  // namespace

void RcExchange::judge_order(const MonitoredPacket& watch, std::int32_t gap) const {
  const RuleResult ruling = gap == 0
                                ? RuleResult::holds()
                                : RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::capture_lost);
  const auto tell = [&] {
    return Statement{fmt::format("the PSN behind the last one's, {} further back", gap),
                     fmt::format("{} PSNs are left out", gap),
                     {sent_.empty() ? 0 : sent_.back().frame}};
  };
  watch.say("rc.requester.psn.increments", ruling, watch.from, tell);
  if (sent_.empty() || !sent_.back().is_read()) return;
  watch.say("rc.requester.psn.read-takes-responses",
            ruling.unless(!watch.connection.mtu_negotiated, Reason::negotiation_not_seen), watch.from, tell);
}

// A packet after the one with the PSN before it: what it is, and how long.
void RcExchange::judge_chain(const MonitoredPacket& watch, std::size_t at) {
  SeenRequest& r = sent_[at];
  const Opcode& op = r.op();
  const SeenRequest* before = at > 0 && sent_[at - 1].end() == r.psn ? &sent_[at - 1] : nullptr;
  const bool begins = start_known_ && r.psn == first_;
  const bool known = begins || (before && before->sequence_known);
  const machines::MessageSequence sequence = before ? before->after : machines::MessageSequence{};

  // The machine says what the responder must refuse; of its state only the open message matters here.
  thread_local machines::RcResponder responder;
  responder.sequence = sequence;
  const bool bytes = op.begins_message() || (before && before->bytes_known && known);
  responder.length = before ? before->announced : 0;
  responder.done = before && !op.begins_message() ? before->done : 0;
  machines::RcRequest request{.op = &op, .psn = r.psn, .payload = r.payload, .va = r.va, .length = r.length};
  machines::RcResponderSettings settings;
  settings.mtu = watch.connection.mtu;

  const bool again = r.judged;
  r.sequence_known = true;
  r.after = sequence.after(op);
  r.bytes_known = bytes;
  r.done = responder.done + r.payload;
  r.announced = op.begins_message() ? r.length : responder.length;
  r.judged = known;
  if (again) return;

  if (known) {
    const bool allowed = sequence.allows(op);
    watch.say("rc.requester.order.as-posted", RuleResult::of(allowed), watch.from, [&] {
      return Statement{sequence.inside ? fmt::format("the open {} goes on", to_string(sequence.operation))
                                       : std::string("a packet that begins a message"),
                       name_of(r.opcode), before ? std::vector{before->frame} : std::vector<std::uint64_t>{}};
    });
    if (!allowed) {
      r.invalid = InvalidRequest::sequence;
      return;
    }
  } else {
    watch.open("rc.requester.order.as-posted", at == 0 && !lost_ ? Reason::start_not_seen : Reason::capture_lost);
    if (!op.begins_message()) return;
    responder.sequence = {};
  }
  const bool measured = op.operation == Operation::rdma_write || op.operation == Operation::send;
  if (!measured) return;
  constexpr std::uint32_t smallest_mtu = 256;
  if (settings.mtu == 0 && op.position == Position::only && r.payload <= smallest_mtu) settings.mtu = smallest_mtu;
  if (settings.mtu == 0) {
    watch.open("rc.requester.length.packets-filled", Reason::negotiation_not_seen);
    return;
  }
  r.invalid = machines::malformed(responder, request, settings);
  if (r.invalid == InvalidRequest::message_length && !bytes) r.invalid.reset();
  // A first or middle packet of no path MTU's size is wrong whatever was agreed on.
  const bool full = op.position == Position::first || op.position == Position::middle;
  const bool certain = watch.connection.mtu_negotiated || r.invalid != InvalidRequest::payload ||
                       (full && !machines::is_path_mtu(r.payload));
  watch.say("rc.requester.length.packets-filled",
            RuleResult::of(!r.invalid).unless(!certain, Reason::negotiation_not_seen), watch.from, [&] {
              if (r.invalid == InvalidRequest::message_length)
                return Statement{fmt::format("{} bytes in all, as the RETH says", r.announced),
                                 fmt::format("{} bytes with this {}", r.done, name_of(r.opcode)),
                                 {}};
              return Statement{full ? fmt::format("{} bytes, the path MTU", settings.mtu)
                                    : fmt::format("{} bytes at most{}", settings.mtu,
                                                  op.position == Position::last ? ", and at least 1" : ""),
                               fmt::format("{} bytes in {}", r.payload, name_of(r.opcode)),
                               {}};
            });
  if (!certain) r.invalid.reset();
}

// Whether a message's last packet asks for an answer. Some requesters ask once for several messages.
void RcExchange::judge_ack_request(const MonitoredPacket& watch) const {
  const Opcode& op = *watch.t.op;
  if (!op.ends_message() || machines::keeps_answer(op.operation)) return;
  watch.judge.judge("rc.requester.ack-request.on-last",
                    watch.t.ack_request ? RuleResult::holds() : RuleResult::open(Reason::device_internal));
}

// The same PSN once more.
void RcExchange::judge_again(const MonitoredPacket& watch, SeenRequest& known) {
  const SeenRequest now = read(watch);
  const auto differs = [&]() -> std::string {
    if (now.opcode != known.opcode) return fmt::format("{} instead of {}", name_of(now.opcode), name_of(known.opcode));
    if (now.pkey != known.pkey) return fmt::format("P_Key {:#x} instead of {:#x}", now.pkey, known.pkey);
    if (now.solicited != known.solicited) return fmt::format("solicited event {:d}", now.solicited);
    if (now.payload != known.payload) return fmt::format("{} bytes instead of {}", now.payload, known.payload);
    if (now.va != known.va || now.key != known.key || now.length != known.length)
      return fmt::format("address {:#x}, key {:#x}, length {} instead of {:#x}, {:#x}, {}", now.va, now.key, now.length,
                         known.va, known.key, known.length);
    return {};
  };
  const std::string other = differs();
  const bool read = now.is_read() && known.is_read();
  const bool comparable = now.payload_known && known.payload_known;
  // A program that does not leave its buffer alone changes what is sent again, and the device is not to blame.
  const bool other_bytes = other.empty() && comparable && now.payload_crc != known.payload_crc;
  const RuleResult same = !other.empty() ? RuleResult::violated()
                          : !comparable  ? RuleResult::open(Reason::cut)
                          : !other_bytes ? RuleResult::holds()
                                         : RuleResult::violated().unless(!watch.bench, Reason::device_internal);
  const auto tell = [&](const std::string& what) {
    return Statement{fmt::format("the packet of frame {} again", known.frame), what, {known.frame}};
  };
  // A READ may be asked for again in part; its beginning, alone, is no part that is missing.
  // What a packet carries beside its bytes has a rule of its own.
  const bool loses = known.op().operation == now.op().operation &&
                     (known.op().immediate != now.op().immediate || known.op().invalidate != now.op().invalidate);
  watch.say(loses ? RuleId("rc.requester.retry.same-operands") : RuleId("rc.requester.retry.identical"), same,
            watch.from, [&] { return tell(other_bytes ? "other payload" : other); });
  known.doubtful = known.doubtful || !other.empty();
  const Opcode& op = now.op();
  if (now.opcode == known.opcode && (op.immediate || op.invalidate || machines::is_atomic(op.operation))) {
    const bool equal = now.immediate == known.immediate && now.invalidated == known.invalidated &&
                       now.operand == known.operand && now.compare == known.compare;
    watch.say("rc.requester.retry.same-operands", RuleResult::of(equal), watch.from, [&] {
      return tell(op.immediate    ? fmt::format("immediate data {:#x} instead of {:#x}", now.immediate, known.immediate)
                  : op.invalidate ? fmt::format("IETH {:#x} instead of {:#x}", now.invalidated, known.invalidated)
                                  : fmt::format("operands {:#x}, {:#x} instead of {:#x}, {:#x}", now.operand,
                                                now.compare, known.operand, known.compare));
    });
  }
  if (read && known.skipped) watch.holds("rc.requester.read.implied-nak");
  if (read && known.responses > 0 && known.answered_frame == 0) {
    // What came of the response was seen; whether the requester got it is another matter.
    watch.say_of_both(
        "rc.requester.read.rest-asked-again",
        RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream), watch.from, [&] {
          return Statement{fmt::format("what is missing behind {} packets of the response", known.responses),
                           "the whole READ again",
                           {known.frame}};
        });
  }
  known.asked_from = 0;
  judge_round(watch, &known, now.psns);
}

// A request inside the PSNs of a READ: only the READ's rest can have one.
void RcExchange::judge_part_of_read(const MonitoredPacket& watch, SeenRequest& known) {
  const auto& t = watch.t;
  if (t.op->operation != Operation::rdma_read_request) {
    watch.say(
        "rc.requester.psn.read-takes-responses",
        RuleResult::violated().unless(!watch.connection.mtu_negotiated || known.vague, Reason::negotiation_not_seen),
        watch.from, [&] {
          return Statement{fmt::format("PSNs from {} on: the READ of frame {} takes {}", (known.end() - first_),
                                       known.frame, known.psns),
                           fmt::format("{} inside the READ's PSNs", t.op->name),
                           {known.frame}};
        });
    return;
  }
  const auto into = static_cast<std::uint32_t>(t.psn - known.psn);
  const std::uint64_t bytes = std::uint64_t{into} * watch.connection.mtu;
  const bool rest =
      t.key == known.key && t.address == known.va + bytes && bytes <= known.length && t.length == known.length - bytes;
  watch.say("rc.requester.read.rest-asked-again",
            RuleResult::of(rest).unless(!watch.connection.mtu_negotiated, Reason::negotiation_not_seen), watch.from,
            [&] {
              return Statement{
                  fmt::format("address {:#x}, key {:#x}, length {}: what is missing behind {} packets of the response",
                              known.va + bytes, known.key, known.length - bytes, into),
                  fmt::format("address {:#x}, key {:#x}, length {}", t.address, t.key, t.length),
                  {known.frame}};
            });
  if (known.response_gap && into <= known.responses) {
    watch.holds("rc.requester.read.gap-asked-again");
    known.response_gap = false;
  }
  if (known.skipped) watch.holds("rc.requester.read.implied-nak");
  SeenRequest part = known;
  part.psn = t.psn;
  judge_round(watch, &part, known.psns - into);
  known.asked_from = into;
  known.times = static_cast<std::uint8_t>(std::min<unsigned>(known.times + 1U, 255));
  known.last_frame = t.frame;
  known.last_time = t.time;
}

// A packet that is sent again: one more of a round, or a new one's first. `known`: its sending before; nullptr: that
// was not seen.
void RcExchange::judge_round(const MonitoredPacket& watch, const SeenRequest* known, std::uint32_t psns) {
  const auto& t = watch.t;
  again_frame_ = t.frame;
  ++again_;
  const bool goes_on = round_.active && t.psn == round_.next;
  if (goes_on) {
    watch.holds("rc.requester.retry.go-back-n");
    if (t.psn.value() < round_.start.value()) watch.holds("rc.requester.retry.psn-wraps");
  } else {
    const bool skips = round_.active && t.psn - round_.next > 0 && !(proven_known_ && t.psn - proven_ <= 0) &&
                       !nak_.active && !rnr_.active;
    if (skips) {
      const RuleId rule = t.psn.value() < round_.start.value() ? RuleId("rc.requester.retry.psn-wraps")
                                                               : RuleId("rc.requester.retry.go-back-n");
      watch.say(rule, RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::capture_lost), watch.from,
                [&] {
                  return Statement{fmt::format("relative PSN {} next", round_.next - first_),
                                   fmt::format("{} PSNs are left out of the round", t.psn - round_.next),
                                   {round_.frame}};
                });
    } else {
      judge_completed(watch, known);
      judge_round_begin(watch, known);
    }
  }
  round_.active = true;
  round_.next = t.psn + psns;
  if (const std::size_t at = before_or_at(t.psn); known && at != nowhere && sent_[at].psn == t.psn) {
    SeenRequest& again = sent_[at];
    again.times = static_cast<std::uint8_t>(std::min<unsigned>(again.times + 1U, 255));
    again.last_frame = t.frame;
    again.last_time = t.time;
  }
}

// A message that an ACK completed is not sent again: who saw the ACK has nothing to send. A NAK may be answered by more
// than it asked for.
void RcExchange::judge_completed(const MonitoredPacket& watch, const SeenRequest* known) {
  const bool asked = nak_.active || rnr_.active || response_gap_frame_ != 0;
  if (!known || known->has_own_answer() || !proven_known_ || !watch.joined || asked) return;
  std::size_t end = before_or_at(watch.t.psn);
  while (end + 1 < sent_.size() && !sent_[end].op().ends_message()) ++end;
  const bool completed = end < sent_.size() && sent_[end].op().ends_message() && sent_[end].psn - proven_ < 0;
  const bool knew = watch.t.time - proven_time_ >= limits::in_flight_ns;
  if (!completed && !acknowledged_) return;
  acknowledged_ = false;
  watch.say_of_both(
      "rc.requester.ack.completes-up-to",
      RuleResult::of(!completed)
          .unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream)
          .unless(!knew, Reason::in_flight),
      watch.from, [&] {
        return Statement{
            fmt::format("nothing of the messages before relative PSN {}, which are acknowledged", proven_ - first_),
            fmt::format("relative PSN {} again", watch.t.psn - first_),
            {proven_frame_}};
      });
}

// Why it is sent again, and whether in time.
void RcExchange::judge_round_begin(const MonitoredPacket& watch, const SeenRequest* known) {
  const auto& t = watch.t;
  const bool whole = watch.sees_all_of(watch.from);
  const auto* agreed = watch.agreement ? &watch.agreement->ends[static_cast<std::size_t>(watch.from)] : nullptr;
  const bool same_place = round_.frame != 0 && round_.start == t.psn;
  const bool after_rnr = rnr_.active && watch.joined;
  round_.at_start = same_place ? round_.at_start + 1 : 1;
  round_.rnr_at_start = (same_place ? round_.rnr_at_start : 0) + (after_rnr && rnr_.psn == t.psn);

  if (nak_.active && watch.joined) {
    const bool far_enough_back = t.psn - nak_.psn <= 0;
    const bool wrapped = !far_enough_back && t.psn.value() < nak_.psn.value();
    watch.say(wrapped ? RuleId("rc.requester.retry.psn-wraps") : RuleId("rc.requester.retry.begins-at-nak"),
              RuleResult::of(far_enough_back).unless(!whole, Reason::capture_lost), watch.from, [&] {
                return Statement{
                    fmt::format("relative PSN {}, which the NAK asks for, or one before it", nak_.psn - first_),
                    fmt::format("{} PSNs behind it", t.psn - nak_.psn),
                    {nak_.frame}};
              });
    watch.holds("rc.requester.retry.once-for-a-loss");
  } else if (after_rnr) {
    const std::int64_t waited = t.time - rnr_.time;
    // What was under way when the NAK came is no answer to it.
    const bool maybe_under_way = waited < limits::in_flight_ns && !whole;
    watch.say("rc.requester.rnr.timer-kept",
              RuleResult::of(waited >= rnr_.timer - limits::clock_error(rnr_.timer))
                  .unless(maybe_under_way, Reason::in_flight),
              watch.from, [&] {
                return Statement{fmt::format("nothing for {:.3f} ms", static_cast<double>(rnr_.timer) / 1e6),
                                 fmt::format("sent again after {:.3f} ms", static_cast<double>(waited) / 1e6),
                                 {rnr_.frame}};
              });
    if (agreed && agreed->rnr_retries && *agreed->rnr_retries < machines::RcRetries::without_limit) {
      const std::uint32_t limit = *agreed->rnr_retries;
      watch.say("rc.requester.rnr.retry-count",
                RuleResult::of(round_.rnr_at_start <= limit).unless(!whole, Reason::capture_lost), watch.from, [&] {
                  return Statement{fmt::format("at most {} times again", limit),
                                   fmt::format("{} times again after RNR NAKs", round_.rnr_at_start),
                                   {rnr_.frame}};
                });
    }
  } else if (response_gap_frame_ != 0 && watch.joined) {
    // A missing response is an implied NAK, which asks for no patience.
    watch.holds("rc.requester.retry.once-for-a-loss");
  } else {
    const std::int64_t timeout = agreed ? agreed->acknowledgement_timeout : 0;
    if (timeout > 0 && known) {
      const std::int64_t since = std::max(known->last_time, proven_known_ ? proven_time_ : known->last_time);
      const RuleResult ruling =
          RuleResult::of(t.time - since >= timeout - limits::clock_error(timeout)).unless(!whole, Reason::capture_lost);
      const auto statement = [&] {
        return Statement{
            fmt::format("no sooner than {:.3f} ms", static_cast<double>(timeout) / 1e6),
            fmt::format("again after {:.3f} ms, and nothing asked for it", static_cast<double>(t.time - since) / 1e6),
            {known->last_frame}};
      };
      // Where the CM told the timeout, it is that.
      if (watch.agreement->by == tracking::JoinedBy::connection_manager)
        watch.say("cm.endpoint.timeout.as-announced", ruling, watch.from, statement);
      watch.say("rc.requester.timeout.window", ruling, watch.from, statement);
    }
    if (same_place) {
      const bool soon = timeout > 0 && t.time - round_.time < timeout;
      watch.say("rc.requester.retry.once-for-a-loss", RuleResult::of(!soon).unless(!whole, Reason::capture_lost),
                watch.from, [&] {
                  return Statement{
                      "one round for one loss", "a second round from the same PSN, for no new reason", {round_.frame}};
                });
    }
  }
  const std::uint32_t retries = agreed && agreed->retries ? *agreed->retries : 7;
  const std::uint32_t rnr_retries = agreed && agreed->rnr_retries ? *agreed->rnr_retries : 7;
  const bool too_often = round_.at_start - round_.rnr_at_start > retries;
  const bool beyond_both = rnr_retries < machines::RcRetries::without_limit && round_.at_start > retries + rnr_retries;
  watch.say("rc.requester.timeout.retry-count",
            RuleResult::of(!too_often).unless(!whole && !beyond_both, Reason::capture_lost), watch.from, [&] {
              return Statement{fmt::format("{} times again at most", retries),
                               fmt::format("{} times again, and nothing was acknowledged", round_.at_start),
                               {known ? known->frame : 0}};
            });
  round_.start = t.psn;
  round_.frame = t.frame;
  round_.time = t.time;
  nak_.active = rnr_.active = false;
  response_gap_frame_ = 0;
}

// A new request: the round must have come to its end.
void RcExchange::end_round(const MonitoredPacket& watch) {
  if (!round_.active) return;
  round_.active = false;
  const std::int32_t left = next_ - round_.next;
  const bool acknowledged = proven_known_ && proven_ - round_.next > 0;
  if (left <= 0 || acknowledged) {
    watch.holds("rc.requester.retry.go-back-n");
    return;
  }
  watch.say("rc.requester.retry.go-back-n",
            RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::capture_lost), watch.from, [&] {
              return Statement{
                  "all PSNs up to the last one that was sent", fmt::format("{} are left out", left), {round_.frame}};
            });
}

}  // namespace rdmawire::conformance
