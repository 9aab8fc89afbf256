#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/protocol/layer_bytes.hpp"
#include "dissectors/protocol/registry.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/field_value.hpp"
#include "pysdk/src/guard.hpp"
#include "pysdk/src/objects.hpp"

namespace rdmawire::python {
namespace {

struct HeaderClass {
  PyTypeObject* type = nullptr;
  std::vector<Attribute> attributes;
  std::vector<PyGetSetDef> getset;
  std::string qualified, doc;
};

// These exist until the interpreter ends.
PyTypeObject* base = nullptr;
std::unordered_map<const HeaderInfo*, HeaderClass>& classes() {
  static auto* all = new std::unordered_map<const HeaderInfo*, HeaderClass>;
  return *all;
}
std::unordered_map<const PyTypeObject*, const HeaderInfo*>& infos() {
  static auto* all = new std::unordered_map<const PyTypeObject*, const HeaderInfo*>;
  return *all;
}

PyObject* allocate(PyTypeObject* type, const HeaderInfo& header) {
  PyObject* object = checked(type->tp_alloc(type, 0));
  HeaderObject* made = as_header(object);
  made->header = &header;
  new (&made->value) std::optional<HeaderValue>();
  return object;
}

void destroy(PyObject* self) {
  HeaderObject* header = as_header(self);
  header->value.~optional();
  Py_CLEAR(header->frame);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Encodes a header without a frame.
std::vector<std::uint8_t> encoded(const HeaderValue& value) {
  Frame frame;
  frame /= value;
  std::vector<std::uint8_t> raw = frame.encode();
  raw.resize(bytes_in_packet(value));
  return raw;
}

PyObject* get_field(PyObject* self, void* closure) {
  return guard([&]() -> PyObject* {
    const auto& attribute = *static_cast<const Attribute*>(closure);
    HeaderObject* header = as_header(self);
    if (!attribute.field) {
      const Bytes tail = header->frame ? header->frame->data.layer(header->index).subspan(attribute.header->size)
                                       : header->value->tail();
      return to_bytes(tail).release().ptr();
    }
    const Field& f = *attribute.field;
    if (header->frame) return to_python(f, header->frame->data.layer_with(header->index, f), attribute.enumeration);
    if (header->value->given(f)) return to_python(f, header->value->bytes().data(), attribute.enumeration);
    return to_python(f, encoded(*header->value).data(), attribute.enumeration);
  });
}

void set_tail(HeaderValue& value, const Attribute& attribute, PyObject* from) {
  if (PyLong_Check(from) || PyUnicode_Check(from))
    throw py::type_error(fmt::format("{}.{}: expected bytes, got {}", attribute.header->name, attribute.header->tail,
                                     Py_TYPE(from)->tp_name));
  value.set_tail(BytesView(from).bytes());
}

void set(HeaderValue& value, const Attribute& attribute, PyObject* from) {
  if (!attribute.field) return set_tail(value, attribute, from);
  const Field& f = *attribute.field;
  if (f.is_decoded())
    throw py::attribute_error(fmt::format("{}.{} is derived from {} and cannot be set", attribute.header->name, f.name,
                                          f.name.substr(0, f.name.rfind('.'))));
  set_from_python(value, f, from);
}

void forget_attribute(HeaderValue& value, const Attribute& attribute) {
  if (attribute.field)
    forget(value, *attribute.field);
  else
    value.set_tail({});
}

int set_field(PyObject* self, PyObject* from, void* closure) {
  return guard<int>(-1, [&] {
    const auto& attribute = *static_cast<const Attribute*>(closure);
    HeaderObject* header = as_header(self);
    if (!header->frame) {
      from ? set(*header->value, attribute, from) : forget_attribute(*header->value, attribute);
      return 0;
    }
    // Work on a copy: invalid values leave the frame unchanged, and reading the value may change the frame.
    HeaderValue value = header->frame->data.layer_value(header->index);
    from ? set(value, attribute, from) : forget_attribute(value, attribute);
    header->frame->data.change().layers[header->index] = std::move(value);
    if (attribute.field && attribute.field->name == "opcode") Py_CLEAR(header->frame->follows);
    return 0;
  });
}

const Attribute* find_attribute(const HeaderClass& of, PyObject* name) {
  for (const Attribute& attribute : of.attributes)
    if (attribute.interned == name) return &attribute;
  for (const Attribute& attribute : of.attributes)
    if (PyUnicode_Compare(attribute.interned, name) == 0) return &attribute;
  return nullptr;
}

const HeaderClass& class_of(PyTypeObject* type) {
  const auto found = infos().find(type);
  if (found == infos().end())
    throw py::type_error("Header is an abstract class; use a header class such as BTH or IPv4");
  return classes().at(found->second);
}

std::string unknown_field(const HeaderClass& of, PyObject* name) {
  const auto given = py::str(py::handle(name)).cast<std::string>();
  std::vector<std::string> names;
  for (const Attribute& one : of.attributes) names.push_back(one.name);
  std::string hint = output::did_you_mean(given, names);
  constexpr std::size_t most_listed = 30;
  if (hint.empty() && names.size() > most_listed) hint = fmt::format("; help({}) lists the fields", of.type->tp_name);
  if (hint.empty()) hint = fmt::format("; its fields are {}", fmt::join(names, ", "));
  return fmt::format("{} has no field '{}'{}", of.type->tp_name, given, hint);
}

/// Add the similar name of a field to the AttributeError of an unknown attribute.
void explain_unknown(PyObject* self, PyObject* name) {
  // Private names are requested by protocols such as copying and notebooks.
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0 || PyUnicode_READ_CHAR(name, 0) == '_') return;
  py::error_already_set error;
  if (PyObject_HasAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), name) != 0) {  // read only
    error.restore();
    return;
  }
  if (!PyUnicode_AsUTF8(name)) {  // a surrogate
    PyErr_Clear();
    error.restore();
    return;
  }
  PyErr_SetString(PyExc_AttributeError, unknown_field(class_of(Py_TYPE(self)), name).c_str());
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (!value) explain_unknown(self, name);
  return value;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int status = PyObject_GenericSetAttr(self, name, value);
  if (status != 0) explain_unknown(self, name);
  return status;
}

void set_named(HeaderValue& value, const HeaderClass& of, PyObject* name, PyObject* from) {
  const Attribute* attribute = find_attribute(of, name);
  if (!attribute) throw py::type_error(unknown_field(of, name));
  set(value, *attribute, from);
}

[[noreturn]] void no_positions(const HeaderClass& of) {
  throw py::type_error(fmt::format("{}() accepts only keyword arguments: {}({}=…)", of.type->tp_name, of.type->tp_name,
                                   of.attributes.front().name));
}

PyObject* call(PyObject* type, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  return guard([&] {
    const HeaderClass& of = class_of(reinterpret_cast<PyTypeObject*>(type));
    if (PyVectorcall_NARGS(flags)) no_positions(of);
    HeaderValue value(*of.attributes.front().header);
    const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) set_named(value, of, PyTuple_GET_ITEM(names, i), arguments[i]);
    return new_header(std::move(value));
  });
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return guard([&] {
    const HeaderClass& of = class_of(type);
    if (PyTuple_GET_SIZE(arguments)) no_positions(of);
    HeaderValue value(*of.attributes.front().header);
    PyObject *name = nullptr, *from = nullptr;
    Py_ssize_t at = 0;
    while (keywords && PyDict_Next(keywords, &at, &name, &from)) set_named(value, of, name, from);
    return new_header(std::move(value));
  });
}

PyObject* compare(PyObject* left, PyObject* right, int operation) {
  return guard([&]() -> PyObject* {
    if ((operation != Py_EQ && operation != Py_NE) || !is_header(right)) Py_RETURN_NOTIMPLEMENTED;
    const bool same =
        as_header(left)->header == as_header(right)->header && bytes_of(as_header(left)) == bytes_of(as_header(right));
    return PyBool_FromLong(same == (operation == Py_EQ));
  });
}

PyObject* represent(PyObject* self) {
  return guard([&] { return py::str(expression_of(value_of(as_header(self)))).release().ptr(); });
}

PyObject* dunder_bytes(PyObject* self, PyObject*) {
  return guard([&] { return to_bytes(bytes_of(as_header(self))).release().ptr(); });
}

PyObject* copy(PyObject* self, PyObject*) {
  return guard([&] { return new_header(value_of(as_header(self))); });
}

Py_ssize_t size(PyObject* self) {
  return guard<Py_ssize_t>(-1, [&] { return static_cast<Py_ssize_t>(bytes_of(as_header(self)).size()); });
}

int truth(PyObject*) { return 1; }

// Pickles the class, the bytes, and one digit per field: 1 if the field is set.
PyObject* reduce(PyObject* self, PyObject*) {
  return guard([&] {
    const HeaderValue value = value_of(as_header(self));
    std::string given;
    for (const Field& f : value.header().fields) given += value.given(f) ? '1' : '0';
    const py::object of = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(self)));
    return py::make_tuple(of.attr("_restore"), py::make_tuple(to_bytes(value.bytes()), given)).release().ptr();
  });
}

PyObject* restore(PyObject* type, PyObject* state) {
  return guard([&] {
    const HeaderInfo& header = *class_of(reinterpret_cast<PyTypeObject*>(type)).attributes.front().header;
    const auto parts = py::reinterpret_borrow<py::tuple>(state);
    const BytesView raw(parts[0]);
    const auto given = parts[1].cast<std::string>();
    const Bytes bytes = raw.bytes();
    if (bytes.size() < header.size || given.size() != header.fields.size())
      raise(ErrorClass::usage, fmt::format("a pickled {} cannot have {} bytes", type_name(header), bytes.size()));
    HeaderValue value(header);
    if (!header.tail.empty()) value.set_tail(bytes.subspan(header.size));
    std::copy_n(bytes.begin(), header.size, value.mutable_bytes().begin());
    // Setting a part sets the complete field: set all fields first, then reset the others.
    for (const char state_of_field : {'1', '0'})
      for (std::size_t i = 0; i < given.size(); ++i) {
        const Field& f = header.fields[i];
        if (given[i] != state_of_field) continue;
        if (state_of_field == '0') {
          value.forget(f);
        } else if (f.is_number()) {
          value.set(f, value.get(f));
        } else {
          value.set(f, bytes.subspan(f.bit / 8, f.width / 8U));
        }
      }
    return new_header(std::move(value));
  });
}

PyObject* show(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guard([&] {
    const std::vector<std::uint8_t> bytes = bytes_of(as_header(self));
    tracking::Packet packet;
    packet.stack.reset(bytes, static_cast<std::uint32_t>(bytes.size()));
    packet.stack.push(*as_header(self)->header, 0, static_cast<std::uint32_t>(bytes.size()));
    std::string text;
    output::append_tree(text, packet);
    text.erase(0, text.find('\n') + 1);  // removes the line about the frame
    return print_or_return(text, arguments, keywords);
  });
}

PyObject* refuse_subclass(PyObject*, PyObject*, PyObject*) {
  PyErr_SetString(
      PyExc_TypeError,
      "Header cannot have subclasses: define_header() makes a class for your own header (docs/reference/scapy.md)");
  return nullptr;
}

PyMethodDef header_methods[] = {
    {"__init_subclass__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(refuse_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {"__rdiv__", refuse_scapy, METH_O, nullptr},
    {"show", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(show)), METH_VARARGS | METH_KEYWORDS,
     "show($self, /, *, dump=False)\n--\n\nPrint all fields of the encoded header, or return the text with dump=True."},
    {"__bytes__", dunder_bytes, METH_NOARGS, "Return the encoded header."},
    {"__copy__", copy, METH_NOARGS, "Return a copy that belongs to no frame."},
    {"__deepcopy__", copy, METH_O, "Return a copy that belongs to no frame."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"_restore", restore, METH_VARARGS | METH_CLASS, nullptr},
    {"copy", copy, METH_NOARGS, "copy($self, /)\n--\n\nReturn a copy with the same fields that belongs to no frame."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot base_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("Base class of headers. The operator `/` combines headers: IPv4() / UDP() / BTH().\n\n"
                       "Fields are attributes. Fields that are not set are computed when the frame is encoded.\n"
                       "`del header.field` resets a field. Setting a field of a header returned by a frame changes\n"
                       "the frame.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_methods, header_methods},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_nb_true_divide, reinterpret_cast<void*>(divide)},
    {Py_nb_bool, reinterpret_cast<void*>(truth)},
    {Py_sq_length, reinterpret_cast<void*>(size)},
    {0, nullptr},
};

std::string attribute_name(std::string_view field) {
  std::string name(field);
  std::replace(name.begin(), name.end(), '.', '_');
  static const py::handle is_keyword = py::object(py::module_::import("keyword").attr("iskeyword")).release();
  if (is_keyword(name).cast<bool>()) name += '_';
  return name;
}

/// Returns the default of a field that is not computed. Empty: 0, or the field does not exist by default.
std::string default_text(const Field& f, const Enumeration* enumeration, const std::uint8_t* defaults) {
  if (form_of(f) != Form::number || f.is_decoded() || !f.present_in(defaults) || f.load(defaults) == 0) return {};
  const std::uint64_t number = f.load(defaults);
  if (PyObject* member = enumeration ? enumeration->find(number) : nullptr)
    return py::handle(member).attr("name").cast<std::string>();
  return f.display == Display::hexadecimal ? fmt::format("{:#x}", number) : fmt::format("{}", number);
}

/// `defaults`: the encoded header without set fields.
std::string describe(const HeaderInfo& header, const Field& f, const Enumeration* enumeration,
                     const std::uint8_t* defaults) {
  std::string doc(f.meaning);
  if (!doc.empty()) doc += ". ";
  doc += fmt::format("{} bit{} at {}.{}", f.width, f.width == 1 ? "" : "s", f.bit / 8, f.bit % 8);
  if (f.little_endian) doc += ", little endian";
  if (enumeration) doc += fmt::format("; {}", enumeration->type().attr("__name__").cast<std::string>());
  if (f.is_computed)
    doc += "; computed if not set";
  else if (const std::string usual = default_text(f, enumeration, defaults); !usual.empty())
    doc += "; default " + usual;
  if (f.is_decoded()) doc += "; read only";
  return doc + fmt::format(". {}.", f.section.empty() ? header.section : f.section);
}

void make_class(const HeaderInfo& header) {
  const std::vector<std::uint8_t> defaults = encoded(HeaderValue(header));
  HeaderClass& made = classes()[&header];
  const std::string name(type_name(header));
  made.qualified = "rdmawire." + name;
  made.doc = fmt::format("{}. {}.\n\nIn filters and JSON: {}; {} bytes{}.", header.title, header.section, header.name,
                         header.size, header.tail.empty() ? "" : fmt::format(" and {}", header.tail));
  const auto add = [&](const Field* f, std::string_view called, std::string doc) {
    const std::string attribute = attribute_name(called);
    PyObject* interned = checked(PyUnicode_InternFromString(attribute.c_str()));
    const Enumeration* enumeration = f ? enumeration_of(header, *f) : nullptr;
    made.attributes.push_back({&header, f, enumeration, attribute, interned, std::move(doc)});
  };
  for (const Field& f : header.fields) add(&f, f.name, describe(header, f, enumeration_of(header, f), defaults.data()));
  if (!header.tail.empty()) add(nullptr, header.tail, "The variable part: bytes after the header's fixed part.");
  for (Attribute& attribute : made.attributes)
    made.getset.push_back({attribute.name.c_str(), get_field, set_field, attribute.doc.c_str(), &attribute});
  made.getset.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});

  PyType_Slot slots[] = {{Py_tp_doc, made.doc.data()},
                         {Py_tp_getset, made.getset.data()},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                         {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                         {0, nullptr}};
  PyType_Spec spec{made.qualified.c_str(), static_cast<int>(sizeof(HeaderObject)), 0, Py_TPFLAGS_DEFAULT, slots};
  const py::tuple bases = py::make_tuple(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(base)));
  PyObject* type = checked(PyType_FromSpecWithBases(&spec, bases.ptr()));
  made.type = reinterpret_cast<PyTypeObject*>(type);
  made.type->tp_vectorcall = call;
  infos()[made.type] = &header;
}

}  // namespace

void make_header_types(py::module_& module) {
  PyType_Spec spec{"rdmawire.Header", static_cast<int>(sizeof(HeaderObject)), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, base_slots};
  base = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)));
  module.add_object("Header", py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(base)));
  py::list all;
  for (const HeaderInfo* header : all_headers()) {
    const py::object type = make_header_type(*header);
    module.add_object(type_name(*header).data(), type);
    all.append(type);
  }
  module.attr("HEADERS") = py::tuple(all);
}

py::object make_header_type(const HeaderInfo& header) {
  make_class(header);
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type_of_header(header)));
}

bool is_header(PyObject* object) { return PyObject_TypeCheck(object, base); }

PyTypeObject* type_of_header(const HeaderInfo& header) { return classes().at(&header).type; }

const HeaderInfo* header_of_type(PyObject* type) {
  const auto found = infos().find(reinterpret_cast<PyTypeObject*>(type));
  return found == infos().end() ? nullptr : found->second;
}

const std::vector<Attribute>& attributes_of(const HeaderInfo& header) { return classes().at(&header).attributes; }

py::object default_of(const Attribute& attribute) {
  const Field& f = *attribute.field;
  if (f.is_computed) return py::none();
  const std::vector<std::uint8_t> defaults = encoded(HeaderValue(*attribute.header));
  return py::reinterpret_steal<py::object>(checked(to_python(f, defaults.data(), attribute.enumeration)));
}

PyObject* new_header(HeaderValue value) {
  PyObject* object = allocate(type_of_header(value.header()), value.header());
  as_header(object)->value.emplace(std::move(value));
  return object;
}

PyObject* new_layer(FrameObject* frame, std::size_t index) {
  const HeaderInfo& header = frame->data.header(index);
  PyObject* object = allocate(type_of_header(header), header);
  as_header(object)->frame = frame;
  Py_INCREF(frame);
  as_header(object)->index = index;
  return object;
}

HeaderValue value_of(HeaderObject* header) {
  return header->frame ? header->frame->data.layer_value(header->index) : *header->value;
}

std::vector<std::uint8_t> bytes_of(HeaderObject* header) {
  if (!header->frame) return encoded(*header->value);
  const Bytes raw = header->frame->data.layer(header->index);
  return {raw.begin(), raw.end()};
}

}  // namespace rdmawire::python
