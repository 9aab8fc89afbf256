/// rdmawire check: checks captured traffic against the specifications.

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>

#include "captures/analysis/memory_reserve.hpp"
#include "cli/clause_option.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/monitors/report.hpp"
#include "conformance/monitors/run.hpp"
#include "dissectors/output/filter_literal.hpp"

namespace rdmawire::cli {
namespace check {

struct Options {
  std::vector<std::string> files, rules;
  std::vector<tracking::PortAddress> at;
  std::string filter, clauses;
  std::optional<conformance::Level> level;
  std::uint64_t connection = 0, memory = captures::analysis::default_memory;
  unsigned threads = 0;
  std::size_t rows = 50;
  std::uint16_t roce_port = 0;
  DecodeOptions decode;
  bool json = false, coverage = false, quiet = false, complete = false;
  Colors colors = Colors::automatic;
};

std::optional<tracking::PortAddress> read_address(std::string_view text) {
  const auto bytes = output::parse_ipv6(text);  // IPv4 is mapped
  return bytes ? std::optional(tracking::PortAddress::of_gid(bytes->data())) : std::nullopt;
}

Exit run(const Options& options, std::uint64_t memory) {
  use_clauses(options.clauses);
  conformance::CheckOptions setup;
  setup.files = options.files;
  setup.threads = options.threads ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  setup.dissector.decode = options.decode;
  setup.dissector.decode.extra_roce_v2_port = options.roce_port;
  setup.memory = memory;
  setup.monitors.connection = options.connection;
  setup.monitors.assumptions.everywhere = options.complete;
  setup.monitors.assumptions.at = options.at;
  if (const std::string pattern = setup.monitors.rules.choose(options.rules); !pattern.empty()) {
    std::string similar;
    for (const std::string_view name : conformance::nearest_rules(pattern)) similar += fmt::format("\n  {}", name);
    throw UsageError(fmt::format("--rule: no rule matches \"{}\"{}", pattern,
                                 similar.empty() ? "" : "; did you mean one of these?" + similar));
  }
  if (options.level) setup.monitors.rules.at_least(*options.level);
  std::optional<output::Filter> filter;
  if (!options.filter.empty()) {
    auto compiled = output::Filter::compile(options.filter);
    if (!compiled) throw UsageError("--filter:\n" + output::to_string(compiled.error(), options.filter));
    filter = std::move(*compiled);
    setup.filter = &*filter;
  }
  Progress progress;
  setup.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
    progress.at(packets, done, all, name);
  };
  const conformance::CheckResult result = conformance::check(setup);
  captures::analysis::MemoryReserve::renew();
  progress.clear();
  for (const std::string& trouble : result.troubles) report_error(trouble);
  if (!result.troubles.empty() && result.input.files.empty()) return Exit::error;
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
  if (!output.finish() || !result.troubles.empty()) return Exit::error;
  return result.violated(conformance::Level::shall) ? Exit::findings : Exit::success;
}

}  // namespace check

Command check_command() {
  const auto options = std::make_shared<check::Options>();
  Command command;
  command.name = "check";
  command.summary = "Check captured traffic against the RDMA specifications, clause by clause.";
  command.description =
      "A violation is reported only if no conforming device could have produced these packets. If missing packets "
      "could "
      "explain them, the result is \"inconclusive\", with the reason. Results reflect our reading of the specification "
      "and are not a certification by IBTA, UNH-IOL or anyone else.";
  command
      .argument("FILE", options->files,
                "Capture files. \"-\" reads standard input. Multiple files are read as one capture, in the order of "
                "their first "
                "packets.")
      .repeats()
      .must_be_given();
  command.group("Output");
  command.flag("--json", options->json, "Print the report as one JSON object (see docs/reference/check-report.md).");
  command.flag("--list-exercised", options->coverage, "Show how often each rule was evaluated, with the results.");
  command.flag("--quiet", options->quiet, "Print only violations, one line each.");
  command.option("--rows", "N", options->rows, "Show at most N violations in full.").positive();
  add_clauses_option(command, options->clauses);
  add_color_option(command, options->colors);
  command.group("Selection");
  command
      .option("--rule", "GLOB", options->rules,
              "Check only rules whose ID or alias matches GLOB (* and ? are wildcards). A leading ! excludes rules.")
      .completes(rule_names);
  command
      .choice<conformance::Level>("--level", "LEVEL", options->level,
                                  {{"shall", conformance::Level::shall, "mandatory rules"},
                                   {"should", conformance::Level::should, "also recommendations"},
                                   {"may", conformance::Level::may, "all rules"}},
                                  "Check only rules of at least this level.")
      .by_default("may");
  command.option("--filter", "EXPR", options->filter,
                 "Check only packets that match EXPR (see docs/reference/filters.md).");
  command
      .option("--connection", "FRAME", options->connection,
              "Check only the connection that starts at frame number FRAME.")
      .positive();
  command.group("Capture");
  command
      .parsed(
          "--at", "ADDRESS",
          [options](const std::string& text) {
            const auto address = check::read_address(text);
            if (!address) return "expected an IPv4 or IPv6 address, got \"" + text + "\"";
            options->at.push_back(*address);
            return std::string();
          },
          "Assume the capture was taken at this address's port and lost no packets.")
      .repeats();
  command.flag("--complete", options->complete,
               "Assume the capture is complete: every lost or reordered packet is visible in it (simulation or "
               "back-to-back link).");
  add_roce_port_option(command, options->roce_port);
  add_disable_protocol_option(command, options->decode);
  add_memory_option(command, options->memory);
  command.option("--threads", "N", options->threads, "Use at most N worker threads.")
      .range(1, 256)
      .by_default("one per CPU core");
  command.examples = {
      {"rdmawire check trace.pcap", "Print each violation with the frames around it."},
      {"rdmawire check trace.pcap --rule 'rc.responder.*' --rule '!RSP-009'", "Check some rules only."},
      {"rdmawire check trace.pcap --at 10.0.0.2",
       "State that the capture is complete at this device's port, which makes more results conclusive."}};
  command.statuses = {{"0", "success"},
                      {"1", "a mandatory rule was violated"},
                      {"2", "usage error"},
                      {"3", "a file could not be read completely, or memory was exhausted (the report covers a part)"}};
  command.run = [options](const Given&) {
    return with_less_memory(options->memory, options->files,
                            [&](std::uint64_t memory) { return check::run(*options, memory); });
  };
  return command;
}

}  // namespace rdmawire::cli
