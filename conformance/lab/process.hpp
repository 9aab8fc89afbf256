#pragma once
/// Child processes that are killed when this process ends for any reason.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// An owned file descriptor.
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

/// A child process in its own process group. The destructor kills the group. The kernel kills the child if this process
/// dies.
class Process {
 public:
  struct Options {
    std::vector<std::string> argv;  ///< argv[0] is a path or is searched in PATH
    std::vector<std::pair<int, int>>
        descriptors;  ///< descriptor here and its number in the child. The child has no others, except 0 to 2
    std::vector<std::pair<std::string, std::string>> environment;  ///< added to the environment of this process
    std::filesystem::path directory;                               ///< working directory ("": that of this process)
  };
  static Result<Process> start(const Options& options);

  Process() = default;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process() { kill(); }

  [[nodiscard]] pid_t id() const { return id_; }
  /// A pidfd, which is readable for poll() once the child has exited.
  [[nodiscard]] int descriptor() const { return handle_.get(); }
  /// Returns the wait status as in waitpid(). nullopt: the child is running.
  std::optional<int> status();
  /// Kills the process group and waits for the child.
  void kill();

 private:
  pid_t id_ = -1;
  Descriptor handle_;
  std::optional<int> status_;
};

/// Describes a wait status: "exit status 3", "killed by signal 9 (Killed)".
std::string describe_status(int status);

/// Path of a program in PATH ("": not found).
std::filesystem::path find_program(const std::string& name);

}  // namespace rdmawire::lab
