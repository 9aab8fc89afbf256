#include "conformance/attribution/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "conformance/device/roce/random.hpp"
#include "conformance/monitors/monitors.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::attribution {
namespace {

using tracking::Cause;
using tracking::Event;
using tracking::EventKind;
using tracking::Side;

/// Passes each call to the monitors, and stores the events.
class Collector final : public tracking::Sink {
 public:
  explicit Collector(conformance::Monitors& monitors) : monitors_(monitors) {}
  void event(const tracking::Connection* connection, const Event& event) override {
    monitors_.event(connection, event);
    if (!connection) return;
    events.push_back(event);
    requesters.push_back(connection->at(event.end).address == device_address(0) ? 0 : 1);
  }
  void connection(const tracking::Connection& connection, tracking::CloseReason reason) override {
    monitors_.connection(connection, reason);
  }
  void merged(const tracking::Connection& connection, std::uint64_t id) override { monitors_.merged(connection, id); }
  void transport(const tracking::Connection& connection, Side from, const tracking::TransportPacket& t,
                 const tracking::NegotiatedParameters* negotiated) override {
    monitors_.transport(connection, from, t, negotiated);
  }

  std::vector<Event> events;
  std::vector<unsigned> requesters;  ///< number of the device at the endpoint of each event

 private:
  conformance::Monitors& monitors_;
};

/// The truth about one scenario.
class Truth {
 public:
  explicit Truth(const Traffic& traffic) : traffic_(traffic) {
    const auto& all = traffic.transmissions;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].transport) by_psn_[key(all[i].sender, all[i].response, all[i].psn)].push_back(i);
    for (unsigned requester = 0; requester < 2; ++requester) follow_responder(requester);
  }

  [[nodiscard]] static std::uint64_t key(unsigned sender, bool response, Psn psn) {
    return std::uint64_t{psn.value()} * 4 + sender * 2 + (response ? 1 : 0);
  }
  [[nodiscard]] const std::vector<std::size_t>& transmissions_of(unsigned sender, bool response, Psn psn) const {
    static const std::vector<std::size_t> nothing;
    const auto found = by_psn_.find(key(sender, response, psn));
    return found == by_psn_.end() ? nothing : found->second;
  }

  /// True if the label describes the fate of this transmission.
  [[nodiscard]] static bool has(const Transmission& t, Label label) {
    switch (label) {
      case Label::lost_before: return t.lost_before();
      case Label::lost_after: return t.lost_after();
      case Label::lost_in_capture: return t.hidden;
      case Label::corrupted: return t.passed_damaged;
      case Label::reordered_before: return t.late_before || t.late_recorded;
      case Label::reordered_after: return t.late_after;
      case Label::duplicated: return t.duplicated || t.copied;  // the tracker does not distinguish them
      case Label::copied: return t.copied;
      default: return false;
    }
  }
  /// Returns the first label that describes the fate of this transmission.
  [[nodiscard]] static Label label_of(const Transmission& t) {
    if (t.passed_damaged) return Label::corrupted;
    if (t.lost_before()) return Label::lost_before;
    if (t.lost_after()) return Label::lost_after;
    if (t.late_before) return Label::reordered_before;
    for (const Label label :
         {Label::reordered_after, Label::reordered_before, Label::lost_in_capture, Label::duplicated, Label::copied})
      if (has(t, label)) return label;
    return Label::none;
  }

  /// Returns the packet that made the responder send a NAK with this PSN at `time`, and its label. If the responder
  /// dropped the packet with this PSN because an earlier one was missing, the result is that of the earlier one.
  [[nodiscard]] std::pair<Label, std::size_t> root_of_nak(unsigned requester, Psn psn, std::int64_t time) const {
    std::optional<std::size_t> last;
    for (const std::size_t i : transmissions_of(requester, false, psn)) {
      const Transmission& t = traffic_.transmissions[i];
      // A retransmission that is still in flight is not the cause of the NAK.
      const bool flying = last && t.arrived > time && !t.late_before && !t.late_after && !t.passed_damaged;
      if (t.decided < time && !flying) last = i;
    }
    if (!last) return {Label::none, 0};
    const Transmission& t = traffic_.transmissions[*last];
    if (t.arrived < 0 || t.arrived > time) return {label_of(t), *last};
    const auto& steps = expected_[requester];
    const auto after =
        std::partition_point(steps.begin(), steps.end(), [&](const Step& s) { return s.time < t.arrived; });
    if (after == steps.begin()) return {Label::behind, *last};
    const Psn missing = std::prev(after)->psn;
    if (psn - missing <= 0) return {Label::behind, *last};
    return root_of_nak(requester, missing, t.arrived);
  }

  /// Returns the first transmission of the recovery that includes this one.
  [[nodiscard]] std::size_t start_of_recovery(std::size_t at) const {
    const unsigned sender = traffic_.transmissions[at].sender;
    for (std::size_t i = at + 1; i-- > 0;) {
      const Transmission& t = traffic_.transmissions[i];
      if (t.sender != sender || !t.transport || t.response) continue;
      if (t.trigger != Trigger::none) return i;
      if (!t.retransmitted) break;
    }
    return at;
  }

  /// Returns the reason of the recovery that includes this transmission, and the packet that caused it.
  [[nodiscard]] std::pair<Label, std::size_t> root_of_recovery(std::size_t at) const {
    at = start_of_recovery(at);
    const Transmission& t = traffic_.transmissions[at];
    switch (t.trigger) {
      case Trigger::none: return {Label::none, 0};
      case Trigger::rnr_nak: return {Label::not_ready, 0};
      case Trigger::nak: {
        const Transmission& nak = traffic_.transmissions[t.trigger_response];
        return root_of_nak(t.sender, nak.psn, nak.decided);
      }
      case Trigger::implied_nak: return root_of_implied_nak(t);
      case Trigger::timer: break;
    }
    // After a timeout, the recovery is spurious if the packet had arrived and its response was in flight.
    for (const std::size_t i : transmissions_of(t.sender, false, t.psn)) {
      const Transmission& earlier = traffic_.transmissions[i];
      if (i >= at || earlier.arrived < 0 || earlier.arrived > t.decided) continue;
      if (response_on_its_way(t, earlier.arrived)) return {Label::spurious, i};
    }
    return {Label::timeout, 0};
  }

 private:
  /// PSN that a responder expects, starting at this time.
  struct Step {
    std::int64_t time = 0;
    Psn psn;
  };

  /// Returns the response that made the requester retransmit, and its label. The requester drops all responses after
  /// a missing one, so the search goes back to the missing one.
  [[nodiscard]] std::pair<Label, std::size_t> root_of_implied_nak(const Transmission& again) const {
    constexpr unsigned most = 256;
    Psn psn = again.psn;
    for (unsigned i = 0; i < most; ++i, psn = psn - 1) {
      const auto& sent = transmissions_of(1 - again.sender, true, psn);
      for (std::size_t k = sent.size(); k-- > 0;) {
        const Transmission& response = traffic_.transmissions[sent[k]];
        if (response.sent > again.decided) continue;
        if (response.arrived >= 0 && response.arrived <= again.decided && !response.late_before && !response.late_after)
          break;  // dropped after a missing one
        return {response.arrived < 0 && !response.passed_damaged ? Label::response_missing : label_of(response),
                sent[k]};
      }
    }
    return {Label::response_missing, 0};
  }

  /// True if a response to the request was in flight when the requester retransmitted it. `since`: earliest time at
  /// which the response can have been sent.
  [[nodiscard]] bool response_on_its_way(const Transmission& again, std::int64_t since) const {
    const auto& arrivals = traffic_.arrivals[again.sender];
    for (std::size_t i = arrivals.size(); i-- > 0 && arrivals[i].time > again.decided;) {
      const Transmission& r = traffic_.transmissions[arrivals[i].transmission];
      if (r.response && r.decided >= since && r.decided < again.decided && r.psn - again.psn >= 0 &&
          !(Syndrome(r.syndrome).is_nak() && r.psn == again.psn))
        return true;
    }
    return false;
  }

  /// Derives the expected PSN of the responder from the requests that arrived and the RNR NAKs that it sent.
  void follow_responder(unsigned requester) {
    auto& steps = expected_[requester];
    std::vector<std::pair<std::int64_t, const Transmission*>> events;
    for (const Arrival& arrival : traffic_.arrivals[1 - requester]) {
      const Transmission& t = traffic_.transmissions[arrival.transmission];
      if (!t.response) events.emplace_back(arrival.time, &t);
    }
    for (const Transmission& t : traffic_.transmissions)
      if (t.sender != requester && t.transport && t.response && t.op().operation == Operation::acknowledge &&
          Syndrome(t.syndrome).is_rnr_nak())
        events.emplace_back(t.decided, &t);
    std::stable_sort(events.begin(), events.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    for (const Transmission& t : traffic_.transmissions)
      if (t.sender == requester && t.transport && !t.response) {
        steps.push_back({INT64_MIN, t.psn});
        break;
      }
    for (const auto& [time, t] : events)
      if (steps.empty() || t->response || t->psn == steps.back().psn)
        steps.push_back({time, t->response ? t->psn : t->psn + t->psns});
  }

  const Traffic& traffic_;
  std::array<std::vector<Step>, 2> expected_;  // by requester
  std::map<std::uint64_t, std::vector<std::size_t>> by_psn_;
};

/// Returns the label that an event reports for packets. nullopt: the event is about something else.
std::optional<Label> claim_of(const Event& event) {
  switch (event.kind) {
    case EventKind::lost_in_network:
      return event.cause == Cause::before_capture ? Label::lost_before : Label::lost_after;
    case EventKind::lost_in_capture: return Label::lost_in_capture;
    case EventKind::out_of_order:
      return event.cause == Cause::after_capture ? Label::reordered_after : Label::reordered_before;
    case EventKind::duplicate: return Label::duplicated;
    case EventKind::crc_bad: return Label::corrupted;
    default: return std::nullopt;
  }
}

/// Returns the label of the cause that a retransmission event reports.
std::optional<Label> claim_of_recovery(const Event& event) {
  switch (event.cause) {
    case Cause::sequence_error_nak: return Label::lost_before;
    case Cause::reordered: return Label::reordered_before;
    case Cause::corrupted: return Label::corrupted;
    case Cause::rnr: return Label::not_ready;
    case Cause::implied_nak: return Label::response_missing;
    case Cause::timeout: return Label::timeout;
    case Cause::spurious: return Label::spurious;
    default: return Label::none;
  }
}

/// Events about recoveries do not report whether the cause occurred before or after the capture point.
Label without_place(Label label) {
  if (label == Label::lost_after) return Label::lost_before;
  if (label == Label::reordered_after) return Label::reordered_before;
  return label;
}

/// Compares the tracker's and the monitors' statements about one scenario with the truth.
class Scoring {
 public:
  Scoring(const Scenario& scenario, const Traffic& traffic) : scenario_(scenario), traffic_(traffic), truth_(traffic) {
    score_.scenarios = 1;
    score_.packets = traffic.frames.size();
  }

  void violations(const conformance::Evaluator& evaluator) {
    for (const conformance::Violation& v : evaluator.violations()) {
      if (v.count == 0) continue;
      ++score_.violations[std::string(v.of().alias) + " " + std::string(v.of().id)];
      score_.examples.push_back({std::string(v.of().id), std::string(v.of().alias), v.statement.expected,
                                 v.statement.actual, scenario_.text(), v.place.frame});
    }
  }

  /// `requester`: number of the device at the endpoint of the event.
  void event(const Event& event, unsigned requester) {
    if (event.kind == EventKind::retransmission)
      recovery(event, *claim_of_recovery(event));
    else if (const auto claim = claim_of(event))
      packets(event, *claim, requester);
  }

  /// Counts the disturbances, and those that events reported. Called after all events.
  Score finish() {
    std::array<bool, labels> occurred{};
    for (const auto& [i, label] : incidents()) {
      LabelScore& s = score_.by_label[static_cast<std::size_t>(label)];
      ++s.incidents;
      occurred[static_cast<std::size_t>(label)] = true;
      const auto found = claimed_.find(i);
      const bool reported = found != claimed_.end() && found->second == label;
      s.found += reported;
      if (!reported && score_.missed.size() < 100) {
        const Transmission& t = traffic_.transmissions[i];
        score_.missed.push_back(fmt::format("{} {} psn {}{}: claim {}, {}", to_string(label), t.op().name,
                                            t.psn.value(), t.retransmitted ? ", retransmitted" : "",
                                            found == claimed_.end() ? "none" : to_string(found->second),
                                            scenario_.text()));
      }
    }
    for (std::size_t label = 0; label < labels; ++label) {
      LabelScore& s = score_.by_connection[label];
      const bool right =
          stated_[label] && std::any_of(traffic_.transmissions.begin(), traffic_.transmissions.end(),
                                        [&](const Transmission& t) { return Truth::has(t, Label(label)); });
      s.claims += stated_[label];
      s.right += right;
      s.incidents += occurred[label];
      if (stated_[label] && !right)
        score_.wrong.push_back(fmt::format("connection: claim {}, {}", to_string(Label(label)), scenario_.text()));
      if (occurred[label] && !stated_[label])
        score_.missed.push_back(fmt::format("connection: {}, {}", to_string(Label(label)), scenario_.text()));
      s.found += occurred[label] && stated_[label];
    }
    std::map<std::size_t, std::set<Label>> claims_of_recovery;  // by its first transmission
    for (const auto& [i, claim] : claimed_recoveries_) claims_of_recovery[truth_.start_of_recovery(i)].insert(claim);
    for (std::size_t i = 0; i < traffic_.transmissions.size(); ++i) {
      const Transmission& t = traffic_.transmissions[i];
      if (t.trigger == Trigger::none || t.captured < 0) continue;
      const Label real = without_place(truth_.root_of_recovery(i).first);
      LabelScore& s = score_.recoveries[static_cast<std::size_t>(real)];
      ++s.incidents;
      const auto found = claims_of_recovery.find(i);
      s.found += found != claims_of_recovery.end() && found->second.contains(real);
    }
    return std::move(score_);
  }

 private:
  void recovery(const Event& event, Label claim) {
    LabelScore& s = score_.recoveries[static_cast<std::size_t>(claim)];
    if (event.certainty == tracking::Certainty::possible && claim != Label::none) {
      ++s.possible;
      return;
    }
    const std::size_t at = traffic_.frames[event.frame - 1].transmission;
    claimed_recoveries_[at] = claim;
    const Label real = without_place(truth_.root_of_recovery(at).first);
    ++s.claims;
    s.right += real == claim || claim == Label::none;  // the cause "unknown" counts as right
    ++score_.recovery_confusion[static_cast<std::size_t>(real)][static_cast<std::size_t>(claim)];
    if (real != claim && claim != Label::none && score_.wrong.size() < 100)
      score_.wrong.push_back(fmt::format("retransmission frame {} psn {}: claim {}, truth {}; {}", event.frame,
                                         event.psn, to_string(claim), to_string(real), scenario_.text()));
  }

  void packets(const Event& event, Label claim, unsigned requester) {
    LabelScore& s = score_.by_label[static_cast<std::size_t>(claim)];
    if (event.certainty == tracking::Certainty::possible) {
      ++s.possible;
      return;
    }
    ++s.claims;
    stated_[static_cast<std::size_t>(claim)] = true;
    bool right = false;
    Label real = Label::none;
    const auto test = [&](std::size_t i) {
      const Transmission& t = traffic_.transmissions[i];
      if (Truth::has(t, claim)) {
        right = true;
        claimed_[i] = claim;
      } else if (real == Label::none) {
        real = Truth::label_of(t);
      }
    };
    const bool by_frame = event.kind == EventKind::duplicate || event.kind == EventKind::crc_bad ||
                          (event.kind == EventKind::out_of_order && event.cause == Cause::none);
    if (by_frame) {
      test(traffic_.frames[event.frame - 1].transmission);
    } else {
      for (std::uint64_t i = 0; i < std::max<std::uint64_t>(event.packets, 1) && i < 4096; ++i) {
        const Psn psn = Psn(event.psn) + static_cast<std::int64_t>(i);
        for (const std::size_t t : truth_.transmissions_of(requester, false, psn)) test(t);
        for (const std::size_t t : truth_.transmissions_of(1 - requester, true, psn)) test(t);
      }
    }
    s.right += right;
    ++score_.confusion[static_cast<std::size_t>(right ? claim : real)][static_cast<std::size_t>(claim)];
    if (!right && score_.wrong.size() < 100)
      score_.wrong.push_back(fmt::format("{} frame {} psn {} packets {}: claim {}, truth {}; {}", to_string(event.kind),
                                         event.frame, event.psn, event.packets, to_string(claim), to_string(real),
                                         scenario_.text()));
  }

  /// Returns the disturbed packets that the tracker should report: those that caused a captured sequence error NAK, and
  /// damaged or duplicated packets in the capture. Packets sent before the first captured one are not included.
  [[nodiscard]] std::map<std::size_t, Label> incidents() const {
    std::map<std::size_t, Label> all;
    std::vector<unsigned> copies(traffic_.transmissions.size());  // number of captured frames, by transmission
    std::size_t first = traffic_.transmissions.size();
    for (const CapturedFrame& frame : traffic_.frames) {
      ++copies[frame.transmission];
      first = std::min(first, frame.transmission);
    }
    for (std::size_t i = first; i < traffic_.transmissions.size(); ++i) {
      const Transmission& t = traffic_.transmissions[i];
      if (!t.transport || !t.response || copies[i] == 0) continue;
      if (t.op().operation != Operation::acknowledge || !Syndrome(t.syndrome).is_nak(nak_code::psn_sequence_error))
        continue;
      const auto [label, packet_index] = truth_.root_of_nak(1 - t.sender, t.psn, t.decided);
      if (label != Label::none && label != Label::behind && packet_index >= first) all[packet_index] = label;
    }
    for (std::size_t i = first; i < traffic_.transmissions.size(); ++i) {
      const Transmission& t = traffic_.transmissions[i];
      if (t.transport && t.passed_damaged && copies[i] != 0) all[i] = Label::corrupted;
      if (t.transport && (t.copied || (t.duplicated && !t.duplicated_after)) && copies[i] > 1)
        all.try_emplace(i, Label::duplicated);
    }
    return all;
  }

  const Scenario& scenario_;
  const Traffic& traffic_;
  Truth truth_;
  Score score_;
  std::map<std::size_t, Label> claimed_;  // by transmission
  std::array<bool, labels> stated_{};     // labels that at least one event reported
  std::map<std::size_t, Label> claimed_recoveries_;
};

std::string percent(double value) { return fmt::format("{:6.2f} %", value * 100); }

}  // namespace

std::string_view to_string(Label label) {
  constexpr std::string_view names[] = {"none",      "lost before",      "lost after",      "lost in capture",
                                        "corrupted", "reordered before", "reordered after", "duplicated",
                                        "copied",    "behind",           "not ready",       "response missing",
                                        "timeout",   "spurious"};
  static_assert(std::size(names) == labels);
  return names[static_cast<std::size_t>(label)];
}

Scenario draw_scenario(std::uint64_t seed, unsigned most_impairments) {
  device::Random random(device::Random(seed).next());
  const auto draw = [&](std::uint64_t below) { return random.next() % below; };
  Scenario s;
  s.seed = seed;
  constexpr Numbering numberings[] = {Numbering::consecutive, Numbering::consecutive, Numbering::consecutive,
                                      Numbering::constant, Numbering::random};
  s.numbering = numberings[draw(std::size(numberings))];
  constexpr std::uint32_t mtus[] = {256, 512, 1024, 1024, 2048, 4096};
  s.mtu = mtus[draw(std::size(mtus))];
  s.requests = {20 + static_cast<unsigned>(draw(60)), draw(2) == 0 ? 0 : static_cast<unsigned>(draw(40))};
  s.interval = static_cast<std::int64_t>(200 + draw(draw(3) == 0 ? 40'000 : 3'000));
  s.most_bytes = static_cast<std::uint32_t>(64 + draw(draw(2) == 0 ? 16'000 : 2'000));
  for (std::int64_t& delay : s.delay) delay = static_cast<std::int64_t>(200 + draw(8'000));
  constexpr std::uint64_t speeds[] = {10'000'000'000, 25'000'000'000, 100'000'000'000, 400'000'000'000};
  s.bits_per_second = speeds[draw(std::size(speeds))];
  s.timeout = static_cast<std::uint8_t>(8 + draw(7));
  s.connection_manager = draw(3) != 0;
  s.receiver_not_ready = draw(10) == 0;
  if (draw(12) == 0) s.response_delay = static_cast<std::int64_t>(draw(2'000'000));
  if (draw(8) == 0) s.first_frame = 1 + draw(200);
  if (draw(12) == 0) s.snap_length = 96;
  const unsigned count = most_impairments == 0 ? 0 : 1 + static_cast<unsigned>(draw(most_impairments));
  for (unsigned i = 0; i < count; ++i) {
    Impairment impairment;
    constexpr Kind kinds[] = {Kind::loss,   Kind::burst,       Kind::reordering, Kind::reordering,
                              Kind::jitter, Kind::duplication, Kind::corruption};
    impairment.kind = kinds[draw(std::size(kinds))];
    impairment.segment = draw(6) == 0 ? Segment::capture : draw(2) == 0 ? Segment::before : Segment::after;
    // The capture itself can lose, duplicate or reorder packets, but not corrupt them.
    constexpr Kind capture_kinds[] = {Kind::loss, Kind::burst, Kind::duplication, Kind::jitter};
    if (impairment.segment == Segment::capture) impairment.kind = capture_kinds[draw(std::size(capture_kinds))];
    impairment.sender = static_cast<unsigned>(draw(3));
    impairment.one_in = static_cast<std::uint32_t>(10 + draw(draw(2) == 0 ? 40 : 400));
    if (impairment.kind == Kind::reordering) impairment.depth = 1 + static_cast<std::uint32_t>(draw(1U << draw(7)));
    if (impairment.kind == Kind::burst) impairment.depth = 2 + static_cast<std::uint32_t>(draw(12));
    if (impairment.kind == Kind::duplication)
      impairment.time = static_cast<std::int64_t>(1 + draw(1U << (6 + draw(12))));
    if (impairment.kind == Kind::jitter) {
      // The delay is that of up to 64 packets, so that up to 64 packets of a burst overtake a packet.
      const auto wire_time = static_cast<std::int64_t>((s.mtu + 62) * 8ULL * 1'000'000'000 / s.bits_per_second);
      impairment.time = 1 + wire_time * static_cast<std::int64_t>(1 + draw(1U << draw(7)));
    }
    s.impairments.push_back(impairment);
    // A truncated packet has no ICRC, which is needed to detect the damage.
    if (impairment.kind == Kind::corruption) s.snap_length = 0;
  }
  return s;
}

Score evaluate(const Scenario& scenario) {
  const Traffic traffic = simulate(scenario);
  conformance::Monitors monitors;
  Collector collector(monitors);
  tracking::TrackerOptions options;
  options.transport = true;
  tracking::Dissector dissector;
  tracking::Tracker tracker(collector, options);
  tracking::Packet packet;
  for (std::size_t i = 0; i < traffic.frames.size(); ++i) {
    const CapturedFrame& frame = traffic.frames[i];
    packet.number = i + 1;
    packet.time_ns = frame.time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, frame.bytes, frame.wire_length);
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();

  Scoring scoring(scenario, traffic);
  scoring.violations(monitors.evaluator());
  for (std::size_t i = 0; i < collector.events.size(); ++i) scoring.event(collector.events[i], collector.requesters[i]);
  return scoring.finish();
}

void Score::add(const Score& other) {
  scenarios += other.scenarios;
  packets += other.packets;
  for (const auto& [rule, count] : other.violations) violations[rule] += count;
  constexpr std::size_t most = 60, most_wrong = 100'000;
  for (const FalseViolation& v : other.examples)
    if (examples.size() < most) examples.push_back(v);
  for (const std::string& line : other.wrong)
    if (wrong.size() < most_wrong) wrong.push_back(line);
  for (const std::string& line : other.missed)
    if (missed.size() < most_wrong) missed.push_back(line);
  for (std::size_t i = 0; i < labels; ++i) {
    for (const auto part : {&Score::by_label, &Score::by_connection, &Score::recoveries}) {
      LabelScore& s = (this->*part)[i];
      const LabelScore& o = (other.*part)[i];
      s.claims += o.claims;
      s.possible += o.possible;
      s.right += o.right;
      s.incidents += o.incidents;
      s.found += o.found;
    }
    for (std::size_t j = 0; j < labels; ++j) {
      confusion[i][j] += other.confusion[i][j];
      recovery_confusion[i][j] += other.recovery_confusion[i][j];
    }
  }
}

std::string Score::text() const {
  std::string text =
      fmt::format("{} scenarios, {} captured packets\n\nfalse violations, in 1,000 scenarios:\n", scenarios, packets);
  for (const auto& [rule, count] : violations)
    text += fmt::format("  {:<60} {:8.1f}\n", rule, 1000.0 * double(count) / double(scenarios));
  if (violations.empty()) text += "  none\n";
  const auto table = [&](const char* title, const std::array<LabelScore, labels>& scores,
                         const std::array<std::array<std::uint64_t, labels>, labels>& wrongs) {
    text += fmt::format("\n{:<18} {:>9} {:>10} {:>10} {:>10} {:>9}  wrong claims, by actual cause\n", title, "claims",
                        "precision", "incidents", "recall", "possible");
    for (std::size_t i = 0; i < labels; ++i) {
      const LabelScore& s = scores[i];
      if (s.claims == 0 && s.incidents == 0 && s.possible == 0) continue;
      text += fmt::format("{:<18} {:>9} {:>10} {:>10} {:>10} {:>9} ", to_string(static_cast<Label>(i)), s.claims,
                          percent(s.precision()), s.incidents, percent(s.recall()), s.possible);
      for (std::size_t j = 0; j < labels; ++j)
        if (j != i && wrongs[j][i] != 0) text += fmt::format(" {}: {}", to_string(static_cast<Label>(j)), wrongs[j][i]);
      text += '\n';
    }
  };
  table("packets", by_label, confusion);
  table("connections", by_connection, {});
  table("recoveries", recoveries, recovery_confusion);
  return text;
}

}  // namespace rdmawire::attribution
