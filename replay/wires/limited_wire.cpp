#include "replay/wires/limited_wire.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rdmawire::replay {
namespace {

constexpr std::size_t address_bytes = 6;
constexpr std::uint64_t group_bit = 1ULL << 40;

}  // namespace

LimitedWire::LimitedWire(Wire& next, SendLimits restraint) : ForwardingWire(next), restraint_(std::move(restraint)) {
  constexpr std::int64_t second = 1'000'000'000;
  if (restraint_.frames_per_second != 0) interval_ = std::max<std::int64_t>(1, second / restraint_.frames_per_second);
}

bool LimitedWire::may_go(Bytes frame) const {
  if (frame.size() < address_bytes) return true;  // the wire itself reports the invalid length
  const std::uint64_t destination = load_be(frame.data(), address_bytes);
  if ((destination & group_bit) != 0) return restraint_.groups;
  const auto& allowed = restraint_.destinations;
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), destination) != allowed.end();
}

WireResult<std::size_t> LimitedWire::send(std::span<const Outgoing> frames) {
  std::vector<Outgoing> spaced;
  std::vector<std::int64_t> due_after;
  std::int64_t due = due_;
  for (const Outgoing& frame : frames) {
    if (!may_go(frame.frame)) break;
    spaced.push_back(frame);
    if (interval_ == 0) continue;
    // A frame may be sent earlier than at the even interval, by at most `burst` intervals.
    const std::int64_t asked = std::max(frame.time, now());
    const std::int64_t leaves = std::max(asked, due - interval_ * std::int64_t{restraint_.burst});
    if (leaves > asked) spaced.back().time = leaves;
    due = std::max(due, leaves) + interval_;
    due_after.push_back(due);
  }
  if (spaced.empty() && !frames.empty()) {
    const std::uint64_t destination = load_be(frames.front().frame.data(), address_bytes);
    return tl::unexpected(
        WireError{WireError::Kind::forbidden, 0,
                  fmt::format("{}: frame to {:012x} refused: {}", name(), destination,
                              (destination & group_bit) != 0 ? "broadcast and multicast are not permitted"
                                                             : "the address is not in the allow-list")});
  }
  auto sent = next().send(spaced);
  if (sent && interval_ != 0 && *sent > 0) due_ = due_after[*sent - 1];
  return sent;
}

}  // namespace rdmawire::replay
