#pragma once
/// Analyzes a growing capture: a file that another process writes, or packets of a network device.

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
  /// Follows a pcap or pcapng file, which must exist. Waits for the rest of incomplete records. Ignores files,
  /// boundaries and threads of `options`, which must not select a connection. Objects to which `options` points must
  /// outlive this object.
  static tl::expected<std::unique_ptr<LiveAnalysis>, std::string> file(const std::string& name,
                                                                       const RunOptions& options);
  /// Captures packets from a libpcap device.
  static tl::expected<std::unique_ptr<LiveAnalysis>, std::string> device(const std::string& name,
                                                                         const LiveCapture::Options& live,
                                                                         const RunOptions& options);
  LiveAnalysis(const LiveAnalysis&) = delete;
  LiveAnalysis& operator=(const LiveAnalysis&) = delete;

  /// Reads packets until the given time, or until `stop` is true. Returns false at the end of input or on an error.
  bool take(Clock::time_point until, const std::atomic<bool>& stop);
  [[nodiscard]] std::uint64_t packets() const { return facts_.packets; }
  /// Returns a report of the packets so far, which includes open connections.
  [[nodiscard]] Json report(std::size_t rows = SIZE_MAX);
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }
  /// Ends the analysis. Must be called once, after the last packet.
  RunResult finish();

 private:
  LiveAnalysis(std::string name, const RunOptions& options);
  bool take_of_file(Clock::time_point until, const std::atomic<bool>& stop);
  bool take_of_device(Clock::time_point until, const std::atomic<bool>& stop);
  void take(const Record& record);

  RunOptions options_;
  Pipeline pipeline_;
  Input::File facts_;
  std::vector<std::string> errors_;
  std::optional<LiveCapture> live_;
  std::optional<Reader> reader_;  ///< set while the file has records that were not read yet
  off_t size_ = -1;               ///< size of the file when it was last opened
};

}  // namespace rdmawire::captures::analysis
