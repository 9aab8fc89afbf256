#pragma once
/// Captures to a ring of files, so that a long capture needs limited disk space.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/writer.hpp"

namespace rdmawire::captures {

/// Writes a sequence of files, and deletes the oldest ones. Each file is a complete capture that describes all
/// interfaces.
///
/// File names are like those of dumpcap: "x.pcapng" becomes "x_00001_20241121033640.pcapng" (number, local start time).
/// Each file ends with Interface Statistics Blocks for its own period, so that the sums over all files are the totals
/// of the capture.
class RingWriter {
 public:
  using Result = Writer::Result;
  struct Options {
    std::uint64_t max_bytes = 0;       ///< maximum size of a file in bytes (0: unlimited)
    std::int64_t max_nanoseconds = 0;  ///< maximum duration of a file (0: unlimited)
    std::uint32_t keep = 0;            ///< maximum number of files on disk (0: all)
    Writer::Options writer = {};
  };
  /// Returns the counters of every interface since the start of the capture. Called at the end of each file.
  using Counters = std::function<std::vector<std::optional<InterfaceStatistics>>()>;

  /// Creates the first file in write(), tick() or close(). If there are no limits, writes a single file `path`.
  RingWriter(std::string path, Options options, Counters counters = {});
  RingWriter(RingWriter&&) noexcept = default;
  RingWriter& operator=(RingWriter&&) noexcept = default;

  /// Adds an interface to every file. Must be called before the first packet.
  std::uint32_t add_interface(const Interface& interface);

  /// Writes a packet. Starts a new file when a limit is reached. `now` is the time for file names and durations in
  /// nanoseconds. It is the clock in a live capture, and the time of the record otherwise.
  Result write(const Record& record, std::int64_t now, std::span<const std::string_view> comments = {});
  /// Updates the time when there is no packet. Starts a new file if the time limit is reached.
  Result tick(std::int64_t now);
  Result flush();
  /// Ends the last file. If there is no file yet, creates an empty capture.
  Result close(std::int64_t now);

  /// Files on disk, oldest first.
  [[nodiscard]] const std::deque<std::string>& files() const { return files_; }
  /// Number of records in all files, including those that were deleted.
  [[nodiscard]] std::uint64_t records() const { return records_; }
  [[nodiscard]] std::uint64_t files_begun() const { return begun_; }

 private:
  Result begin(std::int64_t now);
  Result end(std::int64_t now);
  Result rotate_when_due(std::int64_t now, std::uint64_t coming);
  [[nodiscard]] std::string name_of(std::uint64_t number, std::int64_t now) const;

  std::string path_;
  Options options_;
  Counters counters_;
  std::vector<Interface> interfaces_;
  std::vector<InterfaceStatistics> counted_;  // totals at the start of the current file
  std::optional<Writer> writer_;
  std::deque<std::string> files_;
  std::int64_t file_begun_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t file_records_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace rdmawire::captures
