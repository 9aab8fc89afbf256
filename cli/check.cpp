/// rdmawire check: whether what devices said on the wire is what the specification asks of them.

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/monitors/report.hpp"
#include "conformance/monitors/run.hpp"
#include "dissectors/output/filter_literal.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Holds what devices said on the wire against the rules of the specification, clause by clause.\n"
    "A deviation is reported only if no behavior of a conforming device explains the packets; where the capture may\n"
    "have missed something that does, the judgment is inconclusive, with the reason. What it says is how we read the\n"
    "specification, of these packets; it is no certification, by the IBTA, the UNH-IOL or anybody.\n"
    "Several files are read as one capture, in the order of their first packets.";
constexpr const char* examples = R"(Examples:
  rdmawire check x.pcap                         deviations, each with the frames around it
  rdmawire check x.pcap --list-exercised        and how often each rule was judged
  rdmawire check x.pcap --rule 'rc.responder.*' --rule '!RSP-009'
  rdmawire check x.pcap --level should          what devices shall do, and what they should
  rdmawire check x.pcap --connection 214        one connection (named by its first frame)
  rdmawire check x.pcap --at 10.0.0.2           the capture was taken at this device's port and lost nothing: more is sure
  rdmawire check x.pcap --json | jq '.violations[] | .rule'
  rdmawire explain RSP-009                      what a rule asks, and where it stands

Exit status: 0 fine, 1 something that a device shall do was not done, 2 wrong usage, 3 a file could not be read to its
end (the report is of what could be read).)";

struct Options {
  std::vector<std::string> files, rules, at;
  std::string filter;
  std::optional<conformance::Level> level;
  std::uint64_t connection = 0;
  unsigned threads = 0;
  std::size_t rows = 50;
  std::uint16_t roce_port = 0;
  bool json = false, coverage = false, quiet = false, complete = false;
  Colors colors = Colors::automatic;
};

std::optional<tracking::PortAddress> read_address(std::string_view text) {
  const auto bytes = output::parse_ipv6(text);  // IPv4 is mapped
  return bytes ? std::optional(tracking::PortAddress::of_gid(bytes->data())) : std::nullopt;
}

Exit run(const Options& options) {
  conformance::CheckOptions check;
  check.files = options.files;
  check.threads = options.threads ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  check.dissector.decode.extra_roce_v2_port = options.roce_port;
  check.monitors.connection = options.connection;
  check.monitors.trust.everywhere = options.complete;
  for (const std::string& address : options.at) check.monitors.trust.at.push_back(*read_address(address));
  if (const std::string pattern = check.monitors.rules.choose(options.rules); !pattern.empty()) {
    std::string like;
    for (const std::string_view name : conformance::nearest_rules(pattern)) like += fmt::format("\n  {}", name);
    report_error(fmt::format("--rule: there is no rule {}{}", pattern, like.empty() ? "" : "; near it are" + like));
    return Exit::usage;
  }
  if (options.level) check.monitors.rules.at_least(*options.level);
  std::optional<output::Filter> filter;
  if (!options.filter.empty()) {
    auto compiled = output::Filter::compile(options.filter);
    if (!compiled) {
      report_error("--filter:\n" + output::to_string(compiled.error(), options.filter));
      return Exit::usage;
    }
    filter = std::move(*compiled);
    check.filter = &*filter;
  }
  Progress progress;
  check.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
    progress.at(packets, done, all, name);
  };
  const conformance::CheckResult result = conformance::check(check);
  progress.clear();
  for (const std::string& trouble : result.troubles) report_error(trouble);
  if (!result.troubles.empty() && result.input.files.empty()) return Exit::trouble;
  const conformance::Json report = conformance::report_of(result);
  Output output;
  if (options.json)
    output.text() += report.dump(2, ' ', false, conformance::Json::error_handler_t::replace) + "\n";
  else
    output.text() += conformance::text_of(report, {.width = terminal_width(),
                                                   .colors = use_colors(options.colors, STDOUT_FILENO),
                                                   .coverage = options.coverage,
                                                   .quiet = options.quiet,
                                                   .most_violations = options.rows});
  if (!output.finish() || !result.troubles.empty()) return Exit::trouble;
  return result.violated(conformance::Level::shall) ? Exit::found : Exit::fine;
}

}  // namespace

void add_check(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("check", description);
  sub->footer(examples);
  sub->add_option("FILE", options->files, "captures; - is standard input")->required()->type_name("");
  sub->add_option("--rule", options->rules,
                  "only these rules: ids or aliases, with * and ?; several; with ! before it: not these")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  sub->add_option_function<std::string>(
         "--level",
         [options](const std::string& word) {
           options->level = word == "shall"    ? conformance::Level::shall
                            : word == "should" ? conformance::Level::should
                                               : conformance::Level::may;
         },
         "only rules that ask at least so strongly: shall, should, may")
      ->check(CLI::IsMember({"shall", "should", "may"}))
      ->type_name("WORD");
  sub->add_option("--filter", options->filter, "only packets that match (docs/filters.md)")->type_name("EXPR");
  sub->add_option("--connection", options->connection, "only the connection that begins with this frame")
      ->check(check_positive)
      ->type_name("FRAME");
  sub->add_option("--at", options->at, "the capture was taken at the port of this address and lost nothing; several")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return read_address(text) ? std::string() : text + " is no IPv4 or IPv6 address";
      })
      ->type_name("ADDRESS");
  sub->add_flag("--complete", options->complete,
                "nothing is lost or changes its order anywhere but before the capture's eyes (a simulation, a bench)");
  sub->add_flag("--list-exercised", options->coverage, "how often each rule was judged, and how");
  sub->add_flag("--quiet", options->quiet, "deviations alone, a line each");
  sub->add_flag("--json", options->json, "one JSON object (docs/check.md names the keys)");
  sub->add_option("--rows", options->rows, "deviations that are shown whole, at most (50)")
      ->check(check_positive)
      ->type_name("N");
  sub->add_option("--threads", options->threads, "so many at most (default: one a core)")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  sub->add_option("--roce-port", options->roce_port, "a further UDP port that carries RoCEv2, beside 4791")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  add_color_option(*sub, options->colors);
  sub->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
