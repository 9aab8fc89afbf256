#include "conformance/report/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conformance/report/json_integer.hpp"
#include "conformance/report/report.hpp"

namespace rdmawire::conformance {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

fs::path file_in(const fs::path& directory) { return directory / "results.ndjson"; }

SortedJson to_json(const RunIdentity& identity) {
  return {{"format", 1},
          {"device", identity.device},
          {"details", identity.details},
          {"seed", identity.seed},
          {"repeat", identity.repeat},
          {"setup", identity.setup},
          {"cases", identity.cases}};
}

std::string text_of_member(const SortedJson& object, const std::string& key) {
  return object.contains(key) ? object[key].dump(-1, ' ', false, SortedJson::error_handler_t::replace) : "not set";
}

struct SetupDifference {
  std::string key, a, b;
};
std::optional<SetupDifference> find_difference(const SortedJson& a, const SortedJson& b,
                                               std::span<const std::string_view> ignored) {
  const auto compare = [&](const SortedJson& x, const SortedJson& y,
                           const std::string& key) -> std::optional<SetupDifference> {
    SetupDifference found{key, text_of_member(x, key), text_of_member(y, key)};
    if (found.a == found.b || std::find(ignored.begin(), ignored.end(), key) != ignored.end()) return std::nullopt;
    return found;
  };
  for (const char* key : {"device", "details", "seed", "repeat"})
    if (auto found = compare(a, b, key)) return found;
  SortedJson all = a["setup"];
  all.update(b["setup"]);
  for (const auto& [key, value] : all.items())
    if (auto found = compare(a["setup"], b["setup"], key)) return found;
  return std::nullopt;
}

/// Describes how the identity of a present run differs from that of a new one. Empty: it is equal.
std::string difference(const SortedJson& theirs, const SortedJson& ours) {
  if (const auto found = find_difference(theirs, ours, {}))
    return fmt::format("{} of that run is {}, of this one {}", found->key, found->a, found->b);
  const SortedJson& cases = theirs["cases"];
  if (cases != ours["cases"])
    return fmt::format("that run selects {} cases, this one {}; specify the same selection", cases.size(),
                       cases.size() == ours["cases"].size() ? "others" : std::to_string(ours["cases"].size()));
  return {};
}

/// Adds the monitors' counters, which the report contains only as a sum. Returns false for another format.
bool add_tallies(const SortedJson& line, CaseResult& result) {
  try {
    const SortedJson all = line.value("counters", SortedJson::object());
    for (const auto& [id, row] : all.items()) {
      const Rule* rule = find_rule(id);
      if (!rule) return false;
      ResultCounters& counts = result.observed.counters[static_cast<std::size_t>(rule - rules.data())];
      counts.passed = integer_of<std::uint64_t>(row.at(0));
      counts.violated = integer_of<std::uint64_t>(row.at(1));
      for (std::size_t i = 0; i < reasons; ++i)
        counts.inconclusive_by_reason[i] = integer_of<std::uint64_t>(row.at(2).at(i));
    }
    return true;
  } catch (const SortedJson::exception&) {
    return false;
  }
}

tl::expected<SortedJson, std::string> first_line(std::ifstream& file, const fs::path& path) {
  std::string line;
  SortedJson head = std::getline(file, line) ? SortedJson::parse(line, nullptr, false) : SortedJson();
  if (!head.is_object() || head.value("format", SortedJson()) != 1 || !head.contains("seed") ||
      !head["seed"].is_number_unsigned())
    return tl::unexpected(fmt::format("{}: contains no run to resume", path.string()));
  return head;
}

}  // namespace

tl::expected<StoredJournal, std::string> read_journal(const fs::path& directory) {
  const fs::path path = file_in(directory);
  std::ifstream file(path, std::ios::binary);
  auto head = first_line(file, path);
  if (!head) return tl::unexpected(head.error());
  if (file.eof()) return tl::unexpected(fmt::format("{}: its first line is incomplete", path.string()));
  const auto setup = head->find("setup"), cases = head->find("cases");
  if (setup == head->end() || !setup->is_object() || cases == head->end() || !cases->is_array())
    return tl::unexpected(fmt::format("{}: does not state the setup and selection of its run", path.string()));
  StoredJournal stored;
  stored.identity = std::move(*head);
  stored.size = static_cast<std::uint64_t>(file.tellg());
  std::size_t number = 1;
  for (std::string line; std::getline(file, line); ++number) {
    if (file.eof()) break;  // an incomplete last line
    const SortedJson read = SortedJson::parse(line, nullptr, false);
    auto result = result_of(read);
    if (!result || !add_tallies(read, *result))
      return tl::unexpected(fmt::format("{}: line {} is not a result of a known case", path.string(), number + 1));
    result->left_out = read.contains("left_out");
    result->blocked = read.contains("blocked");
    const auto is_it = [of = result->of](const CaseResult& one) { return one.of == of; };
    std::erase_if(stored.checkpoints, is_it);
    (read.contains("checkpoint") ? stored.checkpoints : stored.results).push_back(std::move(*result));
    stored.lines += line + '\n';
    stored.size += line.size() + 1;
  }
  return stored;
}

std::string difference_of_setups(const SortedJson& a, const SortedJson& b, std::span<const std::string_view> ignored) {
  const auto found = find_difference(a, b, ignored);
  return found ? fmt::format("{} is {} and {}", found->key, found->a, found->b) : std::string();
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      results_(std::move(other.results_)),
      checkpoints_(std::move(other.checkpoints_)),
      error_(std::move(other.error_)) {}

Journal& Journal::operator=(Journal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(results_, other.results_);
  std::swap(checkpoints_, other.checkpoints_);
  std::swap(error_, other.error_);
  return *this;
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

tl::expected<Journal, std::string> Journal::begin(const fs::path& directory, const RunIdentity& identity) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", directory.string(), error.message()));
  if (fs::exists(file_in(directory), error)) fs::remove_all(directory / "captures", error);
  const fs::path path = file_in(directory);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return tl::unexpected(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  Journal journal(path, descriptor);
  journal.write(to_json(identity).dump(-1, ' ', false, SortedJson::error_handler_t::replace));
  if (!journal.error().empty()) return tl::unexpected(journal.error());
  return journal;
}

tl::expected<std::uint64_t, std::string> Journal::seed_of(const fs::path& directory) {
  std::ifstream file(file_in(directory), std::ios::binary);
  const auto head = first_line(file, file_in(directory));
  if (!head) return tl::unexpected(head.error());
  return head->at("seed").get<std::uint64_t>();
}

tl::expected<Journal, std::string> Journal::resume(const fs::path& directory, const RunIdentity& identity) {
  const fs::path path = file_in(directory);
  auto stored = read_journal(directory);
  if (!stored) return tl::unexpected(stored.error());
  if (const std::string what = difference(stored->identity, to_json(identity)); !what.empty())
    return tl::unexpected(fmt::format("{}: cannot resume: {}", path.string(), what));
  std::error_code error;
  fs::resize_file(path, stored->size, error);
  const int descriptor = error ? -1 : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) return tl::unexpected(fmt::format("{}: not writable", path.string()));
  Journal journal(path, descriptor);
  journal.results_ = std::move(stored->results);
  journal.checkpoints_ = std::move(stored->checkpoints);
  return journal;
}

void Journal::append(const CaseResult& result) { append(result, false); }
void Journal::append_checkpoint(const CaseResult& result) { append(result, true); }

void Journal::append(const CaseResult& result, bool is_checkpoint) {
  // The capture first, because the line marks the case as done.
  if (const auto written = write_capture(result, directory()); !written && error_.empty()) error_ = written.error();
  auto line = conformance::to_json(result);
  auto& counters = line["counters"] = nlohmann::ordered_json::object();
  for (const auto& [rule, counts] : result.observed.counters)
    counters[std::string(rules[rule].id)] = {counts.passed, counts.violated, counts.inconclusive_by_reason};
  if (is_checkpoint) line["checkpoint"] = true;
  if (result.left_out) line["left_out"] = true;
  if (result.blocked) line["blocked"] = true;
  // Kernel messages may be invalid UTF-8.
  write(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void Journal::write(const std::string& line) {
  if (!error_.empty()) return;
  const std::string text = line + '\n';
  for (std::string_view left = text; !left.empty();) {
    const ssize_t count = ::write(descriptor_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      error_ = fmt::format("{}: {}", path_.string(), std::strerror(errno));
      return;
    }
    left.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace rdmawire::conformance
