/// Determines the causes of retransmissions from the captured packets and the NAKs.
///
/// The responder accepts requests in PSN order. If it receives the packets in the order in which they were captured,
/// the PSN that it expects is known. A NAK for this PSN is explained by the capture: the packet is missing (lost before
/// the capture point), late (reordered) or damaged. A NAK for a PSN that was captured in order shows that something
/// happened after the capture point. An acknowledgement of the packet before its retransmission proves that the packet
/// was late and not lost.

#include <algorithm>

#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/requester.hpp"
#include "dissectors/tracking/requester_limits.hpp"

namespace rdmawire::tracking {

using namespace requester_limits;

// Starts a period in which the responder drops all packets after the missing one.
void Requester::begin_disorder(Psn missing, Cause cause) {
  disordered_ = true;
  accepted_ = missing;
  trouble().disorder = {cause, 0, {}};
  trouble().refusing = false;
}

// Updates the expected PSN: a packet with the PSNs from `psn` to before `end` was captured. It may be repeated or late.
void Requester::accept(Psn psn, Psn end, const TransportPacket& packet) {
  if (!disordered_) return;
  const std::size_t at = index_of(psn);
  if (at >= packets_.size()) return;
  if (psn - accepted_ > 0 || packet.damaged) {
    packets_[at].dropped = true;
    packets_[at].damaged = packet.damaged;
    if (!packet.damaged) expect_nak(packet.time);
    return;
  }
  packets_[at].dropped = false;
  if (end - accepted_ > 0) {
    accepted_ = end;
    trouble_->refusing = false;
  }
  if (accepted_ - window_.next >= 0) disordered_ = false;
}

// Updates the expected PSN: the responder acknowledged all packets up to and including `through`.
void Requester::accepted_through(Psn through) {
  if (!disordered_ || through - accepted_ < 0) return;
  accepted_ = through + 1;
  trouble_->refusing = false;
  if (accepted_ - window_.next >= 0) disordered_ = false;
}

// Updates the expected PSN: the responder sent a NAK or RNR NAK for it. Until this packet arrives, the responder drops
// all later packets without another NAK.
void Requester::refuse_after(Psn psn) {
  if (window_.next - psn <= 0 || psn - window_.oldest < 0) return;
  if (!disordered_) trouble().disorder = {};
  disordered_ = true;
  accepted_ = psn;
  trouble().refusing = true;
}

// Called if the responder receives a request after a missing one. It sends one NAK for each missing PSN.
void Requester::expect_nak(std::int64_t time) {
  LossEpisode& t = trouble();
  if (t.refusing) return;
  t.refusing = true;
  t.expected_naks[t.expected_nak_count++ % t.expected_naks.size()] = {accepted_, time};
}

// True if the order in which requests were captured explains the NAK for this PSN.
bool Requester::expects_nak(Psn psn, std::int64_t time) const {
  const LossEpisode& t = *trouble_;
  const std::size_t count = std::min<std::size_t>(t.expected_nak_count, t.expected_naks.size());
  return std::any_of(t.expected_naks.begin(), t.expected_naks.begin() + static_cast<std::ptrdiff_t>(count),
                     [&](const ExpectedNak& expected) {
                       return expected.psn == psn && expected.time <= time && time - expected.time < expected_nak_ns;
                     });
}

// Reports a recovery, or delays it until it is known whether its loss happened.
void Requester::report_recovery(Event& recovery, const Reporter& to) {
  if (trouble_) {
    Suspect& suspect = trouble_->suspect;
    if (suspect.active && recovery.cause == Cause::sequence_error_nak &&
        suspect.event.cause_frame == recovery.cause_frame) {
      suspect.recoveries.push_back(recovery);
      return;
    }
    if (trouble_->undecided.attach(recovery)) return;
  }
  to.tell(recovery);
}

bool Requester::expects(const TransportPacket& packet, bool response) const {
  if (!started_) return false;
  constexpr std::int32_t close = 16;
  const std::int32_t ahead = packet.psn - window_.next;
  if (response) return window_.place(packet.psn) == machines::ResponsePlace::outstanding;
  return ahead < close && window_.oldest - packet.psn < close;
}

void Requester::damaged(const TransportPacket& packet, bool response) {
  LossEpisode& t = trouble();
  const bool read = packet.op->operation == Operation::rdma_read_request;
  const DamagedPacket bad{packet.frame, packet.time, packet.psn, read};
  if (response) {
    t.damaged_response = bad;
    return;
  }
  t.damaged[t.damaged_count++ % t.damaged.size()] = bad;
  SentPacket* known = find(packet.psn);
  if (!known || packet.psn - window_.next >= 0) return;
  // The damaged packet is a retransmission, or the late packet of a gap.
  known->damaged = true;
  if (known->passed_over || known->psn == (disordered_ ? accepted_ : window_.next))
    trouble().disorder.cause = Cause::corrupted;
}

// True if damaged packets that were captured between two frames explain the gap. A READ request uses many PSNs.
bool Requester::damaged_in_gap(std::uint64_t after, std::uint64_t before, std::uint32_t psns) const {
  if (!trouble_) return false;
  std::uint32_t damaged = 0;
  for (const DamagedPacket& bad : trouble_->damaged) {
    if (bad.frame <= after || bad.frame >= before) continue;
    if (bad.read) return true;
    ++damaged;
  }
  return damaged >= psns;
}

Requester::Repeat Requester::repeat_of(const TransportPacket& packet, const SentPacket& known) const {
  const auto same = [&](std::uint16_t identification) { return packet.identification == identification; };
  if (!order_.numbered()) return Repeat::unknown;
  if (known.seen && known.frame != 0 &&
      ((same(known.identification) && packet.icrc == known.icrc) || same(known.last_identification)))
    return Repeat::copy;
  if (order_.is_late(packet.identification)) return Repeat::late;
  return order_.is_after_newest(packet.identification) ? Repeat::retransmitted : Repeat::unknown;
}

// Reports a duplicate by the network or the capture. If the network duplicated the packet, the responder acknowledges
// it twice.
void Requester::report_copy(const TransportPacket& packet, const SentPacket& known, const Reporter& to) {
  LossEpisode& t = trouble();
  if (copying_ && packet.psn - t.copies_next >= 0) {
    ++t.copies.packets;
    t.copies.bytes += packet.payload;
    t.copies.last_frame = packet.frame;
  } else {
    end_copies(to);
    copying_ = true;
    t.copies = event_of(EventKind::duplicate, Cause::none, packet, to);
    t.copies.origin_frame = known.frame;
    t.copies.duration = packet.time - known.time;
    t.copies.bytes = packet.payload;
  }
  t.copies_next = packet.psn + known.psns;
  ++to.requester().duplicates;
  if (unanswered_again_ == 0) again_until_ = 0;
  ++unanswered_again_;
  again_end_ = window_.next;
  again_time_ = packet.time;
  accept(packet.psn, packet.psn + known.psns, packet);
}

void Requester::end_copies(const Reporter& to) {
  if (!copying_) return;
  copying_ = false;
  to.tell(trouble_->copies);
}

// Reports a packet that was sent before packets that were captured earlier.
void Requester::report_late(const TransportPacket& packet, const SentPacket& known, const Reporter& to) {
  Event event = event_of(EventKind::out_of_order, Cause::none, packet, to);
  event.origin_frame = known.frame;
  event.duration = std::max<std::int64_t>(packet.time - known.time, 0);
  event.bytes = packet.payload;
  if (!order_.numbered()) {
    // If many packets are late, their bursts cannot be distinguished.
    constexpr std::uint32_t many = 4;
    event.certainty = ++round_.edit().late > many ? Certainty::possible : Certainty::likely;
    event.unobserved = Unobserved::send_order;
  }
  ++to.requester().out_of_order;
  to.tell(event);
  LossEpisode& t = trouble();
  t.undecided.note_late(false);
  t.undecided.arrived_late(packet.psn.value(), false);
  if (t.suspect.active && t.suspect.psn == packet.psn) t.suspect.active = false;
  if (disordered_ && packet.psn == accepted_ && t.disorder.cause == Cause::none) t.disorder.cause = Cause::reordered;
}

// Returns the cause of the retransmission that a sequence error NAK requests, as far as it is known.
Cause Requester::examine_nak(SentPacket* request, const TransportPacket& nak, bool repeated, const Reporter& to) {
  if (!request) return Cause::sequence_error_nak;
  if (!request->seen) {
    // The loss is reported when the retransmission is captured, because the number of lost packets is then known.
    request->refused_frame = nak.frame;
    request->refused_time = nak.time;
    return request->damaged ? Cause::corrupted : Cause::sequence_error_nak;
  }
  if (repeated) return refusal_->cause;
  LossEpisode& t = trouble();
  if (t.suspect.active) settle_suspect(true, nullptr, to);
  if (request->damaged) return Cause::corrupted;
  if (!request->passed_over) {
    if (request->overtaken) return Cause::reordered;
    if (request->late) return Cause::sequence_error_nak;
    const bool dropped_downstream =
        t.disorder.until != 0 && request->time <= t.disorder.until && nak.psn - t.disorder.next <= 0;
    if ((request->dropped || dropped_downstream) && t.disorder.cause != Cause::none) return t.disorder.cause;
    if (request->dropped && filler_->active) return Cause::reordered;
    if (expects_nak(nak.psn, nak.time)) return t.disorder.cause == Cause::none ? Cause::unknown : t.disorder.cause;
  }
  // The NAK may have been sent before the last transmission.
  if (request->time != request->first_time && nak.time - request->time < fastest_response_ && response_samples_ != 0)
    return Cause::unknown;
  // The packet was captured in order. It was lost after the capture point, or arrived late. Later packets show which.
  t.suspect.active = true;
  t.suspect.retransmitted = 0;
  t.suspect.psn = nak.psn;
  t.suspect.event = event_of(EventKind::lost_in_network,
                             request->passed_over ? Cause::before_capture : Cause::after_capture, nak, to);
  t.suspect.event.origin_frame = request->frame;
  t.suspect.event.cause_frame = nak.frame;
  // The responder sends no NAK for packets that arrive before the retransmission that the last NAK requested. If this
  // retransmission was late, the next NAK is for the packet after it.
  const SentPacket* last = refusal_->rnr || nak.psn - refusal_->psn != 1 ? nullptr : find(refusal_->psn);
  t.suspect.behind = last && last->seen && last->time > refusal_->time;
  return Cause::sequence_error_nak;
}

// Decides whether the suspect was lost. `lost`: the packet was retransmitted. If not, the response `proof` shows that
// it arrived before.
void Requester::settle_suspect(bool lost, const TransportPacket* proof, const Reporter& to) {
  Suspect& suspect = trouble_->suspect;
  suspect.active = false;
  Event& event = suspect.event;
  if (lost) {
    if (trouble_->disorder.cause == Cause::none) trouble_->disorder.cause = Cause::sequence_error_nak;
    UndecidedLosses& undecided = trouble_->undecided;
    if (event.cause == Cause::before_capture)
      undecided.add_before(event, false, order_.numbered());
    else
      undecided.add_after(event, false, false, suspect.behind);
    for (const Event& recovery : suspect.recoveries) undecided.attach(recovery);
    suspect.recoveries.clear();
    return;
  }
  if (event.cause == Cause::before_capture) {
    // The retransmission is missing only in the capture, or the packets were captured out of order.
    for (Event& recovery : suspect.recoveries) {
      recovery.certainty = Certainty::possible;
      recovery.unobserved = Unobserved::send_order;
      to.tell(recovery);
    }
    suspect.recoveries.clear();
    if (trouble_->undecided.reorders(false)) return;
    event.kind = EventKind::lost_in_capture;
    event.cause = Cause::none;
    ++to.requester().lost_in_capture;
    to.tell(event);
    return;
  }
  event.kind = EventKind::out_of_order;
  if (refusal_->active && refusal_->psn == suspect.psn) refusal_.edit().cause = Cause::reordered;
  if (round_->active && round_->event.cause_frame == event.cause_frame) round_.edit().event.cause = Cause::reordered;
  trouble_->disorder = {Cause::reordered, proof->time, suspect.psn + 1};
  ++to.requester().out_of_order;
  trouble_->undecided.note_late_after(false);
  event.certainty = suspect.retransmitted == 0 ? Certainty::certain : Certainty::likely;
  if (suspect.retransmitted != 0) event.unobserved = Unobserved::arrival;
  to.tell(event);
  for (Event& recovery : suspect.recoveries) {
    recovery.cause = Cause::reordered;
    recovery.certainty = event.certainty;
    recovery.unobserved = event.unobserved;
    to.tell(recovery);
  }
  suspect.recoveries.clear();
}

// True if the retransmission of the suspect can have caused the response.
bool Requester::answers_retransmission(const TransportPacket& response) const {
  const std::int64_t retransmitted = trouble_->suspect.retransmitted;
  if (retransmitted == 0) return false;
  return response_samples_ < enough_samples || response.time - retransmitted >= fastest_response_ / 8 * 7;
}

// Stores the time of the suspect's retransmission. If a response arrives too early to be caused by this retransmission,
// the original packet was late and not lost. A suspect that was lost before the capture point, or is retransmitted
// twice, was lost.
void Requester::suspect_retransmitted(const TransportPacket& packet, const Reporter& to) {
  Suspect& suspect = trouble_->suspect;
  if (suspect.event.cause == Cause::before_capture || suspect.retransmitted != 0)
    settle_suspect(true, nullptr, to);
  else
    suspect.retransmitted = packet.time;
}

// Returns the cause of a retransmission after the active sequence error NAK.
Cause Requester::cause_of_refusal() {
  const SentPacket* request = find(refusal_->psn);
  if (request && request->seen && request->damaged) return Cause::corrupted;
  if (request && request->seen && request->overtaken && refusal_->cause == Cause::sequence_error_nak)
    return Cause::reordered;
  return refusal_->cause;
}

// True if a damaged response was captured after `time`.
bool Requester::damaged_since(std::int64_t time) const {
  return trouble_ && trouble_->damaged_response.frame != 0 && trouble_->damaged_response.time >= time;
}

// Reports the packets of a gap as lost before the capture point, because a retransmission fills the gap. `filled` is
// the PSN after the packet that fills it.
void Requester::lost_before_capture(const SentPacket& gap, Psn filled, const TransportPacket& packet,
                                    const Reporter& to) {
  if (gap.damaged) return;  // the packet was captured, with a bad CRC
  Event lost = event_of(EventKind::lost_in_network, Cause::before_capture, packet, to);
  if (gap.refused_frame != 0) {
    lost.frame = lost.cause_frame = gap.refused_frame;
    lost.time = gap.refused_time;
  }
  lost.origin_frame = gap.frame;
  lost.psn = gap.psn.value();
  // A READ is one packet that uses many PSNs.
  const std::int32_t rest = gap.end() - filled;
  lost.packets = filled - packet.psn > 1 ? 1 + static_cast<std::uint64_t>(std::max(rest, 0)) : gap.psns;
  trouble().undecided.add_before(lost, false, order_.numbered());
}

// True if the requester goes back to a later response of the same READ, before the responder can have sent more
// responses. The requester must have received the missing response in the meantime, so that response was late.
bool Requester::restarts_further(const TransportPacket& packet, const Waiting* read) {
  LossEpisode& t = trouble();
  const bool further = read && response_samples_ >= enough_samples && t.implied_time != 0 &&
                       packet.psn - t.implied_psn >= 0 && t.implied_psn - read->first >= 0 &&
                       packet.time - t.implied_time < fastest_response_ / 2;
  t.implied_psn = packet.psn;
  t.implied_time = packet.time;
  return further;
}

void Requester::begin_round(const TransportPacket& packet, std::uint32_t psns, const SentPacket& known,
                            const Reporter& to) {
  Event event = event_of(EventKind::retransmission, Cause::unknown, packet, to);
  event.origin_frame = known.frame;
  event.bytes = packet.payload;
  if (trouble_) trouble_->undecided.note_recovery();
  if (trouble_ && trouble_->suspect.active && trouble_->suspect.retransmitted != packet.time)
    settle_suspect(true, nullptr, to);
  const std::int64_t before = known.time ? known.time : last_time_;
  event.duration = packet.time - before;
  Waiting* waiting = waiting_of(packet.psn);
  constexpr std::int32_t lost_again =
      64;  // the first retransmitted packets may have been lost before the capture point
  // A packet whose evaluation was deferred can be older than the NAK.
  const bool at_refusal = refusal_->active && refusal_->frame < packet.frame && packet.psn - refusal_->psn < lost_again;

  Event lost = event_of(EventKind::lost_in_network, Cause::before_capture, packet, to);
  bool tell_lost = false, by_response = false;
  const bool soon = packet.time - response_time_ < implied_ns;
  const bool response_missing =
      waiting && (waiting->read || waiting->atomic) && !waiting->done &&
      ((waiting->skipped_frame != 0 && packet.psn - waiting->seen >= 0 && packet.time - response_time_ < missing_ns) ||
       (soon && (waiting->skipped_frame != 0 || waiting->beyond - packet.psn > 1)));
  // If the requester goes back further than the NAK requests, it requests a missing response.
  if (at_refusal && !refusal_->rnr && (!response_missing || packet.psn - refusal_->psn >= 0)) {
    event.cause = cause_of_refusal();
    event.cause_frame = refusal_->frame;
    refusal_.edit().active = false;
    // The burst starts at the PSN in the NAK.
    for (std::size_t i = index_of(refusal_->psn); i < packets_.size() && packets_[i].psn - packet.psn < 0; ++i)
      packets_[i].passed_over = true;
  } else if (at_refusal && refusal_->rnr) {
    event.cause = Cause::rnr;
    event.cause_frame = refusal_->frame;
    event.value = refusal_->event.value;
    event.found = static_cast<std::uint64_t>(packet.time - refusal_->time);
    end_refusal(to, &packet);
  } else if (obeyed_late_->frame != 0 && packet.time - obeyed_late_->time < obeyed_ns &&
             known.time < obeyed_late_->time && packet.psn - obeyed_late_->psn >= 0 &&
             packet.psn - obeyed_late_->psn < lost_again) {
    // The NAK was obsolete: an acknowledgement overtook it, or the missing packet arrived late.
    event.cause = obeyed_late_->cause;
    event.cause_frame = obeyed_late_->frame;
    obeyed_late_.edit().frame = 0;
  } else if (response_missing) {
    const bool bad = damaged_since(waiting->message.start);
    // The response was captured after a later one, so the requester dropped it.
    const bool late = known.late_response || is_captured_late(packet.psn) ||
                      (waiting->skipped_frame != 0 && frame_of_response(packet.psn) > waiting->skipped_frame);
    event.cause = bad ? Cause::corrupted : late ? Cause::reordered : Cause::implied_nak;
    event.cause_frame = waiting->skipped_frame ? waiting->skipped_frame : frame_of_response(packet.psn + 1);
    tell_lost = !late;
    by_response = !bad;
    lost.origin_frame = waiting->message.first_frame;
    lost.cause_frame = event.cause_frame;
    // Responses soon after the last retransmission were sent before it. A gap between them does not prove a loss.
    const bool before_last =
        trouble_ && trouble_->implied_time != 0 && response_time_ - trouble_->implied_time < fastest_response_;
    if (before_last && frame_of_response(packet.psn) > waiting->message.first_frame)
      lost.cause = Cause::after_capture;  // captured before the last retransmission
    else if (packet.psn - waiting->seen >= 0)
      lost.packets = static_cast<std::uint64_t>(std::max(waiting->gap_end - packet.psn, 1));
    else if (packet.psn - waiting->next_response < 0)
      lost.cause = Cause::after_capture;
    else
      tell_lost = false;  // the response arrived out of order and was dropped
    if (bad) tell_lost = false;
  } else if (const Operation what = opcode(known.opcode).operation;
             soon && known.seen && (known.beyond_frame != 0 || known.end() - packet.psn > 1) &&
             window_.oldest - packet.psn > 0 &&
             (what == Operation::rdma_read_request || what == Operation::compare_swap ||
              what == Operation::fetch_add)) {
    // The response to this request was captured, but did not reach the requester, which received the next response.
    const bool bad = damaged_since(known.first_time);
    const bool late = known.late_response || is_captured_late(packet.psn);
    event.cause = bad ? Cause::corrupted : late ? Cause::reordered : Cause::implied_nak;
    event.cause_frame = known.end() - packet.psn > 1 ? frame_of_response(packet.psn + 1) : known.beyond_frame;
    tell_lost = event.cause == Cause::implied_nak;
    by_response = !bad;
    lost.cause = Cause::after_capture;
    lost.origin_frame = known.frame;
    lost.cause_frame = event.cause_frame;
  } else if (window_.oldest - packet.psn > 0) {
    // The acknowledgement was captured. Either the timer expired before it arrived, or it was lost after the capture
    // point.
    if (packet.time - before >= shortest_timer_ns) {
      const std::int64_t waited = packet.time - acknowledged_time_;
      const bool responses_seen = acknowledged_time_ > paired_time_;
      event.certainty =
          responses_seen && (waited < soon_ns || waited >= in_flight_ns) ? Certainty::likely : Certainty::possible;
      event.unobserved = Unobserved::trigger;
      const bool on_its_way = packet.psn - acknowledged_from_ >= 0 && waited < in_flight_ns;
      event.cause = on_its_way ? Cause::spurious : Cause::timeout;
      event.cause_frame = ack_frame_;
    }
  } else if (const std::int64_t progress = std::max(before, acknowledged_time_);
             packet.time - (to.joined ? progress : before) >= (to.joined ? shortest_timeout_ns : copy_ns * 2)) {
    // If a burst of retransmissions is disordered, any of its packets can seem to be its start.
    const bool disordered = trouble_ && trouble_->undecided.reorders(false) && packet.time - again_time_ < copy_ns;
    event.cause = disordered ? Cause::unknown : Cause::timeout;
    // If responses were not captured, or not yet paired when the packet was sent, a NAK may be missing.
    const bool responses_seen = to.joined && known.time > paired_time_;
    event.certainty = responses_seen ? Certainty::likely : Certainty::possible;
    event.unobserved = Unobserved::trigger;
  }
  if (event.cause == Cause::unknown) {
    event.certainty = Certainty::possible;
    event.unobserved = Unobserved::trigger;
  }
  if (event.cause == Cause::reordered || event.cause == Cause::sequence_error_nak ||
      event.cause == Cause::implied_nak) {
    event.certainty = Certainty::likely;
    event.unobserved = Unobserved::arrival;
  }
  // A late response would arrive before the response to a retransmission.
  const bool missing_again = trouble_ && trouble_->implied_time != 0 && trouble_->implied_psn == packet.psn &&
                             response_samples_ >= enough_samples &&
                             packet.time - trouble_->implied_time >= fastest_response_;
  if (by_response && restarts_further(packet, waiting_of(packet.psn))) {
    event.cause = Cause::reordered;
    event.certainty = Certainty::likely;
    event.unobserved = Unobserved::arrival;
    if (!trouble_->undecided.reorders(true)) trouble_->undecided.note_late_after(true);
    tell_lost = false;
  }
  if (tell_lost) {
    UndecidedLosses& undecided = trouble().undecided;
    if (lost.cause == Cause::after_capture)
      undecided.add_after(lost, true, missing_again);
    else
      undecided.add_before(lost, true, response_order_.numbered());
  }

  Round& round = round_.edit();
  round.active = true;
  round.ahead = false;
  round.late = 0;
  round.event = event;
  round.next = packet.psn + psns;
  round.copy = is_copy(packet, known) &&
               (event.cause == Cause::unknown || event.cause == Cause::spurious || event.cause == Cause::timeout);
}

}  // namespace rdmawire::tracking
