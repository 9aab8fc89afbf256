#pragma once
/// The tables' enumerations as IntEnum classes: Opcode.RC_RDMA_WRITE_ONLY, NAKCode.REMOTE_ACCESS_ERROR.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <unordered_map>

#include "dissectors/protocol/header.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// One IntEnum class and its members by value.
class Enumeration {
 public:
  Enumeration(py::object type, std::unordered_map<std::uint64_t, PyObject*> members)
      : type_(type.release().ptr()), members_(std::move(members)) {}
  /// The member of that value, borrowed, or nullptr: a number that the specification does not name.
  [[nodiscard]] PyObject* find(std::uint64_t value) const {
    const auto found = members_.find(value);
    return found == members_.end() ? nullptr : found->second;
  }
  [[nodiscard]] py::handle type() const { return type_; }

 private:
  // Lives as long as the interpreter.
  PyObject* type_;
  std::unordered_map<std::uint64_t, PyObject*> members_;
};

/// The enumeration of field `f` of `header`, or nullptr. A field whose parts are what is enumerated (AETH's syndrome is
/// kind and NAK code) has one of its own: every value of it whose parts the tables name and whose other parts are 0.
const Enumeration* enumeration_of(const HeaderInfo& header, const Field& f);

}  // namespace rdmawire::python
