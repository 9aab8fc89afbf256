#pragma once
/// rdmawire analyze --vantage: several captures of one job, compared.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace rdmawire::cli {

struct VantageOptions {
  std::vector<std::string> files;
  std::string filter, fail_on;
  std::vector<std::string> order;  ///< files, by their names or the ends of these; empty: found out
  double window = 0;               ///< seconds; 0: the usual
  unsigned threads = 1;
  std::size_t rows = 10, width = 100;
  std::uint16_t roce_port = 0;
  bool synchronized = false, json = false, no_crc = false, colors = false;
};

/// Whether `word` is a kind of finding that a comparison of vantage points can have.
bool is_vantage_finding(const std::string& word);
Exit compare_vantage_points(const VantageOptions& options);

}  // namespace rdmawire::cli
