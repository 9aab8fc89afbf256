#pragma once
/// Parses the arguments of a command. Checks types and ranges. Unknown arguments are errors.

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/agent/names.hpp"
#include "conformance/agent/objects.hpp"

namespace rdmawire::agent {

/// Permitted values of a number.
struct Range {
  std::uint64_t least = 0, most = std::numeric_limits<std::uint64_t>::max();
};

/// Getters return a harmless value (0, empty, nullptr) for a missing or invalid argument and record the first error. A
/// handler reads all arguments, calls wrong() once, and then executes the command:
///
///     auto* device = arguments.object<Device>("device");
///     const auto cqe = arguments.number<std::uint32_t>("cqe", {1, 65536});
///     if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
class Arguments {
 public:
  /// `given` must outlive the object. The members `id` and `do` are not arguments.
  Arguments(const Asked& given, const Objects& objects);

  [[nodiscard]] bool has(const std::string& name);

  /// A required number.
  template <std::unsigned_integral T>
  T number(const std::string& name, Range range = {}) {
    return static_cast<T>(read_number(name, narrowed<T>(range), true).value_or(0));
  }
  /// An optional number.
  template <std::unsigned_integral T>
  std::optional<T> maybe(const std::string& name, Range range = {}) {
    const auto read = read_number(name, narrowed<T>(range), false);
    return read ? std::optional<T>(static_cast<T>(*read)) : std::nullopt;
  }
  template <std::unsigned_integral T>
  T number_or(const std::string& name, T fallback, Range range = {}) {
    return maybe<T>(name, range).value_or(fallback);
  }

  bool boolean_or(const std::string& name, bool fallback);

  std::string text(const std::string& name);
  std::string text_or(const std::string& name, std::string fallback);
  std::vector<std::string> texts(const std::string& name, std::size_t most);

  /// Bytes in hexadecimal.
  std::vector<std::uint8_t> bytes(const std::string& name, std::size_t most);

  /// One name of a table.
  std::uint64_t choice(const std::string& name, Names names);
  std::optional<std::uint64_t> maybe_choice(const std::string& name, Names names);
  /// A list of names of a table, as a bit mask. 0 if absent.
  std::uint64_t bits(const std::string& name, Names names);
  std::optional<std::uint64_t> maybe_bits(const std::string& name, Names names);

  /// The object with this handle.
  template <std::derived_from<Object> T>
  T* object(const std::string& name) {
    return find_object<T>(name, true);
  }
  /// nullptr if absent.
  template <std::derived_from<Object> T>
  T* maybe_object(const std::string& name) {
    return find_object<T>(name, false);
  }

  /// A nested object: {"grh": {…}}. Its errors are recorded here as well. nullopt if absent.
  std::optional<Arguments> inner(const std::string& name);
  /// A list of nested objects. Empty if absent.
  std::vector<Arguments> inner_list(const std::string& name, std::size_t most);

  /// Records an error found by a handler, unless there is an earlier one.
  void report_error(const std::string& name, int number, std::string_view what);
  /// The first error. Unknown arguments are reported last.
  [[nodiscard]] std::optional<Error> wrong();
  /// The first error, without unknown arguments.
  [[nodiscard]] const std::optional<Error>& complaint() const { return state_->first; }

 private:
  /// Used arguments and the first error of an object and its nested objects.
  struct State {
    std::optional<Error> first;
    struct Part {
      const Asked* given;
      std::string path;
      std::set<std::string> asked;
    };
    std::vector<std::unique_ptr<Part>> parts;
  };

  Arguments(const Asked& given, const Objects& objects, std::shared_ptr<State> state, std::string path);

  template <std::unsigned_integral T>
  static Range narrowed(Range range) {
    range.most = std::min<std::uint64_t>(range.most, std::numeric_limits<T>::max());
    return range;
  }
  template <std::derived_from<Object> T>
  T* find_object(const std::string& name, bool needed) {
    const auto handle = read_number(name, {}, needed);
    if (!handle) return nullptr;
    auto found = objects_->get<T>(*handle);
    if (found) return *found;
    report_error(name, found.error().number, found.error().message);
    return nullptr;
  }
  std::optional<std::uint64_t> read_number(const std::string& name, Range range, bool needed);
  /// Returns the member and marks it as used. nullptr if absent, which is an error if `needed`.
  const Asked* take(const std::string& name, bool needed);

  const Asked* given_;
  const Objects* objects_;
  std::shared_ptr<State> state_;
  State::Part* part_;
};

/// Converts hexadecimal text, two digits per byte. nullopt for invalid text.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text);
std::string to_hex(const std::uint8_t* bytes, std::size_t length);

}  // namespace rdmawire::agent
