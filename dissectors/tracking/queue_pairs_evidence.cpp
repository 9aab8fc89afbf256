/// Processes evidence from CM exchanges and text exchanges.

#include <algorithm>

#include "dissectors/tracking/queue_pairs_state.hpp"

namespace rdmawire::tracking {

void QueuePairs::pair(const PairEvidence& evidence) {
  if (evidence.by == JoinedBy::connection_manager && !options_.use_connection_manager) return;
  if (evidence.by == JoinedBy::text && !options_.use_text) return;
  if (evidence.sides[0].qp == 0 || evidence.sides[1].qp == 0 || evidence.service == Service::ud) return;
  const std::int64_t when = evidence.time ? evidence.time : last_.time;
  for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    Slot* slot = find(evidence.to(side));
    if (!slot) continue;
    Followed& old = *followed_[slot->at];
    // The applications repeated the text.
    if (evidence.by == JoinedBy::text && old.info.paired_by == JoinedBy::text && old.info.by(Side::a).packets == 0 &&
        old.info.by(Side::b).packets == 0)
      return;
    if (evidence.by == JoinedBy::text && old.info.paired_by == JoinedBy::text &&
        old.requesters[slot->end == Side::a ? 0 : 1].started() && evidence.sides[1 - side].first_psn &&
        old.requesters[static_cast<std::size_t>(slot->end)].first() == Psn(*evidence.sides[1 - side].first_psn))
      return;
    if (old.info.by(Side::a).packets + old.info.by(Side::b).packets > 0) {
      old.info.replaced = true;
      Event event;
      event.kind = EventKind::replaced;
      event.connection = old.info.id;
      event.frame = event.last_frame = evidence.frame;
      event.time = evidence.time;
      event.origin_frame = old.info.first_frame;
      sink_->event(&old.info, event);
      close_reason(slot->at, CloseReason::ended, when);
    } else if (old.reported) {
      close_reason(slot->at, CloseReason::ended, when);  // the connection was opened and closed without packets
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
  // A segment with text can describe many connections, so its frame number does not identify one. The first packet sets
  // the ID.
  if (evidence.by != JoinedBy::connection_manager) c.id = 0;
  c.service = evidence.service_known ? evidence.service : Service::rc;
  c.paired_by = evidence.by;
  c.confidence = Confidence::certain;
  c.mtu = evidence.mtu;
  c.mtu_negotiated = evidence.mtu != 0;
  c.pkey = evidence.pkey;
  c.service_port = evidence.service_port;
  f.evidence_frame = evidence.frame;
  if (evidence.crcs_good) f.good_crcs = 1;
  if (options_.transport)
    f.agreement = std::make_unique<NegotiatedParameters>(
        NegotiatedParameters{evidence.sides, evidence.by, evidence.request_frame, evidence.frame});
  for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const PairEvidence::Side& s = evidence.sides[side];
    c.ends[side] = {s.address, s.qp, true};
    if (s.first_psn) f.requesters[side].expect(Psn(*s.first_psn));
    const auto& peer = evidence.sides[1 - side];
    if (s.reads_as_requester && peer.reads_as_responder)
      f.requesters[side].limit_reads(std::min(*s.reads_as_requester, *peer.reads_as_responder));
  }
  insert(key_from(f, Side::a), at, Side::a);
  if (!(key_from(f, Side::b) == key_from(f, Side::a))) insert(key_from(f, Side::b), at, Side::b);
}

// Returns the connection that the evidence describes, or nullptr. Sets `swapped` to true if endpoint a of the
// connection is sides[1].
QueuePairs::Followed* QueuePairs::of_evidence(const PairEvidence& evidence, bool& swapped) {
  for (std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    if (evidence.sides[side].qp == 0) continue;
    const Slot* slot = find(evidence.to(side));
    if (!slot) continue;
    // The slot belongs to the packets to `side`, which the other side sends.
    swapped = (slot->end == Side::a) != (side == 1);
    return followed_[slot->at];
  }
  return nullptr;
}

void QueuePairs::report(Followed& f, Event event, bool swapped) {
  event.connection = f.info.id;
  if (swapped) event.end = other(event.end);
  f.reported = true;
  sink_->event(&f.info, event);
}

void QueuePairs::opened(const PairEvidence& evidence, const Event& event) {
  bool swapped = false;
  Followed* f = of_evidence(evidence, swapped);
  if (!f || !options_.use_connection_manager) return;
  f->info.opened_frame = event.frame;
  f->info.open_duration = event.duration;
  report(*f, event, swapped);
}

void QueuePairs::rejected(const PairEvidence& evidence, const Event& event, const Rejection&) {
  if (evidence.sides[1].qp != 0 && options_.use_connection_manager) {
    // The REP was rejected. The connection exists since pair(), and is closed like any other connection.
    bool swapped = false;
    Followed* f = of_evidence(evidence, swapped);
    if (f && evidence.request_frame && f->info.id != evidence.request_frame) f = nullptr;
    if (f) return report(*f, event, swapped);
    Event unassigned = event;
    unassigned.connection = 0;
    sink_->event(nullptr, unassigned);
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
  Event rejection = event;
  rejection.connection = c.id;
  sink_->event(&c, rejection);
  sink_->connection(c, CloseReason::ended);
}

void QueuePairs::path_changed(const PairEvidence& evidence, const Event& event, const FlowKey&) {
  bool swapped = false;
  if (Followed* f = of_evidence(evidence, swapped)) report(*f, event, swapped);
}

void QueuePairs::closing(const PairEvidence& evidence, std::uint64_t frame, std::int64_t) {
  bool swapped = false;
  if (Followed* f = of_evidence(evidence, swapped); f && f->info.closed_frame == 0) f->info.closed_frame = frame;
}

void QueuePairs::closed(const PairEvidence& evidence, const Event& event) {
  bool swapped = false;
  if (Followed* f = of_evidence(evidence, swapped)) report(*f, event, swapped);
}

void QueuePairs::finish(const Moment& last) {
  last_ = last.later(last_);
  const auto first_frame = [&](Index at) {
    return is_single(at) ? singles_[at ^ single_bit]->packet.frame : followed_[at]->info.first_frame;
  };
  std::vector<Index> order;
  order.reserve(connections());
  const auto sort = [&] {
    for (Index at = 0; at < followed_.size(); ++at)
      if (followed_[at]) order.push_back(at);
    std::sort(order.begin(), order.end(), [&](Index x, Index y) { return first_frame(x) < first_frame(y); });
  };
  for (Index at = 0; at < singles_.size(); ++at)
    if (singles_[at]) order.push_back(at | single_bit);
  sort();
  // Memory of ended connections is released from time to time, because the sink's tables grow in the meantime.
  constexpr std::size_t often = 1U << 16;
  std::size_t ended = 0;
  for (Index at : order) {
    if (is_single(at)) {
      // The connection may have been evicted, or restored as a candidate of another direction.
      if (!singles_[at ^ single_bit]) continue;
      // No other direction refers to it.
      close_reason(expand(at), CloseReason::ended, last_.time);
      if (++ended % often == 0) singles_.shrink();
    } else if (followed_[at] && followed_[at]->search && !followed_[at]->search->late) {
      give_up(at);
      enforce_memory();
    }
  }
  order.clear();
  sort();
  for (Index at : order) close_reason(at, CloseReason::ended, last_.time);
}

}  // namespace rdmawire::tracking
