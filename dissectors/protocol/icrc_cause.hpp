#pragma once
/// Explains a bad ICRC by one change of the packet, or one error of its sender.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dissectors/protocol/crc.hpp"

namespace rdmawire {

/// Variant fields, which the ICRC covers as ones. Bits of IcrcCause::not_masked. IBTA vol 1, 7.8.1. Annex A17.3.3
/// (clause number not verified)
namespace icrc_mask {
inline constexpr std::uint8_t traffic_class = 1,  ///< IPv4's type of service, IPv6's and GRH's traffic class
    time_to_live = 2,                             ///< or hop limit
    ip_checksum = 4,                              ///< IPv4
    udp_checksum = 8, flow_label = 16,            ///< IPv6, GRH
    bth_reserved = 32,                            ///< the BTH's fifth byte: FECN, BECN, reserved bits
    lrh = 64;                                     ///< native InfiniBand: the VL (of a packet with GRH, the whole LRH)
}  // namespace icrc_mask

/// Explanation of a bad ICRC, and the probability of an accidental match.
struct IcrcCause {
  enum class Kind : std::uint8_t {
    none,               ///< the ICRC is valid
    unknown,            ///< no single supported change explains the ICRC
    zero,               ///< the ICRC field is zero: not computed, or captured before its computation
    byte_order,         ///< correct value, byte-swapped
    not_masked,         ///< the sender did not mask all variant fields as ones
    source_port,        ///< the UDP source port was changed
    address,            ///< the source or the destination address was changed, or both
    address_and_port,   ///< the source address and the UDP source port were changed
    ip_identification,  ///< IPv4's identification was changed
    pad,                ///< the pad bytes were modified after the ICRC was computed
    header,             ///< a few adjacent bits in the headers were changed
    payload,            ///< a few adjacent bits in the payload were changed
    icrc,               ///< a few adjacent bits in the ICRC were changed
  };
  Kind kind = Kind::none;
  std::uint8_t not_masked = 0;  ///< kind not_masked: bits of icrc_mask
  std::uint32_t original = 0;   ///< original source port (also of address_and_port), identification, pad bytes, or
                                ///< time to live (not_masked with time_to_live or ip_checksum)
  std::array<std::uint8_t, 16> source{},
      destination{};  ///< original addresses of address and address_and_port, IPv4 mapped into IPv6
  bool source_changed = false, destination_changed = false;
  std::uint32_t offset = 0;              ///< packet offset of the changed bytes (0: they are not adjacent)
  std::array<std::uint8_t, 4> change{};  ///< XOR mask that restores the original bytes at `offset`
  std::uint32_t bits = 0;  ///< kinds header, payload, icrc: number of bits from the first to the last changed one
  /// Expected number of randomly damaged packets that get this explanation by accident, per 10^9 packets, rounded up.
  /// The maximum is 15,259 (one in 65,536), for payload 1,953,125 (one in 512).
  std::uint32_t accidents = 0;
};

/// Returns the kind in words, such as "source port".
std::string_view to_string(IcrcCause::Kind kind);

/// Explains a bad ICRC. Returns Kind::none if the ICRC is valid.
///
/// Returns the first match in this order: zero, byte order, unmasked fields, source port, known addresses,
/// identification, padding, address and port, a few bits in headers, payload or ICRC. For unmasked fields, all
/// combinations are compared, with every time to live from the packet's value up and, if the packet is ECN-marked, also
/// without the mark. `addresses`: GIDs, IPv6 or mapped IPv4 addresses that may be the original. Only the first 256 are
/// compared, and for address_and_port only if there are at most four. If none of them matches, an IPv4 address is
/// restored only if its last byte was changed.
///
/// A CRC is linear, so a change of at most 32 adjacent bits follows from the ICRC difference and the offset, and only
/// offsets and combinations are searched. Cost: about 15 µs for one CRC of the packet, a table look-up per byte, and
/// about 5,000 XOR operations. The maximum, with 256 addresses and an ECN-marked packet, is 15,000 XOR operations and
/// 512 multiplications, below 0.2 ms.
IcrcCause explain_icrc(const HeaderStack& stack, std::span<const std::array<std::uint8_t, 16>> addresses = {});

/// Returns the UDP source port that makes a bad ICRC of a RoCEv2 packet valid. Middleboxes that distribute flows
/// overwrite the port. Returns nullopt if the ICRC is valid, or no port matches. A random ICRC matches some port with a
/// probability of 1 in 65536.
std::optional<std::uint16_t> source_port_for_icrc(const HeaderStack& stack);

/// Describes the cause: "the ICRC is valid with UDP source port 53427: a device on the path modified it".
std::string describe(const IcrcCause& cause);

}  // namespace rdmawire
