/// Checks of the responder that require a complete capture of its packets, in order: missing responses, and credits.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {
namespace {

/// Time after which a missing response is a violation if the requester's timeout is unknown.
constexpr std::int64_t response_timeout_ns = 100'000'000;

RuleId rule_of_duplicate(const Opcode& op) {
  if (op.operation == Operation::rdma_read_request) return "rc.responder.duplicate.read-replayed";
  if (machines::is_atomic(op.operation)) return "rc.responder.duplicate.atomic-saved-result";
  if (op.operation == Operation::atomic_write) return "rc.responder.atomic-write.duplicate";
  return "rc.responder.duplicate.not-executed-again";
}

}  // namespace

// Moves `next` to the PSN after the READ, once a response has revealed the path MTU.
void RcExchange::Bench::settle(std::uint32_t mtu) {
  if (read_length == 0 || mtu == 0) return;
  next = next + (machines::psns_of_read(read_length, mtu) - 1);
  read_length = 0;
}

// Returns by how much the expected PSN can exceed `next`.
std::int32_t RcExchange::Bench::maximum_ahead() const {
  constexpr std::uint32_t smallest_mtu = 256;
  return static_cast<std::int32_t>(machines::psns_of_read(read_length, smallest_mtu) - 1);
}

// Handles a request that reaches the responder. Called before the request is stored.
void RcExchange::check_received(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const Side responder = tracking::other(watch.from);
  if (!watch.sees_all_of(responder) || !watch.paired || watch.duplicate || t.damaged || bench_.failed) return;
  if (!bench_.active) {
    bench_.active = true;
    const auto agreed = watch.negotiated ? watch.negotiated->ends[static_cast<std::size_t>(watch.from)].first_psn
                                         : std::optional<std::uint32_t>();
    bench_.next = started_ ? next_ : Psn(agreed.value_or(t.psn.value()));
  }
  bench_.settle(watch.connection.mtu);
  std::int32_t ahead = t.psn - bench_.next;
  if (ahead > 0 && ahead <= bench_.maximum_ahead()) {
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
      watch.report(naked_ ? RuleId("rc.responder.psn.sequence-error-again") : RuleId("rc.responder.psn.sequence-error"),
                   RuleResult::violation(), responder, [&] {
                     return Statement{fmt::format("a NAK with relative PSN {} after frame {}", bench_.next - first_,
                                                  bench_.gap_frame),
                                      "no NAK until the missing request arrived",
                                      {bench_.gap_frame}};
                   });
    }
    bench_.gap = bench_.not_ready = false;
    bench_.expect(t.psn + 1);
    if (t.op->operation == Operation::rdma_read_request) bench_.read_length = t.length;
    bench_.settle(watch.connection.mtu);
    return;
  }
  // The request is a duplicate. If no transmission of it had a response in time, the response is missing.
  SeenRequest* const known = covering(t.psn);
  if (!known || known->psn != t.psn || !known->ack_request) return;
  const auto* agreed = watch.negotiated ? &watch.negotiated->ends[static_cast<std::size_t>(watch.from)] : nullptr;
  const std::int64_t patience =
      agreed && agreed->acknowledgement_timeout > 0 ? agreed->acknowledgement_timeout : response_timeout_ns;
  const bool waited = t.time - known->last_time >= patience && response_frame_ < known->last_frame;
  if (!waited) return;
  watch.report(known->times > 1 ? rule_of_duplicate(known->op()) : RuleId("rc.responder.ack.asked-for-once"),
               RuleResult::violation(), responder, [&] {
                 return Statement{fmt::format("a response to frame {}", known->last_frame),
                                  fmt::format("no response for {:.3f} ms, until the retransmission",
                                              static_cast<double>(t.time - known->last_time) / 1e6),
                                  {known->last_frame}};
               });
}

// Handles a response that the responder sent.
void RcExchange::check_sent(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (!bench_.active || watch.duplicate || t.damaged) return;
  bench_.settle(watch.connection.mtu);
  const Syndrome syndrome(t.syndrome);
  const bool acknowledge = t.op->operation == Operation::acknowledge;
  if (acknowledge && syndrome.is_nak(nak_code::psn_sequence_error)) {
    watch.report("rc.responder.psn.sequence-error",
                 RuleResult::of(bench_.gap && t.psn == bench_.next)
                     .unless(bench_.maximum_ahead() > 0, Reason::negotiation_not_seen),
                 watch.from, [&] {
                   return Statement{bench_.gap ? fmt::format("a NAK with relative PSN {}", bench_.next - first_)
                                               : std::string("no NAK: no PSN is missing"),
                                    fmt::format("a NAK with relative PSN {}", t.psn - first_),
                                    {bench_.gap ? bench_.gap_frame : 0}};
                 });
    bench_.reported = true;
    return;
  }
  if (acknowledge && syndrome.is_rnr_nak()) {
    bench_.expect(t.psn);
    bench_.not_ready = true;
    bench_.gap = false;
    return;
  }
  if (acknowledge && syndrome.is_nak()) {
    bench_.failed = true;
    return;
  }
  if (t.psn - bench_.next < 0 || (!bench_.gap && !bench_.not_ready)) return;
  watch.report(bench_.gap ? RuleId("rc.responder.psn.sequence-error") : RuleId("rc.responder.rnr.then-executed-once"),
               RuleResult::violation(), watch.from, [&] {
                 return Statement{fmt::format("no response to relative PSN {} or later before this request {}",
                                              bench_.next - first_, bench_.gap ? "arrives" : "is retransmitted"),
                                  fmt::format("{} with relative PSN {}", t.op->name, t.psn - first_),
                                  {bench_.gap ? bench_.gap_frame : 0}};
               });
  bench_.gap = bench_.not_ready = false;
  bench_.expect(t.psn + 1);
}

// Checks end-to-end credits: a requester may send at most one message that needs a receive beyond the received credits.
void RcExchange::check_credits(const MonitoredPacket& watch) {
  const Opcode& op = *watch.t.op;
  const bool needs = op.begins_message() && (op.operation == Operation::send || op.immediate);
  if (!needs || !credits_.known || sent_.empty()) return;
  const Msn number = msn_low_ + (sent_.back().messages_low + 1);
  const std::int32_t beyond = number - credits_.limit;
  if (beyond <= 0) {
    watch.pass("rc.requester.credits.kept");
    return;
  }
  ++credits_.beyond;
  watch.report("rc.requester.credits.kept",
               RuleResult::of(credits_.beyond <= 1).unless(!watch.sees_all_of(watch.from), Reason::capture_lost),
               watch.from, [&] {
                 return Statement{fmt::format("one message beyond the credits of frame {}", credits_.frame),
                                  fmt::format("{} messages", credits_.beyond),
                                  {credits_.frame}};
               });
}

void RcExchange::note_credits(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const Syndrome syndrome(t.syndrome);
  if (!syndrome.is_ack() || !msn_known_ || msn_width_ != 0) return;
  if (!syndrome.has_credits()) {
    credits_.known = false;
    return;
  }
  const Msn limit = t.msn + static_cast<std::int64_t>(syndrome.credits());
  if (credits_.known && limit - credits_.limit <= 0) return;
  credits_ = {true, limit, t.frame, 0};
}

}  // namespace rdmawire::conformance
