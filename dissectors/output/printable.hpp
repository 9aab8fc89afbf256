#pragma once
/// Makes untrusted text harmless: text from packets, files, file names, devices, and the environment.
///
/// A terminal interprets control characters, and bidirectional marks change the order of the displayed text. Visible
/// escapes replace these and invalid UTF-8: "
/// ", "\t", "\x1b" for a byte, "\u202e" for a character. Valid JSON keeps its meaning, because JSON accepts "\u202e",
/// and contains no characters that "\x1b" would replace.

#include <cstddef>
#include <string>
#include <string_view>

namespace rdmawire::output {

/// Default of `most`: texts with more bytes are truncated.
inline constexpr std::size_t longest_printable = 1024;

/// Returns `text` for use in one line. Escapes control characters including line ends, bidirectional and invisible
/// format characters, and bytes that are not UTF-8. A text of more than `most` bytes is truncated and ends in "…" and
/// its length.
std::string printable(std::string_view text, std::size_t most = longest_printable);

/// Escapes complete output of several lines, text or JSON. Keeps line ends and tabs. With `colors`, also keeps the
/// escape sequences of TextStyle. Does not truncate.
std::string printable_lines(std::string_view text, bool colors = false);

}  // namespace rdmawire::output
