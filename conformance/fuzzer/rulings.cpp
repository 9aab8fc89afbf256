#include "conformance/fuzzer/rulings.hpp"

#include <set>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::fuzzer {

std::vector<std::string> broken_rules(std::span<const Replayed::Exchanged> frames) {
  conformance::MonitorOptions options;
  tracking::Dissector dissector;
  tracking::Packet packet;
  for (const Replayed::Exchanged& one : frames) {
    if (one.sent) continue;
    dissector.dissect(packet, one.frame, static_cast<std::uint32_t>(one.frame.size()));
    if (const auto ports = tracking::ports_of(packet.stack)) options.trust.judged.push_back(ports->from);
  }
  // Without anybody to judge, everybody would be.
  if (options.trust.judged.empty()) return {};
  tracking::TrackerOptions tracker_options;
  tracker_options.transport = true;
  conformance::Monitors monitors(options);
  tracking::Tracker tracker(monitors, tracker_options);
  for (const Replayed::Exchanged& one : frames) {
    ++packet.number;
    packet.time_ns = one.time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, one.frame, static_cast<std::uint32_t>(one.frame.size()));
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  std::set<std::string> ids;
  for (const conformance::Violation& violation : monitors.judge().violations())
    if (violation.count != 0) ids.emplace(violation.of().id);
  return {ids.begin(), ids.end()};
}

}  // namespace rdmawire::fuzzer
