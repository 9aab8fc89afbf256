#pragma once
/// Capture to a ring of files: what a long-running capture keeps on disk is bounded.

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

/// Writes one file after the other, each a capture by itself with all interfaces described, and deletes the oldest.
///
/// Names are as dumpcap's: "x.pcapng" becomes "x_00001_20241121033640.pcapng", the number of the file and the local
/// time at which it was begun. Each file ends with Interface Statistics Blocks that count what happened while it was
/// the one being written, so that the sums over all files are the capture's.
class RingWriter {
 public:
  using Result = Writer::Result;
  struct Options {
    std::uint64_t max_bytes = 0;       ///< begin a new file when this one would grow beyond; 0: no limit
    std::int64_t max_nanoseconds = 0;  ///< begin a new file when this one is so old; 0: no limit
    std::uint32_t keep = 0;            ///< files on disk at most; 0: all
    Writer::Options writer = {};
  };
  /// The counters of every interface since the capture's beginning, by index; asked at the end of each file.
  using Counters = std::function<std::vector<std::optional<InterfaceStatistics>>()>;

  /// Nothing is created before the first write() or tick(). Without a limit the one file is `path` itself.
  RingWriter(std::string path, Options options, Counters counters = {});
  RingWriter(RingWriter&&) noexcept = default;
  RingWriter& operator=(RingWriter&&) noexcept = default;

  /// Every file begins with these; only before the first packet.
  std::uint32_t add_interface(const Interface& interface);

  /// Writes a packet, into a new file when a limit is reached; `now` is the time in nanoseconds that names and ages
  /// files (a live capture passes the clock, a replayed one the record's time).
  Result write(const Record& record, std::int64_t now, std::span<const std::string_view> comments = {});
  /// Lets time pass without a packet.
  Result tick(std::int64_t now);
  Result flush();
  /// Ends the last file; one is made if there was none.
  Result close(std::int64_t now);

  /// The files on disk, oldest first.
  [[nodiscard]] const std::deque<std::string>& files() const { return files_; }
  /// Over all files, the deleted ones too.
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
  std::vector<InterfaceStatistics> counted_;  // up to this file's beginning
  std::optional<Writer> writer_;
  std::deque<std::string> files_;
  std::int64_t file_begun_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t file_records_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace rdmawire::captures
