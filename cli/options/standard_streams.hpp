#pragma once
/// Standard output and standard error of all programs. Programs print only with these functions and cli::Output.

#include <string_view>

namespace rdmawire::cli {

/// Opens /dev/null for each closed standard descriptor, so that no other file gets its number. Reading and writing them
/// still fails. Call it first in main().
void keep_standard_descriptors();

/// Writes to standard error. Errors are ignored, because there is no place to report them.
void write_to_standard_error(std::string_view text);

/// Writes to standard output. A closed pipe is not an error. Returns false after any other error, which is reported on
/// standard error.
bool write_to_standard_output(std::string_view program, std::string_view text);

}  // namespace rdmawire::cli
