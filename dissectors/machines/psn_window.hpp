#pragma once
/// PSN windows of the two sides of a connection. This file contains all classification of PSNs. Pure functions of small
/// values.

#include <cstdint>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::machines {

/// Classification of a request's PSN by the responder. IBTA vol 1, 9.7.3 and 9.7.4 (clause numbers not verified).
enum class RequestPlace : std::uint8_t {
  expected,   ///< the expected PSN
  duplicate,  ///< in the half of the PSN space before the expected PSN: already received
  ahead,      ///< in the half after the expected PSN: packets are missing
};

/// State of the responder: the next expected PSN.
struct ResponderWindow {
  Psn expected;

  [[nodiscard]] constexpr RequestPlace place(Psn psn) const {
    const std::int32_t ahead = psn - expected;
    return ahead == 0 ? RequestPlace::expected : ahead < 0 ? RequestPlace::duplicate : RequestPlace::ahead;
  }
  /// State after accepting a request with `psns` PSNs (READ: one per response packet).
  [[nodiscard]] constexpr ResponderWindow after(Psn psn, std::uint32_t psns) const { return {psn + psns}; }
};

/// Classification of a response's PSN by the requester. IBTA vol 1, 9.7.5 (clause number not verified).
enum class ResponsePlace : std::uint8_t {
  outstanding,   ///< of a request without response
  acknowledged,  ///< of an acknowledged request: a ghost acknowledgement, ignored
  unsent,        ///< of a request that was not sent
};

/// State of the requester: sent and acknowledged requests.
struct RequesterWindow {
  Psn oldest;  ///< the oldest unacknowledged PSN (`next` if none is outstanding)
  Psn next;    ///< first PSN of the next new request

  /// Number of unacknowledged PSNs.
  [[nodiscard]] constexpr std::uint32_t outstanding() const { return static_cast<std::uint32_t>(next - oldest); }
  [[nodiscard]] constexpr ResponsePlace place(Psn psn) const {
    if (psn - next >= 0) return ResponsePlace::unsent;
    return psn - oldest >= 0 ? ResponsePlace::outstanding : ResponsePlace::acknowledged;
  }
  /// State after sending `psns` new PSNs, starting with `psn`.
  [[nodiscard]] constexpr RequesterWindow sent(Psn psn, std::uint32_t psns) const { return {oldest, psn + psns}; }
  /// State after an acknowledgement up to and including `through`, which also acknowledges all earlier requests:
  /// 9.7.5.1.2. Ignores acknowledgements of acknowledged or unsent requests.
  [[nodiscard]] constexpr RequesterWindow acknowledged(Psn through) const {
    return place(through) == ResponsePlace::outstanding ? RequesterWindow{through + 1, next} : *this;
  }
};

/// Receiver state of unreliable connections: a gap discards the message, and the next message is accepted with its
/// own PSN. IBTA vol 1, 9.8.2 (clause number not verified).
struct UcReceiverWindow {
  Psn expected;

  /// `begins`: the packet is the first or only one of its message.
  [[nodiscard]] constexpr bool accepts(Psn psn, bool begins) const { return begins || psn == expected; }
  [[nodiscard]] constexpr UcReceiverWindow after(Psn psn) const { return {psn + 1}; }
};

/// Number of PSNs of a READ request: one per response packet, at least one. `mtu`: maximum payload in bytes. IBTA
/// vol 1, 9.4.4.
constexpr std::uint32_t psns_of_read(std::uint32_t length, std::uint32_t mtu) {
  if (mtu == 0 || length == 0) return 1;
  return (length - 1) / mtu + 1;
}

/// Returns whether `bytes` is a path MTU: 256, 512, 1024, 2048 or 4096 bytes of payload.
constexpr bool is_path_mtu(std::uint32_t bytes) { return bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0; }

}  // namespace rdmawire::machines
