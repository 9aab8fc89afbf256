#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::tracking {

class Tracker::State {
 public:
  State(Sink& sink, const TrackerOptions& options) : sink_(sink), options_(options) {}

 private:
  [[maybe_unused]] Sink& sink_;
  TrackerOptions options_;
};

Tracker::Tracker(Sink& sink, const TrackerOptions& options) : state_(std::make_unique<State>(sink, options)) {}
Tracker::~Tracker() = default;
void Tracker::add(const Packet& /*packet*/) {}
void Tracker::finish() {}
std::uint64_t Tracker::evicted() const { return 0; }
std::size_t Tracker::memory() const { return sizeof(State); }

}  // namespace rdmawire::tracking
