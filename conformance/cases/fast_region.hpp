#pragma once
/// Memory for fast registration: work requests of a queue pair register and invalidate it.

#include <cstdint>

#include "conformance/cases/device_bench.hpp"

namespace rdmawire::conformance {

/// No verbs of user space have it (libibverbs knows no IBV_WR_REG_MR; what single vendors offer beside it is theirs),
/// so no agent does: the faces of the reference devices alone have such a command. Elsewhere the case ends
/// "unsupported".
class FastRegion {
 public:
  /// `domain`: the protection domain, by number.
  explicit FastRegion(DeviceBench& bench, std::size_t domain = 0);
  FastRegion(const FastRegion&) = delete;
  FastRegion& operator=(const FastRegion&) = delete;
  ~FastRegion();

  /// The key of the n-th registration: its lowest byte is the consumer's.
  [[nodiscard]] std::uint32_t key(std::uint32_t n) const { return (key_ & ~0xffU) | ((key_ + n) & 0xffU); }
  /// Registers all of it under key(n), or the case ends.
  void registers(DeviceQueuePair& through, std::uint64_t wr_id, std::uint32_t n) const;

  std::uint64_t address = 0;

 private:
  DeviceBench& bench_;
  std::uint64_t handle_ = 0;
  std::uint32_t key_ = 0;
};

}  // namespace rdmawire::conformance
