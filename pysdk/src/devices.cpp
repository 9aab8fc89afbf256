#include "pysdk/src/devices.hpp"

#include <sys/eventfd.h>

#include <chrono>
#include <new>
#include <system_error>

#include "pysdk/src/errors.hpp"
#include "replay/wires/descriptor.hpp"

namespace rdmawire::python {

using conformance::Target;

void raise(const peer::PeerError& error) {
  using Kind = peer::PeerError::Kind;
  py::dict attributes;
  attributes["kind"] = error.kind == Kind::refused   ? "refused"
                       : error.kind == Kind::timeout ? "timeout"
                       : error.kind == Kind::lost    ? "lost"
                                                     : "usage";
  raise(ErrorClass::device, to_string(error), attributes);
}

void raise(const conformance::TargetError& error) {
  if (error.usage) raise(ErrorClass::usage, error.message);
  py::dict attributes;
  attributes["kind"] = "unreachable";
  raise(ErrorClass::device, error.message, attributes);
}

void raise(const conformance::CaseEnd& end) {
  const conformance::Judgment& judgment = end.judgment;
  py::dict attributes;
  attributes["kind"] = judgment.verdict == conformance::Verdict::unsupported ? "unsupported" : "failed";
  raise(ErrorClass::device,
        judgment.expected.empty() ? judgment.actual : "expected: " + judgment.expected + "; actual: " + judgment.actual,
        attributes);
}

namespace {

/// Opens the target. Exceptions, for example because memory or threads are exhausted, must not leave this thread.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> open_target(const conformance::TargetOptions& options) {
  try {
    return Target::open(options);
  } catch (const std::bad_alloc&) {
    return tl::unexpected(conformance::TargetError{.message = options.device + ": out of memory"});
  } catch (const std::system_error& error) {
    return tl::unexpected(
        conformance::TargetError{.message = options.device + ": cannot start a thread: " + error.code().message()});
  } catch (const std::exception& error) {
    return tl::unexpected(conformance::TargetError{.message = options.device + ": " + error.what()});
  }
}

}  // namespace

struct SharedDevice::Keeper {
  std::mutex mutex, joining;
  std::condition_variable changed;
  std::shared_ptr<Target> target;  // set while the device is open
  std::optional<conformance::TargetError> error;
  bool opened = false;  // or opening failed
  bool ends = false;
  replay::Descriptor stop{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::thread thread;

  void stop_opening() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(stop.get(), &one, sizeof one));
  }
  void work(conformance::TargetOptions options) {
    options.stop = stop.get();
    auto made = open_target(options);
    std::shared_ptr<Target> kept;
    {
      const std::lock_guard lock(mutex);
      if (made)
        target = kept = std::shared_ptr<Target>(std::move(*made));
      else
        error = std::move(made.error());
      opened = true;
    }
    changed.notify_all();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ends || error; });
    lock.unlock();
    // Users were interrupted and release the target soon. Wait for them for up to five seconds.
    constexpr auto poll_interval = std::chrono::milliseconds(1);
    constexpr int most = 5000;
    for (int i = 0; kept.use_count() > 1 && i < most; ++i) std::this_thread::sleep_for(poll_interval);
  }
};

SharedDevice::SharedDevice()
    : keeper_(std::make_unique<Keeper>()),
      recorder_(std::make_shared<SharedWire>([] { return std::shared_ptr<replay::Wire>(); },
                                             [] { return std::optional<std::string>(); }, "streams")) {}

std::shared_ptr<SharedDevice> SharedDevice::open(conformance::TargetOptions options) {
  auto device = std::make_shared<SharedDevice>();
  Keeper& keeper = *device->keeper_;
  keeper.thread = std::thread([&keeper, options = std::move(options)]() mutable { keeper.work(std::move(options)); });
  for (bool opened = false; !opened;) {
    {
      const py::gil_scoped_release released;
      std::unique_lock lock(keeper.mutex);
      opened = keeper.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return keeper.opened; });
    }
    if (!opened && PyErr_CheckSignals() != 0) {
      keeper.stop_opening();
      {
        const py::gil_scoped_release released;
        std::unique_lock lock(keeper.mutex);
        keeper.changed.wait(lock, [&] { return keeper.opened; });
        lock.unlock();
        device->close();
      }
      throw py::error_already_set();
    }
  }
  if (keeper.error) raise(*keeper.error);
  return device;
}

SharedDevice::~SharedDevice() {
  if (owned_by_parent_process()) {
    static_cast<void>(keeper_.release());  // its thread belongs to the parent process
    return;
  }
  std::optional<py::gil_scoped_release> released;
  if (PyGILState_Check()) released.emplace();
  close();
}

std::shared_ptr<Target> SharedDevice::target() const {
  if (owned_by_parent_process()) return nullptr;
  const std::lock_guard lock(keeper_->mutex);
  return keeper_->target;
}

std::shared_ptr<Target> SharedDevice::use() const {
  auto target = this->target();
  if (!target)
    raise(ErrorClass::closed, owned_by_parent_process()
                                  ? "the device was opened before fork(); open it again in this process"
                                  : "the device was closed");
  return target;
}

std::shared_ptr<SharedWire> SharedDevice::wire() {
  const auto target = use();
  if (!target->device().wire) return nullptr;
  const std::lock_guard lock(making_);
  if (!wire_)
    wire_ = std::make_shared<SharedWire>(
        [device = weak_from_this()]() -> std::shared_ptr<replay::Wire> {
          const auto strong = device.lock();
          const auto open = strong ? strong->target() : nullptr;
          return open ? std::shared_ptr<replay::Wire>(open, open->device().wire) : nullptr;
        },
        [device = weak_from_this()] {
          const auto strong = device.lock();
          return strong ? strong->gone() : std::nullopt;
        },
        target->wire());
  return wire_;
}

std::unique_lock<std::mutex> SharedDevice::exclusive() {
  const auto wire = [&] {
    const std::lock_guard lock(making_);
    return wire_;
  }();
  return wire ? wire->exclusive() : std::unique_lock(streams_);
}

void SharedDevice::add(const std::shared_ptr<DevicePart>& part) {
  const std::lock_guard lock(making_);
  std::erase_if(parts_, [](const auto& one) { return one.expired(); });
  parts_.push_back(part);
}

std::optional<std::string> SharedDevice::gone() const {
  const auto open = target();
  if (!open) return std::nullopt;
  const auto gone = open->gone();
  if (!gone) return std::nullopt;
  return (gone->device ? "the device ended: " : "the device is unreachable: ") + gone->why;
}

void SharedDevice::close() {
  if (owned_by_parent_process()) return;
  std::shared_ptr<Target> target;
  {
    const std::lock_guard lock(keeper_->mutex);
    target = std::move(keeper_->target);
    keeper_->target = nullptr;
  }
  if (target) target->interrupt();
  std::vector<std::weak_ptr<DevicePart>> parts;
  {
    const std::lock_guard lock(making_);
    parts = std::move(parts_);
    parts_.clear();
  }
  for (const auto& weak : parts)
    if (const auto part = weak.lock()) part->close();
  target = nullptr;
  {
    const std::lock_guard lock(keeper_->mutex);
    keeper_->ends = true;
  }
  keeper_->changed.notify_all();
  const std::lock_guard lock(keeper_->joining);
  if (keeper_->thread.joinable()) keeper_->thread.join();
}

}  // namespace rdmawire::python
