#pragma once
/// Compression formats of capture files.

#include <cstdint>
#include <string_view>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::captures {

enum class Compression : std::uint8_t { none, gzip, zstd };
std::string_view to_string(Compression compression);

/// Detects the compression from a file's first bytes (at least 4, if available).
Compression detect_compression(Bytes beginning);

/// Compression by file name extension: ".gz", ".zst", or none.
Compression compression_of_name(std::string_view path);

}  // namespace rdmawire::captures
