/// Definition of headers by Python programs.

#include "dissectors/protocol/user_headers.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cctype>

#include "dissectors/output/filter_operators.hpp"
#include "dissectors/output/filter_source.hpp"
#include "dissectors/protocol/registry.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/objects.hpp"

namespace rdmawire::python {
namespace {

struct Kind {
  std::string_view name;
  Display display;
};
constexpr Kind kinds[] = {
    {"decimal", Display::decimal}, {"hex", Display::hexadecimal},   {"flag", Display::flag}, {"mac", Display::mac},
    {"ipv4", Display::ipv4},       {"ipv6", Display::ipv6},         {"guid", Display::guid}, {"text", Display::text},
    {"bytes", Display::bytes},     {"reserved", Display::reserved},
};

Display display_of(const std::string& kind) {
  for (const Kind& one : kinds)
    if (one.name == kind) return one.display;
  std::string names;
  for (const Kind& one : kinds) names += (names.empty() ? "" : ", ") + std::string(one.name);
  raise(ErrorClass::usage, fmt::format("kind='{}': expected one of {}", kind, names));
}

UserField field_of(const py::dict& from) {
  const auto text = [&](const char* name) { return from[name].cast<std::string>(); };
  UserField field;
  field.name = text("name");
  field.width = from["width"].cast<unsigned>();
  field.meaning = text("meaning");
  field.display = display_of(text("kind"));
  field.little_endian = from["little_endian"].cast<bool>();
  field.names = from["values"].cast<std::vector<std::pair<std::uint64_t, std::string>>>();
  const std::string counts = text("counts");
  if (counts == "tail") field.counts = UserField::Counts::tail;
  if (counts == "payload") field.counts = UserField::Counts::payload;
  return field;
}

/// Returns the header and the set fields of a header object.
UserHeader::Predecessor predecessor_of(py::handle header) {
  if (!is_header(header.ptr()))
    throw py::type_error(
        fmt::format("after: expected headers with the fields that select the new header, for example "
                    "BTH(opcode=\"RC_SEND_ONLY\"), got {}",
                    Py_TYPE(header.ptr())->tp_name));
  const HeaderValue value = value_of(as_header(header.ptr()));
  UserHeader::Predecessor before;
  before.header = &value.header();
  for (const Field& field : value.header().fields)
    if (field.is_number() && !field.is_part() && value.given(field))
      before.values.emplace_back(&field, value.get(field));
  if (before.values.empty())
    raise(ErrorClass::usage,
          fmt::format("after: {} has no field set; set the fields that select the new header, for example "
                      "UDP(dst_port=4000)",
                      type_name(value.header())));
  return before;
}

py::object define(const std::string& name, const std::string& type_name, const std::string& title,
                  const std::vector<py::dict>& fields, const std::string& tail, const py::list& after) {
  UserHeader header;
  header.name = name;
  header.type_name = type_name;
  header.title = title;
  header.tail = tail;
  for (const py::dict& field : fields) header.fields.push_back(field_of(field));
  for (const py::handle one : after) header.after.push_back(predecessor_of(one));
  if (output::resolve(name)) raise(ErrorClass::usage, fmt::format("header {}: the name is in use", name));
  if (output::is_filter_operator(name))
    raise(ErrorClass::usage, fmt::format("header {}: the name is an operator of filters", name));
  std::vector<std::string_view> names{tail};
  for (const UserField& field : header.fields) names.push_back(field.name);
  for (const std::string_view one : names) {
    if (one == "copy" || one == "show")
      raise(ErrorClass::usage, fmt::format("field {}: the name is that of a method of headers", one));
    if (output::is_filter_operator(one))
      raise(ErrorClass::usage, fmt::format("field {}: the name is an operator of filters", one));
  }
  header.decoded = false;  // other threads can decode the header when its class exists
  const auto defined = define_header(std::move(header));
  if (!defined) raise(ErrorClass::usage, defined.error());
  for (const Field& field : (*defined)->fields)
    if (field.names) {
      std::string of_field(field.name);
      of_field[0] = static_cast<char>(std::toupper(of_field[0]));
      define_enumeration(*field.names, type_name + of_field);
    }
  py::object type = make_header_type(**defined);
  set_decoded(**defined, true);
  return type;
}

}  // namespace

void bind_user_headers(py::module_& module) {
  module.def("_define_header", &define, py::arg("name"), py::arg("type_name"), py::arg("title"), py::arg("fields"),
             py::arg("tail"), py::arg("after"), "Define a header, and return its class.");
  module.def(
      "_set_decoded",
      [](const py::object& type, bool decoded) {
        const HeaderInfo* const header = header_of_type(type.ptr());
        if (!header || user_type_name(*header).empty())
          throw py::type_error("expected a header class that define_header() returned");
        set_decoded(*header, decoded);
      },
      py::arg("header"), py::arg("decoded"), "Set whether frames are decoded with a defined header.");
}

}  // namespace rdmawire::python
