#pragma once
/// Walking through capture files: which are read in which order, what part of them, and who takes their frames. What
/// every run over captures has in common, by one thread or several.

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

/// Where a narrowed run begins or ends.
struct Boundary {
  enum class Kind : std::uint8_t { none, relative, absolute, frame } kind = Kind::none;
  std::int64_t value = 0;  ///< nanoseconds since the capture's first packet, or since 1970; or a frame's number
  /// "12.5" seconds since the first packet; "1732163000.5" seconds since 1970 (from 10^8 on);
  /// "2026-11-21T07:53:37.1" in UTC; "frame:214".
  static std::optional<Boundary> parse(std::string_view text);
  /// The same in absolute time, where it was relative to the first packet, at `origin`.
  [[nodiscard]] Boundary from_origin(std::int64_t origin) const;
};

/// What is read.
struct WalkOptions {
  std::vector<std::string> files;  ///< read in the order of their first packets' times; "-" is standard input
  Boundary from, to;
  /// Now and then: packets so far, bytes of this file done and in all (0: not known), its name.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< ends the reading early, as if the capture ended there
};

/// Finds files that were recorded at the same time. At the border of two pieces of one capture some packets may stand
/// in the wrong order; here it is half of a file and more.
class Overlaps {
 public:
  void packet(std::int64_t time) {
    first_ = std::min(first_, time);
    last_ = std::max(last_, time);
  }
  /// Whether the file whose packets were told overlaps an earlier one. Files come in the order of their first packets.
  bool end_of_file();

 private:
  std::int64_t first_ = INT64_MAX, last_ = INT64_MIN;
  std::int64_t latest_first_ = INT64_MAX, latest_last_ = INT64_MIN;  ///< of the file that lasted longest so far
};

/// Which packets lie within the boundaries. Relative ones must have been made absolute.
class Window {
 public:
  Window(Boundary from, Boundary to) : from_(from), to_(to) {}
  [[nodiscard]] bool has(std::int64_t time, std::uint64_t frame) const;

 private:
  Boundary from_, to_;
};

/// What is known of a file once it was read, `next` having ended that: what the capture lost, why reading stopped.
void note_end(const Reader& reader, Next next, Input::File& facts);

/// Takes frames, numbered from 1 over all files.
class FrameConsumer {
 public:
  /// `stays`: the record's bytes stay where they are until drain().
  virtual void add(const Record& record, std::uint64_t frame, bool stays) = 0;
  /// Bytes of frames that were taken may go.
  virtual void drain() {}

 protected:
  ~FrameConsumer() = default;
};

/// The files of a run, opened once. Those that can be read more than once are walked by several threads at a time.
class CaptureScan {
 public:
  /// `troubles`: files that cannot be opened, one sentence each. `options` must outlive it.
  CaptureScan(const WalkOptions& options, std::vector<std::string>& troubles);

  /// Whether all can be read more than once.
  [[nodiscard]] bool seekable() const;
  /// Gives `taker` all frames within the boundaries. `first`: this is the first, or the only, thread: then `input` and
  /// `troubles` are filled, and progress is told.
  void through(FrameConsumer& taker, bool first, Input& input, std::vector<std::string>& troubles);
  /// So many shares for `threads` threads that are wanted: one at least, and not more than threads are ever made.
  static unsigned shares(unsigned threads);
  /// Calls `work(share)` for each share from 0 on, each on a thread of its own as far as the system gives threads.
  static void divide(unsigned shares, const std::function<void(unsigned)>& work);

 private:
  struct OpenFile {
    std::string name;
    bool seekable = false;
    std::int64_t first_time = INT64_MAX;
    std::optional<Reader> reader;  ///< of what cannot be opened twice, with its first record taken
    Record first;
    Next first_next = Next::end;
  };
  const WalkOptions& options_;
  Boundary from_, to_;
  std::vector<OpenFile> files_;
};

}  // namespace rdmawire::captures::analysis
