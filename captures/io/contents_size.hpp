#pragma once
/// The size that Reader::position() reaches, for progress.

#include <cstdint>

#include "captures/io/reader.hpp"

namespace rdmawire::captures {

/// Size of the capture's contents. 0: unknown, because it is a pipe or compressed.
inline std::uint64_t contents_size(const Reader& reader) {
  return reader.compression() == Compression::none ? reader.file_size() : 0;
}

}  // namespace rdmawire::captures
