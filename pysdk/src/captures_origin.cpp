#include "pysdk/src/captures_origin.hpp"

#include <pybind11/stl.h>

#include "pysdk/src/frame_data.hpp"

namespace rdmawire::python {

py::object decoded_text(std::string_view text) {
  PyObject* const made = PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace");
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::dict interface_dict(const captures::Interface& interface) {
  py::dict out;
  out["name"] = decoded_text(interface.name);
  out["description"] = decoded_text(interface.description);
  out["link"] = link_word(interface.link);
  out["snap_length"] = interface.snap_length;
  out["filter"] = decoded_text(interface.filter);
  out["os"] = decoded_text(interface.os);
  out["hardware"] = decoded_text(interface.hardware);
  py::list comments;
  for (const std::string& comment : interface.comments) comments.append(decoded_text(comment));
  out["comments"] = comments;
  const auto& statistics = interface.statistics;
  const auto drops = statistics ? statistics->drops() : std::nullopt;
  out["received"] = statistics && statistics->received ? py::object(py::int_(*statistics->received)) : py::none();
  out["lost_by_capture"] = drops ? py::object(py::int_(*drops)) : py::none();
  return out;
}

RecordOrigin RecordOrigins::of(const captures::Reader& reader, const captures::Record& record) {
  RecordOrigin origin;
  if (record.interface >= seen_.size()) seen_.resize(reader.interfaces().size());
  if (record.interface < seen_.size()) {
    auto& seen = seen_[record.interface];
    if (!seen) seen = std::make_unique<const captures::Interface>(reader.interfaces()[record.interface]);
    origin.interface = seen.get();
  }
  if (!record.options.empty())
    for (const std::string_view comment : record.comments()) origin.comments.emplace_back(comment);
  return origin;
}

py::object Origins::of(const RecordOrigin& origin) {
  if (!origin.interface && origin.comments.empty()) return {};
  if (!without_comments_ || origin.interface != last_) {
    last_ = origin.interface;
    interface_ = py::none();
    if (last_) interface_ = py::module_::import("rdmawire.captures").attr("Interface")(**interface_dict(*last_));
    without_comments_ = py::make_tuple(interface_, py::tuple());
  }
  if (origin.comments.empty()) return without_comments_;
  py::tuple comments(origin.comments.size());
  for (std::size_t i = 0; i < origin.comments.size(); ++i) comments[i] = decoded_text(origin.comments[i]);
  return py::make_tuple(interface_, comments);
}

}  // namespace rdmawire::python
