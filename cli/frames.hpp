#pragma once
/// Frame numbers as the command line gives them.

#include <CLI/App.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace rdmawire::cli {

/// Frame numbers from 1, as "7", "5-9", "5-" and "-9". An empty list stands for all.
class FrameSet {
 public:
  /// The texts must have passed the check of add_frame_option.
  explicit FrameSet(const std::vector<std::string>& texts);

  [[nodiscard]] bool has(std::uint64_t frame) const;
  /// No frame behind this one is in the set.
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  struct Range {
    std::uint64_t first = 1;
    std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  };
  friend CLI::Option* add_frame_option(CLI::App& app, std::vector<std::string>& texts);
  static bool parse(std::string_view text, Range& range);

  std::vector<Range> ranges_;
  std::uint64_t last_ = std::numeric_limits<std::uint64_t>::max();
};

/// Adds --frame to a subcommand.
CLI::Option* add_frame_option(CLI::App& app, std::vector<std::string>& texts);

}  // namespace rdmawire::cli
