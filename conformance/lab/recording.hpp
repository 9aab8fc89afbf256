#pragma once
/// Records what real programs say to each other: two guests, a switch between them that writes everything down.

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
  GuestOptions guests;                        ///< of both; number, ports and devices are set here
  std::chrono::seconds program_timeout{120};  ///< for each program
  std::string application = "rdmawire";       ///< that the captures name
  StopDescriptor stop = -1;
  Progress progress;
};

/// What became of one.
struct Recording {
  std::uint64_t frames = 0;
  double seconds = 0;
  std::string server_command, client_command;
  std::string server_output, client_output;
  std::vector<std::string> faults;      ///< what the switch did, a frame and rule each
  std::array<std::string, 2> netem;     ///< what tc says that it did, the server's and the client's
  std::vector<std::string> complaints;  ///< of the guests' kernels meanwhile
};

/// Two guests and what is between them.
class Recorder {
 public:
  /// Boots them. `siw`: some of what will be recorded needs it.
  static Result<Recorder> boot(const std::filesystem::path& lab, const RecordingOptions& options, bool siw);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();

  /// Runs the programs and writes the capture. LabError::Kind::program when one of them failed: the capture is there
  /// then, too.
  Result<Recording> record(const RecordingPlan& plan, const std::string& file);
  [[nodiscard]] double boot_seconds() const;
  /// Why a guest has ended, when one has: then nothing more can be recorded.
  [[nodiscard]] std::optional<LabError> ended() const;

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmawire::lab
