/// What rdmawire.distributed sends through a cluster: surveys, parcels of frames, analyses, and the report they make.

#include <pybind11/stl.h>

#include <optional>

#include "captures/analysis/archive.hpp"
#include "captures/analysis/partition.hpp"
#include "captures/analysis/report.hpp"
#include "pysdk/src/analysis_rows.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/columns_python.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {
namespace {

namespace analysis = captures::analysis;

/// One tuple that every process understands; what a Survey is in Python.
using SurveyTuple = std::tuple<std::string, std::uint64_t, std::uint64_t, std::optional<std::uint64_t>, std::string,
                               std::int64_t, std::int64_t, std::int64_t>;

SurveyTuple survey(const std::string& file) {
  auto result = [&] {
    const py::gil_scoped_release released;
    return analysis::survey(file);
  }();
  if (!result) raise(ErrorClass::capture, result.error());
  const analysis::Input::File& facts = result->facts;
  return {facts.name,  facts.packets,      facts.bytes,        facts.lost_by_capture,
          facts.error, result->start_time, result->first_time, result->last_time};
}

py::list bytes_of_all(std::vector<std::string>& parcels) {
  py::list result;
  for (std::string& parcel : parcels) {
    result.append(py::bytes(parcel));
    std::string().swap(parcel);  // no two copies of all of them at once
  }
  return result;
}

/// (frame, time) of a packet; frame 0: there is none.
using MomentTuple = std::pair<std::uint64_t, std::int64_t>;
MomentTuple tuple_of(const tracking::Moment& moment) { return {moment.frame, moment.time}; }

py::tuple divide(const std::string& file, std::uint64_t from, std::uint64_t to, std::uint64_t frames_before,
                 unsigned shares, const std::string& begin, const std::string& end, std::int64_t origin,
                 std::uint16_t roce_port, bool sifted) {
  const analysis::Portion portion{file,
                                  from,
                                  to,
                                  frames_before,
                                  boundary_of("begin", begin).from_origin(origin),
                                  boundary_of("end", end).from_origin(origin)};
  auto divided = [&] {
    const py::gil_scoped_release released;
    return analysis::divide(portion, shares, roce_port, sifted);
  }();
  if (!divided) raise(ErrorClass::capture, divided.error());
  return py::make_tuple(bytes_of_all(divided->batches), tuple_of(divided->last));
}

/// What Python asks of a share: as rdmawire.analyze has it.
struct ShardOptions {
  ShardOptions(const std::string& filter, std::uint64_t connection, const std::vector<std::string>& ignore,
               std::uint16_t roce_port, bool verify_crcs)
      : request(analysis_request(filter, connection, ignore, roce_port, verify_crcs)) {}
  AnalysisRequest request;
};

class Sifter {
 public:
  Sifter(std::shared_ptr<ShardOptions> options, unsigned share, unsigned shares)
      : options_(std::move(options)), sifter_(options_->request.run, share, shares) {}
  void add(const py::object& parcel) {
    const BytesView bytes(parcel);
    const auto added = [&] {
      const py::gil_scoped_release released;
      return sifter_.add(bytes.bytes());
    }();
    if (!added) raise(ErrorClass::parse, added.error());
  }
  py::tuple finish() {
    auto parcels = sifter_.finish();
    return py::make_tuple(bytes_of_all(parcels), tuple_of(sifter_.last()));
  }

 private:
  std::shared_ptr<ShardOptions> options_;
  analysis::ShareSifter sifter_;
};

/// (address of one end, of the other), each as two numbers.
using Narrow = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

class Tracker {
 public:
  Tracker(std::shared_ptr<ShardOptions> options, const std::string& rows) : options_(std::move(options)) {
    if (rows.empty()) {
      own_.emplace(options_->request.run);
      tracker_ = &*own_;
      return;
    }
    auto made = ShareRows::of(options_->request, rows);
    if (!made) raise(ErrorClass::usage, made.error());
    rows_ = std::move(*made);
    tracker_ = &rows_->tracker();
  }

  void hear(const py::list& sifted) {
    std::vector<Bytes> views;
    for (const py::handle parcel : sifted) {
      received_.push_back(std::make_unique<BytesView>(py::reinterpret_borrow<py::object>(parcel)));
      views.push_back(received_.back()->bytes());
    }
    open().add_filtered(views);
  }
  void narrow_to(const Narrow& ends) {
    const auto& [high, low, other_high, other_low] = ends;
    open().narrow_to({high, low}, {other_high, other_low});
  }
  void add(const py::object& parcel) {
    analysis::ShardTracker& tracker = open();
    const BytesView bytes(parcel);
    const auto added = [&] {
      const py::gil_scoped_release released;
      return tracker.add(bytes.bytes());
    }();
    if (!added) raise(ErrorClass::parse, added.error());
  }
  py::tuple finish(const MomentTuple& last) {
    analysis::ShardTracker& tracker = open();
    tracker_ = nullptr;
    std::string saved;
    {
      const py::gil_scoped_release released;
      const analysis::Analysis found = tracker.finish({last.first, last.second});
      if (!rows_) saved = analysis::save(found);
    }
    evicted_ = tracker.evicted_packets();
    if (const auto& wanted = tracker.wanted())
      wanted_ = Narrow{wanted->ends[0].address.high, wanted->ends[0].address.low, wanted->ends[1].address.high,
                       wanted->ends[1].address.low};
    received_.clear();
    own_.reset();
    return py::make_tuple(py::bytes(saved), evicted_);
  }
  [[nodiscard]] std::optional<Narrow> wanted() const { return wanted_; }
  [[nodiscard]] Table table(const std::string& name) const {
    if (!rows_) raise(ErrorClass::usage, "this share was not tracked for its rows");
    return {rows_->table(), name};
  }

 private:
  analysis::ShardTracker& open() {
    if (!tracker_) raise(ErrorClass::closed, "a share was finished: it takes nothing more");
    return *tracker_;
  }
  std::shared_ptr<ShardOptions> options_;
  std::vector<std::unique_ptr<BytesView>> received_;
  std::optional<analysis::ShareTracker> own_;
  std::unique_ptr<ShareRows> rows_;
  analysis::ShardTracker* tracker_ = nullptr;
  std::uint64_t evicted_ = 0;
  std::optional<Narrow> wanted_;
};

std::string merge(const std::vector<std::pair<py::bytes, std::uint64_t>>& shares,
                  const std::vector<SurveyTuple>& surveys, const std::string& begin, const std::string& end,
                  const ShardOptions& options, const std::vector<std::string>& counters) {
  const HostCounters compared = HostCounters::read(counters);
  analysis::Input input;
  input.from = begin;
  input.to = end;
  input.connection = options.request.run.connection;
  if (options.request.filter) input.filter = options.request.filter->text();
  std::uint64_t frames = 0;
  analysis::Overlaps overlaps;
  for (const auto& [name, packets, bytes, lost, trouble, begins, first, last] : surveys) {
    input.files.push_back({name, packets, bytes, packets ? frames + 1 : 0, lost, trouble});
    frames += packets;
    if (packets) {
      overlaps.packet(first);
      overlaps.packet(last);
    }
    input.overlapping_files += overlaps.end_of_file();
  }
  std::optional<analysis::Analysis> whole;
  for (const auto& [saved, evicted] : shares) {
    input.evicted_packets += evicted;
    const BytesView bytes(saved);
    auto part = analysis::load(bytes.bytes());
    if (!part) raise(ErrorClass::parse, part.error());
    if (whole)
      whole->merge(*part);
    else
      whole = std::move(*part);
  }
  if (!whole) whole.emplace();
  const py::gil_scoped_release released;
  return analysis::report_of(*whole, input, compared.differences(*whole))
      .dump(-1, ' ', false, analysis::Json::error_handler_t::replace);
}

}  // namespace

void bind_distributed(py::module_& module) {
  using namespace pybind11::literals;
  py::module_ part = module.def_submodule("distributed", "What rdmawire.distributed sends through a cluster.");
  part.def("survey", &survey, "file"_a,
           "Reads a capture once. Gives (name, packets, bytes, packets lost by the capture or None, why reading "
           "stopped, time of the first packet, least time, greatest time); times are nanoseconds since 1970.");
  part.def(
      "check_boundaries",
      [](const std::string& begin, const std::string& end) {
        static_cast<void>(boundary_of("begin", begin));
        static_cast<void>(boundary_of("end", end));
      },
      "begin"_a, "end"_a, "Raises UsageError where one of them is no place in a capture.");
  part.def(
      "divide", &divide, "file"_a, "first"_a, "last"_a, "frames_before"_a, "shares"_a, "begin"_a, "end"_a, "origin"_a,
      "roce_port"_a, "sifted"_a,
      "Divides frames `first` to `last` of a file (from 1) among shares, by endpoint pair. Gives a parcel for "
      "each, and the last packet with a BTH, by frame and time. `sifted`: shares are sifted, as they must be where "
      "there is a filter.");
  py::class_<ShardOptions, std::shared_ptr<ShardOptions>>(part, "Asked",
                                                          "What is asked of each share, as rdmawire.analyze has it.")
      .def(py::init<const std::string&, std::uint64_t, const std::vector<std::string>&, std::uint16_t, bool>(),
           "filter"_a, "connection"_a, "ignore"_a, "roce_port"_a, "verify_crcs"_a);
  py::class_<Sifter>(part, "Sifter", "Finds what one share has for the others where there is a filter.")
      .def(py::init<std::shared_ptr<ShardOptions>, unsigned, unsigned>(), "asked"_a, "share"_a, "shares"_a)
      .def("add", &Sifter::add, "parcel"_a, "Takes the share's next parcel.")
      .def("finish", &Sifter::finish,
           "For each share what Tracker.hear takes, empty where there is nothing; and the last packet with a BTH, by "
           "frame and time.");
  py::class_<Tracker>(part, "Tracker", "Tracks one share.")
      .def(py::init<std::shared_ptr<ShardOptions>, const std::string&>(), "asked"_a, "rows"_a = "")
      .def("hear", &Tracker::hear, "sifted"_a, "Takes what the sifters of all shares have, before the first parcel.")
      .def("narrow_to", &Tracker::narrow_to, "ends"_a, "Counts only packets between the ends of a connection.")
      .def("add", &Tracker::add, "parcel"_a, "Takes the next parcel, in the capture's order.")
      .def("finish", &Tracker::finish, "last"_a,
           "Gives the share's analysis as bytes, and how many packets found no room.")
      .def_property_readonly("wanted", &Tracker::wanted,
                             "The ends of the connection that was asked for, when it is this share's and finished.")
      .def("table", &Tracker::table, "name"_a, "The rows of the share, when it is finished; they are read once.");
  part.def("merge", &merge, "shares"_a, "surveys"_a, "begin"_a, "end"_a, "asked"_a, "counters"_a,
           "Merges what Tracker.finish() gave of all shares to the report, as JSON text.");
}

}  // namespace rdmawire::python
