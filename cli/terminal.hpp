#pragma once
/// Standard output and standard error as the subcommands use them.

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <string>

namespace rdmawire::cli {

enum class Colors : std::uint8_t { automatic, always, never };
/// Adds --color to a subcommand.
void add_color_option(CLI::App& app, Colors& colors);
/// Whether to color what goes to file descriptor `fd`. Automatic: on a terminal that is not dumb, unless NO_COLOR is
/// set (no-color.org).
bool use_colors(Colors colors, int fd);

/// Columns of the terminal, or of COLUMNS: from 80 to 200; 120 where nothing tells.
std::size_t terminal_width();

/// Standard output: text is gathered and written in large pieces. A reader that goes away (`| head`) is no error: it
/// has seen enough.
class Output {
 public:
  Output();
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Append here; then call settle().
  [[nodiscard]] std::string& text() { return text_; }
  /// Writes what has gathered, when it is much or `now`. False: go no further, nobody reads or nothing can be written.
  bool settle(bool now = false) { return text_.size() < piece && !now ? open_ : flush(); }
  /// Writes what is left. False, after a complaint, when output was lost (a full disk).
  bool finish();

 private:
  static constexpr std::size_t piece = 1U << 16;
  bool flush();
  std::string text_;
  bool open_ = true;
  int error_ = 0;
};

/// One line on standard error that tells how far long work is. Shown from the second second on, when standard error is
/// a terminal and standard output is not (there the output itself is seen).
class Progress {
 public:
  /// `beside_output`: also where standard output is a terminal; then clear() comes before each of its lines.
  explicit Progress(bool beside_output = false);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether at() would look at the clock after so many packets: cheap enough for every packet.
  [[nodiscard]] bool due(std::uint64_t packets) const { return on_ && (packets & 0xfff) == 0; }
  /// `total` 0: not known.
  void at(std::uint64_t packets, std::uint64_t done, std::uint64_t total, const std::string& name) {
    if (due(packets)) show(packets, done, total, name);
  }
  /// Any line; not more often than can be read.
  void tell(const std::string& line);
  /// Takes the line away.
  void clear();

 private:
  bool time_to_show();
  void show(std::uint64_t packets, std::uint64_t done, std::uint64_t total, const std::string& name);
  bool on_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace rdmawire::cli
