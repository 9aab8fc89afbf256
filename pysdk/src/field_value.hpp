#pragma once
/// Values of fields in Python: numbers are int or members of an IntEnum, addresses and GUIDs are str in their usual
/// format, bytes are bytes.

#include <pybind11/pybind11.h>

#include "dissectors/protocol/header.hpp"
#include "pysdk/src/enumerations.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// The kind of value of a field.
enum class Form : std::uint8_t { number, mac, ipv4, ipv6, guid, text, bytes };
Form form_of(const Field& f);

/// Returns the value of `f` in `header` as a new reference. None if the values of other fields exclude the field.
PyObject* to_python(const Field& f, const std::uint8_t* header, const Enumeration* enumeration);

/// Sets `f` and marks it as set. Addresses are accepted as str, bytes, int, or an object of ipaddress. Raises TypeError
/// for other types and UsageError for values out of range.
void set_from_python(HeaderValue& value, const Field& f, PyObject* from);

/// Resets `f` to zero, or to its computed value. For a part the complete field is reset.
void forget(HeaderValue& value, const Field& f);

}  // namespace rdmawire::python
