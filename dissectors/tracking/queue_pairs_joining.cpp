/// Pairs two directions of a connection.

#include <algorithm>

#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/queue_pairs_state.hpp"

namespace rdmawire::tracking {

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

FlowKey QueuePairs::lone_ports(Index at) const {
  if (is_single(at)) {
    const TransportPacket& packet = singles_[at ^ single_bit]->packet;
    return {packet.from, packet.to, 0};
  }
  const Connection& c = followed_[at]->info;
  return {c.ends[0].address, c.ends[1].address, 0};
}

QueuePairs::LoneList* QueuePairs::lone_list(const PortAddress& from, const PortAddress& to) {
  return lone_->find(from, to, [this](Index at) { return lone_ports(at); });
}

void QueuePairs::add_lone(Index at) {
  Followed& f = *followed_[at];
  const PortAddress &from = f.info.ends[0].address, &to = f.info.ends[1].address;
  LoneList* list = lone_list(from, to);
  if (!list) list = &lone_->add(from, to);
  f.lone_at = static_cast<std::uint32_t>(list->size());
  list->push_back(at);
  f.lone = true;
}

void QueuePairs::remove_lone(Index at) {
  forget_requests(at);
  Followed& f = *followed_[at];
  const PortAddress &from = f.info.ends[0].address, &to = f.info.ends[1].address;
  LoneList& list = *lone_list(from, to);
  f.lone = false;
  if (list.size() == 1) {
    lone_->remove(from, to, list);
    return;
  }
  const Index last = list[list.size() - 1];
  list.set(f.lone_at, last);
  (is_single(last) ? singles_[last ^ single_bit]->lone_at : followed_[last]->lone_at) = f.lone_at;
  list.pop_back();
}

void QueuePairs::try_source_port(Index at) {
  const Followed& f = *followed_[at];
  if (f.port[0] == 0) return;
  const LoneList* const others = lone_list(f.info.ends[1].address, f.info.ends[0].address);
  if (!others) return;
  const std::uint32_t dest = f.info.ends[1].qp;
  const std::uint16_t senders_answer = source_port::of_sender(dest);
  Index found = none;
  std::size_t same_port = 0;
  for (std::size_t i = others->size(), looked = 0; i-- > 0 && looked < looked_through; ++looked) {
    const Index other = (*others)[i];
    if (other == at) continue;
    const Single* const single = is_single(other) ? singles_[other ^ single_bit] : nullptr;
    const Followed* const o = single ? nullptr : followed_[other];
    const std::uint16_t port = single ? single->packet.source_port : o->port[0];
    // Check the most selective condition first, because each comparison can cause a cache miss.
    if (port != f.port[0] && port != senders_answer) continue;
    if ((single ? service_of(single->packet.op->transport) : o->info.service) != f.info.service) continue;
    // if the directions match, the QP number of this direction's sender
    const std::uint32_t source = single ? single->packet.dest_qp : o->info.ends[1].qp;
    same_port += port == f.port[0];
    const bool pair = f.port[0] == port && f.port[0] == source_port::of_pair(source, dest);
    const bool sender = f.port[0] == source_port::of_sender(source) && port == senders_answer;
    if (!pair && !sender) continue;
    if (found != none) return;  // ambiguous: responses must decide
    found = other;
  }
  // If many directions use the same source port, it is no evidence.
  constexpr std::size_t constant = 4;
  if (found == none || same_port > constant) return;
  join(is_single(found) ? expand(found) : found, at, JoinedBy::source_port, Confidence::high);
}

namespace {

// True if `response` can be a response to `request`.
bool is_answer(const TransportPacket& request, const TransportPacket& response) {
  if (request.is_response() || request.op->transport != response.op->transport) return false;
  const std::int32_t ahead = response.psn - request.psn;
  if (ahead < 0) return false;
  const bool read = request.op->operation == Operation::rdma_read_request;
  if (response.op->operation == Operation::rdma_read_response) {
    if (request.op->operation == Operation::flush || request.op->operation == Operation::atomic_write)
      return ahead == 0;
    constexpr std::uint32_t smallest_mtu = 256;
    return read && ahead < static_cast<std::int32_t>(machines::psns_of_read(request.length, smallest_mtu));
  }
  if (response.op->operation == Operation::atomic_acknowledge) return ahead == 0 && request.has_atomic;
  const Syndrome syndrome(response.syndrome);
  // A NAK for a gap contains the PSN of a missing packet.
  if (response.op->operation == Operation::acknowledge && syndrome.is_nak(nak_code::psn_sequence_error))
    return ahead <= 1;
  return ahead == 0 && (!read || !syndrome.is_ack());
}

}  // namespace

// Finds the request that `response` answers, before frame `before`. Returns its time (0: unknown), or nullopt if there
// is none.
std::optional<std::int64_t> QueuePairs::answers(const Followed& requests, const TransportPacket& response,
                                                std::uint64_t before) {
  if (requests.search) {
    for (std::size_t i = requests.search->held.size(); i-- > 0;) {
      const TransportPacket& request = requests.search->held[i];
      if (request.frame < before && is_answer(request, response)) return request.time;
    }
    return std::nullopt;
  }
  const Requester& requester = requests.requesters[0];
  if (!requester.started() || requester.window().place(response.psn) != machines::ResponsePlace::outstanding)
    return std::nullopt;
  return 0;
}

// True if most of the waiting responses match no request, so this pairing is wrong.
bool QueuePairs::contradicts(const Followed& requests, const Followed& responses) {
  if (!requests.search || !responses.search) return false;
  std::size_t good = 0, bad = 0;
  for (const TransportPacket& t : responses.search->held)
    if (t.is_response()) ++(answers(requests, t, t.frame).has_value() ? good : bad);
  return bad > good;
}

std::uint64_t QueuePairs::place_of(const Followed& f, bool reversed, std::uint64_t number) {
  const PortAddress &from = f.info.ends[reversed ? 1 : 0].address, &to = f.info.ends[reversed ? 0 : 1].address;
  return FlowKey{from, to, number}.hash();
}

std::uint64_t QueuePairs::place_of(const TransportPacket& request) {
  return FlowKey{request.from, request.to, request.psn.value()}.hash();
}

std::uint64_t QueuePairs::stretch_of(const TransportPacket& request) {
  constexpr std::uint64_t a_stretch = 1ULL << 32;
  return FlowKey{request.from, request.to, a_stretch | request.psn.value() >> stretch_bits}.hash();
}

void QueuePairs::note_request(Index at, const TransportPacket& t) {
  Followed& f = *followed_[at];
  // Limits the number of directions with the same PSN. Otherwise, the cost would be quadratic.
  const std::uint64_t place = place_of(t);
  if (requests_.count(place, looked_through) < looked_through) requests_.insert(place, at);
  const std::uint64_t stretch = stretch_of(t);
  auto& stretches = f.search->stretches;
  if (std::find(stretches.begin(), stretches.end(), stretch) != stretches.end()) return;
  stretches.push_back(stretch);
  if (std::uint32_t* const directions = stretches_.find(stretch))
    ++*directions;
  else
    stretches_.insert(stretch, 1);
}

// The request has no entry if too many requests with this PSN were noted.
void QueuePairs::move_request(const TransportPacket& t, Index from, Index to) {
  if (Index* const entry = requests_.find(place_of(t), [&](Index at) { return at == from; })) *entry = to;
}

void QueuePairs::forget_requests(Index at) {
  Followed& f = *followed_[at];
  if (!f.search) return;
  for (const TransportPacket& t : f.search->held)
    if (!t.is_response()) requests_.erase(place_of(t), [&](Index entry) { return entry == at; });
  for (const std::uint64_t stretch : f.search->stretches) {
    std::uint32_t* const directions = stretches_.find(stretch);
    if (directions && --*directions == 0) stretches_.erase(stretch, [](std::uint32_t count) { return count == 0; });
  }
  f.search->stretches.clear();
}

// True if the connection of the candidate still exists.
bool QueuePairs::is_valid(Index at, const Candidate& candidate) const {
  return followed_[candidate.at] && followed_[candidate.at]->info.id == candidate.id &&
         can_be_other_half(at, candidate.at);
}

bool QueuePairs::can_be_other_half(Index at, Index candidate) const {
  const auto &f = followed_[at], &o = followed_[candidate];
  return candidate != at && o && o->lone && o->info.service == f->info.service &&
         o->info.ends[0].address == f->info.ends[1].address && o->info.ends[1].address == f->info.ends[0].address;
}

// True if direction `candidate` can be the pair of `at`, and sent a request for this response.
bool QueuePairs::can_respond(Index at, Index candidate, const TransportPacket& response) const {
  if (!is_single(candidate)) {
    if (!can_be_other_half(at, candidate)) return false;
    return answers(*followed_[candidate], response, response.frame).has_value();
  }
  const Single& single = *singles_[candidate ^ single_bit];
  const Connection& c = followed_[at]->info;
  const TransportPacket& request = single.packet;
  if (!single.lone || service_of(request.op->transport) != c.service || request.from != c.ends[1].address ||
      request.to != c.ends[0].address)
    return false;
  // A request that was already processed is examined later, after its state is restored.
  return !single.held || (request.frame < response.frame && is_answer(request, response));
}

// Collects the directions whose requests the packet `t` of direction `at` can answer.
void QueuePairs::look_for_candidates(Index at, const TransportPacket& t) {
  Followed& f = *followed_[at];
  Search& search = *f.search;
  const auto consider = [&](Index candidate) {
    const auto same = [&](const Candidate& c) { return c.at == candidate; };
    if (std::any_of(search.candidates.begin(), search.candidates.end(), same)) return;
    if (can_respond(at, candidate, t)) search.candidates.push_back({.at = candidate});
  };
  const auto restore = [&] {
    for (Candidate& c : search.candidates) {
      if (!is_single(c.at)) continue;
      c.at = expand(c.at);
      if (!can_respond(at, c.at, t)) c.at = none;
    }
    std::erase_if(search.candidates, [](const Candidate& c) { return c.at == none; });
    for (Candidate& c : search.candidates) {
      followed_[c.at]->candidate = true;
      c.id = followed_[c.at]->info.id;
    }
  };
  // A NAK for a gap contains the PSN of a missing packet. The packet before it was captured.
  for (const Psn psn : {t.psn, t.psn - 1}) requests_.each(place_of(f, true, psn.value()), considered, consider);
  restore();
  if (search.candidates.empty()) {
    // The packet has a PSN inside a READ's responses, or answers a direction whose packets no longer wait.
    if (const LoneList* const others = lone_list(f.info.ends[1].address, f.info.ends[0].address))
      for (std::size_t i = others->size(), looked = 0; i-- > 0 && looked < looked_through; ++looked)
        consider((*others)[i]);
    restore();
  }
  // Sort the candidates in capture order, because the order of the hash table is arbitrary.
  std::sort(search.candidates.begin(), search.candidates.end(), [&](const Candidate& x, const Candidate& y) {
    return followed_[x.at]->info.first_frame < followed_[y.at]->info.first_frame;
  });
  std::uint32_t near = 0;
  constexpr std::uint64_t a_stretch = 1ULL << 32;
  for (const std::int64_t step : {-1, 0, 1}) {
    const Psn psn = t.psn + step * (1 << stretch_bits);
    const std::uint32_t* const directions = stretches_.find(place_of(f, true, a_stretch | psn.value() >> stretch_bits));
    if (directions) near += *directions;
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
    if (late)
      end_search(std::move(followed_[at]->search));
    else
      charge(*followed_[at]->search);
  };
  if (!search.looked || search.candidates.empty()) {
    search.candidates.clear();
    search.matches = 0;
    search.rivals = false;
    look_for_candidates(at, t);
    search.looked = true;
  }
  std::erase_if(search.candidates, [&](const Candidate& c) { return !is_valid(at, c); });
  weigh_candidates(search, t);
  if (search.candidates.empty()) {
    search.looked = false;
    return done();
  }
  if (search.candidates.size() > 1) search.rivals = true;
  const auto best = std::min_element(search.candidates.begin(), search.candidates.end(),
                                     [](const Candidate& x, const Candidate& y) { return x.against < y.against; });
  // A pairing requires that no response contradicts the best candidate, and that at least two responses contradict
  // every other candidate.
  constexpr std::uint32_t enough = 2, clear = 2, enough_alone = 3;
  const bool all_clear = std::all_of(search.candidates.begin(), search.candidates.end(),
                                     [&](const Candidate& c) { return &c == &*best || c.against >= clear; });
  const bool alone = search.candidates.size() == 1;
  if (best->against != 0 || !all_clear || (search.rivals && search.matches < (alone ? enough_alone : enough)))
    return charge(search);
  const Index other_half = best->at;
  if (contradicts(f, *followed_[other_half])) {
    search.candidates.clear();
    return done();
  }
  join(other_half, at, JoinedBy::answers, Confidence::high);
}

// Compares one more response with each candidate.
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
  // Responses arrive soon after their requests. If candidates sent matching requests at very different times, the
  // response belongs to the latest one. This does not distinguish QPs that send at the same time.
  constexpr std::int64_t much = 4, jitter_ns = 20'000;
  for (Candidate& c : search.candidates)
    if (c.delay < 0 || (shortest != INT64_MAX && c.delay / much >= shortest + jitter_ns)) ++c.against;
  constexpr std::uint32_t hopeless = 6;
  std::erase_if(search.candidates, [](const Candidate& c) { return c.against >= hopeless; });
}

// Merges two directions. The older connection remains, and the younger one becomes its other direction.
QueuePairs::Index QueuePairs::join(Index at, Index with, JoinedBy by, Confidence confidence) {
  if (followed_[with]->info.first_frame < followed_[at]->info.first_frame) std::swap(at, with);
  Followed& f = *followed_[at];
  Followed& o = *followed_[with];
  remove_lone(at);
  remove_lone(with);
  Connection& c = f.info;
  c.ends[0].qp = o.info.ends[1].qp;
  c.ends[0].qp_known = true;
  c.paired_by = by;
  c.confidence = confidence;
  if (c.mtu == 0) c.mtu = o.info.mtu;
  if (c.upper.protocol == Upper::unknown) c.upper = o.info.upper;
  c.last_frame = std::max(c.last_frame, o.info.last_frame);
  c.last_time = std::max(c.last_time, o.info.last_time);
  // Adopt the counters of the other direction, whose endpoint a is endpoint b here. Its counters of the other endpoint
  // contain only values that it derived from its own requests, and vice versa.
  const Sent before = c.sent[1];
  c.sent[1] = o.info.sent[0];
  c.sent[1].lost_in_capture += before.lost_in_capture;
  c.sent[1].out_of_order += before.out_of_order;
  c.sent[0].lost_in_capture += o.info.sent[1].lost_in_capture;
  c.sent[0].out_of_order += o.info.sent[1].out_of_order;
  f.requesters[1] = std::move(o.requesters[0]);
  f.bytes += o.bytes;
  o.bytes = 0;
  f.port[1] = o.port[0];
  f.previous_port[1] = o.previous_port[0];
  f.jump[1] = std::move(o.jump[0]);
  for (Event& event : o.unexplained) {
    event.end = Side::b;
    f.unexplained.push_back(event);
  }
  o.unexplained.clear();  // used_ still counts the memory of both
  f.good_crcs += o.good_crcs;
  f.bad_crcs += o.bad_crcs;
  std::unique_ptr<Search> first = std::move(f.search), second = std::move(o.search);
  const FlowKey key = key_from(o, Side::a);
  if (!second || second->late || o.reported) sink_->merged(c, o.info.id);  // events may refer to the ID
  f.reported |= o.reported;
  if (!first || first->late || !second || second->late)
    for (Requester& requester : f.requesters) requester.pair_late(c.last_time);
  release(with);
  insert(key, at, Side::b);

  // Process the waiting packets of both directions in capture order.
  const std::vector<TransportPacket> nothing;
  const auto& x = first ? first->held : nothing;
  const auto& y = second ? second->held : nothing;
  waiting_ -= x.size() + y.size();
  const auto tell_both = [&](std::uint64_t frame) {
    if (first) tell_waiting(f, *first, Side::a, frame);
    if (second) tell_waiting(f, *second, Side::b, frame);
  };
  std::size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const bool older = j == y.size() || (i < x.size() && x[i].frame < y[j].frame);
    tell_both(older ? x[i].frame : y[j].frame);
    if (older)
      process(f, Side::a, x[i++]);
    else
      process(f, Side::b, y[j++]);
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
    tell_waiting(f, *search, Side::a, t.frame);
    process(f, Side::a, t);
  }
  tell_waiting(f, *search, Side::a, UINT64_MAX);
  end_search(std::move(search));
}

void QueuePairs::give_up(Index at) {
  Followed& f = *followed_[at];
  Search& search = *f.search;
  std::erase_if(search.candidates,
                [&](const Candidate& c) { return !is_valid(at, c) || contradicts(f, *followed_[c.at]); });
  if (search.looked && !search.candidates.empty()) {
    // If candidates are equal, choose the first one in the capture, because other directions time out in capture order.
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

}  // namespace rdmawire::tracking
