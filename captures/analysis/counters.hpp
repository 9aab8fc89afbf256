#pragma once
/// Compares the host's counters before and after a capture with the capture.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace rdmawire::captures::analysis {

class Analysis;

/// Values by counter name. The counters of several links or ports are added.
using Counters = std::map<std::string, std::uint64_t, std::less<>>;

/// Parses the output of `rdma statistic show`, `rdma -j statistic` or `ethtool -S`, or lines of a name and a value (as
/// in /sys/class/infiniband/*/ports/*/hw_counters). The error states the expected format.
tl::expected<Counters, std::string> parse_counters(std::string_view text);

struct CounterDifference {
  std::string name;
  std::uint64_t before = 0, after = 0;
  std::int64_t difference = 0;
  std::optional<std::uint64_t> in_capture;  ///< corresponding number in the capture (nullopt: captures do not show it)
  std::string says;                         ///< a sentence about the comparison (empty: the values cannot be compared)
};
/// Returns the counters that changed, or that correspond to a number in the capture. If there is only one set of
/// counters, `before` must be empty.
std::vector<CounterDifference> differences_of(const Counters& before, const Counters& after, const Analysis& analysis);

}  // namespace rdmawire::captures::analysis
