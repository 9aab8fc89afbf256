#include "captures/analysis/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "captures/analysis/peek.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/mrc_tracker.hpp"

namespace rdmawire::captures::analysis {
namespace {

// Returns the options for the tracker of one shard. run() passes the addresses of all frames to every shard, so that
// the result does not depend on the number of shards. MRC uses the memory of the tracker, but at most half of it.
tracking::TrackerOptions tracker_options(const RunOptions& options, const std::size_t& mrc_bytes) {
  tracking::TrackerOptions result = options.tracker;
  result.sink_bytes = &mrc_bytes;
  result.notes_addresses = false;
  return result;
}

/// Passes the reports of the tracker to the analysis and to RunOptions::also.
class Tee final : public tracking::Sink {
 public:
  Tee(Analysis& analysis, const RunOptions& options)
      : analysis_(analysis), also_(options.also), wanted_id_(options.connection) {}

  void message(const Connection& connection, const Message& message) override {
    if (!wants(connection.id)) return;
    analysis_.message(connection, message);
    if (also_) also_->message(connection, message);
  }
  void event(const Connection* connection, const Event& event) override {
    if (!wants(connection ? connection->id : 0)) return;
    analysis_.event(connection, event);
    if (also_) also_->event(connection, event);
  }
  void connection(const Connection& connection, tracking::CloseReason close_reason) override {
    if (!wants(connection.id)) return;
    if (wanted_id_) wanted = connection;
    analysis_.connection(connection, close_reason);
    if (also_) also_->connection(connection, close_reason);
  }
  void merged(const Connection& connection, std::uint64_t id) override {
    if (!wants(connection.id)) return;
    analysis_.merged(connection, id);
    if (also_) also_->merged(connection, id);
  }
  void mrc_flow(const tracking::MrcFlow& flow, tracking::CloseReason close_reason) override {
    if (!wants(flow.first_frame)) return;
    if (wanted_id_) {
      wanted.emplace();
      wanted->id = flow.first_frame;
      wanted->ends[0].address = flow.from;
      wanted->ends[1].address = flow.to;
    }
    analysis_.mrc_flow(flow, close_reason);
    if (also_) also_->mrc_flow(flow, close_reason);
  }
  void packet(const Connection& connection, std::uint64_t frame, const tracking::PacketNote& note) override {
    if (also_ && wants(connection.id)) also_->packet(connection, frame, note);
  }

  std::optional<Connection> wanted;

 private:
  [[nodiscard]] bool wants(std::uint64_t id) const { return wanted_id_ == 0 || id == wanted_id_; }
  Analysis& analysis_;
  tracking::Sink* also_;
  std::uint64_t wanted_id_;
};

}  // namespace

namespace {

/// A queued record.
struct QueuedRecord {
  Bytes bytes;
  std::int64_t time = 0;
  std::uint64_t frame = 0;
  std::uint32_t wire_length = 0;
  LinkType link = LinkType::ethernet;
  bool mine = false;
  bool arrives = false;  // only with a filter: the frame counts as an arrival at its receiver
  Peek seen;
  bool fetches = false;  // the following two members are valid
  tracking::Tracker::Prefetcher ahead;
  std::uint64_t queue_pair_id = 0;
};
constexpr std::size_t queue_length = 24;  // enough for three prefetch steps

}  // namespace

struct Pipeline::State {
  /// Tracks the frames of the shard.
  class Tracking final : public Lane {
   public:
    explicit Tracking(State& state) : state_(state) {}
    void process(FrameBatch& batch, std::size_t slot) override { state_.track(batch, slot); }

   private:
    State& state_;
  };
  /// Counts the tracked frames, while later frames are tracked.
  class Counting final : public Lane {
   public:
    explicit Counting(State& state) : state_(state) {}
    void process(FrameBatch& batch, std::size_t slot) override { state_.count(batch, slot); }

   private:
    State& state_;
  };

  State(const RunOptions& run_options, unsigned this_shard, unsigned all_shards)
      : options(run_options),
        shard(this_shard),
        shards(all_shards),
        division(all_shards),
        analysis(run_options.analysis),
        tee(analysis, run_options),
        dissector(run_options.dissector),
        mrc(&tee, run_options.tracker.memory / 2),
        tracker(std::make_unique<tracking::Tracker>(tee, tracker_options(run_options, mrc.memory()))) {}

  const RunOptions& options;
  unsigned shard, shards;
  Sharder division;
  Analysis analysis;
  Tee tee;
  tracking::Dissector dissector;
  tracking::MrcTracker mrc;
  std::unique_ptr<tracking::Tracker> tracker;  // destroyed if an allocation fails
  Shares* shares = nullptr;
  std::uint64_t evicted = 0;
  tracking::Subnet subnet{analysis.management};
  tracking::Packet packet;
  std::optional<std::pair<PortAddress, PortAddress>> only;
  std::array<QueuedRecord, queue_length> queue;  // a ring
  std::size_t enqueued = 0, processed = 0;
  std::array<std::uint64_t, 4> recent{};  // hashes of flows
  std::uint32_t batches = 0;
  Tracking tracking{*this};
  Counting counting{*this};
  std::unique_ptr<Analysis> counted;  // analysis of the counting lane, which is merged at the end
  /// Properties of the frames in a batch, for the counting lane.
  struct Tracked {
    enum class How : std::uint8_t { plain, by_facts, by_filter, not_at_all };
    std::array<How, FrameBatch::capacity> how{};
    std::vector<PacketFacts> facts;  // indexed by by_facts
  };
  std::array<Tracked, ParallelScan::depth> tracked;
  Tracked* tracks = nullptr;  // properties of the current batch
  std::array<std::uint64_t, 4> recently_counted{};
  /// Returns the analysis that counts packets.
  [[nodiscard]] Analysis& counts() { return counted ? *counted : analysis; }

  /// Processes the record, or queues it until its memory is prefetched.
  void enqueue(const QueuedRecord& record, bool stays);
  void take(const QueuedRecord& record);
  void drain() {
    while (processed != enqueued) take(queue[processed++ % queue.size()]);
  }
  void track(const FrameBatch& batch, std::size_t slot);
  void track(const BatchFrame& frame, const DecodedFrame& decoded, std::size_t at);
  void dissect(const BatchFrame& frame, const DecodedFrame& decoded);
  void count(const FrameBatch& batch, std::size_t slot);
  [[nodiscard]] bool is_between_selected(const HeaderStack& stack) const;
  [[nodiscard]] bool gives_up();
  void append_levels(std::vector<tracking::Level>& levels) const;
  [[nodiscard]] bool dropped() const;
};

Pipeline::Pipeline(const RunOptions& options, unsigned shard, unsigned shards)
    : state_(std::make_unique<State>(options, shard, shards)) {}
Pipeline::~Pipeline() = default;

void Pipeline::add(const Record& record, std::uint64_t frame, bool stays) {
  State& s = *state_;
  const Peek seen = peek(record.bytes, record.link, record.wire_length, s.options.dissector.decode.extra_roce_v2_port);
  const bool mine = s.division.next(seen, record.bytes, record.link) == s.shard;
  // Incast detection must see all senders to a receiver, so its packets are divided by receiver.
  const bool counts =
      seen.payload && !s.options.filter && !s.only && (s.shards == 1 || seen.receiver_hash() % s.shards == s.shard);
  if (counts) s.counts().incast.add(seen.from, seen.to, record.time, seen.payload);
  if (seen.known) s.tracker->note_addresses(seen.from, seen.to);
  if (!mine && !seen.text) return;
  s.enqueue({record.bytes, record.time, frame, record.wire_length, record.link, mine, true, seen, false, {}, 0}, stays);
}

void Pipeline::take(const Record& record, std::uint64_t frame, bool mine) {
  const Peek seen =
      peek(record.bytes, record.link, record.wire_length, state_->options.dissector.decode.extra_roce_v2_port);
  state_->enqueue({record.bytes, record.time, frame, record.wire_length, record.link, mine, false, seen, false, {}, 0},
                  true);
}

void Pipeline::note_addresses(const PortAddress& from, const PortAddress& to) {
  drain();
  state_->tracker->note_addresses(from, to);
}

void Pipeline::note_arrival(const PortAddress& from, const PortAddress& to, std::int64_t time, std::uint64_t payload) {
  state_->counts().incast.add(from, to, time, payload);
}

void Pipeline::State::enqueue(const QueuedRecord& record, bool stays) {
  if (!stays || !tracker->worth_fetching()) {
    drain();
    take(record);
    return;
  }
  const Peek& seen = record.seen;
  QueuedRecord& added = queue[enqueued++ % queue.size()];
  added = record;
  if (seen.bth) {
    const FlowKey ports{seen.from, seen.to, 0};
    added.ahead = {ports.with(seen.dest_qp).hash(), opcode(seen.opcode).direction == Direction::response};
    // Flows of recent packets are skipped, because their memory is still in the cache. Most traffic is bursty.
    added.fetches = std::find(recent.begin(), recent.end(), added.ahead.hash) == recent.end();
    if (added.fetches) {
      recent[enqueued % recent.size()] = added.ahead.hash;
      added.queue_pair_id = Analysis::queue_pair_id(ports, seen.dest_qp);
      tracker->fetch_slot(added.ahead);
      counts().fetch_slot(added.queue_pair_id);
    }
  }
  constexpr std::size_t step = queue_length / 3;
  if (enqueued - processed > step)
    if (const QueuedRecord& other = queue[(enqueued - 1 - step) % queue.size()]; other.fetches) {
      tracker->fetch_connection(other.ahead);
      counts().fetch_row(other.queue_pair_id);
    }
  if (enqueued - processed > 2 * step)
    if (const QueuedRecord& other = queue[(enqueued - 1 - 2 * step) % queue.size()]; other.fetches)
      tracker->fetch_requests(other.ahead);
  if (enqueued - processed == queue.size()) take(queue[processed++ % queue.size()]);
}

void Pipeline::drain() { state_->drain(); }

void Pipeline::State::take(const QueuedRecord& record) {
  packet.number = record.frame;
  packet.time_ns = record.time;
  packet.link = record.link;
  dissector.dissect(packet, record.bytes, record.wire_length);
  if (options.filter && record.mine) {
    if (!options.filter->matches(packet)) return;
    if (record.arrives && record.seen.payload)
      counts().incast.add(record.seen.from, record.seen.to, record.time, record.seen.payload);
  }
  if (record.mine && is_between_selected(packet.stack)) {
    counts().add(packet);
    if (packet.stack.wire == Wire::infiniband) subnet.add(packet);
    if (options.on_packet) options.on_packet(packet);
  }
  tracker->add(packet);
  if (record.mine) mrc.add(packet);
}

/// Returns whether the packet is between the selected endpoints. True if none are selected.
bool Pipeline::State::is_between_selected(const HeaderStack& stack) const {
  if (!only) return true;
  const auto ports = tracking::ports_of(stack);
  return ports && ((ports->from == only->first && ports->to == only->second) ||
                   (ports->to == only->first && ports->from == only->second));
}

void Pipeline::add_lanes(ParallelScan& scan, unsigned thread) {
  State& s = *state_;
  s.counted = std::make_unique<Analysis>(s.options.analysis);
  const std::size_t tracking = scan.add_lane(s.tracking, thread);
  // If there is only one shard, another thread counts.
  scan.add_lane(s.counting, s.shards > 1 ? thread : thread + 1, tracking);
}

void Pipeline::State::track(const FrameBatch& batch, std::size_t slot) {
  // Publish the levels about every 4000 frames.
  if (shares && ++batches % 16 == 0 && gives_up()) return;
  tracks = &tracked[slot];
  tracks->facts.clear();
  const bool fetches = tracker->worth_fetching();
  struct Ahead {
    bool fetches = false;
    tracking::Tracker::Prefetcher flow;
  };
  constexpr std::size_t step = queue_length / 3;
  std::array<Ahead, queue_length> ahead;  // a ring
  for (std::size_t i = 0; i < batch.count + 3 * step; ++i) {
    if (i >= 3 * step) track(batch.frames[i - 3 * step], batch.decoded[i - 3 * step], i - 3 * step);
    if (!fetches) continue;
    if (i < batch.count) {
      const tracking::TransportPacket& t = batch.decoded[i].transport;
      Ahead& added = ahead[i % ahead.size()];
      added.fetches = batch.decoded[i].plain && batch.frames[i].shard == shard;
      if (added.fetches) {
        added.flow = {t.key_of_flow().hash(), t.is_response()};
        added.fetches = std::find(recent.begin(), recent.end(), added.flow.hash) == recent.end();
        if (added.fetches) {
          recent[i % recent.size()] = added.flow.hash;
          tracker->fetch_slot(added.flow);
        }
      }
    }
    if (i >= step && i - step < batch.count)
      if (const Ahead& other = ahead[(i - step) % ahead.size()]; other.fetches) tracker->fetch_connection(other.flow);
    if (i >= 2 * step && i - 2 * step < batch.count)
      if (const Ahead& other = ahead[(i - 2 * step) % ahead.size()]; other.fetches) tracker->fetch_requests(other.flow);
  }
}

void Pipeline::State::dissect(const BatchFrame& frame, const DecodedFrame& decoded) {
  frame.describe(packet);
  tracking::Dissector::read_again(packet, frame.bytes, frame.wire_length, options.dissector, decoded.icrc);
  dissector.settle(packet);
}

void Pipeline::State::track(const BatchFrame& frame, const DecodedFrame& decoded, std::size_t at) {
  using How = Tracked::How;
  const tracking::TransportPacket& t = decoded.transport;
  if (decoded.known) tracker->note_addresses(t.from, t.to);
  How& how = tracks->how[at];
  if (frame.shard != shard) {
    if (!decoded.text) return;
    dissect(frame, decoded);
    return tracker->add(packet);
  }
  if (decoded.plain && !options.filter && !only && !options.on_packet && !dissector.knows_flows()) {
    how = How::plain;
    packet.number = frame.number;
    packet.time_ns = frame.time;
    packet.link = frame.link;
    packet.stack.reset({}, 0);  // the tracker uses only `t`
    packet.icrc = decoded.icrc;
    packet.upper = {};
    tracker->add(packet, &t);
    return;
  }
  dissect(frame, decoded);
  how = How::not_at_all;
  if (options.filter && !options.filter->matches(packet)) return;
  if (is_between_selected(packet.stack)) {
    how = How::by_facts;
    tracks->facts.push_back(PacketFacts::of(packet));
    if (tracks->facts.back().pause)
      counts().add_pause(packet);  // sets only members that the counting lane does not use
    if (packet.stack.wire == Wire::infiniband) subnet.add(packet);
    if (options.on_packet) options.on_packet(packet);
  } else {
    how = How::by_filter;
  }
  tracker->add(packet, decoded.has_transport ? &t : nullptr);
  mrc.add(packet);
}

void Pipeline::State::count(const FrameBatch& batch, std::size_t slot) {
  using How = Tracked::How;
  const Tracked& results = tracked[slot];
  Analysis& counts = this->counts();
  const bool fetches = counts.worth_fetching();
  constexpr std::size_t step = queue_length / 3;
  std::array<std::uint64_t, queue_length> ahead{};  // a ring of queue pairs (0: none)
  std::size_t by_facts = 0;
  for (std::size_t i = 0; i < batch.count + 2 * step; ++i) {
    if (fetches && i < batch.count) {
      const tracking::TransportPacket& t = batch.decoded[i].transport;
      std::uint64_t& id = ahead[i % ahead.size()];
      id = batch.frames[i].shard == shard && batch.decoded[i].plain
               ? Analysis::queue_pair_id({t.from, t.to, 0}, t.dest_qp)
               : 0;
      if (std::find(recently_counted.begin(), recently_counted.end(), id) != recently_counted.end()) id = 0;
      if (id) {
        recently_counted[i % recently_counted.size()] = id;
        counts.fetch_slot(id);
      }
    }
    if (fetches && i >= step && i - step < batch.count)
      if (const std::uint64_t id = ahead[(i - step) % ahead.size()]) counts.fetch_row(id);
    if (i < 2 * step) continue;
    const std::size_t at = i - 2 * step;
    const DecodedFrame& decoded = batch.decoded[at];
    const tracking::TransportPacket& t = decoded.transport;
    const bool mine = batch.frames[at].shard == shard;
    const How how = mine ? results.how[at] : How::not_at_all;
    // Incast detection must see all senders to a receiver, so its packets are divided by receiver.
    if (decoded.arriving && (options.filter ? how != How::not_at_all
                                            : !only && (shards == 1 || FlowKey{t.to, {}, 0}.hash() % shards == shard)))
      counts.incast.add(t.from, t.to, batch.frames[at].time, decoded.arriving);
    if (how == How::by_facts) {
      counts.add(results.facts[by_facts++]);
    } else if (how == How::plain) {
      PacketFacts facts = PacketFacts::of(t, decoded.payload);
      facts.truncated = decoded.truncated;
      facts.crc_checked = decoded.icrc.status == CrcCheck::Status::good;
      counts.add(facts);
    }
  }
}

tracking::Moment Pipeline::last() const { return state_->tracker ? state_->tracker->last() : tracking::Moment{}; }
void Pipeline::share(Shares* shares) { state_->shares = shares; }
void Pipeline::append_levels(std::vector<tracking::Level>& levels) const { state_->append_levels(levels); }
void Pipeline::State::append_levels(std::vector<tracking::Level>& levels) const {
  // The two trackers share the memory, so their levels are added.
  if (tracker) {
    const std::size_t memory = levels.size();
    tracker->append_levels(levels);
    levels[memory].highest += mrc.level().highest;
  }
  levels.push_back(mrc.level());
  dissector.append_levels(levels);
  analysis.append_levels(levels);
}
bool Pipeline::dropped() const { return state_->dropped(); }
bool Pipeline::State::dropped() const {
  return !tracker || tracker->evicted() + mrc.evicted() + dissector.evicted() + analysis.overflow() != 0;
}
bool Pipeline::gives_up() { return state_->shares && state_->gives_up(); }
bool Pipeline::State::gives_up() {
  std::vector<tracking::Level> levels;
  append_levels(levels);
  return shares->publish(shard, levels, dropped());
}
// The state of the tracker may be inconsistent, so its open connections are dropped. What it reported before is in the
// analysis.
void Pipeline::out_of_memory() {
  State& s = *state_;
  s.enqueued = s.processed;
  s.evicted = s.tracker->connections();
  s.tracker.reset();
  if (s.shares) s.shares->set_exceeded();
}
void Pipeline::finish(const tracking::Moment& last) {
  drain();
  if (state_->tracker) {
    state_->tracker->finish(last);
    state_->mrc.finish();
  }
  state_->subnet.finish();
  if (!state_->counted) return;
  // The levels of the receivers' table are not merged.
  Analysis& counted = *state_->counted;
  state_->analysis.incast = std::exchange(counted.incast, Incast());
  state_->analysis.merge(counted);
  state_->counted.reset();
}
Analysis& Pipeline::analysis() { return state_->analysis; }
std::uint64_t Pipeline::evicted_packets() const {
  const std::uint64_t all = state_->tracker ? state_->tracker->evicted() : state_->evicted;
  return all - std::min(all, state_->analysis.evicted_connections);
}
std::uint64_t Pipeline::memory() const {
  return state_->tracker ? state_->tracker->memory() + state_->mrc.memory() : 0;
}
const std::optional<Connection>& Pipeline::wanted() const { return state_->tee.wanted; }
void Pipeline::narrow_to(const PortAddress& one, const PortAddress& other) { state_->only.emplace(one, other); }

namespace {

/// One pass over the files.
class Attempt {
 public:
  Attempt(const RunOptions& options, unsigned threads, unsigned shards,
          const std::optional<std::pair<PortAddress, PortAddress>>& only)
      : options_(options), threads_(threads) {
    for (unsigned shard = 0; shard < shards; ++shard) {
      pipelines_.push_back(std::make_unique<Pipeline>(options, shard, shards));
      if (only) pipelines_.back()->narrow_to(only->first, only->second);
      if (shards > 1) pipelines_.back()->share(&shares_);
    }
  }
  /// Returns false if the result would depend on the number of shards.
  bool read(CaptureScan& scan, Input& input, std::vector<std::string>& errors) {
    const auto shards = static_cast<unsigned>(pipelines_.size());
    if (threads_ == 1)
      scan.through(*pipelines_[0], true, input, errors);
    else
      read_in_parallel(scan, input, errors);
    if (shares_.exceeded()) return false;
    tracking::Moment last;
    for (const auto& pipeline : pipelines_) last = last.later(pipeline->last());
    CaptureScan::divide(shards, [&](unsigned shard) { pipelines_[shard]->finish(last); });
    if (shards == 1) return true;
    std::vector<std::vector<tracking::Level>> levels(shards);
    for (unsigned shard = 0; shard < shards; ++shard) {
      if (pipelines_[shard]->dropped()) return false;
      pipelines_[shard]->append_levels(levels[shard]);
    }
    return !Shares::exceed(levels);
  }
  /// Moves the analysis to `result`. Returns false if the analysis depends on the number of shards.
  bool take(RunResult& result) {
    for (const auto& pipeline : pipelines_) {
      result.input.evicted_packets += pipeline->evicted_packets();
      result.tracker_memory += pipeline->memory();
    }
    result.analysis = std::move(pipelines_[0]->analysis());
    for (std::size_t shard = 1; shard < pipelines_.size(); ++shard) {
      result.analysis.merge(pipelines_[shard]->analysis());
      pipelines_[shard].reset();
    }
    return pipelines_.size() == 1 || result.analysis.overflow() == 0;
  }

 private:
  void read_in_parallel(CaptureScan& scan, Input& input, std::vector<std::string>& errors) {
    ParallelScan::Setup setup;
    setup.threads = threads_;
    setup.shards = static_cast<unsigned>(pipelines_.size());
    setup.dissector = options_.dissector;
    if (!scan.seekable()) {
      setup.first = pipelines_[0].get();
      setup.first_bytes = options_.parallel_from;
    }
    setup.gives_up = [this] { return shares_.exceeded(); };
    setup.out_of_memory = [this] {
      for (const auto& pipeline : pipelines_) pipeline->out_of_memory();
    };
    ParallelScan parallel(std::move(setup));
    // The calling thread reads. Therefore, if there is only one shard, another thread tracks it.
    for (unsigned shard = 0; shard < pipelines_.size(); ++shard) pipelines_[shard]->add_lanes(parallel, shard + 1);
    scan.through(parallel, true, input, errors);
  }

  const RunOptions& options_;
  unsigned threads_;
  Shares shares_;
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
};

}  // namespace

RunOptions within_memory(const RunOptions& options) {
  RunOptions limited = options;
  limit_memory(options.memory, limited.tracker, limited.dissector);
  limit_memory(options.memory, limited.analysis);
  return limited;
}

RunResult run(const RunOptions& given) {
  RunOptions options = within_memory(given);
  RunResult result{Analysis(options.analysis), {}, {}, 0};
  CaptureScan walk(options, result.errors);
  const bool seekable = walk.seekable();
  result.input.connection = options.connection;
  result.input.memory = options.memory;
  if (options.filter) result.input.filter = options.filter->text();

  std::optional<std::pair<PortAddress, PortAddress>> only;
  if (options.connection) {
    if (!seekable) {
      result.errors.emplace_back("--connection requires files that can be read twice, not a stream");
      return result;
    }
    // The first pass finds the endpoints of the connection.
    RunOptions first_pass = options;
    first_pass.also = nullptr;
    first_pass.on_packet = nullptr;
    Pipeline pipeline(first_pass);
    Input ignored;
    std::vector<std::string> ignored_errors;
    walk.through(pipeline, false, ignored, ignored_errors);
    pipeline.finish();
    if (!pipeline.wanted()) {
      result.errors.push_back(fmt::format(
          "no connection {}: connections are identified by the number of their first frame", options.connection));
      return result;
    }
    only.emplace(pipeline.wanted()->ends[0].address, pipeline.wanted()->ends[1].address);
  }

  const bool listens = options.also || options.on_packet;
  const bool repeatable = seekable && (!listens || options.restart);
  const bool large = walk.large();
  const unsigned threads =
      (!listens || options.restart) && (large || !seekable) ? CaptureScan::shards(options.threads) : 1;
  unsigned shards = repeatable && !options.filter && !only ? threads : 1;
  const Input input = result.input;
  std::vector<std::string> errors = result.errors;
  for (;;) {
    result.input = input;
    result.errors = errors;
    bool exhausted = false;
    try {
      Attempt attempt(options, threads, shards, only);
      const bool complete = attempt.read(walk, result.input, result.errors);
      exhausted = shards == 1 && !result.input.files.empty() && result.input.files.back().out_of_memory;
      if (complete && !(exhausted && repeatable) && attempt.take(result)) return result;
    } catch (const std::bad_alloc&) {
      exhausted = shards == 1;
      if (!repeatable) {
        result.analysis = Analysis(options.analysis);
        result.errors.emplace_back("out of memory");
        return result;
      }
    }
    if (options.restart) options.restart();
    result.analysis = Analysis(options.analysis);
    if (!exhausted) {
      shards = 1;
      continue;
    }
    if (options.memory <= smallest_attempt) {
      result.errors = errors;
      result.errors.push_back(out_of_memory_text(options.memory));
      return result;
    }
    errors.push_back(retry_text(options.memory));
    options.memory /= 4;
    options = within_memory(options);
  }
}

}  // namespace rdmawire::captures::analysis
