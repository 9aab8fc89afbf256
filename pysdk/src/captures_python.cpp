/// Reading and writing of capture files for Python.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>

#include "captures/io/output_file.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/output/count.hpp"
#include "dissectors/output/printable.hpp"
#include "dissectors/protocol/user_headers.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/captures.hpp"
#include "pysdk/src/captures_origin.hpp"
#include "pysdk/src/columns_python.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/frame.hpp"

namespace rdmawire::python {
namespace {

using captures::Writer;

/// Reads the complete capture without dissection and returns the fields of rdmawire.captures.Facts.
py::dict facts_of(CaptureSource& source) {
  std::string error;
  std::uint64_t packets = 0;
  std::int64_t first = 0, last = 0;
  bool interrupted = false;
  auto reader = [&] {
    const py::gil_scoped_release unlocked;
    const ReadingScope scope(source);
    auto begun = source.begin();
    if (!begun) {
      error = begun.error();
      return begun;
    }
    captures::Record record;
    captures::Next next = captures::Next::record;
    while ((next = begun->next(record)) == captures::Next::record) {
      if (++packets == 1) first = last = record.time;
      first = std::min(first, record.time);
      last = std::max(last, record.time);
      if (packets % 65536 == 0 && (source.closed() || (interrupted = !signals_are_quiet()))) break;
    }
    interrupted |= scope.interrupted();
    if (next == captures::Next::error) error = captures::to_string(begun->error());
    return begun;
  }();
  if (interrupted) throw py::error_already_set();
  if (!reader) raise_reading(error);
  py::dict out;
  out["packets"] = packets;
  out["first_time"] = packets ? py::object(py::int_(first)) : py::none();
  out["last_time"] = packets ? py::object(py::int_(last)) : py::none();
  out["error"] = error.empty() ? py::object(py::none()) : py::object(py::str(error));
  py::list interfaces;
  for (const captures::Interface& interface : reader->interfaces()) interfaces.append(interface_dict(interface));
  out["interfaces"] = interfaces;
  return out;
}

/// A capture file that is written. Calls must not overlap.
class CaptureWriter {
 public:
  CaptureWriter(const std::string& path, const std::optional<std::string>& format,
                const std::optional<std::string>& compression, int level, bool nanoseconds,
                const std::string& application, const std::vector<std::string>& comments)
      : name_(path == "-" ? "standard output" : output::printable(path)) {
    Writer::Options options;
    if (format) options.format = *format == "pcap" ? captures::Format::pcap : captures::Format::pcapng;
    if (format && *format != "pcap" && *format != "pcapng")
      raise(ErrorClass::usage, fmt::format("format={}: expected pcap or pcapng", *format));
    if (compression) {
      using captures::Compression;
      options.compression = *compression == "gzip"   ? Compression::gzip
                            : *compression == "zstd" ? Compression::zstd
                                                     : Compression::none;
      if (*compression != to_string(*options.compression))
        raise(ErrorClass::usage, fmt::format("compression={}: expected none, gzip or zstd", *compression));
    }
    options.level = level;
    options.nanoseconds = nanoseconds;
    options.section.application = application;
    options.section.comments = comments;
    auto writer = Writer::create(path, options);
    if (!writer) fail(writer.error());
    writer_ = std::make_unique<Writer>(std::move(*writer));
  }

  std::uint32_t add_interface(const py::object& link, const std::string& name, const std::string& description,
                              std::uint32_t snap_length) {
    captures::Interface interface;
    interface.link = link_from(link);
    interface.name = name;
    interface.description = description;
    interface.snap_length = snap_length;
    return add(interface);
  }

  void write(const py::object& frame, const std::optional<std::int64_t>& time, std::optional<std::uint32_t> interface,
             const py::object& link, std::uint32_t wire_length, const std::vector<std::string>& comments) {
    const BytesView bytes(frame);
    captures::Record record;
    record.bytes = bytes.bytes();
    record.wire_length = std::max(wire_length, static_cast<std::uint32_t>(bytes.bytes().size()));
    record.time =
        time ? *time
             : std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count();
    record.interface = interface ? *interface : interface_for(link.is_none() ? LinkType::ethernet : link_from(link));
    std::vector<std::string_view> views(comments.begin(), comments.end());
    run([&](Writer& writer) { return writer.write(record, views); });
  }
  void flush() {
    run([](Writer& writer) { return writer.flush(); });
  }
  void close() {
    if (!writer_) return;
    const std::unique_ptr<Writer> writer = std::move(writer_);
    records_ = writer->records();
    Writer::Result result;
    {
      const py::gil_scoped_release unlocked;
      result = writer->close();
    }
    if (!result) fail(result.error());
  }
  [[nodiscard]] bool closed() const { return writer_ == nullptr; }
  [[nodiscard]] std::uint64_t records() const { return writer_ ? writer_->records() : records_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[noreturn]] static void fail(const captures::CaptureError& error) {
    raise(ErrorClass::capture, captures::to_string(error));
  }
  Writer& open() {
    if (!writer_) raise(ErrorClass::closed, name_ + " was closed");
    return *writer_;
  }
  // Does not release the interpreter's lock, because most calls only copy a record into the writer's buffer.
  template <class Work>
  void run(Work work) {
    if (const Writer::Result result = work(open()); !result) fail(result.error());
  }
  std::uint32_t add(const captures::Interface& interface) {
    const auto added = open().add_interface(interface);
    if (!added) fail(added.error());
    if (links_.size() <= *added) links_.resize(*added + 1);
    links_[*added] = interface.link;
    return *added;
  }
  /// Returns the first interface with this link type, or adds one.
  std::uint32_t interface_for(LinkType link) {
    for (std::uint32_t i = 0; i < links_.size(); ++i)
      if (links_[i] == link) return i;
    captures::Interface interface;
    interface.link = link;
    return add(interface);
  }

  std::string name_;
  std::unique_ptr<Writer> writer_;
  std::vector<LinkType> links_;
  std::uint64_t records_ = 0;
};

/// Returns the output of `dissect --count --json` for the packets that match.
std::string counts_of(CaptureSource& source, const std::string& filter_text, std::uint16_t roce_port,
                      bool verify_crcs) {
  const auto filter = compile_filter(filter_text);
  if (filter && !verify_crcs && filter->uses_crcs())
    raise(ErrorClass::usage, "filter uses CRC fields, which requires verify_crcs=True");
  tracking::DissectorOptions options;
  options.decode.extra_roce_v2_port = roce_port;
  options.verify_crcs = verify_crcs;
  std::string error, text;
  bool interrupted = false;
  {
    const py::gil_scoped_release unlocked;
    const ReadingScope scope(source);
    if (auto reader = source.begin()) {
      tracking::Dissector dissector(options);
      tracking::Packet packet;
      output::Count count;
      captures::Record record;
      captures::Next next = captures::Next::record;
      for (std::uint64_t examined = 1; (next = reader->next(record)) == captures::Next::record; ++examined) {
        packet.number = record.number;
        packet.time_ns = record.time;
        packet.link = record.link;
        dissector.dissect(packet, record.bytes, record.wire_length);
        decode_user_headers(packet.stack);
        if (!filter || filter->matches(packet)) count.add(packet);
        if (examined % 65536 != 0) continue;
        if (source.closed()) error = source.closed_sentence();
        if (source.closed() || (interrupted = !signals_are_quiet())) break;
      }
      for (const captures::Interface& interface : reader->interfaces())
        if (const auto drops = interface.statistics ? interface.statistics->drops() : std::nullopt)
          count.add_lost(interface.name, *drops);
      if (next == captures::Next::error) error = captures::to_string(reader->error());
      text = count.json();
    } else {
      error = reader.error();
    }
    interrupted |= scope.interrupted();
  }
  if (interrupted) throw py::error_already_set();
  if (!error.empty()) raise_reading(error);
  return text;
}

}  // namespace

void bind_captures(py::module_& module) {
  using Source = CaptureSource;
  py::class_<Source, std::shared_ptr<Source>>(module, "CaptureSource",
                                              "The C++ part of rdmawire.Capture: source of packets.")
      .def(py::init(&Source::open), py::arg("path"), py::arg("data") = py::none(),
           "Open the file at `path`, or the contents of a file.")
      .def_property_readonly("name", &Source::name, "Name in error messages.")
      .def_property_readonly(
          "path",
          [](const Source& self) {
            return py::reinterpret_steal<py::str>(
                PyUnicode_DecodeFSDefaultAndSize(self.path().data(), static_cast<Py_ssize_t>(self.path().size())));
          },
          "Path of the file.")
      .def_property_readonly("in_memory", &Source::in_memory, "Whether the capture was opened from bytes.")
      .def_property_readonly("rereadable", &Source::rereadable, "Whether the capture can be read more than once.")
      .def_property_readonly("closed", &Source::closed, "Whether the capture was closed.")
      .def("close", &Source::close, "Close the capture. Its readers raise ClosedError.")
      .def("counts", &counts_of, py::arg("filter"), py::arg("roce_port"), py::arg("verify_crcs"),
           "Return the output of `dissect --count --json` for the packets that match.")
      .def("facts", &facts_of, "Read the complete capture. Returns packets, first and last time, interfaces, error.")
      .def(
          "table",
          [](const std::shared_ptr<Source>& self, const std::vector<std::string>& columns, const std::string& filter,
             std::uint16_t roce_port) {
            if (self->closed()) raise(ErrorClass::closed, self->closed_sentence());
            ReadOptions options;
            options.filter = compile_filter(filter);
            options.dissector.decode.extra_roce_v2_port = roce_port;
            return Table{packet_table(self, columns, options), "packets of " + self->name()};
          },
          py::arg("columns"), py::arg("filter") = "", py::arg("roce_port") = 0,
          "Return the table of the packets that match, with these columns.");
  module.def(
      "_check_output",
      [](const std::string& path, std::vector<std::string> inputs) {
        if (const auto fine = captures::check_output(path, inputs); !fine) raise(ErrorClass::usage, fine.error());
        for (const std::string& open : CaptureSource::open_files())
          if (captures::same_file(path, open))
            raise(ErrorClass::usage,
                  output::printable(path) + " is an open capture; close the capture, or choose another file");
      },
      py::arg("path"), py::arg("inputs"), "Raise UsageError if `path` is an input file or an open capture.");
  module.def(
      "_write_file",
      [](const std::string& path, const py::object& data) {
        const BytesView bytes(data);
        const auto written = [&] {
          const py::gil_scoped_release unlocked;
          return captures::write_file(path,
                                      {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()});
        }();
        if (!written) raise(ErrorClass::capture, written.error());
      },
      py::arg("path"), py::arg("data"), "Write a complete file. An old file is kept if writing fails.");
  py::class_<CaptureWriter>(module, "CaptureWriter", "The C++ part of rdmawire.CaptureWriter.")
      .def(py::init<const std::string&, const std::optional<std::string>&, const std::optional<std::string>&, int, bool,
                    const std::string&, const std::vector<std::string>&>(),
           py::arg("path"), py::arg("format"), py::arg("compression"), py::arg("level"), py::arg("nanoseconds"),
           py::arg("application"), py::arg("comments"), "Create the file, or overwrite it.")
      .def("add_interface", &CaptureWriter::add_interface, py::arg("link"), py::arg("name"), py::arg("description"),
           py::arg("snap_length"), "Add an interface. Returns its index.")
      .def("write", &CaptureWriter::write, py::arg("frame"), py::arg("time_ns"), py::arg("interface"), py::arg("link"),
           py::arg("wire_length"), py::arg("comments"), "Write one packet.")
      .def("flush", &CaptureWriter::flush, "Write buffered packets to the file.")
      .def("close", &CaptureWriter::close, "Finish the file. A second call has no effect.")
      .def_property_readonly("closed", &CaptureWriter::closed, "Whether the file was closed.")
      .def_property_readonly("records", &CaptureWriter::records, "Number of packets written.")
      .def_property_readonly("name", &CaptureWriter::name, "Name in error messages.");
}

}  // namespace rdmawire::python
