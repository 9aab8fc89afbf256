#include "dissectors/tracking/queue_pairs.hpp"

#include <algorithm>
#include <cstddef>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/crc_cause.hpp"
#include "dissectors/tracking/fetch.hpp"

namespace rdmawire::tracking {
namespace {

/// One direction's packets wait for the other one at most so many, and so long.
constexpr std::size_t patience_packets = 160;
constexpr std::int64_t patience_ns = 10'000'000'000;
/// So many directions without another half are looked through, the newest first.
constexpr std::size_t looked_through = 128;
/// And so many whose requests have the PSN of a response.
constexpr std::size_t considered = 2048;
/// PSNs that are this near are told from each other by more than one answer.
constexpr unsigned stretch_bits = 8;
/// Bad CRCs that are explained, for each connection.
constexpr std::uint32_t explained = 4096;

constexpr std::uint32_t congestion_experienced = 3;

constexpr Service service_of(Transport transport) {
  switch (transport) {
    case Transport::uc: return Service::uc;
    case Transport::ud: return Service::ud;
    case Transport::rd: return Service::rd;
    case Transport::xrc: return Service::xrc;
    default: return Service::rc;
  }
}

bool has_answers(Service service) { return service == Service::rc || service == Service::xrc; }

}  // namespace

namespace source_port {

std::uint16_t of_pair(std::uint32_t local_qp, std::uint32_t remote_qp) {
  std::uint64_t v = std::uint64_t{local_qp} * remote_qp;
  v ^= v >> 20;
  v ^= v >> 40;
  const auto label = static_cast<std::uint32_t>(v & 0xfffff);
  return static_cast<std::uint16_t>(((label & 0x3fff) ^ ((label & 0xfc000) >> 14)) | 0xc000);
}

std::uint16_t of_sender(std::uint32_t local_qp) {
  constexpr std::uint32_t golden_ratio = 0x61c88647;
  return static_cast<std::uint16_t>((local_qp * golden_ratio >> (32 - 14)) + 0xc000);
}

}  // namespace source_port

/// A direction whose requests these responses may answer.
struct QueuePairs::Candidate {
  Index at = none;
  std::uint32_t against = 0;  // responses that do not fit it, or fit another one much better
  std::int64_t delay = 0;     // of the response that is looked at; negative: it does not fit
};

struct QueuePairs::Search {
  std::vector<TransportPacket> held;
  std::vector<Event> events;  // of the packets that are held: which connection's they are is open, too
  std::size_t told = 0;       // of these
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> stretches;  // that its requests are in
  bool late = false;                     // its packets do not wait any more
  bool looked = false;
  bool rivals = false;  // other directions have PSNs near by
  std::uint32_t matches = 0;
  Psn last_match;
  std::int64_t since = 0;
};

struct QueuePairs::Followed {
  Connection info;
  Requester requesters[2];
  bool knows[2] = {false, false};  // this end's direction has its entry
  bool recent = true;
  bool lone = false;
  bool datagram = false;
  std::uint32_t lone_at = 0;
  std::size_t octets = 0;  // of its requesters, as they were weighed last
  std::uint32_t good_crcs = 0, bad_crcs = 0;
  std::vector<Event> unexplained;  // bad CRCs, while none was good
  std::uint16_t port[2] = {0, 0}, previous_port[2] = {0, 0};
  std::uint8_t path_changes[2] = {0, 0};
  std::int64_t last_time = 0;  // of what was followed, not waiting
  std::uint64_t last_frame = 0;
  std::uint32_t qkey[2] = {0, 0};
  std::uint64_t evidence_frame = 0;
  std::unique_ptr<Event> odd_pkey, second_pkey;  // the first two packets, while their P_Keys are not judged
  std::unique_ptr<Search> search;
  std::unique_ptr<TransportPacket> jump[2];  // a request far from all before: another connection's first, or a stray

  [[nodiscard]] bool joined() const { return info.joined_by != JoinedBy::nothing; }
};

QueuePairs::QueuePairs(Sink& sink, const TrackerOptions& options) : sink_(sink), options_(options) {}
QueuePairs::~QueuePairs() = default;

std::size_t QueuePairs::memory() const {
  constexpr std::size_t node = 3 * sizeof(void*);  // what a hash table needs beside each entry, about
  const auto of_table = [](const auto& table) {
    return table.size() * (node + sizeof(*table.begin())) + table.bucket_count() * sizeof(void*);
  };
  std::size_t octets = slots_.capacity() * sizeof(Slot) + followed_.memory();
  octets += of_table(lone_) + of_table(requests_) + of_table(stretches_);
  for (Index at = 0; at < followed_.size(); ++at) {
    const Followed* f = followed_[at];
    if (!f) continue;
    octets += f->requesters[0].memory() + f->requesters[1].memory();
    for (const auto& jump : f->jump) octets += jump ? sizeof(*jump) : 0;
    if (const Search* search = f->search.get())
      octets += sizeof(Search) + search->held.capacity() * sizeof(TransportPacket) +
                search->events.capacity() * sizeof(Event) + search->candidates.capacity() * sizeof(Candidate) +
                search->stretches.capacity() * sizeof(std::uint64_t);
  }
  return octets;
}

// ---------------------------------------------------------------------------------------------------------------------
// The table of directions

// A datagram's two queue pairs are both in the packet.
std::uint64_t QueuePairs::number_of(const TransportPacket& packet) {
  constexpr std::uint64_t datagram = 1ULL << 48;
  return packet.op->transport == Transport::ud ? datagram | std::uint64_t{packet.source_qp} << 24 | packet.dest_qp
                                               : packet.dest_qp;
}

FlowKey QueuePairs::key_from(const Followed& f, End end) const {
  constexpr std::uint64_t datagram = 1ULL << 48;
  const ConnectionEnd& from = f.info.at(end);
  const ConnectionEnd& to = f.info.at(other(end));
  return {from.address, to.address,
          f.datagram ? datagram | std::uint64_t{from.qp} << 24 | to.qp : std::uint64_t{to.qp}};
}

QueuePairs::Slot* QueuePairs::find(const FlowKey& key) {
  if (slots_.empty()) return nullptr;
  const std::uint64_t hash = key.hash();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.at == none) return nullptr;
    if (slot.hash == hash && key_from(*followed_[slot.at], slot.end) == key) return &slot;
  }
}

void QueuePairs::grow() {
  std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.at == none) continue;
    std::size_t i = slot.hash & mask;
    while (slots_[i].at != none) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void QueuePairs::insert(const FlowKey& key, Index at, End end) {
  if ((slots_used_ + 1) * 2 > slots_.size()) grow();
  const std::uint64_t hash = key.hash();
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  while (slots_[i].at != none) i = (i + 1) & mask;
  slots_[i] = {hash, at, end};
  ++slots_used_;
  followed_[at]->knows[static_cast<std::size_t>(end)] = true;
}

void QueuePairs::erase(const FlowKey& key) {
  Slot* slot = find(key);
  if (!slot) return;
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = static_cast<std::size_t>(slot - slots_.data());
  // What stands behind moves up, so that every entry can be found from its own place on.
  for (std::size_t i = (hole + 1) & mask; slots_[i].at != none; i = (i + 1) & mask) {
    const std::size_t home = slots_[i].hash & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = Slot{};
  --slots_used_;
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory, before it is needed

void QueuePairs::fetch_slot(std::uint64_t hash) const {
  if (!slots_.empty()) fetch(&slots_[hash & (slots_.size() - 1)]);
}

// The hash alone: that two flows share all 64 bits of it would fetch the wrong memory, once in a lifetime.
const QueuePairs::Slot* QueuePairs::glance(std::uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask; slots_[i].at != none; i = (i + 1) & mask)
    if (slots_[i].hash == hash) return &slots_[i];
  return nullptr;
}

void QueuePairs::fetch_connection(std::uint64_t hash, bool response) const {
  const Slot* slot = glance(hash);
  if (!slot) return;
  const Followed& f = *followed_[slot->at];
  fetch(&f.info, offsetof(Connection, sent));
  fetch(&f.info.sent[static_cast<std::size_t>(slot->end)], sizeof(Sent));
  if (response) fetch(&f.info.sent[static_cast<std::size_t>(other(slot->end))], sizeof(Sent));
  fetch(&f.info.joined_by, sizeof(Connection) - offsetof(Connection, joined_by));
  fetch_between(&f.knows, &f + 1);
  f.requesters[static_cast<std::size_t>(response ? other(slot->end) : slot->end)].fetch_state(response);
}

void QueuePairs::fetch_requests(std::uint64_t hash, bool response) const {
  if (const Slot* slot = glance(hash))
    followed_[slot->at]->requesters[static_cast<std::size_t>(response ? other(slot->end) : slot->end)].fetch_requests(
        response);
}

// ---------------------------------------------------------------------------------------------------------------------
// Connections come and go

QueuePairs::Index QueuePairs::create() {
  if (alive_ > 0 && alive_ >= options_.connections) make_room();
  ++alive_;
  return followed_.create();
}

std::unique_ptr<QueuePairs::Search> QueuePairs::new_search() {
  if (spare_searches_.empty()) return std::make_unique<Search>();
  std::unique_ptr<Search> search = std::move(spare_searches_.back());
  spare_searches_.pop_back();
  return search;
}

// What it held keeps its memory for the next one.
void QueuePairs::end_search(std::unique_ptr<Search> search) {
  constexpr std::size_t spare = 64;
  if (!search || spare_searches_.size() >= spare) return;
  std::vector<TransportPacket> held = std::move(search->held);
  held.clear();
  *search = Search{};
  search->held = std::move(held);
  spare_searches_.push_back(std::move(search));
}

void QueuePairs::release(Index at) {
  Followed& f = *followed_[at];
  if (f.lone) remove_lone(at);
  for (End end : {End::a, End::b})
    if (f.knows[static_cast<std::size_t>(end)]) erase(key_from(f, end));
  octets_ -= f.octets;
  followed_.destroy(at);
  --alive_;
}

void QueuePairs::weigh(Followed& f) {
  const std::size_t octets = f.requesters[0].memory() + f.requesters[1].memory();
  octets_ += octets - f.octets;
  f.octets = octets;
}

void QueuePairs::make_room() {
  for (;; hand_ = (hand_ + 1) % followed_.size()) {
    if (hand_ >= followed_.size()) hand_ = 0;
    Followed* const f = followed_[hand_];
    if (!f) continue;
    if (f->recent) {
      f->recent = false;
      continue;
    }
    ++evicted_;
    farewell(static_cast<Index>(hand_), Farewell::evicted);
    return;
  }
}

void QueuePairs::farewell(Index at, Farewell why) {
  Followed& f = *followed_[at];
  if (f.info.id == 0) {
    release(at);  // told of by text, and never used
    return;
  }
  if (f.search) release_waiting(at);
  if (!f.unexplained.empty()) tell_unexplained(f, Cause::unknown, 0);
  for (End end : {End::a, End::b}) settle_jump(f, end);
  for (End end : {End::a, End::b})
    f.requesters[static_cast<std::size_t>(end)].finish({f.info, sink_, end, f.joined(), nullptr}, now_);
  // A damaged packet's queue pair may be one that does not exist.
  constexpr std::uint32_t strays = 2;
  const std::uint64_t packets = f.info.sent[0].packets + f.info.sent[1].packets;
  if (f.bad_crcs == 0 || f.bad_crcs < packets || packets > strays) sink_.connection(f.info, why);
  release(at);
}

QueuePairs::Index QueuePairs::begin(const TransportPacket& packet) {
  const Index at = create();
  Followed& f = *followed_[at];
  Connection& c = f.info;
  c.id = packet.frame;
  c.wire = packet.wire;
  c.service = service_of(packet.op->transport);
  c.first_frame = packet.frame;
  c.first_time = packet.time;
  c.ends[0].address = packet.from;
  c.ends[1] = {packet.to, packet.dest_qp, true};
  f.datagram = c.service == Service::ud;
  if (f.datagram) {
    c.ends[0].qp = packet.source_qp;
    c.ends[0].qp_known = true;
    c.joined_by = JoinedBy::datagram;
    c.confidence = Confidence::certain;
  }
  insert(key_from(f, End::a), at, End::a);
  if (f.datagram && !(key_from(f, End::b) == key_from(f, End::a))) insert(key_from(f, End::b), at, End::b);
  if (c.service == Service::rc || c.service == Service::xrc || c.service == Service::uc) {
    f.port[0] = packet.source_port;
    add_lone(at);
    if (has_answers(c.service)) {
      f.search = new_search();
      f.search->since = packet.time;
    }
  }
  return at;
}

// ---------------------------------------------------------------------------------------------------------------------
// A packet

void QueuePairs::add(const Packet& packet) {
  TransportPacket read;
  if (!read_transport_packet(packet, read)) return;
  const TransportPacket& t = read;
  now_ = t.time;
  if (options_.notes_addresses && !t.crc_bad) note_addresses(t.from, t.to);
  constexpr std::uint32_t management_qps = 1;
  if (t.dest_qp <= management_qps && t.op->transport == Transport::ud) return;
  const bool vendor = (!t.op->known || t.op->transport == Transport::rd) && packet.stack.find(info<DcEth>) != nullptr;
  if (!t.op->known && !vendor) return;

  while (octets_ > options_.outstanding_octets && alive_ > 1) make_room();
  const bool notification = t.op->operation == Operation::congestion_notification;
  Slot* slot = find({t.from, t.to, number_of(t)});
  Index at;
  End end;
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
      sink_.event(nullptr, event);
      return;
    }
    at = begin(t);
    end = End::a;
    if (vendor) followed_[at]->info.service = Service::vendor;
    if (options_.use_source_port && followed_[at]->lone) {
      try_source_port(at);
      slot = find({t.from, t.to, number_of(t)});
      at = slot->at;
      end = slot->end;
    }
  }
  Followed& f = *followed_[at];
  if (f.info.id == 0 && end == End::b) {
    swap_ends(at);
    end = End::a;
  }
  if (f.info.id == 0) {
    // Text told of it, and not of which service it is.
    f.info.id = f.info.first_frame = t.frame;
    f.info.first_time = t.time;
    f.info.service = service_of(t.op->transport);
  }
  f.recent = true;
  // A damaged PSN says nothing of a new connection.
  if (!(t.crc_bad && f.good_crcs != 0)) {
    if (begins_anew(f, t)) {
      // What waits belongs to an earlier connection: then whether this one replaces it can be judged.
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

void QueuePairs::take(Index at, End end, const Packet& packet, const TransportPacket& t) {
  Followed& f = *followed_[at];
  if (f.info.upper.protocol == Upper::unknown && packet.upper.protocol != Upper::unknown) f.info.upper = packet.upper;
  count(f, end, t);
  const bool whole = judge_crc(f, end, packet, t);
  // What was damaged may say anything; but where every CRC is bad, the capture shows them so.
  if (!whole && f.good_crcs != 0) {
    const Requester& requester = f.requesters[static_cast<std::size_t>(t.is_response() ? other(end) : end)];
    const bool plausible = !t.is_response() && requester.started() && t.psn == requester.window().next;
    if (!plausible) return;
  }
  follow(at, end, t);
}

// End a is who sent the first packet.
void QueuePairs::swap_ends(Index at) {
  Followed& f = *followed_[at];
  Slot* const from_a = find(key_from(f, End::a));
  Slot* const from_b = find(key_from(f, End::b));
  if (from_a) from_a->end = End::b;
  if (from_b && from_b != from_a) from_b->end = End::a;
  std::swap(f.info.ends[0], f.info.ends[1]);
  std::swap(f.info.sent[0], f.info.sent[1]);
  std::swap(f.requesters[0], f.requesters[1]);
}

// What is said of a packet by itself waits with the packet.
void QueuePairs::tell(Followed& f, const Event& event) {
  constexpr std::size_t most = 4 * patience_packets;
  if (f.search && !f.search->late && f.search->events.size() < most)
    f.search->events.push_back(event);
  else
    sink_.event(&f.info, event);
}

// Tells the events that waited, through `frame`, as those of `end` of the connection.
void QueuePairs::tell_waiting(const Followed& f, Search& search, End end, std::uint64_t frame) {
  for (; search.told < search.events.size() && search.events[search.told].frame <= frame; ++search.told) {
    Event& event = search.events[search.told];
    event.connection = f.info.id;
    event.end = end;
    sink_.event(&f.info, event);
  }
}

void QueuePairs::count(Followed& f, End end, const TransportPacket& t) {
  Connection& c = f.info;
  Sent& sent = c.by(end);
  ++sent.packets;
  sent.wire_octets += t.wire_octets;
  const bool vendor = c.service == Service::vendor;  // what its headers mean is not published
  if (!vendor) sent.payload_octets += t.payload;
  c.wire = t.wire;  // the CM and text do not say it
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
      const std::uint8_t kind = t.syndrome >> 5 & 3, code = t.syndrome & 31;
      if (kind == syndrome_kind::ack) ++sent.acks;
      if (kind == syndrome_kind::rnr_nak) ++sent.rnr_naks;
      if (kind == syndrome_kind::nak && code < sent.naks.size()) ++sent.naks[code];
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
  event.octets = t.payload;
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

// Of the first packets of a connection nothing says which one is wrong: the next one does.
void QueuePairs::judge_pkey(Followed& f, const TransportPacket& t, Event& event) {
  constexpr std::uint16_t base = 0x7fff;  // without the bit of full membership
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
    // The third: who is right?
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

// Some senders use two ports in turn, or spread every packet: no change worth telling again and again.
void QueuePairs::note_path(Followed& f, End end, const TransportPacket& t) {
  const auto side = static_cast<std::size_t>(end);
  constexpr std::uint8_t told = 8;
  const std::uint16_t before = f.port[side];
  if (before != 0 && t.source_port != f.previous_port[side] && f.path_changes[side] < told) {
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

// Whether the transport's headers are as they were sent.
bool QueuePairs::judge_crc(Followed& f, End end, const Packet& packet, const TransportPacket& t) {
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
  event.octets = t.payload;
  if (f.bad_crcs <= explained) {
    const IcrcCause cause = explain_icrc(packet.stack, addresses_.octets());
    event.cause = cause_of(cause);
    event.value = restored_value(cause);
  }
  // Where all CRCs are bad, an address was changed perhaps, and is known only later by another connection's packets.
  constexpr std::size_t put_aside = 256;
  if (event.cause == Cause::unknown && f.good_crcs == 0 && f.unexplained.size() < put_aside) {
    f.unexplained.push_back(event);
    return false;
  }
  if (event.cause == Cause::address) tell_unexplained(f, event.cause, event.value);
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
  f.unexplained.clear();
  f.unexplained.shrink_to_fit();
}

// Whether the request is too far from the last one that waits.
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

// It was a stray: counted, and not followed.
void QueuePairs::settle_jump(Followed& f, End end) {
  auto& jump = f.jump[static_cast<std::size_t>(end)];
  if (jump) count(f, end, *jump);
  jump.reset();
}

// Whether the packet waits to be judged, or is another connection's already. It is not counted yet.
bool QueuePairs::replaced(Index at, End end, const TransportPacket& t) {
  Followed& f = *followed_[at];
  const auto side = static_cast<std::size_t>(end);
  if (t.op->operation == Operation::congestion_notification) return false;
  constexpr std::int64_t silence_ns = 500'000'000;
  const bool silence = f.last_time != 0 && t.time - f.last_time >= silence_ns && !t.crc_bad;
  if (t.is_response()) {
    // A response to what another direction, whose other half is looked for, has just asked.
    const Requester& requester = f.requesters[1 - side];
    if (!silence || (requester.started() && requester.window().place(t.psn) == machines::ResponsePlace::outstanding))
      return false;
    const auto [first, last] = requests_.equal_range(place_of(f, end == End::a, t.psn.value()));
    if (first == last) return false;
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

// Another connection has these queue pairs now, as its first request shows.
void QueuePairs::replace(Index at, const TransportPacket& first, const TransportPacket* second) {
  Followed& f = *followed_[at];
  Event event;
  event.kind = EventKind::replaced;
  const Slot* of_first = find({first.from, first.to, number_of(first)});
  event.end = of_first ? of_first->end : End::a;
  event.connection = f.info.id;
  event.frame = event.last_frame = first.frame;
  event.origin_frame = f.info.first_frame;
  event.time = first.time;
  event.psn = first.psn.value();
  f.info.replaced = true;
  sink_.event(&f.info, event);
  farewell(at, Farewell::ended);
  begin(first);
  for (const TransportPacket* packet : {&first, second}) {
    if (!packet) continue;
    const Slot* slot = find({packet->from, packet->to, number_of(*packet)});
    if (!slot) continue;
    count(*followed_[slot->at], slot->end, *packet);
    follow(slot->at, slot->end, *packet);
  }
}

void QueuePairs::follow(Index at, End end, const TransportPacket& t) {
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
  if (t.is_response()) {
    try_answers(at, t);
    const Slot* slot = find({t.from, t.to, number_of(t)});
    if (!slot || slot->at != at || !followed_[at]->search) return;  // it found its other half
  }
  if (search.held.size() >= patience_packets || t.time - search.since > patience_ns ||
      waiting_ > options_.waiting_packets)
    give_up(at);
}

void QueuePairs::tell_stall(Followed& f, End end, const TransportPacket& t) {
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
  sink_.event(&f.info, event);
}

void QueuePairs::process(Followed& f, End end, const TransportPacket& t) {
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
    f.requesters[peer].notified(t, {f.info, sink_, other(end), joined, wanted});
  } else if (f.info.service == Service::ud) {
    // Each datagram is a message; its PSN is not for the receiver to judge.
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
      event.octets = t.payload;
      event.value = qkey;
      event.found = t.qkey;
      sink_.event(&f.info, event);
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
    sent.message_octets += t.payload;
    note.message = m.number;
    note.requester = end;
    sink_.message(f.info, m);
  } else if (f.info.service == Service::rc || f.info.service == Service::xrc || f.info.service == Service::uc) {
    if (t.is_response())
      f.requesters[peer].response(t, {f.info, sink_, other(end), joined, wanted});
    else
      f.requesters[side].request(t, {f.info, sink_, end, joined, wanted});
  }
  weigh(f);
  if (wanted) sink_.packet(f.info, t.frame, note);
  if (f.info.joined_by == JoinedBy::answers && f.info.confidence == Confidence::low) {
    constexpr std::uint64_t enough = 16;
    if (f.info.agreeing >= enough && f.info.contradicting == 0) f.info.confidence = Confidence::high;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Joining

int QueuePairs::direction_of(const Followed& f) { return f.info.ends[0].address <= f.info.ends[1].address ? 0 : 1; }

void QueuePairs::add_lone(Index at) {
  Followed& f = *followed_[at];
  const PortAddress &a = f.info.ends[0].address, &b = f.info.ends[1].address;
  auto& list = lone_[a <= b ? PortPair{a, b} : PortPair{b, a}].from[direction_of(f)];
  f.lone = true;
  f.lone_at = static_cast<std::uint32_t>(list.size());
  list.push_back(at);
}

void QueuePairs::remove_lone(Index at) {
  forget_requests(at);
  Followed& f = *followed_[at];
  const PortAddress &a = f.info.ends[0].address, &b = f.info.ends[1].address;
  const auto place = lone_.find(a <= b ? PortPair{a, b} : PortPair{b, a});
  auto& list = place->second.from[direction_of(f)];
  list[f.lone_at] = list.back();
  followed_[list[f.lone_at]]->lone_at = f.lone_at;
  list.pop_back();
  f.lone = false;
  if (place->second.from[0].empty() && place->second.from[1].empty()) lone_.erase(place);
}

void QueuePairs::try_source_port(Index at) {
  const Followed& f = *followed_[at];
  if (f.port[0] == 0) return;
  const PortAddress &a = f.info.ends[0].address, &b = f.info.ends[1].address;
  const Lone& lone = lone_[a <= b ? PortPair{a, b} : PortPair{b, a}];
  const int direction = direction_of(f);
  const bool loop = a == b;
  const std::uint32_t dest = f.info.ends[1].qp;
  const std::uint16_t senders_answer = source_port::of_sender(dest);
  Index found = none;
  std::size_t same_port = 0;
  const auto& others = lone.from[loop ? direction : 1 - direction];
  for (std::size_t i = others.size(), looked = 0; i-- > 0 && looked < looked_through; ++looked) {
    if (others[i] == at) continue;
    const Followed& o = *followed_[others[i]];
    // First what excludes most: each thing that is asked may be a line of memory that is not in the cache.
    if (o.port[0] != f.port[0] && o.port[0] != senders_answer) continue;
    if (o.info.service != f.info.service) continue;
    const std::uint32_t source = o.info.ends[1].qp;  // what this direction's sender would be
    same_port += o.port[0] == f.port[0];
    const bool pair = f.port[0] == o.port[0] && f.port[0] == source_port::of_pair(source, dest);
    const bool sender = f.port[0] == source_port::of_sender(source) && o.port[0] == senders_answer;
    if (!pair && !sender) continue;
    if (found != none) return;  // several could be it: answers must tell
    found = others[i];
  }
  // Ports that do not vary say nothing.
  constexpr std::size_t constant = 4;
  if (found != none && same_port <= constant) join(found, at, JoinedBy::source_port, Confidence::high);
}

// When the request was sent that `response` answers, if one was seen before frame `before`; 0: not known.
std::optional<std::int64_t> QueuePairs::answers(const Followed& requests, const TransportPacket& response,
                                                std::uint64_t before) {
  const std::uint8_t kind = response.syndrome >> 5 & 3, code = response.syndrome & 31;
  const bool gap_nak = response.op->operation == Operation::acknowledge && kind == syndrome_kind::nak &&
                       code == nak_code::psn_sequence_error;
  const auto covers = [&](const TransportPacket& request) {
    const std::int32_t ahead = response.psn - request.psn;
    if (ahead < 0) return false;
    const bool read = request.op->operation == Operation::rdma_read_request;
    if (response.op->operation == Operation::rdma_read_response) {
      constexpr std::uint32_t smallest_mtu = 256;
      return read && ahead < static_cast<std::int32_t>(machines::psns_of_read(request.length, smallest_mtu));
    }
    if (response.op->operation == Operation::atomic_acknowledge) return ahead == 0 && request.has_atomic;
    // A gap's NAK has the PSN of a packet that is missing.
    if (gap_nak) return ahead <= 1;
    return ahead == 0 && (!read || kind != syndrome_kind::ack);
  };
  if (requests.search) {
    for (std::size_t i = requests.search->held.size(); i-- > 0;) {
      const TransportPacket& request = requests.search->held[i];
      if (request.frame < before && !request.is_response() && request.op->transport == response.op->transport &&
          covers(request))
        return request.time;
    }
    return std::nullopt;
  }
  const Requester& requester = requests.requesters[0];
  if (!requester.started() || requester.window().place(response.psn) != machines::ResponsePlace::outstanding)
    return std::nullopt;
  return 0;
}

// Whether what `responses` was asked says that the two do not belong together.
bool QueuePairs::contradicts(const Followed& requests, const Followed& responses) {
  if (!requests.search || !responses.search) return false;
  std::size_t good = 0, bad = 0;
  for (const TransportPacket& t : responses.search->held)
    if (t.is_response()) ++(answers(requests, t, t.frame).has_value() ? good : bad);
  return bad > good;
}

std::uint64_t QueuePairs::place_of(const Followed& f, bool reversed, std::uint64_t number) const {
  const PortAddress &from = f.info.ends[reversed ? 1 : 0].address, &to = f.info.ends[reversed ? 0 : 1].address;
  return FlowKey{from, to, number}.hash();
}

void QueuePairs::note_request(Index at, const TransportPacket& t) {
  Followed& f = *followed_[at];
  // No more are looked at: with many that have the same PSN, each would cost as much as there are.
  const std::uint64_t place = place_of(f, false, t.psn.value());
  if (requests_.count(place) < looked_through) requests_.emplace(place, at);
  constexpr std::uint64_t a_stretch = 1ULL << 32;
  const std::uint64_t stretch = place_of(f, false, a_stretch | t.psn.value() >> stretch_bits);
  auto& stretches = f.search->stretches;
  if (std::find(stretches.begin(), stretches.end(), stretch) != stretches.end()) return;
  stretches.push_back(stretch);
  ++stretches_[stretch];
}

void QueuePairs::forget_requests(Index at) {
  Followed& f = *followed_[at];
  if (!f.search) return;
  for (const TransportPacket& t : f.search->held) {
    if (t.is_response()) continue;
    const auto [first, last] = requests_.equal_range(place_of(f, false, t.psn.value()));
    const auto entry = std::find_if(first, last, [&](const auto& e) { return e.second == at; });
    if (entry != last) requests_.erase(entry);
  }
  for (const std::uint64_t stretch : f.search->stretches) {
    const auto entry = stretches_.find(stretch);
    if (entry != stretches_.end() && --entry->second == 0) stretches_.erase(entry);
  }
  f.search->stretches.clear();
}

// Whether the candidate still is one: its place can have gone to another connection.
bool QueuePairs::can_be_other_half(Index at, Index candidate) const {
  const auto &f = followed_[at], &o = followed_[candidate];
  return candidate != at && o && o->lone && o->info.service == f->info.service &&
         o->info.ends[0].address == f->info.ends[1].address && o->info.ends[1].address == f->info.ends[0].address;
}

// Directions whose requests `t`, of the direction `at`, can answer.
void QueuePairs::look_for_candidates(Index at, const TransportPacket& t) {
  Followed& f = *followed_[at];
  Search& search = *f.search;
  const auto consider = [&](Index candidate) {
    if (!can_be_other_half(at, candidate)) return;
    const auto same = [&](const Candidate& c) { return c.at == candidate; };
    if (std::any_of(search.candidates.begin(), search.candidates.end(), same)) return;
    if (answers(*followed_[candidate], t, t.frame)) search.candidates.push_back({candidate});
  };
  // A gap's NAK has the PSN of a packet that is missing: the one before it was seen.
  for (const Psn psn : {t.psn, t.psn - 1}) {
    const auto [first, last] = requests_.equal_range(place_of(f, true, psn.value()));
    std::size_t looked = 0;
    for (auto entry = first; entry != last && looked < considered; ++entry, ++looked) consider(entry->second);
  }
  if (search.candidates.empty()) {
    // In the middle of a READ's responses, or of a direction whose packets do not wait any more.
    const PortAddress &a = f.info.ends[0].address, &b = f.info.ends[1].address;
    const auto& others =
        lone_[a <= b ? PortPair{a, b} : PortPair{b, a}].from[a == b ? direction_of(f) : 1 - direction_of(f)];
    for (std::size_t i = others.size(), looked = 0; i-- > 0 && looked < looked_through; ++looked) consider(others[i]);
  }
  // The requests were held in the order of the hash table, which is not the capture's.
  std::sort(search.candidates.begin(), search.candidates.end(), [&](const Candidate& x, const Candidate& y) {
    return followed_[x.at]->info.first_frame < followed_[y.at]->info.first_frame;
  });
  std::uint32_t near = 0;
  constexpr std::uint64_t a_stretch = 1ULL << 32;
  for (const std::int64_t step : {-1, 0, 1}) {
    const Psn psn = t.psn + step * (1 << stretch_bits);
    const auto entry = stretches_.find(place_of(f, true, a_stretch | psn.value() >> stretch_bits));
    if (entry != stretches_.end()) near += entry->second;
  }
  search.rivals = near > search.candidates.size() || search.candidates.size() > 1;
}

void QueuePairs::try_answers(Index at, const TransportPacket& t) {
  Followed& f = *followed_[at];
  if (!f.search) {
    f.search = new_search();
    f.search->late = true;
  }
  Search& search = *f.search;
  const bool late = search.late;
  const auto done = [&] {
    if (late) end_search(std::move(followed_[at]->search));
  };
  const PortAddress &a = f.info.ends[0].address, &b = f.info.ends[1].address;
  const auto place = lone_.find(a <= b ? PortPair{a, b} : PortPair{b, a});
  if (place == lone_.end()) return done();
  if (!search.looked || search.candidates.empty()) {
    search.candidates.clear();
    search.matches = 0;
    search.rivals = false;
    look_for_candidates(at, t);
    search.looked = true;
  }
  std::erase_if(search.candidates, [&](const Candidate& c) { return !can_be_other_half(at, c.at); });
  weigh_candidates(search, t);
  if (search.candidates.empty()) {
    search.looked = false;
    return done();
  }
  if (search.candidates.size() > 1) search.rivals = true;
  const auto best = std::min_element(search.candidates.begin(), search.candidates.end(),
                                     [](const Candidate& x, const Candidate& y) { return x.against < y.against; });
  // Where several could be it, the others must have been contradicted more than once.
  constexpr std::uint32_t enough = 2, clear = 2, enough_alone = 3;
  const bool all_clear = std::all_of(search.candidates.begin(), search.candidates.end(),
                                     [&](const Candidate& c) { return &c == &*best || c.against >= clear; });
  const bool alone = search.candidates.size() == 1;
  if (best->against != 0 || !all_clear || (search.rivals && search.matches < (alone ? enough_alone : enough))) return;
  const Index other_half = best->at;
  if (contradicts(f, *followed_[other_half])) {
    search.candidates.clear();
    return done();
  }
  join(other_half, at, JoinedBy::answers, Confidence::high);
}

// What one more response says for and against each candidate.
void QueuePairs::weigh_candidates(Search& search, const TransportPacket& t) {
  const bool again = search.matches != 0 && search.last_match == t.psn;
  if (again) return;
  std::int64_t shortest = INT64_MAX;
  for (Candidate& c : search.candidates) {
    const auto sent = answers(*followed_[c.at], t, t.frame);
    c.delay = sent ? t.time - *sent : -1;
    if (c.delay >= 0 && *sent != 0) shortest = std::min(shortest, c.delay);
  }
  ++search.matches;
  search.last_match = t.psn;
  // Answers come soon: of requests at very different times it is the last one's. Of queue pairs in lockstep this says
  // nothing.
  constexpr std::int64_t much = 4, jitter_ns = 20'000;
  for (Candidate& c : search.candidates)
    if (c.delay < 0 || (shortest != INT64_MAX && c.delay > much * (shortest + jitter_ns))) ++c.against;
  constexpr std::uint32_t hopeless = 6;
  std::erase_if(search.candidates, [](const Candidate& c) { return c.against >= hopeless; });
}

// The older one goes on, with the younger as its other end.
QueuePairs::Index QueuePairs::join(Index at, Index with, JoinedBy by, Confidence confidence) {
  if (followed_[with]->info.first_frame < followed_[at]->info.first_frame) std::swap(at, with);
  Followed& f = *followed_[at];
  Followed& o = *followed_[with];
  remove_lone(at);
  remove_lone(with);
  Connection& c = f.info;
  c.ends[0].qp = o.info.ends[1].qp;
  c.ends[0].qp_known = true;
  c.joined_by = by;
  c.confidence = confidence;
  if (c.mtu == 0) c.mtu = o.info.mtu;
  if (c.upper.protocol == Upper::unknown) c.upper = o.info.upper;
  c.last_frame = std::max(c.last_frame, o.info.last_frame);
  c.last_time = std::max(c.last_time, o.info.last_time);
  // What the other half counted: its end a is this one's b. Neither has counted anything of its unseen end but what its
  // own requests told of it.
  const Sent told = c.sent[1];
  c.sent[1] = o.info.sent[0];
  c.sent[1].lost_in_capture += told.lost_in_capture;
  c.sent[1].out_of_order += told.out_of_order;
  c.sent[0].lost_in_capture += o.info.sent[1].lost_in_capture;
  c.sent[0].out_of_order += o.info.sent[1].out_of_order;
  f.requesters[1] = std::move(o.requesters[0]);
  f.octets += o.octets;
  o.octets = 0;
  f.port[1] = o.port[0];
  f.previous_port[1] = o.previous_port[0];
  f.jump[1] = std::move(o.jump[0]);
  for (Event& event : o.unexplained) {
    event.end = End::b;
    f.unexplained.push_back(event);
  }
  f.good_crcs += o.good_crcs;
  f.bad_crcs += o.bad_crcs;
  std::unique_ptr<Search> first = std::move(f.search), second = std::move(o.search);
  const FlowKey key = key_from(o, End::a);
  if (!second || second->late) sink_.merged(c, o.info.id);  // it may have told something
  release(with);
  insert(key, at, End::b);

  // Both directions' packets in the capture's order.
  const std::vector<TransportPacket> nothing;
  const auto& x = first ? first->held : nothing;
  const auto& y = second ? second->held : nothing;
  waiting_ -= x.size() + y.size();
  const auto tell_both = [&](std::uint64_t frame) {
    if (first) tell_waiting(f, *first, End::a, frame);
    if (second) tell_waiting(f, *second, End::b, frame);
  };
  std::size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const bool older = j == y.size() || (i < x.size() && x[i].frame < y[j].frame);
    tell_both(older ? x[i].frame : y[j].frame);
    if (older)
      process(f, End::a, x[i++]);
    else
      process(f, End::b, y[j++]);
  }
  tell_both(UINT64_MAX);
  end_search(std::move(first));
  end_search(std::move(second));
  return at;
}

void QueuePairs::release_waiting(Index at) {
  forget_requests(at);
  Followed& f = *followed_[at];
  std::unique_ptr<Search> search = std::move(f.search);
  waiting_ -= search->held.size();
  for (const TransportPacket& t : search->held) {
    tell_waiting(f, *search, End::a, t.frame);
    process(f, End::a, t);
  }
  tell_waiting(f, *search, End::a, UINT64_MAX);
  end_search(std::move(search));
}

void QueuePairs::give_up(Index at) {
  Followed& f = *followed_[at];
  Search& search = *f.search;
  std::erase_if(search.candidates,
                [&](const Candidate& c) { return !can_be_other_half(at, c.at) || contradicts(f, *followed_[c.at]); });
  if (search.looked && !search.candidates.empty()) {
    // Of several that fit as well, the one that appeared first: other directions, too, give up in that order.
    const auto less = [&](const Candidate& x, const Candidate& y) {
      if (x.against != y.against) return x.against < y.against;
      return followed_[x.at]->info.first_frame < followed_[y.at]->info.first_frame;
    };
    const Candidate best = *std::min_element(search.candidates.begin(), search.candidates.end(), less);
    if (best.against * 2 > search.matches) {
      release_waiting(at);
      return;
    }
    const bool clear = std::all_of(search.candidates.begin(), search.candidates.end(),
                                   [&](const Candidate& c) { return c.at == best.at || c.against > best.against + 1; });
    constexpr std::uint32_t sure = 2;
    const bool high = best.against == 0 && clear && search.matches >= sure;
    join(best.at, at, JoinedBy::answers, high ? Confidence::high : Confidence::low);
    return;
  }
  release_waiting(at);
}

// ---------------------------------------------------------------------------------------------------------------------
// What was said about pairs

void QueuePairs::pair(const PairEvidence& evidence) {
  if (evidence.by == JoinedBy::connection_manager ? !options_.use_connection_manager : !options_.use_text) return;
  if (evidence.sides[0].qp == 0 || evidence.sides[1].qp == 0 || evidence.service == Service::ud) return;
  for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    Slot* slot = find(evidence.to(side));
    if (!slot) continue;
    Followed& old = *followed_[slot->at];
    // The same text again.
    if (evidence.by == JoinedBy::text && old.info.joined_by == JoinedBy::text && old.info.by(End::a).packets == 0 &&
        old.info.by(End::b).packets == 0)
      return;
    if (evidence.by == JoinedBy::text && old.info.joined_by == JoinedBy::text &&
        old.requesters[slot->end == End::a ? 0 : 1].started() && evidence.sides[1 - side].first_psn &&
        old.requesters[static_cast<std::size_t>(slot->end)].first() == Psn(*evidence.sides[1 - side].first_psn))
      return;
    if (old.info.by(End::a).packets + old.info.by(End::b).packets > 0) {
      old.info.replaced = true;
      Event event;
      event.kind = EventKind::replaced;
      event.connection = old.info.id;
      event.frame = event.last_frame = evidence.frame;
      event.time = evidence.time;
      event.origin_frame = old.info.first_frame;
      sink_.event(&old.info, event);
      farewell(slot->at, Farewell::ended);
    } else {
      release(slot->at);
    }
  }
  const Index at = create();
  Followed& f = *followed_[at];
  Connection& c = f.info;
  c.id = c.first_frame = evidence.request_frame;
  c.first_time = evidence.request_time;
  c.last_frame = evidence.frame;
  c.last_time = evidence.time;
  if (evidence.by == JoinedBy::text) c.id = 0;  // one segment can tell of many: the first packet names it
  c.service = evidence.service_known ? evidence.service : Service::rc;
  c.joined_by = evidence.by;
  c.confidence = Confidence::certain;
  c.mtu = evidence.mtu;
  c.mtu_negotiated = evidence.mtu != 0;
  c.pkey = evidence.pkey;
  c.service_port = evidence.service_port;
  f.evidence_frame = evidence.frame;
  for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const PairEvidence::Side& s = evidence.sides[side];
    c.ends[side] = {s.address, s.qp, true};
    if (s.first_psn) f.requesters[side].expect(Psn(*s.first_psn));
    const auto& peer = evidence.sides[1 - side];
    if (s.reads_as_requester && peer.reads_as_responder)
      f.requesters[side].limit_reads(std::min(*s.reads_as_requester, *peer.reads_as_responder));
  }
  insert(key_from(f, End::a), at, End::a);
  if (!(key_from(f, End::b) == key_from(f, End::a))) insert(key_from(f, End::b), at, End::b);
}

// The connection that evidence speaks of, when it is known; `swapped`: its end a is sides[1].
QueuePairs::Followed* QueuePairs::of_evidence(const PairEvidence& evidence, bool& swapped) {
  for (std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    if (evidence.sides[side].qp == 0) continue;
    const Slot* slot = find(evidence.to(side));
    if (!slot) continue;
    // A packet to `side` is sent by the other one.
    swapped = (slot->end == End::a) != (side == 1);
    return followed_[slot->at];
  }
  return nullptr;
}

void QueuePairs::opened(const PairEvidence& evidence, const Event& event) {
  bool swapped = false;
  Followed* f = of_evidence(evidence, swapped);
  if (!f || !options_.use_connection_manager) return;
  Event told = event;
  told.connection = f->info.id;
  if (swapped) told.end = other(told.end);
  f->info.opened_frame = event.frame;
  f->info.open_duration = event.duration;
  sink_.event(&f->info, told);
}

void QueuePairs::rejected(const PairEvidence& evidence, const Event& event, const Rejection&) {
  if (evidence.sides[1].qp != 0 && options_.use_connection_manager) {
    // The REP was refused: the connection is known since pair(), and says its farewell like others.
    bool swapped = false;
    Followed* f = of_evidence(evidence, swapped);
    if (f && f->info.id != (evidence.request_frame ? evidence.request_frame : f->info.id)) f = nullptr;
    Event told = event;
    told.connection = f ? f->info.id : 0;
    if (swapped && f) told.end = other(told.end);
    sink_.event(f ? &f->info : nullptr, told);
    return;
  }
  Connection c;
  c.id = evidence.request_frame ? evidence.request_frame : event.frame;
  c.service = evidence.service;
  c.first_frame = c.id;
  c.first_time = evidence.request_time ? evidence.request_time : event.time;
  c.last_frame = event.frame;
  c.last_time = event.time;
  c.service_port = evidence.service_port;
  for (std::size_t side : {std::size_t{0}, std::size_t{1}})
    c.ends[side] = {evidence.sides[side].address, evidence.sides[side].qp, evidence.sides[side].qp != 0};
  Event told = event;
  told.connection = c.id;
  sink_.event(&c, told);
  sink_.connection(c, Farewell::ended);
}

void QueuePairs::path_changed(const PairEvidence& evidence, const Event& event, const FlowKey&) {
  bool swapped = false;
  Followed* f = of_evidence(evidence, swapped);
  if (!f) return;
  Event told = event;
  told.connection = f->info.id;
  if (swapped) told.end = other(told.end);
  sink_.event(&f->info, told);
}

void QueuePairs::closing(const PairEvidence& evidence, std::uint64_t frame, std::int64_t) {
  bool swapped = false;
  if (Followed* f = of_evidence(evidence, swapped); f && f->info.closed_frame == 0) f->info.closed_frame = frame;
}

void QueuePairs::closed(const PairEvidence& evidence, const Event& event) {
  bool swapped = false;
  Followed* f = of_evidence(evidence, swapped);
  if (!f) return;
  Event told = event;
  told.connection = f->info.id;
  if (swapped) told.end = other(told.end);
  sink_.event(&f->info, told);
}

void QueuePairs::finish() {
  std::vector<Index> order;
  for (Index at = 0; at < followed_.size(); ++at)
    if (followed_[at]) order.push_back(at);
  const auto by_frame = [&](Index x, Index y) {
    return followed_[x]->info.first_frame < followed_[y]->info.first_frame;
  };
  std::sort(order.begin(), order.end(), by_frame);
  for (Index at : order)
    if (followed_[at] && followed_[at]->search && !followed_[at]->search->late) give_up(at);
  order.clear();
  for (Index at = 0; at < followed_.size(); ++at)
    if (followed_[at]) order.push_back(at);
  std::sort(order.begin(), order.end(), by_frame);
  for (Index at : order) {
    farewell(at, Farewell::ended);
  }
}

}  // namespace rdmawire::tracking
