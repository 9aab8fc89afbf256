/// What is sure of a responder only where everything that it received and sent was seen, in its order: what it had to
/// say and did not.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {
namespace {

/// A response that has not come so long after its request does not come, where nobody said how long the requester
/// waits.
constexpr std::int64_t patience_ns = 100'000'000;

RuleId rule_of_duplicate(const Opcode& op) {
  if (op.operation == Operation::rdma_read_request) return "rc.responder.duplicate.read-replayed";
  if (machines::is_atomic(op.operation)) return "rc.responder.duplicate.atomic-saved-result";
  if (op.operation == Operation::atomic_write) return "rc.responder.atomic-write.duplicate";
  return "rc.responder.duplicate.not-executed-again";
}

}  // namespace

// The path MTU shows with the READ's response, if not before.
void RcExchange::Bench::settle(std::uint32_t mtu) {
  if (read_length == 0 || mtu == 0) return;
  next = next + (machines::psns_of_read(read_length, mtu) - 1);
  read_length = 0;
}

// How far behind `next` the expected PSN may be.
std::int32_t RcExchange::Bench::most_ahead() const {
  constexpr std::uint32_t smallest_mtu = 256;
  return static_cast<std::int32_t>(machines::psns_of_read(read_length, smallest_mtu) - 1);
}

// A request that reaches the responder. Called before it is remembered.
void RcExchange::judge_received(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const Side responder = tracking::other(watch.from);
  if (!watch.sees_all_of(responder) || !watch.joined || watch.copy || t.damaged || bench_.failed) return;
  if (!bench_.active) {
    bench_.active = true;
    const auto agreed = watch.agreement ? watch.agreement->ends[static_cast<std::size_t>(watch.from)].first_psn
                                        : std::optional<std::uint32_t>();
    bench_.next = started_ ? next_ : Psn(agreed.value_or(t.psn.value()));
  }
  bench_.settle(watch.connection.mtu);
  std::int32_t ahead = t.psn - bench_.next;
  if (ahead > 0 && ahead <= bench_.most_ahead()) {
    bench_.expect(t.psn);
    ahead = 0;
  }
  if (ahead > 0) {
    if (!bench_.gap && !bench_.not_ready) {
      bench_.gap = true;
      bench_.reported = false;
      bench_.gap_frame = t.frame;
    }
    return;
  }
  if (ahead == 0) {
    if (bench_.gap && !bench_.reported) {
      watch.say(naked_ ? RuleId("rc.responder.psn.sequence-error-again") : RuleId("rc.responder.psn.sequence-error"),
                RuleResult::violated(), responder, [&] {
                  return Statement{
                      fmt::format("a NAK with relative PSN {} after frame {}", bench_.next - first_, bench_.gap_frame),
                      "none, until what was missing came by itself",
                      {bench_.gap_frame}};
                });
    }
    bench_.gap = bench_.not_ready = false;
    bench_.expect(t.psn + 1);
    if (t.op->operation == Operation::rdma_read_request) bench_.read_length = t.length;
    bench_.settle(watch.connection.mtu);
    return;
  }
  // A duplicate. What was answered neither the first time nor since the last time is not answered.
  SeenRequest* const known = covering(t.psn);
  if (!known || known->psn != t.psn || !known->ack_request) return;
  const auto* agreed = watch.agreement ? &watch.agreement->ends[static_cast<std::size_t>(watch.from)] : nullptr;
  const std::int64_t patience =
      agreed && agreed->acknowledgement_timeout > 0 ? agreed->acknowledgement_timeout : patience_ns;
  const bool waited = t.time - known->last_time >= patience && response_frame_ < known->last_frame;
  if (!waited) return;
  watch.say(known->times > 1 ? rule_of_duplicate(known->op()) : RuleId("rc.responder.ack.asked-for-once"),
            RuleResult::violated(), responder, [&] {
              return Statement{fmt::format("an answer to frame {}", known->last_frame),
                               fmt::format("silence for {:.3f} ms, until it was sent again",
                                           static_cast<double>(t.time - known->last_time) / 1e6),
                               {known->last_frame}};
            });
}

// A response as the responder sent it.
void RcExchange::judge_sent(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (!bench_.active || watch.copy || t.damaged) return;
  bench_.settle(watch.connection.mtu);
  const std::uint8_t kind = t.syndrome >> 5 & 3, code = t.syndrome & 31;
  const bool acknowledge = t.op->operation == Operation::acknowledge;
  if (acknowledge && kind == syndrome_kind::nak && code == nak_code::psn_sequence_error) {
    watch.say("rc.responder.psn.sequence-error",
              RuleResult::of(bench_.gap && t.psn == bench_.next)
                  .unless(bench_.most_ahead() > 0, Reason::negotiation_not_seen),
              watch.from, [&] {
                return Statement{bench_.gap ? fmt::format("a NAK with relative PSN {}", bench_.next - first_)
                                            : std::string("no NAK: no PSN is missing"),
                                 fmt::format("a NAK with relative PSN {}", t.psn - first_),
                                 {bench_.gap ? bench_.gap_frame : 0}};
              });
    bench_.reported = true;
    return;
  }
  if (acknowledge && kind == syndrome_kind::rnr_nak) {
    bench_.expect(t.psn);
    bench_.not_ready = true;
    bench_.gap = false;
    return;
  }
  if (acknowledge && kind == syndrome_kind::nak) {
    bench_.failed = true;
    return;
  }
  if (t.psn - bench_.next < 0 || (!bench_.gap && !bench_.not_ready)) return;
  watch.say(bench_.gap ? RuleId("rc.responder.psn.sequence-error") : RuleId("rc.responder.rnr.then-executed-once"),
            RuleResult::violated(), watch.from, [&] {
              return Statement{fmt::format("no answer to relative PSN {} or any behind it before that has come{}",
                                           bench_.next - first_, bench_.gap ? "" : " again"),
                               fmt::format("{} with relative PSN {}", t.op->name, t.psn - first_),
                               {bench_.gap ? bench_.gap_frame : 0}};
            });
  bench_.gap = bench_.not_ready = false;
  bench_.expect(t.psn + 1);
}

// End-to-end credits: at most one message that needs a receive beyond those that were given.
void RcExchange::judge_credits(const MonitoredPacket& watch) {
  const Opcode& op = *watch.t.op;
  const bool needs = op.begins_message() && (op.operation == Operation::send || op.immediate);
  if (!needs || !credits_.known || sent_.empty()) return;
  const Msn number = msn_low_ + (sent_.back().messages_low + 1);
  const std::int32_t beyond = number - credits_.limit;
  if (beyond <= 0) {
    watch.holds("rc.requester.credits.kept");
    return;
  }
  ++credits_.beyond;
  watch.say("rc.requester.credits.kept",
            RuleResult::of(credits_.beyond <= 1).unless(!watch.sees_all_of(watch.from), Reason::capture_lost),
            watch.from, [&] {
              return Statement{fmt::format("one message beyond the credits of frame {}", credits_.frame),
                               fmt::format("{} messages", credits_.beyond),
                               {credits_.frame}};
            });
}

void RcExchange::note_credits(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  constexpr std::uint8_t none = 31;
  if ((t.syndrome >> 5 & 3) != syndrome_kind::ack || !msn_known_ || msn_width_ != 0) return;
  if ((t.syndrome & 31) == none) {
    credits_.known = false;
    return;
  }
  const Msn limit = t.msn + static_cast<std::int64_t>(credits_of_code(t.syndrome & 31));
  if (credits_.known && limit - credits_.limit <= 0) return;
  credits_ = {true, limit, t.frame, 0};
}

}  // namespace rdmawire::conformance
