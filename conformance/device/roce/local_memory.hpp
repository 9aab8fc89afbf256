#pragma once
/// Reads and writes the local memory of work requests (gather and scatter).

#include <cstdint>
#include <vector>

#include "conformance/device/roce/memory.hpp"

namespace rdmawire::device {

/// Copy `count` bytes of a request's message, starting at `offset`, to `to`. Returns the completion status of the
/// request.
Status gather(Memory& memory, std::uint32_t pd, const SendRequest& request, std::uint64_t offset, std::uint64_t count,
              std::vector<std::uint8_t>& to);
/// Write bytes at `offset` of the scatter list. Returns the completion status.
Status scatter(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, std::uint64_t offset, Bytes bytes);
/// Check that the application may use all elements. Returns the completion status.
Status check_local(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, bool writes);

}  // namespace rdmawire::device
