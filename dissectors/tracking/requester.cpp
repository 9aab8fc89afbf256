#include "dissectors/tracking/requester.hpp"

#include <algorithm>
#include <cstddef>

#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/fetch.hpp"

namespace rdmawire::tracking {
namespace {

/// A copy that the network made comes this soon after the packet; no retransmission timer is so short.
constexpr std::int64_t copy_ns = 100'000;
// A sender that gives each packet another IP identification sends none again with the one that it had: the interfaces
// of a host, or a bridge's ports, show a packet so much later once more.
constexpr std::int64_t numbered_copy_ns = 1'000'000;
/// And of an acknowledgement: later, it was sent again.
constexpr std::int64_t acknowledgement_copy_ns = 20'000;
/// A missing response that implies a NAK has its READ sent again this soon after the response that shows it; later, a
/// timer did it.
constexpr std::int64_t implied_ns = 3'900'000;
/// The same where the capture lacks the response too, so that there is less doubt.
constexpr std::int64_t missing_ns = 20'000'000;
/// Less silence than this is no expired timer.
constexpr std::int64_t shortest_timeout_ns = 100'000;
/// A packet and its answer can be captured in the wrong order; not by more than this.
constexpr std::int64_t disorder_ns = 500'000;
/// A gap in what a service without acknowledgements sends counts as lost after so many packets.
constexpr std::size_t unacknowledged_patience = 16;
/// Missing responses that were not asked for again after this time, or this many messages, were not missing to the
/// requester.
constexpr std::int64_t response_patience_ns = 1'000'000'000;
constexpr std::size_t response_patience = 64;
/// A NAK is obeyed this soon.
constexpr std::int64_t obeyed_ns = 1'000'000;
/// Acknowledgements of what was sent again come this soon.
constexpr std::int64_t again_ns = 5'000'000;
/// New requests so long after a response that shows another one to be missing.
constexpr std::int64_t goes_on_ns = 100'000'000;
/// One direction alone: messages and packets that are kept.
constexpr std::size_t alone_messages = 32, alone_packets = 256;

MessageKind kind_of(Operation operation) {
  switch (operation) {
    case Operation::send: return MessageKind::send;
    case Operation::rdma_write: return MessageKind::write;
    case Operation::rdma_read_request: return MessageKind::read;
    case Operation::compare_swap: return MessageKind::compare_swap;
    case Operation::fetch_add: return MessageKind::fetch_add;
    case Operation::flush: return MessageKind::flush;
    case Operation::atomic_write: return MessageKind::atomic_write;
    default: return MessageKind::other;
  }
}

bool acknowledged_service(const Connection& connection) {
  return connection.service == Service::rc || connection.service == Service::xrc;
}

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
    // An answer can be captured before what it answers.
    const std::int64_t latency = std::max<std::int64_t>(message.answer_time - message.start, 0);
    ++sent.latency_count;
    sent.latency_sum += latency;
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

bool Requester::can_continue(Psn psn) const {
  // What was said of the first PSN can be of another time: the first request says it.
  return !started_ || expected_ || near(psn);
}

bool Requester::near(Psn psn) const {
  const std::int32_t ahead = psn - window_.next;
  const std::int32_t behind = window_.oldest - psn;
  return ahead < far && behind < far;
}

void Requester::fetch_state(bool response) const {
  fetch_between(this, reinterpret_cast<const char*>(&round_) + 1);
  fetch(&refusal_);
  fetch(&filler_);
  fetch(&unanswered_again_);
  if (response) fetch(&last_ack_, sizeof(last_ack_));
  fetch_between(&ack_frame_, this + 1);
}

// A request writes behind the last packet and may drop the first one; a response looks at the last few.
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
  return packets_.octets() + waiting_.octets() +
         (trouble_ ? sizeof(Trouble) + trouble_->ahead.size() * sizeof(TransportPacket) : 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// What was sent

// Of an MTU that is not known yet the largest: then the next request's PSN is never taken for an earlier one.
std::uint32_t Requester::psns_of(const TransportPacket& packet, const Connection& connection) const {
  if (packet.op->operation != Operation::rdma_read_request) return 1;
  // More than half of the ring cannot be outstanding, whatever a damaged length says.
  return std::min(machines::psns_of_read(packet.length, connection.mtu ? connection.mtu : 4096), Psn::half - 1);
}

// A READ whose length the capture cut off: the next request, and its own responses, tell how many PSNs it takes.
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

// The PSN that follows a READ request tells how many packets its response has, and so the MTU.
void Requester::learn_mtu(const TransportPacket& packet, Connection& connection) {
  if (packets_.empty() || waiting_.empty()) return;
  SentPacket& last = packets_.back();
  Waiting& read = waiting_.back();
  if (!read.read || read.unmeasured || !last.seen || read.first != last.psn || last.end() != window_.next) return;
  for (std::uint32_t mtu : {4096U, 2048U, 1024U, 512U, 256U}) {
    const std::uint32_t psns = machines::psns_of_read(static_cast<std::uint32_t>(read.message.size), mtu);
    if (packet.psn != last.psn + psns) continue;
    if (psns == last.psns) return;  // an MTU beyond is as good
    connection.mtu = mtu_ = mtu;
    last.psns = psns;
    window_.next = delivered_ = read.end = last.end();
    read.message.last_psn = (read.end - 1).value();
    return;
  }
}

// The MTU is known now: the last READ request takes as many PSNs as it says.
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
  // Without gaps and reads the distance is the index.
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
  if (started_ && expected_ && !near(packet.psn)) started_ = false;
  expected_ = false;
  if (!started_) {
    started_ = true;
    window_ = {packet.psn, packet.psn};
    first_ = delivered_ = packet.psn;
    sequence_known_ = false;
  }
  if (trouble_) settle_unsent(packet, to);
  if (packet.psn - window_.next > 0) measure_read(packet.psn);
  // It goes on with new requests for long: it misses nothing.
  if (Waiting* stuck = waiting_.empty() || !waiting_.front().read ? nullptr : blocking();
      stuck && stuck->skipped_frame != 0 && packet.time - stuck->skipped_time > goes_on_ns &&
      packet.psn - window_.next >= 0)
    unblock(*stuck, to);
  const bool is_fresh = packet.psn - window_.next >= 0;
  if (to.note) {
    to.note->relative_psn = (packet.psn - static_cast<std::int64_t>(first_.value())).value();
    to.note->again = !is_fresh;
  }
  if (trouble_ && !trouble_->notifications.empty()) measure_rate(packet, to);
  if (is_fresh)
    fresh(packet, psns, to);
  else
    again(packet, psns, to);
  if (!acknowledged || (!to.joined && window_.outstanding() > alone_packets) || window_.outstanding() >= Psn::half)
    window_.oldest = window_.next;
  most_outstanding_ = std::max(most_outstanding_, window_.outstanding());
  last_time_ = packet.time;
  last_frame_ = packet.frame;
  if (trouble_ && trouble_->unsent && trouble_->unsent->psn - window_.next < 0) {
    const TransportPacket answer = *trouble_->unsent;
    trouble_->unsent.reset();
    response(answer, to);
  }
  if (to.note) {
    to.note->outstanding = window_.outstanding();
    to.note->requester = to.end;
    if (const Waiting* waiting = waiting_of(packet.psn)) to.note->message = waiting->message.number;
  }
}

void Requester::fresh(const TransportPacket& packet, std::uint32_t psns, const Reporter& to) {
  if (round_.active) end_round(to);
  if (filler_.active) settle_filler(false, to);
  const std::int32_t missing = packet.psn - window_.next;
  if (missing > 0) {
    SentPacket gap;
    gap.psn = window_.next;
    gap.psns = static_cast<std::uint32_t>(missing);
    gap.frame = last_frame_;  // of the packet before it
    gap.time = gap.first_time = packet.time;
    packets_.push_back(gap);
    gap_ = true;
  }
  if (packet.identification == last_identification_)
    other_identifications_ = 0;
  else if (other_identifications_ < UINT8_MAX)
    ++other_identifications_;
  last_identification_ = packet.identification;
  SentPacket& sent = packets_.push_back({});
  sent.psn = packet.psn;
  sent.psns = psns;
  sent.frame = packet.frame;
  sent.time = sent.first_time = packet.time;
  sent.payload = packet.payload;
  sent.icrc = packet.icrc;
  sent.identification = packet.identification;
  sent.opcode = packet.op->value;
  sent.seen = true;
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

// A packet of the gap at `at` has come: what is left of the gap stays one, before and behind it.
void Requester::fill(std::size_t at, const TransportPacket& packet, std::uint32_t psns) {
  const SentPacket gap = packets_[at];
  SentPacket sent = gap;
  sent.psn = packet.psn;
  sent.psns = std::min(psns, static_cast<std::uint32_t>(gap.end() - packet.psn));
  sent.frame = packet.frame;
  sent.time = sent.first_time = packet.time;
  sent.payload = packet.payload;
  sent.icrc = packet.icrc;
  sent.identification = packet.identification;
  sent.opcode = packet.op->value;
  sent.seen = sent.late = true;
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

void Requester::again(const TransportPacket& packet, std::uint32_t psns, const Reporter& to) {
  const std::size_t at = index_of(packet.psn);
  SentPacket known;
  if (at < packets_.size()) known = packets_[at];
  if (to.note && known.seen) {
    to.note->related_frame = known.frame;
    to.note->related_delay = packet.time - known.first_time;
  }
  // A NAK of what the round has not come to yet changes nothing.
  const bool refused_here =
      refusal_.active && packet.psn == refusal_.psn && !(round_.active && packet.psn == round_.next);
  const bool continues = round_.active && !refused_here && packet.psn - round_.next >= 0;

  const bool fills = at < packets_.size() && !known.seen;
  if (fills) {
    if (continues) {
      if (filler_.active) settle_filler(true, to);
    } else if (filler_.active && packet.psn == filler_.next) {
      filler_.next = packet.psn + psns;
      ++filler_.event.packets;
      filler_.event.octets += packet.payload;
      filler_.event.last_frame = packet.frame;
    } else {
      if (filler_.active) settle_filler(false, to);
      if (round_.active) end_round(to);
      filler_ = {true,
                 packet.psn,
                 packet.psn + psns,
                 packet.psn + psns,
                 event_of(EventKind::out_of_order, Cause::none, packet, to),
                 known};
      filler_.event.origin_frame = known.frame;
      filler_.event.duration = packet.time - known.time;
      filler_.event.octets = packet.payload;
    }
  } else if (filler_.active) {
    // Going on behind it: it was sent again. Going back before it, or to what a NAK says that knows of it: it was late.
    const bool known_to_peer = refused_here && !refusal_.rnr && refusal_.psn - filler_.psn > 0;
    settle_filler(packet.psn - filler_.next >= 0 && !known_to_peer, to);
  }

  bool first_of_round = false;
  if (!filler_.active) {
    if (round_.active && !refused_here && packet.psn - round_.next >= 0) {
      round_.copy &= is_copy(packet, known);
      ++round_.event.packets;
      round_.event.octets += packet.payload;
      round_.event.last_frame = packet.frame;
      round_.next = packet.psn + psns;
    } else {
      if (round_.active) end_round(to);
      believe_progress(packet.psn, to);
      begin_round(packet, psns, known, to);
      first_of_round = true;
    }
    if (refusal_.active && packet.psn == refusal_.psn) end_refusal(to, &packet);
    if (Waiting* waiting = waiting_of(packet.psn)) {
      ++waiting->message.repeated_packets;
      if (waiting->atomic) waiting->tell_order = false;
      // It asks for what is missing, and gets everything from there on.
      if (waiting->read && packet.op->operation == Operation::rdma_read_request) {
        waiting->next_response = waiting->seen = waiting->beyond = packet.psn;
        waiting->skipped_frame = waiting->ahead_frame = 0;
        waiting->answered = false;
        waiting->tell_order = false;
      }
      if (first_of_round && (waiting->read || waiting->atomic)) drop_answers_behind(*waiting);
    }
  }

  if (fills && to.connection.mtu == 0 && packet.op->operation == Operation::rdma_read_request) {
    // The gap tells how many packets its response has.
    for (std::uint32_t mtu : {4096U, 2048U, 1024U, 512U, 256U})
      if (machines::psns_of_read(packet.length, mtu) == known.psns && known.psn == packet.psn && psns != known.psns) {
        to.connection.mtu = mtu_ = mtu;
        psns = known.psns;
        if (filler_.active) filler_.next = filler_.first_end = packet.psn + psns;
        if (round_.active) round_.next = packet.psn + psns;
        break;
      }
  }
  if (fills) {
    if (!filler_.active && !known.told) {
      lost_before_capture(packets_[at], packet.psn + psns, packet, to);
      packets_[at].told = true;
    }
    fill(at, packet, psns);
    auto& ahead = trouble().ahead;
    const auto place =
        std::partition_point(ahead.begin(), ahead.end(), [&](const TransportPacket& p) { return p.psn <= packet.psn; });
    ahead.insert(place, packet);
    deliver_what_waited(to);
    if (ahead.size() >= max_ahead) give_up_gap(ahead.front().psn - 1, false, 0, to);
  } else if (at < packets_.size()) {
    packets_[at].time = packet.time;
  }
  again_time_ = packet.time;
}

// A gap that is filled by sending again was a loss before the capturing point. `filled`: one behind the packet that
// does.
void Requester::lost_before_capture(const SentPacket& gap, Psn filled, const TransportPacket& packet,
                                    const Reporter& to) {
  Event lost = event_of(EventKind::lost_in_network, Cause::before_capture, packet, to);
  if (gap.refused_frame != 0) {
    lost.frame = lost.cause_frame = gap.refused_frame;
    lost.time = gap.refused_time;
  }
  lost.origin_frame = gap.frame;
  lost.psn = gap.psn.value();
  // A READ takes many PSNs and is one packet.
  const std::int32_t rest = gap.end() - filled;
  lost.packets = filled - packet.psn > 1 ? 1 + static_cast<std::uint64_t>(std::max(rest, 0)) : gap.psns;
  to.requester().lost_in_network += static_cast<std::uint32_t>(lost.packets);
  to.tell(lost);
}

void Requester::begin_round(const TransportPacket& packet, std::uint32_t psns, const SentPacket& known,
                            const Reporter& to) {
  Event event = event_of(EventKind::retransmission, Cause::unknown, packet, to);
  event.origin_frame = known.frame;
  event.octets = packet.payload;
  const std::int64_t before = known.time ? known.time : last_time_;
  event.duration = packet.time - before;
  Waiting* waiting = waiting_of(packet.psn);
  constexpr std::int32_t lost_again = 64;  // the first packets sent again can be lost before the capturing point
  const bool at_refusal = refusal_.active && packet.psn - refusal_.psn < lost_again;

  Event lost = event_of(EventKind::lost_in_network, Cause::before_capture, packet, to);
  bool tell_lost = false;
  const bool soon = packet.time - response_time_ < implied_ns;
  const bool response_missing =
      waiting && (waiting->read || waiting->atomic) && !waiting->done &&
      ((waiting->skipped_frame != 0 && packet.psn - waiting->seen >= 0 && packet.time - response_time_ < missing_ns) ||
       (soon && (waiting->skipped_frame != 0 || waiting->beyond - packet.psn > 1)));
  // Going back further than a NAK asks is for a response that is missing.
  if (at_refusal && !refusal_.rnr && (!response_missing || packet.psn - refusal_.psn >= 0)) {
    event.cause = Cause::sequence_error_nak;
    event.cause_frame = refusal_.frame;
    refusal_.active = false;
  } else if (at_refusal && refusal_.rnr) {
    event.cause = Cause::rnr;
    event.cause_frame = refusal_.frame;
    event.value = refusal_.event.value;
    event.found = static_cast<std::uint64_t>(packet.time - refusal_.time);
    end_refusal(to, &packet);
  } else if (obeyed_late_.frame != 0 && packet.time - obeyed_late_.time < obeyed_ns && known.time < obeyed_late_.time &&
             packet.psn - obeyed_late_.psn >= 0 && packet.psn - obeyed_late_.psn < lost_again) {
    // The NAK was on its way when an acknowledgement overtook what it said.
    event.cause = Cause::sequence_error_nak;
    event.cause_frame = obeyed_late_.frame;
    obeyed_late_.frame = 0;
  } else if (response_missing) {
    event.cause = Cause::implied_nak;
    event.cause_frame = waiting->skipped_frame ? waiting->skipped_frame : frame_of_response(packet.psn + 1);
    tell_lost = true;
    lost.origin_frame = waiting->message.first_frame;
    lost.cause_frame = event.cause_frame;
    if (packet.psn - waiting->seen >= 0)
      lost.packets = static_cast<std::uint64_t>(std::max(waiting->gap_end - packet.psn, 1));
    else if (packet.psn - waiting->next_response < 0)
      lost.cause = Cause::after_capture;
    else
      tell_lost = false;  // it came, out of order, and was dropped
  } else if (const Operation what = opcode(known.opcode).operation;
             soon && known.seen && (known.beyond_frame != 0 || known.end() - packet.psn > 1) &&
             window_.oldest - packet.psn > 0 &&
             (what == Operation::rdma_read_request || what == Operation::compare_swap ||
              what == Operation::fetch_add)) {
    // It was answered where the capture was taken; the requester saw the next answer, and misses this one.
    event.cause = Cause::implied_nak;
    event.cause_frame = known.end() - packet.psn > 1 ? frame_of_response(packet.psn + 1) : known.beyond_frame;
    tell_lost = true;
    lost.cause = Cause::after_capture;
    lost.origin_frame = known.frame;
    lost.cause_frame = event.cause_frame;
  } else if (window_.oldest - packet.psn > 0) {
    event.cause = Cause::spurious;
    event.cause_frame = ack_frame_;
  } else if (packet.time - before >= (to.joined ? shortest_timeout_ns : copy_ns * 2)) {
    event.cause = Cause::timeout;
  }
  if (tell_lost) {
    to.responder().lost_in_network += static_cast<std::uint32_t>(lost.packets);
    to.tell(lost);
  }

  round_.active = true;
  round_.event = event;
  round_.next = packet.psn + psns;
  round_.copy = is_copy(packet, known) &&
                (event.cause == Cause::unknown || event.cause == Cause::spurious || event.cause == Cause::timeout);
}

bool Requester::is_copy(const TransportPacket& packet, const SentPacket& known) const {
  return known.seen && known.icrc == packet.icrc && known.identification == packet.identification &&
         packet.time - known.time < (numbers_packets() ? numbered_copy_ns : copy_ns);
}

void Requester::end_round(const Reporter& to) {
  round_.active = false;
  Event& event = round_.event;
  Sent& sent = to.requester();
  if (again_until_ != 0) unanswered_again_ = 0;
  again_until_ = 0;
  again_end_ = window_.next;
  // Of what the responder has had already, each packet draws an acknowledgement; after a NAK it had dropped them.
  if (event.cause != Cause::sequence_error_nak && event.cause != Cause::rnr)
    unanswered_again_ += static_cast<std::uint32_t>(event.packets);
  // The network copies packets one by one; a requester goes back and sends on, but not with the same numbers.
  if (round_.copy && (event.packets == 1 || numbers_packets())) {
    event.kind = EventKind::duplicate;
    event.cause = Cause::none;
    event.cause_frame = 0;
    sent.duplicates += static_cast<std::uint32_t>(event.packets);
  } else {
    ++sent.rounds;
    sent.packets_again += event.packets;
    sent.octets_again += event.octets;
  }
  to.tell(event);
}

void Requester::settle_filler(bool sent_again, const Reporter& to) {
  filler_.active = false;
  Event& event = filler_.event;
  if (!sent_again) {
    // The responder dropped what had come before it.
    for (std::size_t i = packets_.size(); i-- > 0 && packets_[i].psn - filler_.psn > 0;)
      packets_[i].behind_late |= packets_[i].frame < event.frame;
    to.requester().out_of_order += static_cast<std::uint32_t>(event.packets);
    to.tell(event);
    return;
  }
  // It was the beginning of a round.
  TransportPacket first;
  first.frame = event.frame;
  first.time = event.time;
  first.psn = filler_.psn;
  first.payload = static_cast<std::uint32_t>(event.octets);
  SentPacket gap = filler_.gap;
  // What is left of the gap behind it was lost too.
  if (SentPacket* rest = find(filler_.next); rest && !rest->seen) rest->told = true;
  begin_round(first, 1, gap, to);
  if (!gap.told) lost_before_capture(gap, filler_.first_end, first, to);
  round_.event.packets = event.packets;
  round_.event.last_frame = event.last_frame;
  round_.next = filler_.next;
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages

void Requester::deliver(const TransportPacket& packet, const Reporter& to) {
  const Opcode& op = *packet.op;
  const Psn end = packet.psn + psns_of(packet, to.connection);
  if (sequence_known_ && !sequence_.allows(op)) {
    Event event = event_of(EventKind::opcode_sequence, Cause::none, packet, to);
    event.origin_frame = last_frame_;
    event.value = op.value;
    to.tell(event);
  }
  if (op.begins_message() || !open_) {
    if (open_) {
      // Its last packet never came.
      waiting_.back().message.outcome = Outcome::partial;
      waiting_.back().whole = true;
    }
    if (waiting_.size() >= max_waiting) {
      Waiting& oldest = waiting_.front();
      if (!oldest.done) {
        if (!oldest.answered) oldest.message.outcome = Outcome::unanswered;
        to.tell(oldest.message);
        if ((oldest.read || oldest.atomic) && reads_out_ > 0) --reads_out_;
      }
      waiting_.pop_front();
    }
    Waiting& waiting = waiting_.push_back({});
    Message& m = waiting.message;
    m.kind = kind_of(op.operation);
    m.number = ++messages_;
    m.outcome = op.begins_message() ? Outcome::completed : Outcome::partial;
    if (!op.begins_message()) ++epoch_;
    m.first_psn = packet.psn.value();
    m.first_frame = packet.frame;
    m.start = packet.time;
    m.has_remote = packet.has_reth || packet.has_atomic;
    m.remote_address = packet.address;
    m.key = packet.key;
    m.atomic_operand = packet.operand;
    m.atomic_compare = packet.compare;
    if (packet.has_reth) m.size = packet.length;
    if (packet.has_atomic) m.size = 8;
    waiting.first = waiting.next_response = waiting.seen = waiting.beyond = packet.psn;
    waiting.read = m.kind == MessageKind::read;
    waiting.unmeasured = waiting.read && !packet.has_reth;
    waiting.atomic = m.kind == MessageKind::compare_swap || m.kind == MessageKind::fetch_add;
    Sent& sent = to.requester();
    ++sent.messages[static_cast<std::size_t>(m.kind)];
    if (m.has_remote) sent.message_octets += m.size;
    if (waiting.read || waiting.atomic) {
      ++reads_out_;
      if (read_limit_ != 0 && reads_out_ > read_limit_ && !read_limit_told_) {
        read_limit_told_ = true;
        Event event = event_of(EventKind::read_limit, Cause::none, packet, to);
        event.value = read_limit_;
        event.found = reads_out_;
        to.tell(event);
      }
    }
  }
  Waiting& waiting = waiting_.back();
  Message& m = waiting.message;
  ++m.packets;
  if (!m.has_remote) {
    m.size += packet.payload;
    to.requester().message_octets += packet.payload;
  }
  m.solicited |= packet.solicited;
  // Its packets come here in the order of their PSNs, not always in the capture's.
  m.first_frame = std::min(m.first_frame, packet.frame);
  m.start = std::min(m.start, packet.time);
  m.last_frame = std::max(m.last_frame, packet.frame);
  m.end_time = std::max(m.end_time, packet.time);
  waiting.end = end;
  m.last_psn = (end - 1).value();
  if (op.immediate) {
    m.has_immediate = true;
    m.immediate = packet.immediate;
  }
  if (op.invalidate) {
    m.has_invalidate = true;
    m.invalidated_key = packet.invalidated_key;
  }
  const std::uint32_t mtu = to.connection.mtu;
  if (mtu != 0 && op.payload && !machines::fits(op, packet.payload, mtu)) {
    Event event = event_of(EventKind::segmentation, Cause::none, packet, to);
    event.value = mtu;
    event.found = packet.payload;
    event.octets = packet.payload;
    to.tell(event);
  }
  delivered_ = end;
  sequence_ = sequence_.after(op);
  sequence_known_ = true;
  open_ = !op.ends_message();
  waiting.whole = !open_;
  if (open_) return;
  const bool alone = acknowledged_service(to.connection) && !to.joined;
  if (!acknowledged_service(to.connection) || alone) {
    if (alone && waiting_.size() <= alone_messages) return;
    // Nothing will acknowledge it, or nothing that could be known for it.
    Waiting& oldest = waiting_.front();
    if (!oldest.done) {
      if (oldest.message.outcome == Outcome::completed) oldest.message.outcome = Outcome::sent;
      to.tell(oldest.message);
      if (oldest.read || oldest.atomic) --reads_out_;
    }
    waiting_.pop_front();
  }
}

void Requester::deliver_what_waited(const Reporter& to) {
  auto& ahead = trouble_->ahead;
  std::size_t delivered = 0;
  while (delivered < ahead.size()) {
    const std::int32_t distance = ahead[delivered].psn - delivered_;
    if (distance > 0) break;
    if (distance == 0) deliver(ahead[delivered], to);
    ++delivered;
  }
  ahead.erase(ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(delivered));
  if (ahead.empty()) {
    gap_ = delivered_ - window_.next < 0;
    ahead.shrink_to_fit();
  }
}

// Everything up to and with `through` that was not seen will not be seen. `answered`: the responder had it.
void Requester::give_up_gap(Psn through, bool answered, std::uint64_t cause_frame, const Reporter& to) {
  if (filler_.active) settle_filler(false, to);
  auto& ahead = trouble().ahead;
  std::size_t at = index_of(delivered_);
  while (gap_ && at < packets_.size() && packets_[at].psn - through <= 0) {
    SentPacket& gap = packets_[at++];
    if (gap.seen) continue;
    std::uint32_t lost = gap.psns;
    if (gap.end() - through > 1) {
      // Only the beginning of the gap is told.
      lost = static_cast<std::uint32_t>(through + 1 - gap.psn);
      SentPacket rest = gap;
      rest.psn = through + 1;
      rest.psns = gap.psns - lost;
      gap.psns = lost;
      packets_.insert(at, rest);
    }
    SentPacket& told = packets_[at - 1];
    Event event;
    event.kind = answered                  ? EventKind::lost_in_capture
                 : told.refused_frame != 0 ? EventKind::lost_in_network
                                           : EventKind::psn_gap;
    if (event.kind == EventKind::lost_in_network) event.cause = Cause::before_capture;
    event.end = to.end;
    event.origin_frame = told.frame;
    event.time = told.time;
    event.psn = told.psn.value();
    event.packets = lost;
    event.cause_frame = cause_frame;
    // It shows with the packet behind it.
    event.frame = at < packets_.size() && packets_[at].seen ? packets_[at].frame : cause_frame;
    if (event.frame == 0) event.frame = told.frame != 0 ? told.frame : last_frame_;
    if (answered) to.requester().lost_in_capture += lost;
    to.tell(event);
    told.seen = true;
    told.late = true;
    told.frame = 0;
    // The message that was open may have ended in the gap.
    if (open_) {
      waiting_.back().message.outcome = Outcome::partial;
    }
    sequence_known_ = false;
    ++epoch_;
    delivered_ = told.end();
    if (open_) waiting_.back().end = delivered_;
    if (!ahead.empty() && ahead.front().psn == delivered_ && ahead.front().op->begins_message() && open_) {
      waiting_.back().whole = true;
      open_ = false;
    }
    deliver_what_waited(to);
    at = index_of(delivered_);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What was answered

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
  if (to.note) {
    to.note->relative_psn = (packet.psn - static_cast<std::int64_t>(first_.value())).value();
    to.note->requester = to.end;
    if (const Waiting* waiting = waiting_of(packet.psn)) to.note->message = waiting->message.number;
    if (const SentPacket* request = find(packet.psn); request && request->seen && request->frame) {
      to.note->related_frame = request->frame;
      to.note->related_delay = packet.time - request->time;
    }
  }
  last_time_ = packet.time;
  last_frame_ = packet.frame;
  response_time_ = packet.time;
  const std::uint8_t kind = packet.syndrome >> 5 & 3;
  const bool negative = packet.op->operation == Operation::acknowledge && kind != syndrome_kind::ack;
  if (place == machines::ResponsePlace::unsent && !(negative && packet.psn == window_.next)) {
    unseen_request(packet, to);
    return;
  }
  ++to.connection.agreeing;
  mark_answered(packet);
  switch (packet.op->operation) {
    case Operation::acknowledge:
      if (negative) {
        refused(packet, to);
      } else {
        credit_ = packet.syndrome & 31;
        constexpr std::uint8_t unused = 31;
        credits_used_ |= credit_ != 0 && credit_ != unused;
        acknowledge(packet.psn, packet, to);
      }
      break;
    case Operation::atomic_acknowledge: {
      Waiting* waiting = waiting_of(packet.psn);
      if (waiting && waiting->atomic && !waiting->done) {
        waiting->message.atomic_original = packet.operand;
        if (waiting->ahead_frame != 0 && waiting->tell_order) late_answer(*waiting, packet, to);
        waiting->seen = waiting->beyond = waiting->end;
        if (blocking() == waiting) waiting->next_response = waiting->end;
      }
      acknowledge(packet.psn, packet, to);
      break;
    }
    case Operation::rdma_read_response: read_response(packet, to); break;
    default: break;
  }
  if (to.note) to.note->outstanding = window_.outstanding();
}

// Of everything that was sent before what is answered now: something behind it was answered.
void Requester::mark_answered(const TransportPacket& packet) {
  if (packets_.empty() || packet.psn - packets_.front().psn < 0) return;  // of what was forgotten
  for (std::size_t i = std::min(index_of(packet.psn), packets_.size()); i-- > 0;) {
    if (packets_[i].beyond_frame != 0) return;
    packets_[i].beyond_frame = packet.frame;
  }
}

void Requester::complete(Waiting& waiting, const TransportPacket& packet, const Reporter& to) {
  waiting.done = true;
  Message& m = waiting.message;
  m.answer_frame = packet.frame;
  m.answer_time = packet.time;
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
    if (packet.op->operation != Operation::acknowledge) {
      // A READ's or atomic's answer once more.
    } else if (same && last_ack_.icrc == packet.icrc && last_ack_.identification == packet.identification &&
               packet.time - last_ack_.time < acknowledgement_copy_ns && !round_.active && !excused) {
      Event event = event_of(EventKind::duplicate, Cause::none, packet, to);
      event.origin_frame = last_ack_.frame;
      event.duration = packet.time - last_ack_.time;
      ++to.responder().duplicates;
      to.tell(event);
    } else if (excused) {
      --unanswered_again_;  // each packet that is sent again draws an acknowledgement
    } else if (!round_.active && (!same || last_ack_.syndrome == packet.syndrome)) {
      // Another syndrome: it brings new credits. 9.7.7.2
      Event event = event_of(EventKind::ghost_acknowledgement, Cause::none, packet, to);
      event.origin_frame = ack_frame_;
      to.tell(event);
    }
    last_ack_ = packet;
    return;
  }
  // What filled a gap was late: were it sent again, more would follow it at once.
  if (filler_.active && through - filler_.psn >= 0) settle_filler(false, to);
  if (gap_ && through - delivered_ >= 0) give_up_gap(through, true, packet.frame, to);
  bool blocked = false;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (waiting.first - through > 0) break;
    if (waiting.done || !waiting.whole || waiting.end - through > 1) continue;
    if ((waiting.read || waiting.atomic) && waiting.next_response != waiting.end) {
      // Its own response is missing: this one implies a NAK. IBTA vol 1, 9.7.5.1.2, 9.7.6 (number unverified).
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
  window_ = window_.acknowledged(through);
  ack_frame_ = packet.frame;
  if (packet.op->operation == Operation::acknowledge) last_ack_ = packet;
  if (refusal_.active && through - refusal_.psn >= 0) end_refusal(to, nullptr);
  // Acknowledgements come in order, but for a little.
  if (unanswered_again_ != 0 && again_until_ == 0 && through - again_end_ >= 0)
    again_until_ = packet.time + acknowledgement_copy_ns;
  if (packet.op->operation != Operation::rdma_read_response && (packet.syndrome >> 5 & 3) == syndrome_kind::ack &&
      packet.has_aeth)
    check_msn(packet, to);
  drop_done();
  // Responses that were never asked for again had come to the requester.
  if (Waiting* stuck = blocking();
      stuck && stuck->skipped_frame != 0 &&
      (waiting_.size() > response_patience || packet.time - stuck->skipped_time > response_patience_ns))
    unblock(*stuck, to);
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

// The first READ or atomic whose response is missing: the requester takes no later answer before it.
Requester::Waiting* Requester::blocking() {
  if (reads_out_ == 0) return nullptr;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (!waiting.done && (waiting.read || waiting.atomic)) return &waiting;
  }
  return nullptr;
}

// A requester that asks again for `from` has dropped all answers to what it had sent after it.
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

// The requester goes back to `psn` and no further: what it would have had to ask for before it, it had.
void Requester::believe_progress(Psn psn, const Reporter& to) {
  for (Waiting* stuck = blocking(); stuck && stuck->skipped_frame != 0 && psn - stuck->end >= 0; stuck = blocking())
    unblock(*stuck, to);
}

// What the capture does not have of the responses, the requester had: and so all that came behind them.
void Requester::unblock(Waiting& stuck, const Reporter& to) {
  if (stuck.seen != stuck.end) {
    Event event;
    event.kind = EventKind::lost_in_capture;
    event.end = to.end;
    // It shows with a response behind the missing ones or, where those were the last, with what made it wait.
    event.frame = stuck.ahead_frame != 0 ? stuck.ahead_frame : stuck.skipped_frame;
    event.time = stuck.ahead_frame != 0 ? stuck.ahead_time : stuck.skipped_time;
    event.origin_frame = stuck.message.first_frame;
    event.cause_frame = event.frame;
    event.psn = stuck.seen.value();
    event.packets = static_cast<std::uint64_t>(std::max(stuck.gap_end - stuck.seen, 1));
    to.responder().lost_in_capture += static_cast<std::uint32_t>(event.packets);
    to.tell(event);
  }
  stuck.answered = true;
  stuck.skipped_frame = 0;  // it is judged, though what stands before it may keep it
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (waiting.done) continue;
    if (!waiting.answered) break;
    // Its responses came out of order: then the requester asks for it again.
    if (&waiting != &stuck && waiting.read && waiting.next_response != waiting.end) break;
    waiting.done = true;
    if ((waiting.read || waiting.atomic) && reads_out_ > 0) --reads_out_;
    window_ = window_.acknowledged(waiting.end - 1);
    to.tell(waiting.message);
  }
  drop_done();
}

// The responder's MSN counts the messages it has completed. IBTA vol 1, 9.7.7.1.
void Requester::check_msn(const TransportPacket& packet, const Reporter& to) {
  // Those that wait are in the order of their PSNs; only the last of them can lack its end.
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

std::uint64_t Requester::frame_of_response(Psn psn) const {
  if (!seen_responses_) return 0;
  const SeenResponse& seen = (*seen_responses_)[psn.value() % seen_responses_->size()];
  return seen.psn == psn ? seen.frame : 0;
}

// What the capture has seen of a READ's responses, whatever the requester made of them.
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
  ++to.responder().out_of_order;
  to.tell(event);
}

void Requester::read_response(const TransportPacket& packet, const Reporter& to) {
  if (packet.op->position != Position::only) {
    if (!seen_responses_) seen_responses_ = std::make_unique<std::array<SeenResponse, 64>>();
    (*seen_responses_)[packet.psn.value() % seen_responses_->size()] = {packet.psn, packet.frame};
  }
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
  // What was asked for again was missing to the requester: it takes nothing before that.
  const bool dropped = first != waiting && !first->tell_order;
  if (!dropped && packet.psn == waiting->next_response) {
    // What had come ahead the requester dropped; of what it asked for again, what is missing shows anew.
    waiting->next_response += 1;
    if (!waiting->tell_order) waiting->skipped_frame = 0;
  } else if (packet.psn - waiting->next_response > 0 && waiting->skipped_frame == 0) {
    waiting->skipped_frame = packet.frame;
    waiting->skipped_time = packet.time;
  }
  if (first != waiting) {
    // An earlier response is missing: the requester drops this one, unless the capture alone lacks the other.
    for (std::size_t i = 0; i < waiting_.size() && &waiting_[i] != waiting && !dropped; ++i)
      if (Waiting& w = waiting_[i]; !w.done && (w.read || w.atomic) && w.seen != w.end) skipped(w, packet);
    skipped(*first, packet);
    if (waiting->seen == waiting->end) {
      window_ = window_.acknowledged(waiting->end - 1);
      ack_frame_ = packet.frame;
    }
    if (waiting_.size() > response_patience || packet.time - first->skipped_time > response_patience_ns)
      unblock(*first, to);
    return;
  }
  // Everything before this READ is acknowledged with it.
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

// `again`: the request that ends the wait; nullptr: something else does.
void Requester::end_refusal(const Reporter& to, const TransportPacket* again) {
  if (!refusal_.active) return;
  refusal_.active = false;
  if (!refusal_.rnr) {
    if (!again) obeyed_late_ = refusal_;
    return;
  }
  if (again) {
    refusal_.event.last_frame = again->frame;
    refusal_.event.duration = again->time - refusal_.time;
    refusal_.event.found = static_cast<std::uint64_t>(refusal_.event.duration);
  }
  to.tell(refusal_.event);
}

void Requester::refused(const TransportPacket& packet, const Reporter& to) {
  // It acknowledges what came before.
  if (window_.place(packet.psn - 1) == machines::ResponsePlace::outstanding) acknowledge(packet.psn - 1, packet, to);
  const std::uint8_t kind = packet.syndrome >> 5 & 3, code = packet.syndrome & 31;
  SentPacket* request = find(packet.psn);
  const bool seen = request && request->seen && request->frame != 0;
  const bool repeated =
      refusal_.active && refusal_.psn == packet.psn && refusal_.rnr == (kind == syndrome_kind::rnr_nak);
  if (kind == syndrome_kind::rnr_nak) {
    Event event = event_of(EventKind::rnr_nak, Cause::none, packet, to);
    event.origin_frame = seen ? request->frame : 0;
    event.value = rnr_timer_ns(code);
    end_refusal(to, nullptr);
    refusal_ = {true, true, packet.psn, packet.frame, packet.time, event};
    return;
  }
  if (kind != syndrome_kind::nak) return;
  Event event = event_of(EventKind::nak, cause_of_nak(code), packet, to);
  event.origin_frame = seen ? request->frame : 0;
  Waiting* waiting = waiting_of(packet.psn);
  if (waiting && code != nak_code::psn_sequence_error) {
    event.value = waiting->message.key;
    event.found = waiting->message.remote_address;
  }
  to.tell(event);
  if (code == nak_code::psn_sequence_error) {
    if (request && !request->seen) {
      // Told when it is sent again: then it shows how many packets it was.
      request->refused_frame = packet.frame;
      request->refused_time = packet.time;
    } else if (!repeated && request && !request->late && !request->behind_late) {
      Event lost = event_of(EventKind::lost_in_network, Cause::after_capture, packet, to);
      lost.origin_frame = request->frame;
      lost.cause_frame = packet.frame;
      ++to.requester().lost_in_network;
      to.tell(lost);
    }
    end_refusal(to, nullptr);
    refusal_ = {true, false, packet.psn, packet.frame, packet.time, {}};
    return;
  }
  if (waiting && !waiting->done) {
    waiting->message.outcome = Outcome::refused;
    waiting->message.nak_code = code;
    complete(*waiting, packet, to);
    drop_done();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What does not fit

void Requester::unseen_request(const TransportPacket& packet, const Reporter& to) {
  ++to.connection.contradicting;
  if (packet.psn - window_.next > far) {
    // No capture loses so much and goes on.
    Event event = event_of(EventKind::unsolicited_response, Cause::none, packet, to);
    to.tell(event);
    return;
  }
  Trouble& t = trouble();
  if (!t.unsent) t.first_unsent = packet;
  if (!t.unsent || packet.psn - t.unsent->psn > 0) t.unsent = packet;
}

// The next request tells whether the capture lacks requests, or shows them late, or the response answers nothing.
void Requester::settle_unsent(const TransportPacket& request, const Reporter& to) {
  Trouble& t = *trouble_;
  if (!t.unsent || request.psn - window_.next < 0) return;  // sent again: says nothing
  const TransportPacket unsent = *t.unsent;
  if (request.psn - window_.next > 0) {
    // What was answered was sent: the gap before this request is the capture's loss. What of it was answered later, or
    // was not, shows with the next response.
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
  if (request.time - t.first_unsent.time < disorder_ns) return;  // captured in the wrong order, as it seems
  Event event = event_of(EventKind::unsolicited_response, Cause::none, t.first_unsent, to);
  t.unsent.reset();
  to.tell(event);
}

Cause Requester::waited_for(const TransportPacket& packet) const {
  const std::uint32_t outstanding = window_.outstanding();
  if (packet.is_response()) {
    const std::uint8_t credit = packet.syndrome & 31;
    const bool credits =
        packet.op->operation == Operation::acknowledge && (packet.syndrome >> 5 & 3) == syndrome_kind::ack;
    constexpr std::uint8_t unused = 31;
    const bool update = credits && packet.psn == last_ack_.psn && packet.msn == last_ack_.msn;
    if (update && credit_ == 0 && credit != 0 && credit != unused) return Cause::credit;
    return outstanding > 0 ? Cause::peer : Cause::nothing_outstanding;
  }
  if (started_ && packet.psn - window_.next < 0) {
    // Sent again: retransmission tells what was waited for, unless it was the responder's wish.
    return refusal_.active && refusal_.rnr ? Cause::rnr : Cause::none;
  }
  if (credits_used_ && credit_ == 0) return Cause::credit;
  return outstanding > 0 && outstanding >= most_outstanding_ ? Cause::window : Cause::nothing_outstanding;
}

void Requester::notified(const TransportPacket& packet, const Reporter& to) {
  Notification n;
  n.event = event_of(EventKind::cnp, Cause::unknown, packet, to);
  constexpr std::size_t measured = 16;
  const std::size_t count = std::min(packets_.size(), measured);
  std::uint64_t octets = 0;
  std::int64_t first = 0, last = 0;
  for (std::size_t i = packets_.size() - count; i < packets_.size(); ++i) {
    if (!packets_[i].seen) continue;
    if (first == 0)
      first = packets_[i].time;
    else
      octets += packets_[i].payload + 1;
    last = packets_[i].time;
  }
  if (last > first) n.rate_before = static_cast<double>(octets) / static_cast<double>(last - first);
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
      n.octets_after += packet.payload + 1;
    if (++n.packets_after < measured) continue;
    const std::int64_t took = packet.time - n.first_after;
    if (n.rate_before > 0 && took > 0) {
      constexpr double fell = 0.8;
      const double rate = static_cast<double>(n.octets_after) / static_cast<double>(took);
      n.event.cause = rate < fell * n.rate_before ? Cause::rate_fell : Cause::rate_kept;
      n.event.value = static_cast<std::uint64_t>(n.rate_before * 8e9);
      n.event.found = static_cast<std::uint64_t>(rate * 8e9);
    }
    to.tell(n.event);
    ++settled;
  }
  notifications.erase(notifications.begin(), notifications.begin() + static_cast<std::ptrdiff_t>(settled));
}

void Requester::finish(const Reporter& to, std::int64_t end) {
  const Cause last_cause = round_.active ? round_.event.cause : Cause::none;
  const std::uint32_t rounds_before = to.requester().rounds;
  if (filler_.active) settle_filler(filler_.event.duration > 2 * copy_ns, to);
  if (round_.active) end_round(to);
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
  end_refusal(to, nullptr);
  for (Waiting* stuck = blocking(); stuck && stuck->skipped_frame != 0; stuck = blocking()) unblock(*stuck, to);
  const bool retried = last_cause == Cause::timeout && rounds_before >= 1;
  const bool silent = to.joined && last_time_ != 0 && end - last_time_ >= stall_ns && last_time_ != response_time_;
  if ((retried || silent) && acknowledged_service(to.connection) && window_.outstanding() > 0 && !waiting_.empty()) {
    Event event;
    event.kind = EventKind::unanswered;
    event.end = to.end;
    event.frame = waiting_.front().message.first_frame;
    // Of the last round, unless that was of messages before it.
    event.last_frame = std::max({event.frame, round_.event.frame, round_.event.last_frame});
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
      // Of a READ the last response may have come, and what was before it not.
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
