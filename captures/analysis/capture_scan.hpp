#pragma once
/// Reading capture files, by one thread or several: order of the files, time limits, and delivery of frames.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/report.hpp"
#include "captures/io/reader.hpp"

namespace rdmawire::captures::analysis {

/// Start or end of the analyzed range.
struct Boundary {
  enum class Kind : std::uint8_t { none, relative, absolute, frame } kind = Kind::none;
  std::int64_t value = 0;  ///< nanoseconds since the capture's first packet, or since 1970, or a frame number
  /// Formats: "12.5" (seconds since the first packet), "1732163000.5" (seconds since 1970, from 10^8 on),
  /// "2026-11-21T07:53:37.1" (UTC), "frame:214".
  static std::optional<Boundary> parse(std::string_view text);
  /// Converts a relative time to absolute time. `origin`: time of the capture's first packet.
  [[nodiscard]] Boundary from_origin(std::int64_t origin) const;
};

/// Input of a scan.
struct ScanOptions {
  std::vector<std::string> files;  ///< read in the order of their first packets' times ("-": standard input)
  Boundary from, to;
  /// Called periodically with: packets so far, bytes read of this file, its size (0: unknown), its name.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< if set to true, reading ends as at the end of the capture
  /// Files with fewer bytes together, and the first bytes of streams, are processed by one thread, because starting
  /// threads takes longer.
  std::uint64_t parallel_from = std::uint64_t{4} << 20;
};

/// Detects files that were recorded at the same time. Consecutive files of one capture may overlap by a few packets, so
/// an overlap counts only if it is at least half as long as the shorter file.
class Overlaps {
 public:
  void packet(std::int64_t time) {
    first_ = std::min(first_, time);
    last_ = std::max(last_, time);
  }
  /// Returns whether the file whose packets were added overlaps an earlier one. Files are in the order of their first
  /// packets.
  bool end_of_file();

 private:
  std::int64_t first_ = INT64_MAX, last_ = INT64_MIN;
  /// First and last time of the file whose last packet is the latest so far.
  std::int64_t latest_first_ = INT64_MAX, latest_last_ = INT64_MIN;
};

/// Selects packets within the boundaries, which must not be relative.
class Window {
 public:
  Window(Boundary from, Boundary to) : from_(from), to_(to) {}
  [[nodiscard]] bool has(std::int64_t time, std::uint64_t frame) const;

 private:
  Boundary from_, to_;
};

/// Stores in `facts` how reading ended (`next`): the number of packets that the capture lost, and the error.
void note_end(const Reader& reader, Next next, Input::File& facts);

/// Receives frames, numbered from 1 over all files.
class FrameConsumer {
 public:
  /// `stays`: the record's bytes remain valid until drain().
  virtual void add(const Record& record, std::uint64_t frame, bool stays) = 0;
  /// The bytes of earlier frames become invalid.
  virtual void drain() {}
  /// Called periodically. If it returns true, reading ends, because the result will not be used.
  virtual bool gives_up() { return false; }
  /// The bytes of earlier frames become invalid, and the result will not be used. No further call follows.
  virtual void abandon() {}
  /// An allocation failed in add() or drain(). No further call follows.
  virtual void out_of_memory() {}

 protected:
  ~FrameConsumer() = default;
};

/// The files of a run. Several threads can scan files that support repeated reading concurrently.
class CaptureScan {
 public:
  /// Adds one sentence to `errors` for each file that cannot be opened. `options` must outlive this object.
  CaptureScan(const ScanOptions& options, std::vector<std::string>& errors);

  /// Returns whether all files can be read more than once.
  [[nodiscard]] bool seekable() const;
  /// Returns whether the files have at least ScanOptions::parallel_from bytes. False for streams, whose size is
  /// unknown.
  [[nodiscard]] bool large() const;
  /// Passes all frames within the boundaries to `taker`. If `first` is set (for exactly one thread), fills `input` and
  /// `errors`, and reports progress. A failed allocation ends reading like a read error.
  void through(FrameConsumer& taker, bool first, Input& input, std::vector<std::string>& errors);
  /// Number of shards for the requested number of threads: at least 1, at most most_workers.
  static unsigned shards(unsigned threads);
  /// Calls `work(shard)` for each shard, on one thread each. Uses fewer threads if the system refuses to start more.
  static void divide(unsigned shards, const std::function<void(unsigned)>& work);

 private:
  struct OpenFile {
    std::string name;
    bool seekable = false;
    std::uint64_t bytes = 0;  ///< only if seekable
    std::int64_t first_time = INT64_MAX;
    std::optional<Reader> reader;  ///< for inputs that cannot be reopened, after reading `first`
    Record first;
    Next first_next = Next::end;
  };
  const ScanOptions& options_;
  Boundary from_, to_;
  std::vector<OpenFile> files_;
};

}  // namespace rdmawire::captures::analysis
