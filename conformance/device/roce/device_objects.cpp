/// Objects of the device other than queue pairs.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/roce/device.hpp"

namespace rdmawire::device {

namespace {

tl::unexpected<Error> no_such(const char* call, const char* what, std::uint32_t handle) {
  return refuse(ENOENT, fmt::format("{}: {}: unknown handle {}", call, what, handle));
}

}  // namespace

Result<void> Device::free(std::uint64_t address) {
  if (!core_.memory.release(address))
    return refuse(ENOENT, fmt::format("free: no allocation starts at 0x{:x}", address));
  return {};
}

Result<std::uint32_t> Device::alloc_pd() {
  const auto handle = new_object("alloc_pd");
  if (handle) core_.pds[*handle] = 0;
  return handle;
}

Result<void> Device::dealloc_pd(std::uint32_t pd) {
  const auto found = core_.pds.find(pd);
  if (found == core_.pds.end()) return no_such("dealloc_pd", "pd", pd);
  if (found->second != 0 || core_.memory.uses(pd)) return refuse(EBUSY, fmt::format("dealloc_pd: {} is in use", pd));
  core_.pds.erase(found);
  --objects_;
  return {};
}

Result<const Region*> Device::reg_mr(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes, std::uint32_t rights,
                                     std::optional<std::uint64_t> iova) {
  if (!core_.pds.contains(pd)) return no_such("reg_mr", "pd", pd);
  if ((rights & ~access::all) != 0) return refuse(EINVAL, fmt::format("reg_mr: access: 0x{:x}", rights));
  const auto handle = new_object("reg_mr");
  if (!handle) return tl::unexpected(handle.error());
  const auto region = core_.memory.register_region(*handle, pd, address, bytes, iova.value_or(address), rights);
  if (!region) {
    --objects_;
    return tl::unexpected(region.error());
  }
  return *region;
}

Result<const Region*> Device::alloc_mr(std::uint32_t pd, std::uint64_t max_bytes) {
  if (!core_.pds.contains(pd)) return no_such("alloc_mr", "pd", pd);
  const auto handle = new_object("alloc_mr");
  if (!handle) return tl::unexpected(handle.error());
  return *core_.memory.allocate_region(*handle, pd, max_bytes);
}

Result<void> Device::dereg_mr(std::uint32_t mr) {
  auto done = core_.memory.deregister(mr);
  if (done) --objects_;
  return done;
}

Result<const Window*> Device::alloc_mw(std::uint32_t pd, std::uint8_t type) {
  if (!core_.pds.contains(pd)) return no_such("alloc_mw", "pd", pd);
  const auto handle = new_object("alloc_mw");
  if (!handle) return tl::unexpected(handle.error());
  const auto window = core_.memory.allocate_window(*handle, pd, type);
  if (!window) {
    --objects_;
    return tl::unexpected(window.error());
  }
  return *window;
}

Result<void> Device::dealloc_mw(std::uint32_t mw) {
  auto done = core_.memory.release_window(mw);
  if (done) --objects_;
  return done;
}

Result<std::uint32_t> Device::create_channel() {
  const auto handle = new_object("create_comp_channel");
  if (handle) core_.channels[*handle].handle = *handle;
  return handle;
}

Result<void> Device::destroy_channel(std::uint32_t channel) {
  if (!core_.channels.contains(channel)) return no_such("destroy_comp_channel", "channel", channel);
  for (const auto& [handle, cq] : core_.cqs)
    if (cq.channel == channel)
      return refuse(EBUSY, fmt::format("destroy_comp_channel: completion queue {} uses it", handle));
  core_.channels.erase(channel);
  --objects_;
  return {};
}

Result<std::uint32_t> Device::create_cq(std::uint32_t capacity, std::uint32_t channel) {
  if (capacity == 0 || capacity > core_.options.most_work)
    return refuse(EINVAL, fmt::format("create_cq: {} entries: allowed are 1 to {}", capacity, core_.options.most_work));
  if (channel != 0 && !core_.channels.contains(channel)) return no_such("create_cq", "channel", channel);
  const auto handle = new_object("create_cq");
  if (!handle) return handle;
  CompletionQueue& cq = core_.cqs[*handle];
  cq.handle = *handle;
  cq.capacity = capacity;
  cq.channel = channel;
  return handle;
}

Result<void> Device::destroy_cq(std::uint32_t cq) {
  if (!core_.cqs.contains(cq)) return no_such("destroy_cq", "cq", cq);
  for (const auto& [qpn, qp] : core_.qps)
    if (core_.decisions.verbs.uses_cq(qp, cq))
      return refuse(EBUSY, fmt::format("destroy_cq: queue pair {} uses {}", qp.handle, cq));
  for (const auto& [handle, srq] : core_.srqs)
    if (srq.cq == cq) return refuse(EBUSY, fmt::format("destroy_cq: shared receive queue {} uses {}", handle, cq));
  const std::uint32_t channel = core_.cqs[cq].channel;
  if (const auto found = core_.channels.find(channel); found != core_.channels.end())
    std::erase(found->second.notified, cq);
  core_.cqs.erase(cq);
  --objects_;
  return {};
}

Result<std::vector<Completion>> Device::poll_cq(std::uint32_t cq, std::size_t most) {
  const auto found = core_.cqs.find(cq);
  if (found == core_.cqs.end()) return no_such("poll_cq", "cq", cq);
  auto& entries = found->second.entries;
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, entries.size()));
  std::vector<Completion> taken(entries.begin(), entries.begin() + count);
  entries.erase(entries.begin(), entries.begin() + count);
  return taken;
}

Result<void> Device::req_notify_cq(std::uint32_t cq, bool solicited_only) {
  const auto found = core_.cqs.find(cq);
  if (found == core_.cqs.end()) return no_such("req_notify_cq", "cq", cq);
  // A request for solicited completions does not replace a request for the next completion: C11-32.
  if (found->second.armed != Notify::next || !solicited_only)
    found->second.armed = solicited_only ? Notify::solicited : Notify::next;
  return {};
}

Result<std::optional<std::uint32_t>> Device::get_cq_event(std::uint32_t channel) {
  const auto found = core_.channels.find(channel);
  if (found == core_.channels.end()) return no_such("get_cq_event", "channel", channel);
  if (found->second.notified.empty()) return std::nullopt;
  const std::uint32_t cq = found->second.notified.front();
  found->second.notified.pop_front();
  return cq;
}

std::optional<AsyncEvent> Device::get_async_event() {
  if (core_.events.empty()) return std::nullopt;
  const AsyncEvent event = core_.events.front();
  core_.events.pop_front();
  return event;
}

Result<std::uint32_t> Device::open_xrcd() {
  if (!core_.options.xrc) return refuse(EOPNOTSUPP, "open_xrcd: the device has no XRC");
  const auto handle = new_object("open_xrcd");
  if (handle) core_.xrcds[*handle] = 0;
  return handle;
}

Result<void> Device::close_xrcd(std::uint32_t xrcd) {
  const auto found = core_.xrcds.find(xrcd);
  if (found == core_.xrcds.end()) return no_such("close_xrcd", "xrcd", xrcd);
  if (found->second != 0) return refuse(EBUSY, fmt::format("close_xrcd: {} is in use", xrcd));
  core_.xrcds.erase(found);
  --objects_;
  return {};
}

Result<std::uint32_t> Device::create_srq(std::uint32_t pd, std::uint32_t capacity, std::uint32_t most_sges,
                                         std::uint32_t limit, std::uint32_t xrcd, std::uint32_t cq) {
  if (!core_.pds.contains(pd)) return no_such("create_srq", "pd", pd);
  if (xrcd != 0 && !core_.xrcds.contains(xrcd)) return no_such("create_srq", "xrcd", xrcd);
  if (xrcd != 0 && !core_.cqs.contains(cq)) return no_such("create_srq", "cq", cq);
  if (capacity == 0 || capacity > core_.options.most_work || most_sges > 256 || limit > capacity)
    return refuse(EINVAL,
                  fmt::format("create_srq: {} requests, {} elements, limit {}: the maximum is {}, 256, and the number "
                              "of requests",
                              capacity, most_sges, limit, core_.options.most_work));
  const auto handle = new_object("create_srq");
  if (!handle) return handle;
  SharedReceiveQueue& srq = core_.srqs[*handle];
  srq.handle = *handle;
  srq.number = *handle & 0xffffff;
  srq.pd = pd;
  srq.capacity = capacity;
  srq.most_sges = most_sges;
  srq.limit = limit;
  srq.xrcd = xrcd;
  srq.cq = xrcd != 0 ? cq : 0;
  ++core_.pds[pd];
  if (xrcd != 0) ++core_.xrcds[xrcd];
  return handle;
}

Result<void> Device::modify_srq(std::uint32_t srq, std::uint32_t limit) {
  SharedReceiveQueue* found = core_.srq(srq);
  if (!found) return no_such("modify_srq", "srq", srq);
  if (limit > found->capacity)
    return refuse(EINVAL,
                  fmt::format("modify_srq: limit {} exceeds the capacity of {} requests", limit, found->capacity));
  found->limit = limit;
  return {};
}

Result<void> Device::destroy_srq(std::uint32_t srq) {
  SharedReceiveQueue* found = core_.srq(srq);
  if (!found) return no_such("destroy_srq", "srq", srq);
  for (const auto& [qpn, qp] : core_.qps)
    if (qp.options.srq == srq || (qp.responder.receive && qp.responder.receive_srq == srq))
      return refuse(EBUSY, fmt::format("destroy_srq: queue pair {} uses {}", qp.handle, srq));
  --core_.pds[found->pd];
  if (found->xrcd != 0) --core_.xrcds[found->xrcd];
  core_.srqs.erase(srq);
  --objects_;
  return {};
}

Result<void> Device::post_srq_recv(std::uint32_t srq, ReceiveRequest request) {
  SharedReceiveQueue* found = core_.srq(srq);
  if (!found) return no_such("post_srq_recv", "srq", srq);
  if (found->requests.size() >= found->capacity)
    return refuse(ENOMEM, fmt::format("post_srq_recv: the queue is full ({} requests)", found->capacity));
  if (request.sges.size() > found->most_sges)
    return refuse(EINVAL,
                  fmt::format("post_srq_recv: {} elements: the maximum is {}", request.sges.size(), found->most_sges));
  found->requests.push_back(std::move(request));
  return {};
}

Result<std::uint32_t> Device::create_ah(std::uint32_t pd, const AddressVector& path) {
  if (!core_.pds.contains(pd)) return no_such("create_ah", "pd", pd);
  if (path.sgid_index >= core_.port.gids.size())
    return refuse(EINVAL, fmt::format("create_ah: sgid_index: the GID table has no entry {}", path.sgid_index));
  const auto handle = new_object("create_ah");
  if (!handle) return handle;
  core_.ahs[*handle] = {*handle, pd, path};
  ++core_.pds[pd];
  return handle;
}

Result<void> Device::destroy_ah(std::uint32_t ah) {
  const auto found = core_.ahs.find(ah);
  if (found == core_.ahs.end()) return no_such("destroy_ah", "ah", ah);
  --core_.pds[found->second.pd];
  core_.ahs.erase(found);
  --objects_;
  return {};
}

Result<void> Device::attach_mcast(std::uint32_t handle, const Gid& gid) {
  const auto qp = find_qp(handle, "attach_mcast");
  if (!qp) return tl::unexpected(qp.error());
  if ((*qp)->options.type != QpType::ud || !gid.is_multicast())
    return refuse(EINVAL, "attach_mcast: requires a UD queue pair and a multicast address");
  auto group = std::ranges::find(core_.groups, gid, &Group::gid);
  if (group == core_.groups.end()) {
    if (core_.groups.size() >= 256) return refuse(ENOMEM, "attach_mcast: the limit of 256 groups is reached");
    group = core_.groups.insert(group, {gid, {}});
  }
  if (std::ranges::find(group->qpns, (*qp)->qpn) != group->qpns.end()) return {};
  group->qpns.push_back((*qp)->qpn);
  ++(*qp)->groups;
  return {};
}

Result<void> Device::detach_mcast(std::uint32_t handle, const Gid& gid) {
  const auto qp = find_qp(handle, "detach_mcast");
  if (!qp) return tl::unexpected(qp.error());
  const auto group = std::ranges::find(core_.groups, gid, &Group::gid);
  if (group == core_.groups.end() || std::erase(group->qpns, (*qp)->qpn) == 0)
    return refuse(EINVAL, fmt::format("detach_mcast: queue pair {} is not attached to the group", handle));
  --(*qp)->groups;
  if (group->qpns.empty()) core_.groups.erase(group);
  return {};
}

}  // namespace rdmawire::device
