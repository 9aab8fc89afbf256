#pragma once
/// What the subcommands share: how one is added, and what its end means. One file a subcommand.

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdmawire::cli {

/// How the command ends.
enum class Exit : int {
  fine = 0,
  found = 1,    ///< what was looked for is there: a violated rule, an unexpected result
  usage = 2,    ///< the command line is wrong
  trouble = 3,  ///< input or device trouble
};

/// The work of the subcommand that was chosen; set by its callback while the command line is parsed.
using Work = std::function<Exit()>;

void add_analyze(CLI::App& app, Work& work);
void add_capture(CLI::App& app, Work& work);
void add_check(CLI::App& app, Work& work);
void add_certify(CLI::App& app, Work& work);
void add_devices(CLI::App& app, Work& work);
void add_dissect(CLI::App& app, Work& work);
void add_explain(CLI::App& app, Work& work);
void add_extract(CLI::App& app, Work& work);
void add_lab(CLI::App& app, Work& work);
void add_replay(CLI::App& app, Work& work);

/// Adds an option whose value is one of some words.
template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& option, Value& value,
                        std::vector<std::pair<std::string, Value>> words, const std::string& description) {
  std::string list;
  for (const auto& [word, meaning] : words) list += (list.empty() ? "" : ", ") + word;
  const auto find = [words = std::move(words)](const std::string& text) -> const Value* {
    for (const auto& [word, meaning] : words)
      if (word == text) return &meaning;
    return nullptr;
  };
  return app
      .add_option_function<std::string>(
          option, [&value, find](const std::string& text) { value = *find(text); }, description + ": " + list)
      ->check(
          [find, list](const std::string& text) { return find(text) ? std::string() : text + " is none of " + list; })
      ->type_name("WORD");
}

/// What an option takes that must be a number above 0.
std::string check_positive(const std::string& text);

/// One line on standard error, after the command's name: what could not be done, to what, and why.
void report_error(std::string_view message);

}  // namespace rdmawire::cli
