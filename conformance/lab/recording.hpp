#pragma once
/// Records the traffic of real programs in two guests. The switch that connects the guests writes the capture.

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "conformance/lab/guest.hpp"
#include "conformance/lab/scenario.hpp"

namespace rdmawire::lab {

struct RecordingOptions {
  ImageOptions image;
  GuestOptions guests;                        ///< options of both guests. Their number, ports and devices are ignored
  std::chrono::seconds program_timeout{120};  ///< for each program
  std::string application = "rdmawire";       ///< name of the writing application in the captures
  StopDescriptor stop = -1;
  Progress progress;
};

/// Result of one recording.
struct Recording {
  std::uint64_t frames = 0;
  double seconds = 0;
  std::string server_command, client_command;
  std::string server_output, client_output;
  std::vector<std::string> faults;      ///< faults that the switch injected: one entry per frame and rule
  std::array<std::string, 2> netem;     ///< statistics of tc-netem in the server's and in the client's guest
  std::vector<std::string> complaints;  ///< kernel errors of the guests during the recording
};

/// Two guests and their switch.
class Recorder {
 public:
  /// Boots the guests. `siw`: true if a planned recording uses siw.
  static Result<Recorder> boot(const std::filesystem::path& lab, const RecordingOptions& options, bool siw);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();

  /// Runs the programs and writes the capture. If a program fails (LabError::Kind::program), the capture is kept.
  Result<Recording> record(const RecordingPlan& plan, const std::string& file);
  [[nodiscard]] double boot_seconds() const;
  /// Returns why a guest has ended. No recording is possible after that. nullopt: both are running.
  [[nodiscard]] std::optional<LabError> ended() const;

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmawire::lab
