#pragma once
/// Errors of the agent.

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "replay/rpc/message.hpp"

namespace rdmawire::agent {

using rpc::Error;
using rpc::Result;

template <class... Parts>
[[nodiscard]] tl::unexpected<Error> fail(int number, fmt::format_string<Parts...> message, Parts&&... parts) {
  return tl::unexpected<Error>(Error{number, fmt::format(message, std::forward<Parts>(parts)...)});
}

/// "ENOENT", or "E?" for an unknown number.
std::string_view errno_name(int number);
/// "No such file or directory".
std::string errno_text(int number);

/// Error of a libibverbs call. Providers return errno with either sign. EIO replaces `number` 0.
[[nodiscard]] Error verbs_failed(std::string_view call, int number);

}  // namespace rdmawire::agent
