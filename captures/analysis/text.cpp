/// Creates the text form of the report.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "captures/analysis/memory.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/text_page.hpp"
#include "dissectors/output/text_style.hpp"
#include "dissectors/output/value.hpp"

namespace rdmawire::captures::analysis {
namespace {

using output::TextStyle;

/// Formats a message size. Multiples of 1 KiB and 1 MiB have these units, because applications often use such sizes.
std::string size_text(const Json& value) {
  if (!value.is_number()) return "–";
  const auto size = value.get<std::uint64_t>();
  if (size >= 1U << 20 && size % (1U << 20) == 0) return fmt::format("{} MiB", size >> 20);
  if (size >= 1U << 10 && size % (1U << 10) == 0) return fmt::format("{} KiB", size >> 10);
  return fmt::format("{}", size);
}

std::string inexact_text(const Json& input) {
  const Json& evicted = input.at("evicted");
  std::string text = fmt::format("{} and {} evicted, {} not counted",
                                 counted(number(evicted.at("connections")), "connection", "connections"),
                                 counted(number(evicted.at("packets")), "packet", "packets"),
                                 counted(number(input.at("skipped")), "table entry", "table entries"));
  if (input.at("memory").is_number())
    text += fmt::format(": limit of {}, set with --memory", memory_text(input.at("memory").get<std::uint64_t>()));
  return text;
}

std::string operation_text(const Json& value) { return spoken(word(value)); }

std::string wire_text(const std::string& name) {
  if (name == "roce_v1") return "RoCEv1";
  if (name == "roce_v2") return "RoCEv2";
  if (name == "infiniband") return "InfiniBand";
  if (name == "iwarp") return "iWARP";
  return "not RDMA";
}

class Printer : TextPage {
 public:
  Printer(std::string& out, const Json& report, const TextOptions& options)
      : TextPage(out, options), report_(report), options_(options) {}

  void print() {
    summary();
    findings();
    counters();
    if (!options_.tables) return;
    connections();
    mrc_connections();
    mrc_paths();
    operations();
    latency();
    retransmissions();
    congestion();
    regions();
    talkers();
    endpoints();
    crc_errors();
    pauses();
    incast();
  }

 private:
  /// Converts the first rows of a list to table cells.
  std::vector<std::vector<std::string>> cells(const Json& list,
                                              const std::function<std::vector<std::string>(const Json&)>& make) const {
    std::vector<std::vector<std::string>> rows;
    for (const Json& item : list) {
      if (rows.size() == options_.rows) break;
      rows.push_back(make(item));
    }
    return rows;
  }

  void summary() {
    const Json& input = report_.at("input");
    const Json& s = report_.at("summary");
    const Json& files = input.at("files");
    std::string name = files.empty() ? std::string("no files") : word(files[0].at("name"));
    if (files.size() > 1) name += fmt::format(" and {} more", files.size() - 1);
    page_.put(TextStyle::strong, name).line();

    std::string traffic =
        fmt::format("{}, {}", counted(number(s.at("packets")), "packet", "packets"), bytes_text(s.at("bytes")));
    const std::uint64_t length = number(s.at("duration_ns"));
    if (length) traffic += fmt::format(" in {}", duration_text(static_cast<std::int64_t>(length)));
    std::string wires;
    for (const auto& [wire, count] : s.at("wires").items())
      wires += fmt::format("{}{} {}", wires.empty() ? "" : ", ", wire_text(wire), number(count));
    if (!wires.empty()) traffic += ": " + wires;
    labeled("traffic", traffic);
    if (s.at("first_time").is_string()) {
      const auto dot = word(s.at("first_time"));
      std::int64_t ns = 0;
      for (const char c : dot)
        if (c >= '0' && c <= '9') ns = ns * 10 + (c - '0');
      if (dot[0] != '-') {
        std::string date;
        output::append_date(date, ns);
        labeled("start", date.substr(0, 23) + " UTC");
      }
    }
    std::string connections = fmt::format("{}", number(s.at("connections")));
    std::map<std::string, std::size_t> services;
    for (const Json& c : report_.at("connections")) ++services[word(c.at("service"))];
    std::string kinds;
    for (const auto& [service, count] : services)
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, service);
    if (!kinds.empty()) connections += fmt::format(" ({})", kinds);
    if (const std::uint64_t mrc = s.value("mrc_connections", std::uint64_t{0}); mrc != 0)
      connections += fmt::format(", {}", counted(mrc, "MRC connection", "MRC connections"));
    labeled("connections", connections);

    std::string messages = fmt::format("{}", number(s.at("messages")));
    if (number(s.at("messages"))) {
      messages += fmt::format(" with {}", bytes_text(s.at("message_bytes")));
      std::string by;
      for (const Json& op : report_.at("operations"))
        by += fmt::format("{}{} {}", by.empty() ? "" : ", ", operation_text(op.at("operation")),
                          number(op.at("messages")));
      messages += ": " + by;
      if (length) {
        const double seconds = static_cast<double>(length) / 1e9;
        messages += fmt::format(
            "; {}/s",
            bytes_text(static_cast<std::uint64_t>(static_cast<double>(number(s.at("message_bytes"))) / seconds)));
      }
    }
    labeled("messages", messages);
    std::uint64_t recoveries = 0;
    for (const auto& [cause, row] : report_.at("retransmissions").items()) recoveries += number(row.at("recoveries"));
    const Json& events = s.at("events");
    const std::uint64_t tcp = events.contains("tcp_retransmission") ? number(events.at("tcp_retransmission")) : 0;
    if (recoveries == 0 && tcp)
      labeled("retransmitted", counted(tcp, "TCP retransmission", "TCP retransmissions"));
    else
      labeled("retransmitted",
              recoveries ? fmt::format("{} in {}", counted(number(s.at("retransmitted_packets")), "packet", "packets"),
                                       counted(recoveries, "recovery", "recoveries"))
                         : std::string("none"));
    std::string naks;
    for (const auto& [code, count] : report_.at("naks").items())
      naks += fmt::format("{}{} {}", naks.empty() ? "" : ", ", spoken(code), number(count));
    labeled("NAKs", naks.empty() ? "none" : naks);
    const Json& congestion = report_.at("congestion");
    labeled("congestion", number(congestion.at("ecn_marked")) + number(congestion.at("cnps")) == 0
                              ? std::string("none")
                              : fmt::format("{} ECN-marked of {} ECN-capable, {}", number(congestion.at("ecn_marked")),
                                            number(congestion.at("ecn_capable")),
                                            counted(number(congestion.at("cnps")), "CNP", "CNPs")));
    const std::uint64_t checked = number(s.at("crcs_checked")), bad = number(s.at("crcs_bad"));
    std::string crcs = checked == 0
                           ? std::string("none verified")
                           : fmt::format("{} verified, {}", checked, bad ? fmt::format("{} bad", bad) : "all good");
    if (const std::uint64_t cut = number(s.at("truncated_packets")); cut && rdma())
      crcs += fmt::format("; {} truncated (snap length)", counted(cut, "packet", "packets"));
    labeled("CRCs", crcs, label_column, bad ? TextStyle::bad : TextStyle::plain);
    const Json& counts = s.at("findings");
    const std::uint64_t errors = number(counts.at("error")), warnings = number(counts.at("warning")),
                        infos = number(counts.at("info"));
    if (!rdma() && number(s.at("packets")) == 0) {
      labeled("findings", "no packets");
    } else if (!rdma()) {
      labeled("findings", "no RDMA traffic");
    } else if (errors + warnings == 0) {
      std::string text = "no problems";
      if (infos) text += fmt::format(" ({})", counted(infos, "note", "notes"));
      labeled("findings", text, label_column, TextStyle::good);
    } else {
      std::string text;
      const auto add = [&](std::uint64_t count, std::string_view one, std::string_view many) {
        if (count) text += (text.empty() ? "" : ", ") + counted(count, one, many);
      };
      add(errors, "error", "errors");
      add(warnings, "warning", "warnings");
      add(infos, "note", "notes");
      labeled("findings", text, label_column, errors ? TextStyle::bad : TextStyle::notice);
    }
    if (!input.at("exact").get<bool>()) labeled("inexact", inexact_text(input), label_column, TextStyle::notice);
    for (const Json& file : files)
      if (file.contains("error")) labeled("read error", word(file.at("error")), label_column, TextStyle::bad);
  }

  void finding(const Json& f) {
    finding_title(f);
    std::string frames;
    if (f.at("first_frame").is_number()) {
      const std::uint64_t first = number(f.at("first_frame")), last = number(f.at("last_frame"));
      frames = first == last ? fmt::format(" See frame {}.", first)
                             : fmt::format(" First frame {}, last frame {}.", first, last);
    }
    const std::string cause = word(f.at("cause"));
    labeled("means", word(f.at("meaning")) + frames, 10);
    std::string evidence;
    for (const Json& part : f.at("evidence"))
      evidence += fmt::format("{}{} {}×", evidence.empty() ? "" : ", ",
                              spoken(word(part.at("kind"))) +
                                  (word(part.at("cause")) == "none" ? "" : " (" + spoken(word(part.at("cause"))) + ")"),
                              number(part.at("count")));
    if (!evidence.empty()) labeled("evidence", evidence, 12);
    if (word(f.at("confidence")) != "certain") {
      std::string confidence = word(f.at("confidence"));
      const Json& counts = f.at("confidence_counts");
      if (number(f.at("count")) > 1)
        confidence += fmt::format(" ({} certain, {} likely, {} possible)", number(counts.at("certain")),
                                  number(counts.at("likely")), number(counts.at("possible")));
      for (const Json& what : f.at("not_observed"))
        confidence += (&what == &f.at("not_observed").front() ? ". Not observed: " : " ") + word(what);
      labeled("confidence", confidence, 14);
    }
    for (const Json& one : f.at("worst"))
      labeled("worst",
              fmt::format("{}   {}×{}", word(one.at("flow")), number(one.at("count")),
                          number(one.at("cost_ns")) ? ", " + duration(one.at("cost_ns")) : ""),
              10);
    labeled("next", word(f.at("next")), 10);
  }

  /// Returns whether the report contains RDMA traffic.
  [[nodiscard]] bool rdma() const {
    for (const auto& [wire, count] : report_.at("summary").at("wires").items())
      if (wire != "other" && number(count)) return true;
    return false;
  }

  /// Explains why a report has no packets: the capture is empty, or options exclude all packets.
  void no_packets() {
    const Json& input = report_.at("input");
    std::uint64_t packets = 0;
    for (const Json& file : input.at("files")) packets += number(file.at("packets"));
    heading("No packets");
    if (packets == 0) return labeled("", "The capture contains no packets.", 2);
    std::string by;
    for (const char* option : {"from", "to", "filter"})
      if (input.at(option).is_string())
        by += fmt::format("{}--{} {}", by.empty() ? "" : ", ", option, word(input.at(option)));
    labeled("",
            fmt::format("The capture contains {}. All are excluded by {}.", counted(packets, "packet", "packets"),
                        by.empty() ? std::string("the options") : by),
            2);
  }

  void findings() {
    const Json& list = report_.at("findings");
    std::size_t wrong = 0, shown = 0;
    for (const Json& f : list) wrong += word(f.at("severity")) != "info";
    if (!rdma() && number(report_.at("summary").at("packets")) == 0 && list.empty()) {
      no_packets();
    } else if (!rdma() && list.empty()) {
      heading("No RDMA traffic found");
      labeled(
          "",
          "The capture contains no InfiniBand, RoCEv1 (EtherType 0x8915), RoCEv2 (UDP port 4791) or iWARP. Use "
          "--roce-port if RoCEv2 uses another port. A NIC with RDMA offload may hide its traffic from a capture on the "
          "host: capture at a mirror port of the switch, or use the vendor's capture tool.",
          2);
      if (const std::uint64_t cut = number(report_.at("summary").at("truncated_packets")))
        labeled("",
                fmt::format("The capture contains {} (snap length). Detecting iWARP requires complete TCP segments.",
                            counted(cut, "truncated packet", "truncated packets")),
                2);
    } else if (wrong == 0) {
      heading("No problems found");
      const Json& s = report_.at("summary");
      labeled(
          "",
          fmt::format("Checked: loss, retransmissions and NAKs ({}), CRCs ({}), order, MTU and keys ({}), ECN marks, "
                      "pauses, stalls.",
                      counted(number(s.at("connections")), "connection", "connections"),
                      number(s.at("crcs_checked")) ? fmt::format("{} verified", number(s.at("crcs_checked")))
                                                   : "not verifiable",
                      counted(number(s.at("packets")), "packet", "packets")),
          2);
      if (!list.empty()) page_.line().put(TextStyle::dim, "Notes").line();
    } else {
      heading("Findings, worst first");
    }
    for (const Json& f : list) {
      if (shown == 2 * options_.rows) break;
      finding(f);
      ++shown;
    }
    if (list.size() > shown)
      page_.line().put(TextStyle::dim, fmt::format("  and {} more findings", list.size() - shown)).line();
  }

  void counters() {
    if (!report_.contains("counters")) return;
    const Json& list = report_.at("counters");
    table("Host counters compared with the capture",
          {{"counter", Column::left}, {"host"}, {"capture"}, {"note", Column::left}},
          cells(list,
                [](const Json& row) {
                  const std::string note = word(row.at("note"));
                  const std::size_t colon = note.find(": ");
                  return std::vector<std::string>{
                      word(row.at("name")), fmt::format("{}", row.at("difference").get<std::int64_t>()),
                      row.at("in_capture").is_null() ? "–" : fmt::format("{}", number(row.at("in_capture"))),
                      colon == std::string::npos ? note : note.substr(colon + 2)};
                }),
          list.size());
  }

  void connections() {
    const Json& list = report_.at("connections");
    const auto qp = [](const Json& end) {
      return end.at("qp").is_null() ? std::string("?") : fmt::format("{:#x}", number(end.at("qp")));
    };
    table("Connections, most bytes first",
          {{"id"},
           {"service", Column::left},
           {"a", Column::left},
           {"QP", Column::left},
           {"b", Column::left},
           {"QP", Column::left},
           {"packets", Column::right, 1},
           {"bytes"},
           {"messages"},
           {"retrans."},
           {"NAKs"},
           {"MTU", Column::right, 5},
           {"mean latency", Column::right, 2},
           {"paired by", Column::left, 4},
           {"upper", Column::left, 3}},
          cells(list,
                [&](const Json& c) {
                  const Json& a = c.at("sent").at("a");
                  const Json& b = c.at("sent").at("b");
                  const auto both = [&](const char* key) { return number(a.at(key)) + number(b.at(key)); };
                  std::uint64_t messages = 0, naks = both("rnr_naks");
                  for (const Json* sent : {&a, &b}) {
                    for (const Json& count : sent->at("messages")) messages += number(count);
                    for (const Json& count : sent->at("naks")) naks += number(count);
                  }
                  const std::uint64_t timed = both("latency_count");
                  const bool iwarp = word(c.at("service")) == "iWARP";
                  return std::vector<std::string>{
                      fmt::format("{}", number(c.at("connection"))),
                      word(c.at("service")),
                      word(c.at("a").at("address")),
                      iwarp ? fmt::format(":{}", number(c.at("a").at("qp"))) : qp(c.at("a")),
                      word(c.at("b").at("address")),
                      iwarp ? fmt::format(":{}", number(c.at("b").at("qp"))) : qp(c.at("b")),
                      fmt::format("{}", both("packets")),
                      bytes_text(both("wire_bytes")),
                      fmt::format("{}", messages),
                      fmt::format("{}", both("retransmitted_packets")),
                      fmt::format("{}", naks),
                      c.at("mtu").is_null() ? "–" : fmt::format("{}", number(c.at("mtu"))),
                      timed ? duration_text(static_cast<std::int64_t>(both("latency_sum_ns") / timed)) : "–",
                      spoken(word(c.at("paired_by"))),
                      word(c.at("upper"))};
                }),
          number(report_.at("summary").at("connections")));
  }

  void mrc_connections() {
    if (!report_.contains("mrc")) return;  // a report of an earlier version
    const Json& list = report_.at("mrc").at("connections");
    table("MRC connections, most bytes first",
          {{"id"},
           {"requester", Column::left},
           {"QP", Column::left},
           {"responder", Column::left},
           {"QP", Column::left},
           {"packets"},
           {"payload", Column::right, 1},
           {"messages", Column::right, 3},
           {"paths good"},
           {"congested"},
           {"failed"},
           {"retrans."},
           {"trimmed"},
           {"SACKs", Column::right, 2},
           {"NACKs"},
           {"depth", Column::right, 1}},
          cells(list,
                [](const Json& c) {
                  std::uint64_t nacks = 0;
                  for (const Json& row : c.at("nacks")) nacks += number(row.at("count"));
                  const auto text = [&](const char* key) { return fmt::format("{}", number(c.at(key))); };
                  return std::vector<std::string>{
                      text("connection"),
                      word(c.at("from")),
                      c.at("from_qp").is_null() ? "?" : fmt::format("{:#x}", number(c.at("from_qp"))),
                      word(c.at("to")),
                      fmt::format("{:#x}", number(c.at("to_qp"))),
                      text("packets"),
                      bytes_text(c.at("payload_bytes")),
                      fmt::format("{}/{}", number(c.at("messages_completed")), number(c.at("messages"))),
                      text("paths_good"),
                      text("paths_congested"),
                      text("paths_failed"),
                      text("retransmitted"),
                      text("trimmed"),
                      text("sacks"),
                      fmt::format("{}", nacks),
                      text("reordering_depth")};
                }),
          number(report_.at("summary").at("mrc_connections")));
  }

  /// Paths that are not good come first.
  void mrc_paths() {
    if (!report_.contains("mrc")) return;
    const Json& all = report_.at("mrc").at("paths");
    std::vector<const Json*> sorted;
    for (const Json& path : all) sorted.push_back(&path);
    const auto rank = [](const Json* path) {
      const std::string& state = path->at("state").get_ref<const std::string&>();
      return state == "failed" ? 0 : state == "congested" ? 1 : 2;
    };
    std::ranges::stable_sort(sorted, {}, rank);
    if (sorted.size() > options_.rows) sorted.resize(options_.rows);
    std::vector<std::vector<std::string>> rows;
    for (const Json* path : sorted) {
      const auto text = [&](const char* key) { return fmt::format("{}", number(path->at(key))); };
      rows.push_back({text("connection"), fmt::format("{:#06x}", number(path->at("flow_label"))), text("source_port"),
                      word(path->at("state")), path->at("state_frame").is_null() ? "–" : text("state_frame"),
                      text("packets"), text("retransmitted"), text("trimmed"), text("ecn_marked"),
                      text("without_response"), text("congested_sacks"), text("bad_sacks"), text("nacks"),
                      fmt::format("{}/{}", number(path->at("probe_responses")), number(path->at("probes")))});
    }
    table("MRC paths (entropy values), failed and congested ones first",
          {{"connection"},
           {"flow label", Column::left},
           {"source port"},
           {"state", Column::left},
           {"since frame"},
           {"packets"},
           {"retrans."},
           {"trimmed"},
           {"ECN-marked", Column::right, 2},
           {"no response"},
           {"SACKs congested", Column::right, 1},
           {"SACKs bad", Column::right, 3},
           {"NACKs"},
           {"probes", Column::right, 4}},
          rows, all.size());
  }

  void operations() {
    const Json& list = report_.at("operations");
    table("Operations",
          {{"operation", Column::left},
           {"messages"},
           {"bytes"},
           {"completed"},
           {"refused"},
           {"smallest"},
           {"largest"},
           {"sizes", Column::left, 1}},
          cells(list,
                [](const Json& op) {
                  std::vector<std::pair<std::uint64_t, std::string>> sizes;
                  for (const Json& size : op.at("sizes")) {
                    const std::uint64_t from = number(size.at("from"));
                    sizes.emplace_back(
                        number(size.at("messages")),
                        from < 2 ? fmt::format("{}", from) : fmt::format("{}…", size_text(size.at("from"))));
                  }
                  std::stable_sort(sizes.begin(), sizes.end(),
                                   [](const auto& a, const auto& b) { return a.first > b.first; });
                  std::string text;
                  for (std::size_t i = 0; i < std::min<std::size_t>(3, sizes.size()); ++i)
                    text += fmt::format("{}{}×{}", i ? "  " : "", sizes[i].first, sizes[i].second);
                  return std::vector<std::string>{operation_text(op.at("operation")),
                                                  fmt::format("{}", number(op.at("messages"))),
                                                  bytes_text(op.at("bytes")),
                                                  fmt::format("{}", number(op.at("completed"))),
                                                  fmt::format("{}", number(op.at("refused"))),
                                                  size_text(op.at("size_min")),
                                                  size_text(op.at("size_max")),
                                                  text};
                }),
          list.size());
  }

  void latency() {
    const Json& list = report_.at("latency");
    table("Latency, by operation and size",
          {{"operation", Column::left},
           {"bytes"},
           {"until", Column::left},
           {"count"},
           {"min", Column::right, 1},
           {"p50"},
           {"p90", Column::right, 2},
           {"p99"},
           {"p99.9"},
           {"max"}},
          cells(list,
                [](const Json& row) {
                  const std::uint64_t from = number(row.at("size_from"));
                  std::string until = word(row.at("phase"));
                  until = spoken(until.substr(until.find("_to_") + 4));
                  return std::vector<std::string>{
                      operation_text(row.at("operation")),
                      from < 2 ? fmt::format("{}", from) : fmt::format("{}…", size_text(row.at("size_from"))),
                      until,
                      fmt::format("{}", number(row.at("count"))),
                      duration(row.at("min_ns")),
                      duration(row.at("p50_ns")),
                      duration(row.at("p90_ns")),
                      duration(row.at("p99_ns")),
                      duration(row.at("p999_ns")),
                      duration(row.at("max_ns"))};
                }),
          list.size());
  }

  void retransmissions() {
    const Json& causes = report_.at("retransmissions");
    std::vector<std::vector<std::string>> rows;
    for (const auto& [cause, row] : causes.items())
      rows.push_back({spoken(cause), fmt::format("{}", number(row.at("recoveries"))),
                      fmt::format("{}", number(row.at("packets"))), bytes_text(row.at("bytes")),
                      duration(row.at("duration_ns"))});
    table("Retransmissions by cause", {{"cause", Column::left}, {"recoveries"}, {"packets"}, {"bytes"}, {"time"}}, rows,
          rows.size());
    rows.clear();
    for (const auto& [code, count] : report_.at("naks").items())
      rows.push_back({code == "rnr" ? "receiver not ready" : spoken(code), fmt::format("{}", number(count))});
    table("NAKs", {{"code", Column::left}, {"count"}}, rows, rows.size());
  }

  void congestion() {
    const Json& c = report_.at("congestion");
    const Json& classes = c.at("classes");
    if (number(c.at("ecn_marked")) + number(c.at("cnps")) == 0 && classes.size() <= 2) return;
    std::string note;
    if (number(c.at("cnps")))
      note = fmt::format("After CNPs the rate fell {}× and was unchanged {}×", number(c.at("rate_fell")),
                         number(c.at("rate_unchanged")));
    if (c.at("ce_to_cnp_ns").is_object())
      note += fmt::format("; from ECN mark to CNP {} (p50), {} (p99)", duration(c.at("ce_to_cnp_ns").at("p50")),
                          duration(c.at("ce_to_cnp_ns").at("p99")));
    static constexpr const char* ecn_names[] = {"not capable", "capable (1)", "capable (0)", "marked (CE)"};
    table("Traffic classes and congestion",
          {{"DSCP"}, {"ECN", Column::left}, {"packet type", Column::left}, {"packets"}},
          cells(classes,
                [](const Json& row) {
                  return std::vector<std::string>{fmt::format("{}", number(row.at("dscp"))),
                                                  ecn_names[number(row.at("ecn")) & 3], spoken(word(row.at("kind"))),
                                                  fmt::format("{}", number(row.at("packets")))};
                }),
          classes.size(), note);
  }

  void regions() {
    const Json& list = report_.at("regions");
    table("Memory regions, most bytes first",
          {{"responder", Column::left},
           {"key", Column::left},
           {"from", Column::left},
           {"to", Column::left},
           {"read"},
           {"written"},
           {"atomics"},
           {"refused"},
           {"messages", Column::right, 1}},
          cells(list,
                [](const Json& row) {
                  return std::vector<std::string>{word(row.at("responder")),
                                                  word(row.at("key")),
                                                  row.at("address_from").is_null() ? "–" : word(row.at("address_from")),
                                                  row.at("address_to").is_null() ? "–" : word(row.at("address_to")),
                                                  bytes_text(row.at("read_bytes")),
                                                  bytes_text(row.at("written_bytes")),
                                                  fmt::format("{}", number(row.at("atomics"))),
                                                  fmt::format("{}", number(row.at("refused"))),
                                                  fmt::format("{}", number(row.at("messages")))};
                }),
          list.size());
  }

  void talkers() {
    const Json& list = report_.at("talkers");
    table("Talkers, most bytes first",
          {{"from", Column::left},
           {"to", Column::left},
           {"packets"},
           {"bytes"},
           {"payload"},
           {"queue pairs"},
           {"source ports", Column::right, 1}},
          cells(list,
                [](const Json& row) {
                  return std::vector<std::string>{word(row.at("from")),
                                                  word(row.at("to")),
                                                  fmt::format("{}", number(row.at("packets"))),
                                                  bytes_text(row.at("bytes")),
                                                  bytes_text(row.at("payload_bytes")),
                                                  fmt::format("{}", number(row.at("queue_pairs"))),
                                                  fmt::format("{}", number(row.at("source_ports")))};
                }),
          list.size());
  }

  void endpoints() {
    const Json& list = report_.at("endpoints");
    table("Endpoints, most bytes first",
          {{"address", Column::left},
           {"queue pairs"},
           {"packets sent", Column::right, 1},
           {"bytes sent"},
           {"packets received", Column::right, 2},
           {"bytes received"}},
          cells(list,
                [](const Json& row) {
                  return std::vector<std::string>{word(row.at("address")),
                                                  fmt::format("{}", number(row.at("queue_pairs"))),
                                                  fmt::format("{}", number(row.at("sent_packets"))),
                                                  bytes_text(row.at("sent_bytes")),
                                                  fmt::format("{}", number(row.at("received_packets"))),
                                                  bytes_text(row.at("received_bytes"))};
                }),
          list.size());
  }

  void crc_errors() {
    const Json& list = report_.at("crc_errors");
    table("CRC errors",
          {{"from", Column::left}, {"to", Column::left}, {"packets"}, {"first frame"}, {"cause", Column::left}},
          cells(list,
                [](const Json& row) {
                  return std::vector<std::string>{word(row.at("from")), word(row.at("to")),
                                                  fmt::format("{}", number(row.at("count"))),
                                                  fmt::format("{}", number(row.at("first_frame"))),
                                                  row.at("cause").is_null() ? "–" : spoken(word(row.at("cause")))};
                }),
          list.size());
  }

  void pauses() {
    const Json& list = report_.at("pauses");
    table("Pause frames",
          {{"sent by", Column::left}, {"priority"}, {"frames"}, {"stops"}, {"quanta"}, {"paused"}, {"first frame"}},
          cells(list,
                [](const Json& row) {
                  return std::vector<std::string>{
                      word(row.at("source")),
                      row.at("priority").is_null() ? "all" : fmt::format("{}", number(row.at("priority"))),
                      fmt::format("{}", number(row.at("frames"))),
                      fmt::format("{}", number(row.at("stops"))),
                      fmt::format("{}", number(row.at("quanta"))),
                      duration(row.at("pause_ns")),
                      fmt::format("{}", number(row.at("first_frame")))};
                }),
          list.size());
  }

  void incast() {
    const Json& list = report_.at("incast");
    std::vector<std::vector<std::string>> rows;
    std::size_t several = 0;
    for (const Json& row : list) {
      if (number(row.at("senders")) < 3) continue;
      if (++several <= options_.rows)
        rows.push_back({word(row.at("receiver")), fmt::format("{}", number(row.at("senders"))),
                        bytes_text(row.at("bytes")), duration(row.at("window_ns")), word(row.at("time"))});
    }
    table("Incast: several senders to one receiver at the same time",
          {{"receiver", Column::left}, {"senders"}, {"bytes"}, {"within"}, {"at"}}, rows, several);
  }

  const Json& report_;
  const TextOptions& options_;
};

}  // namespace

std::string text_of(const Json& report, const TextOptions& options) {
  std::string out;
  Printer(out, report, options).print();
  return out;
}

}  // namespace rdmawire::captures::analysis
