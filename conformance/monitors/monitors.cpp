#include "conformance/monitors/monitors.hpp"

#include "dissectors/tracking/cm_message.hpp"

namespace rdmawire::conformance {
namespace {

std::uint64_t pair_hash(const tracking::PortAddress& one, const tracking::PortAddress& other) {
  return tracking::FlowKey{std::min(one, other), std::max(one, other), 0}.hash();
}

}  // namespace

void Monitors::packet(const tracking::Packet& packet) { headers_.add(packet); }

ConnectionMonitor& Monitors::monitor_of(std::uint64_t id) {
  if (last_ && last_id_ == id) return *last_;
  auto& monitor = monitors_[id];
  if (!monitor) monitor = std::make_unique<ConnectionMonitor>();
  last_id_ = id;
  last_ = monitor.get();
  return *last_;
}

void Monitors::transport(const Connection& connection, End from, const TransportPacket& t,
                         const tracking::Agreement* agreement) {
  if (!wants(connection.id)) return;
  const bool alternate =
      !alternate_paths_.empty() &&
      alternate_paths_.contains(pair_hash(connection.at(End::a).address, connection.at(End::b).address));
  monitor_of(connection.id).packet(judge_, options_.trust, connection, from, t, agreement, alternate);
}

void Monitors::event(const Connection* connection, const tracking::Event& event) {
  if (!connection || connection->service == tracking::Service::iwarp) return;
  if (event.kind == tracking::EventKind::path_change && event.origin_frame != 0)
    alternate_paths_.insert(pair_hash(connection->at(End::a).address, connection->at(End::b).address));
  if (event.kind == tracking::EventKind::closed && event.cause != tracking::Cause::unknown && wants(connection->id))
    monitor_of(connection->id).closed(judge_, event.last_frame, event.time + event.duration, event.end);
}

void Monitors::connection(const Connection& connection, tracking::Farewell) {
  if (last_id_ == connection.id) last_ = nullptr;
  if (const auto monitor = monitors_.find(connection.id); monitor != monitors_.end()) {
    monitor->second->finish(judge_);
    monitors_.erase(monitor);
  }
  if (wants(connection.id) && connections_.size() < most_connections) connections_[connection.id] = connection;
}

void Monitors::merged(const Connection& connection, std::uint64_t id) {
  const auto other = monitors_.find(id);
  if (other == monitors_.end()) return;
  last_ = nullptr;
  std::unique_ptr<ConnectionMonitor> half = std::move(other->second);
  monitors_.erase(other);
  monitor_of(connection.id).adopt(std::move(*half));
  judge_.renamed(id, connection.id, true);
}

}  // namespace rdmawire::conformance
