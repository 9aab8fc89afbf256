/// rdmawire certify: judges a device clause by clause.

#include "conformance/runner/certify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "cli/command.hpp"
#include "cli/lab.hpp"
#include "cli/terminal.hpp"
#include "conformance/coverage/coverage.hpp"
#include "conformance/report/journal.hpp"
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
Exit status: 0 all as expected, 1 an unexpected result (--preflight: something that has to be mended), 2 wrong usage,
3 the device could not be reached, or was lost too often; 130 ended by ctrl-C, the report is of what ran.)";

struct Options {
  conformance::TargetOptions target;
  std::string agent, report, resume, html, expected, baseline;
  std::vector<std::string> only;
  std::uint64_t seed = 0;
  unsigned jobs = 0, repeat = 1, most_losses = 5;
  double case_timeout = 0, timeout = 0;
  bool known = true;
  bool list = false, verbose = false, json = false, preflight = false, strict = false, coverage = false,
       mutations = false;
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

Exit complained(const conformance::TargetError& error) {
  complain("certify: " + error.message);
  return error.usage ? Exit::usage : Exit::trouble;
}

Exit run_preflight(const Options& options) {
  conformance::TargetOptions how = options.target;
  const auto target = conformance::Target::open(how);
  Output output;
  const auto findings = target ? conformance::preflight(**target)
                               : std::vector<conformance::Finding>{conformance::unreachable(target.error())};
  if (!target && target.error().usage) return complained(target.error());
  output.text() = conformance::text_of(findings);
  if (!output.finish() || !target) return Exit::trouble;
  return conformance::has_failure(findings) ? Exit::found : Exit::fine;
}

/// Prints results in the cases' order while they come in any, and how far the work is.
class Teller {
 public:
  Teller(std::span<const Case* const> chosen, const Options& options, const conformance::Report& report)
      : chosen_(chosen), options_(options), report_(report), began_(std::chrono::steady_clock::now()) {}

  void take(const CaseResult& result, bool from_earlier = false) {
    const std::lock_guard lock(mutex_);
    texts_[result.of] = text_of(result);
    ++counts_[result.judgement.verdict];
    ++(from_earlier ? earlier_ : done_);
    while (next_ < chosen_.size() && texts_.contains(chosen_[next_])) print(texts_[chosen_[next_++]]);
    progress_.tell(line());
  }
  /// Those behind one that never came.
  void rest() {
    const std::lock_guard lock(mutex_);
    for (; next_ < chosen_.size(); ++next_)
      if (texts_.contains(chosen_[next_])) print(texts_[chosen_[next_]]);
    progress_.clear();
  }
  Output& output() { return output_; }

 private:
  [[nodiscard]] std::string text_of(const CaseResult& result) const {
    if (options_.json) return {};
    const bool news = !report_.expected->expects(result, report_.date, report_.strict);
    if (!news && !options_.verbose && result.judgement.verdict == Verdict::pass && !result.flaky() &&
        result.complaints.empty() && result.observed.violations.empty())
      return {};
    return conformance::text_of(result, options_.verbose) + comment_on(result, report_);
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

  std::span<const Case* const> chosen_;
  const Options& options_;
  const conformance::Report& report_;
  const std::chrono::steady_clock::time_point began_;
  std::mutex mutex_;
  Output output_;
  Progress progress_{true};
  std::map<const Case*, std::string> texts_;
  std::map<Verdict, std::size_t> counts_;
  std::size_t next_ = 0, done_ = 0, earlier_ = 0;
};

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// What can run at once when nothing was said: in this process a device a core, else one.
unsigned usual_jobs(const std::string& device) {
  return conformance::is_cheap(device) ? std::max(1U, std::thread::hardware_concurrency()) : 1;
}

/// Who will be sent what, and on a bench whether it is fit for it.
tl::expected<void, Exit> look_first(conformance::Target& target, const Options& options, conformance::Report& report) {
  const std::string& device = options.target.device;
  if (conformance::is_cheap(device)) return {};
  const bool bench = conformance::is_on_bench(device);
  complain(fmt::format("certify: crafted frames go over {} to {}{}", target.wire(), target.destinations(),
                       bench && options.target.frames_per_second
                           ? fmt::format("; at most {} a second", options.target.frames_per_second)
                           : ""));
  if (!bench) return {};
  report.preflight = conformance::preflight(target, {.listening = 100'000'000, .clocks = 100'000'000});
  for (const conformance::Finding& finding : report.preflight)
    if (finding.status != conformance::Finding::Status::pass)
      complain(fmt::format("certify: {}: {}: {}; {}", to_string(finding.status), finding.what, finding.found,
                           finding.advice));
  if (conformance::has_failure(report.preflight)) return tl::unexpected(Exit::trouble);
  return {};
}

/// What goes on with what an earlier run left, or begins; nothing where no directory is asked for.
tl::expected<std::optional<conformance::Journal>, std::string> journal_of(const Options& options,
                                                                          const conformance::Report& report) {
  const conformance::RunIdentity identity{report.device, report.details, report.seed, options.repeat};
  if (options.resume.empty() && options.report.empty()) return std::nullopt;
  auto journal = options.resume.empty() ? conformance::Journal::begin(options.report, identity)
                                        : conformance::Journal::resume(options.resume, identity);
  if (!journal) return tl::unexpected(journal.error());
  return std::move(*journal);
}

/// Everything that is said and written of a run that is over.
Exit finish(const Options& options, conformance::Report& report, Output& output, const std::string& journal_error) {
  if (!options.baseline.empty()) {
    auto changes = conformance::compare(options.baseline, report.results);
    if (!changes) {
      complain("certify: " + changes.error());
      return Exit::usage;
    }
    // Of a selection, what was not asked for is no change.
    if (!options.only.empty())
      std::erase_if(*changes, [](const auto& one) { return one.kind == conformance::Change::Kind::gone; });
    report.changes = std::move(*changes);
  }
  if (options.json) {
    output.text() += to_json(report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    output.text() += summary(report);
    for (const conformance::Change& change : report.changes) output.text() += words(change);
  }
  const std::string& directory = options.resume.empty() ? options.report : options.resume;
  bool lost = !journal_error.empty();
  if (lost) complain("certify: " + journal_error);
  if (!directory.empty())
    if (const auto written = conformance::write(report, directory); !written) {
      complain("certify: " + written.error());
      lost = true;
    }
  if (!options.html.empty())
    if (const auto written = conformance::write_text(options.html, to_html(report, "")); !written) {
      complain("certify: " + written.error());
      lost = true;
    }
  if (!output.finish() || lost) return Exit::trouble;
  if (!report.partial.empty()) return status_of_signal();
  bool news = std::any_of(report.results.begin(), report.results.end(), [&](const CaseResult& result) {
    return !report.expected->expects(result, report.date, report.strict);
  });
  // Of all cases alone one can say that a rule held.
  if (options.only.empty() && report.partial.empty())
    for (const conformance::Rule* rule : report.expected->held_unexpectedly(report.results, report.date)) {
      news = true;
      complain(fmt::format("certify: UNEXPECTED: {} {}: monitors saw it held, and it is known to be broken",
                           rule->alias, rule->id));
    }
  return news ? Exit::found : Exit::fine;
}

Exit show_coverage() {
  Output output;
  output.text() = conformance::coverage_page();
  return output.finish() ? Exit::fine : Exit::trouble;
}

/// Below what the user says, what this product knows of the device.
void add_known(const std::string& name, conformance::ExpectedResults& expected) {
  if (name.empty()) return;
  const auto known = conformance::ExpectedResults::of_device(name);
  if (known) {
    expected.add_below(*known);
    complain(fmt::format("certify: results of {} that are known and examined are no news; --no-expected forgets them",
                         name));
  } else {
    complain(fmt::format("certify: nothing is known of {}; of {} it is", name,
                         fmt::join(conformance::ExpectedResults::devices(), ", ")));
  }
}

/// Why one of the faults that were asked for would show nowhere; empty: each can.
std::string in_vain(const Options& options, const std::vector<const Case*>& chosen) {
  const auto& asked = options.target.faults;
  if (!asked.empty() && !conformance::is_cheap(options.target.device))
    return fmt::format("--fault breaks the reference devices alone, and {} is none", options.target.device);
  const auto known = conformance::seeded_faults();
  for (const std::string& name : asked) {
    const auto is_it = [&](const conformance::SeededFault& fault) { return fault.name == name; };
    if (std::none_of(known.begin(), known.end(), is_it)) return fmt::format("there is no fault \"{}\"", name);
    // Some names are of both families.
    const bool runs = std::any_of(known.begin(), known.end(), [&](const conformance::SeededFault& fault) {
      return is_it(fault) && std::any_of(chosen.begin(), chosen.end(),
                                         [&](const Case* which) { return which->family() == fault.family; });
    });
    if (!runs)
      return fmt::format("the fault \"{}\" is of {}, and none of the cases that were asked for is", name,
                         to_string(std::find_if(known.begin(), known.end(), is_it)->family));
  }
  return {};
}

Exit show_mutations(std::uint64_t seed, const std::vector<std::string>& faults) {
  constexpr std::uint64_t usual_seed = 20261121;
  std::atomic<std::size_t> done = 0;
  const auto all = conformance::mutate_all(
      conformance::Breadth::all, seed ? seed : usual_seed, std::max(1U, std::thread::hardware_concurrency()),
      [&](const auto&) {
        if (const std::size_t count = ++done; count % 25 == 0)
          complain(fmt::format("{} of {} faults", count,
                               faults.empty() ? conformance::seeded_faults().size() : faults.size()));
      },
      faults);
  Output output;
  output.text() += conformance::document_of(all);
  bool whole = true;
  const auto news = [&](const conformance::Mutation& mutation, const std::string& what) {
    complain(fmt::format("{}: {}", mutation.fault->name, what));
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

Exit run(Options options) {
  if (options.coverage) return show_coverage();
  if (options.list) return list(options);
  if (options.target.faults == std::vector<std::string>{"list"}) return list_faults();
  std::vector<const Case*> chosen;
  for (const Case& which : conformance::cases())
    if (wanted(which, options.only)) chosen.push_back(&which);
  if (chosen.empty()) {
    complain("certify: no case has such a name; --list names them all");
    return Exit::usage;
  }
  if (const std::string why = in_vain(options, chosen); !why.empty()) {
    complain("certify: " + why);
    return Exit::usage;
  }
  if (options.mutations) return show_mutations(options.seed, options.target.faults);
  std::error_code error;
  options.target.agent = options.agent.empty()
                             ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                             : fs::path(options.agent);
  options.target.progress = [](std::string_view line) { complain(line); };
  options.target.stop = catch_signals();
  const std::string& device = options.target.device;
  if (options.jobs > 1 && conformance::is_on_bench(device)) {
    complain("certify: --jobs: there is one device on the bench, and one tester for it");
    return Exit::usage;
  }
  conformance::ExpectedResults expected;
  if (!options.expected.empty()) {
    auto read = conformance::ExpectedResults::read(options.expected);
    if (!read) {
      complain("certify: " + read.error());
      return Exit::usage;
    }
    expected = std::move(*read);
  }
  if (options.preflight) return run_preflight(options);
  conformance::Report report;
  report.expected = &expected;
  report.date = today();
  report.strict = options.strict;
  report.seed = options.seed;
  if (!options.resume.empty() && report.seed == 0) {
    const auto seed = conformance::Journal::seed_of(options.resume);
    if (!seed) {
      complain("certify: " + seed.error());
      return Exit::usage;
    }
    report.seed = *seed;
  }
  if (report.seed == 0) report.seed = std::random_device()();
  options.target.seed = report.seed;
  options.target.family = chosen.front()->family();
  auto target = conformance::Target::open(options.target);
  if (!target) return complained(target.error());
  if (!conformance::is_cheap(device)) {
    const conformance::Family family = (*target)->device().family();
    std::erase_if(chosen, [&](const Case* which) { return which->family() != family; });
    if (chosen.empty()) {
      complain(fmt::format("certify: {} is a device of {}, and none of the cases that were asked for is", device,
                           to_string(family)));
      return Exit::usage;
    }
  }
  report.device = (*target)->device().name;
  report.details = (*target)->details();
  if (options.known) add_known((*target)->known_as(), expected);
  if (const auto fit = look_first(**target, options, report); !fit) return fit.error();
  auto journal = journal_of(options, report);
  if (!journal) {
    complain("certify: " + journal.error());
    return options.resume.empty() ? Exit::trouble : Exit::usage;
  }

  Teller teller(chosen, options, report);
  std::map<const Case*, CaseResult> results;
  if (*journal)
    for (const CaseResult& result : (*journal)->results())
      if (std::find(chosen.begin(), chosen.end(), result.of) != chosen.end() &&
          results.emplace(result.of, result).second)
        teller.take(result, true);
  std::vector<const Case*> left;
  for (const Case* which : chosen)
    if (!results.contains(which)) left.push_back(which);

  conformance::CertifyOptions how;
  how.seed = report.seed;
  how.open = [&](conformance::Family family) {
    conformance::TargetOptions wanted = options.target;
    wanted.family = family;
    return conformance::Target::open(wanted);
  };
  how.fresh = conformance::is_cheap(device);
  how.jobs = options.jobs ? options.jobs : usual_jobs(device);
  how.repeat = options.repeat;
  constexpr double usual = 60, of_slow_cases = 600;
  how.case_timeout = milliseconds_of(options.case_timeout > 0 ? options.case_timeout
                                     : options.target.slow    ? of_slow_cases
                                                              : usual);
  how.timeout = milliseconds_of(options.timeout);
  how.most_losses = options.most_losses;
  how.stop = options.target.stop;
  how.on_end = [&](const CaseResult& result) {
    if (*journal) (*journal)->append(result);
    teller.take(result);
  };
  conformance::Certification all = conformance::certify(left, how, std::move(*target));
  teller.rest();
  for (CaseResult& result : all.results) results.emplace(result.of, std::move(result));
  for (const Case* which : chosen)
    if (const auto found = results.find(which); found != results.end())
      report.results.push_back(std::move(found->second));
  for (const CaseResult& result : report.results) report.nanoseconds += result.nanoseconds;
  report.partial = all.partial;
  const Exit end = finish(options, report, teller.output(), *journal ? (*journal)->error() : std::string());
  if (all.abandoned > 0) {
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
  conformance::TargetOptions& target = options->target;
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
          [options](const std::string& word) { options->target.congestion_management = word == "on"; },
          "whether the device has it switched on, which verbs do not tell: on, off")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("WORD");
  command->add_option("--agent", options->agent, "the agent's program, for the lab");
  command->add_option("--only", options->only, "rules by id or alias, with * and ?, or cases; several");
  command->add_option("--fault", target.faults, "break the reference device on purpose; several; `list` names them");
  command->add_option("--seed", options->seed, "of what is chosen by chance; 0: another one each time");
  command->add_flag("--preflight", options->preflight, "look at the bench, and judge nothing");
  command->add_option("--jobs", options->jobs, "devices at once: references (one a core), guests of the lab (1)")
      ->check(CLI::Range(1, 64));
  command->add_option("--repeat", options->repeat, "run each case so often; those that end differently are flaky")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--case-timeout", options->case_timeout,
                   "seconds of the real clock, for a case (60; with --slow 600)")
      ->check(CLI::PositiveNumber);
  command->add_option("--timeout", options->timeout, "seconds for all; the report is of what ran; 0: none")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--losses", options->most_losses, "give up when the device was lost so often in a row (5)")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--strict", options->strict, "what a device should do counts like what it shall do");
  command->add_option("--expected", options->expected,
                      "results that are known of the device: a JSON file; it goes before what is built in");
  command->add_flag("!--no-expected", options->known, "what is built in of the lab's devices does not count");
  command->add_option("--baseline", options->baseline, "report.json of an earlier run, to be compared with");
  auto* report = command->add_option("--report", options->report,
                                     "a directory for report.json, junit.xml, index.html and a capture a case");
  command->add_option("--html", options->html, "a file for the report as one page, without the captures");
  command->add_option("--resume", options->resume, "go on with the run whose report directory this is")
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
