#pragma once
/// Reads capture files with one thread or several: determines their order, applies time limits, and delivers frames.

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

/// Start or end of the range that is analyzed.
struct Boundary {
  enum class Kind : std::uint8_t { none, relative, absolute, frame } kind = Kind::none;
  std::int64_t value =
      0;  ///< nanoseconds since the first packet of the capture, nanoseconds since 1970, or a frame number
  /// Parses "12.5" (seconds since the first packet), "1732163000.5" (seconds since 1970, from 10^8 on),
  /// "2026-11-21T07:53:37.1" (UTC), or "frame:214".
  static std::optional<Boundary> parse(std::string_view text);
  /// Converts a relative time to an absolute time. `origin` is the time of the first packet of the capture.
  [[nodiscard]] Boundary from_origin(std::int64_t origin) const;
};

/// Input of a scan.
struct ScanOptions {
  std::vector<std::string>
      files;  ///< files, which are read in the order of their first packets' times ("-": standard input)
  Boundary from, to;
  /// Called periodically with the number of packets so far, the number of bytes read of this file, its size (0:
  /// unknown) and its name.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< if set to true, reading ends as if the capture ended
  /// One thread processes the first bytes of streams, and files that have fewer bytes together, because starting
  /// threads takes longer.
  std::uint64_t parallel_from = std::uint64_t{4} << 20;
};

/// Detects files that were recorded at the same time. Consecutive files of one capture may overlap by a few packets.
/// Therefore, an overlap counts only if it is at least half as long as the shorter file.
class Overlaps {
 public:
  void packet(std::int64_t time) {
    first_ = std::min(first_, time);
    last_ = std::max(last_, time);
  }
  /// Returns whether the file whose packets were added overlaps an earlier one. Files must be in the order of their
  /// first packets.
  bool end_of_file();

 private:
  std::int64_t first_ = INT64_MAX, last_ = INT64_MIN;
  /// First and last time of the file that has the latest packet so far.
  std::int64_t latest_first_ = INT64_MAX, latest_last_ = INT64_MIN;
};

/// Selects packets inside the boundaries, which must be absolute.
class Window {
 public:
  Window(Boundary from, Boundary to) : from_(from), to_(to) {}
  [[nodiscard]] bool has(std::int64_t time, std::uint64_t frame) const;

 private:
  Boundary from_, to_;
};

/// Stores in `facts` how reading ended. `next` is the last result of the reader. Sets the number of packets that the
/// capture lost, and the error.
void note_end(const Reader& reader, Next next, Input::File& facts);

/// Receives frames, numbered from 1 over all files.
class FrameConsumer {
 public:
  /// `stays` is true if the record's bytes remain valid until drain().
  virtual void add(const Record& record, std::uint64_t frame, bool stays) = 0;
  /// Called before the bytes of earlier frames become invalid.
  virtual void drain() {}
  /// Called periodically. If it returns true, reading ends because the result will not be used.
  virtual bool gives_up() { return false; }
  /// Called before the bytes of earlier frames become invalid, if the result will not be used. It is the last call.
  virtual void abandon() {}
  /// Called if an allocation failed in add() or drain(). It is the last call.
  virtual void out_of_memory() {}

 protected:
  ~FrameConsumer() = default;
};

/// The files of a run. If they support repeated reading, several threads can scan them at the same time.
class CaptureScan {
 public:
  /// Opens the files. Adds one sentence to `errors` for each file that cannot be opened. `options` must outlive this
  /// object.
  CaptureScan(const ScanOptions& options, std::vector<std::string>& errors);

  /// Returns whether all files can be read more than once.
  [[nodiscard]] bool seekable() const;
  /// Returns whether the files have at least ScanOptions::parallel_from bytes. False for streams, because their size is
  /// unknown.
  [[nodiscard]] bool large() const;
  /// Passes all frames inside the boundaries to `taker`. `first` must be true for exactly one thread: it fills `input`
  /// and `errors`, and reports progress. A failed allocation ends reading like a read error.
  void through(FrameConsumer& taker, bool first, Input& input, std::vector<std::string>& errors);
  /// Returns the number of shards for the requested number of threads: at least 1, at most most_workers.
  static unsigned shards(unsigned threads);
  /// Calls `work(shard)` for each shard, each in its own thread. Uses fewer threads if the system cannot start more.
  static void divide(unsigned shards, const std::function<void(unsigned)>& work);

 private:
  struct OpenFile {
    std::string name;
    bool seekable = false;
    std::uint64_t bytes = 0;  ///< size of the file. Valid if it is seekable
    std::int64_t first_time = INT64_MAX;
    std::optional<Reader> reader;  ///< if the input cannot be reopened: its reader, after reading `first`
    Record first;
    Next first_next = Next::end;
  };
  const ScanOptions& options_;
  Boundary from_, to_;
  std::vector<OpenFile> files_;
};

}  // namespace rdmawire::captures::analysis
