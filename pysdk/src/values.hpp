#pragma once
/// Values between JSON and Python, and options by name.

#include <pybind11/pybind11.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conformance/cases/bench.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Dictionaries, lists, numbers, texts; None for null.
py::object from_json(const nlohmann::json& value);
/// Raises UsageError for what JSON cannot say.
nlohmann::json to_json(const py::object& value);

/// Bytes as cases have them, of whatever has bytes.
std::string bytes_of(py::handle object);

/// Options of Bench::connect() by name; raises UsageError, which lists them, for a name that there is not.
conformance::ConnectOptions connect_options(const py::dict& given);

}  // namespace rdmawire::python
