#include "conformance/device/roce/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/roce/decisions.hpp"

namespace rdmawire::device {

namespace {

machines::MemoryRights rights_of(std::uint32_t bits) {
  using enum machines::MemoryRights;
  auto rights = none;
  const auto add = [&](std::uint32_t bit, machines::MemoryRights right) {
    if ((bits & bit) != 0) rights = rights | right;
  };
  add(access::local_write, local_write);
  add(access::remote_write, remote_write);
  add(access::remote_read, remote_read);
  add(access::remote_atomic, remote_atomic);
  add(access::flush_global, flush_global);
  add(access::flush_persistent, flush_persistent);
  add(access::mw_bind, bind);
  return rights;
}

/// True if the rights include a remote write or atomic, but the region lacks the local write that they
/// require. 11.2.8.2, 10.6.3.
constexpr bool grants_what_it_lacks(std::uint32_t rights, std::uint32_t region) {
  return (rights & (access::remote_write | access::remote_atomic)) != 0 && (region & access::local_write) == 0;
}

}  // namespace

Result<std::uint64_t> Memory::allocate(std::uint64_t bytes) {
  if (bytes == 0) return refuse(EINVAL, "alloc: the size must not be 0");
  if (bytes > max_bytes - allocated_)
    return refuse(ENOMEM,
                  fmt::format("alloc: {} bytes requested, {} in use; the limit is {}", bytes, allocated_, max_bytes));
  const std::uint64_t address = next_address_;
  next_address_ += (bytes + page - 1) / page * page + page;
  pieces_[address].bytes.resize(bytes);
  allocated_ += bytes;
  return address;
}

bool Memory::release(std::uint64_t address) {
  const auto found = pieces_.find(address);
  if (found == pieces_.end()) return false;
  allocated_ -= found->second.bytes.size();
  pieces_.erase(found);
  return true;
}

MutableBytes Memory::at(std::uint64_t address, std::uint64_t bytes) {
  auto found = pieces_.upper_bound(address);
  if (found == pieces_.begin()) return {};
  --found;
  std::vector<std::uint8_t>& piece = found->second.bytes;
  if (!inside(address, bytes, found->first, piece.size())) return {};
  return MutableBytes(piece).subspan(address - found->first, bytes);
}

void Memory::clear() {
  pieces_.clear();
  regions_.clear();
  windows_.clear();
  allocated_ = 0;
}

std::size_t Memory::windows_of(std::uint32_t qpn) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(windows_, [&](const auto& entry) { return entry.second.qpn == qpn; }));
}

void Memory::unbind_windows_of(std::uint32_t qpn) {
  for (auto& entry : windows_)
    if (entry.second.qpn == qpn) unbind(entry.second);
}

bool Memory::key_in_use(std::uint32_t key) const {
  const auto same = [&](const auto& entry) { return entry.second.key >> 8 == key >> 8; };
  for (const auto& entry : regions_)
    if (same(entry)) return true;
  for (const auto& entry : windows_)
    if (same(entry)) return true;
  return false;
}

std::uint32_t Memory::new_key() {
  for (;;) {
    last_key_ = decisions_.propose_key(random_, last_key_);
    if (last_key_ >> 8 != 0 && !key_in_use(last_key_)) return last_key_;
  }
}

Result<Region*> Memory::register_region(std::uint32_t handle, std::uint32_t pd, std::uint64_t address,
                                        std::uint64_t bytes, std::uint64_t iova, std::uint32_t rights) {
  if (bytes != 0 && at(address, bytes).empty())
    return refuse(EFAULT, fmt::format("reg_mr: {} bytes at 0x{:x} are not all allocated", bytes, address));
  if (grants_what_it_lacks(rights, rights))
    return refuse(EINVAL, "reg_mr: access: remote_write and remote_atomic require local_write");
  if (bytes != 0 && iova + (bytes - 1) < iova)
    return refuse(EINVAL, fmt::format("reg_mr: iova 0x{:x}: a range of {} bytes wraps around", iova, bytes));
  Region region;
  region.handle = handle;
  region.pd = pd;
  region.address = address;
  region.length = bytes;
  region.iova = (rights & access::zero_based) != 0 ? 0 : iova;
  region.key = new_key();
  region.rights = rights;
  return &(regions_[handle] = region);
}

Result<Region*> Memory::allocate_region(std::uint32_t handle, std::uint32_t pd, std::uint64_t bytes) {
  Region region;
  region.handle = handle;
  region.pd = pd;
  region.kind = RegionKind::fast;
  region.valid = false;
  region.most = bytes;
  region.key = new_key();
  return &(regions_[handle] = region);
}

Result<void> Memory::deregister(std::uint32_t handle) {
  const auto found = regions_.find(handle);
  if (found == regions_.end()) return refuse(ENOENT, fmt::format("dereg_mr: unknown region {}", handle));
  if (!decisions_.may_deregister(found->second))
    return refuse(EBUSY, fmt::format("dereg_mr: region {} has {} bound windows", handle, found->second.windows));
  decisions_.remove_region(*this, handle);
  return {};
}

Result<Window*> Memory::allocate_window(std::uint32_t handle, std::uint32_t pd, std::uint8_t type) {
  if (type != 1 && type != 2) return refuse(EINVAL, fmt::format("alloc_mw: type {}: allowed are 1 and 2", type));
  Window window;
  window.handle = handle;
  window.pd = pd;
  window.type = type;
  window.key = new_key();
  return &(windows_[handle] = window);
}

Result<void> Memory::release_window(std::uint32_t handle) {
  const auto found = windows_.find(handle);
  if (found == windows_.end()) return refuse(ENOENT, fmt::format("dealloc_mw: unknown window {}", handle));
  unbind(found->second);
  windows_.erase(found);
  return {};
}

Region* Memory::region(std::uint32_t handle) {
  const auto found = regions_.find(handle);
  return found == regions_.end() ? nullptr : &found->second;
}

Window* Memory::window(std::uint32_t handle) {
  const auto found = windows_.find(handle);
  return found == windows_.end() ? nullptr : &found->second;
}

bool Memory::uses(std::uint32_t pd) const {
  return std::ranges::any_of(regions_,
                             [&](const auto& entry) { return entry.second.pd == pd && !entry.second.stale; }) ||
         std::ranges::any_of(windows_, [&](const auto& entry) { return entry.second.pd == pd; });
}

Region* Memory::region_by_key(std::uint32_t key) {
  for (auto& entry : regions_)
    if (decisions_.is_key(entry.second.key, key)) return &entry.second;
  return nullptr;
}

Window* Memory::window_by_key(std::uint32_t key) {
  for (auto& entry : windows_)
    if (decisions_.is_key(entry.second.key, key)) return &entry.second;
  return nullptr;
}

void Memory::unbind(Window& window) {
  if (Region* bound = region(window.region)) --bound->windows;
  window.region = window.qpn = 0;
}

machines::MemoryObject Memory::object_of(const Region& region) const {
  return {.kind = region.kind == RegionKind::fast ? machines::MemoryKind::fast_region : machines::MemoryKind::region,
          .valid = region.valid,
          .domain = region.pd,
          .rights = rights_of(region.rights),
          .zero_based = (region.rights & access::zero_based) != 0,
          .base = region.iova,
          .length = region.length,
          .windows = region.windows};
}

machines::MemoryObject Memory::object_of(const Window& window) const {
  return {.kind = window.type == 2 ? machines::MemoryKind::window_type_2b : machines::MemoryKind::window_type_1,
          .valid = window.region != 0,
          .domain = window.pd,
          .queue_pair = window.qpn,
          .rights = rights_of(window.rights),
          .base = window.address,
          .length = window.length};
}

std::optional<machines::MemoryObject> Memory::object_of_key(std::uint32_t key, Region*& region) {
  region = region_by_key(key);
  if (region) return object_of(*region);
  const Window* window = window_by_key(key);
  if (!window) return std::nullopt;
  region = this->region(window->region);
  machines::MemoryObject object = object_of(*window);
  if (!region || !region->valid) object.valid = false;
  if (region) object.rights = rights_of(decisions_.rights_of_window(*window, *region));
  return object;
}

Memory::Opened Memory::open(const Accessor& accessor, std::uint32_t rkey, std::uint64_t va, std::uint64_t bytes,
                            std::uint32_t rights, bool whole_region) {
  Region* region = nullptr;
  const auto object = object_of_key(rkey, region);
  const machines::AccessDecision decision =
      decisions_.judge_access(object ? &*object : nullptr, {.address = va,
                                                            .length = bytes,
                                                            .needed = rights_of(rights),
                                                            .domain = accessor.pd,
                                                            .queue_pair = accessor.qpn,
                                                            .queue_pair_rights = rights_of(access::all),
                                                            .whole_region = whole_region});
  if (decision.answer != machines::AccessAnswer::allowed || !region) return {.decision = decision};
  return {.address = region->address + (va - region->iova), .decision = decision};
}

std::optional<std::uint64_t> Memory::local(std::uint32_t pd, const Sge& sge, bool writes) {
  const Region* found = region_by_key(sge.lkey);
  if (!found || !found->valid || found->pd != pd) return std::nullopt;
  if (writes && (found->rights & access::local_write) == 0) return std::nullopt;
  if (!inside(sge.address, sge.length, found->iova, found->length)) return std::nullopt;
  return found->address + (sge.address - found->iova);
}

Status Memory::bind(const SendRequest& request, std::uint32_t pd, std::uint32_t qpn) {
  Window* bound = window(request.window);
  Region* onto = region(request.region);
  if (!bound) return Status::bind;
  const bool unbinds = bound->type == 1 && request.bytes_bound == 0;
  std::optional<machines::MemoryObject> target;
  if (onto) target = object_of(*onto);
  const auto answer = decisions_.judge_bind(object_of(*bound), target ? &*target : nullptr,
                                            {.address = request.address,
                                             .length = request.bytes_bound,
                                             .rights = rights_of(request.rights),
                                             .zero_based = (request.rights & access::zero_based) != 0,
                                             .domain = pd});
  if (answer != machines::BindAnswer::done) return Status::bind;
  unbind(*bound);
  // The key of a type 1 window was assigned when the request was posted. The application chooses the low byte of
  // type 2.
  bound->key = bound->type == 1 ? request.new_key : (bound->key & ~0xffU) | (request.new_key & 0xff);
  if (unbinds) return Status::success;
  bound->region = onto->handle;
  bound->qpn = bound->type == 2 ? qpn : 0;
  bound->address = request.address;
  bound->length = request.bytes_bound;
  bound->rights = request.rights;
  ++onto->windows;
  return Status::success;
}

Status Memory::fast_register(const SendRequest& request, std::uint32_t pd) {
  Region* onto = region(request.region);
  if (!onto || onto->kind != RegionKind::fast || onto->pd != pd || onto->valid) return Status::bind;
  if (request.bytes_bound > onto->most || grants_what_it_lacks(request.rights, request.rights) ||
      (request.bytes_bound != 0 && at(request.address, request.bytes_bound).empty()))
    return Status::bind;
  onto->key = (onto->key & ~0xffU) | (request.new_key & 0xff);
  onto->address = request.address;
  onto->length = request.bytes_bound;
  onto->iova = request.iova;
  onto->rights = request.rights;
  decisions_.make_valid(*onto);
  return Status::success;
}

bool Memory::may_invalidate(std::uint32_t key, const Accessor& accessor) {
  const Region* region = region_by_key(key);
  const Window* window = window_by_key(key);
  std::optional<machines::MemoryObject> object;
  if (region) object = object_of(*region);
  if (window) object = object_of(*window);
  return decisions_.judge_invalidate(object ? &*object : nullptr, accessor.pd, accessor.qpn) ==
         machines::InvalidateAnswer::done;
}

void Memory::invalidate(std::uint32_t key) {
  if (Region* region = region_by_key(key)) region->valid = false;
  if (Window* window = window_by_key(key)) unbind(*window);
}

Status Memory::invalidate_local(std::uint32_t key, const Accessor& accessor) {
  if (!may_invalidate(key, accessor)) return Status::bind;
  decisions_.invalidate_local(*this, key);
  return Status::success;
}

bool Memory::invalidate_remote(std::uint32_t rkey, const Accessor& accessor) {
  if (!may_invalidate(rkey, accessor)) return false;
  decisions_.invalidate_remote(*this, rkey);
  return true;
}

namespace conforming {

bool may_deregister(const Region& region) { return region.windows == 0; }

void remove_region(Memory& memory, std::uint32_t handle) { memory.regions().erase(handle); }

bool is_key(std::uint32_t own, std::uint32_t key) { return own == key; }

std::uint32_t propose_key(Random& random, std::uint32_t /*last*/) { return random.bits(32); }

std::uint32_t rights_of_window(const Window& window, const Region& /*region*/) { return window.rights; }

machines::AccessDecision judge_access(const machines::MemoryObject* object, const machines::RemoteAccess& access) {
  return machines::judge_access(object, access);
}

machines::BindAnswer judge_bind(const machines::MemoryObject& window, const machines::MemoryObject* region,
                                const machines::WindowBind& bind) {
  return machines::judge_bind(window, region, bind);
}

void make_valid(Region& region) { region.valid = true; }

machines::InvalidateAnswer judge_invalidate(const machines::MemoryObject* object, std::uint32_t domain,
                                            std::uint32_t queue_pair) {
  return machines::judge_invalidate(object, domain, queue_pair);
}

void invalidate_local(Memory& memory, std::uint32_t key) { memory.invalidate(key); }

void invalidate_remote(Memory& memory, std::uint32_t key) { memory.invalidate(key); }

}  // namespace conforming

}  // namespace rdmawire::device
