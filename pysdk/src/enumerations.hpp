#pragma once
/// Enumerations of the header tables as IntEnum classes: Opcode.RC_RDMA_WRITE_ONLY, NAKCode.REMOTE_ACCESS_ERROR.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <unordered_map>

#include "dissectors/protocol/header.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// An IntEnum class and its members by value.
class Enumeration {
 public:
  Enumeration(py::object type, std::unordered_map<std::uint64_t, PyObject*> members)
      : type_(type.release().ptr()), members_(std::move(members)) {}
  /// Returns the member with this value as a borrowed reference, or nullptr for unnamed values.
  [[nodiscard]] PyObject* find(std::uint64_t value) const {
    const auto found = members_.find(value);
    return found == members_.end() ? nullptr : found->second;
  }
  [[nodiscard]] py::handle type() const { return type_; }

 private:
  // Exists until the interpreter ends.
  PyObject* type_;
  std::unordered_map<std::uint64_t, PyObject*> members_;
};

/// Creates the enumeration of a field of a header that is defined at run time.
void define_enumeration(const Names& names, const std::string& type_name);

/// Returns the enumeration of field `f` of `header`, or nullptr. A field with enumerated parts (AETH's syndrome has a
/// kind and a NAK code) has its own enumeration of all values with named parts, whose other bits are 0.
const Enumeration* enumeration_of(const HeaderInfo& header, const Field& f);

}  // namespace rdmawire::python
