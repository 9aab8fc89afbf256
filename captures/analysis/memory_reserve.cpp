#include "captures/analysis/memory_reserve.hpp"

#include <sys/mman.h>

#include <array>

namespace rdmawire::captures::analysis {
namespace {

constexpr std::size_t part_bytes = std::size_t{32} << 20;
std::array<std::atomic<void*>, 2> parts{};

// Maps memory outside of the heap, because the free parts of the heap can be too small.
void* map_part() {
  void* part = ::mmap(nullptr, part_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (part == MAP_FAILED) throw std::bad_alloc();
  return part;
}
bool unmap_part(std::atomic<void*>& part) {
  void* mapped = part.exchange(nullptr);
  if (!mapped) return false;
  ::munmap(mapped, part_bytes);
  return true;
}

}  // namespace

MemoryReserve::MemoryReserve() {
  try {
    renew();
  } catch (...) {
    unmap();
    throw;
  }
  earlier_ = std::set_new_handler(release);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(earlier_);
  unmap();
}

void MemoryReserve::renew() {
  for (std::atomic<void*>& part : parts)
    if (!part) part = map_part();
  used = false;
}

void MemoryReserve::give_up() {
  unmap_part(parts[1]);
  throw std::bad_alloc();
}

// operator new calls this function in any thread, and tries again after it returns.
void MemoryReserve::release() {
  if (unmap_part(parts[0])) {
    used = true;
    return;
  }
  give_up();
}

void MemoryReserve::unmap() {
  for (std::atomic<void*>& part : parts) unmap_part(part);
  used = false;
}

}  // namespace rdmawire::captures::analysis
