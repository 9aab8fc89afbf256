#pragma once
/// Serializes an analysis, for distributed processing.

#include <string>
#include <tl/expected.hpp>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {

/// Serializes everything that merge() needs, in native byte order. Only the same build of rdmawire can load the result,
/// because the format is for transfer between processes and not for storage.
std::string save(const Analysis& analysis);

/// Deserializes the result of save(). Returns an error of one sentence if the bytes are from another build, truncated
/// or inconsistent.
tl::expected<Analysis, std::string> load(Bytes bytes);

}  // namespace rdmawire::captures::analysis
