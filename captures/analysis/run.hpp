#pragma once
/// Reads, dissects, tracks and analyzes capture files, with one thread or several.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/analysis.hpp"
#include "captures/analysis/capture_scan.hpp"
#include "captures/analysis/memory.hpp"
#include "captures/analysis/parallel_scan.hpp"
#include "captures/analysis/shares.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::captures::analysis {

struct RunOptions : ScanOptions {
  const output::Filter* filter = nullptr;  ///< packets that do not match are ignored
  std::uint64_t connection = 0;            ///< analyze only the connection with this number (0: all)
  unsigned threads = 1;                    ///< maximum number of threads
  tracking::DissectorOptions dissector;
  tracking::TrackerOptions tracker;
  AnalysisOptions analysis;
  /// Bound on the memory of the process in bytes, without mapped files: lowers the limits of the three above.
  std::uint64_t memory = default_memory;
  /// Receives the same calls as the analysis. Called concurrently from all threads.
  tracking::Sink* also = nullptr;
  /// Receives dissected packets before the sink is called. Called concurrently from all threads.
  std::function<void(const tracking::Packet&)> on_packet;
  /// Called if the files are read again from the start: `also` and `on_packet` must discard their data. Without it,
  /// one thread is used if there is a sink or a callback.
  std::function<void()> restart;
};

struct RunResult {
  Analysis analysis;
  Input input;
  std::vector<std::string> errors;   ///< read errors, one sentence each
  std::uint64_t tracker_memory = 0;  ///< bytes
};

/// Analyzes the files as one capture with consecutive frame numbers. The result does not depend on the number of
/// threads: if the shards together exceed the memory or a table, the files are analyzed again as a single shard. If an
/// allocation fails, the analysis is repeated with less memory, and the result contains an error.
RunResult run(const RunOptions& options);

/// Returns the options with the limits of RunOptions::memory, for Pipeline.
RunOptions within_memory(const RunOptions& options);

/// Analyzes one shard, packet by packet. Also used for live captures.
class Pipeline final : public FrameConsumer {
 public:
  /// Processes shard `shard` of `shards`. `options` must outlive this object.
  Pipeline(const RunOptions& options, unsigned shard = 0, unsigned shards = 1);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// `stays`: the record's bytes remain valid until drain() or finish(). Such records may wait in a queue while their
  /// memory is prefetched, which does not affect the results.
  void add(const Record& record, std::uint64_t frame, bool stays) override;
  void add(const Record& record, std::uint64_t frame) { add(record, frame, false); }
  /// Adds a frame that the caller assigned (partition.hpp). If not `mine`, the frame belongs to another shard, only its
  /// text is used, and it must match the filter, if any. Its bytes must remain valid until drain().
  void take(const Record& record, std::uint64_t frame, bool mine);
  /// Adds information of a frame that may belong to another shard: its addresses, and its arrival at the receiver.
  void note_addresses(const PortAddress& from, const PortAddress& to);
  void note_arrival(const PortAddress& from, const PortAddress& to, std::int64_t time, std::uint64_t payload);
  /// Processes the queued records.
  void drain() override;
  /// Adds this shard's lanes, which replace add(). Call before the first batch.
  void add_lanes(ParallelScan& scan, unsigned thread);
  bool gives_up() override;
  void out_of_memory() override;
  /// The shards that share the limits with this one (nullptr: none). Set it before the first frame.
  void share(Shares* shares);
  /// Ends the analysis. Call once. `last`: the latest value of last() of all shards.
  void finish(const tracking::Moment& last = {});
  [[nodiscard]] tracking::Moment last() const;
  [[nodiscard]] Analysis& analysis();
  /// Packets dropped because the tracker was full.
  [[nodiscard]] std::uint64_t evicted_packets() const;
  [[nodiscard]] std::uint64_t memory() const;
  /// The levels of all tables, always in the same order, and whether one of them dropped an entry.
  void append_levels(std::vector<tracking::Level>& levels) const;
  [[nodiscard]] bool dropped() const;
  /// The connection that RunOptions::connection selects, after it was closed.
  [[nodiscard]] const std::optional<Connection>& wanted() const;
  /// Counts only packets between these two addresses.
  void narrow_to(const PortAddress& one, const PortAddress& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures::analysis
