#pragma once
/// Options of Python functions: keyword arguments that set the members of a structure by name.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pysdk/src/values.hpp"

namespace rdmawire::python {

/// Setters by the name of the option.
template <class Of>
using OptionSetters = std::map<std::string, std::function<void(Of&, const py::handle&)>>;

/// Returns a setter of a member.
template <class Of, class T>
auto option(T Of::*member) {
  return [member](Of& options, const py::handle& value) { options.*member = py::cast<T>(value); };
}

/// Returns a setter of a member that a case can leave open.
template <class Of, class T>
auto option(conformance::Option<T> Of::*member) {
  return [member](Of& options, const py::handle& value) { options.*member = py::cast<T>(value); };
}

/// Sets options by name. Raises UsageError for unknown options and invalid values. `what` names the function.
template <class Of>
Of set_options(Of options, const OptionSetters<Of>& setters, const py::dict& given, const char* what) {
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    const auto found = setters.find(name);
    if (found == setters.end()) {
      std::vector<std::string> known;
      for (const auto& one : setters) known.push_back(one.first);
      raise_unknown_option(what, name, known);
    }
    try {
      found->second(options, value);
    } catch (const py::cast_error&) {
      raise_invalid_option(name, value);
    }
  }
  return options;
}

}  // namespace rdmawire::python
