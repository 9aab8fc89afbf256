#pragma once
/// Devices held by Python. A separate thread opens each device. Any thread may use or close it. After fork() only the
/// parent process may use it.

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "conformance/cases/verdict.hpp"
#include "conformance/runner/target.hpp"
#include "pysdk/src/wires.hpp"
#include "replay/peer/error.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Raises DeviceError with the kind "refused", "timeout", "lost" or "usage".
[[noreturn]] void raise(const peer::PeerError& error);
[[noreturn]] void raise(const conformance::TargetError& error);
/// Raises DeviceError with the kind "unsupported" or "failed" if a step outside of a case ends its bench.
[[noreturn]] void raise(const conformance::CaseEnd& end);

/// Returns the options of a device. Raises UsageError for unknown options.
conformance::TargetOptions target_options(const std::string& device, const py::dict& options);

/// An object at a device, closed with the device.
class DevicePart {
 public:
  DevicePart() = default;
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;
  virtual ~DevicePart() = default;
  /// Closes the object. A protection domain waits for its calls in other threads. A completion queue stays at the
  /// device until its last user releases it. Call without the interpreter's lock.
  virtual void close() = 0;
};

/// A target and the thread that opened it. The thread exists as long as the device, because the device's child
/// processes end when the thread ends.
class SharedDevice : public std::enable_shared_from_this<SharedDevice> {
 public:
  /// Opens a device. Ctrl-C cancels. Requires the interpreter's lock and releases it while waiting.
  static std::shared_ptr<SharedDevice> open(conformance::TargetOptions options);
  SharedDevice();
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  /// Returns the target, which stays open while the pointer is held. Raises ClosedError after close().
  [[nodiscard]] std::shared_ptr<conformance::Target> use() const;
  /// Returns the target, or nullptr after close().
  [[nodiscard]] std::shared_ptr<conformance::Target> target() const;
  /// Returns the wire, or nullptr for iWARP devices.
  [[nodiscard]] std::shared_ptr<SharedWire> wire();
  /// Lock of the streams: they share a host that only one thread may use at a time.
  [[nodiscard]] std::mutex& streams() { return streams_; }
  /// Locks the device: other users of wire() and of the streams wait.
  [[nodiscard]] std::unique_lock<std::mutex> exclusive();
  /// Records a frame of a stream if recorder() is active.
  void keep_passed(std::int64_t time, bool sent, Bytes frame) { recorder_->keep(time, sent, frame); }
  /// Recorder of the streams' frames. It is not a wire and cannot send.
  [[nodiscard]] const std::shared_ptr<SharedWire>& recorder() const { return recorder_; }
  /// Adds an object that is closed before the device.
  void add(const std::shared_ptr<DevicePart>& part);
  /// Returns why the device was lost, or nullopt while it is usable.
  [[nodiscard]] std::optional<std::string> gone() const;
  /// Ends all waiting calls, then closes the device. A second call waits for the first. Call without the interpreter's
  /// lock.
  void close();
  [[nodiscard]] bool closed() const { return target() == nullptr; }
  [[nodiscard]] bool owned_by_parent_process() const { return ::getpid() != process_; }

 private:
  struct Keeper;
  const pid_t process_ = ::getpid();
  std::unique_ptr<Keeper> keeper_;
  std::shared_ptr<SharedWire> wire_;
  const std::shared_ptr<SharedWire> recorder_;
  std::mutex streams_;
  std::mutex making_;  ///< protects wire_ and parts_
  std::vector<std::weak_ptr<DevicePart>> parts_;
};

}  // namespace rdmawire::python
