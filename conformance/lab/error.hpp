#pragma once
/// What went wrong in the lab, and how everything in it is told to stop.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rdmawire::lab {

struct LabError {
  enum class Kind : std::uint8_t {
    usage,    ///< an option makes no sense
    missing,  ///< a program, package or file is not here; the message names the package
    busy,     ///< a lab of this name runs already
    space,    ///< the disk is full
    build,    ///< the image could not be built: no network, no such package, …
    boot,     ///< the guest did not come up, or qemu refused
    guest,    ///< the guest came up and then panicked, hung or was killed
    program,  ///< a program in the guest failed; the message has what it said
    timeout,  ///< something in the guest took longer than allowed
    stopped,  ///< whoever called wanted it to stop
    system,   ///< anything else that the operating system said
  };
  Kind kind = Kind::system;
  std::string message;  ///< what was being done, to what, what was found, what to do
};

template <class T>
using Result = tl::expected<T, LabError>;

inline tl::unexpected<LabError> failure(LabError::Kind kind, std::string message) {
  return tl::unexpected(LabError{kind, std::move(message)});
}
/// With what errno says.
tl::unexpected<LabError> system_failure(const std::string& what);

/// A file descriptor that becomes readable when work is to stop, an eventfd for instance; -1: never. It stays readable.
using StopDescriptor = int;
[[nodiscard]] bool stop_requested(StopDescriptor stop);
/// Waits so long, or until work is to stop: true.
bool stopped_within(StopDescriptor stop, std::chrono::milliseconds time);

/// Told in one line what begins to be done.
using Progress = std::function<void(std::string_view)>;

}  // namespace rdmawire::lab
