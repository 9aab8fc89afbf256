#include "captures/analysis/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

#include "captures/analysis/peek.hpp"

namespace rdmawire::captures::analysis {
namespace {

// run() passes the addresses of all frames to every shard, so that the number of shards does not affect the result.
tracking::TrackerOptions tracker_options(const RunOptions& options) {
  tracking::TrackerOptions result = options.tracker;
  result.notes_addresses = false;
  return result;
}

/// Forwards tracker results to the analysis and to RunOptions::also.
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
  bool arrives = false;  // only with a filter: counts as an arrival at its receiver
  Peek seen;
  bool fetches = false;  // the following two members are valid
  tracking::Tracker::Prefetcher ahead;
  std::uint64_t queue_pair_id = 0;
};
constexpr std::size_t queue_length = 24;  // three prefetch steps

}  // namespace

struct Pipeline::State {
  State(const RunOptions& run_options, unsigned this_shard, unsigned all_shards)
      : options(run_options),
        shard(this_shard),
        shards(all_shards),
        division(all_shards),
        analysis(run_options.analysis),
        tee(analysis, run_options),
        dissector(run_options.dissector),
        tracker(std::make_unique<tracking::Tracker>(tee, tracker_options(run_options))) {}

  const RunOptions& options;
  unsigned shard, shards;
  Sharder division;
  Analysis analysis;
  Tee tee;
  tracking::Dissector dissector;
  std::unique_ptr<tracking::Tracker> tracker;  // released if an allocation fails
  Shares* shares = nullptr;
  std::uint64_t evicted = 0;
  tracking::Subnet subnet{analysis.management};
  tracking::Packet packet;
  std::optional<std::pair<PortAddress, PortAddress>> only;
  std::array<QueuedRecord, queue_length> queue;  // a ring
  std::size_t enqueued = 0, processed = 0;
  std::array<std::uint64_t, 4> recent{};  // hashes of flows

  /// Processes the record, or queues it until its memory is prefetched.
  void enqueue(const QueuedRecord& record, bool stays);
  void take(const QueuedRecord& record);
  void drain() {
    while (processed != enqueued) take(queue[processed++ % queue.size()]);
  }
};

Pipeline::Pipeline(const RunOptions& options, unsigned shard, unsigned shards)
    : state_(std::make_unique<State>(options, shard, shards)) {}
Pipeline::~Pipeline() = default;

void Pipeline::add(const Record& record, std::uint64_t frame, bool stays) {
  State& s = *state_;
  const Peek seen = peek(record.bytes, record.link, record.wire_length, s.options.dissector.decode.extra_roce_v2_port);
  const bool mine = s.division.next(seen, record.bytes, record.link) == s.shard;
  // Incast detection counts all senders to a receiver, so it is partitioned by receiver.
  const bool counts =
      seen.payload && !s.options.filter && !s.only && (s.shards == 1 || seen.receiver_hash() % s.shards == s.shard);
  if (counts) s.analysis.incast.add(seen.from, seen.to, record.time, seen.payload);
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
  state_->tracker->note_addresses(from, to);
}

void Pipeline::note_arrival(const PortAddress& from, const PortAddress& to, std::int64_t time, std::uint64_t payload) {
  state_->analysis.incast.add(from, to, time, payload);
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
    // Skip flows of recent packets, whose memory is still in the cache: most traffic is bursty.
    added.fetches = std::find(recent.begin(), recent.end(), added.ahead.hash) == recent.end();
    if (added.fetches) {
      recent[enqueued % recent.size()] = added.ahead.hash;
      added.queue_pair_id = Analysis::queue_pair_id(ports, seen.dest_qp);
      tracker->fetch_slot(added.ahead);
      analysis.fetch_slot(added.queue_pair_id);
    }
  }
  constexpr std::size_t step = queue_length / 3;
  if (enqueued - processed > step)
    if (const QueuedRecord& other = queue[(enqueued - 1 - step) % queue.size()]; other.fetches) {
      tracker->fetch_connection(other.ahead);
      analysis.fetch_row(other.queue_pair_id);
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
      analysis.incast.add(record.seen.from, record.seen.to, record.time, record.seen.payload);
  }
  bool narrowed_out = !record.mine;
  if (only && record.mine) {
    const auto ports = tracking::ports_of(packet.stack);
    narrowed_out = !ports || !((ports->from == only->first && ports->to == only->second) ||
                               (ports->to == only->first && ports->from == only->second));
  }
  if (!narrowed_out) {
    analysis.add(packet);
    if (packet.stack.wire == Wire::infiniband) subnet.add(packet);
    if (options.on_packet) options.on_packet(packet);
  }
  tracker->add(packet);
}

tracking::Moment Pipeline::last() const { return state_->tracker ? state_->tracker->last() : tracking::Moment{}; }
void Pipeline::share(Shares* shares) { state_->shares = shares; }
void Pipeline::append_levels(std::vector<tracking::Level>& levels) const {
  if (state_->tracker) state_->tracker->append_levels(levels);
  state_->dissector.append_levels(levels);
  state_->analysis.append_levels(levels);
}
bool Pipeline::dropped() const {
  return !state_->tracker ||
         state_->tracker->evicted() + state_->dissector.evicted() + state_->analysis.overflow() != 0;
}
bool Pipeline::gives_up() {
  if (!state_->shares) return false;
  std::vector<tracking::Level> levels;
  append_levels(levels);
  return state_->shares->publish(state_->shard, levels, dropped());
}
// The tracker's state can be inconsistent, so its open connections are dropped. Its earlier reports are in the
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
  if (state_->tracker) state_->tracker->finish(last);
  state_->subnet.finish();
}
Analysis& Pipeline::analysis() { return state_->analysis; }
std::uint64_t Pipeline::evicted_packets() const {
  const std::uint64_t all = state_->tracker ? state_->tracker->evicted() : state_->evicted;
  return all - std::min(all, state_->analysis.evicted_connections);
}
std::uint64_t Pipeline::memory() const { return state_->tracker ? state_->tracker->memory() : 0; }
const std::optional<Connection>& Pipeline::wanted() const { return state_->tee.wanted; }
void Pipeline::narrow_to(const PortAddress& one, const PortAddress& other) { state_->only.emplace(one, other); }

namespace {

/// One pass over the files.
class Attempt {
 public:
  Attempt(const RunOptions& options, unsigned shards, const std::optional<std::pair<PortAddress, PortAddress>>& only) {
    for (unsigned shard = 0; shard < shards; ++shard) {
      pipelines_.push_back(std::make_unique<Pipeline>(options, shard, shards));
      if (only) pipelines_.back()->narrow_to(only->first, only->second);
      if (shards > 1) pipelines_.back()->share(&shares_);
    }
  }
  /// Returns false if the result would depend on the number of shards.
  bool read(CaptureScan& scan, Input& input, std::vector<std::string>& errors) {
    const auto shards = static_cast<unsigned>(pipelines_.size());
    std::vector<Input> unused(shards);
    CaptureScan::divide(shards, [&](unsigned shard) {
      scan.through(*pipelines_[shard], shard == 0, shard == 0 ? input : unused[shard], errors);
    });
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
  /// Returns the same.
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
  unsigned shards = repeatable && !options.filter && !only ? CaptureScan::shards(options.threads) : 1;
  const Input input = result.input;
  std::vector<std::string> errors = result.errors;
  for (;;) {
    result.input = input;
    result.errors = errors;
    bool exhausted = false;
    try {
      Attempt attempt(options, shards, only);
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
