/// Checks of FPDUs: length, pad, CRC, markers. RFC 5044, 3 and 4.

#include <fmt/format.h>

#include <array>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::conformance {
namespace {

using Status = CrcCheck::Status;

/// If this number of CRCs from the start of the stream are all invalid, damage is not the cause.
constexpr std::uint64_t too_many_for_damage = 3;

// Returns whether the TCP checksum is valid, so that the captured bytes are those that were sent.
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
  IwarpDirection& mine = direction(here.place.end);
  const bool bad = pdu.crc.status == Status::bad;
  const bool complete = !pdu.stack.cut;
  check_markers(here, pdu);
  check_crc(here, pdu);
  if (bad) {
    ++mine.bad_crcs;
    ++mine.bad_in_a_row;
    return;
  }
  if (pdu.crc.status == Status::good) {
    ++mine.good_crcs;
    mine.bad_in_a_row = 0;
  }
  if (!complete) return here.inconclusive("fpdu.sender.format.length-pad-crc", Reason::truncated);
  const Bytes pad = pdu.stack.bytes_of(pdu.stack.pad);
  const bool zero = std::all_of(pad.begin(), pad.end(), [](std::uint8_t byte) { return byte == 0; });
  here.check("fpdu.sender.format.length-pad-crc", zero, [&] {
    return Statement{"a pad of zeros", fmt::format("a pad of {} bytes, not all 0", pad.size()), {}};
  });
}

void IwarpMonitor::check_crc(const IwarpPacketContext& here, const tracking::Pdu& pdu) {
  const IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  const bool pending = (mine.setup && mine.setup->frame.crc) || (peer.setup && peer.setup->frame.crc);
  switch (pdu.crc.status) {
    case Status::good:
      here.pass("fpdu.sender.crc.right");
      if (pending) here.pass("mpa.endpoint.crc.used-if-either-asks");
      break;
    case Status::unverifiable: here.inconclusive("fpdu.sender.crc.right", Reason::truncated); break;
    case Status::bad: {
      const bool here_alone = pdu.in_frame.length == pdu.stream_end - pdu.stream_offset;
      const bool sent_so = everywhere_ || (here_alone && has_good_checksum(here.packet.stack)) ||
                           (mine.good_crcs == 0 && mine.bad_crcs + 1 >= too_many_for_damage);
      const RuleResult result = RuleResult::violation().unless(!sent_so, Reason::damaged);
      const auto describe = [&](const char* expected) {
        return Statement{
            expected, fmt::format("a CRC of {:#010x} instead of {:#010x}", pdu.crc.value, pdu.crc.computed), {}};
      };
      IwarpPacketContext where = here;
      // An invalid CRC is only a violation if the position of the FPDU and of its markers is certain.
      where.sure = everywhere_ || ((mine.chained || mine.framed || (mine.contiguous && mine.good_crcs == 0)) &&
                                   mine.setup && peer.setup && !mine.guessed);
      if (pdu.marker_faults.uncovered)
        where.report("fpdu.sender.markers.between-fpdus", result,
                     [&] { return describe("a CRC that covers the marker before the FPDU"); });
      else if (pdu.crc.value == 0 && pending)
        where.report("mpa.endpoint.crc.used-if-either-asks", result,
                     [&] { return describe("CRCs from both endpoints, because a negotiation frame requests them"); });
      else
        where.report("fpdu.sender.crc.right", result,
                     [&] { return describe("the CRC32c of length, ULPDU, markers and pad"); });
      break;
    }
    default: break;
  }
}

void IwarpMonitor::check_markers(const IwarpPacketContext& here, const tracking::Pdu& pdu) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  const tracking::MarkerFaults& faults = pdu.marker_faults;
  const bool first = mine.setup && mine.fpdus == 0 && pdu.stream_offset == mine.setup->end;
  // The peer's frame determines whether this direction has markers.
  if (first && peer.setup) {
    IwarpPacketContext at_start = here;
    at_start.sure = true;
    const bool wanted = peer.setup->frame.markers, wants = mine.setup->frame.markers;
    if (wanted) {
      at_start.check("fpdu.sender.markers.first", !faults.no_first, [&] {
        return Statement{"the marker 0x00000000 before the first FPDU, which the peer's frame requests",
                         "an FPDU without a marker before it",
                         {peer.setup->number}};
      });
    } else {
      const auto describe = [&] {
        return Statement{"no markers, because the peer's frame does not request them",
                         "a marker before the first FPDU",
                         {peer.setup->number}};
      };
      if (wants)
        at_start.check("fpdu.sender.markers.one-direction", !faults.unasked, describe);
      else
        at_start.check("mpa.sender.markers.none-if-unasked", !faults.unasked, describe);
    }
    if (wanted && !wants) at_start.pass("fpdu.sender.markers.one-direction");
  }
  if (pdu.markers == 0 || faults.no_first) return;
  // An invalid CRC may belong to a damaged marker, or to bytes that are not an FPDU.
  const bool damaged = pdu.crc.status == Status::bad && !faults.uncovered && !everywhere_;
  const auto checked = [&](RuleId rule, bool condition, const auto& describe) {
    here.report(rule, RuleResult::of(condition).unless(damaged, Reason::damaged), describe);
  };
  const auto tell_pointer = [&] {
    return Statement{fmt::format("an FPDUPTR of {}", faults.due),
                     faults.pointer ? fmt::format("an FPDUPTR of {}", faults.says)
                                    : std::string("nonzero reserved bits in a marker"),
                     {}};
  };
  const bool right = !faults.pointer && !faults.reserved;
  const bool leads = faults.leads;
  // True if the TCP sequence number wrapped since the first FPDU.
  const bool wrapped = pdu.stream_end >> 32 != mine.first >> 32;
  if (faults.divided) {
    checked("fpdu.sender.markers.one-fpdu-one-start", false, [&] {
      return Statement{"all markers of the FPDU point to its ULPDU_Length",
                       fmt::format("a marker contains {} instead of the distance {}", faults.says, faults.due),
                       {}};
    });
  } else if (!right && wrapped && !mine.markers_wrapped) {
    checked("fpdu.sender.markers.across-wrap", false, tell_pointer);
  } else {
    checked("fpdu.sender.markers.every-512", right, tell_pointer);
    if (pdu.markers > 1 + (leads ? 1 : 0)) checked("fpdu.sender.markers.one-fpdu-one-start", true, tell_pointer);
    if (wrapped && right) {
      mine.markers_wrapped = true;
      checked("fpdu.sender.markers.across-wrap", true, tell_pointer);
    }
  }
  if (leads && pdu.crc.status == Status::good) here.pass("fpdu.sender.markers.between-fpdus");
}

void IwarpMonitor::check_length(const IwarpPacketContext& here, const Segment& s) {
  const IwarpDirection& peer = direction(tracking::other(here.place.end));
  const std::uint32_t length = s.ddp.bytes + machines::ddp_header_bytes(s.ddp.tagged);
  const std::uint32_t emss = here.packet.tcp.emss;
  // If the SYN was not captured, the EMSS is unknown. Use the limit that applies to all EMSS values.
  const bool markers = peer.setup && peer.setup->frame.markers;
  const std::uint32_t most = emss == 0 ? machines::longest_ulpdu : machines::mulpdu(emss, markers);
  if (emss == 0 && length <= most) {
    here.inconclusive("fpdu.sender.length.within-mulpdu", Reason::negotiation_not_seen);
    here.inconclusive("ddp.data-source.length.within-mulpdu", Reason::negotiation_not_seen);
    return;
  }
  const auto describe = [&] {
    return Statement{emss == 0 ? fmt::format("a ULPDU of at most {} bytes", most)
                               : fmt::format("a ULPDU of at most {} bytes, the MULPDU of an EMSS of {}", most, emss),
                     fmt::format("a ULPDU of {} bytes", length),
                     {}};
  };
  here.check("fpdu.sender.length.within-mulpdu", length <= most, describe);
  here.check("ddp.data-source.length.within-mulpdu", length <= most, describe);
}

}  // namespace rdmawire::conformance
