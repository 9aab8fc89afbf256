#include "replay/wires/spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/json.hpp"

namespace rdmawire::replay {

WireError specification_error(std::string_view text, std::string_view what) {
  // Control characters are replaced.
  std::string shown;
  for (const char c : text.substr(0, 200)) shown += c >= 0 && c < ' ' ? '?' : c;
  if (text.size() > 200) shown += "…";
  return {WireError::Kind::specification, 0, fmt::format("wire \"{}\": {}", shown, what)};
}

WireResult<WireSpec> WireSpec::parse(std::string_view text) {
  const auto wrong = [&](std::string_view what) { return tl::unexpected(specification_error(text, what)); };
  if (text.empty()) return wrong("empty name; expected KIND:ADDRESS, for example packet:eth0 or unix:/run/x");
  if (text.size() > max_length) return wrong(fmt::format("longer than {} bytes", max_length));
  if (text.find('\0') != std::string_view::npos) return wrong("contains a zero byte");
  // The colon is optional if there is no address.
  const bool bare = text == "null" || text.starts_with("null,");
  const std::size_t colon = bare ? 3 : text.find(':');
  if (colon == std::string_view::npos || colon == 0)
    return wrong("missing kind; expected KIND:ADDRESS, for example packet:eth0 or unix:/run/x");

  WireSpec spec;
  spec.text = text;
  spec.kind = text.substr(0, bare ? 4 : colon);
  std::vector<std::string> parts(1);
  std::vector<std::size_t> equals(1, std::string::npos);  // position of the first unescaped = of each part
  for (std::size_t i = colon + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      if (++i == text.size()) return wrong("trailing backslash; write \\\\ for a literal backslash");
      parts.back() += text[i];
    } else if (c == ',') {
      parts.emplace_back();
      equals.push_back(std::string::npos);
    } else {
      if (c == '=' && equals.back() == std::string::npos) equals.back() = parts.back().size();
      parts.back() += c;
    }
  }
  spec.address = parts.front();
  if (spec.address.empty() && !bare) return wrong(fmt::format("no address after {}:", spec.kind));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    Option option;
    option.name = parts[i].substr(0, equals[i]);
    if (equals[i] != std::string::npos) option.value = parts[i].substr(equals[i] + 1);
    if (option.name.empty()) return wrong("empty option; expected a comma and a name, for example ,bypass");
    spec.options.push_back(std::move(option));
  }
  return spec;
}

WireResult<void> WireSpec::check(std::initializer_list<Known> known) const {
  const auto wrong = [&](std::string what) { return tl::unexpected(specification_error(text, what)); };
  for (auto option = options.begin(); option != options.end(); ++option) {
    const auto* match =
        std::find_if(known.begin(), known.end(), [&](const Known& k) { return k.name == option->name; });
    if (match == known.end()) {
      std::string list;
      for (const Known& k : known)
        list += fmt::format("{}{}{} ({})", list.empty() ? "" : ", ", k.name, k.takes_value ? "=…" : "", k.meaning);
      std::vector<std::string_view> names;
      for (const Known& k : known) names.push_back(k.name);
      const std::string near = output::did_you_mean(option->name, names);
      return wrong(
          fmt::format("{} has no option \"{}\"{}", kind, option->name, near.empty() ? "; expected " + list : near));
    }
    if (match->takes_value && (!option->value || option->value->empty()))
      return wrong(fmt::format("{} requires a value: {}=…", option->name, option->name));
    if (!match->takes_value && option->value) return wrong(fmt::format("{} takes no value", option->name));
    if (std::any_of(options.begin(), option, [&](const Option& o) { return o.name == option->name; }))
      return wrong(fmt::format("{} is specified twice", option->name));
  }
  return {};
}

const WireSpec::Option* WireSpec::find(std::string_view option) const {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == option; });
  return found == options.end() ? nullptr : &*found;
}

std::optional<std::string> WireSpec::value(std::string_view option) const {
  const Option* found = find(option);
  return found ? found->value : std::nullopt;
}

WireResult<std::uint64_t> WireSpec::number(std::string_view option, std::uint64_t otherwise, std::uint64_t least,
                                           std::uint64_t most) const {
  const auto given = value(option);
  if (!given) return otherwise;
  std::uint64_t number = 0;
  const char* const end = given->data() + given->size();
  const auto [rest, wrong] = std::from_chars(given->data(), end, number);
  constexpr std::string_view units = "KMG";
  std::uint64_t unit = 1;
  if (wrong == std::errc() && rest + 1 == end) {
    const std::size_t power = units.find(*rest);
    for (std::size_t i = 0; power != std::string_view::npos && i <= power; ++i) unit *= 1000;
  }
  if (wrong != std::errc() || (rest != end && unit == 1) || __builtin_mul_overflow(number, unit, &number) ||
      number < least || number > most)
    return tl::unexpected(
        specification_error(text, fmt::format("{}={}: expected a number from {} to {}", option, *given, least, most)));
  return number;
}

WireResult<LinkType> WireSpec::link() const {
  const auto given = value("link");
  if (!given) return LinkType::ethernet;
  constexpr std::array known{LinkType::ethernet, LinkType::infiniband, LinkType::raw_ip,
                             LinkType::ipv4,     LinkType::ipv6,       LinkType::linux_sll,
                             LinkType::erf,      LinkType::linux_sll2, LinkType::null_loopback};
  std::string words;
  for (const LinkType link : known) {
    if (output::link_name(link) == *given) return link;
    words += (words.empty() ? "" : ", ") + output::link_name(link);
  }
  std::uint16_t number = 0;
  const char* const end = given->data() + given->size();
  if (const auto [rest, wrong] = std::from_chars(given->data(), end, number); wrong == std::errc() && rest == end)
    return static_cast<LinkType>(number);
  return tl::unexpected(
      specification_error(text, fmt::format("link={}: expected {} or a link type number", *given, words)));
}

}  // namespace rdmawire::replay
