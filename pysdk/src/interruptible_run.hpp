#pragma once
/// Long work without the interpreter's lock, with Ctrl-C and a progress callback.

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rdmawire::python {

namespace py = pybind11;

/// Progress of captures::analysis::CaptureScan. progress() checks for Ctrl-C and calls the callback at most ten times
/// per second. An exception of either sets `stop`. rethrow() raises it after the work has ended.
class InterruptibleRun {
 public:
  /// `callback`: None, or a function of packets, processed bytes, total bytes (0: unknown) and file name.
  explicit InterruptibleRun(py::object callback) : callback_(std::move(callback)) {}

  std::atomic<bool> stop{false};

  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress() {
    return [this](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
      const auto now = std::chrono::steady_clock::now();
      if (stop || now - last_call_ < std::chrono::milliseconds(100)) return;
      last_call_ = now;
      const py::gil_scoped_acquire lock;
      try {
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!callback_.is_none()) callback_(packets, done, all, name);
      } catch (py::error_already_set& error) {
        error_.emplace(std::move(error));
        stop = true;
      }
    };
  }
  /// Checks for Ctrl-C while files are read, for captures::InterruptScope.
  std::function<bool()> keep_reading() {
    return [this] {
      if (stop) return false;
      const py::gil_scoped_acquire lock;
      if (PyErr_CheckSignals() == 0) return true;
      error_.emplace();
      stop = true;
      return false;
    };
  }
  [[nodiscard]] bool failed() const { return stop; }
  /// Requires the interpreter's lock. The destructor requires it too.
  void rethrow() {
    if (!error_) return;
    error_->restore();
    error_.reset();
    throw py::error_already_set();
  }

 private:
  py::object callback_;
  std::optional<py::error_already_set> error_;
  std::chrono::steady_clock::time_point last_call_{};
};

}  // namespace rdmawire::python
