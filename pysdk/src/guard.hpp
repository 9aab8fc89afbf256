#pragma once
/// Exception handling for functions called directly by the interpreter. C++ exceptions must not leave them.

#include <pybind11/pybind11.h>

#include <exception>
#include <new>

namespace rdmawire::python {

namespace py = pybind11;

/// Returns the result of `call`. If it throws, sets Python's error and returns `failed`.
template <class Result, class Call>
Result guard(Result failed, Call&& call) noexcept {
  try {
    return call();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return failed;
}
template <class Call>
PyObject* guard(Call&& call) noexcept {
  return guard<PyObject*>(nullptr, std::forward<Call>(call));
}

/// Returns the object. Throws if it is null and the interpreter has an error set.
inline PyObject* checked(PyObject* object) {
  if (!object) throw py::error_already_set();
  return object;
}

}  // namespace rdmawire::python
