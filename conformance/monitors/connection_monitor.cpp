#include "conformance/monitors/connection_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/state_number.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {

using tracking::Service;

bool CaptureAssumptions::covers(const tracking::PortAddress& address) const {
  return everywhere || std::find(at.begin(), at.end(), address) != at.end();
}

bool CaptureAssumptions::checks(const tracking::PortAddress& address) const {
  return checked.empty() || std::find(checked.begin(), checked.end(), address) != checked.end();
}

Place MonitoredPacket::place(Side checked) const {
  return {connection.id, checked, false, {}, t.frame, t.time, monitor.relative_psn(from, t, negotiated)};
}

void MonitoredPacket::attach_sequence(Violation* violation) const {
  if (violation) monitor.attach_sequence(violation);
}

std::uint32_t ConnectionMonitor::relative_psn(Side from, const TransportPacket& t,
                                              const tracking::NegotiatedParameters* negotiated) const {
  const auto requester = static_cast<std::size_t>(t.is_response() ? tracking::other(from) : from);
  Psn first = t.psn;
  if (exchanges_[requester].started())
    first = exchanges_[requester].first();
  else if (senders_[requester].started())
    first = senders_[requester].first();
  else if (negotiated && negotiated->ends[requester].first_psn)
    first = Psn(*negotiated->ends[requester].first_psn);
  return Psn(t.psn.value() - first.value()).value();
}

bool MonitoredPacket::sent_after(const SentMoment& earlier) const {
  if (sees_all_of(from)) return true;
  if (numbered) return tracking::SendOrder::is_after(t.identification, earlier.identification);
  return t.time - earlier.time >= limits::reorder_ns;
}

namespace {

std::size_t slot_of(std::uint32_t icrc, std::size_t slots) { return (icrc ^ icrc >> 16) % slots; }

}  // namespace

// Returns an earlier packet with the same contents, or nullptr.
const TransportPacketTrace* ConnectionMonitor::find_identical(Side from, const TransportPacket& t) const {
  if (t.icrc == 0) return nullptr;
  const TransportPacketTrace& l = last_[slot_of(t.icrc, last_.size())];
  return l.icrc == t.icrc && l.psn == t.psn.value() && l.opcode == t.op->value &&
                 l.identification == t.identification && l.from == from
             ? &l
             : nullptr;
}

void ConnectionMonitor::note(Side from, const TransportPacket& t, const tracking::NegotiatedParameters* negotiated,
                             bool duplicate) {
  SequenceEntry& entry = entries_[noted_ % kept];
  entry = {t.frame,       t.time,        relative_psn(from, t, negotiated),
           t.payload,     t.msn.value(), t.op->value,
           t.syndrome,    from,          t.has_aeth,
           t.ack_request, duplicate};
  last_[slot_of(t.icrc, last_.size())] = {t.icrc, t.identification, t.psn.value(), t.op->value, from, t.time};
  ++noted_;
  for (OpenSequence& open : open_sequences_) {
    open.violation->sequence.push_back(entry);
    --open.left;
  }
  std::erase_if(open_sequences_, [](const OpenSequence& open) { return open.left == 0; });
}

void ConnectionMonitor::attach_sequence(Violation* violation) {
  violation->sequence.clear();
  const std::size_t count = std::min<std::size_t>(noted_, kept);
  for (std::size_t i = noted_ - count; i < noted_; ++i) violation->sequence.push_back(entries_[i % kept]);
  open_sequences_.push_back({violation, entries_after});
}

void ConnectionMonitor::packet(Evaluator& evaluator, const CaptureAssumptions& assumptions,
                               const Connection& connection, Side from, const TransportPacket& t,
                               const tracking::NegotiatedParameters* negotiated, bool alternate_path) {
  const bool sure = connection.confidence == tracking::Confidence::certain ||
                    (connection.confidence == tracking::Confidence::high && connection.contradicting == 0 &&
                     connection.agreeing >= 8);
  // Find an identical packet, unless the capture is complete and so contains no duplicates. If the sender numbers its
  // packets, equal IP identifications distinguish a duplicate from a retransmission.
  tracking::SendOrder& order = orders_[static_cast<std::size_t>(from)][t.is_response() ? 1 : 0];
  const TransportPacketTrace* earlier =
      assumptions.covers(connection.at(from).address) ? nullptr : find_identical(from, t);
  const bool duplicate = earlier && (order.numbered() || t.time - earlier->time < limits::duplicate_ns);
  order.note(t.identification);
  checked_ = {assumptions.checks(connection.at(Side::a).address), assumptions.checks(connection.at(Side::b).address)};
  evaluator.set_packet({checked_, from, t.is_response()});
  MonitoredPacket watch{
      evaluator,
      connection,
      t,
      negotiated,
      *this,
      from,
      sure,
      {assumptions.covers(connection.at(Side::a).address), assumptions.covers(connection.at(Side::b).address)},
      duplicate,
      earlier != nullptr,
      order.numbered(),
      assumptions.everywhere};
  note(from, t, negotiated, duplicate);
  for (Violation* violation : evaluator.of_frame(t.frame)) {
    evaluator.assign(*violation, connection.id);
    violation->place.end = from;
    violation->place.psn = relative_psn(from, t, negotiated);
    attach_sequence(violation);
  }
  if (connection.service == Service::vendor || connection.service == Service::rd) return;
  // Skip damaged packets at the start of a connection: the QP number may be damaged, so that there is no such
  // connection, or the PSN or opcode. If later packets have invalid CRCs, too, the sender's CRCs do not indicate
  // damage.
  constexpr std::uint8_t first_packets = 3;
  std::uint8_t& packets = packets_[static_cast<std::size_t>(from)][t.is_response() ? 1 : 0];
  if (packets <= first_packets) ++packets;
  if (t.crc_bad && !assumptions.everywhere && packets <= first_packets) return;
  check_state_after_error(watch);
  check_ecn(watch);
  if (connection.service != Service::ud) {
    check_migration(watch, alternate_path);
    check_source_port(watch);
  }
  const bool notification = t.op->operation == Operation::congestion_notification;
  if (t.traffic_class != 0 || notification) congestion_[static_cast<std::size_t>(from)].packet(watch, congestion_);
  if (notification) return;
  // Skip packets that the receiver drops: truncated ones and those of another service.
  if (t.truncated || (!t.is_response() && tracking::service_of(t.op->transport) != connection.service)) return;
  switch (connection.service) {
    case Service::rc:
    case Service::xrc: {
      const Side requester = t.is_response() ? tracking::other(from) : from;
      RcExchange& exchange = exchanges_[static_cast<std::size_t>(requester)];
      if (t.is_response())
        exchange.response(watch);
      else
        exchange.request(watch);
      break;
    }
    case Service::uc:
      if (t.is_response())
        check_unreliable_response(watch);
      else
        senders_[static_cast<std::size_t>(from)].packet(watch);
      break;
    default: break;
  }
}

// Checks MigReq of the first packet of each direction, and of each packet in which it changes.
void ConnectionMonitor::check_migration(const MonitoredPacket& watch, bool alternate_path) {
  const auto& t = watch.t;
  if (t.op->operation == Operation::congestion_notification || t.damaged) return;
  auto& before = migrated_[static_cast<std::size_t>(watch.from)];
  if (before == t.migrated) return;
  before = t.migrated;
  const bool seen = watch.negotiated && watch.negotiated->by != tracking::JoinedBy::text;
  watch.report(
      "bth.sender.migration.state-constant",
      RuleResult::of(t.migrated).unless(!seen, Reason::start_not_seen).unless(alternate_path, Reason::device_internal),
      watch.from, [&] {
        return Statement{"MigReq 1 (migrated), because no alternate path was loaded",
                         fmt::format("MigReq 0 in {}", t.op->name),
                         {watch.negotiated ? watch.negotiated->request_frame : 0}};
      });
}

// Checks the ECN field of the first packet, and of each packet in which it changes. Only a device with congestion
// management may set ECN, but the capture does not show whether a device has it.
void ConnectionMonitor::check_ecn(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (t.wire != Wire::roce_v2) return;
  constexpr std::uint8_t congestion_experienced = 3;
  const std::uint8_t ecn = t.traffic_class & 3;
  auto& marked = marked_[static_cast<std::size_t>(watch.from)];
  if (marked != (ecn == congestion_experienced)) {
    marked = ecn == congestion_experienced;
    // A switch between the sender and the capture point may have set the mark.
    watch.report("roce.sender.ip.ecn-never-marked",
                 RuleResult::of(!*marked).unless(!watch.sees_all_of(watch.from), Reason::modified_in_transit),
                 watch.from, [&] {
                   return Statement{"an ECN field of 00, 01 or 10", "11, congestion experienced", {}};
                 });
  }
  const bool capable = ecn != 0;
  auto& before = capable_[static_cast<std::size_t>(watch.from)];
  if (before == capable) return;
  before = capable;
  watch.evaluator.record("roce.sender.ip.ecn-clear-without-management",
                         capable ? RuleResult::inconclusive(Reason::capability_unknown) : RuleResult::pass());
}

void ConnectionMonitor::check_source_port(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (t.source_port == 0 || t.crc_bad || watch.duplicate) return;
  const auto side = static_cast<std::size_t>(watch.from);
  if (port_[side] != 0)
    watch.report("roce.sender.udp.source-port-constant", RuleResult::of(port_[side] == t.source_port), watch.from, [&] {
      return Statement{fmt::format("UDP source port {}, as in frame {}", port_[side], port_frame_[side]),
                       fmt::format("port {}", t.source_port),
                       {port_frame_[side]}};
    });
  constexpr std::uint16_t dynamic = 49152;
  if (port_[side] != t.source_port)
    watch.evaluator.record(
        "roce.sender.udp.source-port-dynamic",
        t.source_port >= dynamic ? RuleResult::pass() : RuleResult::inconclusive(Reason::device_internal));
  port_[side] = t.source_port;
  port_frame_[side] = t.frame;
}

// Checks that a QP is silent in the Error state, and after the connection was closed.
void ConnectionMonitor::check_state_after_error(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (t.damaged || watch.duplicate) return;
  const auto side = static_cast<std::size_t>(watch.from);
  const bool notification = t.op->operation == Operation::congestion_notification;
  if (failed_[side].frame != 0 && !notification) {
    const bool sure = t.time - failed_[side].time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    watch.report("qp.sender.state.quiet-after-error", RuleResult::violation().unless(!sure, Reason::order_unknown),
                 watch.from, [&] {
                   return Statement{fmt::format("no packet after the NAK of frame {}, which moves the QP to the Error "
                                                "state",
                                                failed_[side].frame),
                                    std::string(t.op->name),
                                    {failed_[side].frame}};
                 });
  }
  const bool fatal = t.op->operation == Operation::acknowledge && Syndrome(t.syndrome).is_nak() &&
                     Syndrome(t.syndrome).code() != nak_code::psn_sequence_error;
  if (fatal && failed_[side].frame == 0) {
    failed_[side] = {t.frame, t.time};
    watch.pass("qp.sender.state.quiet-after-error");
    refused_[1 - side] = {t.frame, t.time};
  } else if (refused_[side].frame != 0 && !t.is_response() && !notification) {
    // The requester's QP enters the Error state when the NAK arrives.
    watch.report("qp.sender.state.quiet-after-error",
                 RuleResult::violation().unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream),
                 watch.from, [&] {
                   return Statement{fmt::format("no request after the NAK of frame {}", refused_[side].frame),
                                    std::string(t.op->name),
                                    {refused_[side].frame}};
                 });
  }
  if (closed_ && !notification) {
    // Only the sender of the DREP certainly knows that the connection is closed, because the DREP may be lost.
    const Side answered = tracking::other(closed_->by);
    const bool later = t.time - closed_->time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    const bool sure = later && watch.from == answered;
    watch.report("cm.endpoint.disconnect.nothing-accepted",
                 RuleResult::violation().unless(!t.is_response() || !sure, Reason::in_flight), watch.from, [&] {
                   return Statement{fmt::format("no response after the DREP of frame {}", closed_->frame),
                                    std::string(t.op->name),
                                    {closed_->frame}};
                 });
  }
}

void ConnectionMonitor::closed(Evaluator& evaluator, std::uint64_t reply_frame, std::int64_t reply_time, Side by) {
  closed_ = Closed{reply_frame, reply_time, by};
  evaluator.set_packet({checked_, tracking::other(by), true});
  evaluator.record("cm.endpoint.disconnect.nothing-accepted", RuleResult::pass());
}

void ConnectionMonitor::adopt(ConnectionMonitor&& other) {
  exchanges_[1] = std::move(other.exchanges_[0]);
  senders_[1] = other.senders_[0];
  port_[1] = other.port_[0];
  port_frame_[1] = other.port_frame_[0];
  failed_[1] = other.failed_[0];
  congestion_[1] = other.congestion_[0];
  for (const OpenSequence& open : other.open_sequences_) open_sequences_.push_back(open);
}

void ConnectionMonitor::states(std::vector<std::uint64_t>& states) const {
  for (std::size_t i = 0; i < 2; ++i) {
    exchanges_[i].states(states);
    senders_[i].states(states);
    states.push_back(state_number(failed_[i].frame != 0, refused_[i].frame != 0, migrated_[i].value_or(true),
                                  marked_[i].value_or(false), closed_.has_value()));
  }
}

void ConnectionMonitor::finish(Evaluator& evaluator) {
  for (const Side requester : {Side::a, Side::b}) {
    evaluator.set_packet({checked_, requester, false});
    exchanges_[static_cast<std::size_t>(requester)].finish(evaluator);
  }
}

}  // namespace rdmawire::conformance
