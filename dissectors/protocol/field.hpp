#pragma once
/// A header field, described as data. A header is a table of fields, from which all output formats are generated.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire {

/// One value of an enumerated field.
struct Name {
  std::uint64_t value;
  std::string_view name;     ///< short name, as in the specification: "PSN sequence error"
  std::string_view meaning;  ///< one sentence (may be empty)
};

/// The values of an enumerated field, in ascending order.
struct Names {
  std::string_view title;  ///< title of the enumeration: "CM REJ reason"
  std::span<const Name> entries;
  std::string_view section;  ///< section of the specification that lists the values

  /// Returns the entry of `value`, or nullptr.
  [[nodiscard]] constexpr const Name* find(std::uint64_t value) const {
    for (const Name& entry : entries)
      if (entry.value == value) return &entry;
    return nullptr;
  }
};

/// Display format of a field. In JSON, decimal, hexadecimal, flag, time and reserved fields of at most 64 bits are
/// numbers, and all others are strings.
enum class Display : std::uint8_t {
  decimal,
  hexadecimal,
  flag,      ///< one bit
  time,      ///< nanoseconds
  mac,       ///< 48 bits
  ipv4,      ///< 32 bits
  ipv6,      ///< 128 bits: an IPv6 address or a GID
  guid,      ///< 64 bits: an EUI-64
  text,      ///< characters, padded with zeros
  bytes,     ///< uninterpreted bytes
  reserved,  ///< reserved bits (only shown if not zero)
};

/// One field of a header.
///
/// `bit` counts from the header's first bit, most significant first, as in the figures of the specification. A field
/// wider than 64 bits starts and ends at a byte boundary. A *part* has the name of another field with a dotted suffix
/// ("syndrome.kind" of "syndrome") and is inside that field. It can have a condition and a conversion function.
struct Field {
  std::string_view name;
  std::uint16_t bit = 0;
  std::uint16_t width = 0;
  std::string_view meaning;
  Display display = Display::decimal;
  bool little_endian = false;  ///< whole bytes in little-endian order
  bool is_computed = false;    ///< encoding computes it if it is unset
  bool is_constant = false;    ///< a constant text or number of the protocol, which does not identify the sender
  const Names* names = nullptr;
  std::string_view section;  ///< section that specifies the field, if different from the header's
  /// Wireshark's filter names with the same meaning ("ip.src", "ip.addr"). Unused entries are empty.
  std::array<std::string_view, 2> wireshark{};
  bool (*present)(const std::uint8_t* header) = nullptr;  ///< true if the field exists in this header (nullptr: always)
  std::uint64_t (*decoded)(std::uint64_t raw) = nullptr;  ///< converts the raw bits to `display`'s unit

  // The functions return the field, so that calls can be chained: field("psn", 72, 24,
  // "…").hex().alias("infiniband.bth.psn")
  constexpr Field& as(Display d) { return display = d, *this; }
  constexpr Field& hex() { return as(Display::hexadecimal); }
  constexpr Field& le() { return little_endian = true, *this; }
  constexpr Field& computed() { return is_computed = true, *this; }
  constexpr Field& constant() { return is_constant = true, *this; }
  constexpr Field& of(const Names& n) { return names = &n, *this; }
  constexpr Field& in(std::string_view s) { return section = s, *this; }
  constexpr Field& alias(std::string_view a) { return wireshark[wireshark[0].empty() ? 0 : 1] = a, *this; }
  constexpr Field& when(bool (*p)(const std::uint8_t*)) { return present = p, *this; }
  constexpr Field& means(std::uint64_t (*d)(std::uint64_t)) { return decoded = d, *this; }

  /// Wireshark's names without the empty entries.
  [[nodiscard]] constexpr std::span<const std::string_view> aliases() const {
    return {wireshark.data(), wireshark[0].empty() ? 0U : wireshark[1].empty() ? 1U : 2U};
  }
  [[nodiscard]] constexpr bool is_part() const { return name.find('.') != std::string_view::npos; }
  [[nodiscard]] constexpr bool is_decoded() const { return decoded != nullptr; }
  [[nodiscard]] constexpr bool is_number() const { return width <= 64; }
  [[nodiscard]] constexpr bool is_reserved() const { return display == Display::reserved; }

  /// Returns the raw number in a header that starts at `header`. Requires is_number().
  [[nodiscard]] constexpr std::uint64_t load(const std::uint8_t* header) const {
    return little_endian ? load_le(header + bit / 8, width / 8) : load_bits(header, bit, width);
  }
  /// Writes the low `width` bits of `value` into a header that starts at `header`. Requires is_number().
  constexpr void store(std::uint8_t* header, std::uint64_t value) const {
    if (little_endian)
      store_le(header + bit / 8, width / 8, value);
    else
      store_bits(header, bit, width, value);
  }
  /// Returns the number after conversion by `decoded`, or the raw number if `decoded` is nullptr. Requires is_number().
  [[nodiscard]] constexpr std::uint64_t value(const std::uint8_t* header) const {
    return decoded ? decoded(load(header)) : load(header);
  }
  /// Returns the bytes of a field that starts and ends at a byte boundary.
  [[nodiscard]] constexpr Bytes bytes(const std::uint8_t* header) const { return {header + bit / 8, width / 8U}; }
  /// True if the field exists in this header.
  [[nodiscard]] constexpr bool present_in(const std::uint8_t* header) const { return !present || present(header); }
};

/// Creates a row of a header's table.
constexpr Field field(std::string_view name, unsigned bit, unsigned width, std::string_view meaning = {}) {
  Field f;
  f.name = name;
  f.bit = static_cast<std::uint16_t>(bit);
  f.width = static_cast<std::uint16_t>(width);
  f.meaning = meaning;
  if (width == 1) f.display = Display::flag;
  if (width > 64) f.display = Display::bytes;
  return f;
}
/// Creates a row for reserved bits: sent as zero, and ignored on receipt unless the specification says otherwise.
constexpr Field reserved(std::string_view name, unsigned bit, unsigned width) {
  return field(name, bit, width, "reserved").as(Display::reserved);
}

/// True if the fields cover `size` bytes exactly, in order, without overlap or gap, each part is inside its field, and
/// names are unique. Checked at compile time for every header.
constexpr bool tiles(std::span<const Field> fields, std::size_t size) {
  unsigned next = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    if (f.width == 0) return false;
    if (f.width > 64 && (f.bit % 8 || f.width % 8)) return false;
    if (f.width > 56 && f.width <= 64 && f.bit % 8) return false;
    if (f.little_endian && (f.bit % 8 || f.width % 8 || f.width > 64)) return false;
    for (std::size_t j = 0; j < i; ++j)
      if (fields[j].name == f.name) return false;
    if (f.is_part()) {
      const std::string_view whole_name = f.name.substr(0, f.name.rfind('.'));
      bool inside = false;
      for (std::size_t j = 0; j < i; ++j)
        inside |= fields[j].name == whole_name && f.bit >= fields[j].bit &&
                  f.bit + f.width <= fields[j].bit + fields[j].width;
      if (!inside) return false;
      continue;
    }
    if (f.decoded)
      return false;  // only a part ("field.part") may have a conversion: the whole field contains the raw bits
    if (f.bit != next) return false;
    next = f.bit + f.width;
  }
  return next == size * 8;
}

}  // namespace rdmawire
