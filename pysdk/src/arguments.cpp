/// Readable errors for rejected arguments. pybind11's own text lists all signatures and internal objects.

#include <pybind11/pybind11.h>

#include <string>

#include "pysdk/src/bindings.hpp"
#include "pysdk/src/guard.hpp"

namespace rdmawire::python {
namespace {

/// pybind11's entry point for all functions of the module.
PyCFunctionWithKeywords dispatcher = nullptr;

/// Replaces the current error by the one that rdmawire.arguments returns for it.
void replace_error(PyObject* arguments, PyObject* keywords) {
  py::error_already_set error;
  const py::str text(error.value());
  if (text.attr("find")("(): incompatible ").cast<int>() < 0) return error.restore();
  const py::object plain = py::module_::import("rdmawire.arguments")
                               .attr("describe")(text, py::handle(arguments),
                                                 keywords ? py::reinterpret_borrow<py::object>(keywords) : py::dict());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(plain.ptr())), plain.ptr());
}

PyObject* dispatch(PyObject* self, PyObject* arguments, PyObject* keywords) {
  PyObject* result = dispatcher(self, arguments, keywords);
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  return guard([&]() -> PyObject* {
    replace_error(arguments, keywords);
    return nullptr;
  });
}

/// The function of a method, a static method or a getter.
py::object unwrapped(const py::handle& thing) {
  if (PyInstanceMethod_Check(thing.ptr()))
    return py::reinterpret_borrow<py::object>(PyInstanceMethod_GET_FUNCTION(thing.ptr()));
  if (Py_IS_TYPE(thing.ptr(), &PyStaticMethod_Type)) return thing.attr("__func__");
  return py::reinterpret_borrow<py::object>(thing);
}

void take_over(const py::object& function) {
  if (!PyCFunction_Check(function.ptr())) return;
  PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
  PyObject* self = PyCFunction_GET_SELF(function.ptr());
  if (!self || !PyCapsule_CheckExact(self) || definition->ml_flags != (METH_VARARGS | METH_KEYWORDS)) return;
  const auto found = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(definition->ml_meth));
  if (found == dispatch) return;
  if (!dispatcher) dispatcher = found;
  if (found == dispatcher) definition->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dispatch));
}

void take_over_all(const py::handle& members) {
  for (const auto& [name, thing] : py::reinterpret_borrow<py::dict>(members)) {
    if (PyModule_Check(thing.ptr())) {
      take_over_all(thing.attr("__dict__"));
    } else if (PyType_Check(thing.ptr())) {
      for (const py::handle& member : thing.attr("__dict__").attr("values")()) take_over(unwrapped(member));
    } else {
      take_over(unwrapped(thing));
    }
  }
}

}  // namespace

void explain_argument_errors(py::module_& module) { take_over_all(module.attr("__dict__")); }

}  // namespace rdmawire::python
