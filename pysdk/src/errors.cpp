#include "pysdk/src/errors.hpp"

#include <array>
#include <exception>
#include <nlohmann/json.hpp>

#include "dissectors/protocol/header.hpp"
#include "pysdk/src/bindings.hpp"

namespace rdmawire::python {
namespace {

// The classes exist until the interpreter ends. Destructors must not run after that.
std::array<PyObject*, 7> classes{};

PyObject* make(py::module_& module, const char* name, const char* doc, std::initializer_list<PyObject*> bases) {
  py::tuple base(bases.size());
  std::size_t i = 0;
  for (PyObject* b : bases) base[i++] = py::reinterpret_borrow<py::object>(b);
  const std::string qualified = std::string("rdmawire.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base.ptr(), nullptr);
  if (!made) throw py::error_already_set();
  module.add_object(name, py::reinterpret_borrow<py::object>(made));
  return made;
}

}  // namespace

void bind_errors(py::module_& module) {
  const auto at = [](ErrorClass which) -> PyObject*& { return classes[static_cast<std::size_t>(which)]; };
  PyObject* base = at(ErrorClass::base) =
      make(module, "Error", "Base class of rdmawire's exceptions. The text is one sentence.", {PyExc_Exception});
  at(ErrorClass::usage) =
      make(module, "UsageError", "Invalid name, value or order of calls.", {base, PyExc_ValueError});
  at(ErrorClass::parse) = make(module, "ParseError",
                               "Malformed or truncated bytes. Attributes: kind ('truncated', 'malformed', 'unknown', "
                               "'limit'), layer, offset, needed, had, what.",
                               {base, PyExc_ValueError});
  at(ErrorClass::capture) =
      make(module, "CaptureError", "A capture or report cannot be read, read completely, or written. Also an OSError.",
           {base, PyExc_OSError});
  at(ErrorClass::wire) = make(module, "WireError",
                              "An error of a wire. Attributes: kind ('missing', 'forbidden', 'unsupported', 'frame', "
                              "'down', 'full', 'closed', 'specification', 'system') and errno, or 0.",
                              {base});
  at(ErrorClass::device) =
      make(module, "DeviceError", "A device or its agent refused or did not complete an operation. Attribute: kind.",
           {base});
  at(ErrorClass::closed) =
      make(module, "ClosedError", "An object is used after it was closed.", {base, PyExc_ValueError});
  // Errors about values inside arguments. The texts of the libraries contain C++ types, so other texts replace them.
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const py::cast_error&) {
      PyErr_SetString(PyExc_TypeError, "an argument contains a value of an unexpected type");
    } catch (const nlohmann::json::exception&) {
      PyErr_SetString(classes[static_cast<std::size_t>(ErrorClass::usage)],
                      "an argument is not valid JSON of rdmawire");
    }
  });
}

namespace {

py::object make(ErrorClass which, const std::string& message, const py::dict& attributes) {
  const py::handle type(classes[static_cast<std::size_t>(which)]);
  py::object error = type(py::str(message));
  for (const auto& [name, value] : attributes) py::setattr(error, name, value);
  return error;
}

}  // namespace

void raise(ErrorClass which, const std::string& message, const py::dict& attributes) {
  PyErr_SetObject(classes[static_cast<std::size_t>(which)], make(which, message, attributes).ptr());
  throw py::error_already_set();
}

void raise(const ParseError& error) {
  PyErr_SetObject(classes[static_cast<std::size_t>(ErrorClass::parse)], to_exception(error).ptr());
  throw py::error_already_set();
}

py::object to_exception(const ParseError& error) {
  py::dict attributes;
  attributes["kind"] = py::str(std::string(to_string(error.kind)));
  attributes["layer"] = error.layer ? py::object(py::str(std::string(error.layer->name))) : py::none();
  attributes["offset"] = error.offset;
  attributes["needed"] = error.needed;
  attributes["had"] = error.had;
  attributes["what"] = py::str(std::string(error.what));
  return make(ErrorClass::parse, to_string(error), attributes);
}

}  // namespace rdmawire::python
