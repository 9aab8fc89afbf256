/// rdmawire certify: runs active conformance tests against a device.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "captures/io/output_file.hpp"
#include "cli/clause_option.hpp"
#include "cli/command.hpp"
#include "cli/device_options.hpp"
#include "cli/lab.hpp"
#include "cli/terminal.hpp"
#include "conformance/coverage/blind_fault.hpp"
#include "conformance/coverage/coverage.hpp"
#include "conformance/report/assessment.hpp"
#include "conformance/report/merge.hpp"
#include "conformance/report/package.hpp"
#include "conformance/report/report.hpp"
#include "conformance/runner/expected.hpp"
#include "conformance/runner/mutation.hpp"
#include "conformance/runner/preflight.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::cli {
namespace certify {

namespace fs = std::filesystem;
using conformance::Case;
using conformance::CaseResult;
using conformance::Verdict;

struct Options {
  conformance::AssessmentOptions run;
  std::string agent, html, rerun_failed, ics, write_ics, clauses;
  std::vector<std::string> only;
  conformance::Shard shard;
  bool list = false, verbose = false, json = false, preflight = false, coverage = false, mutations = false;
};

Exit list(const Options& options) {
  Output output;
  for (const Case& which : conformance::cases())
    if (conformance::is_chosen(which, options.only))
      output.text() +=
          fmt::format("{:<9} {:<9} {}\n          {}  [{}]\n", which.rule->alias, to_string(which.rule->level),
                      which.id(), which.rule->sentence, conformance::clauses_of(*which.rule));
  return output.finish() ? Exit::success : Exit::error;
}

/// Notes on known, waived and unexpected results, and the command line that repeats a failure, one line each.
std::string comment_on(const CaseResult& result, const conformance::Report& report) {
  const conformance::Known* known = report.expected->find(*result.of, report.date);
  std::string text;
  for (const conformance::Applied& one : applied_to(result, report)) {
    const std::string of = one.of.empty() ? "" : one.of + ": ";
    if (one.expired)
      text += fmt::format("    WAIVER EXPIRED {}on {}: {}\n", of, one.known->until, one.known->reason);
    else if (one.known->until.empty())
      text += fmt::format("    known     {}{}\n", of, one.known->reason);
    else
      text += fmt::format("    waived    {}until {}: {}\n", of, one.known->until, one.known->reason);
  }
  if (report.expected->expects(result, report.date, report.strict)) return text;
  if (const std::string command = repeat_command(result, report); !command.empty())
    text += fmt::format("    repeat    {}\n", command);
  return text +
         (known ? fmt::format("    UNEXPECTED: the known result is {}: {}\n", to_string(known->verdict), known->reason)
                : "    UNEXPECTED\n");
}

std::string text_of_change(const conformance::Change& change) {
  using Kind = conformance::Change::Kind;
  std::string rules;
  for (const std::string& id : change.observed) {
    const conformance::Rule* rule = conformance::find_rule(id);
    rules += fmt::format("{}{}", rules.empty() ? "" : ", ", rule && !rule->alias.empty() ? rule->alias : id);
  }
  const std::string seen = rules.empty() ? "" : fmt::format("; monitors observe a violation of {}", rules);
  const std::string no_longer =
      rules.empty() ? "" : fmt::format("; monitors no longer observe a violation of {}", rules);
  const std::string waived = seen + (change.waived ? " (waived)" : "");
  switch (change.kind) {
    case Kind::worse: return fmt::format("worse     {}: {} → {}{}\n", change.id, change.before, change.after, waived);
    case Kind::better:
      return fmt::format("better    {}: {} → {}{}\n", change.id, change.before, change.after, no_longer);
    case Kind::other_reason:
      return fmt::format("different {}: {} → {}{}\n", change.id, change.was.empty() ? change.before : change.was,
                         change.is.empty() ? change.after : change.is, waived);
    case Kind::appeared: return fmt::format("new       {}: {}{}\n", change.id, change.after, waived);
    case Kind::gone: return fmt::format("not run   {}: was {}\n", change.id, change.before);
    case Kind::slower:
      return fmt::format("slower    {}: {:.3f} s → {:.3f} s\n", change.id, static_cast<double>(change.was_ns) / 1e9,
                         static_cast<double>(change.is_ns) / 1e9);
  }
  return {};
}

Exit list_faults(bool json) {
  Output output;
  if (json) {
    output.text() += conformance::faults_as_json();
    return output.finish() ? Exit::success : Exit::error;
  }
  for (const conformance::SeededFault& fault : conformance::seeded_faults())
    output.text() += fmt::format("{:<36} {}  [{}]\n", fault.name, fault.sentence, fmt::join(fault.broken, ", "));
  output.text() += "\nBlind faults, written without knowledge of the cases (docs/reference/blind-faults.md):\n\n";
  for (const conformance::BlindFault& fault : conformance::blind_faults())
    output.text() += fmt::format("{:<36} {}  [{}]\n", fault.name, fault.sentence, fault.area);
  return output.finish() ? Exit::success : Exit::error;
}

Exit run_preflight(const Options& options) {
  const auto target = conformance::Target::open(options.run.target);
  Output output;
  const auto findings = target ? conformance::preflight(**target)
                               : std::vector<conformance::Finding>{conformance::unreachable(target.error())};
  if (!target && target.error().usage) throw UsageError(target.error().message);
  output.text() = conformance::text_of(findings);
  if (!output.finish() || !target) return Exit::error;
  return conformance::has_failure(findings) ? Exit::findings : Exit::success;
}

/// Prints the progress of a run and its results. Results arrive in any order and are printed in the cases' order.
class ProgressPrinter final : public conformance::AssessmentListener {
 public:
  explicit ProgressPrinter(const Options& options)
      : json_(options.json),
        verbose_(options.verbose),
        cap_(conformance::is_on_bench(options.run.target.device) ? options.run.target.frames_per_second : 0) {}

  void known(const std::string& device, bool found) override {
    report_error(found
                     ? fmt::format("certify: known results for {} are treated as expected; use --no-expected to report "
                                   "them",
                                   device)
                     : fmt::format("certify: no known results for {}; available for {}", device,
                                   fmt::join(conformance::ExpectedResults::devices(), ", ")));
  }
  void opened(conformance::Target& target) override {
    report_error(fmt::format("certify: sending crafted frames through {} to {}{}", target.wire(), target.destinations(),
                             cap_ ? fmt::format("; at most {} per second", cap_) : ""));
  }
  void looked(const std::vector<conformance::Finding>& findings) override {
    for (const conformance::Finding& finding : findings)
      if (finding.status != conformance::Finding::Status::pass)
        report_error(fmt::format("certify: {}: {}: {}; {}", to_string(finding.status), finding.what, finding.found,
                                 finding.advice));
  }
  void begins(std::span<const Case* const> cases, const conformance::Report& report) override {
    chosen_ = cases;
    report_ = &report;
    start_ = std::chrono::steady_clock::now();
  }
  void took(const CaseResult& result, bool earlier) override {
    texts_[result.of] = text_of(result);
    ++counts_[result.judgment.verdict];
    ++(earlier ? earlier_ : done_);
    while (next_ < chosen_.size() && texts_.contains(chosen_[next_])) print(texts_[chosen_[next_++]]);
    progress_.show_line(line());
  }
  /// Prints the results that were held back because an earlier case in the order has no result.
  void ended() override {
    for (; next_ < chosen_.size(); ++next_)
      if (texts_.contains(chosen_[next_])) print(texts_[chosen_[next_]]);
    progress_.clear();
  }
  Output& output() { return output_; }

 private:
  [[nodiscard]] std::string text_of(const CaseResult& result) const {
    if (json_ || (result.blocked && result.judgment.verdict == Verdict::inconclusive && !verbose_)) return {};
    const bool unexpected = !report_->expected->expects(result, report_->date, report_->strict);
    if (!unexpected && !verbose_ && result.judgment.verdict == Verdict::pass && !result.flaky() &&
        result.complaints.empty() && result.observed.violations.empty())
      return {};
    return conformance::text_of(result, verbose_) + comment_on(result, *report_);
  }
  void print(const std::string& text) {
    if (text.empty()) return;
    progress_.clear();
    output_.text() += text;
    output_.settle(true);
  }
  [[nodiscard]] std::string line() const {
    std::string text = fmt::format("certify: {}/{}", done_ + earlier_, chosen_.size());
    for (const auto& [verdict, count] : counts_) text += fmt::format(", {} {}", count, to_string(verdict));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const auto left = static_cast<double>(chosen_.size() - done_ - earlier_);
    return text + fmt::format("; {:.0f} s left",
                              elapsed.count() / static_cast<double>(std::max<std::size_t>(1, done_)) * left);
  }

  const bool json_, verbose_;
  const std::uint32_t cap_;  // frames per second on a physical wire. 0: no limit
  std::span<const Case* const> chosen_;
  const conformance::Report* report_ = nullptr;
  std::chrono::steady_clock::time_point start_;
  Output output_;
  Progress progress_{true};
  std::map<const Case*, std::string> texts_;
  std::map<Verdict, std::size_t> counts_;
  std::size_t next_ = 0, done_ = 0, earlier_ = 0;
};

/// Prints and writes the results of a finished run.
Exit finish(const Options& options, const conformance::Assessment& made, Output& output) {
  const conformance::Report& report = made.report;
  if (options.json) {
    output.text() += to_json(report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    output.text() += summary(report);
    for (const conformance::Change& change : report.changes) output.text() += text_of_change(change);
  }
  std::vector<std::string> errors = made.troubles;
  if (!options.html.empty())
    if (const auto written = captures::write_file(options.html, to_html(report, "")); !written)
      errors.push_back(written.error());
  for (const std::string& message : errors) report_error("certify: " + message);
  if (!made.foreign.empty())
    report_error(fmt::format("certify: the report directory contains other files, which the manifest does not list: {}",
                             fmt::join(made.foreign, ", ")));
  if (!output.finish() || !errors.empty()) return Exit::error;
  if (!report.partial.empty()) return status_of_signal();
  for (const CaseResult& result : report.results)
    for (const conformance::Applied& one : applied_to(result, report))
      if (one.expired && disposition_of(result, report) == conformance::Disposition::expired)
        report_error(fmt::format("certify: the waiver of {}{} expired on {}: {}", result.of->id(),
                                 one.of.empty() ? "" : fmt::format(" ({})", one.of), one.known->until,
                                 one.known->reason));
  for (const conformance::Rule* rule : made.unlike_them)
    report_error(
        fmt::format("certify: UNEXPECTED: {} {}: a violation is known, but the monitors observed conforming behavior",
                    rule->alias, rule->id));
  return made.is_unexpected() ? Exit::findings : Exit::success;
}

Exit show_coverage() {
  Output output;
  output.text() = conformance::coverage_page();
  return output.finish() ? Exit::success : Exit::error;
}

Exit show_mutations(std::uint64_t seed, const std::vector<std::string>& faults) {
  constexpr std::uint64_t default_seed = 20261121;
  std::atomic<std::size_t> done = 0;
  const auto all = conformance::mutate_all(
      conformance::Breadth::all, seed ? seed : default_seed, std::max(1U, std::thread::hardware_concurrency()),
      [&](const auto&) {
        if (const std::size_t count = ++done; count % 25 == 0)
          report_error(fmt::format("{} of {} faults", count,
                                   faults.empty() ? conformance::seeded_faults().size() : faults.size()));
      },
      faults);
  Output output;
  output.text() += conformance::document_of(all);
  bool complete = true;
  const auto problem = [&](const conformance::Mutation& mutation, const std::string& what) {
    report_error(fmt::format("{}: {}", mutation.fault->name, what));
    complete = false;
  };
  for (const conformance::Mutation& mutation : all) {
    if (mutation.missed()) problem(mutation, "no case detects it");
    if (mutation.unseen() && mutation.fault->unseen.empty()) problem(mutation, "no monitor detects it");
    if (const auto others = mutation.unrelated(); !others.empty())
      problem(mutation, fmt::format("undeclared detection by {}", fmt::join(others, " ")));
  }
  if (!output.finish()) return Exit::error;
  return complete ? Exit::success : Exit::findings;
}

/// Rejects options that have no effect on the chosen device. Otherwise the reference device would be tested instead of
/// the intended one.
void check_device_options(const conformance::TargetOptions& target, const Given& given) {
  if (given("--wire") && !target.device.starts_with("agent:"))
    throw UsageError("--wire requires --device agent:ADDRESS");
  if (given("--kernel") && !target.device.starts_with("lab:"))
    throw UsageError("--kernel requires --device lab:rxe or lab:siw");
  const bool own_kernel = target.kernel != "debian" && target.kernel != "newest";
  if (given("--modules") && !(own_kernel && target.device.starts_with("lab:")))
    throw UsageError("--modules requires --device lab:rxe or lab:siw, and --kernel FILE");
}

/// The options that select and configure the device, which a repetition of a case needs.
std::vector<std::string> device_arguments(const Options& options, const Given& given) {
  const conformance::TargetOptions& target = options.run.target;
  std::vector<std::string> arguments;
  const auto add = [&](const char* name, const auto& value) {
    if (!given(name)) return;
    arguments.emplace_back(name);
    arguments.push_back(fmt::format("{}", value));
  };
  const auto add_all = [&](const char* name, const std::vector<std::string>& values) {
    for (const std::string& value : values) arguments.insert(arguments.end(), {name, value});
  };
  const auto add_flag = [&](const char* name) {
    if (given(name)) arguments.emplace_back(name);
  };
  add("--device", target.device);
  add("--wire", target.wire);
  add_all("--allow", target.allowed);
  add("--rate", target.frames_per_second);
  add("--credentials", target.credentials);
  add("--kernel", target.kernel);
  add("--modules", target.modules);
  add("--agent", options.agent);
  add_flag("--allow-multicast");
  add("--congestion-management", target.congestion_management.value_or(false) ? "on" : "off");
  add_all("--fault", target.faults);
  add_flag("--slow");
  add_flag("--dangerous");
  add("--ics", options.ics);
  add("--case-timeout", options.run.case_timeout);
  return arguments;
}

/// Reads the ICS, and uses its IXIT for the options that are not on the command line.
void apply_ics(Options& options, const Given& given) {
  auto ics = conformance::Ics::read(options.ics);
  if (!ics) throw UsageError(ics.error());
  apply_ixit(ics->ixit, options.run, [&](const std::string& option) { return given(option); });
  options.run.ics_file = options.ics;
  options.run.ics = std::move(*ics);
}

/// Writes a template of an ICS with the values of the device.
Exit write_ics(const Options& options) {
  std::error_code error;
  if (fs::exists(options.write_ics, error))
    throw UsageError(fmt::format("--write-ics: {} exists already; specify a new file", options.write_ics));
  conformance::TargetOptions how = options.run.target;
  how.family = options.run.cases.front()->family();
  auto target = conformance::Target::open(how);
  if (!target) {
    if (target.error().usage) throw UsageError(target.error().message);
    report_error("certify: " + target.error().message);
    return Exit::error;
  }
  const auto json = conformance::ics_template(**target, options.run.target);
  const auto written = captures::write_file(
      options.write_ics, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (!written) {
    report_error("certify: " + written.error());
    return Exit::error;
  }
  report_error(fmt::format("certify: {} contains the values that the device reports; fill in: {}", options.write_ics,
                           fmt::join(json["unanswered"].get<std::vector<std::string>>(), ", ")));
  return Exit::success;
}

/// Options of `certify verify`.
struct VerifyOptions {
  std::string directory, key;
  bool json = false;
};

Exit verify(const VerifyOptions& options) {
  std::optional<conformance::SignatureKey> key;
  if (!options.key.empty()) {
    auto read = conformance::SignatureKey::read_public(options.key);
    if (!read) throw UsageError(read.error());
    key = std::move(*read);
  }
  const auto check = conformance::verify_package(options.directory, key ? &*key : nullptr);
  if (!check) {
    report_error("certify verify: " + check.error());
    return Exit::error;
  }
  Output output;
  output.text() = options.json
                      ? to_json(*check).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                      : text_of(*check);
  if (!output.finish()) return Exit::error;
  return check->is_intact() && check->is_complete() ? Exit::success : Exit::findings;
}

Command verify_command() {
  const auto options = std::make_shared<VerifyOptions>();
  Command command;
  command.name = "verify";
  command.summary = "Verify that the files of a report are unchanged.";
  command.description =
      "Names every modified, missing and additional file, and states whether all selected cases ran. Only a signature "
      "protects the manifest itself: otherwise, "
      "compare its SHA-256 digest, which this command prints, with that of the lab.";
  command.argument("DIR", options->directory, "The report directory.").must_be_given().completes(Completion::directory);
  command.option("--public-key", "FILE", options->key, "Check the signature with the Ed25519 public key in FILE (PEM).")
      .completes(Completion::file);
  command.flag("--json", options->json, "Print one JSON object.");
  command.examples = {{"rdmawire certify verify out", "Check the files of a report."},
                      {"rdmawire certify verify out --public-key lab.pub", "Also check who signed it."},
                      {"rdmawire certify verify out --json | jq -r '.problems[].path'", "List the changed files."}};
  command.statuses = {
      {"0",
       "all files are unchanged, all selected cases ran, and the signature is valid if a public key was "
       "specified"},
      {"1", "a file differs, the signature is invalid or missing, or some selected cases did not run"},
      {"2", "usage error"},
      {"3", "the manifest could not be read"}};
  command.run = [options](const Given&) { return verify(*options); };
  return command;
}

/// Options of `certify merge`.
struct MergeCommandOptions {
  std::vector<std::string> directories;  ///< the new one, then those of the shards
  std::string sign, key;
  bool several_benches = false, overwrite = false, json = false;
};

Exit merge(const MergeCommandOptions& options) {
  if (options.directories.size() < 3)
    throw UsageError("expected a new directory and the packages of two or more shards");
  std::optional<conformance::SignatureKey> key;
  if (!options.key.empty()) {
    auto read = conformance::SignatureKey::read_public(options.key);
    if (!read) throw UsageError(read.error());
    key = std::move(*read);
  }
  conformance::MergeOptions how;
  how.directory = options.directories.front();
  how.packages.assign(options.directories.begin() + 1, options.directories.end());
  how.several_benches = options.several_benches;
  how.overwrite = options.overwrite;
  how.sign = options.sign;
  how.public_key = key ? &*key : nullptr;
  const auto made = conformance::merge_packages(how);
  if (!made) {
    report_error("certify merge: " + made.error());
    return Exit::error;
  }
  Output output;
  if (!options.json)
    for (const CaseResult& result : (*made)->report.results)
      if (!(*made)->expected.expects(result, (*made)->report.date, (*made)->report.strict))
        output.text() += conformance::text_of(result, false) + comment_on(result, (*made)->report);
  Options of_output;
  of_output.json = options.json;
  return finish(of_output, **made, output);
}

Command merge_command() {
  const auto options = std::make_shared<MergeCommandOptions>();
  Command command;
  command.name = "merge";
  command.summary = "Merge the reports of all shards of a campaign into one report.";
  command.description =
      "The shards are reports of --shard 1/N to N/N, of the same build, device, seed and options. A modified, partial, "
      "missing or repeated shard is refused. The result is the report of a run without shards. It contains the "
      "manifests of the shards.";
  command.usage = {"[OPTIONS] OUT DIR DIR..."};
  command.argument("DIR", options->directories, "The new report directory, then the report directories of the shards.")
      .repeats()
      .must_be_given()
      .completes(Completion::directory);
  command.flag(
      "--several-benches", options->several_benches,
      "Accept shards of several devices with different addresses and hosts. Vendor, part, hardware version and "
      "firmware must be equal.");
  command.flag("--overwrite", options->overwrite, "Replace the report of another run in OUT.");
  command
      .option("--public-key", "FILE", options->key,
              "Require that the shards are signed, with the Ed25519 public key in FILE (PEM).")
      .completes(Completion::file);
  command.option("--sign", "FILE", options->sign, "Sign the new manifest with the Ed25519 private key in FILE (PEM).")
      .completes(Completion::file);
  command.flag("--json", options->json, "Print the report as one JSON object.");
  command.examples = {{"rdmawire certify merge all part1 part2", "Merge two shards."},
                      {"rdmawire certify merge all part* --public-key bench.pub --sign lab.key",
                       "Check the signatures of the shards, and sign the result."},
                      {"rdmawire certify merge all part* --several-benches", "Merge shards that several hosts ran."}};
  command.statuses = {{"0", "all results are as expected"},
                      {"1", "unexpected result"},
                      {"2", "usage error"},
                      {"3", "a shard is unreadable, incomplete, or of another campaign"}};
  command.run = [options](const Given&) { return merge(*options); };
  return command;
}

/// Options of `certify compare`.
struct CompareOptions {
  std::vector<std::string> reports;
  double factor = 1.5, least = 0.1;
  bool json = false;
};

/// Warns if a report directory differs from its manifest. The directory of a copied report.json has no manifest.
void warn_of_changes(const std::string& path) {
  std::error_code error;
  if (!fs::exists(fs::path(path) / conformance::manifest_name, error)) return;
  const auto check = conformance::verify_package(path);
  if (!check) return report_error("certify compare: " + check.error());
  if (!check->is_intact())
    report_error(
        fmt::format("certify compare: {} is not intact; list the changed files with rdmawire certify verify {}", path,
                    conformance::shell_word(path)));
}

/// The circumstances of a run, one line.
std::string text_of_run(const char* name, const std::string& path, const conformance::Outcomes& run) {
  return fmt::format("{:<9} {}: {}, {}, {}, {}, seed {}, {} case{}{}\n", name, path, run.device, run.details,
                     run.program, run.date, run.seed, run.cases.size(), run.cases.size() == 1 ? "" : "s",
                     run.partial.empty() ? "" : ", PARTIAL: " + run.partial);
}

Exit compare(const CompareOptions& options) {
  if (options.reports.size() != 2)
    throw UsageError(fmt::format("expected two reports, got {}", options.reports.size()));
  std::vector<conformance::Outcomes> runs;
  for (const std::string& path : options.reports) {
    auto run = conformance::read_outcomes(path);
    if (!run) {
      report_error("certify compare: " + run.error());
      return Exit::error;
    }
    warn_of_changes(path);
    runs.push_back(std::move(*run));
  }
  if (runs[0].strength != runs[1].strength)
    report_error(
        fmt::format("certify compare: the runs have the strengths {} and {}: a case can be worse or better "
                    "because of rows that only one run contains",
                    runs[0].strength, runs[1].strength));
  const conformance::SlowerLimits limits{options.factor, static_cast<std::int64_t>(options.least * 1e9)};
  const auto changes = conformance::compare(runs[0].cases, runs[1].cases, limits);
  std::map<conformance::Change::Kind, std::size_t> counts;
  std::size_t regressions = 0, changed = 0;
  for (const conformance::Change& change : changes) {
    ++counts[change.kind];
    regressions += change.is_regression() ? 1 : 0;
    changed += change.kind == conformance::Change::Kind::gone ? 0 : 1;
  }
  const std::size_t same = runs[1].cases.size() - changed;
  Output output;
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const conformance::Change& change : changes)
      list.push_back({{"kind", to_string(change.kind)},
                      {"id", change.id},
                      {"before", change.before},
                      {"after", change.after},
                      {"before_ns", change.was_ns},
                      {"after_ns", change.is_ns},
                      {"observed", change.observed},
                      {"waived", change.waived},
                      {"regression", change.is_regression()}});
    const nlohmann::ordered_json json{{"format", 1},
                                      {"before", options.reports[0]},
                                      {"after", options.reports[1]},
                                      {"slower_factor", options.factor},
                                      {"slower_by_s", options.least},
                                      {"unchanged", same},
                                      {"regressions", regressions},
                                      {"changes", std::move(list)}};
    output.text() = json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    output.text() =
        text_of_run("before", options.reports[0], runs[0]) + text_of_run("after", options.reports[1], runs[1]);
    for (const conformance::Change& change : changes) output.text() += text_of_change(change);
    output.text() += fmt::format("{} unchanged", same);
    for (const auto& [kind, count] : counts)
      output.text() +=
          fmt::format(", {} {}", count, kind == conformance::Change::Kind::gone ? "not run" : to_string(kind));
    output.text() +=
        fmt::format("; slower: at least {:g} times as long and {:g} s longer\n", options.factor, options.least);
  }
  if (!output.finish()) return Exit::error;
  return regressions == 0 ? Exit::success : Exit::findings;
}

Command compare_command() {
  const auto options = std::make_shared<CompareOptions>();
  Command command;
  command.name = "compare";
  command.summary = "Compare two reports, for example of two firmware versions.";
  command.description =
      "Lists the cases that are worse, better, slower, new, not run, or have another reason. A result that is waived "
      "in "
      "the second report is listed, but does not affect the exit status.";
  command.usage = {"[OPTIONS] BEFORE AFTER"};
  command
      .argument("REPORT", options->reports, "A report directory, or its report.json: the earlier, then the later one.")
      .repeats()
      .must_be_given()
      .completes(Completion::file);
  command
      .option("--slower-factor", "N", options->factor, "Report a case as slower if it takes at least N times as long.")
      .range(1, 1e6);
  command
      .option("--slower-by", "SECONDS", options->least,
              "Report a case as slower only if it takes SECONDS seconds longer.")
      .range(0, 1e6);
  command.flag("--json", options->json, "Print one JSON object.");
  command.examples = {
      {"rdmawire certify compare old new", "Compare two report directories."},
      {"rdmawire certify compare old/report.json new/report.json --slower-factor 3", "Report only much slower cases."},
      {"rdmawire certify compare old new --json | jq -r '.changes[] | select(.regression).id'",
       "List the regressions."}};
  command.statuses = {{"0", "no case is worse, slower or missing, and no new case fails"},
                      {"1", "a case is worse, slower or missing, or a new case fails"},
                      {"2", "usage error"},
                      {"3", "a report could not be read"}};
  command.run = [options](const Given&) { return compare(*options); };
  return command;
}

/// Parses "i/n". Returns an error message or an empty string.
std::string read_shard(const std::string& text, Options& options) {
  const auto shard = conformance::parse_shard(text);
  if (!shard) return shard.error();
  options.shard = *shard;
  return {};
}

/// Parses the text of a row. Returns an error message or an empty string.
std::string read_row(const std::string& text, Options& options) {
  auto row = conformance::parse_row(text);
  if (!row) return row.error();
  options.run.row = std::move(*row);
  return {};
}
/// Parses "10m". Returns an error message or an empty string.
std::string read_budget(const std::string& text, Options& options) {
  const auto seconds = conformance::parse_duration(text);
  if (!seconds) return seconds.error();
  options.run.budget = *seconds;
  return {};
}

/// Throws UsageError if the options select rows in two ways.
void check_rows(const Options& options, const Given& given) {
  if (options.run.row && given("--strength")) throw UsageError("--row excludes --strength, because it selects one row");
}

/// Selects the cases of the run. Throws UsageError. Returns false if --rerun-failed selects none.
bool select_cases(Options& options, const Given& given) {
  std::vector<const Case*>& selected = options.run.cases;
  for (const Case& which : conformance::cases())
    if (conformance::is_chosen(which, options.only)) selected.push_back(&which);
  if (selected.empty())
    throw UsageError(
        fmt::format("no test case matches \"{}\"; use --list to show all cases", fmt::join(options.only, "\", \"")));
  if (!options.rerun_failed.empty()) {
    const auto failed = conformance::failed_cases(options.rerun_failed);
    if (!failed) throw UsageError(failed.error());
    std::erase_if(selected, [&](const Case* one) {
      return std::find(failed->cases.begin(), failed->cases.end(), one) == failed->cases.end();
    });
    if (!failed->partial.empty())
      report_error(fmt::format("certify: {} is partial: {}; only its results are considered: continue it with --resume",
                               options.rerun_failed, failed->partial));
    if (!given("--seed")) options.run.seed = failed->seed;
    if (!given("--repeat")) options.run.repeat = failed->repeat;
    if (!given("--strength") && !given("--row")) {
      options.run.strength = failed->strength;
      options.run.row = failed->row;
    }
    if (selected.empty()) return false;
  }
  if (options.shard.count > 1) {
    const std::size_t all = selected.size();
    selected = conformance::shard_of(selected, options.shard.index, options.shard.count);
    options.run.shard = fmt::format("{}/{}", options.shard.index, options.shard.count);
    if (selected.empty())
      throw UsageError(fmt::format("--shard {} contains no case; the selection has only {}", options.run.shard, all));
  }
  options.run.all_cases = options.only.empty() && options.rerun_failed.empty() && options.shard.count == 1;
  return true;
}

Exit run(Options& options, const Given& given) {
  conformance::TargetOptions& target = options.run.target;
  if (options.coverage) return show_coverage();
  if (!options.mutations) options.run.clauses = use_clauses(options.clauses);
  if (options.list) return list(options);
  if (target.faults == std::vector<std::string>{"list"}) return list_faults(options.json);
  check_device_options(target, given);
  if (!options.ics.empty()) apply_ics(options, given);
  if (!select_cases(options, given)) {
    report_error(fmt::format("certify: {} contains no failed case{}", options.rerun_failed,
                             options.only.empty() ? "" : " of the selection"));
    return Exit::success;
  }
  check_rows(options, given);
  options.run.patterns = options.only;
  options.run.arguments = device_arguments(options, given);
  if (options.mutations) {
    if (const std::string why = conformance::in_vain(target, options.run.cases); !why.empty()) throw UsageError(why);
    for (const std::string& name : target.faults)
      if (std::ranges::none_of(conformance::seeded_faults(), [&](const auto& fault) { return fault.name == name; }))
        throw UsageError(fmt::format("--mutations evaluates only seeded faults, not the blind fault {}", name));
    return show_mutations(options.run.seed, target.faults);
  }
  std::error_code error;
  target.agent = options.agent.empty() ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                                       : fs::path(options.agent);
  target.progress = [](std::string_view line) { report_error(line); };
  target.stop = catch_signals();
  if (options.preflight) return run_preflight(options);
  if (!options.write_ics.empty()) return write_ics(options);
  ProgressPrinter printer(options);
  const auto made = conformance::Assessment::run(std::move(options.run), printer);
  if (!made) {
    using Kind = conformance::AssessmentError::Kind;
    if (made.error().kind == Kind::usage) throw UsageError(made.error().message);
    // The printer has already reported findings of the bench.
    if (made.error().kind != Kind::bench) report_error("certify: " + made.error().message);
    return Exit::error;
  }
  const Exit end = finish(options, **made, printer.output());
  if ((*made)->abandoned > 0) {
    // Hanging threads would otherwise use destroyed objects.
    std::fflush(nullptr);
    std::_Exit(static_cast<int>(end));
  }
  return end;
}

}  // namespace certify

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const conformance::SeededFault& fault : conformance::seeded_faults()) names.emplace_back(fault.name);
  for (const conformance::BlindFault& fault : conformance::blind_faults()) names.emplace_back(fault.name);
  return names;
}

void add_device_options(Command& command, conformance::TargetOptions& target) {
  command.option("--device", "DEVICE", target.device, "Use this device: reference, lab:rxe, lab:siw, or agent:ADDRESS.")
      .completes([] {
        return std::vector<std::string>{"reference", "lab:rxe", "lab:siw", "agent:tcp:"};
      });
  command.option("--allow", "ADDRESS", target.allowed,
                 "Allow sending to this device address (required for physical devices).");
  command.option("--rate", "PPS", target.frames_per_second,
                 "Send at most PPS frames per second to a physical device. 0 removes the limit.");
  command.option("--credentials", "FILE", target.credentials,
                 "Authenticate to the agent with the key in FILE (see rdmawire-agent --make-credentials).");
  command
      .option("--kernel", "KERNEL", target.kernel,
              "Boot this kernel in the lab: debian (the kernel of the Debian release), newest (Debian's newest "
              "kernel), or the path of a bzImage or vmlinux (requires --modules).")
      .completes([] {
        return std::vector<std::string>{"debian", "newest"};
      });
  command.option("--modules", "DIR", target.modules, "Use the kernel modules in DIR (lib/modules/RELEASE) in the lab.");
}

Command certify_command() {
  const auto options = std::make_shared<certify::Options>();
  conformance::AssessmentOptions& run_options = options->run;
  conformance::TargetOptions& target = run_options.target;
  Command command;
  command.name = "certify";
  command.summary = "Run active conformance tests against a device and verify its responses.";
  command.description =
      "Without options, tests the reference device in this process. Results reflect our reading of the specifications "
      "and are not a certification by IBTA, UNH-IOL or anyone else.";
  command.group("Device");
  add_device_options(command, target);
  command.option("--wire", "WIRE", target.wire, "Reach the device through this wire, for example packet:eth1.")
      .completes(wire_names);
  command.flag("--allow-multicast", target.multicast, "Allow sending multicast frames to a physical device.");
  command.choice<bool>("--congestion-management", "STATE", target.congestion_management, {{"on", true}, {"off", false}},
                       "State whether congestion management is enabled on the device, which verbs cannot query.");
  command.option("--agent", "FILE", options->agent, "Run this agent program in the lab.")
      .by_default("rdmawire-agent next to rdmawire");
  command
      .option("--fault", "NAME", target.faults,
              "Inject a fault into the reference device. The name \"list\" prints all faults (with --json as JSON).")
      .completes(fault_names);
  command
      .option("--ics", "FILE", options->ics,
              "Read declared capabilities and limits (ICS) and option values (IXIT) from FILE (JSON), and compare the "
              "device with the ICS. Options on the command line override the IXIT.")
      .completes(Completion::file);
  command.option("--write-ics", "FILE", options->write_ics, "Query the device, and write a template for --ics to FILE.")
      .excludes({"--ics", "--report", "--resume", "--html", "--json", "--sign", "--preflight", "--list"});
  command.group("Selection");
  command
      .option("--only", "PATTERN", options->only,
              "Run only cases of rules whose ID or alias matches PATTERN (* and ? are wildcards), or the case whose ID "
              "equals PATTERN.")
      .completes(rule_names);
  command.flag("--slow", target.slow, "Also run cases that take more than one minute on a physical device.");
  command.flag("--dangerous", target.dangerous, "Also run cases that may stop the device.");
  command.parsed(
      "--shard", "I/N", [options](const std::string& text) { return certify::read_shard(text, *options); },
      "Run only part I of N disjoint parts of the selection.");
  command
      .option(
          "--rerun-failed", "DIR", options->rerun_failed,
          "Run only the failed and unexpected cases of the report in DIR, with its seed, number of repetitions, and "
          "strength or row.")
      .completes(Completion::directory)
      .excludes({"--resume"});
  command.group("Run");
  command.option("--seed", "N", run_options.seed, "Set the random seed. 0 selects a new seed for each run.")
      .by_default("0");
  command.option("--jobs", "N", run_options.jobs, "Test N devices in parallel.")
      .range(1, 64)
      .by_default("one per CPU core for the reference device, else 1");
  command
      .option("--repeat", "N", run_options.repeat,
              "Run each case N times. Cases with different results are reported as flaky.")
      .range(1, 1000);
  command
      .option(
          "--strength", "N", run_options.strength,
          "Vary the parameters that a case leaves open, such as path MTU and first PSN, so that each combination of "
          "N values occurs. 0 runs each case once.")
      .range(0, conformance::most_strength);
  command.parsed(
      "--row", "ROW", [options](const std::string& text) { return certify::read_row(text, *options); },
      "Run each case only with these parameter values, for example 'path MTU=256,history=NAK'.");
  command.parsed(
      "--budget", "TIME", [options](const std::string& text) { return certify::read_budget(text, *options); },
      "Start no further row after TIME (90s, 10m, 8h), and test as many combinations as possible before.");
  command.option("--case-timeout", "SECONDS", run_options.case_timeout, "Stop a row of a case after SECONDS seconds.")
      .positive()
      .by_default("60; 600 with --slow");
  command
      .option("--timeout", "SECONDS", run_options.timeout,
              "Stop the run after SECONDS seconds and report the finished cases.")
      .range(0, 1e9)
      .by_default("no limit");
  command
      .option("--max-device-losses", "N", run_options.most_losses,
              "Stop after the device becomes unreachable N times in a row.")
      .range(1, 1000);
  command.option("--resume", "DIR", run_options.resume, "Continue the run whose report directory is DIR.")
      .excludes({"--report"});
  command.flag("--preflight", options->preflight, "Only check the test setup.")
      .excludes({"--report", "--resume", "--html", "--json", "--sign", "--list"});
  command.group("Expected results");
  command.option("--expected", "FILE", run_options.expected,
                 "Read known results of this device from FILE (JSON). They override the built-in list.");
  command.option("--waivers", "FILE", run_options.waivers,
                 "Read waivers from FILE (JSON): known results with an end date. They override the known results.");
  command.flag("--no-expected", run_options.known, "Ignore the built-in list of known results.", false);
  command.option("--baseline", "FILE", run_options.baseline, "Compare with the report.json of an earlier run.");
  command.flag("--strict", run_options.strict, "Treat violations of recommendations (should) as unexpected results.");
  command.group("Output");
  command.option("--report", "DIR", run_options.report,
                 "Write an evidence package to DIR: report.json, junit.xml, index.html, a traceability matrix, one "
                 "capture per case, and a manifest with the digests of all files.");
  command.flag("--overwrite", run_options.overwrite, "Replace the report of another run in the directory of --report.")
      .excludes({"--resume"});
  command.option("--sign", "FILE", run_options.sign, "Sign the manifest with the Ed25519 private key in FILE (PEM).");
  add_clauses_option(command, options->clauses);
  command.option("--html", "FILE", options->html, "Write the report as one HTML file, without captures.");
  command.flag("--json", options->json, "Print the report as one JSON object.");
  command.flag("-v,--verbose", options->verbose, "Print every step of each case.");
  command.group("Information");
  command.flag("--list", options->list, "List the cases with their rules and clauses.");
  command.flag("--coverage", options->coverage,
               "Print the page docs/reference/coverage.md: cases, monitors and faults of each rule.");
  command.flag(
      "--mutations", options->mutations,
      "Print the page docs/reference/mutations.md: the faults of the reference devices and the cases that detect "
      "them. Runs every case against every fault, which takes minutes.");
  command.examples = {
      {"rdmawire certify --device lab:rxe --report out", "Test Linux's rxe in a virtual machine."},
      {"rdmawire certify --only 'RSP-*' --only rc.requester.psn.wraps -v", "Run some cases and print every step."},
      {"rdmawire certify --device agent:tcp:10.0.0.2:18515 --credentials controller.key --wire packet:eth1 --allow "
       "192.0.2.2",
       "Test a physical device through its agent."}};
  command.statuses = {{"0", "all results are as expected"},
                      {"1", "unexpected result, or failed check of --preflight"},
                      {"2", "usage error"},
                      {"3", "the device could not be reached, or was lost too often"},
                      {"130", "interrupted with Ctrl-C (the report covers the finished cases)"}};
  command.subcommands = {certify::compare_command(), certify::merge_command(), certify::verify_command()};
  command.run = [options](const Given& given) { return certify::run(*options, given); };
  return command;
}

}  // namespace rdmawire::cli
