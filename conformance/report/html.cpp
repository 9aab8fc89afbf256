#include "captures/html/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "conformance/report/page/template.hpp"
#include "conformance/report/report.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::ordered_json;

// Limits of the page. The captures and report.json contain the rest.
constexpr std::size_t first_steps = 300, last_steps = 100;  // steps of a case
constexpr std::size_t max_bytes = 256;                      // bytes of a frame
constexpr std::size_t most_frames = 20'000;

/// Dissected frames, each frame once.
class Frames {
 public:
  /// Returns the index of the frame, or nullopt if there are too many.
  std::optional<std::size_t> of(const std::vector<std::uint8_t>& frame) {
    const std::string key(frame.begin(), frame.end());
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    if (known_.size() == most_frames) return std::nullopt;
    tracking::Dissector dissector;  // a new one for each frame, because only its headers are shown
    packet_.number = known_.size() + 1;
    packet_.link = LinkType::ethernet;
    dissector.dissect(packet_, frame, static_cast<std::uint32_t>(frame.size()));
    text_ += text_.empty() ? "[" : ",";
    writer_.append(text_, packet_);
    return known_.emplace(key, known_.size()).first->second;
  }
  [[nodiscard]] std::string json() const { return text_.empty() ? "[]" : text_ + "]"; }

 private:
  std::unordered_map<std::string, std::size_t> known_;
  tracking::Packet packet_;
  output::JsonWriter writer_;
  std::string text_;
};

std::string_view group_prefix_of(const Rule& rule) {
  for (const Group& group : groups)
    if (std::ranges::find(group.rules(), rule.id, &Rule::id) != group.rules().end()) return group.prefix;
  return {};
}

/// Converts the seed to text, because JavaScript would round it.
void as_text(Json& object) { object["seed"] = fmt::to_string(object["seed"].get<std::uint64_t>()); }

Json steps_of(const Transcript& transcript, Frames& frames) {
  Json steps = steps_json(transcript);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::vector<std::uint8_t>& frame = transcript[i].frame;
    if (frame.empty()) continue;
    Json& step = steps[i];
    step["length"] = frame.size();
    if (const auto at = frames.of(frame)) step["decoded"] = *at;
    std::string hex = step["frame"].get<std::string>();
    hex.resize(std::min(hex.size(), 2 * max_bytes));
    step["frame"] = std::move(hex);
  }
  return steps;
}

}  // namespace

std::string to_html(const Report& report, std::string_view captures) {
  Frames frames;
  Json json = to_json(report);
  as_text(json);
  json["groups"] = Json::array();
  for (const Group& group : groups) json["groups"].push_back({{"name", group.prefix}, {"title", group.title}});
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const CaseResult& result = report.results[i];
    Json& one = json["cases"][i];
    as_text(one);
    one["group"] = group_prefix_of(*result.of->rule);
    if (!result.of->possible_problems.empty()) one["possible_problems"] = result.of->possible_problems;
    if (!captures.empty()) one["capture"] = fmt::format("{}/{}", captures, capture_name(result));
    if (one.contains("attempts"))
      for (Json& attempt : one["attempts"]) as_text(attempt);
    one["steps"] = steps_of(abridged(result.transcript, first_steps, last_steps), frames);
  }
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace), decoded = frames.json();
  const std::string title = fmt::format("Conformance of {}", report.device);
  return captures::fill_page(
      page_template(), title,
      std::array{captures::Carried{"{{report}}", text}, captures::Carried{"{{frames}}", decoded}});
}

}  // namespace rdmawire::conformance
