#pragma once
/// The limit on the memory of an analysis, and how it is divided among tables.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "captures/analysis/analysis.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::captures::analysis {

/// Limits on memory in bytes. The default is the same on every host, so that results do not depend on the host.
inline constexpr std::uint64_t default_memory = std::uint64_t{1} << 30;
inline constexpr std::uint64_t least_memory = std::uint64_t{64} << 20;
inline constexpr std::uint64_t most_memory = std::uint64_t{1} << 46;
/// If an allocation fails, the captures are read again with a quarter of the limit. This is the smallest limit for
/// another attempt.
inline constexpr std::uint64_t smallest_attempt = least_memory / 4;

/// Parses "512M", "1.5G", "64MiB" or "1073741824". K, M, G and T are powers of 1024. If `text` is not a size, or is
/// outside the limits above, returns an error: a sentence that lacks its subject.
tl::expected<std::uint64_t, std::string> parse_memory(std::string_view text);
/// Returns the exact size as text: "1 GiB", "1536 MiB", "1000000001 bytes".
std::string memory_text(std::uint64_t bytes);
/// Return error messages after a failed allocation. retry_text() states that the captures are read again with a quarter
/// of the limit.
std::string out_of_memory_text(std::uint64_t limit);
std::string retry_text(std::uint64_t limit);

/// Lowers the limits of all tables, so that the process stays within `memory` bytes. Memory-mapped files do not count.
/// Limits that are already lower are unchanged.
void limit_memory(std::uint64_t memory, tracking::TrackerOptions& tracker, tracking::DissectorOptions& dissector);
void limit_memory(std::uint64_t memory, AnalysisOptions& analysis);

}  // namespace rdmawire::captures::analysis
