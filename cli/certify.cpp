/// rdmawire certify: judges a device clause by clause.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "cli/command.hpp"
#include "cli/lab.hpp"
#include "cli/terminal.hpp"
#include "conformance/coverage/coverage.hpp"
#include "conformance/report/assessment.hpp"
#include "conformance/report/report.hpp"
#include "conformance/runner/expected.hpp"
#include "conformance/runner/mutation.hpp"
#include "conformance/runner/preflight.hpp"
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
  rdmawire certify --device agent:tcp:10.0.0.2:18515 --secret-file s --wire packet:eth1 --preflight
  rdmawire certify --device agent:tcp:10.0.0.2:18515 --secret-file s --wire packet:eth1 --allow 192.0.2.2 \
                   --repeat 3 --report new --baseline old/report.json
  rdmawire certify --device lab:rxe --resume new        goes on where that run was cut off

No certification by IBTA, UNH-IOL or any other body: clauses are named as we read them.
Exit status: 0 all as expected, 1 an unexpected result (--preflight: something that has to be recomputed), 2 wrong usage,
3 the device could not be reached, or was lost too often; 130 ended by ctrl-C, the report is of what ran.)";

struct Options {
  conformance::AssessmentOptions run;
  std::string agent, html;
  std::vector<std::string> only;
  bool list = false, verbose = false, json = false, preflight = false, coverage = false, mutations = false;
};

Exit list(const Options& options) {
  Output output;
  for (const Case& which : conformance::cases())
    if (conformance::is_chosen(which, options.only))
      output.text() +=
          fmt::format("{:<9} {:<9} {}\n          {}  [{}]\n", which.rule->alias, to_string(which.rule->level),
                      which.id(), which.rule->sentence, conformance::clauses_of(*which.rule));
  return output.finish() ? Exit::fine : Exit::trouble;
}

/// One line on what is known of a result, or on its being news.
std::string comment_on(const CaseResult& result, const conformance::Report& report) {
  const conformance::Known* known = report.expected->find(*result.of, report.date);
  std::string text;
  if (const conformance::Known* over = report.expected->expired(*result.of, report.date))
    text = fmt::format("    was waived until {}: {}\n", over->until, over->reason);
  if (report.expected->expects(result, report.date, report.strict))
    return known ? text + fmt::format("    known     {}\n", known->reason) : text;
  return text + (known
                     ? fmt::format("    UNEXPECTED: {} is known of it: {}\n", to_string(known->verdict), known->reason)
                     : "    UNEXPECTED\n");
}

std::string words(const conformance::Change& change) {
  using Kind = conformance::Change::Kind;
  switch (change.kind) {
    case Kind::worse: return fmt::format("worse     {}: {} → {}\n", change.id, change.before, change.after);
    case Kind::better: return fmt::format("better    {}: {} → {}\n", change.id, change.before, change.after);
    case Kind::other_reason:
      return fmt::format("other     {}: {} → {}\n", change.id, change.was.empty() ? change.before : change.was,
                         change.is.empty() ? change.after : change.is);
    case Kind::appeared: return fmt::format("new       {}: {}\n", change.id, change.after);
    case Kind::gone: return fmt::format("not run   {}: was {}\n", change.id, change.before);
  }
  return {};
}

Exit list_faults() {
  Output output;
  for (const conformance::SeededFault& fault : conformance::seeded_faults())
    output.text() += fmt::format("{:<36} {}  [{}]\n", fault.name, fault.sentence, fmt::join(fault.broken, ", "));
  return output.finish() ? Exit::fine : Exit::trouble;
}

Exit run_preflight(const Options& options) {
  const auto target = conformance::Target::open(options.run.target);
  Output output;
  const auto findings = target ? conformance::preflight(**target)
                               : std::vector<conformance::Finding>{conformance::unreachable(target.error())};
  if (!target && target.error().usage) {
    report_error("certify: " + target.error().message);
    return Exit::usage;
  }
  output.text() = conformance::text_of(findings);
  if (!output.finish() || !target) return Exit::trouble;
  return conformance::has_failure(findings) ? Exit::found : Exit::fine;
}

/// Tells of a run while it goes on: who is sent what, results in the cases' order while they come in any, and how far
/// the work is.
class Teller final : public conformance::AssessmentListener {
 public:
  explicit Teller(const Options& options)
      : json_(options.json),
        verbose_(options.verbose),
        cap_(conformance::is_on_bench(options.run.target.device) ? options.run.target.frames_per_second : 0) {}

  void known(const std::string& device, bool found) override {
    report_error(
        found ? fmt::format("certify: results of {} that are known and examined are no news; --no-expected forgets "
                            "them",
                            device)
              : fmt::format("certify: nothing is known of {}; of {} it is", device,
                            fmt::join(conformance::ExpectedResults::devices(), ", ")));
  }
  void opened(conformance::Target& target) override {
    report_error(fmt::format("certify: crafted frames go over {} to {}{}", target.wire(), target.destinations(),
                             cap_ ? fmt::format("; at most {} a second", cap_) : ""));
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
    began_ = std::chrono::steady_clock::now();
  }
  void took(const CaseResult& result, bool earlier) override {
    texts_[result.of] = text_of(result);
    ++counts_[result.judgment.verdict];
    ++(earlier ? earlier_ : done_);
    while (next_ < chosen_.size() && texts_.contains(chosen_[next_])) print(texts_[chosen_[next_++]]);
    progress_.tell(line());
  }
  /// Tells those behind one that never came.
  void ended() override {
    for (; next_ < chosen_.size(); ++next_)
      if (texts_.contains(chosen_[next_])) print(texts_[chosen_[next_]]);
    progress_.clear();
  }
  Output& output() { return output_; }

 private:
  [[nodiscard]] std::string text_of(const CaseResult& result) const {
    if (json_) return {};
    const bool news = !report_->expected->expects(result, report_->date, report_->strict);
    if (!news && !verbose_ && result.judgment.verdict == Verdict::pass && !result.flaky() &&
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
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - began_;
    const auto left = static_cast<double>(chosen_.size() - done_ - earlier_);
    return text +
           fmt::format("; {:.0f} s left", gone.count() / static_cast<double>(std::max<std::size_t>(1, done_)) * left);
  }

  const bool json_, verbose_;
  const std::uint32_t cap_;  // frames a second on a bench; 0: none
  std::span<const Case* const> chosen_;
  const conformance::Report* report_ = nullptr;
  std::chrono::steady_clock::time_point began_;
  Output output_;
  Progress progress_{true};
  std::map<const Case*, std::string> texts_;
  std::map<Verdict, std::size_t> counts_;
  std::size_t next_ = 0, done_ = 0, earlier_ = 0;
};

/// Everything that is said and written of a run that is over.
Exit finish(const Options& options, const conformance::Assessment& made, Output& output) {
  const conformance::Report& report = made.report;
  if (options.json) {
    output.text() += to_json(report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    output.text() += summary(report);
    for (const conformance::Change& change : report.changes) output.text() += words(change);
  }
  std::vector<std::string> troubles = made.troubles;
  if (!options.html.empty())
    if (const auto written = conformance::write_text(options.html, to_html(report, "")); !written)
      troubles.push_back(written.error());
  for (const std::string& trouble : troubles) report_error("certify: " + trouble);
  if (!output.finish() || !troubles.empty()) return Exit::trouble;
  if (!report.partial.empty()) return status_of_signal();
  for (const conformance::Rule* rule : made.unlike_them)
    report_error(fmt::format("certify: UNEXPECTED: {} {}: monitors saw it held, and it is known to be broken",
                             rule->alias, rule->id));
  return made.is_news() ? Exit::found : Exit::fine;
}

Exit show_coverage() {
  Output output;
  output.text() = conformance::coverage_page();
  return output.finish() ? Exit::fine : Exit::trouble;
}

Exit show_mutations(std::uint64_t seed, const std::vector<std::string>& faults) {
  constexpr std::uint64_t usual_seed = 20261121;
  std::atomic<std::size_t> done = 0;
  const auto all = conformance::mutate_all(
      conformance::Breadth::all, seed ? seed : usual_seed, std::max(1U, std::thread::hardware_concurrency()),
      [&](const auto&) {
        if (const std::size_t count = ++done; count % 25 == 0)
          report_error(fmt::format("{} of {} faults", count,
                                   faults.empty() ? conformance::seeded_faults().size() : faults.size()));
      },
      faults);
  Output output;
  output.text() += conformance::document_of(all);
  bool whole = true;
  const auto news = [&](const conformance::Mutation& mutation, const std::string& what) {
    report_error(fmt::format("{}: {}", mutation.fault->name, what));
    whole = false;
  };
  for (const conformance::Mutation& mutation : all) {
    if (mutation.missed()) news(mutation, "nothing notices it");
    if (mutation.unseen() && mutation.fault->unseen.empty()) news(mutation, "monitors do not see it");
    if (const auto others = mutation.unrelated(); !others.empty())
      news(mutation, fmt::format("it is noticed, and not declared to be, by {}", fmt::join(others, " ")));
  }
  if (!output.finish()) return Exit::trouble;
  return whole ? Exit::fine : Exit::found;
}

Exit run(Options& options) {
  conformance::TargetOptions& target = options.run.target;
  if (options.coverage) return show_coverage();
  if (options.list) return list(options);
  if (target.faults == std::vector<std::string>{"list"}) return list_faults();
  for (const Case& which : conformance::cases())
    if (conformance::is_chosen(which, options.only)) options.run.cases.push_back(&which);
  options.run.all_cases = options.only.empty();
  if (options.run.cases.empty()) {
    report_error("certify: no case has such a name; --list names them all");
    return Exit::usage;
  }
  if (options.mutations) {
    if (const std::string why = conformance::in_vain(target, options.run.cases); !why.empty()) {
      report_error("certify: " + why);
      return Exit::usage;
    }
    return show_mutations(options.run.seed, target.faults);
  }
  std::error_code error;
  target.agent = options.agent.empty() ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                                       : fs::path(options.agent);
  target.progress = [](std::string_view line) { report_error(line); };
  target.stop = catch_signals();
  if (options.preflight) return run_preflight(options);
  Teller teller(options);
  const auto made = conformance::Assessment::run(std::move(options.run), teller);
  if (!made) {
    using Kind = conformance::AssessmentError::Kind;
    if (made.error().kind != Kind::bench) report_error("certify: " + made.error().message);  // else the teller told
    return made.error().kind == Kind::usage ? Exit::usage : Exit::trouble;
  }
  const Exit end = finish(options, **made, teller.output());
  if ((*made)->abandoned > 0) {
    // What hangs in this process would outlive what it uses.
    std::fflush(nullptr);
    std::_Exit(static_cast<int>(end));
  }
  return end;
}

}  // namespace

void add_certify(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("certify", "Judges a device clause by clause: sends frames, watches its answers.");
  auto options = std::make_shared<Options>();
  conformance::AssessmentOptions& run_options = options->run;
  conformance::TargetOptions& target = run_options.target;
  command->add_option("--device", target.device, "reference, lab:rxe, lab:siw, or agent:ADDRESS with --wire")
      ->capture_default_str();
  command->add_option("--wire", target.wire, "which leads to the device: packet:eth1");
  command->add_option("--secret-file", target.secret_file, "that the agent was started with");
  command
      ->add_option("--allow", target.allowed,
                   "the address of the device, as a real one may only be sent frames by name")
      ->allow_extra_args(false)
      ->type_name("ADDRESS");
  command->add_flag("--allow-multicast", target.multicast, "a real device may be sent multicast, too");
  command->add_option("--rate", target.frames_per_second, "frames a second to a real device, at most; 0: no cap")
      ->capture_default_str()
      ->type_name("PPS");
  command->add_option("--kernel", target.kernel, "of the lab: debian, newest")->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--congestion-management",
          [options](const std::string& word) { options->run.target.congestion_management = word == "on"; },
          "whether the device has it switched on, which verbs do not tell: on, off")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("WORD");
  command->add_option("--agent", options->agent, "the agent's program, for the lab");
  command->add_option("--only", options->only, "rules by id or alias, with * and ?, or cases; several");
  command->add_option("--fault", target.faults, "break the reference device on purpose; several; `list` names them");
  command->add_option("--seed", run_options.seed, "of what is chosen by chance; 0: another one each time");
  command->add_flag("--preflight", options->preflight, "look at the bench, and judge nothing");
  command->add_option("--jobs", run_options.jobs, "devices at once: references (one a core), guests of the lab (1)")
      ->check(CLI::Range(1, 64));
  command->add_option("--repeat", run_options.repeat, "run each case so often; those that end differently are flaky")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--case-timeout", run_options.case_timeout,
                   "seconds of the real clock, for a case (60; with --slow 600)")
      ->check(CLI::PositiveNumber);
  command->add_option("--timeout", run_options.timeout, "seconds for all; the report is of what ran; 0: none")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--losses", run_options.most_losses, "give up when the device was lost so often in a row (5)")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--strict", run_options.strict, "what a device should do counts like what it shall do");
  command->add_option("--expected", run_options.expected,
                      "results that are known of the device: a JSON file; it goes before what is built in");
  command->add_flag("!--no-expected", run_options.known, "what is built in of the lab's devices does not count");
  command->add_option("--baseline", run_options.baseline, "report.json of an earlier run, to be compared with");
  auto* report = command->add_option("--report", run_options.report,
                                     "a directory for report.json, junit.xml, index.html and a capture a case");
  command->add_option("--html", options->html, "a file for the report as one page, without the captures");
  command->add_option("--resume", run_options.resume, "go on with the run whose report directory this is")
      ->excludes(report);
  command->add_flag("--slow", target.slow, "cases that take more than a minute of a real device's time, too");
  command->add_flag("--dangerous", target.dangerous, "cases that have left a device hanging, too");
  command->add_flag("--list", options->list, "the cases, with their clauses");
  command->add_flag("--coverage", options->coverage, "of every rule its cases, monitor and faults: docs/coverage.md");
  command->add_flag("--mutations", options->mutations,
                    "every case against every fault of the reference device: a page; takes minutes");
  command->add_flag("--json", options->json, "the whole report as JSON");
  command->add_flag("-v,--verbose", options->verbose, "every step of each case");
  command->footer(examples);
  command->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
