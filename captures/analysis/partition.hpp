#pragma once
/// Captures divided by endpoint pair before they are tracked, for work that is spread over processes and machines:
/// each file is surveyed, its frames are divided into parcels, one a share, and each share is tracked in the capture's
/// order, wherever that happens. What comes out, merged, is what one run over all files gives.
///
/// With a filter, what shares tell each other (text that programs exchange, arrivals at a receiver) counts only where
/// the filter takes the frame. That only the frame's own share knows, as it may ask what a connection is: each share is
/// sifted first, and what it then has for the others is added to theirs.

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

/// A file, read once for what all shares have to know.
struct Survey {
  Input::File facts;                                           ///< first_frame 1, or 0
  std::int64_t begins = INT64_MAX;                             ///< time of the first packet: the order of files
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;  ///< nanoseconds since 1970, least and greatest
};
/// An error: the file cannot be opened. One that cannot be read to its end is surveyed until there.
tl::expected<Survey, std::string> survey(const std::string& file);

/// What of a file is divided.
struct Portion {
  std::string file;
  std::uint64_t from = 1, to = UINT64_MAX;  ///< frames of the file, from 1, the last one included
  std::uint64_t frames_before = 0;          ///< of earlier files: what the capture's numbers are ahead of the file's
  Boundary begin, end;                      ///< of the whole capture, not relative
};
struct ShardPlan {
  /// Bytes for each share; those of a file's portions, in order, and of the files in their order, are what
  /// ShareTracker takes. They are for the same build of rdmawire, and as long as the frames themselves.
  std::vector<std::string> parcels;
  tracking::Moment last;  ///< the last packet with a BTH; where shares are sifted, they tell
};
/// An error: the file cannot be opened, or is not what it was when it was surveyed. `sifted`: shares are sifted, so
/// that no frame goes to another share than its own.
tl::expected<ShardPlan, std::string> divide(const Portion& portion, unsigned shares, std::uint16_t extra_roce_port = 0,
                                            bool sifted = false);

/// Finds what one share has for the others where there is a filter.
class ShareSifter {
 public:
  /// Share `share` of `shares`. `options`: filter and dissector count; the filter must outlive this.
  ShareSifter(const RunOptions& options, unsigned share, unsigned shares);
  /// The share's next parcel. An error, one sentence: the bytes are no parcel.
  tl::expected<void, std::string> add(Bytes parcel);
  /// For each share bytes that ShareTracker::hear takes; empty where there is nothing. Once.
  std::vector<std::string> finish() { return std::move(parcels_); }
  /// The share's last packet with a BTH that the filter takes.
  [[nodiscard]] const tracking::Moment& last() const { return last_; }

 private:
  const RunOptions options_;
  unsigned share_;
  std::vector<std::string> parcels_;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
  tracking::Moment last_;
};

/// Tracks one share.
class ShareTracker {
 public:
  /// `options`: files, boundaries and threads mean nothing here. With a filter, the parcels were divided to be sifted.
  /// Filter, sinks and calls must outlive this.
  explicit ShareTracker(const RunOptions& options);
  /// What the sifters of all shares had for this one, before the first parcel; the bytes must outlive this.
  void hear(std::span<const Bytes> sifted);
  /// Only packets between these two are counted by themselves: the ends of the connection that the options name.
  void narrow_to(const PortAddress& one, const PortAddress& other) { pipeline_.narrow_to(one, other); }
  /// An error, one sentence: the bytes are no parcel. What was before the place has been taken.
  tl::expected<void, std::string> add(Bytes parcel);
  /// No more parcels. Once. `last`: the last packet with a BTH of all shares.
  Analysis finish(const tracking::Moment& last);
  [[nodiscard]] std::uint64_t evicted_packets() const { return pipeline_.evicted_packets(); }
  /// The connection that RunOptions::connection names, once it said farewell; nothing: it is not this share's.
  [[nodiscard]] const std::optional<Connection>& wanted() const { return pipeline_.wanted(); }

 private:
  /// What was sifted from before that frame.
  tl::expected<void, std::string> hear_until(std::uint64_t frame);

  RunOptions options_;
  Pipeline pipeline_;
  std::vector<Bytes> sifted_;  ///< a heap by the next item's frame
};

}  // namespace rdmawire::captures::analysis
