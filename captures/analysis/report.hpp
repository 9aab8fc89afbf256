#pragma once
/// The report: a JSON object, and its text form for the terminal. docs/reference/analyze-report.md lists the keys.
/// docs/reference/schemas/analyze.schema.json describes them.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/analysis.hpp"
#include "captures/analysis/counters.hpp"
#include "captures/analysis/findings.hpp"

namespace rdmawire::captures::analysis {

using Json = nlohmann::ordered_json;

/// Properties of the input.
struct Input {
  struct File {
    std::string name;
    std::uint64_t packets = 0, bytes = 0;  ///< number of packets, and their bytes as captured
    std::uint64_t first_frame = 0;         ///< number of the first frame (0: the file has no packets)
    std::optional<std::uint64_t>
        lost_by_capture;         ///< number of packets that the capture lost (nullopt: the file does not state it)
    std::string error;           ///< read error (empty: the file was read completely)
    bool out_of_memory = false;  ///< the error is a failed allocation
  };
  std::vector<File> files;
  std::string filter, from, to;  ///< options as specified (empty: not specified)
  std::uint64_t connection = 0;  ///< the only connection that was analyzed (0: all were)
  std::uint64_t evicted_packets = 0;
  std::uint64_t overlapping_files = 0;  ///< number of files that were recorded at the same time as an earlier one
  std::uint64_t memory = 0;             ///< limit on memory in bytes (0: none is stated)
};

/// `counters` is the result of differences_of(). Only the first `whole_connections` connections are complete. Later
/// ones contain only their service, and have no flows. This is sufficient for text_of(), and saves most of the time if
/// there are thousands of connections.
Json report_of(const Analysis& analysis, const Input& input, const std::vector<CounterDifference>& counters = {},
               std::size_t whole_connections = SIZE_MAX);

/// Return an element of `connections`, and an element of `flows`.
Json connection_json(const Connection& connection);
Json flow_json(const Connection& connection, Side from);
/// Return an element of `mrc.connections` without `reverse`, and an element of `mrc.paths`.
Json mrc_connection_json(const tracking::MrcFlow& flow);
Json mrc_path_json(const tracking::MrcFlow& flow, const tracking::MrcPath& path);
Json message_json(const Message& message);
Json event_json(const Event& event);

struct TextOptions {
  std::size_t width = 100;  ///< width in columns, at least 80
  bool colors = false;
  std::size_t rows = 10;  ///< maximum number of rows per table
  bool tables = true;     ///< false: summary and findings only
};
std::string text_of(const Json& report, const TextOptions& options = {});

}  // namespace rdmawire::captures::analysis
