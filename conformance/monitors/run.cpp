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
  result.notes_addresses = false;  // every share hears of all addresses
  result.transport = true;
  return result;
}

/// The packets of one connection, by its ends.
struct Flows {
  std::array<tracking::FlowKey, 2> keys;
  std::uint64_t first_frame = 0, last_frame = 0;
};

/// One thread's share of the work.
class Share final : public analysis::FrameConsumer {
 public:
  Share(const CheckOptions& options, unsigned share, unsigned shares, const std::optional<Flows>& only)
      : options_(options),
        share_(share),
        division_(shares),
        only_(only),
        monitors_(options.monitors),
        dissector_(options.dissector),
        tracker_(monitors_, tracker_options(options)) {}

  void add(const captures::Record& record, std::uint64_t frame, bool) override {
    const analysis::Peek seen =
        analysis::peek(record.bytes, record.link, record.wire_length, options_.dissector.decode.extra_roce_v2_port);
    const bool mine = division_.next(seen, record.bytes, record.link) == share_;
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
  /// Whether a packet by itself is of the connection that was asked for.
  [[nodiscard]] bool concerns() const {
    if (options_.monitors.connection == 0) return true;
    if (!only_ || packet_.number < only_->first_frame || packet_.number > only_->last_frame) return false;
    const auto flow = flow_of(packet_);
    return flow && (*flow == only_->keys[0] || *flow == only_->keys[1]);
  }

  const CheckOptions& options_;
  unsigned share_;
  analysis::Sharder division_;
  const std::optional<Flows>& only_;
  Monitors monitors_;
  tracking::Dissector dissector_;
  tracking::Tracker tracker_;
  tracking::Packet packet_;
};

/// Takes a share's results into the whole.
void take(CheckResult& result, Share& share) {
  Evaluator& judge = share.monitors().judge();
  for (std::size_t i = 0; i < rules.size(); ++i) result.tallies[i].add(judge.tallies()[i]);
  for (Violation& violation : judge.violations())
    if (violation.count != 0) result.violations.push_back(std::move(violation));
  result.untold += judge.untold();
  result.evicted_packets += share.evicted();
  result.connections.insert(share.monitors().connections().begin(), share.monitors().connections().end());
}

}  // namespace

bool CheckResult::violated(Level level) const {
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].level == level && tallies[i].violated != 0) return true;
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
      result.troubles.emplace_back("--connection needs files that can be read twice, not a stream");
      return result;
    }
    // Which packets are its own is known when it is known who it is.
    CheckOptions first = options;
    first.monitors.rules.choose({"roce.tester.icrc.cut-off-inconclusive"});
    Share share(first, 0, 1, only);
    analysis::Input ignored;
    std::vector<std::string> unheard;
    walk.through(share, false, ignored, unheard);
    share.finish();
    const auto wanted = share.monitors().connections().find(options.monitors.connection);
    if (wanted == share.monitors().connections().end()) {
      result.troubles.push_back(
          fmt::format("there is no connection {}: connections are named by the number of their first frame",
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

  const unsigned shares =
      walk.seekable() && !options.filter && !only ? analysis::CaptureScan::shares(options.threads) : 1;
  std::vector<std::unique_ptr<Share>> all;
  for (unsigned share = 0; share < shares; ++share)
    all.push_back(std::make_unique<Share>(options, share, shares, only));
  std::vector<analysis::Input> unused(shares);
  analysis::CaptureScan::divide(shares, [&](unsigned share) {
    walk.through(*all[share], share == 0, share == 0 ? result.input : unused[share], result.troubles);
    all[share]->finish();
  });
  for (const auto& share : all) take(result, *share);
  std::sort(result.violations.begin(), result.violations.end(), [](const Violation& x, const Violation& y) {
    return std::tuple(x.place.frame, x.rule, x.place.end) < std::tuple(y.place.frame, y.rule, y.place.end);
  });
  return result;
}

}  // namespace rdmawire::conformance
