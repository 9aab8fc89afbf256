#pragma once
/// Conversion between JSON and Python, and options by name.

#include <pybind11/pybind11.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conformance/cases/bench.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Returns dict, list, int, float, bool or str. None for null.
py::object from_json(const nlohmann::json& value);
/// Raises UsageError for values that JSON cannot represent.
nlohmann::json to_json(const py::object& value);

/// Returns the bytes of an object as std::string.
std::string bytes_of(py::handle object);

/// Raises UsageError with the most similar known option, or with all.
[[noreturn]] void raise_unknown_option(const char* what, const std::string& name,
                                       const std::vector<std::string>& known);
/// Raises UsageError with the value.
[[noreturn]] void raise_invalid_option(const std::string& name, const py::handle& value);

/// Parses the options of Bench::connect(). Raises UsageError with all names for unknown options.
conformance::ConnectOptions connect_options(const py::dict& given);

}  // namespace rdmawire::python
