#pragma once
/// Standard output and standard error.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/options/command.hpp"

namespace rdmawire::cli {

enum class Colors : std::uint8_t { automatic, always, never };
/// Adds --color.
void add_color_option(Command& command, Colors& colors);
/// Returns whether to color output to file descriptor `fd`. Colors::automatic: yes on a terminal other than TERM=dumb,
/// unless NO_COLOR is set (no-color.org).
bool use_colors(Colors colors, int fd);

/// Width of the output in columns: COLUMNS or the width of the terminal, limited to 80 to 200. Default: 120.
std::size_t terminal_width();

/// Buffered standard output. A closed pipe (`| head`) is not an error. Control characters, bidirectional marks and
/// invalid UTF-8 are written as escapes (see output::printable_lines), except the colors that use_colors() permits.
class Output {
 public:
  /// `raw`: write the text unchanged, for HTML.
  explicit Output(bool raw = false);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Writes to standard error instead: standard output contains a capture.
  void use_standard_error() { descriptor_ = 2; }

  /// The buffer: append to it, then call settle().
  [[nodiscard]] std::string& text() { return text_; }
  /// Writes the buffer if it is large or `now` is set. Returns false if further output is useless: the pipe is closed
  /// or writing failed.
  bool settle(bool now = false) { return text_.size() < piece && !now ? open_ : flush(); }
  /// Writes the rest of the buffer. If output was lost (full disk), reports an error and returns false.
  bool finish();

 private:
  static constexpr std::size_t piece = 1U << 16;
  bool flush();
  const bool raw_;
  std::string text_;
  bool open_ = true;
  int descriptor_ = 1, error_ = 0;
};

/// Calls `work(memory)`. If an allocation fails, for example for the report, calls it again with a quarter of the
/// memory and returns Exit::error. `files` must support repeated reading, otherwise the exception is passed on.
/// `work` calls MemoryReserve::renew() between reading and reporting, because reading can use the reserve.
Exit with_less_memory(std::uint64_t memory, const std::vector<std::string>& files,
                      const std::function<Exit(std::uint64_t)>& work);

/// One progress line on standard error. Shown after one second, if standard error is a terminal and standard output is
/// not.
class Progress {
 public:
  /// `with_output`: even if standard output is a terminal. Then call clear() before each line of output.
  explicit Progress(bool with_output = false);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Returns whether at() would check the clock for this number of packets. Cheap enough to call for each packet.
  [[nodiscard]] bool due(std::uint64_t packets) const { return on_ && (packets & 0xfff) == 0; }
  /// `total`: bytes of the file. 0 if unknown.
  void at(std::uint64_t packets, std::uint64_t done, std::uint64_t total, const std::string& name) {
    if (due(packets)) show(packets, done, total, name);
  }
  /// Shows `line`, at most five times a second.
  void show_line(const std::string& line);
  /// Removes the line.
  void clear();

 private:
  bool time_to_show();
  void show(std::uint64_t packets, std::uint64_t done, std::uint64_t total, const std::string& name);
  bool on_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace rdmawire::cli
