/// Processes the responses to a requester's messages.

#include <algorithm>
#include <utility>

#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/requester.hpp"
#include "dissectors/tracking/requester_limits.hpp"

namespace rdmawire::tracking {

using namespace requester_limits;

namespace {

Cause cause_of_nak(std::uint8_t code) {
  switch (code) {
    case nak_code::psn_sequence_error: return Cause::psn_sequence_error;
    case nak_code::invalid_request: return Cause::invalid_request;
    case nak_code::remote_access_error: return Cause::remote_access_error;
    case nak_code::remote_operational_error: return Cause::remote_operational_error;
    case nak_code::invalid_rd_request: return Cause::invalid_rd_request;
    default: return Cause::unknown;
  }
}

}  // namespace

void Requester::response(const TransportPacket& packet, const Reporter& to) {
  if (!started_) return;
  if (to.connection.mtu == 0 && packet.op->operation == Operation::rdma_read_response &&
      (packet.op->position == Position::first || packet.op->position == Position::middle) &&
      machines::is_path_mtu(packet.payload))
    to.connection.mtu = packet.payload;
  if (mtu_ != to.connection.mtu) adopt_mtu(to.connection);
  if (packet.op->operation == Operation::rdma_read_response) {
    const bool more = packet.op->position == Position::first || packet.op->position == Position::middle;
    measure_read(packet.psn + (more ? 2 : 1));
  }
  const machines::ResponsePlace place = window_.place(packet.psn);
  const Psn oldest = window_.oldest;
  if (to.note) {
    to.note->answered = place == machines::ResponsePlace::outstanding    ? Answered::outstanding
                        : place == machines::ResponsePlace::acknowledged ? Answered::acknowledged
                                                                         : Answered::unseen;
    to.note->relative_psn = (packet.psn - static_cast<std::int64_t>(first_.value())).value();
    to.note->requester = to.end;
    if (const Waiting* waiting = waiting_of(packet.psn)) to.note->message = waiting->message.number;
    if (const SentPacket* request = find(packet.psn); request && request->seen && request->frame) {
      to.note->related_frame = request->frame;
      to.note->related_delay = packet.time - request->time;
    }
  }
  last_time_ = std::max(last_time_, packet.time);
  last_frame_ = packet.frame;
  const bool first_response = std::exchange(response_time_, packet.time) == 0;
  const Syndrome syndrome(packet.syndrome);
  const bool negative = packet.op->operation == Operation::acknowledge && !syndrome.is_ack();
  if (place == machines::ResponsePlace::unsent && !(negative && packet.psn == window_.next)) {
    unseen_request(packet, to);
    return;
  }
  ++to.connection.agreeing;
  if (trouble_ && trouble_->undecided.due(packet.time)) trouble_->undecided.settle(to);
  if (is_copied_response(packet, place)) {
    Event event = event_of(EventKind::duplicate, Cause::none, packet, to);
    const bool acknowledge = packet.op->operation == Operation::acknowledge;
    event.origin_frame = !acknowledge                  ? frame_of_response(packet.psn)
                         : last_ack_.psn == packet.psn ? last_ack_.frame
                                                       : 0;
    if (acknowledge && event.origin_frame != 0) event.duration = packet.time - last_ack_.time;
    event.certainty = response_order_.numbered() ? Certainty::certain : Certainty::likely;
    if (!response_order_.numbered()) event.unobserved = Unobserved::send_order;
    ++to.responder().duplicates;
    to.tell(event);
    if (to.note) note_window(*to.note);
    return;
  }
  // The identifications of a sender can jump backward. A response to a later PSN than all others is not late.
  const Psn through = negative ? packet.psn - 1 : packet.psn;
  const bool advances = first_response || through - newest_response_ > 0;
  if (advances) newest_response_ = through;
  late_response_ = !advances && response_order_.numbered() && response_order_.is_late(packet.identification);
  if (trouble_ && late_response_) {
    trouble_->undecided.note_late(true);
    trouble_->undecided.arrived_late(packet.psn.value(), true);
  } else if (trouble_ && !trouble_->undecided.empty() && !negative) {
    trouble_->undecided.note_response(packet.psn.value());
  }
  response_order_.note(packet.identification);
  mark_answered(packet);
  if (trouble_ && trouble_->suspect.active && packet.psn - trouble_->suspect.psn >= (negative ? 1 : 0))
    settle_suspect(answers_retransmission(packet), &packet, to);
  switch (packet.op->operation) {
    case Operation::acknowledge:
      if (negative) {
        refused(packet, to);
      } else {
        credit_ = syndrome.code();
        credits_used_ |= syndrome.has_credits() && credit_ != 0;
        acknowledge(packet.psn, packet, to);
      }
      break;
    case Operation::atomic_acknowledge: answered(waiting_of(packet.psn), packet, to); break;
    case Operation::rdma_read_response:
      // The response to FLUSH and ATOMIC WRITE is empty: A19.4.
      if (Waiting* waiting = waiting_of(packet.psn); waiting && waiting->atomic && packet.payload == 0)
        answered(waiting, packet, to);
      else
        read_response(packet, to);
      break;
    default: break;
  }
  if (late_response_ && packet.op->operation != Operation::acknowledge) report_late_response(packet, to);
  if (to.note) {
    note_window(*to.note);
    to.note->acknowledged = static_cast<std::uint32_t>(std::max(window_.oldest - oldest, 0));
  }
}

// True if the network or the capture duplicated a response. The responder itself repeats a response only if the request
// is retransmitted.
bool Requester::is_copied_response(const TransportPacket& packet, machines::ResponsePlace place) {
  const bool numbered = response_order_.numbered();
  if (numbered && !response_order_.contains(packet.identification)) return false;
  const bool acknowledge = packet.op->operation == Operation::acknowledge;
  if (numbered && place == machines::ResponsePlace::acknowledged) return true;
  if (acknowledge) return false;
  const SeenResponse* seen = find_response(packet.psn);
  if (numbered) return seen != nullptr;
  if (!seen) return false;
  if (response_order_.distinct()) return seen->identification == packet.identification;
  // If the requester still waits for the response, a retransmission that was not captured may have requested it.
  if (const Waiting* waiting = waiting_of(packet.psn);
      waiting && waiting->read && !waiting->done && packet.psn - waiting->next_response >= 0)
    return false;
  const SentPacket* request = find(packet.psn);
  return request && request->seen && request->frame != 0 && request->time == request->first_time &&
         request->frame < seen->frame;
}

// Stores the numbers of outstanding packets and requests in `note`.
void Requester::note_window(PacketNote& note) {
  note.outstanding = window_.outstanding();
  const SentPacket* oldest = note.outstanding != 0 ? find(window_.oldest) : nullptr;
  if (oldest) note.outstanding_bytes = bytes_sent_ - oldest->bytes_before;
  note.reads = reads_out_;
  note.read_limit = read_limit_;
  if (credits_used_ && credit_ != Syndrome::no_credits && msn_known_ && msn_epoch_ == epoch_) {
    const std::uint64_t taken = messages_ - msn_messages_, given = credits_of_code(credit_);
    note.credits = static_cast<std::uint32_t>(given > taken ? given - taken : 0);
  }
}

// Handles the response to an atomic, FLUSH or ATOMIC WRITE.
void Requester::answered(Waiting* waiting, const TransportPacket& packet, const Reporter& to) {
  note_seen(packet);
  if (waiting && waiting->atomic && !waiting->done) {
    if (packet.op->operation == Operation::atomic_acknowledge) waiting->message.atomic_original = packet.operand;
    if (waiting->ahead_frame != 0 && waiting->tell_order) late_answer(*waiting, packet, to);
    waiting->seen = waiting->beyond = waiting->end;
    if (blocking() == waiting) waiting->next_response = waiting->end;
  }
  acknowledge(packet.psn, packet, to);
}

// Marks all requests before the one that was answered: a response to a later request was captured.
void Requester::mark_answered(const TransportPacket& packet) {
  if (packets_.empty() || packet.psn - packets_.front().psn < 0) return;  // no longer remembered
  const std::size_t at = index_of(packet.psn);
  // Responses to a retransmission follow responses to later requests.
  if (at < packets_.size() && packets_[at].beyond_frame != 0 && packet.op->operation != Operation::acknowledge &&
      packets_[at].time == packets_[at].first_time)
    packets_[at].late_response = true;
  for (std::size_t i = std::min(at, packets_.size()); i-- > 0;) {
    if (packets_[i].beyond_frame != 0) return;
    packets_[i].beyond_frame = packet.frame;
  }
}

void Requester::complete(Waiting& waiting, const TransportPacket& packet, const Reporter& to) {
  waiting.done = true;
  Message& m = waiting.message;
  m.answer_frame = packet.frame;
  m.answer_time = packet.time;
  if (m.repeated_packets == 0 && packet.psn == waiting.end - 1) {
    fastest_response_ = std::min(fastest_response_, packet.time - m.end_time);
    if (response_samples_ < UINT8_MAX) ++response_samples_;
  }
  if ((waiting.read || waiting.atomic) && reads_out_ > 0) --reads_out_;
  to.tell(m);
}

void Requester::drop_done() {
  while (!waiting_.empty() && waiting_.front().done && (waiting_.size() > 1 || !open_)) waiting_.pop_front();
}

void Requester::acknowledge(Psn through, const TransportPacket& packet, const Reporter& to) {
  const machines::ResponsePlace place = window_.place(through);
  if (place == machines::ResponsePlace::acknowledged) {
    const bool same = last_ack_.psn == packet.psn && last_ack_.msn == packet.msn;
    const bool excused = unanswered_again_ > 0 && packet.psn - again_end_ < 0 && packet.time - again_time_ < again_ns &&
                         (again_until_ == 0 || packet.time <= again_until_);
    const bool copy = same && last_ack_.icrc == packet.icrc && last_ack_.identification == packet.identification;
    // The acknowledgements of a responder contain its newest PSN and MSN, even acknowledgements of duplicates. If PSN
    // and MSN are older than before, the acknowledgement is late.
    const bool late = response_order_.numbered()
                          ? response_order_.is_late(packet.identification)
                          : !excused && last_ack_.frame != 0 && packet.psn - last_ack_.psn < 0 &&
                                packet.msn - last_ack_.msn < 0 && packet.time - last_ack_.time < disorder_ns;
    if (packet.op->operation != Operation::acknowledge) {
      // Repeated READ and atomic responses cause no event.
    } else if (copy && (response_order_.numbered() ||
                        (packet.time - last_ack_.time < acknowledgement_copy_ns && !round_->active && !excused))) {
      Event event = event_of(EventKind::duplicate, Cause::none, packet, to);
      event.origin_frame = last_ack_.frame;
      event.duration = packet.time - last_ack_.time;
      // A responder can also send the same acknowledgement for a duplicate request.
      if (!response_order_.distinct()) event.certainty = Certainty::possible;
      ++to.responder().duplicates;
      to.tell(event);
    } else if (late) {
      Event event = event_of(EventKind::out_of_order, Cause::none, packet, to);
      event.origin_frame = last_ack_.frame;
      event.duration = std::max<std::int64_t>(packet.time - last_ack_.time, 0);
      ++to.responder().out_of_order;
      if (!response_order_.numbered()) trouble().undecided.note_late(true);
      to.tell(event);
      return;
    } else if (excused) {
      --unanswered_again_;  // each retransmitted packet causes an acknowledgement
    } else if (ack_frame_ != 0 && (!same || last_ack_.syndrome == packet.syndrome)) {
      if (trouble_) trouble_->undecided.note_second_arrival(packet.psn.value(), packet.time);
      if (round_->active) {
        last_ack_ = Acknowledgement(packet);
        return;
      }
      // There is no event for new credits (another syndrome, 9.7.7.2), and none for the first acknowledgement of the
      // capture, which acknowledges requests that were sent before the capture.
      Event event = event_of(EventKind::ghost_acknowledgement, Cause::none, packet, to);
      event.origin_frame = ack_frame_;
      to.tell(event);
    }
    last_ack_ = Acknowledgement(packet);
    return;
  }
  // The packet that filled the gap was late. A retransmission would have continued with more packets before this
  // response.
  if (filler_->active && through - filler_->psn >= 0) settle_filler(false, to);
  if (gap_ && through - delivered_ >= 0) give_up_gap(through, true, packet.frame, to);
  bool blocked = false;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (waiting.first - through > 0) break;
    if (waiting.done || !waiting.whole || waiting.end - through > 1) continue;
    if ((waiting.read || waiting.atomic) && waiting.next_response != waiting.end) {
      // The message's own response is missing, so this later response implies a NAK. IBTA vol 1, 9.7.5.1.2, 9.7.6
      // (clause number not verified).
      if (waiting.seen != waiting.end) {
        skipped(waiting, packet);
      } else if (!waiting.answered) {
        waiting.answered = true;
        waiting.message.answer_frame = packet.frame;
        waiting.message.answer_time = packet.time;
      }
      blocked = true;
    } else if (!blocked) {
      complete(waiting, packet, to);
    } else if (!waiting.answered) {
      waiting.answered = true;
      waiting.message.answer_frame = packet.frame;
      waiting.message.answer_time = packet.time;
    }
  }
  if (requested_acks_ != acks_unrequested && packet.op->operation == Operation::acknowledge &&
      Syndrome(packet.syndrome).is_ack())
    note_unrequested(packet);
  acknowledged_from_ = window_.oldest;
  acknowledged_time_ = packet.time;
  window_ = window_.acknowledged(through);
  if (disordered_) accepted_through(through);
  ack_frame_ = packet.frame;
  if (packet.op->operation == Operation::acknowledge) last_ack_ = Acknowledgement(packet);
  if (refusal_->active && through - refusal_->psn >= 0) end_refusal(to, nullptr);
  // Acknowledgements arrive in order, except for small deviations.
  if (unanswered_again_ != 0 && again_until_ == 0 && through - again_end_ >= 0)
    again_until_ = packet.time + acknowledgement_copy_ns;
  if (packet.op->operation != Operation::rdma_read_response && Syndrome(packet.syndrome).is_ack() && packet.has_aeth)
    check_msn(packet, to);
  drop_done();
  // The requester did not retry the request, so it must have received the responses that are missing in the capture.
  if (Waiting* stuck = blocking(); stuck && stuck->skipped_frame != 0 && is_patience_over(*stuck, packet.time))
    unblock(*stuck, to);
}

// Uses acknowledgements without AckReq as evidence. If a responder otherwise acknowledges only on request, the
// acknowledgement of a packet within a message and without AckReq shows that a duplicate arrived.
void Requester::note_unrequested(const TransportPacket& ack) {
  const SentPacket* request = find(ack.psn);
  if (!request || !request->seen || request->frame == 0) return;
  if (request->ack_requested) {
    if (requested_acks_ < enough_samples) ++requested_acks_;
    return;
  }
  if (opcode(request->opcode).ends_message() || ack.time <= request->time) return;
  const bool second = requested_acks_ == enough_samples && trouble_ &&
                      trouble_->undecided.note_second_arrival(ack.psn.value(), ack.time);
  if (!second && request->time == request->first_time) requested_acks_ = acks_unrequested;
}

void Requester::skipped(Waiting& waiting, const TransportPacket& packet) {
  if (waiting.skipped_frame != 0) return;
  waiting.skipped_frame = packet.frame;
  waiting.skipped_time = packet.time;
  if (waiting.ahead_frame == 0) {
    waiting.ahead_frame = packet.frame;
    waiting.ahead_time = packet.time;
    if (waiting.beyond - waiting.seen <= 0) waiting.gap_end = waiting.end;
  }
}

// Returns the first READ or atomic whose response is missing. The requester accepts no later response before this one.
Requester::Waiting* Requester::blocking() {
  if (reads_out_ == 0) return nullptr;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (!waiting.done && (waiting.read || waiting.atomic)) return &waiting;
  }
  return nullptr;
}

// True if the requester would already have requested the missing response again, because enough time has passed.
bool Requester::is_patience_over(const Waiting& stuck, std::int64_t now) const {
  const std::int64_t waited = now - stuck.skipped_time;
  return waited > response_patience_ns || (waiting_.size() > response_patience && waited > in_flight_ns);
}

// Called when the requester retransmits from message `from` on: it dropped all later responses.
void Requester::drop_answers_behind(const Waiting& from) {
  for (std::size_t i = waiting_.size(); i-- > 0 && &waiting_[i] != &from;) {
    Waiting& waiting = waiting_[i];
    if (waiting.done) continue;
    waiting.answered = false;
    waiting.next_response = waiting.seen = waiting.beyond = waiting.first;
    waiting.skipped_frame = waiting.ahead_frame = 0;
    waiting.tell_order = false;
  }
}

// Called when the requester retries from `psn` on: it received everything before this PSN.
void Requester::believe_progress(Psn psn, const Reporter& to) {
  for (Waiting* stuck = blocking(); stuck && stuck->skipped_frame != 0 && psn - stuck->end >= 0; stuck = blocking())
    unblock(*stuck, to);
}

// Completes messages whose responses are missing only in the capture: the requester received them, and all later ones.
void Requester::unblock(Waiting& stuck, const Reporter& to) {
  // If the response was captured before, the requester may have received that one.
  if (stuck.seen != stuck.end && !stuck.guessed && !find_response(stuck.seen)) {
    Event event;
    event.kind = EventKind::lost_in_capture;
    event.end = to.end;
    // The loss shows at a response after the missing ones or, if these were the last ones, at the packet that revealed
    // it.
    event.frame = stuck.ahead_frame != 0 ? stuck.ahead_frame : stuck.skipped_frame;
    event.time = stuck.ahead_frame != 0 ? stuck.ahead_time : stuck.skipped_time;
    event.origin_frame = stuck.message.first_frame;
    event.cause_frame = event.frame;
    event.psn = stuck.seen.value();
    event.packets = static_cast<std::uint64_t>(std::max(stuck.gap_end - stuck.seen, 1));
    trouble().undecided.add_in_capture(event, true);
  }
  stuck.answered = true;
  stuck.skipped_frame = 0;  // the gap was evaluated, even if an earlier message still blocks this message
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (waiting.done) continue;
    if (!waiting.answered) break;
    // The responses of this READ arrived out of order, so the requester retries it.
    if (&waiting != &stuck && waiting.read && waiting.next_response != waiting.end) break;
    waiting.done = true;
    if ((waiting.read || waiting.atomic) && reads_out_ > 0) --reads_out_;
    window_ = window_.acknowledged(waiting.end - 1);
    to.tell(waiting.message);
  }
  drop_done();
}

// Compares the responder's MSN with the number of completed messages. IBTA vol 1, 9.7.7.1.
void Requester::check_msn(const TransportPacket& packet, const Reporter& to) {
  // Waiting messages are sorted by PSN. Only the last one can be incomplete.
  std::size_t low = 0, high = waiting_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (waiting_[middle].whole && waiting_[middle].end - packet.psn <= 1)
      low = middle + 1;
    else
      high = middle;
  }
  const std::uint64_t messages = low < waiting_.size() ? waiting_[low].message.number - 1 : messages_;
  if (msn_known_ && msn_epoch_ == epoch_) {
    const Msn expected = msn_ + static_cast<std::int64_t>(messages - msn_messages_);
    if (expected != packet.msn) {
      Event event = event_of(EventKind::msn_jump, Cause::none, packet, to);
      event.value = expected.value();
      event.found = packet.msn.value();
      to.tell(event);
    }
  }
  msn_known_ = true;
  msn_epoch_ = epoch_;
  msn_ = packet.msn;
  msn_messages_ = messages;
}

// Stores that the response to a READ or atomic was captured.
void Requester::note_seen(const TransportPacket& packet) {
  const bool single = packet.op->position == Position::only || packet.op->operation == Operation::atomic_acknowledge;
  if (single && seen_responses_.allocated() == 0) return;
  seen_responses_.add({packet.psn.value(), true, packet.identification, packet.frame});
}

const Requester::SeenResponse* Requester::find_response(Psn psn) const { return seen_responses_.find(psn.value()); }

std::uint64_t Requester::frame_of_response(Psn psn) const {
  const SeenResponse* seen = find_response(psn);
  return seen ? seen->frame : 0;
}

// Tracks which responses of a READ were captured, regardless of the requester's state.
void Requester::note_seen(Waiting& read, const TransportPacket& packet, const Reporter& to) {
  const std::int32_t ahead = packet.psn - read.seen;
  if (ahead == 0) {
    if (read.ahead_frame != 0 && read.tell_order) late_answer(read, packet, to);
    read.seen += 1;
    if (read.beyond - read.seen <= 0)
      read.beyond = read.seen;
    else if (read.gap_end - read.seen <= 0)
      read.seen = read.beyond;
    if (read.beyond == read.seen) read.ahead_frame = 0;
  } else if (ahead > 0) {
    if (read.beyond - read.seen <= 0) read.gap_end = packet.psn;
    if (packet.psn + 1 - read.beyond > 0) read.beyond = packet.psn + 1;
    if (read.ahead_frame == 0) {
      read.ahead_frame = packet.frame;
      read.ahead_time = packet.time;
    }
  }
  if (read.seen != read.end) return;
  read.ahead_frame = 0;
  if (read.answered) return;
  read.answered = true;
  read.message.answer_frame = packet.frame;
  read.message.answer_time = packet.time;
}

void Requester::late_answer(const Waiting& waiting, const TransportPacket& packet, const Reporter& to) {
  Event event = event_of(EventKind::out_of_order, Cause::none, packet, to);
  event.origin_frame = waiting.ahead_frame;
  event.duration = packet.time - waiting.ahead_time;
  if (!late_response_) trouble().undecided.note_late(true);
  late_response_ = false;
  ++to.responder().out_of_order;
  to.tell(event);
}

// Reports a response that was sent before responses that were captured earlier.
void Requester::report_late_response(const TransportPacket& packet, const Reporter& to) {
  if (!trouble_) trouble().undecided.note_late(true);
  Event event = event_of(EventKind::out_of_order, Cause::none, packet, to);
  event.origin_frame = ack_frame_;
  ++to.responder().out_of_order;
  to.tell(event);
}

// True if, since the last retransmission, the response was captured after one with a higher PSN.
bool Requester::is_captured_late(Psn psn) const {
  constexpr std::int64_t most = 16;
  const std::uint64_t frame = frame_of_response(psn);
  for (std::int64_t i = 1; frame != 0 && i <= most; ++i)
    if (const std::uint64_t later = frame_of_response(psn + i); later > round_->event.frame && later < frame)
      return true;
  return false;
}

void Requester::read_response(const TransportPacket& packet, const Reporter& to) {
  note_seen(packet);
  Waiting* waiting = waiting_of(packet.psn);
  if (!waiting || !waiting->read) {
    if (unanswered_again_ > 0) return;
    if (window_.place(packet.psn) != machines::ResponsePlace::outstanding) return;
    Event event = event_of(EventKind::unsolicited_response, Cause::none, packet, to);
    to.tell(event);
    return;
  }
  if (waiting->done) return;
  Message& m = waiting->message;
  if (m.first_response_frame == 0) {
    m.first_response_frame = packet.frame;
    m.first_response_time = packet.time;
  }
  const std::uint32_t mtu = to.connection.mtu;
  if (mtu != 0 && !machines::fits(*packet.op, packet.payload, mtu) && m.size != 0) {
    Event event = event_of(EventKind::segmentation, Cause::none, packet, to);
    event.value = mtu;
    event.found = packet.payload;
    to.tell(event);
  }
  note_seen(*waiting, packet, to);
  Waiting* const first = blocking();
  // The requester waits for the retried response of an earlier message, and drops all responses before it.
  const bool dropped = first != waiting && !first->tell_order;
  if (!dropped && packet.psn == waiting->next_response) {
    // After a retry, missing responses are detected from this PSN on, because the requester dropped the responses after
    // the missing one.
    waiting->next_response += 1;
    if (!waiting->tell_order) waiting->skipped_frame = 0;
  } else if (packet.psn - waiting->next_response > 0 && waiting->skipped_frame == 0) {
    waiting->skipped_frame = packet.frame;
    waiting->skipped_time = packet.time;
  }
  if (first != waiting) {
    // An earlier response is missing. The requester drops this response, unless the earlier one is missing only in the
    // capture.
    for (std::size_t i = 0; i < waiting_.size() && &waiting_[i] != waiting && !dropped; ++i)
      if (Waiting& w = waiting_[i]; !w.done && (w.read || w.atomic) && w.seen != w.end) skipped(w, packet);
    skipped(*first, packet);
    if (waiting->seen == waiting->end) {
      window_ = window_.acknowledged(waiting->end - 1);
      ack_frame_ = packet.frame;
    }
    if (is_patience_over(*first, packet.time)) unblock(*first, to);
    return;
  }
  // The response of this READ acknowledges all earlier requests.
  if (waiting->first - window_.oldest > 0) {
    acknowledge(waiting->first - 1, packet, to);
    waiting = waiting_of(packet.psn);
    if (!waiting) return;
  }
  if (waiting->next_response != waiting->end) return;
  complete(*waiting, packet, to);
  window_ = window_.acknowledged(waiting->end - 1);
  ack_frame_ = packet.frame;
  drop_done();
}

// Ends the wait after a NAK or RNR NAK. `again` is the request that ends it (nullptr: another packet).
void Requester::end_refusal(const Reporter& to, const TransportPacket* again) {
  if (!refusal_->active) return;
  Refusal& refusal = refusal_.edit();
  refusal.active = false;
  if (!refusal.rnr) {
    if (!again) obeyed_late_ = refusal_;
    return;
  }
  if (again) {
    refusal.event.last_frame = again->frame;
    refusal.event.duration = again->time - refusal.time;
    refusal.event.found = static_cast<std::uint64_t>(refusal.event.duration);
  }
  to.tell(refusal.event);
}

void Requester::refused(const TransportPacket& packet, const Reporter& to) {
  // A NAK acknowledges all packets before its PSN.
  if (window_.place(packet.psn - 1) == machines::ResponsePlace::outstanding) acknowledge(packet.psn - 1, packet, to);
  const Syndrome syndrome(packet.syndrome);
  SentPacket* request = find(packet.psn);
  const bool seen = request && request->seen && request->frame != 0;
  const bool repeated = refusal_->active && refusal_->psn == packet.psn && refusal_->rnr == syndrome.is_rnr_nak();
  if (syndrome.is_rnr_nak()) {
    Event event = event_of(EventKind::rnr_nak, Cause::none, packet, to);
    event.origin_frame = seen ? request->frame : 0;
    event.value = syndrome.wait_ns();
    end_refusal(to, nullptr);
    refusal_.edit() = {true, true, packet.psn, packet.frame, packet.time, event, Cause::rnr};
    refuse_after(packet.psn);
    return;
  }
  if (!syndrome.is_nak()) return;
  const std::uint8_t code = syndrome.code();
  Event event = event_of(EventKind::nak, cause_of_nak(code), packet, to);
  event.origin_frame = seen ? request->frame : 0;
  Waiting* waiting = waiting_of(packet.psn);
  if (waiting && code != nak_code::psn_sequence_error) {
    event.value = waiting->message.key;
    event.found = waiting->message.remote_address;
  }
  to.tell(event);
  if (code == nak_code::psn_sequence_error) {
    const Cause cause = examine_nak(request, packet, repeated, to);
    const bool older = request && request->time != request->first_time && response_samples_ != 0 &&
                       packet.time - request->time < fastest_response_;
    if (!older && !(trouble_ && expects_nak(packet.psn, packet.time))) refuse_after(packet.psn);
    end_refusal(to, nullptr);
    refusal_.edit() = {true, false, packet.psn, packet.frame, packet.time, {}, cause};
    return;
  }
  if (waiting && !waiting->done) {
    waiting->message.outcome = Outcome::refused;
    waiting->message.nak_code = code;
    complete(*waiting, packet, to);
    drop_done();
  }
}

}  // namespace rdmawire::tracking
