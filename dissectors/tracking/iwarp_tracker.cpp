#include "dissectors/tracking/iwarp_tracker.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/tcp_trouble.hpp"

namespace rdmawire::tracking {
namespace {

enum Queue : std::uint8_t { send_queue, request_queue, terminate_queue, atomic_response_queue, queues };

// One DDP segment, as its FPDU says.
struct Segment {
  const Pdu* pdu;
  const RdmapOpcode* opcode;
  bool tagged, last;
  std::uint32_t key;       // STag; untagged: the one to be invalidated
  std::uint64_t position;  // TO or MO
  std::uint32_t queue, msn;
  std::uint64_t octets;  // behind the DDP header
  const Layer* header;   // of RDMAP, or nullptr
};

std::optional<Segment> segment_of(const Pdu& pdu) {
  const HeaderStack& stack = pdu.stack;
  const auto layers = stack.layers();
  if (layers.size() < 4 || layers[0].header != &info<Fpdu> || layers[1].header != &info<Ddp> ||
      layers[2].header != &info<Rdmap>)
    return std::nullopt;
  const std::uint8_t* bytes = stack.bytes.data();
  const View<Ddp> ddp(bytes + layers[1].offset);
  Segment s{};
  s.pdu = &pdu;
  s.opcode = &rdmap_opcode(View<Rdmap>(bytes + layers[2].offset).get<"opcode">());
  s.tagged = ddp.get<"tagged">();
  s.last = ddp.get<"last">();
  const std::uint32_t whole = View<Fpdu>(bytes + layers[0].offset).get<"ulpdu_length">();
  const std::uint32_t headers =
      Ddp::size + Rdmap::size + static_cast<std::uint32_t>(s.tagged ? DdpTagged::size : DdpUntagged::size);
  if (whole < headers) return std::nullopt;
  s.octets = whole - headers;
  if (s.tagged) {
    if (layers[3].header != &info<DdpTagged>) return std::nullopt;
    const View<DdpTagged> tagged(bytes + layers[3].offset);
    s.key = tagged.get<"stag">();
    s.position = tagged.get<"to">();
  } else {
    if (layers[3].header != &info<DdpUntagged>) return std::nullopt;
    const View<DdpUntagged> untagged(bytes + layers[3].offset);
    s.key = untagged.get<"invalidate_stag">();
    s.queue = untagged.get<"qn">();
    s.msn = untagged.get<"msn">();
    s.position = untagged.get<"mo">();
  }
  if (layers.size() > 4 && s.opcode->header && layers[4].header == s.opcode->header) s.header = &layers[4];
  return s;
}

// When something was on the wire.
struct Moment {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
};

// The packets that a segment came in: the earliest and the latest.
struct Span {
  Moment first, last;
};

// A message of which not all segments came yet.
struct Open {
  bool active = false;
  bool lost = false;  // some of it was not captured
  const RdmapOpcode* opcode = nullptr;
  std::uint64_t next = 0;            // the TO or MO to come
  std::uint32_t key = 0;             // STag of a tagged one
  std::uint64_t begin = 0, end = 0;  // offsets in the stream
  Message message;
};
// One that TCP has not acknowledged yet.
struct Sending {
  std::uint64_t begin, end;
  Message message;
};
// A read or an atomic without its whole response.
struct Request {
  std::uint64_t begin, end;
  Message message;
  bool atomic, lost = false;
  std::uint32_t sink = 0;  // STag; atomics: the request identifier
  std::uint64_t sink_to = 0, received = 0;
  std::uint32_t gaps = 0;  // of the responder's stream, when it was sent
  Moment latest;           // of the response's packets
};
// An FPDU that was seen, so that a Terminate's quotation and octets that come again find it.
struct Seen {
  std::uint64_t begin = 0, end = 0, frame = 0, message = 0, position = 0;
  std::uint32_t key_or_msn = 0;
  std::uint8_t queue = 0;  // untagged
  bool tagged = false;
  End whose = End::a;
};
// Octets that were sent again and wait for the PDUs that they belong to.
struct Again {
  std::uint64_t from, to;
  std::uint64_t counted;  // the message that it was counted for last, and whose that is
};

constexpr std::size_t seen_fpdus = 32;
constexpr std::size_t max_again = 32;

std::uint64_t name_of(std::uint64_t message, End whose) { return message << 1 | static_cast<std::uint64_t>(whose); }

// What one end sends.
struct Half {
  TcpTrouble tcp;
  bool from_start = false;  // its first FPDU was seen, and no octet was missing since
  bool lost = false;        // octets are missing since the last segment
  std::uint64_t parsed_to = 0;
  bool parsed = false;
  std::uint32_t gaps = 0;         // places where octets are missing
  std::uint64_t lost_octets = 0;  // since the last read response
  struct {
    std::uint32_t next = 1;
    bool known = false;
  } msn[queues];
  Open send, write;
  // Segments of a response whose request is not here yet, as it happens when the capture mixes the two directions.
  struct {
    bool any = false, whole = false;
    std::uint32_t key = 0;
    std::uint64_t begin = 0, next = 0;
    Moment first, last;
  } early;
  std::deque<Sending> sending;
  std::deque<Request> requests;
  std::uint64_t messages = 0;
  std::uint32_t read_limit = 0;  // 0: none is known
  bool over_limit = false;
  std::vector<Seen> seen;
  std::size_t oldest_seen = 0;
  std::vector<Again> again;
  bool fin = false;
  // The window that this end gives is closed since:
  std::uint64_t closed_window_frame = 0;
  std::int64_t closed_window_time = 0;

  /// Its receiver has octets of which no PDU came out. A FIN counts as one octet.
  [[nodiscard]] bool misses() const { return parsed && tcp.acknowledged(parsed_to + 2); }
};

struct Ports {
  Endpoint low, high;
  friend bool operator==(const Ports&, const Ports&) = default;
};
struct PortsHash {
  std::size_t operator()(const Ports& p) const {
    std::uint64_t hash = static_cast<std::uint64_t>(p.low.port) << 16 | p.high.port;
    for (const std::uint64_t word : {p.low.first, p.low.last, p.high.first, p.high.last})
      hash = (hash ^ word ^ hash >> 29) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
  }
};

struct Tracked {
  Ports ports;
  Endpoint a;                // Connection::ends[0]
  std::uint64_t number = 0;  // MpaConnection::id
  Connection record;
  Half halves[2];
  bool used = false;  // since the hand of the clock came by
  bool closed = false;
  std::uint64_t request_frame = 0;
  std::int64_t request_time = 0;
  std::uint32_t ird[2] = {}, ord[2] = {};
  bool enhanced[2] = {};

  Half& of(End end) { return halves[static_cast<std::size_t>(end)]; }
};

MessageKind kind_of(const RdmapOpcode& opcode) {
  switch (static_cast<RdmapOperation>(opcode.value)) {
    case RdmapOperation::rdma_write: return MessageKind::write;
    case RdmapOperation::read_request: return MessageKind::read;
    case RdmapOperation::terminate: return MessageKind::terminate;
    default: return MessageKind::send;
  }
}

// What the IP and TCP headers say beside the connection's TcpSegment.
struct Below {
  std::uint16_t identification = 0, checksum = 0;
  std::uint8_t dscp = 0, ecn = 0;
  std::uint32_t timestamp = 0;
  bool has_timestamp = false, selective = false;
};

Below below(const Packet& packet) {
  Below b;
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
  // How nearly every segment has them. RFC 7323, appendix A
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
      // One before the acknowledgement tells of octets that came twice, and asks for none. RFC 2883, 4
      const std::uint32_t right = View<TcpSackBlock>(at).get<"right">();
      b.selective |= static_cast<std::int32_t>(right - acknowledged) > 0;
    }
  }
  return b;
}

}  // namespace

class IwarpTracker::State {
 public:
  State(Sink& sink, const IwarpLimits& limits) : sink_(sink), limits_(limits) {
    limits_.connections = std::max(limits_.connections, 1U);
    limits_.messages = std::max(limits_.messages, 1U);
  }

  void add(const Packet& packet);
  void finish() {
    while (!order_.empty()) drop(order_.begin(), Farewell::ended);
  }
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] std::size_t memory() const {
    constexpr std::size_t node = 64;    // of a list and a hash table
    constexpr std::size_t deque = 576;  // that holds nothing
    std::size_t octets =
        sizeof(State) + slots_.capacity() * sizeof(Slot) + waiting_ * std::max(sizeof(Sending), sizeof(Request));
    for (const Tracked& t : order_) {
      octets += sizeof(Tracked) + node + 4 * deque;
      for (const Half& half : t.halves)
        octets += half.tcp.memory() + half.seen.capacity() * sizeof(Seen) + half.again.capacity() * sizeof(Again);
    }
    return octets;
  }

 private:
  using Order = std::list<Tracked>;  // as they began
  // The way from MpaConnection::id without looking through a table.
  struct Slot {
    std::uint64_t number = 0;
    Tracked* tracked = nullptr;
  };
  static constexpr std::size_t max_slots = 1 << 14;

  Tracked& find(const Packet& packet);
  void begin(Tracked& t, const Packet& packet);
  void evict();
  void drop(Order::iterator victim, Farewell farewell);
  void tell(Tracked& t, Event event, End end) {
    event.end = end;
    event.connection = t.record.id;
    event.last_frame = std::max(event.last_frame, event.frame);
    event.duration = std::max<std::int64_t>(event.duration, 0);  // times of a capture can go back
    sink_.event(&t.record, event);
  }
  Event here(EventKind kind) const {
    Event event;
    event.kind = kind;
    event.frame = event.last_frame = packet_->number;
    event.time = packet_->time_ns;
    return event;
  }
  void tell_tcp(Tracked& t, End end);
  void tell_message(Tracked& t, Message& message);
  void answered(Tracked& t, Message& message, std::uint64_t frame, std::int64_t time);

  void silence(Tracked& t, bool again);
  TcpTrouble::Judgement segment(Tracked& t, End end, const Below& below);
  void sent_again(Tracked& t, End end, std::uint64_t from, std::uint64_t to);
  void acknowledge(Tracked& t, End end, const Below& below);
  void window(Tracked& t, End end);
  void opened(Tracked& t, End end, std::uint64_t frame, std::int64_t time);  // end's window, or it never will be
  void restart(Tracked& t, End end);
  void end(Tracked& t, End end);
  void close(Tracked& t, End end, std::uint64_t cause_frame);
  void flush(Tracked& t);

  void pdu(Tracked& t, End end, const Pdu& pdu);
  void mpa_frame(Tracked& t, End end, const Pdu& pdu);
  void ddp_segment(Tracked& t, End end, Segment& s);
  void gap(Tracked& t, End end);
  void untagged(Tracked& t, End end, Segment& s);
  void write(Tracked& t, End end, Segment& s);
  void read_response(Tracked& t, End end, Segment& s);
  void request(Tracked& t, End end, Segment& s);
  void atomic_response(Tracked& t, End end, Segment& s);
  void terminate(Tracked& t, End end, Segment& s);
  void begin(Tracked& t, End end, Open& open, const Segment& s);
  void extend(Tracked& t, Open& open, const Segment& s);
  void whole(Tracked& t, Half& half, Open& open);
  void unfinished(Tracked& t, Open& open);
  void wrong(Tracked& t, End end, EventKind kind, std::uint64_t expected, std::uint64_t found, const Segment& s);
  [[nodiscard]] Span span(const Half& half, const Segment& s) const;
  [[nodiscard]] Moment carried(const Half& half, std::uint64_t offset) const;
  void log(Tracked& t, End end, const Segment& s, const Message& message);
  void room(Tracked& t, Half& half);
  Message* message_at(Tracked& t, End whose, std::uint64_t number);

  Sink& sink_;
  IwarpLimits limits_;
  Order order_;
  Order::iterator hand_ = order_.end();
  std::vector<Slot> slots_;
  std::unordered_map<Ports, Order::iterator, PortsHash> connections_;
  std::vector<Event> events_;  // of TCP; kept for its memory
  std::uint64_t waiting_ = 0;  // messages
  std::uint64_t evicted_ = 0;
  const Packet* packet_ = nullptr;
  std::uint64_t note_message_ = 0, note_related_ = 0;
  End note_requester_ = End::a;
  std::int64_t note_delay_ = 0;
};

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
    // Two connections cannot begin in one packet, or their ids would be the same.
    if (t->record.id == packet.number) {
      t->number = mpa.id;
    } else {
      t->record.replaced = !t->closed;
      if (t->record.replaced) tell(*t, here(EventKind::replaced), End::a);
      drop(known->second, Farewell::ended);
      t = nullptr;
    }
  }
  if (!t) {
    if (order_.size() >= limits_.connections) evict();
    t = &order_.emplace_back();
    t->ports = ports;
    connections_.emplace(ports, std::prev(order_.end()));
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
  c.joined_by = JoinedBy::stream;
  c.confidence = Confidence::certain;
  c.first_frame = c.last_frame = packet.number;
  c.first_time = c.last_time = packet.time_ns;
  // Where nobody knows who asked, a is who speaks.
  const bool a_initiates = mpa.roles_known || packet.tcp.from_initiator;
  t.a = a_initiates ? mpa.initiator : mpa.responder;
  const Endpoint& b = a_initiates ? mpa.responder : mpa.initiator;
  c.ends[0] = {{t.a.first, t.a.last}, t.a.port, true};
  c.ends[1] = {{b.first, b.last}, b.port, true};
  if (mpa.roles_known) c.service_port = mpa.listener.port;
}

// One that was not used since the hand came by last.
void IwarpTracker::State::evict() {
  while (true) {
    if (hand_ == order_.end()) hand_ = order_.begin();
    if (!hand_->used) break;
    hand_->used = false;
    ++hand_;
  }
  // Of one that was closed nothing more is lost.
  const bool over = hand_->closed;
  if (!over) ++evicted_;
  drop(hand_, over ? Farewell::ended : Farewell::evicted);
}

void IwarpTracker::State::drop(Order::iterator victim, Farewell farewell) {
  Tracked& t = *victim;
  flush(t);
  for (const End end : {End::a, End::b}) {
    t.of(end).tcp.finish(events_);
    tell_tcp(t, end);
    if (t.of(end).closed_window_frame) opened(t, end, t.record.last_frame, t.record.last_time);
  }
  sink_.connection(t.record, farewell);
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
  const End end = sender == t.a ? End::a : End::b;
  note_requester_ = end;
  const Below low = below(packet);
  Connection& c = t.record;
  Sent& sent = c.by(end);
  ++sent.packets;
  sent.wire_octets += packet.stack.wire_length;
  if (low.ecn) ++sent.ecn_capable;
  if (low.ecn == 3) {  // CE. RFC 3168, 5
    ++sent.ecn_marked;
    tell(t, here(EventKind::ecn_marked), end);
  }
  if (packet.tcp.length)
    sent.request_dscp = low.dscp;
  else
    sent.response_dscp = low.dscp;
  if (packet.upper.protocol != Upper::unknown) c.upper = packet.upper;

  if (packet.tcp.anew) restart(t, end);
  TcpTrouble::Judgement judgement;
  // An octet into a closed window only asks whether it is still closed. RFC 9293, 3.8.6.1
  const bool probe = packet.tcp.keep_alive || (packet.tcp.length == 1 && t.of(other(end)).closed_window_frame);
  if (packet.tcp.length && packet.tcp.sender_known && !probe) judgement = segment(t, end, low);
  silence(t, judgement.kind == TcpTrouble::Kind::again);
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
    note.again = judgement.kind == TcpTrouble::Kind::again;
    note.related_frame = note.again ? judgement.origin_frame : note_related_;
    note.related_delay =
        note.again ? (judgement.origin_frame ? packet.time_ns - judgement.origin_time : 0) : note_delay_;
    note.outstanding = static_cast<std::uint32_t>(std::min<std::size_t>(t.of(end).requests.size(), UINT32_MAX));
    sink_.packet(c, packet.number, note);
  }
}

// TCP --------------------------------------------------------------------------------------------------------------

void IwarpTracker::State::tell_tcp(Tracked& t, End end) {
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

TcpTrouble::Judgement IwarpTracker::State::segment(Tracked& t, End end, const Below& low) {
  const TcpSegment& tcp = packet_->tcp;
  TcpTrouble::Segment s;
  s.from = tcp.offset;
  s.to = tcp.offset + tcp.length;
  s.frame = packet_->number;
  s.time = packet_->time_ns;
  s.timestamp = low.timestamp;
  s.has_timestamp = low.has_timestamp;
  s.identification = low.identification;
  s.checksum = low.checksum;
  const TcpTrouble::Judgement judgement = t.of(end).tcp.segment(s, events_);
  if (judgement.kind == TcpTrouble::Kind::again) {
    Sent& sent = t.record.by(end);
    ++sent.packets_again;
    sent.octets_again += judgement.octets;
    sent_again(t, end, s.from, s.to);
  }
  tell_tcp(t, end);
  return judgement;
}

// Which messages these octets belong to: of those that were seen before, now; of the others, when their PDUs come.
void IwarpTracker::State::sent_again(Tracked& t, End end, std::uint64_t from, std::uint64_t to) {
  Half& half = t.of(end);
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

void IwarpTracker::State::acknowledge(Tracked& t, End end, const Below& low) {
  const TcpSegment& tcp = packet_->tcp;
  const End sender = other(end);
  Half& half = t.of(sender);
  TcpTrouble::Acknowledgement a;
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

void IwarpTracker::State::window(Tracked& t, End end) {
  const TcpSegment& tcp = packet_->tcp;
  if (!tcp.has_acknowledged || tcp.reset) return;
  Half& half = t.of(end);
  if (tcp.window == 0) {
    if (half.closed_window_frame) return;
    half.closed_window_frame = packet_->number;
    half.closed_window_time = packet_->time_ns;
    return;
  }
  if (half.closed_window_frame) opened(t, end, packet_->number, packet_->time_ns);
}

void IwarpTracker::State::opened(Tracked& t, End end, std::uint64_t frame, std::int64_t time) {
  Half& half = t.of(end);
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
  // What TCP sends again tells of its silence itself, and so does a window that was closed.
  if (duration < limits_.stall || again || t.closed) return;
  for (const Half& half : t.halves)
    if (half.closed_window_frame) return;
  Event event;
  event.kind = EventKind::stall;
  event.cause = Cause::nothing_outstanding;
  event.frame = c.last_frame;
  event.last_frame = packet_->number;
  event.time = c.last_time;
  event.duration = duration;
  End who = End::a;
  for (const End end : {End::a, End::b}) {
    const Half& half = t.of(end);
    // What this packet itself brings was not outstanding.
    const bool owed = !half.requests.empty() || !half.sending.empty();
    if (!owed || event.cause == Cause::peer) continue;
    event.cause = Cause::peer;
    who = end;
    event.origin_frame =
        half.requests.empty() ? half.sending.front().message.last_frame : half.requests.front().message.last_frame;
  }
  tell(t, event, who);
}

// The stream goes on elsewhere: nothing that was known of it holds.
void IwarpTracker::State::restart(Tracked& t, End end) {
  Half& half = t.of(end);
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

void IwarpTracker::State::end(Tracked& t, End end) {
  const bool reset = packet_->tcp.reset;
  Half& half = t.of(end);
  if (reset) {
    // After both have said that they are done nothing is cut off.
    const bool done = t.halves[0].fin && t.halves[1].fin;
    if (!done) tell(t, here(EventKind::tcp_reset), other(end));
    close(t, end, 0);
    flush(t);
    return;
  }
  half.fin = true;
  close(t, end, 0);
}

void IwarpTracker::State::close(Tracked& t, End end, std::uint64_t cause_frame) {
  if (t.closed) return;
  t.closed = true;
  t.record.closed_frame = packet_->number;
  Event event = here(EventKind::closed);
  event.cause_frame = cause_frame;
  tell(t, event, end);
}

// Messages ---------------------------------------------------------------------------------------------------------

void IwarpTracker::State::answered(Tracked& t, Message& message, std::uint64_t frame, std::int64_t time) {
  message.outcome = Outcome::completed;
  message.answer_frame = frame;
  message.answer_time = time;
  Sent& sent = t.record.by(message.end);
  const std::int64_t latency = time - message.start;
  if (latency < 0) return;  // the capture has the answer before the message
  ++sent.latency_count;
  sent.latency_sum += latency;
  sent.latency_max = std::max(sent.latency_max, latency);
}

void IwarpTracker::State::tell_message(Tracked& t, Message& message) {
  Sent& sent = t.record.by(message.end);
  ++sent.messages[static_cast<std::size_t>(message.kind)];
  sent.message_octets += message.size;
  if (message.outcome == Outcome::completed) ++sent.messages_completed;
  if (message.outcome == Outcome::refused) ++sent.messages_refused;
  sink_.message(t.record, message);
}

// All that still waits will not be answered.
void IwarpTracker::State::flush(Tracked& t) {
  for (const End end : {End::a, End::b}) {
    Half& half = t.of(end);
    for (Open* open : {&half.send, &half.write})
      if (open->active) unfinished(t, *open);
    for (Sending& s : half.sending) tell_message(t, s.message);
    waiting_ -= half.sending.size() + half.requests.size();
    half.sending.clear();
    Event event;
    event.kind = EventKind::unanswered;
    event.packets = 0;
    const Half& responder = t.of(other(end));
    for (Request& r : half.requests) {
      // After octets of responses were missed, which request they were for is not sure.
      const bool missed = r.lost || responder.gaps || responder.misses();
      if (r.message.outcome != Outcome::refused) r.message.outcome = missed ? Outcome::partial : Outcome::unanswered;
      // Some are always on their way when a capture ends.
      const bool waited = t.closed || t.record.last_time - r.message.end_time >= limits_.stall;
      if (waited && r.message.outcome == Outcome::unanswered) {
        if (event.packets++ == 0) {
          event.frame = r.message.first_frame;
          event.time = r.message.start;
          event.psn = r.message.first_psn;
          event.duration = t.record.last_time - r.message.start;
        }
        event.last_frame = r.message.last_frame;
        event.octets += r.message.size;
      }
      tell_message(t, r.message);
    }
    half.requests.clear();
    if (event.packets) tell(t, event, end);
  }
}

Message* IwarpTracker::State::message_at(Tracked& t, End whose, std::uint64_t number) {
  Half& half = t.of(whose);
  for (Open* open : {&half.send, &half.write})
    if (open->active && open->message.number == number) return &open->message;
  const auto before = [](const auto& held, std::uint64_t n) { return held.message.number < n; };
  const auto sending = std::lower_bound(half.sending.begin(), half.sending.end(), number, before);
  if (sending != half.sending.end() && sending->message.number == number) return &sending->message;
  const auto request = std::lower_bound(half.requests.begin(), half.requests.end(), number, before);
  if (request != half.requests.end() && request->message.number == number) return &request->message;
  return nullptr;
}

void IwarpTracker::State::room(Tracked& t, Half& half) {
  while (!half.sending.empty() && (half.sending.size() > limits_.messages || waiting_ > limits_.all_messages)) {
    tell_message(t, half.sending.front().message);
    half.sending.pop_front();
    --waiting_;
    ++evicted_;
  }
  while (!half.requests.empty() && (half.requests.size() > limits_.messages || waiting_ > limits_.all_messages)) {
    Message& message = half.requests.front().message;
    if (message.outcome != Outcome::refused) message.outcome = Outcome::unanswered;
    tell_message(t, message);
    half.requests.pop_front();
    --waiting_;
    ++evicted_;
    half.from_start = false;  // a response can come whose request is forgotten
  }
}

// PDUs -------------------------------------------------------------------------------------------------------------

void IwarpTracker::State::pdu(Tracked& t, End end, const Pdu& pdu) {
  Half& half = t.of(end);
  if (!half.parsed || pdu.stream_offset != half.parsed_to) {
    if (half.parsed && pdu.stream_offset > half.parsed_to) half.lost_octets += pdu.stream_offset - half.parsed_to;
    if (half.parsed || !half.from_start) gap(t, end);
  }
  half.parsed = true;
  half.parsed_to = pdu.stream_end;
  const auto layers = pdu.stack.layers();
  if (layers.empty()) return;
  if (layers[0].header == &info<MpaFrame>) return mpa_frame(t, end, pdu);
  const bool bad = pdu.crc.status == CrcCheck::Status::bad;
  std::optional<Segment> s = segment_of(pdu);
  if (bad) {
    ++t.record.by(end).crc_bad;
    Event event = here(EventKind::crc_bad);
    event.cause = Cause::unknown;
    event.octets = s ? s->octets : 0;
    event.psn = s && !s->tagged ? s->msn : 0;
    event.value = pdu.crc.computed;
    event.found = pdu.crc.value;
    tell(t, event, end);
    // Whatever it says can be wrong: what follows is not judged by it.
    gap(t, end);
    return;
  }
  if (!s) return gap(t, end);
  ddp_segment(t, end, *s);
  half.lost = false;
}

// Octets of this end's stream are missing here.
void IwarpTracker::State::gap(Tracked& t, End end) {
  Half& half = t.of(end);
  half.lost = true;
  half.from_start = false;
  ++half.gaps;
  half.send.lost |= half.send.active;
  half.write.lost |= half.write.active;
  for (auto& msn : half.msn) msn.known = false;
  // Responses may be among them.
  Half& peer = t.of(other(end));
  if (!peer.requests.empty()) peer.requests.front().lost |= peer.requests.front().received != 0;
}

void IwarpTracker::State::mpa_frame(Tracked& t, End end, const Pdu& pdu) {
  const View<MpaFrame> frame(pdu.stack.bytes.data());
  const bool request = MpaFrame::is_request(pdu.stack.bytes.data());
  const std::size_t side = static_cast<std::size_t>(end);
  Half& half = t.of(end);
  half.from_start = true;
  half.lost = false;
  half.gaps = 0;
  for (auto& msn : half.msn) msn = {.next = 1, .known = true};
  const Parts parts = MpaFrame::parts(pdu.stack.bytes_of(pdu.stack.layers()[0]));
  if (parts.count && parts.layers[0].header == &info<MpaEnhanced>) {
    const View<MpaEnhanced> enhanced(pdu.stack.bytes.data() + parts.layers[0].offset);
    t.enhanced[side] = true;
    t.ird[side] = enhanced.get<"ird">();
    t.ord[side] = enhanced.get<"ord">();
  }
  if (request) {
    t.request_frame = packet_->number;
    t.request_time = packet_->time_ns;
    return;
  }
  Event event = here(EventKind::opened);
  event.origin_frame = t.request_frame;
  if (t.request_frame) {
    event.duration = packet_->time_ns - t.request_time;
    t.record.open_duration = event.duration;
  }
  if (frame.get<"reject">()) {
    event.kind = EventKind::rejected;
    event.octets = frame.get<"private_data_length">();
    event.value = frame.get<"revision">();
    t.record.closed_frame = packet_->number;
    t.closed = true;
    return tell(t, event, other(end));
  }
  t.record.opened_frame = packet_->number;
  if (t.enhanced[0] && t.enhanced[1]) {
    // What one may have outstanding is what the other takes. RFC 6581, 9.1
    const auto least = [](std::uint32_t ord, std::uint32_t ird) {
      const std::uint32_t limit = std::min(ord, ird);
      return limit == mpa::no_negotiation ? 0 : limit;
    };
    t.halves[0].read_limit = least(t.ord[0], t.ird[1]);
    t.halves[1].read_limit = least(t.ord[1], t.ird[0]);
    event.value = t.halves[0].read_limit;
    event.found = t.halves[1].read_limit;
  }
  tell(t, event, other(end));
}

void IwarpTracker::State::wrong(Tracked& t, End end, EventKind kind, std::uint64_t expected, std::uint64_t found,
                                const Segment& s) {
  Event event = here(kind);
  event.psn = s.tagged ? 0 : s.msn;
  event.value = expected;
  event.found = found;
  event.octets = s.octets;
  tell(t, event, end);
}

void IwarpTracker::State::ddp_segment(Tracked& t, End end, Segment& s) {
  const RdmapOpcode& opcode = *s.opcode;
  if (!opcode.known || opcode.tagged != s.tagged || (!s.tagged && opcode.queue != s.queue))
    return wrong(t, end, EventKind::opcode_sequence, opcode.value, s.queue, s);
  Sent& sent = t.record.by(end);
  const auto operation = static_cast<RdmapOperation>(opcode.value);
  ++(operation == RdmapOperation::read_response || operation == RdmapOperation::atomic_response ? sent.responses
                                                                                                : sent.requests);
  if (opcode.payload) sent.payload_octets += s.octets;
  if (!s.tagged) return untagged(t, end, s);
  if (operation == RdmapOperation::rdma_write) return write(t, end, s);
  read_response(t, end, s);
}

// The packet that brought the octet.
Moment IwarpTracker::State::carried(const Half& half, std::uint64_t offset) const {
  const TcpSegment& tcp = packet_->tcp;
  if (offset < tcp.offset || offset >= tcp.offset + tcp.length)
    if (const TcpTrouble::Segment* carrier = half.tcp.carrier(offset)) return {carrier->frame, carrier->time};
  return {packet_->number, packet_->time_ns};
}

Span IwarpTracker::State::span(const Half& half, const Segment& s) const {
  const Moment a = carried(half, s.pdu->stream_offset), b = carried(half, s.pdu->stream_end - 1);
  return a.frame <= b.frame ? Span{a, b} : Span{b, a};
}

void IwarpTracker::State::begin(Tracked& t, End end, Open& open, const Segment& s) {
  Half& half = t.of(end);
  open = {};
  open.active = true;
  open.opcode = s.opcode;
  open.begin = s.pdu->stream_offset;
  open.end = s.pdu->stream_end;
  open.key = s.key;
  open.next = s.position;
  Message& m = open.message;
  m.connection = t.record.id;
  m.number = ++half.messages;
  m.end = end;
  m.kind = kind_of(*s.opcode);
  m.outcome = Outcome::sent;
  m.solicited = s.opcode->solicited_event;
  m.has_invalidate = s.opcode->invalidate;
  if (m.has_invalidate) m.invalidated_key = s.key;
  if (!s.tagged) m.first_psn = m.last_psn = s.msn;
  const Moment first = span(half, s).first;
  m.first_frame = first.frame;
  m.start = first.time;
}

void IwarpTracker::State::extend(Tracked& t, Open& open, const Segment& s) {
  Half& half = t.of(open.message.end);
  open.end = s.pdu->stream_end;
  open.next = s.position + s.octets;
  open.message.size += s.opcode->payload ? s.octets : 0;
  ++open.message.packets;
  const Span packets = span(half, s);
  Message& m = open.message;
  if (packets.first.frame < m.first_frame) {
    m.first_frame = packets.first.frame;
    m.start = packets.first.time;
  }
  if (packets.last.frame > m.last_frame) {
    m.last_frame = packets.last.frame;
    m.end_time = packets.last.time;
  }
  log(t, open.message.end, s, open.message);
}

void IwarpTracker::State::log(Tracked& t, End end, const Segment& s, const Message& message) {
  Half& half = t.of(end);
  Seen seen;
  seen.begin = s.pdu->stream_offset;
  seen.end = s.pdu->stream_end;
  seen.message = message.number;
  seen.whose = message.end;
  seen.position = s.position;
  seen.tagged = s.tagged;
  seen.key_or_msn = s.tagged ? s.key : s.msn;
  seen.queue = static_cast<std::uint8_t>(s.queue);
  seen.frame = carried(half, seen.begin).frame;
  if (half.seen.size() < seen_fpdus) {
    half.seen.push_back(seen);
  } else {
    half.seen[half.oldest_seen] = seen;
    half.oldest_seen = (half.oldest_seen + 1) % half.seen.size();
  }
  half.tcp.name(seen.begin, seen.end, seen.message, seen.whose);
  note_message_ = message.number;
  note_requester_ = message.end;
  if (message.end != end) {
    note_related_ = message.first_frame;
    note_delay_ = packet_->time_ns - message.start;
  }
  if (half.again.empty()) return;
  for (Again& again : half.again) {
    const std::uint64_t name = name_of(message.number, message.end);
    if (again.from >= seen.end || again.to <= seen.begin || again.counted == name) continue;
    again.counted = name;
    if (Message* m = message_at(t, message.end, message.number)) ++m->repeated_packets;
  }
  std::erase_if(half.again, [&](const Again& again) { return again.to <= seen.end; });
}

// All segments came.
void IwarpTracker::State::whole(Tracked& t, Half& half, Open& open) {
  Message& m = open.message;
  open.active = false;
  if (open.lost) {
    m.outcome = Outcome::partial;
    return tell_message(t, m);
  }
  if (m.outcome == Outcome::sent && half.tcp.acknowledged(open.end)) {
    answered(t, m, half.tcp.acknowledging_frame(), half.tcp.acknowledging_time());
    return tell_message(t, m);
  }
  half.sending.push_back({open.begin, open.end, m});
  ++waiting_;
  room(t, half);
}

// It will not come to its end.
void IwarpTracker::State::unfinished(Tracked& t, Open& open) {
  open.active = false;
  open.message.outcome = Outcome::partial;
  tell_message(t, open.message);
}

void IwarpTracker::State::write(Tracked& t, End end, Segment& s) {
  Half& half = t.of(end);
  Open& open = half.write;
  if (open.active && (open.key != s.key || open.next != s.position)) {
    // Its end and the beginning of another one may be what is missing.
    if (!open.lost) wrong(t, end, EventKind::segmentation, open.next, s.position, s);
    if (half.lost && open.key == s.key && s.position > open.next && s.position - open.next < UINT32_MAX) {
      open.lost = true;
    } else {
      unfinished(t, open);
    }
  }
  if (!open.active) {
    begin(t, end, open, s);
    open.lost = half.lost;
    open.message.has_remote = true;
    open.message.key = s.key;
    open.message.remote_address = s.position;
  }
  extend(t, open, s);
  if (s.last) whole(t, half, open);
}

void IwarpTracker::State::untagged(Tracked& t, End end, Segment& s) {
  Half& half = t.of(end);
  auto& msn = half.msn[s.queue];
  Open& open = half.send;
  const bool send = s.queue == send_queue;
  if (send && open.active && open.message.first_psn == s.msn) {
    if (open.opcode != s.opcode) wrong(t, end, EventKind::opcode_sequence, s.opcode->value, s.queue, s);
    if (open.next != s.position) {
      if (!open.lost) wrong(t, end, EventKind::segmentation, open.next, s.position, s);
      open.lost = true;
    }
    extend(t, open, s);
    if (s.last) whole(t, half, open);
    msn = {.next = s.msn + 1, .known = true};
    return;
  }
  if (send && open.active) {
    if (!open.lost) wrong(t, end, EventKind::opcode_sequence, s.opcode->value, s.queue, s);
    unfinished(t, open);
  }
  // The rest of a request or a Terminate that was divided: its first segment said all.
  if (!send && s.position != 0 && msn.known && s.msn + 1 == msn.next) return;
  if (msn.known && msn.next != s.msn) wrong(t, end, EventKind::msn_jump, msn.next, s.msn, s);
  msn = {.next = s.msn + 1, .known = true};
  bool lost = false;
  if (s.position != 0) {
    lost = true;
    if (!half.lost) wrong(t, end, EventKind::segmentation, 0, s.position, s);
  }
  switch (s.queue) {
    case request_queue: return request(t, end, s);
    case terminate_queue: return terminate(t, end, s);
    case atomic_response_queue: return atomic_response(t, end, s);
    default: break;
  }
  begin(t, end, open, s);
  open.lost = lost;
  if (s.opcode->header == &info<RdmapImmediateData>) {
    open.message.has_immediate = true;
    if (s.header)
      open.message.immediate = View<RdmapImmediateData>(s.pdu->stack.bytes.data() + s.header->offset).get<"data">();
  }
  extend(t, open, s);
  if (s.last) whole(t, half, open);
}

void IwarpTracker::State::request(Tracked& t, End end, Segment& s) {
  Half& half = t.of(end);
  Open open;
  begin(t, end, open, s);
  extend(t, open, s);
  Message& m = open.message;
  Request r{};
  r.begin = open.begin;
  r.end = open.end;
  r.atomic = s.opcode->header == &info<RdmapAtomicRequest>;
  if (s.header) {
    const std::uint8_t* at = s.pdu->stack.bytes.data() + s.header->offset;
    m.has_remote = true;
    if (r.atomic) {
      const View<RdmapAtomicRequest> request(at);
      switch (request.get<"operation">()) {
        case 0: m.kind = MessageKind::fetch_add; break;
        case 1: m.kind = MessageKind::swap; break;
        case 2: m.kind = MessageKind::compare_swap; break;
        default: m.kind = MessageKind::other;
      }
      r.sink = request.get<"request_id">();
      m.key = request.get<"stag">();
      m.remote_address = request.get<"to">();
      m.atomic_operand = request.get<"add_swap_data">();
      m.atomic_compare = request.get<"compare_data">();
      m.size = 8;
    } else {
      const View<RdmapReadRequest> request(at);
      r.sink = request.get<"sink_stag">();
      r.sink_to = request.get<"sink_to">();
      m.size = request.get<"size">();
      m.key = request.get<"src_stag">();
      m.remote_address = request.get<"src_to">();
    }
  } else {
    // The capture cut it off.
    m.kind = r.atomic ? MessageKind::other : MessageKind::read;
    m.outcome = Outcome::partial;
    half.from_start = false;
    return tell_message(t, m);
  }
  m.outcome = Outcome::unanswered;
  r.message = m;
  Half& responder = t.of(other(end));
  r.gaps = responder.gaps;
  auto& early = responder.early;
  // If a request was lost, the response was that one's.
  if (early.any && half.from_start && !r.atomic && r.message.size && early.key == r.sink && early.begin == r.sink_to) {
    early.any = false;
    r.received = early.next - early.begin;
    r.message.first_response_frame = early.first.frame;
    r.message.first_response_time = early.first.time;
    r.latest = early.last;
    if (early.whole && r.received == r.message.size) {
      answered(t, r.message, early.last.frame, early.last.time);
      return tell_message(t, r.message);
    }
    if (early.whole || r.received >= r.message.size) r.received = 0;
  }
  half.requests.push_back(r);
  ++waiting_;
  room(t, half);
  const std::size_t outstanding = half.requests.size();
  if (half.read_limit && outstanding > half.read_limit) {
    if (!half.over_limit && !responder.gaps && !responder.misses())
      wrong(t, end, EventKind::read_limit, half.read_limit, outstanding, s);
    half.over_limit = true;
  } else {
    half.over_limit = false;
  }
}

void IwarpTracker::State::read_response(Tracked& t, End end, Segment& s) {
  Half& half = t.of(end);
  const End requester = other(end);
  Half& asking = t.of(requester);
  auto& requests = asking.requests;
  const auto fits = [&](const Request& r, bool exactly) {
    if (r.atomic) return false;
    if (r.message.size == 0 && s.octets == 0) return true;  // STag and TO of nothing are not checked. RFC 5040, 5.4
    if (r.sink != s.key) return false;
    if (exactly) return r.sink_to + r.received == s.position;
    return s.position - r.sink_to < r.message.size && s.position - r.sink_to >= r.received;
  };
  auto found = std::find_if(requests.begin(), requests.end(), [&](const Request& r) { return fits(r, true); });
  // Where several read into the same place, and octets are missing, so many responses were missed as these can hold.
  for (auto r = requests.begin(); half.lost_octets && found != requests.end() && r != requests.end(); ++r) {
    const std::uint64_t rest = r->atomic ? 0 : r->message.size - std::min(r->message.size, r->received);
    if (rest > half.lost_octets) break;
    half.lost_octets -= rest;
    if (r != found) continue;
    const auto next = std::find_if(r + 1, requests.end(), [&](const Request& q) { return fits(q, true); });
    if (next == requests.end()) break;
    found = next;
  }
  half.lost_octets = 0;
  if (found == requests.end()) {
    found = std::find_if(requests.begin(), requests.end(), [&](const Request& r) { return fits(r, false); });
    if (found == requests.end()) {
      auto& early = half.early;
      if (!early.any || early.whole || early.key != s.key || early.next != s.position) {
        early.key = s.key;
        early.begin = s.position;
        early.first = span(half, s).first;
      }
      early.any = true;
      early.whole = s.last;
      early.next = s.position + s.octets;
      early.last = span(half, s).last;
      // To a request that was perhaps not captured, or not yet: its receiver has octets that are not here.
      if (!asking.from_start || asking.misses() || half.gaps) return;
      Event event = here(EventKind::unsolicited_response);
      event.octets = s.octets;
      event.value = s.key;
      event.found = s.position;
      return tell(t, event, requester);
    }
    if (!half.lost && !found->lost)
      wrong(t, end, EventKind::segmentation, found->sink_to + found->received, s.position, s);
    found->lost = true;
    found->received = s.position - found->sink_to;
  }
  // Responses come in the order of their requests (RFC 5040, 5.5): those before it were missed.
  while (found != requests.begin() && requests.front().gaps != half.gaps) {
    Message& missed = requests.front().message;
    missed.outcome = Outcome::partial;
    tell_message(t, missed);
    const auto at = found - requests.begin();
    requests.pop_front();
    --waiting_;
    found = requests.begin() + (at - 1);
  }
  Request& r = *found;
  if (found != requests.begin() && r.received == 0 && !half.gaps)
    wrong(t, end, EventKind::opcode_sequence, s.opcode->value, s.queue, s);
  Message& m = r.message;
  r.received += s.octets;
  log(t, end, s, m);
  const Span packets = span(half, s);
  if (m.first_response_frame == 0 || packets.first.frame < m.first_response_frame) {
    m.first_response_frame = packets.first.frame;
    m.first_response_time = packets.first.time;
  }
  if (packets.last.frame > r.latest.frame) r.latest = packets.last;
  ++m.packets;
  if (!s.last) {
    if (r.received >= m.size && m.size) wrong(t, end, EventKind::segmentation, m.size, r.received, s);
    return;
  }
  if (r.received != m.size && !r.lost) {
    wrong(t, end, EventKind::segmentation, m.size, r.received, s);
    r.lost = true;
  }
  answered(t, m, r.latest.frame, r.latest.time);
  if (r.lost) m.outcome = Outcome::partial;
  tell_message(t, m);
  requests.erase(found);
  --waiting_;
}

void IwarpTracker::State::atomic_response(Tracked& t, End end, Segment& s) {
  if (!s.header) return;
  const View<RdmapAtomicResponse> response(s.pdu->stack.bytes.data() + s.header->offset);
  const std::uint32_t id = response.get<"request_id">();
  const End requester = other(end);
  auto& requests = t.of(requester).requests;
  const auto found =
      std::find_if(requests.begin(), requests.end(), [&](const Request& r) { return r.atomic && r.sink == id; });
  if (found == requests.end()) {
    if (!t.of(requester).from_start) return;
    Event event = here(EventKind::unsolicited_response);
    event.psn = s.msn;
    event.value = id;
    return tell(t, event, requester);
  }
  Message& m = found->message;
  log(t, end, s, m);
  ++m.packets;
  m.atomic_original = response.get<"original">();
  const Moment last = span(t.of(end), s).last;
  m.first_response_frame = last.frame;
  m.first_response_time = last.time;
  answered(t, m, last.frame, last.time);
  tell_message(t, m);
  requests.erase(found);
  --waiting_;
}

void IwarpTracker::State::terminate(Tracked& t, End end, Segment& s) {
  Half& half = t.of(end);
  const End blamed = other(end);
  Open open;
  begin(t, end, open, s);
  open.message.kind = MessageKind::terminate;
  Event event = here(EventKind::terminate);
  std::uint8_t code = 0;
  if (s.header) {
    const HeaderStack& stack = s.pdu->stack;
    const Bytes bytes = stack.bytes_of(*s.header);
    const View<Terminate> header(bytes.data());
    code = static_cast<std::uint8_t>(header.get<"error_code">());
    event.value = std::uint64_t{header.get<"layer">()} << 16 | std::uint64_t{header.get<"etype">()} << 8 | code;
    event.found = std::uint64_t{header.get<"segment_length_valid">()} << 2 |
                  std::uint64_t{header.get<"ddp_header_included">()} << 1 | header.get<"rdma_header_included">();
    // Which FPDU it was.
    const Parts parts = Terminate::parts(bytes);
    std::optional<Seen> quoted;
    for (std::size_t i = 0; i < parts.count; ++i) {
      const std::uint8_t* at = bytes.data() + parts.layers[i].offset;
      const HeaderInfo* part = parts.layers[i].header;
      if (part == &info<DdpSegmentLength> && header.get<"segment_length_valid">())
        event.octets = View<DdpSegmentLength>(at).get<"length">();
      if (part == &info<DdpTagged>) {
        quoted.emplace();
        quoted->tagged = true;
        quoted->key_or_msn = View<DdpTagged>(at).get<"stag">();
        quoted->position = View<DdpTagged>(at).get<"to">();
      } else if (part == &info<DdpUntagged>) {
        const View<DdpUntagged> untagged(at);
        quoted.emplace();
        quoted->queue = static_cast<std::uint8_t>(untagged.get<"qn">());
        quoted->key_or_msn = event.psn = untagged.get<"msn">();
        quoted->position = untagged.get<"mo">();
      }
    }
    const Half& sender = t.of(blamed);
    for (std::size_t i = sender.seen.size(); quoted && i-- > 0;) {
      const Seen& seen = sender.seen[(sender.oldest_seen + i) % sender.seen.size()];
      if (seen.tagged != quoted->tagged || seen.key_or_msn != quoted->key_or_msn || seen.position != quoted->position ||
          seen.queue != quoted->queue)
        continue;
      event.origin_frame = seen.frame;
      if (Message* message = message_at(t, seen.whose, seen.message)) {
        message->outcome = Outcome::refused;
        message->nak_code = code;
      }
      break;
    }
  }
  tell(t, event, blamed);
  extend(t, open, s);
  whole(t, half, open);
  close(t, end, packet_->number);
}

// ------------------------------------------------------------------------------------------------------------------

IwarpTracker::IwarpTracker(Sink& sink, const IwarpLimits& limits) : state_(std::make_unique<State>(sink, limits)) {}
IwarpTracker::~IwarpTracker() = default;
void IwarpTracker::follow(const Packet& packet) { state_->add(packet); }
void IwarpTracker::finish() { state_->finish(); }
std::uint64_t IwarpTracker::evicted() const { return state_->evicted(); }
std::size_t IwarpTracker::memory() const { return state_->memory(); }
std::size_t IwarpTracker::size() const { return state_->size(); }

}  // namespace rdmawire::tracking
