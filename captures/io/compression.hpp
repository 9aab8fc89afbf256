#pragma once
/// How a capture file is compressed as a whole.

#include <cstdint>
#include <string_view>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::captures {

enum class Compression : std::uint8_t { none, gzip, zstd };
std::string_view to_string(Compression compression);

/// Which compression a file's first bytes (at least 4, when it has them) announce.
Compression detect_compression(Bytes beginning);

/// Which compression a file's name asks for: ".gz", ".zst", or none.
Compression compression_of_name(std::string_view path);

}  // namespace rdmawire::captures
