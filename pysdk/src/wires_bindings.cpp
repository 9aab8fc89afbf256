#include "pysdk/src/wires_bindings.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cmath>

#include "captures/io/writer.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/protocol/user_headers.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/captures.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/frame_data.hpp"
#include "replay/wires/pair.hpp"

namespace rdmawire::python {
namespace {

using replay::Wire;
using replay::WireError;

const char* name_of(WireError::Kind kind) {
  switch (kind) {
    case WireError::Kind::specification: return "specification";
    case WireError::Kind::missing: return "missing";
    case WireError::Kind::forbidden: return "forbidden";
    case WireError::Kind::unsupported: return "unsupported";
    case WireError::Kind::frame: return "frame";
    case WireError::Kind::down: return "down";
    case WireError::Kind::full: return "full";
    case WireError::Kind::closed: return "closed";
    case WireError::Kind::system: return "system";
  }
  return "system";
}

/// Runs `work` without the interpreter's lock, and raises its error.
template <class Work>
auto without_lock(const Work& work) {
  auto result = [&] {
    const py::gil_scoped_release released;
    return work();
  }();
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<typename decltype(result)::value_type>) return std::move(*result);
}

void look_for_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// A wire, for all frames or for one queue pair.
struct WireObject {
  std::shared_ptr<SharedWire> wire;
  std::optional<std::uint32_t> dest_qp{};

  [[nodiscard]] std::int64_t now() const {
    return without_lock([&] { return wire->now(); });
  }

  [[nodiscard]] py::object receive(const py::object& timeout, bool own) const {
    const std::int64_t deadline = deadline_of(now(), timeout);
    for (;;) {
      SharedWire::Step step = without_lock([&] { return wire->receive(deadline, {dest_qp, own}); });
      if (step.arrival) {
        const Arrival& came = *step.arrival;
        return make_frame(came.bytes, link(), came.wire_bytes, came.time, 0);
      }
      if (step.over) return py::none();
      if (const auto lost = wire->lost()) {
        py::dict attributes;
        attributes["kind"] = "lost";
        python::raise(ErrorClass::device, *lost, attributes);
      }
      look_for_signals();
    }
  }

  [[nodiscard]] std::size_t send(const py::list& frames, std::int64_t at, const py::object& timeout) const {
    std::vector<std::unique_ptr<BytesView>> bytes;
    std::vector<replay::Outgoing> outgoing;
    const LinkType of_wire = link();
    for (const py::handle frame : frames) {
      if (is_frame(frame)) refuse_other_link(frame_link(frame), of_wire);
      bytes.push_back(std::make_unique<BytesView>(frame));
      outgoing.push_back({bytes.back()->bytes(), at});
    }
    const std::int64_t deadline = deadline_of(now(), timeout);
    std::size_t sent = 0;
    while (sent < outgoing.size()) {
      const auto rest = std::span<const replay::Outgoing>(outgoing).subspan(sent);
      const auto taken = [&] {
        const py::gil_scoped_release released;
        return wire->send(rest);
      }();
      if (!taken && taken.error().kind != WireError::Kind::full) raise_after(taken.error(), sent);
      sent += taken.value_or(0);
      if (sent == outgoing.size()) break;
      static_cast<void>(without_lock([&] { return wire->writable(deadline); }));
      look_for_signals();
      if (now() >= deadline) raise_after({WireError::Kind::full, 0, name() + ": the send queue stayed full"}, sent);
    }
    return sent;
  }

  /// Raises UsageError for a frame that starts with another header than the frames of the wire.
  void refuse_other_link(LinkType link, LinkType of_wire) const {
    const auto is_ip = [](LinkType one) {
      return one == LinkType::raw_ip || one == LinkType::ipv4 || one == LinkType::ipv6;
    };
    if (link == of_wire || (is_ip(link) && is_ip(of_wire))) return;
    const char* const hint = is_ip(link) && of_wire == LinkType::ethernet ? "; start the frame with Ether() /" : "";
    python::raise(ErrorClass::usage, fmt::format("{}: send: the frame has link type {}, the wire sends {}{}", name(),
                                                 link_word(link), link_word(of_wire), hint));
  }

  [[nodiscard]] bool flush(const py::object& timeout) const {
    const std::int64_t deadline = deadline_of(now(), timeout);
    for (;;) {
      if (without_lock([&] { return wire->flush(deadline); })) return true;
      look_for_signals();
      if (now() >= deadline) return false;
    }
  }

  [[nodiscard]] LinkType link() const {
    return without_lock([&] { return wire->capabilities(); }).link;
  }
  [[nodiscard]] std::string name() const { return wire->name(); }

  [[nodiscard]] py::dict capabilities() const {
    const auto c = without_lock([&] { return wire->capabilities(); });
    py::dict d;
    d["link"] = output::link_name(c.link);
    d["max_bytes"] = c.max_bytes;
    d["min_bytes"] = c.min_bytes;
    d["batch"] = c.batch;
    d["sends"] = c.sends;
    d["receives"] = c.receives;
    d["sees_own"] = c.sees_own;
    d["hardware_times"] = c.hardware_times;
    d["paces"] = c.paces;
    d["virtual_time"] = c.virtual_time;
    d["bits_per_second"] = c.bits_per_second;
    d["how"] = c.how;
    return d;
  }
  [[nodiscard]] py::dict counters() const {
    const auto c = without_lock([&] { return wire->counters(); });
    py::dict d;
    d["sent"] = c.sent;
    d["sent_bytes"] = c.sent_bytes;
    d["received"] = c.received;
    d["received_bytes"] = c.received_bytes;
    d["dropped"] = c.dropped;
    return d;
  }

 private:
  [[noreturn]] static void raise_after(const WireError& error, std::size_t sent) {
    if (sent == 0) python::raise(error);
    WireError more = error;
    more.message += "; " + std::to_string(sent) + " frames were sent before";
    python::raise(more);
  }
};

/// A display filter for single frames.
class FrameFilter {
 public:
  FrameFilter(const std::string& text, LinkType link) : filter_(compile(text)), link_(link) {}
  bool matches(const py::object& frame) {
    const BytesView bytes(frame);
    packet_.number = ++number_;
    packet_.link = link_;
    dissector_.dissect(packet_, bytes.bytes(), static_cast<std::uint32_t>(bytes.bytes().size()));
    decode_user_headers(packet_.stack);
    return filter_.matches(packet_);
  }

 private:
  static output::Filter compile(const std::string& text) {
    auto compiled = output::Filter::compile(text);
    if (!compiled) python::raise(ErrorClass::usage, filter_error(compiled.error(), text));
    return std::move(*compiled);
  }
  output::Filter filter_;
  LinkType link_;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
  std::uint64_t number_ = 0;
};

/// Writes the recorded frames of several wires to a pcapng file with one interface per wire.
std::uint64_t save(const std::string& path, const std::vector<std::pair<std::string, std::shared_ptr<SharedWire>>>& of,
                   const std::vector<std::string>& comments) {
  std::vector<std::vector<Recorded>> all;
  for (const auto& one : of) all.push_back(one.second->recorded());
  captures::Writer::Options options;
  options.format = captures::Format::pcapng;
  options.section.application = "rdmawire";
  options.section.comments = comments;
  const auto failed = [](const captures::CaptureError& error) { python::raise(ErrorClass::capture, to_string(error)); };
  auto writer = captures::Writer::create(path, options);
  if (!writer) failed(writer.error());
  struct Place {
    std::int64_t time;
    std::size_t wire, index;
  };
  std::vector<Place> order;
  for (std::size_t i = 0; i < all.size(); ++i) {
    captures::Interface interface;
    interface.name = of[i].first;
    if (const auto added = writer->add_interface(interface); !added) failed(added.error());
    for (std::size_t j = 0; j < all[i].size(); ++j) order.push_back({all[i][j].time, i, j});
  }
  std::stable_sort(order.begin(), order.end(), [](const Place& a, const Place& b) { return a.time < b.time; });
  for (const Place& place : order) {
    const Recorded& one = all[place.wire][place.index];
    captures::Record record;
    record.bytes = one.bytes;
    record.time = std::max<std::int64_t>(0, one.time);
    record.wire_length = static_cast<std::uint32_t>(one.bytes.size());
    record.interface = static_cast<std::uint32_t>(place.wire);
    const std::array<std::string_view, 1> comment{one.sent ? "sent" : "received"};
    if (const auto written = writer->write(record, comment); !written) failed(written.error());
  }
  const std::uint64_t records = writer->records();
  if (const auto closed = writer->close(); !closed) failed(closed.error());
  return records;
}

}  // namespace

void raise(const WireError& error) {
  if (error.kind == WireError::Kind::closed) python::raise(ErrorClass::closed, error.message);
  py::dict attributes;
  attributes["kind"] = name_of(error.kind);
  attributes["errno"] = error.number;
  python::raise(ErrorClass::wire, error.message, attributes);
}

std::int64_t deadline_of(std::int64_t now, const py::object& seconds) {
  if (seconds.is_none()) return Wire::forever;
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();
  if (std::isnan(value)) python::raise(ErrorClass::usage, "timeout: expected seconds, or None for no timeout");
  constexpr double most = 9e9;  // nanoseconds would exceed 64 bits
  if (value >= most) return Wire::forever;
  return now + std::max<std::int64_t>(0, static_cast<std::int64_t>(value * 1e9));
}

py::object wire_object(std::shared_ptr<SharedWire> wire, std::optional<std::uint32_t> dest_qp) {
  return py::cast(WireObject{std::move(wire), dest_qp});
}

std::shared_ptr<SharedWire> wire_of(py::handle object) { return py::cast<WireObject&>(object).wire; }

void bind_wires(py::module_& module) {
  py::class_<WireObject>(module, "_Wire", "The C++ part of rdmawire.Wire.")
      .def_property_readonly("name", &WireObject::name)
      .def_property_readonly("capabilities", &WireObject::capabilities)
      .def_property_readonly("counters", &WireObject::counters)
      .def_property_readonly("closed", [](const WireObject& self) { return self.wire->closed(); })
      .def_property_readonly(
          "descriptor", [](const WireObject& self) { return without_lock([&] { return self.wire->descriptor(); }); })
      .def("now", &WireObject::now)
      .def("receive", &WireObject::receive, py::arg("timeout"), py::arg("own"))
      .def("send", &WireObject::send, py::arg("frames"), py::arg("at"), py::arg("timeout"))
      .def("flush", &WireObject::flush, py::arg("timeout"))
      .def("close",
           [](const WireObject& self) {
             const py::gil_scoped_release released;
             self.wire->close();
           })
      .def(
          "of_queue_pair",
          [](const WireObject& self, std::uint32_t dest_qp) { return wire_object(self.wire, dest_qp); },
          py::arg("dest_qp"))
      .def(
          "record", [](const WireObject& self, std::size_t max_frames) { self.wire->record(max_frames); },
          py::arg("max_frames"))
      .def("recorded", [](const WireObject& self) {
        py::list all;
        for (const Recorded& one : self.wire->recorded())
          all.append(py::make_tuple(one.time, one.sent, to_bytes(one.bytes)));
        return all;
      });
  module.def(
      "_open_wire",
      [](const std::string& name) {
        return wire_object(std::make_shared<SharedWire>(without_lock([&] { return replay::open_wire(name); })));
      },
      py::arg("name"));
  module.def(
      "_wire_pair",
      [](const std::string& name, std::size_t frames, std::uint32_t max_bytes) {
        auto [a, b] = replay::make_wire_pair({name, frames, max_bytes});
        return py::make_tuple(wire_object(std::make_shared<SharedWire>(std::move(a))),
                              wire_object(std::make_shared<SharedWire>(std::move(b))));
      },
      py::arg("name"), py::arg("frames"), py::arg("max_bytes"));
  module.def(
      "_save_recorded",
      [](const std::string& path, const py::dict& wires, const std::vector<std::string>& comments) {
        std::vector<std::pair<std::string, std::shared_ptr<SharedWire>>> all;
        for (const auto& [name, wire] : wires) all.emplace_back(py::cast<std::string>(name), wire_of(wire));
        return save(path, all, comments);
      },
      py::arg("path"), py::arg("wires"), py::arg("comments"));
  py::class_<FrameFilter>(module, "_FrameFilter", "A filter (docs/reference/filters.md) for the frames of a wire.")
      .def(py::init([](const std::string& text, const WireObject& wire) { return FrameFilter(text, wire.link()); }),
           py::arg("text"), py::arg("wire"))
      .def("matches", &FrameFilter::matches, py::arg("frame"));
}

}  // namespace rdmawire::python
