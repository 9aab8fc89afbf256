#pragma once
/// What a monitor says of one occasion on which a rule mattered.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rdmawire::conformance {

/// Why nothing can be said.
enum class Reason : std::uint8_t {
  start_not_seen,         ///< the connection's beginning is not in the capture
  capture_lost,           ///< packets are missing that only the capture may have missed
  maybe_lost_downstream,  ///< a packet that was seen may have been lost behind the capturing point
  cut,                    ///< the capture holds the packet's beginning alone
  direction_not_seen,     ///< the other direction is not in the capture, or not known to belong to it
  paired_by_inference,    ///< that the two directions are one connection's is likely, and not said by anybody
  damaged,                ///< the packet's CRC is bad: what it says is not sure to be what was sent
  modified_in_transit,    ///< something between the sender and the capture explains it
  order_unknown,          ///< the network or the capture may have changed the order of two packets
  negotiation_not_seen,   ///< what was agreed on for the connection was not seen: path MTU, timers, limits
  capability_unknown,     ///< whether the device has the optional feature is not known
  in_flight,              ///< it may have been sent before what forbids it arrived
  out_of_window,          ///< what it refers to is no longer remembered
  peer_violation,         ///< what the other end sent breaks the protocol, and what becomes of it is not laid down
  device_internal,        ///< only the device knows: memory, receive queues, other queue pairs
};
inline constexpr std::size_t reasons = static_cast<std::size_t>(Reason::device_internal) + 1;

/// "start_not_seen"; the names of JSON.
std::string_view to_string(Reason reason);
/// "the connection's beginning is not in the capture"
std::string_view sentence_of(Reason reason);

/// How a rule fared: it held, it was broken, or nothing can be said.
class RuleResult {
 public:
  enum class Kind : std::uint8_t { holds, violated, inconclusive };

  static constexpr RuleResult holds() { return {Kind::holds, {}}; }
  static constexpr RuleResult violated() { return {Kind::violated, {}}; }
  static constexpr RuleResult open(Reason reason) { return {Kind::inconclusive, reason}; }
  static constexpr RuleResult of(bool holds_it) { return holds_it ? holds() : violated(); }

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr Reason reason() const { return reason_; }
  /// A violation becomes inconclusive where `doubt` holds.
  [[nodiscard]] constexpr RuleResult unless(bool doubt, Reason why) const {
    return kind_ == Kind::violated && doubt ? open(why) : *this;
  }

 private:
  constexpr RuleResult(Kind kind, Reason reason) : kind_(kind), reason_(reason) {}
  Kind kind_;
  Reason reason_;
};

/// How often a rule was judged, and how.
struct ResultCounters {
  std::uint64_t holds = 0, violated = 0;
  std::array<std::uint64_t, reasons> open{};  ///< inconclusive, by Reason

  [[nodiscard]] std::uint64_t inconclusive() const;
  [[nodiscard]] std::uint64_t evaluated() const { return holds + violated + inconclusive(); }
  void add(const ResultCounters& other);
  /// "held", "violated", "inconclusive" or "not exercised", which is no pass.
  [[nodiscard]] std::string_view state() const;
};

}  // namespace rdmawire::conformance
