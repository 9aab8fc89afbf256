#pragma once
/// Records the traffic of real programs: two guests that are connected by a recording switch.

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
  GuestOptions guests;                        ///< for both guests. Number, ports and devices are overwritten
  std::chrono::seconds program_timeout{120};  ///< for each program
  std::string application = "rdmawire";       ///< application name in the captures
  StopDescriptor stop = -1;
  Progress progress;
};

/// Result of one recording.
struct Recording {
  std::uint64_t frames = 0;
  double seconds = 0;
  std::string server_command, client_command;
  std::string server_output, client_output;
  std::vector<std::string> faults;      ///< faults of the switch, one per frame and rule
  std::array<std::string, 2> netem;     ///< statistics of tc: server, client
  std::vector<std::string> complaints;  ///< kernel errors of the guests during the recording
};

/// Two guests and their switch.
class Recorder {
 public:
  /// Boots the guests. `siw`: some recordings require siw.
  static Result<Recorder> boot(const std::filesystem::path& lab, const RecordingOptions& options, bool siw);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();

  /// Runs the programs and writes the capture. The capture also exists if a program failed (LabError::Kind::program).
  Result<Recording> record(const RecordingPlan& plan, const std::string& file);
  [[nodiscard]] double boot_seconds() const;
  /// Why a guest has ended. Then no more recordings are possible.
  [[nodiscard]] std::optional<LabError> ended() const;

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmawire::lab
