#pragma once
/// The two objects of the frames' part, as the interpreter sees them.

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
  /// Of a frame whose opcode is decided by what is put behind it: called with a copy and that part, gives the frame
  /// that the part goes behind. Null: none, or somebody has set the opcode.
  PyObject* follows;
};

/// A header: by itself with a value of its own, or layer `index` of a frame, which it keeps alive.
struct HeaderObject {
  PyObject_HEAD const HeaderInfo* header;
  FrameObject* frame;  ///< null: by itself
  std::size_t index;
  std::optional<HeaderValue> value;  ///< when by itself
};

/// A field, or the variable part, as an attribute of its class.
struct Attribute {
  const HeaderInfo* header;
  const Field* field;  ///< null: the variable part
  const Enumeration* enumeration;
  std::string name;    ///< in Python: "syndrome_kind"
  PyObject* interned;  ///< the same
  std::string doc;
};

/// Makes Header and the class of each header.
void make_header_types(py::module_& module);
/// Makes Frame.
void make_frame_type(py::module_& module);

PyTypeObject* frame_type();
bool is_frame(PyObject* object);
bool is_header(PyObject* object);
/// The class of `header`.
PyTypeObject* type_of_header(const HeaderInfo& header);
/// The header of that class, or nullptr: another object.
const HeaderInfo* header_of_type(PyObject* type);
const std::vector<Attribute>& attributes_of(const HeaderInfo& header);

inline FrameObject* as_frame(PyObject* object) { return reinterpret_cast<FrameObject*>(object); }
inline HeaderObject* as_header(PyObject* object) { return reinterpret_cast<HeaderObject*>(object); }

/// New references.
PyObject* new_frame(FrameData&& data);
PyObject* new_header(HeaderValue value);
PyObject* new_layer(FrameObject* frame, std::size_t index);

/// A copy of a header's value, wherever it stands.
HeaderValue value_of(HeaderObject* header);
/// Bytes of a header as they go out.
std::vector<std::uint8_t> bytes_of(HeaderObject* header);

/// a / b, for frames, headers and bytes: a new frame. NotImplemented for anything else.
PyObject* divide(PyObject* left, PyObject* right);

/// The Python expression that makes a frame of the same bytes.
std::string command_of(FrameData& data);
/// "BTH(opcode=Opcode.RC_ACKNOWLEDGE, psn=5)": what is given, without what is zero anyway.
std::string expression_of(const HeaderValue& value);

}  // namespace rdmawire::python
