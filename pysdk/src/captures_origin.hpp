#pragma once
/// Where a captured frame comes from, as Python has it: the interface, and what the file says of the packet.

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "captures/io/reader.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// The fields of rdmawire.captures.Interface.
py::dict interface_dict(const captures::Interface& interface);

/// What is kept of a record, while the interpreter's lock may be free, until its origin is made.
struct RecordOrigin {
  const captures::Interface* interface = nullptr;  ///< of RecordOrigins; null: the record names none that is described
  std::vector<std::string> comments;
};

/// Remembers interfaces as they were when the first packet of each came. Its calls must not overlap.
class RecordOrigins {
 public:
  RecordOrigin of(const captures::Reader& reader, const captures::Record& record);

 private:
  std::vector<std::unique_ptr<const captures::Interface>> seen_;
};

/// Makes origins as a frame keeps them: a tuple (Interface, comments), the same object for all packets of an interface
/// without comments. Needs the interpreter's lock.
class Origins {
 public:
  py::object of(const RecordOrigin& origin);

 private:
  const captures::Interface* last_ = nullptr;
  py::object interface_, without_comments_;
};

/// Text of a file, whatever its bytes are.
py::object decoded_text(std::string_view text);

}  // namespace rdmawire::python
