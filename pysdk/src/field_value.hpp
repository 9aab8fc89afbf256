#pragma once
/// A field's value in Python: numbers are int (enumerated ones members of their IntEnum), addresses and GUIDs str in
/// their usual form, bytes bytes.

#include <pybind11/pybind11.h>

#include "dissectors/protocol/header.hpp"
#include "pysdk/src/enumerations.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// What kind of value a field has.
enum class Form : std::uint8_t { number, mac, ipv4, ipv6, guid, text, bytes };
Form form_of(const Field& f);

/// The value of `f` in the header that begins at `header`: a new reference. None where the field is not there (a part
/// that depends on others).
PyObject* to_python(const Field& f, const std::uint8_t* header, const Enumeration* enumeration);

/// Sets `f` and marks it as given. An address is taken as text, bytes, a number or an object of ipaddress. Raises
/// TypeError for a value of another kind, UsageError for one that does not fit.
void set_from_python(HeaderValue& value, const Field& f, PyObject* from);

/// Makes `f` what it was before it was given: zero, and computed where encoding does that. A part speaks for its whole.
void forget(HeaderValue& value, const Field& f);

}  // namespace rdmawire::python
