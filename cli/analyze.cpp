/// rdmawire analyze: what happened in a capture, to whom, why, since which frame.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "captures/analysis/csv.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace rdmawire::cli {
namespace {

namespace analysis = captures::analysis;

constexpr const char* description =
    "Reports what a capture shows: which connection suffers, why, and since which frame.\n"
    "Several files are read as one capture, in the order of their first packets.";
constexpr const char* examples = R"(Examples:
  rdmawire analyze x.pcap                       summary, findings worst first, tables
  rdmawire analyze ring-*.pcapng --threads 4    the files of a rotating capture, as one
  rdmawire analyze x.pcap --json | jq '.findings[0]'
  rdmawire analyze x.pcap --csv tables          connections, flows, messages, events as CSV
  rdmawire analyze x.pcap --connection 214      one connection (named by its first frame)
  rdmawire analyze x.pcap --from 12.5 --to 13   half a second of it
  rdmawire analyze x.pcap --counters before.txt --counters after.txt
  rdmawire analyze x.pcap --fail-on warning     for scripts: exit status 1 when something is wrong

Exit status: 0 fine, 1 found what --fail-on names, 2 wrong usage, 3 a file could not be read to its end (the report is of
what could be read).)";

struct Options {
  std::vector<std::string> files;
  std::string filter, from, to, csv, fail_on;
  std::vector<std::string> counters, ignore;
  std::uint64_t connection = 0;
  unsigned threads = 0;
  std::size_t rows = 10;
  std::uint16_t roce_port = 0;
  bool json = false, csv_packets = false, no_crc = false;
  Colours colours = Colours::automatic;
};

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
    return std::clamp<std::size_t>(size.ws_col, 80, 200);
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long width = std::strtol(columns, nullptr, 10); width > 0)
      return std::clamp<std::size_t>(static_cast<std::size_t>(width), 80, 200);
  return 120;
}

class Analyze {
 public:
  explicit Analyze(const Options& options) : options_(options) {}

  Exit run() {
    analysis::RunOptions run;
    std::optional<faces::Filter> filter;
    if (const Exit exit = prepare(run, filter); exit != Exit::fine) return exit;
    std::unique_ptr<analysis::CsvTables> csv;
    if (!options_.csv.empty()) {
      auto made = analysis::CsvTables::create(options_.csv, options_.csv_packets);
      if (!made) {
        complain("--csv: " + made.error());
        return Exit::trouble;
      }
      csv = std::move(*made);
      run.also = csv.get();
      if (options_.csv_packets) {
        run.tracker.packets = true;
        run.on_packet = [&csv](const tracking::Packet& packet) { csv->add(packet); };
      }
    }
    Progress progress;
    run.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
      progress.at(packets, done, all, name);
    };
    const analysis::RunResult result = analysis::run(run);
    progress.clear();
    bool whole = result.troubles.empty();
    for (const std::string& trouble : result.troubles) complain(trouble);
    if (csv)
      if (const auto finished = csv->finish(); !finished) {
        complain("--csv: " + finished.error());
        whole = false;
      }
    if (!result.troubles.empty() && result.input.files.empty()) return Exit::trouble;
    analysis::Input input = result.input;
    input.from = options_.from;
    input.to = options_.to;
    const analysis::Json report =
        analysis::report_of(result.analysis, input,
                            options_.counters.empty() ? std::vector<analysis::CounterDifference>{}
                                                      : analysis::differences_of(before_, after_, result.analysis));
    Output output;
    if (options_.json)
      output.text() += report.dump(2, ' ', false, analysis::Json::error_handler_t::replace) + "\n";
    else
      output.text() += analysis::text_of(
          report,
          {.width = terminal_width(), .colours = use_colours(options_.colours, STDOUT_FILENO), .rows = options_.rows});
    if (!output.finish() || !whole) return Exit::trouble;
    return fails(report) ? Exit::found : Exit::fine;
  }

 private:
  Exit prepare(analysis::RunOptions& run, std::optional<faces::Filter>& filter) {
    run.files = options_.files;
    run.connection = options_.connection;
    run.threads = options_.threads ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    run.dissector.verify_crcs = !options_.no_crc;
    run.dissector.decode.extra_roce_v2_port = options_.roce_port;
    for (const std::string& evidence : options_.ignore) {
      if (evidence == "cm") run.tracker.use_connection_manager = false;
      if (evidence == "text") run.tracker.use_text = false;
      if (evidence == "source-port") run.tracker.use_source_port = false;
    }
    if (!options_.filter.empty()) {
      auto compiled = faces::Filter::compile(options_.filter);
      if (!compiled) {
        complain("--filter:\n" + faces::to_string(compiled.error(), options_.filter));
        return Exit::usage;
      }
      filter = std::move(*compiled);
      run.filter = &*filter;
      if (options_.no_crc && filter->uses_crcs()) {
        complain("--filter asks for CRCs, which --no-crc leaves unverified");
        return Exit::usage;
      }
    }
    // Their form was checked with the command line.
    if (!options_.from.empty()) run.from = *analysis::Boundary::parse(options_.from);
    if (!options_.to.empty()) run.to = *analysis::Boundary::parse(options_.to);
    if (options_.counters.size() > 2) {
      complain("--counters is given at most twice: before and after");
      return Exit::usage;
    }
    for (std::size_t i = 0; i < options_.counters.size(); ++i) {
      std::ifstream file(options_.counters[i], std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      if (!file.is_open() || file.bad()) {
        complain(fmt::format("--counters: {} cannot be read", options_.counters[i]));
        return Exit::trouble;
      }
      auto counters = analysis::parse_counters(text);
      if (!counters) {
        complain(fmt::format("--counters: {} {}", options_.counters[i], counters.error()));
        return Exit::trouble;
      }
      (i + 1 == options_.counters.size() ? after_ : before_) = std::move(*counters);
    }
    return Exit::fine;
  }

  [[nodiscard]] bool fails(const analysis::Json& report) const {
    if (options_.fail_on.empty()) return false;
    const auto rank = [](std::string_view severity) {
      return severity == "error" ? 3 : severity == "warning" ? 2 : severity == "info" ? 1 : 0;
    };
    if (report.at("summary").at("events").contains(options_.fail_on)) return true;
    const int limit = rank(options_.fail_on);
    for (const analysis::Json& finding : report.at("findings"))
      if (finding.at("kind") == options_.fail_on ||
          (limit && rank(finding.at("severity").get_ref<const std::string&>()) >= limit))
        return true;
    return false;
  }

  const Options& options_;
  analysis::Counters before_, after_;
};

std::string check_fail_on(const std::string& word) {
  for (const char* known :
       {"error", "warning", "info", "capture_lost", "one_way", "begins_in_the_middle", "traffic_class", "inexact"})
    if (word == known) return {};
  for (const tracking::EventRow& row : tracking::event_rows)
    if (row.name == word) return {};
  return word + " is neither a severity (error, warning, info) nor a kind of event (rdmawire explain events)";
}

}  // namespace

void add_analyze(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("analyze", description);
  sub->footer(examples);
  sub->add_option("FILE", options->files, "captures; - is standard input")->required()->type_name("");
  sub->add_flag("--json", options->json, "one JSON object (docs/analyze.md names the keys)");
  sub->add_option("--csv", options->csv, "write connections, flows, messages and events as CSV into this directory")
      ->type_name("DIR");
  sub->add_flag("--csv-packets", options->csv_packets, "with --csv: every packet too");
  const auto boundary = [](const std::string& text) {
    return analysis::Boundary::parse(text)
               ? std::string()
               : text + " is no time: seconds since the first packet, a date like 2026-11-21T07:53:37, or frame:214";
  };
  sub->add_option("--from", options->from, "begin here: seconds since the first packet, a date (UTC), or frame:N")
      ->check(boundary)
      ->type_name("TIME");
  sub->add_option("--to", options->to, "end here, inclusive")->check(boundary)->type_name("TIME");
  sub->add_option("--filter", options->filter, "only packets that match (docs/filters.md)")->type_name("EXPR");
  sub->add_option("--connection", options->connection, "only the connection that begins with this frame")
      ->check(CLI::PositiveNumber)
      ->type_name("FRAME");
  sub->add_option("--threads", options->threads, "so many at most (default: one a core)")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  sub->add_option("--counters", options->counters,
                  "host counters beside the capture: rdma statistic, ethtool -S; twice: before and after")
      ->type_name("FILE");
  sub->add_option("--fail-on", options->fail_on, "exit status 1 when there is such a finding: a severity or a kind")
      ->check(check_fail_on)
      ->type_name("WORD");
  sub->add_option("--ignore", options->ignore, "evidence for joining not to be used: cm, text, source-port")
      ->delimiter(',')
      ->check(CLI::IsMember({"cm", "text", "source-port"}, CLI::ignore_case))
      ->type_name("WORD");
  sub->add_option("--rows", options->rows, "of each table at most")->check(CLI::PositiveNumber)->type_name("N");
  sub->add_option("--roce-port", options->roce_port, "a further UDP port that carries RoCEv2, beside 4791")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  sub->add_flag("--no-crc", options->no_crc, "do not verify CRCs");
  add_colour_option(*sub, options->colours);
  sub->callback([options, &work] {
    if (options->csv_packets && options->csv.empty()) throw CLI::RequiresError("--csv-packets", "--csv");
    work = [options] { return Analyze(*options).run(); };
  });
}

}  // namespace rdmawire::cli
