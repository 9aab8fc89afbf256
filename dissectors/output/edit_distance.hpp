#pragma once
/// How far one name is from another: for "did you mean".

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rdmawire::output {

/// Steps from one text to the other: a character more, less or another, or two neighbors in turned order. Where there
/// are more than `limit`, some number above `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = SIZE_MAX);

}  // namespace rdmawire::output
