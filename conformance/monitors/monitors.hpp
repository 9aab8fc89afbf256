#pragma once
/// All monitors of one shard of the traffic. Input: dissected packets and tracker notifications. Output: results.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "conformance/monitors/cm_monitor.hpp"
#include "conformance/monitors/connection_monitor.hpp"
#include "conformance/monitors/evaluator.hpp"
#include "conformance/monitors/header_monitor.hpp"
#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

struct MonitorOptions {
  RuleSet rules;
  CaptureAssumptions assumptions;
  std::uint64_t connection = 0;  ///< evaluate only this connection. 0: all
};

/// Pass each packet to take(), then to a Tracker with TrackerOptions::transport that has this object as sink.
///
/// Bounded: the state of a connection is released when the tracker closes the connection.
class Monitors final : public tracking::Sink {
 public:
  explicit Monitors(const MonitorOptions& options = {})
      : options_(options),
        evaluator_(options.rules),
        headers_(evaluator_, options_.assumptions.everywhere),
        cm_(evaluator_, options_.assumptions) {}

  /// Checks a single packet.
  void take(const tracking::Packet& packet);

  void transport(const Connection& connection, Side from, const TransportPacket& t,
                 const tracking::NegotiatedParameters* negotiated) override;
  void stream(const Connection& connection, Side from, const tracking::Packet& packet) override;
  void event(const Connection* connection, const tracking::Event& event) override;
  void connection(const Connection& connection, tracking::CloseReason reason) override;
  void merged(const Connection& connection, std::uint64_t id) override;

  [[nodiscard]] Evaluator& evaluator() { return evaluator_; }
  /// Returns the coarse state of the monitors of a connection, one number for each monitored object, at a fixed index:
  /// whether a message is open, which requests wait for a response or were rejected, how a stream was negotiated.
  /// Different states have different numbers except for hash collisions. Empty if the connection does not exist.
  void states_of(std::uint64_t connection, std::vector<std::uint64_t>& states) const;
  /// Returns the coarse state of the most recent CM exchange as one number.
  [[nodiscard]] std::uint64_t management_state() const { return cm_.state(); }
  /// The evaluated connections by id, as they were when the tracker closed them.
  [[nodiscard]] const std::unordered_map<std::uint64_t, Connection>& connections() const { return connections_; }

 private:
  static constexpr std::size_t most_connections = 1U << 20;
  [[nodiscard]] bool wants(std::uint64_t id) const { return options_.connection == 0 || options_.connection == id; }
  ConnectionMonitor& monitor_of(std::uint64_t id);

  const MonitorOptions options_;
  Evaluator evaluator_;
  HeaderMonitor headers_;
  CmMonitor cm_;
  std::unordered_map<std::uint64_t, std::unique_ptr<ConnectionMonitor>> monitors_;
  std::unordered_map<std::uint64_t, std::unique_ptr<IwarpMonitor>> iwarp_;
  std::uint64_t last_iwarp_id_ = 0;
  IwarpMonitor* last_iwarp_ = nullptr;
  std::uint64_t last_id_ = 0;
  ConnectionMonitor* last_ = nullptr;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::unordered_set<std::uint64_t> used_;  // QPs of closed connections, by hash of port and number
};

}  // namespace rdmawire::conformance
