#pragma once
/// From capture files to an analysis: reading, dissecting, tracking, by one thread or several.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/analysis.hpp"
#include "captures/analysis/report.hpp"
#include "captures/io/reader.hpp"
#include "dissectors/faces/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::captures::analysis {

/// Where a narrowed analysis begins or ends.
struct Boundary {
  enum class Kind : std::uint8_t { none, relative, absolute, frame } kind = Kind::none;
  std::int64_t value = 0;  ///< nanoseconds since the capture's first packet, or since 1970; or a frame's number
  /// "12.5" seconds since the first packet; "1732163000.5" seconds since 1970 (from 10^8 on);
  /// "2026-11-21T07:53:37.1" in UTC; "frame:214".
  static std::optional<Boundary> parse(std::string_view text);
};

struct RunOptions {
  std::vector<std::string> files;         ///< read in the order of their first packets' times; "-" is standard input
  const faces::Filter* filter = nullptr;  ///< packets that do not match are as if not captured
  Boundary from, to;
  std::uint64_t connection = 0;  ///< only this one; 0: all
  unsigned threads = 1;          ///< at most; streams and filters take one
  tracking::DissectorOptions dissector;
  tracking::TrackerOptions tracker;
  AnalysisOptions analysis;
  /// Takes what the analysis takes, while it happens. Called from all threads at once when there are several.
  tracking::Sink* also = nullptr;
  /// Takes packets as they were dissected, before the sink hears of them; likewise.
  std::function<void(const tracking::Packet&)> on_packet;
  /// Now and then: packets so far, octets of this file done and in all (0: not known), its name.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< ends the reading early, as if the capture ended there
};

struct RunResult {
  Analysis analysis;
  Input input;
  std::vector<std::string> troubles;  ///< files that could not be read (to their end), one sentence each
  std::uint64_t tracker_memory = 0;   ///< octets
};

/// Analyses the files as one capture: frames are numbered on over all of them.
RunResult run(const RunOptions& options);

/// One thread's share of the work, packet by packet; also what a live capture is fed to.
class Pipeline {
 public:
  /// This is share `share` of `shares`. `options` must outlive it.
  Pipeline(const RunOptions& options, unsigned share = 0, unsigned shares = 1);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// `stays`: the record's octets stay where they are until drain() or finish(); then some records wait in a queue,
  /// while the memory that they will need comes into the cache. That changes when, and not what, is found.
  void add(const Record& record, std::uint64_t frame, bool stays = false);
  /// Ends the waiting.
  void drain();
  /// No more packets. Once.
  void finish();
  [[nodiscard]] Analysis& analysis();
  /// Packets that found no room in the tracker.
  [[nodiscard]] std::uint64_t evicted_packets() const;
  [[nodiscard]] std::uint64_t memory() const;
  /// The connection that RunOptions::connection names, once it said farewell.
  [[nodiscard]] const std::optional<Connection>& wanted() const;
  /// Only packets between these two are counted by themselves.
  void narrow_to(const PortAddress& one, const PortAddress& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures::analysis
