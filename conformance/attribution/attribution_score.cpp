/// Prints the score of tracker and monitors over random scenarios, or the frames and events of one scenario.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "captures/io/writer.hpp"
#include "conformance/attribution/score.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace {

using namespace rdmawire;
using namespace rdmawire::attribution;

nlohmann::ordered_json json_of(const std::array<LabelScore, labels>& scores,
                               const std::array<std::array<std::uint64_t, labels>, labels>& confusion) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < labels; ++i) {
    const LabelScore& s = scores[i];
    if (s.claims == 0 && s.incidents == 0) continue;
    nlohmann::ordered_json wrong = nlohmann::ordered_json::object();
    for (std::size_t j = 0; j < labels; ++j)
      if (j != i && confusion[j][i] != 0) wrong[std::string(to_string(static_cast<Label>(j)))] = confusion[j][i];
    result.push_back({{"label", to_string(static_cast<Label>(i))},
                      {"claims", s.claims},
                      {"precision", s.precision()},
                      {"incidents", s.incidents},
                      {"recall", s.recall()},
                      {"wrong_by_truth", wrong}});
  }
  return result;
}

/// Collects the events that belong to a connection.
struct EventList final : tracking::Sink {
  void event(const tracking::Connection* connection, const tracking::Event& event) override {
    if (connection) events.push_back(event);
  }
  std::vector<tracking::Event> events;
};

/// Returns the tracker's events about the captured frames.
std::vector<tracking::Event> events_of(const Traffic& traffic) {
  EventList list;
  tracking::Dissector dissector;
  tracking::Tracker tracker(list, {});
  tracking::Packet packet;
  for (std::size_t i = 0; i < traffic.frames.size(); ++i) {
    packet.number = i + 1;
    packet.time_ns = traffic.frames[i].time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, traffic.frames[i].bytes, traffic.frames[i].wire_length);
    tracker.add(packet);
  }
  tracker.finish();
  return std::move(list.events);
}

std::string text_of(const Transmission& t) {
  const auto flag = [](bool set, const char* text) { return set ? text : ""; };
  const bool acknowledge = t.op().operation == Operation::acknowledge;
  return fmt::format("{} {:8} {}{}{}{}{}{}{}{}{}", t.sender == 0 ? "a" : "b", t.psn.value(), t.op().name,
                     acknowledge && Syndrome(t.syndrome).is_nak() ? " NAK" : "",
                     acknowledge && Syndrome(t.syndrome).is_rnr_nak() ? " RNR NAK" : "",
                     flag(t.retransmitted, ", again"), flag(t.passed_damaged, ", damaged"),
                     flag(t.late_before, ", late"), flag(t.late_after, ", late after"),
                     flag(t.lost_after(), ", lost after"), flag(t.duplicated, ", duplicated"));
}

/// Prints each captured packet and its fate. `events`: also prints packets that are missing in the capture, in the
/// order sent, and the tracker's events after their first frame.
void dump(const Scenario& scenario, bool events) {
  const Traffic traffic = simulate(scenario);
  fmt::print("{}\n", scenario.text());
  if (traffic.frames.empty()) return;
  std::multimap<std::uint64_t, std::string> lines;  // by number of the frame before which they are printed
  if (events) {
    std::vector<bool> captured(traffic.transmissions.size());
    for (const CapturedFrame& frame : traffic.frames) captured[frame.transmission] = true;
    std::uint64_t newest = 1;
    std::vector<std::uint64_t> first_frame(traffic.transmissions.size());
    for (std::size_t i = traffic.frames.size(); i-- > 0;) first_frame[traffic.frames[i].transmission] = i + 1;
    for (std::size_t i = 0; i < captured.size(); ++i) {
      const Transmission& t = traffic.transmissions[i];
      if (captured[i]) newest = std::max(newest, first_frame[i]);
      if (!captured[i] && t.transport)
        lines.emplace(newest + 1, fmt::format("      {} {}", t.lost_before() ? "lost:   " : "missing:", text_of(t)));
    }
    for (const tracking::Event& event : events_of(traffic))
      lines.emplace(event.frame + 1,
                    fmt::format("      event: {} {} {} frames {}-{} psn {} packets {} origin {} cause {}",
                                to_string(event.kind), to_string(event.cause), to_string(event.certainty), event.frame,
                                event.last_frame, event.psn, event.packets, event.origin_frame, event.cause_frame));
  }
  const auto print_lines = [&](std::uint64_t frame) {
    for (auto [at, end] = lines.equal_range(frame); at != end; ++at) fmt::print("{}\n", at->second);
  };
  for (std::size_t i = 0; i < traffic.frames.size(); ++i) {
    const CapturedFrame& frame = traffic.frames[i];
    const Transmission& t = traffic.transmissions[frame.transmission];
    print_lines(i + 1);
    if (!t.transport) continue;
    fmt::print("{:5} {:9.3f} {}", i + 1, double(frame.time - traffic.frames[0].time) / 1e3, text_of(t));
    if (events && t.arrived >= 0)
      fmt::print(", arrives {:.3f}", double(t.arrived - (t.captured - frame.time + traffic.frames[0].time)) / 1e3);
    fmt::print("\n");
  }
  print_lines(traffic.frames.size() + 1);
}

int write(const Scenario& scenario, const std::string& path) {
  const Traffic traffic = simulate(scenario);
  auto writer = captures::Writer::create(path);
  if (!writer) return std::fprintf(stderr, "%s cannot be written\n", path.c_str()), 3;
  captures::Interface interface;
  interface.link = LinkType::ethernet;
  const auto index = writer->add_interface(interface);
  for (const CapturedFrame& frame : traffic.frames) {
    captures::Record record;
    record.bytes = frame.bytes;
    record.time = frame.time;
    record.wire_length = frame.wire_length;
    record.interface = index.value_or(0);
    if (!writer->write(record)) return std::fprintf(stderr, "%s cannot be written\n", path.c_str()), 3;
  }
  return writer->close() ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Scores the reported causes and violations. The traffic is simulated, so the true causes are known.");
  std::uint64_t scenarios = 1000, seed = 1, shown = 0, missed = 0;
  unsigned impairments = 1;
  bool json = false, print = false, explain = false;
  std::string path, identification;
  app.add_option("--scenarios", scenarios, "Number of scenarios")->capture_default_str();
  app.add_option("--seed", seed, "Seed of the first scenario")->capture_default_str();
  app.add_option("--impairments", impairments, "Maximum number of impairments of a scenario")->capture_default_str();
  app.add_option("--wrong", shown, "Maximum number of wrong statements to print")->capture_default_str();
  app.add_option("--missed", missed, "Maximum number of unreported disturbances to print")->capture_default_str();
  app.add_option("--identification", identification, "Select the IP identifications of all senders")
      ->check(CLI::IsMember({"consecutive", "constant", "random"}));
  app.add_flag("--json", json, "Print JSON");
  app.add_flag("--dump", print, "Print the packets of the first scenario");
  app.add_flag("--explain", explain, "Print the packets, missing packets and events of the first scenario");
  app.add_option("--write", path, "Write the packets of the first scenario to this capture file");
  CLI11_PARSE(app, argc, argv);
  const auto scenario_of = [&](std::uint64_t number) {
    Scenario scenario = draw_scenario(number, impairments);
    if (identification == "consecutive") scenario.numbering = Numbering::consecutive;
    if (identification == "constant") scenario.numbering = Numbering::constant;
    if (identification == "random") scenario.numbering = Numbering::random;
    return scenario;
  };
  if (print || explain) return dump(scenario_of(seed), explain), 0;
  if (!path.empty()) return write(scenario_of(seed), path);
  Score total;
  for (std::uint64_t i = 0; i < scenarios; ++i) total.add(evaluate(scenario_of(seed + i)));
  if (json) {
    nlohmann::ordered_json violations = nlohmann::ordered_json::object();
    for (const auto& [rule, count] : total.violations) violations[rule] = count;
    const nlohmann::ordered_json result{{"scenarios", total.scenarios},
                                        {"packets", total.packets},
                                        {"violations", violations},
                                        {"packet_causes", json_of(total.by_label, total.confusion)},
                                        {"recovery_causes", json_of(total.recoveries, total.recovery_confusion)}};
    std::printf("%s\n", result.dump(2).c_str());
    return 0;
  }
  std::printf("%s", total.text().c_str());
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(shown, total.wrong.size()); ++i)
    std::printf("wrong: %s\n", total.wrong[i].c_str());
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(missed, total.missed.size()); ++i)
    std::printf("missed: %s\n", total.missed[i].c_str());
  for (const FalseViolation& v : total.examples)
    std::printf("violation: %s frame %llu: %s / %s\n  %s\n", v.rule.c_str(), static_cast<unsigned long long>(v.frame),
                v.expected.c_str(), v.actual.c_str(), v.scenario.c_str());
  return 0;
}
