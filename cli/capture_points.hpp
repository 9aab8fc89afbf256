#pragma once
/// rdmawire analyze --capture-points: compares captures taken at several points of a path.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace rdmawire::cli {

struct CapturePointOptions {
  std::vector<std::string> files;
  std::string filter, fail_on;
  std::vector<std::string> order;  ///< files by name or end of the name. Empty: inferred
  double window = 0;               ///< seconds. 0: default
  unsigned threads = 1;
  std::size_t rows = 10, width = 100;
  std::uint16_t roce_port = 0;
  DecodeOptions decode;
  bool synchronized = false, json = false, no_crc = false, colors = false;
};

/// The kinds of findings of a comparison.
std::vector<std::string> capture_point_findings();
Exit compare_capture_points(const CapturePointOptions& options);

}  // namespace rdmawire::cli
