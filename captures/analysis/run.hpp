#pragma once
/// Reads, dissects, tracks and analyzes capture files with one thread or several.

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
  /// Limit on the memory of the process in bytes. Memory-mapped files do not count. It lowers the limits of the three
  /// members above.
  std::uint64_t memory = default_memory;
  /// Gets the same calls as the analysis, from all threads concurrently.
  tracking::Sink* also = nullptr;
  /// Gets each dissected packet before the sink does, from all threads concurrently.
  std::function<void(const tracking::Packet&)> on_packet;
  /// Called if the files are read again from the start: `also` and `on_packet` must discard their data. If it is empty
  /// and there is a sink or a callback, only one thread is used.
  std::function<void()> restart;
};

struct RunResult {
  Analysis analysis;
  Input input;
  std::vector<std::string> errors;   ///< read errors, one sentence each
  std::uint64_t tracker_memory = 0;  ///< memory of the tracker in bytes
};

/// Analyzes the files as one capture with consecutive frame numbers. The result does not depend on the number of
/// threads: if the shards together exceed the memory or a table, the files are analyzed again as a single shard. If an
/// allocation fails, the analysis is repeated with less memory, and the result contains an error.
RunResult run(const RunOptions& options);

/// Returns options for Pipeline, with the limits that RunOptions::memory implies.
RunOptions within_memory(const RunOptions& options);

/// Analyzes one shard, packet by packet. Also used for live captures.
class Pipeline final : public FrameConsumer {
 public:
  /// Processes shard `shard` of `shards`. `options` must outlive this object.
  Pipeline(const RunOptions& options, unsigned shard = 0, unsigned shards = 1);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// `stays` is true if the record's bytes remain valid until drain() or finish(). Such a record may wait in a queue
  /// while its memory is prefetched, which does not affect the results.
  void add(const Record& record, std::uint64_t frame, bool stays) override;
  void add(const Record& record, std::uint64_t frame) { add(record, frame, false); }
  /// Adds a frame that the caller has assigned to shards (partition.hpp). If `mine` is false, the frame belongs to
  /// another shard: only its text is used, and it must match the filter, if there is one. Its bytes must remain valid
  /// until drain().
  void take(const Record& record, std::uint64_t frame, bool mine);
  /// Add information about a frame that may belong to another shard: its addresses, and its arrival at the receiver.
  void note_addresses(const PortAddress& from, const PortAddress& to);
  void note_arrival(const PortAddress& from, const PortAddress& to, std::int64_t time, std::uint64_t payload);
  /// Processes the queued records.
  void drain() override;
  /// Adds the lanes of this shard, which replace add(). Must be called before the first batch.
  void add_lanes(ParallelScan& scan, unsigned thread);
  bool gives_up() override;
  void out_of_memory() override;
  /// Sets the object that shares limits among shards (nullptr: none). Must be called before the first frame.
  void share(Shares* shares);
  /// Ends the analysis. Must be called once. `last` is the latest value of last() of all shards.
  void finish(const tracking::Moment& last = {});
  [[nodiscard]] tracking::Moment last() const;
  [[nodiscard]] Analysis& analysis();
  /// Number of packets that were dropped because the tracker was full.
  [[nodiscard]] std::uint64_t evicted_packets() const;
  [[nodiscard]] std::uint64_t memory() const;
  /// Append the levels of all tables, always in the same order, and return whether a table dropped an entry.
  void append_levels(std::vector<tracking::Level>& levels) const;
  [[nodiscard]] bool dropped() const;
  /// Returns the connection that RunOptions::connection selects, after it was closed.
  [[nodiscard]] const std::optional<Connection>& wanted() const;
  /// Counts only packets between these two addresses.
  void narrow_to(const PortAddress& one, const PortAddress& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures::analysis
