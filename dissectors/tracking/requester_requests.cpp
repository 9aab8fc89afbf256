/// Processes request packets: new, retransmitted, late or missing ones.

#include <algorithm>

#include "dissectors/tracking/requester.hpp"
#include "dissectors/tracking/requester_limits.hpp"

namespace rdmawire::tracking {

using namespace requester_limits;

// Returns the number of PSNs that a request uses. If the MTU is unknown, assumes the largest one, so that the next
// request never seems to have an earlier PSN.
std::uint32_t Requester::psns_of(const TransportPacket& packet, const Connection& connection) const {
  if (packet.op->operation != Operation::rdma_read_request) return 1;
  // Half of the PSN space is the limit, because the length may be damaged.
  return std::min(machines::psns_of_read(packet.length, connection.mtu ? connection.mtu : 4096), Psn::half - 1);
}

// Sets the number of PSNs of a READ whose length the capture truncated. Its responses or the next request show this
// number.
void Requester::measure_read(Psn end) {
  if (waiting_.empty() || packets_.empty() || !waiting_.back().unmeasured) return;
  SentPacket& last = packets_.back();
  Waiting& read = waiting_.back();
  if (read.done || gap_ || !last.seen || read.first != last.psn || last.end() != window_.next) return;
  const std::int32_t more = end - last.end();
  if (more <= 0 || more > far) return;
  last.psns += static_cast<std::uint32_t>(more);
  window_.next = delivered_ = read.end = last.end();
  read.message.last_psn = (read.end - 1).value();
}

// Derives the MTU from the request after a READ: its PSN shows the number of response packets of the READ.
void Requester::learn_mtu(const TransportPacket& packet, Connection& connection) {
  if (packets_.empty() || waiting_.empty()) return;
  SentPacket& last = packets_.back();
  Waiting& read = waiting_.back();
  if (!read.read || read.unmeasured || !last.seen || read.first != last.psn || last.end() != window_.next) return;
  for (std::uint32_t mtu : {4096U, 2048U, 1024U, 512U, 256U}) {
    const std::uint32_t psns = machines::psns_of_read(static_cast<std::uint32_t>(read.message.size), mtu);
    if (packet.psn != last.psn + psns) continue;
    if (psns == last.psns) return;  // a larger MTU gives the same number
    connection.mtu = mtu_ = mtu;
    last.psns = psns;
    window_.next = delivered_ = read.end = last.end();
    read.message.last_psn = (read.end - 1).value();
    return;
  }
}

// Computes the number of PSNs of the last READ request again, because the MTU is now known.
void Requester::adopt_mtu(const Connection& connection) {
  mtu_ = connection.mtu;
  if (waiting_.empty() || packets_.empty()) return;
  SentPacket& last = packets_.back();
  Waiting& read = waiting_.back();
  if (!read.read || read.unmeasured || last.psn != read.first) return;
  last.psns = std::min(machines::psns_of_read(static_cast<std::uint32_t>(read.message.size), mtu_), Psn::half - 1);
  window_.next = delivered_ = read.end = last.end();
  read.message.last_psn = (read.end - 1).value();
}

std::size_t Requester::index_of(Psn psn) {
  if (packets_.empty()) return 0;
  const Psn front = packets_[0].psn;
  const std::int32_t distance = psn - front;
  if (distance < 0) return packets_.size();
  // If there are no gaps and READs, the distance from the first PSN is the index.
  const auto guess = static_cast<std::size_t>(distance);
  if (guess < packets_.size() && packets_[guess].psn == psn) return guess;
  std::size_t low = 0, high = packets_.size();
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (packets_[middle].psn - front <= distance ? low : high) = middle;
  }
  return psn - packets_[low].end() < 0 ? low : packets_.size();
}

Requester::SentPacket* Requester::find(Psn psn) {
  const std::size_t at = index_of(psn);
  return at < packets_.size() ? &packets_[at] : nullptr;
}

Requester::Waiting* Requester::waiting_of(Psn psn) {
  std::size_t low = 0, high = waiting_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (psn - waiting_[middle].end >= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < waiting_.size() && psn - waiting_[low].first >= 0 ? &waiting_[low] : nullptr;
}

void Requester::request(const TransportPacket& packet, const Reporter& to) {
  const bool acknowledged = acknowledged_service(to.connection);
  if (to.connection.mtu == 0) {
    if (packet.op->position == Position::first && machines::is_path_mtu(packet.payload))
      to.connection.mtu = packet.payload;
    else if (started_)
      learn_mtu(packet, to.connection);
  }
  if (mtu_ != to.connection.mtu) adopt_mtu(to.connection);
  const std::uint32_t psns = psns_of(packet, to.connection);
  // A first packet before the PSN of the CM exchange is not a retransmission: the requester uses another first PSN.
  if (started_ && expected_ && (!near(packet.psn) || packet.psn - window_.next < 0)) started_ = false;
  expected_ = false;
  if (!started_) {
    started_ = true;
    window_ = {packet.psn, packet.psn};
    first_ = delivered_ = packet.psn;
    sequence_known_ = false;
  }
  if (trouble_) {
    settle_unsent(packet, to);
    if (trouble_->undecided.due(packet.time)) trouble_->undecided.settle(to);
  }
  if (packet.psn - window_.next > 0) measure_read(packet.psn);
  // The requester has sent new requests for a long time, so it received all responses.
  if (Waiting* stuck = waiting_.empty() || !waiting_.front().read ? nullptr : blocking();
      stuck && stuck->skipped_frame != 0 && packet.time - stuck->skipped_time > goes_on_ns &&
      packet.psn - window_.next >= 0)
    unblock(*stuck, to);
  const bool is_fresh = packet.psn - window_.next >= 0;
  if (to.note) {
    to.note->relative_psn = (packet.psn - static_cast<std::int64_t>(first_.value())).value();
    to.note->again = !is_fresh;
    if (packet.psn - window_.next > 0) to.note->arrival = Arrival::after_gap;
  }
  if (trouble_ && !trouble_->notifications.empty()) measure_rate(packet, to);
  if (is_fresh)
    fresh(packet, psns, to);
  else
    again(packet, psns, to);
  if (to.note && !is_fresh) note_arrival(packet, *to.note);
  if (!acknowledged || (!to.joined && window_.outstanding() > alone_packets) || window_.outstanding() >= Psn::half)
    window_.oldest = window_.next;
  most_outstanding_ = std::max(most_outstanding_, window_.outstanding());
  last_time_ = std::max(last_time_, packet.time);  // a packet that waited can be older
  last_frame_ = packet.frame;
  if (trouble_ && trouble_->unsent && trouble_->unsent->psn - window_.next < 0) {
    const TransportPacket answer = *trouble_->unsent;
    trouble_->unsent.reset();
    response(answer, to);
  }
  if (to.note) {
    note_window(*to.note);
    to.note->requester = to.end;
    if (const Waiting* waiting = waiting_of(packet.psn)) to.note->message = waiting->message.number;
  }
}

void Requester::fresh(const TransportPacket& packet, std::uint32_t psns, const Reporter& to) {
  if (round_->active) end_round(to);
  // If there is a reason for a retransmission, several consecutive packets are the start of a burst.
  if (filler_->active) settle_filler(filler_->requested && filler_->event.packets >= burst_packets, to);
  if (copying_) end_copies(to);
  const std::int32_t missing = packet.psn - window_.next;
  if (missing > 0) {
    SentPacket gap;
    gap.psn = window_.next;
    gap.psns = static_cast<std::uint32_t>(missing);
    gap.frame = last_frame_;  // frame of the packet before the gap
    gap.time = gap.first_time = packet.time;
    gap.bytes_before = bytes_sent_;
    gap.damaged = damaged_in_gap(packets_.empty() ? 0 : packets_.back().frame, packet.frame, gap.psns);
    if (!disordered_) begin_disorder(gap.psn, gap.damaged ? Cause::corrupted : Cause::none);
    packets_.push_back(gap);
    gap_ = true;
  }
  if (!packet.damaged) order_.note(packet.identification);
  SentPacket& sent = packets_.push_back({});
  sent.psn = packet.psn;
  sent.psns = psns;
  sent.frame = packet.frame;
  sent.time = sent.first_time = packet.time;
  sent.payload = packet.payload;
  sent.bytes_before = bytes_sent_;
  bytes_sent_ += packet.payload;
  sent.icrc = packet.icrc;
  sent.identification = sent.last_identification = packet.identification;
  sent.opcode = packet.op->value;
  sent.seen = true;
  sent.ack_requested = packet.ack_request;
  sent.dropped = disordered_;
  if (disordered_ && !packet.damaged) expect_nak(packet.time);
  if (packet.damaged) {
    sent.damaged = true;
    if (!disordered_) begin_disorder(packet.psn, Cause::corrupted);
  }
  window_ = window_.sent(packet.psn, psns);
  while (packets_.size() > kept_packets &&
         (packets_.size() > max_packets || packets_.front().end() - window_.oldest <= 0)) {
    if (!packets_.front().seen && gap_ && packets_.front().end() - delivered_ > 0)
      give_up_gap(packets_.front().end() - 1, false, 0, to);
    packets_.pop_front();
  }
  if (!gap_) {
    deliver(packet, to);
    return;
  }
  auto& ahead = trouble().ahead;
  ahead.push_back(packet);
  if (!acknowledged_service(to.connection) ? ahead.size() >= unacknowledged_patience
                                           : ahead.size() >= (to.joined ? max_ahead : alone_packets))
    give_up_gap(packet.psn - 1, false, 0, to);
}

// Processes a packet of the gap at `at`. The PSNs before and after it remain gaps.
void Requester::fill(std::size_t at, const TransportPacket& packet, std::uint32_t psns) {
  const SentPacket gap = packets_[at];
  SentPacket sent = gap;
  sent.psn = packet.psn;
  sent.psns = std::min(psns, static_cast<std::uint32_t>(gap.end() - packet.psn));
  sent.frame = packet.frame;
  sent.time = sent.first_time = packet.time;
  sent.payload = packet.payload;
  sent.icrc = packet.icrc;
  sent.identification = sent.last_identification = packet.identification;
  sent.opcode = packet.op->value;
  sent.seen = sent.late = true;
  sent.ack_requested = packet.ack_request;
  sent.damaged = packet.damaged;
  packets_[at] = sent;
  if (const std::int32_t behind = gap.end() - sent.end(); behind > 0) {
    SentPacket rest = gap;
    rest.psn = sent.end();
    rest.psns = static_cast<std::uint32_t>(behind);
    packets_.insert(at + 1, rest);
  }
  if (const std::int32_t before = packet.psn - gap.psn; before > 0) {
    SentPacket rest = gap;
    rest.psns = static_cast<std::uint32_t>(before);
    packets_.insert(at, rest);
  }
}

Requester::Repetition Requester::repetition_of(const TransportPacket& packet) {
  Repetition again;
  again.at = index_of(packet.psn);
  if (again.at < packets_.size()) again.known = packets_[again.at];
  again.fills = again.at < packets_.size() && !again.known.seen;
  // If the current retransmission has not reached the PSN of a NAK yet, the NAK does not restart it.
  again.refused_here =
      refusal_->active && packet.psn == refusal_->psn && !(round_->active && packet.psn == round_->next);
  again.continues = round_->active && !again.refused_here && packet.psn - round_->next >= 0;
  again.repeat = repeat_of(packet, again.known);
  return again;
}

void Requester::again(const TransportPacket& packet, std::uint32_t psns, const Reporter& to) {
  return_to_burst(packet.psn);
  const Repetition again = repetition_of(packet);
  if (to.note && again.known.seen) {
    to.note->related_frame = again.known.frame;
    to.note->related_delay = packet.time - again.known.first_time;
  }
  if (again.repeat == Repeat::copy) return report_copy(packet, again.known, to);
  end_copies(to);
  if (!packet.damaged) order_.note(packet.identification);
  if (captured_late(packet, again, to)) return;
  if (is_late_without_order(packet, again)) {
    if (filler_->active) settle_filler(false, to);
    report_late(packet, again.known, to);
    if (again.known.passed_over) packets_[again.at].time = packet.time;
    packets_[again.at].passed_over = false;
    accept(packet.psn, packet.psn + psns, packet);
    return;
  }
  if (again.repeat == Repeat::late) {
    if (filler_->active) settle_filler(false, to);
    report_late(packet, again.known, to);
    if (!again.fills) return accept_late(packet, psns, again);
  } else {
    if (trouble_ && trouble_->suspect.active && packet.psn == trouble_->suspect.psn) suspect_retransmitted(packet, to);
    if (again.fills && again.repeat != Repeat::retransmitted)
      note_filler(packet, psns, again, to);
    else if (filler_->active)
      settle_filler(filler_was_retransmitted(packet, again), to);
    if (!filler_->active) note_retransmission(packet, psns, again, to);
  }
  if (again.fills) {
    psns = psns_of_gap(packet, psns, again, to);
    close_gap(packet, psns, again, to);
  } else if (again.at < packets_.size()) {
    packets_[again.at].time = packet.time;
    packets_[again.at].passed_over = packets_[again.at].damaged = packets_[again.at].late_response = false;
    packets_[again.at].ack_requested = packet.ack_request;
    packets_[again.at].last_identification = packet.identification;
  }
  if (disordered_) accept(packet.psn, packet.psn + psns, packet);
  if (again.repeat != Repeat::late) again_time_ = packet.time;
}

// Processes a packet that was captured after its acknowledgement, because the capture reordered packets. Returns false
// for other packets.
bool Requester::captured_late(const TransportPacket& packet, const Repetition& again, const Reporter& to) {
  if (!again.known.seen || again.known.frame != 0 || !trouble_ ||
      !trouble_->undecided.arrived_late(packet.psn.value(), false))
    return false;
  report_late(packet, again.known, to);
  SentPacket& sent = packets_[again.at];
  sent.frame = packet.frame;
  sent.time = sent.first_time = packet.time;
  sent.icrc = packet.icrc;
  sent.identification = sent.last_identification = packet.identification;
  sent.opcode = packet.op->value;
  return true;
}

void Requester::accept_late(const TransportPacket& packet, std::uint32_t psns, const Repetition& again) {
  if (again.at >= packets_.size()) return;
  if (again.known.passed_over) packets_[again.at].time = packet.time;
  packets_[again.at].passed_over = false;
  packets_[again.at].last_identification = packet.identification;
  accept(packet.psn, packet.psn + psns, packet);
}

// Processes a packet that fills a gap. Later packets show whether it is late or retransmitted.
void Requester::note_filler(const TransportPacket& packet, std::uint32_t psns, const Repetition& again,
                            const Reporter& to) {
  if (again.continues) {
    if (filler_->active) settle_filler(true, to);
    return;
  }
  if (again.refused_here && !refusal_->rnr) {
    // Late packets usually arrive before the NAK that they cause.
    if (filler_->active) settle_filler(packet.psn - filler_->next >= 0, to);
    return;
  }
  if (filler_->active && packet.psn == filler_->next) {
    GapFill& filler = filler_.edit();
    filler.next = packet.psn + psns;
    ++filler.event.packets;
    filler.event.bytes += packet.payload;
    filler.event.last_frame = packet.frame;
    return;
  }
  if (filler_->active) settle_filler(false, to);
  if (round_->active) end_round(to);
  GapFill& filler = filler_.edit();
  filler = {true,
            packet.psn,
            packet.psn + psns,
            packet.psn + psns,
            event_of(EventKind::out_of_order, Cause::none, packet, to),
            again.known};
  filler.event.origin_frame = again.known.frame;
  filler.event.duration = packet.time - again.known.time;
  filler.event.bytes = packet.payload;
  filler.requested = refusal_->active || again.known.refused_frame != 0 || obeyed_late_->frame != 0 ||
                     filler.event.duration >= shortest_timeout_ns || !to.joined || !waiting_.empty();
}

// Returns whether the packet that filled the last gap was retransmitted. If not, it was late.
bool Requester::filler_was_retransmitted(const TransportPacket& packet, const Repetition& again) const {
  const std::int32_t ahead = packet.psn - filler_->next;
  if (again.repeat == Repeat::retransmitted) return ahead >= 0;
  // If the sender continues after the packet that filled the gap, this packet was retransmitted. If the sender goes
  // back to an earlier packet, or a NAK shows that the packet was received, it was late. If the sender has no reason to
  // retransmit the packet, it continues with the next one.
  const bool known_to_peer = again.refused_here && !refusal_->rnr && refusal_->psn - filler_->psn > 0;
  const bool requested = filler_->requested && (ahead > 0 || filler_->event.packets >= burst_packets);
  return (ahead == 0 || requested) && !known_to_peer;
}

// Adds a retransmitted packet to the current burst, or starts a new one.
void Requester::note_retransmission(const TransportPacket& packet, std::uint32_t psns, const Repetition& again,
                                    const Reporter& to) {
  bool starts = false;
  if (round_->active && !again.refused_here && packet.psn - round_->next >= 0) {
    continue_burst(packet, psns, again.known, again.at);
  } else {
    if (round_->active) end_round(to);
    believe_progress(packet.psn, to);
    begin_round(packet, psns, again.known, to);
    starts = true;
  }
  if (trouble_ && !trouble_->undecided.empty())
    trouble_->undecided.note_repeat(packet.psn.value(), (packet.psn + psns).value());
  if (refusal_->active && packet.psn == refusal_->psn) end_refusal(to, &packet);
  if (Waiting* waiting = waiting_of(packet.psn)) {
    ++waiting->message.repeated_packets;
    if (waiting->atomic) waiting->tell_order = false;
    // The retransmitted READ requests the missing responses, so responses from its PSN on are expected again.
    if (waiting->read && packet.op->operation == Operation::rdma_read_request) {
      waiting->next_response = waiting->seen = waiting->beyond = packet.psn;
      waiting->skipped_frame = waiting->ahead_frame = 0;
      waiting->answered = false;
      waiting->tell_order = false;
    }
    if (starts && (waiting->read || waiting->atomic)) drop_answers_behind(*waiting);
  }
}

// Returns the number of PSNs of a packet that fills a gap. The size of the gap shows the number of response packets of
// a READ, and thus the path MTU.
std::uint32_t Requester::psns_of_gap(const TransportPacket& packet, std::uint32_t psns, const Repetition& again,
                                     const Reporter& to) {
  if (to.connection.mtu != 0 || packet.op->operation != Operation::rdma_read_request) return psns;
  const SentPacket& gap = again.known;
  for (const std::uint32_t mtu : {4096U, 2048U, 1024U, 512U, 256U})
    if (machines::psns_of_read(packet.length, mtu) == gap.psns && gap.psn == packet.psn && psns != gap.psns) {
      to.connection.mtu = mtu_ = mtu;
      if (filler_->active) filler_.edit().next = filler_.edit().first_end = packet.psn + gap.psns;
      if (round_->active) round_.edit().next = packet.psn + gap.psns;
      return gap.psns;
    }
  return psns;
}

void Requester::close_gap(const TransportPacket& packet, std::uint32_t psns, const Repetition& again,
                          const Reporter& to) {
  const bool late = again.repeat == Repeat::late;
  if (!filler_->active && !late && !again.known.reported) {
    lost_before_capture(packets_[again.at], packet.psn + psns, packet, to);
    packets_[again.at].reported = true;
  }
  fill(again.at, packet, psns);
  if (late)
    if (SentPacket* sent = find(packet.psn)) sent->overtaken = true;
  auto& ahead = trouble().ahead;
  const auto place =
      std::partition_point(ahead.begin(), ahead.end(), [&](const TransportPacket& p) { return p.psn <= packet.psn; });
  ahead.insert(place, packet);
  deliver_what_waited(to);
  if (ahead.size() >= max_ahead) give_up_gap(ahead.front().psn - 1, false, 0, to);
}

// Adds the packet at index `at` to the current burst.
void Requester::continue_burst(const TransportPacket& packet, std::uint32_t psns, const SentPacket& known,
                               std::size_t at) {
  Round& round = round_.edit();
  round.ahead = known.passed_over && packet.psn - round.next > 0;
  round.behind = round.next;
  pass_over(round.next, at, packet.frame);
  round.copy &= is_copy(packet, known);
  ++round.event.packets;
  round.event.bytes += packet.payload;
  round.event.last_frame = packet.frame;
  round.next = packet.psn + psns;
}

// If the burst continues before the last packet, this packet was late, and the packets before it were not skipped.
void Requester::return_to_burst(Psn psn) {
  if (!round_->active || !round_->ahead) return;
  round_.edit().ahead = false;
  if (psn != round_->behind) return;
  for (std::size_t i = index_of(psn); i < packets_.size() && packets_[i].psn - round_->next < 0; ++i)
    packets_[i].passed_over = false;
  round_.edit().next = psn;
}

// Marks the packets from `psn` to before index `end`, which the current burst skipped. They are missing, late or
// damaged.
void Requester::pass_over(Psn psn, std::size_t end, std::uint64_t frame) {
  const std::size_t begin = index_of(psn);
  end = std::min(end, packets_.size());
  if (begin >= end) return;
  const auto count = static_cast<std::uint32_t>(end - begin);
  const bool damaged = damaged_in_gap(std::max(round_->event.frame, round_->event.last_frame), frame, count);
  for (std::size_t i = begin; i < end; ++i) {
    packets_[i].passed_over = true;
    if (damaged) packets_[i].damaged = true;
  }
}

// True if the packet is late, although the IP identifications do not show it.
bool Requester::is_late_without_order(const TransportPacket& packet, const Repetition& again) {
  return again.repeat == Repeat::unknown && !again.continues && !again.refused_here &&
         (is_late_in_burst(packet, again.known) || is_late_original(packet, again.known));
}

// True if the current burst skipped the packet, and there is no reason for another burst, so the packet is late.
bool Requester::is_late_in_burst(const TransportPacket& packet, const SentPacket& known) {
  if (!known.seen || !known.passed_over || packet.time - again_time_ >= copy_ns) return false;
  if (filler_->active && packet.psn - filler_->next >= 0) return false;
  return !is_requested(packet);
}

// True if a NAK or a missing response requests the retransmission of the packet.
bool Requester::is_requested(const TransportPacket& packet) {
  if (refusal_->active && refusal_->time > again_time_ && packet.psn - refusal_->psn >= 0) return true;
  const Waiting* waiting = waiting_of(packet.psn);
  return waiting && !waiting->done && waiting->skipped_frame != 0;
}

// True if the packet was considered lost, its retransmission was acknowledged, and no timer can have expired since.
bool Requester::is_late_original(const TransportPacket& packet, const SentPacket& known) {
  return known.seen && window_.oldest - packet.psn > 0 && packet.time - known.time < shortest_timer_ns && trouble_ &&
         !is_requested(packet) && trouble_->undecided.is_missing(packet.psn.value());
}

// Stores the class of a repeated packet in `note`. Must be called after again().
void Requester::note_arrival(const TransportPacket& packet, PacketNote& note) const {
  const auto contains = [&](const Event& event) { return std::max(event.frame, event.last_frame) == packet.frame; };
  const bool ends_here = round_->active && contains(round_->event);
  if (copying_ && contains(trouble_->copies)) {
    note.arrival = Arrival::duplicate;
  } else if (ends_here && round_->copy && (round_->event.packets == 1 || order_.distinct())) {
    note.arrival = Arrival::duplicate;
  } else if (ends_here) {
    note.arrival = Arrival::retransmission;
    note.cause = round_->event.cause;
    note.cause_frame = round_->event.cause_frame;
    note.burst_frame = round_->event.frame;
  } else if (filler_->active && contains(filler_->event)) {
    // Both a late packet and the start of a burst fill a gap. A NAK for the packet, or a long delay, indicates a burst.
    const bool requested = refusal_->active && !refusal_->rnr && packet.psn - refusal_->psn >= 0;
    if (requested || filler_->event.duration > 2 * copy_ns) {
      note.arrival = Arrival::retransmission;
      note.cause = requested ? Cause::sequence_error_nak : Cause::timeout;
      note.cause_frame = requested ? refusal_->frame : 0;
      note.burst_frame = filler_->event.frame;
    } else {
      note.arrival = Arrival::out_of_order;
    }
  } else {
    note.arrival = Arrival::out_of_order;
  }
}

bool Requester::is_copy(const TransportPacket& packet, const SentPacket& known) const {
  return known.seen && known.icrc == packet.icrc && known.identification == packet.identification &&
         packet.time - known.time < (order_.distinct() ? numbered_copy_ns : copy_ns);
}

void Requester::end_round(const Reporter& to) {
  round_.edit().active = false;
  Event& event = round_.edit().event;
  Sent& sent = to.requester();
  if (again_until_ != 0) unanswered_again_ = 0;
  again_until_ = 0;
  again_end_ = window_.next;
  // The responder acknowledges each duplicate packet, unless it dropped the first transmissions after a NAK.
  if (event.cause != Cause::sequence_error_nak && event.cause != Cause::rnr)
    unanswered_again_ += static_cast<std::uint32_t>(event.packets);
  // If there is no reason for a retransmission, this is the first transmission of a packet that was considered lost.
  if (event.cause == Cause::unknown && trouble_ && trouble_->undecided.arrived_late(event.psn, false)) {
    event.kind = EventKind::out_of_order;
    event.cause = Cause::none;
    event.certainty = Certainty::likely;
    event.unobserved = Unobserved::send_order;
    sent.out_of_order += static_cast<std::uint32_t>(event.packets);
    trouble_->undecided.note_late(false);
    for (std::uint64_t i = 1; i < event.packets; ++i)
      trouble_->undecided.arrived_late((Psn(event.psn) + static_cast<std::int64_t>(i)).value(), false);
    to.tell(event);
    return;
  }
  // The network duplicates single packets. A retransmission has more packets, or new identifications.
  if (round_->copy && (event.packets == 1 || order_.distinct())) {
    event.kind = EventKind::duplicate;
    event.cause = Cause::none;
    event.cause_frame = 0;
    const bool some_late = trouble_ && trouble_->undecided.some_late(false) && !order_.distinct();
    event.certainty = some_late ? Certainty::possible : Certainty::likely;
    event.unobserved = order_.numbered() ? Unobserved::nothing : Unobserved::send_order;
    sent.duplicates += static_cast<std::uint32_t>(event.packets);
  } else {
    ++sent.rounds;
    sent.retransmitted_packets += event.packets;
    sent.retransmitted_bytes += event.bytes;
    // The packet can also be the first transmission.
    if (event.packets == 1 && event.cause == Cause::reordered && !order_.numbered() && trouble_ &&
        trouble_->undecided.reorders(false)) {
      event.certainty = Certainty::possible;
      event.unobserved = Unobserved::send_order;
    }
    return report_recovery(event, to);
  }
  to.tell(event);
}

void Requester::settle_filler(bool on_retransmission, const Reporter& to) {
  filler_.edit().active = false;
  Event& event = filler_.edit().event;
  if (!on_retransmission) {
    if (SentPacket* late = find(filler_->psn)) late->overtaken = late->late;
    trouble().undecided.note_late(false);
    // The responder dropped the packets that arrived before the late packet.
    if (trouble_ && trouble_->disorder.cause == Cause::none) trouble_->disorder.cause = Cause::reordered;
    to.requester().out_of_order += static_cast<std::uint32_t>(event.packets);
    event.certainty = Certainty::likely;
    event.unobserved = Unobserved::send_order;
    to.tell(event);
    return;
  }
  // The packet was the start of a retransmission burst.
  if (trouble_ && trouble_->disorder.cause == Cause::none) trouble_->disorder.cause = Cause::sequence_error_nak;
  TransportPacket first;
  first.frame = event.frame;
  first.time = event.time;
  first.psn = filler_->psn;
  first.payload = static_cast<std::uint32_t>(event.bytes);
  SentPacket gap = filler_->gap;
  // The rest of the gap after the packet was also lost.
  if (SentPacket* rest = find(filler_->next); rest && !rest->seen) rest->reported = true;
  begin_round(first, 1, gap, to);
  if (!gap.reported) lost_before_capture(gap, filler_->first_end, first, to);
  round_.edit().event.packets = event.packets;
  round_.edit().event.last_frame = event.last_frame;
  round_.edit().next = filler_->next;
}

}  // namespace rdmawire::tracking
