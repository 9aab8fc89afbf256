#include "dissectors/tracking/mrc_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::tracking {
namespace {

constexpr std::uint32_t psn_mask = 0xffffff, icrc_size = 4;

std::uint32_t distance(std::uint32_t from, std::uint32_t to) { return (to - from) & psn_mask; }
bool is_later(std::uint32_t a, std::uint32_t b) { return a != b && distance(b, a) <= psn_mask / 2; }
std::uint32_t moved(std::uint32_t psn, std::uint64_t signed_16_bits) {
  return (psn + static_cast<std::uint32_t>(static_cast<std::int16_t>(signed_16_bits))) & psn_mask;
}

std::uint32_t label_of(const HeaderStack& stack) {
  const Layer& network = stack.layers()[stack.network];
  if (network.header != &info<Ipv6>) return 0;
  return static_cast<std::uint32_t>(View<Ipv6>(stack.bytes.data() + network.offset).get<"flow_label">()) & 0xffff;
}
std::uint32_t port_of(const HeaderStack& stack) {
  const auto udp = stack.get<Udp>();
  return udp ? static_cast<std::uint32_t>(udp->get<"src_port">()) : 0;
}
std::uint32_t ecn_of(const HeaderStack& stack) {
  const Layer& network = stack.layers()[stack.network];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  if (network.header == &info<Ipv6>) return View<Ipv6>(at).get<"traffic_class.ecn">();
  if (network.header == &info<Ipv4>) return View<Ipv4>(at).get<"tos.ecn">();
  return 0;
}
View<MrcBth> bth_of(const HeaderStack& stack) {
  return View<MrcBth>(stack.bytes.data() + stack.layers()[stack.transport].offset);
}

void set_state(MrcPath& path, MrcPathState state, std::uint64_t frame) {
  if (path.state == state) return;
  path.state = state;
  path.state_frame = frame;
}

std::string_view plural(std::uint64_t n) { return n == 1 ? "" : "s"; }

}  // namespace

std::string_view to_string(MrcPathState state) {
  switch (state) {
    case MrcPathState::good: return "good";
    case MrcPathState::congested: return "congested";
    case MrcPathState::failed: return "failed";
  }
  return "?";
}

void MrcTracker::add(const Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport >= stack.layers().size() || stack.layers()[stack.transport].header != &info<MrcBth> ||
      stack.network >= stack.layers().size() || packet.icrc.status == CrcCheck::Status::bad)
    return;
  const auto ports = ports_of(stack);
  if (!ports) return;
  switch (mrc_opcode(bth_of(stack).get<"opcode">()).operation) {
    case MrcOperation::rdma_write: return write(packet, *ports);
    case MrcOperation::sack: return sack(packet, *ports);
    case MrcOperation::nack: return nack(packet, *ports);
    case MrcOperation::probe: return probe(packet, *ports);
    case MrcOperation::acknowledge: return acknowledgement(packet, *ports);
    case MrcOperation::endpoint_request:
    case MrcOperation::endpoint_response: return;
  }
}

MrcTracker::State* MrcTracker::flow_of_writes(const Packet& packet, const FlowKey& ports, std::uint32_t qp) {
  const FlowKey key = ports.with(qp & 0xffff);
  const auto found = states_.find(key);
  if (found == states_.end() && states_.size() >= most_flows_) {
    ++evicted_;
    return nullptr;
  }
  State& state = states_[key];
  if (state.flow.first_frame == 0) {
    state.flow.from = ports.from;
    state.flow.to = ports.to;
    state.flow.dest_qp = qp;
    state.flow.first_frame = packet.number;
    state.flow.first_time = packet.time_ns;
  }
  return &state;
}

MrcTracker::State* MrcTracker::flow_of_feedback(const FlowKey& ports, std::uint32_t first_qp, std::uint32_t second_qp) {
  const auto find = [&](std::uint32_t qp) {
    const auto found = states_.find(ports.reversed(qp));
    return found == states_.end() ? nullptr : &found->second;
  };
  State* const first = find(first_qp);
  State* const second = find(second_qp);
  return first && second && first != second ? nullptr : first ? first : second;
}

MrcPath* MrcTracker::path(State& state, std::uint32_t label, std::uint32_t port, std::uint32_t* index) {
  const auto [found, added] =
      state.path_of.try_emplace(label << 16 | port, static_cast<std::uint32_t>(state.flow.paths.size()));
  if (added) {
    if (state.flow.paths.size() >= most_paths) {
      state.path_of.erase(found);
      state.flow.paths_limited = true;
      return nullptr;
    }
    MrcPath one;
    one.label = static_cast<std::uint16_t>(label);
    one.port = static_cast<std::uint16_t>(port);
    state.flow.paths.push_back(one);
  }
  if (index) *index = found->second;
  return &state.flow.paths[found->second];
}

/// The sources differ in the order of the two halves, and an IPv4 packet has no flow label.
MrcPath* MrcTracker::path_of_entropy(State& state, std::uint64_t entropy) {
  const auto value = static_cast<std::uint32_t>(entropy);
  for (const std::uint32_t key : {value, value << 16 | value >> 16, value & 0xffff, value >> 16})
    if (const auto found = state.path_of.find(key); found != state.path_of.end())
      return &state.flow.paths[found->second];
  return nullptr;
}

void MrcTracker::acknowledge(State& state, std::uint32_t psn) {
  if (Transmission* const one = state.sent.find(psn)) one->acknowledged = true;
}

void MrcTracker::acknowledge_up_to(State& state, std::uint32_t psn) {
  if (!state.started || is_later(psn, state.highest)) return;
  for (std::uint32_t one = state.lowest; !is_later(one, psn); one = (one + 1) & psn_mask) acknowledge(state, one);
  if (!is_later(state.lowest, psn)) state.lowest = (psn + 1) & psn_mask;
  const auto completed = [&](std::uint32_t last) { return !is_later(last, psn); };
  state.flow.completed_messages += static_cast<std::uint64_t>(std::erase_if(state.open_messages, completed));
}

void MrcTracker::write(const Packet& packet, const FlowKey& ports) {
  const HeaderStack& stack = packet.stack;
  const auto bth = bth_of(stack);
  State* const state = flow_of_writes(packet, ports, static_cast<std::uint32_t>(bth.get<"dest_qp">()));
  if (!state) return;
  MrcFlow& flow = state->flow;
  const MrcOpcode& op = mrc_opcode(bth.get<"opcode">());
  const std::uint32_t psn = bth.get<"psn">();
  flow.last_frame = packet.number;
  flow.last_time = packet.time_ns;
  ++flow.packets;
  const bool trimmed = stack.cut && stack.wire_length == stack.bytes.size();
  const bool marked = ecn_of(stack) == congestion_experienced;
  const Layer& last = stack.layers().back();
  const std::uint32_t end = declared_end(stack), less = last.offset + last.length + bth.get<"pad">() + icrc_size;
  if (!trimmed && end > less) flow.payload_bytes += end - less;
  std::uint32_t index = 0;
  MrcPath* const used = path(*state, label_of(stack), port_of(stack), &index);
  flow.trimmed += trimmed;
  flow.marked += marked;
  if (used) {
    ++used->packets;
    used->trimmed += trimmed;
    used->marked += marked;
    if (trimmed) set_state(*used, MrcPathState::congested, packet.number);
  }

  const bool far = state->started && distance(state->highest, psn) >= window && distance(psn, state->highest) >= window;
  if (!state->started || far) {
    if (far) state->sent.clear();
    state->started = true;
    state->highest = state->lowest = psn;
  }
  Transmission* const before = state->sent.find(psn);
  const bool again = before || bth.get<"rtx">() != 0;
  if (again) {
    ++flow.retransmissions;
    if (used) ++used->retransmissions;
    if (before && !before->trimmed && !before->acknowledged && before->path < flow.paths.size()) {
      MrcPath& earlier = flow.paths[before->path];
      ++earlier.silent;
      set_state(earlier, MrcPathState::failed, packet.number);
    }
    if (!before) ++flow.missing;
  } else if (is_later(state->highest, psn)) {
    ++flow.late;
    flow.reordering = std::max(flow.reordering, distance(psn, state->highest));
  }
  const bool ends = op.position == Position::last || op.position == Position::only;
  Transmission now;
  now.psn = psn;
  now.known = true;
  now.path = index;
  now.trimmed = trimmed;
  now.ends = ends;
  now.counted = before && before->counted;
  if (ends && !now.counted) {
    constexpr std::size_t most_open = 1U << 12;
    ++flow.messages;
    now.counted = true;
    if (state->open_messages.size() >= most_open) state->open_messages.erase(state->open_messages.begin());
    state->open_messages.push_back(psn);
  }
  state->sent.add(now);
  if (is_later(psn, state->highest)) {
    state->highest = psn;
    if (distance(state->lowest, psn) >= window) state->lowest = (psn - window + 1) & psn_mask;
  }
}

void MrcTracker::sack(const Packet& packet, const FlowKey& ports) {
  const auto seth = packet.stack.get<Seth>();
  if (!seth) return;
  State* const state = flow_of_feedback(ports, seth->get<"spdcid">(), seth->get<"dpdcid">());
  if (!state) return;
  MrcFlow& flow = state->flow;
  ++flow.sacks;
  flow.last_frame = packet.number;
  flow.last_time = packet.time_ns;
  const std::uint32_t cack = seth->get<"cack_psn">(), base = moved(cack, seth->get<"sack_offset">());
  acknowledge_up_to(*state, cack);
  for (std::uint64_t bits = seth->get<"bitmap">(), i = 0; bits; bits >>= 1, ++i)
    if (bits & 1) acknowledge(*state, (base + static_cast<std::uint32_t>(i)) & psn_mask);
  MrcPath* path = path_of_entropy(*state, seth->get<"entropy">());
  if (seth->get<"probe_response">()) {
    ++flow.probe_responses;
    const auto probed = state->probes.find(static_cast<std::uint16_t>(seth->get<"ack_psn_offset">()));
    if (probed != state->probes.end()) path = &flow.paths[probed->second];
    if (path) ++path->probe_responses;
  } else {
    acknowledge(*state, moved(cack, seth->get<"ack_psn_offset">()));
  }
  if (!path) {
    ++flow.unmatched_entropy;
    return;
  }
  switch (seth->get<"path_state">()) {
    case 1:
      ++path->congested_sacks;
      set_state(*path, MrcPathState::congested, packet.number);
      break;
    case 2:
      ++path->bad_sacks;
      set_state(*path, MrcPathState::failed, packet.number);
      break;
    default: set_state(*path, MrcPathState::good, packet.number);
  }
}

void MrcTracker::nack(const Packet& packet, const FlowKey& ports) {
  const auto neth = packet.stack.get<Neth>();
  if (!neth) return;
  State* const state = flow_of_feedback(ports, neth->get<"spdcid">(), neth->get<"dpdcid">());
  if (!state) return;
  state->flow.last_frame = packet.number;
  state->flow.last_time = packet.time_ns;
  const std::uint8_t reason = neth->get<"reason">();
  ++state->flow.nacks[reason];
  // The rejected packet arrived, so its retransmission shows no failed path.
  if (Transmission* const one = state->sent.find(neth->get<"nack_psn">())) one->trimmed = true;
  MrcPath* const path = path_of_entropy(*state, neth->get<"entropy">());
  if (!path) {
    ++state->flow.unmatched_entropy;
    return;
  }
  ++path->rejections;
  if (reason == nack_reason::trimmed) set_state(*path, MrcPathState::congested, packet.number);
}

void MrcTracker::probe(const Packet& packet, const FlowKey& ports) {
  const auto peth = packet.stack.get<Peth>();
  if (!peth) return;
  State* const state = flow_of_writes(packet, ports, static_cast<std::uint32_t>(bth_of(packet.stack).get<"dest_qp">()));
  if (!state) return;
  ++state->flow.probes;
  std::uint32_t index = 0;
  MrcPath* const used = path(*state, label_of(packet.stack), port_of(packet.stack), &index);
  if (!used) return;
  ++used->probes;
  state->probes[peth->get<"probe_id">()] = index;  // at most 2^16 identifiers
}

void MrcTracker::acknowledgement(const Packet& packet, const FlowKey& ports) {
  const auto aeth = packet.stack.get<Aeth>();
  if (!aeth) return;
  // An Acknowledge contains only the requester's QP. It belongs to the only flow between these ports.
  State* only = nullptr;
  for (auto& [key, state] : states_) {
    if (!(key.from == ports.to && key.to == ports.from)) continue;
    if (only) return;
    only = &state;
  }
  if (!only) return;
  ++only->flow.acknowledgements;
  acknowledge_up_to(*only, bth_of(packet.stack).get<"psn">());
}

std::vector<MrcFlow> MrcTracker::flows() const {
  std::vector<MrcFlow> all;
  for (const auto& [key, state] : states_) all.push_back(state.flow);
  std::sort(all.begin(), all.end(), [](const MrcFlow& a, const MrcFlow& b) { return a.first_frame < b.first_frame; });
  return all;
}

std::vector<std::string> findings_of(const MrcFlow& flow) {
  std::vector<std::string> out;
  std::size_t failed = 0, congested = 0, silent = 0;
  for (const MrcPath& path : flow.paths) {
    failed += path.state == MrcPathState::failed;
    congested += path.congested_sacks + path.trimmed + path.rejections != 0;
    silent += path.silent != 0;
  }
  for (const MrcPath& path : flow.paths)
    if (path.state == MrcPathState::failed)
      out.push_back(
          fmt::format("the path with flow label {:#06x} and source port {} failed (frame {}): {} of its {} "
                      "packet{} without any response",
                      path.label, path.port, path.state_frame, path.silent, path.packets, plural(path.packets)));
  if (flow.nacks[nack_reason::unexpected_event] != 0)
    out.push_back(fmt::format("the responder reported an unexpected event {} time{}: the connection fails",
                              flow.nacks[nack_reason::unexpected_event],
                              plural(flow.nacks[nack_reason::unexpected_event])));
  const std::uint64_t exhausted = flow.nacks[nack_reason::no_bitmap] + flow.nacks[nack_reason::no_packet_buffer] +
                                  flow.nacks[nack_reason::no_resource];
  if (exhausted != 0)
    out.push_back(
        fmt::format("the responder rejected {} packet{} because it lacked resources", exhausted, plural(exhausted)));
  if (flow.nacks[nack_reason::psn_out_of_window] != 0)
    out.push_back(fmt::format("the responder rejected {} packet{} outside its window",
                              flow.nacks[nack_reason::psn_out_of_window],
                              plural(flow.nacks[nack_reason::psn_out_of_window])));
  if (flow.nacks[nack_reason::trimmed_last_hop] != 0)
    out.push_back(fmt::format("the receiver's link was congested: {} packet{} trimmed at the last hop (incast)",
                              flow.nacks[nack_reason::trimmed_last_hop],
                              plural(flow.nacks[nack_reason::trimmed_last_hop])));
  if (const std::uint64_t trims = std::max(flow.trimmed, flow.nacks[nack_reason::trimmed]); trims != 0)
    out.push_back(fmt::format("switches trimmed {} packet{} of {}: congestion on {} of {} path{}, not corruption",
                              trims, plural(trims), flow.packets, congested, flow.paths.size(),
                              plural(flow.paths.size())));
  if (flow.retransmissions != 0)
    out.push_back(fmt::format("{} of {} packets are retransmissions ({} without a captured first transmission)",
                              flow.retransmissions, flow.packets, flow.missing));
  if (silent > failed)
    out.push_back(fmt::format("{} path{} failed and recovered", silent - failed, plural(silent - failed)));
  if (flow.packets >= 64 && flow.paths.size() == 1)
    out.push_back("all packets used one path: the requester does not spray");
  if (flow.late != 0)
    out.push_back(fmt::format("{} packet{} arrived out of order, by at most {} PSNs: normal for several paths",
                              flow.late, plural(flow.late), flow.reordering));
  return out;
}

}  // namespace rdmawire::tracking
