/// Rejects invalid arguments before they reach C++, with readable errors. pybind11's error messages list all signatures
/// and internal objects.

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "pysdk/src/bindings.hpp"
#include "pysdk/src/guard.hpp"

namespace rdmawire::python {
namespace {

/// pybind11's entry point for all functions of the module.
PyCFunctionWithKeywords dispatcher = nullptr;

/// pybind11's record of a function of the module, or null for other functions.
py::detail::function_record* record_of(PyObject* self) {
#if PYBIND11_VERSION_MAJOR >= 3
  return self ? py::detail::function_record_ptr_from_PyObject(self) : nullptr;
#else
  if (!self || !PyCapsule_CheckExact(self)) return nullptr;
  return py::reinterpret_borrow<py::capsule>(self).get_pointer<py::detail::function_record>();
#endif
}

/// Returns the types of the parameters in a signature of pybind11: "(self: a.B, count: int = 1) -> None".
std::vector<std::string_view> types_of(std::string_view signature) {
  std::vector<std::string_view> types;
  int depth = 0;
  std::size_t colon = std::string_view::npos;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const char letter = signature[i];
    if (letter == '(' || letter == '[' || letter == '{') ++depth;
    if (letter == ':' && depth == 1 && colon == std::string_view::npos) colon = i;
    if ((letter == ',' && depth == 1) || (letter == ')' && depth == 1)) {
      std::string_view type = colon == std::string_view::npos ? "" : signature.substr(colon + 1, i - colon - 1);
      while (type.starts_with(' ')) type.remove_prefix(1);
      types.push_back(type);
      colon = std::string_view::npos;
      if (letter == ')') break;
    }
    if (letter == ')' || letter == ']' || letter == '}') --depth;
  }
  return types;
}

/// Makes the function reject None for `self` and for all arguments whose type is a class of the module. pybind11 passes
/// null pointers otherwise.
void reject_none(py::detail::function_record* record) {
  for (; record; record = record->next) {
    if (record->is_method && record->args.empty())
      record->args.emplace_back(::strdup("self"), nullptr, py::handle(), /*convert=*/true,
                                /*none=*/false);  // freed by pybind11
    const std::vector<std::string_view> types = types_of(record->signature);
    for (std::size_t i = 0; i < std::min(types.size(), record->args.size()); ++i)
      if (types[i].starts_with("rdmawire") && types[i].find("None") == std::string_view::npos)
        record->args[i].none = false;
  }
}

/// Returns whether `object` is of a class of the module, and its constructor was not called: cls.__new__(cls). pybind11
/// passes uninitialized memory otherwise.
bool is_unfinished(PyObject* object) {
  static PyTypeObject* const metaclass = py::detail::get_internals().default_metaclass;
  if (!PyObject_TypeCheck(reinterpret_cast<PyObject*>(Py_TYPE(object)), metaclass)) return false;
  auto* const instance = reinterpret_cast<py::detail::instance*>(object);
  if (instance->simple_layout) return instance->simple_value_holder[0] == nullptr;
  for (const auto& base : py::detail::values_and_holders(instance))
    if (!base.value_ptr()) return true;
  return false;
}

/// Sets an error and returns true if the constructor of an argument (from position `first` on) was not called.
bool reject_unfinished(PyObject* arguments, PyObject* keywords, Py_ssize_t first) {
  PyObject* unfinished = nullptr;
  for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(arguments); ++i)
    if (is_unfinished(PyTuple_GET_ITEM(arguments, i))) unfinished = PyTuple_GET_ITEM(arguments, i);
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &name, &value);)
    if (is_unfinished(value)) unfinished = value;
  if (unfinished)
    PyErr_Format(PyExc_TypeError, "the constructor of this %s was not called", Py_TYPE(unfinished)->tp_name);
  return unfinished != nullptr;
}

/// Replaces the current Python error by the one that rdmawire.arguments returns for it.
void replace_error(PyObject* arguments, PyObject* keywords) {
  py::error_already_set error;
  const py::str text(error.value());
  if (text.attr("find")("(): incompatible ").cast<int>() < 0) return error.restore();
  const py::object plain = py::module_::import("rdmawire.arguments")
                               .attr("describe")(text, py::handle(arguments),
                                                 keywords ? py::reinterpret_borrow<py::object>(keywords) : py::dict());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(plain.ptr())), plain.ptr());
}

/// `constructs`: the function is a constructor or __setstate__, which completes its object.
template <bool constructs>
PyObject* dispatch(PyObject* self, PyObject* arguments, PyObject* keywords) {
  if (reject_unfinished(arguments, keywords, constructs ? 1 : 0)) return nullptr;
  // Some methods have a `self` of type py::object, which accepts any object.
  if (const auto* record = record_of(self);
      record && record->is_method && PyType_Check(record->scope.ptr()) && PyTuple_GET_SIZE(arguments) > 0 &&
      !PyObject_TypeCheck(PyTuple_GET_ITEM(arguments, 0), reinterpret_cast<PyTypeObject*>(record->scope.ptr()))) {
    PyErr_Format(PyExc_TypeError, "%s(): self: expected of type %s, got %s", record->name,
                 reinterpret_cast<PyTypeObject*>(record->scope.ptr())->tp_name,
                 Py_TYPE(PyTuple_GET_ITEM(arguments, 0))->tp_name);
    return nullptr;
  }
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
  auto* const record = record_of(self);
  if (!record || definition->ml_flags != (METH_VARARGS | METH_KEYWORDS)) return;
  const auto found = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(definition->ml_meth));
  if (found == dispatch<false> || found == dispatch<true>) return;
  reject_none(record);
  if (!dispatcher) dispatcher = found;
  const bool constructs = record->is_constructor || record->is_new_style_constructor;
  if (found == dispatcher)
    definition->ml_meth =
        reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(constructs ? dispatch<true> : dispatch<false>));
}

void take_over_all(const py::handle& members) {
  for (const auto& [name, thing] : py::reinterpret_borrow<py::dict>(members)) {
    if (PyModule_Check(thing.ptr())) {
      take_over_all(thing.attr("__dict__"));
    } else if (PyType_Check(thing.ptr())) {
      for (const py::handle& member : thing.attr("__dict__").attr("values")()) {
        if (!py::isinstance(member, reinterpret_cast<PyObject*>(&PyProperty_Type))) {
          take_over(unwrapped(member));
          continue;
        }
        for (const char* accessor : {"fget", "fset"}) take_over(unwrapped(member.attr(accessor)));
      }
    } else {
      take_over(unwrapped(thing));
    }
  }
}

}  // namespace

void explain_argument_errors(py::module_& module) { take_over_all(module.attr("__dict__")); }

}  // namespace rdmawire::python
