#include "dissectors/output/value.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace rdmawire::output {
namespace {

constexpr char digits_of[] = "0123456789abcdef";

void append_two_digits(std::string& out, std::uint8_t byte) {
  out += digits_of[byte >> 4];
  out += digits_of[byte & 15];
}

void append_padded(std::string& out, std::uint64_t value, unsigned width) {
  char text[20];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  const auto length = static_cast<unsigned>(end - text);
  if (length < width) out.append(width - length, '0');
  out.append(text, end);
}

}  // namespace

void append_decimal(std::string& out, std::uint64_t value) {
  char text[20];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

void append_hex(std::string& out, std::uint64_t value, unsigned digits) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof text, value, 16).ptr;
  const auto length = static_cast<unsigned>(end - text);
  out += "0x";
  if (length < digits) out.append(digits - length, '0');
  out.append(text, end);
}

void append_bytes(std::string& out, Bytes bytes) {
  for (std::uint8_t byte : bytes) append_two_digits(out, byte);
}

void append_mac(std::string& out, const std::uint8_t* address) {
  for (int i = 0; i < 6; ++i) {
    if (i) out += ':';
    append_two_digits(out, address[i]);
  }
}

void append_ipv4(std::string& out, const std::uint8_t* address) {
  for (int i = 0; i < 4; ++i) {
    if (i) out += '.';
    append_decimal(out, address[i]);
  }
}

void append_ipv6(std::string& out, const std::uint8_t* address) {
  char text[INET6_ADDRSTRLEN];
  out += inet_ntop(AF_INET6, address, text, sizeof text);
}

void append_guid(std::string& out, const std::uint8_t* guid) {
  for (int i = 0; i < 8; ++i) {
    if (i && i % 2 == 0) out += ':';
    append_two_digits(out, guid[i]);
  }
}

void append_text(std::string& out, Bytes bytes) {
  for (std::uint8_t c : bytes) {
    if (c == 0) return;
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      out += static_cast<char>(c);
    } else {
      out += "\\x";
      append_two_digits(out, c);
    }
  }
}

void append_duration(std::string& out, std::uint64_t nanoseconds) {
  struct Unit {
    std::uint64_t from;
    std::uint64_t size;
    std::string_view name;
  };
  // Units of times. From 0.1 ms on, ms is used, as in the timer table of the specification: 0.64 ms.
  static constexpr Unit units[] = {
      {1'000'000'000, 1'000'000'000, " s"}, {100'000, 1'000'000, " ms"}, {1'000, 1'000, " \u00b5s"}, {0, 1, " ns"}};
  const Unit& unit =
      *std::find_if(std::begin(units), std::end(units), [&](const Unit& u) { return nanoseconds >= u.from; });
  append_decimal(out, nanoseconds / unit.size);
  if (std::uint64_t rest = nanoseconds % unit.size) {
    out += '.';
    for (std::uint64_t place = unit.size / 10; rest; place /= 10) {
      out += static_cast<char>('0' + rest / place);
      rest %= place;
    }
  }
  out += unit.name;
}

void append_number(std::string& out, const Field& field, std::uint64_t value, Hex hex) {
  std::uint8_t bytes[8];
  store_be(bytes, 8, value);
  switch (field.display) {
    case Display::mac: return append_mac(out, bytes + 2);
    case Display::ipv4: return append_ipv4(out, bytes + 4);
    case Display::guid: return append_guid(out, bytes);
    case Display::time: return append_duration(out, value);
    case Display::hexadecimal:
    case Display::reserved:
    case Display::bytes:
    case Display::ipv6: return append_hex(out, value, hex == Hex::padded ? (field.width + 3U) / 4U : 1U);
    case Display::text: return append_text(out, Bytes(bytes + 8 - (field.width + 7) / 8, (field.width + 7U) / 8U));
    case Display::decimal:
    case Display::flag: break;
  }
  append_decimal(out, value);
}

void append_value(std::string& out, const Field& field, const std::uint8_t* header, Hex hex) {
  if (field.is_number()) return append_number(out, field, field.value(header), hex);
  const Bytes bytes = field.bytes(header);
  if (field.display == Display::ipv6 && bytes.size() == 16) return append_ipv6(out, bytes.data());
  if (field.display == Display::text) return append_text(out, bytes);
  append_bytes(out, bytes);
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void pad(std::string& out, std::size_t start, std::size_t width) {
  const std::size_t have = columns(std::string_view(out).substr(start));
  if (have < width) out.append(width - have, ' ');
}

void append_seconds(std::string& out, std::int64_t nanoseconds) {
  const bool negative = nanoseconds < 0;
  const std::uint64_t magnitude =
      negative ? 0 - static_cast<std::uint64_t>(nanoseconds) : static_cast<std::uint64_t>(nanoseconds);
  if (negative) out += '-';
  append_decimal(out, magnitude / 1'000'000'000);
  out += '.';
  append_padded(out, magnitude % 1'000'000'000, 9);
}

void append_date(std::string& out, std::int64_t nanoseconds_since_1970) {
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(nanoseconds_since_1970)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto since_midnight = static_cast<std::uint64_t>((time - day).count());
  append_padded(out, static_cast<std::uint64_t>(static_cast<int>(date.year())), 4);
  out += '-';
  append_padded(out, static_cast<unsigned>(date.month()), 2);
  out += '-';
  append_padded(out, static_cast<unsigned>(date.day()), 2);
  out += ' ';
  append_padded(out, since_midnight / 3'600'000'000'000, 2);
  out += ':';
  append_padded(out, since_midnight / 60'000'000'000 % 60, 2);
  out += ':';
  append_padded(out, since_midnight / 1'000'000'000 % 60, 2);
  out += '.';
  append_padded(out, since_midnight % 1'000'000'000, 9);
}

}  // namespace rdmawire::output
