#pragma once
/// From capture files to an analysis: reading, dissecting, tracking, by one thread or several.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/analysis.hpp"
#include "captures/analysis/capture_scan.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::captures::analysis {

struct RunOptions : WalkOptions {
  const output::Filter* filter = nullptr;  ///< packets that do not match are as if not captured
  std::uint64_t connection = 0;            ///< only this one; 0: all
  unsigned threads = 1;                    ///< at most; streams and filters take one
  tracking::DissectorOptions dissector;
  tracking::TrackerOptions tracker;
  AnalysisOptions analysis;
  /// Takes what the analysis takes, while it happens. Called from all threads at once when there are several.
  tracking::Sink* also = nullptr;
  /// Takes packets as they were dissected, before the sink hears of them; likewise.
  std::function<void(const tracking::Packet&)> on_packet;
};

struct RunResult {
  Analysis analysis;
  Input input;
  std::vector<std::string> troubles;  ///< files that could not be read (to their end), one sentence each
  std::uint64_t tracker_memory = 0;   ///< bytes
};

/// Analyzes the files as one capture: frames are numbered on over all of them.
RunResult run(const RunOptions& options);

/// One thread's share of the work, packet by packet; also what a live capture is fed to.
class Pipeline final : public FrameConsumer {
 public:
  /// This is share `share` of `shares`. `options` must outlive it.
  Pipeline(const RunOptions& options, unsigned share = 0, unsigned shares = 1);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// `stays`: the record's bytes stay where they are until drain() or finish(); then some records wait in a queue,
  /// while the memory that they will need comes into the cache. That changes when, and not what, is found.
  void add(const Record& record, std::uint64_t frame, bool stays) override;
  void add(const Record& record, std::uint64_t frame) { add(record, frame, false); }
  /// A frame that somebody else divided (partition.hpp). Not `mine`: it is another share's, and concerns this one by
  /// the text that it carries; the filter, if there is one, has taken it. Its bytes stay until drain().
  void take(const Record& record, std::uint64_t frame, bool mine);
  /// What a frame that may be another share's tells everybody, and what it is to its receiver's share.
  void note_addresses(const PortAddress& from, const PortAddress& to);
  void note_arrival(const PortAddress& from, const PortAddress& to, std::int64_t time, std::uint64_t payload);
  /// Ends the waiting.
  void drain() override;
  /// No more packets. Once. `last`: of all shares' last().
  void finish(const tracking::Moment& last = {});
  [[nodiscard]] tracking::Moment last() const;
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
