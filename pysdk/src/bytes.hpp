#pragma once
/// Bytes from Python: bytes, bytearray, memoryview, NumPy arrays, and whatever has __bytes__ (a Frame, a scapy
/// packet).

#include <pybind11/pybind11.h>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Somebody's bytes, held as long as this lives: nobody can resize or free them meanwhile. Needs the interpreter's
/// lock to be made and to go, not to be read.
class BytesView {
 public:
  /// Raises TypeError where `object` has no bytes.
  explicit BytesView(py::handle object);
  ~BytesView();
  BytesView(const BytesView&) = delete;
  BytesView& operator=(const BytesView&) = delete;
  BytesView(BytesView&&) = delete;
  BytesView& operator=(BytesView&&) = delete;

  [[nodiscard]] Bytes bytes() const { return {static_cast<const std::uint8_t*>(view_.buf), length()}; }

 private:
  [[nodiscard]] std::size_t length() const { return static_cast<std::size_t>(view_.len); }
  Py_buffer view_{};
};

inline py::bytes to_bytes(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace rdmawire::python
