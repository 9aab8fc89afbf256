#pragma once
/// Legal traffic of a connection before the steps of a case, see Parameter::history.

#include <cstddef>
#include <cstdint>

#include "conformance/cases/bench.hpp"

namespace rdmawire::conformance {

/// The PSNs that a history uses in each direction. They equal the completed messages.
struct HistoryLength {
  std::int32_t tester_packets = 0, device_packets = 0;
};
/// `history`: index of a value of Parameter::history.
HistoryLength history_length(std::size_t history);

/// The reaction of the device to the traffic is checked. A failure ends the case with the violated rule.
class HistoryTraffic {
 public:
  /// Both references must outlive this object.
  HistoryTraffic(Bench& bench, Connected& qp) : bench_(bench), qp_(qp) {}
  /// Returns whether a connection with these options can have a history.
  static bool possible(const ConnectOptions& options);
  /// Runs the traffic. Afterwards, the relative PSNs and MSNs of the connection begin after its packets.
  void run(std::size_t history);

 private:
  void post_receive();
  void tester_sends(bool repeated);
  void device_sends(bool retransmitted);
  void gap();
  void not_ready();
  void error_and_reset();
  /// Discards late retransmissions of the device.
  void discard_retransmissions();
  /// Runs `step`. A deviation violates `rule`.
  template <class Step>
  void checked(const char* rule, const Step& step);

  Bench& bench_;
  Connected& qp_;
  const peer::Region* memory_ = nullptr;
  std::int32_t sent_ = 0, received_ = 0;  ///< messages of the tester and of the device
  std::uint64_t wr_id_ = 0x40000000;
};

}  // namespace rdmawire::conformance
