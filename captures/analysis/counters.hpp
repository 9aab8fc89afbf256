#pragma once
/// Host counters before and after, set beside what the capture shows.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace rdmawire::captures::analysis {

class Analysis;

/// By name; those of several links or ports, summed.
using Counters = std::map<std::string, std::uint64_t, std::less<>>;

/// Reads `rdma statistic show`, `rdma -j statistic`, `ethtool -S`, or lines of a name and a value (the files of
/// /sys/class/infiniband/*/ports/*/hw_counters, one after the other). An error says what was expected.
tl::expected<Counters, std::string> parse_counters(std::string_view text);

struct CounterDifference {
  std::string name;
  std::uint64_t before = 0, after = 0;
  std::int64_t difference = 0;
  std::optional<std::uint64_t> in_capture;  ///< absent: a capture cannot show it
  std::string says;                         ///< a sentence; empty where there is nothing to compare
};
/// Counters that changed, or that the capture shows something of. One set only: differences from 0.
std::vector<CounterDifference> differences_of(const Counters& before, const Counters& after, const Analysis& analysis);

}  // namespace rdmawire::captures::analysis
