#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "captures/analysis/memory.hpp"
#include "captures/analysis/memory_reserve.hpp"
#include "cli/command.hpp"
#include "cli/options/standard_streams.hpp"
#include "dissectors/output/printable.hpp"

namespace rdmawire::cli {

namespace {
bool colors_are_used = false;
}  // namespace

void report_error(std::string_view message) {
  write_to_standard_error(fmt::format("rdmawire: {}\n", output::printable_lines(message)));
}

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

void add_disable_protocol_option(Command& command, DecodeOptions& decode) {
  command
      .parsed(
          "--disable-protocol", "NAME",
          [&decode](const std::string& text) {
            return disable_protocol(decode, text) ? std::string() : "expected mrc, got \"" + text + "\"";
          },
          "Do not decode this protocol: mrc. Other manufacturers can use the opcodes of MRC.")
      .completes([] { return std::vector<std::string>{"mrc"}; })
      .separated_by(',')
      .repeats();
}

void add_memory_option(Command& command, std::uint64_t& memory) {
  command
      .parsed(
          "--memory", "SIZE",
          [&memory](const std::string& text) {
            const auto size = captures::analysis::parse_memory(text);
            if (size) memory = *size;
            return size ? std::string() : size.error();
          },
          "Limit the memory to SIZE, such as 512M or 4G, not counting memory-mapped capture files. At the limit, "
          "connections are evicted, and the report states how many.")
      .by_default("1G");
}

Exit with_less_memory(std::uint64_t memory, const std::vector<std::string>& files,
                      const std::function<Exit(std::uint64_t)>& work) {
  for (bool again = false;; again = true) {
    try {
      const captures::analysis::MemoryReserve reserve;
      const Exit exit = work(memory);
      return again ? Exit::error : exit;
    } catch (const std::bad_alloc&) {
      const bool repeats = !files.empty() && std::all_of(files.begin(), files.end(), [](const std::string& file) {
        std::error_code error;
        return std::filesystem::is_regular_file(file, error);
      });
      if (!repeats || memory <= captures::analysis::smallest_attempt) throw;
    }
    report_error(captures::analysis::retry_text(memory));
    memory /= 4;
  }
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
  write_to_standard_error(fmt::format("\r{}\033[K", output::printable(line)));
}

void Progress::show(std::uint64_t packets, std::uint64_t done, std::uint64_t total, const std::string& name) {
  if (!time_to_show()) return;
  const std::string part = total != 0 ? fmt::format(", {} %", done * 100 / total) : "";
  write_to_standard_error(fmt::format("\r{}: {} packets{}\033[K", output::printable(name), packets, part));
}

void Progress::clear() {
  if (shown_) write_to_standard_error("\r\033[K");
  shown_ = false;
}

}  // namespace rdmawire::cli
