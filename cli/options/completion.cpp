/// Completion scripts for bash, zsh and fish.

#include <algorithm>

#include "cli/options/command.hpp"
#include "cli/options/layout.hpp"

namespace rdmawire::cli {
namespace {

/// The text in single quotes for bash and zsh.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string identifier(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return text;
}

/// The first sentence of the help, without its full stop.
std::string brief(const std::string& help) {
  std::string text = help.substr(0, help.find(". "));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::vector<const Option*> visible_options(const Command& command) {
  std::vector<const Option*> list;
  for (const Option& option : command.options)
    if (!option.hidden && !option.is_positional()) list.push_back(&option);
  for (const Option& option : layout::standard_options(command)) list.push_back(&option);
  return list;
}

/// The path below the program: "lab record" of "rdmawire lab record".
std::string below(const Command& root, const std::string& path) {
  return path == root.name ? std::string() : path.substr(root.name.size() + 1);
}

/// The argument of --complete for an option.
std::string query_of(const Command& root, const std::string& path, const Option& option) {
  const std::string command = below(root, path);
  return command.empty() ? option.long_name() : command + " " + option.long_name();
}

std::string words_of(const Option& option) {
  std::vector<std::string> words;
  for (const Word& word : option.words) words.push_back(word.word);
  return layout::join(words, " ");
}

/// The bash statement that sets COMPREPLY to the values of an option.
std::string bash_values(const Command& root, const std::string& path, const Option& option) {
  if (!option.words.empty()) return "COMPREPLY=($(compgen -W " + shell_quoted(words_of(option)) + " -- \"$current\"))";
  if (option.candidates)
    return "COMPREPLY=($(compgen -W \"$(" + root.name + " --complete " + shell_quoted(query_of(root, path, option)) +
           " 2>/dev/null)\" -- \"$current\"))";
  if (option.completion == Completion::file)
    return "mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); compopt -o filenames";
  if (option.completion == Completion::directory)
    return "mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); compopt -o filenames";
  return ":";
}

std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string zsh_action(const Command& root, const std::string& path, const Option& option) {
  if (!option.words.empty()) return "(" + zsh_escaped(words_of(option)) + ")";
  if (option.candidates) return "{_" + identifier(root.name) + "_values \"" + query_of(root, path, option) + "\"}";
  if (option.completion == Completion::file) return "_files";
  if (option.completion == Completion::directory) return "_files -/";
  return " ";
}

}  // namespace

std::string bash_completion(const Command& root) {
  const std::string function = "_" + identifier(root.name);
  std::string subcommands, values, options, arguments;
  for_each_command(root, [&](const Command& command, const std::string& path) {
    if (&command != &root) subcommands += (subcommands.empty() ? "" : " | ") + ("\"" + path + "\"");
    std::vector<std::string> names;
    for (const Option* option : visible_options(command)) {
      std::string patterns;
      for (const std::string& name : option->all_names()) {
        names.push_back(name);
        patterns += (patterns.empty() ? "" : " | ") + ("\"" + path + " " + name + "\"");
      }
      if (!option->is_flag()) values += "    " + patterns + ") " + bash_values(root, path, *option) + "; return ;;\n";
    }
    options +=
        "      \"" + path + "\") COMPREPLY=($(compgen -W '" + layout::join(names, " ") + "' -- \"$current\")) ;;\n";
    std::string action;
    if (!command.subcommands.empty()) {
      std::vector<std::string> list;
      for (const Command& sub : command.subcommands) list.push_back(sub.name);
      action = "COMPREPLY=($(compgen -W '" + layout::join(list, " ") + "' -- \"$current\"))";
    } else {
      for (const Option& option : command.options)
        if (option.is_positional() && !option.hidden) action = bash_values(root, path, option);
    }
    if (!action.empty() && action != ":") arguments += "      \"" + path + "\") " + action + " ;;\n";
  });
  std::string out = "# bash completion for " + root.name + ", generated from its option tables\n\n" + function +
                    "() {\n"
                    "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
                    "  local path=" +
                    root.name +
                    " prefix='' i\n"
                    "  COMPREPLY=()\n";
  if (!subcommands.empty())
    out +=
        "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "    case \"$path ${COMP_WORDS[i]}\" in\n"
        "      " +
        subcommands +
        ") path+=\" ${COMP_WORDS[i]}\" ;;\n"
        "    esac\n"
        "  done\n";
  out +=
      "  # bash separates words at = and :\n"
      "  i=$COMP_CWORD\n"
      "  if [[ $current == : ]]; then\n"
      "    prefix=$previous: i=$((i - 1)) current=$prefix\n"
      "  elif [[ $previous == : ]]; then\n"
      "    prefix=${COMP_WORDS[i - 2]}: i=$((i - 2)) current=$prefix$current\n"
      "  elif [[ $current == = ]]; then\n"
      "    current=''\n"
      "  fi\n"
      "  previous=${COMP_WORDS[i - 1]}\n"
      "  if [[ $previous == = ]]; then previous=${COMP_WORDS[i - 2]}; fi\n";
  if (!values.empty()) {
    out += "  " + function + "_value\n";
    out +=
        "  if ((${#COMPREPLY[@]})) && [[ -n $prefix ]]; then COMPREPLY=(\"${COMPREPLY[@]#\"$prefix\"}\"); fi\n"
        "  if [[ -n $is_value ]]; then return; fi\n";
  }
  out += "  if [[ $current == -* ]]; then\n    case $path in\n" + options + "    esac\n";
  if (!arguments.empty()) out += "  else\n    case $path in\n" + arguments + "    esac\n";
  out += "  fi\n}\n\n";
  if (!values.empty()) {
    const std::size_t at = out.find("  local path=");
    out.insert(at, "  local is_value=yes\n");
    out += "# Completes the value of the option in $previous. Clears is_value for other words.\n" + function +
           "_value() {\n  case \"$path $previous\" in\n" + values + "  esac\n  is_value=''\n}\n\n";
  }
  return out + "complete -F " + function + " " + root.name + "\n";
}

std::string zsh_completion(const Command& root) {
  std::string out = "#compdef " + root.name + "\n# generated from the option tables of " + root.name + "\n\n_" +
                    identifier(root.name) + "_values() {\n  local -a list\n  list=(${(f)\"$(" + root.name +
                    " --complete \"$1\" 2>/dev/null)\"})\n  compadd -a list\n}\n\n";
  for_each_command(root, [&](const Command& command, const std::string& path) {
    const std::string function = "_" + identifier(path);
    out += function + "() {\n";
    const bool has_subcommands = !command.subcommands.empty();
    if (has_subcommands) out += "  local context state state_descr line\n  typeset -A opt_args\n";
    out += std::string("  _arguments ") + (has_subcommands ? "-C " : "") + "-s -S";
    for (const Option* option : visible_options(command)) {
      std::string exclusion = "*";
      if (!option->repeatable) exclusion = "(" + layout::join(option->all_names(), " ") + ")";
      for (const std::string& name : option->all_names()) {
        const bool is_long = name.starts_with("--");
        std::string spec = exclusion + name;
        if (!option->is_flag()) spec += is_long ? "=" : "+";
        spec += "[" + zsh_escaped(brief(option->help)) + "]";
        if (!option->is_flag()) spec += ":" + zsh_escaped(option->placeholder) + ":" + zsh_action(root, path, *option);
        out += " \\\n    " + shell_quoted(spec);
      }
    }
    if (has_subcommands) {
      out +=
          " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n    command)\n"
          "      local -a commands=(\n";
      for (const Command& sub : command.subcommands)
        out += "        " + shell_quoted(sub.name + ":" + brief(sub.summary)) + "\n";
      out += "      )\n      _describe command commands\n      ;;\n    argument)\n      case $line[1] in\n";
      for (const Command& sub : command.subcommands)
        out += "        " + sub.name + ") _" + identifier(path + " " + sub.name) + " ;;\n";
      out += "      esac\n      ;;\n  esac\n";
    } else {
      for (const Option& option : command.options)
        if (option.is_positional() && !option.hidden)
          out += " \\\n    " + shell_quoted((option.repeatable ? "*:"
                                             : option.required ? "1:"
                                                               : "1::") +
                                            zsh_escaped(option.placeholder) + ":" + zsh_action(root, path, option));
      out += "\n";
    }
    out += "}\n\n";
  });
  return out + "_" + identifier(root.name) + " \"$@\"\n";
}

std::string fish_completion(const Command& root) {
  const std::string in = "__" + identifier(root.name) + "_in";
  std::string paths, body;
  for_each_command(root, [&](const Command& command, const std::string& path) {
    const std::string where = below(root, path);
    if (&command != &root) paths += " " + fish_quoted(where);
    std::string start = "complete -c " + root.name;
    if (!root.subcommands.empty()) start += " -n " + fish_quoted(in + " " + fish_quoted(where));
    for (const Command& sub : command.subcommands)
      body += start + " -f -a " + sub.name + " -d " + fish_quoted(brief(sub.summary)) + "\n";
    const auto values = [&](const Option& option) -> std::string {
      if (!option.words.empty()) return " -x -a " + fish_quoted(words_of(option));
      if (option.candidates)
        return " -x -a " + fish_quoted("(" + root.name + " --complete " + fish_quoted(query_of(root, path, option)) +
                                       " 2>/dev/null)");
      if (option.completion == Completion::file) return " -r -F";
      if (option.completion == Completion::directory) return " -x -a '(__fish_complete_directories)'";
      return " -x";
    };
    for (const Option* option : visible_options(command)) {
      std::string line = start;
      for (const std::string& name : option->all_names())
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      body += line + (option->is_flag() ? "" : values(*option)) + " -d " + fish_quoted(brief(option->help)) + "\n";
    }
    for (const Option& option : command.options)
      if (option.is_positional() && !option.hidden) {
        if (option.completion == Completion::file)
          body += start + " -F\n";
        else if (option.candidates)
          body += start + " -f" + values(option).substr(3) + "\n";
      }
  });
  std::string out = "# fish completion for " + root.name + ", generated from its option tables\n\n";
  if (!root.subcommands.empty())
    out += "# Whether the subcommands before the cursor are those of the argument.\nfunction " + in +
           "\n    set -l path\n    set -l words (commandline -opc)\n    set -e words[1]\n    for word in $words\n"
           "        if contains -- (string join ' ' -- $path $word)" +
           paths + "\n            set -a path $word\n        end\n    end\n    test \"$path\" = \"$argv\"\nend\n\n";
  return out + "complete -c " + root.name + " -f\n" + body;
}

}  // namespace rdmawire::cli
