#include "cli/frames.hpp"

#include <algorithm>
#include <charconv>

namespace rdmawire::cli {

bool FrameSet::add(std::string_view text) {
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value != 0;
  };
  Range range;
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  if (!first.empty() && !number(first, range.first)) return false;
  if (dash == std::string_view::npos) {
    if (first.empty()) return false;
    range.last = range.first;
  } else {
    const std::string_view last = text.substr(dash + 1);
    if (!last.empty() && !number(last, range.last)) return false;
    if ((first.empty() && last.empty()) || range.first > range.last) return false;
  }
  ranges_.push_back(range);
  return true;
}

bool FrameSet::has(std::uint64_t frame) const {
  if (ranges_.empty()) return true;
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return frame >= range.first && frame <= range.last; });
}

std::uint64_t FrameSet::last() const {
  if (ranges_.empty()) return std::numeric_limits<std::uint64_t>::max();
  return std::max_element(ranges_.begin(), ranges_.end(),
                          [](const Range& a, const Range& b) { return a.last < b.last; })
      ->last;
}

Option& add_frame_option(Command& command, FrameSet& frames) {
  return command
      .parsed(
          "--frame", "N[-M]",
          [&frames](const std::string& text) {
            return frames.add(text) ? std::string()
                                    : "expected a frame number or a range such as 5-9 or 5-, got \"" + text + "\"";
          },
          "Select only these frames: a number, a range such as 5-9 or 5-, or a comma-separated list.")
      .separated_by(',')
      .repeats();
}

}  // namespace rdmawire::cli
