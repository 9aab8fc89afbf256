#include "replay/reactive/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "captures/analysis/findings.hpp"

namespace rdmawire::replay::reactive {
namespace {

using captures::analysis::counted;

constexpr std::size_t most_lines = 20;

std::string played(const Report::Messages& messages, const char* whose) {
  return messages.all == 0
             ? fmt::format("no messages of {}", whose)
             : fmt::format("{} of {} of {}", messages.done, counted(messages.all, "message", "messages"), whose);
}

template <class Lines>
void list(std::string& text, const char* title, const Lines& lines) {
  if (lines.empty()) return;
  text += fmt::format("{}\n", title);
  std::size_t left = most_lines;
  for (const auto& line : lines) {
    if (left-- == 0) break;
    text += fmt::format("  {}\n", line);
  }
  if (lines.size() > most_lines) text += fmt::format("  and {} more\n", lines.size() - most_lines);
}

}  // namespace

bool Report::good() const {
  const auto deviates = [](const Divergence& one) { return !one.note; };
  const auto wrong = [](const MemoryCheck& one) { return !one.good; };
  return failure.empty() && !interrupted && divergences_left_out == 0 &&
         std::none_of(divergences.begin(), divergences.end(), deviates) &&
         std::none_of(memory.begin(), memory.end(), wrong);
}

std::map<std::string, std::int64_t> Report::error_counters() const {
  constexpr std::array<std::string_view, 10> words{"err",     "duplicate", "out_of", "drop",    "discard",
                                                   "invalid", "nak",       "retry",  "timeout", "rnr"};
  std::map<std::string, std::int64_t> errors;
  for (const auto& counter : counters) {
    const std::string& name = counter.first;
    if (std::any_of(words.begin(), words.end(), [&](std::string_view word) { return name.find(word) != name.npos; }))
      errors.insert(counter);
  }
  return errors;
}

std::string text_of(const Report& report) {
  std::string text = fmt::format("{}, endpoint {} against {}\n", report.connection, report.side, report.device);
  if (!report.failure.empty())
    text += fmt::format("incomplete: {}\n", report.failure);
  else if (report.interrupted)
    text += "interrupted\n";
  text += fmt::format("replayed  {}, {}\n", played(report.ours, "the local side"), played(report.theirs, "the peer"));
  text += fmt::format("sent      {}, {} bytes; {} retransmitted; received {}\n",
                      counted(report.sent_frames, "frame", "frames"), report.sent_bytes, report.counts.again,
                      counted(report.received_frames, "frame", "frames"));
  list(text, "faults", report.faults);
  list(text, "faults that were never applied", report.unused_faults);
  std::vector<std::string> deviations, recoveries;
  for (const Divergence& one : report.divergences) (one.note ? recoveries : deviations).push_back(to_string(one));
  list(text, "differs from the capture", deviations);
  list(text, "lost and recovered", recoveries);
  std::vector<std::string> memory;
  for (const MemoryCheck& one : report.memory)
    memory.push_back(fmt::format(
        "{}: {}", one.what,
        one.good ? fmt::format("{} as captured", counted(one.bytes, "byte", "bytes")) : "differs: " + one.difference));
  list(text, "memory", memory);
  std::vector<std::string> errors;
  for (const auto& [name, change] : report.error_counters()) errors.push_back(fmt::format("{} {:+}", name, change));
  if (!report.counters.empty() && errors.empty()) text += "counters: no errors\n";
  list(text, "error counters", errors);
  list(text, "findings", report.findings);
  list(text, "notes", report.notes);
  if (!report.recorded.empty()) text += fmt::format("recorded  {}\n", report.recorded);
  return text;
}

nlohmann::ordered_json json_of(const Report& report) {
  using Json = nlohmann::ordered_json;
  const auto messages = [](const Report::Messages& one) {
    return Json{{"all", one.all}, {"begun", one.begun}, {"completed", one.done}};
  };
  Json divergences = Json::array(), memory = Json::array();
  for (const Divergence& one : report.divergences)
    divergences.push_back({{"note", one.note},
                           {"captured", {{"frame", one.captured_frame}, {"text", one.captured}}},
                           {"live", {{"frame", one.live_frame}, {"text", one.live}}}});
  for (const MemoryCheck& one : report.memory)
    memory.push_back({{"region", one.what}, {"bytes", one.bytes}, {"good", one.good}, {"difference", one.difference}});
  return {
      {"connection", report.connection},
      {"side", report.side},
      {"device", report.device},
      {"good", report.good()},
      {"interrupted", report.interrupted},
      {"failure", report.failure},
      {"messages", {{"ours", messages(report.ours)}, {"theirs", messages(report.theirs)}}},
      {"sent", {{"frames", report.sent_frames}, {"bytes", report.sent_bytes}, {"retransmitted", report.counts.again}}},
      {"received", {{"frames", report.received_frames}}},
      {"recoveries", report.counts.recoveries},
      {"rnr_waits", report.counts.rnr_waits},
      {"cnps", report.counts.cnps},
      {"synthesized", report.counts.made},
      {"faults", report.faults},
      {"unused_faults", report.unused_faults},
      {"divergences", std::move(divergences)},
      {"omitted_divergences", report.divergences_left_out},
      {"memory", std::move(memory)},
      {"counters", report.counters},
      {"error_counters", report.error_counters()},
      {"findings", report.findings},
      {"notes", report.notes},
      {"recorded", report.recorded}};
}

}  // namespace rdmawire::replay::reactive
