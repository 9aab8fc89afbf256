#pragma once
/// What the subcommands share: how one is added, and what its end means. One file a subcommand.

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string_view>

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

void add_capture(CLI::App& app, Work& work);
void add_dissect(CLI::App& app, Work& work);
void add_explain(CLI::App& app, Work& work);
void add_extract(CLI::App& app, Work& work);

/// One line on standard error, after the command's name: what could not be done, to what, and why.
void complain(std::string_view message);

}  // namespace rdmawire::cli
