#pragma once
/// Edit distance of names, for "did you mean".

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rdmawire::output {

/// Returns the number of insertions, deletions, substitutions and transpositions of neighbors between the texts. If
/// it exceeds `limit`, returns some number above `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = SIZE_MAX);

}  // namespace rdmawire::output
