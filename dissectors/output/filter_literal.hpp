#pragma once
/// Parsers for values in filters. Each returns nullopt if the text does not have its syntax.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdmawire::output {

/// Parses 42 or 0x2a.
std::optional<std::uint64_t> parse_number(std::string_view text);
/// Parses a number with a unit, exact to the nanosecond: 1.5ms, 10us, 10µs, 655360ns, 2s.
std::optional<std::uint64_t> parse_duration(std::string_view text);
/// Parses seconds since 1970 with up to nine decimals, or a date in UTC: "2026-11-21 07:53:37.5". The time can be
/// missing, or end after the minutes. T can replace the space. Returns nanoseconds since 1970.
std::optional<std::int64_t> parse_time(std::string_view text);
/// Parses 52:54:00:00:00:02 or 52-54-00-00-00-02.
std::optional<std::uint64_t> parse_mac(std::string_view text);
std::optional<std::uint32_t> parse_ipv4(std::string_view text);
/// Parses an IPv6 or IPv4 address. Returns it in network byte order. An IPv4 address is mapped as in GIDs:
/// ::ffff:10.0.0.2.
std::optional<std::array<std::uint8_t, 16>> parse_ipv6(std::string_view text);
/// Parses 0002:c903:000e:0b72, 00:02:c9:03:00:0e:0b:72 or 0x0002c903000e0b72.
std::optional<std::uint64_t> parse_guid(std::string_view text);
/// Parses pairs of hexadecimal digits, which `:` or `-` can separate, or which can have the prefix `0x`.
std::optional<std::string> parse_bytes(std::string_view text);

}  // namespace rdmawire::output
