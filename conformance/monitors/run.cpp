#include "conformance/monitors/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "captures/analysis/peek.hpp"

namespace rdmawire::conformance {
namespace {

namespace analysis = captures::analysis;

tracking::TrackerOptions tracker_options(const CheckOptions& options) {
  tracking::TrackerOptions result = options.tracker;
  result.notes_addresses = false;  // every shard is notified of all addresses
  result.transport = true;
  return result;
}

/// The flows of the selected connection.
struct Flows {
  std::array<tracking::FlowKey, 2> keys;
  std::uint64_t first_frame = 0, last_frame = 0;
};

/// The part of the traffic that one thread checks.
class Shard final : public analysis::FrameConsumer {
 public:
  Shard(const CheckOptions& options, unsigned shard, unsigned shards, const std::optional<Flows>& only)
      : options_(options),
        shard_(shard),
        sharder_(shards),
        only_(only),
        monitors_(options.monitors),
        dissector_(options.dissector),
        tracker_(monitors_, tracker_options(options)) {}

  void add(const captures::Record& record, std::uint64_t frame, bool) override {
    const analysis::Peek seen =
        analysis::peek(record.bytes, record.link, record.wire_length, options_.dissector.decode.extra_roce_v2_port);
    const bool mine = sharder_.next(seen, record.bytes, record.link) == shard_;
    if (seen.known) tracker_.note_addresses(seen.from, seen.to);
    if (!mine && !seen.text) return;
    packet_.number = frame;
    packet_.time_ns = record.time;
    packet_.link = record.link;
    dissector_.dissect(packet_, record.bytes, record.wire_length);
    if (options_.filter && !options_.filter->matches(packet_)) return;
    if (mine && concerns()) monitors_.take(packet_);
    tracker_.add(packet_);
  }
  void finish() { tracker_.finish(); }
  [[nodiscard]] Monitors& monitors() { return monitors_; }
  [[nodiscard]] std::uint64_t evicted() const { return tracker_.evicted(); }

 private:
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
  tracking::Tracker tracker_;
  tracking::Packet packet_;
};

/// Merges the results of a shard.
void take(CheckResult& result, Shard& shard) {
  Evaluator& evaluator = shard.monitors().evaluator();
  for (std::size_t i = 0; i < rules.size(); ++i) result.counters[i].add(evaluator.counters()[i]);
  for (Violation& violation : evaluator.violations())
    if (violation.count != 0) result.violations.push_back(std::move(violation));
  result.omitted += evaluator.omitted();
  result.evicted_packets += shard.evicted();
  result.connections.insert(shard.monitors().connections().begin(), shard.monitors().connections().end());
}

}  // namespace

bool CheckResult::violated(Level level) const {
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].level == level && counters[i].violated != 0) return true;
  return false;
}

CheckResult check(const CheckOptions& options) {
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

  const unsigned shards =
      walk.seekable() && !options.filter && !only ? analysis::CaptureScan::shards(options.threads) : 1;
  std::vector<std::unique_ptr<Shard>> all;
  for (unsigned shard = 0; shard < shards; ++shard)
    all.push_back(std::make_unique<Shard>(options, shard, shards, only));
  std::vector<analysis::Input> unused(shards);
  analysis::CaptureScan::divide(shards, [&](unsigned shard) {
    walk.through(*all[shard], shard == 0, shard == 0 ? result.input : unused[shard], result.troubles);
    all[shard]->finish();
  });
  for (const auto& shard : all) take(result, *shard);
  std::sort(result.violations.begin(), result.violations.end(), [](const Violation& x, const Violation& y) {
    return std::tuple(x.place.frame, x.rule, x.place.end) < std::tuple(y.place.frame, y.rule, y.place.end);
  });
  return result;
}

}  // namespace rdmawire::conformance
