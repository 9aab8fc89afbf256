#include "dissectors/tracking/tcp_loss_tracker.hpp"

#include <algorithm>

namespace rdmawire::tracking {

const TcpLossTracker::Segment* TcpLossTracker::carrier(std::uint64_t offset) const {
  // Search backward, because usually one of the latest segments is requested.
  for (std::size_t i = segments_.size(); i-- > 0;) {
    const Segment& s = segments_[(oldest_ + i) % segments_.size()];
    if (s.from <= offset && offset < s.to) return &s;
  }
  return nullptr;
}

void TcpLossTracker::remember(const Segment& segment) {
  const bool needed =
      segments_.size() < remembered_acknowledged || !acknowledged(segments_[oldest_ % segments_.size()].to);
  if (segments_.size() < remembered_segments && needed) {
    // The ring must start at index 0 before it grows.
    if (oldest_) {
      std::rotate(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(oldest_), segments_.end());
      oldest_ = 0;
    }
    segments_.push_back(segment);
  } else {
    segments_[oldest_] = segment;
    oldest_ = (oldest_ + 1) % segments_.size();
  }
}

// True if the segment that fills the hole was sent before the segment after the hole, so it is not a retransmission.
bool TcpLossTracker::overtaken(const Segment& segment, const Hole& hole) const {
  // The receiver had already received the segment, so it was captured out of order.
  if (hole.acknowledged_frame) return true;
  if (segment.has_timestamp && hole.next.has_timestamp && segment.timestamp != hole.next.timestamp)
    return static_cast<std::int32_t>(segment.timestamp - hole.next.timestamp) < 0;
  // Many senders increment the identification. Random identifications are seldom close together.
  if (segment.identification && hole.next.identification) {
    const auto steps = static_cast<std::int16_t>(segment.identification - hole.next.identification);
    if (steps != 0 && steps > -256 && steps < 256) return steps < 0;
  }
  // A sender waits for three duplicate ACKs before it retransmits (RFC 5681, 3.2), and a round trip is seldom shorter
  // than this.
  constexpr std::int64_t short_time = 1'000'000;
  return duplicate_acknowledgements_ < 3 && segment.time - hole.next.time < short_time;
}

TcpLossTracker::Judgment TcpLossTracker::segment(const Segment& s, std::vector<Event>& events) {
  Judgment judgment;
  judgment.bytes = s.to - s.from;
  if (s.to <= s.from) return judgment;
  if (!started_) {
    started_ = true;
    first_ = highest_ = s.from;
  }
  longest_ = std::max(longest_, static_cast<std::uint32_t>(s.to - s.from));
  expire_holes(s.time, events);
  if (s.from > highest_) {
    if (holes_.size() == max_holes) holes_.erase(holes_.begin());
    holes_.push_back({.from = highest_, .to = s.from, .before_frame = highest_frame_, .next = s});
  } else if (s.from < highest_ && s.from >= first_) {
    const std::uint64_t old_to = std::min(s.to, highest_);
    const Hole* filled = nullptr;
    for (const Hole& hole : holes_) {
      if (hole.from >= s.to || hole.to <= s.from) continue;
      filled = &hole;
      break;
    }
    if (filled) {
      judgment.origin_frame = filled->before_frame;
      judgment.origin_time = filled->next.time;
      if (overtaken(s, *filled)) {
        judgment.kind = Kind::late;
        Event event;
        event.kind = EventKind::out_of_order;
        event.frame = event.last_frame = s.frame;
        event.origin_frame = filled->before_frame;
        event.cause_frame = filled->next.frame;
        event.time = s.time;
        event.duration = s.time - filled->next.time;
        event.bytes = judgment.bytes;
        event.psn = static_cast<std::uint32_t>(s.from);
        events.push_back(event);
      } else {
        judgment.bytes = old_to - s.from;
        repeat(s, judgment, false, events);
      }
      for (std::size_t i = 0; i < holes_.size();) {
        Hole& hole = holes_[i];
        if (hole.from >= s.to || hole.to <= s.from) {
          ++i;
          continue;
        }
        const Hole before = hole;
        if (s.from <= hole.from && s.to >= hole.to) {
          holes_.erase(holes_.begin() + static_cast<std::ptrdiff_t>(i));
          continue;
        }
        if (s.from <= hole.from) {
          hole.from = s.to;
        } else {
          hole.to = s.from;
          if (s.to < before.to && holes_.size() < max_holes) {
            Hole rest = before;
            rest.from = s.to;
            holes_.insert(holes_.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
            ++i;
          }
        }
        ++i;
      }
    } else {
      const Segment* first = carrier(s.from);
      if (first) {
        judgment.origin_frame = first->frame;
        judgment.origin_time = first->time;
      }
      // A retransmission has a new IP identification and a later timestamp. If both are unchanged, the packet is a
      // duplicate.
      const bool same = first && first->from == s.from && first->to == s.to && first->checksum == s.checksum &&
                        first->identification == s.identification && first->timestamp == s.timestamp &&
                        s.time - first->time < sure_timeout && (s.identification || s.has_timestamp);
      if (same) {
        judgment.kind = Kind::duplicate;
        Event event;
        event.kind = EventKind::duplicate;
        event.frame = event.last_frame = s.frame;
        event.origin_frame = first->frame;
        event.time = s.time;
        event.duration = s.time - first->time;
        event.bytes = judgment.bytes;
        event.psn = static_cast<std::uint32_t>(s.from);
        events.push_back(event);
      } else {
        judgment.bytes = old_to - s.from;
        repeat(s, judgment, true, events);
      }
    }
  }
  if (s.to > highest_) {
    highest_ = s.to;
    highest_frame_ = s.frame;
  }
  last_time_ = s.time;
  if (judgment.kind != Kind::duplicate) remember(s);
  return judgment;
}

void TcpLossTracker::repeat(const Segment& s, Judgment& judgment, bool seen, std::vector<Event>& events) {
  judgment.kind = Kind::again;
  // The segment was already retransmitted in this recovery, or is outside of it, so the recovery is over.
  if (round_.open && (s.from < round_.retransmitted_to || s.from >= round_.recover)) close_round(events);
  const bool asked = duplicate_acknowledgements_ > 0;
  const bool needless = acknowledged(std::min(s.to, highest_));
  if (!round_.open) {
    round_ = {};
    round_.open = true;
    round_.from = s.from;
    round_.recover = highest_;
    Event& event = round_.event;
    event.kind = EventKind::tcp_retransmission;
    event.frame = s.frame;
    event.time = s.time;
    event.origin_frame = judgment.origin_frame;
    event.packets = 0;
    event.psn = static_cast<std::uint32_t>(s.from);
    const bool silent = s.time - last_time_ >= sure_timeout;
    if (needless)
      event.cause = Cause::spurious;
    else if (asked && !silent)
      event.cause = Cause::fast_retransmit;
    else if (acknowledged_known_)
      event.cause = Cause::timeout;
    else
      event.cause = Cause::unknown;  // the other direction was not captured
    if (event.cause == Cause::fast_retransmit) event.cause_frame = duplicate_ack_frame_;
    ++rounds_;
  }
  Event& event = round_.event;
  if (judgment.origin_frame) event.duration = std::max(event.duration, s.time - judgment.origin_time);
  event.last_frame = s.frame;
  ++event.packets;
  event.bytes += judgment.bytes;
  round_.retransmitted_to = std::max(round_.retransmitted_to, std::min(s.to, highest_));
  if (!seen) {
    ++round_.lost_before_packets;
    round_.lost_before_bytes += judgment.bytes;
  } else if (asked && !needless && acknowledged_ <= s.from) {
    // Duplicate ACKs show that later segments arrived, but not this one. It was captured, so it was lost after the
    // capture point.
    ++round_.lost_after_packets;
    round_.lost_after_bytes += judgment.bytes;
  }
}

void TcpLossTracker::close_round(std::vector<Event>& events) {
  if (!round_.open) return;
  round_.open = false;
  events.push_back(round_.event);
  const auto lost = [&](Cause where, std::uint64_t packets, std::uint64_t bytes) {
    if (packets == 0) return;
    Event event = round_.event;
    event.kind = EventKind::lost_in_network;
    event.cause = where;
    event.packets = packets;
    event.bytes = bytes;
    event.cause_frame = event.value = event.found = 0;
    events.push_back(event);
  };
  lost(Cause::before_capture, round_.lost_before_packets, round_.lost_before_bytes);
  lost(Cause::after_capture, round_.lost_after_packets, round_.lost_after_bytes);
}

void TcpLossTracker::acknowledge(const Acknowledgement& a, std::vector<Event>& events) {
  if (!started_) return;
  const auto step = static_cast<std::int64_t>(a.offset - acknowledged_);
  // Offsets beyond any window do not belong to this connection.
  if (static_cast<std::int64_t>(a.offset - highest_) >= 1LL << 30) return;
  if (!acknowledged_known_ || step > 0) {
    acknowledged_known_ = true;
    acknowledged_ = a.offset;
    acknowledged_frame_ = a.frame;
    acknowledged_time_ = a.time;
    duplicate_acknowledgements_ = 0;
    duplicate_ack_frame_ = 0;
    if (a.selective) {
      duplicate_acknowledgements_ = 1;
      duplicate_ack_frame_ = a.frame;
    }
    for (Hole& hole : holes_) {
      if (hole.to > acknowledged_) break;
      if (hole.acknowledged_frame) continue;
      hole.acknowledged_frame = a.frame;
      hole.acknowledged_time = a.time;
    }
    if (round_.open && acknowledged_ >= round_.recover) close_round(events);
    // Bytes at the end of the stream that were acknowledged, but not captured, are also missing. One of them can be a
    // FIN.
    if (acknowledged_ > highest_ + 1) {
      if (holes_.size() == max_holes) holes_.erase(holes_.begin());
      Hole& hole = holes_.emplace_back();
      hole = {.from = highest_, .to = acknowledged_, .before_frame = highest_frame_, .next = {}};
      hole.next.time = a.time;
      hole.acknowledged_frame = hole.next.frame = a.frame;
      hole.acknowledged_time = a.time;
      highest_ = acknowledged_;
    }
  } else if (step == 0 && highest_ > acknowledged_ && (a.selective || (!a.data && a.window == acknowledged_window_))) {
    // RFC 5681, 2
    if (++duplicate_acknowledgements_ == 3 || duplicate_ack_frame_ == 0) duplicate_ack_frame_ = a.frame;
  }
  acknowledged_window_ = a.window;
  expire_holes(a.time, events);
}

Event TcpLossTracker::missing_bytes(const Hole& hole) const {
  Event event;
  event.kind = hole.acknowledged_frame ? EventKind::lost_in_capture : EventKind::psn_gap;
  event.frame = hole.next.frame;
  event.last_frame = std::max(hole.next.frame, hole.acknowledged_frame);
  event.origin_frame = hole.before_frame;
  event.cause_frame = hole.acknowledged_frame;
  event.time = hole.next.time;
  event.bytes = hole.to - hole.from;
  event.packets = (event.bytes + longest_ - 1) / longest_;
  event.psn = static_cast<std::uint32_t>(hole.from);
  return event;
}

void TcpLossTracker::expire_holes(std::int64_t now, std::vector<Event>& events) {
  while (!holes_.empty() && holes_.front().acknowledged_frame &&
         now - holes_.front().acknowledged_time > late_capture) {
    events.push_back(missing_bytes(holes_.front()));
    holes_.erase(holes_.begin());
  }
}

void TcpLossTracker::finish(std::vector<Event>& events) {
  close_round(events);
  for (const Hole& hole : holes_) events.push_back(missing_bytes(hole));
  holes_.clear();
}

void TcpLossTracker::name(std::uint64_t from, std::uint64_t to, std::uint64_t message, Side whose) {
  if (!round_.open || round_.event.found || round_.from < from || round_.from >= to) return;
  round_.event.found = message;
  round_.event.value = static_cast<std::uint64_t>(whose);
}

}  // namespace rdmawire::tracking
