// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Puts the data of a sender's packets in PSN order, each packet once, and reports missing packets. Independent of
/// Wireshark.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/wireshark/seen_psns.hpp"

namespace rdmawire::wireshark {

/// The data of one packet.
struct FollowedData {
  std::uint32_t frame = 0;
  std::vector<std::uint8_t> bytes;  ///< empty: a packet without payload
};

/// Receives the data in order.
class DataSink {
 public:
  virtual void data(const FollowedData& data) = 0;
  /// Receives the number of packets that are missing in the capture.
  virtual void missing(std::uint64_t packets) = 0;

 protected:
  ~DataSink() = default;
};

/// Order of packets in a capture that is read for the first time. Like Wireshark's analysis of TCP, it holds the data
/// after a gap until the missing packets arrive, or the peer acknowledges them. If too much is held, the oldest gap is
/// reported as missing.
class ArrivalOrder {
 public:
  static constexpr std::size_t max_held_bytes = std::size_t{16} << 20, max_held_packets = 4096;

  /// `psns`: number of PSNs that the packet uses. `gap`: packets before this one are missing so far. `waits`: they can
  /// still arrive.
  void add(std::uint32_t psn, std::uint32_t psns, FollowedData data, bool gap, bool waits, DataSink& sink) {
    if (seen_.add(psn)) return;  // retransmission
    const std::int64_t at = started_ ? next_ + (Psn(psn) - Psn(static_cast<std::uint32_t>(next_))) : psn;
    const std::int64_t expected = std::exchange(next_, started_ ? std::max(next_, at + psns) : at + psns);
    const bool opens_gap = gap && started_ && at > expected;
    started_ = true;
    if (opens_gap && !waits) sink.missing(static_cast<std::uint64_t>(at - expected));
    if (opens_gap && waits) gaps_.emplace(expected, Gap{at, static_cast<std::uint64_t>(at - expected)});
    if (gaps_.empty() || at < gaps_.begin()->first) return sink.data(data);
    Gap& before = std::prev(gaps_.upper_bound(at))->second;
    if (at < before.end) before.missing -= std::min<std::uint64_t>(before.missing, psns);
    held_bytes_ += data.bytes.size();
    held_.emplace(at, std::move(data));
    while (!gaps_.empty() &&
           (gaps_.begin()->second.missing == 0 || held_bytes_ > max_held_bytes || held_.size() > max_held_packets))
      close_gap(sink);
  }
  /// Processes an acknowledgement of all packets up to `psn`: the peer received them.
  void acknowledged(std::uint32_t psn, DataSink& sink) {
    while (!gaps_.empty() && Psn(psn) - Psn(static_cast<std::uint32_t>(gaps_.begin()->second.end - 1)) >= 0)
      close_gap(sink);
  }
  /// Passes the held data at the end of the capture, and reports the gaps before it.
  void finish(DataSink& sink) {
    while (!gaps_.empty()) close_gap(sink);
  }

 private:
  struct Gap {
    std::int64_t end;  ///< PSN of the packet after the gap, without the modulus
    std::uint64_t missing;
  };
  void close_gap(DataSink& sink) {
    const Gap gap = gaps_.begin()->second;
    gaps_.erase(gaps_.begin());
    pass(gap.end, sink);
    if (gap.missing != 0) sink.missing(gap.missing);
    pass(gaps_.empty() ? INT64_MAX : gaps_.begin()->first, sink);
  }
  void pass(std::int64_t end, DataSink& sink) {
    while (!held_.empty() && held_.begin()->first < end) {
      held_bytes_ -= held_.begin()->second.bytes.size();
      sink.data(held_.begin()->second);
      held_.erase(held_.begin());
    }
  }

  SeenPsns seen_;
  bool started_ = false;
  std::int64_t next_ = 0;             ///< PSN after the newest packet, without the modulus
  std::map<std::int64_t, Gap> gaps_;  ///< by their first PSN. Each has a held packet after it.
  std::multimap<std::int64_t, FollowedData> held_;
  std::size_t held_bytes_ = 0;
};

/// Order of packets in a capture that was read before.
class KnownOrder {
 public:
  static constexpr std::size_t max_held_bytes = std::size_t{64} << 20, max_held_packets = 65536;

  /// `frames`: the first frame of each packet, in PSN order.
  explicit KnownOrder(std::vector<std::uint32_t> frames = {}) : frames_(std::move(frames)) {
    for (std::size_t i = 0; i < frames_.size(); ++i) place_.emplace(frames_[i], i);
  }
  /// Processes the packets in order of their frames. Ignores frames that are not in the list. Frames of the list can be
  /// absent, because of a read filter. `missing`: number of packets before this one that are not in the capture.
  void add(FollowedData data, std::uint64_t missing, DataSink& sink) {
    const auto place = place_.find(data.frame);
    if (place == place_.end()) return;
    const std::uint32_t frame = data.frame;
    if (place->second < next_) return pass({std::move(data), missing}, sink);  // its place was given up
    held_bytes_ += data.bytes.size();
    held_.emplace(place->second, Held{std::move(data), missing});
    while (!held_.empty()) {
      // Frames arrive in order of their numbers, so an earlier frame will not arrive.
      while (next_ < held_.begin()->first && frames_[next_] < frame) ++next_;
      const bool is_next = held_.begin()->first == next_;
      if (!is_next && held_bytes_ <= max_held_bytes && held_.size() <= max_held_packets) break;
      pass_first(sink);
    }
  }
  /// Passes the held data at the end of the capture.
  void finish(DataSink& sink) {
    while (!held_.empty()) pass_first(sink);
  }

 private:
  struct Held {
    FollowedData data;
    std::uint64_t missing = 0;
  };
  static void pass(const Held& held, DataSink& sink) {
    if (held.missing != 0) sink.missing(held.missing);
    sink.data(held.data);
  }
  void pass_first(DataSink& sink) {
    const auto first = held_.begin();
    next_ = first->first + 1;
    held_bytes_ -= first->second.data.bytes.size();
    pass(first->second, sink);
    held_.erase(first);
  }

  std::vector<std::uint32_t> frames_;
  std::unordered_map<std::uint32_t, std::size_t> place_;
  std::map<std::size_t, Held> held_;
  std::size_t held_bytes_ = 0;
  std::size_t next_ = 0;
};

}  // namespace rdmawire::wireshark
