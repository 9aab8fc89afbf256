#pragma once
/// Captures divided by endpoint pair before they are tracked, for work that is spread over processes and machines:
/// each file is surveyed, its frames are divided into parcels, one a share, and each share is tracked in the capture's
/// order, wherever that happens. What comes out, merged, is what one run over all files gives.

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
/// Octets for each share; those of a file's portions, in order, and of the files in their order, are what ShareTracker
/// takes. They are for the same build of rdmawire, and as long as the frames themselves. An error: the file cannot be
/// opened, or is not what it was when it was surveyed.
tl::expected<std::vector<std::string>, std::string> divide(const Portion& portion, unsigned shares,
                                                           std::uint16_t extra_roce_port = 0);

/// Tracks one share.
class ShareTracker {
 public:
  /// `options`: files, filter, connection, boundaries and threads mean nothing here.
  explicit ShareTracker(const RunOptions& options);
  /// An error, one sentence: the octets are no parcel. What was before the place has been taken.
  tl::expected<void, std::string> add(Bytes parcel);
  /// No more parcels. Once.
  Analysis finish();
  [[nodiscard]] std::uint64_t evicted_packets() const { return pipeline_.evicted_packets(); }

 private:
  RunOptions options_;
  Pipeline pipeline_;
};

}  // namespace rdmawire::captures::analysis
