#pragma once
/// Gather and scatter of work requests' local memory.

#include <cstdint>
#include <vector>

#include "conformance/device/roce/memory.hpp"

namespace rdmawire::device {

/// Copy bytes of a request's message from `offset` on. A failure is the completion status of the request.
Status gather(Memory& memory, std::uint32_t pd, const SendRequest& request, std::uint64_t offset, std::uint64_t count,
              std::vector<std::uint8_t>& to);
/// Write bytes at `offset` of the scatter list.
Status scatter(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, std::uint64_t offset, Bytes bytes);
/// Check that the application may use all elements.
Status check_local(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, bool writes);

}  // namespace rdmawire::device
