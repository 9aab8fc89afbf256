#include "replay/player/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rdmawire::replay {
namespace {

struct SkipWords {
  std::string_view name, meaning;
};
constexpr SkipWords skip_words[skips] = {
    {"excluded", "not selected by the filters"},
    {"snapped",
     "truncated by the capture; --truncated pad appends zeros, --truncated shorten corrects the lengths, --truncated "
     "send sends the captured part"},
    {"too_long", "too long (--too-long truncate, shorten or fragment sends them)"},
    {"group", "broadcast or multicast destination; --allow-multicast sends them"},
    {"unmapped", "RDMA connection without a mapping (--unmapped keep sends them)"},
    {"others", "other protocols between hosts without a mapping (--others keep sends them)"},
    {"link", "link type differs from the wire"},
    {"refused", "rejected by the wire"},
    {"lane", "unknown wire"},
    {"recut", "the message cannot be resegmented to another path MTU"},
};

constexpr std::size_t most_flows = 10, most_hits = 20;  // in the text

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

// Rounded to three or four digits for display.
std::string about(std::uint64_t nanoseconds) {
  // Values that round to 1000 use the next unit.
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  if (nanoseconds < 999'500) return fmt::format("{:.3g} µs", static_cast<double>(nanoseconds) / 1e3);
  if (nanoseconds < 999'500'000) return fmt::format("{:.3g} ms", static_cast<double>(nanoseconds) / 1e6);
  return fmt::format("{:.4g} s", static_cast<double>(nanoseconds) / 1e9);
}
double per_second(std::uint64_t amount, std::int64_t nanoseconds) {
  return nanoseconds > 0 ? static_cast<double>(amount) * 1e9 / static_cast<double>(nanoseconds) : 0;
}

struct Rate {
  double frames = 0, bits = 0;  ///< per second
};
/// The period from the first to the last frame does not include the duration of the last frames.
Rate rate_of(const ReplayReport& r, std::int64_t nanoseconds) {
  return {per_second(r.sent - std::min(r.sent, r.last_frames), nanoseconds),
          per_second((r.bytes - std::min(r.bytes, r.last_bytes)) * 8, nanoseconds)};
}
/// The rate that was specified, otherwise that of the schedule.
Rate requested_rate(const ReplayReport& r) {
  Rate rate = rate_of(r, r.requested);
  if (rate.frames <= 0 || rate.bits <= 0) return rate;
  if (r.pace.kind == Pace::Kind::packets) rate = {r.pace.rate, rate.bits * r.pace.rate / rate.frames};
  if (r.pace.kind == Pace::Kind::bits) rate = {rate.frames * r.pace.rate / rate.bits, r.pace.rate};
  return rate;
}
std::string text_of(std::int64_t nanoseconds, const Rate& rate) {
  if (nanoseconds <= 0) return "0 ns";  // a single frame has no rate
  return fmt::format("{} ({:.0f} frames/s, {:.3f} Mbit/s)", about(static_cast<std::uint64_t>(nanoseconds)), rate.frames,
                     rate.bits / 1e6);
}

std::string side_name(std::uint32_t side) {
  return side < 26 ? std::string(1, static_cast<char>('a' + side)) : std::to_string(side + 1);
}

std::string name_of(const ReplayReport::Flow& flow) {
  const std::string numbered = fmt::format("connection {}", flow.number);
  if (flow.number == 0 || flow.name == numbered) return flow.name;
  return fmt::format("{} ({})", numbered, flow.name);
}

std::string to_text(const FlowReport& report) {
  std::string out = "flows      " + counted(report.flows, "flow");
  if (report.nanoseconds > 0) out += fmt::format(", {:.1f} flows/s", per_second(report.flows, report.nanoseconds));
  if (report.other_frames) out += fmt::format(", {} without IP addresses", counted(report.other_frames, "frame"));
  if (report.beyond_frames) out += fmt::format(", {} of further flows", counted(report.beyond_frames, "frame"));
  out += '\n';
  for (std::size_t i = 0; i < std::min(report.largest.size(), most_flows); ++i) {
    const FlowReport::Flow& flow = report.largest[i];
    out += fmt::format("flow       {}: {}, {} bytes", flow.who, counted(flow.frames, "frame"), flow.bytes);
    if (flow.nanoseconds > 0)
      out += fmt::format(", {:.0f} frames/s, {:.3f} Mbit/s", per_second(flow.frames, flow.nanoseconds),
                         per_second(flow.bytes * 8, flow.nanoseconds) / 1e6);
    out += '\n';
  }
  if (report.flows > most_flows)
    out += fmt::format(
        "and {} more flows (--json lists {})\n", report.flows - most_flows,
        report.flows > FlowReport::most_listed ? fmt::format("the first {}", FlowReport::most_listed) : "all");
  return out;
}

nlohmann::ordered_json to_json_value(const FlowReport& report) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const FlowReport::Flow& flow : report.largest)
    list.push_back({{"flow", flow.who},
                    {"frames", flow.frames},
                    {"bytes", flow.bytes},
                    {"frames_per_second", per_second(flow.frames, flow.nanoseconds)},
                    {"bits_per_second", per_second(flow.bytes * 8, flow.nanoseconds)}});
  return {{"flows", report.flows},
          {"flows_per_second", per_second(report.flows, report.nanoseconds)},
          {"frames_without_addresses", report.other_frames},
          {"frames_of_further_flows", report.beyond_frames},
          {"list", std::move(list)}};
}

}  // namespace

std::string_view to_string(Skip why) { return skip_words[static_cast<std::size_t>(why)].name; }
std::string_view meaning(Skip why) { return skip_words[static_cast<std::size_t>(why)].meaning; }

std::uint64_t ReplayReport::unable() const {
  std::uint64_t frames = 0;
  for (const Skip why : {Skip::snapped, Skip::too_long, Skip::link, Skip::refused, Skip::lane})
    frames += skip(why).frames;
  return frames;
}

bool ReplayReport::unused_fault() const {
  return std::any_of(faults.begin(), faults.end(), [](const Rule& rule) { return rule.unused() && !rule.random; });
}

std::string to_text(const ReplayReport& r) {
  std::string out = fmt::format("sent {}, {} bytes", counted(r.sent, "frame"), r.bytes);
  if (r.loops > 1) out += fmt::format(", in {} loops", r.loops);
  if (r.interrupted) out += "; interrupted";
  out += '\n';
  if (!r.trouble.empty()) out += "error      " + r.trouble + '\n';
  if (r.timed && r.sent > 0) {
    out += "requested  " + text_of(r.requested, requested_rate(r)) + '\n';
    out += "achieved   " + text_of(r.achieved, rate_of(r, r.achieved)) + '\n';
    out += fmt::format("lateness   p50 {}, p99 {}, max {}\n", about(r.lateness.quantile(500)),
                       about(r.lateness.quantile(990)), about(r.lateness.max()));
  } else if (r.waited && r.sent > 0) {
    out += "achieved   " + text_of(r.achieved, rate_of(r, r.achieved)) + '\n';
  }
  if (const auto& left = r.departures; left.frames != 0) {
    out +=
        fmt::format("left       {} frames by the clock of the {}: {} p50 {}, p99 {}, max {}", left.frames, left.source,
                    left.source == "device" ? "later than the first" : "lateness", about(left.lateness.quantile(500)),
                    about(left.lateness.quantile(990)), about(left.lateness.max()));
    out += fmt::format(", spacing error p50 {}, p99 {}, max {}\n", about(left.spacing.quantile(500)),
                       about(left.spacing.quantile(990)), about(left.spacing.max()));
    if (left.early) out += fmt::format("early      {} left before their time\n", counted(left.early, "frame"));
  }
  if (r.lanes.size() > 1)
    for (const auto& lane : r.lanes)
      out += fmt::format("wire       {}: {} frames, {} bytes\n", lane.wire, lane.frames, lane.bytes);
  for (const auto& lane : r.lanes)
    if (lane.left != lane.frames)
      out += fmt::format("lost       {}: {} frames accepted, {} sent\n", lane.wire, lane.frames, lane.left);
  for (std::size_t i = 0; i < skips; ++i) {
    const auto& skipped = r.skipped[i];
    if (skipped.frames == 0) continue;
    out += fmt::format("not sent   {}, the first {}: {}", counted(skipped.frames, "frame"), skipped.first_frame,
                       skip_words[i].meaning);
    if (!skipped.example.empty()) out += " (" + skipped.example + ")";
    out += '\n';
  }
  if (r.converted) out += fmt::format("converted  {} frames to Ethernet\n", r.converted);
  if (r.truncated) out += fmt::format("truncated  {} frames\n", r.truncated);
  if (r.shortened) out += fmt::format("shortened  {}, with valid lengths\n", counted(r.shortened, "frame"));
  if (r.fragmented)
    out += fmt::format("fragmented {} into {} fragments\n", counted(r.fragmented, "packet"), r.fragments);
  if (r.padded) out += fmt::format("padded     {} frames truncated by the capture\n", r.padded);
  if (r.fcs) {
    out += fmt::format("fcs        {} with a frame check sequence", counted(r.fcs, "frame"));
    out += r.fcs_removed ? fmt::format(", which was removed\n")
                         : fmt::format(", recomputed in {} (--fcs remove removes it)\n", r.fcs_changed);
  }
  if (r.divided_pdus)
    out += fmt::format("unchanged  {} iWARP PDUs in several frames: their STags were not rewritten\n", r.divided_pdus);
  for (std::size_t i = 0; i < std::min(r.flows.size(), most_flows); ++i) {
    const auto& flow = r.flows[i];
    out += fmt::format("{}  {}: {} and {} frames\n", name_of(flow), flow.who, flow.frames[0], flow.frames[1]);
    if (!flow.live.empty()) out += fmt::format("  sent as  {}\n", flow.live);
  }
  if (r.flows.size() > most_flows) {
    std::array<std::uint64_t, 2> frames{};
    for (std::size_t i = most_flows; i < r.flows.size(); ++i)
      for (std::size_t end = 0; end < frames.size(); ++end) frames[end] += r.flows[i].frames[end];
    out += fmt::format("and {} more connections: {} and {} frames (--json lists all)\n", r.flows.size() - most_flows,
                       frames[0], frames[1]);
  }
  if (r.flow_statistics) out += to_text(*r.flow_statistics);
  for (const auto& rule : r.faults) {
    out += fmt::format("fault      {}: {} done", rule.text, rule.count.done);
    if (rule.count.undoable) out += fmt::format(", {} not possible ({})", rule.count.undoable, rule.reason);
    if (rule.unused() && !rule.count.undoable) out += ", never applied: " + rule.reason;
    out += '\n';
  }
  for (std::size_t i = 0; i < std::min(r.fault_hits.size(), most_hits); ++i) {
    const FaultHit& hit = r.fault_hits[i];
    out += (hit.loop > 1 ? fmt::format("loop {}, ", hit.loop) : "") + hit.text + '\n';
  }
  if (const std::uint64_t all = r.fault_hits.size() + r.fault_hits_omitted; all > most_hits)
    out += fmt::format("and {} more effects of faults (--json lists {})\n", all - most_hits,
                       r.fault_hits_omitted ? fmt::format("the first {}", r.fault_hits.size()) : "all");
  if (r.chance) out += fmt::format("seed       {}\n", r.fault_seed);
  return out;
}

std::string to_json(const ReplayReport& r) {
  using nlohmann::ordered_json;
  ordered_json json;
  json["rdmawire"] = "replay 1";
  json["sent"] = {{"frames", r.sent}, {"bytes", r.bytes}};
  json["read"] = r.read;
  json["loops"] = r.loops;
  json["interrupted"] = r.interrupted;
  json["error"] = r.trouble.empty() ? ordered_json(nullptr) : ordered_json(r.trouble);
  auto side = [&](std::int64_t nanoseconds, const Rate& rate) {
    return ordered_json{
        {"nanoseconds", nanoseconds}, {"frames_per_second", rate.frames}, {"bits_per_second", rate.bits}};
  };
  json["requested"] = r.timed ? side(r.requested, requested_rate(r)) : ordered_json(nullptr);
  json["achieved"] = r.waited ? side(r.achieved, rate_of(r, r.achieved)) : ordered_json(nullptr);
  json["lateness"] = r.timed ? ordered_json{{"p50", r.lateness.quantile(500)},
                                            {"p99", r.lateness.quantile(990)},
                                            {"max", r.lateness.max()}}
                             : ordered_json(nullptr);
  const auto quantiles = [](const captures::analysis::Histogram& times) {
    return ordered_json{{"p50", times.quantile(500)}, {"p99", times.quantile(990)}, {"max", times.max()}};
  };
  if (const auto& left = r.departures; left.frames != 0)
    json["departures"] = {{"source", left.source},
                          {"frames", left.frames},
                          {"early", left.early},
                          {"lateness", quantiles(left.lateness)},
                          {"spacing_error", quantiles(left.spacing)}};
  json["skipped"] = ordered_json::object();
  for (std::size_t i = 0; i < skips; ++i) {
    const auto& skipped = r.skipped[i];
    if (skipped.frames == 0) continue;
    json["skipped"][std::string(skip_words[i].name)] = {
        {"frames", skipped.frames},
        {"first_frame", skipped.first_frame},
        {"reason", skipped.example.empty() ? std::string(skip_words[i].meaning) : skipped.example}};
  }
  json["rewritten"] = r.rewritten;
  json["converted"] = r.converted;
  json["truncated"] = r.truncated;
  json["padded"] = r.padded;
  json["shortened"] = r.shortened;
  json["fragmented"] = {{"packets", r.fragmented}, {"fragments", r.fragments}};
  json["fcs"] = {{"frames", r.fcs}, {"changed", r.fcs_changed}};
  json["divided_pdus"] = r.divided_pdus;
  json["wires"] = ordered_json::array();
  for (const auto& lane : r.lanes)
    json["wires"].push_back(
        {{"wire", lane.wire}, {"frames", lane.frames}, {"bytes", lane.bytes}, {"transmitted", lane.left}});
  json["connections"] = ordered_json::array();
  for (const auto& flow : r.flows)
    json["connections"].push_back({{"name", flow.name},
                                   {"number", flow.number ? ordered_json(flow.number) : ordered_json(nullptr)},
                                   {"endpoints", flow.who},
                                   {"live_endpoints", flow.live.empty() ? flow.who : flow.live},
                                   {"frames", {flow.frames[0], flow.frames[1]}},
                                   {"bytes", {flow.bytes[0], flow.bytes[1]}}});
  if (r.flow_statistics) json["flow_statistics"] = to_json_value(*r.flow_statistics);
  json["faults"] = ordered_json::array();
  for (const auto& rule : r.faults)
    json["faults"].push_back({{"rule", rule.text},
                              {"selected", rule.count.picked},
                              {"applied", rule.count.done},
                              {"failed", rule.count.undoable},
                              {"reason", rule.reason.empty() ? ordered_json(nullptr) : ordered_json(rule.reason)}});
  json["fault_log"] = ordered_json::array();
  for (const FaultHit& hit : r.fault_hits) {
    const FrameCoordinates& at = hit.entry.coordinates;
    FrameCoordinates place = at;
    place.connection = 0;
    json["fault_log"].push_back(
        {{"frame", hit.entry.frame},
         {"loop", hit.loop},
         {"side", side_name(hit.entry.side)},
         {"connection", at.connection ? ordered_json(at.connection) : ordered_json(nullptr)},
         {"position",
          at.kind == FrameCoordinates::Kind::other ? ordered_json(nullptr) : ordered_json(to_string(place))},
         {"rule", hit.entry.rule + 1},
         {"applied", hit.entry.done},
         {"effect", hit.entry.what}});
  }
  json["fault_log_omitted"] = r.fault_hits_omitted;
  if (r.previews) {
    json["frames"] = ordered_json::array();
    for (const FramePreview& preview : *r.previews) {
      ordered_json changes = ordered_json::array();
      for (const FieldChange& change : preview.changes)
        changes.push_back({{"field", change.field}, {"captured", change.before}, {"sent", change.after}});
      json["frames"].push_back({{"frame", preview.frame},
                                {"loop", preview.loop},
                                {"sent", preview.sent},
                                {"reason", preview.sent ? ordered_json(nullptr) : ordered_json(preview.not_sent)},
                                {"wire", preview.wire.empty() ? ordered_json(nullptr) : ordered_json(preview.wire)},
                                {"changes", std::move(changes)}});
    }
    json["frames_omitted"] = r.previews_omitted;
  }
  json["seed"] = r.chance ? ordered_json(r.fault_seed) : ordered_json(nullptr);
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rdmawire::replay
