#include "conformance/fuzzer/monitor_view.hpp"

#include <algorithm>
#include <unordered_map>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::fuzzer {

using tracking::Connection;
using tracking::Side;

/// Source ports of the device's frames in all scripts. The monitors check only these endpoints, because the tester
/// sends mutations. The first entry is a placeholder: if the list were empty, they would check all endpoints.
struct MonitorView::Known {
  std::vector<tracking::PortAddress> ports{tracking::PortAddress{}};
};

namespace {

tracking::TrackerOptions tracker_options() {
  tracking::TrackerOptions options;
  options.transport = true;
  // Use small tables, because a script has few connections. Large ones would take most of the time.
  options.connections = 64;
  options.waiting_packets = 4096;
  options.notes_addresses = false;
  return options;
}

}  // namespace

class MonitorView::Execution final : public tracking::Sink {
 public:
  Execution(EdgeMap& map, Known& known)
      : map_(map),
        known_(known),
        monitors_({.rules = {}, .assumptions = {.at = {}, .checked = known.ports}}),
        tracker_(*this, tracker_options()) {}

  void add(const Exchanged& one) {
    ++packet_.number;
    packet_.time_ns = one.time;
    packet_.link = LinkType::ethernet;
    dissector_.dissect(packet_, one.frame, static_cast<std::uint32_t>(one.frame.size()));
    if (!one.sent)
      if (const auto ports = tracking::ports_of(packet_.stack);
          ports && std::ranges::find(known_.ports, ports->from) == known_.ports.end())
        known_.ports.push_back(ports->from);
    monitors_.take(packet_);
    states_.assign(1, monitors_.management_state());
    reached(0, static_cast<std::uint64_t>(one.sent));
    tracker_.add(packet_);
  }

  void end() {
    tracker_.finish();
    const auto& counters = monitors_.evaluator().counters();
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const conformance::ResultCounters& counts = counters[i];
      if (counts.passed != 0) map_.add(mix(i, 1));
      if (counts.violated != 0) map_.add(mix(i, 2));
      for (std::size_t why = 0; why < counts.inconclusive_by_reason.size(); ++why)
        if (counts.inconclusive_by_reason[why] != 0) map_.add(mix(i, 3 + why));
    }
  }

  void transport(const Connection& connection, Side from, const tracking::TransportPacket& t,
                 const tracking::NegotiatedParameters* agreement) override {
    monitors_.transport(connection, from, t, agreement);
    monitors_.states_of(connection.id, states_);
    reached(connection.id, std::uint64_t{t.op->value} << 8 | static_cast<std::uint64_t>(from));
  }
  void stream(const Connection& connection, Side from, const tracking::Packet& packet) override {
    monitors_.stream(connection, from, packet);
    monitors_.states_of(connection.id, states_);
    reached(connection.id, static_cast<std::uint64_t>(from));
  }
  void event(const Connection* connection, const tracking::Event& event) override {
    monitors_.event(connection, event);
    map_.add(mix(static_cast<std::uint64_t>(event.kind) << 8 | static_cast<std::uint64_t>(event.cause), 0));
  }
  void connection(const Connection& connection, tracking::CloseReason reason) override {
    monitors_.connection(connection, reason);
  }
  void merged(const Connection& connection, std::uint64_t id) override { monitors_.merged(connection, id); }

 private:
  /// Add edges for the state changes of a connection's monitors. `input`: the input that caused them.
  void reached(std::uint64_t connection, std::uint64_t input) {
    std::vector<std::uint64_t>& before = before_[connection];
    before.resize(states_.size());
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (before[i] != states_[i]) map_.add(mix(mix(before[i], states_[i]), input << 8 | i));
    std::swap(before, states_);
  }

  EdgeMap& map_;
  Known& known_;
  conformance::Monitors monitors_;
  tracking::Dissector dissector_;
  tracking::Tracker tracker_;
  tracking::Packet packet_;
  std::vector<std::uint64_t> states_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> before_;  // previous states, by connection. 0: CM
};

MonitorView::MonitorView() : known_(std::make_unique<Known>()) {}
MonitorView::~MonitorView() = default;

void MonitorView::begin(EdgeMap& map) { execution_ = std::make_unique<Execution>(map, *known_); }

void MonitorView::add(std::span<const Exchanged> frames) {
  for (const Exchanged& one : frames) execution_->add(one);
}

void MonitorView::end() {
  if (execution_) execution_->end();
  execution_.reset();
}

}  // namespace rdmawire::fuzzer
