#include "dissectors/tracking/tracker.hpp"

#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/conversations.hpp"
#include "dissectors/tracking/iwarp_tracker.hpp"
#include "dissectors/tracking/queue_pairs.hpp"
#include "dissectors/tracking/text_exchange.hpp"

namespace rdmawire::tracking {
namespace {

IwarpLimits iwarp_limits(const TrackerOptions& options) {
  IwarpLimits limits;
  limits.packets = options.packets;
  limits.transport = options.transport;
  limits.connections = options.iwarp_connections;
  limits.all_messages = options.iwarp_messages;
  return limits;
}

}  // namespace

class Tracker::State {
 public:
  State(Sink& sink, const TrackerOptions& tracker_options)
      : options(tracker_options),
        limits(iwarp_limits(options)),
        queue_pairs(sink, options),
        conversations(queue_pairs, options.conversations),
        text(queue_pairs),
        iwarp(sink, limits) {}

  const TrackerOptions options;
  const IwarpLimits limits;
  QueuePairs queue_pairs;
  Conversations conversations;
  TextExchange text;
  IwarpTracker iwarp;
};

Tracker::Tracker(Sink& sink, const TrackerOptions& options) : state_(std::make_unique<State>(sink, options)) {}
Tracker::~Tracker() = default;

void Tracker::add(const Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport == HeaderStack::none) return;
  if (stack.layers()[stack.transport].header == &info<Tcp>) {
    state_->text.add(packet);
    state_->iwarp.add(packet);
    return;
  }
  state_->conversations.add(packet);
  state_->queue_pairs.add(packet);
}

void Tracker::add(const Packet& packet, const TransportPacket* transport) {
  if (!transport) return add(packet);
  constexpr std::uint32_t cm_qp = 1;
  if (transport->dest_qp == cm_qp) state_->conversations.add(packet);
  state_->queue_pairs.add(packet, *transport);
}

void Tracker::pair(const PairEvidence& evidence) { state_->queue_pairs.pair(evidence); }

void Tracker::note_addresses(const PortAddress& from, const PortAddress& to) {
  state_->queue_pairs.note_addresses(from, to);
}

Moment Tracker::last() const { return state_->queue_pairs.last(); }

void Tracker::finish(const Moment& last) {
  state_->conversations.finish();
  state_->queue_pairs.finish(last);
  state_->iwarp.finish();
}

void Tracker::fetch_slot(const Prefetcher& packet) const { state_->queue_pairs.fetch_slot(packet.hash); }
void Tracker::fetch_connection(const Prefetcher& packet) const {
  state_->queue_pairs.fetch_connection(packet.hash, packet.response);
}
void Tracker::fetch_requests(const Prefetcher& packet) const {
  state_->queue_pairs.fetch_requests(packet.hash, packet.response);
}
bool Tracker::worth_fetching() const { return state_->queue_pairs.worth_fetching(); }

std::size_t Tracker::connections() const { return state_->queue_pairs.connections(); }
std::size_t Tracker::singles() const { return state_->queue_pairs.singles(); }

void Tracker::append_levels(std::vector<Level>& levels) const {
  const QueuePairs& q = state_->queue_pairs;
  levels.push_back({q.most_used(), state_->options.memory});
  levels.push_back({q.most_connections(), state_->options.connections});
  levels.push_back({q.most_waiting(), state_->options.waiting_packets});
  levels.push_back({state_->conversations.most(), state_->options.conversations});
  levels.push_back({state_->iwarp.most_connections(), state_->limits.connections});
  levels.push_back({state_->iwarp.most_messages(), state_->limits.all_messages});
}

std::uint64_t Tracker::evicted() const {
  return state_->queue_pairs.evicted() + state_->conversations.evicted() + state_->text.evicted() +
         state_->iwarp.evicted();
}
std::size_t Tracker::memory() const {
  return state_->queue_pairs.memory() + state_->conversations.memory() + state_->text.memory() + state_->iwarp.memory();
}

}  // namespace rdmawire::tracking
