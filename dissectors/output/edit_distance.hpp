#pragma once
/// Edit distance between names, for messages with "did you mean".

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::output {

/// Returns the number of edits that change `a` to `b`: insertions, deletions, substitutions, and transpositions of
/// neighboring characters. If it exceeds `limit`, returns any number above `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = SIZE_MAX);

/// Returns "; did you mean psn?" with the name closest to `word`, or an empty text if more than a third of the
/// characters differ in each name.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace rdmawire::output
