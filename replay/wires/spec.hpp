#pragma once
/// The text that specifies a wire, for example "packet:eth0,bypass".

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// KIND:ADDRESS[,OPTION[=VALUE]]… A comma or backslash in an address or value is escaped with a backslash. Only null
/// has no address: "null", "null,link=ip".
struct WireSpec {
  static constexpr std::size_t max_length = 4096;  ///< bytes of the text

  struct Option {
    std::string name;
    std::optional<std::string> value;
  };
  std::string kind;
  std::string address;
  std::vector<Option> options;
  std::string text;  ///< the original text
  /// The caller does not receive: packet: and verbs: behave as with "noreceive".
  bool only_sends = false;

  /// Checks only the syntax, not whether the kind, the address or the options exist.
  static WireResult<WireSpec> parse(std::string_view text);

  /// A valid option of a kind of wire.
  struct Known {
    std::string_view name;
    bool takes_value = false;
    std::string_view meaning;
  };
  /// Returns an error unless every option is in `known`, has a value exactly if required, and occurs once.
  [[nodiscard]] WireResult<void> check(std::initializer_list<Known> known) const;
  [[nodiscard]] bool has(std::string_view option) const { return find(option) != nullptr; }
  /// Value of the option. nullopt if the option is absent.
  [[nodiscard]] std::optional<std::string> value(std::string_view option) const;
  /// Numeric value of the option, from `least` to `most`, or `otherwise` if the option is absent. The suffixes K, M and
  /// G multiply by powers of 1000, as in 10G.
  [[nodiscard]] WireResult<std::uint64_t> number(std::string_view option, std::uint64_t otherwise, std::uint64_t least,
                                                 std::uint64_t most) const;
  /// Link type of the option `link`, by name or by its number in capture files. Ethernet if absent.
  [[nodiscard]] WireResult<LinkType> link() const;

 private:
  [[nodiscard]] const Option* find(std::string_view option) const;
};

/// Opens the wire, like open_wire() with a name.
WireResult<std::unique_ptr<Wire>> open_wire(const WireSpec& spec);

/// Returns an error for an unknown kind of wire. Does not check the address and the options.
WireResult<void> check_kind(const WireSpec& spec);

/// Error of a specification: `wire "packet:eth0,x": packet has no option "x"; expected …`.
WireError specification_error(std::string_view text, std::string_view what);

}  // namespace rdmawire::replay
