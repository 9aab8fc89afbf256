#pragma once
/// Origin of a captured frame in Python: the interface and the comments of the capture file.

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "captures/io/reader.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Returns the fields of rdmawire.captures.Interface.
py::dict interface_dict(const captures::Interface& interface);

/// Origin of a record. Can be created without the interpreter's lock.
struct RecordOrigin {
  const captures::Interface* interface = nullptr;  ///< owned by RecordOrigins. null: no described interface
  std::vector<std::string> comments;
};

/// Copies each interface when its first packet arrives. Calls must not overlap.
class RecordOrigins {
 public:
  RecordOrigin of(const captures::Reader& reader, const captures::Record& record);

 private:
  std::vector<std::unique_ptr<const captures::Interface>> seen_;
};

/// Creates the origin of a frame: a tuple (Interface, comments). Packets of one interface without comments share
/// the tuple. Requires the interpreter's lock.
class Origins {
 public:
  py::object of(const RecordOrigin& origin);

 private:
  const captures::Interface* last_ = nullptr;
  py::object interface_, without_comments_;
};

/// Decodes text of a file. Invalid UTF-8 becomes U+FFFD.
py::object decoded_text(std::string_view text);

}  // namespace rdmawire::python
