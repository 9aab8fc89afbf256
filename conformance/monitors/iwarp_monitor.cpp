#include "conformance/monitors/iwarp_monitor.hpp"

#include <algorithm>

#include "conformance/monitors/state_number.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::conformance {

void IwarpMonitor::note(Side from, const tracking::Packet& packet, std::uint32_t at, std::uint32_t bytes,
                        std::uint32_t msn, std::string_view label) {
  SequenceEntry entry;
  entry.frame = packet.number;
  entry.time = packet.time_ns;
  entry.psn = at;
  entry.payload = bytes;
  entry.msn = msn;
  entry.from = from;
  entry.label = label;
  entries_[noted_++ % kept] = entry;
  for (OpenSequence& open : open_sequences_) {
    open.violation->sequence.push_back(entry);
    --open.left;
  }
  if (!open_sequences_.empty()) std::erase_if(open_sequences_, [](const OpenSequence& open) { return open.left == 0; });
}

void IwarpMonitor::attach_sequence(std::vector<Violation*>& reported) {
  for (Violation* violation : reported) {
    violation->sequence.clear();
    const std::uint64_t count = std::min<std::uint64_t>(noted_, kept);
    for (std::uint64_t i = noted_ - count; i < noted_; ++i) violation->sequence.push_back(entries_[i % kept]);
    open_sequences_.push_back({violation, entries_after});
  }
  reported.clear();
}

// Returns whether the sender of this packet may have received PDUs that the capture lacks: the packet acknowledges more
// than the last reassembled PDU. A FIN counts as one byte.
bool IwarpMonitor::unseen_before(Side sender, const tracking::Packet& packet) {
  const IwarpDirection& other = direction(tracking::other(sender));
  if (!packet.tcp.has_acknowledged || !carried_) return true;
  return !other.parsed || packet.tcp.acknowledged > other.parsed_to + (other.fin ? 1 : 0);
}

// Handles bytes that are missing in the direction `mine`. They may contain requests, and responses to the peer's
// requests.
void IwarpMonitor::gap(IwarpDirection& mine, IwarpDirection& peer) {
  mine.chained = mine.framed = false;
  ++mine.gaps;
  for (IwarpDirection::Queue& queue : mine.queues) {
    queue.known = queue.ended = queue.empty_before = false;
    queue.unsure = true;
  }
  mine.tagged.unsure = true;
  for (IwarpDirection* each : {&mine, &peer})
    for (IwarpDirection::PendingRequest& pending : each->pending) pending.stale = true;
}

void IwarpMonitor::packet(Evaluator& evaluator, const CaptureAssumptions& assumptions, const Connection& connection,
                          Side from, const tracking::Packet& packet) {
  evaluator.set_packet(
      {{assumptions.checks(connection.at(Side::a).address), assumptions.checks(connection.at(Side::b).address)},
       from,
       false});
  everywhere_ = assumptions.everywhere;
  IwarpDirection &mine = direction(from), &peer = direction(tracking::other(from));
  const tracking::TcpSegment& tcp = packet.tcp;
  if (tcp.anew) {
    gap(mine, peer);
    mine.parsed = false;
  }
  mine.data |= tcp.length != 0;
  std::vector<Violation*> reported;
  Place place;
  place.connection = connection.id;
  place.end = from;
  place.frame = packet.number;
  place.time = packet.time_ns;
  for (const tracking::Pdu& pdu : packet.pdus) {
    if (mine.parsed ? pdu.stream_offset != mine.parsed_to : !mine.setup.has_value()) {
      gap(mine, peer);
      mine.contiguous = false;
    }
    if (!mine.parsed) mine.first = pdu.stream_offset;
    carried_ = pdu.in_frame.length != 0;
    const bool began = mine.parsed;
    mine.parsed = true;
    place.psn = static_cast<std::uint32_t>(pdu.stream_offset - mine.first);
    const auto layers = pdu.stack.layers();
    const bool is_setup = !layers.empty() && layers[0].header == &info<MpaFrame>;
    const auto s = is_setup ? std::nullopt : read(pdu);
    const std::string_view label = is_setup
                                       ? (MpaFrame::is_request(pdu.stack.bytes.data()) ? "MPA request" : "MPA reply")
                                   : s && s->opcode->known ? s->opcode->name
                                                           : std::string_view("FPDU");
    note(from, packet, place.psn, s ? s->ddp.bytes : 0, s && !s->ddp.tagged ? s->ddp.msn : 0, label);
    IwarpPacketContext here{evaluator, *this, packet, place, &reported};
    if (is_setup) {
      setup(here, pdu);
      mine.parsed_to = pdu.stream_end;
      attach_sequence(reported);
      continue;
    }
    using Status = CrcCheck::Status;
    // A valid CRC proves the bounds of an FPDU, but not its marker positions: the CRC covers markers like other bytes.
    mine.guessed |= pdu.marker_faults.no_first;
    const bool known_markers = pdu.markers == 0 || (mine.setup && peer.setup && !mine.guessed);
    here.sure = ((mine.chained || pdu.crc.status == Status::good) && known_markers) || everywhere_;
    here.doubt = mine.setup ? Reason::capture_lost : Reason::start_not_seen;
    if (!began && !mine.setup) here.pass("fpdu.tester.stream.begins-in-the-middle");
    first_fpdu(here, pdu, s ? &*s : nullptr);
    framing(here, pdu);
    mine.framed = pdu.crc.status == Status::good;
    mine.parsed_to = pdu.stream_end;
    ++mine.fpdus;
    // Treat an FPDU with an invalid CRC as missing: its content is unreliable, or its receiver rejects it.
    if (pdu.crc.status == Status::bad || !s) {
      gap(mine, peer);
    } else {
      segment(here, *s);
    }
    attach_sequence(reported);
  }
  if (tcp.fin || tcp.reset) {
    place.psn = static_cast<std::uint32_t>((tcp.fin ? tcp.offset + tcp.length : mine.parsed_to) - mine.first);
    note(from, packet, place.psn, 0, 0, tcp.fin ? "TCP FIN" : "TCP reset");
    IwarpPacketContext here{evaluator, *this, packet, place, &reported};
    closing(here);
    attach_sequence(reported);
    mine.fin |= tcp.fin;
    mine.reset |= tcp.reset;
  }
  if (tcp.has_acknowledged) peer.acknowledged = std::max(peer.acknowledged, tcp.acknowledged);
  last_ = place;
}

void IwarpMonitor::states(std::vector<std::uint64_t>& states) const {
  for (const IwarpDirection& direction : directions_) {
    const IwarpDirection::Setup setup = direction.setup.value_or(IwarpDirection::Setup{});
    const auto& frame = setup.frame;
    states.push_back(state_number(direction.setup.has_value(), setup.request, setup.answers, frame.enhanced,
                                  frame.markers, frame.crc, frame.reject, frame.revision));
    states.push_back(state_number(direction.parsed, direction.chained, direction.guessed, direction.framed,
                                  direction.contiguous, direction.data, direction.fin, direction.reset,
                                  few(direction.bad_crcs), few(direction.gaps), direction.version.value_or(0),
                                  direction.old_rdmap));
    for (const IwarpDirection::Queue& queue : direction.queues)
      states.push_back(state_number(queue.known, queue.open, queue.ended, queue.unsure, queue.open ? queue.control : 0,
                                    queue.empty_before));
    const IwarpDirection::Tagged& tagged = direction.tagged;
    states.push_back(
        state_number(tagged.open, tagged.unsure, tagged.open ? tagged.control : 0, tagged.constant_offset));
    const IwarpDirection::PendingRequest pending =
        direction.pending.empty() ? IwarpDirection::PendingRequest{} : direction.pending.front();
    states.push_back(state_number(few(direction.pending.size()), pending.atomic, pending.stale, pending.received != 0,
                                  pending.ended_early, pending.reported_mismatch, direction.responding));
    states.push_back(
        state_number(direction.terminate.has_value(), direction.terminate && direction.terminate->checked));
  }
}

void IwarpMonitor::finish(Evaluator& evaluator) {
  // Record endpoints that sent bytes, but no recognizable PDU.
  for (const Side end : {Side::a, Side::b}) {
    if (direction(end).parsed || !direction(end).data) continue;
    evaluator.record("fpdu.tester.stream.begins-in-the-middle", RuleResult::inconclusive(Reason::start_not_seen), end);
  }
}

}  // namespace rdmawire::conformance
