/// Blind faults of memory and its keys.

#include "conformance/device/roce/memory.hpp"

#include <algorithm>

#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

using machines::MemoryObject;
using machines::RcRequest;
using machines::RemoteAccess;

constexpr std::string_view memory_area = "memory and keys";
constexpr std::uint64_t page = Memory::page;

constexpr RoceBlindFault blind_memory_rows[] = {
    {.name = "write-address-of-32-bits",
     .area = memory_area,
     .sentence = "The address of the second and later packets of a WRITE is computed with 32 bits.",
     .trigger = "WRITE of two or more packets across a multiple of 4 GiB of the address: an access error NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.advance.override_with(
               [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
                 constexpr std::uint64_t low = 0xffffffff;
                 const std::uint64_t from = request.op->begins_message() ? request.va : qp.responder.state.va;
                 next(qp, request, original);
                 if (request.op->operation == Operation::rdma_write)
                   qp.responder.state.va = (from & ~low) | ((from + request.payload) & low);
               });
         }},
    {.name = "deregistration-ends-overlapping-regions",
     .area = memory_area,
     .sentence = "The deregistration of a region invalidates all regions that share memory with it.",
     .trigger = "two regions over the same bytes, deregistration of one, access through the other: a NAK",
     .add_to =
         [](Decisions& d) {
           d.memory.remove_region.override_with([](const auto& next, Memory& memory, std::uint32_t handle) {
             const Region gone = memory.regions().at(handle);
             next(memory, handle);
             for (auto& [other, region] : memory.regions())
               if (region.address < gone.address + gone.length && gone.address < region.address + region.length)
                 region.valid = false;
           });
         }},
    {.name = "stale-key-after-deregistration",
     .area = memory_area,
     .sentence = "The key of a deregistered region stays valid if a newer region of the protection domain exists.",
     .trigger = "deregistration of the older of two regions, access through its key: no NAK",
     .add_to =
         [](Decisions& d) {
           d.memory.remove_region.override_with([](const auto& next, Memory& memory, std::uint32_t handle) {
             constexpr std::uint32_t unused = 0x80000000;  // no handle of an object has this bit
             Region gone = memory.regions().at(handle);
             next(memory, handle);
             const bool newer = std::ranges::any_of(memory.regions(), [&](const auto& entry) {
               return entry.first > handle && entry.second.pd == gone.pd && !entry.second.stale;
             });
             gone.stale = true;
             if (newer) memory.regions()[handle | unused] = gone;
           });
         }},
    {.name = "second-window-has-rights-of-region",
     .area = memory_area,
     .sentence = "Windows have the rights of their region if two or more are bound to it.",
     .trigger = "two windows on a region, of which one lacks a right: access with this right is accepted",
     .add_to =
         [](Decisions& d) {
           d.memory.rights_of_window.override_with([](const auto& next, const Window& window, const Region& region) {
             return region.windows >= 2 ? region.rights : next(window, region);
           });
         }},
    {.name = "window-length-rounded-to-page",
     .area = memory_area,
     .sentence = "The length of a window is rounded up to 4,096 bytes.",
     .trigger = "access up to 4,095 bytes after the end of a window, inside its region: no NAK",
     .add_to =
         [](Decisions& d) {
           d.memory.judge_access.override_with(
               [](const auto& next, const MemoryObject* object, const RemoteAccess& access) {
                 if (!object || !machines::is_window(object->kind)) return next(object, access);
                 MemoryObject longer = *object;
                 longer.length = (object->length + page - 1) / page * page;
                 return next(&longer, access);
               });
         }},
    {.name = "zero-based-second-page-refused",
     .area = memory_area,
     .sentence = "Only the first page of a zero-based region is accessible.",
     .trigger = "access to offset 4,096 or more of a zero-based region: an access error NAK",
     .add_to =
         [](Decisions& d) {
           d.memory.judge_access.override_with(
               [](const auto& next, const MemoryObject* object, const RemoteAccess& access) {
                 if (!object || !object->zero_based) return next(object, access);
                 MemoryObject shorter = *object;
                 shorter.length = std::min(object->length, page);
                 return next(&shorter, access);
               });
         }},
    {.name = "fast-registration-drops-page-offset",
     .area = memory_area,
     .sentence = "A fast registration ignores the offset of its address in the page.",
     .trigger = "fast registration with an address that is not a multiple of 4,096: access to its last bytes fails",
     .add_to =
         [](Decisions& d) {
           d.memory.make_valid.override_with([](const auto& next, Region& region) {
             next(region);
             region.iova -= region.iova % page;
           });
         }},
    {.name = "last-packet-stops-at-page",
     .area = memory_area,
     .sentence = "The last packet of a WRITE is stored only up to the end of the page in which it starts.",
     .trigger = "WRITE of two or more packets whose last packet crosses a multiple of 4,096: bytes are missing",
     .add_to =
         [](Decisions& d) {
           d.responder.place_write.override_with(
               [](const auto& next, MutableBytes to, Bytes payload, const RcRequest& request, std::uint64_t va) {
                 const std::size_t left = page - va % page;
                 const bool last = request.op->position == Position::last;
                 next(to, last ? payload.first(std::min(left, payload.size())) : payload, request, va);
               });
         }},
    {.name = "key-byte-ignored",
     .area = memory_area,
     .sentence = "The low byte of a key is ignored.",
     .trigger = "access through a key whose low byte differs, for example the key before the last bind: no NAK",
     .add_to =
         [](Decisions& d) {
           d.memory.is_key.override_with(
               [](const auto& /*next*/, std::uint32_t own, std::uint32_t key) { return own >> 8 == key >> 8; });
         }},
};

}  // namespace

std::span<const RoceBlindFault> memory_blind_faults() { return blind_memory_rows; }

}  // namespace rdmawire::device
