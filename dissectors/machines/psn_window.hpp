#pragma once
/// PSN windows of both sides of a connection. All classification of PSNs is in this file. Pure functions of small
/// values.

#include <cstdint>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::machines {

/// How the responder classifies the PSN of a request. IBTA vol 1, 9.7.3 and 9.7.4 (clause numbers not verified).
enum class RequestPlace : std::uint8_t {
  expected,   ///< equal to the expected PSN
  duplicate,  ///< in the half of the PSN space before the expected PSN: the packet was already received
  ahead,      ///< in the half after the expected PSN: preceding packets are missing
};

/// State of the responder: the next expected PSN.
struct ResponderWindow {
  Psn expected;

  [[nodiscard]] constexpr RequestPlace place(Psn psn) const {
    const std::int32_t ahead = psn - expected;
    return ahead == 0 ? RequestPlace::expected : ahead < 0 ? RequestPlace::duplicate : RequestPlace::ahead;
  }
  /// Returns the state after it accepted a request with `psns` PSNs (READ: one PSN per response packet).
  [[nodiscard]] constexpr ResponderWindow after(Psn psn, std::uint32_t psns) const { return {psn + psns}; }
};

/// How the requester classifies the PSN of a response. IBTA vol 1, 9.7.5 (clause number not verified).
enum class ResponsePlace : std::uint8_t {
  outstanding,   ///< PSN of a request that waits for a response
  acknowledged,  ///< PSN of an acknowledged request: the response is a ghost acknowledgement, and ignored
  unsent,        ///< PSN that was not sent yet
};

/// State of the requester: the range of PSNs that were sent and not acknowledged.
struct RequesterWindow {
  Psn oldest;  ///< the oldest unacknowledged PSN (equal to `next` if none is outstanding)
  Psn next;    ///< first PSN of the next new request

  /// Returns the number of unacknowledged PSNs.
  [[nodiscard]] constexpr std::uint32_t outstanding() const { return static_cast<std::uint32_t>(next - oldest); }
  [[nodiscard]] constexpr ResponsePlace place(Psn psn) const {
    if (psn - next >= 0) return ResponsePlace::unsent;
    return psn - oldest >= 0 ? ResponsePlace::outstanding : ResponsePlace::acknowledged;
  }
  /// Returns the state after it sent `psns` new PSNs from `psn` on.
  [[nodiscard]] constexpr RequesterWindow sent(Psn psn, std::uint32_t psns) const { return {oldest, psn + psns}; }
  /// Returns the state after an acknowledgement of the PSNs up to and including `through`. This acknowledges all
  /// earlier requests: 9.7.5.1.2. Ignores PSNs that are already acknowledged or not sent yet.
  [[nodiscard]] constexpr RequesterWindow acknowledged(Psn through) const {
    return place(through) == ResponsePlace::outstanding ? RequesterWindow{through + 1, next} : *this;
  }
};

/// State of the receiver of an unreliable connection. A gap discards the message. The next message is accepted with any
/// PSN. IBTA vol 1, 9.8.2 (clause number not verified).
struct UcReceiverWindow {
  Psn expected;

  /// `begins` is true if the packet is the first or only one of its message.
  [[nodiscard]] constexpr bool accepts(Psn psn, bool begins) const { return begins || psn == expected; }
  [[nodiscard]] constexpr UcReceiverWindow after(Psn psn) const { return {psn + 1}; }
};

/// Returns the number of PSNs that a READ request uses: one per response packet, at least one. `mtu` is the maximum
/// payload in bytes. IBTA vol 1, 9.4.4.
constexpr std::uint32_t psns_of_read(std::uint32_t length, std::uint32_t mtu) {
  if (mtu == 0 || length == 0) return 1;
  return (length - 1) / mtu + 1;
}

/// Returns whether `bytes` is a path MTU: 256, 512, 1024, 2048 or 4096.
constexpr bool is_path_mtu(std::uint32_t bytes) { return bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0; }

}  // namespace rdmawire::machines
