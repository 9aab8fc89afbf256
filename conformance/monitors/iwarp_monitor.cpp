#include "conformance/monitors/iwarp_monitor.hpp"

#include <algorithm>

#include "conformance/monitors/state_number.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::conformance {

void IwarpMonitor::note(Side from, const tracking::Packet& packet, std::uint32_t at, std::uint32_t bytes,
                        std::uint32_t msn, std::string_view label) {
  SequenceEntry rung;
  rung.frame = packet.number;
  rung.time = packet.time_ns;
  rung.psn = at;
  rung.payload = bytes;
  rung.msn = msn;
  rung.from = from;
  rung.label = label;
  rungs_[noted_++ % kept] = rung;
  for (Drawing& drawing : drawings_) {
    drawing.violation->ladder.push_back(rung);
    --drawing.left;
  }
  if (!drawings_.empty()) std::erase_if(drawings_, [](const Drawing& drawing) { return drawing.left == 0; });
}

void IwarpMonitor::draw(std::vector<Violation*>& made) {
  for (Violation* violation : made) {
    violation->ladder.clear();
    const std::uint64_t count = std::min<std::uint64_t>(noted_, kept);
    for (std::uint64_t i = noted_ - count; i < noted_; ++i) violation->ladder.push_back(rungs_[i % kept]);
    drawings_.push_back({violation, drawn_behind});
  }
  made.clear();
}

// Whether who sent this packet acknowledges bytes of the other end of which no PDU has come out: what it knows is more
// than what we saw. A FIN counts as one byte.
bool IwarpMonitor::unseen_before(Side sender, const tracking::Packet& packet) {
  const IwarpHalf& other = half(tracking::other(sender));
  if (!packet.tcp.has_acknowledged || !carried_) return true;
  return !other.parsed || packet.tcp.acknowledged > other.parsed_to + (other.fin ? 1 : 0);
}

// Bytes of `mine` are missing: messages and requests may be among them, and responses to the other end's requests.
void IwarpMonitor::gap(IwarpHalf& mine, IwarpHalf& peer) {
  mine.chained = mine.framed = false;
  ++mine.gaps;
  for (IwarpHalf::Queue& queue : mine.queues) {
    queue.known = queue.ended = queue.empty_before = false;
    queue.unsure = true;
  }
  mine.tagged.unsure = true;
  for (IwarpHalf* each : {&mine, &peer})
    for (IwarpHalf::Asked& asked : each->asked) asked.stale = true;
}

void IwarpMonitor::packet(Evaluator& judge, const CaptureAssumptions& trust, const Connection& connection, Side from,
                          const tracking::Packet& packet) {
  judge.hear(
      {{trust.judges(connection.at(Side::a).address), trust.judges(connection.at(Side::b).address)}, from, false});
  everywhere_ = trust.everywhere;
  IwarpHalf &mine = half(from), &peer = half(tracking::other(from));
  const tracking::TcpSegment& tcp = packet.tcp;
  if (tcp.anew) {
    gap(mine, peer);
    mine.parsed = false;
  }
  mine.data |= tcp.length != 0;
  std::vector<Violation*> made;
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
    IwarpPacketContext here{judge, *this, packet, place, &made};
    if (is_setup) {
      setup(here, pdu);
      mine.parsed_to = pdu.stream_end;
      draw(made);
      continue;
    }
    using Status = CrcCheck::Status;
    // A CRC proves where an FPDU begins and ends. Which of its bytes are markers it does not, as they count to it.
    mine.guessed |= pdu.marker_faults.no_first;
    const bool known_markers = pdu.markers == 0 || (mine.setup && peer.setup && !mine.guessed);
    here.sure = ((mine.chained || pdu.crc.status == Status::good) && known_markers) || everywhere_;
    here.doubt = mine.setup ? Reason::capture_lost : Reason::start_not_seen;
    if (!began && !mine.setup) here.holds("fpdu.tester.stream.begins-in-the-middle");
    first_fpdu(here, pdu, s ? &*s : nullptr);
    framing(here, pdu);
    mine.framed = pdu.crc.status == Status::good;
    mine.parsed_to = pdu.stream_end;
    ++mine.fpdus;
    // What a bad CRC covers is not what was sent, or its receiver does not take it.
    if (pdu.crc.status == Status::bad || !s) {
      gap(mine, peer);
    } else {
      segment(here, *s);
    }
    draw(made);
  }
  if (tcp.fin || tcp.reset) {
    place.psn = static_cast<std::uint32_t>((tcp.fin ? tcp.offset + tcp.length : mine.parsed_to) - mine.first);
    note(from, packet, place.psn, 0, 0, tcp.fin ? "TCP FIN" : "TCP reset");
    IwarpPacketContext here{judge, *this, packet, place, &made};
    closing(here);
    draw(made);
    mine.fin |= tcp.fin;
    mine.reset |= tcp.reset;
  }
  if (tcp.has_acknowledged) peer.acknowledged = std::max(peer.acknowledged, tcp.acknowledged);
  last_ = place;
}

void IwarpMonitor::states(std::vector<std::uint64_t>& states) const {
  for (const IwarpHalf& half : halves_) {
    const IwarpHalf::Setup setup = half.setup.value_or(IwarpHalf::Setup{});
    const auto& frame = setup.frame;
    states.push_back(state_number(half.setup.has_value(), setup.request, setup.answers, frame.enhanced, frame.markers,
                                  frame.crc, frame.reject, frame.revision));
    states.push_back(state_number(half.parsed, half.chained, half.guessed, half.framed, half.contiguous, half.data,
                                  half.fin, half.reset, few(half.bad_crcs), few(half.gaps), half.version.value_or(0),
                                  half.old_rdmap));
    for (const IwarpHalf::Queue& queue : half.queues)
      states.push_back(state_number(queue.known, queue.open, queue.ended, queue.unsure, queue.open ? queue.control : 0,
                                    queue.empty_before));
    const IwarpHalf::Tagged& tagged = half.tagged;
    states.push_back(state_number(tagged.open, tagged.unsure, tagged.open ? tagged.control : 0, tagged.stands));
    const IwarpHalf::Asked asked = half.asked.empty() ? IwarpHalf::Asked{} : half.asked.front();
    states.push_back(state_number(few(half.asked.size()), asked.atomic, asked.stale, asked.received != 0,
                                  asked.cut_short, asked.misanswered, half.answering));
    states.push_back(state_number(half.terminate.has_value(), half.terminate && half.terminate->judged));
  }
}

void IwarpMonitor::finish(Evaluator& judge) {
  // An end that sent bytes of which nothing could be made.
  for (const Side end : {Side::a, Side::b}) {
    if (half(end).parsed || !half(end).data) continue;
    judge.judge("fpdu.tester.stream.begins-in-the-middle", RuleResult::open(Reason::start_not_seen), end);
  }
}

}  // namespace rdmawire::conformance
