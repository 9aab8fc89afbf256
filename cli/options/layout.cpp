#include "cli/options/layout.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace rdmawire::cli {
namespace layout {

std::size_t help_width() {
  constexpr std::size_t narrowest = 80, widest = 120;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
    return std::clamp<std::size_t>(size.ws_col, narrowest, widest);
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long width = std::strtol(columns, nullptr, 10); width > 0)
      return std::clamp<std::size_t>(static_cast<std::size_t>(width), narrowest, widest);
  return widest;
}

std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string paragraph = text.substr(from, end - from);
    from = end + 1;
    if (paragraph.starts_with("  ") || paragraph.empty()) {
      lines.push_back(paragraph);
      continue;
    }
    std::string line;
    for (std::size_t at = 0; at <= paragraph.size();) {
      const std::size_t space = std::min(paragraph.find(' ', at), paragraph.size());
      const std::string word = paragraph.substr(at, space - at);
      if (!line.empty() && line.size() + 1 + word.size() > width) {
        lines.push_back(line);
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
      at = space + 1;
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> usage_of(const Command& command, const std::string& path) {
  std::vector<std::string> forms;
  for (const std::string& form : command.usage) forms.push_back(path + " " + form);
  if (!forms.empty()) return forms;
  const std::string with_subcommand = path + " COMMAND [OPTIONS]";
  if (!command.subcommands.empty() && !command.run) return {with_subcommand};
  std::string form = path + " [OPTIONS]";
  for (const Option& option : command.options)
    if (option.required && !option.is_positional()) form += " " + option.long_name() + " " + option.placeholder;
  for (const Option& option : command.options)
    if (option.is_positional())
      form += " " + (option.required ? option.placeholder : "[" + option.placeholder + "]") +
              (option.repeatable ? "..." : "");
  if (!command.subcommands.empty()) return {form, with_subcommand};
  return {form};
}

std::string heading_of(const Option& option) {
  std::string text = join(option.all_names(), ", ");
  if (option.is_positional()) return text + (option.repeatable ? "..." : "");
  return option.is_flag() ? text : text + " " + option.placeholder;
}

const std::vector<Option>& standard_options(const Command& command) {
  static const auto make = [](bool version) {
    std::vector<Option> list(version ? 2 : 1);
    list.front().names = "-h,--help";
    list.front().help = "Print this help.";
    if (version) {
      list.back().names = "--version";
      list.back().help = "Print the version, the commit, the compiler, the features and the CRC implementations.";
    }
    return list;
  };
  static const std::vector<Option> program = make(true), subcommand = make(false);
  return command.version ? program : subcommand;
}

std::vector<Group> groups_of(const Command& command) {
  std::vector<Group> groups;
  const auto add = [&groups](const std::string& title, const Option& option) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.title == title; });
    (same == groups.end() ? groups.emplace_back(Group{title, {}}) : *same).options.push_back(&option);
  };
  for (const Option& option : command.options)
    if (option.is_positional()) add(option.group, option);
  bool grouped = false;
  for (const Option& option : command.options)
    if (!option.is_positional() && !option.hidden) {
      add(option.group, option);
      grouped |= option.group != "Options";
    }
  for (const Option& option : standard_options(command)) add(grouped ? "General" : "Options", option);
  return groups;
}

std::string join(const std::vector<std::string>& parts, const std::string& mark) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i ? mark : "") + parts[i];
  return text;
}

}  // namespace layout

namespace {

constexpr std::size_t text_column = 28;

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

/// `heading` in the left column and `text` in the right one.
std::string entry(const std::string& heading, const std::string& text, std::size_t width) {
  const std::vector<std::string> lines = layout::wrap(text, width - text_column);
  std::string out;
  std::size_t i = 0;
  if (heading.size() + 2 > text_column)
    out = heading + "\n";
  else
    out = padded(heading, text_column) + lines[i++] + "\n";
  for (; i < lines.size(); ++i) out += std::string(text_column, ' ') + lines[i] + "\n";
  return out;
}

std::string paragraphs(const std::string& text, std::size_t width) {
  return layout::join(layout::wrap(text, width), "\n") + "\n";
}

std::string indented(const std::string& text, std::size_t width) {
  std::string out;
  for (const std::string& line : layout::wrap(text, width - 2))
    out += (line.empty() || line.starts_with("  ") ? "" : "  ") + line + "\n";
  return out;
}

}  // namespace

std::string help_of(const Command& command, const std::string& path, std::size_t width) {
  std::string out = paragraphs(command.summary, width);
  if (!command.description.empty()) out += "\n" + paragraphs(command.description, width);
  const char* lead = "\nUsage: ";
  for (const std::string& form : layout::usage_of(command, path)) {
    out += lead + form + "\n";
    lead = "       ";
  }
  if (!command.subcommands.empty()) {
    out += "\nCommands:\n";
    for (const Command& sub : command.subcommands) out += entry("  " + sub.name, sub.summary, width);
  }
  for (const layout::Group& group : layout::groups_of(command)) {
    out += "\n" + group.title + ":\n";
    for (const Option* option : group.options) {
      const bool only_long = !option->is_positional() && option->names.starts_with("--");
      out += entry((only_long ? "      " : "  ") + layout::heading_of(*option), option->text(), width);
    }
  }
  for (const Section& section : command.sections) out += "\n" + section.title + ":\n" + indented(section.text, width);
  if (!command.examples.empty()) {
    out += "\nExamples:\n";
    for (const Example& example : command.examples) out += "  " + example.command + "\n      " + example.purpose + "\n";
  }
  if (!command.statuses.empty()) {
    std::vector<std::string> list;
    for (const Status& status : command.statuses) list.push_back(status.code + " " + status.meaning);
    out += "\n" + paragraphs("Exit status: " + layout::join(list, "; ") + ".", width);
  }
  return out;
}

}  // namespace rdmawire::cli
