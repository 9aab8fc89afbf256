#pragma once
/// Where a running lab keeps its sockets and logs: a directory that is locked while the lab lives and removed with it.
/// What a lab left that could not clean up is swept by the next one.

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/lab/error.hpp"
#include "conformance/lab/process.hpp"

namespace rdmawire::lab {

/// $XDG_RUNTIME_DIR/rdmawire/lab, or /tmp/rdmawire-UID/lab where there is none or it is too long for unix sockets. Made
/// for us alone; an error when it is somebody else's.
Result<std::filesystem::path> runtime_folder();

class RunDirectory {
 public:
  /// Takes the name for us; "" takes the first that is free of "lab", "lab2", … Kind::busy when a lab has it.
  static Result<RunDirectory> create(const std::string& name);

  /// A lab that lives now.
  struct Living {
    std::string name;
    std::filesystem::path path;
  };
  /// Sweeps those that do not.
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
