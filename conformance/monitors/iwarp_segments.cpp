/// Checks of DDP segments and how they form messages. RFC 5041, 4 and 5.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/machines/mpa_framing.hpp"

namespace rdmawire::conformance {

using machines::ddp_header_bytes;

std::optional<IwarpMonitor::Segment> IwarpMonitor::read(const tracking::Pdu& pdu) const {
  const Bytes fpdu = pdu.stack.bytes;
  if (fpdu.size() < Fpdu::size) return std::nullopt;
  const auto length = static_cast<std::uint32_t>(View<Fpdu>(fpdu.data()).get<"ulpdu_length">());
  const Bytes ulpdu = fpdu.subspan(Fpdu::size, std::min<std::size_t>(length, fpdu.size() - Fpdu::size));
  const auto ddp = machines::read_segment(ulpdu);
  if (!ddp) return std::nullopt;
  Segment s{.pdu = pdu, .ddp = *ddp};
  s.payload = ulpdu.subspan(ddp_header_bytes(ddp->tagged));
  s.cut = ulpdu.size() < length;
  s.ddp.bytes = length - ddp_header_bytes(ddp->tagged);
  s.opcode = &rdmap_opcode(ddp->control);
  s.operation = machines::operation_of(ddp->control);
  return s;
}

void IwarpMonitor::segment(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection& mine = direction(here.place.end);
  // Store the header, because a Terminate of the peer may quote it.
  IwarpDirection::Quotable quotable{.length = s.ddp.bytes + ddp_header_bytes(s.ddp.tagged),
                                    .frame = here.packet.number};
  std::copy_n(s.pdu.stack.bytes.data() + Fpdu::size, ddp_header_bytes(s.ddp.tagged), quotable.header.begin());
  if (mine.quotable.size() < IwarpDirection::quotables)
    mine.quotable.push_back(quotable);
  else
    mine.quotable[mine.segments % IwarpDirection::quotables] = quotable;
  ++mine.segments;

  check_control(here, s);
  const bool readable = s.opcode->known && s.opcode->tagged == s.ddp.tagged;
  const bool another = readable && !mine.terminate && contains_second_segment(here, s);
  if (!another) check_length(here, s);
  if (!readable) return;
  if (mine.terminate) {
    if (s.operation == RdmapOperation::terminate) {
      here.violation("terminate.sender.message.once", [&] {
        return Statement{"at most one Terminate", "a second Terminate", {mine.terminate->frame}};
      });
    } else {
      here.violation("rdmap.sender.terminate.then-silence", [&] {
        return Statement{
            "no message after the Terminate", fmt::format("a segment of {}", s.opcode->name), {mine.terminate->frame}};
      });
    }
    return;
  }
  if (another) {
    gap(mine, direction(tracking::other(here.place.end)));
    return;
  }
  here.pass("fpdu.sender.ulpdu.one-each");
  if (s.ddp.tagged) {
    const bool begins = tagged(here, s);
    // The capture shows no violation: the rule is about the delivery to the application.
    if (s.operation == RdmapOperation::rdma_write) here.pass("rdmap.endpoint.write.format");
    if (s.operation == RdmapOperation::read_response) answered(here, s, begins);
    return;
  }
  // Check the operation only in the first segment of a message.
  if (untagged(here, s)) check_message(here, s);
}

void IwarpMonitor::check_control(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  const Bytes ulpdu = Bytes(s.pdu.stack.bytes).subspan(Fpdu::size);
  const auto reserved = View<Ddp>(ulpdu.data()).get<"reserved">();
  const auto rdmap_reserved = View<Rdmap>(&s.ddp.control).get<"reserved">();
  const bool rdmac = (mine.setup && mine.setup->frame.revision == 0) || (peer.setup && peer.setup->frame.revision == 0);
  const bool changed = mine.version && *mine.version != s.ddp.version;
  here.check("ddp.data-source.version.constant", !changed, [&] {
    return Statement{fmt::format("DDP version {}, as in earlier segments", *mine.version),
                     fmt::format("version {}", s.ddp.version),
                     {}};
  });
  const bool version = s.ddp.version == 1 || (s.ddp.version == 0 && rdmac) || changed;
  const bool unknown_version = s.ddp.version == 0 && !(mine.setup && peer.setup);
  const bool model = !s.opcode->known || s.opcode->tagged == s.ddp.tagged;
  const auto describe = [&] {
    return Statement{
        "DDP version 1, reserved bits 0, and the tagged flag of its opcode",
        fmt::format("version {}, reserved bits {:#x} of DDP and {:#x} of RDMAP, {} with opcode {}", s.ddp.version,
                    reserved, rdmap_reserved, s.ddp.tagged ? "tagged" : "untagged", s.ddp.control & 15),
        {}};
  };
  const bool fields = reserved == 0 && rdmap_reserved == 0 && model;
  here.report("ddp.data-source.control.fields",
              RuleResult::of(fields && version).unless(fields && unknown_version, Reason::negotiation_not_seen),
              describe);
  if (!mine.version) mine.version = s.ddp.version;
  check_version(here, s);
}

// Returns whether this FPDU or the preceding one contains a second segment. This is so if the payload contains a header
// of the same message, or if the offset is smaller than expected by the length of a header.
bool IwarpMonitor::contains_second_segment(const IwarpPacketContext& here, const Segment& s) {
  const IwarpDirection& mine = direction(here.place.end);
  const std::uint32_t header = ddp_header_bytes(s.ddp.tagged);
  const auto describe = [&] {
    return Statement{"one DDP segment in the FPDU", "another segment's header in its payload", {}};
  };
  const IwarpDirection& peer = direction(tracking::other(here.place.end));
  const std::uint32_t emss = here.packet.tcp.emss;
  if (emss != 0 && !s.ddp.last) {
    const std::uint32_t first = machines::mulpdu(emss, peer.setup && peer.setup->frame.markers) - header;
    if (s.payload.size() >= std::size_t{first} + header) {
      const auto next = machines::read_segment(s.payload.subspan(first));
      const bool continues = next && next->tagged == s.ddp.tagged && next->control == s.ddp.control &&
                             next->stag == s.ddp.stag && next->qn == s.ddp.qn && next->msn == s.ddp.msn &&
                             (next->tagged ? next->to == s.ddp.to + first : next->mo == s.ddp.mo + first);
      if (continues) {
        here.violation("fpdu.sender.ulpdu.one-each", describe);
        return true;
      }
    }
  }
  bool short_of_a_header = false;
  if (s.ddp.tagged) {
    const IwarpDirection::Tagged& open = mine.tagged;
    short_of_a_header = open.open && !open.unsure && open.control == s.ddp.control && open.stag == s.ddp.stag &&
                        s.ddp.to + header == open.next && s.ddp.to != open.first && open.last_bytes > header;
  } else if (s.ddp.qn < mine.queues.size()) {
    const IwarpDirection::Queue& queue = mine.queues[s.ddp.qn];
    short_of_a_header = queue.open && !queue.unsure && queue.known && queue.next == s.ddp.msn &&
                        queue.control == s.ddp.control && s.ddp.mo != 0 &&
                        s.ddp.mo + std::uint64_t{header} == queue.bytes;
  }
  if (short_of_a_header) here.violation("fpdu.sender.ulpdu.one-each", describe);
  return short_of_a_header;
}

// Handles an untagged segment. Returns whether it starts a message.
bool IwarpMonitor::untagged(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection& mine = direction(here.place.end);
  if (s.ddp.qn >= mine.queues.size()) return true;
  IwarpDirection::Queue& queue = mine.queues[s.ddp.qn];
  const std::uint64_t before = queue.frame;
  queue.frame = here.packet.number;
  const auto extend = [&] {
    queue.bytes = std::uint64_t{s.ddp.mo} + s.ddp.bytes;
    ++queue.segments;
    if (!s.ddp.last) return;
    queue.open = false;
    queue.ended = true;
    if (!queue.unsure && queue.bytes == 0)
      here.check("ddp.data-source.length.zero-one-segment", queue.segments == 1, [&] {
        return Statement{"one segment for a zero-length message", fmt::format("{} segments", queue.segments), {before}};
      });
    queue.empty_before = queue.bytes == 0 && machines::is_send(s.operation);
    queue.next = s.ddp.msn + 1;
    queue.known = true;
  };
  const bool same = queue.known && queue.control == s.ddp.control;
  // True if the segment continues a message whose last flag was already set.
  const bool continues_after_last = queue.ended && !queue.unsure && queue.known && s.ddp.msn + 1 == queue.next &&
                                    s.ddp.mo != 0 && s.ddp.mo == queue.bytes && same;
  if (continues_after_last) {
    here.violation("ddp.data-source.message.last-flag", [&] {
      return Statement{"the last flag only in the last segment of a message",
                       fmt::format("MSN {} continues at MO {} after a segment with the last flag", s.ddp.msn, s.ddp.mo),
                       {before}};
    });
    extend();
    return false;
  }
  if (queue.open && queue.known && s.ddp.msn == queue.next) {
    if (queue.unsure) {
      here.inconclusive("ddp.data-source.untagged.offset", here.doubt);
    } else {
      here.check("ddp.data-source.message.last-flag",
                 queue.control == s.ddp.control && queue.invalidate == s.ddp.invalidate_stag, [&] {
                   return Statement{"the same RsvdULP in all segments of a message",
                                    fmt::format("RsvdULP {:#04x} {:#x}, {:#04x} {:#x} in the preceding segment",
                                                s.ddp.control, s.ddp.invalidate_stag, queue.control, queue.invalidate),
                                    {before}};
                 });
      here.check("ddp.data-source.untagged.offset", s.ddp.mo == queue.bytes, [&] {
        return Statement{
            fmt::format("MO {}, after the bytes already sent", queue.bytes), fmt::format("MO {}", s.ddp.mo), {before}};
      });
    }
    // Count the bytes even if all segments have the offset 0.
    const std::uint64_t sum = queue.bytes + s.ddp.bytes;
    extend();
    if (s.ddp.mo == 0 && queue.open) queue.bytes = sum;
    return false;
  }
  if (queue.open && queue.known && !queue.unsure)
    here.violation("ddp.data-source.message.last-flag", [&] {
      return Statement{fmt::format("the last flag in the last segment of MSN {}", queue.next),
                       fmt::format("MSN {} starts before it", s.ddp.msn),
                       {before}};
    });
  const std::uint32_t expected = queue.open ? queue.next + 1 : queue.next;
  const bool known = queue.known;
  if (known) {
    here.check("ddp.data-source.msn.counts", s.ddp.msn == expected, [&] {
      return Statement{
          fmt::format("MSN {} of queue {}", expected, s.ddp.qn), fmt::format("MSN {}", s.ddp.msn), {before}};
    });
    // The capture shows no violation: only the application knows the order of submission.
    if (s.ddp.msn == expected) here.pass("ddp.endpoint.order.as-submitted");
    if (queue.empty_before && s.ddp.msn == expected) here.pass("rdmap.receiver.send.zero-length");
  } else {
    here.inconclusive("ddp.data-source.msn.counts", here.doubt);
  }
  queue.open = !s.ddp.last;
  queue.ended = false;
  queue.empty_before = false;
  queue.next = s.ddp.msn;
  // Bytes are missing if the MO is not 0 at the first captured message, or if an operation without payload is not
  // complete in its first segment.
  queue.unsure = (!known && s.ddp.mo != 0) || (queue.open && !s.opcode->payload);
  queue.known = true;
  queue.control = s.ddp.control;
  queue.invalidate = s.ddp.invalidate_stag;
  queue.segments = 0;
  if (!queue.unsure)
    here.check("ddp.data-source.untagged.offset", s.ddp.mo == 0, [&] {
      return Statement{"MO 0 in the first segment of a message", fmt::format("MO {}", s.ddp.mo), {before}};
    });
  extend();
  return true;
}

// Handles a tagged segment. Returns whether it starts a message.
bool IwarpMonitor::tagged(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection& mine = direction(here.place.end);
  IwarpDirection::Tagged& open = mine.tagged;
  const std::uint64_t before = open.frame;
  bool begins = !open.open;
  if (open.open) {
    const bool same = open.control == s.ddp.control && open.stag == s.ddp.stag;
    const bool next = same && s.ddp.to == open.next;
    // True if the sender repeats the TO of the first segment instead of increasing it. If it increased the TO before,
    // the segment belongs to another message.
    const bool constant_offset = same && s.ddp.to == open.first && (open.constant_offset || open.segments == 1);
    if (open.unsure) {
      begins = !next;
      here.inconclusive("ddp.data-source.tagged.offset", here.doubt);
    } else if (next || constant_offset) {
      here.check("ddp.data-source.tagged.offset", next, [&] {
        return Statement{fmt::format("TO {:#x}, after the bytes already sent", open.next),
                         fmt::format("TO {:#x}, that of the first segment", s.ddp.to),
                         {before}};
      });
      here.pass("ddp.data-source.message.last-flag");
      open.constant_offset = open.constant_offset || !next;
    } else {
      begins = true;
      here.violation("ddp.data-source.message.not-begun-inside", [&] {
        return Statement{
            fmt::format("STag {:#x} at TO {:#x}, or the last flag in the preceding segment", open.stag, open.next),
            fmt::format("STag {:#x} at TO {:#x}", s.ddp.stag, s.ddp.to),
            {before}};
      });
    }
  } else {
    here.pass("ddp.data-source.message.not-begun-inside");
  }
  if (begins) open = {.open = true, .control = s.ddp.control, .stag = s.ddp.stag, .first = s.ddp.to, .next = s.ddp.to};
  open.next = open.constant_offset ? open.next + s.ddp.bytes : s.ddp.to + s.ddp.bytes;
  open.bytes += s.ddp.bytes;
  open.last_bytes = s.ddp.bytes;
  ++open.segments;
  open.frame = here.packet.number;
  if (!s.ddp.last) return begins;
  open.open = false;
  if (open.bytes == 0 && !open.unsure)
    here.check("ddp.data-source.length.zero-one-segment", open.segments == 1, [&] {
      return Statement{"one segment for a zero-length message", fmt::format("{} segments", open.segments), {before}};
    });
  return begins;
}

}  // namespace rdmawire::conformance
