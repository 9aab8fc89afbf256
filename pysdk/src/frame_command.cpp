/// Converts headers and frames to Python expressions that create them.

#include <fmt/format.h>

#include "dissectors/protocol/layer_bytes.hpp"
#include "dissectors/protocol/registry.hpp"
#include "dissectors/protocol/user_headers.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/field_value.hpp"
#include "pysdk/src/guard.hpp"
#include "pysdk/src/objects.hpp"

namespace rdmawire::python {
namespace {

std::string literal(Bytes bytes) { return py::repr(to_bytes(bytes)); }

// Returns the usual text of the value if it converts back to the same bytes, otherwise the bytes.
std::string literal(const HeaderValue& value, const Attribute& attribute) {
  const Field& f = *attribute.field;
  const py::object object = py::reinterpret_steal<py::object>(checked(
      to_python(f, value.bytes().data(), f.present_in(value.bytes().data()) ? attribute.enumeration : nullptr)));
  const Form form = form_of(f);
  if (form == Form::number && f.is_number()) {
    if (attribute.enumeration)
      if (PyObject* member = attribute.enumeration->find(f.load(value.bytes().data()))) {
        // The classes of headers defined at run time have no name in the package.
        if (!user_type_name(value.header()).empty()) return py::repr(py::handle(member).attr("name"));
        return fmt::format("{}.{}", attribute.enumeration->type().attr("__name__").cast<std::string>(),
                           py::handle(member).attr("name").cast<std::string>());
      }
    const std::uint64_t number = f.load(value.bytes().data());
    return f.display == Display::hexadecimal ? fmt::format("{:#x}", number) : fmt::format("{}", number);
  }
  if (form != Form::bytes) {
    HeaderValue parsed(value.header());
    set_from_python(parsed, f, object.ptr());
    const Bytes a = f.bytes(parsed.bytes().data()), b = f.bytes(value.bytes().data());
    if (std::ranges::equal(a, b)) return py::repr(object);
  }
  return literal(f.bytes(value.bytes().data()));
}

bool is_whole(const Attribute& attribute) { return attribute.field && !attribute.field->is_part(); }

// Applies a change that shortens the expression if the encoded bytes stay the same.
template <class Change>
void simplify(Frame& frame, Bytes bytes, Change&& change) {
  Frame less = frame;
  change(less);
  if (std::ranges::equal(less.encode(), bytes)) frame = std::move(less);
}

}  // namespace

std::string expression_of(const HeaderValue& value) {
  std::string text(type_name(value.header()));
  text += '(';
  bool first = true;
  for (const Attribute& attribute : attributes_of(value.header())) {
    std::string shown;
    if (!attribute.field) {
      if (value.tail().empty()) continue;
      shown = literal(value.tail());
    } else {
      if (!is_whole(attribute) || !value.given(*attribute.field)) continue;
      shown = literal(value, attribute);
    }
    text += fmt::format("{}{}={}", first ? "" : ", ", attribute.name, shown);
    first = false;
  }
  return text + ")";
}

std::string command_of(FrameData& data) {
  const Bytes bytes = data.view();
  Frame frame = data.values();
  for (std::size_t i = 0; i < frame.layers.size(); ++i)
    frame.layers[i] = *HeaderValue::parse(data.header(i), data.layer(i));  // sets all fields
  // Try all computed fields together, then one by one.
  simplify(frame, bytes, [](Frame& f) {
    f.forget_computed();
    for (HeaderValue& layer : f.layers)
      for (const Field& field : layer.header().fields)
        if (field.is_computed) forget(layer, field);
  });
  for (std::size_t i = 0; i < frame.layers.size(); ++i) {
    simplify(frame, bytes, [&](Frame& f) {
      for (const Field& field : f.layers[i].header().fields)
        if (field.is_computed) forget(f.layers[i], field);
    });
    for (const Field& field : frame.layers[i].header().fields)
      if (!field.is_part() && frame.layers[i].given(field))
        simplify(frame, bytes, [&](Frame& f) { forget(f.layers[i], field); });
  }
  simplify(frame, bytes, [](Frame& f) { f.pad.reset(); });
  simplify(frame, bytes, [](Frame& f) { f.icrc.reset(); });
  simplify(frame, bytes, [](Frame& f) { f.vcrc.reset(); });
  simplify(frame, bytes, [](Frame& f) { f.mpa_crc.reset(); });
  // True is also the default of frames without a BTH.
  simplify(frame, bytes, [](Frame& f) { f.with_icrc = true; });
  simplify(frame, bytes, [](Frame& f) { f.with_vcrc = true; });
  simplify(frame, bytes, [](Frame& f) { f.with_mpa_crc = true; });

  std::string text;
  for (const HeaderValue& layer : frame.layers) text += (text.empty() ? "" : " / ") + expression_of(layer);
  std::string more;
  const auto add = [&](std::string_view name, const std::string& value) {
    more += fmt::format(", {}={}", name, value);
  };
  if (frame.pad) add("pad", literal(*frame.pad));
  const auto crc = [&](std::string_view name, const auto& given, bool with) {
    if (!with) return add(name, "None");
    if (given) add(name, fmt::format("{:#x}", *given));
  };
  crc("icrc", frame.icrc, frame.with_icrc);
  crc("vcrc", frame.vcrc, frame.with_vcrc);
  crc("mpa_crc", frame.mpa_crc, frame.with_mpa_crc);
  if (!frame.trailer.empty()) add("trailer", literal(frame.trailer));
  const LinkType link = frame.layers.empty() ? LinkType::ethernet : link_of(frame.layers.front().header());
  if (data.link != link) add("link", fmt::format("'{}'", link_word(data.link)));
  if (!frame.payload.empty()) {
    const std::string payload = literal(frame.payload);
    if (text.empty() || !more.empty())
      more = fmt::format(", payload={}", payload) + more;
    else
      text += " / " + payload;
  }
  // A single header is not a Frame.
  if (more.empty() && frame.layers.size() + !frame.payload.empty() > 1) return text;
  return fmt::format("Frame({}{})", text, text.empty() && !more.empty() ? more.substr(2) : more);
}

}  // namespace rdmawire::python
