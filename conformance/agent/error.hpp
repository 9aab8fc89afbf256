#pragma once
/// What goes wrong in the agent, as a value.

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rdmawire::agent {

/// A number of Linux's errno, and a sentence: what was being done, to which argument, what was found.
struct Error {
  int number = 0;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

template <class... Parts>
[[nodiscard]] tl::unexpected<Error> fail(int number, fmt::format_string<Parts...> message, Parts&&... parts) {
  return tl::unexpected<Error>(Error{number, fmt::format(message, std::forward<Parts>(parts)...)});
}

/// "ENOENT"; "E?" for a number that Linux does not know.
std::string_view errno_name(int number);
/// "No such file or directory".
std::string errno_text(int number);

/// A call of libibverbs failed: names it and what it said. Providers return errno with either sign; `number` 0 is taken
/// for EIO, since something did fail.
[[nodiscard]] Error verbs_failed(std::string_view call, int number);

}  // namespace rdmawire::agent
