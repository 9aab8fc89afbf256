#include "replay/rpc/range.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace rdmawire::rpc {

Error out_of_range(std::string_view name, std::uint64_t least, std::uint64_t most, std::uint64_t value) {
  return {ERANGE, fmt::format("{}: must be from {} to {}, not {}", name, least, most, value)};
}

Result<Range> range_of(std::uint64_t offset, std::optional<std::uint64_t> length, std::uint64_t size) {
  if (offset > size) return tl::unexpected(out_of_range("offset", 0, size, offset));
  const std::uint64_t left = size - offset;
  if (length.value_or(0) > left) return tl::unexpected(out_of_range("length", 0, left, *length));
  return Range{offset, length.value_or(left)};
}

}  // namespace rdmawire::rpc
