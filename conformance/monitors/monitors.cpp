#include "conformance/monitors/monitors.hpp"

namespace rdmawire::conformance {
namespace {

std::uint64_t queue_pair_hash(const tracking::ConnectionEnd& end) {
  return tracking::FlowKey{end.address, {}, end.qp}.hash();
}

}  // namespace

void Monitors::take(const tracking::Packet& packet, bool headers) {
  if (!options_.assumptions.checked.empty()) {
    const auto ports = tracking::ports_of(packet.stack);
    const bool checked = ports && options_.assumptions.checks(ports->from);
    evaluator_.set_packet({{checked, checked}, Side::a, false});
  }
  if (headers) headers_.add(packet);
  cm_.add(packet);
  mrc_.add(packet);
}

Monitors::Monitored& Monitors::monitor_of(std::uint64_t id) {
  if (last_ && last_id_ == id) return *last_;
  Monitored& monitored = monitors_[id];
  if (!monitored.monitor) monitored.monitor = std::make_unique<ConnectionMonitor>();
  last_id_ = id;
  last_ = &monitored;
  return monitored;
}

void Monitors::charge(Monitored& monitored) {
  constexpr std::size_t node = 64;  // of the table
  const std::size_t bytes = node + monitored.monitor->memory();
  bytes_ += bytes - monitored.bytes;
  monitored.bytes = bytes;
}

void Monitors::transport(const Connection& connection, Side from, const TransportPacket& t,
                         const tracking::NegotiatedParameters* negotiated) {
  if (!wants(connection.id)) return;
  const bool alternate = cm_.has_alternate_path({connection.at(Side::a).address, connection.at(Side::b).address, 0});
  Monitored& monitored = monitor_of(connection.id);
  ConnectionMonitor& monitor = *monitored.monitor;
  if (monitor.is_new() && used_.size() != 0)
    monitor.reuses({used_.contains(queue_pair_hash(connection.at(Side::a))),
                    used_.contains(queue_pair_hash(connection.at(Side::b)))});
  monitor.packet(evaluator_, options_.assumptions, connection, from, t, negotiated, alternate);
  charge(monitored);
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
    monitor_of(connection->id).monitor->closed(evaluator_, event.last_frame, event.time + event.duration, event.end);
}

void Monitors::connection(const Connection& connection, tracking::CloseReason reason) {
  if (last_id_ == connection.id) last_ = nullptr;
  if (const auto monitor = monitors_.find(connection.id); monitor != monitors_.end()) {
    monitor->second.monitor->finish(evaluator_);
    bytes_ -= monitor->second.bytes;
    monitors_.erase(monitor);
  }
  if (const auto monitor = iwarp_.find(connection.id); monitor != iwarp_.end()) {
    if (last_iwarp_id_ == connection.id) last_iwarp_ = nullptr;
    monitor->second->finish(evaluator_);
    iwarp_.erase(monitor);
  }
  if (connection.service == tracking::Service::rc)
    for (const Side end : {Side::a, Side::b}) {
      if (!connection.at(end).qp_known) continue;
      const std::uint64_t hash = queue_pair_hash(connection.at(end));
      if (used_.contains(hash)) continue;
      if (used_.size() < options_.closed_queue_pairs)
        used_.insert(hash, 0);
      else
        ++dropped_queue_pairs_;
    }
  if (!wants(connection.id)) return;
  ++closed_;
  evicted_ += reason == tracking::CloseReason::evicted;
  if (options_.connection != 0 || evaluator_.concerns(connection.id)) connections_[connection.id] = connection;
}

void Monitors::states_of(std::uint64_t connection, std::vector<std::uint64_t>& states) const {
  states.clear();
  if (last_ && last_id_ == connection) return last_->monitor->states(states);
  if (const auto monitor = monitors_.find(connection); monitor != monitors_.end())
    return monitor->second.monitor->states(states);
  if (const auto monitor = iwarp_.find(connection); monitor != iwarp_.end()) monitor->second->states(states);
}

void Monitors::merged(const Connection& connection, std::uint64_t id) {
  const auto other = monitors_.find(id);
  if (other == monitors_.end()) return;
  last_ = nullptr;
  const Monitored direction = std::move(other->second);
  monitors_.erase(other);
  bytes_ -= direction.bytes;
  Monitored& whole = monitor_of(connection.id);
  whole.monitor->adopt(std::move(*direction.monitor));
  charge(whole);
  evaluator_.renamed(id, connection.id, true);
}

}  // namespace rdmawire::conformance
