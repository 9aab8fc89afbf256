#pragma once
/// Errors of the library as Python exceptions. All derive from rdmawire.Error and contain the library's text.

#include <pybind11/pybind11.h>

#include <string>

#include "dissectors/protocol/error.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// The class of an exception.
enum class ErrorClass : unsigned char {
  base,     ///< Error: all other errors
  usage,    ///< UsageError, also a ValueError: invalid name, value or order of calls
  parse,    ///< ParseError, also a ValueError: malformed bytes. Has layer, offset, needed, had
  capture,  ///< CaptureError, also an OSError: a file that cannot be read or written
  wire,     ///< WireError: has kind and errno
  device,   ///< DeviceError: a device or its agent refused or did not complete an operation
  closed,   ///< ClosedError: used after close()
};

/// Raises an exception with these attributes.
[[noreturn]] void raise(ErrorClass which, const std::string& message, const py::dict& attributes = {});
[[noreturn]] void raise(const ParseError& error);
/// Returns the exception without raising it.
py::object to_exception(const ParseError& error);

}  // namespace rdmawire::python
