#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/time.hpp"
#include "dissectors/tracking/iwarp_state.hpp"

namespace rdmawire::tracking {
namespace {

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
  s.bytes = whole - headers;
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

MessageKind kind_of(const RdmapOpcode& opcode) {
  switch (static_cast<RdmapOperation>(opcode.value)) {
    case RdmapOperation::rdma_write: return MessageKind::write;
    case RdmapOperation::read_request: return MessageKind::read;
    case RdmapOperation::terminate: return MessageKind::terminate;
    default: return MessageKind::send;
  }
}

}  // namespace

// Messages ---------------------------------------------------------------------------------------------------------

void IwarpTracker::State::answered(Tracked& t, Message& message, std::uint64_t frame, std::int64_t time) {
  message.outcome = Outcome::completed;
  message.answer_frame = frame;
  message.answer_time = time;
  Sent& sent = t.record.by(message.end);
  const std::int64_t latency = time - message.start;
  if (latency < 0) return;  // the capture contains the response before the message
  ++sent.latency_count;
  accumulate(sent.latency_sum, latency);
  sent.latency_max = std::max(sent.latency_max, latency);
}

void IwarpTracker::State::tell_message(Tracked& t, Message& message) {
  Sent& sent = t.record.by(message.end);
  ++sent.messages[static_cast<std::size_t>(message.kind)];
  sent.message_bytes += message.size;
  if (message.outcome == Outcome::completed) ++sent.messages_completed;
  if (message.outcome == Outcome::refused) ++sent.messages_refused;
  sink_.message(t.record, message);
}

// Reports all messages and requests that still wait. Called when they will get no further packets.
void IwarpTracker::State::flush(Tracked& t) {
  for (const Side end : {Side::a, Side::b}) {
    IwarpDirection& half = t.of(end);
    for (Open* open : {&half.send, &half.write})
      if (open->active) unfinished(t, *open);
    for (Sending& s : half.sending) tell_message(t, s.message);
    waiting_ -= half.sending.size() + half.requests.size();
    half.sending.clear();
    Event event;
    event.kind = EventKind::unanswered;
    event.packets = 0;
    const IwarpDirection& responder = t.of(other(end));
    for (Request& r : half.requests) {
      // If bytes of the response direction are missing, a response cannot be assigned to a request.
      const bool missed = r.lost || responder.gaps || responder.misses();
      if (r.message.outcome != Outcome::refused) r.message.outcome = missed ? Outcome::partial : Outcome::unanswered;
      // When a capture ends, some messages are usually in flight.
      const bool waited = t.closed || t.record.last_time - r.message.end_time >= limits_.stall;
      if (waited && r.message.outcome == Outcome::unanswered) {
        if (event.packets++ == 0) {
          event.frame = r.message.first_frame;
          event.time = r.message.start;
          event.psn = r.message.first_psn;
          event.duration = t.record.last_time - r.message.start;
        }
        event.last_frame = r.message.last_frame;
        event.bytes += r.message.size;
      }
      tell_message(t, r.message);
    }
    half.requests.clear();
    if (event.packets) tell(t, event, end);
  }
}

Message* IwarpTracker::State::message_at(Tracked& t, Side whose, std::uint64_t number) {
  IwarpDirection& half = t.of(whose);
  for (Open* open : {&half.send, &half.write})
    if (open->active && open->message.number == number) return &open->message;
  const auto before = [](const auto& held, std::uint64_t n) { return held.message.number < n; };
  const auto sending = std::lower_bound(half.sending.begin(), half.sending.end(), number, before);
  if (sending != half.sending.end() && sending->message.number == number) return &sending->message;
  const auto request = std::lower_bound(half.requests.begin(), half.requests.end(), number, before);
  if (request != half.requests.end() && request->message.number == number) return &request->message;
  return nullptr;
}

void IwarpTracker::State::room(Tracked& t, IwarpDirection& half) {
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
    half.from_start = false;  // from now on, a response may belong to an evicted request
  }
}

// PDUs -------------------------------------------------------------------------------------------------------------

void IwarpTracker::State::pdu(Tracked& t, Side end, const Pdu& pdu) {
  IwarpDirection& half = t.of(end);
  if (!half.parsed || pdu.stream_offset != half.parsed_to) {
    if (half.parsed && pdu.stream_offset > half.parsed_to) half.lost_bytes += pdu.stream_offset - half.parsed_to;
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
    event.bytes = s ? s->bytes : 0;
    event.psn = s && !s->tagged ? s->msn : 0;
    event.value = pdu.crc.computed;
    event.found = pdu.crc.value;
    tell(t, event, end);
    // Any field of the damaged segment can be wrong, so later segments are not compared with it.
    gap(t, end);
    return;
  }
  if (!s) return gap(t, end);
  ddp_segment(t, end, *s);
  half.lost = false;
}

// Handles missing bytes of this endpoint's stream.
void IwarpTracker::State::gap(Tracked& t, Side end) {
  IwarpDirection& half = t.of(end);
  half.lost = true;
  half.from_start = false;
  ++half.gaps;
  half.send.lost |= half.send.active;
  half.write.lost |= half.write.active;
  for (auto& msn : half.msn) msn.known = false;
  // The missing bytes may have contained responses.
  IwarpDirection& peer = t.of(other(end));
  if (!peer.requests.empty()) peer.requests.front().lost |= peer.requests.front().received != 0;
}

void IwarpTracker::State::mpa_frame(Tracked& t, Side end, const Pdu& pdu) {
  const View<MpaFrame> frame(pdu.stack.bytes.data());
  const bool request = MpaFrame::is_request(pdu.stack.bytes.data());
  const std::size_t side = static_cast<std::size_t>(end);
  IwarpDirection& half = t.of(end);
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
    event.bytes = frame.get<"private_data_length">();
    event.value = frame.get<"revision">();
    t.record.closed_frame = packet_->number;
    t.closed = true;
    return tell(t, event, other(end));
  }
  t.record.opened_frame = packet_->number;
  if (t.enhanced[0] && t.enhanced[1]) {
    // The limit of a side is the smaller of its own ORD and the peer's IRD. RFC 6581, 9.1
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

void IwarpTracker::State::wrong(Tracked& t, Side end, EventKind kind, std::uint64_t expected, std::uint64_t found,
                                const Segment& s) {
  Event event = here(kind);
  event.psn = s.tagged ? 0 : s.msn;
  event.value = expected;
  event.found = found;
  event.bytes = s.bytes;
  tell(t, event, end);
}

void IwarpTracker::State::ddp_segment(Tracked& t, Side end, Segment& s) {
  const RdmapOpcode& opcode = *s.opcode;
  if (!opcode.known || opcode.tagged != s.tagged || (!s.tagged && opcode.queue != s.queue))
    return wrong(t, end, EventKind::opcode_sequence, opcode.value, s.queue, s);
  Sent& sent = t.record.by(end);
  const auto operation = static_cast<RdmapOperation>(opcode.value);
  ++(operation == RdmapOperation::read_response || operation == RdmapOperation::atomic_response ? sent.responses
                                                                                                : sent.requests);
  if (opcode.payload) sent.payload_bytes += s.bytes;
  if (!s.tagged) return untagged(t, end, s);
  if (operation == RdmapOperation::rdma_write) return write(t, end, s);
  read_response(t, end, s);
}

// Returns the packet that contained the byte.
SeenAt IwarpTracker::State::carried(const IwarpDirection& half, std::uint64_t offset) const {
  const TcpSegment& tcp = packet_->tcp;
  if (offset < tcp.offset || offset >= tcp.offset + tcp.length)
    if (const TcpLossTracker::Segment* carrier = half.tcp.carrier(offset)) return {carrier->frame, carrier->time};
  return {packet_->number, packet_->time_ns};
}

Span IwarpTracker::State::span(const IwarpDirection& half, const Segment& s) const {
  const SeenAt a = carried(half, s.pdu->stream_offset), b = carried(half, s.pdu->stream_end - 1);
  return a.frame <= b.frame ? Span{a, b} : Span{b, a};
}

void IwarpTracker::State::begin(Tracked& t, Side end, Open& open, const Segment& s) {
  IwarpDirection& half = t.of(end);
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
  const SeenAt first = span(half, s).first;
  m.first_frame = first.frame;
  m.start = first.time;
}

void IwarpTracker::State::extend(Tracked& t, Open& open, const Segment& s) {
  IwarpDirection& half = t.of(open.message.end);
  open.end = s.pdu->stream_end;
  open.next = s.position + s.bytes;
  open.message.size += s.opcode->payload ? s.bytes : 0;
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

void IwarpTracker::State::log(Tracked& t, Side end, const Segment& s, const Message& message) {
  IwarpDirection& half = t.of(end);
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
  for (RetransmittedRange& again : half.again) {
    const std::uint64_t name = name_of(message.number, message.end);
    if (again.from >= seen.end || again.to <= seen.begin || again.counted == name) continue;
    again.counted = name;
    if (Message* m = message_at(t, message.end, message.number)) ++m->repeated_packets;
  }
  std::erase_if(half.again, [&](const RetransmittedRange& again) { return again.to <= seen.end; });
}

// Called when all segments of the message have arrived.
void IwarpTracker::State::whole(Tracked& t, IwarpDirection& half, Open& open) {
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
  most_waiting_ = std::max(most_waiting_, ++waiting_);
  room(t, half);
}

// Called when it is known that the rest of the message will not arrive.
void IwarpTracker::State::unfinished(Tracked& t, Open& open) {
  open.active = false;
  open.message.outcome = Outcome::partial;
  tell_message(t, open.message);
}

void IwarpTracker::State::write(Tracked& t, Side end, Segment& s) {
  IwarpDirection& half = t.of(end);
  Open& open = half.write;
  if (open.active && (open.key != s.key || open.next != s.position)) {
    // The missing bytes may have contained the end of this message and the start of another one.
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

void IwarpTracker::State::untagged(Tracked& t, Side end, Segment& s) {
  IwarpDirection& half = t.of(end);
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
  // Ignore further segments of a request or Terminate. The first segment contains all fields.
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

void IwarpTracker::State::request(Tracked& t, Side end, Segment& s) {
  IwarpDirection& half = t.of(end);
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
    // The capture truncated the request.
    m.kind = r.atomic ? MessageKind::other : MessageKind::read;
    m.outcome = Outcome::partial;
    half.from_start = false;
    return tell_message(t, m);
  }
  m.outcome = Outcome::unanswered;
  r.message = m;
  IwarpDirection& responder = t.of(other(end));
  r.gaps = responder.gaps;
  auto& early = responder.early;
  // Assign response segments that were captured before this request, unless requests may be missing in the capture.
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
  most_waiting_ = std::max(most_waiting_, ++waiting_);
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

void IwarpTracker::State::read_response(Tracked& t, Side end, Segment& s) {
  IwarpDirection& half = t.of(end);
  const Side requester = other(end);
  IwarpDirection& asking = t.of(requester);
  auto& requests = asking.requests;
  const auto fits = [&](const Request& r, bool exactly) {
    if (r.atomic) return false;
    if (r.message.size == 0 && s.bytes == 0)
      return true;  // RFC 5040, 5.4: STag and TO are ignored if there are zero bytes
    if (r.sink != s.key) return false;
    if (exactly) return r.sink_to + r.received == s.position;
    return s.position - r.sink_to < r.message.size && s.position - r.sink_to >= r.received;
  };
  auto found = std::find_if(requests.begin(), requests.end(), [&](const Request& r) { return fits(r, true); });
  // If several READs use the same sink and bytes are missing, assume that the missing bytes contained as many complete
  // responses as fit.
  for (auto r = requests.begin(); half.lost_bytes && found != requests.end() && r != requests.end(); ++r) {
    const std::uint64_t rest = r->atomic ? 0 : r->message.size - std::min(r->message.size, r->received);
    if (rest > half.lost_bytes) break;
    half.lost_bytes -= rest;
    if (r != found) continue;
    const auto next = std::find_if(r + 1, requests.end(), [&](const Request& q) { return fits(q, true); });
    if (next == requests.end()) break;
    found = next;
  }
  half.lost_bytes = 0;
  if (found == requests.end()) {
    auto& early = half.early;
    // The response to a request that was not captured continues, even if later requests use the same sink.
    const bool continues = early.any && !early.whole && early.key == s.key && early.next == s.position;
    if (!continues)
      found = std::find_if(requests.begin(), requests.end(), [&](const Request& r) { return fits(r, false); });
    if (found == requests.end()) {
      if (!continues) {
        early.key = s.key;
        early.begin = s.position;
        early.first = span(half, s).first;
      }
      early.any = true;
      early.whole = s.last;
      early.next = s.position + s.bytes;
      early.last = span(half, s).last;
      // If the peer received bytes that the capture lacks, the request may be missing in the capture, or may be
      // captured later.
      if (!asking.from_start || asking.misses() || half.gaps) return;
      Event event = here(EventKind::unsolicited_response);
      event.bytes = s.bytes;
      event.value = s.key;
      event.found = s.position;
      return tell(t, event, requester);
    }
    if (!half.lost && !found->lost)
      wrong(t, end, EventKind::segmentation, found->sink_to + found->received, s.position, s);
    found->lost = true;
    found->received = s.position - found->sink_to;
  }
  // Responses arrive in the order of their requests (RFC 5040, 5.5), so responses of earlier requests are missing in
  // the capture.
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
  r.received += s.bytes;
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

void IwarpTracker::State::atomic_response(Tracked& t, Side end, Segment& s) {
  if (!s.header) return;
  const View<RdmapAtomicResponse> response(s.pdu->stack.bytes.data() + s.header->offset);
  const std::uint32_t id = response.get<"request_id">();
  const Side requester = other(end);
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
  const SeenAt last = span(t.of(end), s).last;
  m.first_response_frame = last.frame;
  m.first_response_time = last.time;
  answered(t, m, last.frame, last.time);
  tell_message(t, m);
  requests.erase(found);
  --waiting_;
}

void IwarpTracker::State::terminate(Tracked& t, Side end, Segment& s) {
  IwarpDirection& half = t.of(end);
  const Side blamed = other(end);
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
    // Find the FPDU that the Terminate message quotes.
    const Parts parts = Terminate::parts(bytes);
    std::optional<Seen> quoted;
    for (std::size_t i = 0; i < parts.count; ++i) {
      const std::uint8_t* at = bytes.data() + parts.layers[i].offset;
      const HeaderInfo* part = parts.layers[i].header;
      if (part == &info<DdpSegmentLength> && header.get<"segment_length_valid">())
        event.bytes = View<DdpSegmentLength>(at).get<"length">();
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
    const IwarpDirection& sender = t.of(blamed);
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

}  // namespace rdmawire::tracking
