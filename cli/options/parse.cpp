/// Translates command tables to CLI11. The only file that includes CLI11.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "cli/options/command.hpp"
#include "cli/options/layout.hpp"
#include "cli/options/standard_streams.hpp"
#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/printable.hpp"

namespace rdmawire::cli {
namespace {

/// A command and its CLI11 objects.
struct Node {
  Command* command = nullptr;
  CLI::App* app = nullptr;
  std::string path;
  std::vector<CLI::Option*> options;  // in the order of command->options
  std::vector<std::unique_ptr<Node>> children;

  Node& deepest() {
    for (const auto& child : children)
      if (child->app->parsed()) return child->deepest();
    return *this;
  }
};

void translate(Node& node) {
  for (const Option& option : node.command->options) {
    CLI::Option* added = nullptr;
    if (option.is_flag()) {
      added = node.app->add_flag(option.names);
    } else {
      added = node.app->add_option(option.names, [](const CLI::results_t&) { return true; });
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (option.is_positional() && option.repeatable) added->expected(CLI::detail::expected_max_vector_size);
    }
    node.options.push_back(added);
  }
  for (Command& sub : node.command->subcommands) {
    auto child = std::make_unique<Node>();
    child->command = &sub;
    child->path = node.path + " " + sub.name;
    child->app = node.app->add_subcommand(sub.name);
    translate(*child);
    node.children.push_back(std::move(child));
  }
}

std::string names_of_subcommands(const Command& command) {
  std::string names;
  for (const Command& sub : command.subcommands) names += (names.empty() ? "" : ", ") + sub.name;
  return names;
}

/// The error for arguments that CLI11 could not match.
std::string unknown_argument(const Node& node, const std::string& text) {
  const Command& command = *node.command;
  if (text.front() == '-' && text.size() > 1) {
    std::vector<std::string> names;
    for (const Option& option : command.options)
      if (!option.hidden && !option.is_positional())
        for (const std::string& name : option.all_names()) names.push_back(name);
    const std::string word = text.substr(0, text.find('='));
    for (const auto& [option, hint] : command.foreign_options)
      if (option == word) return "unknown option " + word + "; " + hint;
    return "unknown option " + word + output::did_you_mean(word, names);
  }
  if (command.subcommands.empty()) return "unexpected argument \"" + text + "\"";
  return "unknown subcommand \"" + text + "\"; expected one of: " + names_of_subcommands(command);
}

/// Throws UsageError if an option of a parent precedes a subcommand, which would ignore it.
void reject_options_of_parents(const Node& node) {
  for (const auto& child : node.children)
    if (child->app->parsed()) {
      for (std::size_t i = 0; i < node.command->options.size(); ++i)
        if (!node.options[i]->empty())
          throw UsageError("option " + node.command->options[i].long_name() + " has no effect on " + child->path);
      reject_options_of_parents(*child);
    }
}

/// Stores the values of one command. Throws UsageError.
void store(const Node& node, std::set<std::string>& given) {
  const Command& command = *node.command;
  for (std::size_t i = 0; i < command.options.size(); ++i)
    if (!node.options[i]->empty()) given.insert(command.options[i].long_name());
  for (std::size_t i = 0; i < command.options.size(); ++i) {
    const Option& option = command.options[i];
    const std::string name = option.long_name();
    if (node.options[i]->empty()) {
      if (option.required)
        throw UsageError(std::string("missing ") + (option.is_positional() ? "argument " : "option ") + name);
      continue;
    }
    for (const std::string& other : option.needed)
      if (given.count(other) == 0) throw UsageError(name + " requires " + other);
    for (const std::string& other : option.excluded)
      if (given.count(other) != 0) throw UsageError(name + " cannot be used with " + other);
    if (option.is_flag()) {
      option.read(option, {});
      continue;
    }
    std::vector<std::string> values;
    for (const std::string& text : node.options[i]->results()) {
      if (option.separator == '\0') {
        values.push_back(text);
        continue;
      }
      for (std::size_t from = 0; from <= text.size();) {
        const std::size_t end = std::min(text.find(option.separator, from), text.size());
        values.push_back(text.substr(from, end - from));
        from = end + 1;
      }
    }
    if (!option.repeatable && values.size() > 1) throw UsageError(name + " may be specified only once");
    for (const std::string& value : values)
      if (const std::string error = option.read(option, value); !error.empty()) throw UsageError(name + ": " + error);
  }
}

/// The word in the notation of words_of_file().
std::string file_word(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\r\"'#") == std::string::npos) return word;
  std::string text;
  for (const char c : word) text += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
  return "'" + text + "'";
}

/// The options of a command as lines. An option with several values has several lines.
std::string lines_of(const Node& node) {
  std::string lines;
  for (std::size_t i = 0; i < node.command->options.size(); ++i) {
    const Option& option = node.command->options[i];
    if (option.is_positional() || node.options[i]->empty()) continue;
    if (option.is_flag()) {
      lines += option.long_name() + "\n";
      continue;
    }
    for (const std::string& value : node.options[i]->results())
      lines += option.long_name() + " " + file_word(value) + "\n";
  }
  return lines;
}

/// Options that every program has for its build and its shell completion.
struct Hidden {
  std::string directory, completed;
  bool reference = false;
};

int print(const Command& root, const std::string& text) {
  return static_cast<int>(write_to_standard_output(root.name, text) ? Exit::success : Exit::error);
}

Exit complete(const Command& root, const std::string& words) {
  const std::size_t space = words.rfind(' ');
  const std::string path = root.name + (space == std::string::npos ? "" : " " + words.substr(0, space));
  const std::string name = space == std::string::npos ? words : words.substr(space + 1);
  std::string text;
  for_each_command(root, [&](const Command& command, const std::string& where) {
    if (where != path) return;
    for (const Option& option : command.options)
      if (option.long_name() == name && option.candidates)
        for (const std::string& word : option.candidates()) text += word + "\n";
  });
  return static_cast<Exit>(print(root, text));
}

void print_error(const Command& root, const std::string& message) {
  write_to_standard_error(root.name + ": " + output::printable_lines(message) + "\n");
}

int usage_error(const Command& root, const Node& node, const std::string& message) {
  const std::string prefix = node.path == root.name ? std::string() : node.path.substr(root.name.size() + 1) + ": ";
  print_error(root, prefix + message + "\nUse " + node.path + " --help for help.");
  return static_cast<int>(Exit::usage);
}

/// Arguments and where they are from.
struct Arguments {
  std::vector<std::string> words;
  std::vector<std::string> origins;  ///< "@FILE, line 3". Empty: the command line

  void add(std::string word, std::string origin) {
    words.push_back(std::move(word));
    origins.push_back(std::move(origin));
  }
};

/// The words of a file with arguments: separated by white space, with quotes as in a shell. An unquoted # at the start
/// of a word starts a comment.
void add_words_of_file(const std::string& path, Arguments& arguments) {
  errno = 0;
  std::ifstream in(path);
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const std::string origin = "@" + path + ", line " + std::to_string(number);
    char quote = '\0';
    bool in_word = false;
    for (const char c : line) {
      const bool blank = c == ' ' || c == '\t' || c == '\r';
      if (quote == '\0' && blank) {
        in_word = false;
        continue;
      }
      if (!in_word && quote == '\0' && c == '#') break;
      if (!in_word) arguments.add({}, origin);
      in_word = true;
      if (quote != '\0' ? c == quote : c == '"' || c == '\'')
        quote = quote == '\0' ? c : '\0';
      else
        arguments.words.back() += c;
    }
    if (quote != '\0') throw UsageError("@" + path + ": line " + std::to_string(number) + ": missing closing quote");
  }
  if (!in.eof()) throw UsageError("@" + path + ": " + std::strerror(errno));
}

/// Replaces each argument @FILE before "--" by the arguments in the file. Arguments in a file cannot refer to further
/// files.
Arguments expanded(int argc, char** argv) {
  Arguments arguments;
  bool literal = false;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    literal |= argument == "--";
    if (i == 0 || literal || argument.size() < 2 || argument.front() != '@') {
      arguments.add(argument, {});
      continue;
    }
    add_words_of_file(argument.substr(1), arguments);
  }
  return arguments;
}

/// The error message with the line of an options file that contains the option.
std::string with_origin(const Node& node, const Arguments& arguments, const std::string& message) {
  std::size_t begin = message.find('-');
  while (begin != std::string::npos && begin > 0 && message[begin - 1] != ' ') begin = message.find('-', begin + 1);
  if (begin == std::string::npos) return message;
  const std::string name = message.substr(begin, message.find_first_of(" :;=?,", begin) - begin);
  std::vector<std::string> names{name};
  for (const Option& option : node.command->options)
    if (!option.is_positional() && option.long_name() == name) names = option.all_names();
  const std::string* origin = nullptr;
  for (std::size_t i = 0; i < arguments.words.size(); ++i) {
    const std::string& word = arguments.words[i];
    const bool is_option = std::any_of(names.begin(), names.end(), [&word](const std::string& known) {
      return word == known || word.starts_with(known + "=") || (known.size() == 2 && word.starts_with(known));
    });
    if (!is_option) continue;
    origin = &arguments.origins[i];
    // The occurrence with the value in the message.
    const std::size_t equals = word.find('=');
    const std::string value = equals != std::string::npos      ? word.substr(equals + 1)
                              : i + 1 < arguments.words.size() ? arguments.words[i + 1]
                                                               : std::string();
    if (!value.empty() && message.find(value) != std::string::npos) break;
  }
  return origin && !origin->empty() ? message + " (" + *origin + ")" : message;
}

}  // namespace

int run(Command root, int argc, char** argv) {
  keep_standard_descriptors();
  Hidden hidden;
  const bool takes_subcommand = !root.subcommands.empty();
  root.option("--generate", "DIR", hidden.directory, "Write man pages and shell completions below DIR.").hide();
  root.flag("--reference", hidden.reference, "Print the reference page.").hide();
  root.option("--complete", "WORDS", hidden.completed, "Print values for shell completion.").hide();

  CLI::App app("", root.name);
  app.set_help_flag("-h,--help");
  if (root.version) app.set_version_flag("--version");
  Node top{&root, &app, root.name, {}, {}};
  translate(top);
  Arguments arguments;
  try {
    arguments = expanded(argc, argv);
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments.words) pointers.push_back(argument.c_str());
    app.parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const UsageError& error) {
    return usage_error(root, top, error.what());
  } catch (const CLI::CallForHelp&) {
    const Node& node = top.deepest();
    return print(root, help_of(*node.command, node.path, layout::help_width()));
  } catch (const CLI::CallForVersion&) {
    return print(root, root.version());
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extra = app.remaining(true);
    const Node& deepest = top.deepest();
    return usage_error(root, deepest,
                       with_origin(deepest, arguments, unknown_argument(deepest, extra.empty() ? "" : extra.front())));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    const Node& deepest = top.deepest();
    return usage_error(root, deepest,
                       with_origin(deepest, arguments, "missing value of " + text.substr(0, text.find(':'))));
  } catch (const CLI::ParseError& error) {
    return usage_error(root, top.deepest(), error.what());
  }
  const Node& node = top.deepest();
  std::set<std::string> given;
  try {
    store(top, given);
    if (!hidden.directory.empty()) {
      generate(root, hidden.directory);
      return static_cast<int>(Exit::success);
    }
    if (hidden.reference) return print(root, reference_page(root));
    if (!hidden.completed.empty()) return static_cast<int>(complete(root, hidden.completed));
    if (takes_subcommand && !node.command->subcommands.empty() && !node.command->run)
      throw UsageError("missing subcommand; expected one of: " + names_of_subcommands(*node.command));
    for (const auto& child : top.children) reject_options_of_parents(*child);
    if (&node != &top) store(node, given);
    return static_cast<int>(node.command->run(Given(given, lines_of(node))));
  } catch (const UsageError& error) {
    return usage_error(root, node, with_origin(node, arguments, error.what()));
  } catch (const std::filesystem::filesystem_error& error) {
    print_error(root, error.what());
    return static_cast<int>(Exit::error);
  } catch (const std::bad_alloc&) {
    print_error(root, "out of memory");
    return static_cast<int>(Exit::error);
  }
}

}  // namespace rdmawire::cli
