#pragma once
/// Ways to break the specification on purpose: what proves that the cases and the monitors see it.

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdmawire::device {

/// Each is consulted where the behaviour is decided.
enum class Fault : std::uint16_t {
  deregisters_bound_regions,
  ignores_protection_domains,
  ignores_window_queue_pairs,
  windows_grant_their_regions_rights,
  ignores_region_rights,
  bounds_off_by_one,
  bounds_wrap,
  binds_anything,
  local_invalidate_does_nothing,
  invalidates_type_1_windows,
  send_invalidate_does_nothing,
  invalidates_consumer_regions,
  count,
};

/// Those that are on.
class Faults {
 public:
  [[nodiscard]] bool operator[](Fault fault) const { return on_[static_cast<std::size_t>(fault)]; }
  void set(Fault fault, bool on = true) { on_[static_cast<std::size_t>(fault)] = on; }
  void clear() { on_.reset(); }
  [[nodiscard]] bool any() const { return on_.any(); }

 private:
  std::bitset<static_cast<std::size_t>(Fault::count)> on_;
};

}  // namespace rdmawire::device
