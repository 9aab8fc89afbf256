/// Judgments on the responder of a reliable connection.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {
namespace {

using machines::InvalidRequest;

/// The rule that asks the responder to refuse such a request.
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
  if (watch.copy || t.damaged || t.op->operation == Operation::congestion_notification) return;
  if (!started_) {
    watch.open("rc.responder.ack.in-order", watch.joined ? Reason::start_not_seen : Reason::direction_not_seen);
    return;
  }
  settle_read(watch);
  const bool vague = !sent_.empty() && sent_.back().vague;
  if ((t.psn - next_ >= 0 && !vague) || first_ - t.psn > 0) {
    // Of a request that was not seen, or was before all that were.
    if (t.psn - next_ >= 0) lost_ = true;
    watch.open("rc.responder.ack.in-order", t.psn - next_ >= 0 ? Reason::capture_lost : Reason::start_not_seen);
    if (!start_known_) msn_known_ = false;
    return;
  }
  SeenRequest* request = covering(t.psn);
  if (request && request->doubtful) {
    watch.open("rc.responder.ack.in-order", Reason::peer_violation);
    bench_.failed = true;
    msn_known_ = false;
    return;
  }
  judge_sent(watch);
  response_frame_ = t.frame;
  const std::uint8_t kind = t.syndrome >> 5 & 3;
  switch (t.op->operation) {
    case Operation::rdma_read_response: judge_read_response(watch, request); break;
    case Operation::atomic_acknowledge: judge_atomic_response(watch, request); break;
    case Operation::acknowledge:
      if (kind == syndrome_kind::ack) judge_acknowledgement(watch, request);
      if (kind == syndrome_kind::rnr_nak) judge_rnr_nak(watch, request);
      if (kind == syndrome_kind::nak) {
        if ((t.syndrome & 31) == nak_code::psn_sequence_error)
          judge_sequence_nak(watch);
        else
          judge_error_nak(watch, request);
      }
      break;
    default: return;
  }
  if (t.op->operation != Operation::acknowledge && t.has_aeth) {
    watch.say_of_both("rc.responder.nak.opcode-acknowledge", RuleResult::of(kind == syndrome_kind::ack), watch.from,
                      [&] {
                        return Statement{"a NAK in a packet with opcode Acknowledge",
                                         fmt::format("syndrome {:#04x} in {}", t.syndrome, t.op->name),
                                         {}};
                      });
  }
  if (t.has_aeth && kind == syndrome_kind::ack) {
    // Which of its queue pairs use flow control only the device knows; every code of an ACK is legal.
    watch.holds("rc.responder.credits.encoding");
  }
  if (t.has_aeth) {
    judge_msn(watch, request);
    note_credits(watch);
  }
}

// Everything before `executed` was executed.
void RcExchange::prove(const MonitoredPacket& watch, Psn executed) {
  if (proven_known_ && executed - proven_ <= 0) return;
  judge_invalid(watch, executed);
  // READs and atomics that are behind it were answered, seen or not.
  std::size_t at = proven_known_ ? before_or_at(proven_) : 0;
  for (at = at == nowhere ? 0 : at; at < sent_.size() && sent_[at].end() - executed <= 0; ++at) {
    SeenRequest& r = sent_[at];
    if (r.has_own_answer() && r.answered_frame == 0 && r.frame != watch.t.frame && !r.skipped &&
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
  if (nak_.active && proven_ - nak_.psn > 0) nak_.active = false;
  if (not_ready_ && proven_ - *not_ready_ > 0) {
    watch.holds("rc.responder.rnr.then-executed-once");
    not_ready_.reset();
    rnr_.active = false;
  }
}

// Requests before `executed` that had to be refused.
void RcExchange::judge_invalid(const MonitoredPacket& watch, Psn executed) {
  for (std::size_t at = sent_.size(); at-- > 0;) {
    const SeenRequest& r = sent_[at];
    if (proven_known_ && r.psn - proven_ < 0) break;
    if (r.psn - executed >= 0 || !r.invalid) continue;
    const bool inside = at > 0 && sent_[at - 1].after.inside;
    const auto rule = rule_of(*r.invalid, r.op(), inside);
    if (!rule) continue;
    watch.say_of_both(*rule, RuleResult::violated(), watch.from, [&] {
      return Statement{fmt::format("a NAK for an invalid request to the {} of frame {}", r.op().name, r.frame),
                       fmt::format("{} with a PSN behind it: it was accepted", watch.t.op->name),
                       {r.frame}};
    });
  }
}

// Responses leave in the order of PSNs, but for those to duplicates.
void RcExchange::judge_order_of(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const RuleId rule = watch.connection.service == tracking::Service::xrc
                          ? RuleId("xrc.responder.order.responses-by-psn")
                          : RuleId("rc.responder.order.responses-by-psn");
  if (!last_response_ || t.psn - *last_response_ >= 0) {
    last_response_ = t.psn;
    watch.holds(rule);
    return;
  }
  // A duplicate request, seen or not, draws a response with a PSN from before.
  const SeenRequest* request = covering(t.psn);
  if ((request && request->times > 1) || again_frame_ > ack_frame_) return;
  watch.say_of_both(rule, RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::order_unknown),
                    watch.from, [&] {
                      return Statement{fmt::format("nothing before relative PSN {}", *last_response_ - first_),
                                       fmt::format("{} with relative PSN {}", t.op->name, t.psn - first_),
                                       {}};
                    });
}

void RcExchange::judge_acknowledgement(const MonitoredPacket& watch, SeenRequest* request) {
  const auto& t = watch.t;
  const Psn executed = t.psn + 1;
  const std::size_t at = before_or_at(t.psn);
  // To the requester, an ACK where an answer with data was due says that the answer is lost.
  if (request && request->has_own_answer() && request->answered_frame == 0) response_gap_frame_ = t.frame;
  const Operation asked = request ? request->op().operation : Operation::send;
  if (request && t.psn == request->psn && (asked == Operation::flush || asked == Operation::atomic_write)) {
    watch.say_of_both(
        asked == Operation::flush ? RuleId("rc.responder.flush.answered")
                                  : RuleId("rc.responder.atomic-write.executed"),
        RuleResult::violated(), watch.from, [&] {
          return Statement{"an RDMA READ response Only without payload", std::string(t.op->name), {request->frame}};
        });
    prove(watch, executed);
    return;
  }
  if (request && request->has_own_answer() && !request->is_read()) {
    // Linux acknowledges a duplicate so; whether that is right the sources that we have do not say.
    watch.open("rc.responder.duplicate.newest-psn-acknowledged", Reason::device_internal);
    prove(watch, executed);
    return;
  }
  if (request && request->is_read()) {
    // A READ is answered by its response; an ACK of a later request has that one's PSN.
    watch.say_of_both(
        "rc.responder.duplicate.newest-psn-acknowledged",
        RuleResult::violated().unless(request->vague || (!watch.connection.mtu_negotiated && t.psn - request->psn > 0),
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
    watch.holds("rc.responder.ack.in-order");
    if (request && request->ack_request) watch.holds("rc.responder.ack.asked-for-once");
    if (at != nowhere && at > 0 && (!proven_known_ || sent_[at].psn - proven_ > 0) &&
        !(proven_known_ && sent_[at - 1].end() - proven_ <= 0))
      watch.holds("rc.responder.ack.coalesced");
    if (t.psn.value() < first_.value()) watch.holds("rc.responder.psn.wraps");
    if (proven_known_ && executed == proven_) {
      // Once more the same: of a duplicate, or for new credits.
      const bool duplicate = ++acks_again_ <= again_;
      if (duplicate) {
        watch.holds("rc.responder.duplicate.not-executed-again");
        watch.holds("rc.responder.duplicate.newest-psn-acknowledged");
      } else {
        watch.say_of_both("rc.responder.ack.asked-for-once",
                          RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::capture_lost),
                          watch.from, [&] {
                            return Statement{"one acknowledgement of a request that came once",
                                             fmt::format("a second one; the first in frame {}", proven_frame_),
                                             {proven_frame_}};
                          });
      }
    }
    judge_order_of(watch);
    acknowledged_ = true;
    ack_frame_ = t.frame;
    prove(watch, executed);
    return;
  }
  // An old PSN. What was executed between is what the ACK of a duplicate must carry.
  std::size_t newest = before_or_at(proven_ - 1);
  while (newest != nowhere && newest > 0 && sent_[newest].has_own_answer()) --newest;
  const bool newer = newest != nowhere && !sent_[newest].has_own_answer() && sent_[newest].psn - t.psn > 0;
  if (!newer) {
    watch.holds("rc.responder.duplicate.newest-psn-acknowledged");
    return;
  }
  const bool order_sure = t.time - proven_time_ >= limits::reorder_ns || watch.sees_all_of(watch.from);
  watch.say_of_both("rc.responder.duplicate.newest-psn-acknowledged",
                    RuleResult::violated().unless(!order_sure, Reason::order_unknown), watch.from, [&] {
                      return Statement{
                          fmt::format("relative PSN {}, of the newest SEND or RDMA WRITE that was executed (frame {})",
                                      sent_[newest].psn - first_, proven_frame_),
                          fmt::format("relative PSN {}", t.psn - first_),
                          {proven_frame_, sent_[newest].frame}};
                    });
}

void RcExchange::judge_sequence_nak(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  const RuleId rule = "rc.responder.psn.sequence-error";
  if (proven_known_ && t.psn - proven_ < 0) {
    const bool order_sure = t.time - proven_time_ >= limits::reorder_ns || watch.sees_all_of(watch.from);
    watch.say_of_both(rule, RuleResult::violated().unless(!order_sure, Reason::order_unknown), watch.from, [&] {
      return Statement{fmt::format("relative PSN {} or one behind it: what is before it was executed (frame {})",
                                   proven_ - first_, proven_frame_),
                       fmt::format("a NAK for relative PSN {}", t.psn - first_),
                       {proven_frame_}};
    });
    return;
  }
  if (nak_.times > 0 && nak_.psn == t.psn) {
    // Once more. The network may have made a copy of the first.
    const bool sure = t.time - nak_.time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    watch.say_of_both(rule, RuleResult::violated().unless(!sure, Reason::order_unknown), watch.from, [&] {
      return Statement{"one NAK, then silence until the expected PSN arrives",
                       fmt::format("a further NAK with the same PSN; the last one in frame {}", nak_.frame),
                       {nak_.frame}};
    });
  } else {
    watch.holds(rule);
    if (naked_) watch.holds("rc.responder.psn.sequence-error-again");
    naked_ = true;
  }
  if (t.psn.value() < first_.value()) watch.holds("rc.responder.psn.wraps");
  prove(watch, t.psn);
  nak_ = {true, t.psn, t.frame, t.time, 0, nak_.times + 1};
  rnr_.active = false;
}

void RcExchange::judge_rnr_nak(const MonitoredPacket& watch, const SeenRequest* request) {
  const auto& t = watch.t;
  // Adapters answer page faults of other requests with an RNR NAK too.
  const bool takes = request && machines::takes_receive(request->op());
  watch.judge.judge("rc.responder.rnr.no-receive",
                    takes ? RuleResult::holds() : RuleResult::open(Reason::device_internal));
  prove(watch, t.psn);
  rnr_ = {true, t.psn, t.frame, t.time, static_cast<std::int64_t>(rnr_timer_ns(t.syndrome & 31)), rnr_.times + 1};
  not_ready_ = t.psn;
  nak_.active = false;
}

void RcExchange::judge_error_nak(const MonitoredPacket& watch, const SeenRequest* request) {
  const std::uint8_t code = watch.t.syndrome & 31;
  prove(watch, watch.t.psn);
  if (!request) return;
  if (request->invalid && code == nak_code::invalid_request) {
    const std::size_t at = before_or_at(request->psn);
    if (const auto rule = rule_of(*request->invalid, request->op(), at > 0 && sent_[at - 1].after.inside))
      watch.holds(*rule);
  }
  if (code == nak_code::remote_access_error) watch.holds("rc.responder.access.unknown-rkey");
  if (request->has_own_answer()) watch.holds("rc.responder.nak.opcode-acknowledge");
}

void RcExchange::judge_read_response(const MonitoredPacket& watch, SeenRequest* request) {
  const auto& t = watch.t;
  if (!request) {
    watch.open("rc.responder.read.response-packets", Reason::capture_lost);
    return;
  }
  const Operation asked = request->op().operation;
  if (asked == Operation::flush || asked == Operation::atomic_write) {
    const RuleId rule = asked == Operation::flush ? RuleId("rc.responder.flush.answered")
                                                  : RuleId("rc.responder.atomic-write.executed");
    watch.say_of_both(rule, RuleResult::of(t.op->position == Position::only && t.payload == 0), watch.from, [&] {
      return Statement{"an RDMA READ response Only without payload",
                       fmt::format("{} with {} bytes", t.op->name, t.payload),
                       {request->frame}};
    });
    // It was taken, so its ICRC was found right.
    if (asked == Operation::flush) watch.holds("rc.endpoint.icrc.flush");
    if (request->times > 1 && asked == Operation::atomic_write) watch.holds("rc.responder.atomic-write.duplicate");
    prove(watch, request->end());
    judge_reads_out(watch, *request);
    return;
  }
  if (asked != Operation::rdma_read_request) {
    watch.say_of_both("rc.responder.read.response-packets", RuleResult::violated(), watch.from, [&] {
      return Statement{fmt::format("an answer to the {} of frame {}", request->op().name, request->frame),
                       std::string(t.op->name),
                       {request->frame}};
    });
    return;
  }
  judge_order_of(watch);
  const auto at = static_cast<std::uint32_t>(t.psn - request->psn);
  const std::uint32_t mtu = watch.connection.mtu;
  const bool sized = !request->vague && (mtu != 0 || at == 0);
  const bool last = at + 1 == request->psns;
  const RuleResult doubt = RuleResult::violated().unless(
      request->vague || (!watch.connection.mtu_negotiated && request->length > 256), Reason::negotiation_not_seen);
  if (sized) {
    const std::uint32_t wanted = last ? request->length - at * mtu : mtu;
    constexpr std::uint32_t aeth_bytes = 4;
    const bool with_aeth = t.op->position == Position::middle && t.payload == wanted + aeth_bytes;
    watch.say_of_both(
        with_aeth ? RuleId("rc.responder.read.aeth-on-first-and-last") : RuleId("rc.responder.read.response-packets"),
        t.payload == wanted ? RuleResult::holds() : doubt, watch.from, [&] {
          return Statement{fmt::format("{} bytes in packet {} of {}", wanted, at + 1, request->psns),
                           fmt::format("{} bytes", t.payload),
                           {request->frame}};
        });
    // Where the rest of a READ was asked for again, the response begins with a First or an Only, or goes on.
    const bool ends = t.op->ends_message() == last;
    const bool begins = at == 0 ? t.op->begins_message() : !t.op->begins_message() || request->times > 1;
    const bool maybe_again = ends && at != 0;  // the request for the rest was not seen
    watch.say_of_both(
        "rc.responder.read.aeth-on-first-and-last",
        ends && begins ? RuleResult::holds() : doubt.unless(maybe_again, Reason::capture_lost), watch.from, [&] {
          const char* position = request->psns == 1 ? "Only" : at == 0 ? "First" : last ? "Last" : "Middle";
          return Statement{fmt::format("an RDMA READ response {}: packet {} of {}", position, at + 1, request->psns),
                           std::string(t.op->name),
                           {request->frame}};
        });
  } else {
    watch.open("rc.responder.read.response-packets", Reason::negotiation_not_seen);
  }
  if (request->answered_frame != 0 && at < request->asked_from) {
    watch.say_of_both(
        "rc.responder.duplicate.read-part-replayed",
        RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::order_unknown), watch.from, [&] {
          return Statement{
              fmt::format("what frame {} asks for, from packet {} on", request->last_frame, request->asked_from + 1),
              fmt::format("packet {}", at + 1),
              {request->last_frame}};
        });
  } else if (request->times > 1 && request->answered_frame != 0) {
    watch.holds(at == 0 ? RuleId("rc.responder.duplicate.read-replayed")
                        : RuleId("rc.responder.duplicate.read-part-replayed"));
  }
  if (at == request->responses)
    ++request->responses;
  else if (at > request->responses && !request->response_gap) {
    request->response_gap = true;
    response_gap_frame_ = t.frame;
  }
  if (watch.connection.service == tracking::Service::xrc)
    watch.holds("xrc.responder.operations.as-reliable-connection");
  if (request->skipped && request->times == 1 && at + 1 == request->responses) {
    // Its first answer, and one behind it came before.
    const bool sure = t.time - request->skipped_time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    watch.say_of_both("rc.responder.order.behind-read",
                      RuleResult::violated()
                          .unless(!watch.sees_all_of(watch.from), Reason::capture_lost)
                          .unless(!sure, Reason::order_unknown),
                      watch.from, [&] {
                        return Statement{"all of the READ's responses before the answer to a request behind it",
                                         fmt::format("{} after one", t.op->name),
                                         {request->frame}};
                      });
  }
  if (last && sized && !request->skipped) watch.holds("rc.responder.order.behind-read");
  prove(watch, request->end());
  if (last && sized) judge_reads_out(watch, *request);
}

void RcExchange::judge_atomic_response(const MonitoredPacket& watch, SeenRequest* request) {
  const auto& t = watch.t;
  if (!request) {
    watch.open("rc.responder.atomic.result", Reason::capture_lost);
    return;
  }
  if (!machines::is_atomic(request->op().operation)) {
    watch.say_of_both("rc.responder.atomic.result", RuleResult::violated(), watch.from, [&] {
      return Statement{fmt::format("an answer to the {} of frame {}", request->op().name, request->frame),
                       std::string(t.op->name),
                       {request->frame}};
    });
    return;
  }
  judge_order_of(watch);
  if (request->has_original) {
    watch.say_of_both(
        "rc.responder.duplicate.atomic-saved-result", RuleResult::of(request->original == t.operand), watch.from, [&] {
          return Statement{fmt::format("the saved value {:#x} of frame {}", request->original, request->answered_frame),
                           fmt::format("{:#x}", t.operand),
                           {request->frame, request->answered_frame}};
        });
  } else {
    // What memory held only the device knows.
    watch.holds("rc.responder.atomic.result");
  }
  if (watch.connection.service == tracking::Service::xrc)
    watch.holds("xrc.responder.operations.as-reliable-connection");
  request->has_original = true;
  request->original = t.operand;
  prove(watch, request->end());
  judge_reads_out(watch, *request);
}

// A READ or an atomic has its answer: how many were on the wire until now?
void RcExchange::judge_reads_out(const MonitoredPacket& watch, SeenRequest& request) {
  if (request.answered_frame != 0) return;
  request.answered_frame = watch.t.frame;
  const std::uint32_t out = reads_out_--;
  const auto requester = tracking::other(watch.from);
  if (!watch.agreement) return;
  const auto& own = watch.agreement->ends[static_cast<std::size_t>(requester)].reads_as_requester;
  const auto& peer = watch.agreement->ends[static_cast<std::size_t>(watch.from)].reads_as_responder;
  if (!own || !peer || request.times > 1) return;
  const std::uint32_t limit = std::min(*own, *peer);
  if (limit == 0) return;  // some say 0 and mean that they do not say it
  watch.say_of_both("rc.requester.read.at-most-outstanding",
                    RuleResult::of(out <= limit).unless(lost_, Reason::capture_lost), requester, [&] {
                      return Statement{fmt::format("{} at most, as the two ends agreed", limit),
                                       fmt::format("{} READs and atomics were on the wire, unanswered", out),
                                       {watch.agreement->frame, request.frame}};
                    });
}

// MSN counts the messages that were completed: not less than those that the response acknowledges, and not more than
// were seen to end. What was before the first request is known, or bounded by the responses so far.
void RcExchange::judge_msn(const MonitoredPacket& watch, const SeenRequest* request) {
  const auto& t = watch.t;
  const std::uint8_t kind = t.syndrome >> 5 & 3;
  const bool first_of_read = t.op->operation == Operation::rdma_read_response && !t.op->ends_message();
  const bool refuses = kind != syndrome_kind::ack;
  const Psn through = refuses || first_of_read ? (request ? request->psn : t.psn) - 1 : t.psn;
  std::uint32_t low = 0;
  if (const std::size_t at = before_or_at(through); at != nowhere) {
    // A READ counts with its last response.
    const bool inside = sent_[at].is_read() && through - sent_[at].end() < -1;
    low = inside ? sent_[at].messages_low - 1 : sent_[at].messages_low;
  } else if (!sent_.empty() && sent_.front().psn - first_ > 0) {
    low = sent_.front().messages_low - sent_.front().op().ends_message();
  }
  const std::uint32_t high = sent_.empty() ? 0 : sent_.back().messages_high;
  if (high - low > 1U << 20) msn_known_ = false;
  if (!msn_known_) {
    msn_known_ = true;
    msn_low_ = t.msn - high;
    msn_width_ = high - low;
    watch.open("rc.responder.msn.starts-at-zero", Reason::start_not_seen);
    return;
  }
  const std::int32_t above = t.msn - (msn_low_ + low);
  const std::int32_t below = (msn_low_ + msn_width_ + high) - t.msn;
  const bool again = proven_known_ && request && request->times > 1;
  const RuleId rule = start_known_ && t.msn.value() <= 1 && above >= 0   ? RuleId("rc.responder.msn.starts-at-zero")
                      : t.op->operation == Operation::rdma_read_response ? RuleId("rc.responder.msn.in-read-response")
                      : again ? RuleId("rc.responder.msn.unchanged-by-duplicate")
                              : RuleId("rc.responder.msn.once-a-message");
  const auto tell = [&] {
    const Msn from = msn_low_ + low, to = msn_low_ + msn_width_ + high;
    return Statement{
        from == to ? fmt::format("MSN {}", from.value()) : fmt::format("MSN {} to {}", from.value(), to.value()),
        fmt::format("MSN {}", t.msn.value()),
        {request ? request->frame : 0}};
  };
  if (above < 0) {
    // Responses that others overtook have the MSN of their time, and so its PSN.
    watch.say_of_both(rule, RuleResult::violated(), watch.from, tell);
    msn_known_ = false;
    return;
  }
  if (below < 0) {
    // Requests that the capture missed behind the last one may explain it: the next request tells.
    if (!watch.joined) {
      watch.open(rule, Reason::paired_by_inference);
    } else if (watch.sees_all_of(watch.from)) {
      watch.say(rule, RuleResult::violated(), watch.from, tell);
    } else {
      pending_msn_ = {true, rule.index(), watch.place(watch.from), tell()};
    }
    msn_known_ = false;
    return;
  }
  watch.holds(rule);
  if (rule == RuleId("rc.responder.msn.starts-at-zero") && watch.monitor.is_reused(watch.from))
    watch.holds("qp.endpoint.reset.fresh-start");
  if (rule != RuleId("rc.responder.msn.once-a-message")) watch.holds("rc.responder.msn.once-a-message");
  // What is known now of what was before.
  const auto less = static_cast<std::uint32_t>(std::max(0, (t.msn - high) - msn_low_));
  if (less > 0 && less <= msn_width_) {
    msn_low_ += less;
    msn_width_ -= less;
  }
  msn_width_ = std::min(msn_width_, static_cast<std::uint32_t>(std::max(0, (t.msn - low) - msn_low_)));
}

// A new request, next to the last one or not.
void RcExchange::settle_msn(const MonitoredPacket& watch, bool contiguous) {
  if (!pending_msn_.active) return;
  pending_msn_.active = false;
  const RuleId rule = RuleId::at(pending_msn_.rule);
  Violation* violation = watch.judge.judge(rule, RuleResult::violated().unless(!contiguous, Reason::capture_lost),
                                           pending_msn_.place, [&] { return pending_msn_.statement; });
  if (violation) watch.monitor.draw(violation);
}

}  // namespace rdmawire::conformance
