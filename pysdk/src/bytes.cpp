#include "pysdk/src/bytes.hpp"

namespace rdmawire::python {

BytesView::BytesView(py::handle object) {
  if (PyObject_CheckBuffer(object.ptr())) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
    return;
  }
  // bytes(object) is not used, since bytes(n) returns n zeros.
  if (!py::hasattr(object, "__bytes__"))
    throw py::type_error("expected a bytes-like object or Frame, got " +
                         std::string(py::str(py::type::handle_of(object).attr("__name__"))));
  const py::object bytes = object.attr("__bytes__")();
  if (PyObject_GetBuffer(bytes.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

BytesView::~BytesView() { PyBuffer_Release(&view_); }

}  // namespace rdmawire::python
