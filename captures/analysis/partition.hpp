#pragma once
/// Distributed analysis. Each file is surveyed, its frames are divided by endpoint pair into batches, one per shard,
/// and each shard is tracked in capture order, in any process. The merged result equals that of a single run over all
/// files.
///
/// Some information of a frame concerns other shards: parameters that programs exchange as text, and arrivals at a
/// receiver. If there is a filter, only the information of matching frames counts. Only a frame's own shard can
/// evaluate the filter, because the filter may depend on the connection. So each shard is filtered first, and its
/// information is then added to the other shards.

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

/// Properties of a file that all shards need.
struct Survey {
  Input::File facts;                    ///< first_frame is 1, or 0 without packets
  std::int64_t start_time = INT64_MAX;  ///< time of the first packet, which orders the files
  /// Earliest and latest time of a packet, nanoseconds since 1970.
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;
};
/// Surveys a file, up to the first read error. Returns an error if the file cannot be opened.
tl::expected<Survey, std::string> survey(const std::string& file);

/// A range of frames of a file.
struct Portion {
  std::string file;
  std::uint64_t from = 1, to = UINT64_MAX;  ///< frame numbers within the file, starting at 1, inclusive
  std::uint64_t frames_before = 0;          ///< number of frames in earlier files, which is added to frame numbers
  Boundary begin, end;                      ///< boundaries of the complete capture, not relative
};
struct ShardPlan {
  /// A batch for each shard. ShardTracker requires the batches of all files and portions in order, and the same build
  /// of rdmawire. A batch is about as large as its frames.
  std::vector<std::string> batches;
  tracking::Moment last;  ///< the last packet with a BTH (with a filter, use ShardFilter::last())
};
/// Divides a portion. Returns an error if the file cannot be opened or has changed since the survey. `filtered`: the
/// shards will be filtered, so each frame is added only to its own shard.
tl::expected<ShardPlan, std::string> divide(const Portion& portion, unsigned shards, std::uint16_t extra_roce_port = 0,
                                            bool filtered = false);

/// Evaluates the filter for one shard and collects information for the other shards.
class ShardFilter {
 public:
  /// Uses only filter and dissector of `options`. The filter must outlive this object.
  ShardFilter(const RunOptions& options, unsigned shard, unsigned shards);
  /// Adds the next batch of the shard. Returns an error, one sentence, if the batch is malformed.
  tl::expected<void, std::string> add(Bytes batch);
  /// Returns the data for ShardTracker::add_filtered() of each shard, possibly empty. Call once.
  std::vector<std::string> finish() { return std::move(batches_); }
  /// The shard's last packet with a BTH that matches the filter.
  [[nodiscard]] const tracking::Moment& last() const { return last_; }

 private:
  const RunOptions options_;
  unsigned shard_;
  std::vector<std::string> batches_;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
  tracking::Moment last_;
};

/// Tracks one shard.
class ShardTracker {
 public:
  /// Ignores files, boundaries and threads of `options`. If there is a filter, call divide() with `filtered`.
  /// Filter, sinks and callbacks must outlive this object.
  explicit ShardTracker(const RunOptions& options);
  /// Sets the data that all ShardFilter objects returned for this shard. Call before add(). The bytes must outlive this
  /// object.
  void add_filtered(std::span<const Bytes> filtered);
  /// Counts only packets between these two addresses, which are the endpoints of RunOptions::connection.
  void narrow_to(const PortAddress& one, const PortAddress& other) { pipeline_.narrow_to(one, other); }
  /// Adds a batch. Returns an error, one sentence, if it is malformed. The items before the error were added.
  tl::expected<void, std::string> add(Bytes batch);
  /// Ends the analysis. Call once. `last`: the last packet with a BTH of all shards.
  Analysis finish(const tracking::Moment& last);
  [[nodiscard]] std::uint64_t evicted_packets() const { return pipeline_.evicted_packets(); }
  /// The connection that RunOptions::connection selects, after it was closed (nullopt if it is not in this shard).
  [[nodiscard]] const std::optional<Connection>& wanted() const { return pipeline_.wanted(); }

 private:
  /// Adds the filtered data that precedes the given frame.
  tl::expected<void, std::string> add_filtered_until(std::uint64_t frame);

  RunOptions options_;
  Pipeline pipeline_;
  std::vector<Bytes> filtered_;  ///< heap, ordered by the frame of the next item
};

}  // namespace rdmawire::captures::analysis
