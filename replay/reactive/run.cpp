#include "replay/reactive/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <random>

#include "dissectors/tracking/dissector.hpp"
#include "replay/reactive/encoder.hpp"
#include "replay/reactive/iwarp_run.hpp"
#include "replay/reactive/recorder.hpp"
#include "replay/reactive/session.hpp"
#include "replay/reactive/wording.hpp"

namespace rdmawire::replay::reactive {
namespace {

constexpr std::uint32_t our_sides = 0, their_side = 1;  // sides a and b of the fault language

/// A frame that is sent or delivered later.
struct Later {
  std::uint32_t side = 0;
  ByteVector bytes;
  std::string comment;
};

/// A RoCE replay in progress.
class RocePlayer {
 public:
  RocePlayer(Session& session, RoceMachine& machine, LiveEnd& end, Encoder& encoder, MacAddress device_mac,
             std::uint32_t our_qp, Psn our_psn, Psn their_psn)
      : session_(session),
        machine_(machine),
        end_(end),
        encoder_(encoder),
        wire_(*session.device.wire),
        faults_(session.options.faults, fault_options(session, end, our_qp)),
        device_mac_(device_mac),
        our_qp_(our_qp),
        our_psn_(our_psn),
        their_psn_(their_psn) {}

  void run() {
    perform(machine_.start(wire_.now()));
    while (going() && !machine_.done()) turn();
    if (going() && !machine_.refused()) drain();
    session_.take_faults(faults_);
  }

 private:
  /// Fault rules use the connection and QP numbers of the capture, which are also in the report.
  static FaultEngineOptions fault_options(const Session& session, const LiveEnd& end, std::uint32_t our_qp) {
    const Exchange& exchange = session.exchange;
    FaultEngineOptions options;
    options.seed = session.options.seed;
    options.connection = exchange.number;
    options.qp_numbers[our_qp] = exchange.connection.at(exchange.side).qp;
    options.qp_numbers[end.queue_pair().qp_num()] = exchange.connection.at(tracking::other(exchange.side)).qp;
    return options;
  }

  [[nodiscard]] bool going() { return session_.report.failure.empty() && !session_.stopped() && no_failure(); }
  bool no_failure() {
    if (!machine_.failure().empty()) session_.fail(machine_.failure());
    return machine_.failure().empty();
  }

  /// Waits for the next event and handles it.
  void turn() {
    constexpr std::int64_t slice = 100'000'000;
    std::int64_t until = std::min({wire_.now() + slice, wake_, faults_.wakes()});
    if (!later_.empty()) until = std::min(until, later_.begin()->first);
    auto received = wire_.receive(until);
    if (!received) return session_.fail(received.error().message);
    if (*received) arrived((*received)->frame, (*received)->time);
    release_due_frames();
    if (wire_.now() >= wake_) perform(machine_.on_timer(wire_.now()));
    if (auto kept = end_.keep_receiving(machine_.counts().ours_done); !kept) session_.fail(kept.error());
  }

  /// Waits until the peer's application has all completions. Continues to answer retransmissions, because the last
  /// local response may be lost.
  void drain() {
    constexpr std::int64_t slice = 20'000'000;
    const std::int64_t begin = wire_.now();
    for (;;) {
      if (auto polled = end_.poll(); !polled) return session_.fail(polled.error());
      if (session_.all_completed(end_, machine_.counts().theirs_asked) &&
          (!session_.exchange.is_unreliable() || there()))
        return;
      if (wire_.now() - begin > session_.options.machine.step_timeout) {
        return session_.fail(fmt::format(
            "the peer's application has completions for {} of {} sent messages and {} of "
            "{} received messages",
            end_.sent().size(), machine_.counts().theirs_asked, end_.received().size(), session_.plan.inbox.size()));
      }
      wake_ = std::min(wake_, wire_.now() + slice);
      const std::int64_t until = wire_.now() + slice;
      while (going() && wire_.now() < until) {
        wake_ = std::min(wake_, until);
        turn();
      }
      if (!going()) return;
    }
  }

  /// UC: true if the written data is in the device's memory, or the time for it has expired.
  bool there() {
    if (begun_waiting_ == 0) begun_waiting_ = wire_.now();
    if (wire_.now() - begun_waiting_ >= session_.options.machine.retry_after) return true;
    const auto memory = end_.compare(machine_.counts().ours_done, machine_.counts().theirs_done);
    return !memory || std::all_of(memory->begin(), memory->end(), [](const auto& one) { return one.good; });
  }

  void perform(const Actions& actions) {
    wake_ = actions.wake;
    for (const std::size_t poke : actions.pokes)
      if (auto done = end_.poke(session_.plan.pokes[poke]); !done) return session_.fail(done.error());
    for (const OutgoingPacket& next_packet : actions.outgoing) {
      auto frame = encoder_.encode(next_packet);
      if (!frame) return session_.fail(frame.error());
      const std::int64_t now = wire_.now();
      const std::string comment = next_packet.captured_frame == 0
                                      ? std::string("sent; created by the replay")
                                      : fmt::format("sent; captured frame {}", next_packet.captured_frame);
      leave(faults_.arrived(*frame, now, our_sides), now, comment);
    }
    flush();
    if (auto posted = end_.post(actions.posts); !posted) session_.fail(posted.error());
  }

  /// Sends or delivers the frames that the injected faults passed on.
  void leave(const FaultOutcome& outcome, std::int64_t now, const std::string& comment) {
    for (const FaultedFrame& frame : outcome.leaving) {
      Later one{frame.side, {frame.bytes.begin(), frame.bytes.end()}, comment};
      if (!frame.faults.empty()) one.comment += fmt::format("; {}", frame.faults);
      if (frame.time > now)
        later_.emplace(frame.time, std::move(one));
      else
        pass(std::move(one));
    }
  }
  void pass(Later one) {
    if (one.side != our_sides)
      heard_.push_back(std::move(one.bytes));
    else if (may_leave(one.bytes))
      sending_.push_back(std::move(one));
  }
  /// True if the frame is addressed to the device. An injected fault may have changed the address.
  bool may_leave(Bytes frame) {
    constexpr std::size_t address_bytes = 6;
    if (frame.size() >= address_bytes && load_be<address_bytes>(frame.data()) == device_mac_) return true;
    session_.note("a frame was not sent, because a fault changed its destination MAC address");
    return false;
  }

  void release_due_frames() {
    const std::int64_t now = wire_.now();
    leave(faults_.due(now), now, "sent");
    while (!later_.empty() && later_.begin()->first <= now) {
      pass(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    flush();
    while (!heard_.empty()) {
      const ByteVector frame = std::move(heard_.front());
      heard_.erase(heard_.begin());
      hear(frame);
    }
  }

  void flush() {
    std::size_t at = 0;
    while (at < sending_.size() && session_.report.failure.empty()) {
      std::vector<Outgoing> batch;
      for (std::size_t i = at; i < sending_.size() && batch.size() < 64; ++i) batch.push_back({sending_[i].bytes, 0});
      auto sent = wire_.send(batch);
      if (!sent && sent.error().kind != WireError::Kind::full) {
        session_.fail(sent.error().message);
        break;
      }
      const std::size_t taken = sent ? *sent : 0;
      for (std::size_t i = at; i < at + taken; ++i) session_.sent(sending_[i].bytes, wire_.now(), sending_[i].comment);
      at += taken;
      if (taken == batch.size()) continue;
      constexpr std::int64_t patience = 2'000'000'000;
      const auto room = wire_.writable(wire_.now() + patience);
      if (!room)
        session_.fail(room.error().message);
      else if (!*room)
        session_.fail(fmt::format("{} accepted no frame for {} ms", wire_.name(), patience / 1'000'000));
    }
    sending_.clear();
  }

  void arrived(Bytes frame, std::int64_t time) {
    if (!is_of_connection(frame, time)) return;
    live_frame_ = session_.received(frame, time);
    leave(faults_.arrived(frame, std::max(time, wire_.now()), their_side), wire_.now(), "received");
  }

  bool is_of_connection(Bytes frame, std::int64_t time) {
    dissect(frame, time);
    tracking::TransportPacket t;
    return tracking::read_transport_packet(packet_, t) && t.dest_qp == our_qp_;
  }
  void dissect(Bytes frame, std::int64_t time) {
    ++packet_.number;
    packet_.time_ns = time;
    packet_.link = LinkType::ethernet;
    dissector_.dissect(packet_, frame, static_cast<std::uint32_t>(frame.size()));
  }

  void hear(const ByteVector& frame) {
    const std::int64_t now = wire_.now();
    dissect(frame, now);
    tracking::TransportPacket t;
    if (!tracking::read_transport_packet(packet_, t) || !t.op->known) return;
    if (t.crc_bad) return session_.note(fmt::format("frame {}: ignored because of a bad ICRC", live_frame_));
    if (t.payload_at + t.payload > frame.size()) return;
    const Psn first = t.is_response() ? our_psn_ : their_psn_;
    const Psn relative(static_cast<std::uint32_t>(t.psn - first));
    perform(machine_.on_received({&t, Bytes(frame).subspan(t.payload_at, t.payload), relative, live_frame_}, now));
  }

  Session& session_;
  RoceMachine& machine_;
  LiveEnd& end_;
  Encoder& encoder_;
  Wire& wire_;
  FaultEngine faults_;
  MacAddress device_mac_;
  std::uint32_t our_qp_;
  Psn our_psn_, their_psn_;
  std::int64_t wake_ = Wire::forever, begun_waiting_ = 0;
  std::multimap<std::int64_t, Later> later_;
  std::vector<Later> sending_;
  std::vector<ByteVector> heard_;
  std::uint64_t live_frame_ = 0;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
};

/// The device's host resolves the local MAC address during this call, so received frames must be handled concurrently.
peer::PeerResult<void> connect(const peer::QueuePair& qp, const peer::Connection& connection, Wire& wire) {
  if (wire.capabilities().virtual_time) return qp.connect(connection);
  auto connecting = std::async(std::launch::async, [&] { return qp.connect(connection); });
  constexpr std::int64_t slice = 20'000'000;
  bool alive = true;
  while (connecting.wait_for(std::chrono::milliseconds(alive ? 0 : 20)) != std::future_status::ready)
    alive = alive && wire.receive(wire.now() + slice).has_value();
  return connecting.get();
}

tracking::PortAddress port_of(const IpAddress& address) {
  if (address.v6) return tracking::PortAddress::of_gid(address.storage.data());
  return tracking::PortAddress::of_ipv4(static_cast<std::uint32_t>(load_be<4>(address.storage.data())));
}

bool is_v6(const tracking::PortAddress& address) {
  constexpr std::uint64_t mapped = 0xffff;
  return address.high != 0 || address.low >> 32 != mapped;
}

}  // namespace

FlowMap map_of(const Exchange& exchange, const MemoryPlan& plan, const LiveWay& way, const LiveEnd& end,
               std::uint32_t our_qp, Psn our_psn, Psn their_psn) {
  const std::size_t us = static_cast<std::size_t>(exchange.side);
  const tracking::Connection& captured = exchange.connection;
  MappedConnection connection;
  connection.name = fmt::format("connection {}", exchange.number);
  connection.service = captured.service;
  MappedEnd &ours = connection.ends[us], &theirs = connection.ends[1 - us];
  ours.address = {captured.ends[us].address, port_of(way.our_address)};
  theirs.address = {captured.ends[1 - us].address, port_of(way.device_address)};
  // Replaces any captured MAC address. The ICRC does not cover the link header, so a captured address may be damaged.
  ours.mac.live = way.our_mac;
  theirs.mac.live = way.device_mac;
  if (captured.ends[us].qp_known) ours.qp.captured = captured.ends[us].qp;
  ours.qp.live = our_qp;
  theirs.qp = {captured.ends[1 - us].qp, end.queue_pair().qp_num()};
  ours.psn = {exchange.ours.first.value(), our_psn.value()};
  theirs.psn = {exchange.theirs.first.value(), their_psn.value()};
  add_regions(plan, end, theirs);
  connection.vlan.id.live = way.vlan == 0 ? MappedVlan::untagged : way.vlan;
  constexpr std::uint16_t default_pkey = 0xffff;
  connection.pkey.live = default_pkey;
  connection.first_frame = captured.first_frame;
  connection.last_frame = captured.last_frame;
  FlowMap map;
  map.connections.push_back(std::move(connection));
  return map;
}

Report play(const Exchange& exchange, const LiveDevice& device, const RunOptions& options) {
  Session session(exchange, device, options);
  auto plan = plan_memory(exchange, options.most_memory);
  if (!plan) return session.failed(plan.error());
  session.plan = std::move(*plan);
  if (exchange.is_iwarp()) return play_stream(session);
  if (!device.wire) return session.failed("the captured connection uses RoCE, but the device uses iWARP");
  if (exchange.is_unreliable() && !options.faults.rules().empty())
    return session.failed("faults cannot be injected into a UC replay, because UC does not retransmit; remove --fault");
  if (!exchange.model) return session.failed("the capture contains no packet of the emulated side");
  const bool v6 = is_v6(exchange.connection.ends[0].address);
  if (v6 && !device.ipv6) return session.failed("the capture uses IPv6, but the device has no usable IPv6 address");
  const LiveWay& way = v6 ? *device.ipv6 : device.way;
  if (device.verbs->port().active_mtu != 0 && device.verbs->port().active_mtu < exchange.mtu)
    return session.failed(
        fmt::format("the captured packets contain {} bytes, but the device's port accepts {}; increase the MTU of its "
                    "interface",
                    exchange.mtu, device.verbs->port().active_mtu));
  auto end = LiveEnd::make(device, exchange, session.plan);
  if (!end) return session.failed(end.error());

  // Random values, to detect captured values that were not rewritten.
  std::mt19937_64 random(options.seed);
  const Psn our_psn(static_cast<std::uint32_t>(random())), their_psn(static_cast<std::uint32_t>(random()));
  constexpr std::uint32_t least_qp = 0x100, qps = 0x10000;
  const auto our_qp = static_cast<std::uint32_t>(least_qp + random() % qps);
  peer::Connection connection;
  connection.qp_num = our_qp;
  connection.address = to_string(way.our_address);
  connection.psn = our_psn.value();
  connection.own_psn = their_psn.value();
  connection.mtu = exchange.mtu;
  connection.max_rd_atomic = connection.max_dest_rd_atomic = end->reads_at_once();
  connection.sgid_index = way.gid_index;
  constexpr std::uint8_t patient = 18;  // about one second, for slow emulated hosts and disks
  if (exchange.is_unreliable()) connection.access = {"remote_write"};
  if (!device.wire->capabilities().virtual_time) connection.timeout = patient;
  if (auto connected = connect(end->queue_pair(), connection, *device.wire); !connected)
    return session.failed(fmt::format("connect the device's queue pair: {}", connected.error().message));

  Encoder encoder(exchange, map_of(exchange, session.plan, way, *end, our_qp, our_psn, their_psn));
  MachineOptions machine_options = options.machine;
  machine_options.reads_at_once = end->reads_at_once();
  RoceMachine machine(exchange, session.plan, machine_options);
  session.read_counters(false);
  if (auto made = session.record(); !made) return session.failed(made.error());
  RocePlayer(session, machine, *end, encoder, way.device_mac, our_qp, our_psn, their_psn).run();
  session.report.divergences_left_out = machine.divergences_left_out();
  session.take(machine.counts(), machine.divergences());
  return session.finish(*end);
}

std::vector<std::string> steps_of(const Exchange& exchange) {
  std::vector<std::string> steps;
  const auto &ours = exchange.ours.messages, &theirs = exchange.theirs.messages;
  std::size_t waited = 0, asked = 0, read = 0;
  std::uint32_t acknowledged = 0;
  const auto ask = [&](std::size_t until, std::size_t sent) {
    for (; asked < theirs.size() && theirs[asked].after_messages <= sent && asked < until; ++asked)
      steps.push_back(fmt::format("the peer posts message {}: {} (frame {})", asked + 1, words_of(theirs[asked]),
                                  theirs[asked].first_frame));
  };
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ask(theirs.size(), i);
    if (ours[i].after_reads > read) {
      read = ours[i].after_reads;
      steps.push_back(fmt::format("wait for the response to READ {}", read));
    }
    if (ours[i].after_psn > acknowledged) {
      acknowledged = ours[i].after_psn;
      steps.push_back(fmt::format("wait for the acknowledgement up to PSN +{}", acknowledged - 1));
    }
    if (ours[i].after_messages > waited) {
      waited = ours[i].after_messages;
      steps.push_back(fmt::format("wait for the peer's message {} and respond", waited));
    }
    if (exchange.is_iwarp()) {
      steps.push_back(fmt::format("send message {}: {} (frame {})", i + 1, words_of(ours[i]), ours[i].first_frame));
      continue;
    }
    steps.push_back(fmt::format("send message {}: {}, PSN +{}{} (frame {})", i + 1, words_of(ours[i]), ours[i].first,
                                ours[i].psns > 1 ? fmt::format(" to +{}", ours[i].end() - 1) : "",
                                ours[i].first_frame));
  }
  ask(theirs.size(), ours.size());
  if (waited < theirs.size()) steps.push_back(fmt::format("wait for the peer's message {} and respond", theirs.size()));
  if (exchange.ours.psns > 0)
    steps.push_back(fmt::format("wait for the acknowledgement up to PSN +{}", exchange.ours.psns - 1));
  return steps;
}

}  // namespace rdmawire::replay::reactive
