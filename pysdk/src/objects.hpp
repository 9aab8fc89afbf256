#pragma once
/// Layout of the Python objects for frames and headers.

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "pysdk/src/enumerations.hpp"
#include "pysdk/src/frame_data.hpp"

namespace rdmawire::python {

namespace py = pybind11;

struct FrameObject {
  PyObject_HEAD FrameData data;
  /// Function of _let_follow(), called with a copy of the frame and an appended part. Returns the frame to which the
  /// part is appended. Null: none, or the opcode was set.
  PyObject* follows;
};

/// A header: without a frame and with its own value, or layer `index` of a frame, which it keeps alive.
struct HeaderObject {
  PyObject_HEAD const HeaderInfo* header;
  FrameObject* frame;  ///< null: no frame
  std::size_t index;
  std::optional<HeaderValue> value;  ///< set without a frame
};

/// A field or the variable part of a header, as an attribute of its class.
struct Attribute {
  const HeaderInfo* header;
  const Field* field;  ///< null: the variable part
  const Enumeration* enumeration;
  std::string name;    ///< Python name: "syndrome_kind"
  PyObject* interned;  ///< the name as an interned str
  std::string doc;
};

/// Creates Header and the header classes.
void make_header_types(py::module_& module);
/// Creates the class of a header.
py::object make_header_type(const HeaderInfo& header);
void bind_user_headers(py::module_& module);
/// Creates Frame.
void make_frame_type(py::module_& module);

PyTypeObject* frame_type();
bool is_frame(PyObject* object);
bool is_header(PyObject* object);
/// Returns the class of `header`.
PyTypeObject* type_of_header(const HeaderInfo& header);
/// Returns the header of a class, or nullptr for other objects.
const HeaderInfo* header_of_type(PyObject* type);
/// Returns the value of a field that is not set. None: the field is computed, or does not exist by default.
py::object default_of(const Attribute& attribute);
const std::vector<Attribute>& attributes_of(const HeaderInfo& header);

inline FrameObject* as_frame(PyObject* object) { return reinterpret_cast<FrameObject*>(object); }
inline HeaderObject* as_header(PyObject* object) { return reinterpret_cast<HeaderObject*>(object); }

/// These return new references.
PyObject* new_frame(FrameData&& data);
PyObject* new_header(HeaderValue value);
PyObject* new_layer(FrameObject* frame, std::size_t index);

/// Returns a copy of the header's value.
HeaderValue value_of(HeaderObject* header);
/// Returns the encoded bytes of a header.
std::vector<std::uint8_t> bytes_of(HeaderObject* header);

/// Implements a / b for frames, headers and bytes. Returns a new frame, or NotImplemented for other objects.
PyObject* divide(PyObject* left, PyObject* right);

/// Prints the text and returns None, or returns the text.
py::object print_or_return(const std::string& text, bool dump);
/// The same for the arguments of a method: dump=False.
PyObject* print_or_return(const std::string& text, PyObject* arguments, PyObject* keywords);

/// scapy's operator `/` calls this method of its right operand. Raises TypeError with the remedy.
PyObject* refuse_scapy(PyObject* self, PyObject* left);

/// Returns a Python expression that creates a frame with the same bytes.
std::string command_of(FrameData& data);
/// Returns "BTH(opcode=Opcode.RC_ACKNOWLEDGE, psn=5)" with all set fields.
std::string expression_of(const HeaderValue& value);

}  // namespace rdmawire::python
