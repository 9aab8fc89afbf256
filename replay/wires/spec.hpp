#pragma once
/// The text that names a wire: "packet:eth0,bypass".

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// KIND:ADDRESS[,OPTION[=VALUE]]… A comma or a backslash of an address or a value is written with a backslash before
/// it. null alone has no address: "null", "null,link=ip".
struct WireSpec {
  static constexpr std::size_t max_length = 4096;  ///< bytes of the text

  struct Option {
    std::string name;
    std::optional<std::string> value;
  };
  std::string kind;
  std::string address;
  std::vector<Option> options;
  std::string text;  ///< as it was given
  /// Nobody will ask the wire for what arrives: packet: and verbs: then are as with "noreceive".
  bool only_sends = false;

  /// Understands the form alone: not whether there is such a kind, address or option.
  static WireResult<WireSpec> parse(std::string_view text);

  /// What an option of a kind of wire takes.
  struct Known {
    std::string_view name;
    bool takes_value = false;
    std::string_view meaning;
  };
  /// Every option is one of `known`, has a value exactly when it takes one, and stands there once.
  [[nodiscard]] WireResult<void> check(std::initializer_list<Known> known) const;
  [[nodiscard]] bool has(std::string_view option) const { return find(option) != nullptr; }
  /// The value of that option, or nothing.
  [[nodiscard]] std::optional<std::string> value(std::string_view option) const;
  /// The number behind that option, at most `most` and at least `least`; `otherwise` without the option. K, M, G behind
  /// it stand for thousands, as in 10G.
  [[nodiscard]] WireResult<std::uint64_t> number(std::string_view option, std::uint64_t otherwise, std::uint64_t least,
                                                 std::uint64_t most) const;
  /// The link type that stands behind `link`, by its word or its number in capture files; Ethernet without the option.
  [[nodiscard]] WireResult<LinkType> link() const;

 private:
  [[nodiscard]] const Option* find(std::string_view option) const;
};

/// Opens the wire that is meant, as open_wire() by name does.
WireResult<std::unique_ptr<Wire>> open_wire(const WireSpec& spec);

/// An error of a specification: "packet:eth0,x: there is no option x; there are …".
WireError specification_error(std::string_view text, std::string_view what);

}  // namespace rdmawire::replay
