#pragma once
/// Texts that may hold bytes that are not UTF-8: names in captures, and what programs print.

#include <pybind11/pybind11.h>

#include <string>

#include "captures/analysis/report.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// The report as JSON text. Bytes that are not UTF-8 become U+FFFD.
inline std::string dumped(const captures::analysis::Json& report) {
  return report.dump(-1, ' ', false, captures::analysis::Json::error_handler_t::replace);
}

/// A Python string. Bytes that are not UTF-8 become U+FFFD.
inline py::str replaced_text(const std::string& utf8) { return py::bytes(utf8).attr("decode")("utf-8", "replace"); }

}  // namespace rdmawire::python
