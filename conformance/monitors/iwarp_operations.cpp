/// RDMAP: what each message must look like, and which responses answer which requests. RFC 5040, 4 and 5; RFC 7306.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::conformance {

void IwarpMonitor::judge_version(const IwarpPacketContext& here, const Segment& s) {
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  const auto version = View<Rdmap>(&s.ddp.control).get<"rv">();
  const bool frames = mine.setup && peer.setup;
  const bool rdmac = (mine.setup && mine.setup->frame.revision == 0) || (peer.setup && peer.setup->frame.revision == 0);
  const auto tell = [&] { return Statement{"RDMAP version 1", fmt::format("version {}", version), {}}; };
  const RuleResult ruling = RuleResult::of(version == 1 || (version == 0 && rdmac))
                                .unless(version == 0 && !frames, Reason::negotiation_not_seen);
  const bool extension = s.opcode->known && machines::is_extension(s.operation);
  if (!extension) {
    mine.old_rdmap |= version != 1;
    here.say("rdmap.sender.version.one", ruling, tell);
    return;
  }
  if (version != 1 && mine.old_rdmap) return;  // as all that it sends
  here.say("rdmap.endpoint.extension.version",
           s.ddp.invalidate_stag == 0 || s.ddp.tagged ? ruling : RuleResult::violated(), [&] {
             return Statement{"RDMAP version 1 and an Invalidate STag of 0",
                              fmt::format("version {}, {:#x}", version, s.ddp.invalidate_stag),
                              {}};
           });
}

void IwarpMonitor::judge_message(const IwarpPacketContext& here, const Segment& s) {
  const auto& ddp = s.ddp;
  // Of messages that are all header: their queue, one segment, and so many bytes.
  const auto fixed = [&](RuleId rule, std::uint32_t bytes, bool more = true, std::string_view other = {}) {
    const RdmapOpcode& op = *s.opcode;
    here.keeps(rule, ddp.qn == op.queue && ddp.last && ddp.bytes == bytes && more, [&] {
      return Statement{fmt::format("{} on queue {}, in one segment with the last flag, of {} bytes{}", op.name,
                                   op.queue, bytes, other),
                       fmt::format("queue {}, {}, {} bytes{}", ddp.qn, ddp.last ? "the last flag" : "no last flag",
                                   ddp.bytes, more ? "" : ", and not so"),
                       {}};
    });
  };
  switch (s.operation) {
    case RdmapOperation::send:
    case RdmapOperation::send_invalidate:
    case RdmapOperation::send_se:
    case RdmapOperation::send_se_invalidate:
      here.keeps("rdmap.sender.send.format", ddp.qn == 0 && (s.opcode->invalidate || ddp.invalidate_stag == 0), [&] {
        return Statement{
            fmt::format("{} on queue 0{}", s.opcode->name, s.opcode->invalidate ? "" : " with an Invalidate STag of 0"),
            fmt::format("queue {}, Invalidate STag {:#x}", ddp.qn, ddp.invalidate_stag),
            {}};
      });
      return;
    case RdmapOperation::immediate_data:
    case RdmapOperation::immediate_data_se: return fixed("rdmap.sender.immediate.format", RdmapImmediateData::size);
    case RdmapOperation::read_request:
      fixed("rdmap.requester.read-request.format", RdmapReadRequest::size);
      return requested(here, s);
    case RdmapOperation::terminate: return terminate(here, s);
    case RdmapOperation::atomic_request: {
      bool fine = true;
      if (s.payload.size() >= RdmapAtomicRequest::size) {
        const View<RdmapAtomicRequest> view(s.payload.data());
        const auto operation = view.get<"operation">();
        fine = view.get<"reserved">() == 0 &&
               (operation == machines::atomic_fetch_add || operation == machines::atomic_compare_swap);
      }
      fixed("rdmap.requester.atomic.request-format", RdmapAtomicRequest::size, fine,
            ", its reserved bits 0, the operation FetchAdd or CmpSwap");
      return requested(here, s);
    }
    case RdmapOperation::atomic_response:
      fixed("rdmap.responder.atomic.response-format", RdmapAtomicResponse::size);
      return atomic_answered(here, s);
    default: return;
  }
}

void IwarpMonitor::requested(const IwarpPacketContext& here, const Segment& s) {
  IwarpHalf& mine = half(here.place.end);
  const bool atomic = s.operation == RdmapOperation::atomic_request;
  // One that had arrived before we saw it may have been answered before, too.
  const bool late = s.pdu.stream_end <= mine.acknowledged;
  IwarpHalf::Asked asked{.atomic = atomic, .stale = late, .msn = s.ddp.msn, .frame = here.packet.number};
  if (s.payload.size() < (atomic ? RdmapAtomicRequest::size : RdmapReadRequest::size)) {
    // What it asks for is not known.
    ++mine.gaps;
    for (IwarpHalf::Asked& each : mine.asked) each.stale = true;
    return;
  }
  if (atomic) {
    asked.id = static_cast<std::uint32_t>(View<RdmapAtomicRequest>(s.payload.data()).get<"request_id">());
  } else {
    const View<RdmapReadRequest> view(s.payload.data());
    asked.stag = static_cast<std::uint32_t>(view.get<"sink_stag">());
    asked.to = view.get<"sink_to">();
    asked.size = static_cast<std::uint32_t>(view.get<"size">());
    std::copy_n(s.payload.begin(), RdmapReadRequest::size, asked.header.begin());
  }
  if (mine.asked.size() == IwarpHalf::most_asked) {
    mine.asked.pop_front();
    ++mine.gaps;
    for (IwarpHalf::Asked& each : mine.asked) each.stale = true;
  }
  mine.asked.push_back(asked);
  judge_depth(here);
}

void IwarpMonitor::judge_depth(const IwarpPacketContext& here) {
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  std::size_t outstanding = 0;
  bool atomics = false;
  for (const IwarpHalf::Asked& asked : mine.asked) {
    if (asked.stale || asked.cut_short) continue;
    ++outstanding;
    atomics |= asked.atomic;
  }
  const bool agreed = mine.setup && peer.setup && mine.setup->frame.enhanced && peer.setup->frame.enhanced;
  std::uint32_t most = mpa::no_negotiation;
  // An initiator sends at most as many as the reply has room for, a responder as many as its reply says. RFC 6581, 9.1
  if (agreed) most = mine.setup->answers ? mine.setup->frame.data.ord : peer.setup->frame.data.ird;
  const bool known = agreed && most != mpa::no_negotiation;
  const RuleResult ruling =
      known
          ? RuleResult::of(outstanding <= most).unless(unseen_before(here.place.end, here.packet), Reason::capture_lost)
          : RuleResult::open(Reason::negotiation_not_seen);
  const auto tell = [&] {
    return Statement{fmt::format("at most {} requests without their responses", most),
                     fmt::format("{}", outstanding),
                     {mine.asked.front().frame}};
  };
  if (atomics)
    here.say("rdmap.endpoint.atomic.shares-read-depth", ruling, tell);
  else
    here.say("rdmap.requester.read.within-depth", ruling, tell);
}

void IwarpMonitor::answered(const IwarpPacketContext& here, const Segment& s, bool begins) {
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  auto& asked = peer.asked;
  // A request that was not seen, or not yet.
  const bool unseen = peer.gaps != 0 || !peer.chained || unseen_before(here.place.end, here.packet);
  const auto fits = [&](const IwarpHalf::Asked& each) {
    if (each.atomic) return false;
    if (each.size == 0 || s.ddp.bytes == 0) return each.size == s.ddp.bytes;  // of nothing, STag and TO say nothing
    return each.received == 0 && each.stag == s.ddp.stag && each.to == s.ddp.to;
  };
  if (begins && !asked.empty() && asked.front().cut_short) {
    const IwarpHalf::Asked& oldest = asked.front();
    if (oldest.stag == s.ddp.stag && oldest.to + oldest.received == s.ddp.to) {
      here.broken("ddp.data-source.message.last-flag", [&] {
        return Statement{"the last flag in the last segment of the response alone",
                         fmt::format("it goes on at {} of {} bytes", oldest.received, oldest.size),
                         {oldest.frame}};
      });
      asked.front().cut_short = false;
      begins = false;
    } else {
      announced_short_length(here, oldest);
      asked.pop_front();
    }
  }
  if (begins) {
    mine.answering = false;
    auto found = std::find_if(asked.begin(), asked.end(), fits);
    // Of several that read into the same place the first is meant, or one that asks for what came.
    if (found != asked.end() && s.ddp.last && found->size != s.ddp.bytes) {
      const auto exact =
          std::find_if(found, asked.end(), [&](const auto& each) { return fits(each) && each.size == s.ddp.bytes; });
      if (exact != asked.end()) found = exact;
    }
    if (asked.empty()) {
      here.say("rdmap.responder.read-response.format", RuleResult::violated().unless(unseen, Reason::capture_lost),
               [&] {
                 return Statement{
                     "the response to an RDMA Read Request",
                     fmt::format("a response to STag {:#x}, TO {:#x}, that nobody waits for", s.ddp.stag, s.ddp.to),
                     {}};
               });
      return;
    }
    // Where some may have been answered unseen, which one is meant is known if no other would do.
    if (found != asked.end() && asked.front().stale) {
      if (std::count_if(found, asked.end(), fits) > 1)
        for (IwarpHalf::Asked& each : asked) each.stale = true;
      else
        found->stale = false;
      here.open("rdmap.responder.read.in-order", Reason::capture_lost);
      asked.erase(asked.begin(), found);
    } else if (found != asked.end() && found != asked.begin()) {
      const bool mixed = asked.front().atomic;
      const RuleResult ruling = RuleResult::violated().unless(mine.gaps != 0, Reason::capture_lost);
      const auto tell = [&] {
        return Statement{"responses in the order of their requests",
                         fmt::format("a response to a later request than MSN {}", asked.front().msn),
                         {asked.front().frame, found->frame}};
      };
      if (mixed)
        here.say("rdmap.endpoint.atomic.shares-read-depth", ruling, tell);
      else
        here.say("rdmap.responder.read.in-order", ruling, tell);
      const IwarpHalf::Asked meant = *found;
      asked.erase(found);
      asked.push_front(meant);
    } else if (found == asked.begin()) {
      here.holds("rdmap.responder.read.in-order");
    } else {
      const IwarpHalf::Asked& oldest = asked.front();
      here.say("rdmap.responder.read-response.format",
               RuleResult::violated().unless(oldest.stale || unseen || mine.gaps != 0, Reason::capture_lost), [&] {
                 return Statement{oldest.atomic
                                      ? std::string("an Atomic Response")
                                      : fmt::format("STag {:#x} and TO {:#x} of the request", oldest.stag, oldest.to),
                                  fmt::format("STag {:#x} and TO {:#x}", s.ddp.stag, s.ddp.to),
                                  {oldest.frame}};
               });
      if (oldest.stale || oldest.atomic) return;  // whose it is, is not known
      asked.front().misanswered = true;
    }
    mine.answering = true;
  }
  if (!mine.answering || asked.empty()) return;
  IwarpHalf::Asked& oldest = asked.front();
  oldest.received += s.ddp.bytes;
  const bool whole = oldest.received == oldest.size;
  if (mine.tagged.unsure || oldest.stale) {
    if (s.ddp.last) {
      here.open("rdmap.responder.read-response.format", Reason::capture_lost);
      asked.pop_front();
      mine.answering = false;
    }
    return;
  }
  if (oldest.received > oldest.size && !oldest.misanswered) {
    here.broken("rdmap.responder.read-response.format", [&] {
      return Statement{fmt::format("{} bytes, as were asked for", oldest.size),
                       fmt::format("{} bytes", oldest.received),
                       {oldest.frame}};
    });
    oldest.misanswered = true;
  }
  if (!s.ddp.last) return;
  if (!whole && oldest.received < oldest.size) {
    oldest.cut_short = true;  // what comes next says why
    return;
  }
  if (!oldest.misanswered) here.holds("rdmap.responder.read-response.format");
  asked.pop_front();
  mine.answering = false;
}

void IwarpMonitor::announced_short_length(const IwarpPacketContext& here, const IwarpHalf::Asked& asked) {
  if (asked.misanswered) return;
  here.say("rdmap.responder.read-response.format", RuleResult::violated().unless(asked.stale, Reason::capture_lost),
           [&] {
             return Statement{fmt::format("{} bytes, as were asked for", asked.size),
                              fmt::format("{} bytes", asked.received),
                              {asked.frame}};
           });
}

void IwarpMonitor::atomic_answered(const IwarpPacketContext& here, const Segment& s) {
  IwarpHalf &mine = half(here.place.end), &peer = half(tracking::other(here.place.end));
  auto& asked = peer.asked;
  if (s.payload.size() < RdmapAtomicResponse::size) return;
  const auto id = static_cast<std::uint32_t>(View<RdmapAtomicResponse>(s.payload.data()).get<"request_id">());
  const bool unseen = peer.gaps != 0 || !peer.chained || unseen_before(here.place.end, here.packet);
  const auto found = std::find_if(asked.begin(), asked.end(),
                                  [&](const IwarpHalf::Asked& each) { return each.atomic && each.id == id; });
  if (found == asked.end()) {
    const auto first = std::find_if(asked.begin(), asked.end(), [](const auto& each) { return each.atomic; });
    const bool known = first != asked.end() && !first->stale;
    here.say("rdmap.responder.atomic.identifier-returned",
             RuleResult::violated().unless(unseen || (first != asked.end() && !known), Reason::capture_lost), [&] {
               return Statement{known ? fmt::format("the identifier of its request, {:#x}", first->id)
                                      : std::string("the response to an Atomic Request"),
                                fmt::format("the identifier {:#x}, that nobody waits for", id),
                                {}};
             });
    if (known) asked.erase(first);
    return;
  }
  here.holds("rdmap.responder.atomic.identifier-returned");
  here.say("rdmap.endpoint.atomic.shares-read-depth",
           RuleResult::of(found == asked.begin()).unless(asked.front().stale || mine.gaps != 0, Reason::capture_lost),
           [&] {
             return Statement{"responses in the order of their requests",
                              fmt::format("a response to a later request than MSN {}", asked.front().msn),
                              {asked.front().frame, found->frame}};
           });
  if (asked.front().stale)
    asked.erase(asked.begin(), found + 1);
  else
    asked.erase(found);
}

}  // namespace rdmawire::conformance
