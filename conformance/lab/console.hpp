#pragma once
/// What a guest's kernel complains of on its console.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::lab {

/// A kernel's complaint, with the lines that belong to it.
struct KernelReport {
  enum class Kind : std::uint8_t {
    warning,        ///< WARNING: a WARN_ON; the kernel goes on
    hang,           ///< a task or a processor that makes no progress
    out_of_memory,  ///< a program was killed for memory
    sanitizer,      ///< KASAN, UBSAN, lockdep
    oops,           ///< BUG, general protection fault, a bad access
    panic,          ///< the kernel has ended
  };
  Kind kind = Kind::warning;
  std::string what;                ///< the line that says it, without its time
  std::vector<std::string> lines;  ///< from the first line on, at most 100
};

std::string_view to_string(KernelReport::Kind kind);

/// Takes a console's text as it comes, in pieces of any size, and finds complaints. Bounded: long lines are cut at 1
/// kB, and after 100 complaints they are only counted.
class ConsoleWatch {
 public:
  void take(std::string_view text);
  /// Every complaint until now; the last one may still be growing.
  [[nodiscard]] const std::vector<KernelReport>& complaints() const { return complaints_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The kernel has ended: it panicked.
  [[nodiscard]] bool panicked() const { return panicked_; }
  /// The last lines that were seen, oldest first, at most 20.
  [[nodiscard]] const std::vector<std::string>& last_lines() const { return last_; }

 private:
  void line(std::string text);

  std::string partial_;
  bool overlong_ = false;
  std::vector<KernelReport> complaints_;
  std::vector<std::string> last_;
  std::uint64_t count_ = 0;
  bool open_ = false;  // lines still belong to the last complaint
  bool cut_here_ = false;
  bool panicked_ = false;
};

}  // namespace rdmawire::lab
