/// How a connection of MPA is set up: the frames, and who sends first. RFC 5044, 7.1; RFC 6581.

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
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  const Bytes bytes = pdu.stack.bytes;
  if (bytes.size() < MpaFrame::size) return;
  const View<MpaFrame> view(bytes.data());
  IwarpHalf::Setup made;
  made.request = MpaFrame::is_request(bytes.data());
  made.private_data = view.get<"private_data_length">();
  made.end = pdu.stream_end;
  made.number = here.packet.number;
  // A frame behind the end of another one begins anew.
  if (mine.setup && peer.setup) peer = {};
  // The capture may have a reply before its request.
  made.answers = peer.setup && peer.setup->request && !peer.setup->answers;
  if (peer.setup && !peer.setup->request) peer.setup->answers = true;
  machines::MpaSetupFrame& frame = made.frame;
  frame.sender = made.request ? machines::MpaRole::initiator : machines::MpaRole::responder;
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
  for (IwarpHalf::Queue& queue : mine.queues) queue.known = true;
  mine.setup = made;

  if (frame.revision >= 1)
    here.rule("mpa.endpoint.crc.asked-by-default",
              frame.crc ? RuleResult::holds()
                        : RuleResult::open(Reason::device_internal));  // an administrator may have said so
  if (made.request && !made.answers) {
    const bool s_reserved = s_bit && frame.revision < 2;
    const bool fine =
        view.get<"reserved">() == 0 && !s_reserved && !frame.reject && made.private_data <= mpa::max_private_data;
    here.keeps("mpa.initiator.request.format", fine || frame.revision == 0, [&] {
      return Statement{
          "a request with R and the reserved bits 0, and at most 512 bytes of private data",
          fmt::format("flags {:#04x} in revision {}, PD_Length {}", bytes[16], frame.revision, made.private_data),
          {}};
    });
    return;
  }
  if (!made.answers) {  // a reply to nothing that was seen
    here.open("mpa.responder.reply.key", Reason::start_not_seen);
    return;
  }
  if (made.request) {
    // Both can have wanted to be initiators; who listens, and knows of the request, cannot.
    const tracking::TcpSegment& tcp = here.packet.tcp;
    const bool syn_seen = tcp.emss != 0, listens = tcp.connection->listener == tcp.connection->responder;
    const bool knowing = carried_ && syn_seen && listens && !tcp.from_initiator && tcp.has_acknowledged &&
                         tcp.acknowledged >= peer.setup->end;
    here.say("mpa.responder.reply.key", RuleResult::violated().unless(!knowing, Reason::peer_violation), [&] {
      return Statement{"the request is answered by a frame with the key of a reply",
                       "the frame has the key of a request",
                       {peer.setup->number}};
    });
  } else {
    here.holds("mpa.responder.reply.key");
  }
  judge_reply(here, *peer.setup, made);
}

void IwarpMonitor::judge_reply(const IwarpPacketContext& here, const IwarpHalf::Setup& request,
                               const IwarpHalf::Setup& reply) {
  if (reply.frame.reject) here.holds("mpa.responder.reject.reply");
  if (!request.frame.enhanced) return;
  const machines::MpaEnhancedData &asked = request.frame.data, &given = reply.frame.data;
  here.say("mpa.responder.enhanced.answered-enhanced",
           // One without RFC 6581 may say no as it can.
           RuleResult::of(reply.frame.enhanced).unless(reply.frame.reject, Reason::capability_unknown), [&] {
             return Statement{"a reply of revision 2 with S = 1 and the enhanced data, as the request has them",
                              fmt::format("a reply of revision {}, PD_Length {}, that is not enhanced",
                                          reply.frame.revision, reply.private_data),
                              {request.number}};
           });
  if (!reply.frame.enhanced || reply.frame.reject) return;
  const bool open_ended = asked.ird == mpa::no_negotiation || given.ord == mpa::no_negotiation;
  here.keeps("mpa.responder.depth.within-request", open_ended || given.ord <= asked.ird, [&] {
    return Statement{fmt::format("an ORD of at most {}, the initiator's IRD", asked.ird),
                     fmt::format("an ORD of {}", given.ord),
                     {request.number}};
  });
}

void IwarpMonitor::first_fpdu(const IwarpPacketContext& here, const tracking::Pdu& pdu, const Segment* s) {
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  if (!mine.setup || mine.fpdus != 0 || pdu.stream_offset != mine.setup->end) return;
  if (peer.setup && mine.setup->answers) {
    // What its own acknowledgement says is what it had received.
    const bool knows_none =
        carried_ && here.packet.tcp.has_acknowledged && here.packet.tcp.acknowledged <= peer.setup->end;
    here.say("mpa.responder.fpdu.waits-for-initiator",
             RuleResult::of(peer.fpdus != 0).unless(!knows_none, Reason::capture_lost), [&] {
               return Statement{"no FPDU of the responder before it received one",
                                "an FPDU, while its acknowledgement says that it has the request frame alone",
                                {peer.setup->number}};
             });
  }
  if (!peer.setup || !mine.setup->request || mine.setup->answers) return;
  const machines::MpaEnhancedData &asked = mine.setup->frame.data, &given = peer.setup->frame.data;
  if (!mine.setup->frame.enhanced || !peer.setup->frame.enhanced || !asked.peer_to_peer || !given.peer_to_peer) return;
  if (!s || pdu.crc.status == CrcCheck::Status::bad || s->cut) {
    here.open("mpa.initiator.rtr.sent-first", s && s->cut ? Reason::cut : Reason::damaged);
    return;
  }
  if (s->operation == RdmapOperation::terminate) return;  // for whatever reason: it ends here
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
  here.keeps("mpa.initiator.rtr.sent-first", ready, [&] {
    return Statement{agreed.any() ? fmt::format("{} of no bytes as the first FPDU", spoken(agreed))
                                  : "a Terminate: no indication was agreed on",
                     fmt::format("{} of {} bytes", s->opcode->known ? s->opcode->name : "an opcode that does not exist",
                                 s->ddp.bytes),
                     {mine.setup->number, peer.setup->number}};
  });
}

}  // namespace rdmawire::conformance
