#include "conformance/monitors/rule_result.hpp"

#include <numeric>

namespace rdmawire::conformance {
namespace {

/// Ordered like Reason.
constexpr std::array<std::string_view, reasons> names{
    "start_not_seen",      "capture_lost", "maybe_lost_downstream", "truncated",      "direction_not_seen",
    "paired_by_inference", "damaged",      "modified_in_transit",   "order_unknown",  "negotiation_not_seen",
    "capability_unknown",  "in_flight",    "out_of_window",         "peer_violation", "device_internal",
};

}  // namespace

std::string_view to_string(Reason reason) { return names[static_cast<std::size_t>(reason)]; }

std::uint64_t ResultCounters::inconclusive() const {
  return std::accumulate(inconclusive_by_reason.begin(), inconclusive_by_reason.end(), std::uint64_t{0});
}
std::string_view ResultCounters::state() const {
  if (violated != 0) return "violated";
  if (passed != 0) return "passed";
  return inconclusive() != 0 ? "inconclusive" : "not exercised";
}
void ResultCounters::add(const ResultCounters& other) {
  passed += other.passed;
  violated += other.violated;
  for (std::size_t i = 0; i < inconclusive_by_reason.size(); ++i)
    inconclusive_by_reason[i] += other.inconclusive_by_reason[i];
}

}  // namespace rdmawire::conformance
