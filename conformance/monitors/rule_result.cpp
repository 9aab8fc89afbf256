#include "conformance/monitors/rule_result.hpp"

#include <numeric>

namespace rdmawire::conformance {
namespace {

struct Row {
  std::string_view name, sentence;
};
constexpr std::array<Row, reasons> rows{{
    {"start_not_seen", "the start of the connection is not in the capture"},
    {"capture_lost", "packets are missing, possibly only from the capture"},
    {"maybe_lost_downstream", "the packet may have been lost downstream of the capture point"},
    {"truncated", "the capture contains only the start of the packet"},
    {"direction_not_seen", "the other direction is not in the capture or not paired"},
    {"paired_by_inference", "the two directions are paired only by inference"},
    {"damaged", "the packet's CRC is invalid, so its fields are unreliable"},
    {"modified_in_transit", "a hop between the sender and the capture may have changed the packet"},
    {"order_unknown", "the network or the capture may have reordered two packets"},
    {"negotiation_not_seen", "the negotiated parameters (path MTU, timers, limits) are unknown"},
    {"capability_unknown", "it is unknown whether the device supports the optional feature"},
    {"in_flight", "the packet may have been sent before the packet that forbids it arrived"},
    {"out_of_window", "the referenced packet is no longer remembered"},
    {"peer_violation", "the peer violates the protocol, and the reaction is unspecified"},
    {"device_internal", "the state is internal to the device: memory, receive queues, other QPs"},
}};

}  // namespace

std::string_view to_string(Reason reason) { return rows[static_cast<std::size_t>(reason)].name; }
std::string_view sentence_of(Reason reason) { return rows[static_cast<std::size_t>(reason)].sentence; }

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
