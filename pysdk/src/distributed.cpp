/// What rdmawire.distributed sends through a cluster: surveys, parcels of frames, analyses, and the report they make.

#include <pybind11/stl.h>

#include <optional>

#include "captures/analysis/archive.hpp"
#include "captures/analysis/partition.hpp"
#include "captures/analysis/report.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/octets.hpp"

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
  return {facts.name,    facts.packets,  facts.octets,       facts.lost_by_capture,
          facts.trouble, result->begins, result->first_time, result->last_time};
}

analysis::Boundary boundary(const std::string& text, std::int64_t origin, const char* what) {
  if (text.empty()) return {};
  const auto parsed = analysis::Boundary::parse(text);
  if (!parsed)
    raise(ErrorClass::usage, std::string(what) + ": \"" + text +
                                 "\" is no place in a capture; it is seconds since the first packet (\"12.5\"), a time "
                                 "(\"2026-11-21T07:53:37\") or a frame (\"frame:214\")");
  return parsed->from_origin(origin);
}

py::list divide(const std::string& file, std::uint64_t from, std::uint64_t to, std::uint64_t frames_before,
                unsigned shares, const std::string& begin, const std::string& end, std::int64_t origin,
                std::uint16_t roce_port) {
  const analysis::Portion portion{
      file, from, to, frames_before, boundary(begin, origin, "begin"), boundary(end, origin, "end")};
  auto parcels = [&] {
    const py::gil_scoped_release released;
    return analysis::divide(portion, shares, roce_port);
  }();
  if (!parcels) raise(ErrorClass::capture, parcels.error());
  py::list result;
  for (std::string& parcel : *parcels) {
    result.append(py::bytes(parcel));
    std::string().swap(parcel);  // no two copies of all of them at once
  }
  return result;
}

class Tracker {
 public:
  Tracker(bool verify_crcs, std::uint16_t roce_port) : tracker_(std::in_place, options(verify_crcs, roce_port)) {}

  void add(const py::object& parcel) {
    if (!tracker_) raise(ErrorClass::closed, "a share was finished: it takes no more parcels");
    const Octets octets(parcel);
    const auto added = [&] {
      const py::gil_scoped_release released;
      return tracker_->add(octets.bytes());
    }();
    if (!added) raise(ErrorClass::parse, added.error());
  }
  py::tuple finish() {
    if (!tracker_) raise(ErrorClass::closed, "a share is finished once");
    std::string saved;
    std::uint64_t evicted = 0;
    {
      const py::gil_scoped_release released;
      saved = analysis::save(tracker_->finish());
      evicted = tracker_->evicted_packets();
      tracker_.reset();
    }
    return py::make_tuple(py::bytes(saved), evicted);
  }

 private:
  static analysis::RunOptions options(bool verify_crcs, std::uint16_t roce_port) {
    analysis::RunOptions result;
    result.dissector.verify_crcs = verify_crcs;
    result.dissector.decode.extra_roce_v2_port = roce_port;
    return result;
  }
  std::optional<analysis::ShareTracker> tracker_;
};

std::string merge(const std::vector<std::pair<py::bytes, std::uint64_t>>& shares,
                  const std::vector<SurveyTuple>& surveys, const std::string& begin, const std::string& end) {
  analysis::Input input;
  input.from = begin;
  input.to = end;
  std::uint64_t frames = 0;
  analysis::Overlaps overlaps;
  for (const auto& [name, packets, octets, lost, trouble, begins, first, last] : surveys) {
    input.files.push_back({name, packets, octets, packets ? frames + 1 : 0, lost, trouble});
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
    const Octets octets(saved);
    auto part = analysis::load(octets.bytes());
    if (!part) raise(ErrorClass::parse, part.error());
    if (whole)
      whole->merge(*part);
    else
      whole = std::move(*part);
  }
  if (!whole) whole.emplace();
  const py::gil_scoped_release released;
  return analysis::report_of(*whole, input).dump(-1, ' ', false, analysis::Json::error_handler_t::replace);
}

}  // namespace

void bind_distributed(py::module_& module) {
  using namespace pybind11::literals;
  py::module_ part = module.def_submodule("distributed", "What rdmawire.distributed sends through a cluster.");
  part.def("survey", &survey, "file"_a,
           "Reads a capture once. Gives (name, packets, octets, packets lost by the capture or None, why reading "
           "stopped, time of the first packet, least time, greatest time); times are nanoseconds since 1970.");
  part.def("divide", &divide, "file"_a, "first"_a, "last"_a, "frames_before"_a, "shares"_a, "begin"_a, "end"_a,
           "origin"_a, "roce_port"_a,
           "Divides frames `first` to `last` of a file (from 1) among shares, by endpoint pair. Gives a parcel for "
           "each.");
  py::class_<Tracker>(part, "Tracker", "Tracks one share.")
      .def(py::init<bool, std::uint16_t>(), "verify_crcs"_a, "roce_port"_a)
      .def("add", &Tracker::add, "parcel"_a, "Takes the next parcel, in the capture's order.")
      .def("finish", &Tracker::finish, "Gives the share's analysis as octets, and how many packets found no room.");
  part.def("merge", &merge, "shares"_a, "surveys"_a, "begin"_a, "end"_a,
           "Merges what Tracker.finish() gave of all shares to the report, as JSON text.");
}

}  // namespace rdmawire::python
