#pragma once
/// Errors and Python objects of wires, for other parts of the module.

#include <pybind11/pybind11.h>

#include <memory>

#include "pysdk/src/wires.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Raises WireError, or ClosedError if the wire was closed by this process.
[[noreturn]] void raise(const replay::WireError& error);

/// Returns an object of class _Wire for all frames, or for the frames of one queue pair.
py::object wire_object(std::shared_ptr<SharedWire> wire, std::optional<std::uint32_t> dest_qp = {});
/// Returns the wire of such an object.
std::shared_ptr<SharedWire> wire_of(py::handle object);

/// Returns the deadline after `seconds` on the wire's clock. None: no timeout. Raises UsageError for invalid values.
std::int64_t deadline_of(std::int64_t now, const py::object& seconds);

}  // namespace rdmawire::python
