#pragma once
/// What a filter can compare: the fields of all headers, and what a packet has beyond them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/registry.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

/// How values are written and compared.
enum class FilterType : std::uint8_t {
  header,  ///< there or not; has no value
  number,
  flag,
  duration,  ///< nanoseconds
  time,      ///< nanoseconds since 1970, with the sign bit turned over so that unsigned comparison orders them
  mac,
  ipv4,
  ipv6,  ///< 128 bits, compared as a big-endian number
  guid,
  bytes,
  text,
};
/// "an IPv4 address or prefix": what a value of that type looks like.
std::string_view describe(FilterType type);
/// Of the values of `field`.
FilterType type_of(const Field& field);

/// Takes the occurrences of something derived, one by one; returning true ends the visit.
struct Occurrences {
  bool (*take)(void* state, std::uint64_t number, Bytes bytes);
  void* state;
  bool number(std::uint64_t value) { return take(state, value, {}); }
  bool bytes(Bytes value) { return take(state, 0, value); }
};

/// Something that a packet has beyond its headers' fields.
struct Derived {
  std::string_view name;
  FilterType type;
  const Names* names;          ///< of an enumeration, or nullptr
  std::string_view wireshark;  ///< Wireshark's filter name where it means the same, else empty
  std::string_view meaning;
  bool (*visit)(const tracking::Packet& packet, Occurrences to);
};
/// All of them, in the order of the documentation.
std::span<const Derived> derived_fields();

/// What a name stands for: fields, headers, or one derived field. Fields of one name are of one type, except that a
/// name of Wireshark can cover fields of several.
struct Resolved {
  std::vector<FieldRef> refs;  ///< field nullptr: the header as a whole
  const Derived* derived = nullptr;
  bool by_wireshark = false;  ///< the name is Wireshark's, not ours
  explicit operator bool() const { return derived || !refs.empty(); }
};
/// Our names first, then Wireshark's.
Resolved resolve(std::string_view name);

/// The names that are nearest to a wrong one, best first, at most three.
std::vector<std::string> nearest_names(std::string_view name);
/// The same among the entries of an enumeration.
std::vector<std::string> nearest_entries(std::string_view name, const Names& names);
/// Letters and digits only, in lower case: how names of values are compared.
std::string plain_name(std::string_view name);

}  // namespace rdmawire::output
