#include "dissectors/output/filter_literal.hpp"

#include <arpa/inet.h>

#include <charconv>
#include <chrono>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::output {
namespace {

std::optional<std::uint64_t> parse_digits(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses a number that can have a decimal point, in units of `unit` nanoseconds. Rejects fractions of a nanosecond,
// because rounding would change the value.
std::optional<std::uint64_t> parse_decimal(std::string_view text, std::uint64_t unit) {
  const std::size_t point = text.find('.');
  const auto whole = parse_digits(text.substr(0, point));
  if (!whole) return std::nullopt;
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(*whole, unit, &result)) return std::nullopt;
  if (point == std::string_view::npos) return result;
  const std::string_view decimals = text.substr(point + 1);
  if (decimals.empty()) return std::nullopt;
  for (char c : decimals) {
    if (c < '0' || c > '9') return std::nullopt;
    if (unit == 1 && c != '0') return std::nullopt;
    if (unit == 1) continue;
    unit /= 10;
    if (__builtin_add_overflow(result, unit * static_cast<std::uint64_t>(c - '0'), &result)) return std::nullopt;
  }
  return result;
}

// Parses `count` groups of exactly `digits` hexadecimal digits with separators between them.
std::optional<std::uint64_t> parse_groups(std::string_view text, std::size_t digits, std::size_t count,
                                          char separator) {
  if (text.size() != count * (digits + 1) - 1) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto group = parse_digits(text.substr(i * (digits + 1), digits), 16);
    if (!group || (i && text[i * (digits + 1) - 1] != separator)) return std::nullopt;
    value = value << (4 * digits) | *group;
  }
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return parse_digits(text.substr(2), 16);
  return parse_digits(text);
}

std::optional<std::uint64_t> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::uint64_t nanoseconds;
  };
  // Unicode has two micro signs, and both are in use.
  static constexpr Unit units[] = {{"ns", 1},          {"us", 1'000},     {"\u00b5s", 1'000},
                                   {"\u03bcs", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  for (const Unit& unit : units)
    if (text.ends_with(unit.name)) {
      text.remove_suffix(unit.name.size());
      while (text.ends_with(' ')) text.remove_suffix(1);
      return parse_decimal(text, unit.nanoseconds);
    }
  return std::nullopt;
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  constexpr std::uint64_t second = 1'000'000'000;
  if (text.size() < 10 || text[4] != '-' || text[7] != '-') {
    const auto value = parse_decimal(text, second);
    if (!value || *value > INT64_MAX) return std::nullopt;
    return static_cast<std::int64_t>(*value);
  }
  const auto year = parse_digits(text.substr(0, 4)), month = parse_digits(text.substr(5, 2)),
             day = parse_digits(text.substr(8, 2));
  if (!year || !month || !day || *year < 1970 || *year > 2261) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const auto days = static_cast<std::uint64_t>(std::chrono::sys_days(date).time_since_epoch().count());
  std::uint64_t result = days * 86'400 * second;
  text.remove_prefix(10);
  if (!text.empty()) {
    if ((text[0] != ' ' && text[0] != 'T') || text.size() < 6 || text[3] != ':') return std::nullopt;
    const auto hours = parse_digits(text.substr(1, 2)), minutes = parse_digits(text.substr(4, 2));
    if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
    result += (*hours * 3600 + *minutes * 60) * second;
    text.remove_prefix(6);
    if (!text.empty()) {
      const auto seconds = text.size() >= 3 && text[0] == ':' ? parse_decimal(text.substr(1), second) : std::nullopt;
      if (!seconds || *seconds >= 61 * second) return std::nullopt;
      result += *seconds;
    }
  }
  return static_cast<std::int64_t>(result);
}

std::optional<std::uint64_t> parse_mac(std::string_view text) {
  const auto value = parse_groups(text, 2, 6, ':');
  return value ? value : parse_groups(text, 2, 6, '-');
}

std::optional<std::uint32_t> parse_ipv4(std::string_view text) {
  std::uint8_t address[4];
  if (text.size() > 15 || inet_pton(AF_INET, std::string(text).c_str(), address) != 1) return std::nullopt;
  return static_cast<std::uint32_t>(load_be<4>(address));
}

std::optional<std::array<std::uint8_t, 16>> parse_ipv6(std::string_view text) {
  std::array<std::uint8_t, 16> address{};
  if (const auto v4 = parse_ipv4(text)) {
    address[10] = address[11] = 0xff;
    store_be(address.data() + 12, 4, *v4);
    return address;
  }
  if (text.size() > 45 || inet_pton(AF_INET6, std::string(text).c_str(), address.data()) != 1) return std::nullopt;
  return address;
}

std::optional<std::uint64_t> parse_guid(std::string_view text) {
  if (text.size() == 18 && text.starts_with("0x")) return parse_digits(text.substr(2), 16);
  if (const auto value = parse_groups(text, 4, 4, ':')) return value;
  return parse_groups(text, 2, 8, ':');
}

std::optional<std::string> parse_bytes(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    if (i && (text[i] == ':' || text[i] == '-')) ++i;
    const auto byte = text.size() - i >= 2 ? parse_digits(text.substr(i, 2), 16) : std::nullopt;
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  if (bytes.empty()) return std::nullopt;
  return bytes;
}

}  // namespace rdmawire::output
