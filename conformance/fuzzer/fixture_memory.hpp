#pragma once
/// Common part of the RoCE and iWARP fixtures: the memory that scripts use, and work requests that refer to it.

#include <array>
#include <cstdint>

#include "conformance/device/roce/memory.hpp"
#include "conformance/device/roce/work_request.hpp"
#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/layout.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::fuzzer {

/// Fill memory with the initial content of a script.
void fill_memory(MutableBytes bytes);

/// Return the low 32 bits of a number in a step.
constexpr std::uint32_t low(std::int64_t value) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value));
}

struct FixtureMemory {
  std::uint64_t buffer = 0;
  std::uint32_t receive_key = 0, local_key = 0;
  std::array<std::uint32_t, 6> regions{};  ///< handles of the regions, by Key from `everything` to `fast`
  std::array<std::uint32_t, 3> windows{};  ///< handles of the windows, by Key from `window` to `window_1`

  /// Register the ranges of `buffer`, except the range for fast registration. `add(range, rights, foreign)` returns the
  /// region.
  template <class Add>
  void register_regions(std::uint32_t all_rights, const Add& add) {
    namespace access = device::access;
    constexpr layout::Range at[] = {layout::everything, layout::read_only, layout::write_only, layout::closed,
                                    layout::foreign};
    const std::uint32_t rights[] = {all_rights, access::remote_read, access::local_write | access::remote_write,
                                    access::local_write, all_rights};
    for (std::size_t i = 0; i < std::size(at); ++i)
      regions[i] = add(at[i], rights[i], i == static_cast<std::size_t>(Key::foreign)).handle;
    receive_key = add(layout::receives, access::local_write, false).key;
    local_key = add(layout::local, access::local_write, false).key;
  }

  /// Store keys and addresses in `objects`. `region` and `window` find objects by handle. The values of destroyed
  /// objects are not changed.
  template <class FindRegion, class FindWindow>
  void tell(KnownObjects& objects, const FindRegion& region, const FindWindow& window) const {
    constexpr auto fast = static_cast<std::size_t>(Key::fast), first = static_cast<std::size_t>(Key::window);
    for (std::size_t i = 0; i < regions.size(); ++i)
      if (const device::Region* found = region(regions[i]))
        objects.memory[i] = {found->key, i == fast ? buffer + layout::fast.offset : found->iova};
    for (std::size_t i = 0; i < windows.size(); ++i)
      if (const device::Window* found = window(windows[i]))
        objects.memory[first + i] = {found->key, buffer + layout::everything.offset};
  }

  /// Return the buffer of receive request `number`, counted from 0.
  [[nodiscard]] device::Sge receive(std::uint32_t number, std::int64_t bytes) const;
  /// Return the local buffer of a send request.
  [[nodiscard]] device::Sge local(const Step& step, std::uint32_t bytes) const;
  /// Return the work request of a step of kind post, without local buffers and family-specific members.
  [[nodiscard]] static device::SendRequest remote_work(const Step& step, std::uint64_t id);
  /// Return the work request of a step of kind bind, fast_register or invalidate.
  [[nodiscard]] device::SendRequest local_work(const Step& step, std::uint64_t id, const KnownObjects& objects) const;
};

}  // namespace rdmawire::fuzzer
