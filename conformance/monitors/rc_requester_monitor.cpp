/// Checks of the requester of a reliable connection.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/machines/rc_requester.hpp"

namespace rdmawire::conformance {
namespace {

using machines::InvalidRequest;

/// Returns the name of an opcode for statements.
std::string name_of(std::uint8_t opcode_value) { return std::string(opcode(opcode_value).name); }

}  // namespace

void RcExchange::check_order(const MonitoredPacket& watch, std::int32_t gap) const {
  const RuleResult result = gap == 0
                                ? RuleResult::pass()
                                : RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::capture_lost);
  const auto describe = [&] {
    const std::int32_t expected = next_ - first_;
    return Statement{fmt::format("relative PSN {}", expected),
                     fmt::format("relative PSN {}: {} skipped", expected + gap,
                                 gap == 1 ? "1 PSN is" : fmt::format("{} PSNs are", gap)),
                     {sent_.empty() ? 0 : sent_.back().frame}};
  };
  watch.report("rc.requester.psn.increments", result, watch.from, describe);
  if (sent_.empty() || !sent_.back().is_read()) return;
  watch.report("rc.requester.psn.read-takes-responses",
               result.unless(!watch.connection.mtu_negotiated, Reason::negotiation_not_seen), watch.from, describe);
}

// Checks opcode sequence and length of a packet against the packet with the preceding PSN.
void RcExchange::check_chain(const MonitoredPacket& watch, std::size_t at) {
  SeenRequest& r = sent_[at];
  const Opcode& op = r.op();
  const SeenRequest* before = at > 0 && sent_[at - 1].end() == r.psn ? &sent_[at - 1] : nullptr;
  // If the number of PSNs of a READ is inferred, the capture may lack requests between it and this one.
  if (before && before->psns_inferred && before->psns > 1) before = nullptr;
  const bool begins = start_known_ && r.psn == first_;
  const bool known = begins || (before && before->sequence_known);
  const machines::MessageSequence sequence = before ? before->after : machines::MessageSequence{};

  // The responder's state machine determines which requests are invalid. Set its state to that of the open message.
  thread_local machines::RcResponder responder;
  responder.sequence = sequence;
  const bool bytes = op.begins_message() || (before && before->bytes_known && known);
  responder.length = before ? before->announced : 0;
  responder.done = before && !op.begins_message() ? before->done : 0;
  machines::RcRequest request{.op = &op, .psn = r.psn, .payload = r.payload, .va = r.va, .length = r.length};
  machines::RcResponderSettings settings;
  settings.mtu = watch.connection.mtu;

  const bool again = r.checked;
  r.sequence_known = true;
  r.after = sequence.after(op);
  r.bytes_known = bytes;
  r.done = responder.done + r.payload;
  r.announced = op.begins_message() ? r.length : responder.length;
  r.checked = known;
  if (again) return;

  if (known) {
    const bool allowed = sequence.allows(op);
    watch.report("rc.requester.order.as-posted", RuleResult::of(allowed), watch.from, [&] {
      return Statement{sequence.inside
                           ? fmt::format("a packet that continues the open {}", to_string(sequence.operation))
                           : std::string("a packet that starts a message"),
                       name_of(r.opcode), before ? std::vector{before->frame} : std::vector<std::uint64_t>{}};
    });
    if (!allowed) {
      r.invalid = InvalidRequest::sequence;
      return;
    }
  } else {
    watch.inconclusive("rc.requester.order.as-posted",
                       at == 0 && !lost_ ? Reason::start_not_seen : Reason::capture_lost);
    if (!op.begins_message()) return;
    responder.sequence = {};
  }
  const bool measured = op.operation == Operation::rdma_write || op.operation == Operation::send;
  if (!measured) return;
  constexpr std::uint32_t smallest_mtu = 256;
  if (settings.mtu == 0 && op.position == Position::only && r.payload <= smallest_mtu) settings.mtu = smallest_mtu;
  if (settings.mtu == 0) {
    watch.inconclusive("rc.requester.length.packets-filled", Reason::negotiation_not_seen);
    return;
  }
  r.invalid = machines::malformed(responder, request, settings);
  if (r.invalid == InvalidRequest::message_length && !bytes) r.invalid.reset();
  // Even if the path MTU is unknown, a First or Middle packet is a violation if its payload length is no valid path
  // MTU.
  const bool full = op.position == Position::first || op.position == Position::middle;
  const bool certain = watch.connection.mtu_negotiated || r.invalid != InvalidRequest::payload ||
                       (full && !machines::is_path_mtu(r.payload));
  watch.report("rc.requester.length.packets-filled",
               RuleResult::of(!r.invalid).unless(!certain, Reason::negotiation_not_seen), watch.from, [&] {
                 if (r.invalid == InvalidRequest::message_length)
                   return Statement{fmt::format("{} bytes in total, the DMA length of the RETH", r.announced),
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

// Checks AckReq in the last packet of a message. No violation is reported, because a requester may set it once for
// several messages.
void RcExchange::check_ack_request(const MonitoredPacket& watch) const {
  const Opcode& op = *watch.t.op;
  if (!op.ends_message() || machines::keeps_answer(op.operation)) return;
  watch.evaluator.record("rc.requester.ack-request.on-last",
                         watch.t.ack_request ? RuleResult::pass() : RuleResult::inconclusive(Reason::device_internal));
}

// Compares a packet with the earlier packet of the same PSN.
void RcExchange::check_retransmission(const MonitoredPacket& watch, SeenRequest& known) {
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
  // A different payload is not a violation by the device if the application may have changed its buffer.
  const bool other_bytes = other.empty() && comparable && now.payload_crc != known.payload_crc;
  const RuleResult same = !other.empty() ? RuleResult::violation()
                          : !comparable  ? RuleResult::inconclusive(Reason::truncated)
                          : !other_bytes ? RuleResult::pass()
                                         : RuleResult::violation().unless(!watch.bench, Reason::device_internal);
  const auto describe = [&](const std::string& what) {
    return Statement{fmt::format("a retransmission of frame {}", known.frame), what, {known.frame}};
  };
  // Immediate data and IETH have a rule of their own.
  const bool loses = known.op().operation == now.op().operation &&
                     (known.op().immediate != now.op().immediate || known.op().invalidate != now.op().invalidate);
  watch.report(loses ? RuleId("rc.requester.retry.same-operands") : RuleId("rc.requester.retry.identical"), same,
               watch.from, [&] { return describe(other_bytes ? "other payload" : other); });
  known.doubtful = known.doubtful || !other.empty();
  const Opcode& op = now.op();
  if (now.opcode == known.opcode && (op.immediate || op.invalidate || machines::is_atomic(op.operation))) {
    const bool equal = now.immediate == known.immediate && now.invalidated == known.invalidated &&
                       now.operand == known.operand && now.compare == known.compare;
    watch.report("rc.requester.retry.same-operands", RuleResult::of(equal), watch.from, [&] {
      return describe(op.immediate
                          ? fmt::format("immediate data {:#x} instead of {:#x}", now.immediate, known.immediate)
                      : op.invalidate ? fmt::format("IETH {:#x} instead of {:#x}", now.invalidated, known.invalidated)
                                      : fmt::format("operands {:#x}, {:#x} instead of {:#x}, {:#x}", now.operand,
                                                    now.compare, known.operand, known.compare));
    });
  }
  if (read && known.skipped) watch.pass("rc.requester.read.implied-nak");
  if (read && known.responses > 0 && known.response_frame == 0) {
    // The capture shows the response, but not whether the requester received it.
    watch.report_paired(
        "rc.requester.read.rest-asked-again",
        RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream), watch.from, [&] {
          return Statement{fmt::format("a retry of the part after {} packets of the response", known.responses),
                           "a retry of the whole READ",
                           {known.frame}};
        });
  }
  known.retried_from = 0;
  check_recovery(watch, &known, now.psns);
}

// Checks a request whose PSN belongs to the response of a READ. Only a retry of the missing part may have such a PSN.
void RcExchange::check_part_of_read(const MonitoredPacket& watch, SeenRequest& known) {
  const auto& t = watch.t;
  if (t.op->operation != Operation::rdma_read_request) {
    watch.report("rc.requester.psn.read-takes-responses",
                 RuleResult::violation().unless(!watch.connection.mtu_negotiated || known.psns_unknown,
                                                Reason::negotiation_not_seen),
                 watch.from, [&] {
                   return Statement{fmt::format("relative PSN {} or later, because the READ of frame {} covers {} PSNs",
                                                (known.end() - first_), known.frame, known.psns),
                                    fmt::format("{} within the READ's PSNs", t.op->name),
                                    {known.frame}};
                 });
    return;
  }
  const auto into = static_cast<std::uint32_t>(t.psn - known.psn);
  const std::uint64_t bytes = std::uint64_t{into} * watch.connection.mtu;
  const bool rest =
      t.key == known.key && t.address == known.va + bytes && bytes <= known.length && t.length == known.length - bytes;
  watch.report(
      "rc.requester.read.rest-asked-again",
      RuleResult::of(rest).unless(!watch.connection.mtu_negotiated, Reason::negotiation_not_seen), watch.from, [&] {
        return Statement{fmt::format("address {:#x}, key {:#x}, length {}: the part after {} packets of the response",
                                     known.va + bytes, known.key, known.length - bytes, into),
                         fmt::format("address {:#x}, key {:#x}, length {}", t.address, t.key, t.length),
                         {known.frame}};
      });
  if (known.response_gap && into <= known.responses) {
    watch.pass("rc.requester.read.gap-asked-again");
    known.response_gap = false;
  }
  if (known.skipped) watch.pass("rc.requester.read.implied-nak");
  SeenRequest part = known;
  part.psn = t.psn;
  check_recovery(watch, &part, known.psns - into);
  known.retried_from = into;
  known.times = static_cast<std::uint8_t>(std::min<unsigned>(known.times + 1U, 255));
  known.last_frame = t.frame;
  known.last_time = t.time;
}

// Checks a retransmitted packet: it continues the recovery or starts one. `known`: the earlier transmission, or nullptr
// if it was not captured.
void RcExchange::check_recovery(const MonitoredPacket& watch, const SeenRequest* known, std::uint32_t psns) {
  const auto& t = watch.t;
  retransmission_frame_ = t.frame;
  ++retransmissions_;
  const bool continues = recovery_.active && t.psn == recovery_.next;
  if (continues) {
    watch.pass("rc.requester.retry.go-back-n");
    if (t.psn.value() < recovery_.start.value()) watch.pass("rc.requester.retry.psn-wraps");
  } else {
    const bool skips = recovery_.active && t.psn - recovery_.next > 0 && !(proven_known_ && t.psn - proven_ <= 0) &&
                       !nak_.active && !rnr_.active;
    if (skips) {
      const RuleId rule = t.psn.value() < recovery_.start.value() ? RuleId("rc.requester.retry.psn-wraps")
                                                                  : RuleId("rc.requester.retry.go-back-n");
      watch.report(rule, RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::capture_lost),
                   watch.from, [&] {
                     return Statement{fmt::format("relative PSN {}", recovery_.next - first_),
                                      fmt::format("relative PSN {}: PSNs of the recovery are skipped", t.psn - first_),
                                      {recovery_.frame}};
                   });
    } else {
      check_completed(watch, known);
      check_recovery_start(watch, known);
    }
  }
  recovery_.active = true;
  recovery_.next = t.psn + psns;
  if (const std::size_t at = before_or_at(t.psn); known && at != nowhere && sent_[at].psn == t.psn) {
    SeenRequest& again = sent_[at];
    again.times = static_cast<std::uint8_t>(std::min<unsigned>(again.times + 1U, 255));
    again.last_frame = t.frame;
    again.last_time = t.time;
  }
}

// A requester that received the ACK of a message must not retransmit it. After a NAK, it may retransmit earlier packets
// than requested.
void RcExchange::check_completed(const MonitoredPacket& watch, const SeenRequest* known) {
  const bool requested = nak_.active || rnr_.active || response_gap_frame_ != 0;
  if (!known || known->has_own_response() || !proven_known_ || !watch.paired || requested) return;
  std::size_t end = before_or_at(watch.t.psn);
  while (end + 1 < sent_.size() && !sent_[end].op().ends_message()) ++end;
  const bool completed = end < sent_.size() && sent_[end].op().ends_message() && sent_[end].psn - proven_ < 0;
  const bool knew = watch.t.time - proven_time_ >= limits::in_flight_ns;
  if (!completed && !acknowledged_) return;
  acknowledged_ = false;
  watch.report_paired(
      "rc.requester.ack.completes-up-to",
      RuleResult::of(!completed)
          .unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream)
          .unless(!knew, Reason::in_flight),
      watch.from, [&] {
        return Statement{
            fmt::format("no packet of the messages before relative PSN {}, which are acknowledged", proven_ - first_),
            fmt::format("relative PSN {} is retransmitted", watch.t.psn - first_),
            {proven_frame_}};
      });
}

// Checks the cause and the time of a recovery.
void RcExchange::check_recovery_start(const MonitoredPacket& watch, const SeenRequest* known) {
  const auto& t = watch.t;
  const bool complete = watch.sees_all_of(watch.from);
  const auto* agreed = watch.negotiated ? &watch.negotiated->ends[static_cast<std::size_t>(watch.from)] : nullptr;
  const bool same_place = recovery_.frame != 0 && recovery_.start == t.psn;
  const bool after_rnr = rnr_.active && watch.paired;
  recovery_.at_start = same_place ? recovery_.at_start + 1 : 1;
  recovery_.rnr_at_start = (same_place ? recovery_.rnr_at_start : 0) + (after_rnr && rnr_.psn == t.psn);

  if (nak_.active && watch.paired) {
    const bool far_enough_back = t.psn - nak_.psn <= 0;
    const bool wrapped = !far_enough_back && t.psn.value() < nak_.psn.value();
    watch.report(wrapped ? RuleId("rc.requester.retry.psn-wraps") : RuleId("rc.requester.retry.begins-at-nak"),
                 RuleResult::of(far_enough_back).unless(!complete, Reason::capture_lost), watch.from, [&] {
                   return Statement{
                       fmt::format("relative PSN {}, which the NAK requests, or an earlier one", nak_.psn - first_),
                       fmt::format("{} PSNs after it", t.psn - nak_.psn),
                       {nak_.frame}};
                 });
    watch.pass("rc.requester.retry.once-for-a-loss");
  } else if (after_rnr) {
    const std::int64_t waited = t.time - rnr_.time;
    // The packet may have been in flight when the NAK arrived.
    const bool maybe_under_way = waited < limits::in_flight_ns && !complete;
    // The RNR NAK may have been lost. The requester then retransmits after its timeout.
    const std::int64_t own_timeout = agreed ? agreed->acknowledgement_timeout : 0;
    const std::int64_t silent = known ? t.time - known->last_time : 0;
    const bool maybe_lost =
        !complete && (!known || own_timeout == 0 || silent >= own_timeout - limits::clock_error(own_timeout));
    watch.report("rc.requester.rnr.timer-kept",
                 RuleResult::of(waited >= rnr_.timer - limits::clock_error(rnr_.timer))
                     .unless(maybe_under_way, Reason::in_flight)
                     .unless(maybe_lost, Reason::maybe_lost_downstream),
                 watch.from, [&] {
                   return Statement{fmt::format("no packet for {:.3f} ms", static_cast<double>(rnr_.timer) / 1e6),
                                    fmt::format("retransmitted after {:.3f} ms", static_cast<double>(waited) / 1e6),
                                    {rnr_.frame}};
                 });
    if (agreed && agreed->rnr_retries && *agreed->rnr_retries < machines::RcRetries::without_limit) {
      const std::uint32_t limit = *agreed->rnr_retries;
      watch.report("rc.requester.rnr.retry-count",
                   RuleResult::of(recovery_.rnr_at_start <= limit).unless(!complete, Reason::capture_lost), watch.from,
                   [&] {
                     return Statement{fmt::format("at most {} retries", limit),
                                      fmt::format("{} retries after RNR NAKs", recovery_.rnr_at_start),
                                      {rnr_.frame}};
                   });
    }
  } else if (response_gap_frame_ != 0 && watch.paired) {
    // A missing response is an implied NAK, which permits an immediate retry.
    watch.pass("rc.requester.retry.once-for-a-loss");
  } else {
    const std::int64_t timeout = agreed ? agreed->acknowledgement_timeout : 0;
    if (timeout > 0 && known) {
      const std::int64_t since = std::max(known->last_time, proven_known_ ? proven_time_ : known->last_time);
      const RuleResult result = RuleResult::of(t.time - since >= timeout - limits::clock_error(timeout))
                                    .unless(!complete, Reason::capture_lost);
      const auto statement = [&] {
        return Statement{
            fmt::format("no retransmission earlier than after {:.3f} ms", static_cast<double>(timeout) / 1e6),
            fmt::format("retransmitted after {:.3f} ms, without a NAK", static_cast<double>(t.time - since) / 1e6),
            {known->last_frame}};
      };
      // If the timeout is known from a CM message, the rule for that message also applies.
      if (watch.negotiated->by == tracking::JoinedBy::connection_manager)
        watch.report("cm.endpoint.timeout.as-announced", result, watch.from, statement);
      watch.report("rc.requester.timeout.window", result, watch.from, statement);
    }
    if (same_place) {
      const bool soon = timeout > 0 && t.time - recovery_.time < timeout;
      watch.report("rc.requester.retry.once-for-a-loss", RuleResult::of(!soon).unless(!complete, Reason::capture_lost),
                   watch.from, [&] {
                     return Statement{"one recovery for one loss",
                                      "a second recovery from the same PSN without a new cause",
                                      {recovery_.frame}};
                   });
    }
  }
  const std::uint32_t retries = agreed && agreed->retries ? *agreed->retries : 7;
  const std::uint32_t rnr_retries = agreed && agreed->rnr_retries ? *agreed->rnr_retries : 7;
  const bool too_often = recovery_.at_start - recovery_.rnr_at_start > retries;
  const bool beyond_both =
      rnr_retries < machines::RcRetries::without_limit && recovery_.at_start > retries + rnr_retries;
  watch.report("rc.requester.timeout.retry-count",
               RuleResult::of(!too_often).unless(!complete && !beyond_both, Reason::capture_lost), watch.from, [&] {
                 return Statement{fmt::format("at most {} retries", retries),
                                  fmt::format("{} retries without an acknowledgement", recovery_.at_start),
                                  {known ? known->frame : 0}};
               });
  recovery_.start = t.psn;
  recovery_.frame = t.frame;
  recovery_.time = t.time;
  nak_.active = rnr_.active = false;
  response_gap_frame_ = 0;
}

// Ends the recovery at a new request. It must have reached the last PSN that was sent before.
void RcExchange::end_recovery(const MonitoredPacket& watch) {
  if (!recovery_.active) return;
  recovery_.active = false;
  const std::int32_t left = next_ - recovery_.next;
  const bool acknowledged = proven_known_ && proven_ - recovery_.next > 0;
  if (left <= 0 || acknowledged) {
    watch.pass("rc.requester.retry.go-back-n");
    return;
  }
  watch.report("rc.requester.retry.go-back-n",
               RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::capture_lost), watch.from, [&] {
                 return Statement{
                     fmt::format("a recovery up to relative PSN {}, the last one sent", next_ - first_ - 1),
                     fmt::format("a recovery that ends before relative PSN {}", recovery_.next - first_),
                     {recovery_.frame}};
               });
}

}  // namespace rdmawire::conformance
