#include "conformance/report/merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "captures/io/output_file.hpp"
#include "conformance/files/json_file.hpp"
#include "conformance/report/journal.hpp"
#include "conformance/rules/clause_file.hpp"

namespace rdmawire::conformance {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;
using Json = nlohmann::ordered_json;

/// The package of one shard.
struct Part {
  fs::path directory;
  PackageCheck check;
  SortedJson manifest;  ///< an object with the objects "parameters" and "device"
  StoredJournal journal;
  ReportRemainder remainder;
  Shard shard;

  [[nodiscard]] std::string name() const { return directory.string(); }
  [[nodiscard]] const SortedJson& parameters() const { return manifest["parameters"]; }
};

tl::expected<Part, std::string> read_part(const fs::path& directory, const SignatureKey* key) {
  const auto wrong = [&](const std::string& what) {
    return tl::unexpected(fmt::format("{}: {}", directory.string(), what));
  };
  auto check = verify_package(directory, key);
  if (!check) return tl::unexpected(check.error());
  Part part;
  part.directory = directory;
  part.check = std::move(*check);
  const Manifest& manifest = part.check.manifest;
  if (!manifest.finished()) return wrong("the run was killed: continue it with rdmawire certify --resume");
  if (!part.check.is_intact())
    return wrong(fmt::format("the package is not intact: list the differences with rdmawire certify verify {}",
                             shell_word(directory.string())));
  if (!manifest.partial.empty())
    return wrong(fmt::format("the run is partial ({}): continue it with rdmawire certify --resume", manifest.partial));
  const auto text = text_of_file(directory / manifest_name);
  if (!text) return tl::unexpected(text.error());
  auto json = parse_json(*text);
  if (!json) return wrong(json.error());
  part.manifest = std::move(*json);
  for (const char* member : {"parameters", "device"})
    if (!part.manifest.contains(member) || !part.manifest[member].is_object())
      return wrong(fmt::format("the manifest has no object \"{}\"", member));
  const auto name = part.parameters().find("shard");
  const auto shard = parse_shard(name != part.parameters().end() && name->is_string() ? name->get<std::string>() : "");
  if (!shard) return wrong("the manifest names no shard: " + shard.error());
  part.shard = *shard;
  if (part.shard.count == 1) return wrong("the package is not a shard: it contains a complete run");
  if (const std::string program = fmt::format("{}, commit {}", manifest.program, manifest.commit);
      program != program_and_commit())
    return wrong(fmt::format("the package was written by {}, and this is {}: use the same build", program,
                             program_and_commit()));
  auto journal = read_journal(directory);
  if (!journal) return tl::unexpected(journal.error());
  part.journal = std::move(*journal);
  const auto report = text_of_file(directory / "report.json");
  if (!report) return tl::unexpected(report.error());
  auto remainder = parse_report_remainder(*report, (directory / "report.json").string());
  if (!remainder) return tl::unexpected(remainder.error());
  part.remainder = std::move(*remainder);
  return part;
}

/// The digests of the inputs of a package by name.
std::map<std::string, std::string> inputs_of(const Part& part) {
  std::map<std::string, std::string> inputs;
  for (const PackageFile& file : part.check.manifest.files)
    if (file.path.starts_with("inputs/")) inputs.emplace(file.path.substr(7), file.sha256);
  return inputs;
}

/// Members of the setup that differ between test benches.
constexpr std::array<std::string_view, 6> bench_members{"device", "details", "wire", "allowed", "modules", "kernel"};
/// Members of the device's description that must be equal on all test benches.
constexpr std::array model_members{"firmware", "vendor_id", "vendor_part_id", "hw_ver"};
/// Parameters of the manifest that are free: they have no effect on the results, or differ by definition.
constexpr std::array<std::string_view, 3> free_parameters{"shard", "timeout_s", "max_device_losses"};

/// Returns how two shards differ. Empty: they are parts of one campaign.
std::string difference_of(const Part& a, const Part& b, bool several_benches) {
  using Names = std::span<const std::string_view>;
  if (std::string what = difference_of_setups(a.journal.identity, b.journal.identity,
                                              several_benches ? Names(bench_members) : Names());
      !what.empty())
    return what;
  const auto text_of = [](const SortedJson& object, const std::string& member) {
    return object.contains(member) ? object[member].dump(-1, ' ', false, SortedJson::error_handler_t::replace)
                                   : "not set";
  };
  for (const char* member : model_members) {
    const std::string of_a = text_of(a.manifest["device"], member), of_b = text_of(b.manifest["device"], member);
    if (of_a != of_b) return fmt::format("{} is {} and {}", member, of_a, of_b);
  }
  SortedJson all = a.parameters();
  all.update(b.parameters());
  const auto is_in = [](auto names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [member, value] : all.items()) {
    if (is_in(free_parameters, member) || (several_benches && is_in(bench_members, member))) continue;
    const std::string of_a = text_of(a.parameters(), member), of_b = text_of(b.parameters(), member);
    if (of_a != of_b) return fmt::format("{} is {} and {}", member, of_a, of_b);
  }
  const auto inputs_a = inputs_of(a), inputs_b = inputs_of(b);
  std::set<std::string> names;
  for (const auto& [name, digest] : inputs_a) names.insert(name);
  for (const auto& [name, digest] : inputs_b) names.insert(name);
  for (const std::string& name : names)
    if (!inputs_a.contains(name) || !inputs_b.contains(name) || inputs_a.at(name) != inputs_b.at(name))
      return fmt::format("their inputs/{} differ", name);
  return {};
}

class Merger {
 public:
  explicit Merger(const MergeOptions& options) : options_(options) {}

  tl::expected<std::shared_ptr<Assessment>, std::string> merge() {
    for (const auto step : {&Merger::read, &Merger::check_shards, &Merger::check_cases, &Merger::check_directory,
                            &Merger::assess, &Merger::clear_directory, &Merger::write_package})
      if (const auto done = (this->*step)(); !done) return tl::unexpected(done.error());
    return made_;
  }

 private:
  using Done = tl::expected<void, std::string>;
  [[nodiscard]] const Part& first() const { return parts_.front(); }

  Done read() {
    if (options_.packages.size() < 2)
      return tl::unexpected(
          fmt::format("expected the packages of two or more shards, got {}", options_.packages.size()));
    for (const fs::path& directory : options_.packages) {
      auto part = read_part(directory, options_.public_key);
      if (!part) return tl::unexpected(part.error());
      parts_.push_back(std::move(*part));
    }
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.shard.index < b.shard.index; });
    if (!options_.sign.empty()) {
      auto key = SignatureKey::read_private(options_.sign);
      if (!key) return tl::unexpected(key.error());
      key_ = std::move(*key);
    }
    return {};
  }

  /// All shards, each once, of one campaign.
  Done check_shards() {
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      if (part.shard.count != first().shard.count)
        return tl::unexpected(fmt::format("{} is shard {}/{}, but {} is shard {}/{}: they are of different campaigns",
                                          first().name(), first().shard.index, first().shard.count, part.name(),
                                          part.shard.index, part.shard.count));
      if (part.shard.index == parts_[i - 1].shard.index)
        return tl::unexpected(fmt::format("{} and {} are both shard {}/{}", parts_[i - 1].name(), part.name(),
                                          part.shard.index, part.shard.count));
      if (const std::string what = difference_of(first(), part, options_.several_benches); !what.empty())
        return tl::unexpected(fmt::format("{} and {} have different setups: {}", first().name(), part.name(), what));
    }
    std::vector<std::string> missing;
    for (unsigned index = 1; index <= first().shard.count && missing.size() < 10; ++index)
      if (std::none_of(parts_.begin(), parts_.end(), [&](const Part& part) { return part.shard.index == index; }))
        missing.push_back(fmt::format("{}/{}", index, first().shard.count));
    if (!missing.empty())
      return tl::unexpected(fmt::format("shard{} {} {} missing", missing.size() == 1 ? "" : "s",
                                        fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"));
    return {};
  }

  /// Each selected case has one result.
  Done check_cases() {
    std::map<const Case*, const Part*> owners;
    for (const Part& part : parts_) {
      std::set<std::string> selected;
      for (const SortedJson& id : part.journal.identity["cases"])
        if (id.is_string()) selected.insert(id.get<std::string>());
      for (const CaseResult& result : part.journal.results) {
        const std::string id = result.of->id();
        if (selected.erase(id) == 0)
          return tl::unexpected(fmt::format("{}: {} has two results, or was not selected", part.name(), id));
        if (const auto [owner, is_new] = owners.emplace(result.of, &part); !is_new)
          return tl::unexpected(fmt::format("{} and {} both contain {}", owner->second->name(), part.name(), id));
        results_.push_back(result);
      }
      if (!selected.empty()) return tl::unexpected(fmt::format("{}: {} has no result", part.name(), *selected.begin()));
    }
    std::map<const Case*, std::size_t> order;
    for (const Case& which : cases()) order.emplace(&which, order.size());
    const auto place = [&](const CaseResult& result) {
      const auto found = order.find(result.of);
      return found == order.end() ? order.size() : found->second;
    };
    std::stable_sort(results_.begin(), results_.end(),
                     [&](const CaseResult& a, const CaseResult& b) { return place(a) < place(b); });
    return {};
  }

  Done check_directory() {
    const std::string name = options_.directory.string();
    std::error_code error;
    const fs::path target = canonical(options_.directory);
    for (const Part& part : parts_) {
      const fs::path shard = canonical(part.directory);
      if (shard == target || fs::equivalent(part.directory, options_.directory, error))
        return tl::unexpected(fmt::format("{} is one of the shards: specify a new directory", name));
      if (is_inside(shard, target) || is_inside(target, shard))
        return tl::unexpected(
            fmt::format("{} and the shard {} contain each other: specify a directory elsewhere", name, part.name()));
    }
    if (!contains_report(options_.directory)) return {};
    if (!options_.overwrite)
      return tl::unexpected(fmt::format(
          "{} contains the report of another run: specify a new directory, or --overwrite to replace it", name));
    return {};
  }

  /// Removes the report that is replaced, once the shards are known to be mergeable.
  Done clear_directory() { return contains_report(options_.directory) ? remove_report(options_.directory) : Done(); }

  static fs::path canonical(const fs::path& path) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(path, error);
    return whole.has_filename() ? whole : whole.parent_path();
  }
  static bool is_inside(const fs::path& inner, const fs::path& outer) {
    const fs::path relative = inner.lexically_relative(outer);
    return !relative.empty() && *relative.begin() != "..";
  }

  /// Members that read_part() did not check can have any type.
  Done assess() {
    try {
      return assess_checked();
    } catch (const SortedJson::exception& error) {
      return tl::unexpected(fmt::format("{}: the manifest or the results contain a member of another type: {}",
                                        first().name(), error.what()));
    }
  }

  /// Evaluates the results as the run of a complete selection does.
  Done assess_checked() {
    Report& report = made_->report;
    report.expected = &made_->expected;
    const SortedJson& identity = first().journal.identity;
    report.device = identity.value("device", "");
    report.details = identity.value("details", "");
    report.seed = identity.value("seed", std::uint64_t{0});
    report.strict = first().parameters().value("strict", false);
    if (!first().parameters().contains("row")) report.strength = first().parameters().value("strength", 0U);
    if (report.strength > 0) report.combinations.emplace();
    for (const Part& part : parts_) {
      report.date = std::max(report.date, part.remainder.date);
      if (report.combinations) add(part.remainder.combinations, *report.combinations);
      for (const BasicViolation& basic : part.remainder.basic)
        if (std::none_of(report.basic.begin(), report.basic.end(), [&](const BasicViolation& one) {
              return one.family == basic.family && one.judgment.rule == basic.judgment.rule;
            }))
          report.basic.push_back(basic);
      for (const Finding& finding : part.remainder.preflight)
        if (std::none_of(report.preflight.begin(), report.preflight.end(), [&](const Finding& one) {
              return one.what == finding.what && one.found == finding.found && one.status == finding.status;
            }))
          report.preflight.push_back(finding);
      const std::string details = part.journal.identity.value("details", "");
      if (report.details.find(details) == std::string::npos) report.details += "; " + details;
    }
    if (const auto found = first().manifest.find("arguments"); found != first().manifest.end())
      report.arguments = found->get<std::vector<std::string>>();
    if (const auto read = read_known_results(); !read) return read;
    std::optional<Ics> ics;
    if (const fs::path file = first().directory / "inputs" / "ics.json"; fs::exists(file)) {
      auto read = Ics::read(file);
      if (!read) return tl::unexpected(read.error());
      ics = std::move(*read);
      for (CaseResult& result : results_) apply(*ics, first().remainder.reported, result);
    }
    if (const fs::path file = first().directory / "inputs" / "clauses.json"; fs::exists(file)) {
      auto read = read_clause_file(file);
      if (!read) return tl::unexpected(read.error());
      use_clause_numbers(std::move(*read));
    }
    report.results = std::move(results_);
    all_cases_ = first().parameters().value("selection", SortedJson::array()).empty() && covers_all_cases();
    evaluate(*made_, ics, first().remainder.reported, all_cases_);
    if (const fs::path file = first().directory / "inputs" / "baseline.json"; fs::exists(file)) {
      auto changes = compare(file, report.results);
      if (!changes) return tl::unexpected(changes.error());
      if (!all_cases_) std::erase_if(*changes, [](const Change& one) { return one.kind == Change::Kind::gone; });
      report.changes = std::move(*changes);
    }
    return {};
  }

  /// The known results that the shards used: those of a device, of a file, and waivers, by increasing precedence.
  Done read_known_results() {
    std::vector<ExpectedResults> layers;
    for (const auto& [name, kind] :
         {std::pair("waivers.json", ResultsFile::waivers), {"expected.json", ResultsFile::expected}})
      if (const fs::path file = first().directory / "inputs" / name; fs::exists(file)) {
        auto read = ExpectedResults::read(file, kind);
        if (!read) return tl::unexpected(read.error());
        layers.push_back(std::move(*read));
      }
    const auto name = first().parameters().find("known_results");
    if (name != first().parameters().end() && name->is_string())
      if (auto known = ExpectedResults::of_device(name->get<std::string>())) layers.push_back(std::move(*known));
    for (const ExpectedResults& layer : layers) made_->expected.add_below(layer);
    return {};
  }

  /// The shards have no case in common.
  static void add(const CombinationCounts& some, CombinationCounts& all) {
    all.existing += some.existing;
    all.possible += some.possible;
    all.covered += some.covered;
  }

  [[nodiscard]] bool covers_all_cases() const {
    const auto& results = made_->report.results;
    std::set<Family> families;
    for (const CaseResult& result : results) families.insert(result.of->family());
    return std::count_if(cases().begin(), cases().end(), [&](const Case& which) {
             return families.contains(which.family());
           }) == static_cast<std::ptrdiff_t>(results.size());
  }

  Done write_package() {
    const fs::path& out = options_.directory;
    std::error_code error;
    fs::create_directories(out / "captures", error);
    if (error) return tl::unexpected(fmt::format("{}: {}", (out / "captures").string(), error.message()));
    std::vector<Session> sessions;
    for (const Part& part : parts_)
      sessions.insert(sessions.end(), part.check.manifest.sessions.begin(), part.check.manifest.sessions.end());
    std::stable_sort(sessions.begin(), sessions.end(),
                     [](const Session& a, const Session& b) { return a.start < b.start; });
    // The end of the last session marks a complete package, also if an earlier session was killed.
    for (const Session& one : sessions)
      if (one.end > sessions.back().end) sessions.back().end = one.end;
    auto package = Package::begin_merged(out, std::move(sessions));
    if (!package) return tl::unexpected(package.error());
    SortedJson identity = first().journal.identity;
    identity["cases"] = SortedJson::array();
    for (const CaseResult& result : made_->report.results) identity["cases"].push_back(result.of->id());
    std::string lines = identity.dump(-1, ' ', false, SortedJson::error_handler_t::replace) + "\n";
    for (const Part& part : parts_) {
      lines += part.journal.lines;
      for (const PackageFile& file : part.check.manifest.files)
        if (file.path.starts_with("captures/")) {
          fs::copy_file(part.directory / file.path, out / file.path, fs::copy_options::overwrite_existing, error);
          if (error) return tl::unexpected(fmt::format("{}: {}", (out / file.path).string(), error.message()));
        }
      const std::string name = fmt::format("shard-{}", part.shard.index);
      if (auto added = package->add_input(part.directory / manifest_name, name + ".json"); !added) return added;
      if (fs::exists(part.directory / signature_name))
        if (auto added = package->add_input(part.directory / signature_name, name + ".sig"); !added) return added;
    }
    for (const auto& [name, digest] : inputs_of(first()))
      if (auto added = package->add_input(first().directory / "inputs" / name, name); !added) return added;
    if (auto written = captures::write_file((out / "results.ndjson").string(), lines); !written) return written;
    if (auto written = write(made_->report, out); !written) return written;
    auto finished = package->finish(made_->report, circumstances(), key_ ? &*key_ : nullptr);
    made_->foreign = package->foreign();
    return finished;
  }

  [[nodiscard]] Json circumstances() const {
    Json all = Json::object();
    if (first().manifest.contains("arguments")) all["arguments"] = first().manifest["arguments"];
    all["parameters"] = first().parameters();
    all["parameters"]["shard"] = "1/1";
    all["parameters"]["all_cases"] = all_cases_;
    all["device"] = first().manifest["device"];
    Json& shards = all["shards"] = Json::array();
    for (const Part& part : parts_) {
      Json one{{"shard", fmt::format("{}/{}", part.shard.index, part.shard.count)},
               {"manifest", fmt::format("inputs/shard-{}.json", part.shard.index)},
               {"manifest_sha256", part.check.manifest_sha256},
               {"signature", to_string(part.check.signature)},
               {"device", {{"name", part.check.manifest.device}, {"details", part.check.manifest.details}}}};
      if (part.manifest.contains("tester")) one["tester"] = part.manifest["tester"];
      shards.push_back(std::move(one));
    }
    return all;
  }

  const MergeOptions& options_;
  std::vector<Part> parts_;  ///< by shard
  std::vector<CaseResult> results_;
  std::shared_ptr<Assessment> made_ = std::make_shared<Assessment>();
  bool all_cases_ = false;
  std::optional<SignatureKey> key_;
};

std::optional<Family> family_of(const std::string& name) {
  for (const Family family : {Family::infiniband, Family::iwarp})
    if (to_string(family) == name) return family;
  return std::nullopt;
}
std::optional<Finding::Status> status_of(const std::string& name) {
  for (const Finding::Status status : {Finding::Status::pass, Finding::Status::warn, Finding::Status::fail})
    if (to_string(status) == name) return status;
  return std::nullopt;
}

/// Adds the value that the device reports for a statement of the ICS: "capabilities.xrc", "true".
bool add_reported(const std::string& member, const std::string& value, ReportedCapabilities& reported) {
  const std::size_t dot = member.find('.');
  if (dot == std::string::npos) return false;
  const std::string section = member.substr(0, dot), name = member.substr(dot + 1);
  if (section == "capabilities") {
    if (value != "true" && value != "false") return false;
    reported.capabilities[name] = value == "true";
    return true;
  }
  std::uint64_t number = 0;
  const char* end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, number);
  if (section != "limits" || read.ec != std::errc() || read.ptr != end) return false;
  reported.limits[name] = number;
  return true;
}

}  // namespace

tl::expected<ReportRemainder, std::string> parse_report_remainder(const std::string& text, const std::string& name) {
  const auto wrong = [&](const std::string& what) { return tl::unexpected(fmt::format("{}: {}", name, what)); };
  const auto json = parse_json(text);
  if (!json) return wrong(json.error());
  if (!json->is_object() || json->value("format", SortedJson()) != 1) return wrong("is no report of format 1");
  ReportRemainder remainder;
  try {
    remainder.date = json->value("date", "");
    for (const SortedJson& one : json->value("basic", SortedJson::array())) {
      const auto family = family_of(one.at("family").get<std::string>());
      const Rule* rule = find_rule(one.at("rule").get<std::string>());
      if (!family || !rule) return wrong("\"basic\" names an unknown rule or transport");
      BasicViolation basic{*family, {Verdict::fail, one.value("expected", ""), one.value("actual", "")}};
      basic.judgment.rule = rule;
      remainder.basic.push_back(std::move(basic));
    }
    for (const SortedJson& one : json->value("preflight", SortedJson::array())) {
      const auto status = status_of(one.at("status").get<std::string>());
      if (!status) return wrong("\"preflight\" has an unknown status");
      remainder.preflight.push_back(
          {*status, one.value("check", ""), one.value("observed", ""), one.value("advice", "")});
    }
    const SortedJson combinations = json->value("combinations", SortedJson::object());
    remainder.combinations = {combinations.value("existing", std::size_t{0}),
                              combinations.value("possible", std::size_t{0}),
                              combinations.value("tested", std::size_t{0})};
    for (const SortedJson& one : json->value("ics", SortedJson::array())) {
      const auto value = one.find("reported");
      if (value == one.end()) continue;
      const std::string as_text = value->is_string() ? value->get<std::string>() : value->dump();
      if (!add_reported(one.at("member").get<std::string>(), as_text, remainder.reported))
        return wrong("\"ics\" has an unknown member");
    }
  } catch (const SortedJson::exception& error) {
    return wrong(fmt::format("a member has another type: {}", error.what()));
  }
  return remainder;
}

tl::expected<std::shared_ptr<Assessment>, std::string> merge_packages(const MergeOptions& options) {
  return Merger(options).merge();
}

}  // namespace rdmawire::conformance
