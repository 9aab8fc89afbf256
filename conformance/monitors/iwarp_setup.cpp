/// Checks of the MPA negotiation: the frames, and which side sends first. RFC 5044, 7.1, RFC 6581.

#include <fmt/format.h>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::conformance {

using machines::RtrKinds;

namespace {

std::string spoken(RtrKinds kinds) {
  std::string text;
  const auto add = [&](bool there, const char* name) {
    if (there) text += (text.empty() ? "" : " or ") + std::string(name);
  };
  add(kinds.send, "a Send");
  add(kinds.write, "an RDMA Write");
  add(kinds.read, "an RDMA Read");
  return text;
}

}  // namespace

void IwarpMonitor::setup(const IwarpPacketContext& here, const tracking::Pdu& pdu) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  const Bytes bytes = pdu.stack.bytes;
  if (bytes.size() < MpaFrame::size) return;
  const View<MpaFrame> view(bytes.data());
  IwarpDirection::Setup reported;
  reported.request = MpaFrame::is_request(bytes.data());
  reported.private_data = view.get<"private_data_length">();
  reported.end = pdu.stream_end;
  reported.number = here.packet.number;
  // If both endpoints have sent a frame, this one starts a new negotiation.
  if (mine.setup && peer.setup) peer = {};
  // Determine which frame is the reply. The capture may contain it before its request.
  reported.answers = peer.setup && peer.setup->request && !peer.setup->answers;
  if (peer.setup && !peer.setup->request) peer.setup->answers = true;
  machines::MpaSetupFrame& frame = reported.frame;
  frame.sender = reported.request ? machines::MpaRole::initiator : machines::MpaRole::responder;
  frame.markers = view.get<"markers">();
  frame.crc = view.get<"crc">();
  frame.reject = view.get<"reject">();
  frame.revision = view.get<"revision">();
  const bool s_bit = view.get<"enhanced">();
  if (s_bit && frame.revision >= 2 && bytes.size() >= MpaFrame::size + MpaEnhanced::size) {
    const View<MpaEnhanced> data(bytes.data() + MpaFrame::size);
    frame.enhanced = true;
    frame.data = {.peer_to_peer = data.get<"peer_to_peer">() != 0,
                  .rtr = {data.get<"rtr_send">() != 0, data.get<"rtr_write">() != 0, data.get<"rtr_read">() != 0},
                  .ird = static_cast<std::uint16_t>(data.get<"ird">()),
                  .ord = static_cast<std::uint16_t>(data.get<"ord">())};
  }
  mine = {.acknowledged = mine.acknowledged};
  mine.parsed = mine.data = mine.chained = mine.contiguous = true;
  mine.first = pdu.stream_offset;
  for (IwarpDirection::Queue& queue : mine.queues) queue.known = true;
  mine.setup = reported;

  if (frame.revision >= 1)
    here.rule("mpa.endpoint.crc.asked-by-default",
              frame.crc
                  ? RuleResult::pass()
                  : RuleResult::inconclusive(Reason::device_internal));  // an administrator may have disabled CRCs
  if (reported.request && !reported.answers) {
    const bool s_reserved = s_bit && frame.revision < 2;
    const bool fine =
        view.get<"reserved">() == 0 && !s_reserved && !frame.reject && reported.private_data <= mpa::max_private_data;
    here.check("mpa.initiator.request.format", fine || frame.revision == 0, [&] {
      return Statement{
          "a request with R and all reserved bits 0, and at most 512 bytes of private data",
          fmt::format("flags {:#04x} in revision {}, PD_Length {}", bytes[16], frame.revision, reported.private_data),
          {}};
    });
    return;
  }
  if (!reported.answers) {  // a reply without a captured request
    here.inconclusive("mpa.responder.reply.key", Reason::start_not_seen);
    return;
  }
  if (reported.request) {
    // The key is wrong only if this endpoint is certainly the responder: it listens and has received the request.
    // Otherwise both endpoints may be initiators.
    const tracking::TcpSegment& tcp = here.packet.tcp;
    const bool syn_seen = tcp.emss != 0, listens = tcp.connection->listener == tcp.connection->responder;
    const bool knowing = carried_ && syn_seen && listens && !tcp.from_initiator && tcp.has_acknowledged &&
                         tcp.acknowledged >= peer.setup->end;
    here.report("mpa.responder.reply.key", RuleResult::violation().unless(!knowing, Reason::peer_violation), [&] {
      return Statement{"a frame with the key of a reply", "a frame with the key of a request", {peer.setup->number}};
    });
  } else {
    here.pass("mpa.responder.reply.key");
  }
  check_reply(here, *peer.setup, reported);
}

void IwarpMonitor::check_reply(const IwarpPacketContext& here, const IwarpDirection::Setup& request,
                               const IwarpDirection::Setup& reply) {
  if (reply.frame.reject) here.pass("mpa.responder.reject.reply");
  if (!request.frame.enhanced) return;
  const machines::MpaEnhancedData &asked = request.frame.data, &given = reply.frame.data;
  here.report("mpa.responder.enhanced.answered-enhanced",
              // An implementation without RFC 6581 may reject with an unenhanced reply.
              RuleResult::of(reply.frame.enhanced).unless(reply.frame.reject, Reason::capability_unknown), [&] {
                return Statement{"an enhanced reply of revision 2 with S = 1, like the request",
                                 fmt::format("an unenhanced reply of revision {}, PD_Length {}", reply.frame.revision,
                                             reply.private_data),
                                 {request.number}};
              });
  if (!reply.frame.enhanced || reply.frame.reject) return;
  const bool open_ended = asked.ird == mpa::no_negotiation || given.ord == mpa::no_negotiation;
  here.check("mpa.responder.depth.within-request", open_ended || given.ord <= asked.ird, [&] {
    return Statement{fmt::format("an ORD of at most {}, the initiator's IRD", asked.ird),
                     fmt::format("an ORD of {}", given.ord),
                     {request.number}};
  });
}

void IwarpMonitor::first_fpdu(const IwarpPacketContext& here, const tracking::Pdu& pdu, const Segment* s) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  if (!mine.setup || mine.fpdus != 0 || pdu.stream_offset != mine.setup->end) return;
  if (peer.setup && mine.setup->answers) {
    // The acknowledgement number shows whether the responder had received an FPDU.
    const bool knows_none =
        carried_ && here.packet.tcp.has_acknowledged && here.packet.tcp.acknowledged <= peer.setup->end;
    here.report("mpa.responder.fpdu.waits-for-initiator",
                RuleResult::of(peer.fpdus != 0).unless(!knows_none, Reason::capture_lost), [&] {
                  return Statement{"no FPDU from the responder before it receives one",
                                   "an FPDU, although it has acknowledged only the request frame",
                                   {peer.setup->number}};
                });
  }
  if (!peer.setup || !mine.setup->request || mine.setup->answers) return;
  const machines::MpaEnhancedData &asked = mine.setup->frame.data, &given = peer.setup->frame.data;
  if (!mine.setup->frame.enhanced || !peer.setup->frame.enhanced || !asked.peer_to_peer || !given.peer_to_peer) return;
  if (!s || pdu.crc.status == CrcCheck::Status::bad || s->cut) {
    here.inconclusive("mpa.initiator.rtr.sent-first", s && s->cut ? Reason::truncated : Reason::damaged);
    return;
  }
  if (s->operation == RdmapOperation::terminate) return;  // the stream ends
  const RtrKinds agreed = asked.rtr & given.rtr;
  bool ready = false;
  switch (s->operation) {
    case RdmapOperation::send: ready = agreed.send && s->ddp.bytes == 0; break;
    case RdmapOperation::rdma_write: ready = agreed.write && s->ddp.bytes == 0; break;
    case RdmapOperation::read_request:
      ready = agreed.read && s->payload.size() >= RdmapReadRequest::size &&
              View<RdmapReadRequest>(s->payload.data()).get<"size">() == 0;
      break;
    default: break;
  }
  here.check("mpa.initiator.rtr.sent-first", ready, [&] {
    return Statement{
        agreed.any() ? fmt::format("a zero-length indication as the first FPDU: {}", spoken(agreed))
                     : "a Terminate, because no indication was negotiated",
        fmt::format("{} of {} bytes", s->opcode->known ? s->opcode->name : "an undefined opcode", s->ddp.bytes),
        {mine.setup->number, peer.setup->number}};
  });
}

}  // namespace rdmawire::conformance
