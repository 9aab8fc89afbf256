#pragma once
/// Devices that Python holds: opened by a thread of their own, used by any, closed at any time, left alone after a
/// fork.

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

/// Raises DeviceError with its kind: "refused", "timeout", "lost", "usage".
[[noreturn]] void raise(const peer::PeerError& error);
[[noreturn]] void raise(const conformance::TargetError& error);
/// What the vocabulary of cases ended early with, where no case runs: DeviceError, kind "unsupported" or "failed".
[[noreturn]] void raise(const conformance::CaseEnd& end);

/// Of the device of that name, with options by name; raises UsageError for one that there is not.
conformance::TargetOptions target_options(const std::string& device, const py::dict& options);

/// Something that was made at a device, and ends with it.
class DevicePart {
 public:
  DevicePart() = default;
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;
  virtual ~DevicePart() = default;
  /// Lets go of it; what uses it in another thread is waited for. Not with the interpreter's lock.
  virtual void close() = 0;
};

/// A target, and the thread that keeps it: what a device's programs are children of must live as long as they are
/// needed.
class SharedDevice : public std::enable_shared_from_this<SharedDevice> {
 public:
  /// Opens it; ctrl-C ends that. Needs the interpreter's lock, and gives it up meanwhile.
  static std::shared_ptr<SharedDevice> open(conformance::TargetOptions options);
  SharedDevice();
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  /// The target, which does not go as long as that is held; raises ClosedError when it is closed.
  [[nodiscard]] std::shared_ptr<conformance::Target> use() const;
  /// The same, or nullptr.
  [[nodiscard]] std::shared_ptr<conformance::Target> target() const;
  /// Its wire; of a device of iWARP nullptr.
  [[nodiscard]] std::shared_ptr<SharedWire> wire();
  /// Held while its streams are used: they share a host, which one thread uses at a time.
  [[nodiscard]] std::mutex& streams() { return streams_; }
  /// As long as it is held nobody else uses its wire(), or its streams: who does waits.
  [[nodiscard]] std::unique_lock<std::mutex> exclusive();
  /// A frame of its streams that passed; kept where somebody asked for that by recorder().
  void keep_passed(std::int64_t time, bool sent, Bytes frame) { recorder_->keep(time, sent, frame); }
  /// What frames of its streams are kept by. It is no wire: nothing can be sent over it.
  [[nodiscard]] const std::shared_ptr<SharedWire>& recorder() const { return recorder_; }
  /// It is closed before the device is.
  void add(const std::shared_ptr<DevicePart>& part);
  /// Why it cannot be used any more; nothing while it can.
  [[nodiscard]] std::optional<std::string> gone() const;
  /// Ends everything that waits for it, and the device. A second call waits for the first. Not with the interpreter's
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
  std::mutex making_;  ///< of wire_ and parts_
  std::vector<std::weak_ptr<DevicePart>> parts_;
};

}  // namespace rdmawire::python
