#pragma once
/// Errors of the lab, and the stop signal for its operations.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rdmawire::lab {

struct LabError {
  enum class Kind : std::uint8_t {
    usage,    ///< invalid option
    missing,  ///< a program, package or file is missing. The message names the package
    busy,     ///< a lab with this name is running
    space,    ///< the disk is full
    build,    ///< the image could not be built: no network, unknown package, …
    boot,     ///< the guest did not boot, or qemu failed
    guest,    ///< the guest panicked, hung or was killed after it booted
    program,  ///< a program in the guest failed. The message contains its output
    timeout,  ///< an operation in the guest exceeded its time limit
    stopped,  ///< stopped by the caller
    system,   ///< other error of the operating system
  };
  Kind kind = Kind::system;
  std::string message;  ///< operation, object, cause and hint
};

template <class T>
using Result = tl::expected<T, LabError>;

inline tl::unexpected<LabError> failure(LabError::Kind kind, std::string message) {
  return tl::unexpected(LabError{kind, std::move(message)});
}
/// Returns an error of kind system: `what` and the description of errno.
tl::unexpected<LabError> system_failure(const std::string& what);

/// A file descriptor, for example an eventfd, that becomes and stays readable when the operation must stop (-1: none).
using StopDescriptor = int;
/// Waits for this time, or until the operation must stop. Returns true if it must stop.
bool stopped_within(StopDescriptor stop, std::chrono::milliseconds time);

/// Called at the start of each step with a line that describes the step.
using Progress = std::function<void(std::string_view)>;

}  // namespace rdmawire::lab
