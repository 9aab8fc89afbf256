#pragma once
/// Compression formats of capture files.

#include <cstdint>
#include <string_view>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::captures {

enum class Compression : std::uint8_t { none, gzip, zstd };
std::string_view to_string(Compression compression);

/// Detects the compression of a file from its first bytes, which must be at least 4 if the file has them.
Compression detect_compression(Bytes beginning);

/// Returns the compression for a file name: by its extension ".gz" or ".zst", otherwise none.
Compression compression_of_name(std::string_view path);

}  // namespace rdmawire::captures
