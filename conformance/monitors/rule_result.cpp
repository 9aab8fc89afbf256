#include "conformance/monitors/rule_result.hpp"

#include <numeric>

namespace rdmawire::conformance {
namespace {

struct Row {
  std::string_view name, sentence;
};
constexpr std::array<Row, reasons> rows{{
    {"start_not_seen", "the connection's beginning is not in the capture"},
    {"capture_lost", "packets are missing that only the capture may have missed"},
    {"maybe_lost_downstream", "a packet that was seen may have been lost behind the capturing point"},
    {"cut", "the capture holds the packet's beginning alone"},
    {"direction_not_seen", "the other direction is not in the capture, or not known to belong to it"},
    {"paired_by_inference", "that the two directions are one connection's is likely, and nobody says it"},
    {"damaged", "the packet's CRC is bad: what it says may not be what was sent"},
    {"modified_in_transit", "something between the sender and the capture may have changed the packet"},
    {"order_unknown", "the network or the capture may have changed the order of two packets"},
    {"negotiation_not_seen", "what was agreed on for the connection (path MTU, timers, limits) was not seen"},
    {"capability_unknown", "whether the device has the optional feature is not known"},
    {"in_flight", "it may have been sent before what forbids it arrived"},
    {"out_of_window", "what it refers to is no longer remembered"},
    {"peer_violation", "what the other end sent breaks the protocol, and what becomes of it is not laid down"},
    {"device_internal", "only the device knows: memory, receive queues, other queue pairs"},
}};

}  // namespace

std::string_view to_string(Reason reason) { return rows[static_cast<std::size_t>(reason)].name; }
std::string_view sentence_of(Reason reason) { return rows[static_cast<std::size_t>(reason)].sentence; }

std::uint64_t ResultCounters::inconclusive() const {
  return std::accumulate(open.begin(), open.end(), std::uint64_t{0});
}
std::string_view ResultCounters::state() const {
  if (violated != 0) return "violated";
  if (holds != 0) return "held";
  return inconclusive() != 0 ? "inconclusive" : "not exercised";
}
void ResultCounters::add(const ResultCounters& other) {
  holds += other.holds;
  violated += other.violated;
  for (std::size_t i = 0; i < open.size(); ++i) open[i] += other.open[i];
}

}  // namespace rdmawire::conformance
