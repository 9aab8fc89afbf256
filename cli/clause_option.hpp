#pragma once
/// The option --clauses of the commands that print clauses.

#include <string>

#include "cli/options/command.hpp"

namespace rdmawire::cli {

/// Adds --clauses.
void add_clauses_option(Command& command, std::string& file);
/// Reads the clause numbers in `file`, or in the file that RDMAWIRE_CLAUSES names if `file` is empty, for all texts of
/// this process. Returns the name of the file, which is empty if there is none. Throws UsageError.
std::string use_clauses(const std::string& file);

}  // namespace rdmawire::cli
