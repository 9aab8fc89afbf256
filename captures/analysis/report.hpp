#pragma once
/// The report: one JSON object with everything, and the text that a terminal shows of it.
/// docs/reference/analyze-report.md names the keys, docs/reference/schemas/analyze.schema.json describes them.

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

/// What was analyzed.
struct Input {
  struct File {
    std::string name;
    std::uint64_t packets = 0, bytes = 0;          ///< bytes of packets, as captured
    std::uint64_t first_frame = 0;                 ///< 0: the file has no packet
    std::optional<std::uint64_t> lost_by_capture;  ///< packets; absent: the file does not say
    std::string trouble;                           ///< why it could not be read to its end; empty: it was
  };
  std::vector<File> files;
  std::string filter, from, to;  ///< as they were asked for; empty: not
  std::uint64_t connection = 0;  ///< 0: all
  std::uint64_t evicted_packets = 0;
  std::uint64_t overlapping_files = 0;  ///< that were recorded while an earlier one still was
};

/// `counters` as differences_of() gives them. Connections behind the first `whole_connections` have their service only,
/// and no flows: enough for text_of(), and of thousands of connections most of the time that a report takes.
Json report_of(const Analysis& analysis, const Input& input, const std::vector<CounterDifference>& counters = {},
               std::size_t whole_connections = SIZE_MAX);

/// A connection as it stands in `connections`, and one direction of it as it stands in `flows`.
Json connection_json(const Connection& connection);
Json flow_json(const Connection& connection, Side from);
Json message_json(const Message& message);
Json event_json(const Event& event);

struct TextOptions {
  std::size_t width = 100;  ///< columns; what is less than 80 counts as 80
  bool colors = false;
  std::size_t rows = 10;  ///< of each table at most
  bool tables = true;     ///< false: summary and findings only
};
std::string text_of(const Json& report, const TextOptions& options = {});

}  // namespace rdmawire::captures::analysis
