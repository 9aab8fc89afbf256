#include "conformance/report/assessment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "conformance/coverage/blind_fault.hpp"
#include "conformance/coverage/seeded_fault.hpp"
#include "conformance/report/journal.hpp"
#include "conformance/report/package.hpp"

namespace rdmawire::conformance {
namespace {

using Kind = AssessmentError::Kind;

tl::unexpected<AssessmentError> error(Kind kind, std::string message) {
  return tl::unexpected(AssessmentError{kind, std::move(message)});
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[11];
  std::strftime(text, sizeof text, "%Y-%m-%d", ::gmtime_r(&now, &parts));
  return text;
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

class Work {
 public:
  Work(AssessmentOptions options, AssessmentListener& listener)
      : options_(std::move(options)), listener_(listener), made_(std::make_shared<Assessment>()) {
    if (!options_.open) options_.open = [](const TargetOptions& how) { return Target::open(how); };
    made_->report.expected = &made_->expected;
  }

  tl::expected<std::shared_ptr<Assessment>, AssessmentError> go() {
    const bool given = options_.given != nullptr;
    const std::string& device = options_.target.device;
    cheap_ = !given && is_cheap(device);
    if (const auto fine = prepare(); !fine) return tl::unexpected(fine.error());
    std::unique_ptr<Target> target = std::move(options_.given);
    if (!given) {
      auto opened = options_.open(options_.target);
      if (!opened) return error(opened.error().usage ? Kind::usage : Kind::device, opened.error().message);
      target = std::move(*opened);
    }
    if (const auto fine = meet(*target, is_on_bench(device)); !fine) return tl::unexpected(fine.error());
    if (const auto fine = open_journal(); !fine) return tl::unexpected(fine.error());
    judge(std::move(target), given);
    return finish();
  }

 private:
  using Fine = tl::expected<void, AssessmentError>;
  [[nodiscard]] bool resumes() const { return !options_.resume.empty(); }
  [[nodiscard]] const std::filesystem::path& directory() const { return resumes() ? options_.resume : options_.report; }

  /// Checks the options, before a device is opened.
  Fine prepare() {
    if (options_.cases.empty()) return error(Kind::usage, "no test case matches; list all cases with --list");
    if (const std::string why = in_vain(options_.target, options_.cases); !why.empty()) return error(Kind::usage, why);
    if (options_.jobs > 1 && is_on_bench(options_.target.device))
      return error(Kind::usage, "jobs must be 1 for a device on a bench");
    if (options_.repeat == 0) return error(Kind::usage, "repeat must be at least 1");
    if (options_.strength > most_strength)
      return error(Kind::usage, fmt::format("strength must be at most {}", most_strength));
    if (options_.row && options_.budget > 0) return error(Kind::usage, "a budget has no effect on a single row");
    if (options_.budget > 0 && options_.strength == 0)
      return error(Kind::usage, "a budget requires a strength of at least 1");
    if (!options_.report.empty() && resumes())
      return error(Kind::usage, "a resumed run writes to its own report directory; do not specify another one");
    if (const std::string why = occupied(); !why.empty()) return error(Kind::usage, why);
    if (!options_.expected.empty()) {
      auto read = ExpectedResults::read(options_.expected);
      if (!read) return error(Kind::usage, read.error());
      made_->expected = std::move(*read);
    }
    if (!options_.waivers.empty()) {
      auto read = ExpectedResults::read(options_.waivers, ResultsFile::waivers);
      if (!read) return error(Kind::usage, read.error());
      read->add_below(made_->expected);
      made_->expected = std::move(*read);
    }
    if (!options_.sign.empty()) {
      if (directory().empty()) return error(Kind::usage, "a signature requires a report directory");
      auto key = SignatureKey::read_private(options_.sign);
      if (!key) return error(Kind::usage, key.error());
      key_ = std::move(*key);
    }
    // Read the baseline first, so that a wrong file name is reported before the run.
    if (!options_.baseline.empty())
      if (const auto readable = compare(options_.baseline, {}); !readable) return error(Kind::usage, readable.error());
    Report& report = made_->report;
    report.date = today();
    report.strict = options_.strict;
    report.seed = options_.seed;
    report.arguments = options_.arguments;
    report.strength = options_.row ? 0 : options_.strength;
    if (resumes() && report.seed == 0) {
      const auto seed = Journal::seed_of(options_.resume);
      if (!seed) return error(Kind::usage, seed.error());
      report.seed = *seed;
    }
    if (report.seed == 0) report.seed = std::random_device()();
    options_.target.seed = report.seed;
    options_.target.family = options_.ics ? options_.ics->family : options_.cases.front()->family();
    return {};
  }

  /// Returns why the report directory cannot be used: it contains the report of another run. Empty: it can.
  [[nodiscard]] std::string occupied() const {
    if (options_.report.empty() || !contains_report(options_.report)) return {};
    const std::string name = options_.report.string();
    if (!options_.overwrite)
      return fmt::format("{} contains the report of another run; specify a new directory, or --overwrite to replace it",
                         name);
    const auto is_inside = [&](const std::filesystem::path& file) {
      std::error_code error;
      const auto directory = std::filesystem::weakly_canonical(options_.report, error);
      const auto relative = std::filesystem::weakly_canonical(file, error).lexically_relative(directory);
      return !file.empty() && !relative.empty() && *relative.begin() != "..";
    };
    for (const auto* file :
         {&options_.expected, &options_.waivers, &options_.baseline, &options_.ics_file, &options_.clauses})
      if (is_inside(*file)) return fmt::format("{} is in {}, which the run overwrites", file->string(), name);
    return {};
  }

  /// Determines the device's identity and known results, and checks its bench.
  Fine meet(Target& target, bool bench) {
    if (!cheap_) {
      const Family family = target.device().family();
      std::erase_if(options_.cases, [&](const Case* one) { return one->family() != family; });
      if (options_.cases.empty())
        return error(Kind::usage, fmt::format("{} supports {}, but none of the selected cases tests it",
                                              options_.target.device, to_string(family)));
    }
    Report& report = made_->report;
    report.device = target.device().name;
    report.details = target.details();
    if (report.strength > 0) report.limits = limits_of(target);
    if (!directory().empty()) description_ = description_of(target);
    if (options_.ics) {
      if (const Family family = target.device().family(); !cheap_ && family != options_.ics->family)
        return error(Kind::usage, fmt::format("the ICS declares {}, but the device supports {}",
                                              to_string(options_.ics->family), to_string(family)));
      if (cheap_) std::erase_if(options_.cases, [&](const Case* one) { return one->family() != options_.ics->family; });
      if (options_.cases.empty())
        return error(Kind::usage, fmt::format("the ICS declares {}, but none of the selected cases tests it",
                                              to_string(options_.ics->family)));
      reported_ = query_capabilities(target);
    }
    if (const std::string name = target.known_as(); options_.known && !name.empty()) {
      const auto results = ExpectedResults::of_device(name);
      if (results) {
        made_->expected.add_below(*results);
        known_results_ = name;
      }
      listener_.known(name, results.has_value());
    }
    if (!cheap_) listener_.opened(target);
    if (!bench) return {};
    report.preflight = preflight(target, {.listening = 100'000'000, .clocks = 100'000'000});
    listener_.looked(report.preflight);
    if (has_failure(report.preflight)) return error(Kind::bench, text_of(report.preflight));
    return {};
  }

  /// The parameter values that the devices of the selected cases support.
  std::map<Family, EnvironmentLimits> limits_of(Target& target) {
    std::map<Family, EnvironmentLimits> limits{{target.device().family(), EnvironmentLimits(target.device())}};
    for (const Case* one : options_.cases) {
      if (!cheap_ || limits.contains(one->family())) continue;
      TargetOptions other = options_.target;
      other.family = one->family();
      if (const auto opened = options_.open(other)) limits[one->family()] = EnvironmentLimits((*opened)->device());
    }
    return limits;
  }

  Fine open_journal() {
    if (directory().empty()) return {};
    const Report& report = made_->report;
    RunIdentity identity{report.device, report.details, report.seed, options_.repeat, setup()};
    for (const Case* which : options_.cases) identity.cases.push_back(which->id());
    if (options_.overwrite && contains_report(directory()))
      if (const auto removed = remove_report(directory()); !removed) return error(Kind::file, removed.error());
    auto journal = resumes() ? Journal::resume(options_.resume, identity) : Journal::begin(options_.report, identity);
    if (!journal) return error(resumes() ? Kind::usage : Kind::file, journal.error());
    journal_.emplace(std::move(*journal));
    auto package = Package::begin(directory(), resumes());
    if (!package) return error(resumes() ? Kind::usage : Kind::file, package.error());
    package_.emplace(std::move(*package));
    return {};
  }

  void judge(std::unique_ptr<Target> target, bool given) {
    Report& report = made_->report;
    const std::vector<const Case*>& chosen = options_.cases;
    listener_.begins(chosen, report);
    std::map<const Case*, CaseResult> results;
    if (journal_)
      for (const CaseResult& result : journal_->results())
        if (std::find(chosen.begin(), chosen.end(), result.of) != chosen.end() &&
            results.emplace(result.of, result).second)
          listener_.took(with_ics(result), true);
    std::vector<const Case*> left;
    for (const Case* which : chosen)
      if (!results.contains(which)) left.push_back(which);
    Certification all = certify(left, how(given), std::move(target));
    listener_.ended();
    for (CaseResult& result : all.results) results.emplace(result.of, std::move(result));
    if (journal_ && !all.partial.empty())
      for (const CaseResult& result : journal_->checkpoints())
        if (std::find(left.begin(), left.end(), result.of) != left.end()) results.emplace(result.of, result);
    for (const Case* which : chosen)
      if (const auto found = results.find(which); found != results.end())
        report.results.push_back(with_ics(std::move(found->second)));
    report.partial = std::move(all.partial);
    report.basic = std::move(all.basic);
    made_->abandoned = all.abandoned;
  }

  /// Seconds of real time for one row of a case.
  [[nodiscard]] double case_timeout() const {
    constexpr double usual = 60, of_slow_cases = 600;
    if (options_.case_timeout > 0) return options_.case_timeout;
    return options_.target.slow ? of_slow_cases : usual;
  }

  /// The journal contains results without the ICS, so that a resumed run can have another one.
  [[nodiscard]] CaseResult with_ics(CaseResult result) const {
    if (options_.ics) apply(*options_.ics, reported_, result);
    return result;
  }

  CertifyOptions how(bool given) {
    CertifyOptions how;
    how.seed = options_.target.seed;
    how.open = [this, given](Family family) -> tl::expected<std::unique_ptr<Target>, TargetError> {
      // Only the caller can reopen its device.
      if (given) return tl::unexpected(TargetError{false, "the given device is lost"});
      TargetOptions wanted = options_.target;
      wanted.family = family;
      return options_.open(wanted);
    };
    how.fresh = cheap_;
    how.jobs = given           ? 1
               : options_.jobs ? options_.jobs
               : cheap_        ? std::max(1U, std::thread::hardware_concurrency())
                               : 1;
    how.repeat = options_.repeat;
    how.strength = options_.row ? 0 : options_.strength;
    how.row = options_.row;
    how.budget = milliseconds_of(options_.budget);
    how.case_timeout = milliseconds_of(case_timeout());
    how.timeout = milliseconds_of(options_.timeout);
    how.most_losses = given ? 1 : options_.most_losses;
    how.stop = options_.target.stop;
    how.on_end = [this](const CaseResult& result) {
      if (journal_) journal_->append(result);
      listener_.took(options_.ics ? with_ics(result) : result, false);
    };
    // --resume runs a case with missing rows from its first row.
    how.on_checkpoint = [this](const CaseResult& result) {
      if (journal_) journal_->append_checkpoint(result);
    };
    how.on_interrupted = [this](const CaseResult& result) {
      if (journal_) journal_->append_checkpoint(result);
      listener_.took(options_.ics ? with_ics(result) : result, false);
    };
    return how;
  }

  /// Evaluates the results and writes the reports.
  tl::expected<std::shared_ptr<Assessment>, AssessmentError> finish() {
    Report& report = made_->report;
    evaluate(*made_, options_.ics, reported_, options_.all_cases);
    if (!options_.baseline.empty()) {
      auto changes = compare(options_.baseline, report.results);
      if (!changes) return error(Kind::usage, changes.error());
      // Cases outside the selection are no changes.
      if (!options_.all_cases)
        std::erase_if(*changes, [](const Change& one) { return one.kind == Change::Kind::gone; });
      report.changes = std::move(*changes);
    }
    if (journal_ && !journal_->error().empty()) made_->troubles.push_back(journal_->error());
    if (package_)
      if (const auto written = write_package(); !written) made_->troubles.push_back(written.error());
    return made_;
  }

  /// Writes the reports and inputs of the run, and the manifest of all files.
  tl::expected<void, std::string> write_package() {
    if (auto written = write(made_->report, directory()); !written) return written;
    for (const auto& [file, name] : {std::pair(options_.ics_file, "ics.json"),
                                     {options_.expected, "expected.json"},
                                     {options_.waivers, "waivers.json"},
                                     {options_.baseline, "baseline.json"},
                                     {options_.clauses, "clauses.json"}})
      if (!file.empty())
        if (auto added = package_->add_input(file, name); !added) return added;
    auto finished = package_->finish(made_->report, circumstances(), key_ ? &*key_ : nullptr);
    made_->foreign = package_->foreign();
    return finished;
  }

  /// The options that affect the results. All parts of a run have the same.
  [[nodiscard]] nlohmann::ordered_json effective_options() const {
    const TargetOptions& target = options_.target;
    nlohmann::ordered_json effective{{"slow", target.slow},
                                     {"dangerous", target.dangerous},
                                     {"case_timeout_s", case_timeout()},
                                     {"faults", target.faults},
                                     {"strength", options_.strength}};
    if (options_.row) effective["row"] = text_of_row(*options_.row);
    if (!target.wire.empty()) effective["wire"] = target.wire;
    if (is_on_bench(target.device)) {
      effective["allowed"] = target.allowed;
      effective["frames_per_second"] = target.frames_per_second;
      effective["multicast"] = target.multicast;
    }
    if (target.congestion_management) effective["congestion_management"] = *target.congestion_management;
    return effective;
  }

  /// The setup that the parts of a resumed run must have in common.
  [[nodiscard]] nlohmann::json setup() const {
    nlohmann::json setup = effective_options();
    const TargetOptions& target = options_.target;
    if (target.device.starts_with("lab:")) {
      setup["kernel"] = target.kernel;
      setup["modules"] = target.modules;
    }
    setup["program"] = program_and_commit();
    return setup;
  }

  /// The parameters of the run and the device, for the manifest.
  [[nodiscard]] nlohmann::ordered_json circumstances() const {
    nlohmann::ordered_json parameters{{"selection", options_.patterns},
                                      {"all_cases", options_.all_cases},
                                      {"shard", options_.shard.empty() ? "1/1" : options_.shard},
                                      {"repeat", options_.repeat},
                                      {"strict", options_.strict},
                                      {"built_in_expected", options_.known},
                                      {"timeout_s", options_.timeout},
                                      {"budget_s", options_.budget},
                                      {"max_device_losses", options_.most_losses}};
    if (!known_results_.empty()) parameters["known_results"] = known_results_;
    parameters.update(effective_options());
    nlohmann::ordered_json all;
    if (options_.arguments) all["arguments"] = *options_.arguments;
    all["parameters"] = std::move(parameters);
    all["device"] = description_;
    return all;
  }

  AssessmentOptions options_;
  AssessmentListener& listener_;
  std::shared_ptr<Assessment> made_;
  bool cheap_ = false;
  std::optional<Journal> journal_;
  std::optional<Package> package_;
  std::optional<SignatureKey> key_;
  ReportedCapabilities reported_;
  std::string known_results_;  ///< the device whose built-in results are used. Empty: none
  nlohmann::ordered_json description_ = nlohmann::ordered_json::object();
};

}  // namespace

tl::expected<std::shared_ptr<Assessment>, AssessmentError> Assessment::run(AssessmentOptions options,
                                                                           AssessmentListener& listener) {
  return Work(std::move(options), listener).go();
}

void evaluate(Assessment& made, const std::optional<Ics>& ics, const ReportedCapabilities& reported, bool all_cases) {
  Report& report = made.report;
  for (const CaseResult& result : report.results) {
    report.nanoseconds += result.nanoseconds;
    if (!made.expected.expects(result, report.date, report.strict)) made.unexpected.push_back(result.of);
    if (disposition_of(result, report) == Disposition::expired) made.expired.push_back(result.of);
  }
  for (const BasicViolation& basic : report.basic)
    if (!made.expected.find_observed(*basic.judgment.rule, report.date)) made.basic.push_back(basic.judgment.rule);
  if (ics) {
    report.ics = check_ics(*ics, reported, report.results);
    // Failed cases are unexpected results, unless they are known.
    for (const IcsFinding& one : report.ics)
      if (one.status == IcsFinding::Status::fail && one.reported != one.claimed && !one.reported.empty())
        made.ics_failures.push_back(one);
  }
  // Only a complete run proves that a rule passed.
  if (all_cases && report.partial.empty())
    made.unlike_them = made.expected.held_unexpectedly(report.results, report.date);
}

std::string in_vain(const TargetOptions& target, std::span<const Case* const> cases) {
  if (!target.faults.empty() && !is_cheap(target.device))
    return fmt::format("faults can only be injected into reference devices; {} is a different device", target.device);
  for (const std::string& name : target.faults) {
    std::vector<Family> families;  // some names exist in both
    for (const SeededFault& fault : seeded_faults())
      if (fault.name == name) families.push_back(fault.family);
    for (const BlindFault& fault : blind_faults())
      if (fault.name == name) families.push_back(fault.family);
    if (families.empty()) return fmt::format("unknown fault \"{}\"", name);
    const bool runs = std::any_of(cases.begin(), cases.end(), [&](const Case* which) {
      return std::find(families.begin(), families.end(), which->family()) != families.end();
    });
    if (!runs)
      return fmt::format("the fault \"{}\" applies to {}, but none of the selected cases tests it", name,
                         to_string(families.front()));
  }
  return {};
}

void apply_ixit(const Ixit& ixit, AssessmentOptions& options,
                const std::function<bool(const std::string& option)>& is_given) {
  TargetOptions& target = options.target;
  const auto use = [&](const char* option, auto& to, const auto& from) {
    if (from && !is_given(option)) to = *from;
  };
  use("--device", target.device, ixit.device);
  use("--wire", target.wire, ixit.wire);
  use("--credentials", target.credentials, ixit.credentials);
  use("--congestion-management", target.congestion_management, ixit.congestion_management);
  use("--allow-multicast", target.multicast, ixit.multicast);
  use("--slow", target.slow, ixit.slow);
  use("--dangerous", target.dangerous, ixit.dangerous);
  use("--case-timeout", options.case_timeout, ixit.case_timeout);
  use("--rate", target.frames_per_second, ixit.frames_per_second);
  use("--max-device-losses", options.most_losses, ixit.max_device_losses);
  if (!is_given("--allow")) target.allowed = ixit.allow;
}

tl::expected<Shard, std::string> parse_shard(std::string_view text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  const bool separated = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = separated ? std::from_chars(first.ptr + 1, end, shard.count) : first;
  if (!separated || second.ec != std::errc() || second.ptr != end || shard.index == 0 || shard.index > shard.count)
    return tl::unexpected(fmt::format("expected I/N with I from 1 to N, for example 1/4, got \"{}\"", text));
  return shard;
}

tl::expected<double, std::string> parse_duration(std::string_view text) {
  constexpr double most = 366.0 * 24 * 3600;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, value);
  const std::string_view unit(number.ptr, static_cast<std::size_t>(end - number.ptr));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (number.ec != std::errc() || factor == 0 || !(value > 0) || value * factor > most)
    return tl::unexpected(
        fmt::format("expected a duration of up to one year, for example 90s, 10m or 8h, got \"{}\"", text));
  return value * factor;
}

std::vector<const Case*> shard_of(std::span<const Case* const> cases, unsigned index, unsigned count) {
  std::vector<const Case*> shard;
  for (std::size_t i = index - 1; i < cases.size(); i += count) shard.push_back(cases[i]);
  return shard;
}

tl::expected<FailedCases, std::string> failed_cases(const std::filesystem::path& path) {
  const auto outcomes = read_outcomes(path);
  if (!outcomes) return tl::unexpected(outcomes.error());
  FailedCases failed;
  failed.seed = outcomes->seed;
  failed.partial = outcomes->partial;
  failed.strength = outcomes->strength;
  ParameterRow row = default_row();
  for (const Outcome& one : outcomes->cases) {
    failed.repeat = std::max(failed.repeat, static_cast<unsigned>(std::min<std::size_t>(one.attempts, 1000)));
    if (!one.failed() && !one.unexpected) continue;
    const Case* which = find_case(one.id);
    if (!which) return tl::unexpected(fmt::format("{}: this version has no case {}", path.string(), one.id));
    failed.cases.push_back(which);
    // A case contains only the values that it uses.
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = std::max(row[i], one.row[i]);
  }
  if (failed.strength == 0 && row != default_row()) failed.row = std::move(row);
  return failed;
}

bool is_chosen(const Case& which, std::span<const std::string> patterns) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return matches(*which.rule, pattern) || which.id() == pattern;
         });
}

}  // namespace rdmawire::conformance
