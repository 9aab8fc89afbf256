#pragma once
/// Host counters before and after a capture, compared with the capture.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace rdmawire::captures::analysis {

class Analysis;

/// Values by counter name. Counters of several links or ports are summed.
using Counters = std::map<std::string, std::uint64_t, std::less<>>;

/// Parses the output of `rdma statistic show`, `rdma -j statistic` or `ethtool -S`, or lines of a name and a value (as
/// in /sys/class/infiniband/*/ports/*/hw_counters). The error states the expected format.
tl::expected<Counters, std::string> parse_counters(std::string_view text);

struct CounterDifference {
  std::string name;
  std::uint64_t before = 0, after = 0;
  std::int64_t difference = 0;
  std::optional<std::uint64_t> in_capture;  ///< corresponding number in the capture (nullopt: not visible in captures)
  std::string says;                         ///< a sentence about the comparison (empty: not comparable)
};
/// Returns the counters that changed, or that have a value in the capture. For a single set of counters, pass an empty
/// `before`.
std::vector<CounterDifference> differences_of(const Counters& before, const Counters& after, const Analysis& analysis);

}  // namespace rdmawire::captures::analysis
