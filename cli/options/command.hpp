#pragma once
/// Command tables: a command declares each of its options once. Parsing, --help, man pages, shell completions and
/// docs/reference/cli.md all read these tables.

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdmawire::cli {

/// Exit status of a command.
enum class Exit : int {
  success = 0,
  findings = 1,  ///< findings, violations or unexpected results
  usage = 2,     ///< wrong command line
  error = 3,     ///< error of an input, an output or a device
};

/// A wrong command line. The message names the option and states the allowed values.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An allowed value of an option, with an optional explanation.
struct Word {
  std::string word, note;
};

/// The kind of values that shells complete.
enum class Completion : std::uint8_t { none, file, directory };

/// A flag, an option with a value, or a positional argument.
struct Option {
  /// Parses and stores one value. Returns an error message (expected ..., got ...) or an empty string.
  using Reader = std::function<std::string(const Option&, const std::string&)>;

  std::string names;        ///< "-o,--output". For a positional argument its placeholder: "FILE"
  std::string placeholder;  ///< of the value: "N". Empty for a flag
  std::string help;         ///< sentences. The first one starts with a verb
  std::string group;
  std::string default_value;  ///< for the help. Empty: none
  std::vector<Word> words;    ///< allowed values. Empty: any
  std::vector<std::string> needed, excluded;
  std::function<std::vector<std::string>()> candidates;  ///< values for shell completion, computed on request
  Completion completion = Completion::none;
  bool repeatable = false, required = false, hidden = false;
  char separator = '\0';  ///< one argument contains several values
  double least = std::numeric_limits<double>::lowest(), most = std::numeric_limits<double>::max();
  Reader read;

  [[nodiscard]] bool is_positional() const { return names.front() != '-'; }
  [[nodiscard]] bool is_flag() const { return placeholder.empty(); }
  /// "--output" of "-o,--output".
  [[nodiscard]] std::string long_name() const;
  [[nodiscard]] std::vector<std::string> all_names() const;
  /// The help sentences with allowed values, default, required options and repetition.
  [[nodiscard]] std::string text() const;

  Option& range(double min, double max);
  /// Allows only numbers greater than 0.
  Option& positive();
  /// Replaces the default in the help, which otherwise shows the initial value of the variable.
  Option& by_default(std::string value);
  Option& repeats();
  Option& separated_by(char mark);
  Option& must_be_given();
  Option& hide();
  Option& needs(std::string name);
  Option& excludes(std::vector<std::string> names_of_others);
  Option& completes(Completion kind);
  Option& completes(std::function<std::vector<std::string>()> list);
};

/// The options on the command line.
class Given {
 public:
  explicit Given(std::set<std::string> names, std::string lines = {})
      : names_(std::move(names)), lines_(std::move(lines)) {}
  /// `name` is the long name ("--wire") or the placeholder of a positional argument.
  bool operator()(std::string_view name) const { return names_.count(std::string(name)) != 0; }
  /// The options without positional arguments, as lines of a file for the argument @FILE.
  [[nodiscard]] const std::string& lines() const { return lines_; }

 private:
  std::set<std::string> names_;
  std::string lines_;
};

struct Example {
  std::string command, purpose;
};
struct Status {
  std::string code, meaning;
};
/// A further section of the help.
struct Section {
  std::string title, text;
};

template <class Value>
struct Choice {
  Choice(std::string w, Value v, std::string n = {}) : word(std::move(w)), value(v), note(std::move(n)) {}
  std::string word;
  Value value;
  std::string note;  ///< explanation in the help. Empty: none
};

namespace reading {
std::string integer(const Option& option, const std::string& text, std::uint64_t most, std::uint64_t& value);
std::string decimal(const Option& option, const std::string& text, double& value);
std::string size(const Option& option, const std::string& text, std::uint64_t& value);
/// "expected one of a, b, c, got \"text\""
std::string not_a_choice(const Option& option, const std::string& text);
std::string show(double value);
/// "64M", "1000"
std::string show_size(std::uint64_t value);

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
std::string value(const Option& option, const std::string& text, T& to) {
  if constexpr (IsVector<T>::value) {
    return value(option, text, to.emplace_back());
  } else if constexpr (IsOptional<T>::value) {
    return value(option, text, to.emplace());
  } else if constexpr (std::is_floating_point_v<T>) {
    return decimal(option, text, to);
  } else if constexpr (std::is_integral_v<T>) {
    std::uint64_t number = 0;
    const std::string error = integer(option, text, std::numeric_limits<T>::max(), number);
    to = static_cast<T>(number);
    return error;
  } else {
    to = text;
    return {};
  }
}

template <class T>
std::string initial(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value == T{} ? std::string() : show(static_cast<double>(value));
  else if constexpr (std::is_same_v<T, std::string>)
    return value;
  else
    return {};
}
}  // namespace reading

/// A command or subcommand. The variables that options are bound to must live as long as the command.
struct Command {
  std::string name;
  std::string summary;             ///< one sentence. The first line of the help
  std::string description;         ///< paragraphs, separated by empty lines
  std::vector<std::string> usage;  ///< arguments of each form of use. Empty: derived from the options
  std::vector<Example> examples;
  std::vector<Status> statuses;
  std::vector<Section> sections;
  std::vector<Option> options;
  /// Options of other programs with the same purpose, and hints for them: {"-i", "use --wire packet:IFACE"}.
  std::vector<std::pair<std::string, std::string>> foreign_options;
  std::vector<Command> subcommands;
  std::function<Exit(const Given&)> run;  ///< with subcommands: without one of them. Empty: one is required
  std::function<std::string()> version;   ///< text of --version. Empty: no such option
  std::string date;                       ///< of the man pages: YYYY-MM-DD

  /// Starts a group: the options that follow are listed below this title.
  void group(std::string title) { group_ = std::move(title); }

  Option& flag(std::string names, bool& value, std::string help, bool to = true);
  /// An option with a value. If T is a vector, the option is repeatable. The help shows the initial value as the
  /// default if it is a non-empty string or a number other than 0.
  template <class T>
  Option& option(std::string names, std::string placeholder, T& value, std::string help) {
    Option& added = add(std::move(names), std::move(placeholder), std::move(help));
    added.repeatable = reading::IsVector<T>::value;
    added.default_value = reading::initial(value);
    added.read = [&value](const Option& o, const std::string& text) { return reading::value(o, text, value); };
    return added;
  }
  /// A positional argument.
  template <class T>
  Option& argument(std::string placeholder, T& value, std::string help) {
    std::string names = placeholder;
    Option& added = option(std::move(names), std::move(placeholder), value, std::move(help));
    added.default_value.clear();
    return added;
  }
  /// An option that accepts one of several names.
  template <class T, class Variable>
  Option& choice(std::string names, std::string placeholder, Variable& value, std::vector<Choice<T>> choices,
                 std::string help) {
    Option& added = add(std::move(names), std::move(placeholder), std::move(help));
    for (const Choice<T>& c : choices) {
      if constexpr (std::is_same_v<T, Variable>)
        if (c.value == value) added.default_value = c.word;
      added.words.push_back({c.word, c.note});
    }
    added.read = [&value, choices = std::move(choices)](const Option& o, const std::string& text) {
      for (const Choice<T>& c : choices)
        if (c.word == text) {
          value = c.value;
          return std::string();
        }
      return reading::not_a_choice(o, text);
    };
    return added;
  }
  /// A number of bytes with an optional unit: 64M. Units are powers of 1024.
  Option& size(std::string names, std::uint64_t& value, std::string help);
  /// An option with a separate parser, which returns an error message or an empty string.
  Option& parsed(std::string names, std::string placeholder, std::function<std::string(const std::string&)> parser,
                 std::string help);
  /// The option with this name (long name or placeholder).
  Option& at(std::string_view long_name);

 private:
  Option& add(std::string names, std::string placeholder, std::string help);
  std::string group_;
};

/// Parses the command line and runs the chosen command. Prints errors to standard error. Returns the exit status.
///
/// Every program also has the hidden options --generate DIR (man pages and completions, see generate()), --reference
/// (the Markdown page) and --complete "SUBCOMMAND OPTION" (values for shell completion).
int run(Command root, int argc, char** argv);

/// The help of a command. `path`: its name with the parents' names.
std::string help_of(const Command& command, const std::string& path, std::size_t width);

/// The man page of a command (section 1). `root`: the program. `date`: YYYY-MM-DD.
std::string man_page(const Command& root, const Command& command, const std::string& path, const std::string& date);
/// One Markdown section for each command, for docs/reference/cli.md.
std::string reference_page(const Command& root);

std::string bash_completion(const Command& root);
std::string zsh_completion(const Command& root);
std::string fish_completion(const Command& root);

/// Writes below `directory`: man/man1/*.1, bash-completion/completions/NAME, zsh/site-functions/_NAME and
/// fish/vendor_completions.d/NAME.fish. Throws std::filesystem::filesystem_error or std::runtime_error.
void generate(const Command& root, const std::string& directory);

/// Calls `visit(command, path)` for the root and each subcommand, parents first.
void for_each_command(const Command& root, const std::function<void(const Command&, const std::string& path)>& visit);

}  // namespace rdmawire::cli
