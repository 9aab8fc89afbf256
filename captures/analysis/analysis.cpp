#include "captures/analysis/analysis.hpp"

#include <algorithm>
#include <tuple>

#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mac_control.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/time.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::captures::analysis {
namespace {

template <class Number, std::size_t N>
void add_all(std::array<Number, N>& mine, const std::array<Number, N>& theirs) {
  for (std::size_t i = 0; i < N; ++i) mine[i] += theirs[i];
}

PacketClass class_of(const Opcode& opcode, std::uint32_t dest_qp) {
  if (dest_qp <= 1) return PacketClass::management;
  switch (opcode.operation) {
    case Operation::acknowledge:
    case Operation::atomic_acknowledge: return PacketClass::acknowledgement;
    case Operation::congestion_notification: return PacketClass::cnp;
    // Opcodes that are not known have the operation `send`.
    default: return opcode.known ? PacketClass::data : PacketClass::other;
  }
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::request_to_acknowledgement: return "request_to_acknowledgement";
    case Phase::request_to_first_response: return "request_to_first_response";
    case Phase::request_to_last_response: return "request_to_last_response";
  }
  return {};
}

std::string_view to_string(PacketClass packet_class) {
  switch (packet_class) {
    case PacketClass::data: return "data";
    case PacketClass::acknowledgement: return "acknowledgement";
    case PacketClass::cnp: return "cnp";
    case PacketClass::management: return "management";
    case PacketClass::other: return "other";
  }
  return {};
}

void TalkerRow::merge(const TalkerRow& other) {
  packets += other.packets;
  bytes += other.bytes;
  payload_bytes += other.payload_bytes;
  queue_pairs += other.queue_pairs;
  source_ports += other.source_ports;
  if (other.crc_bad) first_crc_bad = crc_bad ? std::min(first_crc_bad, other.first_crc_bad) : other.first_crc_bad;
  crc_bad += other.crc_bad;
}

void RegionRow::merge(const RegionRow& other) {
  address_from = std::min(address_from, other.address_from);
  address_to = std::max(address_to, other.address_to);
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  atomics += other.atomics;
  refused += other.refused;
  messages += other.messages;
}

// ---- Groups

void Group::add_frame(std::uint64_t frame) {
  if (frame == 0 || (frame_count == most_frames && frame >= frames[most_frames - 1])) return;
  auto* const filled = frames.begin() + frame_count;
  auto* const at = std::lower_bound(frames.begin(), filled, frame);
  if (at != filled && *at == frame) return;
  if (frame_count < most_frames) ++frame_count;
  std::copy_backward(at, frames.begin() + frame_count - 1, frames.begin() + frame_count);
  *at = frame;
}

void Group::add(const Event& event) {
  ++count;
  packets += event.packets;
  bytes += event.bytes;
  if (event.kind != EventKind::duplicate)
    accumulate(cost_ns, event.duration);  // a duplicate does not delay an operation
  if (event.frame) first_frame = std::min(first_frame, event.frame);
  last_frame = std::max({last_frame, event.frame, event.last_frame});
  first_time = std::min(first_time, event.time);
  last_time = std::max(last_time, event.time);
  ++by_certainty[static_cast<std::size_t>(event.certainty)];
  ++by_unobserved[static_cast<std::size_t>(event.unobserved)];
  add_frame(event.frame);
}

void Group::merge(const Group& other) {
  count += other.count;
  packets += other.packets;
  bytes += other.bytes;
  accumulate(cost_ns, other.cost_ns);
  first_frame = std::min(first_frame, other.first_frame);
  last_frame = std::max(last_frame, other.last_frame);
  first_time = std::min(first_time, other.first_time);
  last_time = std::max(last_time, other.last_time);
  for (std::size_t i = 0; i < by_certainty.size(); ++i) by_certainty[i] += other.by_certainty[i];
  for (std::size_t i = 0; i < by_unobserved.size(); ++i) by_unobserved[i] += other.by_unobserved[i];
  for (std::size_t i = 0; i < other.frame_count; ++i) add_frame(other.frames[i]);
}

// ---- Incast

bool Incast::IncastOrder::operator()(const IncastRow& a, const IncastRow& b) const {
  return std::tie(b.senders, b.bytes, a.time, a.receiver) < std::tie(a.senders, a.bytes, b.time, b.receiver);
}

Incast::Incast(std::int64_t window, std::uint32_t receivers)
    : window_(std::max<std::int64_t>(window, 1)), receivers_(receivers), rows_(most_rows) {}

void Incast::close(const PortAddress& receiver, const Receiver& row, TopN<IncastRow, IncastOrder>& rows) const {
  if (row.senders < 2) return;
  rows.add({receiver, row.window * window_, row.senders, row.bytes});
}

void Incast::add(const PortAddress& sender, const PortAddress& receiver, std::int64_t time, std::uint64_t bytes) {
  Receiver* row = receivers_.at({receiver});
  if (!row) return;
  const std::int64_t window = time / window_;
  if (window != row->window) {
    if (window < row->window && row->window - window <= 1) return;  // a late packet of the preceding window
    close(receiver, *row, rows_);
    row->window = window;
    row->bytes = row->senders = 0;
  }
  row->bytes += bytes;
  const std::uint64_t hash = FlowKey{sender, {}, 0}.hash();
  for (std::uint32_t i = row->senders; i-- > 0;)
    if (row->seen[i] == hash) return;
  if (row->senders < most_senders) row->seen[row->senders++] = hash;
}

void Incast::merge(const Incast& other) {
  merged_overflow_ += other.overflow();
  rows_.merge(other.rows_);
  // Also close the open windows of `other`, because it gets no more packets.
  for (const auto& [key, row] : other.receivers_.rows()) close(key.address, row, rows_);
}

std::vector<IncastRow> Incast::rows() const {
  auto rows = rows_;
  for (const auto& [key, row] : receivers_.rows()) close(key.address, row, rows);
  return rows.sorted();
}

// ---- MrcFlows

bool MrcFlows::before(const tracking::MrcFlow& a, const tracking::MrcFlow& b) {
  return a.payload_bytes != b.payload_bytes ? a.payload_bytes > b.payload_bytes : a.first_frame < b.first_frame;
}

bool MrcFlows::precedes_dropped(const tracking::MrcFlow& flow) const {
  if (dropped_frame_ == UINT64_MAX) return true;
  return flow.payload_bytes != dropped_bytes_ ? flow.payload_bytes > dropped_bytes_ : flow.first_frame < dropped_frame_;
}

void MrcFlows::add(const tracking::MrcFlow& flow) {
  if (!precedes_dropped(flow)) {
    ++dropped_;
    return;
  }
  flows_.push_back(flow);
  paths_ += weight(flow);
  if (paths_ > 2 * std::uint64_t{most_paths_}) limit();
}

void MrcFlows::merge(const MrcFlows& other) {
  dropped_ += other.dropped_;
  tracking::MrcFlow first;
  first.payload_bytes = other.dropped_bytes_;
  first.first_frame = other.dropped_frame_;
  if (other.dropped_frame_ != UINT64_MAX && precedes_dropped(first)) {
    dropped_bytes_ = other.dropped_bytes_;
    dropped_frame_ = other.dropped_frame_;
    limit();
  }
  for (const tracking::MrcFlow& flow : other.flows_) add(flow);
}

void MrcFlows::limit() {
  std::ranges::sort(flows_, before);
  paths_ = 0;
  std::size_t kept = 0;
  while (kept < flows_.size() && precedes_dropped(flows_[kept]) && paths_ + weight(flows_[kept]) <= most_paths_)
    paths_ += weight(flows_[kept++]);
  if (kept < flows_.size() && precedes_dropped(flows_[kept])) {
    dropped_bytes_ = flows_[kept].payload_bytes;
    dropped_frame_ = flows_[kept].first_frame;
  }
  dropped_ += flows_.size() - kept;
  flows_.resize(kept);
}

std::vector<tracking::MrcFlow> MrcFlows::sorted() const {
  MrcFlows limited = *this;
  limited.limit();
  return std::move(limited.flows_);
}

std::uint64_t MrcFlows::dropped() const {
  if (paths_ <= most_paths_) return dropped_;
  MrcFlows limited = *this;
  limited.limit();
  return limited.dropped_;
}

// ---- Analysis

bool Analysis::LargerConnection::operator()(const Connection& a, const Connection& b) const {
  const std::uint64_t bytes_a = a.sent[0].wire_bytes + a.sent[1].wire_bytes;
  const std::uint64_t bytes_b = b.sent[0].wire_bytes + b.sent[1].wire_bytes;
  return bytes_a != bytes_b ? bytes_a > bytes_b : a.id < b.id;
}

bool Analysis::EarlierEvent::operator()(const Event& a, const Event& b) const {
  const auto key = [](const Event& e) {
    return std::tie(e.frame, e.connection, e.end, e.cause, e.psn, e.last_frame, e.origin_frame, e.cause_frame, e.time,
                    e.duration, e.packets, e.bytes, e.value, e.found, e.certainty, e.unobserved);
  };
  return key(a) < key(b);
}

Analysis::Analysis(const AnalysisOptions& options)
    : mrc(options.mrc_paths),
      incast(options.incast_window),
      options_(options),
      talkers_(options.talkers),
      flow_queue_pairs_(options.distinct),
      flow_ports_(options.distinct),
      regions_(options.regions),
      queue_pairs_(options.distinct),
      crc_causes_(options.talkers),
      latencies_(tracking::message_kinds * size_classes * phases),
      connection_rows_(options.connections),
      events_(tracking::event_kinds, TopN<Event, EarlierEvent>(options.events_of_a_kind)) {}

std::uint64_t payload_of(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.wire == Wire::iwarp || !packet.pdus.empty()) {
    std::uint64_t bytes = 0;
    for (const tracking::Pdu& pdu : packet.pdus) bytes += pdu.stack.payload.length;
    return bytes;
  }
  std::uint64_t bytes = stack.payload.length;
  // Count the bytes that the capture truncated as payload, except for the ICRC.
  if (stack.cut && stack.icrc.length == 0 && stack.wire_length > stack.bytes.size()) {
    const std::uint64_t missing = stack.wire_length - stack.bytes.size();
    bytes += missing - std::min<std::uint64_t>(missing, 4);
  }
  return bytes;
}

PacketFacts PacketFacts::of(const tracking::TransportPacket& packet, std::uint64_t payload) {
  PacketFacts facts;
  facts.number = packet.frame;
  facts.time = packet.time;
  facts.flow = FlowKey{packet.from, packet.to, 0};
  facts.payload = payload;
  facts.wire_length = packet.wire_bytes;
  facts.qp = packet.dest_qp;
  facts.source_port = packet.source_port;
  facts.traffic_class = packet.traffic_class;
  facts.wire = packet.wire;
  facts.packet_class = class_of(*packet.op, packet.dest_qp);
  facts.has_traffic_class = true;
  return facts;
}

PacketFacts PacketFacts::of(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  PacketFacts facts;
  facts.number = packet.number;
  facts.time = packet.time_ns;
  facts.wire_length = stack.wire_length;
  // TCP headers do not identify iWARP, but PDUs do.
  facts.wire = packet.pdus.empty() ? stack.wire : Wire::iwarp;
  facts.truncated = stack.cut;
  const auto layers = stack.layers();
  facts.pause = stack.network >= layers.size() && stack.wire == Wire::none && layers.size() > 1;
  if (facts.wire == Wire::none) return facts;  // not RDMA

  const Layer* transport = stack.transport < layers.size() ? &layers[stack.transport] : nullptr;
  if (transport && transport->header == &info<Bth>) {
    const View<Bth> bth(stack.bytes.data() + transport->offset);
    facts.qp = bth.get<"dest_qp">();
    facts.packet_class = class_of(opcode(bth.get<"opcode">()), facts.qp);
    facts.payload = payload_of(packet);
    // In RoCEv2, the UDP header directly precedes the BTH.
    if (stack.wire == Wire::roce_v2)
      facts.source_port = static_cast<std::uint16_t>(load_be<2>(stack.bytes.data() + transport->offset - Udp::size));
  } else if (transport && transport->header == &info<MrcBth>) {
    const View<MrcBth> bth(stack.bytes.data() + transport->offset);
    const MrcOpcode& op = mrc_opcode(bth.get<"opcode">());
    facts.qp = bth.get<"dest_qp">();
    facts.packet_class = facts.qp == mrc::endpoint_qp          ? PacketClass::management
                         : op.payload                          ? PacketClass::data
                         : op.direction == Direction::response ? PacketClass::acknowledgement
                                                               : PacketClass::other;
    const bool trimmed = tracking::is_trimmed(stack);
    facts.truncated &= !trimmed;
    facts.payload = trimmed ? 0 : payload_of(packet);
    facts.source_port = static_cast<std::uint16_t>(load_be<2>(stack.bytes.data() + transport->offset - Udp::size));
  } else if (stack.wire == Wire::iwarp || !packet.pdus.empty()) {
    facts.payload = payload_of(packet);
    facts.packet_class = packet.pdus.empty() ? PacketClass::other : PacketClass::data;
  }
  if (stack.network < layers.size()) {
    const Layer& network = layers[stack.network];
    const std::uint8_t* at = stack.bytes.data() + network.offset;
    facts.has_traffic_class = true;
    facts.traffic_class = network.header == &info<Ipv4> ? at[1] : static_cast<std::uint8_t>(at[0] << 4 | at[1] >> 4);
  }
  using Status = CrcCheck::Status;
  const auto note = [&](const CrcCheck& crc) {
    facts.crc_bad |= crc.status == Status::bad;
    facts.crc_checked |= crc.status == Status::bad || crc.status == Status::good;
  };
  note(packet.icrc);
  note(packet.vcrc);
  for (const tracking::Pdu& pdu : packet.pdus) note(pdu.crc);
  facts.flow = tracking::ports_of(stack);
  return facts;
}

void Analysis::add(const PacketFacts& packet) {
  ++packets;
  bytes += packet.wire_length;
  ++wires[static_cast<std::size_t>(packet.wire)];
  truncated_packets += packet.truncated;
  first_time = std::min(first_time, packet.time);
  last_time = std::max(last_time, packet.time);
  Series::Step& step = series.at(packet.time);
  ++step.packets;
  if (packet.wire == Wire::none) return;  // not RDMA
  step.cnps += packet.packet_class == PacketClass::cnp;
  step.payload_bytes += packet.payload;
  if (packet.has_traffic_class) {
    const unsigned ecn = packet.traffic_class & 3;
    ++classes[packet.traffic_class >> 2][ecn][static_cast<std::size_t>(packet.packet_class)];
    step.ecn_marked += ecn == 3;
  }
  crcs_checked += packet.crc_checked;
  crcs_bad += packet.crc_bad;

  if (!packet.flow) return;
  const FlowKey& flow = *packet.flow;
  TalkerRow* talker = talkers_.at(flow);
  if (!talker) return;
  ++talker->packets;
  talker->bytes += packet.wire_length;
  talker->payload_bytes += packet.payload;
  if (packet.crc_bad) {
    if (talker->crc_bad == 0 || packet.number < talker->first_crc_bad) talker->first_crc_bad = packet.number;
    ++talker->crc_bad;
  }
  const std::uint32_t qp = packet.qp;
  if (qp == UINT32_MAX) return;
  LastPort* known = nullptr;
  if (qp != talker->last_qp) {
    talker->last_qp = qp;
    const std::size_t before = flow_queue_pairs_.rows().size();
    known = flow_queue_pairs_.at({queue_pair_id(flow, qp)});
    talker->queue_pairs += flow_queue_pairs_.rows().size() != before;
  }
  if (packet.wire != Wire::roce_v2) return;
  const std::uint32_t port = packet.source_port;
  if (port == talker->last_port) return;
  talker->last_port = port;
  if (known && known->port == port) return;
  const std::uint64_t overflow = flow_ports_.overflow();
  talker->source_ports += flow_ports_.insert(flow.with(std::uint64_t{2} << 32 | port).hash());
  if (known && flow_ports_.overflow() == overflow) known->port = port;
}

void Analysis::add_pause(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  const auto ethernet = stack.get<Ethernet>();
  if (!ethernet) return;
  const auto take = [&](std::uint8_t priority, std::uint64_t quanta) {
    const PauseKey key{ethernet->get<"src">(), priority};
    constexpr std::size_t most = 4096;
    if (pauses.size() >= most && !pauses.contains(key)) {
      ++skipped_pauses;
      return;
    }
    PauseRow& row = pauses[key];
    if (row.frames++ == 0) row.first_frame = packet.number;
    row.quanta += quanta;
    if (quanta) {
      ++row.stops;
      if (row.paused_since < 0) row.paused_since = packet.time_ns;
    } else if (row.paused_since >= 0) {
      accumulate(row.pause_ns, difference(packet.time_ns, row.paused_since));
      row.paused_since = -1;
    }
  };
  if (const auto pause = stack.get<Pause>()) {
    take(PauseKey::whole_link, pause->get<"quanta">());
  } else if (const auto priorities = stack.get<PriorityPause>()) {
    for (unsigned priority = 0; priority < 8; ++priority)
      if (priorities->get<"enabled">() >> priority & 1)
        take(static_cast<std::uint8_t>(priority), load_be<2>(priorities->data() + 2 + std::size_t{2} * priority));
  }
}

void Analysis::add_latency(MessageKind kind, std::size_t size_class, Phase phase, std::int64_t ns) {
  auto& histogram = latencies_[(static_cast<std::size_t>(kind) * size_classes + size_class) * phases +
                               static_cast<std::size_t>(phase)];
  if (!histogram) histogram = std::make_unique<Histogram>();
  histogram->add(ns);
}

const Histogram* Analysis::latency(MessageKind kind, std::size_t size_class, Phase phase) const {
  return latencies_[(static_cast<std::size_t>(kind) * size_classes + size_class) * phases +
                    static_cast<std::size_t>(phase)]
      .get();
}

void Analysis::message(const Connection& connection, const Message& message) {
  ++messages;
  message_bytes += message.size;
  if (message.start) ++series.at(message.start).messages;
  OperationRow& operation = operations[static_cast<std::size_t>(message.kind)];
  ++operation.messages;
  operation.bytes += message.size;
  operation.completed += message.outcome == tracking::Outcome::completed;
  const bool refused = message.outcome == tracking::Outcome::refused;
  operation.refused += refused;
  const std::size_t size = size_class(message.size);
  if (message.outcome == tracking::Outcome::partial) {
    // The size is unknown, because the capture does not contain the start of the message.
    ++partial_messages;
    if (message.first_frame) first_partial = std::min(first_partial, message.first_frame);
  } else {
    operation.size_min = std::min(operation.size_min, message.size);
    operation.size_max = std::max(operation.size_max, message.size);
    ++operation.sizes[size];
  }
  unacknowledged += message.outcome == tracking::Outcome::unanswered;

  if (message.outcome == tracking::Outcome::completed && message.start && message.answer_time) {
    if (message.kind == MessageKind::read) {
      if (message.first_response_time)
        add_latency(message.kind, size, Phase::request_to_first_response,
                    difference(message.first_response_time, message.start));
      add_latency(message.kind, size, Phase::request_to_last_response, difference(message.answer_time, message.start));
    } else {
      add_latency(message.kind, size, Phase::request_to_acknowledgement,
                  difference(message.answer_time, message.start));
    }
  }
  if (!message.has_remote) return;
  RegionRow* region =
      regions_.at({connection.at(tracking::other(message.end)).address, PortAddress{}, std::uint64_t{message.key}});
  if (!region) return;
  ++region->messages;
  if (refused) {
    ++region->refused;
    return;
  }
  const bool atomic = message.kind == MessageKind::compare_swap || message.kind == MessageKind::fetch_add ||
                      message.kind == MessageKind::swap || message.kind == MessageKind::atomic_write;
  const std::uint64_t size_touched = atomic ? 8 : message.size;
  region->address_from = std::min(region->address_from, message.remote_address);
  region->address_to = std::max(region->address_to, message.remote_address + size_touched);
  region->atomics += atomic;
  if (message.kind == MessageKind::read) region->read_bytes += message.size;
  if (message.kind == MessageKind::write) region->written_bytes += message.size;
}

ConnectionEvents& Analysis::events_of_connection(const Connection* connection) {
  const std::uint64_t id = connection ? connection->id : 0;
  const auto found = affected_.find(id);
  if (found != affected_.end()) return found->second;
  if (affected_.size() >= options_.affected && id != 0) {
    ++skipped_affected_;
    return affected_[0];
  }
  ConnectionEvents& events_of_it = affected_[id];
  most_affected_ = std::max<std::uint64_t>(most_affected_, affected_.size());
  return events_of_it;
}

Group* Analysis::group_of(ConnectionEvents& affected, EventKind kind, Cause cause, Side end) {
  for (Group& group : affected.groups)
    if (group.kind == kind && group.cause == cause && group.end == end) return &group;
  constexpr std::uint64_t each = 4;
  if (groups_ >= each * options_.affected) {
    ++skipped_affected_;
    return nullptr;
  }
  most_groups_ = std::max(most_groups_, ++groups_);
  Group& group = affected.groups.emplace_back();
  group.kind = kind;
  group.cause = cause;
  group.end = end;
  return &group;
}

void Analysis::event(const Connection* connection, const Event& event) {
  ++events[static_cast<std::size_t>(event.kind)];
  events_[static_cast<std::size_t>(event.kind)].add(event);
  const auto cause = static_cast<std::size_t>(event.cause);
  switch (event.kind) {
    case EventKind::retransmission: {
      retransmitted_packets += event.packets;
      RecoveryCounts& row = retransmissions[cause];
      ++row.recoveries;
      row.packets += event.packets;
      row.bytes += event.bytes;
      accumulate(row.duration_ns, event.duration);
      series.at(event.time).retransmitted += event.packets;
      break;
    }
    case EventKind::nak: ++naks[cause]; break;
    case EventKind::rnr_nak: ++rnr_naks; break;
    case EventKind::cnp:
      rate_fell += event.cause == Cause::rate_fell;
      rate_unchanged += event.cause == Cause::rate_unchanged;
      if (event.origin_frame && event.duration > 0) ce_to_cnp.add(event.duration);
      break;
    case EventKind::crc_bad:
      if (connection) {
        const PortAddress& from = connection->at(event.end).address;
        const PortAddress& to = connection->at(tracking::other(event.end)).address;
        if (Count* count = crc_causes_.at({from, to, cause})) ++count->count;
      }
      break;
    default: break;
  }
  // Notes and idle periods were counted above. They are not grouped.
  if (tracking::event_rows[static_cast<std::size_t>(event.kind)].severity == Severity::note) return;
  if (event.kind == EventKind::stall && event.cause == Cause::nothing_outstanding) return;
  ConnectionEvents& affected = events_of_connection(connection);
  if (connection) {
    affected.ends = connection->ends;
    affected.service = connection->service;
    affected.packets = {connection->sent[0].packets, connection->sent[1].packets};
  }
  if (Group* group = group_of(affected, event.kind, event.cause, event.end)) group->add(event);
}

// Assigns the events of a direction to the connection into which it was merged. Endpoint a of the direction is endpoint
// b of the connection.
void Analysis::merged(const Connection& connection, std::uint64_t id) {
  for (auto& kind : events_)
    kind.change([&](Event& event) {
      if (event.connection != id) return;
      event.connection = connection.id;
      event.end = tracking::other(event.end);
    });
  const auto found = affected_.find(id);
  if (found == affected_.end() || id == 0) return;
  const ConnectionEvents half = std::move(found->second);
  affected_.erase(found);
  groups_ -= half.groups.size();
  ConnectionEvents& whole = events_of_connection(&connection);
  whole.ends = connection.ends;
  whole.service = connection.service;
  whole.packets = {connection.sent[0].packets, connection.sent[1].packets};
  for (const Group& group : half.groups)
    if (Group* mine = group_of(whole, group.kind, group.cause, tracking::other(group.end))) mine->merge(group);
}

void Analysis::add_queue_pair(const tracking::ConnectionEnd& end) {
  if (end.qp_known) static_cast<void>(queue_pairs_.at({end.address, PortAddress{}, std::uint64_t{end.qp}}));
}

void Analysis::connection(const Connection& connection, tracking::CloseReason close_reason) {
  ++connections;
  evicted_connections += close_reason == tracking::CloseReason::evicted;
  connection_rows_.add(connection);
  if (connection.service != tracking::Service::iwarp)
    for (const tracking::ConnectionEnd& end : connection.ends) add_queue_pair(end);
  if (const auto found = affected_.find(connection.id); found != affected_.end()) {
    found->second.ends = connection.ends;
    found->second.service = connection.service;
    found->second.packets = {connection.sent[0].packets, connection.sent[1].packets};
  }
  using tracking::Service;
  const tracking::Sent& a = connection.sent[0];
  const tracking::Sent& b = connection.sent[1];
  for (const tracking::Sent& sent : connection.sent) {
    duplicable +=
        connection.service == Service::iwarp ? sent.requests + sent.responses + sent.duplicates : sent.requests;
    duplicates += sent.duplicates;
  }
  const bool reliable = connection.service == Service::rc || connection.service == Service::xrc;
  if (reliable && a.packets + b.packets != 0 && connection.opened_frame == 0) opened_before.add(connection);
  if (reliable) {
    if ((a.packets == 0) != (b.packets == 0)) {
      // A requester without responses retransmits for a long time. A short connection may have only one direction
      // because the capture starts or ends within it. If the capture contains the establishment of the connection, one
      // retransmission is sufficient evidence.
      constexpr std::int64_t long_enough = 10'000'000;
      const bool is_long = connection.opened_frame
                               ? a.retransmitted_packets + b.retransmitted_packets != 0
                               : difference(connection.last_time, connection.first_time) >= long_enough;
      if (a.packets + b.packets >= 3 && is_long) one_way.add(connection);
    } else {
      two_way.add(connection);
    }
    const bool differs = (a.requests && b.responses && a.request_dscp != b.response_dscp) ||
                         (b.requests && a.responses && b.request_dscp != a.response_dscp);
    if (differs) other_class.add(connection);
    if (connection.confidence == tracking::Confidence::low) low_confidence.add(connection);
  }
}

void Analysis::mrc_flow(const tracking::MrcFlow& flow, tracking::CloseReason close_reason) {
  ++mrc_flows;
  evicted_mrc_flows += close_reason == tracking::CloseReason::evicted;
  mrc.add(flow);
}

void Analysis::merge(const Analysis& other) {
  packets += other.packets;
  bytes += other.bytes;
  first_time = std::min(first_time, other.first_time);
  last_time = std::max(last_time, other.last_time);
  add_all(wires, other.wires);
  for (std::size_t dscp = 0; dscp < classes.size(); ++dscp)
    for (std::size_t ecn = 0; ecn < 4; ++ecn) add_all(classes[dscp][ecn], other.classes[dscp][ecn]);
  crcs_checked += other.crcs_checked;
  crcs_bad += other.crcs_bad;
  truncated_packets += other.truncated_packets;
  series.merge(other.series);
  for (const auto& [key, row] : other.pauses) {
    const auto [mine, fresh] = pauses.try_emplace(key, row);
    if (fresh) continue;
    mine->second.frames += row.frames;
    mine->second.stops += row.stops;
    mine->second.quanta += row.quanta;
    accumulate(mine->second.pause_ns, row.pause_ns);
    mine->second.first_frame = std::min(mine->second.first_frame, row.first_frame);
  }
  skipped_pauses += other.skipped_pauses;
  management.merge(other.management);

  messages += other.messages;
  message_bytes += other.message_bytes;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    OperationRow& mine = operations[i];
    const OperationRow& theirs = other.operations[i];
    mine.messages += theirs.messages;
    mine.bytes += theirs.bytes;
    mine.completed += theirs.completed;
    mine.refused += theirs.refused;
    mine.size_min = std::min(mine.size_min, theirs.size_min);
    mine.size_max = std::max(mine.size_max, theirs.size_max);
    add_all(mine.sizes, theirs.sizes);
  }
  partial_messages += other.partial_messages;
  first_partial = std::min(first_partial, other.first_partial);
  unacknowledged += other.unacknowledged;

  add_all(events, other.events);
  retransmitted_packets += other.retransmitted_packets;
  for (std::size_t i = 0; i < retransmissions.size(); ++i) {
    retransmissions[i].recoveries += other.retransmissions[i].recoveries;
    retransmissions[i].packets += other.retransmissions[i].packets;
    retransmissions[i].bytes += other.retransmissions[i].bytes;
    accumulate(retransmissions[i].duration_ns, other.retransmissions[i].duration_ns);
  }
  add_all(naks, other.naks);
  rnr_naks += other.rnr_naks;
  rate_fell += other.rate_fell;
  rate_unchanged += other.rate_unchanged;
  ce_to_cnp.merge(other.ce_to_cnp);

  connections += other.connections;
  evicted_connections += other.evicted_connections;
  opened_before.merge(other.opened_before);
  one_way.merge(other.one_way);
  two_way.merge(other.two_way);
  other_class.merge(other.other_class);
  duplicable += other.duplicable;
  duplicates += other.duplicates;
  low_confidence.merge(other.low_confidence);

  mrc_flows += other.mrc_flows;
  evicted_mrc_flows += other.evicted_mrc_flows;
  mrc.merge(other.mrc);

  incast.merge(other.incast);
  talkers_.merge(other.talkers_);
  flow_queue_pairs_.merge(other.flow_queue_pairs_);
  flow_ports_.merge(other.flow_ports_);
  regions_.merge(other.regions_);
  queue_pairs_.merge(other.queue_pairs_);
  crc_causes_.merge(other.crc_causes_);
  for (std::size_t i = 0; i < latencies_.size(); ++i) {
    if (!other.latencies_[i]) continue;
    if (!latencies_[i]) latencies_[i] = std::make_unique<Histogram>();
    latencies_[i]->merge(*other.latencies_[i]);
  }
  connection_rows_.merge(other.connection_rows_);
  for (std::size_t i = 0; i < events_.size(); ++i) events_[i].merge(other.events_[i]);
  for (const auto& [id, theirs] : other.affected_) {
    const auto [mine, fresh] = affected_.try_emplace(id, theirs);
    if (fresh) {
      groups_ += theirs.groups.size();
      continue;
    }
    for (const Group& group : theirs.groups)
      if (Group* same = group_of(mine->second, group.kind, group.cause, group.end)) same->merge(group);
  }
  skipped_affected_ += other.skipped_affected_;
  sentences_.insert(sentences_.end(), other.sentences_.begin(), other.sentences_.end());
}

std::vector<Event> Analysis::first_events(EventKind kind) const {
  return events_[static_cast<std::size_t>(kind)].sorted();
}

std::map<PortAddress, std::uint64_t> Analysis::queue_pairs_by_address() const {
  std::map<PortAddress, std::uint64_t> counts;
  for (const auto& [key, row] : queue_pairs_.rows()) ++counts[key.from];
  return counts;
}

std::optional<Cause> Analysis::crc_cause(const PortAddress& from, const PortAddress& to) const {
  std::optional<Cause> cause;
  std::uint64_t most = 0;
  for (const auto& [key, row] : crc_causes_.rows()) {
    if (key.from != from || key.to != to) continue;
    const auto this_cause = static_cast<Cause>(key.number);
    if (row.count > most || (row.count == most && cause && this_cause < *cause)) {
      most = row.count;
      cause = this_cause;
    }
  }
  return cause;
}

std::uint64_t Analysis::overflow() const {
  return talkers_.overflow() + flow_queue_pairs_.overflow() + flow_ports_.overflow() + regions_.overflow() +
         queue_pairs_.overflow() + crc_causes_.overflow() + skipped_affected_ + skipped_pauses + management.left_out +
         incast.overflow() + mrc.dropped();
}

void Analysis::append_levels(std::vector<tracking::Level>& levels) const {
  levels.push_back(incast.level());
  levels.push_back({most_affected_, options_.affected});
  levels.push_back({most_groups_, std::uint64_t{4} * options_.affected});
}

}  // namespace rdmawire::captures::analysis
