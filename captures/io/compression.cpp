#include "captures/io/compression.hpp"

namespace rdmawire::captures {

std::string_view to_string(Compression compression) {
  switch (compression) {
    case Compression::none: return "none";
    case Compression::gzip: return "gzip";
    case Compression::zstd: return "zstd";
  }
  return "unknown";
}

Compression detect_compression(Bytes beginning) {
  if (beginning.size() >= 2 && beginning[0] == 0x1f && beginning[1] == 0x8b) return Compression::gzip;
  if (beginning.size() >= 4) {
    const std::uint64_t magic = load_le(beginning.data(), 4);
    constexpr std::uint64_t frame = 0xfd2fb528, skippable = 0x184d2a50;  // RFC 8878, 3.1.1 and 3.1.2
    if (magic == frame || (magic & ~0xfULL) == skippable) return Compression::zstd;
  }
  return Compression::none;
}

Compression compression_of_name(std::string_view path) {
  if (path.ends_with(".gz")) return Compression::gzip;
  if (path.ends_with(".zst")) return Compression::zstd;
  return Compression::none;
}

}  // namespace rdmawire::captures
