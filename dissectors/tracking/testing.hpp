#pragma once
/// For tests only: packet builders, and a pcap reader, so that this component does not depend on file I/O.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"
#include "source_directory.hpp"

namespace rdmawire::tracking::testing {

struct Record {
  std::vector<std::uint8_t> bytes;
  std::uint32_t wire_length = 0;
};

/// Reads the records of a little-endian pcap file. Returns none if the file does not exist or has another format.
inline std::vector<Record> read_pcap(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<std::uint8_t> all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<Record> records;
  if (all.size() < 24 || (all[0] != 0xd4 && all[0] != 0x4d)) return records;
  for (std::size_t at = 24; at + 16 <= all.size();) {
    const std::size_t captured = load_le(all.data() + at + 8, 4);
    const auto wire = static_cast<std::uint32_t>(load_le(all.data() + at + 12, 4));
    at += 16;
    if (captured > all.size() - at) break;
    records.push_back(
        {{all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at + captured)},
         wire});
    at += captured;
  }
  return records;
}

/// Returns the path of a capture in the shared collection (RDMAWIRE_SHARED).
inline std::string shared_capture(const std::string& name) {
  const char* shared = std::getenv("RDMAWIRE_SHARED");
  return (shared ? std::string(shared) : std::string(RDMAWIRE_SOURCE_DIR "/../shared")) + "/captures/" + name;
}

}  // namespace rdmawire::tracking::testing
