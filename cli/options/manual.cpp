/// Man pages and the Markdown reference page.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/options/command.hpp"
#include "cli/options/layout.hpp"

namespace rdmawire::cli {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string hyphenated(const std::string& path) { return replaced(path, " ", "-"); }

std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      default: out += c;
    }
  return out.starts_with('.') ? "\\&" + out : out;
}

/// A paragraph with a new line for each sentence, wrapped at 70 columns before special characters are escaped.
std::string roff_paragraph(const std::string& text) {
  std::string sentences;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends = text[i] == ' ' && i > 0 && (text[i - 1] == '.' || text[i - 1] == '?') && i + 1 < text.size();
    sentences += ends ? '\n' : text[i];
  }
  std::string out;
  for (const std::string& line : layout::wrap(sentences, 70)) out += roff(line) + "\n";
  return out;
}

/// Paragraphs separated by empty lines. Lines that start with two spaces are kept as they are.
std::string roff_text(const std::string& text) {
  std::string out;
  bool literal = false, paragraph = false;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (line.starts_with("  ") != literal) {
      literal = !literal;
      out += literal ? ".PP\n.EX\n" : ".EE\n";
      if (!literal) paragraph = true;
    }
    if (literal) {
      out += roff(line) + "\n";
    } else if (line.empty()) {
      paragraph = true;
    } else {
      if (paragraph) out += ".PP\n";
      paragraph = false;
      out += roff_paragraph(line);
    }
  }
  if (literal) out += ".EE\n";
  return out.starts_with(".PP\n") ? out.substr(4) : out;
}

std::string roff_heading(const Option& option) {
  if (option.is_positional()) return "\\fI" + roff(layout::heading_of(option)) + "\\fR";
  std::vector<std::string> names = option.all_names();
  for (std::string& name : names) name = "\\fB" + roff(name) + "\\fR";
  return layout::join(names, ", ") + (option.is_flag() ? "" : " \\fI" + roff(option.placeholder) + "\\fR");
}

std::string escaped_markdown(std::string text) {
  for (const char* special : {"\\", "|", "*", "<", "_", "["})
    text = replaced(text, special, std::string("\\") + special);
  return text;
}

std::string sentence(const std::string& text) {
  if (text.empty()) return text;
  std::string out = text;
  out.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(out.front())));
  return out.ends_with('.') ? out : out + ".";
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw std::filesystem::filesystem_error("cannot write the file", path, std::make_error_code(std::errc::io_error));
}

}  // namespace

std::string man_page(const Command& root, const Command& command, const std::string& path, const std::string& date) {
  std::string version = root.version ? root.version() : root.name;
  version = version.substr(0, version.find('\n'));
  std::string name = command.summary;
  if (name.size() > 1 && std::islower(static_cast<unsigned char>(name[1])))
    name.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(name.front())));
  if (name.ends_with('.')) name.pop_back();
  std::string out = ".TH " + upper(hyphenated(path)) + " 1 " + date + " \"" + version + "\" \"User Commands\"\n";
  out += ".SH NAME\n" + roff(hyphenated(path)) + " \\- " + roff(name) + "\n.SH SYNOPSIS\n.nh\n";
  bool first = true;
  for (const std::string& form : layout::usage_of(command, path)) {
    out += (first ? "" : ".br\n") + std::string("\\fB") + roff(path) + "\\fR" + roff(form.substr(path.size())) + "\n";
    first = false;
  }
  out += ".hy\n.SH DESCRIPTION\n" + roff_text(command.summary);
  if (!command.description.empty()) out += ".PP\n" + roff_text(command.description);
  if (!command.subcommands.empty()) {
    out += ".SH COMMANDS\n";
    for (const Command& sub : command.subcommands)
      out += ".TP\n\\fB" + roff(sub.name) + "\\fR\n" + roff_paragraph(sub.summary);
  }
  out += ".SH OPTIONS\n";
  const std::vector<layout::Group> groups = layout::groups_of(command);
  for (const layout::Group& group : groups) {
    if (groups.size() > 1) out += ".SS " + roff(group.title) + "\n";
    for (const Option* option : group.options)
      out += ".TP\n" + roff_heading(*option) + "\n" + roff_paragraph(option->text());
  }
  for (const Section& section : command.sections)
    out += ".SH " + upper(roff(section.title)) + "\n" + roff_text(section.text);
  if (!command.examples.empty()) {
    out += ".SH EXAMPLES\n";
    for (const Example& example : command.examples)
      out += (&example == &command.examples.front() ? "" : ".PP\n") + roff_paragraph(example.purpose) +
             ".PP\n.RS 4\n.EX\n" + roff(example.command) + "\n.EE\n.RE\n";
  }
  if (!command.statuses.empty()) {
    out += ".SH EXIT STATUS\n";
    for (const Status& status : command.statuses)
      out += ".TP\n" + roff(status.code) + "\n" + roff_paragraph(sentence(status.meaning));
  }
  std::vector<std::string> others;
  for_each_command(root, [&](const Command& other, const std::string& where) {
    if (&other == &command) return;
    const bool related = where == path.substr(0, path.rfind(' ')) || (where.starts_with(path + " ")) || &other == &root;
    if (related) others.push_back("\\fB" + roff(hyphenated(where)) + "\\fR(1)");
  });
  if (!others.empty()) out += ".SH SEE ALSO\n" + layout::join(others, ",\n") + "\n";
  return out;
}

std::string reference_page(const Command& root) {
  std::string out;
  if (!root.subcommands.empty())
    out =
        "# Command-line reference\n\nGenerated by `{ rdmawire --reference; rdmawire-agent --reference; }` from the "
        "option "
        "tables of the programs. A test detects a stale page.\n\n";
  for_each_command(root, [&](const Command& command, const std::string& path) {
    out += "## " + path + "\n\n" + escaped_markdown(command.summary) + "\n\n";
    if (!command.description.empty()) out += escaped_markdown(command.description) + "\n\n";
    out += "```text\n" + layout::join(layout::usage_of(command, path), "\n") + "\n```\n\n";
    if (!command.subcommands.empty()) {
      out += "| Command | Purpose |\n|---|---|\n";
      for (const Command& sub : command.subcommands) {
        const std::string where = path + " " + sub.name;
        out += "| [" + where + "](#" + hyphenated(where) + ") | " + escaped_markdown(sub.summary) + " |\n";
      }
      out += "\n";
    }
    for (const layout::Group& group : layout::groups_of(command)) {
      out += "| " + group.title + " | |\n|---|---|\n";
      for (const Option* option : group.options)
        out += "| `" + layout::heading_of(*option) + "` | " + escaped_markdown(option->text()) + " |\n";
      out += "\n";
    }
    for (const Section& section : command.sections) {
      const bool literal = section.text.starts_with("  ");
      out += "**" + section.title + "**\n\n" +
             (literal ? "```text\n" + section.text + "\n```" : escaped_markdown(section.text)) + "\n\n";
    }
    if (!command.examples.empty()) {
      out += "**Examples**\n\n```text\n";
      for (const Example& example : command.examples)
        out += (&example == &command.examples.front() ? "" : "\n") + ("# " + example.purpose) + "\n" + example.command +
               "\n";
      out += "```\n\n";
    }
    if (!command.statuses.empty()) {
      out += "| Exit status | Meaning |\n|---|---|\n";
      for (const Status& status : command.statuses)
        out += "| " + status.code + " | " + escaped_markdown(sentence(status.meaning)) + " |\n";
      out += "\n";
    }
  });
  return out;
}

void generate(const Command& root, const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path share = directory;
  for_each_command(root, [&](const Command& command, const std::string& path) {
    write(share / "man" / "man1" / (hyphenated(path) + ".1"), man_page(root, command, path, root.date));
  });
  write(share / "bash-completion" / "completions" / root.name, bash_completion(root));
  write(share / "zsh" / "site-functions" / ("_" + root.name), zsh_completion(root));
  write(share / "fish" / "vendor_completions.d" / (root.name + ".fish"), fish_completion(root));
}

}  // namespace rdmawire::cli
