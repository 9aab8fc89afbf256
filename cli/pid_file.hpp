#pragma once
/// A file with the process ID of a running replay.

#include <string>
#include <tl/expected.hpp>

#include "replay/wires/descriptor.hpp"

namespace rdmawire::cli {

/// A file that contains the process ID. It is removed with this object, unless another process has replaced it.
class PidFile {
 public:
  /// Creates the file. The error is one sentence. An existing file is replaced only if it is empty or contains the ID
  /// of a process that no longer exists.
  static tl::expected<PidFile, std::string> create(const std::string& path);
  PidFile() = default;
  PidFile(PidFile&&) noexcept = default;
  PidFile& operator=(PidFile&&) = delete;
  ~PidFile();

 private:
  std::string path_;
  replay::Descriptor file_;  ///< locked
};

}  // namespace rdmawire::cli
