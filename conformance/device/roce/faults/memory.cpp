/// Faults of application memory and its keys.

#include "conformance/device/roce/memory.hpp"

#include "conformance/device/roce/faults/overrides.hpp"

namespace rdmawire::device {

namespace {

using machines::AccessDecision;
using machines::BindAnswer;
using machines::InvalidateAnswer;
using machines::MemoryObject;
using machines::RemoteAccess;
using machines::WindowBind;

/// Decide on an access after `change`, which is called only if the key is known.
template <void (*change)(MemoryObject&, RemoteAccess&)>
AccessDecision judge_access_of(const decltype(MemoryDecisions::judge_access)::Next& next, const MemoryObject* object,
                               const RemoteAccess& access) {
  if (!object) return next(object, access);
  MemoryObject changed_object = *object;
  RemoteAccess changed_access = access;
  change(changed_object, changed_access);
  return next(&changed_object, changed_access);
}

void same_domain(MemoryObject& object, RemoteAccess& access) { access.domain = object.domain; }
void same_queue_pair(MemoryObject& object, RemoteAccess& access) { access.queue_pair = object.queue_pair; }
void needed_rights(MemoryObject& object, RemoteAccess& access) { object.rights = access.needed; }
void one_byte_shorter(MemoryObject& object, RemoteAccess& /*access*/) {
  if (object.length != 0) --object.length;
}
void other_queue_pair(MemoryObject& object, RemoteAccess& access) {
  if (object.queue_pair != 0) access.queue_pair = object.queue_pair + 1;
}
void one_byte_longer(MemoryObject& object, RemoteAccess& /*access*/) { ++object.length; }
void ends_after_wrap(MemoryObject& object, RemoteAccess& access) {
  if (access.address + access.length < access.address) access.address = object.base;
}

template <InvalidateAnswer accepted>
InvalidateAnswer accept_invalidate(const decltype(MemoryDecisions::judge_invalidate)::Next& next,
                                   const MemoryObject* object, std::uint32_t domain, std::uint32_t queue_pair) {
  const InvalidateAnswer answer = next(object, domain, queue_pair);
  return answer == accepted ? InvalidateAnswer::done : answer;
}

constexpr FaultOverride memory_rows[] = {
    // Remote access
    {Fault::ignores_protection_domains,
     [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<same_domain>); }},
    {Fault::ignores_window_queue_pairs,
     [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<same_queue_pair>); }},
    {Fault::ignores_region_rights,
     [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<needed_rights>); }},
    {Fault::bounds_off_by_one,
     [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<one_byte_longer>); }},
    {Fault::refuses_last_byte,
     [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<one_byte_shorter>); }},
    {Fault::refuses_windows,
     [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<other_queue_pair>); }},
    {Fault::bounds_wrap, [](Decisions& d) { d.memory.judge_access.override_with(judge_access_of<ends_after_wrap>); }},
    {Fault::windows_grant_their_regions_rights,
     [](Decisions& d) {
       d.memory.rights_of_window.override_with(
           [](const auto& /*next*/, const Window& /*window*/, const Region& region) { return region.rights; });
     }},
    // Regions and windows
    {Fault::deregisters_bound_regions,
     [](Decisions& d) {
       d.memory.may_deregister.override_with([](const auto& /*next*/, const Region& /*region*/) { return true; });
     }},
    {Fault::binds_anything,
     [](Decisions& d) {
       d.memory.judge_bind.override_with(
           [](const auto& next, const MemoryObject& window, const MemoryObject* region, const WindowBind& bind) {
             return region ? BindAnswer::done : next(window, region, bind);
           });
     }},
    {Fault::bind_range_wraps,
     [](Decisions& d) {
       d.memory.judge_bind.override_with(
           [](const auto& next, const MemoryObject& window, const MemoryObject* region, const WindowBind& bind) {
             const std::uint64_t end = bind.address + bind.length;
             const bool wraps =
                 region && bind.address >= region->base && end < bind.address && end <= region->base + region->length;
             return wraps ? BindAnswer::done : next(window, region, bind);
           });
     }},
    {Fault::fast_register_does_nothing,
     [](Decisions& d) { d.memory.make_valid.override_with([](const auto& /*next*/, Region& /*region*/) {}); }},
    // Invalidation
    {Fault::invalidates_type_1_windows,
     [](Decisions& d) { d.memory.judge_invalidate.override_with(accept_invalidate<InvalidateAnswer::window_type_1>); }},
    {Fault::invalidates_consumer_regions,
     [](Decisions& d) {
       d.memory.judge_invalidate.override_with(accept_invalidate<InvalidateAnswer::region_of_user>);
     }},
    {Fault::invalidates_unknown_keys,
     [](Decisions& d) { d.memory.judge_invalidate.override_with(accept_invalidate<InvalidateAnswer::unknown_key>); }},
    {Fault::local_invalidate_does_nothing,
     [](Decisions& d) {
       d.memory.invalidate_local.override_with([](const auto& /*next*/, Memory& /*memory*/, std::uint32_t /*key*/) {});
     }},
    {Fault::send_invalidate_does_nothing,
     [](Decisions& d) {
       d.memory.invalidate_remote.override_with([](const auto& /*next*/, Memory& /*memory*/, std::uint32_t /*key*/) {});
     }},
};

}  // namespace

std::span<const FaultOverride> memory_overrides() { return memory_rows; }

}  // namespace rdmawire::device
