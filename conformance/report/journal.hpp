#pragma once
/// Results as they come, so that a run that was cut off can go on: a line each in results.ndjson of a report's
/// directory, and their captures.

#include <cstdint>
#include <filesystem>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {

/// What two parts of a run have to share.
struct RunIdentity {
  std::string device, details;
  std::uint64_t seed = 0;
  unsigned repeat = 1;
};

/// Each line is handed to the operating system whole: what is there survives this process, and a last line that was cut
/// off is passed over when it is read.
class Journal {
 public:
  /// Begins one; an older one of that directory goes, with its captures. The directory is made. The error says what
  /// could not be done.
  static tl::expected<Journal, std::string> begin(const std::filesystem::path& directory, const RunIdentity& identity);
  /// Goes on with one; results() are its results. An error when there is none, or it is of another device, version,
  /// seed or number of repeats.
  static tl::expected<Journal, std::string> resume(const std::filesystem::path& directory, const RunIdentity& identity);
  /// The seed of the one that is there, before anything is compared.
  static tl::expected<std::uint64_t, std::string> seed_of(const std::filesystem::path& directory);

  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&& other) noexcept;
  ~Journal();

  /// The first error is kept.
  void append(const CaseResult& result);
  [[nodiscard]] const std::vector<CaseResult>& results() const { return results_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  Journal(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  void write(const std::string& line);
  [[nodiscard]] std::filesystem::path directory() const { return path_.parent_path(); }

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<CaseResult> results_;
  std::string error_;
};

}  // namespace rdmawire::conformance
