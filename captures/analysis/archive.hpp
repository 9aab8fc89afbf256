#pragma once
/// An analysis as bytes, for another process: what work that is spread over machines sends home.

#include <string>
#include <tl/expected.hpp>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {

/// Everything that merge() needs. Numbers stand as this machine has them in memory, so that only the same build of
/// rdmawire takes it up again: it is for sending, not for keeping.
std::string save(const Analysis& analysis);

/// What save() gave. An error, one sentence: the bytes are another build's, or are cut, or contradict themselves.
tl::expected<Analysis, std::string> load(Bytes bytes);

}  // namespace rdmawire::captures::analysis
