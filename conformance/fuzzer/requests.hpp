#pragma once
/// What a device's requesters say, where it may be said at another time than the reference device says it: sent again
/// in other pieces, and sooner or later.

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

/// The requests that a sound device has sent, in one life. Notifications of congestion are none: a device may have no
/// congestion management.
class KnownRequests {
 public:
  /// What the sound device sent in a step.
  void sent(std::span<const std::vector<std::uint8_t>> frames);
  /// What the device sent in that step: each request is one of those, or a part of a READ that is asked for again; and
  /// those that are new are sent. What is sent again, and when, is its own affair.
  [[nodiscard]] std::optional<Alarm> judge(std::span<const std::vector<std::uint8_t>> frames) const;

 private:
  using Frame = std::vector<std::uint8_t>;
  std::multimap<std::uint32_t, Frame> known_;  ///< by PSN
  std::vector<Frame> fresh_;                   ///< of the last step
};

/// Whether a device may do with a wrong answer to its own requests something else than the reference device does: fail
/// the request, ask for it again, or do nothing for now. Then nothing that follows can be compared.
///
/// It is free where the answer is none that the request can have, and the reference device does not leave it alone; but
/// for a NAK that is well formed, which ends the request. It is never free to complete a request with success.
bool is_left_open(const Step& step, const Outcome& expected, const Outcome& actual);
/// Whether both sent requests with the same PSNs: else it is not the same any more what may be answered.
bool sent_alike(const Outcome& expected, const Outcome& actual);
/// Whether an answer tells of credits, which devices heed or not (docs/deviations.md): what is sent from now on cannot
/// be compared.
bool tells_credits(const Step& step);

}  // namespace rdmawire::fuzzer
