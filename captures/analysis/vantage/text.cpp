/// Creates the text form of the comparison.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "captures/analysis/findings.hpp"
#include "captures/analysis/text_page.hpp"
#include "captures/analysis/vantage/run.hpp"

namespace rdmawire::captures::vantage {
namespace {

using analysis::bytes_text;
using analysis::Column;
using analysis::counted;
using analysis::duration;
using analysis::duration_text;
using analysis::Json;
using analysis::number;
using analysis::word;
using output::TextStyle;

std::string_view order_text(const std::string& by) {
  if (by == "given") return "as specified";
  if (by == "ttl") return "by TTL";
  if (by == "times") return "by round-trip times";
  if (by == "end_point") return "by endpoint";
  if (by == "clocks") return "by clocks";
  return "order of files";
}

/// Formats an offset: in microseconds if it is below 1 ms, otherwise in seconds with nine decimals.
std::string offset_text(std::int64_t ns) {
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  const char sign = ns < 0 ? '-' : '+';
  if (size < 1'000'000) return fmt::format("{}{:.1f} µs", sign, static_cast<double>(size) / 1e3);
  return fmt::format("{}{}.{:09} s", sign, size / 1'000'000'000, size % 1'000'000'000);
}

class Printer : analysis::TextPage {
 public:
  Printer(std::string& out, const Json& report, const analysis::TextOptions& options)
      : TextPage(out, options), v_(report.at("capture_points")), options_(options) {}

  void print() {
    summary();
    findings();
    if (!options_.tables) return;
    hops();
    delays();
    clocks();
    paths();
  }

 private:
  [[nodiscard]] std::string name(const Json& point) const {
    return point.is_null() ? std::string() : word(v_.at("points")[number(point)].at("name"));
  }

  void summary() {
    const Json& points = v_.at("points");
    page_.put(TextStyle::strong, counted(points.size(), "capture point", "capture points")).line();
    std::size_t widest = 13;
    for (const Json& point : points) widest = std::max(widest, output::columns(word(point.at("name"))));
    widest = std::min<std::size_t>(widest, 40);
    for (const Json& point : points) {
      std::string text = fmt::format("{}, {} RDMA", counted(number(point.at("packets")), "packet", "packets"),
                                     number(point.at("rdma")));
      if (point.at("compared").get<bool>())
        text += fmt::format(", {} of these also seen at other capture points", number(point.at("shared")));
      else
        text += ", not compared";
      if (point.at("host").is_string()) text += ", captured at " + word(point.at("host"));
      if (word(point.at("file")) != word(point.at("name"))) text += ", " + word(point.at("file"));
      if (point.at("lost_by_capture").is_number() && number(point.at("lost_by_capture")))
        text += fmt::format(", capture loss {}", number(point.at("lost_by_capture")));
      labeled(analysis::cut(word(point.at("name")), widest), text, widest + 4,
              point.at("compared").get<bool>() ? TextStyle::plain : TextStyle::bad);
    }
    std::map<std::string, std::uint64_t> sums;
    std::uint64_t hops = 0;
    for (const Json& hop : v_.at("hops")) {
      if (word(hop.at("traffic")) != "rdma") continue;
      hops += hop.at("adjacent").get<bool>();
      for (const auto& [outcome, row] : hop.at("outcomes").items()) sums[outcome] += number(row.at("packets"));
    }
    const std::size_t column = widest + 4;
    page_.line();
    labeled("traffic",
            fmt::format("{} over {}", counted(number(v_.at("packets")), "RDMA packet", "RDMA packets"),
                        counted(hops, "hop", "hops")),
            column);
    labeled("lost",
            sums["lost"] + sums["missing"] == 0
                ? std::string("none")
                : fmt::format("{} in the network{}", sums["lost"],
                              sums["missing"] ? fmt::format(", {} in the network or a capture", sums["missing"]) : ""),
            column, sums["lost"] ? TextStyle::notice : TextStyle::plain);
    const std::uint64_t missed = sums["missed_downstream"] + sums["missed_upstream"];
    labeled("capture loss", missed ? fmt::format("{} missed by a capture but delivered", missed) : std::string("none"),
            column);
    labeled("ECN-marked", sums["marked"] ? fmt::format("{}", sums["marked"]) : std::string("none"), column);
    if (!v_.at("exact").get<bool>())
      labeled("inexact", "some packets were skipped: a table was full, or they were too short to be identified", column,
              TextStyle::notice);
    for (const Json& point : points)
      if (point.at("error").is_string()) labeled("read error", word(point.at("error")), column, TextStyle::bad);
  }

  void findings() {
    const Json& list = v_.at("findings");
    const bool wrong = std::any_of(list.begin(), list.end(), [](const Json& f) { return f.at("severity") != "info"; });
    heading(wrong ? "Findings, worst first" : "No problems found");
    if (!wrong) {
      labeled("", "Checked: packets lost, ECN-marked, delayed, reordered, duplicated, rewritten or damaged on a hop.",
              2);
      if (!list.empty()) page_.line().put(TextStyle::dim, "Notes").line();
    }
    std::size_t shown = 0;
    for (const Json& f : list) {
      if (shown++ == 2 * options_.rows) break;
      finding(f);
    }
    if (list.size() > shown)
      page_.line().put(TextStyle::dim, fmt::format("  and {} more findings", list.size() - shown)).line();
  }

  void finding(const Json& f) {
    finding_title(f);
    labeled("means", word(f.at("meaning")), 10);
    labeled_frames(f);
    std::string worst;
    for (const Json& row : f.at("worst"))
      worst += word(f.at("kind")) == "delayed" ? fmt::format("{}{}", worst.empty() ? "" : "; ", word(row.at("flow")))
                                               : fmt::format("{}{} {}×", worst.empty() ? "" : ", ",
                                                             word(row.at("flow")), number(row.at("packets")));
    if (!worst.empty()) labeled(word(f.at("kind")) == "delayed" ? "also" : "flows", worst, 10);
    labeled("next", word(f.at("next")), 10);
  }

  /// Prints "932, 933 of leaf1" if the frames are in one capture, or "932 → 931, 933 → 932 of leaf1 → leaf2" if they
  /// are in both.
  void labeled_frames(const Json& f) {
    constexpr std::size_t shown = 4;
    const Json& frames = f.at("frames");
    std::string text;
    for (std::size_t i = 0; i < frames.size();) {
      // Consecutive frames of the same captures form a group.
      const auto captures_of = [&](std::size_t at) {
        return std::pair(!frames[at].at("upstream").is_null(), !frames[at].at("downstream").is_null());
      };
      const auto [upstream, downstream] = captures_of(i);
      std::string names = upstream ? name(f.at("upstream")) : "";
      if (downstream) names += (upstream ? " → " : "") + name(f.at("downstream"));
      std::size_t end = i;
      for (; end < std::min(frames.size(), shown) && captures_of(end) == std::pair(upstream, downstream); ++end) {
        text += text.empty() ? "" : ", ";
        if (upstream) text += std::to_string(number(frames[end].at("upstream")));
        if (upstream && downstream) text += " → ";
        if (downstream) text += std::to_string(number(frames[end].at("downstream")));
      }
      if (end == shown && frames.size() > shown) text += ", …";
      text += " of " + names;
      if (end == shown) break;
      i = end;
    }
    if (!text.empty()) labeled("frames", text, 10);
  }

  /// Prints a table with one row per hop of RDMA traffic.
  template <class Make>
  void hop_table(std::string_view title, std::vector<Column> columns, Make make, std::string_view note) {
    std::vector<std::vector<std::string>> rows;
    std::size_t all = 0;
    for (const Json& hop : v_.at("hops")) {
      if (word(hop.at("traffic")) != "rdma") continue;
      ++all;
      if (rows.size() < 2 * options_.rows) rows.push_back(make(hop));
    }
    // Omit columns without values, except the first four.
    for (std::size_t c = columns.size(); c-- > 4;)
      if (std::all_of(rows.begin(), rows.end(), [c](const auto& row) { return row[c] == "0" || row[c] == "–"; })) {
        columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(c));
        for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
      }
    table(title, std::move(columns), std::move(rows), all, note);
  }

  [[nodiscard]] std::vector<std::string> begin_row(const Json& hop) const {
    return {word(hop.at("from")), word(hop.at("to")),
            fmt::format("{} → {}", name(hop.at("upstream")), name(hop.at("downstream")))};
  }

  void hops() {
    hop_table(
        "Hops",
        {{"from", Column::left},
         {"to", Column::left},
         {"hop", Column::left},
         {"at both"},
         {"bytes", Column::right, 5},
         {"lost"},
         {"missing"},
         {"missed up"},
         {"missed down"},
         {"elsewhere"},
         {"ECN"},
         {"DSCP"},
         {"PCP"},
         {"port"},
         {"address"},
         {"ICRC"},
         {"reordered"},
         {"doubled"}},
        [&](const Json& hop) {
          const auto outcome = [&](std::initializer_list<const char*> names) {
            std::uint64_t sum = 0;
            for (const char* one : names)
              if (hop.at("outcomes").contains(one)) sum += number(hop.at("outcomes").at(one).at("packets"));
            return fmt::format("{}", sum);
          };
          auto row = begin_row(hop);
          row.push_back(fmt::format("{}", number(hop.at("seen"))));
          row.push_back(bytes_text(hop.at("bytes")));
          row.push_back(outcome({"lost"}));
          row.push_back(outcome({"missing"}));
          row.push_back(outcome({"missed_upstream"}));
          row.push_back(outcome({"missed_downstream"}));
          row.push_back(outcome({"elsewhere"}));
          row.push_back(outcome({"marked"}));
          row.push_back(outcome({"dscp_rewritten"}));
          row.push_back(outcome({"priority_rewritten"}));
          row.push_back(outcome({"port_rewritten"}));
          row.push_back(outcome({"address_rewritten"}));
          row.push_back(outcome({"icrc_corrupted", "damaged"}));
          row.push_back(outcome({"reordered"}));
          row.push_back(outcome({"duplicated", "captured_twice"}));
          return row;
        },
        "columns without packets are omitted");
  }

  void delays() {
    hop_table(
        "Delays on each hop, relative to the shortest delay",
        {{"from", Column::left},
         {"to", Column::left},
         {"hop", Column::left},
         {"packets"},
         {"p50"},
         {"p90", Column::right, 3},
         {"p99"},
         {"p99.9", Column::right, 4},
         {"max"},
         {"shortest, one-way", Column::left, 1},
         {"round trip", Column::right, 2},
         {"hops", Column::right, 5}},
        [&](const Json& hop) {
          auto row = begin_row(hop);
          const Json& d = hop.at("delay");
          if (d.is_null()) {
            row.resize(12, "–");
            return row;
          }
          row.push_back(fmt::format("{}", number(d.at("count"))));
          for (const char* key : {"p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"})
            row.push_back(duration(d.at(key)));
          const Json &low = d.at("shortest_low_ns"), &high = d.at("shortest_high_ns");
          row.push_back(low.is_null() ? std::string("–")
                        : low == high ? duration(low)
                                      : fmt::format("{} … {}", duration(low), duration(high)));
          row.push_back(duration(d.at("round_trip_ns")));
          const Json &least = hop.at("hops_least"), &most = hop.at("hops_most");
          row.push_back(least.is_null() ? std::string("–")
                        : least == most ? fmt::format("{}", least.get<int>())
                                        : fmt::format("{}…{}", least.get<int>(), most.get<int>()));
          return row;
        },
        "one-way delays are bounds: only the round trip is independent of the clocks");
  }

  void clocks() {
    std::vector<std::vector<std::string>> rows;
    const Json& list = v_.at("clocks");
    bool declared = false;
    for (const Json& c : list) {
      if (rows.size() == options_.rows) break;
      declared |= c.at("declared_synchronized").get<bool>();
      const auto bound = [&](const char* key) {
        return c.at(key).is_null() ? std::string("?") : offset_text(c.at(key).get<std::int64_t>());
      };
      std::string drift = fmt::format("{:+.2f} ppm", c.at("drift_ppm").get<double>());
      if (c.at("drift_low_ppm").is_number())
        drift += fmt::format(" ({:+.2f} … {:+.2f})", c.at("drift_low_ppm").get<double>(),
                             c.at("drift_high_ppm").get<double>());
      rows.push_back({fmt::format("{} minus {}", name(c.at("second")), name(c.at("first"))),
                      fmt::format("{} … {}", bound("low_ns"), bound("high_ns")), drift,
                      fmt::format("{}", number(c.at("shared")))});
    }
    table("Clocks", {{"clock", Column::left}, {"offset between", Column::left}, {"drift", Column::left}, {"samples"}},
          rows, list.size(), declared ? "declared synchronized: times are not corrected" : "");
  }

  void paths() {
    std::vector<std::vector<std::string>> rows;
    const Json& list = v_.at("paths");
    for (const Json& path : list) {
      if (rows.size() == 2 * options_.rows) break;
      std::string points, by;
      for (const Json& point : path.at("points")) points += (points.empty() ? "" : " → ") + name(point);
      std::vector<std::string> evidence;
      for (const Json& order : path.at("order_by")) {
        const std::string text(order_text(word(order)));
        if (std::find(evidence.begin(), evidence.end(), text) == evidence.end()) evidence.push_back(text);
      }
      for (const std::string& text : evidence) by += (by.empty() ? "" : ", ") + text;
      rows.push_back({word(path.at("from")), word(path.at("to")), points, by});
    }
    table("Paths and the evidence for their order",
          {{"from", Column::left}, {"to", Column::left}, {"capture points", Column::left}, {"order", Column::left}},
          rows, list.size());
  }

  const Json& v_;
  const analysis::TextOptions& options_;
};

}  // namespace

std::string text_of(const Json& report, const analysis::TextOptions& options) {
  std::string out;
  Printer(out, report, options).print();
  return out;
}

}  // namespace rdmawire::captures::vantage
