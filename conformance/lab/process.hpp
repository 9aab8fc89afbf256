#pragma once
/// Child processes that do not outlive us, whatever happens to us.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// A file descriptor that is closed with it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  [[nodiscard]] int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset();

 private:
  int number_ = -1;
};

/// A child in a process group of its own. It is killed with its group when this ends, and by the kernel when we die.
class Process {
 public:
  struct Options {
    std::vector<std::string> argv;                 ///< the first is a path, or a name that PATH is searched for
    std::vector<std::pair<int, int>> descriptors;  ///< ours, and its number there; all others are closed
    std::vector<std::pair<std::string, std::string>> environment;  ///< beside ours
    std::filesystem::path directory;                               ///< "": ours
  };
  static Result<Process> start(const Options& options);

  Process() = default;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process() { kill(); }

  [[nodiscard]] pid_t id() const { return id_; }
  /// Readable when it has ended.
  [[nodiscard]] int descriptor() const { return handle_.get(); }
  /// As waitpid gives it, once it has ended.
  std::optional<int> status();
  /// Ends it and its group, and waits until it is gone.
  void kill();

 private:
  pid_t id_ = -1;
  Descriptor handle_;
  std::optional<int> status_;
};

/// "exit status 3", "killed by signal 9 (Killed)".
std::string describe_status(int status);

/// Where a program is on PATH; "": nowhere.
std::filesystem::path find_program(const std::string& name);

}  // namespace rdmawire::lab
