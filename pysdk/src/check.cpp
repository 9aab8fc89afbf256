/// rdmawire.check and rdmawire.explain.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <thread>

#include "captures/io/interrupt.hpp"
#include "conformance/monitors/report.hpp"
#include "conformance/monitors/run.hpp"
#include "conformance/rules/explanation.hpp"
#include "dissectors/output/filter_literal.hpp"
#include "pysdk/src/analysis_request.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/captures.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/interruptible_run.hpp"
#include "pysdk/src/texts.hpp"

namespace rdmawire::python {
namespace {

/// Returns the report as JSON, the read errors, and whether a mandatory rule is violated.
py::tuple check(const std::vector<std::string>& files, const std::vector<std::string>& rules, const std::string& level,
                const std::string& filter_text, std::uint64_t connection, const std::vector<std::string>& at,
                bool complete, unsigned threads, std::uint16_t roce_port, const std::string& memory,
                const py::object& progress, const std::vector<std::string>& disable_protocol) {
  if (files.empty()) raise(ErrorClass::usage, "check: expected at least one file");
  conformance::CheckOptions check;
  check.files = files;
  check.threads = threads ? threads : std::max(1U, std::thread::hardware_concurrency());
  check.dissector.decode.extra_roce_v2_port = roce_port;
  disable_protocols(check.dissector.decode, disable_protocol);
  check.memory = memory_of(memory);
  check.monitors.connection = connection;
  check.monitors.assumptions.everywhere = complete;
  for (const std::string& address : at) {
    const auto bytes = output::parse_ipv6(address);  // IPv4 is mapped
    if (!bytes) raise(ErrorClass::usage, fmt::format("at: expected an IPv4 or IPv6 address, got {}", address));
    check.monitors.assumptions.at.push_back(tracking::PortAddress::of_gid(bytes->data()));
  }
  if (const std::string pattern = check.monitors.rules.choose(rules); !pattern.empty()) {
    const auto near = conformance::nearest_rules(pattern);
    raise(ErrorClass::usage,
          fmt::format("rules: no rule matches \"{}\"{}", pattern,
                      near.empty() ? std::string() : fmt::format("; similar rules: {}", fmt::join(near, ", "))));
  }
  if (!level.empty()) {
    std::optional<conformance::Level> least;
    for (const conformance::Level one :
         {conformance::Level::shall, conformance::Level::should, conformance::Level::may})
      if (to_string(one) == level) least = one;
    if (!least) raise(ErrorClass::usage, fmt::format("level=\"{}\": expected shall, should or may", level));
    check.monitors.rules.at_least(*least);
  }
  const auto filter = compile_filter(filter_text);
  check.filter = filter.get();
  InterruptibleRun interruptible(progress);
  check.stop = &interruptible.stop;
  check.progress = interruptible.progress();
  std::string report;
  std::vector<std::string> troubles;
  bool violated = false, unreadable = false;
  {
    const py::gil_scoped_release unlocked;
    const captures::InterruptScope scope(interruptible.keep_reading());
    const conformance::CheckResult result = conformance::check(check);
    troubles = result.troubles;
    unreadable = !troubles.empty() && result.input.files.empty();
    violated = result.violated(conformance::Level::shall);
    if (!interruptible.failed())
      report = conformance::report_of(result).dump(-1, ' ', false, conformance::Json::error_handler_t::replace);
  }
  interruptible.rethrow();
  if (unreadable) raise(ErrorClass::capture, fmt::format("{}", fmt::join(troubles, "\n")));
  return py::make_tuple(replaced_text(report), troubles, violated);
}

py::str explain(const std::string& query, bool json, bool colors) {
  const std::string text = conformance::explanation(query, json, colors);
  if (!text.empty()) return replaced_text(text);
  const std::vector<std::string> near = conformance::nearest_explained(query);
  raise(ErrorClass::usage,
        fmt::format("explain: unknown name \"{}\"{}", query,
                    near.empty() ? std::string() : fmt::format("; similar names: {}", fmt::join(near, ", "))));
}

}  // namespace

void bind_check(py::module_& module) {
  module.def("check", &check, py::arg("files"), py::arg("rules"), py::arg("level"), py::arg("filter"),
             py::arg("connection"), py::arg("at"), py::arg("complete"), py::arg("threads"), py::arg("roce_port"),
             py::arg("memory"), py::arg("progress"), py::arg("disable_protocol") = std::vector<std::string>(),
             "Check captures. Returns the report as JSON, the read errors, and whether a mandatory rule is violated.");
  module.def(
      "check_text",
      [](const std::string& report, std::size_t width, bool colors, bool coverage, bool quiet, std::size_t rows) {
        const py::gil_scoped_release unlocked;
        return conformance::text_of(
            conformance::Json::parse(report),
            {.width = width, .colors = colors, .coverage = coverage, .quiet = quiet, .most_violations = rows});
      },
      py::arg("report"), py::arg("width"), py::arg("colors"), py::arg("coverage"), py::arg("quiet"), py::arg("rows"),
      "Return the text that `check` prints for a JSON report.");
  module.def("explain", &explain, py::arg("query"), py::arg("json"), py::arg("colors"),
             "Return the text that `explain` prints for a header, field, value, event or rule.");
}

}  // namespace rdmawire::python
