#pragma once
/// Detects kernel errors in the console output of a guest.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::lab {

/// A kernel error and the console lines that belong to it.
struct KernelReport {
  enum class Kind : std::uint8_t {
    warning,        ///< WARN_ON() or similar. The kernel continues to run
    hang,           ///< a task or CPU makes no progress
    out_of_memory,  ///< the kernel killed a program because memory ran out
    sanitizer,      ///< KASAN, UBSAN, lockdep
    oops,           ///< BUG, general protection fault, invalid memory access
    panic,          ///< the kernel stopped
  };
  Kind kind = Kind::warning;
  std::string what;                ///< the line that identifies the error, without timestamp
  std::vector<std::string> lines;  ///< all lines of the report, at most 100
};

std::string_view to_string(KernelReport::Kind kind);

/// Parses console output, received in pieces of any size, and collects kernel errors. Memory is bounded: lines are
/// truncated to 1 kB, and reports after the first 100 are only counted.
class ConsoleWatch {
 public:
  void take(std::string_view text);
  /// The first 100 reports. The last one may be incomplete.
  [[nodiscard]] const std::vector<KernelReport>& complaints() const { return complaints_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Returns whether the kernel panicked.
  [[nodiscard]] bool panicked() const { return panicked_; }
  /// The last lines, oldest first, at most 20.
  [[nodiscard]] const std::vector<std::string>& last_lines() const { return last_; }

 private:
  void line(std::string text);

  std::string partial_;
  std::vector<KernelReport> complaints_;
  std::vector<std::string> last_;
  std::uint64_t count_ = 0;
  bool open_ = false;  // the next lines belong to the last report
  bool panicked_ = false;
};

}  // namespace rdmawire::lab
