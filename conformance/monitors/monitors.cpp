#include "conformance/monitors/monitors.hpp"

namespace rdmawire::conformance {
namespace {

std::uint64_t queue_pair_hash(const tracking::ConnectionEnd& end) {
  return tracking::FlowKey{end.address, {}, end.qp}.hash();
}

}  // namespace

void Monitors::take(const tracking::Packet& packet) {
  if (!options_.assumptions.checked.empty()) {
    const auto ports = tracking::ports_of(packet.stack);
    const bool checked = ports && options_.assumptions.checks(ports->from);
    evaluator_.set_packet({{checked, checked}, Side::a, false});
  }
  headers_.add(packet);
  cm_.add(packet);
}

ConnectionMonitor& Monitors::monitor_of(std::uint64_t id) {
  if (last_ && last_id_ == id) return *last_;
  auto& monitor = monitors_[id];
  if (!monitor) monitor = std::make_unique<ConnectionMonitor>();
  last_id_ = id;
  last_ = monitor.get();
  return *last_;
}

void Monitors::transport(const Connection& connection, Side from, const TransportPacket& t,
                         const tracking::NegotiatedParameters* negotiated) {
  if (!wants(connection.id)) return;
  const bool alternate = cm_.has_alternate_path({connection.at(Side::a).address, connection.at(Side::b).address, 0});
  ConnectionMonitor& monitor = monitor_of(connection.id);
  if (monitor.is_new() && !used_.empty())
    monitor.reuses({used_.contains(queue_pair_hash(connection.at(Side::a))),
                    used_.contains(queue_pair_hash(connection.at(Side::b)))});
  monitor.packet(evaluator_, options_.assumptions, connection, from, t, negotiated, alternate);
}

void Monitors::stream(const Connection& connection, Side from, const tracking::Packet& packet) {
  if (!wants(connection.id)) return;
  if (!last_iwarp_ || last_iwarp_id_ != connection.id) {
    auto& monitor = iwarp_[connection.id];
    if (!monitor) monitor = std::make_unique<IwarpMonitor>();
    last_iwarp_id_ = connection.id;
    last_iwarp_ = monitor.get();
  }
  last_iwarp_->packet(evaluator_, options_.assumptions, connection, from, packet);
}

void Monitors::event(const Connection* connection, const tracking::Event& event) {
  if (!connection || connection->service == tracking::Service::iwarp) return;
  if (event.kind == tracking::EventKind::closed && event.cause != tracking::Cause::unknown && wants(connection->id))
    monitor_of(connection->id).closed(evaluator_, event.last_frame, event.time + event.duration, event.end);
}

void Monitors::connection(const Connection& connection, tracking::CloseReason) {
  if (last_id_ == connection.id) last_ = nullptr;
  if (const auto monitor = monitors_.find(connection.id); monitor != monitors_.end()) {
    monitor->second->finish(evaluator_);
    monitors_.erase(monitor);
  }
  if (const auto monitor = iwarp_.find(connection.id); monitor != iwarp_.end()) {
    if (last_iwarp_id_ == connection.id) last_iwarp_ = nullptr;
    monitor->second->finish(evaluator_);
    iwarp_.erase(monitor);
  }
  if (connection.service == tracking::Service::rc && used_.size() < most_connections)
    for (const Side end : {Side::a, Side::b})
      if (connection.at(end).qp_known) used_.insert(queue_pair_hash(connection.at(end)));
  if (wants(connection.id) && connections_.size() < most_connections) connections_[connection.id] = connection;
}

void Monitors::states_of(std::uint64_t connection, std::vector<std::uint64_t>& states) const {
  states.clear();
  if (last_ && last_id_ == connection) return last_->states(states);
  if (const auto monitor = monitors_.find(connection); monitor != monitors_.end())
    return monitor->second->states(states);
  if (const auto monitor = iwarp_.find(connection); monitor != iwarp_.end()) monitor->second->states(states);
}

void Monitors::merged(const Connection& connection, std::uint64_t id) {
  const auto other = monitors_.find(id);
  if (other == monitors_.end()) return;
  last_ = nullptr;
  std::unique_ptr<ConnectionMonitor> direction = std::move(other->second);
  monitors_.erase(other);
  monitor_of(connection.id).adopt(std::move(*direction));
  evaluator_.renamed(id, connection.id, true);
}

}  // namespace rdmawire::conformance
