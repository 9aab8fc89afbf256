#pragma once
/// Comparison of a device's requests, independent of their time and of how the device splits retransmissions.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "conformance/fuzzer/oracle.hpp"
#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/modular.hpp"

namespace rdmawire::fuzzer {

/// Requests that the conforming device has sent in one script, without CNPs, because congestion management is
/// optional.
class KnownRequests {
 public:
  /// Add the requests that the conforming device sent in a step.
  void sent(std::span<const std::vector<std::uint8_t>> frames);
  /// Compare the device's requests of that step: each must be known or the rest of a READ, and all new requests must be
  /// sent. Time and extent of retransmissions are implementation-defined.
  [[nodiscard]] std::optional<Alarm> judge(std::span<const std::vector<std::uint8_t>> frames) const;

 private:
  using Frame = std::vector<std::uint8_t>;
  std::multimap<std::uint32_t, Frame> known_;  ///< by PSN
  std::vector<Frame> fresh_;                   ///< of the last step
};

/// True if a device may handle an invalid response differently from the reference device: fail the request, retry it,
/// or wait. Later steps then cannot be compared.
///
/// This is permitted if the response is invalid for the request and the reference device does not ignore it, except for
/// a valid NAK, which ends the request. Completing the request successfully is never permitted.
bool is_implementation_defined(const Step& step, const Outcome& expected, const Outcome& actual);
/// True if both sent requests with the same PSNs. Otherwise different responses are valid.
bool sent_same_psns(const Outcome& expected, const Outcome& actual);
/// True if a response contains credits, or may contain them after a mutation. Devices may ignore credits
/// (docs/reference/known-deviations.md), so later requests cannot be compared.
bool has_credits(const Step& step);

}  // namespace rdmawire::fuzzer
