#include "dissectors/tracking/tracker.hpp"

#include "dissectors/tracking/conversations.hpp"
#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::tracking {

class Tracker::State {
 public:
  State(Sink& sink, const TrackerOptions& options) : queue_pairs(sink, options), conversations(queue_pairs) {}

  QueuePairs queue_pairs;
  Conversations conversations;
};

Tracker::Tracker(Sink& sink, const TrackerOptions& options) : state_(std::make_unique<State>(sink, options)) {}
Tracker::~Tracker() = default;

void Tracker::add(const Packet& packet) {
  if (packet.stack.transport == HeaderStack::none) return;
  state_->conversations.add(packet);
  state_->queue_pairs.add(packet);
}

void Tracker::finish() {
  state_->conversations.finish();
  state_->queue_pairs.finish();
}

std::uint64_t Tracker::evicted() const { return state_->queue_pairs.evicted() + state_->conversations.evicted(); }
std::size_t Tracker::memory() const { return state_->queue_pairs.memory() + state_->conversations.memory(); }

}  // namespace rdmawire::tracking
