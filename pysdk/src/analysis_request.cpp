#include "pysdk/src/analysis_request.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "pysdk/src/captures.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {
namespace {

namespace analysis = captures::analysis;

analysis::Counters counters_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) raise(ErrorClass::capture, fmt::format("counters: cannot read {}", path));
  auto counters = analysis::parse_counters(content);
  if (!counters) raise(ErrorClass::usage, fmt::format("counters: {}: {}", path, counters.error()));
  return std::move(*counters);
}

}  // namespace

std::optional<std::string> AnalysisRequest::stream() const {
  for (const std::string& file : run.files) {
    struct stat status {};
    if (file == "-") return "standard input";
    if (::stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return file;
  }
  return std::nullopt;
}

std::uint64_t memory_of(const std::string& text) {
  const auto size = analysis::parse_memory(text);
  if (!size) raise(ErrorClass::usage, "memory: " + size.error());
  return *size;
}

void disable_protocols(DecodeOptions& options, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!disable_protocol(options, name))
      raise(ErrorClass::usage, fmt::format("disable_protocol: unknown protocol {}: expected mrc", name));
}

AnalysisRequest analysis_request(const std::string& filter, std::uint64_t connection,
                                 const std::vector<std::string>& ignore, std::uint16_t roce_port, bool verify_crcs,
                                 const std::vector<std::string>& disable_protocol) {
  AnalysisRequest request;
  analysis::RunOptions& run = request.run;
  run.connection = connection;
  run.dissector.verify_crcs = verify_crcs;
  run.dissector.decode.extra_roce_v2_port = roce_port;
  disable_protocols(run.dissector.decode, disable_protocol);
  for (const std::string& word : ignore) {
    if (word == "cm")
      run.tracker.use_connection_manager = false;
    else if (word == "text")
      run.tracker.use_text = false;
    else if (word == "source-port")
      run.tracker.use_source_port = false;
    else
      raise(ErrorClass::usage, fmt::format("ignore: unknown source {}; expected cm, text or source-port", word));
  }
  request.filter = compile_filter(filter);
  run.filter = request.filter.get();
  if (run.filter && !verify_crcs && run.filter->uses_crcs())
    raise(ErrorClass::usage, "filter uses CRC fields, which requires verify_crcs=True");
  return request;
}

analysis::Boundary boundary_of(const char* name, const std::string& text) {
  if (text.empty()) return {};
  const auto parsed = analysis::Boundary::parse(text);
  if (!parsed)
    raise(ErrorClass::usage,
          fmt::format("{}: invalid boundary {}; expected seconds since the first packet, a date such as "
                      "2026-11-21T07:53:37, or frame:214",
                      name, text));
  return *parsed;
}

HostCounters HostCounters::read(const std::vector<std::string>& paths) {
  if (paths.size() > 2) raise(ErrorClass::usage, "counters accepts at most two files (before and after)");
  HostCounters counters;
  if (!paths.empty()) counters.after = counters_of(paths.back());
  if (paths.size() == 2) counters.before = counters_of(paths.front());
  counters.compares = !paths.empty();
  return counters;
}

std::vector<analysis::CounterDifference> HostCounters::differences(const analysis::Analysis& analysis) const {
  if (!compares) return {};
  return analysis::differences_of(before, after, analysis);
}

}  // namespace rdmawire::python
