#include "cli/frames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rdmawire::cli {

bool FrameSet::parse(std::string_view text, Range& range) {
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value != 0;
  };
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  if (!first.empty() && !number(first, range.first)) return false;
  if (dash == std::string_view::npos) {
    range.last = range.first;
    return !first.empty();
  }
  const std::string_view last = text.substr(dash + 1);
  if (!last.empty() && !number(last, range.last)) return false;
  return (!first.empty() || !last.empty()) && range.first <= range.last;
}

FrameSet::FrameSet(const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    if (Range range; parse(text, range)) ranges_.push_back(range);
  if (!ranges_.empty()) last_ = 0;
  for (const Range& range : ranges_) last_ = std::max(last_, range.last);
}

bool FrameSet::has(std::uint64_t frame) const {
  if (ranges_.empty()) return true;
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return frame >= range.first && frame <= range.last; });
}

CLI::Option* add_frame_option(CLI::App& app, std::vector<std::string>& texts) {
  return app.add_option("--frame", texts, "only these: 7, 5-9, 5-, or several of them with commas")
      ->delimiter(',')
      ->check([](const std::string& text) {
        FrameSet::Range range;
        return FrameSet::parse(text, range) ? std::string()
                                            : fmt::format("{} is no frame number or range like 5-9", text);
      })
      ->type_name("N[-M]");
}

}  // namespace rdmawire::cli
