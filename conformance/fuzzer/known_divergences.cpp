#include "conformance/fuzzer/known_divergences.hpp"

#include <algorithm>
#include <set>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::fuzzer {

std::vector<std::string> broken_rules(std::span<const Exchanged> frames) {
  conformance::MonitorOptions options;
  tracking::Dissector dissector;
  tracking::Packet packet;
  for (const Exchanged& one : frames) {
    if (one.sent) continue;
    dissector.dissect(packet, one.frame, static_cast<std::uint32_t>(one.frame.size()));
    if (const auto ports = tracking::ports_of(packet.stack)) options.assumptions.checked.push_back(ports->from);
  }
  // If the list is empty, the device sent nothing. The monitors would then check all endpoints.
  if (options.assumptions.checked.empty()) return {};
  tracking::TrackerOptions tracker_options;
  tracker_options.transport = true;
  conformance::Monitors monitors(options);
  tracking::Tracker tracker(monitors, tracker_options);
  for (const Exchanged& one : frames) {
    ++packet.number;
    packet.time_ns = one.time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, one.frame, static_cast<std::uint32_t>(one.frame.size()));
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  std::set<std::string> ids;
  for (const conformance::Violation& violation : monitors.evaluator().violations())
    if (violation.count != 0) ids.emplace(violation.of().id);
  return {ids.begin(), ids.end()};
}

std::vector<FaultyReference> broken_likewise(const Finding& finding, const std::deque<Script>& quiet,
                                             const Target& target) {
  const Oracle oracle = finding.alarm.oracle;
  if (!finding.reproduced || oracle == Oracle::gone || oracle == Oracle::kernel || oracle == Oracle::custom) return {};
  const bool exact = target.tolerance().exact;
  const auto run = [](const FaultyReference& reference, const Script& script, bool with_frames) {
    return replay(script, *reference.device(), with_frames);
  };
  const auto has_same_alarm = [&](const Replayed& replayed, const Script& script) {
    return replayed.alarm && replayed.step + 1 == script.steps.size() &&
           replayed.alarm->signature == finding.alarm.signature;
  };
  // Also compare the frames of the last step: undecodable frames can differ although the alarms are equal.
  const auto last_frames = [&](std::span<const Exchanged> frames) {
    std::vector<std::string> all;
    if (target.family() != Family::roce) return all;
    for (const Exchanged& one : frames)
      if (!one.sent && one.step == frames.back().step) all.push_back(summary_of(one.frame));
    return all;
  };
  std::vector<FaultyReference> like = target.broken();
  std::erase_if(like, [&](const FaultyReference& reference) {
    const Replayed replayed = run(reference, finding.minimal, true);
    return !has_same_alarm(replayed, finding.minimal) || replayed.alarm->actual != finding.alarm.actual ||
           (exact && replayed.frames != finding.frames) ||
           (!exact && last_frames(replayed.frames) != last_frames(finding.frames)) ||
           !has_same_alarm(run(reference, finding.script, false), finding.script);
  });
  std::erase_if(like, [&](const FaultyReference& reference) {
    return std::ranges::any_of(quiet,
                               [&](const Script& script) { return run(reference, script, false).alarm.has_value(); });
  });
  return like;
}

}  // namespace rdmawire::fuzzer
