/// Table of directions. Creation and removal of connections.

#include <algorithm>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/tracking/fetch.hpp"
#include "dissectors/tracking/queue_pairs_state.hpp"

namespace rdmawire::tracking {

QueuePairs::QueuePairs(Sink& sink, const TrackerOptions& options) : sink_(sink), options_(options) {}
QueuePairs::~QueuePairs() = default;

std::size_t QueuePairs::memory() const {
  constexpr std::size_t node = 3 * sizeof(void*);  // overhead of each entry of a hash table, approximately
  const auto of_table = [](const auto& table) {
    return table.size() * (node + sizeof(*table.begin())) + table.bucket_count() * sizeof(void*);
  };
  std::size_t bytes = slots_.capacity() * sizeof(Slot) + followed_.memory();
  bytes += of_table(lone_) + of_table(requests_) + of_table(stretches_);
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

// The key of a datagram contains both QP numbers, because the datagram does.
std::uint64_t QueuePairs::number_of(const TransportPacket& packet) {
  constexpr std::uint64_t datagram = 1ULL << 48;
  return packet.op->transport == Transport::ud ? datagram | std::uint64_t{packet.source_qp} << 24 | packet.dest_qp
                                               : packet.dest_qp;
}

FlowKey QueuePairs::key_from(const Followed& f, Side end) const {
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
  // Moves the following entries up, so that each remains reachable from its own slot.
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

// Compares only the hash. If two flows share all 64 bits, the wrong memory is prefetched, which is harmless.
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
  const Followed& f = *followed_[slot->at];
  fetch(&f.info, offsetof(Connection, sent));
  fetch(&f.info.sent[static_cast<std::size_t>(slot->end)], sizeof(Sent));
  if (response) fetch(&f.info.sent[static_cast<std::size_t>(other(slot->end))], sizeof(Sent));
  fetch(&f.info.paired_by, sizeof(Connection) - offsetof(Connection, paired_by));
  fetch_between(&f.knows, &f + 1);
  f.requesters[static_cast<std::size_t>(response ? other(slot->end) : slot->end)].fetch_state(response);
}

void QueuePairs::fetch_requests(std::uint64_t hash, bool response) const {
  if (const Slot* slot = find_slot(hash))
    followed_[slot->at]->requesters[static_cast<std::size_t>(response ? other(slot->end) : slot->end)].fetch_requests(
        response);
}

// ---------------------------------------------------------------------------------------------------------------------
// Creation and removal of connections

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

// Keeps the allocated memory of the search for the next one.
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
  for (Side end : {Side::a, Side::b})
    if (f.knows[static_cast<std::size_t>(end)]) erase(key_from(f, end));
  bytes_ -= f.bytes;
  followed_.destroy(at);
  --alive_;
}

void QueuePairs::update_memory_usage(Followed& f) {
  const std::size_t bytes = f.requesters[0].memory() + f.requesters[1].memory();
  bytes_ += bytes - f.bytes;
  f.bytes = bytes;
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
    close_reason(static_cast<Index>(hand_), CloseReason::evicted, last_.time);
    return;
  }
}

void QueuePairs::close_reason(Index at, CloseReason why, std::int64_t time) {
  Followed& f = *followed_[at];
  if (f.info.id == 0) {
    release(at);  // known from a text exchange, but never used
    return;
  }
  if (f.search) release_waiting(at);
  if (!f.unexplained.empty()) tell_unexplained(f, Cause::unknown, 0);
  for (Side end : {Side::a, Side::b}) settle_jump(f, end);
  for (Side end : {Side::a, Side::b})
    f.requesters[static_cast<std::size_t>(end)].finish({f.info, sink_, end, f.joined(), nullptr}, time);
  // Do not report a connection of a few damaged packets, because its QP may not exist.
  constexpr std::uint32_t strays = 2;
  const std::uint64_t packets = f.info.sent[0].packets + f.info.sent[1].packets;
  if (f.reported || f.bad_crcs == 0 || f.bad_crcs < packets || packets > strays) sink_.connection(f.info, why);
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
    c.paired_by = JoinedBy::datagram;
    c.confidence = Confidence::certain;
  }
  insert(key_from(f, Side::a), at, Side::a);
  if (f.datagram && !(key_from(f, Side::b) == key_from(f, Side::a))) insert(key_from(f, Side::b), at, Side::b);
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

}  // namespace rdmawire::tracking
