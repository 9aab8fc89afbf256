#include "dissectors/tracking/mrc_tracker.hpp"

#include <algorithm>
#include <cstdlib>

#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::tracking {
namespace {

constexpr std::uint32_t icrc_size = 4;

// Two PSNs are compared by their signed distance, because PSNs in packets can be any distance apart.
constexpr std::int32_t remembered_psns = MrcTracker::window;

Psn moved(Psn psn, std::uint64_t signed_16_bits) { return psn + static_cast<std::int16_t>(signed_16_bits); }

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

}  // namespace

void MrcTracker::take(const Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.network >= stack.layers().size() || packet.icrc.status == CrcCheck::Status::bad) return;
  const auto ports = ports_of(stack);
  if (!ports) return;
  note_ = {};
  State* state = nullptr;
  switch (mrc_opcode(bth_of(stack).get<"opcode">()).operation) {
    case MrcOperation::rdma_write: state = write(packet, *ports); break;
    case MrcOperation::sack: state = sack(packet, *ports); break;
    case MrcOperation::nack: state = nack(packet, *ports); break;
    case MrcOperation::probe: state = probe(packet, *ports); break;
    case MrcOperation::acknowledge: state = acknowledgement(packet, *ports); break;
    case MrcOperation::endpoint_request: endpoint_request(packet, *ports); break;
    case MrcOperation::endpoint_response: endpoint_response(*ports); break;
  }
  if (!state) return;
  note_.connection = state->flow.first_frame;
  state->flow.last_frame = packet.number;
  state->flow.last_time = packet.time_ns;
  uses_.splice(uses_.begin(), uses_, state->use);
  count_memory(*state);
  // The flow of this packet is kept even if it alone exceeds the limit. most_paths and the window limit its memory.
  while (used_ > limit_ && uses_.size() > 1) remove(uses_.back(), CloseReason::evicted);
  most_used_ = std::max(most_used_, used_);
}

void MrcTracker::note_path(const MrcPath* path) {
  if (!path) return;
  note_.has_path = true;
  note_.state = path->state;
  note_.state_frame = path->state_frame;
}

void MrcTracker::count_memory(State& state) {
  constexpr std::size_t map_node = 48, fixed = sizeof(State) + 4 * map_node;
  const std::size_t bytes = fixed + state.flow.paths.capacity() * sizeof(MrcPath) +
                            state.flow.nacks.capacity() * sizeof(MrcNacks) + state.path_of.size() * map_node +
                            state.sent.allocated() * sizeof(Transmission) +
                            state.open_messages.capacity() * sizeof(Psn) + state.probes.size() * map_node;
  used_ += bytes - state.bytes;
  state.bytes = bytes;
}

MrcFlow MrcTracker::reported(const State& state) const {
  MrcFlow flow = state.flow;
  const FlowKey ports{flow.from, flow.to, 0};
  if (const auto found = ports_.find(ports); found != ports_.end())
    flow.endpoint_operations[0] = found->second.operations;
  if (const auto found = ports_.find(ports.reversed(0)); found != ports_.end() && !(flow.from == flow.to))
    flow.endpoint_operations[1] = found->second.operations;
  return flow;
}

void MrcTracker::remove(const FlowKey& given, CloseReason reason) {
  const FlowKey key = given;  // copied, because `given` can be an element that is removed
  const auto found = states_.find(key);
  State& state = found->second;
  if (sink_) sink_->mrc_flow(reported(state), reason);
  evicted_ += reason == CloseReason::evicted;
  std::vector<State*>& flows = ports_.find(key.with(0))->second.flows;
  flows[state.place] = flows.back();
  flows[state.place]->place = state.place;
  flows.pop_back();
  idle_ports_ += flows.empty();
  used_ -= state.bytes;
  uses_.erase(state.use);
  states_.erase(found);
}

void MrcTracker::finish() {
  std::vector<const State*> all;
  for (const auto& [key, state] : states_) all.push_back(&state);
  std::ranges::sort(all, {}, [](const State* state) { return state->flow.first_frame; });
  std::vector<FlowKey> keys;
  for (const State* state : all) keys.push_back(*state->use);
  for (const FlowKey& key : keys) remove(key, CloseReason::ended);
  ports_.clear();
  idle_ports_ = 0;
}

/// Limits the number of directions without flows: if there are too many, all of them are removed.
MrcTracker::Ports* MrcTracker::ports_of_operations(const FlowKey& ports) {
  constexpr std::size_t most_idle = 4096;
  const FlowKey key = ports.with(0);
  if (const auto found = ports_.find(key); found != ports_.end()) return &found->second;
  if (idle_ports_ >= most_idle) {
    evicted_ += idle_ports_;
    std::erase_if(ports_, [](const auto& entry) { return entry.second.flows.empty(); });
    idle_ports_ = 0;
  }
  ++idle_ports_;
  return &ports_[key];
}

void MrcTracker::endpoint_request(const Packet& packet, const FlowKey& ports) {
  const auto erth = packet.stack.get<Erth>();
  if (!erth) return;
  MrcEndpointOperations& known = ports_of_operations(ports)->operations;
  if (known.first_frame == 0) known.first_frame = packet.number;
  switch (erth->get<"operation">()) {
    case 0: {
      const auto status = static_cast<std::uint32_t>(erth->get<"port_status">());
      const std::uint32_t lost = known.status_updates++ ? known.port_status & ~status : 0;
      known.lost_ports |= lost;
      if (lost && known.lost_frame == 0) known.lost_frame = packet.number;
      known.port_status = status;
      break;
    }
    case 1: ++known.probes; break;
    default: ++known.other;
  }
}

void MrcTracker::endpoint_response(const FlowKey& ports) {
  ++ports_of_operations(ports.reversed(0))->operations.responses;
}

MrcTracker::State* MrcTracker::flow_of_writes(const Packet& packet, const FlowKey& ports, std::uint32_t qp) {
  const FlowKey key = ports.with(qp & 0xffff);
  const auto [found, added] = states_.try_emplace(key);
  State& state = found->second;
  if (added) {
    state.flow.from = ports.from;
    state.flow.to = ports.to;
    state.flow.dest_qp = qp;
    state.flow.first_frame = packet.number;
    state.flow.first_time = packet.time_ns;
    state.use = uses_.insert(uses_.begin(), key);
    std::vector<State*>& flows = ports_of_operations(ports)->flows;
    idle_ports_ -= flows.empty();
    state.place = flows.size();
    flows.push_back(&state);
  }
  return &state;
}

/// Returns the flow to one of the two QPs, if only one exists. The other QP is that of the requester, which receives
/// the packet.
MrcTracker::State* MrcTracker::flow_of_feedback(const Packet& packet, const FlowKey& ports, std::uint32_t first_qp,
                                                std::uint32_t second_qp) {
  const auto find = [&](std::uint32_t qp) {
    const auto found = states_.find(ports.reversed(qp));
    return found == states_.end() ? nullptr : &found->second;
  };
  State* const first = find(first_qp);
  State* const second = find(second_qp);
  if (first && second && first != second) return nullptr;
  State* const state = first ? first : second;
  const auto qp = static_cast<std::uint32_t>(bth_of(packet.stack).get<"dest_qp">());
  if (state && !state->flow.from_qp_known && (qp & 0xffff) == (first ? second_qp : first_qp)) {
    state->flow.from_qp = qp;
    state->flow.from_qp_known = true;
  }
  return state;
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

/// Tries both orders of the two halves, because the sources disagree. Packets over IPv4 have no flow label.
MrcPath* MrcTracker::path_of_entropy(State& state, std::uint64_t entropy) {
  const auto value = static_cast<std::uint32_t>(entropy);
  for (const std::uint32_t key : {value, value << 16 | value >> 16, value & 0xffff, value >> 16})
    if (const auto found = state.path_of.find(key); found != state.path_of.end())
      return &state.flow.paths[found->second];
  return nullptr;
}

/// Returns whether the PSN is known, and is now acknowledged for the first time.
bool MrcTracker::acknowledge(State& state, Psn psn) {
  Transmission* const one = state.sent.find(psn.value());
  if (!one || one->acknowledged) return false;
  return one->acknowledged = true;
}

void MrcTracker::acknowledge_up_to(State& state, Psn psn) {
  if (!state.started || psn - state.highest > 0) return;
  // PSNs before the window are not known.
  if (psn - state.highest > -remembered_psns) {
    for (Psn one = state.lowest; one - psn <= 0; ++one) static_cast<void>(acknowledge(state, one));
    if (state.lowest - psn <= 0) state.lowest = psn + 1;
  }
  const auto completed = [&](Psn last) { return last - psn <= 0; };
  state.flow.completed_messages += static_cast<std::uint64_t>(std::erase_if(state.open_messages, completed));
}

MrcTracker::State* MrcTracker::write(const Packet& packet, const FlowKey& ports) {
  const HeaderStack& stack = packet.stack;
  const auto bth = bth_of(stack);
  State* const state = flow_of_writes(packet, ports, static_cast<std::uint32_t>(bth.get<"dest_qp">()));
  MrcFlow& flow = state->flow;
  const MrcOpcode& op = mrc_opcode(bth.get<"opcode">());
  const Psn psn(bth.get<"psn">());
  ++flow.packets;
  const bool trimmed = is_trimmed(stack);
  const bool marked = ecn_of(stack) == congestion_experienced;
  const Layer& last = stack.layers().back();
  const std::uint32_t end = declared_end(stack), less = last.offset + last.length + bth.get<"pad">() + icrc_size;
  if (!trimmed && end > less) flow.payload_bytes += end - less;
  std::uint32_t index = 0;
  MrcPath* const used = path(*state, label_of(stack), port_of(stack), &index);
  if (trimmed) flow.trimmed.add(packet.number);
  if (marked) flow.marked.add(packet.number);
  if (used) {
    ++used->packets;
    used->trimmed += trimmed;
    used->marked += marked;
    if (trimmed) set_state(*used, MrcPathState::congested, packet.number);
  }

  const bool far = state->started && std::abs(psn - state->highest) >= remembered_psns;
  if (!state->started || far) {
    if (far) state->sent.clear();
    state->started = true;
    state->highest = state->lowest = psn;
  }
  Transmission* const before = state->sent.find(psn.value());
  if (before && bth.get<"rtx">() == 0 && used && before->path == index && before->trimmed == trimmed) {
    // The same packet was captured twice. A retransmission would have RTX, or another path.
    note_path(used);
    return state;
  }
  const bool again = before || bth.get<"rtx">() != 0;
  if (again) {
    flow.retransmissions.add(packet.number);
    if (used) ++used->retransmissions;
    // If no response was captured, the capture may lack the other direction.
    const bool responses = flow.sacks != 0 || flow.acknowledgements != 0 || !flow.nacks.empty();
    if (responses && before && !before->trimmed && !before->acknowledged && before->path < flow.paths.size()) {
      MrcPath& earlier = flow.paths[before->path];
      ++earlier.silent;
      flow.silent.add(packet.number);
      set_state(earlier, MrcPathState::failed, packet.number);
    }
    if (!before) ++flow.missing;
  } else if (state->highest - psn > 0) {
    flow.late.add(packet.number);
    if (used) ++used->late;
    flow.reordering = std::max(flow.reordering, static_cast<std::uint32_t>(state->highest - psn));
  }
  note_.retransmission = again;
  note_.out_of_order = !again && state->highest - psn > 0;
  note_path(used);
  const bool ends = op.position == Position::last || op.position == Position::only;
  Transmission now;
  now.psn = psn.value();
  now.known = true;
  now.path = used ? index : UINT32_MAX;
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
  if (psn - state->highest > 0) {
    state->highest = psn;
    if (psn - state->lowest >= remembered_psns) state->lowest = psn - (remembered_psns - 1);
  }
  return state;
}

MrcTracker::State* MrcTracker::sack(const Packet& packet, const FlowKey& ports) {
  const auto seth = packet.stack.get<Seth>();
  if (!seth) return nullptr;
  State* const state = flow_of_feedback(packet, ports, seth->get<"spdcid">(), seth->get<"dpdcid">());
  if (!state) return nullptr;
  MrcFlow& flow = state->flow;
  ++flow.sacks;
  const Psn cack(seth->get<"cack_psn">()), base = moved(cack, seth->get<"sack_offset">());
  acknowledge_up_to(*state, cack);
  for (std::uint64_t bits = seth->get<"bitmap">(), i = 0; bits; bits >>= 1, ++i)
    if (bits & 1) flow.selective += acknowledge(*state, base + static_cast<std::int64_t>(i));
  MrcPath* path = path_of_entropy(*state, seth->get<"entropy">());
  if (seth->get<"probe_response">()) {
    ++flow.probe_responses;
    const auto probed = state->probes.find(static_cast<std::uint16_t>(seth->get<"ack_psn_offset">()));
    if (probed != state->probes.end()) path = &flow.paths[probed->second];
    if (path) ++path->probe_responses;
  } else {
    flow.selective += acknowledge(*state, moved(cack, seth->get<"ack_psn_offset">()));
  }
  if (!path) {
    ++flow.unmatched_entropy;
    return state;
  }
  switch (seth->get<"path_state">()) {
    case 1:
      ++path->congested_sacks;
      flow.congested_sacks.add(packet.number);
      set_state(*path, MrcPathState::congested, packet.number);
      break;
    case 2:
      ++path->bad_sacks;
      flow.bad_sacks.add(packet.number);
      set_state(*path, MrcPathState::failed, packet.number);
      break;
    default: set_state(*path, MrcPathState::good, packet.number);
  }
  note_path(path);
  return state;
}

MrcTracker::State* MrcTracker::nack(const Packet& packet, const FlowKey& ports) {
  const auto neth = packet.stack.get<Neth>();
  if (!neth) return nullptr;
  State* const state = flow_of_feedback(packet, ports, neth->get<"spdcid">(), neth->get<"dpdcid">());
  if (!state) return nullptr;
  const std::uint8_t reason = neth->get<"reason">();
  const auto psn = static_cast<std::uint32_t>(neth->get<"nack_psn">());
  std::vector<MrcNacks>& nacks = state->flow.nacks;
  auto known = std::ranges::lower_bound(nacks, reason, {}, &MrcNacks::reason);
  if (known == nacks.end() || known->reason != reason) known = nacks.insert(known, {reason, psn, {}});
  known->seen.add(packet.number);
  // The rejected packet arrived, so its retransmission does not show that the path failed.
  if (Transmission* const one = state->sent.find(psn)) one->trimmed = true;
  MrcPath* const path = path_of_entropy(*state, neth->get<"entropy">());
  if (!path) {
    ++state->flow.unmatched_entropy;
    return state;
  }
  ++path->rejections;
  if (reason == nack_reason::trimmed) set_state(*path, MrcPathState::congested, packet.number);
  note_path(path);
  return state;
}

MrcTracker::State* MrcTracker::probe(const Packet& packet, const FlowKey& ports) {
  const auto peth = packet.stack.get<Peth>();
  if (!peth) return nullptr;
  State* const state = flow_of_writes(packet, ports, static_cast<std::uint32_t>(bth_of(packet.stack).get<"dest_qp">()));
  ++state->flow.probes;
  std::uint32_t index = 0;
  MrcPath* const used = path(*state, label_of(packet.stack), port_of(packet.stack), &index);
  if (!used) return state;
  ++used->probes;
  note_path(used);
  state->probes[peth->get<"probe_id">()] = index;  // there are at most 2^16 identifiers
  return state;
}

MrcTracker::State* MrcTracker::acknowledgement(const Packet& packet, const FlowKey& ports) {
  const auto aeth = packet.stack.get<Aeth>();
  if (!aeth) return nullptr;
  // An Acknowledge contains only the QP of the requester. It is assigned to the only flow between these ports.
  const auto found = ports_.find(ports.reversed(0));
  if (found == ports_.end() || found->second.flows.size() != 1) return nullptr;
  State* const only = found->second.flows.front();
  ++only->flow.acknowledgements;
  acknowledge_up_to(*only, Psn(bth_of(packet.stack).get<"psn">()));
  return only;
}

std::vector<MrcFlow> MrcTracker::flows() const {
  std::vector<MrcFlow> all;
  for (const auto& [key, state] : states_) all.push_back(reported(state));
  std::sort(all.begin(), all.end(), [](const MrcFlow& a, const MrcFlow& b) { return a.first_frame < b.first_frame; });
  return all;
}

}  // namespace rdmawire::tracking
