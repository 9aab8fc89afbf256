#pragma once
/// The text of --version.

#include <string>
#include <utility>
#include <vector>

namespace rdmawire::cli {

/// The date of this build's commit: YYYY-MM-DD. Empty if it is not known.
std::string commit_date();

/// "PROGRAM VERSION" and one line each for the commit, the compiler and `more` (label and value).
std::string version_text(const std::string& program, const std::string& version,
                         const std::vector<std::pair<std::string, std::string>>& more);

}  // namespace rdmawire::cli
