#pragma once
/// All monitors of one share of the traffic: dissected packets and what the tracker tells in, evaluations out.

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
  CaptureAssumptions trust;
  std::uint64_t connection = 0;  ///< judge only this one; 0: all
};

/// Give each packet to take(), then to a Tracker with TrackerOptions::transport whose sink this is.
///
/// Bounded: what is kept of connections goes with the tracker's farewell to them.
class Monitors final : public tracking::Sink {
 public:
  explicit Monitors(const MonitorOptions& options = {})
      : options_(options),
        judge_(options.rules),
        headers_(judge_, options_.trust.everywhere),
        cm_(judge_, options_.trust) {}

  /// A packet by itself.
  void take(const tracking::Packet& packet);

  void transport(const Connection& connection, Side from, const TransportPacket& t,
                 const tracking::NegotiatedParameters* agreement) override;
  void stream(const Connection& connection, Side from, const tracking::Packet& packet) override;
  void event(const Connection* connection, const tracking::Event& event) override;
  void connection(const Connection& connection, tracking::CloseReason farewell) override;
  void merged(const Connection& connection, std::uint64_t id) override;

  [[nodiscard]] Evaluator& judge() { return judge_; }
  /// Where the monitors of a connection stand, small differences apart, one number for each thing that they follow:
  /// whether a message is open, what waits for an answer, what was refused, how a stream was set up. Each number always
  /// stands in the same place, and other states have other numbers, but for chance. Nothing: there is no such
  /// connection.
  void states_of(std::uint64_t connection, std::vector<std::uint64_t>& states) const;
  /// The same for the CM's exchange that was heard of last, one number.
  [[nodiscard]] std::uint64_t management_state() const { return cm_.state(); }
  /// The connections that were told of, by id: those that were judged, as they were at their farewell.
  [[nodiscard]] const std::unordered_map<std::uint64_t, Connection>& connections() const { return connections_; }

 private:
  static constexpr std::size_t most_connections = 1U << 20;
  [[nodiscard]] bool wants(std::uint64_t id) const { return options_.connection == 0 || options_.connection == id; }
  ConnectionMonitor& monitor_of(std::uint64_t id);

  const MonitorOptions options_;
  Evaluator judge_;
  HeaderMonitor headers_;
  CmMonitor cm_;
  std::unordered_map<std::uint64_t, std::unique_ptr<ConnectionMonitor>> monitors_;
  std::unordered_map<std::uint64_t, std::unique_ptr<IwarpMonitor>> iwarp_;
  std::uint64_t last_iwarp_id_ = 0;
  IwarpMonitor* last_iwarp_ = nullptr;
  std::uint64_t last_id_ = 0;
  ConnectionMonitor* last_ = nullptr;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::unordered_set<std::uint64_t> used_;  // queue pairs of connections that are over, by hash of port and number
};

}  // namespace rdmawire::conformance
