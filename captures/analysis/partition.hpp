#pragma once
/// Distributed analysis. First, each file is surveyed. Its frames are then divided by endpoint pair into batches, one
/// for each shard. Each shard is tracked in capture order, in any process. The merged result equals that of a single
/// run over all files.
///
/// Some information in a frame concerns other shards: parameters that programs exchange as text, and arrivals at a
/// receiver. If there is a filter, only the information of matching frames counts. Whether a frame matches may depend
/// on its connection, so only the frame's own shard can decide this. Therefore, each shard is filtered first, and then
/// its information is added to the other shards.

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

/// Properties of a file that all shards need.
struct Survey {
  Input::File facts;                    ///< first_frame is 1, or 0 if there are no packets
  std::int64_t start_time = INT64_MAX;  ///< time of the first packet, by which files are ordered
  /// Earliest and latest time of a packet, in nanoseconds since 1970.
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;
};
/// Surveys a file up to the first read error. Returns an error if the file cannot be opened.
tl::expected<Survey, std::string> survey(const std::string& file);

/// A range of frames of a file.
struct Portion {
  std::string file;
  std::uint64_t from = 1, to = UINT64_MAX;  ///< first and last frame number within the file, from 1
  std::uint64_t frames_before = 0;          ///< number of frames in earlier files. It is added to frame numbers
  Boundary begin, end;                      ///< boundaries of the complete capture. They must be absolute
};
struct ShardPlan {
  /// One batch for each shard. ShardTracker must be passed the batches of all files and portions in order, and be of
  /// the same build of rdmawire. The size of a batch is about that of its frames.
  std::vector<std::string> batches;
  tracking::Moment last;  ///< the last packet with a BTH (if there is a filter, use ShardFilter::last() instead)
};
/// Divides a portion. Returns an error if the file cannot be opened, or has changed since it was surveyed. If
/// `filtered` is true, the shards will be filtered, so each frame is only added to its own shard.
tl::expected<ShardPlan, std::string> divide(const Portion& portion, unsigned shards, std::uint16_t extra_roce_port = 0,
                                            bool filtered = false);

/// Applies the filter to one shard, and collects information for the other shards.
class ShardFilter {
 public:
  /// Uses only the filter and the dissector options of `options`. The filter must outlive this object.
  ShardFilter(const RunOptions& options, unsigned shard, unsigned shards);
  /// Adds the next batch of the shard. Returns an error of one sentence if the batch is malformed.
  tl::expected<void, std::string> add(Bytes batch);
  /// Returns the data for ShardTracker::add_filtered() of each shard, which may be empty. Must be called once.
  std::vector<std::string> finish() { return std::move(batches_); }
  /// Returns the last packet of the shard that has a BTH and matches the filter.
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
  /// Ignores files, boundaries and threads of `options`. If there is a filter, divide() must be called with `filtered`.
  /// Filter, sinks and callbacks must outlive this object.
  explicit ShardTracker(const RunOptions& options);
  /// Sets the data that all ShardFilter objects returned for this shard. Must be called before add(). The bytes must
  /// outlive this object.
  void add_filtered(std::span<const Bytes> filtered);
  /// Counts only packets between these two addresses, which must be those of the endpoints of RunOptions::connection.
  void narrow_to(const PortAddress& one, const PortAddress& other) { pipeline_.narrow_to(one, other); }
  /// Adds a batch. Returns an error of one sentence if the batch is malformed. The items before the malformed one were
  /// added.
  tl::expected<void, std::string> add(Bytes batch);
  /// Ends the analysis. Must be called once. `last` is the last packet of all shards that has a BTH.
  Analysis finish(const tracking::Moment& last);
  [[nodiscard]] std::uint64_t evicted_packets() const { return pipeline_.evicted_packets(); }
  /// Returns the connection that RunOptions::connection selects, after it was closed. Returns nullopt if it is not in
  /// this shard.
  [[nodiscard]] const std::optional<Connection>& wanted() const { return pipeline_.wanted(); }

 private:
  /// Adds the filtered data that precedes the given frame.
  tl::expected<void, std::string> add_filtered_until(std::uint64_t frame);

  RunOptions options_;
  Pipeline pipeline_;
  std::vector<Bytes> filtered_;  ///< a heap, ordered by the frame number of the next item
};

}  // namespace rdmawire::captures::analysis
