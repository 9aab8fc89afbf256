#pragma once
/// Memory for fast registration: work requests of a QP register and invalidate it.

#include <cstdint>

#include "conformance/cases/device_bench.hpp"

namespace rdmawire::conformance {

/// Only the reference devices support this, because user-space verbs have no fast registration (libibverbs has no
/// IBV_WR_REG_MR). The case ends as "unsupported" with other devices.
class FastRegion {
 public:
  /// `domain`: the protection domain, by number.
  explicit FastRegion(DeviceBench& bench, std::size_t domain = 0);
  FastRegion(const FastRegion&) = delete;
  FastRegion& operator=(const FastRegion&) = delete;
  ~FastRegion();

  /// The key of the n-th registration. The application chooses its lowest byte.
  [[nodiscard]] std::uint32_t key(std::uint32_t n) const { return (key_ & ~0xffU) | ((key_ + n) & 0xffU); }
  /// Registers the whole memory with key(n), or ends the case.
  void registers(DeviceQueuePair& through, std::uint64_t wr_id, std::uint32_t n) const;

  std::uint64_t address = 0;

 private:
  DeviceBench& bench_;
  std::uint64_t handle_ = 0;
  std::uint32_t key_ = 0;
};

}  // namespace rdmawire::conformance
