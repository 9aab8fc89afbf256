#pragma once
/// The bound on the memory of an analysis, and its division among the tables.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "captures/analysis/analysis.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::captures::analysis {

/// Limits of the memory in bytes. The default is the same on every host, so that the results are, too.
inline constexpr std::uint64_t default_memory = std::uint64_t{1} << 30;
inline constexpr std::uint64_t least_memory = std::uint64_t{64} << 20;
inline constexpr std::uint64_t most_memory = std::uint64_t{1} << 46;
/// If an allocation fails, the captures are read again with a quarter of the limit, unless the limit is at most this.
inline constexpr std::uint64_t smallest_attempt = least_memory / 4;

/// Parses "512M", "1.5G", "64MiB" or "1073741824". K, M, G and T are powers of 1024. Returns an error, one sentence
/// without subject, if `text` is not a size or is outside the limits above.
tl::expected<std::uint64_t, std::string> parse_memory(std::string_view text);
/// "1 GiB", "1536 MiB", "1000000001 bytes": exact.
std::string memory_text(std::uint64_t bytes);
/// Error messages after a failed allocation. retry_text(): the captures are read again with a quarter of the limit.
std::string out_of_memory_text(std::uint64_t limit);
std::string retry_text(std::uint64_t limit);

/// Lowers the limits of all tables so that the process, without mapped files, stays within `memory` bytes. Lower limits
/// are unchanged.
void limit_memory(std::uint64_t memory, tracking::TrackerOptions& tracker, tracking::DissectorOptions& dissector);
void limit_memory(std::uint64_t memory, AnalysisOptions& analysis);

}  // namespace rdmawire::captures::analysis
