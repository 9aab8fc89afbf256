#include "dissectors/tracking/iwarp_tracker.hpp"

#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/iwarp_state.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::tracking {
namespace {

LowerLayerState below(const Packet& packet) {
  LowerLayerState b;
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  const std::uint8_t* bytes = stack.bytes.data();
  if (stack.network < layers.size()) {
    const Layer& network = layers[stack.network];
    if (network.header == &info<Ipv4>) {
      const View<Ipv4> ip(bytes + network.offset);
      b.identification = ip.get<"identification">();
      b.dscp = ip.get<"tos.dscp">();
      b.ecn = ip.get<"tos.ecn">();
    } else if (network.header == &info<Ipv6>) {
      const View<Ipv6> ip(bytes + network.offset);
      b.dscp = ip.get<"traffic_class.dscp">();
      b.ecn = ip.get<"traffic_class.ecn">();
    }
  }
  const Layer& layer = layers[stack.transport];
  const View<Tcp> tcp(bytes + layer.offset);
  b.checksum = tcp.get<"checksum">();
  if (layer.length <= Tcp::size) return b;
  const std::uint8_t* options = bytes + layer.offset + Tcp::size;
  // The usual layout of the timestamps option. RFC 7323, appendix A
  if (layer.length == Tcp::size + 12 && load_be<4>(options) == 0x0101080a) {
    b.timestamp = static_cast<std::uint32_t>(load_be<4>(options + 4));
    b.has_timestamp = true;
    return b;
  }
  const Parts parts = Tcp::parts(stack.bytes_of(layer));
  const std::uint32_t acknowledged = tcp.get<"ack_number">();
  for (std::size_t i = 0; i < parts.count; ++i) {
    const std::uint8_t* at = bytes + layer.offset + parts.layers[i].offset;
    if (parts.layers[i].header == &info<TcpTimestamps>) {
      b.timestamp = View<TcpTimestamps>(at).get<"value">();
      b.has_timestamp = true;
    } else if (parts.layers[i].header == &info<TcpSackBlock>) {
      // A block before the acknowledgement number reports duplicate bytes (D-SACK), and does not request a
      // retransmission. RFC 2883, 4
      const std::uint32_t right = View<TcpSackBlock>(at).get<"right">();
      b.selective |= static_cast<std::int32_t>(right - acknowledged) > 0;
    }
  }
  return b;
}

Arrival arrival_of(TcpLossTracker::Kind kind) {
  switch (kind) {
    case TcpLossTracker::Kind::again: return Arrival::retransmission;
    case TcpLossTracker::Kind::late: return Arrival::out_of_order;
    case TcpLossTracker::Kind::duplicate: return Arrival::duplicate;
    default: return Arrival::in_order;
  }
}

}  // namespace

// Connections ------------------------------------------------------------------------------------------------------

Tracked& IwarpTracker::State::find(const Packet& packet) {
  const MpaConnection& mpa = *packet.tcp.connection;
  if (slots_.empty()) slots_.resize(std::bit_ceil(std::min<std::size_t>(limits_.connections, max_slots)));
  Slot& slot = slots_[mpa.id & (slots_.size() - 1)];
  if (slot.number == mpa.id) {
    slot.tracked->used = true;
    return *slot.tracked;
  }
  const Ports ports{std::min(mpa.initiator, mpa.responder), std::max(mpa.initiator, mpa.responder)};
  const auto known = connections_.find(ports);
  Tracked* t = known == connections_.end() ? nullptr : &*known->second;
  if (t && t->number != mpa.id) {
    // One packet must not start two connections, because their IDs would be equal.
    if (t->record.id == packet.number) {
      t->number = mpa.id;
    } else {
      t->record.replaced = !t->closed;
      if (t->record.replaced) tell(*t, here(EventKind::replaced), Side::a);
      drop(known->second, CloseReason::ended);
      t = nullptr;
    }
  }
  if (!t) {
    if (order_.size() >= limits_.connections) evict();
    t = &order_.emplace_back();
    t->ports = ports;
    connections_.emplace(ports, std::prev(order_.end()));
    most_connections_ = std::max(most_connections_, order_.size());
    begin(*t, packet);
  }
  t->used = true;
  slot = {mpa.id, t};
  return *t;
}

void IwarpTracker::State::begin(Tracked& t, const Packet& packet) {
  const MpaConnection& mpa = *packet.tcp.connection;
  t.number = mpa.id;
  Connection& c = t.record;
  c.id = packet.number;
  c.service = Service::iwarp;
  c.wire = Wire::iwarp;
  c.paired_by = JoinedBy::stream;
  c.confidence = Confidence::certain;
  c.first_frame = c.last_frame = packet.number;
  c.first_time = c.last_time = packet.time_ns;
  // If the initiator is unknown, the sender is endpoint a.
  const bool a_initiates = mpa.roles_known || packet.tcp.from_initiator;
  t.a = a_initiates ? mpa.initiator : mpa.responder;
  const Endpoint& b = a_initiates ? mpa.responder : mpa.initiator;
  c.ends[0] = {{t.a.first, t.a.last}, t.a.port, true};
  c.ends[1] = {{b.first, b.last}, b.port, true};
  if (mpa.roles_known) c.service_port = mpa.listener.port;
}

// Evicts a connection (CLOCK algorithm): the next one that has not been used since the hand last passed it.
void IwarpTracker::State::evict() {
  while (true) {
    if (hand_ == order_.end()) hand_ = order_.begin();
    if (!hand_->used) break;
    hand_->used = false;
    ++hand_;
  }
  // A closed connection does not count as evicted.
  const bool over = hand_->closed;
  if (!over) ++evicted_;
  drop(hand_, over ? CloseReason::ended : CloseReason::evicted);
}

void IwarpTracker::State::drop(Order::iterator victim, CloseReason close_reason) {
  Tracked& t = *victim;
  flush(t);
  for (const Side end : {Side::a, Side::b}) {
    t.of(end).tcp.finish(events_);
    tell_tcp(t, end);
    if (t.of(end).closed_window_frame) opened(t, end, t.record.last_frame, t.record.last_time);
  }
  sink_.connection(t.record, close_reason);
  connections_.erase(t.ports);
  if (Slot& slot = slots_[t.number & (slots_.size() - 1)]; slot.tracked == &t) slot = {};
  if (hand_ == victim) ++hand_;
  order_.erase(victim);
}

void IwarpTracker::State::add(const Packet& packet) {
  packet_ = &packet;
  note_message_ = note_related_ = 0;
  note_delay_ = 0;
  Tracked& t = find(packet);
  const MpaConnection& mpa = *packet.tcp.connection;
  const Endpoint& sender = packet.tcp.from_initiator ? mpa.initiator : mpa.responder;
  const Side end = sender == t.a ? Side::a : Side::b;
  note_requester_ = end;
  if (limits_.transport) sink_.stream(t.record, end, packet);
  const LowerLayerState low = below(packet);
  Connection& c = t.record;
  Sent& sent = c.by(end);
  ++sent.packets;
  sent.wire_bytes += packet.stack.wire_length;
  if (low.ecn) ++sent.ecn_capable;
  if (low.ecn == congestion_experienced) {
    ++sent.ecn_marked;
    tell(t, here(EventKind::ecn_marked), end);
  }
  if (packet.tcp.length)
    sent.request_dscp = low.dscp;
  else
    sent.response_dscp = low.dscp;
  if (packet.upper.protocol != Upper::unknown) c.upper = packet.upper;

  if (packet.tcp.anew) restart(t, end);
  TcpLossTracker::Judgment judgment;
  // A byte that is sent into a closed window is a window probe. RFC 9293, 3.8.6.1
  const bool probe = packet.tcp.keep_alive || (packet.tcp.length == 1 && t.of(other(end)).closed_window_frame);
  if (packet.tcp.length && packet.tcp.sender_known && !probe) judgment = segment(t, end, low);
  silence(t, judgment.kind == TcpLossTracker::Kind::again);
  if (packet.tcp.has_acknowledged) acknowledge(t, end, low);
  c.last_frame = packet.number;
  c.last_time = packet.time_ns;
  for (const Pdu& p : packet.pdus) pdu(t, end, p);
  window(t, end);
  if (packet.tcp.fin || packet.tcp.reset) this->end(t, end);

  if (limits_.packets) {
    PacketNote note;
    note.connection = c.id;
    note.end = end;
    note.relative_psn = static_cast<std::uint32_t>(t.of(end).tcp.relative(packet.tcp.offset));
    note.message = note_message_;
    note.requester = note_requester_;
    note.again = judgment.kind == TcpLossTracker::Kind::again;
    note.arrival = arrival_of(judgment.kind);
    note.related_frame = note.again ? judgment.origin_frame : note_related_;
    note.related_delay = note.again ? (judgment.origin_frame ? packet.time_ns - judgment.origin_time : 0) : note_delay_;
    note.outstanding = static_cast<std::uint32_t>(std::min<std::size_t>(t.of(end).requests.size(), UINT32_MAX));
    sink_.packet(c, packet.number, note);
  }
}

// TCP --------------------------------------------------------------------------------------------------------------

void IwarpTracker::State::tell_tcp(Tracked& t, Side end) {
  Sent& sent = t.record.by(end);
  for (Event& event : events_) {
    const auto packets = static_cast<std::uint32_t>(event.packets);
    if (event.kind == EventKind::lost_in_network) sent.lost_in_network += packets;
    if (event.kind == EventKind::lost_in_capture) sent.lost_in_capture += packets;
    if (event.kind == EventKind::out_of_order) ++sent.out_of_order;
    if (event.kind == EventKind::duplicate) ++sent.duplicates;
    if (event.kind == EventKind::tcp_retransmission) ++sent.rounds;
    tell(t, event, end);
  }
  events_.clear();
}

TcpLossTracker::Judgment IwarpTracker::State::segment(Tracked& t, Side end, const LowerLayerState& low) {
  const TcpSegment& tcp = packet_->tcp;
  TcpLossTracker::Segment s;
  s.from = tcp.offset;
  s.to = tcp.offset + tcp.length;
  s.frame = packet_->number;
  s.time = packet_->time_ns;
  s.timestamp = low.timestamp;
  s.has_timestamp = low.has_timestamp;
  s.identification = low.identification;
  s.checksum = low.checksum;
  const TcpLossTracker::Judgment judgment = t.of(end).tcp.segment(s, events_);
  if (judgment.kind == TcpLossTracker::Kind::again) {
    Sent& sent = t.record.by(end);
    ++sent.retransmitted_packets;
    sent.retransmitted_bytes += judgment.bytes;
    on_retransmission(t, end, s.from, s.to);
  }
  tell_tcp(t, end);
  return judgment;
}

// Assigns retransmitted bytes to their messages. If their PDUs are not extracted yet, this happens when the PDUs
// arrive.
void IwarpTracker::State::on_retransmission(Tracked& t, Side end, std::uint64_t from, std::uint64_t to) {
  IwarpDirection& half = t.of(end);
  std::uint64_t counted = 0;
  for (std::size_t i = 0; i < half.seen.size(); ++i) {
    const Seen& seen = half.seen[(half.oldest_seen + i) % half.seen.size()];
    if (seen.begin >= to || seen.end <= from) continue;
    half.tcp.name(seen.begin, seen.end, seen.message, seen.whose);
    if (name_of(seen.message, seen.whose) == counted) continue;
    counted = name_of(seen.message, seen.whose);
    if (Message* message = message_at(t, seen.whose, seen.message)) ++message->repeated_packets;
  }
  if (half.parsed && to <= half.parsed_to) return;
  if (half.again.size() == max_again) half.again.erase(half.again.begin());
  half.again.push_back({std::max(from, half.parsed ? half.parsed_to : 0), to, counted});
}

void IwarpTracker::State::acknowledge(Tracked& t, Side end, const LowerLayerState& low) {
  const TcpSegment& tcp = packet_->tcp;
  const Side sender = other(end);
  IwarpDirection& half = t.of(sender);
  TcpLossTracker::Acknowledgement a;
  a.offset = tcp.acknowledged;
  a.frame = packet_->number;
  a.time = packet_->time_ns;
  a.window = tcp.window;
  a.data = tcp.length != 0 || tcp.fin;
  a.selective = low.selective;
  if (!a.data) ++t.record.by(end).acks;
  half.tcp.acknowledge(a, events_);
  if (!events_.empty()) tell_tcp(t, sender);
  while (!half.sending.empty() && half.tcp.acknowledged(half.sending.front().end)) {
    Message& message = half.sending.front().message;
    if (message.outcome == Outcome::sent) answered(t, message, a.frame, a.time);
    tell_message(t, message);
    half.sending.pop_front();
    --waiting_;
  }
}

void IwarpTracker::State::window(Tracked& t, Side end) {
  const TcpSegment& tcp = packet_->tcp;
  if (!tcp.has_acknowledged || tcp.reset) return;
  IwarpDirection& half = t.of(end);
  if (tcp.window == 0) {
    if (half.closed_window_frame) return;
    half.closed_window_frame = packet_->number;
    half.closed_window_time = packet_->time_ns;
    return;
  }
  if (half.closed_window_frame) opened(t, end, packet_->number, packet_->time_ns);
}

void IwarpTracker::State::opened(Tracked& t, Side end, std::uint64_t frame, std::int64_t time) {
  IwarpDirection& half = t.of(end);
  Event event;
  event.kind = EventKind::stall;
  event.cause = Cause::window;
  event.frame = event.cause_frame = half.closed_window_frame;
  event.last_frame = frame;
  event.time = half.closed_window_time;
  event.duration = time - half.closed_window_time;
  half.closed_window_frame = 0;
  tell(t, event, other(end));
}

void IwarpTracker::State::silence(Tracked& t, bool again) {
  const Connection& c = t.record;
  const std::int64_t duration = packet_->time_ns - c.last_time;
  // The silence is already reported by events of retransmissions and closed windows.
  if (duration < limits_.stall || again || t.closed) return;
  for (const IwarpDirection& half : t.halves)
    if (half.closed_window_frame) return;
  Event event;
  event.kind = EventKind::stall;
  event.cause = Cause::nothing_outstanding;
  event.frame = c.last_frame;
  event.last_frame = packet_->number;
  event.time = c.last_time;
  event.duration = duration;
  Side who = Side::a;
  for (const Side end : {Side::a, Side::b}) {
    const IwarpDirection& half = t.of(end);
    // Only earlier packets count: the contents of this packet were sent after the silence.
    const bool owed = !half.requests.empty() || !half.sending.empty();
    if (!owed || event.cause == Cause::peer) continue;
    event.cause = Cause::peer;
    who = end;
    event.origin_frame =
        half.requests.empty() ? half.sending.front().message.last_frame : half.requests.front().message.last_frame;
  }
  tell(t, event, who);
}

// Discards the state of the stream, because it continues at another offset.
void IwarpTracker::State::restart(Tracked& t, Side end) {
  IwarpDirection& half = t.of(end);
  half.tcp.finish(events_);
  tell_tcp(t, end);
  gap(t, end);
  for (Sending& s : half.sending) tell_message(t, s.message);
  waiting_ -= half.sending.size();
  half.sending.clear();
  half.tcp = {};
  half.parsed = false;
  half.seen.clear();
  half.oldest_seen = 0;
  half.again.clear();
}

void IwarpTracker::State::end(Tracked& t, Side end) {
  const bool reset = packet_->tcp.reset;
  IwarpDirection& half = t.of(end);
  if (reset) {
    // A reset after both FINs interrupts no message.
    const bool done = t.halves[0].fin && t.halves[1].fin;
    if (!done) tell(t, here(EventKind::tcp_reset), other(end));
    close(t, end, 0);
    flush(t);
    return;
  }
  half.fin = true;
  close(t, end, 0);
}

void IwarpTracker::State::close(Tracked& t, Side end, std::uint64_t cause_frame) {
  if (t.closed) return;
  t.closed = true;
  t.record.closed_frame = packet_->number;
  Event event = here(EventKind::closed);
  event.cause_frame = cause_frame;
  tell(t, event, end);
}

// ------------------------------------------------------------------------------------------------------------------

IwarpTracker::IwarpTracker(Sink& sink, const IwarpLimits& limits) : state_(std::make_unique<State>(sink, limits)) {}
IwarpTracker::~IwarpTracker() = default;
void IwarpTracker::follow(const Packet& packet) { state_->add(packet); }
void IwarpTracker::finish() { state_->finish(); }
std::uint64_t IwarpTracker::evicted() const { return state_->evicted(); }
std::size_t IwarpTracker::memory() const { return state_->memory(); }
std::size_t IwarpTracker::most_connections() const { return state_->most_connections(); }
std::uint64_t IwarpTracker::most_messages() const { return state_->most_messages(); }
std::size_t IwarpTracker::size() const { return state_->size(); }

}  // namespace rdmawire::tracking
