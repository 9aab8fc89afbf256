#pragma once
/// Decisions about application memory and its keys: memory.cpp. See decisions.hpp.

#include <cstdint>

#include "conformance/device/common/overridable.hpp"
#include "dissectors/machines/memory_access.hpp"

namespace rdmawire::device {

class Memory;
class Random;
struct Region;
struct Window;

namespace conforming {

/// True if the region may be deregistered, because no windows are bound to it. 10.6.7.2.6.
bool may_deregister(const Region& region);
/// Remove a deregistered region, whose key is no longer valid. 10.6.5.
void remove_region(Memory& memory, std::uint32_t handle);
/// True if `key` is the key `own` of a region or window: all 32 bits are equal.
bool is_key(std::uint32_t own, std::uint32_t key);
/// Return a random key for a region or window. `last`: the previously returned key. RFC 5040, 8.1.1.
std::uint32_t propose_key(Random& random, std::uint32_t last);
/// Return the rights of a window, which are those of its bind. C10-77. `region`: the region of the window.
std::uint32_t rights_of_window(const Window& window, const Region& region);
/// Return the decision about an access with a remote key. `object`: the key's region or window. nullptr: there is none.
/// 9.7.4.1.5.
machines::AccessDecision judge_access(const machines::MemoryObject* object, const machines::RemoteAccess& access);
/// Return the decision about a bind. `region`: nullptr if there is none. C10-72 to C10-75.
machines::BindAnswer judge_bind(const machines::MemoryObject& window, const machines::MemoryObject* region,
                                const machines::WindowBind& bind);
/// Make the key of a fast registration valid. 10.6.3.7.
void make_valid(Region& region);
/// Return the decision about an invalidation by a queue pair. o10-37.2.13, o10-37.2.17, o10-37.2.26.
machines::InvalidateAnswer judge_invalidate(const machines::MemoryObject* object, std::uint32_t domain,
                                            std::uint32_t queue_pair);
/// Invalidate the key of a local invalidate. 10.6.5.
void invalidate_local(Memory& memory, std::uint32_t key);
/// Invalidate the key of a SEND with Invalidate. 9.4.1.1.3.
void invalidate_remote(Memory& memory, std::uint32_t key);

}  // namespace conforming

/// Decisions about application memory.
struct MemoryDecisions {
  Overridable<bool(const Region&)> may_deregister = conforming::may_deregister;
  Overridable<void(Memory&, std::uint32_t)> remove_region = conforming::remove_region;
  Overridable<bool(std::uint32_t, std::uint32_t)> is_key = conforming::is_key;
  Overridable<std::uint32_t(Random&, std::uint32_t)> propose_key = conforming::propose_key;
  Overridable<std::uint32_t(const Window&, const Region&)> rights_of_window = conforming::rights_of_window;
  Overridable<machines::AccessDecision(const machines::MemoryObject*, const machines::RemoteAccess&)> judge_access =
      conforming::judge_access;
  Overridable<machines::BindAnswer(const machines::MemoryObject&, const machines::MemoryObject*,
                                   const machines::WindowBind&)>
      judge_bind = conforming::judge_bind;
  Overridable<void(Region&)> make_valid = conforming::make_valid;
  Overridable<machines::InvalidateAnswer(const machines::MemoryObject*, std::uint32_t, std::uint32_t)>
      judge_invalidate = conforming::judge_invalidate;
  Overridable<void(Memory&, std::uint32_t)> invalidate_local = conforming::invalidate_local;
  Overridable<void(Memory&, std::uint32_t)> invalidate_remote = conforming::invalidate_remote;
};

}  // namespace rdmawire::device
