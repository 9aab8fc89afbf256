/// rdmawire analyze: what happened in a capture, to whom, why, since which frame.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "captures/analysis/csv.hpp"
#include "captures/analysis/details.hpp"
#include "captures/analysis/live_analysis.hpp"
#include "captures/analysis/page/page.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "captures/io/live.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "cli/vantage.hpp"

namespace rdmawire::cli {
namespace {

namespace analysis = captures::analysis;

constexpr const char* description =
    "Reports what a capture shows: which connection suffers, why, and since which frame.\n"
    "Several files are read as one capture, in the order of their first packets; with --vantage as captures of one "
    "job\n"
    "at several places, which are compared: on which hop a packet was lost, marked or delayed.";
constexpr const char* examples = R"(Examples:
  rdmawire analyze x.pcap                       summary, findings worst first, tables
  rdmawire analyze ring-*.pcapng --threads 4    the files of a rotating capture, as one
  rdmawire analyze x.pcap --json | jq '.findings[0]'
  rdmawire analyze x.pcap --html x.html         one page to look at and pass on: plots, ladders, tables
  rdmawire analyze x.pcap --csv tables          connections, flows, messages, events as CSV
  rdmawire analyze x.pcap --connection 214      one connection (named by its first frame)
  rdmawire analyze x.pcap --from 12.5 --to 13   half a second of it
  rdmawire analyze x.pcap --counters before.txt --counters after.txt
  rdmawire analyze --interface eth0             as it happens, until Ctrl-C
  rdmawire analyze --vantage leaf1.pcap spine.pcap leaf2.pcap      the same packets at several places: which hop?
  rdmawire analyze x.pcap --fail-on warning     for scripts: exit status 1 when something is wrong

Exit status: 0 fine, 1 found what --fail-on names, 2 wrong usage, 3 a file could not be read to its end (the report is of
what could be read).)";

struct Options {
  std::vector<std::string> files;
  std::string filter, from, to, csv, html, fail_on, interface, capture_filter;
  std::vector<std::string> counters, ignore, order;
  std::uint64_t connection = 0;
  unsigned threads = 0;
  std::size_t rows = 10;
  std::uint16_t roce_port = 0;
  bool json = false, csv_packets = false, no_crc = false, follow = false, vantage = false, synchronized = false;
  double every = 0, window = 0;
  Colors colors = Colors::automatic;
};

// What a signal handler may touch.
std::atomic<bool> interrupted{false};
std::atomic<std::int64_t> interrupted_at{0};  ///< nanoseconds of the monotonic clock
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// timeout(1) sends its signal to the program and to the program's group, and so twice at once.
void on_interruption(int signal) {
  constexpr std::int64_t at_once = 500'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  std::int64_t first = 0;
  if (interrupted_at.compare_exchange_strong(first, ns)) {
    interrupted = true;
  } else if (ns - first > at_once) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

/// Ctrl-C and SIGTERM end the following, not the program, as long as this lives. A second one, later, ends the program.
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
    analysis::RunOptions run;
    std::optional<output::Filter> filter;
    if (const Exit exit = prepare(run, filter); exit != Exit::fine) return exit;
    std::unique_ptr<analysis::CsvTables> csv;
    if (!options_.csv.empty()) {
      auto made = analysis::CsvTables::create(options_.csv, options_.csv_packets);
      if (!made) {
        report_error("--csv: " + made.error());
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
    if (!options_.html.empty())
      for (const std::string& file : options_.files)
        if (std::error_code error;
            file == "-" || (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))) {
          report_error(fmt::format("--html reads its input twice, so it takes files: {} is a stream. Save it first",
                                   file == "-" ? "standard input" : file));
          return Exit::usage;
        }
    run.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
      progress.at(packets, done, all, name);
    };
    const bool follows = options_.follow || !options_.interface.empty();
    const analysis::RunResult result = follows ? follow(run) : analysis::run(run);
    progress.clear();
    bool whole = result.troubles.empty();
    for (const std::string& trouble : result.troubles) report_error(trouble);
    if (csv)
      if (const auto finished = csv->finish(); !finished) {
        report_error("--csv: " + finished.error());
        whole = false;
      }
    if (!result.troubles.empty() && result.input.files.empty()) return Exit::trouble;
    analysis::Input input = result.input;
    input.from = options_.from;
    input.to = options_.to;
    const analysis::Json report =
        analysis::report_of(result.analysis, input,
                            options_.counters.empty() ? std::vector<analysis::CounterDifference>{}
                                                      : analysis::differences_of(before_, after_, result.analysis),
                            options_.json || !options_.html.empty() ? SIZE_MAX : options_.rows);
    Output output;
    const bool page_only = options_.html == "-";
    if (!options_.html.empty()) {
      const std::string page = page_of(run, result, report);
      progress.clear();
      if (page_only)
        output.text() += page;
      else
        whole &= write_page(page);
    }
    if (page_only) {
      // Standard output has it.
    } else if (options_.json) {
      output.text() += report.dump(2, ' ', false, analysis::Json::error_handler_t::replace) + "\n";
    } else {
      output.text() += analysis::text_of(
          report,
          {.width = terminal_width(), .colors = use_colors(options_.colors, STDOUT_FILENO), .rows = options_.rows});
    }
    if (!output.finish() || !whole) return Exit::trouble;
    return fails(report) ? Exit::found : Exit::fine;
  }

 private:
  /// The files are read once more, for what the page shows of packets.
  [[nodiscard]] std::string page_of(const analysis::RunOptions& run, const analysis::RunResult& result,
                                    const analysis::Json& report) const {
    const std::string details = analysis::details_of(run, result.analysis, report);
    std::string title = std::filesystem::path(options_.files.front()).filename().string();
    if (options_.files.size() > 1) title += fmt::format(" and {} more", options_.files.size() - 1);
    return captures::html_page(report.dump(-1, ' ', false, analysis::Json::error_handler_t::replace), details, title);
  }

  /// False, after a complaint, when it could not be written whole.
  [[nodiscard]] bool write_page(const std::string& page) const {
    errno = 0;
    std::FILE* file = std::fopen(options_.html.c_str(), "wb");
    bool written = file && std::fwrite(page.data(), 1, page.size(), file) == page.size();
    const int error = errno;
    if (file && std::fclose(file) != 0) written = false;
    if (!written)
      report_error(
          fmt::format("--html: {} could not be written: {}", options_.html, std::strerror(error ? error : errno)));
    return written;
  }

  /// Shows how it stands while packets come, until interrupted.
  analysis::RunResult follow(const analysis::RunOptions& run) {
    using Clock = analysis::LiveAnalysis::Clock;
    const bool terminal = ::isatty(STDOUT_FILENO) == 1 && !options_.json;
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
    if (terminal) static_cast<void>(show_text("\033[H\033[2J"));
    return it.finish();
  }

  /// False: nobody reads.
  bool show(const analysis::Json& report, bool terminal) const {
    std::string text = terminal ? "\033[H\033[2J" : "";
    text += analysis::text_of(report, {.width = terminal_width(),
                                       .colors = use_colors(options_.colors, STDOUT_FILENO),
                                       .rows = options_.rows,
                                       .tables = false});
    text += terminal ? "\nCtrl-C ends it and shows the whole report.\n" : "\n";
    return show_text(text);
  }
  static bool show_text(std::string_view text) {
    Output output;
    output.text() += text;
    return output.settle(true);
  }

  Exit prepare(analysis::RunOptions& run, std::optional<output::Filter>& filter) {
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
      auto compiled = output::Filter::compile(options_.filter);
      if (!compiled) {
        report_error("--filter:\n" + output::to_string(compiled.error(), options_.filter));
        return Exit::usage;
      }
      filter = std::move(*compiled);
      run.filter = &*filter;
      if (options_.no_crc && filter->uses_crcs()) {
        report_error("--filter asks for CRCs, which --no-crc leaves unverified");
        return Exit::usage;
      }
    }
    // Their form was checked with the command line.
    if (!options_.from.empty()) run.from = *analysis::Boundary::parse(options_.from);
    if (!options_.to.empty()) run.to = *analysis::Boundary::parse(options_.to);
    if (options_.counters.size() > 2) {
      report_error("--counters is given at most twice: before and after");
      return Exit::usage;
    }
    for (std::size_t i = 0; i < options_.counters.size(); ++i) {
      std::ifstream file(options_.counters[i], std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      if (!file.is_open() || file.bad()) {
        report_error(fmt::format("--counters: {} cannot be read", options_.counters[i]));
        return Exit::trouble;
      }
      auto counters = analysis::parse_counters(text);
      if (!counters) {
        report_error(fmt::format("--counters: {} {}", options_.counters[i], counters.error()));
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
  for (const char* known : {"error", "warning", "info", "capture_lost", "captured_twice", "files_overlap", "one_way",
                            "begins_in_the_middle", "traffic_class", "inexact"})
    if (word == known) return {};
  for (const tracking::EventRow& row : tracking::event_rows)
    if (row.name == word) return {};
  if (is_vantage_finding(word)) return {};
  return word + " is neither a severity (error, warning, info) nor a kind of event (rdmawire explain events)";
}

VantageOptions vantage_options(const Options& options) {
  return {.files = options.files,
          .filter = options.filter,
          .fail_on = options.fail_on,
          .order = options.order,
          .window = options.window,
          .threads = options.threads ? options.threads : std::max(1U, std::thread::hardware_concurrency()),
          .rows = options.rows,
          .width = terminal_width(),
          .roce_port = options.roce_port,
          .synchronized = options.synchronized,
          .json = options.json,
          .no_crc = options.no_crc,
          .colors = use_colors(options.colors, STDOUT_FILENO)};
}

}  // namespace

void add_analyze(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("analyze", description);
  sub->footer(examples);
  sub->add_option("FILE", options->files, "captures; - is standard input")->type_name("");
  sub->add_flag("--json", options->json, "one JSON object (docs/analyze.md names the keys)");
  sub->add_option("--html", options->html,
                  "write one page with plots, ladders and tables into this file (- is standard output)")
      ->type_name("OUT");
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
      ->check(check_positive)
      ->type_name("FRAME");
  sub->add_option("--threads", options->threads, "so many at most (default: one a core)")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  sub->add_option("--counters", options->counters,
                  "host counters beside the capture: rdma statistic, ethtool -S; twice: before and after")
      ->allow_extra_args(false)
      ->type_name("FILE");
  sub->add_option("--fail-on", options->fail_on, "exit status 1 when there is such a finding: a severity or a kind")
      ->check(check_fail_on)
      ->type_name("WORD");
  sub->add_option("--ignore", options->ignore, "evidence for joining not to be used: cm, text, source-port")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(CLI::IsMember({"cm", "text", "source-port"}, CLI::ignore_case))
      ->type_name("WORD");
  sub->add_option("--rows", options->rows, "of each table at most")->check(check_positive)->type_name("N");
  sub->add_option("--roce-port", options->roce_port, "a further UDP port that carries RoCEv2, beside 4791")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  sub->add_flag("--no-crc", options->no_crc, "do not verify CRCs");
  sub->add_flag("--follow", options->follow,
                "a file that still grows: show how it stands until Ctrl-C, then the report");
  sub->add_option("--interface", options->interface, "capture live from this device, and follow that")
      ->type_name("DEVICE");
  sub->add_option("--capture-filter", options->capture_filter,
                  "with --interface: what to capture, in libpcap's language")
      ->type_name("EXPR");
  sub->add_option("--every", options->every, "with --follow: seconds between reports (1 on a terminal, else 10)")
      ->check(check_positive)
      ->type_name("SECONDS");
  CLI::Option* const vantage = sub->add_flag(
      "--vantage", options->vantage,
      "the files are captures of one job at several places: find the same packets in them, and which hop is to blame");
  sub->add_option_function<std::string>(
         "--clocks", [options](const std::string& word) { options->synchronized = word == "synchronized"; },
         "with --vantage: synchronized, when the clocks are known to agree; else (found) packets tell")
      ->check(CLI::IsMember({"found", "synchronized"}))
      ->needs(vantage)
      ->type_name("WORD");
  sub->add_option("--order", options->order,
                  "with --vantage: the files in their order along the way, with commas between; else packets tell")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(vantage)
      ->type_name("FILES");
  sub->add_option("--window", options->window,
                  "with --vantage: seconds that copies of a packet may lie apart (0.1), the measure of memory")
      ->check(CLI::Range(1e-6, 3600.0))
      ->needs(vantage)
      ->type_name("SECONDS");
  add_color_option(*sub, options->colors);
  sub->callback([options, &work] {
    if (options->vantage)
      for (const auto& [given, option] :
           {std::pair(!options->html.empty(), "--html"), std::pair(!options->csv.empty(), "--csv"),
            std::pair(!options->counters.empty(), "--counters"), std::pair(options->connection != 0, "--connection"),
            std::pair(!options->from.empty(), "--from"), std::pair(!options->to.empty(), "--to"),
            std::pair(!options->ignore.empty(), "--ignore"), std::pair(options->follow, "--follow"),
            std::pair(!options->interface.empty(), "--interface")})
        if (given) throw CLI::ExcludesError("--vantage", option);
    if (options->files.empty() && options->interface.empty()) throw CLI::RequiredError("FILE");
    if (!options->files.empty() && !options->interface.empty()) throw CLI::ExcludesError("FILE", "--interface");
    if (options->follow && options->interface.empty() && (options->files.size() != 1 || options->files[0] == "-"))
      throw CLI::ValidationError("--follow", "takes one file, or --interface");
    for (const auto& [given, option] :
         {std::pair(options->connection != 0, "--connection"), std::pair(!options->from.empty(), "--from"),
          std::pair(!options->to.empty(), "--to")})
      if (given && (options->follow || !options->interface.empty())) throw CLI::ExcludesError("--follow", option);
    if (!options->html.empty() && (options->follow || !options->interface.empty()))
      throw CLI::ValidationError("--html", "takes files, which it reads twice; capture first (rdmawire capture)");
    if (options->html == "-" && options->json) throw CLI::ExcludesError("--html -", "--json");
    if (options->csv_packets && options->csv.empty()) throw CLI::RequiresError("--csv-packets", "--csv");
    if (!options->capture_filter.empty() && options->interface.empty())
      throw CLI::RequiresError("--capture-filter", "--interface");
    if (options->every != 0 && !options->follow && options->interface.empty())
      throw CLI::RequiresError("--every", "--follow");
    work = [options] {
      return options->vantage ? compare_vantage_points(vantage_options(*options)) : Analyze(*options).run();
    };
  });
}

}  // namespace rdmawire::cli
