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

/// Type of a value, which determines its syntax and how it is compared.
enum class FilterType : std::uint8_t {
  header,  ///< the value is only present or absent
  number,
  flag,
  duration,  ///< nanoseconds
  time,      ///< nanoseconds since 1970, with an inverted sign bit so that unsigned comparison is correct
  mac,
  ipv4,
  ipv6,  ///< 128 bits, compared as a big-endian number
  guid,
  bytes,
  text,
};
/// Returns the expected syntax of a value: "an IPv4 address or prefix".
std::string_view describe(FilterType type);
/// Returns the type of the values that `field` has.
FilterType type_of(const Field& field);

/// Receives the occurrences of a derived field one by one. The visit ends when `take` returns true.
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
  std::string_view wireshark;  ///< Wireshark's filter name with the same meaning, or empty
  std::string_view meaning;
  bool (*visit)(const tracking::Packet& packet, Occurrences to);
};
/// All derived fields, in the order in which the documentation lists them.
std::span<const Derived> derived_fields();

/// The fields or headers, or the derived field, that a name in a filter refers to. One Wireshark name can refer to
/// several fields, which may have different types.
struct Resolved {
  std::vector<FieldRef> refs;  ///< `field` is nullptr for a whole header
  const Derived* derived = nullptr;
  bool by_wireshark = false;  ///< the name is Wireshark's
  explicit operator bool() const { return derived || !refs.empty(); }
};
/// Looks up a name. Names of headers and fields take precedence over Wireshark's names.
Resolved resolve(std::string_view name);

/// Returns the names that are most similar to an unknown name: at most three, best first.
std::vector<std::string> nearest_names(std::string_view name);
/// Returns the most similar names in an enumeration: at most three, best first.
std::vector<std::string> nearest_entries(std::string_view name, const Names& names);
/// Returns the name in lower case, without spaces, `_` and `-`. This form is used to compare the names of values.
std::string plain_name(std::string_view name);

}  // namespace rdmawire::output
