#pragma once
/// Items that a filter can compare: the fields of all headers, and derived properties of a packet.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/registry.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

/// Type of a value: determines its syntax and comparison.
enum class FilterType : std::uint8_t {
  header,  ///< presence only (no value)
  number,
  flag,
  duration,  ///< nanoseconds
  time,      ///< nanoseconds since 1970, with inverted sign bit for unsigned comparison
  mac,
  ipv4,
  ipv6,  ///< 128 bits, compared as a big-endian number
  guid,
  bytes,
  text,
};
/// Returns the expected syntax of a value: "an IPv4 address or prefix".
std::string_view describe(FilterType type);
/// Returns the type of the values of `field`.
FilterType type_of(const Field& field);

/// Receives the occurrences of a derived field one by one. Returning true ends the visit.
struct Occurrences {
  bool (*take)(void* state, std::uint64_t number, Bytes bytes);
  void* state;
  bool number(std::uint64_t value) { return take(state, value, {}); }
  bool bytes(Bytes value) { return take(state, 0, value); }
};

/// A derived property of a packet.
struct Derived {
  std::string_view name;
  FilterType type;
  const Names* names;          ///< names of the values, or nullptr
  std::string_view wireshark;  ///< Wireshark's filter name with the same meaning, else empty
  std::string_view meaning;
  bool (*visit)(const tracking::Packet& packet, Occurrences to);
};
/// All derived fields, in the order of the documentation.
std::span<const Derived> derived_fields();

/// The fields, headers or the derived field that a name means. The fields have the same type, but fields with the same
/// Wireshark name can have several types.
struct Resolved {
  std::vector<FieldRef> refs;  ///< field nullptr: the whole header
  const Derived* derived = nullptr;
  bool by_wireshark = false;  ///< found by its Wireshark name
  explicit operator bool() const { return derived || !refs.empty(); }
};
/// Searches the names of headers and fields first, and then Wireshark's names.
Resolved resolve(std::string_view name);

/// Returns the names most similar to an unknown name: at most three, best first.
std::vector<std::string> nearest_names(std::string_view name);
/// The same for the entries of an enumeration.
std::vector<std::string> nearest_entries(std::string_view name, const Names& names);
/// Returns the name in lower case, without spaces, `_` and `-`. Names of values are compared in this form.
std::string plain_name(std::string_view name);

}  // namespace rdmawire::output
