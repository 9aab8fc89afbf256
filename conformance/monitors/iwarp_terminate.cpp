/// Checks of Terminate messages and of the TCP close after them. RFC 5040, 4.8 and 6.2.1.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/iwarp_monitor.hpp"
#include "dissectors/machines/terminate.hpp"

namespace rdmawire::conformance {

using machines::IwarpError;
namespace errors = machines::iwarp_error;

namespace {

constexpr std::uint8_t remote_protection = errors::protection_rights.type,
                       remote_operation = errors::rdmap_version.type;

template <std::size_t Size>
bool has_name_for(const Name (&table)[Size], std::uint8_t code) {
  return std::any_of(std::begin(table), std::end(table), [&](const Name& name) { return name.value == code; });
}

// RFC 5040, figure 9, RFC 5041, 7.2, RFC 5044, 8, RFC 6581, 8.
bool is_defined(IwarpError error) {
  if (error.layer == terminate_layer::rdma) {
    if (error.type == errors::local_catastrophic.type) return true;  // any code
    if (error.type == remote_protection) return has_name_for(terminate_protection_entries, error.code);
    return error.type == remote_operation && has_name_for(terminate_operation_entries, error.code);
  }
  if (error.layer == terminate_layer::ddp) {
    if (error.type == errors::ddp_local_catastrophic.type) return has_name_for(terminate_ddp_local_entries, error.code);
    if (error.type == errors::tagged_bounds.type) return has_name_for(terminate_tagged_entries, error.code);
    return error.type == errors::untagged_no_buffer.type && has_name_for(terminate_untagged_entries, error.code);
  }
  return error.layer == terminate_layer::llp && error.type == errors::crc.type &&
         has_name_for(terminate_mpa_entries, error.code);
}

std::string spoken(IwarpError error) {
  return fmt::format("layer {}, type {}, code {:#04x}", error.layer, error.type, error.code);
}

}  // namespace

void IwarpMonitor::terminate(const IwarpPacketContext& here, const Segment& s) {
  IwarpDirection& mine = direction(here.place.end);
  mine.terminate = {here.packet.number, s.pdu.stream_end, false};
  here.check("rdmap.sender.terminate.format", s.ddp.qn == 2 && s.ddp.msn == 1 && s.ddp.last, [&] {
    return Statement{"a Terminate on queue 2, with MSN 1, in one segment",
                     fmt::format("queue {}, MSN {}{}", s.ddp.qn, s.ddp.msn, s.ddp.last ? "" : ", no last flag"),
                     {}};
  });
  here.pass("terminate.sender.message.once");
  if (s.cut && s.payload.size() < s.ddp.bytes)
    return here.inconclusive("terminate.sender.control.bits", Reason::truncated);
  const Bytes message = s.payload;
  if (message.size() < Terminate::size)
    return here.violation("terminate.sender.control.bits", [&] {
      return Statement{"a Terminate control of four bytes", fmt::format("{} bytes", message.size()), {}};
    });
  const View<Terminate> view(message.data());
  const IwarpError error{static_cast<std::uint8_t>(view.get<"layer">()), static_cast<std::uint8_t>(view.get<"etype">()),
                         static_cast<std::uint8_t>(view.get<"error_code">())};
  const bool reserved = (message[2] & 0x1f) != 0 || message[3] != 0;
  // The error if the nibbles of the first byte are swapped, as by bit fields of a compiler that allocates low bits
  // first.
  const IwarpError turned{error.type, error.layer, error.code};
  const bool is_turned = !is_defined(error) && is_defined(turned);
  if (reserved || is_turned)
    return here.violation("terminate.sender.control.bits", [&] {
      return Statement{
          "layer and type, code, then M, D and R and thirteen bits of zeros",
          fmt::format("bytes {:02x} {:02x} {:02x} {:02x}{}", message[0], message[1], message[2], message[3],
                      is_defined(turned) ? ", which is " + spoken(turned) + " with the low bits first" : ""),
          {}};
    });
  here.pass("terminate.sender.control.bits");
  const bool of_llp_in_ddp = error.layer == terminate_layer::ddp && error.type == 3;  // reserved for the LLP
  here.report("terminate.sender.control.defined-code",
              RuleResult::of(is_defined(error)).unless(of_llp_in_ddp, Reason::device_internal), [&] {
                return Statement{"an error defined by RDMAP, DDP or MPA", spoken(error), {}};
              });
  check_quotation(here, message, error);
}

void IwarpMonitor::check_quotation(const IwarpPacketContext& here, Bytes message, IwarpError error) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  const View<Terminate> view(message.data());
  const bool m = view.get<"segment_length_valid">(), d = view.get<"ddp_header_included">(),
             r = view.get<"rdma_header_included">();
  const auto said = [&] { return fmt::format("{}: M {}, D {}, R {}", spoken(error), m ? 1 : 0, d ? 1 : 0, r ? 1 : 0); };
  const Parts parts = Terminate::parts(message);
  // Find the quoted headers.
  const std::uint8_t* header = nullptr;
  std::size_t header_bytes = 0;
  const std::uint8_t* request = nullptr;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < parts.count; ++i) {
    const Layer& part = parts.layers[i];
    const std::uint8_t* at = message.data() + part.offset;
    if (part.header == &info<DdpSegmentLength>)
      length = static_cast<std::uint32_t>(View<DdpSegmentLength>(at).get<"length">());
    if (part.header == &info<Ddp>) header = at;
    if (part.header == &info<DdpTagged> || part.header == &info<DdpUntagged>)
      header_bytes = Ddp::size + Rdmap::size + part.header->size;
    if (part.header == &info<RdmapReadRequest>) request = at;
  }
  const auto quoted = header && header_bytes ? machines::read_segment({header, header_bytes}) : std::nullopt;
  const bool zeros = quoted && std::all_of(header, header + header_bytes, [](std::uint8_t byte) { return byte == 0; });
  const auto operation = quoted ? std::optional(machines::operation_of(quoted->control)) : std::nullopt;
  const auto is_of = [&](RdmapOperation which) { return operation == which && !zeros; };

  // Figure 10: the headers quoted for each kind of error.
  bool fits = true;
  const auto figure = [&](RuleId rule, bool condition, const char* expected) {
    fits = fits && condition;
    here.check(rule, condition, [&] { return Statement{expected, said(), {}}; });
  };
  if (error.layer == terminate_layer::llp) {
    figure("terminate.sender.llp-error.no-header", !d && !r && !m, "no header quoted");
  } else if (error == IwarpError{errors::local_catastrophic.layer, errors::local_catastrophic.type, error.code}) {
    figure("terminate.sender.local-catastrophic.no-header", !d && !r && !m, "no header quoted");
  } else if (error.layer == terminate_layer::ddp) {
    const bool local = error.type == errors::ddp_local_catastrophic.type;
    figure("terminate.sender.ddp-error.headers", (d || local) && !r,
           "the DDP header quoted, without Read Request header");
  } else if (error.type == remote_operation) {
    // These errors may be unrelated to a message, and then quote no header.
    const bool of_message = error.code != errors::stream_catastrophic.code && error.code != 0x08 && error.code != 0xff;
    figure("terminate.sender.operation.headers", (d || !of_message) && !r,
           "the DDP header quoted, without Read Request header");
  } else if (error.type == remote_protection) {
    const bool of_known = !quoted || zeros || is_of(RdmapOperation::read_request) ||
                          is_of(RdmapOperation::send_invalidate) || is_of(RdmapOperation::send_se_invalidate) ||
                          is_of(RdmapOperation::atomic_request) ||
                          // RDMAP may report the missing access right of a Write, because DDP lacks a code for it.
                          is_of(RdmapOperation::rdma_write);
    figure("terminate.sender.protection.headers", d && of_known,
           "the DDP header of an RDMA Read Request, an atomic or a Send with Invalidate quoted");
  }
  if (!fits) return;
  if (d) {
    here.check("terminate.sender.ddp-header.present", quoted.has_value(), [&] {
      return Statement{"the segment's length and its DDP header after the control field",
                       fmt::format("{} bytes", message.size()),
                       {}};
    });
  }
  if (r || (quoted && error.layer == terminate_layer::rdma && error.type == remote_protection)) {
    const bool of_read = is_of(RdmapOperation::read_request) || zeros || !d;
    here.check("terminate.sender.read-request.present", r ? request && of_read : !is_of(RdmapOperation::read_request),
               [&] {
                 return Statement{"the Read Request header only for a protection error of an RDMA Read Request",
                                  fmt::format("{}, {} bytes, for {}", said(), message.size(),
                                              operation ? rdmap_opcode(*operation).name : "no header"),
                                  {}};
               });
  }
  if (!quoted) return;
  // Find the captured segment whose header is quoted.
  const std::size_t remembered = std::min<std::uint64_t>(peer.segments, IwarpDirection::quotables);
  const IwarpDirection::Quotable* original = nullptr;
  for (std::size_t i = 0; i < remembered && !original; ++i) {
    const IwarpDirection::Quotable& each = peer.quotable[(peer.segments - 1 - i) % IwarpDirection::quotables];
    if (std::equal(header, header + header_bytes, each.header.begin())) original = &each;
  }
  if (!original) {
    // If the error is unrelated to a message, the header may be all zeros. RFC 5040, 7.1, rule 1
    const bool of_itself = error == errors::stream_catastrophic || error.code == 0x08 || error.code == 0xff;
    here.report("terminate.sender.ddp-header.copied",
                RuleResult::violation()
                    .unless(!peer.chained || unseen_before(here.place.end, here.packet), Reason::capture_lost)
                    .unless(remembered < peer.segments, Reason::out_of_window)
                    .unless(zeros && of_itself, Reason::device_internal),
                [&] {
                  return Statement{"the DDP header of a segment that was received",
                                   zeros ? std::string("zeros") : std::string("a header that was never sent"),
                                   {}};
                });
    return;
  }
  here.pass("terminate.sender.ddp-header.copied");
  if (m)
    here.check("terminate.sender.ddp-header.present", length == original->length, [&] {
      const bool payload = length + header_bytes == original->length;
      return Statement{fmt::format("a segment length of {} (header and payload)", original->length),
                       fmt::format("{}{}", length, payload ? " (only the payload)" : ""),
                       {original->frame}};
    });
  if (!r || !request || !is_of(RdmapOperation::read_request)) return;
  const auto pending = std::find_if(peer.pending.begin(), peer.pending.end(),
                                    [&](const auto& each) { return !each.atomic && each.msn == quoted->msn; });
  if (pending == peer.pending.end() || pending->stale) {
    here.inconclusive("terminate.sender.read-request.progress", Reason::capture_lost);
    return;
  }
  const View<RdmapReadRequest> was(pending->header.data()), is(request);
  const std::uint64_t sent = pending->received;
  const bool right = is.get<"sink_stag">() == was.get<"sink_stag">() && is.get<"src_stag">() == was.get<"src_stag">() &&
                     is.get<"sink_to">() == was.get<"sink_to">() + sent &&
                     is.get<"src_to">() == was.get<"src_to">() + sent && is.get<"size">() + sent == was.get<"size">();
  here.report("terminate.sender.read-request.progress",
              RuleResult::of(right).unless(!mine.chained, Reason::capture_lost), [&] {
                return Statement{fmt::format("the request advanced by {} response bytes: {} remaining, from TO {:#x}",
                                             sent, was.get<"size">() - sent, was.get<"src_to">() + sent),
                                 fmt::format("{} bytes, from TO {:#x}", is.get<"size">(), is.get<"src_to">()),
                                 {pending->frame}};
              });
}

void IwarpMonitor::closing(const IwarpPacketContext& here) {
  IwarpDirection &mine = direction(here.place.end), &peer = direction(tracking::other(here.place.end));
  if (here.packet.tcp.fin && !peer.pending.empty() && peer.pending.front().ended_early) {
    announced_short_length(here, peer.pending.front());
    peer.pending.pop_front();
  }
  if (!mine.terminate || mine.terminate->checked || mine.fin) return;
  mine.terminate->checked = true;
  here.pass("rdmap.sender.terminate.then-silence");
  const tracking::TcpSegment& tcp = here.packet.tcp;
  // A FIN uses a sequence number, so the offset of a reset shows whether an uncaptured FIN preceded it.
  const bool after_fin = tcp.reset && tcp.offset > mine.terminate->end;
  here.check("terminate.sender.close.graceful", tcp.fin || after_fin || peer.reset, [&] {
    return Statement{"a FIN after the Terminate, so that the peer receives it", "a reset", {mine.terminate->frame}};
  });
}

}  // namespace rdmawire::conformance
