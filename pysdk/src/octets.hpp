#pragma once
/// Octets from Python: bytes, bytearray, memoryview, NumPy arrays, and whatever has __bytes__ (a Frame, a scapy
/// packet).

#include <pybind11/pybind11.h>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Somebody's octets, held as long as this lives: nobody can resize or free them meanwhile. Needs the interpreter's
/// lock to be made and to go, not to be read.
class Octets {
 public:
  /// Raises TypeError where `object` has no octets.
  explicit Octets(py::handle object);
  ~Octets();
  Octets(const Octets&) = delete;
  Octets& operator=(const Octets&) = delete;
  Octets(Octets&&) = delete;
  Octets& operator=(Octets&&) = delete;

  [[nodiscard]] Bytes bytes() const { return {static_cast<const std::uint8_t*>(view_.buf), octets()}; }

 private:
  [[nodiscard]] std::size_t octets() const { return static_cast<std::size_t>(view_.len); }
  Py_buffer view_{};
};

inline py::bytes to_bytes(Bytes octets) { return {reinterpret_cast<const char*>(octets.data()), octets.size()}; }

}  // namespace rdmawire::python
