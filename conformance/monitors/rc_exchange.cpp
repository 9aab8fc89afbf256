/// Stores and orders the captured requests of one requester.

#include "conformance/monitors/rc_exchange.hpp"

#include <algorithm>
#include <cstdlib>

#include "conformance/monitors/connection_monitor.hpp"
#include "conformance/monitors/state_number.hpp"

namespace rdmawire::conformance {

void RcExchange::begin(const MonitoredPacket& watch) {
  started_ = true;
  first_ = next_ = watch.t.psn;
  if (!watch.negotiated) return;
  const auto& agreed = watch.negotiated->ends[static_cast<std::size_t>(watch.from)].first_psn;
  if (!agreed) return;
  const std::int32_t missed = watch.t.psn - Psn(*agreed);
  if (missed >= 0 && missed < far) {
    first_ = next_ = Psn(*agreed);
    start_known_ = true;
    msn_known_ = true;  // zero
  }
  const bool complete = watch.sees_all_of(watch.from);
  if (watch.negotiated->by == tracking::JoinedBy::connection_manager)
    watch.report("cm.endpoint.messages.hold-for-data",
                 RuleResult::of(missed == 0).unless(missed > 0 && !complete, Reason::capture_lost), watch.from, [&] {
                   return Statement{"the starting PSN of the CM message",
                                    "a first request " + std::to_string(std::abs(missed)) + " PSNs " +
                                        (missed < 0 ? "before" : "after") + " it",
                                    {watch.negotiated->frame}};
                 });
  watch.report(watch.monitor.is_reused(watch.from) ? RuleId("qp.endpoint.reset.fresh-start")
                                                   : RuleId("rc.requester.psn.increments"),
               RuleResult::of(missed == 0 || (missed > 0 && !complete)).unless(watch.t.damaged, Reason::damaged),
               watch.from, [&] {
                 return Statement{complete ? "the first request with the negotiated PSN"
                                           : "the first request with the negotiated PSN, or a later one",
                                  "a request " + std::to_string(std::abs(missed)) + " PSNs " +
                                      (missed < 0 ? "before" : "after") + " the negotiated one",
                                  {watch.negotiated->frame}};
               });
}

SeenRequest RcExchange::read(const MonitoredPacket& watch) const {
  const auto& t = watch.t;
  SeenRequest r;
  r.psn = t.psn;
  r.frame = r.last_frame = t.frame;
  r.time = r.last_time = t.time;
  r.va = t.address;
  r.key = t.key;
  r.length = t.length;
  r.operand = t.operand;
  r.compare = t.compare;
  r.payload = t.payload;
  r.payload_crc = t.payload_crc;
  r.payload_known = t.payload_known;
  r.immediate = t.immediate;
  r.invalidated = t.invalidated_key;
  r.pkey = t.pkey;
  r.opcode = t.op->value;
  r.ack_request = t.ack_request;
  r.solicited = t.solicited;
  if (r.is_read()) {
    constexpr std::uint32_t smallest_mtu = 256;
    r.psns_unknown = watch.connection.mtu == 0 && r.length > smallest_mtu;
    r.psns_inferred = !watch.connection.mtu_negotiated && r.length > smallest_mtu;
    r.psns = machines::psns_of_read(r.length, watch.connection.mtu);
  }
  return r;
}

// Returns the index of the last request whose PSN is not after `psn`.
std::size_t RcExchange::before_or_at(Psn psn) const {
  std::size_t low = 0, high = sent_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (sent_[middle].psn - psn <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? nowhere : low - 1;
}

// Returns the request that uses this PSN, or nullptr. A READ uses the PSNs of its response.
SeenRequest* RcExchange::covering(Psn psn) {
  const std::size_t at = before_or_at(psn);
  if (at == nowhere) return nullptr;
  SeenRequest& r = sent_[at];
  return psn - r.end() < 0 || (r.psns_unknown && at + 1 == sent_.size()) ? &r : nullptr;
}

void RcExchange::count_messages(std::size_t from) {
  for (std::size_t i = from; i < sent_.size(); ++i) {
    SeenRequest& r = sent_[i];
    std::uint32_t low = 0, high = 0;
    Psn behind = first_;
    if (i > 0) {
      low = sent_[i - 1].messages_low;
      high = sent_[i - 1].messages_high;
      behind = sent_[i - 1].end();
    }
    const std::int32_t unseen = i == 0 && from == 0 && !sent_.empty() && r.psn - first_ < 0 ? 0 : r.psn - behind;
    if (unseen > 0) high += static_cast<std::uint32_t>(unseen);
    // If the READ has fewer PSNs than inferred, the capture lacks requests after it.
    if (r.psns_inferred) high += r.psns - 1;
    // True if the retry of the missing part of a READ was captured before the READ. It does not count as a message.
    const bool retry = i > 0 && unseen < 0 && r.is_read() && sent_[i - 1].is_read();
    r.messages_low = low + (r.op().ends_message() && !retry);
    r.messages_high = high + r.op().ends_message();
  }
}

// Sets the number of PSNs of the last READ, once its response has revealed the path MTU.
void RcExchange::settle_read(const MonitoredPacket& watch) {
  if (sent_.empty() || !sent_.back().psns_unknown || watch.connection.mtu == 0) return;
  SeenRequest& read = sent_.back();
  read.psns_unknown = false;
  read.psns = machines::psns_of_read(read.length, watch.connection.mtu);
  next_ = read.end();
  count_messages(sent_.size() - 1);
}

// Returns whether the packet requests the missing part of this READ.
bool RcExchange::is_remainder(const MonitoredPacket& watch, const SeenRequest& read) const {
  const auto& t = watch.t;
  return t.op->operation == Operation::rdma_read_request && t.key == read.key && t.address > read.va &&
         t.address + t.length == read.va + read.length;
}

void RcExchange::append(const MonitoredPacket& watch) {
  sent_.push_back(read(watch));
  SeenRequest& r = sent_.back();
  next_ = r.end();
  if (r.has_own_response()) ++outstanding_reads_;
  count_messages(sent_.size() - 1);
  check_chain(watch, sent_.size() - 1);
  check_ack_request(watch);
}

void RcExchange::insert(const MonitoredPacket& watch, std::size_t at) {
  late_ = true;
  sent_.insert(at, read(watch));
  if (sent_[at].has_own_response()) ++outstanding_reads_;
  count_messages(at);
  check_chain(watch, at);
  if (at + 1 < sent_.size()) check_chain(watch, at + 1);
  check_ack_request(watch);
  // The packet is late, or the retransmission of a packet that the capture lacks. It is a retransmission after a NAK,
  // in a recovery, or if it was captured long after the next PSN.
  const bool again = nak_.active || rnr_.active || (recovery_.active && watch.t.psn == recovery_.next) ||
                     (at + 1 < sent_.size() && watch.t.time - sent_[at + 1].time >= limits::reorder_ns);
  if (again) check_recovery(watch, nullptr, sent_[at].psns);
}

// Drops the oldest requests: executed ones beyond `kept`, and any beyond the limit.
void RcExchange::forget(const MonitoredPacket& watch) {
  const std::size_t most = watch.paired || proven_known_ ? kept_unanswered : 8 * kept;
  while (sent_.size() > kept && (sent_.size() > most || (proven_known_ && sent_[kept].end() - proven_ <= 0))) {
    const SeenRequest& gone = sent_.front();
    if (gone.has_own_response() && gone.response_frame == 0) {
      --outstanding_reads_;
      if (gone.skipped) watch.inconclusive("rc.requester.read.implied-nak", Reason::capture_lost);
    }
    if (gone.response_gap) watch.inconclusive("rc.requester.read.gap-asked-again", Reason::capture_lost);
    sent_.pop_front();
  }
}

void RcExchange::states(std::vector<std::uint64_t>& states) const {
  // The request stream
  const SeenRequest nothing;
  const SeenRequest& last = sent_.empty() ? nothing : sent_.back();
  states.push_back(state_number(started_, start_known_, lost_, last.sequence_known, last.after.inside,
                                last.after.inside ? last.after.operation : Operation{}, last.psns_unknown,
                                last.doubtful, last.invalid.has_value()));
  states.push_back(
      state_number(recovery_.active, few(recovery_.at_start), few(recovery_.rnr_at_start), few(last.times)));
  // Responder: outstanding and rejected requests
  states.push_back(state_number(few(outstanding_reads_), acknowledged_, proven_known_,
                                proven_known_ ? std::clamp(next_ - proven_, -1, 2) : 0));
  states.push_back(
      state_number(naked_, not_ready_.has_value(), nak_.active, few(nak_.times), rnr_.active, few(rnr_.times)));
  states.push_back(state_number(msn_known_, pending_msn_.active, credits_.known, few(credits_.beyond), bench_.active,
                                bench_.gap, bench_.reported, bench_.not_ready, bench_.failed));
}

void RcExchange::finish(Evaluator& evaluator) {
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    if (sent_[i].skipped)
      evaluator.record("rc.requester.read.implied-nak", RuleResult::inconclusive(Reason::capture_lost));
    if (sent_[i].response_gap)
      evaluator.record("rc.requester.read.gap-asked-again", RuleResult::inconclusive(Reason::capture_lost));
  }
  if (pending_msn_.active)
    evaluator.record(RuleId::at(pending_msn_.rule), RuleResult::inconclusive(Reason::capture_lost));
}

void RcExchange::request(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (watch.duplicate) return;
  check_received(watch);
  if (t.damaged) {
    lost_ = true;
    return;
  }
  if (!started_) begin(watch);
  settle_read(watch);
  const std::int32_t ahead = t.psn - next_;
  if (ahead > far || -ahead > far) {
    // The PSN belongs to another connection, or many packets are missing. Start from scratch.
    *this = RcExchange{};
    lost_ = true;
    begin(watch);
    append(watch);
    return;
  }
  if (ahead >= 0) {
    std::int32_t gap = ahead;
    if (!sent_.empty() && sent_.back().psns_unknown) {
      SeenRequest& last = sent_.back();
      constexpr std::uint32_t smallest_mtu = 256;
      const auto most = static_cast<std::int32_t>(machines::psns_of_read(last.length, smallest_mtu));
      if (t.psn - last.psn < most && is_remainder(watch, last)) {
        watch.inconclusive("rc.requester.read.rest-asked-again", Reason::negotiation_not_seen);
        return;
      }
      if (t.psn - last.psn <= most) {
        last.psns = static_cast<std::uint32_t>(t.psn - last.psn);
        gap = 0;
      }
      last.psns_unknown = false;
      count_messages(sent_.size() - 1);
    }
    end_recovery(watch);
    if (acknowledged_) watch.pass("rc.requester.ack.completes-up-to");
    acknowledged_ = false;
    settle_msn(watch, gap == 0);
    check_order(watch, gap);
    if (gap == 0) check_credits(watch);
    if (gap > 0) lost_ = true;
    append(watch);
    forget(watch);
    return;
  }
  const std::size_t at = before_or_at(t.psn);
  if (at == nowhere) {
    watch.inconclusive("rc.requester.retry.identical", Reason::out_of_window);
    return;
  }
  SeenRequest& known = sent_[at];
  if (known.psn == t.psn) {
    check_retransmission(watch, known);
  } else if (t.psn - known.end() < 0) {
    check_part_of_read(watch, known);
  } else {
    insert(watch, at + 1);
  }
}

}  // namespace rdmawire::conformance
