/// rdmawire analyze: reports affected connections, causes and first frames of problems in captures.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "captures/analysis/csv.hpp"
#include "captures/analysis/details.hpp"
#include "captures/analysis/live_analysis.hpp"
#include "captures/analysis/memory_reserve.hpp"
#include "captures/analysis/page/page.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "captures/io/interrupt.hpp"
#include "captures/io/live.hpp"
#include "captures/io/output_file.hpp"
#include "cli/capture_points.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace rdmawire::cli {
namespace analyze {

namespace analysis = captures::analysis;

struct Options {
  std::vector<std::string> files;
  std::string filter, from, to, csv, html, fail_on, interface, capture_filter;
  std::vector<std::string> counters, ignore, order;
  std::uint64_t connection = 0, memory = captures::analysis::default_memory;
  unsigned threads = 0;
  std::size_t rows = 10;
  std::uint16_t roce_port = 0;
  DecodeOptions decode;
  bool json = false, csv_packets = false, no_crc = false, follow = false, capture_points = false, synchronized = false;
  double every = 0, window = 0;
  Colors colors = Colors::automatic;
};

// Written by the signal handler.
std::atomic<bool> interrupted{false};
std::atomic<std::int64_t> interrupted_at{0};  ///< nanoseconds of the monotonic clock
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// Ignores a second signal within half a second, because timeout(1) signals the program and its process group.
void on_interruption(int signal) {
  constexpr std::int64_t grace_period = 500'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  std::int64_t first = 0;
  if (interrupted_at.compare_exchange_strong(first, ns)) {
    interrupted = true;
  } else if (ns - first > grace_period) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

/// While an object exists, the first SIGINT or SIGTERM stops the live analysis. A later one terminates the program.
class Interruption {
 public:
  Interruption() {
    struct sigaction action {};
    action.sa_handler = on_interruption;
    ::sigaction(SIGINT, &action, &old_int_);
    ::sigaction(SIGTERM, &action, &old_term_);
  }
  ~Interruption() {
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::sigaction(SIGTERM, &old_term_, nullptr);
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

class Analyze {
 public:
  explicit Analyze(const Options& options) : options_(options) {}

  Exit run() {
    return with_less_memory(options_.memory, options_.files, [this](std::uint64_t memory) { return run(memory); });
  }

 private:
  Exit run(std::uint64_t memory) {
    analysis::RunOptions run;
    std::optional<output::Filter> filter;
    if (const Exit exit = prepare(run, filter); exit != Exit::success) return exit;
    std::unique_ptr<analysis::CsvTables> csv;
    if (!options_.csv.empty()) {
      auto made = analysis::CsvTables::create(options_.csv, options_.csv_packets);
      if (!made) {
        report_error("--csv: " + made.error());
        return Exit::error;
      }
      csv = std::move(*made);
      run.also = csv.get();
      run.restart = [&csv] { csv->restart(); };
      if (options_.csv_packets) {
        run.tracker.packets = true;
        run.on_packet = [&csv](const tracking::Packet& packet) { csv->add(packet); };
      }
    }
    run.memory = memory;
    Progress progress;
    if (!options_.html.empty())
      for (const std::string& file : options_.files)
        if (std::error_code error;
            file == "-" || (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))) {
          throw UsageError(fmt::format("--html reads its input twice and requires regular files; {} is a stream",
                                       file == "-" ? "standard input" : file));
        }
    run.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
      progress.at(packets, done, all, name);
    };
    const bool follows = options_.follow || !options_.interface.empty();
    const analysis::RunResult result = follows ? follow(run) : analysis::run(run);
    progress.clear();
    analysis::MemoryReserve::renew();
    bool complete = result.errors.empty();
    for (const std::string& message : result.errors) report_error(message);
    if (csv)
      if (const auto finished = csv->finish(); !finished) {
        report_error("--csv: " + finished.error());
        complete = false;
      }
    if (!result.errors.empty() && result.input.files.empty()) return Exit::error;
    analysis::Input input = result.input;
    input.from = options_.from;
    input.to = options_.to;
    const analysis::Json report =
        analysis::report_of(result.analysis, input,
                            options_.counters.empty() ? std::vector<analysis::CounterDifference>{}
                                                      : analysis::differences_of(before_, after_, result.analysis),
                            options_.json || !options_.html.empty() ? SIZE_MAX : options_.rows);
    const bool page_only = options_.html == "-";
    Output output(page_only);
    if (!options_.html.empty()) {
      const std::string page = page_of(run, result, report);
      progress.clear();
      if (page_only)
        output.text() += page;
      else
        complete &= write_page(page);
    }
    if (page_only) {
      // The page is the only output.
    } else if (options_.json) {
      output.text() += report.dump(2, ' ', false, analysis::Json::error_handler_t::replace) + "\n";
    } else {
      output.text() += analysis::text_of(
          report,
          {.width = terminal_width(), .colors = use_colors(options_.colors, STDOUT_FILENO), .rows = options_.rows});
    }
    if (!output.finish() || !complete) return Exit::error;
    return fails(report) ? Exit::findings : Exit::success;
  }

  /// Reads the files a second time for packet details.
  [[nodiscard]] std::string page_of(const analysis::RunOptions& run, const analysis::RunResult& result,
                                    const analysis::Json& report) const {
    const std::string details = analysis::details_of(run, result.analysis, report);
    std::string title = std::filesystem::path(options_.files.front()).filename().string();
    if (options_.files.size() > 1) title += fmt::format(" and {} more", options_.files.size() - 1);
    return captures::html_page(report.dump(-1, ' ', false, analysis::Json::error_handler_t::replace), details, title);
  }

  /// Reports an error and returns false if the page could not be written completely.
  [[nodiscard]] bool write_page(const std::string& page) const {
    const auto written = captures::write_file(options_.html, page);
    if (!written) report_error("--html: " + written.error());
    return written.has_value();
  }

  /// Shows the current report periodically until interrupted.
  analysis::RunResult follow(const analysis::RunOptions& run) {
    using Clock = analysis::LiveAnalysis::Clock;
    const bool terminal = ::isatty(STDOUT_FILENO) == 1 && !options_.json;
    const captures::InterruptScope scope([] { return !interrupted; });  // a read from a pipe may block indefinitely
    const std::chrono::duration<double> period(options_.every > 0 ? options_.every : terminal ? 1.0 : 10.0);
    const Interruption interruption;
    captures::LiveCapture::Options live;
    live.filter = options_.capture_filter;
    const auto following = options_.interface.empty() ? analysis::LiveAnalysis::file(options_.files.front(), run)
                                                      : analysis::LiveAnalysis::device(options_.interface, live, run);
    if (!following) return {analysis::Analysis(run.analysis), {}, {following.error()}, 0};
    analysis::LiveAnalysis& it = **following;
    std::uint64_t shown = UINT64_MAX;
    while (!interrupted && it.take(Clock::now() + std::chrono::duration_cast<Clock::duration>(period), interrupted)) {
      if (options_.json || (!terminal && shown == it.packets())) continue;
      shown = it.packets();
      if (!interrupted && !show(it.report(options_.rows), terminal)) break;
    }
    if (terminal) static_cast<void>(show_text("", true));
    return it.finish();
  }

  /// Returns false if the output pipe is closed.
  bool show(const analysis::Json& report, bool terminal) const {
    std::string text = analysis::text_of(report, {.width = terminal_width(),
                                                  .colors = use_colors(options_.colors, STDOUT_FILENO),
                                                  .rows = options_.rows,
                                                  .tables = false});
    text += terminal ? "\nPress Ctrl-C to stop and print the full report.\n" : "\n";
    return show_text(text, terminal);
  }
  /// `clears`: clear the terminal first.
  static bool show_text(std::string_view text, bool clears) {
    if (clears) {
      Output output(true);
      output.text() += "\033[H\033[2J";
      if (!output.settle(true)) return false;
    }
    Output output;
    output.text() += text;
    return output.settle(true);
  }

  Exit prepare(analysis::RunOptions& run, std::optional<output::Filter>& filter) {
    if (!options_.html.empty() && options_.html != "-")
      if (const auto fine = captures::check_output(options_.html, options_.files); !fine)
        throw UsageError("--html: " + fine.error());
    for (const char* table : {"connections.csv", "flows.csv", "messages.csv", "events.csv", "mrc_connections.csv",
                              "mrc_paths.csv", "packets.csv"})
      if (const auto fine =
              captures::check_output((std::filesystem::path(options_.csv) / table).string(), options_.files);
          !options_.csv.empty() && !fine)
        throw UsageError("--csv: " + fine.error());
    run.files = options_.files;
    run.connection = options_.connection;
    run.threads = options_.threads ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    run.dissector.verify_crcs = !options_.no_crc;
    run.dissector.decode = options_.decode;
    run.dissector.decode.extra_roce_v2_port = options_.roce_port;
    for (const std::string& evidence : options_.ignore) {
      if (evidence == "cm") run.tracker.use_connection_manager = false;
      if (evidence == "text") run.tracker.use_text = false;
      if (evidence == "source-port") run.tracker.use_source_port = false;
    }
    if (!options_.filter.empty()) {
      auto compiled = output::Filter::compile(options_.filter);
      if (!compiled) throw UsageError("--filter:\n" + output::to_string(compiled.error(), options_.filter));
      filter = std::move(*compiled);
      run.filter = &*filter;
      if (options_.no_crc && filter->uses_crcs())
        throw UsageError("--filter uses CRC fields, which requires CRC verification; remove --no-crc");
    }
    // add_boundary() has already checked the texts.
    if (!options_.from.empty()) run.from = *analysis::Boundary::parse(options_.from);
    if (!options_.to.empty()) run.to = *analysis::Boundary::parse(options_.to);
    if (options_.counters.size() > 2) throw UsageError("--counters accepts at most two files (before and after)");
    for (std::size_t i = 0; i < options_.counters.size(); ++i) {
      std::ifstream file(options_.counters[i], std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      if (!file.is_open() || file.bad()) {
        report_error(fmt::format("--counters: cannot read {}", options_.counters[i]));
        return Exit::error;
      }
      auto counters = analysis::parse_counters(text);
      if (!counters) {
        report_error(fmt::format("--counters: {}: {}", options_.counters[i], counters.error()));
        return Exit::error;
      }
      (i + 1 == options_.counters.size() ? after_ : before_) = std::move(*counters);
    }
    return Exit::success;
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

/// Severities and the kinds of findings.
std::vector<std::string> fail_on_words() {
  std::vector<std::string> words{"error",          "warning",       "info",    "capture_lost",
                                 "captured_twice", "files_overlap", "one_way", "incomplete_messages",
                                 "traffic_class",  "inexact"};
  for (const tracking::EventRow& row : tracking::event_rows) words.emplace_back(row.name);
  for (const tracking::MrcFindingRow& row : tracking::mrc_finding_rows) words.emplace_back(row.name);
  const std::vector<std::string> more = capture_point_findings();
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

CapturePointOptions capture_point_options(const Options& options) {
  return {.files = options.files,
          .filter = options.filter,
          .fail_on = options.fail_on,
          .order = options.order,
          .window = options.window,
          .threads = options.threads ? options.threads : std::max(1U, std::thread::hardware_concurrency()),
          .rows = options.rows,
          .width = terminal_width(),
          .roce_port = options.roce_port,
          .decode = options.decode,
          .synchronized = options.synchronized,
          .json = options.json,
          .no_crc = options.no_crc,
          .colors = use_colors(options.colors, STDOUT_FILENO)};
}

void add_boundary(Command& command, const std::string& name, std::string& value, std::string help) {
  command.parsed(
      name, "TIME",
      [&value](const std::string& text) {
        value = text;
        return analysis::Boundary::parse(text) ? std::string()
                                               : "expected seconds since the first packet, a UTC date such as "
                                                 "2026-11-21T07:53:37, or frame:N, got \"" +
                                                     text + "\"";
      },
      std::move(help));
}

/// Throws UsageError for options that cannot be combined.
void check(const Options& options, const Given& given) {
  const auto refuse = [&given](const char* option, std::initializer_list<const char*> others) {
    for (const char* other : others)
      if (given(other)) throw UsageError(fmt::format("{} cannot be used with {}", other, option));
  };
  const bool live = given("--follow") || given("--interface");
  if (given("--capture-points"))
    refuse("--capture-points",
           {"--html", "--csv", "--counters", "--connection", "--from", "--to", "--ignore", "--follow", "--interface"});
  if (!given("FILE") && !given("--interface")) throw UsageError("missing argument FILE or option --interface");
  if (given("--interface")) refuse("--interface", {"FILE", "--connection", "--from", "--to"});
  if (given("--follow")) refuse("--follow", {"--connection", "--from", "--to"});
  if (given("--follow") && !given("--interface") && (options.files.size() != 1 || options.files[0] == "-"))
    throw UsageError("--follow requires exactly one file, or --interface");
  if (given("--html") && live)
    throw UsageError("--html reads its input twice and requires files; record them with rdmawire capture");
  if (options.html == "-" && options.json) throw UsageError("--html - cannot be used with --json");
  if (given("--every") && !live) throw UsageError("--every requires --follow or --interface");
}

}  // namespace analyze

Command analyze_command() {
  const auto options = std::make_shared<analyze::Options>();
  Command command;
  command.name = "analyze";
  command.summary =
      "Analyze RDMA captures: detect loss, retransmissions, NAKs, congestion and errors, and report the likely causes.";
  command.usage = {"[OPTIONS] FILE...", "--interface DEVICE [OPTIONS]", "--capture-points [OPTIONS] FILE FILE..."};
  command
      .argument(
          "FILE", options->files,
          "Capture files (pcap or pcapng, also compressed with gzip or zstd). \"-\" reads standard input. Multiple "
          "files are read as one capture, in the order of their first packets.")
      .repeats();
  command.group("Output");
  command.flag("--json", options->json, "Print the report as one JSON object (see docs/reference/analyze-report.md).");
  command.option("--html", "FILE", options->html,
                 "Write an HTML report with plots and sequence diagrams. \"-\" writes to standard output.");
  command.option("--csv", "DIR", options->csv,
                 "Write connections, flows, messages, events, and connections and paths of MRC as CSV files to DIR.");
  command.flag("--csv-packets", options->csv_packets, "Also write packets.csv.").needs("--csv");
  command.option("--rows", "N", options->rows, "Limit each table to N rows.")
      .positive()
      .by_default("10; unlimited with --json or --html");
  add_color_option(command, options->colors);
  command
      .option("--fail-on", "KIND", options->fail_on,
              "Exit with status 1 if a finding has at least this severity (error, warning, info), or if a finding or "
              "event has this kind. \"rdmawire explain events\" lists the kinds.")
      .completes(analyze::fail_on_words);
  command.group("Selection");
  analyze::add_boundary(command, "--from", options->from,
                        "Ignore packets before TIME: seconds since the first packet, a UTC date, or frame:N.");
  analyze::add_boundary(command, "--to", options->to, "Ignore packets after TIME.");
  command.option("--filter", "EXPR", options->filter,
                 "Analyze only packets that match EXPR (see docs/reference/filters.md).");
  command
      .option("--connection", "FRAME", options->connection,
              "Analyze only the connection that starts at frame number FRAME.")
      .positive();
  command.group("Analysis");
  command.option("--counters", "FILE", options->counters,
                 "Compare with host counters (output of \"rdma statistic\" or \"ethtool -S\"). If specified twice, the "
                 "first file contains the counters before the capture, and the second file those after it.");
  command
      .parsed(
          "--ignore", "SOURCE",
          [options](const std::string& text) {
            options->ignore.push_back(text);
            return text == "cm" || text == "text" || text == "source-port"
                       ? std::string()
                       : "expected cm, text or source-port, got \"" + text + "\"";
          },
          "Do not use this information to pair the two directions of a connection: cm, text, source-port.")
      .completes([] {
        return std::vector<std::string>{"cm", "text", "source-port"};
      })
      .separated_by(',')
      .repeats();
  add_roce_port_option(command, options->roce_port);
  add_disable_protocol_option(command, options->decode);
  command.flag("--no-crc", options->no_crc, "Do not verify CRCs.");
  add_memory_option(command, options->memory);
  command.option("--threads", "N", options->threads, "Use at most N worker threads.")
      .range(1, 256)
      .by_default("one per CPU core");
  command.group("Live capture");
  command.option("--interface", "DEVICE", options->interface, "Capture from DEVICE and refresh the report.");
  command
      .option("--capture-filter", "EXPR", options->capture_filter,
              "Capture only packets that match a libpcap expression.")
      .needs("--interface");
  command.flag("--follow", options->follow, "Follow a growing file until Ctrl-C, then print the full report.");
  command.option("--every", "SECONDS", options->every, "Refresh the report every SECONDS seconds.")
      .positive()
      .by_default("1 on a terminal, else 10");
  command.group("Multiple capture points");
  command.flag("--capture-points", options->capture_points,
               "Treat each file as a capture point on the same path. The report shows on which hop packets were lost, "
               "ECN-marked or delayed.");
  command
      .choice<bool>("--clocks", "MODE", options->synchronized,
                    {{"estimated", false, "from the packets"}, {"synchronized", true}},
                    "Estimate the clock offsets of the capture points, or treat their clocks as synchronized.")
      .needs("--capture-points");
  command.option("--order", "FILES", options->order, "List the capture files in path order, separated by commas.")
      .by_default("inferred from the packets")
      .separated_by(',')
      .needs("--capture-points");
  command
      .option("--window", "SECONDS", options->window,
              "Set the maximum time between two sightings of a packet. Larger values use more memory.")
      .range(1e-6, 3600)
      .by_default("0.1")
      .needs("--capture-points");
  command.examples = {
      {"rdmawire analyze trace.pcap --html report.html", "Print the report, and write it as a page with plots."},
      {"rdmawire analyze trace.pcap --connection 214 --from 12.5 --to 13", "Analyze half a second of one connection."},
      {"rdmawire analyze --capture-points leaf1.pcap spine.pcap leaf2.pcap", "Find the hop that loses packets."}};
  command.statuses = {{"0", "success"},
                      {"1", "a finding matched --fail-on"},
                      {"2", "usage error"},
                      {"3", "a file could not be read completely, or memory was exhausted (the report covers a part)"}};
  command.run = [options](const Given& given) {
    analyze::check(*options, given);
    const std::vector<std::string> words = analyze::fail_on_words();
    if (given("--fail-on") && std::find(words.begin(), words.end(), options->fail_on) == words.end())
      throw UsageError(fmt::format(
          "--fail-on: expected a severity (error, warning, info) or a kind of \"rdmawire explain events\", got \"{}\"",
          options->fail_on));
    return options->capture_points ? compare_capture_points(analyze::capture_point_options(*options))
                                   : analyze::Analyze(*options).run();
  };
  return command;
}

}  // namespace rdmawire::cli
