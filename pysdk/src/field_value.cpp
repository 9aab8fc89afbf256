#include "pysdk/src/field_value.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/filter_source.hpp"
#include "dissectors/output/value.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/enumerations.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/guard.hpp"

namespace rdmawire::python {
namespace {

std::string name_of(const HeaderValue& value, const Field& f) {
  return fmt::format("{}.{}", value.header().name, f.name);
}

std::string type_of(PyObject* object) { return Py_TYPE(object)->tp_name; }

std::string_view wanted(Form form) {
  switch (form) {
    case Form::number: return "an int";
    case Form::mac: return "a MAC address ('52:54:00:00:00:02', 6 bytes, or an int)";
    case Form::ipv4: return "an IPv4 address ('10.0.0.2', 4 bytes, an int, or an IPv4Address)";
    case Form::ipv6: return "an IPv6 address or GID ('fe80::2', 16 bytes, an int, or an IPv6Address)";
    case Form::guid: return "a GUID ('0002:c903:000e:0b72', 8 bytes, or an int)";
    case Form::text: return "str or bytes";
    case Form::bytes: return "bytes";
  }
  return {};
}

[[noreturn]] void wrong_type(const HeaderValue& value, const Field& f, PyObject* from) {
  throw py::type_error(fmt::format("{}: expected {}, got {}", name_of(value, f), wanted(form_of(f)), type_of(from)));
}

[[noreturn]] void does_not_fit(const HeaderValue& value, const Field& f, PyObject* from) {
  const std::string shown = py::str(py::handle(from));
  const std::string most = f.width <= 64 ? fmt::format("{}", low_mask(f.width)) : fmt::format("2**{} - 1", f.width);
  std::string hint;
  if (const Enumeration* enumeration = f.is_number() ? enumeration_of(value.header(), f) : nullptr)
    for (const auto& [known, member] : py::dict(enumeration->type().attr("__members__"))) {
      hint = fmt::format(", or a name of {} such as \"{}\"", enumeration->type().attr("__name__").cast<std::string>(),
                         known.cast<std::string>());
      break;
    }
  raise(ErrorClass::usage, fmt::format("{} is {} bit{} wide: {} does not fit; expected 0 to {}{}", name_of(value, f),
                                       f.width, f.width == 1 ? "" : "s", shown, most, hint));
}

void set_number(HeaderValue& value, const Field& f, PyObject* from) {
  py::object index;
  if (!PyLong_Check(from)) {
    index = py::reinterpret_steal<py::object>(PyNumber_Index(from));
    if (!index) {
      PyErr_Clear();
      wrong_type(value, f, from);
    }
    from = index.ptr();
  }
  if (f.is_number()) {
    const unsigned long long number = PyLong_AsUnsignedLongLong(from);
    if (number == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
      PyErr_Clear();
      does_not_fit(value, f, from);
    }
    if (number > low_mask(f.width)) does_not_fit(value, f, from);
    value.set(f, number);
    return;
  }
  // Fields of more than 64 bits are set as bytes.
  const py::object bytes = py::reinterpret_steal<py::object>(
      PyObject_CallMethod(from, "to_bytes", "is", static_cast<int>(f.width / 8U), "big"));
  if (!bytes) {
    PyErr_Clear();
    does_not_fit(value, f, from);
  }
  value.set(f, BytesView(bytes).bytes());
}

/// Sets a field to the value with this name in its enumeration. As in filters, only letters and digits are compared,
/// without case.
void set_named(HeaderValue& value, const Field& f, PyObject* from) {
  const Enumeration* enumeration = f.is_number() ? enumeration_of(value.header(), f) : nullptr;
  if (!enumeration) wrong_type(value, f, from);
  const py::dict members = py::dict(enumeration->type().attr("__members__"));
  const py::object name = py::handle(from).attr("upper")();
  if (members.contains(name)) return value.set(f, py::int_(members[name]).cast<std::uint64_t>());
  std::vector<std::string> names;
  const std::string plain = output::plain_name(name.cast<std::string>());
  for (const auto& [known, member] : members) {
    names.push_back(known.cast<std::string>());
    if (!plain.empty() && output::plain_name(names.back()) == plain)
      return value.set(f, py::int_(py::reinterpret_borrow<py::object>(member)).cast<std::uint64_t>());
  }
  constexpr std::size_t few = 16;
  std::string hint = output::did_you_mean(name.cast<std::string>(), names);
  if (hint.empty() && names.size() <= few) hint = fmt::format(" (known names: {})", fmt::join(names, ", "));
  raise(ErrorClass::usage, fmt::format("{}: {} has no name '{}'{}", name_of(value, f),
                                       enumeration->type().attr("__name__").cast<std::string>(),
                                       py::str(py::handle(from)).cast<std::string>(), hint));
}

void set_bytes(HeaderValue& value, const Field& f, Bytes bytes) {
  const bool exact = form_of(f) != Form::text;  // text is padded with zeros
  if (bytes.size() > f.width / 8U || (exact && bytes.size() != f.width / 8U))
    raise(ErrorClass::usage, fmt::format("{} has {} bytes, got {}", name_of(value, f), f.width / 8, bytes.size()));
  value.set(f, bytes);
}

// Parses "52:54:00:00:00:02" or "0002:c903:000e:0b72": groups of hexadecimal digits, separated by colons or hyphens.
bool parse_groups(std::string_view text, std::size_t bytes, std::vector<std::uint8_t>& out) {
  const std::size_t first = std::min(text.find_first_of(":-"), text.size());
  if (first != 2 && first != 4) return false;
  while (true) {
    const std::string_view group = text.substr(0, first);
    if (group.size() != first) return false;
    for (std::size_t i = 0; i < first; i += 2) {
      std::uint8_t byte = 0;
      const auto [end, error] = std::from_chars(group.data() + i, group.data() + i + 2, byte, 16);
      if (error != std::errc() || end != group.data() + i + 2) return false;
      out.push_back(byte);
    }
    text.remove_prefix(first);
    if (text.empty()) return out.size() == bytes;
    if (text[0] != ':' && text[0] != '-') return false;
    text.remove_prefix(1);
  }
}

void set_text(HeaderValue& value, const Field& f, PyObject* from) {
  const Form form = form_of(f);
  if (form == Form::text) {
    const py::object encoded =
        py::reinterpret_steal<py::object>(checked(PyUnicode_AsEncodedString(from, "utf-8", "surrogateescape")));
    return set_bytes(value, f, BytesView(encoded).bytes());
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(from, &size);
  if (!data) throw py::error_already_set();
  const std::string text(data, static_cast<std::size_t>(size));
  std::vector<std::uint8_t> bytes;
  bool right = false;
  if (form == Form::ipv4 || form == Form::ipv6) {
    bytes.resize(form == Form::ipv4 ? 4 : 16);
    right = inet_pton(form == Form::ipv4 ? AF_INET : AF_INET6, text.c_str(), bytes.data()) == 1 &&
            text.size() == std::strlen(text.c_str());
  } else {
    right = parse_groups(text, f.width / 8U, bytes);
  }
  if (!right) raise(ErrorClass::usage, fmt::format("{}: expected {}, got '{}'", name_of(value, f), wanted(form), text));
  set_bytes(value, f, bytes);
}

}  // namespace

Form form_of(const Field& f) {
  if (f.bit % 8 || f.width % 8 || f.is_decoded()) return Form::number;
  switch (f.display) {
    case Display::mac: return Form::mac;
    case Display::ipv4: return Form::ipv4;
    case Display::ipv6: return f.width == 128 ? Form::ipv6 : f.is_number() ? Form::number : Form::bytes;
    case Display::guid: return Form::guid;
    case Display::text: return Form::text;
    case Display::bytes: return Form::bytes;
    default: return f.is_number() ? Form::number : Form::bytes;
  }
}

PyObject* to_python(const Field& f, const std::uint8_t* header, const Enumeration* enumeration) {
  if (!f.present_in(header)) Py_RETURN_NONE;
  const Form form = form_of(f);
  if (form == Form::number) {
    const std::uint64_t number = f.value(header);
    if (enumeration)
      if (PyObject* member = enumeration->find(number)) return Py_NewRef(member);
    return PyLong_FromUnsignedLongLong(number);
  }
  const Bytes bytes = f.bytes(header);
  const auto* characters = reinterpret_cast<const char*>(bytes.data());
  std::string text;
  switch (form) {
    case Form::mac: output::append_mac(text, bytes.data()); break;
    case Form::ipv4: output::append_ipv4(text, bytes.data()); break;
    case Form::ipv6: output::append_ipv6(text, bytes.data()); break;
    case Form::guid: output::append_guid(text, bytes.data()); break;
    case Form::text: {
      std::size_t size = bytes.size();
      while (size && bytes[size - 1] == 0) --size;
      return PyUnicode_DecodeUTF8(characters, static_cast<Py_ssize_t>(size), "surrogateescape");
    }
    default: return PyBytes_FromStringAndSize(characters, static_cast<Py_ssize_t>(bytes.size()));
  }
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

void set_from_python(HeaderValue& value, const Field& f, PyObject* from) {
  const Form form = form_of(f);
  if (PyLong_Check(from)) {
    if (form == Form::text || form == Form::bytes) wrong_type(value, f, from);
    return set_number(value, f, from);
  }
  if (form == Form::number) return PyUnicode_Check(from) ? set_named(value, f, from) : set_number(value, f, from);
  if (PyUnicode_Check(from)) {
    if (form == Form::bytes) wrong_type(value, f, from);
    return set_text(value, f, from);
  }
  if (PyObject_CheckBuffer(from)) return set_bytes(value, f, BytesView(from).bytes());
  // ipaddress.IPv4Address, ipaddress.IPv6Address
  if (form == Form::ipv4 || form == Form::ipv6)
    if (const py::object packed = py::reinterpret_steal<py::object>(PyObject_GetAttrString(from, "packed")))
      return set_bytes(value, f, BytesView(packed).bytes());
  PyErr_Clear();
  wrong_type(value, f, from);
}

void forget(HeaderValue& value, const Field& f) {
  if (f.is_part()) return forget(value, *value.header().find(f.name.substr(0, f.name.find('.'))));
  if (f.is_number())
    f.store(value.mutable_bytes().data(), 0);
  else
    value.set(f, Bytes());
  value.forget(f);
}

}  // namespace rdmawire::python
