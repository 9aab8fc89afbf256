#include "captures/analysis/vantage/ledger.hpp"

#include <algorithm>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::captures::vantage {
namespace {

constexpr std::uint8_t marked = 3;
/// If a flow continues for this time without retransmitting a packet, the packet was delivered. The time is longer than
/// usual timeouts.
constexpr std::int64_t long_after = 1'000'000'000;

/// Returns the distance from `b` to `a`.
std::int64_t ahead(Role role, std::uint32_t a, std::uint32_t b) {
  return role == Role::segment ? std::int64_t{TcpSeq(a) - TcpSeq(b)} : std::int64_t{Psn(a) - Psn(b)};
}

}  // namespace

std::string_view to_string(HopOutcome outcome) {
  constexpr std::string_view names[] = {
      "lost",           "missing",        "missed_downstream",  "missed_upstream", "elsewhere",
      "marked",         "dscp_rewritten", "priority_rewritten", "port_rewritten",  "address_rewritten",
      "icrc_corrupted", "damaged",        "reordered",          "duplicated",      "captured_twice"};
  static_assert(std::size(names) == hop_outcomes);
  return names[static_cast<std::size_t>(outcome)];
}

void ResultCounters::add(const FramePair& pair, std::int64_t time, std::uint32_t unit, std::uint32_t bytes_of_packet) {
  first_time = packets ? std::min(first_time, time) : time;
  last_time = packets ? std::max(last_time, time) : time;
  ++packets;
  bytes += bytes_of_packet;
  // Keep the earliest frames. Outcomes are not determined in the order of frames.
  const auto later = [](const FramePair& a, const FramePair& b) {
    return std::pair(a.upstream ? a.upstream : a.downstream, a.downstream) <
           std::pair(b.upstream ? b.upstream : b.downstream, b.downstream);
  };
  if (frames.size() < frames_kept || later(pair, frames.back())) {
    frames.insert(std::upper_bound(frames.begin(), frames.end(), pair, later), pair);
    if (frames.size() > frames_kept) frames.pop_back();
  }
  // Keeps the most frequent flows approximately: a new flow replaces the least frequent one, and takes over its count.
  const auto found = std::find_if(units.begin(), units.end(), [unit](const auto& row) { return row.first == unit; });
  if (found != units.end()) {
    ++found->second;
  } else if (units.size() < units_kept) {
    units.emplace_back(unit, 1);
  } else {
    const auto least =
        std::min_element(units.begin(), units.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    *least = {unit, least->second + 1};
  }
}

Ledger::Ledger(const std::vector<Survey>& surveys, const Layout& layout) : surveys_(surveys), layout_(layout) {
  points_.resize(surveys.size());
  for (std::size_t c = 0; c < surveys.size(); ++c)
    spans_.emplace_back(layout.aligned(c, surveys[c].first_time), layout.aligned(c, surveys[c].last_time));
}

std::optional<std::uint32_t> Ledger::unit(const FlowKey& flow) {
  if (const auto known = units_.find_index(flow)) return known;
  const std::size_t rows_before = units_.rows().size();
  if (!units_.at(flow)) {
    ++skipped_;
    return std::nullopt;
  }
  Unit& unit = rows_.emplace_back();
  unit.path = layout_.path(flow);
  bool iwarp = false;
  for (std::size_t c = 0; c < surveys_.size(); ++c) {
    if (!layout_.connected()[c]) continue;
    if (surveys_[c].flows.find_index(flow)) unit.points |= 1U << c;
    iwarp |= surveys_[c].iwarp.contains(ordered(flow));
  }
  unit.plain_tcp = TcpFlow::is(flow) && !iwarp;
  return static_cast<std::uint32_t>(rows_before);
}

Hop* Ledger::hop(Unit& unit, std::size_t upstream, std::size_t downstream, bool adjacent) {
  const FlowKey direction = unit.path->direction;
  const std::array<std::uint64_t, 5> flow = ordered(direction);
  const std::array<std::uint64_t, 7> key{flow[0], flow[1], flow[2], flow[3], unit.plain_tcp, upstream, downstream};
  const auto found = hop_of_.find(key);
  if (found != hop_of_.end()) return &hops_[found->second];
  if (hops_.size() == most_hops) {
    ++skipped_;
    return nullptr;
  }
  hop_of_.emplace(key, static_cast<std::uint32_t>(hops_.size()));
  Hop& made = hops_.emplace_back();
  made.direction = direction;
  made.upstream = upstream;
  made.downstream = downstream;
  made.adjacent = adjacent;
  made.plain_tcp = unit.plain_tcp;
  made.base = unit.path->least(upstream, downstream);
  return &made;
}

bool Ledger::was_capturing(std::size_t capture, std::int64_t time, std::size_t other) const {
  const std::int64_t slack = layout_.tolerance(capture, other);
  return time >= spans_[capture].first + slack && time <= spans_[capture].second - slack;
}

void Ledger::settle(std::uint32_t unit, const Pending& pending, HopOutcome outcome, bool named) {
  ResultCounters& tally = hops_[pending.hop].of(outcome);
  tally.add({pending.frame, 0}, pending.time, unit, pending.bytes);
  tally.named += named;
  --pending_;
}

void Ledger::on_retransmission(std::uint32_t unit, const Copy& copy, std::int64_t time) {
  Unit& row = rows_[unit];
  std::erase_if(row.pending, [&](const Pending& p) {
    if (p.time >= time) return false;
    if (time - p.time > 10 * long_after) {
      settle(unit, p, outcome_without_response(row, p));
      return true;
    }
    if (p.role != copy.role) return false;
    if (p.role == Role::acknowledge && ahead(p.role, copy.psn, p.psn) > 0) {
      // A later acknowledgement includes the lost one, so the loss has no effect.
      settle(unit, p, HopOutcome::missing);
      return true;
    }
    if (p.role == Role::segment) {
      // A retransmission can have other segment boundaries, so segments match if they have at least one byte in common.
      if (copy.bytes == 0 || ahead(p.role, copy.psn + copy.bytes, p.psn) <= 0 ||
          ahead(p.role, p.psn + p.length, copy.psn) <= 0)
        return false;
    } else if (p.psn != copy.psn) {
      return false;
    }
    settle(unit, p, HopOutcome::lost);
    return true;
  });
}

/// Uses the result that most captures have, because each capture pairs queue pairs independently.
std::optional<std::uint64_t> Ledger::requester_of(const FlowKey& responses) const {
  std::map<std::uint32_t, std::size_t> votes;
  for (const Survey& survey : surveys_)
    if (const auto found = survey.partners.find(ordered(responses)); found != survey.partners.end())
      ++votes[found->second];
  std::optional<std::uint64_t> best;
  std::size_t most = 0;
  for (const auto& [number, count] : votes) {
    if (count == most) best.reset();
    if (count > most) best = number;
    most = std::max(most, count);
  }
  return best;
}

void Ledger::on_response(const Copy& copy, std::int64_t time) {
  if (!rows_[copy.unit].partner_sought) {
    rows_[copy.unit].partner_sought = true;
    const FlowKey responses = flow(copy.unit);
    const auto number =
        TcpFlow::is(responses) ? std::optional(TcpFlow::of(responses).reversed().number()) : requester_of(responses);
    if (number)
      if (const auto found = unit(responses.reversed(*number))) rows_[copy.unit].partner = *found;
  }
  const std::uint32_t partner = rows_[copy.unit].partner;
  if (partner == UINT32_MAX) return;
  Unit& requesting = rows_[partner];
  const bool names = copy.role == Role::acknowledge && copy.syndrome.is_nak(nak_code::psn_sequence_error);
  if (names) check_edges(partner, copy.psn, time);
  if (requesting.pending.empty()) return;
  std::erase_if(requesting.pending, [&](const Pending& p) {
    if (p.time >= time) return false;
    bool arrived = false;
    if (copy.role == Role::segment) {
      arrived = p.role == Role::segment && ahead(p.role, copy.acknowledged, p.psn + p.length) >= 0;
    } else if (p.role == Role::request) {
      const std::int64_t by = ahead(p.role, copy.psn, p.psn);
      if (names && by == 0) {
        settle(partner, p, HopOutcome::lost, true);
        return true;
      }
      arrived = names ? by > 0 : by >= 0;
    }
    if (arrived) settle(partner, p, HopOutcome::missed_downstream);
    return arrived;
  });
}

void Ledger::remember(Unit& unit, const Transmission& transmission) {
  if (unit.recent.empty()) {
    if (with_recent_ == most_with_recent) return;
    ++with_recent_;
    unit.recent.resize(recent_of_unit);
  }
  const Copy& first = transmission.copies[0];
  Sent& sent = unit.recent[first.psn % recent_of_unit];
  if (sent.psn != first.psn) sent = {};
  sent.psn = first.psn;
  sent.bytes = first.bytes;
  sent.anywhere = transmission.first();
  for (const Copy& copy : transmission.seen()) {
    if (copy.capture == unit.path->points.front()) sent.frame = copy.frame;
    if (copy.capture != unit.path->points.back()) continue;
    sent.at_last = copy.aligned;
    sent.frame_at_last = copy.frame;
  }
}

void Ledger::check_edges(std::uint32_t unit, std::uint32_t psn, std::int64_t time) {
  const Unit& row = rows_[unit];
  if (row.recent.empty()) return;
  static constexpr Sent not_seen;
  const auto sent = [&](std::int64_t n) -> const Sent& {
    const std::uint32_t wanted = (Psn(psn) + n).value();
    const Sent& found = row.recent[wanted % recent_of_unit];
    return found.psn == wanted ? found : not_seen;
  };
  const Sent &preceding = sent(-1), &missed = sent(0);
  if (preceding.psn == Sent::nothing) return;
  // A later packet must reveal the gap. It must have been sent after the packet that the receiver accepted last.
  const auto shown_after = [&](std::int64_t Sent::*when, std::int64_t moment) {
    for (std::int64_t n = 1; n <= 16; ++n)
      if (sent(n).*when > moment && sent(n).*when < time) return true;
    return false;
  };
  const bool never_arrived = missed.anywhere < preceding.anywhere && shown_after(&Sent::anywhere, preceding.anywhere);
  // Ignore transmissions before that of the preceding PSN, because the receiver discarded them. Also ignore reordered
  // packets.
  const bool passed = preceding.at_last != INT64_MIN && missed.at_last > preceding.at_last && missed.at_last < time &&
                      shown_after(&Sent::at_last, missed.at_last);
  if (!never_arrived && !passed) return;
  auto edge = std::find_if(edges_.begin(), edges_.end(),
                           [&](const Edge& e) { return e.downstream == passed && e.direction == row.path->direction; });
  if (edge == edges_.end()) {
    if (edges_.size() == most_edges) {
      ++skipped_;
      return;
    }
    edges_.push_back({row.path->direction, passed, passed ? row.path->points.back() : row.path->points.front(), {}});
    edge = edges_.end() - 1;
  }
  const FramePair pair = passed ? FramePair{missed.frame_at_last, 0} : FramePair{0, preceding.frame};
  edge->tally.add(pair, passed ? missed.at_last : preceding.anywhere, unit, passed ? missed.bytes : 0);
}

void Ledger::compare(std::uint32_t unit, const Copy& upstream, const Copy& downstream, bool adjacent) {
  Unit& row = rows_[unit];
  Hop* found = hop(row, upstream.capture, downstream.capture, adjacent);
  if (!found) return;
  Hop& h = *found;
  ++h.seen;
  h.bytes += upstream.bytes;
  const FramePair pair{upstream.frame, downstream.frame};
  const auto note = [&](HopOutcome outcome) { h.of(outcome).add(pair, upstream.aligned, unit, upstream.bytes); };
  const std::uint8_t ecn_upstream = upstream.traffic_class & 3, ecn_downstream = downstream.traffic_class & 3;
  h.capable += ecn_upstream == 1 || ecn_upstream == 2;
  if (ecn_upstream != marked && ecn_downstream == marked) note(HopOutcome::marked);
  if (upstream.traffic_class >> 2 != downstream.traffic_class >> 2) note(HopOutcome::dscp_rewritten);
  if (upstream.priority != downstream.priority && upstream.priority != Observation::no_priority &&
      downstream.priority != Observation::no_priority)
    note(HopOutcome::priority_rewritten);
  if (upstream.source_port != downstream.source_port) note(HopOutcome::port_rewritten);
  if (upstream.unit != downstream.unit) note(HopOutcome::address_rewritten);
  if (upstream.icrc == CrcCheck::Status::good && downstream.icrc == CrcCheck::Status::bad)
    note(HopOutcome::icrc_corrupted);
  const std::int64_t delay = downstream.aligned - upstream.aligned;
  h.delays.add(delay - h.base);
  h.shortest = std::min(h.shortest, delay);
  if (delay > h.slowest_delay) {
    h.slowest_delay = delay;
    h.slowest = pair;
    h.slowest_time = upstream.aligned;
  }
  if (upstream.ttl && downstream.ttl) {
    const auto hops = static_cast<std::int16_t>(upstream.ttl - downstream.ttl);
    h.ttl_least = std::min(h.ttl_least, hops);
    h.ttl_most = std::max(h.ttl_most, hops);
  }
  const auto index = static_cast<std::uint32_t>(found - hops_.data());
  const auto last =
      std::find_if(row.overtaken.begin(), row.overtaken.end(), [index](const Overtaken& o) { return o.hop == index; });
  if (last == row.overtaken.end()) {
    row.overtaken.push_back({index, pair});
  } else if (pair.upstream > last->last.upstream && pair.downstream < last->last.downstream) {
    note(HopOutcome::reordered);
  } else if (pair.downstream > last->last.downstream) {
    last->last = pair;
  }
}

void Ledger::take(const Transmission& transmission) {
  const auto seen = transmission.seen();
  const Copy& first = seen.front();
  const std::uint32_t unit = first.unit;
  const std::int64_t time = transmission.first();
  Unit& row = rows_[unit];
  if (!row.plain_tcp) {
    ++followed_;
    for (const Copy& copy : seen) {
      ++points_[copy.capture].packets;
      points_[copy.capture].shared += seen.size() > 1;
    }
  }

  if (!transmission.doubled) {
    if (!row.pending.empty()) on_retransmission(unit, first, time);
    if (first.acknowledges) on_response(first, time);
    if (first.role != Role::datagram && (first.role != Role::segment || first.bytes)) {
      if (!row.began || ahead(first.role, first.psn, row.highest_psn) > 0) {
        row.began = true;
        row.highest_psn = first.psn;
        row.progress_time = time;
      }
    }
  }
  if (!row.path) return;
  const std::vector<std::size_t>& path = row.path->points;
  if (path.size() < 2) return;
  if (first.role == Role::request && !transmission.doubled) remember(row, transmission);

  // Visit the points of the path that saw this packet.
  const auto place_of = [&](std::size_t capture) {
    return static_cast<std::size_t>(std::find(path.begin(), path.end(), capture) - path.begin());
  };
  std::size_t previous = SIZE_MAX;
  const Copy* upstream = nullptr;
  for (const Copy& copy : seen) {
    const std::size_t place = place_of(copy.capture);
    if (place == path.size()) continue;
    bool adjacent = true;
    // Visit the upstream points that should have seen the packet, nearest first.
    const std::size_t from = upstream ? previous + 1 : 0;
    for (std::size_t k = place; k-- > from;) {
      if (!(row.points >> path[k] & 1)) continue;
      adjacent = false;
      if (!was_capturing(path[k], copy.aligned, copy.capture)) continue;
      Hop* h = hop(row, path[k], copy.capture, k + 1 == place);
      if (!h) continue;
      const HopOutcome outcome = transmission.doubled                 ? HopOutcome::duplicated
                                 : copy.icrc == CrcCheck::Status::bad ? HopOutcome::damaged
                                                                      : HopOutcome::missed_upstream;
      h->of(outcome).add({0, copy.frame}, copy.aligned, unit, copy.bytes);
      if (outcome != HopOutcome::missed_upstream) break;
    }
    if (upstream) compare(unit, *upstream, copy, adjacent);
    upstream = &copy;
    previous = place;
  }
  if (!upstream) return;

  // Find the next point after the last observation that should have seen the packet.
  for (std::size_t k = previous + 1; k < path.size(); ++k) {
    const bool known_there = row.points >> path[k] & 1;
    if (!known_there && k + 1 < path.size()) continue;
    if (!was_capturing(path[k], upstream->aligned, upstream->capture)) continue;
    Hop* h = hop(row, upstream->capture, path[k], k == previous + 1);
    if (!h) return;
    const auto index = static_cast<std::uint32_t>(h - hops_.data());
    if (transmission.doubled) {
      h->of(HopOutcome::captured_twice).add({upstream->frame, 0}, upstream->aligned, unit, upstream->bytes);
      return;
    }
    const bool can_be_proved = first.role == Role::request || first.role == Role::response ||
                               first.role == Role::acknowledge || (first.role == Role::segment && first.bytes);
    if (!can_be_proved || pending_ >= most_pending) {
      if (can_be_proved) ++skipped_;
      h->of(known_there ? HopOutcome::missing : HopOutcome::elsewhere)
          .add({upstream->frame, 0}, upstream->aligned, unit, upstream->bytes);
      return;
    }
    if (row.pending.size() == most_pending_of_unit) {
      const Pending oldest = row.pending.front();
      row.pending.erase(row.pending.begin());
      settle(unit, oldest, HopOutcome::missing);
    }
    row.pending.push_back({first.psn, first.bytes, time, index, upstream->frame, first.bytes, first.role});
    ++pending_;
    return;
  }
}

HopOutcome Ledger::outcome_without_response(const Unit& unit, const Pending& p) const {
  if (!(unit.points >> hops_[p.hop].downstream & 1)) return HopOutcome::elsewhere;
  // A later acknowledgement replaces a lost one, so continued traffic does not show that the acknowledgement was
  // delivered.
  const bool progress_time = p.role != Role::acknowledge && unit.began && ahead(p.role, unit.highest_psn, p.psn) > 0 &&
                             unit.progress_time - p.time > long_after;
  return progress_time ? HopOutcome::missed_downstream : HopOutcome::missing;
}

void Ledger::finish() {
  for (std::uint32_t unit = 0; unit < rows_.size(); ++unit) {
    Unit& row = rows_[unit];
    for (const Pending& p : row.pending) settle(unit, p, outcome_without_response(row, p));
    row.pending.clear();
  }
}

}  // namespace rdmawire::captures::vantage
