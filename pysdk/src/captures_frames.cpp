/// The packets of a capture as frames, and as packets with the context of their connections, from files and live.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <mutex>

#include "captures/io/live.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/protocol/user_headers.hpp"
#include "pysdk/src/analysis_request.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/captures.hpp"
#include "pysdk/src/captures_origin.hpp"
#include "pysdk/src/columns_python.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/frame_data.hpp"
#include "pysdk/src/objects.hpp"

namespace rdmawire::python {
namespace {

using captures::Next;
using captures::Record;

/// A dissected packet that owns its bytes.
class Packet {
 public:
  /// `start`: time of the first packet of the capture.
  Packet(const tracking::Packet& packet, Bytes bytes, RecordOrigin origin, std::int64_t start)
      : packet_(packet), bytes_(bytes.begin(), bytes.end()), record_origin_(std::move(origin)), start_(start) {
    packet_.stack.bytes = bytes_;
    packet_.tcp.connection = nullptr;
    for (tracking::Pdu& pdu : packet_.pdus) {
      pdus_.emplace_back(pdu.stack.bytes.begin(), pdu.stack.bytes.end());
      pdu.stack.bytes = pdus_.back();
      pdu.connection = nullptr;
    }
  }
  // Members point into each other.
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;

  [[nodiscard]] const tracking::Packet& packet() const { return packet_; }
  /// Creates the Python object for the origin. Call once, with the interpreter's lock.
  void keep_origin(Origins& origins) { origin_ = origins.of(record_origin_); }
  [[nodiscard]] py::object interface() const { return origin_ ? py::object(origin_[py::int_(0)]) : py::none(); }
  [[nodiscard]] py::object comments() const { return origin_ ? py::object(origin_[py::int_(1)]) : py::tuple(); }
  [[nodiscard]] py::object frame() const {
    return make_frame(bytes_, packet_.link, packet_.stack.wire_length, packet_.time_ns, packet_.number, origin_);
  }
  [[nodiscard]] py::list pdus() const {
    py::list out;
    for (const tracking::Pdu& pdu : packet_.pdus) {
      const auto layers = pdu.stack.layers();
      if (layers.empty()) continue;
      out.append(make_frame(pdu.stack.bytes, link_of(*layers.front().header),
                            static_cast<std::uint32_t>(pdu.stack.bytes.size()), packet_.time_ns, packet_.number,
                            origin_));
    }
    return out;
  }
  [[nodiscard]] std::string json() const {
    std::string out;
    output::JsonWriter().append(out, packet_, context());
    return out;
  }
  [[nodiscard]] std::string line() const {
    std::string out;
    output::LinePrinter printer;
    printer.set_origin(start_);
    printer.append(out, packet_);
    if (out.ends_with('\n')) out.pop_back();
    return out;
  }
  [[nodiscard]] std::string tree() const {
    std::string out;
    output::append_tree(out, packet_, context());
    return out;
  }

 private:
  [[nodiscard]] output::PacketContext context() const {
    views_.assign(record_origin_.comments.begin(), record_origin_.comments.end());
    return {{}, views_};
  }

  tracking::Packet packet_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::vector<std::uint8_t>> pdus_;
  RecordOrigin record_origin_;
  std::int64_t start_;
  py::object origin_;
  mutable std::vector<std::string_view> views_;
};

/// Common part of both iterators: a reader and a filter.
class Frames {
 public:
  Frames(std::shared_ptr<CaptureSource> source, const ReadOptions& options, bool dissects)
      : source_(std::move(source)), filter_(options.filter), dissector_(options.dissector), dissects_(dissects) {
    bool interrupted = false;
    auto reader = [&] {
      const py::gil_scoped_release unlocked;
      const ReadingScope scope(*source_);
      auto begun = source_->begin();
      interrupted = scope.interrupted();
      return begun;
    }();
    if (interrupted) throw py::error_already_set();
    if (!reader) raise_reading(reader.error());
    reader_ = std::make_unique<captures::Reader>(std::move(*reader));
  }

 protected:
  /// Calls `take(reader, record, packet)` for the next packet that matches, before another thread continues reading.
  /// Raises StopIteration at the end, or the error of the capture. Packets are dissected if `dissects` is set.
  ///
  /// The interpreter's lock is released if the next packet can take long: decompression, waiting, filtering. A thread
  /// that waits for the mutex does not hold the lock.
  template <class Take>
  void next(Take take) {
    bool interrupted = false;
    std::string error;
    Next result = Next::end;
    const auto work = [&] {
      for (std::uint64_t examined = 1;; ++examined) {
        if (source_->closed()) {
          error = source_->closed_sentence();
          return;
        }
        result = reader_->next(record_);
        if (result == Next::error) error = captures::to_string(reader_->error());
        if (result == Next::error && source_->closed()) error = source_->closed_sentence();
        if (result != Next::record) return;
        if (!start_) start_ = record_.time;
        if (dissects_ || filter_) {
          packet_.number = record_.number;
          packet_.time_ns = record_.time;
          packet_.link = record_.link;
          dissector_.dissect(packet_, record_.bytes, record_.wire_length);
          decode_user_headers(packet_.stack);
        }
        if (!filter_ || filter_->matches(packet_)) return take(*reader_, record_, packet_);
        if (examined % 65536 == 0 && (interrupted = !signals_are_quiet())) return;
      }
    };
    if (reader_->stable() && !filter_) {
      work();
    } else {
      const py::gil_scoped_release unlocked;
      const std::scoped_lock lock(mutex_);
      const ReadingScope scope(*source_);
      work();
      interrupted |= scope.interrupted();
    }
    if (interrupted) throw py::error_already_set();
    if (!error.empty()) raise_reading(error);
    if (result != Next::record) throw py::stop_iteration();
  }

  /// Time of the first packet of the capture.
  [[nodiscard]] std::int64_t start() const { return start_.value_or(0); }

 private:
  std::shared_ptr<CaptureSource> source_;
  std::shared_ptr<const output::Filter> filter_;
  tracking::Dissector dissector_;
  bool dissects_;
  std::optional<std::int64_t> start_;
  std::unique_ptr<captures::Reader> reader_;
  std::mutex mutex_;
  Record record_;
  tracking::Packet packet_;
};

class FrameIterator : public Frames {
 public:
  FrameIterator(std::shared_ptr<CaptureSource> source, const ReadOptions& options)
      : Frames(std::move(source), options, false) {}

  py::object next() {
    Record found;
    std::vector<std::uint8_t> copy;
    RecordOrigin origin;
    Frames::next([&](const captures::Reader& reader, const Record& record, const tracking::Packet&) {
      found = record;
      origin = seen_.of(reader, record);
      if (reader.stable()) return;
      copy.assign(record.bytes.begin(), record.bytes.end());
      found.bytes = copy;
    });
    return make_frame(found.bytes, found.link, found.wire_length, found.time, found.number, origins_.of(origin));
  }

 private:
  RecordOrigins seen_;
  Origins origins_;
};

class PacketIterator : public Frames {
 public:
  PacketIterator(std::shared_ptr<CaptureSource> source, const ReadOptions& options)
      : Frames(std::move(source), options, true) {}

  std::unique_ptr<Packet> next() {
    std::unique_ptr<Packet> made;
    Frames::next([&](const captures::Reader& reader, const Record& record, const tracking::Packet& packet) {
      made = std::make_unique<Packet>(packet, record.bytes, seen_.of(reader, record), start());
    });
    made->keep_origin(origins_);
    return made;
  }

 private:
  RecordOrigins seen_;
  Origins origins_;
};

ReadOptions read_options(const CaptureSource& source, const std::string& filter, std::uint16_t roce_port) {
  if (source.closed()) raise(ErrorClass::closed, source.closed_sentence());
  ReadOptions options;
  options.filter = compile_filter(filter);
  options.dissector.decode.extra_roce_v2_port = roce_port;
  options.dissector.verify_crcs = !options.filter || options.filter->uses_crcs();
  return options;
}

/// A device with a live capture. One thread at a time reads packets.
class Live {
 public:
  Live(const std::string& device, const std::string& filter, std::uint32_t snap_length, bool promiscuous,
       bool immediate, std::uint32_t buffer_size)
      : name_(device) {
    captures::LiveCapture::Options options;
    options.filter = filter;
    options.snap_length = snap_length;
    options.promiscuous = promiscuous;
    options.immediate = immediate;
    options.buffer_size = buffer_size;
    auto opened = [&] {
      const py::gil_scoped_release unlocked;
      return captures::LiveCapture::open(device, options);
    }();
    if (!opened) raise(ErrorClass::capture, captures::to_string(opened.error()));
    live_ = std::make_unique<captures::LiveCapture>(std::move(*opened));
    origin_ = Origins().of({&live_->interface(), {}});
  }

  /// Returns the next frame, or None after `seconds` or close().
  py::object receive(std::optional<double> seconds) {
    using Clock = std::chrono::steady_clock;
    if (closed_) raise(ErrorClass::closed, name_ + " was closed");
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(std::min(seconds.value_or(0), 1e9)));
    for (;;) {
      Record found;
      std::vector<std::uint8_t> copy;
      Next next = Next::timeout;
      {
        const py::gil_scoped_release unlocked;
        const std::scoped_lock lock(mutex_);
        Record record;
        next = live_->next(record);
        if (next == Next::record) {
          found = record;
          copy.assign(record.bytes.begin(), record.bytes.end());
          found.bytes = copy;
        }
      }
      if (next == Next::record)
        return make_frame(found.bytes, found.link, found.wire_length, found.time, ++number_, origin_);
      if (next == Next::error) raise(ErrorClass::capture, captures::to_string(live_->error()));
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (next == Next::end || closed_ || (seconds && Clock::now() >= end)) return py::none();
    }
  }
  py::object next() {
    if (closed_) throw py::stop_iteration();
    py::object frame = receive(std::nullopt);
    if (frame.is_none()) throw py::stop_iteration();
    return frame;
  }
  /// Ends the capture. The first call issues a RuntimeWarning if packets were lost.
  void close() {
    if (closed_.exchange(true)) return;
    live_->stop();
    last_ = counted();
    const auto lost = last_ ? last_->drops().value_or(0) : 0;
    if (lost == 0) return;
    const std::string text = fmt::format(
        "{}: {} packet{} lost, because the buffer was full; use a larger buffer_size, a filter, or read "
        "packets faster",
        name_, lost, lost == 1 ? " was" : "s were");
    if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) throw py::error_already_set();
  }
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  py::dict statistics() {
    const auto counters = closed_ ? last_ : counted();
    if (!counters) raise(ErrorClass::capture, captures::to_string(counters.error()));
    py::dict out;
    const auto number = [](const std::optional<std::uint64_t>& value) -> py::object {
      return value ? py::object(py::int_(*value)) : py::object(py::none());
    };
    out["received"] = number(counters->received);
    out["delivered"] = number(counters->delivered);
    out["lost_by_capture"] = number(counters->drops());
    return out;
  }

 private:
  using Counters = tl::expected<captures::InterfaceStatistics, captures::CaptureError>;
  Counters counted() {
    const py::gil_scoped_release unlocked;
    const std::scoped_lock lock(mutex_);
    return live_->statistics();
  }

  std::string name_;
  std::unique_ptr<captures::LiveCapture> live_;
  Counters last_;  ///< at close()
  std::mutex mutex_;
  std::atomic<bool> closed_{false};
  std::uint64_t number_ = 0;
  py::object origin_;
};

py::list live_devices() {
  const auto devices = captures::LiveCapture::devices();
  if (!devices) raise(ErrorClass::capture, captures::to_string(devices.error()));
  py::list out;
  for (const captures::Device& device : *devices) out.append(device.name);
  return out;
}

}  // namespace

void bind_captured_frames(py::module_& module) {
  py::class_<Packet>(module, "Packet",
                     "A packet of a capture with the context of its connection: PDUs of a TCP stream that end in the "
                     "packet, upper layer, and notes.")
      .def_property_readonly(
          "number", [](const Packet& p) { return p.packet().number; }, "Number in the capture, from 1.")
      .def_property_readonly(
          "time_ns", [](const Packet& p) { return p.packet().time_ns; }, "Capture time: nanoseconds since 1970.")
      .def_property_readonly("interface", &Packet::interface,
                             "Interface as described by the capture file: rdmawire.captures.Interface, or None.")
      .def_property_readonly("comments", &Packet::comments, "Comments of the capture file: a tuple of str.")
      .def_property_readonly("frame", &Packet::frame, "The packet as a Frame.")
      .def_property_readonly("pdus", &Packet::pdus,
                             "MPA frames and FPDUs of iWARP that end in this packet, as Frames. They are reassembled "
                             "from TCP segments and have no markers.")
      .def_property_readonly(
          "notes",
          [](const Packet& p) {
            py::list out;
            for (const std::string_view note : p.packet().notes) out.append(py::str(note.data(), note.size()));
            return out;
          },
          "Notes about the packet in its connection, for example 'TCP retransmission'.")
      .def_property_readonly(
          "upper",
          [](const Packet& p) -> py::object {
            if (p.packet().upper.protocol == Upper::unknown) return py::none();
            return py::str(std::string(to_string(p.packet().upper.protocol)));
          },
          "Upper layer protocol of the connection, or None if it is unknown.")
      .def("to_json", &Packet::json, "Return the line of `dissect --json`.")
      .def(
          "to_dict", [](const Packet& p) { return py::module_::import("json").attr("loads")(p.json()); },
          "Return the output of `dissect --json` as a dict.")
      .def(
          "show", [](const Packet& p, bool dump) { return print_or_return(p.tree(), dump); }, py::kw_only(),
          py::arg("dump") = false,
          "Print all fields of all layers with their meaning, as `dissect -V` does, or return the text with dump=True.")
      .def("summary", &Packet::line, "Return one line, as `rdmawire dissect` prints it. str() returns the same.")
      .def(
          "_repr_html_",
          [](const Packet& p) {
            const py::object escape = py::module_::import("html").attr("escape");
            return py::str("<pre style=\"line-height:1.2\">{}</pre>").format(escape(p.tree()));
          },
          "Return HTML for notebooks: the text of show().")
      .def("__str__", &Packet::line)
      .def("__repr__", [](const Packet& p) { return fmt::format("<rdmawire.Packet {}>", p.line()); });
  py::class_<FrameIterator>(module, "FrameIterator", "Iterator over the frames of a capture.")
      .def("__iter__", [](FrameIterator& self) -> FrameIterator& { return self; })
      .def("__next__", &FrameIterator::next);
  py::class_<PacketIterator>(module, "PacketIterator", "Iterator over the packets of a capture.")
      .def("__iter__", [](PacketIterator& self) -> PacketIterator& { return self; })
      .def("__next__", &PacketIterator::next);
  module.def(
      "captured_frames",
      [](const std::shared_ptr<CaptureSource>& source, const std::string& filter, std::uint16_t roce_port) {
        return std::make_unique<FrameIterator>(source, read_options(*source, filter, roce_port));
      },
      py::arg("source"), py::arg("filter") = "", py::arg("roce_port") = 0,
      "Return an iterator over the frames that match.");
  module.def(
      "captured_packets",
      [](const std::shared_ptr<CaptureSource>& source, const std::string& filter, std::uint16_t roce_port,
         bool verify_crcs, const std::vector<std::string>& disable_protocol) {
        ReadOptions options = read_options(*source, filter, roce_port);
        disable_protocols(options.dissector.decode, disable_protocol);
        if (options.filter && !verify_crcs && options.filter->uses_crcs())
          raise(ErrorClass::usage, "filter uses CRC fields, which requires verify_crcs=True");
        options.dissector.verify_crcs = verify_crcs;
        return std::make_unique<PacketIterator>(source, options);
      },
      py::arg("source"), py::arg("filter") = "", py::arg("roce_port") = 0, py::arg("verify_crcs") = true,
      py::arg("disable_protocol") = std::vector<std::string>(), "Return an iterator over the packets that match.");
  py::class_<Live>(module, "LiveCapture",
                   "Frames captured from a device: an iterator that ends with close(), and a context manager.")
      .def(py::init<const std::string&, const std::string&, std::uint32_t, bool, bool, std::uint32_t>(),
           py::arg("device"), py::arg("filter") = "", py::arg("snap_length") = 262144, py::arg("promiscuous") = true,
           py::arg("immediate") = false, py::arg("buffer_size") = 16 << 20,
           "Start a capture. `filter` is a libpcap filter expression.")
      .def_property_readonly("name", &Live::name, "Name of the device.")
      .def_property_readonly("closed", &Live::closed, "Whether the capture was closed.")
      .def("receive", &Live::receive, py::arg("timeout") = py::none(),
           "Return the next frame, or None if no frame arrives for `timeout` seconds. Ctrl-C ends the wait.")
      .def("statistics", &Live::statistics,
           "Return libpcap's counters: received, delivered, lost_by_capture. After close(): the final ones.")
      .def("close", &Live::close,
           "End the capture and all waiting calls. May be called from any thread. Issues a RuntimeWarning if packets "
           "were lost.")
      .def("__iter__", [](Live& self) -> Live& { return self; })
      .def("__next__", &Live::next)
      .def("__enter__", [](Live& self) -> Live& { return self; })
      .def("__exit__", [](Live& self, const py::args&) { self.close(); });
  module.def("live_devices", &live_devices, "Return the names of the devices that this process may capture from.");
}

}  // namespace rdmawire::python
