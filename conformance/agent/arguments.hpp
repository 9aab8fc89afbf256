#pragma once
/// Reads the arguments of a command: typed, checked for range, and every one that nobody asked for is an error.

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

/// What a number may be.
struct Range {
  std::uint64_t least = 0, most = std::numeric_limits<std::uint64_t>::max();
};

/// A getter gives a harmless value (0, empty, nullptr) when an argument is missing or wrong, and remembers the first
/// thing that was wrong. So a handler reads everything, asks wrong() once, and only then does something:
///
///     auto* device = arguments.object<Device>("device");
///     const auto cqe = arguments.number<std::uint32_t>("cqe", {1, 65536});
///     if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
class Arguments {
 public:
  /// `given` must outlive this. The members `id` and `do` are no arguments.
  Arguments(const Asked& given, const Objects& objects);

  [[nodiscard]] bool has(const std::string& name);

  /// A number that must be there.
  template <std::unsigned_integral T>
  T number(const std::string& name, Range range = {}) {
    return static_cast<T>(read_number(name, narrowed<T>(range), true).value_or(0));
  }
  /// A number, if it is there.
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

  /// Bytes, written in hexadecimal.
  std::vector<std::uint8_t> bytes(const std::string& name, std::size_t most);

  /// One of the names of a table.
  std::uint64_t choice(const std::string& name, Names names);
  std::optional<std::uint64_t> maybe_choice(const std::string& name, Names names);
  /// A list of names of a table, as bits; 0 when it is not there.
  std::uint64_t bits(const std::string& name, Names names);
  std::optional<std::uint64_t> maybe_bits(const std::string& name, Names names);

  /// The object that a handle means.
  template <std::derived_from<Object> T>
  T* object(const std::string& name) {
    return find_object<T>(name, true);
  }
  /// nullptr when it is not given.
  template <std::derived_from<Object> T>
  T* maybe_object(const std::string& name) {
    return find_object<T>(name, false);
  }

  /// Arguments within an argument: {"grh": {…}}. What is wrong in there is wrong here. Nothing when it is not given.
  std::optional<Arguments> inner(const std::string& name);
  /// A list of them; empty when it is not given.
  std::vector<Arguments> inner_list(const std::string& name, std::size_t most);

  /// Something that a handler itself found wrong. The first complaint stays.
  void report_error(const std::string& name, int number, std::string_view what);
  /// What was wrong first; an argument that was never asked for comes last.
  [[nodiscard]] std::optional<Error> wrong();
  /// As above, without looking for arguments that were not asked for.
  [[nodiscard]] const std::optional<Error>& complaint() const { return state_->first; }

 private:
  /// What was asked for, and what was wrong, of an object and all objects within.
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
  /// The member, noted as asked for; nullptr when it is not there (`needed`: which is a complaint).
  const Asked* take(const std::string& name, bool needed);

  const Asked* given_;
  const Objects* objects_;
  std::shared_ptr<State> state_;
  State::Part* part_;
};

/// Bytes as text in hexadecimal, two digits each; nothing when the text is not that.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text);
std::string to_hex(const std::uint8_t* bytes, std::size_t length);

}  // namespace rdmawire::agent
