/// The C++ part of rdmawire.distributed: surveys, divided frames, analyses of shards, and the merged report.

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

/// Converts a survey to a tuple that can be pickled.
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

py::list bytes_of_all(std::vector<std::string>& batches) {
  py::list result;
  for (std::string& batch : batches) {
    result.append(py::bytes(batch));
    std::string().swap(batch);  // releases each batch early, so that all bytes are not in memory twice
  }
  return result;
}

/// (frame, time) of a packet. Frame 0: no packet.
using MomentTuple = std::pair<std::uint64_t, std::int64_t>;
MomentTuple tuple_of(const tracking::Moment& moment) { return {moment.frame, moment.time}; }

py::tuple divide(const std::string& file, std::uint64_t from, std::uint64_t to, std::uint64_t frames_before,
                 unsigned shards, const std::string& begin, const std::string& end, std::int64_t origin,
                 std::uint16_t roce_port, bool filtered) {
  const analysis::Portion portion{file,
                                  from,
                                  to,
                                  frames_before,
                                  boundary_of("begin", begin).from_origin(origin),
                                  boundary_of("end", end).from_origin(origin)};
  auto divided = [&] {
    const py::gil_scoped_release released;
    return analysis::divide(portion, shards, roce_port, filtered);
  }();
  if (!divided) raise(ErrorClass::capture, divided.error());
  return py::make_tuple(bytes_of_all(divided->batches), tuple_of(divided->last));
}

/// Analysis options of a shard.
struct ShardOptions {
  ShardOptions(const std::string& filter, std::uint64_t connection, const std::vector<std::string>& ignore,
               std::uint16_t roce_port, bool verify_crcs)
      : request(analysis_request(filter, connection, ignore, roce_port, verify_crcs)) {}
  AnalysisRequest request;
};

class ShardFilterBinding {
 public:
  ShardFilterBinding(std::shared_ptr<ShardOptions> options, unsigned shard, unsigned shards)
      : options_(std::move(options)), filter_(options_->request.run, shard, shards) {}
  void add(const py::object& batch) {
    const BytesView bytes(batch);
    const auto added = [&] {
      const py::gil_scoped_release released;
      return filter_.add(bytes.bytes());
    }();
    if (!added) raise(ErrorClass::parse, added.error());
  }
  py::tuple finish() {
    auto batches = filter_.finish();
    return py::make_tuple(bytes_of_all(batches), tuple_of(filter_.last()));
  }

 private:
  std::shared_ptr<ShardOptions> options_;
  analysis::ShardFilter filter_;
};

/// (address of endpoint a, address of endpoint b), each as two numbers.
using Narrow = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

class Tracker {
 public:
  Tracker(std::shared_ptr<ShardOptions> options, const std::string& rows) : options_(std::move(options)) {
    if (rows.empty()) {
      own_.emplace(options_->request.run);
      tracker_ = &*own_;
      return;
    }
    auto made = ShardRows::of(options_->request, rows);
    if (!made) raise(ErrorClass::usage, made.error());
    rows_ = std::move(*made);
    tracker_ = &rows_->tracker();
  }

  void add_filtered(const py::list& filtered) {
    std::vector<Bytes> views;
    for (const py::handle batch : filtered) {
      received_.push_back(std::make_unique<BytesView>(py::reinterpret_borrow<py::object>(batch)));
      views.push_back(received_.back()->bytes());
    }
    open().add_filtered(views);
  }
  void narrow_to(const Narrow& ends) {
    const auto& [high, low, other_high, other_low] = ends;
    open().narrow_to({high, low}, {other_high, other_low});
  }
  void add(const py::object& batch) {
    analysis::ShardTracker& tracker = open();
    const BytesView bytes(batch);
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
    if (!rows_) raise(ErrorClass::usage, "the shard has no rows; pass the kind of table to Tracker");
    return {rows_->table(), name};
  }

 private:
  analysis::ShardTracker& open() {
    if (!tracker_) raise(ErrorClass::closed, "the shard is finished and accepts no more data");
    return *tracker_;
  }
  std::shared_ptr<ShardOptions> options_;
  std::vector<std::unique_ptr<BytesView>> received_;
  std::optional<analysis::ShardTracker> own_;
  std::unique_ptr<ShardRows> rows_;
  analysis::ShardTracker* tracker_ = nullptr;
  std::uint64_t evicted_ = 0;
  std::optional<Narrow> wanted_;
};

std::string merge(const std::vector<std::pair<py::bytes, std::uint64_t>>& shards,
                  const std::vector<SurveyTuple>& surveys, const std::string& begin, const std::string& end,
                  const ShardOptions& options, const std::vector<std::string>& counters) {
  const HostCounters compared = HostCounters::read(counters);
  analysis::Input input;
  input.memory = analysis::default_memory;  // of each shard
  input.from = begin;
  input.to = end;
  input.connection = options.request.run.connection;
  if (options.request.filter) input.filter = options.request.filter->text();
  std::uint64_t frames = 0;
  analysis::Overlaps overlaps;
  for (const auto& [name, packets, bytes, lost, error, begins, first, last] : surveys) {
    input.files.push_back({name, packets, bytes, packets ? frames + 1 : 0, lost, error});
    frames += packets;
    if (packets) {
      overlaps.packet(first);
      overlaps.packet(last);
    }
    input.overlapping_files += overlaps.end_of_file();
  }
  std::optional<analysis::Analysis> whole;
  for (const auto& [saved, evicted] : shards) {
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
  py::module_ part = module.def_submodule("distributed", "The C++ part of rdmawire.distributed.");
  part.def(
      "survey", &survey, "file"_a,
      "Read a capture once. Returns (name, packets, bytes, packets lost by the capture or None, read error, time of "
      "the first packet, minimum time, maximum time). Times are nanoseconds since 1970.");
  part.def(
      "check_boundaries",
      [](const std::string& begin, const std::string& end) {
        static_cast<void>(boundary_of("begin", begin));
        static_cast<void>(boundary_of("end", end));
      },
      "begin"_a, "end"_a, "Raise UsageError for an invalid boundary.");
  part.def(
      "divide", &divide, "file"_a, "first"_a, "last"_a, "frames_before"_a, "shards"_a, "begin"_a, "end"_a, "origin"_a,
      "roce_port"_a, "filtered"_a,
      "Divide frames `first` to `last` of a file (from 1) into shards by endpoint pair. Returns a batch of bytes for "
      "each shard, and frame and time of the last packet with a BTH. `filtered`: ShardFilter reads the batches.");
  py::class_<ShardOptions, std::shared_ptr<ShardOptions>>(part, "ShardOptions", "Analysis options of a shard.")
      .def(py::init<const std::string&, std::uint64_t, const std::vector<std::string>&, std::uint16_t, bool>(),
           "filter"_a, "connection"_a, "ignore"_a, "roce_port"_a, "verify_crcs"_a);
  py::class_<ShardFilterBinding>(part, "ShardFilter",
                                 "Finds the data of one shard that other shards need to apply a filter.")
      .def(py::init<std::shared_ptr<ShardOptions>, unsigned, unsigned>(), "options"_a, "shard"_a, "shards"_a)
      .def("add", &ShardFilterBinding::add, "batch"_a, "Read the next batch of the shard.")
      .def("finish", &ShardFilterBinding::finish,
           "Return the argument of Tracker.add_filtered() for each shard, and frame and time of the last packet with a "
           "BTH.");
  py::class_<Tracker>(part, "Tracker", "Tracks one shard.")
      .def(py::init<std::shared_ptr<ShardOptions>, const std::string&>(), "options"_a, "rows"_a = "")
      .def("add_filtered", &Tracker::add_filtered, "filtered"_a,
           "Read the data of other shards' filters. Call before add().")
      .def("narrow_to", &Tracker::narrow_to, "ends"_a, "Count only packets between the endpoints of a connection.")
      .def("add", &Tracker::add, "batch"_a, "Read the next batch, in the order of the capture.")
      .def("finish", &Tracker::finish, "last"_a,
           "Return the analysis of the shard as bytes, and the number of packets dropped because a table was full.")
      .def_property_readonly("wanted", &Tracker::wanted,
                             "Endpoints of the requested connection, if it belongs to this finished shard.")
      .def("table", &Tracker::table, "name"_a, "Return the rows of a finished shard. They can be read once.");
  part.def("merge", &merge, "shards"_a, "surveys"_a, "begin"_a, "end"_a, "options"_a, "counters"_a,
           "Merge the results of Tracker.finish(). Returns the report as JSON.");
}

}  // namespace rdmawire::python
