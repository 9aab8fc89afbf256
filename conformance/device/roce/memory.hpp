#pragma once
/// Application memory, and its regions and windows with keys, rights and bounds. IBTA vol 1, 10.6 (statements: C10-56,
/// C10-57, C10-72 to C10-77, o10-37.2.*).

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/memory_decisions.hpp"
#include "conformance/device/roce/random.hpp"
#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/memory_access.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

/// How a region was created, which determines whether its key can be invalidated. o10-37.2.13, o10-37.2.17.
enum class RegionKind : std::uint8_t {
  consumer,  ///< created by reg_mr. The key is valid until deregistration
  fast,      ///< created without memory. Work requests register memory and invalidate the key
};

struct Region {
  std::uint32_t handle = 0, pd = 0;
  RegionKind kind = RegionKind::consumer;
  bool valid = true;          ///< true: the key can be used
  std::uint64_t address = 0;  ///< start in application memory
  std::uint64_t length = 0;
  std::uint64_t iova = 0;  ///< start address for accesses with the lkey or rkey
  std::uint64_t most = 0;  ///< fast registration: maximum length in bytes
  std::uint32_t key = 0;   ///< both lkey and rkey
  std::uint32_t rights = 0;
  std::uint32_t windows = 0;  ///< number of bound windows
  bool stale = false;         ///< deregistered: set only by faults
};

struct Window {
  std::uint32_t handle = 0, pd = 0;
  std::uint8_t type = 1;     ///< 1, or 2 (type 2B, which belongs to the QP that bound it)
  std::uint32_t key = 0;     ///< R_Key. Each bind changes it
  std::uint32_t region = 0;  ///< handle of its region. 0: unbound
  std::uint32_t qpn = 0;     ///< QP number of a bound type 2 window
  std::uint64_t address = 0, length = 0;
  std::uint32_t rights = 0;
};

/// Origin of a memory access.
struct Accessor {
  std::uint32_t pd = 0;
  std::uint32_t qpn = 0;
};

class Memory {
 public:
  /// `random` and `decisions` must outlive the object.
  Memory(Random& random, const MemoryDecisions& decisions) : random_(random), decisions_(decisions) {}

  /// Allocate application memory at a page boundary, followed by an unused page. Fails with ENOMEM at the limit.
  Result<std::uint64_t> allocate(std::uint64_t bytes);
  /// Free an allocation. Returns false if none starts at `address`.
  bool release(std::uint64_t address);
  /// Return the application memory, or an empty span if some of the bytes do not exist.
  [[nodiscard]] MutableBytes at(std::uint64_t address, std::uint64_t bytes);

  Result<Region*> register_region(std::uint32_t handle, std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                  std::uint64_t iova, std::uint32_t rights);
  /// Allocate a region for fast registration of at most `bytes`.
  Result<Region*> allocate_region(std::uint32_t handle, std::uint32_t pd, std::uint64_t bytes);
  /// Deregister a region. Fails with EBUSY while windows are bound to it: 10.6.7.2.6.
  Result<void> deregister(std::uint32_t handle);
  Result<Window*> allocate_window(std::uint32_t handle, std::uint32_t pd, std::uint8_t type);
  Result<void> release_window(std::uint32_t handle);
  [[nodiscard]] Region* region(std::uint32_t handle);
  [[nodiscard]] Window* window(std::uint32_t handle);
  [[nodiscard]] std::size_t count() const { return regions_.size() + windows_.size(); }
  /// All regions, by handle.
  [[nodiscard]] std::map<std::uint32_t, Region>& regions() { return regions_; }
  /// True if the protection domain has a region or window.
  [[nodiscard]] bool uses(std::uint32_t pd) const;

  /// Return the memory address for an access with a remote key that requires `rights`. nullopt: the access is rejected.
  /// `whole_region`: true for a FLUSH of a whole region, whose range is not checked.
  [[nodiscard]] std::optional<std::uint64_t> remote(const Accessor& accessor, std::uint32_t rkey, std::uint64_t va,
                                                    std::uint64_t bytes, std::uint32_t rights,
                                                    bool whole_region = false) {
    return open(accessor, rkey, va, bytes, rights, whole_region).address;
  }
  /// Result of remote(), with the reason of a rejection.
  struct Opened {
    std::optional<std::uint64_t> address{};  ///< address in application memory. nullopt: rejected
    machines::AccessDecision decision{};
  };
  [[nodiscard]] Opened open(const Accessor& accessor, std::uint32_t rkey, std::uint64_t va, std::uint64_t bytes,
                            std::uint32_t rights, bool whole_region = false);
  /// True if the key is assigned.
  [[nodiscard]] bool knows(std::uint32_t key) { return region_by_key(key) || window_by_key(key); }
  /// Return the memory address for an access with a local key. `writes`: true if the device writes.
  [[nodiscard]] std::optional<std::uint64_t> local(std::uint32_t pd, const Sge& sge, bool writes);

  /// Execute a work request. Each function returns the completion status.
  Status bind(const SendRequest& request, std::uint32_t pd, std::uint32_t qpn);
  Status fast_register(const SendRequest& request, std::uint32_t pd);
  Status invalidate_local(std::uint32_t key, const Accessor& accessor);
  /// Execute a SEND with Invalidate at its receiver. Returns false if it is rejected. 9.4.1.1.3, o10-37.2.13,
  /// o10-37.2.17.
  bool invalidate_remote(std::uint32_t rkey, const Accessor& accessor);
  /// Invalidate a key.
  void invalidate(std::uint32_t key);

  /// Return an unused key, for a window that will be bound.
  std::uint32_t fresh_key() { return new_key(); }
  void clear();
  /// Return the number of type 2 windows that are bound to the queue pair.
  [[nodiscard]] std::size_t windows_of(std::uint32_t qpn) const;
  void unbind_windows_of(std::uint32_t qpn);

  static constexpr std::uint64_t page = 4096;
  std::uint64_t max_bytes = 256ULL << 20;  ///< limit of the sum of all allocations

 private:
  struct Piece {
    std::vector<std::uint8_t> bytes;
  };
  std::uint32_t new_key();
  bool key_in_use(std::uint32_t key) const;
  Region* region_by_key(std::uint32_t key);
  Window* window_by_key(std::uint32_t key);
  [[nodiscard]] machines::MemoryObject object_of(const Region& region) const;
  [[nodiscard]] machines::MemoryObject object_of(const Window& window) const;
  /// Return the region or window of a key. `region`: set to its region, or nullptr.
  std::optional<machines::MemoryObject> object_of_key(std::uint32_t key, Region*& region);
  bool may_invalidate(std::uint32_t key, const Accessor& accessor);
  void unbind(Window& window);

  Random& random_;
  const MemoryDecisions& decisions_;
  std::map<std::uint64_t, Piece> pieces_;
  std::uint64_t next_address_ = 0x7f00'0000'0000;
  std::uint64_t allocated_ = 0;
  std::uint32_t last_key_ = 0;
  std::map<std::uint32_t, Region> regions_;
  std::map<std::uint32_t, Window> windows_;
};

/// True if [va, va + bytes) is in [base, base + size) without wrapping.
constexpr bool inside(std::uint64_t va, std::uint64_t bytes, std::uint64_t base, std::uint64_t size) {
  return va >= base && bytes <= size && va - base <= size - bytes;
}

}  // namespace rdmawire::device
