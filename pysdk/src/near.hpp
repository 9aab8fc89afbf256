#pragma once
/// Suggestions of similar names in errors.

#include <cstddef>
#include <string>
#include <string_view>

#include "dissectors/output/edit_distance.hpp"

namespace rdmawire::python {

/// Returns "; did you mean psn?" with the candidate most similar to `name`, or an empty text if none is similar.
template <class Candidates>
std::string did_you_mean(std::string_view name, const Candidates& candidates) {
  const std::size_t most = name.size() < 4 ? 1 : name.size() / 3;
  std::size_t least = most + 1;
  std::string nearest;
  for (const auto& candidate : candidates) {
    const std::size_t distance = output::edit_distance(name, candidate, most);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest.empty() ? nearest : "; did you mean " + nearest + "?";
}

}  // namespace rdmawire::python
