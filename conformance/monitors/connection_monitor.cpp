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

bool CaptureAssumptions::judges(const tracking::PortAddress& address) const {
  return judged.empty() || std::find(judged.begin(), judged.end(), address) != judged.end();
}

Place MonitoredPacket::place(Side judged) const {
  return {connection.id, judged, false, {}, t.frame, t.time, monitor.relative_psn(from, t, agreement)};
}

void MonitoredPacket::draw(Violation* violation) const {
  if (violation) monitor.draw(violation);
}

std::uint32_t ConnectionMonitor::relative_psn(Side from, const TransportPacket& t,
                                              const tracking::NegotiatedParameters* agreement) const {
  const auto requester = static_cast<std::size_t>(t.is_response() ? tracking::other(from) : from);
  Psn first = t.psn;
  if (exchanges_[requester].started())
    first = exchanges_[requester].first();
  else if (senders_[requester].started())
    first = senders_[requester].first();
  else if (agreement && agreement->ends[requester].first_psn)
    first = Psn(*agreement->ends[requester].first_psn);
  return Psn(t.psn.value() - first.value()).value();
}

// The same packet once more: the network's or the capture's doing, not the sender's.
bool ConnectionMonitor::is_copy(Side from, const TransportPacket& t) const {
  if (t.icrc == 0) return false;
  for (std::size_t i = 0; i < last_.size() && i < noted_; ++i) {
    const Last& l = last_[i];
    if (l.icrc == t.icrc && l.psn == t.psn.value() && l.opcode == t.op->value && l.identification == t.identification &&
        l.from == from && t.time - l.time < limits::copy_ns)
      return true;
  }
  return false;
}

void ConnectionMonitor::note(Side from, const TransportPacket& t, const tracking::NegotiatedParameters* agreement,
                             bool copy) {
  SequenceEntry& rung = rungs_[noted_ % kept];
  rung = {t.frame,       t.time,        relative_psn(from, t, agreement),
          t.payload,     t.msn.value(), t.op->value,
          t.syndrome,    from,          t.has_aeth,
          t.ack_request, copy};
  last_[noted_ % last_.size()] = {t.icrc, t.identification, t.psn.value(), t.op->value, from, t.time};
  ++noted_;
  for (Drawing& drawing : drawings_) {
    drawing.violation->ladder.push_back(rung);
    --drawing.left;
  }
  std::erase_if(drawings_, [](const Drawing& drawing) { return drawing.left == 0; });
}

void ConnectionMonitor::draw(Violation* violation) {
  violation->ladder.clear();
  const std::size_t count = std::min<std::size_t>(noted_, kept);
  for (std::size_t i = noted_ - count; i < noted_; ++i) violation->ladder.push_back(rungs_[i % kept]);
  drawings_.push_back({violation, drawn_behind});
}

void ConnectionMonitor::packet(Evaluator& judge, const CaptureAssumptions& trust, const Connection& connection,
                               Side from, const TransportPacket& t, const tracking::NegotiatedParameters* agreement,
                               bool alternate_path) {
  const bool sure = connection.confidence == tracking::Confidence::certain ||
                    (connection.confidence == tracking::Confidence::high && connection.contradicting == 0 &&
                     connection.agreeing >= 8);
  // Where nothing is unseen nobody makes copies.
  const bool copy = !trust.covers(connection.at(from).address) && is_copy(from, t);
  judged_ = {trust.judges(connection.at(Side::a).address), trust.judges(connection.at(Side::b).address)};
  judge.hear({judged_, from, t.is_response()});
  MonitoredPacket watch{
      judge, connection,
      t,     agreement,
      *this, from,
      sure,  {trust.covers(connection.at(Side::a).address), trust.covers(connection.at(Side::b).address)},
      copy,  trust.everywhere};
  note(from, t, agreement, copy);
  for (Violation* violation : judge.of_frame(t.frame)) {
    violation->place.connection = connection.id;
    violation->place.end = from;
    violation->place.psn = relative_psn(from, t, agreement);
    draw(violation);
  }
  if (connection.service == Service::vendor || connection.service == Service::rd) return;
  judge_life(watch);
  judge_ecn(watch);
  if (connection.service != Service::ud) {
    judge_migration(watch, alternate_path);
    judge_source_port(watch);
  }
  const bool notification = t.op->operation == Operation::congestion_notification;
  if (t.traffic_class != 0 || notification) congestion_[static_cast<std::size_t>(from)].packet(watch, congestion_);
  if (notification) return;
  // What is cut short, or is of another service, its receiver drops.
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
        judge_unreliable_response(watch);
      else
        senders_[static_cast<std::size_t>(from)].packet(watch);
      break;
    default: break;
  }
}

// A state of the queue pair: judged when it is first seen, and when it changes.
void ConnectionMonitor::judge_migration(const MonitoredPacket& watch, bool alternate_path) {
  const auto& t = watch.t;
  if (t.op->operation == Operation::congestion_notification || t.damaged) return;
  auto& before = migrated_[static_cast<std::size_t>(watch.from)];
  if (before == t.migrated) return;
  before = t.migrated;
  const bool seen = watch.agreement && watch.agreement->by != tracking::JoinedBy::text;
  watch.say(
      "bth.sender.migration.state-constant",
      RuleResult::of(t.migrated).unless(!seen, Reason::start_not_seen).unless(alternate_path, Reason::device_internal),
      watch.from, [&] {
        return Statement{"MigReq 1: no alternate path was loaded, so the queue pair counts as migrated",
                         fmt::format("MigReq 0 in {}", t.op->name),
                         {watch.agreement ? watch.agreement->request_frame : 0}};
      });
}

// Whether the device has congestion management only it knows: then the field may say so. Told once, and when it
// changes.
void ConnectionMonitor::judge_ecn(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (t.wire != Wire::roce_v2) return;
  constexpr std::uint8_t congestion_experienced = 3;
  const std::uint8_t ecn = t.traffic_class & 3;
  auto& marked = marked_[static_cast<std::size_t>(watch.from)];
  if (marked != (ecn == congestion_experienced)) {
    marked = ecn == congestion_experienced;
    // A switch between the sender and the capture may have marked it.
    watch.say("roce.sender.ip.ecn-never-marked",
              RuleResult::of(!*marked).unless(!watch.sees_all_of(watch.from), Reason::modified_in_transit), watch.from,
              [&] {
                return Statement{"an ECN field of 00, 01 or 10", "11, congestion experienced", {}};
              });
  }
  const bool capable = ecn != 0;
  auto& before = capable_[static_cast<std::size_t>(watch.from)];
  if (before == capable) return;
  before = capable;
  watch.judge.judge("roce.sender.ip.ecn-clear-without-management",
                    capable ? RuleResult::open(Reason::capability_unknown) : RuleResult::holds());
}

void ConnectionMonitor::judge_source_port(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (t.source_port == 0 || t.crc_bad || watch.copy) return;
  const auto side = static_cast<std::size_t>(watch.from);
  if (port_[side] != 0)
    watch.say("roce.sender.udp.source-port-constant", RuleResult::of(port_[side] == t.source_port), watch.from, [&] {
      return Statement{fmt::format("UDP source port {}, as in frame {}", port_[side], port_frame_[side]),
                       fmt::format("port {}", t.source_port),
                       {port_frame_[side]}};
    });
  constexpr std::uint16_t dynamic = 49152;
  if (port_[side] != t.source_port)
    watch.judge.judge("roce.sender.udp.source-port-dynamic",
                      t.source_port >= dynamic ? RuleResult::holds() : RuleResult::open(Reason::device_internal));
  port_[side] = t.source_port;
  port_frame_[side] = t.frame;
}

// What a queue pair sends when its life is over.
void ConnectionMonitor::judge_life(const MonitoredPacket& watch) {
  const auto& t = watch.t;
  if (t.damaged || watch.copy) return;
  const auto side = static_cast<std::size_t>(watch.from);
  const bool notification = t.op->operation == Operation::congestion_notification;
  if (failed_[side].frame != 0 && !notification) {
    const bool sure = t.time - failed_[side].time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    watch.say("qp.sender.state.quiet-after-error", RuleResult::violated().unless(!sure, Reason::order_unknown),
              watch.from, [&] {
                return Statement{fmt::format("silence after the NAK of frame {}, which puts the queue pair into the "
                                             "error state",
                                             failed_[side].frame),
                                 std::string(t.op->name),
                                 {failed_[side].frame}};
              });
  }
  const bool fatal = t.op->operation == Operation::acknowledge && (t.syndrome >> 5 & 3) == syndrome_kind::nak &&
                     (t.syndrome & 31) != nak_code::psn_sequence_error;
  if (fatal && failed_[side].frame == 0) {
    failed_[side] = {t.frame, t.time};
    watch.holds("qp.sender.state.quiet-after-error");
    refused_[1 - side] = {t.frame, t.time};
  } else if (refused_[side].frame != 0 && !t.is_response() && !notification) {
    // The requester's queue pair fails when the NAK arrives.
    watch.say("qp.sender.state.quiet-after-error",
              RuleResult::violated().unless(!watch.sees_all_of(watch.from), Reason::maybe_lost_downstream), watch.from,
              [&] {
                return Statement{fmt::format("no request after the NAK of frame {}", refused_[side].frame),
                                 std::string(t.op->name),
                                 {refused_[side].frame}};
              });
  }
  if (closed_ && !notification) {
    // Who answered the DREQ has said that the connection is over; who asked may not have got the answer.
    const Side answered = tracking::other(closed_->by);
    const bool later = t.time - closed_->time >= limits::reorder_ns || watch.sees_all_of(watch.from);
    const bool sure = later && watch.from == answered;
    watch.say("cm.endpoint.disconnect.nothing-accepted",
              RuleResult::violated().unless(!t.is_response() || !sure, Reason::in_flight), watch.from, [&] {
                return Statement{fmt::format("no answer after the DREP of frame {}", closed_->frame),
                                 std::string(t.op->name),
                                 {closed_->frame}};
              });
  }
}

void ConnectionMonitor::closed(Evaluator& judge, std::uint64_t reply_frame, std::int64_t reply_time, Side by) {
  closed_ = Closed{reply_frame, reply_time, by};
  judge.hear({judged_, tracking::other(by), true});
  judge.judge("cm.endpoint.disconnect.nothing-accepted", RuleResult::holds());
}

void ConnectionMonitor::adopt(ConnectionMonitor&& other) {
  exchanges_[1] = std::move(other.exchanges_[0]);
  senders_[1] = other.senders_[0];
  port_[1] = other.port_[0];
  port_frame_[1] = other.port_frame_[0];
  failed_[1] = other.failed_[0];
  congestion_[1] = other.congestion_[0];
  for (const Drawing& drawing : other.drawings_) drawings_.push_back(drawing);
}

void ConnectionMonitor::states(std::vector<std::uint64_t>& states) const {
  for (std::size_t i = 0; i < 2; ++i) {
    exchanges_[i].states(states);
    senders_[i].states(states);
    states.push_back(state_number(failed_[i].frame != 0, refused_[i].frame != 0, migrated_[i].value_or(true),
                                  marked_[i].value_or(false), closed_.has_value()));
  }
}

void ConnectionMonitor::finish(Evaluator& judge) {
  for (const Side requester : {Side::a, Side::b}) {
    judge.hear({judged_, requester, false});
    exchanges_[static_cast<std::size_t>(requester)].finish(judge);
  }
}

}  // namespace rdmawire::conformance
