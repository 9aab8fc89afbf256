#pragma once
/// All monitors of one shard of the traffic. Input: dissected packets and tracker notifications. Output: results.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "conformance/monitors/cm_monitor.hpp"
#include "conformance/monitors/connection_monitor.hpp"
#include "conformance/monitors/evaluator.hpp"
#include "conformance/monitors/header_monitor.hpp"
#include "conformance/monitors/iwarp_monitor.hpp"
#include "conformance/monitors/mrc_monitor.hpp"
#include "dissectors/tracking/level.hpp"
#include "dissectors/tracking/number_table.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

struct MonitorOptions {
  RuleSet rules;
  CaptureAssumptions assumptions;
  std::uint64_t connection = 0;                            ///< id of the only connection to evaluate. 0: all
  std::size_t violations = Evaluator::default_violations;  ///< maximum number of stored violations
  std::size_t exchanges = CmMonitor::default_exchanges;    ///< maximum number of CM exchanges
  std::size_t closed_queue_pairs = std::size_t{1} << 20;   ///< maximum number of closed QPs whose reuse is detected
};

/// Runs all monitors. The caller passes each packet first to take(), and then to a Tracker with
/// TrackerOptions::transport that has this object as sink.
///
/// Memory is bounded by the tracker: when it closes a connection, the state of the connection is released.
class Monitors final : public tracking::Sink {
 public:
  explicit Monitors(const MonitorOptions& options = {})
      : options_(options),
        evaluator_(options.rules, options.violations),
        headers_(evaluator_, options_.assumptions.everywhere),
        cm_(evaluator_, options_.assumptions, options.exchanges),
        mrc_(evaluator_, options_.assumptions.everywhere) {}

  /// Performs the checks that require only this packet. `headers`: false if a HeaderTally has already checked its
  /// headers.
  void take(const tracking::Packet& packet, bool headers = true);

  void transport(const Connection& connection, Side from, const TransportPacket& t,
                 const tracking::NegotiatedParameters* negotiated) override;
  void stream(const Connection& connection, Side from, const tracking::Packet& packet) override;
  void event(const Connection* connection, const tracking::Event& event) override;
  void connection(const Connection& connection, tracking::CloseReason reason) override;
  void merged(const Connection& connection, std::uint64_t id) override;

  [[nodiscard]] Evaluator& evaluator() { return evaluator_; }
  [[nodiscard]] const Evaluator& evaluator() const { return evaluator_; }
  /// Returns numbers that represent the coarse state of a connection's monitors: whether a message is open, which
  /// requests wait for a response or were rejected, how a stream was negotiated. Each monitored object has a fixed
  /// index. Different states have different numbers, except for hash collisions. Empty: the connection does not exist.
  void states_of(std::uint64_t connection, std::vector<std::uint64_t>& states) const;
  /// Returns a number that represents the coarse state of the most recent CM exchange.
  [[nodiscard]] std::uint64_t management_state() const { return cm_.state(); }
  /// Returns the connections with violations by id, in their state when the tracker closed them. The connection that
  /// MonitorOptions::connection selects is included even without violations.
  [[nodiscard]] const std::unordered_map<std::uint64_t, Connection>& connections() const { return connections_; }
  /// Number of closed and of evicted connections.
  [[nodiscard]] std::uint64_t closed_connections() const { return closed_; }
  [[nodiscard]] std::uint64_t evicted_connections() const { return evicted_; }
  /// Returns the memory of the open connections in bytes, for TrackerOptions::sink_bytes.
  [[nodiscard]] const std::size_t& bytes() const { return bytes_; }
  /// Returns the QPs of closed connections, by hash of port and number. If two shards have a QP in common, neither
  /// detects its reuse.
  [[nodiscard]] const tracking::NumberTable& closed_queue_pairs() const { return used_; }
  /// Appends the levels of the tables, always in the same order.
  void append_levels(std::vector<tracking::Level>& levels) const {
    levels.push_back(evaluator_.level());
    levels.push_back(cm_.level());
    levels.push_back({used_.size() + dropped_queue_pairs_, options_.closed_queue_pairs});
    mrc_.append_levels(levels);
  }

 private:
  [[nodiscard]] bool wants(std::uint64_t id) const { return options_.connection == 0 || options_.connection == id; }
  struct Monitored;
  Monitored& monitor_of(std::uint64_t id);

  const MonitorOptions options_;
  Evaluator evaluator_;
  HeaderMonitor headers_;
  CmMonitor cm_;
  MrcMonitor mrc_;
  /// A monitor and its share of bytes_.
  struct Monitored {
    std::unique_ptr<ConnectionMonitor> monitor;
    std::size_t bytes = 0;
  };
  void charge(Monitored& monitored);
  std::unordered_map<std::uint64_t, Monitored> monitors_;
  std::unordered_map<std::uint64_t, std::unique_ptr<IwarpMonitor>> iwarp_;
  std::uint64_t last_iwarp_id_ = 0;
  IwarpMonitor* last_iwarp_ = nullptr;
  std::uint64_t last_id_ = 0;
  Monitored* last_ = nullptr;
  std::unordered_map<std::uint64_t, Connection> connections_;
  tracking::NumberTable used_;  // QPs of closed connections, by hash of port and number
  std::uint64_t dropped_queue_pairs_ = 0, closed_ = 0, evicted_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace rdmawire::conformance
