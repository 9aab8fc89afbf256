#pragma once
/// Long work in a thread of its own, while the interpreter's own looks for signals.

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace rdmawire::python {

namespace py = pybind11;

/// Does it, and gives the interpreter's lock up meanwhile. What a signal raises (ctrl-C) is thrown when the work has
/// ended, which `stop` makes it do soon.
inline void run_interruptible(const std::function<void()>& work, const std::function<void()>& stop) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::optional<py::error_already_set> signal;
  {
    const py::gil_scoped_release released;
    std::thread thread([&] {
      work();
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
}

}  // namespace rdmawire::python
