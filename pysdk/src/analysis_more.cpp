/// rdmawire.follow and rdmawire.compare: growing captures, and captures of the same traffic at several capture points.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>

#include "captures/analysis/live_analysis.hpp"
#include "captures/analysis/vantage/run.hpp"
#include "captures/io/interrupt.hpp"
#include "pysdk/src/analysis_request.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/interruptible_run.hpp"
#include "pysdk/src/texts.hpp"

namespace rdmawire::python {
namespace {

namespace analysis = captures::analysis;
namespace vantage = captures::vantage;

/// An analysis of a growing capture. Used by one thread at a time. Any thread may stop it.
class FollowRun {
 public:
  FollowRun(const std::string& file, const std::string& interface, const std::string& capture_filter,
            const std::string& filter, const std::vector<std::string>& ignore, std::uint16_t roce_port,
            bool verify_crcs)
      : name_(file.empty() ? interface : file), request_(analysis_request(filter, 0, ignore, roce_port, verify_crcs)) {
    captures::LiveCapture::Options live;
    live.filter = capture_filter;
    InterruptibleRun interruptible{py::none()};
    auto made = [&] {
      const py::gil_scoped_release unlocked;
      const captures::InterruptScope scope(interruptible.keep_reading());
      return file.empty() ? analysis::LiveAnalysis::device(interface, live, request_.run)
                          : analysis::LiveAnalysis::file(file, request_.run);
    }();
    interruptible.rethrow();
    if (!made) raise(ErrorClass::capture, made.error());
    following_ = std::move(*made);
  }

  /// Reads packets for `seconds`. Returns false if no more packets will arrive, or after stop().
  bool take(double seconds) {
    using Clock = analysis::LiveAnalysis::Clock;
    if (!(seconds >= 0)) raise(ErrorClass::usage, fmt::format("seconds={}: expected a number from 0", seconds));
    const auto end = Clock::now() +
                     std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e9)));
    for (;;) {
      bool more = false;
      const auto until = std::min(end, Clock::now() + std::chrono::milliseconds(100));
      InterruptibleRun interruptible{py::none()};
      with([&](analysis::LiveAnalysis& following) {
        const captures::InterruptScope scope(interruptible.keep_reading());
        more = following.take(until, stop_);
      });
      interruptible.rethrow();
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!more || stop_) return false;
      if (Clock::now() >= end) return true;
    }
  }
  std::string report() {
    std::string text;
    with([&](analysis::LiveAnalysis& following) { text = dumped(following.report()); });
    return text;
  }
  std::string finish() {
    std::string text;
    with([&](analysis::LiveAnalysis& following) {
      const analysis::RunResult result = following.finish();
      text = dumped(analysis::report_of(result.analysis, result.input));
      read_errors_ = result.errors;
      following_.reset();
    });
    return text;
  }
  std::uint64_t packets() {
    std::uint64_t count = 0;
    with([&](analysis::LiveAnalysis& following) { count = following.packets(); });
    return count;
  }
  std::vector<std::string> read_errors() {
    const py::gil_scoped_release unlocked;
    const std::scoped_lock lock(mutex_);
    return following_ ? following_->errors() : read_errors_;
  }
  void stop() { stop_ = true; }
  void close() {
    closed_ = stop_ = true;
    const py::gil_scoped_release unlocked;
    const std::scoped_lock lock(mutex_);
    following_.reset();
  }
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  template <class Work>
  void with(const Work& work) {
    bool there = false;
    {
      const py::gil_scoped_release unlocked;
      const std::scoped_lock lock(mutex_);
      there = following_ != nullptr;
      if (there) work(*following_);
    }
    if (!there) raise(ErrorClass::closed, name_ + (closed_ ? " was closed" : ": the analysis has finished"));
  }

  std::string name_;
  AnalysisRequest request_;
  std::mutex mutex_;
  std::unique_ptr<analysis::LiveAnalysis> following_;
  std::vector<std::string> read_errors_;
  std::atomic<bool> stop_{false}, closed_{false};
};

/// Returns the comparison as JSON, and the read errors.
py::tuple compare(const std::vector<std::string>& files, const std::vector<std::string>& order, bool synchronized,
                  double window, const std::string& filter, unsigned threads, std::uint16_t roce_port, bool verify_crcs,
                  const py::object& progress) {
  const AnalysisRequest request = analysis_request(filter, 0, {}, roce_port, verify_crcs);
  vantage::RunOptions run;
  run.files = files;
  if (const auto fine = vantage::check_points(files); !fine) raise(ErrorClass::usage, "compare: " + fine.error());
  auto points = vantage::order_of_points(order, files);
  if (!points) raise(ErrorClass::usage, "order: " + points.error());
  run.layout.order = std::move(*points);
  run.layout.synchronized = synchronized;
  if (!(window >= 0) || window > 1e6)
    raise(ErrorClass::usage, fmt::format("window={}: expected seconds from 0 to 1000000", window));
  if (window > 0) run.matcher.window = std::llround(window * 1e9);
  run.threads = threads ? threads : std::max(1U, std::thread::hardware_concurrency());
  run.read.decode.extra_roce_v2_port = roce_port;
  run.read.verify_crcs = verify_crcs;
  run.read.filter = request.run.filter;
  InterruptibleRun interruptible(progress);
  run.read.stop = &interruptible.stop;
  run.read.progress = interruptible.progress();
  std::string report;
  std::vector<std::string> read_errors;
  bool comparable = false;
  {
    const py::gil_scoped_release unlocked;
    const captures::InterruptScope scope(interruptible.keep_reading());
    const vantage::Comparison comparison = vantage::run(run);
    read_errors = comparison.errors;
    comparable = comparison.surveys.size() >= 2;
    if (comparable && !interruptible.failed()) report = dumped(vantage::report_of(comparison));
  }
  interruptible.rethrow();
  if (!comparable) raise(ErrorClass::capture, fmt::format("{}", fmt::join(read_errors, "\n")));
  return py::make_tuple(report, read_errors);
}

}  // namespace

void bind_more_analysis(py::module_& module) {
  py::class_<FollowRun>(module, "FollowRun", "The C++ part of rdmawire.LiveAnalysis: a growing capture.")
      .def(py::init<const std::string&, const std::string&, const std::string&, const std::string&,
                    const std::vector<std::string>&, std::uint16_t, bool>(),
           py::arg("file"), py::arg("interface"), py::arg("capture_filter"), py::arg("filter"), py::arg("ignore"),
           py::arg("roce_port"), py::arg("verify_crcs"))
      .def("take", &FollowRun::take, py::arg("seconds"),
           "Read packets for `seconds`. Returns False if no more packets will arrive, or after stop().")
      .def("report", &FollowRun::report, "Return the current report as JSON.")
      .def("finish", &FollowRun::finish, "Finish the analysis. Returns the report as JSON.")
      .def_property_readonly("packets", &FollowRun::packets, "Number of packets read.")
      .def_property_readonly("read_errors", &FollowRun::read_errors,
                             "Reasons why no more packets arrive, one sentence each.")
      .def("stop", &FollowRun::stop, "End take() in any thread.")
      .def("close", &FollowRun::close, "Release the capture.")
      .def_property_readonly("closed", &FollowRun::closed, "Whether the analysis was closed.");
  module.def("compare_captures", &compare, py::arg("files"), py::arg("order"), py::arg("synchronized"),
             py::arg("window"), py::arg("filter"), py::arg("threads"), py::arg("roce_port"), py::arg("verify_crcs"),
             py::arg("progress"), "Compare captures of the same traffic. Returns JSON and the read errors.");
  module.def(
      "compare_text",
      [](const std::string& report, std::size_t width, bool colors, std::size_t rows) {
        const py::gil_scoped_release unlocked;
        return vantage::text_of(analysis::Json::parse(report), {.width = width, .colors = colors, .rows = rows});
      },
      py::arg("report"), py::arg("width"), py::arg("colors"), py::arg("rows"),
      "Return the text that `analyze --capture-points` prints for a JSON comparison.");
}

}  // namespace rdmawire::python
