#pragma once
/// A field's value as text: what every face that people read goes through.

#include <cstdint>
#include <string>
#include <string_view>

#include "dissectors/protocol/field.hpp"

namespace rdmawire::output {

/// Hexadecimal numbers: as wide as their field ("0x000011"), or as short as the number ("0x11").
enum class Hex : std::uint8_t { padded, shortest };

/// Appends the field's value in its usual form, without its name: "4791", "0x000011", "10.0.0.2", "0.64 ms".
/// `header` points at the header's fixed part.
void append_value(std::string& out, const Field& field, const std::uint8_t* header, Hex hex = Hex::padded);
/// The same for a number that has no header around it.
void append_number(std::string& out, const Field& field, std::uint64_t value, Hex hex = Hex::padded);

/// "512 ns", "10 µs", "0.64 ms", "1.5 s": exact, in the unit that reads best.
void append_duration(std::string& out, std::uint64_t nanoseconds);
void append_decimal(std::string& out, std::uint64_t value);
/// `digits` digits at least, after "0x".
void append_hex(std::string& out, std::uint64_t value, unsigned digits = 1);
/// Two digits a byte, nothing between.
void append_bytes(std::string& out, Bytes bytes);
/// "52:54:00:00:00:02"
void append_mac(std::string& out, const std::uint8_t* address);
/// "10.0.0.2"
void append_ipv4(std::string& out, const std::uint8_t* address);
/// RFC 5952: "fe80::5054:ff:fe00:2"
void append_ipv6(std::string& out, const std::uint8_t* address);
/// "0002:c903:000e:0b72", as InfiniBand's tools write GUIDs.
void append_guid(std::string& out, const std::uint8_t* guid);
/// Characters up to the first zero; what cannot be printed as \xNN.
void append_text(std::string& out, Bytes bytes);

/// Columns that `text` takes in a terminal: UTF-8 characters, each counted as one.
std::size_t columns(std::string_view text);
/// Appends spaces until `out` has `width` columns from `start` on.
void pad(std::string& out, std::size_t start, std::size_t width);

/// How a packet's time is written.
enum class TimeStyle : std::uint8_t {
  relative,  ///< seconds since the first packet
  absolute,  ///< UTC date and time
  epoch,     ///< seconds since 1970
  delta,     ///< seconds since the previous packet that was shown
};
/// Seconds with nine decimals: "-0.000000001".
void append_seconds(std::string& out, std::int64_t nanoseconds);
/// "2026-11-21 07:53:37.123456789", UTC; any time since the year 1678 and until 2262.
void append_date(std::string& out, std::int64_t nanoseconds_since_1970);

}  // namespace rdmawire::output
