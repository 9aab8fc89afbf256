#pragma once
/// Compares a device's requests with those of the reference device, independent of their time and of how the device
/// divides retransmissions.

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

/// The requests that the reference device has sent in one script. CNPs are not included, because congestion management
/// is optional.
class KnownRequests {
 public:
  /// Add the requests that the reference device sent in a step.
  void sent(std::span<const std::vector<std::uint8_t>> frames);
  /// Compare the device's requests of that step. Each must be a known request or the rest of a known READ, and all new
  /// requests must be present. When and from where a device retransmits is implementation-defined.
  [[nodiscard]] std::optional<Alarm> judge(std::span<const std::vector<std::uint8_t>> frames) const;

 private:
  using Frame = std::vector<std::uint8_t>;
  std::multimap<std::uint32_t, Frame> known_;  ///< all requests, by PSN
  std::vector<Frame> fresh_;                   ///< new requests of the last step
};

/// True if the device handled an invalid response differently from the reference device, and that is permitted: it may
/// fail the request, retry it, or wait. Later steps then cannot be compared.
///
/// It is permitted if the response is invalid for the request, and the reference device does not ignore it. A valid
/// NAK, however, must end the request. Completing the request successfully is never permitted.
bool is_implementation_defined(const Step& step, const Outcome& expected, const Outcome& actual);
/// True if both devices sent requests with the same PSNs. Otherwise different responses are valid for them.
bool sent_same_psns(const Outcome& expected, const Outcome& actual);
/// True if a response contains credits, or may contain them after a mutation. Devices may ignore credits
/// (docs/reference/known-deviations.md), so later requests cannot be compared.
bool has_credits(const Step& step);

}  // namespace rdmawire::fuzzer
