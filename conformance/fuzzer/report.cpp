#include "conformance/fuzzer/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "captures/html/html.hpp"
#include "captures/io/output_file.hpp"
#include "captures/io/writer.hpp"
#include "conformance/fuzzer/groups.hpp"
#include "conformance/fuzzer/page/template.hpp"
#include "conformance/fuzzer/saved.hpp"
#include "conformance/rules/rules.hpp"

namespace rdmawire::fuzzer {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

Json statistics_json(const Statistics& statistics) {
  Json json;
  json["executions"] = statistics.executions;
  json["steps"] = statistics.steps;
  json["lives"] = statistics.lives;
  json["connections"] = statistics.connections;
  json["edges"] = statistics.edges;
  json["code_edges"] = statistics.code_edges ? Json(*statistics.code_edges) : Json();
  json["monitor_edges"] = statistics.monitor_edges ? Json(*statistics.monitor_edges) : Json();
  json["corpus"] = statistics.corpus;
  json["findings"] = statistics.findings;
  json["alarms"] = statistics.alarms;
  json["restarts"] = statistics.restarts;
  json["seconds"] = statistics.seconds;
  return json;
}

std::string program() { return "rdmawire " RDMAWIRE_VERSION; }

std::string text_of_rules(const Finding& finding) {
  std::string text;
  for (const std::string& id : finding.rules) {
    const conformance::Rule* rule = conformance::find_rule(id);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rule ? fmt::format("{} {}", rule->alias, id) : id);
  }
  return text;
}

/// Return a line such as "coverage: 9000 edges of responses, 2000 of the device's code, …"
std::string text_of_coverage(const Session& session) {
  const Statistics& s = session.statistics();
  const auto of = [](const std::optional<std::uint64_t>& edges, const char* what, std::string_view without) {
    return edges ? fmt::format("{} edges of {}", *edges, what) : fmt::format("{}: {}", what, without);
  };
  return fmt::format("coverage: {} edges of responses; {}; {}\n", s.edges,
                     of(s.code_edges, "the device's code", session.offers_code() ? "not counted" : "not offered"),
                     of(s.monitor_edges, "the monitors", "not counted"));
}

std::string text_of_cutting(const Finding& finding) {
  if (finding.trials == 0) return "not tried";
  std::string text = fmt::format("from {} to {} steps by {} trials", finding.script.steps.size(),
                                 finding.minimal.steps.size(), finding.trials);
  if (finding.restarts > 0) text += fmt::format(", {} of which ended the device", finding.restarts);
  if (!finding.whole && finding.reproduced) text += "; stopped at the limits of the minimizer";
  return text;
}

/// Return text that cannot end a Python docstring.
std::string harmless(std::string text) {
  std::ranges::replace(text, '"', '\'');
  std::ranges::replace(text, '\\', '/');
  return text;
}

/// Return JSON in Python syntax.
std::string python_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (json.is_object()) {
    std::string text = "{";
    for (const auto& [name, value] : json.items())
      text += fmt::format("{}\"{}\": {}", text.size() > 1 ? ", " : "", name, python_of(value));
    return text + "}";
  }
  if (json.is_array()) {
    std::string text = "[";
    for (const auto& one : json) text += fmt::format("{}{}", text.size() > 1 ? ", " : "", python_of(one));
    return text + "]";
  }
  return json.dump();
}

tl::expected<void, std::string> write_capture(const Finding& finding, Target& device, const fs::path& path) {
  std::vector<Exchanged> frames = finding.frames;
  if (frames.empty()) {
    Replayed replayed = replay(finding.minimal, device, true);
    if (device.gone()) static_cast<void>(device.revive());  // restart it for the next finding
    frames = std::move(replayed.frames);
  }
  captures::Writer::Options options;
  options.section.application = "rdmawire fuzz";
  options.section.comments = {finding.alarm.signature, "expected: " + finding.alarm.expected,
                              "actual: " + finding.alarm.actual};
  const auto failed = [](const captures::CaptureError& what) { return tl::unexpected(to_string(what)); };
  auto writer = captures::Writer::create(path.string(), options);
  if (!writer) return failed(writer.error());
  const auto interface = writer->add_interface({});
  if (!interface) return failed(interface.error());
  std::size_t described = 0;  // number of steps that already have a comment
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Exchanged& one = frames[i];
    std::vector<std::string> comments;
    for (; described <= one.step; ++described)
      comments.push_back(fmt::format("step {}: {}", described + 1, text_of(finding.minimal.steps[described])));
    comments.push_back(one.sent ? "to the device" : "from the device");
    if (finding.reproduced && i + 1 == frames.size())
      comments.push_back(fmt::format("ALARM, {}: expected {}; actual {}", to_string(finding.alarm.oracle),
                                     finding.alarm.expected, finding.alarm.actual));
    const std::vector<std::string_view> views(comments.begin(), comments.end());
    captures::Record record;
    record.bytes = one.frame;
    record.time = one.time;
    record.wire_length = static_cast<std::uint32_t>(one.frame.size());
    record.interface = *interface;
    if (const auto written = writer->write(record, views); !written) return failed(written.error());
  }
  if (const auto closed = writer->close(); !closed) return failed(closed.error());
  return {};
}

}  // namespace

std::string directory_of(const Finding& finding, std::size_t index) {
  std::string name = fmt::format("{:02}-", index + 1);
  for (const char c : finding.alarm.signature) {
    if (name.size() >= 48) break;
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!letter && name.back() != '-') name += '-';
  }
  while (name.back() == '-') name.pop_back();
  return name;
}

nlohmann::ordered_json to_json(const Session& session, const std::string& target, bool running) {
  Json json;
  json["format"] = 1;
  json["program"] = program();
  json["id"] = session.id();
  json["running"] = running;
  json["target"] = target;
  json["seed"] = session.options().seed;
  json["plain"] = session.options().plain;
  json["feedback"] = {{"answers", session.options().feedback.answers},
                      {"code", session.options().feedback.code},
                      {"monitors", session.options().feedback.monitors},
                      {"code_offered", session.offers_code()}};
  json["statistics"] = statistics_json(session.statistics());
  json["rules"] = Json::object();
  for (const Finding& finding : session.findings())
    for (const std::string& id : finding.rules)
      if (const conformance::Rule* rule = conformance::find_rule(id))
        json["rules"][id] = {{"alias", rule->alias}, {"sentence", rule->sentence}};
  json["groups"] = Json::array();
  for (const FindingGroup& group : groups_of(session.findings()))
    json["groups"].push_back({{"cause", group.cause}, {"rules", group.rules}, {"findings", group.findings}});
  json["findings"] = Json::array();
  for (std::size_t i = 0; i < session.findings().size(); ++i) {
    const Finding& finding = session.findings()[i];
    Json one;
    one["oracle"] = to_string(finding.alarm.oracle);
    one["signature"] = finding.alarm.signature;
    one["expected"] = finding.alarm.expected;
    one["actual"] = finding.alarm.actual;
    one["rules"] = finding.rules;
    one["shown"] = finding.shown;
    one["like"] = finding.like;
    one["execution"] = finding.execution;
    one["times"] = finding.times;
    one["reproduced"] = finding.reproduced;
    one["minimized"] = {{"trials", finding.trials}, {"restarts", finding.restarts}, {"whole", finding.whole}};
    one["directory"] = directory_of(finding, i);
    one["steps"] = Json::array();
    for (const Step& step : finding.minimal.steps) one["steps"].push_back(text_of(step));
    one["script"] = to_json(finding.minimal);
    json["findings"].push_back(std::move(one));
  }
  return json;
}

std::string to_text(const Session& session, const std::string& target) {
  const Statistics& s = session.statistics();
  std::string text = fmt::format(
      "{}, seed {}: {} executions in {:.1f} s ({:.0f} a second), {} steps, {} connections, {} scripts in the corpus\n",
      target, session.options().seed, s.executions, s.seconds,
      static_cast<double>(s.executions) / std::max(s.seconds, 1e-9), s.steps, s.connections, s.corpus);
  text += text_of_coverage(session);
  if (s.restarts > 0) text += fmt::format("the device was lost and restarted {} times\n", s.restarts);
  if (session.findings().empty()) return text + "no findings\n";
  if (const auto groups = groups_of(session.findings()); groups.size() < session.findings().size()) {
    text += fmt::format("{} findings, probably of {} cause{}:\n", session.findings().size(), groups.size(),
                        groups.size() == 1 ? "" : "s");
    for (const FindingGroup& group : groups) {
      std::string numbers;
      for (const std::size_t index : group.findings)
        numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", index + 1);
      text += fmt::format("   {}: {}\n", group.cause, numbers);
    }
  }
  for (std::size_t i = 0; i < session.findings().size(); ++i) {
    const Finding& finding = session.findings()[i];
    text += fmt::format("\n{}  {}   seen {}×, first at execution {}{}\n   expected  {}\n   actual    {}\n", i + 1,
                        finding.alarm.signature, finding.times, finding.execution,
                        finding.reproduced ? "" : ", not reproduced", finding.alarm.expected, finding.alarm.actual);
    text += fmt::format("   minimized {}\n", text_of_cutting(finding));
    if (!finding.rules.empty()) text += fmt::format("   rules     {}\n", text_of_rules(finding));
    if (!finding.like.empty())
      text += fmt::format("   like      the reference device with {}\n", fmt::join(finding.like, ", or "));
    for (std::size_t at = 0; at < finding.minimal.steps.size(); ++at)
      text += fmt::format("   {:7}  {}\n", at + 1, text_of(finding.minimal.steps[at]));
  }
  return text;
}

std::string html_of(const std::string& report, const std::string& target) {
  return captures::fill_page(page_template(), fmt::format("Fuzzing {}", target),
                             std::array{captures::Carried{"{{report}}", report}});
}

std::string to_html(const Session& session, const std::string& target) {
  return html_of(to_json(session, target).dump(-1, ' ', false, Json::error_handler_t::replace), target);
}

std::string to_python(const Finding& finding, const std::string& target) {
  std::string steps;
  for (const Step& step : finding.minimal.steps)
    steps += fmt::format("        # {}\n        {},\n", text_of(step), python_of(to_json(step)));
  return fmt::format(R"(#!/usr/bin/env python3
"""{}

expected: {}
actual: {}

Run the script against the device or another target: reproduce.py [TARGET]. Exit status 0: no alarm, 1: an oracle
reported an alarm.
"""

import sys

from rdmawire import fuzz

SCRIPT = fuzz.Script(
    seed={},
    family="{}",
    steps=[
{}    ],
)

if __name__ == "__main__":
    sys.exit(fuzz.reproduce(SCRIPT, target=sys.argv[1] if len(sys.argv) > 1 else "{}"))
)",
                     harmless(finding.alarm.signature), harmless(finding.alarm.expected),
                     harmless(finding.alarm.actual), finding.minimal.seed, to_string(finding.minimal.family), steps,
                     harmless(target));
}

tl::expected<void, std::string> check_report_directory(const Session& session, const fs::path& directory) {
  std::ifstream file(directory / "report.json", std::ios::binary);
  if (!file) return {};
  const auto report = parse_saved(std::string((std::istreambuf_iterator<char>(file)), {}));
  if (report && report->value("id", std::string()) == session.id()) return {};
  return tl::unexpected(
      fmt::format("{} contains the report of another session; use another directory", directory.string()));
}

tl::expected<void, std::string> write_progress(const Session& session, const std::string& target,
                                               const fs::path& directory, bool running) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", directory.string(), error.message()));
  return captures::write_file(
      (directory / "report.json").string(),
      to_json(session, target, running).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

tl::expected<void, std::string> write_finding(const Session& session, std::size_t index, const std::string& target,
                                              Target& device, const fs::path& directory) {
  const Finding& finding = session.findings()[index];
  const fs::path own = directory / directory_of(finding, index);
  std::error_code error;
  fs::create_directories(own, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", own.string(), error.message()));
  if (auto written = captures::write_file((own / "script.json").string(), to_json(finding.minimal).dump(1) + "\n");
      !written)
    return written;
  if (auto written = captures::write_file((own / "reproduce.py").string(), to_python(finding, target)); !written)
    return written;
  fs::permissions(own / "reproduce.py", fs::perms::owner_exec, fs::perm_options::add, error);
  return write_capture(finding, device, own / "capture.pcapng");
}

tl::expected<void, std::string> write_report(const Session& session, const std::string& target, Target& device,
                                             const fs::path& directory) {
  if (auto free = check_report_directory(session, directory); !free) return free;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", directory.string(), error.message()));
  for (const auto& [name, text] :
       {std::pair("report.json", to_json(session, target).dump(1, ' ', false, Json::error_handler_t::replace) + "\n"),
        std::pair("report.txt", to_text(session, target)), std::pair("index.html", to_html(session, target))})
    if (auto written = captures::write_file((directory / name).string(), text); !written) return written;
  for (std::size_t i = 0; i < session.findings().size(); ++i)
    if (auto written = write_finding(session, i, target, device, directory); !written) return written;
  return {};
}

}  // namespace rdmawire::fuzzer
