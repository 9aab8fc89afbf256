#pragma once
/// Formats a field's value as text, for all human-readable output.

#include <cstdint>
#include <string>
#include <string_view>

#include "dissectors/protocol/field.hpp"

namespace rdmawire::output {

/// Hexadecimal numbers: padded to their field ("0x000011"), or shortest ("0x11").
enum class Hex : std::uint8_t { padded, shortest };

/// Appends the field's value in its usual form, without its name: "4791", "0x000011", "10.0.0.2", "0.64 ms".
/// `header` is the start of the header's fixed part.
void append_value(std::string& out, const Field& field, const std::uint8_t* header, Hex hex = Hex::padded);
/// The same for a raw number without a header.
void append_number(std::string& out, const Field& field, std::uint64_t value, Hex hex = Hex::padded);

/// Appends "512 ns", "10 µs", "0.64 ms" or "1.5 s": exact, in the most readable unit.
void append_duration(std::string& out, std::uint64_t nanoseconds);
void append_decimal(std::string& out, std::uint64_t value);
/// Appends at least `digits` digits after "0x".
void append_hex(std::string& out, std::uint64_t value, unsigned digits = 1);
/// Appends two hexadecimal digits per byte, without separators.
void append_bytes(std::string& out, Bytes bytes);
/// "52:54:00:00:00:02"
void append_mac(std::string& out, const std::uint8_t* address);
/// "10.0.0.2"
void append_ipv4(std::string& out, const std::uint8_t* address);
/// RFC 5952: "fe80::5054:ff:fe00:2"
void append_ipv6(std::string& out, const std::uint8_t* address);
/// Appends "0002:c903:000e:0b72", the format of InfiniBand tools.
void append_guid(std::string& out, const std::uint8_t* guid);
/// Appends the characters up to the first zero, backslashes and non-printable characters as `\xNN`.
void append_text(std::string& out, Bytes bytes);

/// Returns the number of terminal columns of `text`: one per UTF-8 character.
std::size_t columns(std::string_view text);
/// Appends spaces until `out` has `width` columns after `start`.
void pad(std::string& out, std::size_t start, std::size_t width);

/// Format of a packet's time.
enum class TimeStyle : std::uint8_t {
  relative,  ///< seconds since the first packet
  absolute,  ///< UTC date and time
  epoch,     ///< seconds since 1970
  delta,     ///< seconds since the previous packet shown
};
/// Appends seconds with nine decimals: "-0.000000001".
void append_seconds(std::string& out, std::int64_t nanoseconds);
/// Appends "2026-11-21 07:53:37.123456789" (UTC), for the years 1678 to 2262.
void append_date(std::string& out, std::int64_t nanoseconds_since_1970);

}  // namespace rdmawire::output
