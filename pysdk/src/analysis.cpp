/// rdmawire.analyze: the report of captures, and its tables of messages, events, connections and packets.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <thread>

#include "captures/analysis/csv.hpp"
#include "captures/analysis/details.hpp"
#include "captures/analysis/page/page.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "captures/io/interrupt.hpp"
#include "dissectors/output/printable.hpp"
#include "pysdk/src/analysis_rows.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/captures.hpp"
#include "pysdk/src/columns_python.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/interruptible_run.hpp"
#include "pysdk/src/texts.hpp"

namespace rdmawire::python {
namespace {

namespace analysis = captures::analysis;

/// The input of an analysis and its result.
class AnalysisRun {
 public:
  AnalysisRun(const std::vector<std::string>& files, const std::string& filter, const std::string& begin,
              const std::string& end, std::uint64_t connection, unsigned threads,
              const std::vector<std::string>& counters, const std::vector<std::string>& ignore, std::uint16_t roce_port,
              bool verify_crcs, const std::string& memory, const std::vector<std::string>& disable_protocol)
      : request_(std::make_shared<AnalysisRequest>(
            analysis_request(filter, connection, ignore, roce_port, verify_crcs, disable_protocol))),
        begin_(begin),
        end_(end),
        counters_(HostCounters::read(counters)) {
    analysis::RunOptions& run = request_->run;
    if (files.empty()) raise(ErrorClass::usage, "analyze: expected at least one file");
    run.memory = memory_of(memory);
    run.files = files;
    run.threads = threads ? threads : std::max(1U, std::thread::hardware_concurrency());
    run.from = boundary_of("begin", begin);
    run.to = boundary_of("end", end);
  }

  /// Runs the analysis. Returns the report as JSON.
  py::str work(const py::object& progress) {
    InterruptibleRun interruptible(progress);
    analysis::RunOptions run = request_->run;
    run.stop = &interruptible.stop;
    run.progress = interruptible.progress();
    std::string report;
    {
      const py::gil_scoped_release unlocked;
      const captures::InterruptScope scope(interruptible.keep_reading());
      result_.emplace(analysis::run(run));
      if (!interruptible.failed()) report = dumped(report_of());
    }
    interruptible.rethrow();
    if (!result_->errors.empty() && result_->input.files.empty())
      raise(ErrorClass::capture, fmt::format("{}", fmt::join(result_->errors, "\n")));
    return replaced_text(report);
  }
  [[nodiscard]] std::vector<std::string> read_errors() const {
    return result_ ? result_->errors : std::vector<std::string>{};
  }
  /// Returns the page of `analyze --html`. Reads the files a second time.
  py::str html(const std::string& title) {
    const std::string& name = request_->run.files.front();
    if (const auto stream = request_->stream())
      raise(ErrorClass::usage,
            fmt::format("to_html() reads its input twice and requires regular files; {} is a stream", *stream));
    if (!result_) raise(ErrorClass::usage, name + " was not analyzed yet");
    std::string page;
    InterruptibleRun interruptible{py::none()};
    {
      const py::gil_scoped_release unlocked;
      const captures::InterruptScope scope(interruptible.keep_reading());
      const analysis::Json report = report_of();
      analysis::RunOptions run = request_->run;
      run.stop = &interruptible.stop;
      run.progress = interruptible.progress();
      const std::string details = analysis::details_of(run, result_->analysis, report);
      if (!interruptible.failed()) page = captures::html_page(dumped(report), details, title);
    }
    interruptible.rethrow();
    return replaced_text(page);
  }
  /// Writes the files of `analyze --csv`. Reads the captures a second time, in one thread.
  void csv(const std::string& directory, bool packets) const {
    if (const auto stream = request_->stream())
      raise(ErrorClass::usage, fmt::format("{} is a stream and was read already; save it to a file first", *stream));
    InterruptibleRun interruptible{py::none()};
    std::string error;
    {
      const py::gil_scoped_release unlocked;
      const captures::InterruptScope scope(interruptible.keep_reading());
      auto tables = analysis::CsvTables::create(directory, packets);
      if (tables) {
        analysis::RunOptions run = request_->run;
        run.also = tables->get();
        run.restart = [&] { (*tables)->restart(); };
        run.stop = &interruptible.stop;
        run.progress = interruptible.progress();
        if (packets) {
          run.tracker.packets = true;
          run.on_packet = [&](const tracking::Packet& packet) { (*tables)->add(packet); };
        }
        static_cast<void>(analysis::run(run));  // read errors are part of the report
        if (!interruptible.failed())
          if (const auto finished = (*tables)->finish(); !finished) error = finished.error();
      } else {
        error = tables.error();
      }
    }
    interruptible.rethrow();
    if (!error.empty()) raise(ErrorClass::capture, error);
  }
  [[nodiscard]] Table table(const std::string& kind) const {
    auto source = analysis_table(request_, kind);
    if (!source) raise(ErrorClass::usage, source.error());
    const std::size_t more = request_->run.files.size() - 1;
    return {*source, fmt::format("{} of {}{}", kind, output::printable(request_->run.files.front()),
                                 more ? fmt::format(" and {} more", more) : std::string())};
  }

 private:
  [[nodiscard]] analysis::Json report_of() const {
    analysis::Input input = result_->input;
    input.from = begin_;
    input.to = end_;
    return analysis::report_of(result_->analysis, input, counters_.differences(result_->analysis));
  }

  std::shared_ptr<AnalysisRequest> request_;
  std::string begin_, end_;
  HostCounters counters_;
  std::optional<analysis::RunResult> result_;
};

}  // namespace

void bind_analysis(py::module_& module) {
  py::class_<AnalysisRun>(module, "AnalysisRun", "The C++ part of rdmawire.Report: the input of an analysis.")
      .def(py::init<const std::vector<std::string>&, const std::string&, const std::string&, const std::string&,
                    std::uint64_t, unsigned, const std::vector<std::string>&, const std::vector<std::string>&,
                    std::uint16_t, bool, const std::string&, const std::vector<std::string>&>(),
           py::arg("files"), py::arg("filter"), py::arg("begin"), py::arg("end"), py::arg("connection"),
           py::arg("threads"), py::arg("counters"), py::arg("ignore"), py::arg("roce_port"), py::arg("verify_crcs"),
           py::arg("memory"), py::arg("disable_protocol") = std::vector<std::string>())
      .def("work", &AnalysisRun::work, py::arg("progress"), "Read the files. Returns the report as JSON.")
      .def_property_readonly("read_errors", &AnalysisRun::read_errors,
                             "Errors of files that could not be read completely, one sentence each.")
      .def("html", &AnalysisRun::html, py::arg("title"), "Return the page of `analyze --html`.")
      .def("csv", &AnalysisRun::csv, py::arg("directory"), py::arg("packets"), "Write the files of `analyze --csv`.")
      .def("table", &AnalysisRun::table, py::arg("kind"),
           "Return the table 'messages', 'events', 'connections' or 'packets'. The files are read when its rows are "
           "read.");
  module.def(
      "analysis_text",
      [](const std::string& report, std::size_t width, bool colors, std::size_t rows, bool tables) {
        const py::gil_scoped_release unlocked;
        return analysis::text_of(analysis::Json::parse(report),
                                 {.width = width, .colors = colors, .rows = rows, .tables = tables});
      },
      py::arg("report"), py::arg("width"), py::arg("colors"), py::arg("rows"), py::arg("tables"),
      "Return the text that `analyze` prints for a JSON report.");
  module.def(
      "analysis_page",
      [](const std::string& report, const std::string& title) {
        std::string page;
        {
          const py::gil_scoped_release unlocked;
          page = captures::html_page(report, "{}", title);
        }
        return replaced_text(page);
      },
      py::arg("report"), py::arg("title"),
      "Return the page of `analyze --html` without the parts that require the packets.");
}

}  // namespace rdmawire::python
