#pragma once
/// Why a bad ICRC is bad: which one change of the packet, or which fault of its sender, explains it.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dissectors/protocol/crc.hpp"

namespace rdmawire {

/// A field that changes on the way, which the ICRC must see as ones. Bits of IcrcCause::not_masked. IBTA vol 1, 7.8.1;
/// annex A17.3.3, number unverified
namespace icrc_mask {
inline constexpr std::uint8_t traffic_class = 1,  ///< IPv4's type of service, IPv6's and GRH's traffic class
    time_to_live = 2,                             ///< or hop limit
    ip_checksum = 4,                              ///< IPv4
    udp_checksum = 8, flow_label = 16,            ///< IPv6, GRH
    bth_reserved = 32,                            ///< the BTH's fifth byte: FECN, BECN, reserved bits
    lrh = 64;                                     ///< native InfiniBand: the VL; with a GRH the whole LRH
}  // namespace icrc_mask

/// What explains a bad ICRC, and how likely that is by accident.
struct IcrcCause {
  enum class Kind : std::uint8_t {
    none,               ///< the ICRC is not bad
    unknown,            ///< no single change that is looked for explains it
    zero,               ///< the ICRC's field is zero: it was not computed, or the capture was taken before it was
    byte_order,         ///< the right value, its bytes in the other order
    not_masked,         ///< the sender computed it with fields as they stood that must count as ones
    source_port,        ///< the UDP source port was changed
    address,            ///< the source or the destination address was changed, or both
    address_and_port,   ///< the source address and the UDP source port were changed
    ip_identification,  ///< IPv4's identification was changed
    pad,                ///< the pad bytes were changed, or not sent as they were computed
    header,             ///< a few bits beside each other in the headers were changed
    payload,            ///< likewise in the payload
    icrc,               ///< likewise in the ICRC itself
  };
  Kind kind = Kind::none;
  std::uint8_t not_masked = 0;  ///< kind not_masked: icrc_mask's bits
  std::uint32_t original = 0;   ///< source port (also of address_and_port), identification, time to live (not_masked
                                ///< with time_to_live or ip_checksum): as the sender had it
  std::array<std::uint8_t, 16> source{}, destination{};  ///< kinds address…: as they were, IPv4 mapped into IPv6
  bool source_changed = false, destination_changed = false;
  std::uint32_t offset = 0;  ///< in the packet, of what was changed in one place, else 0
  std::array<std::uint8_t, 4>
      change{};            ///< what these bytes have to be combined with, by exclusive or, to restore them
  std::uint32_t bits = 0;  ///< header, payload, icrc: from the first to the last bit that changed
  /// How many of a thousand million packets with arbitrary damage would be explained like that, rounded up: at most
  /// 15,259 (one of 65,536), of payload 1,953,125 (one of 512).
  std::uint32_t accidents = 0;
};

/// "source port"; the kind in words.
std::string_view to_string(IcrcCause::Kind kind);

/// Looks for what explains a bad ICRC; Kind::none when it is not bad. In this order, the first that fits: zero, byte
/// order, fields that the sender did not mask (all combinations, with every time to live that is not lower than the
/// packet's and, where ECN is marked, unmarked too), source port, known addresses, identification, pad, address and
/// port, a few bits in headers, payload or ICRC.
///
/// `addresses`: GIDs, IPv6 or mapped IPv4 addresses that the packet's address may have been before it was changed; the
/// first 256 are tried (of address_and_port: only when they are at most four). Without them an IPv4 address is restored
/// only where the last byte alone was changed.
///
/// All of it rests on the CRC being linear: a change of at most 32 bits side by side can be computed from the ICRC's
/// difference and the place, so nothing is searched but places and combinations. The work is one CRC of the packet, a
/// table look-up a byte, and some 5,000 exclusive ors: about 15 us; at most 15,000, of a packet that is ECN marked,
/// and 512 multiplications, with 256 addresses: below 0.2 ms.
IcrcCause explain_icrc(const HeaderStack& stack, std::span<const std::array<std::uint8_t, 16>> addresses = {});

/// Only the UDP source port with which a bad ICRC of a RoCEv2 packet verifies: middleboxes that spread flows do
/// overwrite it. nullopt when the ICRC is not bad, or no port explains it (a wrong "yes" has a chance of 1 in 65536).
std::optional<std::uint16_t> source_port_for_icrc(const HeaderStack& stack);

/// A sentence for people: "the ICRC verifies with UDP source port 53427: something on the way has changed it".
std::string describe(const IcrcCause& cause);

}  // namespace rdmawire
