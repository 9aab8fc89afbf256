#pragma once
/// Where the memory lies that scripts speak of, by its Keys.

#include <cstdint>

namespace rdmawire::fuzzer {

/// The consumer's memory, one piece of it. Between what is registered lies what nobody may write.
namespace layout {
inline constexpr std::uint64_t page = 4096, size = 19 * page;
struct Range {
  std::uint64_t offset, bytes;
  [[nodiscard]] constexpr std::uint64_t end() const { return offset + bytes; }
};
inline constexpr Range everything{1 * page, page}, read_only{3 * page, 1000}, write_only{5 * page, page},
    closed{7 * page, page}, foreign{8 * page, page}, fast{10 * page, page}, receives{12 * page, 2 * page},
    local{15 * page, 3 * page};
/// A type 2 window covers so much of `everything`, from its beginning.
inline constexpr std::uint64_t window_bytes = 512;
/// What may change: by remote writes and atomics, by receives, by the device's own READs.
inline constexpr Range writable[] = {everything, write_only, fast, receives, local};
}  // namespace layout

}  // namespace rdmawire::fuzzer
