/// rdmawire certify: judges a device clause by clause.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <random>
#include <thread>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/device/fault_table.hpp"
#include "conformance/report/report.hpp"
#include "conformance/runner/expected.hpp"
#include "conformance/runner/mutation.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::cli {
namespace {

namespace fs = std::filesystem;
using conformance::Case;
using conformance::CaseResult;
using conformance::Verdict;

constexpr const char* examples = R"(Examples:
  rdmawire certify --list                               the cases, each with its rule and clause
  rdmawire certify                                      all of them against the reference device in this process
  rdmawire certify --device lab:rxe --report out        against Linux's rxe in a virtual machine; evidence in out/
  rdmawire certify --only 'RSP-*' --only rc.requester.psn.wraps -v
  rdmawire certify --device lab:rxe --expected known.json       what is known of it is no news
  rdmawire certify --device agent:10.0.0.2:7400 --wire packet:eth1 --baseline last/report.json

No certification by IBTA, UNH-IOL or any other body: clauses are named as we read them.
Exit status: 0 all as expected, 1 an unexpected result, 2 wrong usage, 3 the device could not be reached.)";

struct Options {
  std::string device = "reference", wire, kernel = "debian", agent, report, expected, baseline;
  std::vector<std::string> only, faults;
  std::uint64_t seed = 0;
  bool list = false, verbose = false, json = false, mutations = false;
};

bool wanted(const Case& which, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return conformance::matches(*which.rule, pattern) || which.id() == pattern;
         });
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[11];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

Exit list(const Options& options) {
  Output output;
  for (const Case& which : conformance::cases())
    if (wanted(which, options.only))
      output.text() +=
          fmt::format("{:<9} {:<9} {}\n          {}  [{}]\n", which.rule->alias, to_string(which.rule->level),
                      which.id(), which.rule->sentence, conformance::clauses_of(*which.rule));
  return output.finish() ? Exit::fine : Exit::trouble;
}

/// One line on what is known of a result, or on its being news.
std::string comment_on(const CaseResult& result, const conformance::ExpectedResults& expected, const std::string& day) {
  const conformance::Known* known = expected.find(*result.of, day);
  if (expected.expects(result, day)) return known ? fmt::format("    known     {}\n", known->reason) : "";
  return known ? fmt::format("    UNEXPECTED: {} is known of it: {}\n", to_string(known->verdict), known->reason)
               : "    UNEXPECTED\n";
}

std::string words(const conformance::Change& change) {
  using Kind = conformance::Change::Kind;
  switch (change.kind) {
    case Kind::worse: return fmt::format("worse     {}: {} → {}\n", change.id, change.before, change.after);
    case Kind::better: return fmt::format("better    {}: {} → {}\n", change.id, change.before, change.after);
    case Kind::other_reason: return fmt::format("other     {}: {} → {}\n", change.id, change.before, change.after);
    case Kind::appeared: return fmt::format("new       {}: {}\n", change.id, change.after);
    case Kind::gone: return fmt::format("not run   {}: was {}\n", change.id, change.before);
  }
  return {};
}

Exit list_faults() {
  Output output;
  for (const device::FaultRow& row : device::fault_rows)
    output.text() += fmt::format("{:<36} {}  [{}]\n", row.name, row.sentence, fmt::join(row.broken(), ", "));
  return output.finish() ? Exit::fine : Exit::trouble;
}

Exit mutations(std::uint64_t seed) {
  constexpr std::uint64_t usual_seed = 20261121;
  std::atomic<std::size_t> done = 0;
  const auto all = conformance::mutate_all(conformance::Breadth::all, seed ? seed : usual_seed,
                                           std::max(1U, std::thread::hardware_concurrency()), [&](const auto&) {
                                             if (const std::size_t count = ++done; count % 25 == 0)
                                               complain(fmt::format("{} of {} faults", count, device::fault_count));
                                           });
  Output output;
  output.text() += conformance::document_of(all);
  const bool whole =
      std::none_of(all.begin(), all.end(), [](const auto& m) { return m.missed() || !m.unrelated().empty(); });
  if (!output.finish()) return Exit::trouble;
  return whole ? Exit::fine : Exit::found;
}

Exit run(const Options& options) {
  if (options.mutations) return mutations(options.seed);
  if (options.list) return list(options);
  if (options.faults == std::vector<std::string>{"list"}) return list_faults();
  conformance::ExpectedResults expected;
  if (!options.expected.empty()) {
    auto read = conformance::ExpectedResults::read(options.expected);
    if (!read) {
      complain("certify: " + read.error());
      return Exit::usage;
    }
    expected = std::move(*read);
  }
  std::vector<const Case*> chosen;
  for (const Case& which : conformance::cases())
    if (wanted(which, options.only)) chosen.push_back(&which);
  if (chosen.empty()) {
    complain("certify: no case has such a name; --list names them all");
    return Exit::usage;
  }
  conformance::Report report;
  report.seed = options.seed ? options.seed : std::random_device()();
  conformance::TargetOptions target_options;
  target_options.device = options.device;
  target_options.seed = report.seed;
  target_options.faults = options.faults;
  target_options.wire = options.wire;
  target_options.kernel = options.kernel;
  std::error_code error;
  target_options.agent = options.agent.empty()
                             ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                             : fs::path(options.agent);
  target_options.progress = [](std::string_view line) { complain(line); };
  auto target = conformance::Target::open(target_options);
  if (!target) {
    complain("certify: " + target.error().message);
    return target.error().usage ? Exit::usage : Exit::trouble;
  }
  conformance::DeviceUnderTest& device = (*target)->device();
  report.device = device.name;
  report.details = (*target)->details();

  Output output;
  const std::string day = today();
  bool unexpected = false;
  report.results = conformance::run_cases(chosen, device, report.seed, [&](const CaseResult& result) {
    const bool news = !expected.expects(result, day);
    unexpected |= news;
    if (options.json) return;
    if (news || options.verbose || !result.observed.violations.empty() || result.judgement.verdict != Verdict::pass)
      output.text() += conformance::text_of(result, options.verbose) + comment_on(result, expected, day);
    for (const std::string& complaint : (*target)->complaints())
      output.text() += fmt::format("    the device complains: {}\n", complaint);
  });
  if (options.only.empty())
    for (const conformance::Rule* rule : expected.held_unexpectedly(report.results, day)) {
      unexpected = true;
      if (!options.json)
        output.text() += fmt::format("{} {}\n    UNEXPECTED: monitors saw it held, and it is known to be broken\n",
                                     rule->alias, rule->id);
    }
  for (const CaseResult& result : report.results) report.nanoseconds += result.nanoseconds;
  if (options.json)
    output.text() += to_json(report).dump(1) + "\n";
  else
    output.text() += summary(report);
  if (!options.baseline.empty()) {
    const auto changes = conformance::compare(options.baseline, report.results);
    if (!changes) {
      complain("certify: " + changes.error());
      return Exit::usage;
    }
    if (!options.json)
      for (const conformance::Change& change : *changes) output.text() += words(change);
  }
  if (!options.report.empty())
    if (const auto written = conformance::write(report, options.report); !written) {
      complain("certify: " + written.error());
      return Exit::trouble;
    }
  if (!output.finish()) return Exit::trouble;
  return unexpected ? Exit::found : Exit::fine;
}

}  // namespace

void add_certify(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("certify", "Judges a device clause by clause: sends frames, watches its answers.");
  auto options = std::make_shared<Options>();
  command->add_option("--device", options->device, "reference, lab:rxe, or agent:ADDRESS with --wire")
      ->capture_default_str();
  command->add_option("--wire", options->wire, "which leads to the device: packet:eth1");
  command->add_option("--kernel", options->kernel, "of the lab: debian, newest")->capture_default_str();
  command->add_option("--agent", options->agent, "the agent's program, for the lab");
  command->add_option("--only", options->only, "rules by id or alias, with * and ?, or cases; several");
  command->add_option("--fault", options->faults, "break the reference device on purpose; several; `list` names them");
  command->add_option("--seed", options->seed, "of what is chosen by chance; 0: another one each time");
  command->add_option("--expected", options->expected, "results that are known of the device: a JSON file");
  command->add_option("--baseline", options->baseline, "report.json of an earlier run, to be compared with");
  command->add_option("--report", options->report, "a directory for report.json, junit.xml and a capture a case");
  command->add_flag("--mutations", options->mutations,
                    "every case against every fault of the reference device: docs/mutations.md; takes minutes");
  command->add_flag("--list", options->list, "the cases, with their clauses");
  command->add_flag("--json", options->json, "the whole report as JSON");
  command->add_flag("-v,--verbose", options->verbose, "every step of each case");
  command->footer(examples);
  command->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
