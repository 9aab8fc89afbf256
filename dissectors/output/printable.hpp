#pragma once
/// Makes untrusted text harmless: text from packets, files, file names, devices, and the environment.
///
/// A terminal interprets control characters, and bidirectional marks change the order of the displayed text. These and
/// invalid UTF-8 are replaced by visible escapes: "\n", "\t", "\x1b" for a byte, "\u202e" for a character. Escaped JSON
/// keeps its values: "\u202e" is a valid escape in JSON, and JSON text contains nothing that "\x1b" would replace.

#include <cstddef>
#include <string>
#include <string_view>

namespace rdmawire::output {

/// Default of `most`: printable() truncates texts of more bytes.
inline constexpr std::size_t longest_printable = 1024;

/// Returns `text` as a part of one line: control characters including line ends, bidirectional and invisible format
/// characters, and bytes that are not UTF-8 as escapes. Texts of more than `most` bytes end in "…" and their length.
std::string printable(std::string_view text, std::size_t most = longest_printable);

/// The same for complete output of several lines, text or JSON. Keeps line ends and tabs, and with `colors` the escape
/// sequences of TextStyle. Does not truncate.
std::string printable_lines(std::string_view text, bool colors = false);

}  // namespace rdmawire::output
