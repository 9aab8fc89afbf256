/// The header tables in Python, for strategies, fuzzers and the stub generator.

#include <pybind11/stl.h>

#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/registry.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/field_value.hpp"
#include "pysdk/src/objects.hpp"

namespace rdmawire::python {
namespace {

py::object borrowed(PyTypeObject* type) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type));
}

const HeaderInfo& header_from(const py::object& type) {
  const HeaderInfo* header = header_of_type(type.ptr());
  if (!header) throw py::type_error("header_table(): expected a header class, for example BTH");
  return *header;
}

std::string_view word(Form form) {
  switch (form) {
    case Form::number: return "number";
    case Form::mac: return "mac";
    case Form::ipv4: return "ipv4";
    case Form::ipv6: return "ipv6";
    case Form::guid: return "guid";
    case Form::text: return "text";
    case Form::bytes: return "bytes";
  }
  return {};
}

std::vector<const Attribute*> fields_of(const HeaderInfo& header) {
  std::vector<const Attribute*> fields;
  for (const Attribute& attribute : attributes_of(header))
    if (attribute.field) fields.push_back(&attribute);
  return fields;
}

py::tuple classes_of(std::span<const HeaderInfo* const> headers) {
  py::list made;
  for (const HeaderInfo* header : headers) made.append(borrowed(type_of_header(*header)));
  return made;
}

std::string text(std::string_view view) { return std::string(view); }

constexpr auto static_table = py::return_value_policy::reference;  // tables are static

void bind_field(py::module_& module) {
  py::class_<Attribute>(module, "Field", "A field of a header table.")
      .def_property_readonly(
          "name", [](const Attribute& a) { return text(a.field->name); }, "Name in filters and JSON.")
      .def_property_readonly(
          "attribute", [](const Attribute& a) { return a.name; }, "Name in Python.")
      .def_property_readonly(
          "meaning", [](const Attribute& a) { return text(a.field->meaning); }, "Description.")
      .def_property_readonly(
          "section",
          [](const Attribute& a) { return text(a.field->section.empty() ? a.header->section : a.field->section); },
          "Section of the specification.")
      .def_property_readonly(
          "bit", [](const Attribute& a) { return a.field->bit; }, "Offset of the first bit in the header.")
      .def_property_readonly(
          "width", [](const Attribute& a) { return a.field->width; }, "Width in bits.")
      .def_property_readonly(
          "form", [](const Attribute& a) { return text(word(form_of(*a.field))); },
          "'number', 'mac', 'ipv4', 'ipv6', 'guid', 'text' or 'bytes'.")
      .def_property_readonly(
          "enumeration",
          [](const Attribute& a) {
            return a.enumeration ? py::reinterpret_borrow<py::object>(a.enumeration->type()) : py::none();
          },
          "The IntEnum class of the values, or None.")
      .def_property_readonly(
          "computed", [](const Attribute& a) { return a.field->is_computed; }, "Whether encoding computes the field.")
      .def_property_readonly(
          "default", &default_of,
          "The value if the field is not set. None: computed, or the field does not exist by default.")
      .def_property_readonly(
          "constant", [](const Attribute& a) { return a.field->is_constant; }, "Whether the protocol fixes the value.")
      .def_property_readonly(
          "reserved", [](const Attribute& a) { return a.field->is_reserved(); }, "Whether the field is reserved.")
      .def_property_readonly(
          "part", [](const Attribute& a) { return a.field->is_part(); },
          "Whether the field is a part of another field, whose name precedes the dot in `name`.")
      .def_property_readonly(
          "conditional", [](const Attribute& a) { return a.field->present != nullptr; },
          "Whether the field exists only for some values of other fields. If it does not exist, its value is None.")
      .def_property_readonly(
          "read_only", [](const Attribute& a) { return a.field->is_decoded(); },
          "Whether the value is derived and cannot be set.")
      .def_property_readonly(
          "little_endian", [](const Attribute& a) { return a.field->little_endian; }, "Whether it is little endian.")
      .def("__repr__",
           [](const Attribute& a) { return "<Field " + text(a.header->name) + "." + text(a.field->name) + ">"; });
}

void bind_header_table(py::module_& module) {
  py::class_<HeaderInfo, std::unique_ptr<HeaderInfo, py::nodelete>>(module, "HeaderTable", "The table of a header.")
      .def_property_readonly(
          "name", [](const HeaderInfo& h) { return text(h.name); }, "Name in filters and JSON.")
      .def_property_readonly(
          "title", [](const HeaderInfo& h) { return text(h.title); }, "Name in the specification.")
      .def_property_readonly(
          "section", [](const HeaderInfo& h) { return text(h.section); }, "Section of the specification.")
      .def_property_readonly(
          "size", [](const HeaderInfo& h) { return h.size; }, "Size of the fixed part in bytes.")
      .def_property_readonly(
          "tail",
          [](const HeaderInfo& h) -> py::object {
            return h.tail.empty() ? py::object(py::none()) : py::str(text(h.tail));
          },
          "Name of the attribute with the variable part, or None.")
      .def_property_readonly(
          "unit", [](const HeaderInfo& h) { return h.unit ? h.unit : 1; },
          "The variable part is padded to a multiple of this number of bytes.")
      .def_property_readonly(
          "fields", [](const HeaderInfo& h) { return py::tuple(py::cast(fields_of(h), static_table)); },
          "The fields in the order of the specification. Parts follow their complete field.")
      .def("__repr__", [](const HeaderInfo& h) { return "<HeaderTable " + text(h.name) + ">"; });
  module.def(
      "header_table", [](const py::object& header) { return &header_from(header); }, static_table, py::arg("header"),
      "Return the table of a header class.");
}

void bind_opcode_row(py::module_& module) {
  py::class_<Opcode, std::unique_ptr<Opcode, py::nodelete>>(module, "OpcodeRow", "A row of the opcode table.")
      .def_property_readonly(
          "name", [](const Opcode& o) { return text(o.name); }, "'RC SEND First'.")
      .def_readonly("known", &Opcode::known,
                    "Whether the specification defines the opcode. Otherwise the row is empty.")
      .def_property_readonly(
          "transport", [](const Opcode& o) { return text(to_string(o.transport)); }, "'RC'.")
      .def_property_readonly(
          "operation", [](const Opcode& o) { return text(to_string(o.operation)); }, "'SEND'.")
      .def_property_readonly(
          "position", [](const Opcode& o) { return text(to_string(o.position)); }, "'First', 'Middle', 'Last', 'Only'.")
      .def_property_readonly(
          "request", [](const Opcode& o) { return o.direction == Direction::request; },
          "Whether the requester sends it.")
      .def_readonly("payload", &Opcode::payload, "Whether the packet can contain payload.")
      .def_readonly("immediate", &Opcode::immediate, "Whether an ImmDt follows.")
      .def_readonly("invalidate", &Opcode::invalidate, "Whether an IETH follows.")
      .def_property_readonly(
          "headers", [](const Opcode& o) { return classes_of(o.extension_headers()); },
          "The classes of the headers after the BTH, in order.")
      .def("__repr__", [](const Opcode& o) { return "<OpcodeRow " + text(o.name) + ">"; });
  module.def(
      "opcode_row", [](std::uint8_t value) { return &opcode(value); }, static_table, py::arg("opcode"),
      "Return the row of a BTH opcode, 0 to 255.");
}

}  // namespace

void bind_header_tables(py::module_& module) {
  bind_field(module);
  bind_header_table(module);
  bind_opcode_row(module);
  for (const char* name : {"Field", "HeaderTable", "header_table", "OpcodeRow", "opcode_row"})
    module.attr("__all__").attr("append")(name);
}

}  // namespace rdmawire::python
