#pragma once
/// Conversion of texts that may contain invalid UTF-8, such as names in captures.

#include <pybind11/pybind11.h>

#include <string>

#include "captures/analysis/report.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Returns the report as JSON text. Invalid UTF-8 becomes U+FFFD.
inline std::string dumped(const captures::analysis::Json& report) {
  return report.dump(-1, ' ', false, captures::analysis::Json::error_handler_t::replace);
}

/// Returns a Python str. Invalid UTF-8 becomes U+FFFD.
inline py::str replaced_text(const std::string& utf8) { return py::bytes(utf8).attr("decode")("utf-8", "replace"); }

}  // namespace rdmawire::python
