/// Table of directions, and creation and removal of connections.

#include <algorithm>
#include <utility>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/tracking/fetch.hpp"
#include "dissectors/tracking/queue_pairs_state.hpp"

namespace rdmawire::tracking {

QueuePairs::QueuePairs(Sink& sink, const TrackerOptions& options)
    : sink_(&sink), options_(options), recent_(options.recent_connections), lone_(std::make_unique<LoneLists>()) {}
QueuePairs::~QueuePairs() = default;

std::size_t QueuePairs::memory() const {
  std::size_t bytes =
      slots_.capacity() * sizeof(Slot) + followed_.memory() + singles_.memory() + recent_.capacity() * sizeof(Recent);
  bytes += lone_->memory() + requests_.memory() + stretches_.memory();
  for (Index at = 0; at < followed_.size(); ++at) {
    const Followed* f = followed_[at];
    if (!f) continue;
    bytes += f->requesters[0].memory() + f->requesters[1].memory();
    for (const auto& jump : f->jump) bytes += jump ? sizeof(*jump) : 0;
    if (const Search* search = f->search.get())
      bytes += sizeof(Search) + search->held.capacity() * sizeof(TransportPacket) +
               search->events.capacity() * sizeof(Event) + search->candidates.capacity() * sizeof(Candidate) +
               search->stretches.capacity() * sizeof(std::uint64_t);
  }
  return bytes;
}

// ---------------------------------------------------------------------------------------------------------------------
// The table of directions

// The number in the key of a datagram combines both QP numbers, which the datagram contains.
std::uint64_t QueuePairs::number_of(const TransportPacket& packet) {
  constexpr std::uint64_t datagram = 1ULL << 48;
  return packet.op->transport == Transport::ud ? datagram | std::uint64_t{packet.source_qp} << 24 | packet.dest_qp
                                               : packet.dest_qp;
}

FlowKey QueuePairs::key_from(const Followed& f, Side end) {
  constexpr std::uint64_t datagram = 1ULL << 48;
  const ConnectionEnd& from = f.info.at(end);
  const ConnectionEnd& to = f.info.at(other(end));
  return {from.address, to.address,
          f.datagram ? datagram | std::uint64_t{from.qp} << 24 | to.qp : std::uint64_t{to.qp}};
}

FlowKey QueuePairs::key_of(const Slot& slot) const {
  if (!is_single(slot.at)) return key_from(*followed_[slot.at], slot.end);
  const TransportPacket& packet = singles_[slot.at ^ single_bit]->packet;
  if (slot.end == Side::a) return {packet.from, packet.to, number_of(packet)};
  constexpr std::uint64_t datagram = 1ULL << 48;
  return {packet.to, packet.from, datagram | std::uint64_t{packet.dest_qp} << 24 | packet.source_qp};
}

QueuePairs::Slot* QueuePairs::find_unexpanded(const FlowKey& key) {
  if (slots_.empty()) return nullptr;
  const std::uint64_t hash = key.hash();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.at == none) return nullptr;
    if (slot.hash == hash && key_of(slot) == key) return &slot;
  }
}

// Returns the direction to which a packet with a bad CRC probably belongs: one bit of its destination QP number is
// wrong. If several QP numbers differ in one bit, the PSN decides. Returns nullptr if there is none.
QueuePairs::Slot* QueuePairs::find_damaged(const TransportPacket& packet) {
  constexpr unsigned qp_bits = 24;
  Slot *only = nullptr, *expected = nullptr;
  unsigned similar = 0;
  FlowKey key{packet.from, packet.to, number_of(packet)};
  const std::uint64_t number = key.number;
  for (unsigned bit = 0; bit < qp_bits; ++bit) {
    key.number = number ^ std::uint64_t{1} << bit;
    Slot* const slot = find_unexpanded(key);
    if (!slot || is_single(slot->at) || followed_[slot->at]->good_crcs == 0) continue;
    ++similar;
    only = slot;
    const Requester& requester =
        followed_[slot->at]->requesters[static_cast<std::size_t>(packet.is_response() ? other(slot->end) : slot->end)];
    if (requester.expects(packet, packet.is_response())) expected = slot;
  }
  return expected ? expected : similar == 1 ? only : nullptr;
}

// Finds a direction. If its connection is reduced to its single packet, restores the state, which does not move the
// table's entries.
QueuePairs::Slot* QueuePairs::find(const FlowKey& key) {
  Slot* const slot = find_unexpanded(key);
  if (slot && is_single(slot->at)) expand(slot->at);
  return slot;
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

void QueuePairs::insert(const FlowKey& key, Index at, Side end) {
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
  // Moves later entries of the probe sequence back into the hole if otherwise they would be unreachable from their home
  // slot.
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
// Prefetching

void QueuePairs::fetch_slot(std::uint64_t hash) const {
  if (!slots_.empty()) fetch(&slots_[hash & (slots_.size() - 1)]);
}

// Compares only the hash. If two flows have the same 64-bit hash, the wrong memory is prefetched, which is harmless.
const QueuePairs::Slot* QueuePairs::find_slot(std::uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask; slots_[i].at != none; i = (i + 1) & mask)
    if (slots_[i].hash == hash) return &slots_[i];
  return nullptr;
}

void QueuePairs::fetch_connection(std::uint64_t hash, bool response) const {
  const Slot* slot = find_slot(hash);
  if (!slot) return;
  if (is_single(slot->at)) {
    fetch(singles_[slot->at ^ single_bit], sizeof(Single));
    return;
  }
  const Followed& f = *followed_[slot->at];
  fetch(&f.info, offsetof(Connection, sent));
  fetch(&f.info.sent[static_cast<std::size_t>(slot->end)], sizeof(Sent));
  if (response) fetch(&f.info.sent[static_cast<std::size_t>(other(slot->end))], sizeof(Sent));
  fetch(&f.info.paired_by, sizeof(Connection) - offsetof(Connection, paired_by));
  fetch_between(&f.knows, &f + 1);
  f.requesters[static_cast<std::size_t>(response ? other(slot->end) : slot->end)].fetch_state(response);
}

void QueuePairs::fetch_requests(std::uint64_t hash, bool response) const {
  if (const Slot* slot = find_slot(hash); slot && !is_single(slot->at))
    followed_[slot->at]->requesters[static_cast<std::size_t>(response ? other(slot->end) : slot->end)].fetch_requests(
        response);
}

// ---------------------------------------------------------------------------------------------------------------------
// Creation and removal of connections

QueuePairs::Index QueuePairs::create() {
  if (connections() > 0 && connections() >= options_.connections) make_room();
  const Index at = followed_.create();
  ++alive_;
  used_ += Costs::followed;
  return at;
}

std::unique_ptr<QueuePairs::Search> QueuePairs::new_search() {
  if (spare_searches_.empty()) return std::make_unique<Search>();
  std::unique_ptr<Search> search = std::move(spare_searches_.back());
  spare_searches_.pop_back();
  return search;
}

// Keeps the allocated memory of the search for the next search, if it is small.
void QueuePairs::end_search(std::unique_ptr<Search> search) {
  if (!search) return;
  used_ -= search->charged;
  constexpr std::size_t spare = 64, small = 16;
  if (spare_searches_.size() >= spare || search->held.capacity() > small) return;
  std::vector<TransportPacket> held = std::move(search->held);
  held.clear();
  *search = Search{};
  search->held = std::move(held);
  spare_searches_.push_back(std::move(search));
}

// Counts the sizes and not the capacities, because the memory can come from an earlier search.
void QueuePairs::charge(Search& search) {
  const std::size_t bytes =
      Costs::search + 2 * search.held.size() * sizeof(TransportPacket) + 2 * search.events.size() * sizeof(Event) +
      2 * search.candidates.size() * sizeof(Candidate) +
      search.stretches.size() * (Costs::request + 2 * sizeof(std::uint64_t)) + search.held.size() * Costs::request;
  used_ += bytes - search.charged;
  search.charged = bytes;
}

void QueuePairs::release(Index at) {
  Followed& f = *followed_[at];
  if (f.lone) remove_lone(at);
  for (Side end : {Side::a, Side::b})
    if (f.knows[static_cast<std::size_t>(end)]) erase(key_from(f, end));
  used_ -= f.bytes + Costs::followed + f.unexplained.size() * sizeof(Event);
  if (f.search) used_ -= f.search->charged;
  followed_.destroy(at);
  --alive_;
}

void QueuePairs::update_memory_usage(Followed& f) {
  const std::size_t bytes = f.requesters[0].memory() + f.requesters[1].memory();
  used_ += bytes - f.bytes;
  f.bytes = bytes;
}

void QueuePairs::enforce_memory() {
  most_used_ = std::max(most_used_, used());
  most_connections_ = std::max(most_connections_, connections());
  most_waiting_ = std::max(most_waiting_, waiting_);
  while (exceeds_memory()) make_room();
}

// Connections with one packet are evicted first, in their order. Otherwise, a scan of many addresses would evict all
// connections that transfer data.
void QueuePairs::make_room() {
  if (singles_alive_ > 0) {
    while (singles_hand_ >= singles_.size() || !singles_[singles_hand_])
      singles_hand_ = singles_hand_ + 1 < singles_.size() ? singles_hand_ + 1 : 0;
    ++evicted_;
    close_reason(expand(static_cast<Index>(singles_hand_) | single_bit), CloseReason::evicted, last_.time);
    return;
  }
  for (;; hand_ = (hand_ + 1) % followed_.size()) {
    if (hand_ >= followed_.size()) hand_ = 0;
    Followed* const f = followed_[hand_];
    if (!f) continue;
    if (f->recent) {
      f->recent = false;
      continue;
    }
    ++evicted_;
    close_reason(static_cast<Index>(hand_), CloseReason::evicted, last_.time);
    return;
  }
}

void QueuePairs::close_reason(Index at, CloseReason why, std::int64_t time) {
  Followed& f = *followed_[at];
  if (f.info.id == 0) {
    release(at);  // known from a text exchange, but without packets
    return;
  }
  if (f.search) release_waiting(at);
  if (!f.unexplained.empty()) tell_unexplained(f, Cause::unknown, 0);
  for (Side end : {Side::a, Side::b}) settle_jump(f, end);
  for (Side end : {Side::a, Side::b})
    f.requesters[static_cast<std::size_t>(end)].finish({f.info, *sink_, end, f.joined(), nullptr}, time);
  // A connection with only a few damaged packets is omitted, because its QP may not exist.
  constexpr std::uint32_t strays = 2;
  const std::uint64_t packets = f.info.sent[0].packets + f.info.sent[1].packets;
  if (f.reported || f.bad_crcs == 0 || f.bad_crcs < packets || packets > strays) sink_->connection(f.info, why);
  release(at);
}

// Sets everything that the first packet of a new connection determines, except the entries in tables.
void QueuePairs::fill(Followed& f, const TransportPacket& packet) const {
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
    c.paired_by = JoinedBy::datagram;
    c.confidence = Confidence::certain;
  }
  if (c.service == Service::rc || c.service == Service::xrc || c.service == Service::uc) f.port[0] = packet.source_port;
}

QueuePairs::Index QueuePairs::begin(const TransportPacket& packet) {
  const Index at = create();
  Followed& f = *followed_[at];
  fill(f, packet);
  const Connection& c = f.info;
  insert(key_from(f, Side::a), at, Side::a);
  if (f.datagram && !(key_from(f, Side::b) == key_from(f, Side::a))) insert(key_from(f, Side::b), at, Side::b);
  if (c.service == Service::rc || c.service == Service::xrc || c.service == Service::uc) {
    add_lone(at);
    if (has_answers(c.service)) {
      f.search = new_search();
      f.search->since = packet.time;
      charge(*f.search);
    }
  }
  note_recent(at, packet);
  return at;
}

// ---------------------------------------------------------------------------------------------------------------------
// Connections with one packet

// Replaces the oldest entry of recent_. If the connection of that entry still has only one packet, reduces the
// connection to it.
void QueuePairs::note_recent(Index at, const TransportPacket& first) {
  if (recent_.empty()) return;
  Recent& place = recent_[recent_at_++ % recent_.size()];
  compress(place);
  place.at = at;
  place.id = first.frame;
  place.first = first;
}

// Only a state that the packet determines completely can be reduced.
void QueuePairs::compress(const Recent& recent) {
  if (recent.at == none || recent.at >= followed_.size()) return;
  Followed* const f = followed_[recent.at];
  if (!f || f->info.id != recent.id || f->info.first_frame != recent.id) return;
  const Connection& c = f->info;
  const bool one_packet = c.sent[0].packets == 1 && c.sent[1].packets == 0;
  if (!one_packet || c.service == Service::vendor || c.ends[0].address != recent.first.from ||
      c.ends[1].address != recent.first.to || c.ends[1].qp != recent.first.dest_qp)
    return;
  const bool paired = c.paired_by != (f->datagram ? JoinedBy::datagram : JoinedBy::nothing);
  if (paired || f->candidate || f->bad_crcs != 0 || f->agreement || f->reported || f->evidence_frame != 0 ||
      c.opened_frame != 0 || c.closed_frame != 0 || c.upper.protocol != Upper::unknown || f->jump[0] || f->jump[1])
    return;
  if (const Search* search = f->search.get())
    if (search->late || search->held.size() != 1 || search->looked || !search->candidates.empty()) return;
  const bool held = f->search != nullptr;
  if (!held && recent.first.is_response()) return;

  const Index at = singles_.create() | single_bit;
  ++singles_alive_;
  used_ += Costs::single;
  Single& single = *singles_[at ^ single_bit];
  single.packet = held ? f->search->held[0] : recent.first;
  single.lone = f->lone;
  single.lone_at = f->lone_at;
  single.held = held;
  single.good_crc = f->good_crcs != 0;
  for (Side end : {Side::a, Side::b})
    if (f->knows[static_cast<std::size_t>(end)]) find_unexpanded(key_from(*f, end))->at = at;
  if (single.lone) lone_list(single.packet.from, single.packet.to)->set(single.lone_at, at);
  if (held) {
    if (!single.packet.is_response()) move_request(single.packet, recent.at, at);
    end_search(std::move(f->search));
  }
  used_ -= f->bytes + Costs::followed;
  followed_.destroy(recent.at);
  --alive_;
}

namespace {

class NullSink final : public Sink {};
NullSink null_sink;

}  // namespace

// Processes the packet again. Its messages and events were already reported, unless it waited.
QueuePairs::Index QueuePairs::expand(Index from) {
  const Single single = *singles_[from ^ single_bit];
  const TransportPacket& packet = single.packet;
  const Index at = followed_.create();
  ++alive_;
  used_ += Costs::followed;
  Followed& f = *followed_[at];
  fill(f, packet);
  for (Side end : {Side::a, Side::b}) {
    if (end == Side::b && (!f.datagram || key_from(f, Side::b) == key_from(f, Side::a))) break;
    find_unexpanded(key_from(f, end))->at = at;
    f.knows[static_cast<std::size_t>(end)] = true;
  }
  f.lone = single.lone;
  f.lone_at = single.lone_at;
  if (single.lone) lone_list(packet.from, packet.to)->set(single.lone_at, at);
  if (single.held && !packet.is_response()) move_request(packet, from, at);
  singles_.destroy(from ^ single_bit);
  --singles_alive_;
  used_ -= Costs::single;
  f.good_crcs = single.good_crc;
  if (single.held) {
    f.search = new_search();
    f.search->since = packet.time;
    f.search->held.push_back(packet);
    if (!packet.is_response()) f.search->stretches.push_back(stretch_of(packet));
    count(f, Side::a, packet);
    charge(*f.search);
    return at;
  }
  Sink* const sink = std::exchange(sink_, &null_sink);
  count(f, Side::a, packet);
  process(f, Side::a, packet);
  sink_ = sink;
  return at;
}
}  // namespace rdmawire::tracking
