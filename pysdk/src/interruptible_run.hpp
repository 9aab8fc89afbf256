#pragma once
/// Long work without the interpreter's lock that somebody watches: Ctrl-C, and a callback for progress.

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rdmawire::python {

namespace py = pybind11;

/// While captures::analysis::Walk reads: its `progress` looks for Ctrl-C and tells a callback, at most ten times a
/// second; what either raises sets `stop`, and is raised by rethrow() when the work has ended.
class InterruptibleRun {
 public:
  /// `callback` is None, or takes packets, bytes done, bytes in all (0: not known) and the file's name.
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
  [[nodiscard]] bool failed() const { return stop; }
  /// Needs the interpreter's lock, as does the end of this object's life.
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
