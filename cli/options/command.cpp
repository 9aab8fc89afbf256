#include "cli/options/command.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace rdmawire::cli {
namespace {

std::string join(const std::vector<std::string>& parts, const std::string& mark) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : mark) + part;
  return text;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string allowed_numbers(const Option& option, const char* kind) {
  const bool has_least = option.least > std::numeric_limits<double>::lowest();
  const bool has_most = option.most < std::numeric_limits<double>::max();
  if (has_least && has_most)
    return std::string("expected ") + kind + " from " + reading::show(option.least) + " to " +
           reading::show(option.most);
  if (has_least && option.least > 0 && option.least < 1) return std::string("expected ") + kind + " greater than 0";
  if (has_least) return std::string("expected ") + kind + " of at least " + reading::show(option.least);
  return std::string("expected ") + kind;
}

}  // namespace

namespace reading {

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

std::string show_size(std::uint64_t value) {
  const char* unit = "";
  for (const char* larger : {"K", "M", "G"}) {
    if (value < 1024 || value % 1024 != 0) break;
    value /= 1024;
    unit = larger;
  }
  return std::to_string(value) + unit;
}

std::string integer(const Option& option, const std::string& text, std::uint64_t most, std::uint64_t& value) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const char* const first = text.data() + (hexadecimal ? 2 : 0);
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error == std::errc() && end == text.data() + text.size() && value <= most &&
      static_cast<double>(value) >= option.least && static_cast<double>(value) <= option.most)
    return {};
  return allowed_numbers(option, "a whole number") + ", got " + quoted(text);
}

std::string decimal(const Option& option, const std::string& text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= option.least &&
      value <= option.most)
    return {};
  return allowed_numbers(option, "a number") + ", got " + quoted(text);
}

std::string size(const Option& option, const std::string& text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit = error == std::errc() ? text.substr(static_cast<std::size_t>(end - text.data())) : "?";
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  unsigned shift = 0;
  bool known = unit.empty() || unit == "b";
  for (const auto& [letter, bits] : {std::pair('k', 10U), std::pair('m', 20U), std::pair('g', 30U)})
    if (!unit.empty() && unit.front() == letter &&
        (unit.size() == 1 || unit.substr(1) == "b" || unit.substr(1) == "ib"))
      known = true, shift = bits;
  const bool fits = known && (value << shift) >> shift == value;
  if (fits) value <<= shift;
  if (fits && static_cast<double>(value) >= option.least && static_cast<double>(value) <= option.most) return {};
  std::string range;
  if (option.least > std::numeric_limits<double>::lowest())
    range = " from " + show_size(static_cast<std::uint64_t>(option.least)) + " to " +
            show_size(static_cast<std::uint64_t>(option.most));
  return "expected a size" + range + " such as 1000, 64K, 10M or 2G, got " + quoted(text);
}

std::string not_a_choice(const Option& option, const std::string& text) {
  std::vector<std::string> words;
  for (const Word& word : option.words) words.push_back(word.word);
  return "expected one of " + join(words, ", ") + ", got " + quoted(text);
}

}  // namespace reading

std::vector<std::string> Option::all_names() const {
  std::vector<std::string> all;
  std::size_t from = 0;
  while (from <= names.size()) {
    const std::size_t comma = std::min(names.find(',', from), names.size());
    all.push_back(names.substr(from, comma - from));
    from = comma + 1;
  }
  return all;
}

std::string Option::long_name() const { return all_names().back(); }

std::string Option::text() const {
  // Position after the first sentence, where the allowed values and the default are inserted.
  std::size_t end = help.find(". ");
  if (end == std::string::npos) end = help.size() - (help.ends_with('.') ? 1 : 0);
  std::string text = help.substr(0, end);
  if (!words.empty()) {
    std::vector<std::string> list;
    for (const Word& word : words) list.push_back(word.word + (word.note.empty() ? "" : " (" + word.note + ")"));
    text += ": " + join(list, ", ");
  }
  if (!default_value.empty()) text += " [default: " + default_value + "]";
  text += ".";
  if (end + 1 < help.size()) text += help.substr(end + 1);
  if (!needed.empty()) text += " Requires " + join(needed, " and ") + ".";
  if (repeatable && !is_positional()) text += " May be repeated.";
  return text;
}

Option& Option::range(double min, double max) {
  least = min;
  most = max;
  return *this;
}
Option& Option::positive() {
  least = std::numeric_limits<double>::denorm_min();
  return *this;
}
Option& Option::by_default(std::string value) {
  default_value = std::move(value);
  return *this;
}
Option& Option::repeats() {
  repeatable = true;
  return *this;
}
Option& Option::separated_by(char mark) {
  separator = mark;
  return *this;
}
Option& Option::must_be_given() {
  required = true;
  return *this;
}
Option& Option::hide() {
  hidden = true;
  return *this;
}
Option& Option::needs(std::string name) {
  needed.push_back(std::move(name));
  return *this;
}
Option& Option::excludes(std::vector<std::string> names_of_others) {
  excluded = std::move(names_of_others);
  return *this;
}
Option& Option::completes(Completion kind) {
  completion = kind;
  return *this;
}
Option& Option::completes(std::function<std::vector<std::string>()> list) {
  candidates = std::move(list);
  return *this;
}

Option& Command::add(std::string names, std::string placeholder, std::string help) {
  Option& added = options.emplace_back();
  added.names = std::move(names);
  added.placeholder = std::move(placeholder);
  added.help = std::move(help);
  added.group = added.is_positional() ? "Arguments" : group_.empty() ? "Options" : group_;
  if (added.placeholder == "FILE") added.completion = Completion::file;
  if (added.placeholder == "DIR") added.completion = Completion::directory;
  return added;
}

Option& Command::flag(std::string names, bool& value, std::string help, bool to) {
  Option& added = add(std::move(names), {}, std::move(help));
  added.read = [&value, to](const Option&, const std::string&) {
    value = to;
    return std::string();
  };
  return added;
}

Option& Command::size(std::string names, std::uint64_t& value, std::string help) {
  Option& added = add(std::move(names), "SIZE", std::move(help));
  if (value != 0) added.default_value = reading::show_size(value);
  added.read = [&value](const Option& o, const std::string& text) { return reading::size(o, text, value); };
  return added;
}

Option& Command::parsed(std::string names, std::string placeholder,
                        std::function<std::string(const std::string&)> parser, std::string help) {
  Option& added = add(std::move(names), std::move(placeholder), std::move(help));
  added.read = [parser = std::move(parser)](const Option&, const std::string& text) { return parser(text); };
  return added;
}

Option& Command::at(std::string_view long_name) {
  for (Option& option : options)
    if (option.long_name() == long_name) return option;
  throw std::out_of_range("no option " + std::string(long_name));
}

void for_each_command(const Command& root, const std::function<void(const Command&, const std::string& path)>& visit) {
  const std::function<void(const Command&, const std::string&)> walk = [&](const Command& command,
                                                                           const std::string& path) {
    visit(command, path);
    for (const Command& sub : command.subcommands) walk(sub, path + " " + sub.name);
  };
  walk(root, root.name);
}

}  // namespace rdmawire::cli
