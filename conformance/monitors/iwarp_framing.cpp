/// What every FPDU must look like: length, pad, CRC, markers. RFC 5044, 3 and 4.

#include <fmt/format.h>

#include <array>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::conformance {
namespace {

using Status = CrcCheck::Status;

/// So many bad CRCs from the beginning, and no good one, are no damage.
constexpr std::uint64_t too_many_for_damage = 3;

// Whether TCP's checksum is that of what was captured: what the sending TCP was given, as far as it can tell.
bool has_good_checksum(const HeaderStack& stack) {
  if (stack.cut || stack.network >= stack.layers().size()) return false;
  const Layer &network = stack.layers()[stack.network], &transport = stack.layers()[stack.transport];
  const std::uint8_t* ip = stack.bytes.data() + network.offset;
  const Bytes segment =
      stack.bytes.subspan(transport.offset, stack.payload.offset + stack.payload.length - transport.offset);
  constexpr std::uint8_t tcp = 6;
  std::array<std::uint8_t, 40> pseudo{};
  std::size_t bytes = 0;
  if (network.header == &info<Ipv4>) {
    std::copy_n(ip + 12, 8, pseudo.begin());
    pseudo[9] = tcp;
    store_be(pseudo.data() + 10, 2, segment.size());
    bytes = 12;
  } else if (network.header == &info<Ipv6>) {
    std::copy_n(ip + 8, 32, pseudo.begin());
    store_be(pseudo.data() + 32, 4, segment.size());
    pseudo[39] = tcp;
    bytes = 40;
  } else {
    return false;
  }
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += 2) sum += static_cast<std::uint32_t>(load_be<2>(pseudo.data() + i));
  return internet_checksum(segment, sum) == 0;
}

}  // namespace

void IwarpMonitor::framing(const IwarpPacketContext& here, const tracking::Pdu& pdu) {
  IwarpHalf& mine = half(here.place.end);
  const bool bad = pdu.crc.status == Status::bad;
  const bool whole = !pdu.stack.cut;
  judge_markers(here, pdu);
  judge_crc(here, pdu);
  if (bad) {
    ++mine.bad_crcs;
    ++mine.bad_in_a_row;
    return;
  }
  if (pdu.crc.status == Status::good) {
    ++mine.good_crcs;
    mine.bad_in_a_row = 0;
  }
  if (!whole) return here.open("fpdu.sender.format.length-pad-crc", Reason::cut);
  const Bytes pad = pdu.stack.bytes_of(pdu.stack.pad);
  const bool zero = std::all_of(pad.begin(), pad.end(), [](std::uint8_t byte) { return byte == 0; });
  here.keeps("fpdu.sender.format.length-pad-crc", zero, [&] {
    return Statement{"a pad of zeros", fmt::format("a pad of {} bytes that are not all zero", pad.size()), {}};
  });
}

void IwarpMonitor::judge_crc(const IwarpPacketContext& here, const tracking::Pdu& pdu) {
  const IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  const bool asked = (mine.setup && mine.setup->frame.crc) || (peer.setup && peer.setup->frame.crc);
  switch (pdu.crc.status) {
    case Status::good:
      here.holds("fpdu.sender.crc.right");
      if (asked) here.holds("mpa.endpoint.crc.used-if-either-asks");
      break;
    case Status::unverifiable: here.open("fpdu.sender.crc.right", Reason::cut); break;
    case Status::bad: {
      const bool here_alone = pdu.in_frame.length == pdu.stream_end - pdu.stream_offset;
      const bool sent_so = everywhere_ || (here_alone && has_good_checksum(here.packet.stack)) ||
                           (mine.good_crcs == 0 && mine.bad_crcs + 1 >= too_many_for_damage);
      const RuleResult ruling = RuleResult::violated().unless(!sent_so, Reason::damaged);
      const auto tell = [&](const char* expected) {
        return Statement{
            expected, fmt::format("a CRC of {:#010x} where {:#010x} is computed", pdu.crc.value, pdu.crc.computed), {}};
      };
      IwarpPacketContext where = here;
      // Whether it is one at all, and where its markers are, has to be certain.
      where.sure = everywhere_ || ((mine.chained || mine.framed || (mine.contiguous && mine.good_crcs == 0)) &&
                                   mine.setup && peer.setup && !mine.guessed);
      if (pdu.marker_faults.uncovered)
        where.say("fpdu.sender.markers.between-fpdus", ruling,
                  [&] { return tell("the marker before the FPDU counts to its CRC"); });
      else if (pdu.crc.value == 0 && asked)
        where.say("mpa.endpoint.crc.used-if-either-asks", ruling,
                  [&] { return tell("both ends generate CRCs, as a set-up frame asks for"); });
      else
        where.say("fpdu.sender.crc.right", ruling,
                  [&] { return tell("the CRC32c of length, ULPDU, markers and pad"); });
      break;
    }
    default: break;
  }
}

void IwarpMonitor::judge_markers(const IwarpPacketContext& here, const tracking::Pdu& pdu) {
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  const tracking::MarkerFaults& faults = pdu.marker_faults;
  const bool first = mine.setup && mine.fpdus == 0 && pdu.stream_offset == mine.setup->end;
  // What this half has to have the other end's frame says.
  if (first && peer.setup) {
    IwarpPacketContext at_start = here;
    at_start.sure = true;
    const bool wanted = peer.setup->frame.markers, wants = mine.setup->frame.markers;
    if (wanted) {
      at_start.keeps("fpdu.sender.markers.first", !faults.no_first, [&] {
        return Statement{"the marker 0x00000000 before the first FPDU, as the other end's frame asks for",
                         "an FPDU without a marker before it",
                         {peer.setup->number}};
      });
    } else {
      const auto tell = [&] {
        return Statement{"no markers: the other end's frame does not ask for them",
                         "a marker before the first FPDU",
                         {peer.setup->number}};
      };
      if (wants)
        at_start.keeps("fpdu.sender.markers.one-direction", !faults.unasked, tell);
      else
        at_start.keeps("mpa.sender.markers.none-if-unasked", !faults.unasked, tell);
    }
    if (wanted && !wants) at_start.holds("fpdu.sender.markers.one-direction");
  }
  if (pdu.markers == 0 || faults.no_first) return;
  // A bad CRC may be of a damaged marker, or of no FPDU at all.
  const bool damaged = pdu.crc.status == Status::bad && !faults.uncovered && !everywhere_;
  const auto judged = [&](RuleId rule, bool holds_it, const auto& tell) {
    here.say(rule, RuleResult::of(holds_it).unless(damaged, Reason::damaged), tell);
  };
  const auto tell_pointer = [&] {
    return Statement{fmt::format("an FPDUPTR of {}", faults.due),
                     faults.pointer ? fmt::format("an FPDUPTR of {}", faults.says)
                                    : std::string("reserved bits of a marker that are not zero"),
                     {}};
  };
  const bool right = !faults.pointer && !faults.reserved;
  const bool leads = faults.leads;
  // Beyond the wrap of the sequence numbers since the first one.
  const bool wrapped = pdu.stream_end >> 32 != mine.first >> 32;
  if (faults.divided) {
    judged("fpdu.sender.markers.one-fpdu-one-start", false, [&] {
      return Statement{
          "all markers of the FPDU point to its ULPDU_Length",
          fmt::format("one says {} where {} is the distance, others another beginning", faults.says, faults.due),
          {}};
    });
  } else if (!right && wrapped && !mine.markers_wrapped) {
    judged("fpdu.sender.markers.across-wrap", false, tell_pointer);
  } else {
    judged("fpdu.sender.markers.every-512", right, tell_pointer);
    if (pdu.markers > 1 + (leads ? 1 : 0)) judged("fpdu.sender.markers.one-fpdu-one-start", true, tell_pointer);
    if (wrapped && right) {
      mine.markers_wrapped = true;
      judged("fpdu.sender.markers.across-wrap", true, tell_pointer);
    }
  }
  if (leads && pdu.crc.status == Status::good) here.holds("fpdu.sender.markers.between-fpdus");
}

void IwarpMonitor::judge_length(const IwarpPacketContext& here, const Segment& s) {
  const IwarpHalf& peer = half(tracking::other(here.place.end));
  const std::uint32_t length = s.ddp.bytes + machines::ddp_header_bytes(s.ddp.tagged);
  const std::uint32_t emss = here.packet.tcp.emss;
  // No EMSS gives more, and without the SYN nothing is known of it.
  const bool markers = peer.setup && peer.setup->frame.markers;
  const std::uint32_t most = emss == 0 ? machines::longest_ulpdu : machines::mulpdu(emss, markers);
  if (emss == 0 && length <= most) {
    here.open("fpdu.sender.length.within-mulpdu", Reason::negotiation_not_seen);
    here.open("ddp.data-source.length.within-mulpdu", Reason::negotiation_not_seen);
    return;
  }
  const auto tell = [&] {
    return Statement{emss == 0 ? fmt::format("a ULPDU of at most {} bytes", most)
                               : fmt::format("a ULPDU of at most {} bytes, the MULPDU of an EMSS of {}", most, emss),
                     fmt::format("one of {} bytes", length),
                     {}};
  };
  here.keeps("fpdu.sender.length.within-mulpdu", length <= most, tell);
  here.keeps("ddp.data-source.length.within-mulpdu", length <= most, tell);
}

}  // namespace rdmawire::conformance
