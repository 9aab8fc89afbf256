#pragma once
/// The library's error values as Python's exceptions. All derive from rdmawire.Error, and carry the library's sentence.

#include <pybind11/pybind11.h>

#include <string>

#include "dissectors/protocol/error.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Which class an error is raised as.
enum class ErrorClass : unsigned char {
  base,     ///< Error: anything else
  usage,    ///< UsageError, also a ValueError: what was asked for cannot be
  parse,    ///< ParseError, also a ValueError: bytes that contradict themselves; has layer, offset, needed, had
  capture,  ///< CaptureError: a capture file that cannot be read or written
  wire,     ///< WireError, has kind and errno
  device,   ///< DeviceError: what a device or its agent refused or did not do
  closed,   ///< ClosedError: used after close()
};

/// Raises; the attributes, where given, are set on the exception.
[[noreturn]] void raise(ErrorClass which, const std::string& message, const py::dict& attributes = {});
[[noreturn]] void raise(const ParseError& error);
/// The exception, without raising it: a finding of a lenient reader.
py::object to_exception(const ParseError& error);

}  // namespace rdmawire::python
