/// The result of a check as text for a terminal.

#include <fmt/format.h>

#include <algorithm>

#include "captures/analysis/findings.hpp"
#include "captures/analysis/memory.hpp"
#include "captures/analysis/text_page.hpp"
#include "conformance/monitors/report.hpp"

namespace rdmawire::conformance {
namespace {

namespace analysis = captures::analysis;
using analysis::counted;
using analysis::number;
using analysis::word;
using output::TextStyle;

/// True for iWARP, whose violations have ports instead of QPs, and stream offsets instead of PSNs.
bool is_stream(const Json& violation) { return violation.at("service") == "iWARP"; }

std::string flow_of_violation(const Json& violation) {
  const auto end = [&](const Json& e) {
    if (is_stream(violation)) return fmt::format("{} port {}", word(e.at("address")), number(e.at("qp")));
    return fmt::format("{} QP {}", word(e.at("address")),
                       e.at("qp").is_null() ? std::string("?") : fmt::format("{:#x}", number(e.at("qp"))));
  };
  std::string text = fmt::format("{} → {}", end(violation.at("from")), end(violation.at("to")));
  if (!violation.at("connection").is_null())
    text += fmt::format(", {} connection {}", word(violation.at("service")), number(violation.at("connection")));
  return text;
}

std::string occurrence(const Json& violation) {
  const std::uint64_t count = number(violation.at("count"));
  if (count == 1) return fmt::format("frame {}", number(violation.at("frame")));
  return fmt::format("frames {}–{}, {} times", number(violation.at("frame")), number(violation.at("last_frame")),
                     count);
}

class Printer : analysis::TextPage {
 public:
  Printer(std::string& out, const Json& report, const CheckTextOptions& options)
      : TextPage(out, page_options(options)), report_(report), options_(options) {}

  void print() {
    if (options_.quiet) {
      for (const Json& violation : report_.at("violations")) one_line(violation);
      return;
    }
    summary();
    const Json& violations = report_.at("violations");
    std::size_t shown = 0;
    for (const Json& violation : violations) {
      if (shown++ == options_.most_violations) break;
      details(violation);
    }
    if (violations.size() > options_.most_violations)
      page_.line()
          .put(TextStyle::dim, fmt::format("  {} more violations; use --json to list all",
                                           violations.size() - options_.most_violations))
          .line();
    if (options_.coverage) coverage();
    page_.line().put(TextStyle::dim, word(report_.at("notice"))).line();
  }

 private:
  static analysis::TextOptions page_options(const CheckTextOptions& options) {
    analysis::TextOptions result;
    result.width = options.width;
    result.colors = options.colors;
    return result;
  }

  void one_line(const Json& violation) {
    page_.put(TextStyle::bad, word(violation.at("rule")))
        .put(fmt::format("  {}  {}: expected {}; {}", flow_of_violation(violation), occurrence(violation),
                         word(violation.at("expected")), word(violation.at("actual"))))
        .line();
  }

  void summary() {
    const Json& s = report_.at("summary");
    const Json& files = report_.at("input").at("files");
    std::string name = files.empty() ? std::string("no input") : word(files[0].at("name"));
    if (files.size() > 1) name += fmt::format(" and {} more", files.size() - 1);
    page_.put(TextStyle::strong, name).line();
    labeled("traffic", fmt::format("{}, {}", counted(number(s.at("packets")), "packet", "packets"),
                                   counted(number(s.at("connections")), "connection", "connections")));
    const Json& states = s.at("rules");
    labeled("rules", fmt::format("{} passed, {} violated, {} inconclusive, {} not exercised",
                                 number(states.at("passed")), number(states.at("violated")),
                                 number(states.at("inconclusive")), number(states.at("not exercised"))));
    const Json& evaluations = s.at("evaluations");
    labeled("evaluations", fmt::format("{} passed, {} violated, {} inconclusive", number(evaluations.at("passed")),
                                       number(evaluations.at("violated")), number(evaluations.at("inconclusive"))));
    const std::uint64_t shall = number(s.at("violated_by_level").at("shall"));
    if (number(s.at("violations")) == 0)
      labeled("result", "no violations", 14, TextStyle::good);
    else
      labeled("result",
              fmt::format("{} of {} ({} mandatory)", counted(number(s.at("violations")), "violation", "violations"),
                          counted(number(states.at("violated")), "rule", "rules"), shall),
              14, shall ? TextStyle::bad : TextStyle::notice);
    const Json& input = report_.at("input");
    if (!input.at("exact").get<bool>())
      labeled("inexact",
              fmt::format("{} and {} of tables evicted and evaluated only in part: limit of {}, set with --memory",
                          counted(number(input.at("evicted_connections")), "connection", "connections"),
                          counted(number(input.at("evicted_packets")), "entry", "entries"),
                          captures::analysis::memory_text(number(input.at("memory")))),
              14, TextStyle::notice);
    for (const Json& file : files)
      if (file.contains("error")) labeled("unread", word(file.at("error")), 14, TextStyle::bad);
  }

  void details(const Json& violation) {
    page_.line()
        .put(word(violation.at("level")) == "shall" ? TextStyle::bad : TextStyle::notice, "VIOLATION  ")
        .put(TextStyle::dim,
             fmt::format("{}{}", word(violation.at("alias")), violation.at("alias").is_null() ? "" : "  "))
        .put(TextStyle::strong, word(violation.at("rule")))
        .put(TextStyle::dim, fmt::format("  ({})", word(violation.at("level"))))
        .line();
    labeled("packet", fmt::format("{}, {}", flow_of_violation(violation), occurrence(violation)));
    labeled("rule", word(violation.at("sentence")));
    labeled("reference", word(violation.at("clause")));
    labeled("expected", word(violation.at("expected")));
    labeled("actual", word(violation.at("actual")));
    sequence(violation);
  }

  void sequence(const Json& violation) {
    const Json& entries = violation.at("sequence");
    if (entries.empty()) return;
    const auto ns = [](const Json& entry) {
      const std::string time = word(entry.at("time"));
      const std::size_t dot = time.find('.');
      return std::strtoll(time.substr(0, dot).c_str(), nullptr, 10) * 1'000'000'000 +
             std::strtoll(time.substr(dot + 1).c_str(), nullptr, 10);
    };
    const auto origin = ns(entries[0]);
    for (const Json& entry : entries) {
      const bool a = word(entry.at("from")) == "a";
      const std::string note = word(entry.at("note"));
      page_.put(note == "violation" ? TextStyle::bad
                : note == "related" ? TextStyle::notice
                                    : TextStyle::plain,
                note == "violation" ? "  ▸ " : "    ");
      page_.put(TextStyle::dim, fmt::format("{:>8} {:>12.3f} ms  ", number(entry.at("frame")),
                                            static_cast<double>(ns(entry) - origin) / 1e6));
      page_.put(a ? TextStyle::request : TextStyle::response, a ? "a ──▶ b  " : "a ◀── b  ");
      std::string text = fmt::format("{:<26} {} {:<6}", word(entry.at("opcode_name")),
                                     is_stream(violation) ? "byte" : "PSN", number(entry.at("psn")));
      if (number(entry.at("payload"))) text += fmt::format(" {} bytes", number(entry.at("payload")));
      if (entry.at("ack_request").get<bool>()) text += " AckReq";
      if (!entry.at("response").is_null()) text += " " + word(entry.at("response"));
      if (!note.empty() && note != "violation") text += "  (" + note + ")";
      page_.put(note == "violation" ? TextStyle::strong : TextStyle::plain, text).line();
    }
  }

  void coverage() {
    std::vector<std::vector<std::string>> rows;
    for (const Json& rule : report_.at("rules")) {
      if (number(rule.at("evaluated")) == 0) continue;
      std::string why;
      for (const auto& [reason, count] : rule.at("reasons").items())
        why += fmt::format("{}{} {}", why.empty() ? "" : ", ", analysis::spoken(reason), count.get<std::uint64_t>());
      rows.push_back({word(rule.at("alias")), word(rule.at("rule")), word(rule.at("level")),
                      std::to_string(number(rule.at("evaluated"))), std::to_string(number(rule.at("passed"))),
                      std::to_string(number(rule.at("violated"))), std::to_string(number(rule.at("inconclusive"))),
                      why});
    }
    const std::size_t count = rows.size();
    using analysis::Column;
    table("Exercised rules",
          {{"alias", Column::left},
           {"rule", Column::left},
           {"level", Column::left, 2},
           {"evaluated"},
           {"passed"},
           {"violated"},
           {"inconclusive"},
           {"reasons", Column::left, 3}},
          std::move(rows), count);
  }

  const Json& report_;
  const CheckTextOptions& options_;
};

}  // namespace

std::string text_of(const Json& report, const CheckTextOptions& options) {
  std::string out;
  Printer(out, report, options).print();
  return out;
}

}  // namespace rdmawire::conformance
