#pragma once
/// Bytes of Python objects: bytes, bytearray, memoryview, NumPy arrays, and objects with __bytes__ (a Frame, a scapy
/// packet).

#include <pybind11/pybind11.h>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Exported buffer of a Python object. The object cannot be resized or freed during the lifetime of this view. Creation
/// and destruction require the interpreter's lock, but reading does not.
class BytesView {
 public:
  /// Raises TypeError if `object` does not provide bytes.
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
