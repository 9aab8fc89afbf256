/// Builds messages from a requester's packets in PSN order.

#include <algorithm>

#include "dissectors/tracking/requester.hpp"
#include "dissectors/tracking/requester_limits.hpp"

namespace rdmawire::tracking {

using namespace requester_limits;

namespace {

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

}  // namespace

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
      // The last packet of the preceding message was not captured.
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
    waiting.guessed = (waiting.read && to.connection.mtu == 0) || packet.time <= paired_time_;
    waiting.atomic = m.kind == MessageKind::compare_swap || m.kind == MessageKind::fetch_add ||
                     m.kind == MessageKind::flush || m.kind == MessageKind::atomic_write;
    Sent& sent = to.requester();
    ++sent.messages[static_cast<std::size_t>(m.kind)];
    if (m.has_remote) sent.message_bytes += m.size;
    if (waiting.read || waiting.atomic) {
      ++reads_out_;
      if (read_limit_ != 0 && reads_out_ > read_limit_ && !read_limit_reported_) {
        read_limit_reported_ = true;
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
    to.requester().message_bytes += packet.payload;
  }
  m.solicited |= packet.solicited;
  // Packets are processed in PSN order, which can differ from capture order.
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
    event.bytes = packet.payload;
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
    // The oldest message can no longer be acknowledged.
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

// Gives up on PSNs up to and including `through` that were not captured. `answered`: the responder received them.
void Requester::give_up_gap(Psn through, bool answered, std::uint64_t cause_frame, const Reporter& to) {
  if (filler_->active) settle_filler(false, to);
  auto& ahead = trouble().ahead;
  std::size_t at = index_of(delivered_);
  while (gap_ && at < packets_.size() && packets_[at].psn - through <= 0) {
    SentPacket& gap = packets_[at++];
    if (gap.seen) continue;
    std::uint32_t lost = gap.psns;
    if (gap.end() - through > 1) {
      // Report only the first part of the gap.
      lost = static_cast<std::uint32_t>(through + 1 - gap.psn);
      SentPacket rest = gap;
      rest.psn = through + 1;
      rest.psns = gap.psns - lost;
      gap.psns = lost;
      packets_.insert(at, rest);
    }
    SentPacket& packet = packets_[at - 1];
    Event event;
    event.kind = answered                    ? EventKind::lost_in_capture
                 : packet.refused_frame != 0 ? EventKind::lost_in_network
                                             : EventKind::psn_gap;
    if (event.kind == EventKind::lost_in_network) {
      event.cause = Cause::before_capture;
      event.certainty = Certainty::likely;
      event.unobserved = Unobserved::arrival;
    }
    event.end = to.end;
    event.origin_frame = packet.frame;
    event.time = packet.time;
    event.psn = packet.psn.value();
    event.packets = lost;
    event.cause_frame = cause_frame;
    // The gap shows at the packet after it.
    event.frame = at < packets_.size() && packets_[at].seen ? packets_[at].frame : cause_frame;
    if (event.frame == 0) event.frame = packet.frame != 0 ? packet.frame : last_frame_;
    if (answered)
      trouble().undecided.add_in_capture(event);
    else
      to.tell(event);
    packet.seen = true;
    packet.late = true;
    packet.frame = 0;
    // The open message may have ended in the gap.
    if (open_) {
      waiting_.back().message.outcome = Outcome::partial;
    }
    sequence_known_ = false;
    ++epoch_;
    delivered_ = packet.end();
    if (open_) waiting_.back().end = delivered_;
    if (!ahead.empty() && ahead.front().psn == delivered_ && ahead.front().op->begins_message() && open_) {
      waiting_.back().whole = true;
      open_ = false;
    }
    deliver_what_waited(to);
    at = index_of(delivered_);
  }
}

}  // namespace rdmawire::tracking
