/// Checks of the responder of a reliable connection.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {
namespace {

using machines::InvalidRequest;

/// Returns the rule that requires the responder to reject such a request.
std::optional<RuleId> rule_of(InvalidRequest invalid, const Opcode& op, bool inside) {
  if (invalid == InvalidRequest::sequence) {
    if (!inside) return RuleId("rc.responder.opcode.begins-in-the-middle");
    if (op.operation == Operation::rdma_read_request) return RuleId("rc.responder.opcode.read-inside-message");
    return op.begins_message() ? RuleId("rc.responder.opcode.message-not-ended")
                               : RuleId("rc.responder.opcode.operations-mixed");
  }
  if (invalid == InvalidRequest::payload) {
    if (op.position == Position::only) return RuleId("rc.responder.length.only");
    return op.position == Position::last ? RuleId("rc.responder.length.last")
                                         : RuleId("rc.responder.length.first-or-middle");
  }
  if (invalid == InvalidRequest::message_length) return RuleId("rc.responder.length.write-total");
  return std::nullopt;
}

}  // namespace

void RcExchange::response(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (watch.duplicate || t.damaged || t.op->operation == Operation::congestion_notification) return;
  if (!started_) {
    watch.inconclusive("rc.responder.ack.in-order", watch.paired ? Reason::start_not_seen : Reason::direction_not_seen);
    return;
  }
  settle_read(watch);
  if (t.psn - next_ < far && (!answered_ || t.psn - *answered_ >= 0)) answered_ = t.psn + 1;
  const bool psns_unknown = !sent_.empty() && sent_.back().psns_unknown;
  if ((t.psn - next_ >= 0 && !psns_unknown) || first_ - t.psn > 0) {
    // The request was not captured, or precedes all captured requests.
    if (t.psn - next_ >= 0) lost_ = true;
    watch.inconclusive("rc.responder.ack.in-order", t.psn - next_ >= 0 ? Reason::capture_lost : Reason::start_not_seen);
    if (!start_known_) msn_known_ = false;
    return;
  }
  SeenRequest* request = covering(t.psn);
  if (request && request->doubtful) {
    watch.inconclusive("rc.responder.ack.in-order", Reason::peer_violation);
    bench_.failed = true;
    msn_known_ = false;
    return;
  }
  check_sent(watch);
  response_frame_ = t.frame;
  const std::uint8_t kind = Syndrome(t.syndrome).kind();
  switch (t.op->operation) {
    case Operation::rdma_read_response: check_read_response(watch, request); break;
    case Operation::atomic_acknowledge: check_atomic_response(watch, request); break;
    case Operation::acknowledge:
      if (kind == syndrome_kind::ack) check_acknowledgement(watch, request);
      if (kind == syndrome_kind::rnr_nak) check_rnr_nak(watch, request);
      if (kind == syndrome_kind::nak) {
        if (Syndrome(t.syndrome).code() == nak_code::psn_sequence_error)
          check_sequence_nak(watch);
        else
          check_error_nak(watch, request);
      }
      break;
    default: return;
  }
  if (t.op->operation != Operation::acknowledge && t.has_aeth) {
    watch.report_paired("rc.responder.nak.opcode-acknowledge", RuleResult::of(kind == syndrome_kind::ack), watch.from,
                        [&] {
                          return Statement{"a NAK in a packet with opcode Acknowledge",
                                           fmt::format("syndrome {:#04x} in {}", t.syndrome, t.op->name),
                                           {}};
                        });
  }
  if (t.has_aeth && kind == syndrome_kind::ack) {
    // Whether the QP uses flow control is internal to the device. Every credit code of an ACK is defined.
    watch.pass("rc.responder.credits.encoding");
  }
  if (t.has_aeth) {
    check_msn(watch, request);
    note_credits(watch);
  }
}

// Records that all requests before `executed` were executed.
void RcExchange::prove(const MonitoredPacket& watch, Psn executed) {
  if (proven_known_ && executed - proven_ <= 0) return;
  check_invalid(watch, executed);
  // READs and atomics before `executed` were answered, even if no response was captured.
  std::size_t at = proven_known_ ? before_or_at(proven_) : 0;
  for (at = at == nowhere ? 0 : at; at < sent_.size() && sent_[at].end() - executed <= 0; ++at) {
    SeenRequest& r = sent_[at];
    if (r.has_own_response() && r.response_frame == 0 && r.frame != watch.t.frame && !r.skipped &&
        !(watch.t.psn - r.psn >= 0 && watch.t.psn - r.end() < 0)) {
      r.skipped = lost_ = true;
      response_gap_frame_ = watch.t.frame;
      r.skipped_time = watch.t.time;
    }
  }
  proven_known_ = true;
  proven_ = executed;
  proven_frame_ = watch.t.frame;
  proven_time_ = watch.t.time;
  proven_identification_ = watch.t.identification;
  if (nak_.active && proven_ - nak_.psn > 0) nak_.active = false;
  if (not_ready_ && proven_ - *not_ready_ > 0) {
    watch.pass("rc.responder.rnr.then-executed-once");
    not_ready_.reset();
    rnr_.active = false;
  }
}

// Checks for requests before `executed` that the responder had to reject.
void RcExchange::check_invalid(const MonitoredPacket& watch, Psn executed) {
  for (std::size_t at = sent_.size(); at-- > 0;) {
    const SeenRequest& r = sent_[at];
    if (proven_known_ && r.psn - proven_ < 0) break;
    if (r.psn - executed >= 0 || !r.invalid) continue;
    const bool inside = at > 0 && sent_[at - 1].after.inside;
    const auto rule = rule_of(*r.invalid, r.op(), inside);
    if (!rule) continue;
    watch.report_paired(*rule, RuleResult::violation(), watch.from, [&] {
      return Statement{fmt::format("a NAK (invalid request) for the {} of frame {}", r.op().name, r.frame),
                       fmt::format("{} with a later PSN: the request was accepted", watch.t.op->name),
                       {r.frame}};
    });
  }
}

// Checks that responses are in PSN order, except those to duplicates.
void RcExchange::check_response_order(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const RuleId rule = watch.connection.service == tracking::Service::xrc
                          ? RuleId("xrc.responder.order.responses-by-psn")
                          : RuleId("rc.responder.order.responses-by-psn");
  if (!last_response_ || t.psn - *last_response_ >= 0) {
    last_response_ = t.psn;
    watch.pass(rule);
    return;
  }
  // Skip a response to a duplicate request, which may have an earlier PSN.
  const SeenRequest* request = covering(t.psn);
  if ((request && request->times > 1) || retransmission_frame_ > ack_frame_) return;
  watch.report_paired(rule, RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::order_unknown),
                      watch.from, [&] {
                        return Statement{fmt::format("no PSN before relative PSN {}", *last_response_ - first_),
                                         fmt::format("{} with relative PSN {}", t.op->name, t.psn - first_),
                                         {}};
                      });
}

void RcExchange::check_acknowledgement(const MonitoredPacket& watch, SeenRequest* request) {
  const auto& t = watch.t;
  const Psn executed = t.psn + 1;
  const std::size_t at = before_or_at(t.psn);
  // If a READ or atomic gets an ACK instead of its response, the requester assumes that the response was lost.
  if (request && request->has_own_response() && request->response_frame == 0) response_gap_frame_ = t.frame;
  const Operation requested = request ? request->op().operation : Operation::send;
  if (request && t.psn == request->psn && (requested == Operation::flush || requested == Operation::atomic_write)) {
    watch.report_paired(
        requested == Operation::flush ? RuleId("rc.responder.flush.answered")
                                      : RuleId("rc.responder.atomic-write.executed"),
        RuleResult::violation(), watch.from, [&] {
          return Statement{"an RDMA READ response Only without payload", std::string(t.op->name), {request->frame}};
        });
    prove(watch, executed);
    return;
  }
  if (request && request->has_own_response() && !request->is_read()) {
    // Linux sends an ACK for a duplicate atomic. Our sources do not state whether this is permitted.
    watch.inconclusive("rc.responder.duplicate.newest-psn-acknowledged", Reason::device_internal);
    prove(watch, executed);
    return;
  }
  if (request && request->is_read()) {
    // An ACK must not have a PSN of a READ, because the response acknowledges the READ.
    watch.report_paired(
        "rc.responder.duplicate.newest-psn-acknowledged",
        RuleResult::violation().unless(
            request->psns_unknown || (!watch.connection.mtu_negotiated && t.psn - request->psn > 0),
            Reason::negotiation_not_seen),
        watch.from, [&] {
          return Statement{"the PSN of a SEND or RDMA WRITE",
                           fmt::format("an ACK with a PSN of the {} of frame {}", request->op().name, request->frame),
                           {request->frame}};
        });
    return;
  }
  const bool behind = proven_known_ && executed - proven_ < 0;
  if (!behind) {
    watch.pass("rc.responder.ack.in-order");
    if (request && request->ack_request) watch.pass("rc.responder.ack.asked-for-once");
    if (at != nowhere && at > 0 && (!proven_known_ || sent_[at].psn - proven_ > 0) &&
        !(proven_known_ && sent_[at - 1].end() - proven_ <= 0))
      watch.pass("rc.responder.ack.coalesced");
    if (t.psn.value() < first_.value()) watch.pass("rc.responder.psn.wraps");
    if (proven_known_ && executed == proven_) {
      // The acknowledgement repeats the previous one, because of a duplicate request or with new credits.
      const bool duplicate = ++repeated_acks_ <= retransmissions_;
      if (duplicate) {
        watch.pass("rc.responder.duplicate.not-executed-again");
        watch.pass("rc.responder.duplicate.newest-psn-acknowledged");
      } else {
        watch.report_paired(
            "rc.responder.ack.asked-for-once",
            RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::capture_lost), watch.from, [&] {
              return Statement{"one acknowledgement for a request that was sent once",
                               fmt::format("a second acknowledgement; the first is frame {}", proven_frame_),
                               {proven_frame_}};
            });
      }
    }
    check_response_order(watch);
    acknowledged_ = true;
    ack_frame_ = t.frame;
    prove(watch, executed);
    return;
  }
  // The PSN is earlier than that of a previous ACK. The ACK of a duplicate must have the newest executed PSN.
  std::size_t newest = before_or_at(proven_ - 1);
  while (newest != nowhere && newest > 0 && sent_[newest].has_own_response()) --newest;
  const bool newer = newest != nowhere && !sent_[newest].has_own_response() && sent_[newest].psn - t.psn > 0;
  if (!newer) {
    watch.pass("rc.responder.duplicate.newest-psn-acknowledged");
    return;
  }
  const bool order_sure = watch.sent_after({proven_time_, proven_identification_});
  watch.report_paired(
      "rc.responder.duplicate.newest-psn-acknowledged",
      RuleResult::violation().unless(!order_sure, Reason::order_unknown), watch.from, [&] {
        return Statement{fmt::format("relative PSN {}, of the newest SEND or RDMA WRITE that was executed (frame {})",
                                     sent_[newest].psn - first_, proven_frame_),
                         fmt::format("relative PSN {}", t.psn - first_),
                         {proven_frame_, sent_[newest].frame}};
      });
}

void RcExchange::check_sequence_nak(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const RuleId rule = "rc.responder.psn.sequence-error";
  if (proven_known_ && t.psn - proven_ < 0) {
    const bool order_sure = watch.sent_after({proven_time_, proven_identification_});
    watch.report_paired(rule, RuleResult::violation().unless(!order_sure, Reason::order_unknown), watch.from, [&] {
      return Statement{fmt::format("relative PSN {} or later, because earlier requests were executed (frame {})",
                                   proven_ - first_, proven_frame_),
                       fmt::format("a NAK for relative PSN {}", t.psn - first_),
                       {proven_frame_}};
    });
    return;
  }
  if (nak_.times > 0 && nak_.psn == t.psn) {
    // The NAK repeats the previous one. It is a violation unless the network may have duplicated that one.
    const bool sure = watch.sent_after({nak_.time, nak_.identification});
    watch.report_paired(rule, RuleResult::violation().unless(!sure, Reason::order_unknown), watch.from, [&] {
      return Statement{"one NAK, then no response until the expected PSN arrives",
                       fmt::format("a further NAK with the same PSN; the previous one is frame {}", nak_.frame),
                       {nak_.frame}};
    });
  } else {
    watch.pass(rule);
    if (naked_) watch.pass("rc.responder.psn.sequence-error-again");
    naked_ = true;
  }
  if (t.psn.value() < first_.value()) watch.pass("rc.responder.psn.wraps");
  prove(watch, t.psn);
  nak_ = {true, t.psn, t.frame, t.time, 0, nak_.times + 1, t.identification};
  rnr_.active = false;
}

void RcExchange::check_rnr_nak(const MonitoredPacket& watch, const SeenRequest* request) {
  const auto& t = watch.t;
  // For requests that need no receive, adapters send RNR NAKs after page faults.
  const bool takes = request && machines::takes_receive(request->op());
  watch.evaluator.record("rc.responder.rnr.no-receive",
                         takes ? RuleResult::pass() : RuleResult::inconclusive(Reason::device_internal));
  prove(watch, t.psn);
  rnr_ = {true,           t.psn,           t.frame, t.time, static_cast<std::int64_t>(Syndrome(t.syndrome).wait_ns()),
          rnr_.times + 1, t.identification};
  not_ready_ = t.psn;
  nak_.active = false;
}

void RcExchange::check_error_nak(const MonitoredPacket& watch, const SeenRequest* request) {
  const std::uint8_t code = Syndrome(watch.t.syndrome).code();
  prove(watch, watch.t.psn);
  if (!request) return;
  if (request->invalid && code == nak_code::invalid_request) {
    const std::size_t at = before_or_at(request->psn);
    if (const auto rule = rule_of(*request->invalid, request->op(), at > 0 && sent_[at - 1].after.inside))
      watch.pass(*rule);
  }
  if (code == nak_code::remote_access_error) watch.pass("rc.responder.access.unknown-rkey");
  if (request->has_own_response()) watch.pass("rc.responder.nak.opcode-acknowledge");
}

void RcExchange::check_read_response(const MonitoredPacket& watch, SeenRequest* request) {
  const auto& t = watch.t;
  if (!request) {
    watch.inconclusive("rc.responder.read.response-packets", Reason::capture_lost);
    return;
  }
  const Operation requested = request->op().operation;
  if (requested == Operation::flush || requested == Operation::atomic_write) {
    const RuleId rule = requested == Operation::flush ? RuleId("rc.responder.flush.answered")
                                                      : RuleId("rc.responder.atomic-write.executed");
    watch.report_paired(rule, RuleResult::of(t.op->position == Position::only && t.payload == 0), watch.from, [&] {
      return Statement{"an RDMA READ response Only without payload",
                       fmt::format("{} with {} bytes", t.op->name, t.payload),
                       {request->frame}};
    });
    // The FLUSH was accepted, so the responder found its ICRC valid.
    if (requested == Operation::flush) watch.pass("rc.endpoint.icrc.flush");
    if (request->times > 1 && requested == Operation::atomic_write) watch.pass("rc.responder.atomic-write.duplicate");
    prove(watch, request->end());
    check_outstanding_reads(watch, *request);
    return;
  }
  if (requested != Operation::rdma_read_request) {
    watch.report_paired("rc.responder.read.response-packets", RuleResult::violation(), watch.from, [&] {
      return Statement{fmt::format("a response to the {} of frame {}", request->op().name, request->frame),
                       std::string(t.op->name),
                       {request->frame}};
    });
    return;
  }
  check_response_order(watch);
  const auto at = static_cast<std::uint32_t>(t.psn - request->psn);
  const std::uint32_t mtu = watch.connection.mtu;
  const bool sized = !request->psns_unknown && (mtu != 0 || at == 0);
  const bool last = at + 1 == request->psns;
  const RuleResult doubt = RuleResult::violation().unless(
      request->psns_unknown || (!watch.connection.mtu_negotiated && request->length > 256),
      Reason::negotiation_not_seen);
  if (sized) {
    const std::uint32_t wanted = last ? request->length - at * mtu : mtu;
    constexpr std::uint32_t aeth_bytes = 4;
    const bool with_aeth = t.op->position == Position::middle && t.payload == wanted + aeth_bytes;
    watch.report_paired(
        with_aeth ? RuleId("rc.responder.read.aeth-on-first-and-last") : RuleId("rc.responder.read.response-packets"),
        t.payload == wanted ? RuleResult::pass() : doubt, watch.from, [&] {
          return Statement{fmt::format("{} bytes in packet {} of {}", wanted, at + 1, request->psns),
                           fmt::format("{} bytes", t.payload),
                           {request->frame}};
        });
    // After a retry of the missing part, the response may start again with a First or Only packet, or continue.
    const bool ends = t.op->ends_message() == last;
    const bool begins = at == 0 ? t.op->begins_message() : !t.op->begins_message() || request->times > 1;
    // True if the capture may lack a retry, or if this READ may be the retry of one that the capture lacks.
    const bool maybe_retried =
        ends && (at != 0 || (!(request->checked && watch.connection.mtu_negotiated) && !watch.sees_all_of(watch.from)));
    watch.report_paired(
        "rc.responder.read.aeth-on-first-and-last",
        ends && begins ? RuleResult::pass() : doubt.unless(maybe_retried, Reason::capture_lost), watch.from, [&] {
          const char* position = request->psns == 1 ? "Only" : at == 0 ? "First" : last ? "Last" : "Middle";
          return Statement{fmt::format("an RDMA READ response {}: packet {} of {}", position, at + 1, request->psns),
                           std::string(t.op->name),
                           {request->frame}};
        });
  } else {
    watch.inconclusive("rc.responder.read.response-packets", Reason::negotiation_not_seen);
  }
  if (request->response_frame != 0 && at < request->retried_from) {
    watch.report_paired("rc.responder.duplicate.read-part-replayed",
                        RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::order_unknown),
                        watch.from, [&] {
                          return Statement{fmt::format("the data that frame {} requests, from packet {}",
                                                       request->last_frame, request->retried_from + 1),
                                           fmt::format("packet {}", at + 1),
                                           {request->last_frame}};
                        });
  } else if (request->times > 1 && request->response_frame != 0) {
    watch.pass(at == 0 ? RuleId("rc.responder.duplicate.read-replayed")
                       : RuleId("rc.responder.duplicate.read-part-replayed"));
  }
  if (at == request->responses)
    ++request->responses;
  else if (at > request->responses && !request->response_gap) {
    request->response_gap = true;
    response_gap_frame_ = t.frame;
  }
  if (watch.connection.service == tracking::Service::xrc) watch.pass("xrc.responder.operations.as-reliable-connection");
  if (request->skipped && request->times == 1 && at + 1 == request->responses) {
    // This is the READ's first captured response, and a response to a later request was captured before.
    const bool sure = t.time - request->skipped_time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    watch.report_paired("rc.responder.order.behind-read",
                        RuleResult::violation()
                            .unless(!watch.sees_all_of(watch.from), Reason::capture_lost)
                            .unless(!sure, Reason::order_unknown),
                        watch.from, [&] {
                          return Statement{"all responses of the READ before the response to a later request",
                                           fmt::format("{} after such a response", t.op->name),
                                           {request->frame}};
                        });
  }
  if (last && sized && !request->skipped) watch.pass("rc.responder.order.behind-read");
  prove(watch, request->psns_inferred ? t.psn + 1 : request->end());
  if (last && sized) check_outstanding_reads(watch, *request);
}

void RcExchange::check_atomic_response(const MonitoredPacket& watch, SeenRequest* request) {
  const auto& t = watch.t;
  if (!request) {
    watch.inconclusive("rc.responder.atomic.result", Reason::capture_lost);
    return;
  }
  if (!machines::is_atomic(request->op().operation)) {
    const bool doubt = request->psns_inferred && t.psn - request->psn > 0;
    watch.report_paired("rc.responder.atomic.result",
                        RuleResult::violation().unless(doubt, Reason::negotiation_not_seen), watch.from, [&] {
                          return Statement{
                              fmt::format("a response to the {} of frame {}", request->op().name, request->frame),
                              std::string(t.op->name),
                              {request->frame}};
                        });
    return;
  }
  check_response_order(watch);
  if (request->has_original) {
    watch.report_paired(
        "rc.responder.duplicate.atomic-saved-result", RuleResult::of(request->original == t.operand), watch.from, [&] {
          return Statement{fmt::format("the saved value {:#x} of frame {}", request->original, request->response_frame),
                           fmt::format("{:#x}", t.operand),
                           {request->frame, request->response_frame}};
        });
  } else {
    // The memory content is internal to the device.
    watch.pass("rc.responder.atomic.result");
  }
  if (watch.connection.service == tracking::Service::xrc) watch.pass("xrc.responder.operations.as-reliable-connection");
  request->has_original = true;
  request->original = t.operand;
  prove(watch, request->end());
  check_outstanding_reads(watch, *request);
}

// Called for the response to a READ or atomic: counts the requests that were outstanding.
void RcExchange::check_outstanding_reads(const MonitoredPacket& watch, SeenRequest& request) {
  if (request.response_frame != 0) return;
  request.response_frame = watch.t.frame;
  const std::uint32_t out = outstanding_reads_--;
  const auto requester = tracking::other(watch.from);
  if (!watch.negotiated) return;
  const auto& own = watch.negotiated->ends[static_cast<std::size_t>(requester)].reads_as_requester;
  const auto& peer = watch.negotiated->ends[static_cast<std::size_t>(watch.from)].reads_as_responder;
  if (!own || !peer || request.times > 1) return;
  const std::uint32_t limit = std::min(*own, *peer);
  if (limit == 0) return;  // some implementations use 0 for "not specified"
  // If this response was captured late, the requester had received it before it sent the newest request. Then few
  // requests exceed the limit, except if many responses were captured late.
  std::size_t newest = sent_.size();
  while (newest > 0 && !sent_[newest - 1].has_own_response()) --newest;
  const bool sure = watch.sees_all_of(requester) || (out >= 2 * limit && !late_) ||
                    (newest > 0 && watch.t.time - sent_[newest - 1].time >= limits::skew_ns);
  watch.report_paired(
      "rc.requester.read.at-most-outstanding",
      RuleResult::of(out <= limit).unless(lost_, Reason::capture_lost).unless(!sure, Reason::order_unknown), requester,
      [&] {
        return Statement{fmt::format("at most {}, as negotiated", limit),
                         fmt::format("{} READs and atomics were outstanding", out),
                         {watch.negotiated->frame, request.frame}};
      });
}

// The MSN counts completed messages: at least those that the response acknowledges, at most those whose end was
// captured. The count before the first captured request is known, or bounded by earlier responses.
void RcExchange::check_msn(const MonitoredPacket& watch, const SeenRequest* request) {
  const auto& t = watch.t;
  const std::uint8_t kind = Syndrome(t.syndrome).kind();
  const bool first_of_read = t.op->operation == Operation::rdma_read_response && !t.op->ends_message();
  const bool refuses = kind != syndrome_kind::ack;
  const Psn through = refuses || first_of_read ? (request ? request->psn : t.psn) - 1 : t.psn;
  std::uint32_t low = 0;
  if (const std::size_t at = before_or_at(through); at != nowhere) {
    // A READ is counted with its last response packet.
    const bool inside = sent_[at].is_read() && through - sent_[at].end() < -1;
    low = inside ? sent_[at].messages_low - 1 : sent_[at].messages_low;
  } else if (!sent_.empty() && sent_.front().psn - first_ > 0) {
    // The request is no longer remembered: the response is late, and counts fewer messages.
    watch.inconclusive("rc.responder.msn.once-a-message", Reason::out_of_window);
    return;
  }
  const std::uint32_t high = sent_.empty() ? 0 : sent_.back().messages_high;
  // The capture may lack requests that were executed and are now retransmitted, for example at its start. The MSN
  // counts them, unless this ACK acknowledges the newest request at its first transmission and no response named a
  // later PSN. A read or atomic response, and the ACK of a duplicate, may have the PSN of the retransmitted request. If
  // requests are captured late, the newest one is not known.
  const bool newest = t.op->operation == Operation::acknowledge && t.psn + 1 == next_ && request && request->times == 1;
  const bool bounded = watch.sees_all_of(watch.from) || (newest && !late_ && (!answered_ || next_ - *answered_ >= 0));
  if (high - low > 1U << 20) msn_known_ = false;
  if (!msn_known_ && !bounded) {
    watch.inconclusive("rc.responder.msn.once-a-message", Reason::capture_lost);
    return;
  }
  if (!msn_known_) {
    msn_known_ = true;
    msn_low_ = t.msn - high;
    msn_width_ = high - low;
    watch.inconclusive("rc.responder.msn.starts-at-zero", Reason::start_not_seen);
    return;
  }
  const std::int32_t above = t.msn - (msn_low_ + low);
  const std::int32_t below = (msn_low_ + msn_width_ + high) - t.msn;
  const bool again = proven_known_ && request && request->times > 1;
  const RuleId rule = start_known_ && t.msn.value() <= 1 && above >= 0   ? RuleId("rc.responder.msn.starts-at-zero")
                      : t.op->operation == Operation::rdma_read_response ? RuleId("rc.responder.msn.in-read-response")
                      : again ? RuleId("rc.responder.msn.unchanged-by-duplicate")
                              : RuleId("rc.responder.msn.once-a-message");
  const auto describe = [&] {
    const Msn from = msn_low_ + low, to = msn_low_ + msn_width_ + high;
    return Statement{
        from == to ? fmt::format("MSN {}", from.value()) : fmt::format("MSN {} to {}", from.value(), to.value()),
        fmt::format("MSN {}", t.msn.value()),
        {request ? request->frame : 0}};
  };
  if (above < 0) {
    // Reordering does not explain the MSN, because the PSN of the same response is compared. But the expected MSN is
    // too high if it follows from an earlier response and the capture lacks requests.
    watch.report_paired(
        rule, RuleResult::violation().unless(!start_known_ && !watch.sees_all_of(watch.from), Reason::start_not_seen),
        watch.from, describe);
    msn_known_ = false;
    return;
  }
  if (below < 0) {
    // The responder may have counted requests that the capture lacks. The PSN of the next request shows whether there
    // are any, so wait for it.
    if (!watch.paired) {
      watch.inconclusive(rule, Reason::paired_by_inference);
      msn_known_ = false;
    } else if (!bounded) {
      watch.inconclusive(rule, Reason::capture_lost);
    } else if (watch.sees_all_of(watch.from)) {
      watch.report(rule, RuleResult::violation(), watch.from, describe);
      msn_known_ = false;
    } else {
      pending_msn_ = {true, rule.index(), watch.place(watch.from), describe()};
    }
    return;
  }
  watch.pass(rule);
  if (rule == RuleId("rc.responder.msn.starts-at-zero") && watch.monitor.is_reused(watch.from))
    watch.pass("qp.endpoint.reset.fresh-start");
  if (rule != RuleId("rc.responder.msn.once-a-message")) watch.pass("rc.responder.msn.once-a-message");
  // Narrow the bounds of the MSN before the first captured request.
  const auto less = bounded ? static_cast<std::uint32_t>(std::max(0, (t.msn - high) - msn_low_)) : 0;
  if (less > 0 && less <= msn_width_) {
    msn_low_ += less;
    msn_width_ -= less;
  }
  msn_width_ = std::min(msn_width_, static_cast<std::uint32_t>(std::max(0, (t.msn - low) - msn_low_)));
}

// Decides a pending violation of the MSN when the next request arrives. `contiguous`: its PSN follows the last one, so
// that no request is missing.
void RcExchange::settle_msn(const MonitoredPacket& watch, bool contiguous) {
  if (!pending_msn_.active) return;
  pending_msn_.active = false;
  const RuleId rule = RuleId::at(pending_msn_.rule);
  Violation* violation = watch.evaluator.record(rule, RuleResult::violation().unless(!contiguous, Reason::capture_lost),
                                                pending_msn_.place, [&] { return pending_msn_.statement; });
  if (contiguous) msn_known_ = false;
  if (violation) watch.monitor.attach_sequence(violation);
}

}  // namespace rdmawire::conformance
