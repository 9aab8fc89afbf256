#pragma once
/// Serialization of an analysis, for distributed processing.

#include <string>
#include <tl/expected.hpp>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {

/// Serializes everything that merge() needs, in native byte order. Only the same build of rdmawire can load the result:
/// the format is for transfer between processes, not for storage.
std::string save(const Analysis& analysis);

/// Deserializes the result of save(). Error, one sentence: the bytes are from another build, truncated or inconsistent.
tl::expected<Analysis, std::string> load(Bytes bytes);

}  // namespace rdmawire::captures::analysis
