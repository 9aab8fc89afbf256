#include "conformance/runner/observe.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::conformance {
namespace {

tracking::PortAddress address_of(const Pairing::End& end) { return tracking::PortAddress::of_gid(end.address.data()); }

tracking::PortAddress address_of(const replay::IpAddress& address) {
  if (address.v6) return tracking::PortAddress::of_gid(address.storage.data());
  return tracking::PortAddress::of_ipv4(static_cast<std::uint32_t>(load_be<4>(address.storage.data())));
}

tracking::PairEvidence evidence_of(const Pairing& pairing) {
  constexpr double timeout_unit_ns = 4096;  // IBTA vol 1, 9.7.6.1.3 (clause number not verified): 4.096 µs * 2^code
  tracking::PairEvidence evidence;
  evidence.by = tracking::JoinedBy::caller;
  evidence.service = tracking::service_of(pairing.transport);
  auto& [tester, device] = evidence.sides;
  tester.address = address_of(pairing.tester);
  tester.qp = pairing.tester.qpn;
  tester.first_psn = pairing.tester.first_psn;
  // The tester uses the values that the device was configured with.
  tester.reads_as_responder = pairing.own_reads;
  tester.reads_as_requester = pairing.reads_at_once;
  device.address = address_of(pairing.device);
  device.qp = pairing.device.qpn;
  device.first_psn = pairing.device.first_psn;
  device.reads_as_responder = pairing.reads_at_once;
  device.reads_as_requester = pairing.own_reads;
  device.retries = pairing.retry_cnt;
  device.rnr_retries = pairing.rnr_retry;
  if (pairing.timeout != 0)
    device.acknowledgement_timeout =
        static_cast<std::int64_t>(timeout_unit_ns * static_cast<double>(1ULL << pairing.timeout));
  evidence.mtu = pairing.mtu;
  return evidence;
}

/// A step with the time at which it is observed.
struct Event {
  std::int64_t time;
  const Step* step;
  std::uint64_t frame;  ///< position of the frame in the written capture, from 1. 0: the step has no frame
};

/// Returns frames and pairings in order: at the device if the wire has a constant delay, otherwise at the tester.
std::vector<Event> in_order(const Transcript& transcript, std::int64_t delay) {
  std::vector<Event> events;
  std::uint64_t frames = 0;
  for (const Step& step : transcript) {
    const std::int64_t shift = step.kind == Step::Kind::sent ? delay : step.kind == Step::Kind::received ? -delay : 0;
    const std::uint64_t frame = step.frame.empty() ? 0 : ++frames;
    if (step.pairing || frame != 0) events.push_back({step.time + shift, &step, frame});
  }
  // A frame that the device sends at the time when another one arrives counts as sent after that arrival.
  const auto order = [](const Event& event) { return std::pair(event.time, event.step->kind == Step::Kind::received); };
  std::stable_sort(events.begin(), events.end(), [&](const Event& x, const Event& y) { return order(x) < order(y); });
  return events;
}

/// Replaces frame numbers of the evaluation with frame numbers of the written capture. The tracker requires increasing
/// numbers, and the capture contains the frames in the tester's order.
class FrameNumbers {
 public:
  void add(std::uint64_t written) { written_.push_back(written); }

  void replace(Violation& violation) const {
    replace(violation.place.frame);
    replace(violation.last_frame);
    replace(violation.statement.expected);
    replace(violation.statement.actual);
    for (std::uint64_t& frame : violation.statement.related) replace(frame);
    for (SequenceEntry& entry : violation.sequence) replace(entry.frame);
  }

 private:
  void replace(std::uint64_t& frame) const {
    if (frame != 0 && frame <= written_.size()) frame = written_[frame - 1];
  }
  void replace(std::string& text) const {
    constexpr std::string_view before = "frame ";
    for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
      at += before.size();
      std::uint64_t frame = 0;
      const char* const begin = text.data() + at;
      const auto [end, error] = std::from_chars(begin, text.data() + text.size(), frame);
      if (error != std::errc()) continue;
      replace(frame);
      text.replace(at, static_cast<std::size_t>(end - begin), std::to_string(frame));
    }
  }

  std::vector<std::uint64_t> written_;  // by number of the evaluation, from 1
};

}  // namespace

void Observation::add(const Observation& other) {
  for (const auto& [rule, counts] : other.counters) counters[rule].add(counts);
}

Observation observe(const Transcript& transcript, const DeviceUnderTest& device) {
  const std::optional<std::int64_t>& wire_delay = device.wire_delay;
  MonitorOptions options;
  const auto between = [&](const Path& path) {
    options.assumptions.checked.push_back(tracking::PortAddress::of_gid(path.device_address.data()));
    if (!wire_delay) options.assumptions.at.push_back(tracking::PortAddress::of_gid(path.tester_address.data()));
  };
  if (device.is_iwarp()) {
    options.assumptions.checked.push_back(address_of(device.address));
    options.assumptions.at.push_back(address_of(device.tcp->address()));
  } else {
    between(device.path);
    for (const auto* way : {&device.ipv6, &device.vlan, &device.roce_v1})
      if (*way) between((*way)->path);
  }
  options.assumptions.everywhere = wire_delay.has_value();
  tracking::TrackerOptions tracker_options;
  tracker_options.transport = true;
  Monitors monitors(options);
  tracking::Tracker tracker(monitors, tracker_options);
  tracking::Dissector dissector;
  tracking::Packet packet;
  FrameNumbers numbers;
  for (const Event& event : in_order(transcript, wire_delay.value_or(0))) {
    if (event.step->pairing) {
      tracker.pair(evidence_of(*event.step->pairing));
      continue;
    }
    ++packet.number;
    numbers.add(event.frame);
    packet.time_ns = event.time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, event.step->frame, static_cast<std::uint32_t>(event.step->frame.size()));
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  Observation observation;
  const Evaluator& judge = monitors.evaluator();
  for (std::size_t rule = 0; rule < rules.size(); ++rule)
    if (judge.counters()[rule].evaluated() != 0) observation.counters.emplace(rule, judge.counters()[rule]);
  for (const Violation& violation : judge.violations())
    if (violation.count != 0) numbers.replace(observation.violations.emplace_back(violation));
  std::sort(observation.violations.begin(), observation.violations.end(),
            [](const Violation& x, const Violation& y) { return x.place.frame < y.place.frame; });
  return observation;
}

}  // namespace rdmawire::conformance
