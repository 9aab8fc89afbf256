#include "pysdk/src/bytes.hpp"

namespace rdmawire::python {

BytesView::BytesView(py::handle object) {
  if (PyObject_CheckBuffer(object.ptr())) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
    return;
  }
  // Not bytes(object): of a number n that would be n zeros.
  if (!py::hasattr(object, "__bytes__"))
    throw py::type_error("bytes are wanted (bytes, bytearray, memoryview, a Frame), not " +
                         std::string(py::str(py::type::handle_of(object).attr("__name__"))));
  const py::object bytes = object.attr("__bytes__")();
  if (PyObject_GetBuffer(bytes.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

BytesView::~BytesView() { PyBuffer_Release(&view_); }

}  // namespace rdmawire::python
