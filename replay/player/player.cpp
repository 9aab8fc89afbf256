#include "replay/player/player.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "replay/player/prefetcher.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/departures.hpp"
#include "replay/wires/file.hpp"
#include "replay/wires/out_of_order.hpp"

namespace rdmawire::replay {
namespace {

/// The connection with its live values as captured ones.
MappedConnection live_values(MappedConnection connection) {
  for (MappedEnd& end : connection.ends) {
    if (end.address.live) end.address.captured = end.address.live;
    if (end.qp.live) end.qp.captured = end.qp.live;
  }
  return connection;
}

/// Sends the prepared frames to the wires.
class Player {
 public:
  Player(const PlayerOptions& options, std::span<Wire* const> wires)
      : options_(options), wires_(wires), feeder_(options, wires), cap_(options.rate_cap) {
    report_.lanes.resize(wires.size());
    outstanding_.resize(wires.size());
    departures_.resize(wires.size());
    for (std::size_t i = 0; i < wires.size(); ++i) {
      report_.lanes[i].wire = wires[i]->name();
      auto* const times = dynamic_cast<DepartureTimes*>(wires[i]);
      if (times && times->departure_source()) departures_[i].times = times;
      counted_before_.push_back(wires[i]->counters().sent);
      counted_bytes_before_.push_back(wires[i]->counters().sent_bytes);
    }
    flows_.resize(options.map.connections.size());
    virtual_ = wires.empty() || wires[0]->capabilities().virtual_time;
  }

  ReplayReport run() {
    if (ready()) {
      // The default timer slack delays wake-ups by up to 50 µs.
      const int slack = ::prctl(PR_GET_TIMERSLACK);
      ::prctl(PR_SET_TIMERSLACK, 1);
      play();
      if (slack > 0) ::prctl(PR_SET_TIMERSLACK, slack);
    }
    finish();
    return std::move(report_);
  }

 private:
  bool ready() {
    for (Wire* wire : wires_)
      if (wire->capabilities().virtual_time != virtual_) {
        report_.trouble = "file wires (virtual time) and real-time wires cannot be combined";
        return false;
      }
    if (feeder_.cuts() && !options_.changes.psns.empty()) {
      report_.trouble = "PSNs cannot continue from loop to loop if messages are resegmented to another path MTU";
      return false;
    }
    if (!feeder_.begin()) {
      report_.trouble = feeder_.trouble().empty() ? "the captures contain no frame" : feeder_.trouble();
      return false;
    }
    // Time to prepare the first frames, so that they are not late.
    constexpr std::int64_t lead = 2'000'000;
    std::optional<std::int64_t> anchor;
    if (!virtual_) anchor = wires_[0]->now() + lead;
    feeder_.begin_schedule(anchor);
    if (options_.preload) {
      if (!preload()) return false;
      report_.loops = 1;
      if (anchor) shift_ = wires_[0]->now() + lead - *anchor;
      return true;
    }
    // Callbacks run in the caller's thread.
    const bool looked_at = options_.step || options_.on_frame || options_.on_fault || options_.edit;
    if (options_.ahead && !virtual_ && !options_.dry && !looked_at && runs_ahead()) ahead_.emplace(feeder_);
    return true;
  }

  /// Prepares all frames. If the loops differ, those of all loops.
  bool preload() {
    if (options_.loops == 0 && options_.loops_differ()) {
      report_.trouble = "loops with changes or faults can be preloaded only if their number is limited";
      return false;
    }
    constexpr std::uint64_t most_bytes = std::uint64_t{4} << 30;
    std::uint64_t bytes = 0;
    while (!stopped()) {
      auto slot = feeder_.next();
      if (!slot) break;
      bytes += slot->bytes.capacity() + sizeof(Slot);
      loaded_.push_back(std::move(slot));
      if (bytes > most_bytes) {
        report_.trouble =
            fmt::format("the preloaded frames exceed {} GiB (replay without --preload)", most_bytes >> 30);
        return false;
      }
    }
    return true;
  }

  /// True if a second thread is useful: more than one CPU, and only regular files, whose reads do not block.
  [[nodiscard]] bool runs_ahead() const {
    return std::thread::hardware_concurrency() > 1 && FrameSource(options_.files).repeatable();
  }

  /// A frame to send. `own` owns it unless it is preloaded.
  struct Leaving {
    Slot* slot = nullptr;
    std::unique_ptr<Slot> own;
    std::int64_t time = 0;  ///< scheduled time
    std::int64_t due = 0;   ///< time to pass it to the wire. 0: immediately
    std::uint64_t loop = 1;
  };

  Leaving next() {
    Leaving leaving;
    if (!options_.preload) {
      leaving.own = ahead_ ? ahead_->next() : feeder_.next();
      leaving.slot = leaving.own.get();
      if (leaving.slot) {
        leaving.time = leaving.slot->time;
        leaving.loop = leaving.slot->loop;
      } else {
        fed_ = true;
      }
      return leaving;
    }
    if (next_loaded_ == loaded_.size()) {
      if (loaded_.empty() || options_.loops_differ() || (options_.loops != 0 && report_.loops >= options_.loops))
        return leaving;
      next_loaded_ = 0;
      ++report_.loops;
      shift_ += feeder_.length() + options_.pause;
    }
    leaving.slot = loaded_[next_loaded_++].get();
    leaving.time = leaving.slot->time + shift_;
    if (options_.loops_differ()) report_.loops = leaving.slot->loop;
    leaving.loop = report_.loops;
    return leaving;
  }

  [[nodiscard]] bool stopped() const { return options_.stop && options_.stop->load(std::memory_order_relaxed); }
  [[nodiscard]] bool top() const { return options_.pace.kind == Pace::Kind::top || options_.step; }
  /// Time to pass a frame to the wire. 0: immediately.
  std::int64_t due(const Leaving& leaving) {
    const std::int64_t wanted = top() && !virtual_ ? 0 : leaving.time;
    if (!cap_.on() || !paces(leaving.slot->lane)) return wanted;  // other wires: hand_over() applies the cap
    const auto bytes = static_cast<std::uint32_t>(leaving.slot->bytes.size());
    const std::int64_t at = cap_.allowed(wanted == 0 ? wires_[0]->now() : wanted, bytes);
    cap_.sent(at, bytes);
    return at;
  }
  /// True if the wire holds frames until their times.
  [[nodiscard]] bool paces(std::size_t lane) const { return virtual_ || wires_[lane]->capabilities().paces; }

  /// Number of frames from `from` on that the rate cap permits now. If it is 0, `at` is the time of the next one.
  std::size_t permitted(std::size_t from, std::int64_t now, std::int64_t& at) const {
    std::uint64_t before = 0;
    for (std::size_t i = from; i < outgoing_.size(); ++i) {
      const auto bytes = static_cast<std::uint32_t>(outgoing_[i].frame.size());
      at = cap_.allowed(now, bytes, before);
      if (at > now) return i - from;
      before += bytes;
    }
    return outgoing_.size() - from;
  }

  /// Waits until the rate cap permits a frame. Returns the number of permitted frames. 0: stopped.
  std::size_t wait_for_cap(std::size_t from) {
    for (;;) {
      std::int64_t at = 0;
      const std::size_t frames = permitted(from, wires_[0]->now(), at);
      if (frames > 0) return frames;
      if (!wait_until(at)) return 0;
      // The cap moves the scheduled times, so these frames are not late.
      for (std::size_t i = from; i < batch_.size(); ++i)
        if (batch_[i].due != 0) batch_[i].due = std::max(batch_[i].due, at);
    }
  }

  /// True if the frame exceeds a limit.
  [[nodiscard]] bool enough(const Leaving& leaving) const {
    if (options_.max_bytes && taken_bytes_ + leaving.slot->bytes.size() > options_.max_bytes) return true;
    if (!options_.most_time) return false;
    if ((virtual_ || !top()) && taken_ > 0 && leaving.time - first_time_ >= options_.most_time) return true;
    return !virtual_ && begun_ && wires_[0]->now() - first_sent_ >= options_.most_time;
  }

  void play() {
    next_progress_ = options_.progress ? wires_[0]->now() + options_.progress_every : Wire::forever;
    last_progress_ = wires_[0]->now();
    while (!over_) {
      if (stopped()) {
        report_.interrupted = true;
        break;
      }
      // Send due frames before waiting for the next one.
      if (ahead_ && !batch_.empty() && batch_.back().due != 0 && !ahead_->ready()) hand_over();
      if (options_.most_frames && taken_ >= options_.most_frames) break;
      Leaving leaving = next();
      if (!leaving.slot && stopped()) report_.interrupted = true;
      if (!leaving.slot) break;
      if (enough(leaving)) {
        report_.ended_before = leaving.slot->number;
        break;
      }
      if (taken_++ == 0) first_time_ = leaving.time;
      taken_bytes_ += leaving.slot->bytes.size();
      if (options_.dry) {
        recycle(leaving);
        continue;
      }
      if (options_.step && !options_.step()) {
        report_.interrupted = true;
        break;
      }
      if (options_.step && !virtual_ && wires_[0]->now() >= deadline()) break;
      add(std::move(leaving));
    }
    hand_over();
  }

  /// Collects frames that are due together for the same wire.
  void add(Leaving leaving) {
    if (!pause_before(leaving)) return recycle(leaving);
    leaving.due = due(leaving);
    // The rate cap delays frames beyond their scheduled times, to which enough() applies the limit.
    if (options_.most_time != 0 && leaving.due != 0) {
      if (!first_leaving_) first_leaving_ = leaving.due;
      if (leaving.due - *first_leaving_ >= options_.most_time) {
        hand_over();
        over_ = true;
        return recycle(leaving);
      }
    }
    const Wire& wire = *wires_[leaving.slot->lane];
    const WireCapabilities& can = wire.capabilities();
    if (!batch_.empty() &&
        (batch_lane_ != leaving.slot->lane || batch_.size() >= std::max<std::uint32_t>(can.batch, 1)))
      hand_over();
    if (!virtual_ && leaving.due != 0) {
      // Wires that pace frames accept them in advance.
      const std::int64_t ahead = can.paces ? 5'000'000 : 0;
      if (leaving.due > wire.now() + ahead) {
        hand_over();
        constexpr std::int64_t hour = 3'600'000'000'000;
        if (const std::int64_t gap = leaving.due - wire.now();
            gap > hour && !over_ && options_.long_gap && options_.pace.kind == Pace::Kind::captured)
          options_.long_gap(gap, leaving.slot->number);
        if (over_ || !wait_until(leaving.due - ahead)) return;
      }
    }
    batch_lane_ = leaving.slot->lane;
    batch_.push_back(std::move(leaving));
    if (options_.step) hand_over();
  }

  /// Waits before the first frame of a loop at top speed, which has no schedule. Returns false if stopped.
  bool pause_before(const Leaving& leaving) {
    const bool begins = leaving.loop != loop_;
    loop_ = leaving.loop;
    if (!begins || virtual_ || options_.pause == 0 || options_.step || options_.pace.kind != Pace::Kind::top)
      return true;
    hand_over();
    return !over_ && wait_until(wires_[0]->now() + options_.pause);
  }

  /// End of PlayerOptions::most_time in real time.
  [[nodiscard]] std::int64_t deadline() const {
    return options_.most_time != 0 && begun_ ? first_sent_ + options_.most_time : Wire::forever;
  }

  /// Returns false if stopped or if the limit of time is reached before `time`.
  bool wait_until(std::int64_t time) {
    if (time >= deadline()) {
      over_ = true;
      return false;
    }
    constexpr std::int64_t look = 100'000'000;
    for (;;) {
      const std::int64_t now = wires_[0]->now();
      if (now >= next_progress_) tell_progress(now);
      if (now >= time) return true;
      if (stopped()) {
        report_.interrupted = over_ = true;
        return false;
      }
      if (time - now > look + options_.spin)
        wire_clock::sleep_until(now + look);
      else
        wire_clock::sleep_until(time, options_.spin);
    }
  }

  void hand_over() {
    if (over_) {
      // After an error, no frame may be passed on.
      for (Leaving& leaving : batch_) recycle(leaving);
      batch_.clear();
    }
    if (batch_.empty()) return;
    Wire& wire = *wires_[batch_lane_];
    const bool holds = paces(batch_lane_), capped = cap_.on() && !holds;
    outgoing_.clear();
    for (const Leaving& leaving : batch_) outgoing_.push_back({leaving.slot->bytes, holds ? leaving.due : 0});
    std::size_t sent = 0;
    std::int64_t full_since = 0;
    while (sent < outgoing_.size()) {
      const std::size_t most = capped ? wait_for_cap(sent) : outgoing_.size() - sent;
      if (most == 0) break;
      const std::int64_t handed = begun_ ? 0 : wire.now();
      comment(sent, most);
      const auto taken = wire.send(std::span(outgoing_).subspan(sent, most));
      if (taken && *taken > 0) {
        if (capped) {
          std::uint64_t bytes = 0;
          for (std::size_t i = sent; i < sent + *taken; ++i) bytes += outgoing_[i].frame.size();
          cap_.sent(wires_[0]->now(), bytes);
        }
        account(sent, *taken, wire.now());
        // Frames have no scheduled time at top speed. The time limit starts with the transmission of the first ones.
        if (handed != 0 && !virtual_ && top()) first_sent_ = handed;
        sent += *taken;
        full_since = 0;
        continue;
      }
      if (!taken && taken.error().kind == WireError::Kind::frame) {
        auto& skipped = report_.skip(Skip::refused);
        if (skipped.frames++ == 0) {
          skipped.first_frame = batch_[sent].slot->number;
          skipped.example = taken.error().message;
        }
        ++sent;
        continue;
      }
      if (!taken && taken.error().kind != WireError::Kind::full) {
        end_with(taken.error().message + first_unsent(batch_lane_, &batch_[sent]));
        break;
      }
      // The queue is full and may stay full, so the wait is limited.
      const std::int64_t now = wire.now();
      if (full_since == 0) full_since = now;
      if (stopped()) {
        report_.interrupted = over_ = true;
        break;
      }
      if (now - full_since > options_.patience) {
        end_with(fmt::format("{}: the queue has been full for {} s; no receiver accepts the frames", wire.name(),
                             options_.patience / 1'000'000'000));
        break;
      }
      constexpr std::int64_t look = 100'000'000;
      if (const auto room = wire.writable(now + look); !room) {
        end_with(room.error().message + first_unsent(batch_lane_, &batch_[sent]));
        break;
      }
    }
    for (Leaving& leaving : batch_) recycle(leaving);
    batch_.clear();
    if (const std::int64_t now = options_.progress ? wires_[0]->now() : 0; now >= next_progress_) tell_progress(now);
  }

  /// Passes the faults of the next frames to a wire that stores them.
  void comment(std::size_t from, std::size_t count) {
    if (options_.faults.rules().empty()) return;
    auto* store = dynamic_cast<CommentStore*>(wires_[batch_lane_]);
    if (!store) return;
    comments_.clear();
    for (std::size_t i = from; i < from + count; ++i) comments_.push_back(batch_[i].slot->comment);
    store->comment(comments_);
  }

  void recycle(Leaving& leaving) {
    if (!leaving.own) return;
    if (ahead_)
      ahead_->recycle(std::move(leaving.own));
    else
      feeder_.recycle(std::move(leaving.own));
  }

  /// Counters as of the last frame received from the pipeline.
  const FrameCounters& tally() { return ahead_ ? ahead_->tally() : feeder_.tally(); }

  /// A wire may find out later that earlier frames did not leave.
  static std::uint64_t since(std::uint64_t count, std::uint64_t before) { return count > before ? count - before : 0; }

  /// Keeps the frames that a device accepted but has not yet completed.
  void note_outstanding(std::size_t lane, std::size_t from, std::size_t count) {
    auto& outstanding = outstanding_[lane];
    const std::uint64_t accepted = report_.lanes[lane].frames;
    const std::uint64_t left = since(wires_[lane]->counters().sent, counted_before_[lane]);
    const std::uint64_t pending = accepted > left ? accepted - left : 0;
    for (std::size_t i = from; i < from + count && pending > 0; ++i) outstanding.push_back(batch_[i].slot->number);
    while (outstanding.size() > pending) outstanding.pop_front();
  }

  /// Names the first frame that a failed wire did not send: an accepted one, otherwise `next`.
  std::string first_unsent(std::size_t lane, const Leaving* next) {
    // The unsent frames are not necessarily the last ones.
    if (dynamic_cast<const OutOfOrder*>(wires_[lane]) != nullptr) return {};
    note_outstanding(lane, 0, 0);
    const std::uint64_t number = !outstanding_[lane].empty() ? outstanding_[lane].front()
                                 : next                      ? next->slot->number
                                                             : 0;
    return number ? fmt::format(" (first unsent frame of the capture: {})", number) : std::string();
  }

  void end_with(const std::string& message) {
    if (report_.trouble.empty()) report_.trouble = message;
    over_ = true;
  }

  void account(std::size_t from, std::size_t count, std::int64_t now) {
    auto& lane = report_.lanes[batch_lane_];
    for (std::size_t i = from; i < from + count; ++i) {
      const Leaving& leaving = batch_[i];
      const Slot& slot = *leaving.slot;
      lane.bytes += slot.bytes.size();
      if (!begun_) {
        begun_ = true;
        first_sent_ = now;
        first_due_ = leaving.time;
      }
      // Frames that are sent together have the same time. The achieved time at top speed includes the last frame.
      if (leaving.time > last_due_) report_.last_frames = report_.last_bytes = 0;
      report_.last_frames += !top();
      report_.last_bytes += top() ? 0 : slot.bytes.size();
      last_due_ = std::max(last_due_, leaving.time);
      if (!virtual_ && leaving.due != 0) report_.lateness.add(now - leaving.due);
      if (departures_[batch_lane_].times) departures_[batch_lane_].due.push_back(leaving.due);
      if (options_.flow_statistics || options_.on_sent) note_sent(leaving, virtual_ ? leaving.time : now);
      if (slot.connection < flows_.size()) {
        flows_[slot.connection].frames[static_cast<std::size_t>(slot.from)] += 1;
        flows_[slot.connection].bytes[static_cast<std::size_t>(slot.from)] += slot.bytes.size();
      }
    }
    lane.frames += count;
    note_outstanding(batch_lane_, from, count);
    constexpr std::size_t most_pending = 1024;
    if (departures_[batch_lane_].due.size() >= most_pending) note_departures(batch_lane_);
    last_sent_ = now;
  }

  /// The scheduled times of accepted frames whose departures are still unknown.
  struct Pending {
    DepartureTimes* times = nullptr;  ///< nullptr: unknown
    std::deque<std::int64_t> due;     ///< 0: none
    std::uint64_t first = 0;          ///< number of the frame with the first entry
    std::int64_t last_due = 0, last_time = 0;
    std::int64_t offset = 0;  ///< of the wire's clock
  };

  /// Compares the departures of frames with their schedule.
  void note_departures(std::size_t lane) {
    Pending& pending = departures_[lane];
    if (!pending.times) return;
    auto& known = report_.departures;
    std::vector<Departure> departures;
    pending.times->read_departures(departures);
    known.source = pending.times->departure_source();
    // The offset of a device's clock is unknown, so its times are relative to the first frame.
    const bool relative = known.source == "device";
    for (const Departure& departure : departures) {
      if (departure.index < pending.first || departure.index - pending.first >= pending.due.size()) continue;
      const auto passed = static_cast<std::ptrdiff_t>(departure.index - pending.first);
      const std::int64_t due = pending.due[static_cast<std::size_t>(passed)];
      pending.due.erase(pending.due.begin(), pending.due.begin() + passed + 1);
      pending.first = departure.index + 1;
      if (due == 0) continue;
      ++known.frames;
      if (relative && pending.last_due == 0) pending.offset = departure.time - due;
      const std::int64_t late = departure.time - due - pending.offset;
      known.early += late < 0;
      known.lateness.add(std::max<std::int64_t>(0, late));
      if (pending.last_due != 0)
        known.spacing.add(std::abs((departure.time - pending.last_time) - (due - pending.last_due)));
      pending.last_due = due;
      pending.last_time = departure.time;
    }
    // Timestamps may be lost.
    constexpr std::size_t most_pending = 65'536;
    while (pending.due.size() > most_pending) {
      pending.due.pop_front();
      ++pending.first;
    }
  }

  void note_sent(const Leaving& leaving, std::int64_t now) {
    const Slot& slot = *leaving.slot;
    const LinkType link = wires_[batch_lane_]->capabilities().link;
    if (options_.flow_statistics) flow_statistics_.add(slot.bytes, link, now);
    if (options_.on_sent) options_.on_sent({slot.number, leaving.loop, slot.bytes, link, now, batch_lane_});
  }

  void tell_progress(std::int64_t now) {
    PlayProgress progress;
    for (const auto& lane : report_.lanes) {
      progress.sent += lane.frames;
      progress.bytes += lane.bytes;
    }
    const FrameCounters& fed = tally();
    progress.loop = options_.preload ? report_.loops : fed.loop;
    progress.position = fed.position;
    progress.whole = fed.whole;
    const auto seconds = static_cast<double>(std::max<std::int64_t>(now - last_progress_, 1)) / 1e9;
    progress.frames_per_second = static_cast<double>(progress.sent - told_sent_) / seconds;
    progress.bits_per_second = static_cast<double>(progress.bytes - told_bytes_) * 8 / seconds;
    told_sent_ = progress.sent;
    told_bytes_ = progress.bytes;
    last_progress_ = now;
    next_progress_ = now + options_.progress_every;
    if (options_.progress) options_.progress(progress);
  }

  /// Waits until all accepted frames have left, as long as frames leave. After an interruption, the whole wait is
  /// limited.
  WireResult<bool> flush(Wire& wire) {
    if (virtual_) return wire.flush(Wire::forever);
    constexpr std::int64_t look = 100'000'000;
    std::uint64_t sent = 0;
    std::int64_t until = wire.now() + options_.patience;
    for (;;) {
      auto flushed = wire.flush(std::min(until, wire.now() + look));
      if (!flushed || *flushed) return flushed;
      // Wires without completions count accepted frames as sent until the first call.
      const std::uint64_t now = wire.counters().sent;
      if (now > sent && sent != 0 && !stopped()) until = wire.now() + options_.patience;
      sent = std::max<std::uint64_t>(now, 1);
      if (wire.now() >= until) return false;
    }
  }

  void finish() {
    if (ahead_) ahead_->stop();
    for (std::size_t i = 0; i < wires_.size(); ++i) {
      auto& lane = report_.lanes[i];
      if (lane.frames > 0) {
        const auto flushed = flush(*wires_[i]);
        if (!flushed && report_.trouble.empty()) report_.trouble = flushed.error().message + first_unsent(i, nullptr);
        if (flushed && !*flushed && report_.trouble.empty()) {
          const std::uint64_t left = since(wires_[i]->counters().sent, counted_before_[i]);
          report_.trouble = fmt::format("{}: {} frames may not have left: none left for {} s", wires_[i]->name(),
                                        since(lane.frames, left), options_.patience / 1'000'000'000);
        }
      }
      note_departures(i);
      // Count only frames that the wire reports as sent.
      lane.left = std::min(lane.frames, since(wires_[i]->counters().sent, counted_before_[i]));
      report_.sent += lane.left;
      report_.bytes += std::min(lane.bytes, since(wires_[i]->counters().sent_bytes, counted_bytes_before_[i]));
    }
    report_.waited = !virtual_ && !options_.dry;
    report_.timed = report_.waited && !top();
    report_.pace = options_.pace;
    if (begun_) {
      report_.requested = last_due_ - first_due_;
      report_.achieved = last_sent_ - first_sent_;
    }
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      if (flows_[i].frames[0] + flows_[i].frames[1] == 0) continue;
      flows_[i].name = options_.map.connections[i].name;
      const MappedConnection& connection = options_.map.connections[i];
      flows_[i].who = who(connection);
      if (std::string live = who(live_values(connection)); live != flows_[i].who) flows_[i].live = std::move(live);
      if (i < options_.numbers.size()) flows_[i].number = options_.numbers[i];
      report_.flows.push_back(std::move(flows_[i]));
    }
    if (options_.flow_statistics) report_.flow_statistics = flow_statistics_.report();
    const std::uint64_t loops = report_.loops;
    feeder_.tell(report_, tally());
    if (options_.preload) report_.loops = loops;
    // A prefetching pipeline may fail after the last frame to send. Such an error is not reported.
    if (report_.trouble.empty() && (!ahead_ || fed_)) report_.trouble = feeder_.trouble();
  }

  const PlayerOptions& options_;
  std::span<Wire* const> wires_;
  ReplayReport report_;
  FramePipeline feeder_;
  std::optional<Prefetcher> ahead_;
  bool fed_ = false;  ///< the pipeline is at its end
  RateCap cap_;
  bool virtual_ = false, over_ = false, begun_ = false;
  std::int64_t shift_ = 0;  ///< time offset of preloaded frames in the current loop
  std::int64_t first_sent_ = 0, last_sent_ = 0, first_due_ = 0, last_due_ = 0;
  std::int64_t next_progress_ = Wire::forever, last_progress_ = 0;
  std::uint64_t told_sent_ = 0, told_bytes_ = 0;
  std::vector<std::uint64_t> counted_before_, counted_bytes_before_;
  std::vector<std::deque<std::uint64_t>> outstanding_;  ///< by wire: numbers of accepted frames, not yet completed
  std::vector<ReplayReport::Flow> flows_;
  FlowStatistics flow_statistics_;
  std::vector<Pending> departures_;  ///< by wire
  std::vector<std::unique_ptr<Slot>> loaded_;
  std::size_t next_loaded_ = 0;
  std::uint64_t taken_ = 0, taken_bytes_ = 0, loop_ = 1;
  std::optional<std::int64_t> first_leaving_;  ///< first time at which a frame was due, including the rate cap
  std::int64_t first_time_ = 0;
  std::vector<Leaving> batch_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::string_view> comments_;
  std::uint32_t batch_lane_ = 0;
};

}  // namespace

ReplayReport play(const PlayerOptions& options, std::span<Wire* const> wires) { return Player(options, wires).run(); }

}  // namespace rdmawire::replay
