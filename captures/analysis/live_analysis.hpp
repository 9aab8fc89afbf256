#pragma once
/// A capture that is analyzed while it grows: a file that somebody still writes, or a device.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "captures/io/live.hpp"

namespace rdmawire::captures::analysis {

class LiveAnalysis {
 public:
  using Clock = std::chrono::steady_clock;
  /// A file, pcap or pcapng. It must be there; what of it is not whole yet is waited for. `options`: files, boundaries,
  /// connection and threads mean nothing; what they point to must outlive this.
  static tl::expected<std::unique_ptr<LiveAnalysis>, std::string> file(const std::string& name,
                                                                       const RunOptions& options);
  /// A device of libpcap's.
  static tl::expected<std::unique_ptr<LiveAnalysis>, std::string> device(const std::string& name,
                                                                         const LiveCapture::Options& live,
                                                                         const RunOptions& options);
  LiveAnalysis(const LiveAnalysis&) = delete;
  LiveAnalysis& operator=(const LiveAnalysis&) = delete;

  /// Takes packets as they come until then, or until `stop`. False: no more will come; troubles() say why.
  bool take(Clock::time_point until, const std::atomic<bool>& stop);
  [[nodiscard]] std::uint64_t packets() const { return facts_.packets; }
  /// How things are: connections that go on are in it as far as they came.
  [[nodiscard]] Json report(std::size_t rows = SIZE_MAX);
  [[nodiscard]] const std::vector<std::string>& troubles() const { return troubles_; }
  /// No more packets. Once.
  RunResult finish();

 private:
  LiveAnalysis(std::string name, const RunOptions& options);
  bool take_of_file(Clock::time_point until, const std::atomic<bool>& stop);
  bool take_of_device(Clock::time_point until, const std::atomic<bool>& stop);
  void take(const Record& record);

  RunOptions options_;
  Pipeline pipeline_;
  Input::File facts_;
  std::vector<std::string> troubles_;
  std::optional<LiveCapture> live_;
  std::optional<Reader> reader_;  ///< of a file that has grown, as long as it gives something
  off_t size_ = -1;               ///< of the file when it was opened last
};

}  // namespace rdmawire::captures::analysis
