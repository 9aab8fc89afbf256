#pragma once
/// The result of evaluating a rule once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rdmawire::conformance {

/// The reason for an inconclusive result.
enum class Reason : std::uint8_t {
  start_not_seen,         ///< the start of the connection is not in the capture
  capture_lost,           ///< packets were lost, possibly only by the capture
  maybe_lost_downstream,  ///< the packet may have been lost downstream of the capture point
  truncated,              ///< the capture contains only the start of the packet
  direction_not_seen,     ///< the other direction is not in the capture or not paired
  paired_by_inference,    ///< the two directions are paired only by inference
  damaged,                ///< the packet's CRC is invalid, so its fields are unreliable
  modified_in_transit,    ///< a hop between the sender and the capture may have changed the packet
  order_unknown,          ///< the network or the capture may have reordered two packets
  negotiation_not_seen,   ///< the negotiated parameters (path MTU, timers, limits) are unknown
  capability_unknown,     ///< it is unknown whether the device supports the optional feature
  in_flight,              ///< the packet may have been sent before the packet that forbids it arrived
  out_of_window,          ///< the referenced packet is no longer remembered
  peer_violation,         ///< the peer violates the protocol, and the reaction is unspecified
  device_internal,        ///< the result depends on internal state of the device: memory, receive queues, other QPs
};
inline constexpr std::size_t reasons = static_cast<std::size_t>(Reason::device_internal) + 1;

/// Returns the name in JSON, such as "start_not_seen".
std::string_view to_string(Reason reason);

/// Pass, violation, or inconclusive with a reason.
class RuleResult {
 public:
  enum class Kind : std::uint8_t { pass, violation, inconclusive };

  static constexpr RuleResult pass() { return {Kind::pass, {}}; }
  static constexpr RuleResult violation() { return {Kind::violation, {}}; }
  static constexpr RuleResult inconclusive(Reason reason) { return {Kind::inconclusive, reason}; }
  static constexpr RuleResult of(bool condition) { return condition ? pass() : violation(); }

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr Reason reason() const { return reason_; }
  /// Returns an inconclusive result if this is a violation and `doubt` is true. Otherwise returns this result.
  [[nodiscard]] constexpr RuleResult unless(bool doubt, Reason why) const {
    return kind_ == Kind::violation && doubt ? inconclusive(why) : *this;
  }

 private:
  constexpr RuleResult(Kind kind, Reason reason) : kind_(kind), reason_(reason) {}
  Kind kind_;
  Reason reason_;
};

/// Number of evaluations of a rule, by result.
struct ResultCounters {
  std::uint64_t passed = 0, violated = 0;
  std::array<std::uint64_t, reasons> inconclusive_by_reason{};

  [[nodiscard]] std::uint64_t inconclusive() const;
  [[nodiscard]] std::uint64_t evaluated() const { return passed + violated + inconclusive(); }
  void add(const ResultCounters& other);
  /// Returns "passed", "violated", "inconclusive" or "not exercised" (never evaluated).
  [[nodiscard]] std::string_view state() const;
};

}  // namespace rdmawire::conformance
