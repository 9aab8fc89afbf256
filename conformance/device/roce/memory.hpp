#pragma once
/// The memory of the consumer, and what of it is registered: regions and windows with their keys, rights and bounds.
/// IBTA vol 1, 10.6 (statements: C10-56, C10-57, C10-72 to C10-77, o10-37.2.*).

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/random.hpp"
#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/memory_access.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

/// How a region came to be: it decides who may invalidate it. o10-37.2.13, o10-37.2.17.
enum class RegionKind : std::uint8_t {
  consumer,  ///< registered by reg_mr: its key lives until it is deregistered
  fast,      ///< allocated without memory; a work request registers memory, another one invalidates it
};

struct Region {
  std::uint32_t handle = 0, pd = 0;
  RegionKind kind = RegionKind::consumer;
  bool valid = true;          ///< the key can be used
  std::uint64_t address = 0;  ///< in the consumer's memory
  std::uint64_t length = 0;
  std::uint64_t iova = 0;  ///< the address that keys reach `address` by
  std::uint64_t most = 0;  ///< of a fast one: bytes that it can hold
  std::uint32_t key = 0;   ///< lkey and rkey
  std::uint32_t rights = 0;
  std::uint32_t windows = 0;  ///< bound to it
};

struct Window {
  std::uint32_t handle = 0, pd = 0;
  std::uint8_t type = 1;     ///< 1, or 2 (2B: it belongs to the queue pair that bound it)
  std::uint32_t key = 0;     ///< changes when it is bound
  std::uint32_t region = 0;  ///< handle; 0: not bound
  std::uint32_t qpn = 0;     ///< of a type 2 one that is bound
  std::uint64_t address = 0, length = 0;
  std::uint32_t rights = 0;
};

/// Who asks for memory.
struct Accessor {
  std::uint32_t pd = 0;
  std::uint32_t qpn = 0;
};

class Memory {
 public:
  Memory(Random& random, const Faults& faults) : random_(random), faults_(faults) {}

  /// The consumer's own memory: pieces that begin on a page, each followed by an unused page. ENOMEM.
  Result<std::uint64_t> allocate(std::uint64_t bytes);
  /// False: there is no piece at `address`.
  bool release(std::uint64_t address);
  /// The consumer's bytes; empty when some of them do not exist.
  [[nodiscard]] MutableBytes at(std::uint64_t address, std::uint64_t bytes);

  Result<Region*> register_region(std::uint32_t handle, std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                  std::uint64_t iova, std::uint32_t rights);
  /// A region for fast registration, of at most `bytes`.
  Result<Region*> allocate_region(std::uint32_t handle, std::uint32_t pd, std::uint64_t bytes);
  /// EBUSY while windows are bound to it: 10.6.7.2.6.
  Result<void> deregister(std::uint32_t handle);
  Result<Window*> allocate_window(std::uint32_t handle, std::uint32_t pd, std::uint8_t type);
  Result<void> release_window(std::uint32_t handle);
  [[nodiscard]] Region* region(std::uint32_t handle);
  [[nodiscard]] Window* window(std::uint32_t handle);
  [[nodiscard]] std::size_t count() const { return regions_.size() + windows_.size(); }
  /// Whether anything is registered or allocated in the protection domain.
  [[nodiscard]] bool uses(std::uint32_t pd) const;

  /// What a remote key opens to `who` for all of `rights`; nothing: refused. `whole_region`: of FLUSH, the range is not
  /// looked at.
  [[nodiscard]] std::optional<std::uint64_t> remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                                    std::uint64_t bytes, std::uint32_t rights,
                                                    bool whole_region = false) {
    return open(who, rkey, va, bytes, rights, whole_region).address;
  }
  /// The same, with the reason of a refusal.
  struct Opened {
    std::optional<std::uint64_t> address{};  ///< in the consumer's memory; nothing: refused
    machines::AccessDecision decision{};
  };
  [[nodiscard]] Opened open(const Accessor& who, std::uint32_t rkey, std::uint64_t va, std::uint64_t bytes,
                            std::uint32_t rights, bool whole_region = false);
  /// Whether the key stands for anything.
  [[nodiscard]] bool knows(std::uint32_t key) { return region_by_key(key) || window_by_key(key); }
  /// What a local key opens. `writes`: the device writes there.
  [[nodiscard]] std::optional<std::uint64_t> local(std::uint32_t pd, const Sge& sge, bool writes);

  /// The work requests. A failure is the status that the request completes with.
  Status bind(const SendRequest& request, std::uint32_t pd, std::uint32_t qpn);
  Status fast_register(const SendRequest& request, std::uint32_t pd);
  Status invalidate_local(std::uint32_t key, const Accessor& who);
  /// SEND with Invalidate at its receiver; false: refused. 9.4.1.1.3, o10-37.2.13, o10-37.2.17.
  bool invalidate_remote(std::uint32_t rkey, const Accessor& who);

  /// A key that nothing has, for a window that will be bound.
  std::uint32_t fresh_key() { return new_key(); }
  void clear();
  /// Type 2 windows that are bound to the queue pair.
  [[nodiscard]] std::size_t windows_of(std::uint32_t qpn) const;
  void unbind_windows_of(std::uint32_t qpn);

  static constexpr std::uint64_t page = 4096;
  std::uint64_t max_bytes = 256ULL << 20;  ///< of all pieces together
  bool predictable_keys = false;           ///< a fault: each key is the next one

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
  /// What a key stands for, and the region behind it (nullptr: none).
  std::optional<machines::MemoryObject> object_of_key(std::uint32_t key, Region*& region);
  bool may_invalidate(std::uint32_t key, const Accessor& who);
  void invalidate(std::uint32_t key);
  void unbind(Window& window);

  Random& random_;
  const Faults& faults_;
  std::map<std::uint64_t, Piece> pieces_;
  std::uint64_t next_address_ = 0x7f00'0000'0000;
  std::uint64_t allocated_ = 0;
  std::uint32_t last_key_ = 0;
  std::map<std::uint32_t, Region> regions_;
  std::map<std::uint32_t, Window> windows_;
};

/// Whether [va, va + bytes) lies in [base, base + size), none of the sums wrapping.
constexpr bool inside(std::uint64_t va, std::uint64_t bytes, std::uint64_t base, std::uint64_t size) {
  return va >= base && bytes <= size && va - base <= size - bytes;
}

}  // namespace rdmawire::device
