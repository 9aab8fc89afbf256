#pragma once
/// Parser for the arguments of an agent command. It keeps the first error. Unknown arguments are errors.

#include <fmt/format.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "conformance/device/roce/work_request.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

using Json = nlohmann::ordered_json;

/// A constant of verbs and its name in the agent protocol.
struct NamedNumber {
  std::string_view name;
  std::uint64_t value;
};
using NamedNumbers = std::span<const NamedNumber>;

class ArgumentReader {
 public:
  /// `object` must outlive this. `path`, such as "requests[2].", prefixes names in error messages.
  explicit ArgumentReader(const Json& object, std::string path = {}) : object_(&object), path_(std::move(path)) {}

  [[nodiscard]] bool has(const std::string& name) const { return object_->contains(name); }

  template <class T = std::uint64_t>
  std::optional<T> optional_number(const std::string& name, std::uint64_t least = 0,
                                   std::uint64_t most = std::numeric_limits<T>::max()) {
    const Json* found = take(name);
    if (!found) return std::nullopt;
    const bool unsigned_number = found->is_number_unsigned() || (found->is_number_integer() && *found >= 0);
    if (!unsigned_number) return report_error(name, EINVAL, "must be a non-negative integer"), std::nullopt;
    const auto value = found->get<std::uint64_t>();
    if (value < least || value > most)
      return report_error(name, ERANGE, fmt::format("must be {} to {}, not {}", least, most, value)), std::nullopt;
    return static_cast<T>(value);
  }
  template <class T = std::uint64_t>
  T number(const std::string& name, std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<T>::max()) {
    if (!has(name)) report_error(name, EINVAL, "is required");
    return optional_number<T>(name, least, most).value_or(static_cast<T>(least));
  }
  template <class T = std::uint64_t>
  T number_or(const std::string& name, T fallback, std::uint64_t least = 0,
              std::uint64_t most = std::numeric_limits<T>::max()) {
    return optional_number<T>(name, least, most).value_or(fallback);
  }
  bool boolean_or(const std::string& name, bool fallback) {
    const Json* found = take(name);
    if (!found) return fallback;
    if (!found->is_boolean()) report_error(name, EINVAL, "must be true or false");
    return found->is_boolean() ? found->get<bool>() : fallback;
  }
  std::string text(const std::string& name) {
    const Json* found = take(name);
    if (!found || !found->is_string())
      return report_error(name, EINVAL, "must be a string and is required"), std::string();
    return found->get<std::string>();
  }
  std::optional<std::uint64_t> optional_choice(const std::string& name, NamedNumbers names) {
    const Json* found = take(name);
    if (!found) return std::nullopt;
    if (found->is_string())
      for (const NamedNumber& entry : names)
        if (entry.name == found->get_ref<const std::string&>()) return entry.value;
    return report_error(name, EINVAL, "is not a known name"), std::nullopt;
  }
  std::optional<std::uint64_t> optional_bits(const std::string& name, NamedNumbers names) {
    const Json* found = take(name);
    if (!found) return std::nullopt;
    if (!found->is_array()) return report_error(name, EINVAL, "must be a list of names"), std::nullopt;
    std::uint64_t bits = 0;
    for (const Json& entry : *found) {
      const NamedNumber* known = nullptr;
      for (const NamedNumber& candidate : names)
        if (entry.is_string() && candidate.name == entry.get_ref<const std::string&>()) known = &candidate;
      if (!known) return report_error(name, EINVAL, "contains an unknown name"), std::nullopt;
      bits |= known->value;
    }
    return bits;
  }
  std::vector<std::uint8_t> bytes(const std::string& name, std::size_t most);
  /// Read a GID, written as an IPv6 address.
  Gid gid(const std::string& name);

  /// Read a nested object. finish() of this reader includes its errors.
  template <class Read>
  void inner(const std::string& name, const Read& read) {
    const Json* found = take(name);
    if (!found) return;
    if (!found->is_object()) return report_error(name, EINVAL, "must be an object");
    ArgumentReader part(*found, path_ + name + ".");
    read(part);
    adopt(part);
  }
  template <class Read>
  void each(const std::string& name, std::size_t most, const Read& read) {
    const Json* found = take(name);
    if (!found) return;
    if (!found->is_array() || found->size() > most)
      return report_error(name, EINVAL, fmt::format("must be a list of at most {}", most));
    std::size_t index = 0;
    for (const Json& entry : *found) {
      if (!entry.is_object()) return report_error(name, EINVAL, "must contain only objects");
      ArgumentReader part(entry, fmt::format("{}{}[{}].", path_, name, index++));
      read(part);
      adopt(part);
    }
  }

  void report_error(const std::string& name, int number, const std::string& what) {
    if (!wrong_) wrong_ = Error{number, fmt::format("{}{}: {}", path_, name, what)};
  }
  /// Return the first error, if any.
  std::optional<Error> finish() {
    for (const auto& [key, value] : object_->items())
      if (key != "id" && key != "do" && !asked_.contains(key)) report_error(key, EINVAL, "unknown argument");
    return wrong_;
  }

 private:
  const Json* take(const std::string& name) {
    asked_.insert(name);
    const auto found = object_->find(name);
    return found == object_->end() ? nullptr : &*found;
  }
  void adopt(ArgumentReader& part) {
    auto wrong = part.finish();
    if (!wrong_ && wrong) wrong_ = std::move(wrong);
  }

  const Json* object_;
  std::string path_;
  std::set<std::string> asked_;
  std::optional<Error> wrong_;
};

/// Return two hexadecimal digits for each byte.
std::string to_hex(Bytes bytes);
std::string gid_text(const Gid& gid);

}  // namespace rdmawire::device
