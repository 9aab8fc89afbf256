#pragma once
/// Edit distance of names, for "did you mean".

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::output {

/// Returns the number of insertions, deletions, substitutions and transpositions of neighbors between the texts. If
/// it exceeds `limit`, returns some number above `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = SIZE_MAX);

/// Returns "; did you mean psn?" with the name closest to `word`. Returns an empty text if more than a third of the
/// characters of each name differ.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace rdmawire::output
