#pragma once
/// Checks of numbers whose limits depend on an object.

#include <optional>

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// The error of a number that is not in its range.
Error out_of_range(std::string_view name, std::uint64_t least, std::uint64_t most, std::uint64_t value);

/// A range of a region.
struct Range {
  std::uint64_t offset = 0, length = 0;
};
/// The range that a request specifies in a region of `size` bytes. `length` nullopt: to its end.
Result<Range> range_of(std::uint64_t offset, std::optional<std::uint64_t> length, std::uint64_t size);

}  // namespace rdmawire::rpc
