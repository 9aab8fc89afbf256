#pragma once
/// Distributed analysis. Each file is surveyed, its frames are divided by endpoint pair into batches, one per shard, and
/// each shard is tracked in capture order, in any process. The merged result equals that of a single run over all files.
///
/// Information for other shards (parameters that programs exchange as text, arrivals at a receiver) is relevant only for
/// frames that match the filter, if any. Only a frame's own shard can evaluate the filter, because the filter
/// may depend on the connection. So each shard is filtered first, and its information is then added to the other shards.

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

/// Properties of a file that all shards need.
struct Survey {
  Input::File facts;                                           ///< first_frame 1, or 0
  std::int64_t begins = INT64_MAX;  ///< time of the first packet, which orders the files
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;  ///< earliest and latest, nanoseconds since 1970
};
/// Surveys a file, up to the first read error. Returns an error if the file cannot be opened.
tl::expected<Survey, std::string> survey(const std::string& file);

/// A range of frames of a file.
struct Portion {
  std::string file;
  std::uint64_t from = 1, to = UINT64_MAX;  ///< frame numbers within the file, starting at 1, inclusive
  std::uint64_t frames_before = 0;          ///< frames in earlier files, added to frame numbers
  Boundary begin, end;                      ///< of the complete capture, not relative
};
struct ShardPlan {
  /// A batch for each shard. ShareTracker requires the batches of all files and portions in order, and the same build of
  /// rdmawire. A batch is about as large as its frames.
  std::vector<std::string> parcels;
  tracking::Moment last;  ///< the last packet with a BTH (with a filter, use ShareSifter::last())
};
/// Divides a portion. Returns an error if the file cannot be opened or has changed since the survey. `sifted`: the shards
/// will be filtered, so each frame is added only to its own shard.
tl::expected<ShardPlan, std::string> divide(const Portion& portion, unsigned shares, std::uint16_t extra_roce_port = 0,
                                            bool sifted = false);

/// Evaluates the filter for one shard and collects information for the other shards.
class ShareSifter {
 public:
  /// Uses only filter and dissector of `options`. The filter must outlive this object.
  ShareSifter(const RunOptions& options, unsigned share, unsigned shares);
  /// Adds the next batch of the shard. Returns an error, one sentence, if the batch is malformed.
  tl::expected<void, std::string> add(Bytes parcel);
  /// Returns the data for ShareTracker::hear() of each shard, possibly empty. Call once.
  std::vector<std::string> finish() { return std::move(parcels_); }
  /// The shard's last packet with a BTH that matches the filter.
  [[nodiscard]] const tracking::Moment& last() const { return last_; }

 private:
  const RunOptions options_;
  unsigned share_;
  std::vector<std::string> parcels_;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
  tracking::Moment last_;
};

/// Tracks one shard.
class ShareTracker {
 public:
  /// Ignores files, boundaries and threads of `options`. If there is a filter, call divide() with `sifted`.
  /// Filter, sinks and callbacks must outlive this object.
  explicit ShareTracker(const RunOptions& options);
  /// Sets the data of all ShareSifter objects for this shard. Call before add(). The bytes must outlive this object.
  void hear(std::span<const Bytes> sifted);
  /// Counts only packets between these two addresses, which are the endpoints of RunOptions::connection.
  void narrow_to(const PortAddress& one, const PortAddress& other) { pipeline_.narrow_to(one, other); }
  /// Adds a batch. Returns an error, one sentence, if it is malformed. The preceding part was added.
  tl::expected<void, std::string> add(Bytes parcel);
  /// Ends the analysis. Call once. `last`: the latest last packet with a BTH of all shards.
  Analysis finish(const tracking::Moment& last);
  [[nodiscard]] std::uint64_t evicted_packets() const { return pipeline_.evicted_packets(); }
  /// The connection RunOptions::connection, after it was closed (nullopt if it is not in this shard).
  [[nodiscard]] const std::optional<Connection>& wanted() const { return pipeline_.wanted(); }

 private:
  /// Adds the filtered data that precedes the given frame.
  tl::expected<void, std::string> hear_until(std::uint64_t frame);

  RunOptions options_;
  Pipeline pipeline_;
  std::vector<Bytes> sifted_;  ///< heap by the frame of the next item
};

}  // namespace rdmawire::captures::analysis
