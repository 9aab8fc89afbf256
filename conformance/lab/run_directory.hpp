#pragma once
/// Directory for the sockets and logs of a running lab. It is locked while the lab runs and removed afterwards.
/// Directories of killed labs are removed by the next lab.

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/lab/error.hpp"
#include "conformance/lab/process.hpp"

namespace rdmawire::lab {

/// Creates and returns the parent of all run directories, which only this user can access:
/// $XDG_RUNTIME_DIR/rdmawire/lab, or /tmp/rdmawire-UID/lab if XDG_RUNTIME_DIR is unset, not writable or too long for
/// paths of Unix sockets. Fails if the directory belongs to another user.
Result<std::filesystem::path> runtime_folder();

class RunDirectory {
 public:
  /// Creates the directory of a new lab. The name "" selects the first unused one of "lab", "lab2", … Fails with
  /// Kind::busy if a running lab has the name.
  static Result<RunDirectory> create(const std::string& name);

  /// A running lab.
  struct Living {
    std::string name;
    std::filesystem::path path;
  };
  /// Lists the running labs. Removes the directories of killed labs.
  static Result<std::vector<Living>> living();

  RunDirectory() = default;
  RunDirectory(RunDirectory&& other) noexcept { *this = std::move(other); }
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory() { remove(); }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void remove();

 private:
  std::string name_;
  std::filesystem::path path_;
  Descriptor lock_;
};

}  // namespace rdmawire::lab
