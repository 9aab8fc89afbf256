#pragma once
/// Converts the explanation of a bad ICRC to the cause of an event.

#include <array>
#include <cstdint>

#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

/// Returns the cause of an event crc_bad. If several fields are unmasked, returns the first one in this order: time to
/// live, checksum, traffic class (or flow label), BTH. IcrcCause::not_masked contains all of them. The cause is unknown
/// if the headers or the ICRC are damaged, or if the ICRC is zero or byte-swapped.
constexpr Cause cause_of(const IcrcCause& cause) {
  using Kind = IcrcCause::Kind;
  switch (cause.kind) {
    case Kind::source_port: return Cause::source_port;
    case Kind::address:
    case Kind::address_and_port: return Cause::address;
    case Kind::ip_identification: return Cause::ip_identification;
    case Kind::pad: return Cause::pad;
    case Kind::payload: return Cause::payload;
    case Kind::not_masked: {
      const auto any = [&](unsigned fields) { return (cause.not_masked & fields) != 0; };
      if (any(icrc_mask::time_to_live)) return Cause::ttl_not_masked;
      if (any(icrc_mask::ip_checksum | icrc_mask::udp_checksum)) return Cause::checksum_not_masked;
      if (any(icrc_mask::traffic_class | icrc_mask::flow_label)) return Cause::traffic_class_not_masked;
      if (any(icrc_mask::bth_reserved)) return Cause::bth_reserved_not_masked;
      return Cause::unknown;
    }
    case Kind::none: return Cause::none;
    default: return Cause::unknown;
  }
}

/// Returns Event::value of crc_bad: the original source port, identification or IPv4 address, or the icrc_mask bits of
/// the unmasked fields. Returns 0 if there is no such number.
constexpr std::uint64_t restored_value(const IcrcCause& cause) {
  using Kind = IcrcCause::Kind;
  switch (cause.kind) {
    case Kind::source_port:
    case Kind::address_and_port:
    case Kind::ip_identification: return cause.original;
    case Kind::address: return load_be((cause.source_changed ? cause.source : cause.destination).data() + 12, 4);
    case Kind::not_masked: return cause.not_masked;
    default: return 0;
  }
}

/// True if the packet's headers or payload are damaged. A packet with a rewritten port or address, or of a sender that
/// computes the ICRC incorrectly, is not damaged.
constexpr bool is_damage(IcrcCause::Kind kind) {
  using Kind = IcrcCause::Kind;
  return kind == Kind::unknown || kind == Kind::header || kind == Kind::payload || kind == Kind::icrc;
}

/// Returns the address in the form that explain_icrc() requires. The address must not be a LID.
inline std::array<std::uint8_t, 16> bytes_of(const PortAddress& address) {
  std::array<std::uint8_t, 16> bytes;
  store_be(bytes.data(), 8, address.high);
  store_be(bytes.data() + 8, 8, address.low);
  return bytes;
}

}  // namespace rdmawire::tracking
