#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/command.hpp"
#include "dissectors/output/printable.hpp"

namespace rdmawire::cli {

namespace {
bool colors_are_used = false;
}  // namespace

void report_error(std::string_view message) { fmt::print(stderr, "rdmawire: {}\n", output::printable_lines(message)); }

void add_color_option(Command& command, Colors& colors) {
  command.choice<Colors>("--color", "WHEN", colors,
                         {{"auto", Colors::automatic, "on a terminal, unless NO_COLOR is set"},
                          {"always", Colors::always},
                          {"never", Colors::never}},
                         "Set when to use colors.");
}

void add_roce_port_option(Command& command, std::uint16_t& port) {
  command.option("--roce-port", "PORT", port, "Decode this UDP port as RoCEv2, in addition to 4791.").range(1, 65535);
}

bool use_colors(Colors colors, int fd) {
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool used = colors == Colors::automatic
                        ? ::isatty(fd) == 1 && !(no && *no) && !(term && std::strcmp(term, "dumb") == 0)
                        : colors == Colors::always;
  colors_are_used |= used;
  return used;
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
    return std::clamp<std::size_t>(size.ws_col, 80, 200);
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long width = std::strtol(columns, nullptr, 10); width > 0)
      return std::clamp<std::size_t>(static_cast<std::size_t>(width), 80, 200);
  return 120;
}

Output::Output(bool raw) : raw_(raw) { text_.reserve(2 * piece); }

Output::~Output() { flush(); }

bool Output::flush() {
  const std::string printable = raw_ ? std::string() : output::printable_lines(text_, colors_are_used);
  std::string_view rest = raw_ ? text_ : printable;
  while (open_ && !rest.empty()) {
    const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      open_ = false;
      if (errno != EPIPE) error_ = errno;
    }
  }
  text_.clear();
  return open_;
}

bool Output::finish() {
  flush();
  if (error_ == 0) return true;
  report_error(fmt::format("standard output: {}", std::strerror(error_)));
  return false;
}

Progress::Progress(bool with_output)
    : on_(::isatty(STDERR_FILENO) == 1 && (with_output || ::isatty(STDOUT_FILENO) != 1)),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() { clear(); }

bool Progress::time_to_show() {
  const auto now = std::chrono::steady_clock::now();
  if (!on_ || now < next_) return false;
  next_ = now + std::chrono::milliseconds(200);
  return shown_ = true;
}

void Progress::show_line(const std::string& line) {
  if (!time_to_show()) return;
  fmt::print(stderr, "\r{}\033[K", output::printable(line));
  std::fflush(stderr);
}

void Progress::show(std::uint64_t packets, std::uint64_t done, std::uint64_t total, const std::string& name) {
  if (!time_to_show()) return;
  if (total != 0)
    fmt::print(stderr, "\r{}: {} packets, {} %\033[K", output::printable(name), packets, done * 100 / total);
  else
    fmt::print(stderr, "\r{}: {} packets\033[K", output::printable(name), packets);
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace rdmawire::cli
