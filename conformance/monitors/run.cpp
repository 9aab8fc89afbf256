#include "conformance/monitors/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <tuple>

#include "captures/analysis/parallel_scan.hpp"
#include "captures/analysis/peek.hpp"
#include "captures/analysis/shares.hpp"

namespace rdmawire::conformance {
namespace {

namespace analysis = captures::analysis;

tracking::TrackerOptions tracker_options(const CheckOptions& options, const Monitors& monitors) {
  tracking::TrackerOptions result = options.tracker;
  result.notes_addresses = false;  // the scan passes all addresses to every shard
  result.transport = true;
  result.sink_bytes = &monitors.bytes();
  return result;
}

/// The flows of the connection to check.
struct Flows {
  std::array<tracking::FlowKey, 2> keys;
  std::uint64_t first_frame = 0, last_frame = 0;
};

/// The part of the traffic that one thread checks.
class Shard final : public analysis::FrameConsumer, public analysis::Lane {
 public:
  Shard(const CheckOptions& options, unsigned shard, unsigned shards, const std::optional<Flows>& only,
        analysis::Shares* shares = nullptr)
      : options_(options),
        shard_(shard),
        sharder_(shards),
        only_(only),
        monitors_(options.monitors),
        dissector_(options.dissector),
        shares_(shares),
        tracker_(std::make_unique<tracking::Tracker>(monitors_, tracker_options(options, monitors_))) {}

  void add(const captures::Record& record, std::uint64_t frame, bool) override {
    const analysis::Peek seen =
        analysis::peek(record.bytes, record.link, record.wire_length, options_.dissector.decode.extra_roce_v2_port);
    const bool mine = sharder_.next(seen, record.bytes, record.link) == shard_;
    if (seen.known) tracker_->note_addresses(seen.from, seen.to);
    if (!mine && !seen.text) return;
    packet_.number = frame;
    packet_.time_ns = record.time;
    packet_.link = record.link;
    dissector_.dissect(packet_, record.bytes, record.wire_length);
    if (options_.filter && !options_.filter->matches(packet_)) return;
    if (mine && concerns()) monitors_.take(packet_);
    tracker_->add(packet_);
  }
  void process(analysis::FrameBatch& batch, std::size_t) override {
    // Publish the levels about every 4000 frames.
    if (++batches_ % 16 == 0 && gives_up()) return;
    for (std::size_t i = 0; i < batch.count; ++i) process(batch.frames[i], batch.decoded[i]);
  }
  void finish() {
    if (tracker_) tracker_->finish();
  }
  bool gives_up() override {
    if (!shares_) return false;
    std::vector<tracking::Level> levels;
    append_levels(levels);
    return shares_->publish(shard_, levels, dropped());
  }
  // Drops the tracker with its open connections, because its state can be inconsistent. Earlier results are kept.
  void out_of_memory() override {
    tracker_.reset();
    if (shares_) shares_->set_exceeded();
  }
  void append_levels(std::vector<tracking::Level>& levels) const {
    if (tracker_) tracker_->append_levels(levels);
    dissector_.append_levels(levels);
    monitors_.append_levels(levels);
  }
  [[nodiscard]] bool dropped() const {
    return !tracker_ || tracker_->evicted() + dissector_.evicted() + monitors_.evaluator().omitted() != 0;
  }
  [[nodiscard]] Monitors& monitors() { return monitors_; }
  [[nodiscard]] std::uint64_t evicted() const {
    const std::uint64_t all = (tracker_ ? tracker_->evicted() : 0) + dissector_.evicted();
    return all - std::min(all, monitors_.evicted_connections());
  }

 private:
  void process(const analysis::BatchFrame& frame, const analysis::DecodedFrame& decoded) {
    const tracking::TransportPacket& t = decoded.transport;
    if (decoded.known) tracker_->note_addresses(t.from, t.to);
    const bool mine = frame.shard == shard_;
    if (!mine && !decoded.text) return;
    frame.describe(packet_);
    if (mine && decoded.plain && decoded.checked && !dissector_.knows_flows()) {
      packet_.stack.reset({}, 0);  // the tracker does not need the headers, only `t`
      packet_.icrc = decoded.icrc;
      packet_.upper = {};
      return tracker_->add(packet_, &t);
    }
    tracking::Dissector::read_again(packet_, frame.bytes, frame.wire_length, options_.dissector, decoded.icrc);
    dissector_.settle(packet_);
    if (options_.filter && !options_.filter->matches(packet_)) return;
    if (mine && concerns()) monitors_.take(packet_, !decoded.checked);
    tracker_->add(packet_, mine && decoded.has_transport ? &t : nullptr);
  }
  /// Returns whether the packet belongs to the selected connection.
  [[nodiscard]] bool concerns() const {
    if (options_.monitors.connection == 0) return true;
    if (!only_ || packet_.number < only_->first_frame || packet_.number > only_->last_frame) return false;
    const auto flow = flow_of(packet_);
    return flow && (*flow == only_->keys[0] || *flow == only_->keys[1]);
  }

  const CheckOptions& options_;
  unsigned shard_;
  analysis::Sharder sharder_;
  const std::optional<Flows>& only_;
  Monitors monitors_;
  tracking::Dissector dissector_;
  analysis::Shares* shares_;
  std::unique_ptr<tracking::Tracker> tracker_;  // released if an allocation fails
  tracking::Packet packet_;
  std::uint32_t batches_ = 0;
};

/// Checks the files with several threads.
void read_in_parallel(const CheckOptions& options, unsigned threads, const std::vector<std::unique_ptr<Shard>>& shards,
                      const analysis::Shares& shares, analysis::CaptureScan& scan, CheckResult& result) {
  analysis::ParallelScan::Setup setup;
  setup.threads = threads;
  setup.shards = static_cast<unsigned>(shards.size());
  setup.dissector = options.dissector;
  setup.payload_crcs = true;
  if (!scan.seekable()) {
    setup.first = shards[0].get();
    setup.first_bytes = options.parallel_from;
  }
  std::vector<std::unique_ptr<HeaderTally>> tallies;
  // Check headers in the decoding threads, unless a filter, a connection or endpoints are selected: which packets are
  // checked then depends on earlier packets.
  if (!options.filter && options.monitors.connection == 0 && options.monitors.assumptions.checked.empty()) {
    for (std::size_t slot = 0; slot < analysis::ParallelScan::depth; ++slot)
      tallies.push_back(std::make_unique<HeaderTally>(options.monitors.rules, options.monitors.assumptions.everywhere));
    setup.decoded = [&tallies](const tracking::Packet& packet, std::size_t slot) { return tallies[slot]->add(packet); };
  }
  setup.gives_up = [&shares] { return shares.exceeded(); };
  setup.out_of_memory = [&shards] {
    for (const auto& shard : shards) shard->out_of_memory();
  };
  {
    analysis::ParallelScan parallel(std::move(setup));
    // The calling thread reads the files. Even a single shard has a thread of its own.
    for (unsigned shard = 0; shard < shards.size(); ++shard) parallel.add_lane(*shards[shard], shard + 1);
    scan.through(parallel, true, result.input, result.troubles);
  }
  for (const auto& tally : tallies) tally->add_to(result.counters);
}

/// Adds the results of a shard to the result.
void take(CheckResult& result, Shard& shard) {
  Evaluator& evaluator = shard.monitors().evaluator();
  for (std::size_t i = 0; i < rules.size(); ++i) result.counters[i].add(evaluator.counters()[i]);
  for (Violation& violation : evaluator.violations())
    if (violation.count != 0) result.violations.push_back(std::move(violation));
  result.omitted += evaluator.omitted();
  result.evicted_packets += shard.evicted();
  result.evicted_connections += shard.monitors().evicted_connections();
  result.all_connections += shard.monitors().closed_connections();
  result.connections.insert(shard.monitors().connections().begin(), shard.monitors().connections().end());
}

/// Returns whether a QP was closed in two shards. If so, neither shard detected its reuse.
bool share_queue_pairs(const std::vector<std::unique_ptr<Shard>>& shards) {
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (shards[i]->monitors().closed_queue_pairs().intersects(shards[j]->monitors().closed_queue_pairs()))
        return true;
  return false;
}

/// Checks the files in one pass. Returns false if the result depends on the number of shards, so that it must be
/// repeated.
bool attempt(const CheckOptions& options, unsigned threads, unsigned shards, const std::optional<Flows>& only,
             analysis::CaptureScan& scan, CheckResult& result) {
  analysis::Shares shares;
  std::vector<std::unique_ptr<Shard>> all;
  for (unsigned shard = 0; shard < shards; ++shard)
    all.push_back(std::make_unique<Shard>(options, shard, shards, only, shards > 1 ? &shares : nullptr));
  if (threads == 1)
    scan.through(*all[0], true, result.input, result.troubles);
  else
    read_in_parallel(options, threads, all, shares, scan, result);
  if (!shares.exceeded()) analysis::CaptureScan::divide(shards, [&](unsigned shard) { all[shard]->finish(); });
  if (shards > 1) {
    if (shares.exceeded()) return false;
    std::vector<std::vector<tracking::Level>> levels(shards);
    for (unsigned shard = 0; shard < shards; ++shard) {
      if (all[shard]->dropped()) return false;
      all[shard]->append_levels(levels[shard]);
    }
    if (analysis::Shares::exceed(levels) || share_queue_pairs(all)) return false;
  }
  for (const auto& shard : all) take(result, *shard);
  return true;
}

CheckOptions within_memory(const CheckOptions& options) {
  CheckOptions limited = options;
  analysis::limit_memory(options.memory, limited.tracker, limited.dissector);
  const auto lower = [](std::size_t& limit, std::uint64_t to) { limit = std::min<std::size_t>(limit, to); };
  lower(limited.monitors.violations, options.memory >> 16);
  lower(limited.monitors.exchanges, options.memory >> 14);
  lower(limited.monitors.closed_queue_pairs, options.memory >> 10);
  return limited;
}

}  // namespace

bool CheckResult::violated(Level level) const {
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].level == level && counters[i].violated != 0) return true;
  return false;
}

CheckResult check(const CheckOptions& given) {
  CheckOptions options = within_memory(given);
  CheckResult result;
  analysis::CaptureScan walk(options, result.troubles);
  result.input.connection = options.monitors.connection;
  if (options.filter) result.input.filter = options.filter->text();
  std::optional<Flows> only;
  if (options.monitors.connection != 0) {
    if (!walk.seekable()) {
      result.troubles.emplace_back("--connection requires seekable files, because it reads them twice");
      return result;
    }
    // A first pass finds the endpoints of the connection.
    CheckOptions first = options;
    first.monitors.rules.choose({"roce.tester.icrc.cut-off-inconclusive"});
    Shard shard(first, 0, 1, only);
    analysis::Input ignored;
    std::vector<std::string> ignored_errors;
    walk.through(shard, false, ignored, ignored_errors);
    shard.finish();
    const auto wanted = shard.monitors().connections().find(options.monitors.connection);
    if (wanted == shard.monitors().connections().end()) {
      result.troubles.push_back(
          fmt::format("connection {} not found; a connection is identified by the number of its first frame",
                      options.monitors.connection));
      return result;
    }
    const Connection& c = wanted->second;
    const bool datagram = c.service == tracking::Service::ud;
    only.emplace();
    for (const Side end : {Side::a, Side::b}) {
      const auto &from = c.at(end), &to = c.at(tracking::other(end));
      only->keys[static_cast<std::size_t>(end)] =
          flow_of_packet({from.address, to.address, 0}, datagram, from.qp, to.qp);
    }
    only->first_frame = c.first_frame;
    only->last_frame = c.last_frame;
  }

  const bool seekable = walk.seekable();
  const unsigned threads = walk.large() || !seekable ? analysis::CaptureScan::shards(options.threads) : 1;
  unsigned shards = seekable && !options.filter && !only ? threads : 1;
  CheckResult empty = std::move(result);
  empty.input.memory = options.memory;
  for (;;) {
    result = empty;
    bool exhausted = false;
    try {
      const bool complete = attempt(options, threads, shards, only, walk, result);
      exhausted = shards == 1 && !result.input.files.empty() && result.input.files.back().out_of_memory;
      if (complete && !(exhausted && seekable)) break;
    } catch (const std::bad_alloc&) {
      exhausted = shards == 1;
      if (!seekable) {
        result = empty;
        result.troubles.emplace_back("out of memory");
        return result;
      }
    }
    if (!exhausted) {
      shards = 1;
      continue;
    }
    if (options.memory <= analysis::smallest_attempt) {
      result = empty;
      result.troubles.push_back(analysis::out_of_memory_text(options.memory));
      return result;
    }
    empty.troubles.push_back(analysis::retry_text(options.memory));
    options.memory /= 4;
    options = within_memory(options);
    empty.input.memory = options.memory;
  }
  std::sort(result.violations.begin(), result.violations.end(), [](const Violation& x, const Violation& y) {
    return std::tuple(x.place.frame, x.rule, x.place.end) < std::tuple(y.place.frame, y.rule, y.place.end);
  });
  return result;
}

}  // namespace rdmawire::conformance
