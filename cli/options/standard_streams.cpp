#include "cli/options/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace rdmawire::cli {
namespace {

/// Returns 0 or an error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

}  // namespace

void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns the lowest unused number, which is the closed descriptor. Its access mode makes reads and writes
    // fail.
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void write_to_standard_error(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

bool write_to_standard_output(std::string_view program, std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0 || error == EPIPE) return true;
  write_to_standard_error(std::string(program) + ": standard output: " + std::strerror(error) + "\n");
  return false;
}

}  // namespace rdmawire::cli
