#pragma once
/// Directory for the sockets and logs of a running lab. It is locked while the lab runs and removed afterwards.
/// Directories of killed labs are removed by the next lab.

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/lab/error.hpp"
#include "conformance/lab/process.hpp"

namespace rdmawire::lab {

/// $XDG_RUNTIME_DIR/rdmawire/lab, or /tmp/rdmawire-UID/lab if it is unset, not writable or too long for Unix sockets.
/// Created with permissions for this user. An error if it belongs to another user.
Result<std::filesystem::path> runtime_folder();

class RunDirectory {
 public:
  /// Reserves a name. "" selects the first free one of "lab", "lab2", … Kind::busy: a running lab uses it.
  static Result<RunDirectory> create(const std::string& name);

  /// A running lab.
  struct Living {
    std::string name;
    std::filesystem::path path;
  };
  /// Lists running labs and removes directories of others.
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
