#pragma once
/// Validates remote memory access, binding of memory windows, and invalidation of keys. Pure functions of small values.
/// The caller looks up keys.
///
/// IBTA vol 1, 9.3.3.2, 9.7.4.1.5 (R_Key validation), 9.7.5.2.4 (the NAK), C9-88 (zero length), C10-56, C10-57 and
/// C10-72 to C10-77 (domains, rights, windows), o10-37.2.43 (type 2 windows), A19.4.1 (FLUSH).

#include <cstdint>

namespace rdmawire::machines {

/// Set of access rights of memory or of a QP.
enum class MemoryRights : std::uint8_t {
  none = 0,
  remote_write = 1,  ///< includes ATOMIC WRITE
  remote_read = 2,
  remote_atomic = 4,
  flush_global = 8,       ///< FLUSH to global visibility: A19
  flush_persistent = 16,  ///< FLUSH to persistence: A19
  local_write = 32,
  bind = 64,  ///< windows may be bound to the region
};
constexpr MemoryRights operator|(MemoryRights a, MemoryRights b) {
  return static_cast<MemoryRights>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr MemoryRights operator&(MemoryRights a, MemoryRights b) {
  return static_cast<MemoryRights>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
constexpr bool contains_all(MemoryRights set, MemoryRights wanted) { return (set & wanted) == wanted; }
constexpr bool contains_any(MemoryRights set, MemoryRights wanted) { return (set & wanted) != MemoryRights::none; }

enum class MemoryKind : std::uint8_t {
  region,
  fast_region,     ///< registered and invalidated by work requests (fast registration)
  window_type_1,   ///< belongs to a protection domain
  window_type_2a,  ///< belongs to a QP
  window_type_2b,  ///< belongs to a QP and a protection domain
};
constexpr bool is_window(MemoryKind kind) { return kind >= MemoryKind::window_type_1; }
constexpr bool is_window_type_2(MemoryKind kind) { return kind >= MemoryKind::window_type_2a; }

/// The memory region or window that a key identifies.
struct MemoryObject {
  MemoryKind kind = MemoryKind::region;
  bool valid = true;  ///< false: it was invalidated, unbound or freed
  std::uint32_t domain = 0;
  std::uint32_t queue_pair = 0;  ///< type 2 windows: QP to which the window is bound
  MemoryRights rights = MemoryRights::none;
  bool zero_based = false;    ///< addresses are offsets from the start of the object
  std::uint64_t base = 0;     ///< first address (not used if zero-based)
  std::uint64_t length = 0;   ///< length in bytes
  std::uint32_t windows = 0;  ///< regions: number of bound windows
};

/// True if the `length` bytes at `address` are inside the object. They may end at 2^64, the end of the address space.
constexpr bool holds(const MemoryObject& object, std::uint64_t address, std::uint64_t length) {
  const std::uint64_t base = object.zero_based ? 0 : object.base;
  if (address < base) return false;
  const std::uint64_t offset = address - base;
  return offset <= object.length && length <= object.length - offset;
}

/// An access that a request requires.
struct RemoteAccess {
  std::uint64_t address = 0;
  std::uint64_t length = 0;  ///< bytes (atomics: 8)
  MemoryRights needed = MemoryRights::remote_read;
  std::uint32_t domain = 0;  ///< protection domain of the QP
  std::uint32_t queue_pair = 0;
  MemoryRights queue_pair_rights = MemoryRights::none;
  bool whole_region = false;  ///< FLUSH of a whole region: ignores address and length
};

/// Result of the validation.
enum class AccessAnswer : std::uint8_t {
  allowed,
  invalid_request,      ///< NAK code 1
  remote_access_error,  ///< NAK code 2
};
enum class AccessReason : std::uint8_t {
  none,
  queue_pair_right,  ///< the QP does not permit the operation
  unknown_key,
  not_valid,  ///< the key was invalidated, or the window is not bound
  other_domain,
  other_queue_pair,
  right,  ///< the region or window does not permit the operation
  beyond_address_space,
  out_of_bounds,
};
struct AccessDecision {
  AccessAnswer answer = AccessAnswer::allowed;
  AccessReason reason = AccessReason::none;

  friend constexpr bool operator==(const AccessDecision&, const AccessDecision&) = default;
};

/// Validates the access. `object` is the region or window of the request's key, or nullptr if the key is unknown.
///
/// First, the rights of the QP are checked, regardless of the key. Then an RDMA READ or WRITE of zero bytes is allowed
/// without checking the key (C9-88). This does not apply to FLUSH, whose region is always checked (oA19-13).
constexpr AccessDecision judge_access(const MemoryObject* object, const RemoteAccess& access) {
  const auto refused = [](AccessReason reason) { return AccessDecision{AccessAnswer::remote_access_error, reason}; };
  if (!contains_all(access.queue_pair_rights, access.needed))
    return {AccessAnswer::invalid_request, AccessReason::queue_pair_right};
  const bool flush = contains_any(access.needed, MemoryRights::flush_global | MemoryRights::flush_persistent);
  if (access.length == 0 && !flush) return {};
  if (!object) return refused(AccessReason::unknown_key);
  if (!object->valid) return refused(AccessReason::not_valid);
  if (object->kind != MemoryKind::window_type_2a && object->domain != access.domain)
    return refused(AccessReason::other_domain);
  if (is_window_type_2(object->kind) && object->queue_pair != access.queue_pair)
    return refused(AccessReason::other_queue_pair);
  if (!contains_all(object->rights, access.needed)) return refused(AccessReason::right);
  if (access.whole_region) return {};
  if (access.length > 0 && access.address > UINT64_MAX - (access.length - 1))
    return refused(AccessReason::beyond_address_space);
  return holds(*object, access.address, access.length) ? AccessDecision{} : refused(AccessReason::out_of_bounds);
}

/// Parameters of a window bind. `domain` is the protection domain of the QP.
struct WindowBind {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  MemoryRights rights = MemoryRights::none;
  bool zero_based = false;
  std::uint32_t domain = 0;
};
enum class BindAnswer : std::uint8_t {
  done,
  not_a_window,
  window_in_use,        ///< a type 2 window that is already bound: it must be invalidated first (o10-37.2.30)
  window_other_domain,  ///< the window is not in the QP's protection domain: C10-72
  no_region,            ///< the region is missing. Length 0 counts as missing for a type 2 window: o10-37.2.40
                        ///< o10-37.2.40
  zero_based_type_1,    ///< a type 1 window cannot be zero-based: o10-36.2.2
  zero_based_region,    ///< zero-based regions do not allow windows
  region_not_valid,
  region_other_domain,
  region_not_bindable,  ///< the region does not allow binding: C10-73
  region_not_writable,  ///< a window with write access requires that the region permits local writes: C10-74
  out_of_bounds,        ///< the window would exceed the region: C10-75
};

/// Validates a bind. A length of 0 unbinds a type 1 window. `region` is nullptr if it does not exist.
constexpr BindAnswer judge_bind(const MemoryObject& window, const MemoryObject* region, const WindowBind& bind) {
  if (!is_window(window.kind)) return BindAnswer::not_a_window;
  if (is_window_type_2(window.kind)) {
    if (window.valid) return BindAnswer::window_in_use;
    if (window.domain != bind.domain) return BindAnswer::window_other_domain;
    if (!region || bind.length == 0) return BindAnswer::no_region;
  } else {
    if (window.domain != bind.domain) return BindAnswer::window_other_domain;
    if (bind.zero_based) return BindAnswer::zero_based_type_1;
    if (bind.length == 0) return BindAnswer::done;
    if (!region) return BindAnswer::no_region;
  }
  if (is_window(region->kind) || !region->valid) return BindAnswer::region_not_valid;
  if (region->domain != window.domain) return BindAnswer::region_other_domain;
  if (region->zero_based) return BindAnswer::zero_based_region;
  if (!contains_all(region->rights, MemoryRights::bind)) return BindAnswer::region_not_bindable;
  if (contains_any(bind.rights, MemoryRights::remote_write | MemoryRights::remote_atomic) &&
      !contains_all(region->rights, MemoryRights::local_write))
    return BindAnswer::region_not_writable;
  return holds(*region, bind.address, bind.length) ? BindAnswer::done : BindAnswer::out_of_bounds;
}

enum class InvalidateAnswer : std::uint8_t {
  done,
  unknown_key,
  not_valid,       ///< already invalid
  window_type_1,   ///< a type 1 window cannot be invalidated: o10-37.2.26
  region_of_user,  ///< only regions of fast registration can be invalidated: o10-37.2.13, o10-37.2.17
  windows_bound,   ///< windows are bound to the region: 10.6.7.2.6
  other_domain,
  other_queue_pair,  ///< a type 2 window that is bound to another QP
};

/// Validates a local invalidate, or a SEND with Invalidate. `domain` is the protection domain of the QP.
constexpr InvalidateAnswer judge_invalidate(const MemoryObject* object, std::uint32_t domain,
                                            std::uint32_t queue_pair) {
  if (!object) return InvalidateAnswer::unknown_key;
  if (object->kind == MemoryKind::window_type_1) return InvalidateAnswer::window_type_1;
  if (object->kind == MemoryKind::region) return InvalidateAnswer::region_of_user;
  if (!object->valid) return InvalidateAnswer::not_valid;
  if (object->kind != MemoryKind::window_type_2a && object->domain != domain) return InvalidateAnswer::other_domain;
  if (is_window_type_2(object->kind) && object->queue_pair != queue_pair) return InvalidateAnswer::other_queue_pair;
  return object->windows ? InvalidateAnswer::windows_bound : InvalidateAnswer::done;
}

}  // namespace rdmawire::machines
