#pragma once
/// Stores results during a run, so that an interrupted run can be resumed: one line for each result in results.ndjson
/// of the report directory, and the captures.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {

/// Properties that the parts of a run must have in common.
struct RunIdentity {
  std::string device, details;
  std::uint64_t seed = 0;
  unsigned repeat = 1;
  nlohmann::json setup = nlohmann::json::object();  ///< options that affect the results: faults, wire, time limits, …
  std::vector<std::string> cases{};                 ///< ids of the selected cases, in order
};

/// A journal as it is stored.
struct StoredJournal {
  nlohmann::json identity;  ///< the first line: an object
  std::vector<CaseResult> results;
  std::vector<CaseResult> checkpoints;  ///< the last one of each case without a result
  std::string lines;                    ///< the lines of the results
  std::uint64_t size = 0;               ///< bytes of the file without an incomplete last line
};
/// Reads the journal of a directory. Fails if it is missing, or if a line is not a result of a known case.
tl::expected<StoredJournal, std::string> read_journal(const std::filesystem::path& directory);
/// Describes how the setup of a stored journal differs from that of another one, without their cases. Empty: it is
/// equal. `ignored`: keys that may differ.
std::string difference_of_setups(const nlohmann::json& a, const nlohmann::json& b,
                                 std::span<const std::string_view> ignored = {});

/// Each line is written with one system call, so that it survives a crash of this process. Reading ignores an
/// incomplete last line.
class Journal {
 public:
  /// Starts a journal. Creates the directory, and removes an older journal and its captures. The error contains the
  /// cause.
  static tl::expected<Journal, std::string> begin(const std::filesystem::path& directory, const RunIdentity& identity);
  /// Resumes a journal. results() returns its results. Fails if there is none, if the identities differ, or if a line
  /// is not a result of a known case.
  static tl::expected<Journal, std::string> resume(const std::filesystem::path& directory, const RunIdentity& identity);
  /// Reads the seed of an existing journal.
  static tl::expected<std::uint64_t, std::string> seed_of(const std::filesystem::path& directory);

  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&& other) noexcept;
  ~Journal();

  /// Appends a result. The first error is stored.
  void append(const CaseResult& result);
  /// Appends the result of some rows of a case. The run has not finished the case.
  void append_checkpoint(const CaseResult& result);
  [[nodiscard]] const std::vector<CaseResult>& results() const { return results_; }
  /// The results of some rows of the cases that the resumed run has not finished.
  [[nodiscard]] const std::vector<CaseResult>& checkpoints() const { return checkpoints_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  Journal(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  void write(const std::string& line);
  void append(const CaseResult& result, bool is_checkpoint);
  [[nodiscard]] std::filesystem::path directory() const { return path_.parent_path(); }

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<CaseResult> results_, checkpoints_;
  std::string error_;
};

}  // namespace rdmawire::conformance
