#pragma once
/// The bytes that work requests describe by their elements: gathered for what is sent, scattered from what came.

#include <cstdint>
#include <vector>

#include "conformance/device/roce/memory.hpp"

namespace rdmawire::device {

/// Copies bytes of a request's message, from `offset` on. A failure is the status of the request.
Status gather(Memory& memory, std::uint32_t pd, const SendRequest& request, std::uint64_t offset, std::uint64_t count,
              std::vector<std::uint8_t>& to);
/// Places bytes at `offset` of what the elements describe.
Status scatter(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, std::uint64_t offset, Bytes bytes);
/// Whether all elements are the consumer's to use.
Status check_local(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, bool writes);

}  // namespace rdmawire::device
