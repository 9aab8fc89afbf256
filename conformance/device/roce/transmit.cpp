/// Transmission: control packets first, then packets of the queue pairs in turn.

#include <algorithm>

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint64_t line_overhead = 24;  ///< preamble, frame check sequence and interframe gap

std::optional<OutgoingPacket> next_of(Core& core, QueuePair& qp) {
  if (auto packet = next_answer(core, qp)) return packet;
  return qp.is_reliable() ? next_request(core, qp) : next_unreliable(core, qp);
}

void pace(Core& core, QueuePair& qp, std::uint64_t bytes) {
  qp.rate = core.decisions.congestion.rate_now(core, qp);
  qp.next_send = qp.rate.is_limited() ? core.now + machines::spacing(qp.rate, bytes) : 0;
}

/// Return the next control packet. If there is none, return a packet of the next queue pair after the last sender.
std::optional<std::vector<std::uint8_t>> next_frame(Core& core) {
  while (!core.control.empty()) {
    const OutgoingPacket packet = std::move(core.control.front());
    core.control.pop_front();
    if (auto frame = make_frame(packet, core.port, core.decisions.encoding)) return frame;
  }
  auto turn = core.qps.upper_bound(core.last_sender);
  for (std::size_t tried = 0; tried < core.qps.size(); ++tried, ++turn) {
    if (turn == core.qps.end()) turn = core.qps.begin();
    QueuePair& qp = turn->second;
    const auto packet = next_of(core, qp);
    if (!packet) continue;
    core.last_sender = qp.qpn;
    auto frame = make_frame(*packet, core.port, core.decisions.encoding);
    if (!frame) return std::vector<std::uint8_t>{};  // lost, because the destination's MAC address is unknown
    pace(core, qp, frame->size());
    return frame;
  }
  return std::nullopt;
}

}  // namespace

void transmit(Core& core, std::vector<std::vector<std::uint8_t>>& frames) {
  for (auto& [qpn, qp] : core.qps) requester_timers(core, qp);
  cm_timers(core);
  while (core.port_free <= core.now) {
    auto frame = next_frame(core);
    if (!frame) return;
    if (frame->empty()) continue;
    ++core.counters.sent_packets;
    core.counters.sent_bytes += frame->size();
    const std::uint64_t bits = (frame->size() + line_overhead) * 8;
    core.port_free = core.now + std::max<std::int64_t>(
                                    1, static_cast<std::int64_t>(bits * 1'000'000'000 / core.port.bits_per_second));
    frames.push_back(std::move(*frame));
  }
}

std::int64_t next_wake(const Core& core) {
  // Wake up when the port finishes its current frame, because another one may wait.
  std::int64_t next = std::min(core.port_free > core.now ? core.port_free : never, next_cm(core));
  for (const auto& [qpn, qp] : core.qps) {
    next = std::min(next, next_timer(core, qp));
    if (!qp.responder.answers.empty() && qp.next_send > core.now) next = std::min(next, qp.next_send);
  }
  return next;
}

}  // namespace rdmawire::device
