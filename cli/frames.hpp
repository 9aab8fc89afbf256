#pragma once
/// Frame numbers on the command line.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/command.hpp"

namespace rdmawire::cli {

/// Ranges of frame numbers, which start at 1: "7", "5-9", "5-" and "-9". An empty set contains all frames.
class FrameSet {
 public:
  /// Adds one range. Returns false if `text` is invalid.
  bool add(std::string_view text);

  [[nodiscard]] bool has(std::uint64_t frame) const;
  /// The largest frame number in the set.
  [[nodiscard]] std::uint64_t last() const;

 private:
  struct Range {
    std::uint64_t first = 1;
    std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  };
  std::vector<Range> ranges_;
};

/// Adds --frame.
Option& add_frame_option(Command& command, FrameSet& frames);

}  // namespace rdmawire::cli
