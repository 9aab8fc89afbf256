#include "replay/reactive/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rdmawire::replay::reactive {
namespace {

using tracking::MessageKind;

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t slot_unit = 64;

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// True if the message accesses a memory region of the peer and was not rejected.
bool touches(const Message& message) { return message.has_remote && !message.refused && message.length > 0; }

struct Extent {
  std::uint64_t from = UINT64_MAX, to = 0;
};

}  // namespace

std::uint64_t after_atomic(const Message& message, std::uint64_t original) {
  if (message.kind == MessageKind::fetch_add) return original + message.operand;
  return original == message.compare ? message.operand : original;
}

ByteVector atomic_bytes(std::uint64_t value) {
  ByteVector bytes(8);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
  return bytes;
}

std::optional<std::size_t> MemoryPlan::poke_of(std::size_t message) const {
  const auto found = std::lower_bound(pokes.begin(), pokes.end(), message,
                                      [](const Poke& one, std::size_t index) { return one.message < index; });
  if (found == pokes.end() || found->message != message) return std::nullopt;
  return static_cast<std::size_t>(found - pokes.begin());
}

tl::expected<MemoryPlan, std::string> plan_memory(const Exchange& exchange, std::uint64_t max_bytes) {
  MemoryPlan plan;
  std::uint64_t bytes = 0;
  const auto too_much = [&](const std::string& what) {
    return tl::unexpected(fmt::format(
        "{}: the replay requires more than {} bytes of device memory; replay a smaller part", what, max_bytes));
  };
  std::map<std::uint32_t, Extent> extents;
  for (const Message& message : exchange.ours.messages) {
    if (!touches(message)) continue;
    Extent& extent = extents[message.key];
    if (message.remote_address > UINT64_MAX - message.length - page)
      return tl::unexpected(fmt::format("frame {}: address {:#x} and length {} exceed the address space",
                                        message.first_frame, message.remote_address, message.length));
    extent.from = std::min(extent.from, message.remote_address / page * page);
    extent.to = std::max(extent.to, message.remote_address + message.length);
  }
  for (const auto& [key, extent] : extents) {
    const std::uint64_t size = rounded(extent.to - extent.from, page);
    if (size > max_bytes - bytes) return too_much(fmt::format("the region with key {:#x}", key));
    bytes += size;
    plan.regions.push_back(
        {.key = key, .base = extent.from, .initial = ByteVector(size), .expected = ByteVector(size), .known = {}});
    plan.regions.back().known.resize(size);
  }

  for (std::size_t i = 0; i < exchange.ours.messages.size(); ++i) {
    const Message& message = exchange.ours.messages[i];
    if (message.takes_receive() && !message.refused) {
      const std::uint32_t length = message.kind == MessageKind::send ? message.length : 0;
      plan.inbox[i] = {plan.inbox_bytes, length};
      plan.inbox_bytes += rounded(std::max<std::uint64_t>(length, 1), slot_unit);
    }
    if (!touches(message)) continue;
    const auto found = std::find_if(plan.regions.begin(), plan.regions.end(),
                                    [&](const PlannedRegion& one) { return one.key == message.key; });
    PlannedRegion& region = *found;
    const std::uint64_t offset = message.remote_address - region.base;
    if (message.kind == MessageKind::write) {
      for (std::size_t k = 0; k < message.payload.size(); ++k) {
        region.expected[offset + k] = message.payload[k];
        region.known[offset + k] = true;
      }
      continue;
    }
    if (!message.has_answer) continue;
    const ByteVector there = message.is_atomic() ? atomic_bytes(message.original) : message.payload;
    bool poked = false;
    for (std::size_t k = 0; k < there.size(); ++k) {
      if (!region.known[offset + k]) region.initial[offset + k] = region.expected[offset + k] = there[k];
      poked = poked || region.expected[offset + k] != there[k];
      region.known[offset + k] = true;
    }
    if (poked) {
      plan.pokes.push_back({i, static_cast<std::size_t>(found - plan.regions.begin()), offset, there});
      std::copy(there.begin(), there.end(), region.expected.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    if (message.is_atomic()) {
      const ByteVector left = atomic_bytes(after_atomic(message, message.original));
      std::copy(left.begin(), left.end(), region.expected.begin() + static_cast<std::ptrdiff_t>(offset));
    }
  }
  for (const Message& message : exchange.theirs.messages) {
    plan.outbox.push_back({plan.outbox_bytes, message.length});
    plan.outbox_bytes += rounded(std::max<std::uint64_t>(message.length, 1), slot_unit);
  }
  if (plan.inbox_bytes > max_bytes - bytes || plan.outbox_bytes > max_bytes - bytes - plan.inbox_bytes)
    return too_much("send and receive buffers");
  return plan;
}

}  // namespace rdmawire::replay::reactive
