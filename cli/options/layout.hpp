#pragma once
/// Text layout of help and generated pages.

#include <cstddef>
#include <string>
#include <vector>

#include "cli/options/command.hpp"

namespace rdmawire::cli::layout {

/// Width of the help in columns: COLUMNS or the width of the terminal, limited to 80 to 120. Default: 120.
std::size_t help_width();

/// Breaks `text` into lines of at most `width` columns. Paragraphs are separated by empty lines. Lines that start with
/// two spaces are kept.
std::vector<std::string> wrap(const std::string& text, std::size_t width);

/// Forms of use, each with the path: "rdmawire analyze [OPTIONS] [FILE]...".
std::vector<std::string> usage_of(const Command& command, const std::string& path);

/// "-o, --output FILE"
std::string heading_of(const Option& option);

/// Visible options by group, in the order of the groups' first options. Positional arguments are first.
struct Group {
  std::string title;
  std::vector<const Option*> options;
};
std::vector<Group> groups_of(const Command& command);

/// --help and --version, which the parser adds to each command and to the program.
const std::vector<Option>& standard_options(const Command& command);

std::string join(const std::vector<std::string>& parts, const std::string& mark);

}  // namespace rdmawire::cli::layout
