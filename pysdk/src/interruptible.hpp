#pragma once
/// Long work in its own thread, while the calling thread checks for signals.

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace rdmawire::python {

namespace py = pybind11;

/// Runs `work` and releases the interpreter's lock. If a signal handler raises (Ctrl-C), calls `stop`, which must end
/// the work soon, and throws the exception after the work has ended. Throws exceptions of `work`.
inline void run_interruptible(const std::function<void()>& work, const std::function<void()>& stop) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::optional<py::error_already_set> signal;
  std::exception_ptr thrown;
  {
    const py::gil_scoped_release released;
    std::thread thread([&] {
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      over = true;
      changed.notify_all();
    });
    for (;;) {
      {
        std::unique_lock lock(mutex);
        if (changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return over; })) break;
      }
      const py::gil_scoped_acquire lock;
      if (!signal && PyErr_CheckSignals() != 0) {
        signal.emplace();
        stop();
      }
    }
    thread.join();
  }
  if (signal) throw py::error_already_set(*signal);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace rdmawire::python
