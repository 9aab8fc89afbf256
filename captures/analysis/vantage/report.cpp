/// Creates the JSON report of the comparison, with its findings.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "captures/analysis/findings.hpp"
#include "captures/analysis/vantage/run.hpp"
#include "dissectors/output/value.hpp"

namespace rdmawire::captures::vantage {
namespace {

using analysis::counted;
using analysis::duration_text;
using analysis::Json;
using analysis::Severity;
using analysis::to_text;

std::string seconds(std::int64_t ns) {
  std::string text;
  output::append_seconds(text, ns);
  return text;
}
template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
Json frame_or_null(std::uint64_t frame) { return frame == 0 ? Json() : Json(frame); }

/// Formats a ratio: "12.3 %" or "0.02 %".
std::string percent(double share) {
  const double value = share * 100;
  return fmt::format("{:.{}f} %", value, value >= 9.95 ? 1 : value >= 0.0995 ? 2 : 3);
}

/// Texts of a finding about one outcome.
struct Advice {
  HopOutcome outcome;
  Severity severity;
  std::string_view what;  ///< text that follows a number of packets
  std::string_view meaning, next;
};

constexpr Advice advices[] = {
    {HopOutcome::icrc_corrupted, Severity::error, "with the ICRC corrupted on this hop",
     "A device between these two points changed data that the ICRC covers (payload, addresses, source port) without "
     "updating the ICRC. The receiver drops such packets silently.",
     "Check for a middlebox, a tunnel endpoint or faulty memory on this hop. `rdmawire dissect -V` on the downstream "
     "frames shows which change would explain the ICRC."},
    {HopOutcome::damaged, Severity::error, "damaged on this hop",
     "These packets have a bad ICRC and no matching packet upstream. Their headers were changed on this hop.",
     "Check the FCS and symbol errors of the ports on this hop. The original packets are among those lost on this "
     "hop."},
    {HopOutcome::lost, Severity::warning, "lost on this hop",
     "The packets were seen upstream but not downstream, and the receiver missed them: it sent a NAK, or they were "
     "retransmitted.",
     "Check the drop counters of the devices between these two points: buffers, discards, PFC and its watchdog, FCS "
     "errors."},
    {HopOutcome::missing, Severity::warning, "not seen downstream of this hop",
     "The packets were seen upstream but not downstream. Without acknowledgement or retransmission, network loss and "
     "capture loss cannot be distinguished.",
     "Check whether the downstream capture reports drops. Unreliable services and acknowledgements leave no other "
     "evidence."},
    {HopOutcome::address_rewritten, Severity::warning, "with addresses rewritten on this hop",
     "The packets have different addresses downstream. Address translation invalidates the ICRC unless the device "
     "updates it.",
     "Exclude RDMA from the address translation on this hop."},
    {HopOutcome::port_rewritten, Severity::warning, "with the UDP source port rewritten on this hop",
     "A device between these points overwrote the source port, which the ICRC covers and which selects the path.",
     "Check for source-port translation or load balancing on this hop."},
    {HopOutcome::dscp_rewritten, Severity::warning, "with the DSCP rewritten on this hop",
     "The packets are in a different class downstream. They may leave the lossless queue or escape ECN marking.",
     "Check the trust mode (DSCP or PCP) and the rewrite rules of the ports on this hop."},
    {HopOutcome::priority_rewritten, Severity::warning, "with the priority rewritten on this hop",
     "The packets have a different PCP (InfiniBand: SL) downstream, so PFC applies to a different class there.",
     "Check the priority maps of the ports on this hop."},
    {HopOutcome::reordered, Severity::warning, "out of order on this hop",
     "Packets of one flow were reordered between these two points. A responder without out-of-order support treats "
     "this as loss.",
     "Check for packet spraying, adaptive routing or per-packet link aggregation on this hop."},
    {HopOutcome::duplicated, Severity::warning, "duplicated on this hop",
     "One packet upstream corresponds to two packets downstream.",
     "Check for a mirror that feeds back into the network, or a loop. A downstream capture of both directions of a "
     "port has the same effect."},
    {HopOutcome::marked, Severity::info, "ECN-marked on this hop (CE)",
     "A queue on this hop exceeded its ECN threshold. The congestion is located here.",
     "Check queue depths and ECN thresholds of the devices on this hop, and the other senders that use them."},
    {HopOutcome::elsewhere, Severity::info, "of flows that were never seen downstream of this hop",
     "The downstream capture has packets between these addresses, but none of these flows. They use a different path, "
     "or all their packets are lost.",
     "Compare the source ports with those of visible flows, because source ports select equal-cost paths."},
    {HopOutcome::missed_downstream, Severity::info, "missed by the downstream capture of this hop",
     "The packets were acknowledged, or the flow continued without retransmitting them. The network delivered them, "
     "and the downstream capture lost them.",
     "Use a larger buffer or a shorter snap length for the downstream capture."},
    {HopOutcome::missed_upstream, Severity::info, "missed by the upstream capture of this hop",
     "The packets were seen downstream but not upstream. The upstream capture lost them, or they used a different "
     "path.",
     "Use a larger buffer or a shorter snap length for the upstream capture. Check whether packets are sprayed over "
     "several paths."},
    {HopOutcome::captured_twice, Severity::info, "captured twice upstream of this hop",
     "The upstream capture has the packets twice, too close in time for a retransmission.",
     "Mirror only one direction of the port."},
};

/// Returns short labels of the captures: "node0" and "node1" for "/x/job7_node0.pcap" and "/x/job7_node1.pcap".
std::vector<std::string> labels_of(const Comparison& c) {
  std::vector<std::string> names;
  for (const Survey& survey : c.surveys) {
    std::string name = survey.name.substr(survey.name.rfind('/') + 1);
    for (const std::string_view ending : {".gz", ".zst", ".pcap", ".pcapng", ".cap"})
      if (name.size() > ending.size() && name.ends_with(ending)) name.resize(name.size() - ending.size());
    names.push_back(std::move(name));
  }
  const auto distinct = [](const std::vector<std::string>& some) {
    return std::set<std::string>(some.begin(), some.end()).size() == some.size();
  };
  if (names.empty() || !distinct(names)) {
    names.clear();
    for (const Survey& survey : c.surveys) names.push_back(survey.name);
    return names;
  }
  // Remove the common prefix up to a separator.
  std::size_t common = names.front().size();
  for (const std::string& name : names) {
    common = std::min(common, name.size());
    while (name.compare(0, common, names.front(), 0, common) != 0) --common;
  }
  while (common && std::string_view("_-. ").find(names.front()[common - 1]) == std::string_view::npos) --common;
  std::vector<std::string> shorter;
  for (const std::string& name : names) shorter.push_back(name.substr(common));
  if (std::none_of(shorter.begin(), shorter.end(), [](const std::string& name) { return name.empty(); }))
    return shorter;
  return names;
}

std::string flow_text(const FlowKey& flow) {
  if (TcpFlow::is(flow)) {
    const TcpFlow ports = TcpFlow::of(flow);
    return fmt::format("{}:{} → {}:{}", to_text(flow.from), ports.source, to_text(flow.to), ports.destination);
  }
  return fmt::format("{} → {} QP {:#x}", to_text(flow.from), to_text(flow.to), flow.number);
}

struct Finding {
  Severity severity = Severity::info;
  std::string kind, flow_name, title, meaning, next;
  Json from, to, upstream, downstream;  ///< null: does not apply
  std::uint64_t packets = 0;
  double share = -1;
  Json first_time, last_time;
  Json frames = Json::array();
  Json worst = Json::array();
  double weight = 0;  ///< order among findings of the same severity: greater is worse
};

class Report {
 public:
  explicit Report(const Comparison& comparison) : c_(comparison), names_(labels_of(comparison)) {}

  Json make() {
    Json points = Json::array(), clocks = Json::array(), paths = Json::array(), hops = Json::array();
    for (std::size_t i = 0; i < c_.surveys.size(); ++i) points.push_back(point(i));
    for (const PairOfPoints& pair : c_.layout->pairs()) clocks.push_back(clock(pair));
    for (const CapturePath& path : c_.layout->paths())
      if (path.points.size() > 1) paths.push_back(way_json(path));
    std::vector<const Hop*> order;
    for (const Hop& h : c_.ledger->hops()) order.push_back(&h);
    std::sort(order.begin(), order.end(), [this](const Hop* a, const Hop* b) { return place(*a) < place(*b); });
    for (const Hop* h : order) {
      hops.push_back(hop(*h));
      if (!h->plain_tcp) find(*h);
    }
    find_delays();
    find_edges();
    find_points();
    find_clocks();
    find_orders();
    std::stable_sort(findings_.begin(), findings_.end(), [](const Finding& a, const Finding& b) {
      return std::pair(a.severity, a.weight) > std::pair(b.severity, b.weight);
    });
    Json findings = Json::array();
    for (const Finding& f : findings_) findings.push_back(finding(f, findings.size() + 1));
    return Json{{"schema", "rdmawire.analysis/2"},
                {"program", "rdmawire " RDMAWIRE_VERSION},
                {"capture_points",
                 {{"points", std::move(points)},
                  {"identity", c_.identity == IdentityBy::icrc ? "icrc" : "headers"},
                  {"window_ns", c_.matcher_options.window},
                  {"packets", c_.ledger->followed()},
                  {"exact", c_.evaluated_early + c_.ledger->skipped() + c_.unidentified == 0},
                  {"evaluated_early", c_.evaluated_early},
                  {"skipped", c_.ledger->skipped()},
                  {"unidentified", c_.unidentified},
                  {"clocks", std::move(clocks)},
                  {"paths", std::move(paths)},
                  {"hops", std::move(hops)},
                  {"findings", std::move(findings)}}}};
  }

 private:
  [[nodiscard]] std::string name(std::size_t capture) const { return names_[capture]; }
  [[nodiscard]] static std::string direction_text(const FlowKey& d) { return to_text(d.from) + " → " + to_text(d.to); }
  [[nodiscard]] std::string flow_name(const Hop& h) const {
    return fmt::format("{}   {} → {}", direction_text(h.direction), name(h.upstream), name(h.downstream));
  }

  /// Returns the sort key of a hop: the path, then the position along the path.
  [[nodiscard]] std::array<std::size_t, 4> place(const Hop& h) const {
    const CapturePath* path = c_.layout->path(h.direction);
    const auto at = [path](std::size_t capture) {
      return static_cast<std::size_t>(std::find(path->points.begin(), path->points.end(), capture) -
                                      path->points.begin());
    };
    return {h.plain_tcp, static_cast<std::size_t>(path - c_.layout->paths().data()), at(h.upstream), at(h.downstream)};
  }

  Json point(std::size_t i) {
    const Survey& s = c_.surveys[i];
    const Ledger::Point& seen = c_.ledger->points()[i];
    return Json{{"point", i},
                {"name", names_[i]},
                {"file", s.name},
                {"packets", s.packets},
                {"bytes", s.bytes},
                {"rdma", s.rdma},
                {"tcp", s.tcp},
                {"first_time", s.packets ? Json(seconds(s.first_time)) : Json()},
                {"last_time", s.packets ? Json(seconds(s.last_time)) : Json()},
                {"lost_by_capture", or_null(s.lost_by_capture)},
                {"compared", static_cast<bool>(c_.layout->connected()[i])},
                {"followed", seen.packets},
                {"shared", seen.shared},
                {"host", c_.layout->host()[i] ? Json(to_text(*c_.layout->host()[i])) : Json()},
                {"error", s.error.empty() ? Json() : Json(s.error)}};
  }

  Json clock(const PairOfPoints& pair) {
    const ClockEstimate& e = pair.clock;
    return Json{{"first", pair.first},
                {"second", pair.second},
                {"shared", pair.shared},
                {"at", seconds(e.at)},
                {"offset_ns", e.offset},
                {"low_ns", or_null(e.low)},
                {"high_ns", or_null(e.high)},
                {"drift_ppm", e.drift},
                {"drift_low_ppm", or_null(e.drift_low)},
                {"drift_high_ppm", or_null(e.drift_high)},
                {"unsteady_ns", e.unsteady},
                {"declared_synchronized", c_.layout_options.synchronized}};
  }

  Json way_json(const CapturePath& path) {
    Json by = Json::array();
    for (const OrderBy order : path.order) by.push_back(to_string(order));
    return Json{{"from", to_text(path.direction.from)},
                {"to", to_text(path.direction.to)},
                {"points", path.points},
                {"order_by", std::move(by)}};
  }

  /// Returns bounds of the true shortest delay, as far as the clocks determine them.
  [[nodiscard]] std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> shortest(const Hop& h) const {
    if (h.seen == 0) return {};
    if (c_.layout_options.synchronized) return {h.shortest, h.shortest};
    const PairOfPoints* pair = c_.layout->pair(h.upstream, h.downstream);
    if (!pair || !pair->clock.low || !pair->clock.high) return {};
    const ClockEstimate& e = pair->clock;
    // The interval is relative to the estimated offset. It must be relative to the offset with which this pair was
    // aligned.
    std::int64_t other = e.at;
    for (int i = 0; i < 3; ++i)
      other += c_.layout->aligned(pair->first, e.at) - c_.layout->aligned(pair->second, other);
    const std::int64_t used = other - e.at;
    const bool along = h.upstream == pair->first;
    const std::int64_t low = along ? h.shortest + used - *e.high : h.shortest - used + *e.low;
    const std::int64_t high = along ? h.shortest + used - *e.low : h.shortest - used + *e.high;
    return {std::max<std::int64_t>(low, 0), std::max<std::int64_t>(high, 0)};
  }

  [[nodiscard]] std::optional<std::int64_t> round_trip(const Hop& h) const {
    for (const Hop& back : c_.ledger->hops())
      if (back.direction == h.direction.reversed(0) && back.upstream == h.downstream && back.downstream == h.upstream &&
          back.plain_tcp == h.plain_tcp && back.seen && h.seen)
        return h.shortest + back.shortest;
    return std::nullopt;
  }

  static Json frames_of(const ResultCounters& tally) {
    Json frames = Json::array();
    for (const FramePair& pair : tally.frames)
      frames.push_back({{"upstream", frame_or_null(pair.upstream)}, {"downstream", frame_or_null(pair.downstream)}});
    return frames;
  }

  /// Returns a quantile of the delays, relative to the shortest delay of all packets.
  static std::int64_t delay(const Hop& h, unsigned permille) {
    return static_cast<std::int64_t>(h.delays.quantile(permille)) + h.base - h.shortest;
  }

  Json hop(const Hop& h) {
    Json outcomes = Json::object();
    for (std::size_t i = 0; i < hop_outcomes; ++i) {
      const ResultCounters& tally = h.tallies[i];
      if (tally.packets == 0) continue;
      outcomes[std::string(to_string(static_cast<HopOutcome>(i)))] = {{"packets", tally.packets},
                                                                      {"bytes", tally.bytes},
                                                                      {"first_time", seconds(tally.first_time)},
                                                                      {"last_time", seconds(tally.last_time)},
                                                                      {"frames", frames_of(tally)}};
    }
    const auto [low, high] = shortest(h);
    Json delays;
    if (h.seen)
      delays = {{"count", h.delays.count()},
                {"shortest_low_ns", or_null(low)},
                {"shortest_high_ns", or_null(high)},
                {"round_trip_ns", or_null(round_trip(h))},
                {"p50_ns", delay(h, 500)},
                {"p90_ns", delay(h, 900)},
                {"p99_ns", delay(h, 990)},
                {"p999_ns", delay(h, 999)},
                {"max_ns", h.slowest_delay - h.shortest},
                {"slowest", {{"upstream", h.slowest.upstream}, {"downstream", h.slowest.downstream}}}};
    return Json{{"from", to_text(h.direction.from)},
                {"to", to_text(h.direction.to)},
                {"upstream", h.upstream},
                {"downstream", h.downstream},
                {"adjacent", h.adjacent},
                {"traffic", h.plain_tcp ? "tcp" : "rdma"},
                {"seen", h.seen},
                {"bytes", h.bytes},
                {"ecn_capable", h.capable},
                {"hops_least", h.ttl_least <= h.ttl_most ? Json(h.ttl_least) : Json()},
                {"hops_most", h.ttl_least <= h.ttl_most ? Json(h.ttl_most) : Json()},
                {"outcomes", std::move(outcomes)},
                {"delay", std::move(delays)}};
  }

  static Json finding(const Finding& f, std::size_t rank) {
    return Json{{"rank", rank},
                {"severity", to_string(f.severity)},
                {"kind", f.kind},
                {"flow", f.flow_name},
                {"title", f.title},
                {"from", f.from},
                {"to", f.to},
                {"upstream", f.upstream},
                {"downstream", f.downstream},
                {"packets", f.packets},
                {"share", f.share < 0 ? Json() : Json(f.share)},
                {"first_time", f.first_time},
                {"last_time", f.last_time},
                {"frames", f.frames},
                {"worst", f.worst},
                {"meaning", f.meaning},
                {"next", f.next}};
  }

  [[nodiscard]] Json worst_of(const ResultCounters& tally) const {
    Json worst = Json::array();
    auto units = tally.units;
    std::stable_sort(units.begin(), units.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [unit, packets] : units)
      if (worst.size() < 5) worst.push_back({{"flow", flow_text(c_.ledger->flow(unit))}, {"packets", packets}});
    return worst;
  }

  Finding on(const Hop& h) const {
    Finding f;
    f.flow_name = flow_name(h);
    f.from = to_text(h.direction.from);
    f.to = to_text(h.direction.to);
    f.upstream = h.upstream;
    f.downstream = h.downstream;
    return f;
  }

  void find(const Hop& h) {
    std::uint64_t offered = h.seen;
    for (const HopOutcome outcome :
         {HopOutcome::lost, HopOutcome::missing, HopOutcome::missed_downstream, HopOutcome::missed_upstream})
      offered += h.of(outcome).packets;
    for (const Advice& advice : advices) {
      const ResultCounters& tally = h.of(advice.outcome);
      if (tally.packets == 0) continue;
      Finding f = on(h);
      f.severity = advice.severity;
      f.kind = to_string(advice.outcome);
      f.packets = tally.packets;
      const std::uint64_t all = advice.outcome == HopOutcome::marked ? h.capable : std::max(offered, tally.packets);
      if (all && tally.packets <= all) f.share = static_cast<double>(tally.packets) / static_cast<double>(all);
      f.title = fmt::format("{} {}", counted(tally.packets, "packet", "packets"), advice.what);
      if (f.share >= 0)
        f.title += fmt::format(" ({}{})", percent(f.share),
                               advice.outcome == HopOutcome::marked ? " of ECN-capable packets" : "");
      if (advice.outcome == HopOutcome::lost && tally.named)
        f.title += fmt::format(", {} reported by NAKs", tally.named);
      f.first_time = seconds(tally.first_time);
      f.last_time = seconds(tally.last_time);
      f.frames = frames_of(tally);
      f.worst = worst_of(tally);
      f.meaning = advice.meaning;
      f.next = advice.next;
      f.weight = static_cast<double>(tally.packets);
      findings_.push_back(std::move(f));
    }
  }

  /// Adds one finding about all hops on which packets waited in queues, worst first.
  void find_delays() {
    constexpr std::int64_t remarkable = 100'000, bad = 1'000'000;
    constexpr std::uint64_t enough = 100;
    std::vector<const Hop*> slow;
    for (const Hop& h : c_.ledger->hops())
      if (!h.plain_tcp && h.adjacent && h.seen >= enough && delay(h, 990) >= remarkable) slow.push_back(&h);
    if (slow.empty()) return;
    std::sort(slow.begin(), slow.end(), [this](const Hop* a, const Hop* b) {
      return std::pair(delay(*b, 990), place(*a)) < std::pair(delay(*a, 990), place(*b));
    });
    const Hop& h = *slow.front();
    const std::int64_t p99 = delay(h, 990);
    Finding f = on(h);
    f.severity = p99 >= bad ? Severity::warning : Severity::info;
    f.kind = "delayed";
    f.packets = h.seen;
    f.title = fmt::format("{} above the shortest delay (p99), maximum {}, median {}", duration_text(p99),
                          duration_text(h.slowest_delay - h.shortest), duration_text(delay(h, 500)));
    f.first_time = f.last_time = seconds(h.slowest_time);
    f.frames.push_back({{"upstream", h.slowest.upstream}, {"downstream", h.slowest.downstream}});
    for (const Hop* one : slow)
      if (one != &h && f.worst.size() < 5)
        f.worst.push_back({{"flow", fmt::format("{}, {} (p99)", flow_name(*one), duration_text(delay(*one, 990)))},
                           {"packets", one->seen}});
    f.meaning =
        "Packets wait on this hop: in queues of the network, while paused by PFC, or in the hosts that captured them. "
        "Clock offsets have no influence on these delays, only drift has.";
    f.next =
        "The frames are those of the slowest packet. Compare the hops of the same path: the hop with the longest "
        "delays contains the queue.";
    f.weight = static_cast<double>(p99) / 1e9;
    findings_.push_back(std::move(f));
  }

  void find_edges() {
    for (const Edge& edge : c_.ledger->edges()) {
      const std::string point = name(edge.point);
      Finding f;
      f.severity = Severity::warning;
      f.kind = edge.downstream ? "lost_after_last" : "lost_before_first";
      f.from = to_text(edge.direction.from);
      f.to = to_text(edge.direction.to);
      (edge.downstream ? f.upstream : f.downstream) = edge.point;
      f.flow_name =
          direction_text(edge.direction) + "   " + (edge.downstream ? point + " → receiver" : "sender → " + point);
      f.packets = edge.tally.packets;
      f.title =
          fmt::format("{} lost {}", counted(f.packets, "packet", "packets"),
                      edge.downstream ? "downstream of the last capture point" : "upstream of the first capture point");
      f.first_time = seconds(edge.tally.first_time);
      f.last_time = seconds(edge.tally.last_time);
      f.frames = frames_of(edge.tally);
      f.worst = worst_of(edge.tally);
      f.meaning =
          edge.downstream
              ? "The receiver sent NAKs for packets that passed the last capture point in order. They were lost "
                "between this point and the receiver, or in the receiver."
              : "The receiver sent NAKs for packets that no capture point saw. They were lost between the sender "
                "and the first point. The frames are those of the packets before the gaps.";
      f.next = edge.downstream ? "Check the receiver's port and device: rx_discards_phy, rx_prio*_discards, "
                                 "rx_icrc_encapsulated."
                               : "Check the sender's port and its first link. Capture closer to the sender.";
      f.weight = static_cast<double>(f.packets);
      findings_.push_back(std::move(f));
    }
  }

  void find_points() {
    for (std::size_t i = 0; i < c_.surveys.size(); ++i) {
      const Survey& s = c_.surveys[i];
      if (c_.layout->connected()[i]) continue;
      Finding f;
      f.severity = Severity::error;
      f.kind = "unrelated";
      f.flow_name = name(i);
      f.upstream = i;
      f.title = s.rdma + s.tcp == 0 ? "contains no RDMA packets and cannot be compared"
                                    : "shares no packet with the other captures";
      f.packets = s.rdma;
      std::string overlap;
      for (std::size_t j = 0; j < c_.surveys.size(); ++j)
        if (j != i && s.first_time <= c_.surveys[j].last_time && c_.surveys[j].first_time <= s.last_time)
          overlap = "its times overlap with other captures";
      f.meaning =
          s.rdma + s.tcp == 0
              ? "The capture contains neither RDMA nor TCP."
              : fmt::format(
                    "The capture has no packet in common with the other captures. It was taken on a different "
                    "path or at a different time ({}). The comparison omits it.",
                    overlap.empty() ? "its times overlap with no other capture, if the clocks are right" : overlap);
      f.next =
          "Run `rdmawire analyze` on each file to check its addresses and times. A tunnel or a filter can hide the "
          "packets.";
      f.weight = 1e18;
      findings_.push_back(std::move(f));
    }
    const std::uint64_t not_exact = c_.evaluated_early + c_.ledger->skipped();
    if (not_exact) {
      Finding f;
      f.kind = "inexact";
      f.flow_name = "this comparison";
      f.packets = not_exact;
      f.title = fmt::format("{} evaluated early or skipped because a table was full",
                            counted(not_exact, "packet", "packets"));
      f.meaning = "The window contains more packets than the tables hold. Later observations count as missing.";
      f.next = "Use a shorter --window, or a --filter.";
      findings_.push_back(std::move(f));
    }
    if (c_.unidentified) {
      Finding f;
      f.kind = "unidentified";
      f.flow_name = "this comparison";
      f.packets = c_.unidentified;
      f.title = fmt::format("{} too short to be identified", counted(c_.unidentified, "packet", "packets"));
      f.meaning = "The captures truncate these packets before the end of the headers or the ICRC.";
      f.next = "Capture at least 128 bytes of each packet.";
      findings_.push_back(std::move(f));
    }
  }

  void find_clocks() {
    for (const PairOfPoints& pair : c_.layout->pairs()) {
      const ClockEstimate& e = pair.clock;
      Finding f;
      f.flow_name = fmt::format("{}, {}", name(pair.first), name(pair.second));
      f.upstream = pair.first;
      f.downstream = pair.second;
      if (c_.layout_options.synchronized && e.low && e.high && (*e.low > 0 || *e.high < 0)) {
        f.severity = Severity::warning;
        f.kind = "not_synchronized";
        const std::int64_t least = *e.low > 0 ? *e.low : -*e.high;
        f.title = fmt::format("the clocks differ by at least {}, although declared synchronized", duration_text(least));
        f.meaning =
            "According to these clocks, packets arrive before they are sent. One-way delays are wrong by this amount.";
        f.next = "Omit --clocks, so that the offset is estimated from the packets. Check PTP on both hosts.";
        f.weight = static_cast<double>(least);
        findings_.push_back(std::move(f));
      } else if (e.unsteady) {
        f.kind = "unsteady_clock";
        f.title = fmt::format("the packets contradict a steady clock by {}", duration_text(e.unsteady));
        f.meaning = "A clock was stepped or slewed during the capture. This limits the accuracy of offset and delays.";
        f.next = "Compare shorter periods (--filter by time), or captures with hardware timestamps.";
        f.weight = static_cast<double>(e.unsteady) / 1e9;
        findings_.push_back(std::move(f));
      }
    }
  }

  void find_orders() {
    std::size_t unknown = 0;
    std::string first;
    for (const CapturePath& path : c_.layout->paths())
      for (std::size_t k = 1; k < path.points.size(); ++k)
        if (path.order[k - 1] == OrderBy::file_order) {
          if (unknown++ == 0)
            first = fmt::format("{}: {}, {}", direction_text(path.direction), name(path.points[k - 1]),
                                name(path.points[k]));
        }
    if (unknown == 0) return;
    Finding f;
    f.kind = "order_unknown";
    f.flow_name = first;
    f.title = unknown == 1
                  ? "unknown which point is closer to the sender"
                  : fmt::format("unknown which point is closer to the sender, here and in {} more cases", unknown - 1);
    f.meaning =
        "TTLs are equal, and there are too few packets or packets of only one direction. The order of the files is "
        "used.";
    f.next = "Specify the order along the path: --order.";
    findings_.push_back(std::move(f));
  }

  const Comparison& c_;
  std::vector<std::string> names_;
  std::vector<Finding> findings_;
};

}  // namespace

Json report_of(const Comparison& comparison) { return Report(comparison).make(); }

}  // namespace rdmawire::captures::vantage
