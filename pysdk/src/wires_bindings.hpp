#pragma once
/// What of wires other files of the module need: their errors, and a Python object for one.

#include <pybind11/pybind11.h>

#include <memory>

#include "pysdk/src/wires.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Raises WireError, or ClosedError where it was closed by us.
[[noreturn]] void raise(const replay::WireError& error);

/// The object of class _Wire: all of a wire, or what of it is for one queue pair.
py::object wire_object(std::shared_ptr<SharedWire> wire, std::optional<std::uint32_t> dest_qp = {});
/// The wire behind such an object.
std::shared_ptr<SharedWire> wire_of(py::handle object);

/// Waits so many seconds, None without end; the deadline of the wire's clock. Raises for what is no time.
std::int64_t deadline_of(std::int64_t now, const py::object& seconds);

}  // namespace rdmawire::python
