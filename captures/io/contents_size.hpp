#pragma once
/// The size that Reader::position() reaches, to show progress.

#include <cstdint>

#include "captures/io/reader.hpp"

namespace rdmawire::captures {

/// Returns the size of the capture's contents in bytes (0: unknown, because the input is a pipe or compressed).
inline std::uint64_t contents_size(const Reader& reader) {
  return reader.compression() == Compression::none ? reader.file_size() : 0;
}

}  // namespace rdmawire::captures
