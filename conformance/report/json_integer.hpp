#pragma once
/// Integers of a journal. nlohmann::json::get() also converts floating-point numbers, which is undefined behavior if
/// the target type cannot represent the value.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

namespace rdmawire::conformance {

/// Throws nlohmann::json::type_error if `json` is not an integer, or is negative and `Integer` is unsigned.
template <class Integer>
Integer integer_of(const nlohmann::json& json) {
  static_assert(std::is_same_v<Integer, std::int64_t> || std::is_same_v<Integer, std::uint64_t>);
  return json.get_ref<const Integer&>();
}

/// The integer member `name`, or 0 if it is absent. Throws as integer_of() does.
template <class Integer>
Integer integer_in(const nlohmann::json& json, std::string_view name) {
  const auto found = json.find(name);
  return found == json.end() ? 0 : integer_of<Integer>(*found);
}

}  // namespace rdmawire::conformance
