#pragma once
/// Memory layout of scripts, by Key.

#include <cstdint>

namespace rdmawire::fuzzer {

/// One range of application memory. The gaps between registered ranges are write-protected.
namespace layout {
inline constexpr std::uint64_t page = 4096, size = 19 * page;
struct Range {
  std::uint64_t offset, bytes;
  [[nodiscard]] constexpr std::uint64_t end() const { return offset + bytes; }
};
inline constexpr Range everything{1 * page, page}, read_only{3 * page, 1000}, write_only{5 * page, page},
    closed{7 * page, page}, foreign{8 * page, page}, fast{10 * page, page}, receives{12 * page, 2 * page},
    local{15 * page, 3 * page};
/// Length in bytes of a type 2 window, which starts at the start of `everything`.
inline constexpr std::uint64_t window_bytes = 512;
/// Ranges that may change: by remote writes and atomics, by receives, or by READs of the device.
inline constexpr Range writable[] = {everything, write_only, fast, receives, local};
}  // namespace layout

}  // namespace rdmawire::fuzzer
