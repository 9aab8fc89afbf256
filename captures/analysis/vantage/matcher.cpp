#include "captures/analysis/vantage/matcher.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rdmawire::captures::vantage {
namespace {

/// Two observations at one point are duplicates of one transmission if they are closer than this, because a response
/// precedes a retransmission.
constexpr std::int64_t twice_captured = 2'000;       ///< nanoseconds, if one of the two is not seen downstream
constexpr std::int64_t doubled_on_the_way = 10'000;  ///< nanoseconds, if one of the two is not seen upstream
/// If a point has more observations than this, each one is matched with the nearest observation at the next point.
constexpr std::size_t most_aligned = 256;
/// Maximum age of a group as a multiple of the window.
constexpr std::int64_t most_windows = 4;

}  // namespace

Matcher::Matcher(MatchSink& taker, const Layout& layout, const MatcherOptions& options)
    : taker_(taker), layout_(layout), options_(options) {
  ring_.resize(1024);
  slots_.assign(4096, 0);
}

std::size_t Matcher::slot_of(std::uint64_t identity) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = identity & mask;
  while (slots_[i] != 0 && ring_[(slots_[i] - 1) & (ring_.size() - 1)].identity != identity) i = (i + 1) & mask;
  return i;
}

void Matcher::grow_ring() {
  std::vector<Group> larger(ring_.size() * 2);
  for (std::uint64_t s = oldest_; s != newest_; ++s) larger[s & (larger.size() - 1)] = group(s);
  ring_ = std::move(larger);
}

void Matcher::grow_slots() {
  std::vector<std::uint64_t> old(slots_.size() * 2, 0);
  old.swap(slots_);
  for (const std::uint64_t entry : old)
    if (entry != 0) slots_[slot_of(group(entry - 1).identity)] = entry;
}

void Matcher::erase_slot(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  --used_slots_;
  std::size_t hole = slot;
  for (std::size_t i = (slot + 1) & mask; slots_[i] != 0; i = (i + 1) & mask) {
    const std::size_t home = group(slots_[i] - 1).identity & mask;
    // An entry may move into the hole unless the hole precedes the entry's home slot.
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = 0;
}

void Matcher::add(std::uint64_t identity, const Copy& copy) {
  settle_oldest(copy.aligned);
  std::uint32_t at = free_;
  if (at != none) {
    free_ = pool_[at].next;
    pool_[at] = copy;
  } else {
    at = static_cast<std::uint32_t>(pool_.size());
    pool_.push_back(copy);
  }
  pool_[at].next = none;
  ++held_;
  if (used_slots_ * 2 >= slots_.size()) grow_slots();
  const std::size_t slot = slot_of(identity);
  if (slots_[slot] == 0) {
    if (newest_ - oldest_ == ring_.size()) grow_ring();
    group(newest_) = {identity, copy.aligned, copy.aligned, at, at, 1, 1U << copy.capture, false};
    slots_[slot] = ++newest_;
    ++used_slots_;
    return;
  }
  Group& g = group(slots_[slot] - 1);
  pool_[g.tail].next = at;
  g.tail = at;
  g.last = std::max(g.last, copy.aligned);
  ++g.count;
  g.several |= (g.captures >> copy.capture & 1) != 0;
  g.captures |= 1U << copy.capture;
}

void Matcher::settle_oldest(std::int64_t now) {
  while (oldest_ != newest_) {
    Group& g = group(oldest_);
    const bool done = g.last + options_.window < now;
    const bool old = g.first + most_windows * options_.window < now;
    const bool full = held_ >= options_.observations;
    if (!done && !old && !full) return;
    evaluated_early_ += !done;
    judge(g);
    erase_slot(slot_of(g.identity));
    ++oldest_;
  }
}

void Matcher::finish() {
  settle_oldest(std::numeric_limits<std::int64_t>::max());
  drain(std::numeric_limits<std::int64_t>::max());
}

void Matcher::drain(std::int64_t until) {
  while (!later_.empty() && later_.begin()->first < until) {
    const Transmission transmission = later_.begin()->second;
    later_.erase(later_.begin());
    taker_.take(transmission);
  }
}

void Matcher::hand_over(const Transmission& transmission) { later_.emplace(transmission.first(), transmission); }

void Matcher::judge(Group& g) {
  drain(g.first);
  copies_.clear();
  for (std::uint32_t at = g.head; at != none;) {
    copies_.push_back(pool_[at]);
    const std::uint32_t next = pool_[at].next;
    pool_[at].next = free_;
    free_ = at;
    --held_;
    at = next;
  }
  const CapturePath* path = taker_.path_of(copies_.front().unit);
  if (!g.several) {
    Transmission whole;
    const auto place = [&](std::size_t capture) {
      return path ? std::find(path->points.begin(), path->points.end(), capture) - path->points.begin() : 0;
    };
    if (copies_.size() > 1)
      std::stable_sort(copies_.begin(), copies_.end(),
                       [&](const Copy& a, const Copy& b) { return place(a.capture) < place(b.capture); });
    bool in_time = true;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      whole.copies[i] = copies_[i];
      if (i)
        in_time &= copies_[i].aligned >= copies_[i - 1].aligned +
                                             (path ? path->least(copies_[i - 1].capture, copies_[i].capture) : 0) -
                                             layout_.tolerance(copies_[i].capture, copies_[i - 1].capture);
    }
    whole.count = static_cast<std::uint8_t>(copies_.size());
    if (in_time) {
      taker_.take(whole);
      return;
    }
  }
  align(copies_, path);
  const auto first = std::min_element(
      found_.begin(), found_.end(), [](const Transmission& a, const Transmission& b) { return a.first() < b.first(); });
  for (auto one = found_.begin(); one != found_.end(); ++one)
    if (one != first) hand_over(*one);
  taker_.take(*first);
}

/// Matches the observations at consecutive points of the path by sequence alignment (dynamic programming). Keeps the
/// order at both points, requires that packets arrive after they are sent, and minimizes the differences of delays.
void Matcher::align(std::vector<Copy>& copies, const CapturePath* path) {
  found_.clear();
  std::vector<std::size_t> points;
  if (path) points = path->points;
  for (const Copy& copy : copies)
    if (std::find(points.begin(), points.end(), copy.capture) == points.end()) points.push_back(copy.capture);
  std::stable_sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.aligned < b.aligned; });

  std::vector<Copy> here;
  std::vector<std::size_t> taken;
  for (const std::size_t point : points) {
    here.clear();
    for (const Copy& copy : copies)
      if (copy.capture == point) here.push_back(copy);
    if (here.empty()) continue;
    const std::size_t n = found_.size(), m = here.size();
    const auto cost_of = [&](const Transmission& t, const Copy& copy) {
      const Copy& last = t.copies[t.count - 1U];
      const std::int64_t delay = copy.aligned - last.aligned - (path ? path->least(last.capture, copy.capture) : 0);
      if (delay < -layout_.tolerance(last.capture, copy.capture)) return std::numeric_limits<double>::infinity();
      return std::abs(static_cast<double>(delay));
    };
    taken.assign(m, SIZE_MAX);
    if (n && n <= most_aligned && m <= most_aligned) {
      // costs_[i][j] is the cost of the first i transmissions and the first j observations. The cost of an unmatched
      // item exceeds that of any delay.
      const auto unmatched = static_cast<double>(options_.window) * most_windows;
      const auto at = [&](std::size_t i, std::size_t j) -> double& { return costs_[i * (m + 1) + j]; };
      costs_.assign((n + 1) * (m + 1), 0);
      for (std::size_t i = 0; i <= n; ++i)
        for (std::size_t j = 0; j <= m; ++j) {
          if (i == 0 || j == 0) {
            at(i, j) = unmatched * static_cast<double>(i + j);
            continue;
          }
          at(i, j) = std::min({at(i - 1, j) + unmatched, at(i, j - 1) + unmatched,
                               at(i - 1, j - 1) + cost_of(found_[i - 1], here[j - 1])});
        }
      for (std::size_t i = n, j = m; i && j;) {
        if (at(i, j) == at(i - 1, j - 1) + cost_of(found_[i - 1], here[j - 1])) {
          taken[j - 1] = i - 1;
          --i;
          --j;
        } else if (at(i, j) == at(i - 1, j) + unmatched) {
          --i;
        } else {
          --j;
        }
      }
    } else if (n) {
      std::size_t i = 0;
      for (std::size_t j = 0; j < m; ++j) {
        while (i + 1 < n && cost_of(found_[i + 1], here[j]) <= cost_of(found_[i], here[j])) ++i;
        if (i < n && cost_of(found_[i], here[j]) < std::numeric_limits<double>::infinity()) taken[j] = i++;
      }
    }
    for (std::size_t j = 0; j < m; ++j) {
      if (taken[j] == SIZE_MAX) {
        Transmission unmatched;
        unmatched.copies[0] = here[j];
        unmatched.count = 1;
        found_.push_back(unmatched);
      } else {
        Transmission& t = found_[taken[j]];
        t.copies[t.count++] = here[j];
      }
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Transmission& a, const Transmission& b) {
      return a.copies[a.count - 1U].aligned < b.copies[b.count - 1U].aligned;
    });
  }
  if (found_.size() > most_aligned) return;
  for (Transmission& one : found_)
    for (const Transmission& other : found_) {
      if (&one == &other || other.doubled || one.count >= other.count) continue;
      for (const Copy& copy : other.seen()) {
        if (copy.capture != one.copies[0].capture) continue;
        const bool first_point = copy.capture == other.copies[0].capture;
        const std::int64_t apart = std::abs(copy.aligned - one.copies[0].aligned);
        one.doubled |= apart <= (first_point ? twice_captured : doubled_on_the_way);
      }
    }
}

}  // namespace rdmawire::captures::vantage
