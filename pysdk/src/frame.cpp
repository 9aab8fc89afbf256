#include "pysdk/src/frame.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "dissectors/output/json.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/registry.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/guard.hpp"
#include "pysdk/src/objects.hpp"

namespace rdmawire::python {
namespace {

PyTypeObject* type = nullptr;  // exists until the interpreter ends

FrameData& data_of(PyObject* self) { return as_frame(self)->data; }

void destroy(PyObject* self) {
  data_of(self).~FrameData();
  Py_CLEAR(as_frame(self)->follows);
  PyTypeObject* of = Py_TYPE(self);
  of->tp_free(self);
  Py_DECREF(of);
}

std::string layer_names(FrameData& data) {
  std::string text;
  for (std::size_t i = 0; i < data.layer_count(); ++i) {
    if (!text.empty()) text += ", ";
    text += type_name(data.header(i));
  }
  return text.empty() ? "no header" : text;
}

// Appends a header. If the frame has a payload, the bytes of the header are appended to it.
void append(Frame& frame, HeaderValue header) {
  if (frame.payload.empty()) {
    frame /= std::move(header);
  } else {
    const Bytes bytes = header.bytes();
    frame.payload.insert(frame.payload.end(), bytes.begin(), bytes.end());
  }
}

void append(Frame& frame, const Frame& inner) {
  for (const HeaderValue& header : inner.layers) append(frame, header);
  frame.payload.insert(frame.payload.end(), inner.payload.begin(), inner.payload.end());
  if (inner.pad) frame.pad = inner.pad;
  if (inner.icrc) frame.icrc = inner.icrc;
  if (inner.vcrc) frame.vcrc = inner.vcrc;
  if (inner.mpa_crc) frame.mpa_crc = inner.mpa_crc;
  frame.with_icrc &= inner.with_icrc;
  frame.with_vcrc &= inner.with_vcrc;
  frame.with_mpa_crc &= inner.with_mpa_crc;
  frame.trailer.insert(frame.trailer.end(), inner.trailer.begin(), inner.trailer.end());
}

/// Returns whether an object is a packet of scapy. `headers` is set to whether this package has the same header.
bool is_scapy(PyObject* object, bool& headers) {
  for (const py::handle base : py::reinterpret_borrow<py::tuple>(Py_TYPE(object)->tp_mro)) {
    const auto module_of = [](py::handle of) {
      return py::str(py::getattr(of, "__module__", py::str())).cast<std::string>();
    };
    if (base.attr("__name__").cast<std::string>() != "Packet" || module_of(base) != "scapy.packet") continue;
    const std::string own = module_of(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    headers = own.starts_with("scapy.layers.") || own == "scapy.contrib.roce";
    return true;
  }
  return false;
}

[[noreturn]] void refuse_scapy_header(PyObject* packet) {
  throw py::type_error(
      fmt::format("{} is a header of scapy; convert the complete scapy packet with rdmawire.scapy.from_scapy(), or use "
                  "the header of rdmawire",
                  Py_TYPE(packet)->tp_name));
}

/// Appends a header, frame, bytes, text as UTF-8, or a packet of scapy that is payload. Returns false for other
/// objects.
bool append(Frame& frame, PyObject* part) {
  if (is_header(part)) {
    append(frame, value_of(as_header(part)));
  } else if (is_frame(part)) {
    append(frame, data_of(part).values());
  } else if (PyUnicode_Check(part)) {
    const py::object encoded =
        py::reinterpret_steal<py::object>(checked(PyUnicode_AsEncodedString(part, "utf-8", "surrogateescape")));
    return append(frame, encoded.ptr());
  } else if (PyObject_CheckBuffer(part)) {
    const BytesView bytes(part);
    frame.payload.insert(frame.payload.end(), bytes.bytes().begin(), bytes.bytes().end());
  } else if (bool headers = false; is_scapy(part, headers)) {
    if (headers) refuse_scapy_header(part);
    const BytesView bytes(part);
    frame.payload.insert(frame.payload.end(), bytes.bytes().begin(), bytes.bytes().end());
  } else {
    return false;
  }
  return true;
}

// Byte ranges of a frame, decoded or built.
struct Places {
  Range payload, pad, icrc, vcrc, mpa_crc, trailer;
};
Places places_of(FrameData& data) {
  const Frame& values = data.values();
  const auto has = [&](const HeaderInfo& header) {
    return std::any_of(values.layers.begin(), values.layers.end(),
                       [&](const HeaderValue& layer) { return &layer.header() == &header; });
  };
  const auto size = static_cast<std::uint32_t>(data.view().size());
  std::uint32_t end = size;
  Places at;
  const auto cut = [&](std::uint32_t bytes) {
    end -= bytes;
    return Range{end, bytes};
  };
  at.trailer = cut(static_cast<std::uint32_t>(values.trailer.size()));
  if (values.with_vcrc && has(info<Lrh>)) at.vcrc = cut(2);
  if (values.with_icrc && (has(info<Bth>) || has(info<MrcBth>)))
    at.icrc = cut(4);
  else if (values.with_mpa_crc && has(info<Fpdu>))
    at.mpa_crc = cut(4);
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < values.layers.size(); ++i) begin += static_cast<std::uint32_t>(data.layer(i).size());
  at.payload = {begin, static_cast<std::uint32_t>(values.payload.size())};
  at.pad = {at.payload.end(), end - at.payload.end()};
  return at;
}

PyObject* bytes_at(FrameData& data, Range range) {
  return to_bytes(data.view().subspan(range.offset, range.length)).release().ptr();
}

// --- attributes -----------------------------------------------------------------------------------------------------

template <auto Read>
PyObject* get(PyObject* self, void*) {
  return guard([&] { return Read(data_of(self)); });
}

PyObject* read_link(FrameData& data) { return py::str(link_word(data.link)).release().ptr(); }
PyObject* read_link_type(FrameData& data) {
  if (data.link == begins::fpdu || data.link == begins::mpa || data.link == begins::bth) Py_RETURN_NONE;
  return PyLong_FromLong(static_cast<long>(data.link));
}
/// Returns an integer argument or attribute. Raises TypeError or UsageError with its name.
std::int64_t signed_number(const char* name, PyObject* from) {
  const py::object number = py::reinterpret_steal<py::object>(PyNumber_Index(from));
  if (!number) {
    PyErr_Clear();
    throw py::type_error(fmt::format("{}: expected an int, got {}", name, Py_TYPE(from)->tp_name));
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) raise(ErrorClass::usage, fmt::format("{}: expected a number of 64 bits", name));
  return value;
}
std::uint64_t unsigned_number(const char* name, PyObject* from) {
  const std::int64_t value = signed_number(name, from);
  if (value < 0) raise(ErrorClass::usage, fmt::format("{}={}: expected 0 or more", name, value));
  return static_cast<std::uint64_t>(value);
}

int write_link(PyObject* self, PyObject* from, void*) {
  return guard<int>(-1, [&] {
    if (!from) throw py::attribute_error("link cannot be deleted");
    data_of(self).relink(link_from(from));
    return 0;
  });
}

PyObject* read_time(FrameData& data) {
  if (!data.time_ns) Py_RETURN_NONE;
  return PyLong_FromLongLong(*data.time_ns);
}
int write_time(PyObject* self, PyObject* from, void*) {
  return guard<int>(-1, [&] {
    if (!from || from == Py_None)
      data_of(self).time_ns.reset();
    else
      data_of(self).time_ns = signed_number("time_ns", from);
    return 0;
  });
}
PyObject* origin_part(FrameData& data, Py_ssize_t part) {
  return data.origin ? Py_NewRef(PyTuple_GET_ITEM(data.origin.ptr(), part)) : nullptr;
}
PyObject* read_interface(FrameData& data) {
  PyObject* const interface = origin_part(data, 0);
  return interface ? interface : Py_NewRef(Py_None);
}
PyObject* read_comments(FrameData& data) {
  PyObject* const comments = origin_part(data, 1);
  return comments ? comments : checked(PyTuple_New(0));
}
PyObject* read_number(FrameData& data) { return PyLong_FromUnsignedLongLong(data.number); }
PyObject* read_wire_length(FrameData& data) { return PyLong_FromUnsignedLong(data.wire_length()); }

PyObject* read_wire(FrameData& data) {
  const std::string_view word = output::wire_name(data.stack().wire);
  if (word.empty()) Py_RETURN_NONE;
  return py::str(word.data(), word.size()).release().ptr();
}

PyObject* read_layers(PyObject* self, void*) {
  return guard([&] {
    const std::size_t count = data_of(self).layer_count();
    py::tuple layers(count);
    for (std::size_t i = 0; i < count; ++i) layers[i] = py::reinterpret_steal<py::object>(new_layer(as_frame(self), i));
    return layers.release().ptr();
  });
}

PyObject* read_payload(FrameData& data) { return bytes_at(data, places_of(data).payload); }
PyObject* read_pad(FrameData& data) { return bytes_at(data, places_of(data).pad); }
PyObject* read_trailer(FrameData& data) { return bytes_at(data, places_of(data).trailer); }

std::vector<std::uint8_t> vector_of(PyObject* from, std::string_view what) {
  if (PyLong_Check(from) || PyUnicode_Check(from))
    throw py::type_error(fmt::format("{}: expected bytes, got {}", what, Py_TYPE(from)->tp_name));
  const BytesView bytes(from);
  return {bytes.bytes().begin(), bytes.bytes().end()};
}

void set_payload(Frame& frame, PyObject* from) {
  frame.payload = from ? vector_of(from, "payload") : std::vector<std::uint8_t>();
}
void set_pad(Frame& frame, PyObject* from) {
  if (from)
    frame.pad = vector_of(from, "pad");
  else
    frame.pad.reset();
}
void set_trailer(Frame& frame, PyObject* from) {
  frame.trailer = from ? vector_of(from, "trailer") : std::vector<std::uint8_t>();
}

template <class Number>
void set_crc(std::optional<Number>& crc, bool& with, PyObject* from, std::string_view name) {
  if (!from || from == Py_None) {
    crc.reset();
    with = from == nullptr;
    return;
  }
  if (!PyLong_Check(from))
    throw py::type_error(
        fmt::format("{}: expected an int, or None for a frame without, got {}", name, Py_TYPE(from)->tp_name));
  const unsigned long long number = PyLong_AsUnsignedLongLong(from);
  constexpr unsigned long long most = std::numeric_limits<Number>::max();
  if (PyErr_Occurred() || number > most) {
    PyErr_Clear();
    raise(ErrorClass::usage, fmt::format("{} is {} bits wide: {} does not fit", name, sizeof(Number) * 8,
                                         py::str(py::handle(from)).cast<std::string>()));
  }
  crc = static_cast<Number>(number);
  with = true;
}
void set_icrc(Frame& frame, PyObject* from) { set_crc(frame.icrc, frame.with_icrc, from, "icrc"); }
void set_vcrc(Frame& frame, PyObject* from) { set_crc(frame.vcrc, frame.with_vcrc, from, "vcrc"); }
void set_mpa_crc(Frame& frame, PyObject* from) { set_crc(frame.mpa_crc, frame.with_mpa_crc, from, "mpa_crc"); }

// Invalid values leave the frame unchanged.
template <auto Set>
int set(PyObject* self, PyObject* from, void*) {
  return guard<int>(-1, [&] {
    Frame changed = data_of(self).values();
    Set(changed, from);
    data_of(self).change() = std::move(changed);
    return 0;
  });
}

PyObject* number_at(FrameData& data, Range range) {
  if (range.length == 0) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(load_be(data.view().data() + range.offset, range.length));
}
PyObject* read_icrc(FrameData& data) { return number_at(data, places_of(data).icrc); }
PyObject* read_vcrc(FrameData& data) { return number_at(data, places_of(data).vcrc); }
PyObject* read_mpa_crc(FrameData& data) { return number_at(data, places_of(data).mpa_crc); }

PyObject* status(const CrcCheck& check) {
  const std::string_view word = to_string(check.status);
  return py::str(word.data(), word.size()).release().ptr();
}
PyObject* read_icrc_status(FrameData& data) { return status(data.icrc()); }
PyObject* read_vcrc_status(FrameData& data) { return status(data.vcrc()); }
PyObject* read_mpa_crc_status(FrameData& data) { return status(data.mpa_crc()); }

PyObject* read_findings(FrameData& data) {
  py::list findings;
  for (const ParseError& finding : data.stack().findings()) findings.append(to_exception(finding));
  return py::tuple(findings).release().ptr();
}

PyGetSetDef attributes[] = {
    {"layers", read_layers, nullptr,
     "The headers as a tuple, starting with the link layer. Setting a field changes the frame.", nullptr},
    {"payload", get<read_payload>, set<set_payload>, "Bytes after the headers, without pad and CRCs.", nullptr},
    {"pad", get<read_pad>, set<set_pad>, "Bytes between payload and CRC. If deleted: the required number of zeros.",
     nullptr},
    {"icrc", get<read_icrc>, set<set_icrc>,
     "Invariant CRC in the order of its bytes, first byte highest. None: the frame has no ICRC. If deleted: computed.\n"
     "IBTA vol 1, 7.8.1.",
     nullptr},
    {"vcrc", get<read_vcrc>, set<set_vcrc>,
     "Variant CRC of InfiniBand. None: the frame has no VCRC. If deleted: computed. IBTA vol 1, 7.8.2.", nullptr},
    {"mpa_crc", get<read_mpa_crc>, set<set_mpa_crc>,
     "CRC of an FPDU. None: the frame has no CRC. If deleted: computed. RFC 5044, 4.4.", nullptr},
    {"trailer", get<read_trailer>, set<set_trailer>, "Trailing bytes: Ethernet padding, frame check sequence.",
     nullptr},
    {"icrc_status", get<read_icrc_status>, nullptr,
     "'good', 'bad', 'unverifiable' (truncated packet or fragment), 'absent'.", nullptr},
    {"vcrc_status", get<read_vcrc_status>, nullptr, "See icrc_status.", nullptr},
    {"mpa_crc_status", get<read_mpa_crc_status>, nullptr, "See icrc_status.", nullptr},
    {"findings", get<read_findings>, nullptr, "Errors of the encoded frame: a tuple of up to four ParseError objects.",
     nullptr},
    {"link", get<read_link>, write_link,
     "Type of the first header: 'ethernet', 'infiniband', 'raw_ip', 'linux_sll', … For bytes that start with an FPDU,\n"
     "an MPA frame or a BTH: 'fpdu', 'mpa' or 'bth'.",
     nullptr},
    {"link_type", get<read_link_type>, nullptr, "Link type number of `link` in capture files, or None.", nullptr},
    {"wire", get<read_wire>, nullptr, "'infiniband', 'roce_v1', 'roce_v2', 'iwarp', or None.", nullptr},
    {"wire_length", get<read_wire_length>, nullptr,
     "Bytes on the wire. Larger than len(frame) if the packet is truncated.", nullptr},
    {"time_ns", get<read_time>, write_time, "Capture time: nanoseconds since 1970, or None.", nullptr},
    {"number", get<read_number>, nullptr, "Number in the capture, from 1. 0: not captured.", nullptr},
    {"interface", get<read_interface>, nullptr,
     "Interface as described by the capture file (rdmawire.captures.Interface), or None. Its counters are those read\n"
     "before the interface's first packet.",
     nullptr},
    {"comments", get<read_comments>, nullptr, "Comments of the capture file: a tuple of str.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// --- frame[BTH] -----------------------------------------------------------------------------------------------------

std::size_t find_layer(FrameData& data, PyObject* key) {
  const auto count = static_cast<Py_ssize_t>(data.layer_count());
  if (const HeaderInfo* header = header_of_type(key)) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      if (&data.header(i) == header) return i;
    PyErr_SetString(PyExc_IndexError,
                    fmt::format("the frame has no {}; it has {}", type_name(*header), layer_names(data)).c_str());
    throw py::error_already_set();
  }
  if (PyTuple_Check(key) && PyTuple_GET_SIZE(key) == 2) {
    const HeaderInfo* header = header_of_type(PyTuple_GET_ITEM(key, 0));
    if (header && PyLong_Check(PyTuple_GET_ITEM(key, 1))) {
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        if (&data.header(i) == header) places.push_back(i);
      Py_ssize_t which = PyLong_AsSsize_t(PyTuple_GET_ITEM(key, 1));
      if (which == -1 && PyErr_Occurred()) throw py::error_already_set();
      if (which < 0) which += static_cast<Py_ssize_t>(places.size());
      if (which >= 0 && which < static_cast<Py_ssize_t>(places.size())) return places[static_cast<std::size_t>(which)];
      throw py::index_error(
          fmt::format("the frame has {} {}; its headers are {}", places.size(), type_name(*header), layer_names(data)));
    }
  }
  if (PyLong_Check(key)) {
    Py_ssize_t i = PyLong_AsSsize_t(key);
    if (i == -1 && PyErr_Occurred()) throw py::error_already_set();
    if (i < 0) i += count;
    if (i >= 0 && i < count) return static_cast<std::size_t>(i);
    throw py::index_error(fmt::format("the frame has {} headers: {}", count, layer_names(data)));
  }
  throw py::type_error(
      fmt::format("expected a header class (frame[BTH], frame[IPv4, 1]) or an index, got {}", Py_TYPE(key)->tp_name));
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guard([&] { return new_layer(as_frame(self), find_layer(data_of(self), key)); });
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* from) {
  return guard<int>(-1, [&] {
    FrameData& data = data_of(self);
    const std::size_t i = find_layer(data, key);
    if (!from) throw py::type_error("headers cannot be deleted; use frame.without(BTH)");
    if (!is_header(from) || as_header(from)->header != &data.header(i))
      throw py::type_error(fmt::format("expected a {}", type_name(data.header(i))));
    HeaderValue value = value_of(as_header(from));
    data.change().layers[i] = std::move(value);
    if (data.header(i).find("opcode")) Py_CLEAR(as_frame(self)->follows);
    return 0;
  });
}

int contains(PyObject* self, PyObject* key) {
  return guard<int>(-1, [&] {
    const HeaderInfo* header = header_of_type(key);
    if (!header) throw py::type_error("expected a header class: BTH in frame");
    FrameData& data = data_of(self);
    for (std::size_t i = 0; i < data.layer_count(); ++i)
      if (&data.header(i) == header) return 1;
    return 0;
  });
}

Py_ssize_t size(PyObject* self) {
  return guard<Py_ssize_t>(-1, [&] { return static_cast<Py_ssize_t>(data_of(self).view().size()); });
}
int truth(PyObject*) { return 1; }

int buffer(PyObject* self, Py_buffer* view, int flags) {
  return guard<int>(-1, [&] {
    const int result = PyObject_GetBuffer(data_of(self).bytes().ptr(), view, flags);
    return result;
  });
}

// --- methods --------------------------------------------------------------------------------------------------------

PyObject* dunder_bytes(PyObject* self, PyObject*) {
  return guard([&] { return Py_NewRef(data_of(self).bytes().ptr()); });
}

PyObject* copy(PyObject* self, PyObject*) {
  return guard([&] {
    PyObject* made = new_frame(FrameData(data_of(self)));
    as_frame(made)->follows = Py_XNewRef(as_frame(self)->follows);
    return made;
  });
}

PyObject* get_layer(PyObject* self, PyObject* key) {
  const int found = contains(self, key);
  if (found < 0) return nullptr;
  if (!found) Py_RETURN_NONE;
  return subscript(self, key);
}

PyObject* without(PyObject* self, PyObject* key) {
  return guard([&] {
    FrameData& data = data_of(self);
    const std::size_t i = find_layer(data, key);
    Frame values = data.values();
    values.layers.erase(values.layers.begin() + static_cast<std::ptrdiff_t>(i));
    FrameData made(std::move(values), data.link);
    made.time_ns = data.time_ns;
    made.origin = data.origin;
    return new_frame(std::move(made));
  });
}

PyObject* recompute(PyObject* self, PyObject*) {
  return guard([&] {
    Frame& frame = data_of(self).change();
    frame.forget_computed();
    frame.with_icrc = frame.with_vcrc = frame.with_mpa_crc = true;
    return Py_NewRef(self);
  });
}

// Removes the columns for number and time if the frame was not captured.
std::string tree_of(FrameData& data) {
  std::string text;
  output::append_tree(text, data.packet());
  constexpr std::string_view number = "Frame 0", last = " UTC  ";
  if (data.number == 0 && data.time_ns) text.erase(number.size() - 2, 2);
  if (data.number == 0 && !data.time_ns) text = "Frame  " + text.substr(text.find(last) + last.size());
  return text;
}

std::string summary_of(FrameData& data) {
  // Times are absolute, because the first packet of the capture is unknown here.
  const output::LineOptions options{data.time_ns ? output::TimeStyle::absolute : output::TimeStyle::relative};
  std::string line = output::one_line(data.packet(), options);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  const auto cut_word = [&] {
    line.erase(0, line.find_first_not_of(' '));
    std::string word = line.substr(0, line.find(' '));
    line.erase(0, word.size());
    return word;
  };
  const std::string number = cut_word();
  if (!data.time_ns) cut_word();
  line.erase(0, line.find_first_not_of(' '));
  return data.number == 0 ? line : number + "  " + line;
}

PyObject* show(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guard([&] { return print_or_return(tree_of(data_of(self)), arguments, keywords); });
}

PyObject* hexdump(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guard([&] {
    std::string text;
    output::append_hexdump(text, data_of(self).packet());
    return print_or_return(text, arguments, keywords);
  });
}

PyObject* summary(PyObject* self, PyObject*) {
  return guard([&] { return py::str(summary_of(data_of(self))).release().ptr(); });
}

PyObject* to_dict(PyObject* self, PyObject*) {
  return guard([&] {
    static auto* writer = new output::JsonWriter;
    static const py::handle loads = py::object(py::module_::import("json").attr("loads")).release();
    FrameData& data = data_of(self);
    std::string text;
    writer->append(text, data.packet());
    py::dict made = loads(py::str(text));
    // Frames that were not captured lack number and time.
    if (data.number == 0) made.attr("pop")("frame");
    if (!data.time_ns) made.attr("pop")("time");
    made["link"] = link_word(data.link);
    if (const CrcCheck crc = data.mpa_crc(); crc.status != CrcCheck::Status::absent) {
      py::dict checked_crc;
      checked_crc["status"] = std::string(to_string(crc.status));
      if (crc.status != CrcCheck::Status::unverifiable) checked_crc["value"] = fmt::format("0x{:08x}", crc.value);
      if (crc.status == CrcCheck::Status::bad) checked_crc["computed"] = fmt::format("0x{:08x}", crc.computed);
      made["crc"] = checked_crc;
    }
    return made.release().ptr();
  });
}

PyObject* command(PyObject* self, PyObject*) {
  return guard([&] { return py::str(command_of(data_of(self))).release().ptr(); });
}

/// HTML for notebooks: the text of show().
PyObject* html(PyObject* self, PyObject*) {
  return guard([&] {
    std::string page = "<pre style=\"line-height:1.2\">";
    for (const char c : tree_of(data_of(self)))
      page += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return py::str(page + "</pre>").release().ptr();
  });
}

/// Iterates over the bytes, so that list() and len() agree.
PyObject* iterate(PyObject* self) {
  return guard([&] {
    const py::object bytes = data_of(self).bytes();
    return checked(PyObject_GetIter(bytes.ptr()));
  });
}

PyObject* represent(PyObject* self) {
  return guard([&] {
    FrameData& data = data_of(self);
    std::string text = "<Frame";
    for (std::size_t i = 0; i < data.layer_count(); ++i) {
      text += i ? " / " : " ";
      text += type_name(data.header(i));
    }
    return py::str(fmt::format("{}, {} bytes>", text, data.view().size())).release().ptr();
  });
}

// Checks a pickled origin. Raises TypeError if it is invalid.
py::object origin_of(const py::object& state) {
  if (state.is_none()) return {};
  if (!PyTuple_CheckExact(state.ptr()) || PyTuple_GET_SIZE(state.ptr()) != 2 ||
      !PyTuple_Check(PyTuple_GET_ITEM(state.ptr(), 1)))
    throw py::type_error("the origin of a frame must be a tuple of interface and comments");
  return state;
}

// Pickles captured frames as bytes, other frames as their parts.
PyObject* reduce(PyObject* self, PyObject*) {
  return guard([&] {
    FrameData& data = data_of(self);
    const py::object of = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type));
    const py::object time = data.time_ns ? py::object(py::int_(*data.time_ns)) : py::none();
    const py::object origin = data.origin ? data.origin : py::none();
    if (data.is_captured())
      return py::make_tuple(of.attr("_captured"), py::make_tuple(data.bytes(), static_cast<unsigned>(data.link),
                                                                 data.wire_length(), time, data.number, origin))
          .release()
          .ptr();
    const Frame& values = data.values();
    py::list layers;
    for (const HeaderValue& layer : values.layers) layers.append(py::reinterpret_steal<py::object>(new_header(layer)));
    const auto crc = [](const auto& given, bool with) -> py::object {
      if (!with) return py::none();
      return given ? py::object(py::int_(*given)) : py::object(py::str("auto"));
    };
    return py::make_tuple(of.attr("_made"),
                          py::make_tuple(layers, to_bytes(values.payload),
                                         values.pad ? py::object(to_bytes(*values.pad)) : py::none(),
                                         crc(values.icrc, values.with_icrc), crc(values.vcrc, values.with_vcrc),
                                         crc(values.mpa_crc, values.with_mpa_crc), to_bytes(values.trailer),
                                         static_cast<unsigned>(data.link), time, data.number, origin))
        .release()
        .ptr();
  });
}

PyObject* restore_captured(PyObject*, PyObject* state) {
  return guard([&] {
    const auto parts = py::reinterpret_borrow<py::tuple>(state);
    const auto bytes = parts[0].cast<py::object>();
    if (!PyBytes_CheckExact(bytes.ptr())) throw py::type_error("the pickled frame must be bytes");
    FrameData data(py::reinterpret_borrow<py::bytes>(bytes), LinkType{parts[1].cast<std::uint16_t>()},
                   parts[2].cast<std::uint32_t>());
    data.time_ns = parts[3].cast<std::optional<std::int64_t>>();
    data.number = parts[4].cast<std::uint64_t>();
    data.origin = origin_of(parts[5]);
    return new_frame(std::move(data));
  });
}

PyObject* restore_made(PyObject*, PyObject* state) {
  return guard([&] {
    const auto parts = py::reinterpret_borrow<py::tuple>(state);
    Frame values;
    for (const py::handle layer : parts[0]) {
      if (!is_header(layer.ptr())) throw py::type_error("expected headers");
      values /= value_of(as_header(layer.ptr()));
    }
    const auto object = [&](std::size_t i) { return parts[i].cast<py::object>(); };
    const auto crc = [&](std::size_t i) { return py::isinstance<py::str>(object(i)) ? nullptr : object(i).ptr(); };
    set_payload(values, object(1).ptr());
    if (!object(2).is_none()) set_pad(values, object(2).ptr());
    set_icrc(values, crc(3));
    set_vcrc(values, crc(4));
    set_mpa_crc(values, crc(5));
    set_trailer(values, object(6).ptr());
    FrameData data(std::move(values), LinkType{parts[7].cast<std::uint16_t>()});
    data.time_ns = parts[8].cast<std::optional<std::int64_t>>();
    data.number = parts[9].cast<std::uint64_t>();
    data.origin = origin_of(parts[10]);
    return new_frame(std::move(data));
  });
}

PyObject* compare(PyObject* left, PyObject* right, int operation) {
  return guard([&]() -> PyObject* {
    if ((operation != Py_EQ && operation != Py_NE) || !is_frame(right)) Py_RETURN_NOTIMPLEMENTED;
    FrameData &a = data_of(left), &b = data_of(right);
    const bool same = a.link == b.link && std::ranges::equal(a.view(), b.view());
    return PyBool_FromLong(same == (operation == Py_EQ));
  });
}

PyObject* make(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
  return guard([&] {
    Frame values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
      PyObject* part = PyTuple_GET_ITEM(arguments, i);
      if (!append(values, part))
        throw py::type_error(fmt::format("expected headers, frames, bytes or str, got {}", Py_TYPE(part)->tp_name));
    }
    LinkType link = link_of_first(values);
    std::optional<std::int64_t> time_ns;
    std::uint64_t number = 0;
    PyObject *name = nullptr, *from = nullptr;
    Py_ssize_t at = 0;
    while (keywords && PyDict_Next(keywords, &at, &name, &from)) {
      const auto is = [&](const char* word) { return PyUnicode_CompareWithASCIIString(name, word) == 0; };
      if (is("payload"))
        set_payload(values, from);
      else if (is("pad"))
        set_pad(values, from);
      else if (is("icrc"))
        set_icrc(values, from);
      else if (is("vcrc"))
        set_vcrc(values, from);
      else if (is("mpa_crc"))
        set_mpa_crc(values, from);
      else if (is("trailer"))
        set_trailer(values, from);
      else if (is("link"))
        link = link_from(from);
      else if (is("time_ns") && from != Py_None)
        time_ns = signed_number("time_ns", from);
      else if (is("number"))
        number = unsigned_number("number", from);
      else if (!is("time_ns"))
        throw py::type_error(
            fmt::format("Frame() has no argument '{}'", py::str(py::handle(name)).cast<std::string>()));
    }
    FrameData data(std::move(values), link);
    data.time_ns = time_ns;
    data.number = number;
    return new_frame(std::move(data));
  });
}

template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"__bytes__", dunder_bytes, METH_NOARGS, "Return the encoded frame."},
    {"__copy__", copy, METH_NOARGS, "Return a copy."},
    {"__deepcopy__", copy, METH_O, "Return a copy."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"_captured", restore_captured, METH_VARARGS | METH_CLASS, nullptr},
    {"_made", restore_made, METH_VARARGS | METH_CLASS, nullptr},
    {"copy", copy, METH_NOARGS, "copy($self, /)\n--\n\nReturn an independent copy."},
    {"get", get_layer, METH_O, "get($self, header, /)\n--\n\nReturn the first header of this class, or None."},
    {"without", without, METH_O,
     "without($self, header, /)\n--\n\nReturn a frame without this header (class or index)."},
    {"recompute", recompute, METH_NOARGS,
     "recompute($self, /)\n--\n\nReset computed parts: lengths, checksums, pad, CRCs. Returns the frame."},
    {"show", method(show), METH_VARARGS | METH_KEYWORDS,
     "show($self, /, *, dump=False)\n--\n\nPrint all layers and fields of the encoded frame, or return the text with "
     "dump=True."},
    {"hexdump", method(hexdump), METH_VARARGS | METH_KEYWORDS,
     "hexdump($self, /, *, dump=False)\n--\n\nPrint the bytes with marked layers, or return the text with dump=True."},
    {"summary", summary, METH_NOARGS,
     "summary($self, /)\n--\n\nReturn one line, as `rdmawire dissect --time absolute` prints it. Frames\n"
     "that were not captured have no number and no time."},
    {"to_dict", to_dict, METH_NOARGS,
     "to_dict($self, /)\n--\n\nReturn the frame with the keys of `rdmawire dissect --json`. Unknown keys are omitted."},
    {"command", command, METH_NOARGS,
     "command($self, /)\n--\n\nReturn a Python expression that creates a frame with the same bytes."},
    {"__rdiv__", refuse_scapy, METH_O, nullptr},
    {"_repr_html_", html, METH_NOARGS, "Return HTML for notebooks: the text of show()."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc,
     const_cast<char*>(
         "Frame(*parts, payload=b'', pad, icrc, vcrc, mpa_crc, trailer=b'', link, time_ns=None, number=0)\n\n"
         "A frame of headers and payload.\n\n"
         "Parts that are not set are computed when the frame is encoded: lengths, protocol numbers, checksums,\n"
         "pad, CRCs. Parts that are set are encoded unchanged, even if invalid. All parts of a captured frame\n"
         "are set.\n\n"
         "Frames are mutable and have no hash. Frames with the same bytes and link type are equal.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_iter, reinterpret_cast<void*>(iterate)},
    {Py_nb_true_divide, reinterpret_cast<void*>(divide)},
    {Py_nb_bool, reinterpret_cast<void*>(truth)},
    {Py_sq_contains, reinterpret_cast<void*>(contains)},
    {Py_mp_length, reinterpret_cast<void*>(size)},
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_subscript)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(buffer)},
    {0, nullptr},
};

// --- functions of the module ----------------------------------------------------------------------------------------

py::object parse(const py::object& from, const py::object& link_word, bool strict, std::uint32_t wire_length,
                 std::optional<std::int64_t> time_ns, std::uint64_t number) {
  const LinkType link = link_from(link_word);
  py::bytes bytes =
      PyBytes_CheckExact(from.ptr()) ? py::reinterpret_borrow<py::bytes>(from) : to_bytes(BytesView(from).bytes());
  FrameData data(std::move(bytes), link, wire_length);
  data.time_ns = time_ns;
  data.number = number;
  if (strict && !data.stack().findings().empty()) raise(data.stack().findings().front());
  return py::reinterpret_steal<py::object>(new_frame(std::move(data)));
}

py::list segments(const py::object& frame, std::uint32_t mtu) {
  if (!is_frame(frame)) throw py::type_error("segment(): expected a Frame");
  FrameData& data = data_of(frame.ptr());
  py::list made;
  for (Frame& packet : segment(data.values(), mtu))
    made.append(py::reinterpret_steal<py::object>(new_frame(FrameData(std::move(packet), data.link))));
  if (made.empty())
    raise(ErrorClass::usage,
          fmt::format("segment() at MTU {}: expected an MTU of 256, 512, 1024, 2048 or 4096, and a frame with payload "
                      "and an opcode of position First or Only",
                      mtu));
  return made;
}

py::object let_follow(const py::object& frame, const py::object& follows) {
  if (!is_frame(frame)) throw py::type_error("_let_follow(): expected a Frame");
  Py_XSETREF(as_frame(frame.ptr())->follows, Py_NewRef(follows.ptr()));
  return frame;
}

/// Returns the frame to which `right` is appended: `left`, or the result of its `follows` function.
py::object frame_before(PyObject* left, PyObject* right) {
  PyObject* follows = as_frame(left)->follows;
  if (!follows) return py::reinterpret_borrow<py::object>(left);
  const py::object decide = py::reinterpret_borrow<py::object>(follows);  // the called function may change the frame
  py::object made = decide(py::reinterpret_steal<py::object>(new_frame(FrameData(data_of(left)))), py::handle(right));
  if (!is_frame(made)) throw py::type_error("the function of _let_follow() must return a Frame");
  return made;
}

}  // namespace

py::object print_or_return(const std::string& text, bool dump) {
  py::object object = py::reinterpret_steal<py::object>(
      checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  if (dump) return object;
  PyObject* out = PySys_GetObject("stdout");
  if (out && out != Py_None && PyFile_WriteObject(object.ptr(), out, Py_PRINT_RAW) != 0) throw py::error_already_set();
  return py::none();
}

PyObject* print_or_return(const std::string& text, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"dump", nullptr};
  int dump = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$p", const_cast<char**>(names), &dump)) return nullptr;
  return print_or_return(text, dump != 0).release().ptr();
}

PyObject* refuse_scapy(PyObject*, PyObject* left) {
  return guard([&]() -> PyObject* { refuse_scapy_header(left); });
}

PyTypeObject* frame_type() { return type; }
bool is_frame(PyObject* object) { return Py_IS_TYPE(object, type); }

PyObject* new_frame(FrameData&& data) {
  PyObject* object = checked(type->tp_alloc(type, 0));
  new (&as_frame(object)->data) FrameData(std::move(data));
  return object;
}

PyObject* divide(PyObject* left, PyObject* right) {
  return guard([&]() -> PyObject* {
    if (!is_frame(left) && !is_header(left)) Py_RETURN_NOTIMPLEMENTED;
    Frame frame;
    LinkType link = LinkType::ethernet;
    if (is_frame(left)) {
      const py::object before = frame_before(left, right);
      frame = data_of(before.ptr()).values();
      link = data_of(left).link;
    } else {
      frame /= value_of(as_header(left));
      link = link_of(*as_header(left)->header);
    }
    if (!append(frame, right)) Py_RETURN_NOTIMPLEMENTED;
    return new_frame(FrameData(std::move(frame), link));
  });
}

py::object make_frame(Bytes bytes, LinkType link, std::uint32_t wire_length, std::optional<std::int64_t> time_ns,
                      std::uint64_t number, py::object origin) {
  FrameData data(to_bytes(bytes), link, wire_length);
  data.time_ns = time_ns;
  data.number = number;
  data.origin = std::move(origin);
  return py::reinterpret_steal<py::object>(new_frame(std::move(data)));
}
LinkType link_of_first(const Frame& frame) {
  return frame.layers.empty() ? LinkType::ethernet : link_of(frame.layers.front().header());
}

py::object make_frame(Frame values, LinkType link) {
  return py::reinterpret_steal<py::object>(new_frame(FrameData(std::move(values), link)));
}

bool is_frame(py::handle object) { return is_frame(object.ptr()); }
Bytes frame_bytes(py::handle frame) {
  FrameData& data = data_of(frame.ptr());
  static_cast<void>(data.bytes());  // raises if a computed length does not fit
  return data.view();
}
LinkType frame_link(py::handle frame) { return data_of(frame.ptr()).link; }
Frame frame_values(py::handle frame) { return data_of(frame.ptr()).values(); }

LinkType link_from(py::handle word) {
  if (PyLong_Check(word.ptr())) {
    const unsigned long number = PyLong_AsUnsignedLong(word.ptr());
    if (PyErr_Occurred() || number > 0xffff) {
      PyErr_Clear();
      raise(ErrorClass::usage, "link: expected a number of 16 bits");
    }
    return LinkType{static_cast<std::uint16_t>(number)};
  }
  if (!PyUnicode_Check(word.ptr()))
    throw py::type_error(fmt::format("link: expected str or int, got {}", Py_TYPE(word.ptr())->tp_name));
  const auto text = word.cast<std::string>();
  const std::optional<LinkType> link = link_of(text);
  if (!link)
    raise(ErrorClass::usage, fmt::format("link='{}': expected 'ethernet', 'infiniband', 'raw_ip', 'linux_sll', "
                                         "'linux_sll2', 'erf', 'null_loopback', 'ipv4', 'ipv6', 'fpdu', 'mpa' or 'bth'",
                                         text));
  return *link;
}

void make_frame_type(py::module_& module) {
  PyType_Spec spec{"rdmawire.Frame", static_cast<int>(sizeof(FrameObject)), 0, Py_TPFLAGS_DEFAULT, slots};
  PyObject* made = checked(PyType_FromSpec(&spec));
  type = reinterpret_cast<PyTypeObject*>(made);
  module.add_object("Frame", py::reinterpret_borrow<py::object>(made));
}

void bind_frames(py::module_& module) {
  make_header_types(module);
  make_frame_type(module);
  // Names that the package exports unchanged.
  py::list names;
  for (const char* name : {"Header", "Frame", "parse", "segment", "HEADERS", "ENUMERATIONS"}) names.append(name);
  for (const char* all : {"HEADERS", "ENUMERATIONS"})
    for (const py::handle made : module.attr(all)) names.append(made.attr("__name__"));
  module.attr("__all__") = names;
  module.def("parse", &parse, py::arg("data"), py::arg("link") = "ethernet", py::kw_only(), py::arg("strict") = false,
             py::arg("wire_length") = 0, py::arg("time_ns") = py::none(), py::arg("number") = 0,
             "Return a frame of these bytes. Errors are in its findings. strict: raise the first error instead.");
  module.def("_let_follow", &let_follow, py::arg("frame"), py::arg("follows"),
             "Set the function of the frame that `/` calls with a copy and the appended part, until an opcode is set. "
             "Returns the frame.");
  module.def(
      "segment", &segments, py::arg("frame"), py::arg("mtu"),
      "Return the packets of one message at a path MTU (256 to 4096). `frame` is a request or READ response with\n"
      "position Only or First, and contains the complete payload. PSNs count up from the frame's PSN.");
}

}  // namespace rdmawire::python
