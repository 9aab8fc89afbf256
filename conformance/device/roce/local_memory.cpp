#include "conformance/device/roce/local_memory.hpp"

#include <algorithm>

namespace rdmawire::device {

namespace {

/// Call `each(bytes)` in order for the parts of the list's range [offset, offset + count).
template <class Each>
Status walk(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, std::uint64_t offset, std::uint64_t count,
            bool writes, const Each& each) {
  for (const Sge& sge : sges) {
    if (count == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(count, sge.length - offset);
    const auto host = memory.local(pd, sge, writes);
    if (!host) return Status::local_protection;
    const MutableBytes bytes = memory.at(*host + offset, part);
    if (bytes.empty()) return Status::local_protection;
    each(bytes);
    count -= part;
    offset = 0;
  }
  return count == 0 ? Status::success : Status::local_length;
}

}  // namespace

Status gather(Memory& memory, std::uint32_t pd, const SendRequest& request, std::uint64_t offset, std::uint64_t count,
              std::vector<std::uint8_t>& to) {
  if (request.is_inline) {
    if (!inside(offset, count, 0, request.bytes.size())) return Status::local_length;
    to.insert(to.end(), request.bytes.begin() + static_cast<std::ptrdiff_t>(offset),
              request.bytes.begin() + static_cast<std::ptrdiff_t>(offset + count));
    return Status::success;
  }
  return walk(memory, pd, request.sges, offset, count, false,
              [&](MutableBytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); });
}

Status scatter(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, std::uint64_t offset, Bytes bytes) {
  return walk(memory, pd, sges, offset, bytes.size(), true, [&](MutableBytes to) {
    std::copy_n(bytes.begin(), to.size(), to.begin());
    bytes = bytes.subspan(to.size());
  });
}

Status check_local(Memory& memory, std::uint32_t pd, const std::vector<Sge>& sges, bool writes) {
  for (const Sge& sge : sges)
    if (sge.length != 0 && !memory.local(pd, sge, writes)) return Status::local_protection;
  return Status::success;
}

}  // namespace rdmawire::device
