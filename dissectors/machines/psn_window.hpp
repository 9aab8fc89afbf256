#pragma once
/// Windows of packet sequence numbers, as the two ends of a connection keep them: the only place where it is decided
/// what a PSN means. Pure functions of small values.

#include <cstdint>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::machines {

/// What a request's PSN is to the responder. IBTA vol 1, 9.7.3 and 9.7.4 (numbers unverified).
enum class RequestPlace : std::uint8_t {
  expected,   ///< the next one
  duplicate,  ///< in the half of the ring before it: had arrived
  ahead,      ///< in the half behind it: packets between are missing
};

/// The responder's side: which PSN it expects next.
struct ResponderWindow {
  Psn expected;

  [[nodiscard]] constexpr RequestPlace place(Psn psn) const {
    const std::int32_t ahead = psn - expected;
    return ahead == 0 ? RequestPlace::expected : ahead < 0 ? RequestPlace::duplicate : RequestPlace::ahead;
  }
  /// After a request that takes `psns` sequence numbers (a READ: one for each packet of its response) was accepted.
  [[nodiscard]] constexpr ResponderWindow after(Psn psn, std::uint32_t psns) const { return {psn + psns}; }
};

/// What a response's PSN is to the requester. IBTA vol 1, 9.7.5 (clause number not verified).
enum class ResponsePlace : std::uint8_t {
  outstanding,   ///< of a request that waits for its answer
  acknowledged,  ///< of one that has it: a ghost, to be ignored
  unsent,        ///< of a request that was never made
};

/// The requester's side: what was sent and what of it is acknowledged.
struct RequesterWindow {
  Psn oldest;  ///< the oldest that is not acknowledged; `next` when none is outstanding
  Psn next;    ///< of the next new request

  /// PSNs that wait for an acknowledgement.
  [[nodiscard]] constexpr std::uint32_t outstanding() const { return static_cast<std::uint32_t>(next - oldest); }
  [[nodiscard]] constexpr ResponsePlace place(Psn psn) const {
    if (psn - next >= 0) return ResponsePlace::unsent;
    return psn - oldest >= 0 ? ResponsePlace::outstanding : ResponsePlace::acknowledged;
  }
  /// After `psns` new ones were sent from `psn` on.
  [[nodiscard]] constexpr RequesterWindow sent(Psn psn, std::uint32_t psns) const { return {oldest, psn + psns}; }
  /// After everything up to and with `through` was acknowledged. An acknowledgement acknowledges what was sent before
  /// it too: 9.7.5.1.2. One of what is acknowledged already, or was never sent, changes nothing.
  [[nodiscard]] constexpr RequesterWindow acknowledged(Psn through) const {
    return place(through) == ResponsePlace::outstanding ? RequesterWindow{through + 1, next} : *this;
  }
};

/// What a packet's PSN is to a receiver of the unreliable connected service, which loses a message with a gap and takes
/// the next one at its own PSN. IBTA vol 1, 9.8.2 (clause number not verified).
struct UcReceiverWindow {
  Psn expected;

  /// `begins`: the packet is the first or the only one of its message.
  [[nodiscard]] constexpr bool accepts(Psn psn, bool begins) const { return begins || psn == expected; }
  [[nodiscard]] constexpr UcReceiverWindow after(Psn psn) const { return {psn + 1}; }
};

/// PSNs that a READ request takes: one for each packet of its response, at least one. `mtu`: bytes of payload a packet
/// holds. IBTA vol 1, 9.4.4.
constexpr std::uint32_t psns_of_read(std::uint32_t length, std::uint32_t mtu) {
  if (mtu == 0 || length == 0) return 1;
  return (length - 1) / mtu + 1;
}

/// Path MTUs: 256, 512, 1024, 2048, 4096 bytes of payload.
constexpr bool is_path_mtu(std::uint32_t bytes) { return bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0; }

}  // namespace rdmawire::machines
