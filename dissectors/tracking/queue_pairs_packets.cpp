/// Processes a packet: its counters, its checks, and its connection.

#include <algorithm>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/crc_cause.hpp"
#include "dissectors/tracking/queue_pairs_state.hpp"

namespace rdmawire::tracking {
void QueuePairs::add(const Packet& packet) {
  TransportPacket read;
  if (!read_transport_packet(packet, read)) return;
  if (options_.transport) read_payload_crc(packet, read);
  add(packet, read);
}

void QueuePairs::add(const Packet& packet, const TransportPacket& t) {
  last_ = {t.frame, t.time};
  if (options_.notes_addresses && !t.crc_bad) note_addresses(t.from, t.to);
  constexpr std::uint32_t management_qps = 1;
  if (t.dest_qp <= management_qps && t.op->transport == Transport::ud) return;
  const bool vendor = (!t.op->known || t.op->transport == Transport::rd) && packet.stack.find(info<DcEth>) != nullptr;
  if (!t.op->known && !vendor) return;

  enforce_memory();
  const bool notification = t.op->operation == Operation::congestion_notification;
  Slot* slot = find({t.from, t.to, number_of(t)});
  if (t.crc_bad && (!slot || followed_[slot->at]->good_crcs == 0))
    if (Slot* const damaged = find_damaged(t)) slot = damaged;
  Index at;
  Side end;
  if (slot) {
    at = slot->at;
    end = slot->end;
  } else {
    if (notification) {
      Event event;
      event.kind = EventKind::cnp;
      event.cause = Cause::unknown;
      event.frame = event.last_frame = t.frame;
      event.time = t.time;
      event.psn = t.psn.value();
      sink_->event(nullptr, event);
      return;
    }
    at = begin(t);
    end = Side::a;
    if (vendor) followed_[at]->info.service = Service::vendor;
    if (options_.use_source_port && followed_[at]->lone) {
      try_source_port(at);
      slot = find({t.from, t.to, number_of(t)});
      at = slot->at;
      end = slot->end;
    }
  }
  Followed& f = *followed_[at];
  if (f.info.id == 0 && end == Side::b) {
    swap_ends(at);
    end = Side::a;
  }
  if (f.info.id == 0) {
    // The first packet of a connection that is known from the caller, or from a text exchange, which may not contain
    // the service.
    f.info.id = f.info.first_frame = t.frame;
    f.info.first_time = t.time;
    if (f.info.paired_by == JoinedBy::text) f.info.service = service_of(t.op->transport);
  }
  f.recent = true;
  // If the PSN is damaged, it does not identify a new connection.
  if (!(t.crc_bad && f.good_crcs != 0)) {
    if (begins_anew(f, t)) {
      // The waiting packets belong to an earlier connection. Stop waiting, so that the replacement can be detected.
      give_up(at);
      slot = find({t.from, t.to, number_of(t)});
      at = slot->at;
      end = slot->end;
    }
    const Search* const search = followed_[at]->search.get();
    if ((!search || search->late) && replaced(at, end, t)) return;
  }
  take(at, end, packet, t);
}

void QueuePairs::take(Index at, Side end, const Packet& packet, const TransportPacket& t) {
  Followed& f = *followed_[at];
  if (f.info.upper.protocol == Upper::unknown && packet.upper.protocol != Upper::unknown) f.info.upper = packet.upper;
  count(f, end, t);
  bool changed = false;
  const bool whole = judge_crc(f, end, packet, t, changed);
  // Any field of a damaged packet can be wrong. If all CRCs are bad, the capture is the cause, and not damage. This
  // does not apply if the caller created the QPs, because it captures directly on the wire.
  if (!whole && (f.good_crcs != 0 || f.info.paired_by == JoinedBy::caller)) {
    // If the opcode is damaged, a request can look like a response, and vice versa. The PSN shows which one it is.
    Requester& own = f.requesters[static_cast<std::size_t>(end)];
    Requester& peer = f.requesters[static_cast<std::size_t>(other(end))];
    const bool contradicts = t.is_response() ? !peer.expects(t, true) && own.expects(t, false)
                                             : !own.expects(t, false) && peer.expects(t, true);
    const bool response = t.is_response() != contradicts;
    // If the length of a READ is damaged, its number of PSNs is unknown.
    const bool plausible = !t.is_response() && !response && own.started() && t.psn == own.window().next &&
                           t.op->operation != Operation::rdma_read_request;
    if (!plausible) {
      (response ? peer : own).damaged(t, response);
      return;
    }
    TransportPacket damaged = t;
    damaged.damaged = true;
    follow(at, end, damaged);
    return;
  }
  const Sent& sent = f.info.by(end);
  if (changed && f.good_crcs != 0 && sent.packets > sent.crc_bad) {
    // Other packets of the sender are unchanged. The receiver drops the changed packet, unless only the captured copy
    // was changed.
    if (t.is_response()) f.requesters[static_cast<std::size_t>(other(end))].damaged(t, true);
    TransportPacket damaged = t;
    damaged.damaged = true;
    follow(at, end, damaged);
    return;
  }
  follow(at, end, t);
}

// Swaps the endpoints, so that endpoint a is the sender of the first packet.
void QueuePairs::swap_ends(Index at) {
  Followed& f = *followed_[at];
  Slot* const from_a = find(key_from(f, Side::a));
  Slot* const from_b = find(key_from(f, Side::b));
  if (from_a) from_a->end = Side::b;
  if (from_b && from_b != from_a) from_b->end = Side::a;
  std::swap(f.info.ends[0], f.info.ends[1]);
  std::swap(f.info.sent[0], f.info.sent[1]);
  std::swap(f.requesters[0], f.requesters[1]);
  if (f.agreement) std::swap(f.agreement->ends[0], f.agreement->ends[1]);
}

// Reports an event of a single packet. If the packet waits for pairing, the event waits too.
void QueuePairs::tell(Followed& f, const Event& event) {
  constexpr std::size_t most = 4 * patience_packets;
  if (f.search && !f.search->late && f.search->events.size() < most) {
    f.search->events.push_back(event);
    charge(*f.search);
  } else {
    sink_->event(&f.info, event);
  }
}

// Reports the waiting events up to and including `frame`. `end` is the endpoint of the connection to which they belong.
void QueuePairs::tell_waiting(const Followed& f, Search& search, Side end, std::uint64_t frame) {
  for (; search.reported < search.events.size() && search.events[search.reported].frame <= frame; ++search.reported) {
    Event& event = search.events[search.reported];
    event.connection = f.info.id;
    event.end = end;
    sink_->event(&f.info, event);
  }
}

void QueuePairs::count(Followed& f, Side end, const TransportPacket& t) {
  Connection& c = f.info;
  Sent& sent = c.by(end);
  ++sent.packets;
  sent.wire_bytes += t.wire_bytes;
  const bool vendor = c.service == Service::vendor;  // the vendor's headers are not published
  if (!vendor) sent.payload_bytes += t.payload;
  c.wire = t.wire;  // neither the CM nor a text exchange contains it
  c.last_frame = std::max(c.last_frame, t.frame);
  c.last_time = std::max(c.last_time, t.time);
  if (t.source_port != f.port[static_cast<std::size_t>(end)] && !t.crc_bad) note_path(f, end, t);
  const auto dscp = static_cast<std::uint8_t>(t.traffic_class >> 2);
  if (vendor) {
    sent.request_dscp = dscp;
  } else if (t.is_response()) {
    ++sent.responses;
    sent.response_dscp = dscp;
    if (t.op->operation == Operation::acknowledge) {
      const Syndrome syndrome(t.syndrome);
      if (syndrome.is_ack()) ++sent.acks;
      if (syndrome.is_rnr_nak()) ++sent.rnr_naks;
      if (syndrome.is_nak() && syndrome.code() < sent.naks.size()) ++sent.naks[syndrome.code()];
    }
  } else if (t.op->operation == Operation::congestion_notification) {
    ++sent.cnps;
  } else {
    ++sent.requests;
    sent.request_dscp = dscp;
  }
  Event event;
  event.end = end;
  event.connection = c.id;
  event.frame = event.last_frame = t.frame;
  event.time = t.time;
  event.psn = t.psn.value();
  event.bytes = t.payload;
  const std::uint32_t ecn = t.traffic_class & 3U;
  if (ecn != 0) ++sent.ecn_capable;
  if (ecn == congestion_experienced) {
    ++sent.ecn_marked;
    event.kind = EventKind::ecn_marked;
    tell(f, event);
  }
  if (t.truncated) {
    ++sent.truncated;
    event.kind = EventKind::truncated;
    tell(f, event);
  }
  event.packets = 1;
  if (!t.crc_bad) judge_pkey(f, t, event);
}

// If the first two packets of a connection have different P_Keys, one of them is wrong. The third packet shows which
// one.
void QueuePairs::judge_pkey(Followed& f, const TransportPacket& t, Event& event) {
  constexpr std::uint16_t base = 0x7fff;  // P_Key without the membership bit
  Connection& c = f.info;
  const auto tell_wrong = [&](Event& wrong, std::uint16_t found) {
    wrong.kind = EventKind::pkey_mismatch;
    wrong.value = c.pkey;
    wrong.found = found;
    wrong.connection = c.id;
    tell(f, wrong);
  };
  if (c.pkey == 0) {
    c.pkey = t.pkey;
    f.odd_pkey = std::make_unique<Event>(event);
    f.odd_pkey->found = 0;
    return;
  }
  const bool same = (c.pkey & base) == (t.pkey & base);
  if (f.odd_pkey && f.odd_pkey->found == 0) {
    // The second packet.
    if (same) {
      f.odd_pkey.reset();
    } else {
      f.odd_pkey->found = t.pkey;
      f.second_pkey = std::make_unique<Event>(event);
    }
    return;
  }
  if (f.odd_pkey) {
    // The third packet shows which P_Key is right.
    if (same) {
      tell_wrong(*f.second_pkey, static_cast<std::uint16_t>(f.odd_pkey->found));
    } else {
      const std::uint16_t wrong = c.pkey;
      c.pkey = t.pkey;
      tell_wrong(*f.odd_pkey, wrong);
    }
    f.odd_pkey.reset();
    f.second_pkey.reset();
    return;
  }
  if (!same) tell_wrong(event, t.pkey);
}

// Reports a new source port. If a sender alternates between two ports, or uses a new port for every packet, not every
// change is reported.
void QueuePairs::note_path(Followed& f, Side end, const TransportPacket& t) {
  const auto side = static_cast<std::size_t>(end);
  constexpr std::uint8_t max_path_changes = 8;
  const std::uint16_t before = f.port[side];
  if (before != 0 && t.source_port != f.previous_port[side] && f.path_changes[side] < max_path_changes) {
    ++f.path_changes[side];
    Event event;
    event.kind = EventKind::path_change;
    event.end = end;
    event.connection = f.info.id;
    event.frame = event.last_frame = t.frame;
    event.time = t.time;
    event.psn = t.psn.value();
    event.value = t.source_port;
    event.found = before;
    tell(f, event);
  }
  f.previous_port[side] = before;
  f.port[side] = t.source_port;
}

// Returns true if the transport headers are unmodified.
bool QueuePairs::judge_crc(Followed& f, Side end, const Packet& packet, const TransportPacket& t, bool& changed) {
  if (!t.crc_bad) {
    if (packet.icrc.status == CrcCheck::Status::good) ++f.good_crcs;
    if (!f.unexplained.empty()) tell_unexplained(f, Cause::unknown, 0);
    return true;
  }
  ++f.bad_crcs;
  ++f.info.by(end).crc_bad;
  Event event;
  event.kind = EventKind::crc_bad;
  event.cause = Cause::unknown;
  event.end = end;
  event.connection = f.info.id;
  event.frame = event.last_frame = t.frame;
  event.time = t.time;
  event.psn = t.psn.value();
  event.bytes = t.payload;
  if (f.bad_crcs <= explained) {
    const IcrcCause cause = explain_icrc(packet.stack, addresses_.bytes());
    event.cause = cause_of(cause);
    event.value = restored_value(cause);
  }
  // If all CRCs of a connection are bad, an address may have been rewritten. Later packets of other connections may
  // contain the original address.
  constexpr std::size_t put_aside = 256;
  if (event.cause == Cause::unknown && f.good_crcs == 0 && f.unexplained.size() < put_aside) {
    f.unexplained.push_back(event);
    used_ += sizeof(Event);
    return false;
  }
  if (event.cause == Cause::address) tell_unexplained(f, event.cause, event.value);
  changed = event.cause == Cause::payload || event.cause == Cause::source_port || event.cause == Cause::address ||
            event.cause == Cause::ip_identification;
  tell(f, event);
  return event.cause != Cause::unknown;
}

void QueuePairs::tell_unexplained(Followed& f, Cause cause, std::uint64_t value) {
  for (Event& event : f.unexplained) {
    event.connection = f.info.id;
    event.cause = cause;
    event.value = value;
    tell(f, event);
  }
  used_ -= f.unexplained.size() * sizeof(Event);
  f.unexplained.clear();
  f.unexplained.shrink_to_fit();
}

// Returns true if the PSN of the request is too far from the last waiting request.
bool QueuePairs::begins_anew(const Followed& f, const TransportPacket& t) {
  if (!f.search || f.search->late || t.is_response()) return false;
  const auto& held = f.search->held;
  const auto last = std::find_if(held.rbegin(), held.rend(), [](const TransportPacket& p) { return !p.is_response(); });
  if (last == held.rend()) return false;
  constexpr std::uint32_t smallest_mtu = 256;
  const bool read = last->op->operation == Operation::rdma_read_request;
  const auto psns = static_cast<std::int32_t>(
      std::min(machines::psns_of_read(read ? last->length : 0, smallest_mtu), Psn::half - 1 - Requester::far));
  const std::int32_t ahead = t.psn - last->psn;
  return ahead >= psns + Requester::far || -ahead >= Requester::far;
}

// Treats the packet in `jump` as a stray: counts it, but ignores its contents.
void QueuePairs::settle_jump(Followed& f, Side end) {
  auto& jump = f.jump[static_cast<std::size_t>(end)];
  if (jump) count(f, end, *jump);
  jump.reset();
}

// Returns true if the packet belongs to a new connection with the same QPs, or waits for this decision. It is not
// counted yet in either case.
bool QueuePairs::replaced(Index at, Side end, const TransportPacket& t) {
  Followed& f = *followed_[at];
  const auto side = static_cast<std::size_t>(end);
  if (t.op->operation == Operation::congestion_notification) return false;
  constexpr std::int64_t silence_ns = 500'000'000;
  const bool silence = f.last_time != 0 && t.time - f.last_time >= silence_ns && !t.crc_bad;
  if (t.is_response()) {
    // The response may belong to a request of another direction that is not paired yet.
    const Requester& requester = f.requesters[1 - side];
    if (!silence || (requester.started() && requester.window().place(t.psn) == machines::ResponsePlace::outstanding))
      return false;
    if (!requests_.contains(place_of(f, end == Side::a, t.psn.value()))) return false;
    replace(at, t, nullptr);
    return true;
  }
  auto& jump = f.jump[side];
  const bool after_silence = silence && t.op->begins_message();
  constexpr std::uint16_t base = 0x7fff;
  const bool other_port = f.port[side] != 0 && f.port[side] != t.source_port;
  const bool other_pkey = f.info.pkey != 0 && ((f.info.pkey ^ t.pkey) & base) != 0;
  if (after_silence && (other_pkey || (other_port && !f.requesters[side].started()))) {
    replace(at, t, nullptr);
    return true;
  }
  if (f.requesters[side].can_continue(t.psn)) {
    settle_jump(f, end);
    return false;
  }
  constexpr std::int32_t goes_on = 64;
  if (after_silence) {
    replace(at, t, nullptr);
    return true;
  }
  if (!jump) {
    jump = std::make_unique<TransportPacket>(t);
    return true;
  }
  const std::int32_t ahead = t.psn - jump->psn;
  if (ahead < 0 || ahead > goes_on) {
    settle_jump(f, end);
    jump = std::make_unique<TransportPacket>(t);
    return true;
  }
  const TransportPacket first = *jump;
  jump.reset();
  replace(at, first, &t);
  return true;
}

// Starts a new connection with the same QPs, because its first request does not continue the old connection.
void QueuePairs::replace(Index at, const TransportPacket& first, const TransportPacket* second) {
  Followed& f = *followed_[at];
  Event event;
  event.kind = EventKind::replaced;
  const Slot* of_first = find({first.from, first.to, number_of(first)});
  event.end = of_first ? of_first->end : Side::a;
  event.connection = f.info.id;
  event.frame = event.last_frame = first.frame;
  event.origin_frame = f.info.first_frame;
  event.time = first.time;
  event.psn = first.psn.value();
  f.info.replaced = true;
  sink_->event(&f.info, event);
  close_reason(at, CloseReason::ended, last_.time);
  begin(first);
  for (const TransportPacket* packet : {&first, second}) {
    if (!packet) continue;
    const Slot* slot = find({packet->from, packet->to, number_of(*packet)});
    if (!slot) continue;
    count(*followed_[slot->at], slot->end, *packet);
    follow(slot->at, slot->end, *packet);
  }
}

void QueuePairs::follow(Index at, Side end, const TransportPacket& t) {
  Followed& f = *followed_[at];
  if (!f.search || f.search->late) {
    process(f, end, t);
    constexpr std::uint64_t often = 16;
    const std::uint64_t responses = f.info.sent[0].responses;
    if (f.lone && t.is_response() && (f.search || responses < often || responses % often == 0)) try_answers(at, t);
    return;
  }
  Search& search = *f.search;
  search.held.push_back(t);
  ++waiting_;
  if (!t.is_response()) note_request(at, t);
  charge(search);
  if (t.is_response()) {
    try_answers(at, t);
    const Slot* slot = find({t.from, t.to, number_of(t)});
    if (!slot || slot->at != at || !followed_[at]->search) return;  // the direction was paired
  }
  if (search.held.size() >= patience_packets || t.time - search.since > patience_ns ||
      waiting_ > options_.waiting_packets)
    give_up(at);
}

void QueuePairs::tell_stall(Followed& f, Side end, const TransportPacket& t) {
  if (!has_answers(f.info.service)) return;
  Event event;
  event.kind = EventKind::stall;
  event.end = t.is_response() ? other(end) : end;
  event.cause = f.requesters[static_cast<std::size_t>(event.end)].waited_for(t);
  if (event.cause == Cause::none) return;
  event.connection = f.info.id;
  event.frame = event.last_frame = t.frame;
  event.origin_frame = f.last_frame;
  event.time = t.time;
  event.duration = t.time - f.last_time;
  event.psn = t.psn.value();
  sink_->event(&f.info, event);
}

void QueuePairs::process(Followed& f, Side end, const TransportPacket& t) {
  PacketNote note;
  const bool joined = f.joined();
  const auto side = static_cast<std::size_t>(end), peer = static_cast<std::size_t>(other(end));
  PacketNote* const wanted = options_.packets ? &note : nullptr;
  note.connection = f.info.id;
  note.end = end;
  if (f.last_time != 0 && t.time - f.last_time >= Requester::stall_ns && joined) tell_stall(f, end, t);
  f.last_time = t.time;
  f.last_frame = t.frame;
  if (t.op->operation == Operation::congestion_notification) {
    f.requesters[peer].notified(t, {f.info, *sink_, other(end), joined, wanted});
  } else if (f.info.service == Service::ud) {
    // Each datagram is a message. Receivers ignore its PSN.
    Event event;
    auto& qkey = f.qkey[peer];
    constexpr std::uint32_t privileged = 0x80000000;
    if (qkey == 0) {
      qkey = t.qkey;
    } else if (qkey != t.qkey && !(t.qkey & privileged)) {
      event.kind = EventKind::qkey_mismatch;
      event.end = end;
      event.connection = f.info.id;
      event.frame = event.last_frame = t.frame;
      event.time = t.time;
      event.psn = t.psn.value();
      event.bytes = t.payload;
      event.value = qkey;
      event.found = t.qkey;
      sink_->event(&f.info, event);
    }
    Message m;
    m.connection = f.info.id;
    m.end = end;
    m.outcome = Outcome::sent;
    m.has_immediate = t.op->immediate;
    m.immediate = t.immediate;
    m.solicited = t.solicited;
    m.first_psn = m.last_psn = t.psn.value();
    m.size = t.payload;
    m.first_frame = m.last_frame = t.frame;
    m.start = m.end_time = t.time;
    m.packets = 1;
    Sent& sent = f.info.by(end);
    m.number = ++sent.messages[static_cast<std::size_t>(MessageKind::send)];
    sent.message_bytes += t.payload;
    note.message = m.number;
    note.requester = end;
    sink_->message(f.info, m);
  } else if (f.info.service == Service::rc || f.info.service == Service::xrc || f.info.service == Service::uc) {
    if (t.is_response())
      f.requesters[peer].response(t, {f.info, *sink_, other(end), joined, wanted});
    else
      f.requesters[side].request(t, {f.info, *sink_, end, joined, wanted});
  }
  update_memory_usage(f);
  if (wanted) sink_->packet(f.info, t.frame, note);
  if (options_.transport) sink_->transport(f.info, end, t, f.agreement.get());
  if (f.info.paired_by == JoinedBy::answers && f.info.confidence == Confidence::low) {
    constexpr std::uint64_t enough = 16;
    if (f.info.agreeing >= enough && f.info.contradicting == 0) f.info.confidence = Confidence::high;
  }
}

}  // namespace rdmawire::tracking
