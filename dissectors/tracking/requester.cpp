/// Start and end of a requester, and responses that match no request.

#include "dissectors/tracking/requester.hpp"

#include <algorithm>

#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/protocol/time.hpp"
#include "dissectors/tracking/fetch.hpp"
#include "dissectors/tracking/requester_limits.hpp"

namespace rdmawire::tracking {

using namespace requester_limits;

void Reporter::tell(Event& event) const {
  event.connection = connection.id;
  if (event.last_frame == 0) event.last_frame = event.frame;
  sink.event(&connection, event);
}

void Reporter::tell(Message& message) const {
  message.connection = connection.id;
  message.end = end;
  Sent& sent = requester();
  if (message.outcome == Outcome::completed) ++sent.messages_completed;
  if (message.outcome == Outcome::refused) ++sent.messages_refused;
  if (message.answer_time != 0 && message.outcome == Outcome::completed) {
    // A response can be captured before its request.
    const std::int64_t latency = std::max<std::int64_t>(message.answer_time - message.start, 0);
    ++sent.latency_count;
    accumulate(sent.latency_sum, latency);
    sent.latency_max = std::max(sent.latency_max, latency);
  }
  sink.message(connection, message);
}

Event Requester::event_of(EventKind kind, Cause cause, const TransportPacket& packet, const Reporter& to) const {
  Event event;
  event.kind = kind;
  event.cause = cause;
  event.end = to.end;
  event.frame = packet.frame;
  event.time = packet.time;
  event.psn = packet.psn.value();
  return event;
}

void Requester::expect(Psn first) {
  if (started_) return;
  started_ = expected_ = true;
  window_ = {first, first};
  first_ = delivered_ = first;
  sequence_known_ = true;
}

void Requester::pair_late(std::int64_t time) {
  paired_time_ = time;
  // Their responses may be in the capture, but were not assigned to them.
  for (std::size_t i = 0; i < waiting_.size(); ++i) waiting_[i].guessed = true;
}

bool Requester::can_continue(Psn psn) const {
  // The PSN from a CM or text exchange can belong to another run, so the first request determines it.
  return !started_ || expected_ || near(psn);
}

bool Requester::near(Psn psn) const {
  // Compares only with the end of the window, because a distance of 2^23 has the same sign in both directions. A
  // request at this distance is the farthest duplicate, which tests of rc.responder.psn.half-window send.
  constexpr std::int32_t farthest_duplicate = -(1 << 23);
  const std::int32_t ahead = psn - window_.next;
  return (ahead < far && ahead > -far - static_cast<std::int32_t>(window_.outstanding())) ||
         ahead == farthest_duplicate;
}

void Requester::fetch_state(bool response) const {
  static_cast<void>(response);
  fetch_between(this, this + 1);
}

// Requests append after the last packet, and may remove the first packet. Responses access the last few packets.
void Requester::fetch_requests(bool response) const {
  constexpr std::size_t few = 4;
  if (const SentPacket* first = packets_.place(0)) fetch(first, sizeof(SentPacket));
  const std::size_t size = packets_.size();
  if (response) {
    for (std::size_t i = size - std::min(size, few); i < size; ++i) fetch(packets_.place(i), sizeof(SentPacket));
    if (const Waiting* oldest = waiting_.place(0)) fetch(oldest, sizeof(Waiting));
  } else {
    fetch(packets_.place(size), sizeof(SentPacket));
    if (const Waiting* newest = waiting_.place(waiting_.size() - (open_ ? 1 : 0))) fetch(newest, sizeof(Waiting));
  }
}

std::size_t Requester::memory() const {
  std::size_t bytes = packets_.bytes() + waiting_.bytes() + seen_responses_.allocated() * sizeof(SeenResponse) +
                      round_.bytes() + refusal_.bytes() + obeyed_late_.bytes() + filler_.bytes();
  if (trouble_)
    bytes += sizeof(LossEpisode) + trouble_->ahead.size() * sizeof(TransportPacket) +
             trouble_->notifications.capacity() * sizeof(Notification);
  return bytes;
}

void Requester::unseen_request(const TransportPacket& packet, const Reporter& to) {
  ++to.connection.contradicting;
  if (packet.psn - window_.next > far) {
    // The distance is too large for capture loss, so the response is unsolicited.
    Event event = event_of(EventKind::unsolicited_response, Cause::none, packet, to);
    to.tell(event);
    return;
  }
  LossEpisode& t = trouble();
  if (!t.unsent) t.first_unsent = packet;
  if (!t.unsent || packet.psn - t.unsent->psn > 0) t.unsent = packet;
}

// Decides about a response without a request when the next request is captured. Requests are missing in the capture, or
// captured late, or the response is unsolicited.
void Requester::settle_unsent(const TransportPacket& request, const Reporter& to) {
  LossEpisode& t = *trouble_;
  if (!t.unsent || request.psn - window_.next < 0) return;  // a retransmission does not decide
  const TransportPacket unsent = *t.unsent;
  if (request.psn - window_.next > 0) {
    // The response shows that its request was sent, so the gap before the new request is capture loss. The next
    // response shows which packets of the gap were acknowledged later.
    if (request.psn - unsent.psn > 1) {
      t.unsent.reset();
      return;
    }
    if (request.psn - unsent.psn > 0) t.unsent.reset();
    const Psn last = request.psn - 1;
    SentPacket gap;
    gap.psn = window_.next;
    gap.psns = static_cast<std::uint32_t>(request.psn - window_.next);
    gap.frame = last_frame_;
    gap.time = gap.first_time = unsent.time;
    packets_.push_back(gap);
    window_ = window_.sent(gap.psn, gap.psns);
    gap_ = true;
    give_up_gap(last, true, unsent.frame, to);
    window_ = window_.acknowledged(last);
    ack_frame_ = unsent.frame;
    msn_known_ = false;
    return;
  }
  if (request.time - t.first_unsent.time < disorder_ns) return;  // probably captured out of order
  Event event = event_of(EventKind::unsolicited_response, Cause::none, t.first_unsent, to);
  t.unsent.reset();
  to.tell(event);
}

Cause Requester::waited_for(const TransportPacket& packet) const {
  const std::uint32_t outstanding = window_.outstanding();
  if (packet.is_response()) {
    const Syndrome syndrome(packet.syndrome);
    const bool credits = packet.op->operation == Operation::acknowledge && syndrome.has_credits();
    const bool update = credits && packet.psn == last_ack_.psn && packet.msn == last_ack_.msn;
    if (update && credit_ == 0 && syndrome.code() != 0) return Cause::credit;
    return outstanding > 0 ? Cause::peer : Cause::nothing_outstanding;
  }
  if (started_ && packet.psn - window_.next < 0) {
    // The event of a retransmission reports the wait, except a wait after an RNR NAK.
    return refusal_->active && refusal_->rnr ? Cause::rnr : Cause::none;
  }
  if (credits_used_ && credit_ == 0) return Cause::credit;
  return outstanding > 0 && outstanding >= most_outstanding_ ? Cause::window : Cause::nothing_outstanding;
}

void Requester::notified(const TransportPacket& packet, const Reporter& to) {
  Notification n;
  n.event = event_of(EventKind::cnp, Cause::unknown, packet, to);
  constexpr std::size_t measured = 16;
  const std::size_t count = std::min(packets_.size(), measured);
  std::uint64_t bytes = 0;
  std::int64_t first = 0, last = 0;
  for (std::size_t i = packets_.size() - count; i < packets_.size(); ++i) {
    if (!packets_[i].seen) continue;
    if (first == 0)
      first = packets_[i].time;
    else
      bytes += packets_[i].payload + 1;
    last = packets_[i].time;
  }
  if (last > first) n.rate_before = static_cast<double>(bytes) / static_cast<double>(last - first);
  auto& notifications = trouble().notifications;
  constexpr std::size_t at_once = 64;
  if (notifications.size() >= at_once) {
    to.tell(notifications.front().event);
    notifications.erase(notifications.begin());
  }
  notifications.push_back(n);
}

void Requester::measure_rate(const TransportPacket& packet, const Reporter& to) {
  auto& notifications = trouble_->notifications;
  constexpr std::uint32_t measured = 16;
  std::size_t settled = 0;
  for (Notification& n : notifications) {
    if (n.packets_after == 0)
      n.first_after = packet.time;
    else
      n.bytes_after += packet.payload + 1;
    if (++n.packets_after < measured) continue;
    const std::int64_t took = packet.time - n.first_after;
    if (n.rate_before > 0 && took > 0) {
      constexpr double fell = 0.8;
      const double rate = static_cast<double>(n.bytes_after) / static_cast<double>(took);
      n.event.cause = rate < fell * n.rate_before ? Cause::rate_fell : Cause::rate_unchanged;
      n.event.value = static_cast<std::uint64_t>(n.rate_before * 8e9);
      n.event.found = static_cast<std::uint64_t>(rate * 8e9);
    }
    to.tell(n.event);
    ++settled;
  }
  notifications.erase(notifications.begin(), notifications.begin() + static_cast<std::ptrdiff_t>(settled));
}

void Requester::finish(const Reporter& to, std::int64_t end) {
  const Cause last_cause = round_->active ? round_->event.cause : Cause::none;
  const std::uint32_t rounds_before = to.requester().rounds;
  end_copies(to);
  if (filler_->active) settle_filler(filler_->event.duration > 2 * copy_ns, to);
  if (round_->active) end_round(to);
  if (trouble_) {
    for (Notification& n : trouble_->notifications) to.tell(n.event);
    trouble_->notifications.clear();
    if (trouble_->unsent) {
      const TransportPacket unsent = trouble_->first_unsent;
      const std::int32_t missing = trouble_->unsent->psn - window_.next + 1;
      constexpr std::int32_t tail = 64;
      Event event = event_of(missing <= tail ? EventKind::lost_in_capture : EventKind::unsolicited_response,
                             Cause::none, unsent, to);
      if (missing <= tail) {
        event.packets = static_cast<std::uint64_t>(std::max(missing, 1));
        event.psn = window_.next.value();
        event.cause_frame = unsent.frame;
        to.requester().lost_in_capture += static_cast<std::uint32_t>(event.packets);
      }
      to.tell(event);
      trouble_->unsent.reset();
    }
  }
  if (gap_) give_up_gap(window_.next - 1, false, 0, to);
  if (trouble_ && trouble_->suspect.active) settle_suspect(true, nullptr, to);
  end_refusal(to, nullptr);
  for (Waiting* stuck = blocking(); stuck && stuck->skipped_frame != 0; stuck = blocking()) unblock(*stuck, to);
  if (trouble_) trouble_->undecided.settle(to);
  const bool retried = last_cause == Cause::timeout && rounds_before >= 1;
  const bool silent = to.joined && last_time_ != 0 && end - last_time_ >= stall_ns && last_time_ != response_time_;
  if ((retried || silent) && acknowledged_service(to.connection) && window_.outstanding() > 0 && !waiting_.empty()) {
    Event event;
    event.kind = EventKind::unanswered;
    event.end = to.end;
    event.frame = waiting_.front().message.first_frame;
    // The event ends where the last retransmission burst ends, unless this burst precedes the message.
    event.last_frame = std::max({event.frame, round_->event.frame, round_->event.last_frame});
    event.time = waiting_.front().message.start;
    event.duration = last_time_ - event.time;
    event.packets = window_.outstanding();
    event.psn = window_.oldest.value();
    to.tell(event);
  }
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (waiting.done) continue;
    Message& m = waiting.message;
    if (waiting.answered) {
      if (m.outcome != Outcome::completed && m.outcome != Outcome::refused) m.outcome = Outcome::completed;
    } else if (!waiting.whole) {
      m.outcome = Outcome::partial;
    } else if (m.outcome == Outcome::completed) {
      m.outcome = to.joined && acknowledged_service(to.connection) ? Outcome::unanswered : Outcome::sent;
    }
    if (m.outcome == Outcome::unanswered) {
      // The last response of a READ may have arrived, although an earlier response is missing.
      m.answer_frame = 0;
      m.answer_time = 0;
    }
    to.tell(m);
  }
  waiting_.clear();
  open_ = false;
  reads_out_ = 0;
}

}  // namespace rdmawire::tracking
