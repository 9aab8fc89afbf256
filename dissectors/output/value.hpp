#pragma once
/// Formats a field's value as text, for all output that people read.

#include <cstdint>
#include <string>
#include <string_view>

#include "dissectors/protocol/field.hpp"

namespace rdmawire::output {

/// Format of hexadecimal numbers: padded to the width of their field ("0x000011"), or as short as possible ("0x11").
enum class Hex : std::uint8_t { padded, shortest };

/// Appends the field's value in its usual form, without its name: "4791", "0x000011", "10.0.0.2", "0.64 ms". `header`
/// points to the fixed part of the header.
void append_value(std::string& out, const Field& field, const std::uint8_t* header, Hex hex = Hex::padded);
/// Appends a raw number like append_value().
void append_number(std::string& out, const Field& field, std::uint64_t value, Hex hex = Hex::padded);

/// Appends a duration in the unit that is easiest to read, without rounding: "512 ns", "10 µs", "0.64 ms" or "1.5 s".
void append_duration(std::string& out, std::uint64_t nanoseconds);
void append_decimal(std::string& out, std::uint64_t value);
/// Appends "0x" and at least `digits` hexadecimal digits.
void append_hex(std::string& out, std::uint64_t value, unsigned digits = 1);
/// Appends two hexadecimal digits per byte, without separators.
void append_bytes(std::string& out, Bytes bytes);
/// Appends "52:54:00:00:00:02".
void append_mac(std::string& out, const std::uint8_t* address);
/// Appends "10.0.0.2".
void append_ipv4(std::string& out, const std::uint8_t* address);
/// Appends "fe80::5054:ff:fe00:2", the format of RFC 5952.
void append_ipv6(std::string& out, const std::uint8_t* address);
/// Appends "0002:c903:000e:0b72", the format of InfiniBand tools.
void append_guid(std::string& out, const std::uint8_t* guid);
/// Appends the characters before the first zero byte. Backslashes and non-printable characters become `\xNN`.
void append_text(std::string& out, Bytes bytes);

/// Returns the number of terminal columns of `text`: one per UTF-8 character.
std::size_t columns(std::string_view text);
/// Appends spaces until the text in `out` after `start` has `width` columns.
void pad(std::string& out, std::size_t start, std::size_t width);

/// Format of a packet's time.
enum class TimeStyle : std::uint8_t {
  relative,  ///< seconds since the first packet
  absolute,  ///< UTC date and time
  epoch,     ///< seconds since 1970
  delta,     ///< seconds since the previous packet that was shown
};
/// Appends seconds with nine decimals: "-0.000000001".
void append_seconds(std::string& out, std::int64_t nanoseconds);
/// Appends a date in UTC, from the years 1678 to 2262: "2026-11-21 07:53:37.123456789".
void append_date(std::string& out, std::int64_t nanoseconds_since_1970);

}  // namespace rdmawire::output
