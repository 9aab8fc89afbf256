/// Checks of RDMAP messages and of the responses to requests. RFC 5040, 4 and 5, RFC 7306.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::conformance {

void IwarpMonitor::check_version(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  const auto version = View<Rdmap>(&s.ddp.control).get<"rv">();
  const bool frames = mine.setup && peer.setup;
  const bool rdmac = (mine.setup && mine.setup->frame.revision == 0) || (peer.setup && peer.setup->frame.revision == 0);
  const auto describe = [&] { return Statement{"RDMAP version 1", fmt::format("version {}", version), {}}; };
  const RuleResult result = RuleResult::of(version == 1 || (version == 0 && rdmac))
                                .unless(version == 0 && !frames, Reason::negotiation_not_seen);
  const bool extension = s.opcode->known && machines::is_extension(s.operation);
  if (!extension) {
    mine.old_rdmap |= version != 1;
    here.report("rdmap.sender.version.one", result, describe);
    return;
  }
  if (version != 1 && mine.old_rdmap) return;  // rdmap.sender.version.one evaluates it
  here.report("rdmap.endpoint.extension.version",
              s.ddp.invalidate_stag == 0 || s.ddp.tagged ? result : RuleResult::violation(), [&] {
                return Statement{"RDMAP version 1 and an Invalidate STag of 0",
                                 fmt::format("version {}, {:#x}", version, s.ddp.invalidate_stag),
                                 {}};
              });
}

void IwarpMonitor::check_message(const IwarpPacketContext& here, const Segment& s) {
  const auto& ddp = s.ddp;
  // Checks a message without payload: it has a fixed queue, a fixed length and one segment.
  const auto fixed = [&](RuleId rule, std::uint32_t bytes, bool more = true, std::string_view other = {}) {
    const RdmapOpcode& op = *s.opcode;
    here.check(rule, ddp.qn == op.queue && ddp.last && ddp.bytes == bytes && more, [&] {
      return Statement{fmt::format("{} on queue {}, in one segment with the last flag, with {} bytes{}", op.name,
                                   op.queue, bytes, other),
                       fmt::format("queue {}, {}, {} bytes{}", ddp.qn, ddp.last ? "the last flag" : "no last flag",
                                   ddp.bytes, more ? "" : ", but other fields differ"),
                       {}};
    });
  };
  switch (s.operation) {
    case RdmapOperation::send:
    case RdmapOperation::send_invalidate:
    case RdmapOperation::send_se:
    case RdmapOperation::send_se_invalidate:
      here.check("rdmap.sender.send.format", ddp.qn == 0 && (s.opcode->invalidate || ddp.invalidate_stag == 0), [&] {
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
            ", with reserved bits 0 and the operation FetchAdd or CmpSwap");
      return requested(here, s);
    }
    case RdmapOperation::atomic_response:
      fixed("rdmap.responder.atomic.response-format", RdmapAtomicResponse::size);
      return atomic_answered(here, s);
    default: return;
  }
}

void IwarpMonitor::requested(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection& mine = direction(here.place.end);
  const bool atomic = s.operation == RdmapOperation::atomic_request;
  // If the capture contains the request's TCP acknowledgement before the request, the response may precede it, too.
  const bool late = s.pdu.stream_end <= mine.acknowledged;
  IwarpDirection::PendingRequest pending{
      .atomic = atomic, .stale = late, .msn = s.ddp.msn, .frame = here.packet.number};
  if (s.payload.size() < (atomic ? RdmapAtomicRequest::size : RdmapReadRequest::size)) {
    // The request is truncated. What it requests is unknown, so its response cannot be recognized.
    ++mine.gaps;
    for (IwarpDirection::PendingRequest& each : mine.pending) each.stale = true;
    return;
  }
  if (atomic) {
    pending.id = static_cast<std::uint32_t>(View<RdmapAtomicRequest>(s.payload.data()).get<"request_id">());
  } else {
    const View<RdmapReadRequest> view(s.payload.data());
    pending.stag = static_cast<std::uint32_t>(view.get<"sink_stag">());
    pending.to = view.get<"sink_to">();
    pending.size = static_cast<std::uint32_t>(view.get<"size">());
    std::copy_n(s.payload.begin(), RdmapReadRequest::size, pending.header.begin());
  }
  if (mine.pending.size() == IwarpDirection::most_asked) {
    mine.pending.pop_front();
    ++mine.gaps;
    for (IwarpDirection::PendingRequest& each : mine.pending) each.stale = true;
  }
  mine.pending.push_back(pending);
  check_depth(here);
}

void IwarpMonitor::check_depth(const IwarpPacketContext& here) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  std::size_t outstanding = 0;
  bool atomics = false;
  for (const IwarpDirection::PendingRequest& pending : mine.pending) {
    if (pending.stale || pending.ended_early) continue;
    ++outstanding;
    atomics |= pending.atomic;
  }
  const bool agreed = mine.setup && peer.setup && mine.setup->frame.enhanced && peer.setup->frame.enhanced;
  std::uint32_t most = mpa::no_negotiation;
  // Limits of outstanding requests: initiator: IRD of the reply. Responder: ORD of its own reply. RFC 6581, 9.1
  if (agreed) most = mine.setup->answers ? mine.setup->frame.data.ord : peer.setup->frame.data.ird;
  const bool known = agreed && most != mpa::no_negotiation;
  const RuleResult result =
      known
          ? RuleResult::of(outstanding <= most).unless(unseen_before(here.place.end, here.packet), Reason::capture_lost)
          : RuleResult::inconclusive(Reason::negotiation_not_seen);
  const auto describe = [&] {
    return Statement{fmt::format("at most {} outstanding requests", most),
                     fmt::format("{}", outstanding),
                     {mine.pending.front().frame}};
  };
  if (atomics)
    here.report("rdmap.endpoint.atomic.shares-read-depth", result, describe);
  else
    here.report("rdmap.requester.read.within-depth", result, describe);
}

void IwarpMonitor::answered(const IwarpPacketContext& here, const Segment& s, bool begins) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  auto& pending = peer.pending;
  // True if the capture may lack the request, or contain it later.
  const bool unseen = peer.gaps != 0 || !peer.chained || unseen_before(here.place.end, here.packet);
  const auto fits = [&](const IwarpDirection::PendingRequest& each) {
    if (each.atomic) return false;
    if (each.size == 0 || s.ddp.bytes == 0) return each.size == s.ddp.bytes;  // STag and TO are not significant
    return each.received == 0 && each.stag == s.ddp.stag && each.to == s.ddp.to;
  };
  if (begins && !pending.empty() && pending.front().ended_early) {
    const IwarpDirection::PendingRequest& oldest = pending.front();
    if (oldest.stag == s.ddp.stag && oldest.to + oldest.received == s.ddp.to) {
      here.violation("ddp.data-source.message.last-flag", [&] {
        return Statement{"the last flag only in the last segment of the response",
                         fmt::format("the response continues at {} of {} bytes", oldest.received, oldest.size),
                         {oldest.frame}};
      });
      pending.front().ended_early = false;
      begins = false;
    } else {
      announced_short_length(here, oldest);
      pending.pop_front();
    }
  }
  if (begins) {
    mine.responding = false;
    auto found = std::find_if(pending.begin(), pending.end(), fits);
    // If several requests have the same sink, use the one with the received length, otherwise the first.
    if (found != pending.end() && s.ddp.last && found->size != s.ddp.bytes) {
      const auto exact =
          std::find_if(found, pending.end(), [&](const auto& each) { return fits(each) && each.size == s.ddp.bytes; });
      if (exact != pending.end()) found = exact;
    }
    if (pending.empty()) {
      here.report(
          "rdmap.responder.read-response.format", RuleResult::violation().unless(unseen, Reason::capture_lost), [&] {
            return Statement{"the response to an RDMA Read Request",
                             fmt::format("an unsolicited response to STag {:#x}, TO {:#x}", s.ddp.stag, s.ddp.to),
                             {}};
          });
      return;
    }
    // If the capture may lack responses, the request is certain only if no other one matches.
    if (found != pending.end() && pending.front().stale) {
      if (std::count_if(found, pending.end(), fits) > 1)
        for (IwarpDirection::PendingRequest& each : pending) each.stale = true;
      else
        found->stale = false;
      here.inconclusive("rdmap.responder.read.in-order", Reason::capture_lost);
      pending.erase(pending.begin(), found);
    } else if (found != pending.end() && found != pending.begin()) {
      const bool mixed = pending.front().atomic;
      const RuleResult result = RuleResult::violation().unless(mine.gaps != 0, Reason::capture_lost);
      const auto describe = [&] {
        return Statement{"responses in the order of their requests",
                         fmt::format("a response to a later request than MSN {}", pending.front().msn),
                         {pending.front().frame, found->frame}};
      };
      if (mixed)
        here.report("rdmap.endpoint.atomic.shares-read-depth", result, describe);
      else
        here.report("rdmap.responder.read.in-order", result, describe);
      const IwarpDirection::PendingRequest meant = *found;
      pending.erase(found);
      pending.push_front(meant);
    } else if (found == pending.begin()) {
      here.pass("rdmap.responder.read.in-order");
    } else {
      const IwarpDirection::PendingRequest& oldest = pending.front();
      here.report("rdmap.responder.read-response.format",
                  RuleResult::violation().unless(oldest.stale || unseen || mine.gaps != 0, Reason::capture_lost), [&] {
                    return Statement{
                        oldest.atomic ? std::string("an Atomic Response")
                                      : fmt::format("STag {:#x} and TO {:#x} of the request", oldest.stag, oldest.to),
                        fmt::format("STag {:#x} and TO {:#x}", s.ddp.stag, s.ddp.to),
                        {oldest.frame}};
                  });
      if (oldest.stale || oldest.atomic) return;  // the matching request is unknown
      pending.front().reported_mismatch = true;
    }
    mine.responding = true;
  }
  if (!mine.responding || pending.empty()) return;
  IwarpDirection::PendingRequest& oldest = pending.front();
  oldest.received += s.ddp.bytes;
  const bool complete = oldest.received == oldest.size;
  if (mine.tagged.unsure || oldest.stale) {
    if (s.ddp.last) {
      here.inconclusive("rdmap.responder.read-response.format", Reason::capture_lost);
      pending.pop_front();
      mine.responding = false;
    }
    return;
  }
  if (oldest.received > oldest.size && !oldest.reported_mismatch) {
    here.violation("rdmap.responder.read-response.format", [&] {
      return Statement{
          fmt::format("the requested {} bytes", oldest.size), fmt::format("{} bytes", oldest.received), {oldest.frame}};
    });
    oldest.reported_mismatch = true;
  }
  if (!s.ddp.last) return;
  if (!complete && oldest.received < oldest.size) {
    oldest.ended_early = true;  // the next segment shows which rule is violated
    return;
  }
  if (!oldest.reported_mismatch) here.pass("rdmap.responder.read-response.format");
  pending.pop_front();
  mine.responding = false;
}

void IwarpMonitor::announced_short_length(const IwarpPacketContext& here,
                                          const IwarpDirection::PendingRequest& pending) {
  if (pending.reported_mismatch) return;
  here.report("rdmap.responder.read-response.format",
              RuleResult::violation().unless(pending.stale, Reason::capture_lost), [&] {
                return Statement{fmt::format("the requested {} bytes", pending.size),
                                 fmt::format("{} bytes", pending.received),
                                 {pending.frame}};
              });
}

void IwarpMonitor::atomic_answered(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  auto& pending = peer.pending;
  if (s.payload.size() < RdmapAtomicResponse::size) return;
  const auto id = static_cast<std::uint32_t>(View<RdmapAtomicResponse>(s.payload.data()).get<"request_id">());
  const bool unseen = peer.gaps != 0 || !peer.chained || unseen_before(here.place.end, here.packet);
  const auto found = std::find_if(pending.begin(), pending.end(), [&](const IwarpDirection::PendingRequest& each) {
    return each.atomic && each.id == id;
  });
  if (found == pending.end()) {
    const auto first = std::find_if(pending.begin(), pending.end(), [](const auto& each) { return each.atomic; });
    const bool known = first != pending.end() && !first->stale;
    here.report("rdmap.responder.atomic.identifier-returned",
                RuleResult::violation().unless(unseen || (first != pending.end() && !known), Reason::capture_lost),
                [&] {
                  return Statement{known ? fmt::format("the identifier of its request, {:#x}", first->id)
                                         : std::string("the response to an Atomic Request"),
                                   fmt::format("the unsolicited identifier {:#x}", id),
                                   {}};
                });
    if (known) pending.erase(first);
    return;
  }
  here.pass("rdmap.responder.atomic.identifier-returned");
  here.report(
      "rdmap.endpoint.atomic.shares-read-depth",
      RuleResult::of(found == pending.begin()).unless(pending.front().stale || mine.gaps != 0, Reason::capture_lost),
      [&] {
        return Statement{"responses in the order of their requests",
                         fmt::format("a response to a later request than MSN {}", pending.front().msn),
                         {pending.front().frame, found->frame}};
      });
  if (pending.front().stale)
    pending.erase(pending.begin(), found + 1);
  else
    pending.erase(found);
}

}  // namespace rdmawire::conformance
