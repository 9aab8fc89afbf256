/// Faults of RDMAP.

#include <algorithm>

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::DdpSegment;
using machines::IwarpError;
namespace errors = machines::iwarp_error;

using Reject = decltype(SegmentDecisions::reject)::Next;

/// Silently drop a message with an error.
template <bool (*affected)(const Stream&, const DdpSegment&, IwarpError)>
void drop_message(const Reject& next, Stream& stream, const DdpSegment& segment, IwarpError error, Bytes ulpdu) {
  if (!affected(stream, segment, error)) next(stream, segment, error, ulpdu);
}

bool has_unknown_opcode(const Stream& /*stream*/, const DdpSegment& segment, IwarpError /*error*/) {
  return !rdmap_opcode(machines::operation_of(segment.control)).known;
}
bool has_wrong_model(const Stream& /*stream*/, const DdpSegment& segment, IwarpError /*error*/) {
  const RdmapOpcode& op = rdmap_opcode(machines::operation_of(segment.control));
  return op.known && op.tagged != segment.tagged;
}
bool is_unasked_response(const Stream& stream, const DdpSegment& segment, IwarpError error) {
  return error == errors::unexpected_opcode && segment.tagged && oldest_read(stream) == nullptr &&
         machines::operation_of(segment.control) == RdmapOperation::read_response;
}

bool is_read_request(const DdpSegment& segment) {
  return !segment.tagged && machines::operation_of(segment.control) == RdmapOperation::read_request;
}

using Place = decltype(RequesterDecisions::place_response)::Next;

/// Place a response that does not match the request's data sink at the STag and TO of its header, if that memory
/// exists.
bool place_anywhere(const Place& next, Stream& stream, const DdpSegment& segment, Bytes payload) {
  if (!conforming::judge_response(stream, segment)) return next(stream, segment, payload);
  const device::Sge target{segment.to, segment.bytes, segment.stag};
  if (const auto address = stream.rnic.memory().local(stream.options.pd, target, true))
    conforming::write(stream, *address, payload);
  return true;
}

/// Delay a write until the next event of the stream is processed.
void defer_write(const decltype(ResponderDecisions::write)::Next& /*next*/, Stream& stream, std::uint64_t address,
                 Bytes bytes) {
  stream.faults.writes.emplace_back(address, std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
}

constexpr FaultOverride rdmap_rows[] = {
    // Received headers
    {Fault::minds_reserved_rdmap_bits,
     [](Decisions& d) {
       d.segments.judge.override_with(
           [](const auto& next, const Stream& stream, const DdpSegment& segment) -> std::optional<IwarpError> {
             constexpr std::uint8_t reserved = 0x30;
             if ((segment.control & reserved) != 0) return errors::rdmap_version;
             return next(stream, segment);
           });
     }},
    {Fault::ignores_rdmap_version,
     [](Decisions& d) {
       d.segments.read.override_with([](const auto& next, const Stream& stream, Bytes ulpdu) {
         auto segment = next(stream, ulpdu);
         if (segment) segment->control = static_cast<std::uint8_t>((segment->control & 0x3f) | stream.ddp.version << 6);
         return segment;
       });
     }},
    {Fault::silent_unknown_opcode,
     [](Decisions& d) { d.segments.reject.override_with(drop_message<has_unknown_opcode>); }},
    {Fault::silent_wrong_model, [](Decisions& d) { d.segments.reject.override_with(drop_message<has_wrong_model>); }},
    // RDMA Write
    {Fault::delivers_writes,
     [](Decisions& d) {
       d.responder.place.override_with([](const auto& next, Stream& stream, const DdpSegment& segment, Bytes ulpdu) {
         const bool placed = next(stream, segment, ulpdu);
         if (placed && segment.last && !stream.receives.empty()) complete_receive(stream, {.bytes = segment.bytes});
         return placed;
       });
     }},
    // RDMA Read Requests
    {Fault::reads_on_any_queue,
     [](Decisions& d) {
       d.segments.read.override_with([](const auto& next, const Stream& stream, Bytes ulpdu) {
         auto segment = next(stream, ulpdu);
         if (segment && is_read_request(*segment) && segment->qn != 1) {
           segment->qn = 1;
           segment->msn = stream.ddp.queues[1].expected.value();
         }
         return segment;
       });
     }},
    {Fault::reads_at_any_mo,
     [](Decisions& d) {
       d.segments.read.override_with([](const auto& next, const Stream& stream, Bytes ulpdu) {
         auto segment = next(stream, ulpdu);
         if (segment && is_read_request(*segment)) segment->mo = 0;
         return segment;
       });
     }},
    {Fault::reads_of_any_length,
     [](Decisions& d) {
       d.segments.buffer.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         machines::UntaggedBuffer buffer = next(stream, segment);
         if (segment.qn == 1 && buffer.available) buffer.bytes = 256;
         return buffer;
       });
       d.responder.judge_message.override_with(
           [](const auto& next, RdmapOperation operation, std::uint64_t bytes) -> std::optional<IwarpError> {
             const auto error = next(operation, bytes);
             if (operation == RdmapOperation::read_request && error == errors::untagged_too_long) return std::nullopt;
             return error;
           });
     }},
    {Fault::checks_empty_reads,
     [](Decisions& d) {
       d.responder.judge_read.override_with(
           [](const auto& next, const Stream& stream, Bytes header) -> std::optional<IwarpError> {
             const View<RdmapReadRequest> request(header.data());
             if (request.get<"size">() != 0) return next(stream, header);
             const std::uint64_t from = request.get<"src_to">();
             const auto opened = stream.rnic.memory().open(stream.accessor(), request.get<"src_stag">(), from, 1,
                                                           device::access::remote_read);
             if (opened.address) return std::nullopt;
             return machines::protection_error(opened.decision.reason, from, 0);
           });
     }},
    {Fault::drops_reads_beyond_ird,
     [](Decisions& d) {
       d.segments.reject.override_with(
           [](const auto& next, Stream& stream, const DdpSegment& segment, IwarpError error, Bytes ulpdu) {
             if (error == errors::untagged_no_buffer && is_read_request(segment))
               stream.ddp = machines::placed(stream.ddp, segment);
             else
               next(stream, segment, error, ulpdu);
           });
     }},
    {Fault::reads_before_writes,
     [](Decisions& d) {
       d.responder.write.override_with(defer_write);
       write_at_next_event(d);
     }},
    {Fault::sends_before_writes,
     [](Decisions& d) {
       d.responder.write.override_with(defer_write);
       write_at_next_event(d);
     }},
    // RDMA Read Responses
    {Fault::trusts_responses,
     [](Decisions& d) {
       d.requester.judge_response.override_with(
           [](const auto& next, const Stream& stream, const DdpSegment& segment) -> std::optional<IwarpError> {
             return oldest_read(stream) ? std::nullopt : next(stream, segment);
           });
       d.requester.place_response.override_with(place_anywhere);
     }},
    {Fault::takes_long_responses,
     [](Decisions& d) {
       d.requester.judge_response.override_with(
           [](const auto& next, const Stream& stream, const DdpSegment& segment) -> std::optional<IwarpError> {
             const auto error = next(stream, segment);
             const Requested* oldest = oldest_read(stream);
             if (oldest && error == errors::tagged_bounds && segment.stag == oldest->sink.stag &&
                 segment.to == oldest->sink.to + oldest->sink.received)
               return std::nullopt;
             return error;
           });
       d.requester.place_response.override_with(place_anywhere);
     }},
    {Fault::silent_unasked_response,
     [](Decisions& d) { d.segments.reject.override_with(drop_message<is_unasked_response>); }},
    // Sends
    {Fault::ignores_solicited,
     [](Decisions& d) {
       d.responder.is_solicited.override_with([](const auto& /*next*/, RdmapOperation /*operation*/) { return false; });
     }},
    {Fault::silent_invalidate_error,
     [](Decisions& d) {
       d.responder.invalidate.override_with([](const auto& next, Stream& stream, std::uint32_t stag) {
         (void)next(stream, stag);
         return true;
       });
     }},
    {Fault::drops_empty_sends,
     [](Decisions& d) {
       d.responder.deliver.override_with([](const auto& next, Stream& stream, const DdpSegment& message) {
         if (message.bytes != 0 || !machines::is_send(machines::operation_of(message.control))) next(stream, message);
       });
     }},
    // Sent messages
    {Fault::sends_version_0,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const machines::DdpPiece& piece) {
         std::vector<std::uint8_t> header = next(stream, piece);
         clear_rdmap_version(header);
         return header;
       });
     }},
    {Fault::solicited_as_plain,
     [](Decisions& d) {
       d.requester.operation_of.override_with([](const auto& next, const device::SendRequest& request) {
         const RdmapOperation operation = next(request);
         if (operation == RdmapOperation::send_se) return RdmapOperation::send;
         if (operation == RdmapOperation::send_se_invalidate) return RdmapOperation::send_invalidate;
         return operation;
       });
     }},
    {Fault::plain_as_solicited,
     [](Decisions& d) {
       d.requester.operation_of.override_with([](const auto& next, const device::SendRequest& request) {
         const RdmapOperation operation = next(request);
         if (operation == RdmapOperation::send) return RdmapOperation::send_se;
         if (operation == RdmapOperation::send_invalidate) return RdmapOperation::send_se_invalidate;
         return operation;
       });
     }},
    {Fault::read_request_goes_on,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const machines::DdpPiece& piece) {
         const bool read = stream.outgoing->operation == RdmapOperation::read_request;
         return next(stream, {piece.offset, piece.bytes, piece.last && !read});
       });
     }},
    {Fault::exceeds_ord,
     [](Decisions& d) {
       d.requester.may_begin.override_with([](const auto& next, machines::ReadDepth depth, bool counts, bool fenced) {
         ++depth.ord;
         return next(depth, counts, fenced);
       });
     }},
    {Fault::completes_reads_early,
     [](Decisions& d) {
       d.requester.completes_when_sent.override_with(
           [](const auto& /*next*/, RdmapOperation /*operation*/) { return true; });
     }},
    // Sent responses
    {Fault::response_to_source,
     [](Decisions& d) {
       d.responder.read_response.override_with([](const auto& next, Bytes header) {
         Outgoing response = next(header);
         response.stag = View<RdmapReadRequest>(header.data()).get<"src_stag">();
         return response;
       });
     }},
    {Fault::answers_newest_first,
     [](Decisions& d) {
       d.responder.next_answer.override_with(
           [](const auto& /*next*/, const std::deque<Answer>& answers) { return answers.size() - 1; });
     }},
};

}  // namespace

void write_at_next_event(Decisions& decisions) {
  decisions.states.begin_event.override_with([](const auto& next, Stream& stream, std::int64_t now) {
    next(stream, now);
    for (const auto& [address, bytes] : stream.faults.writes) conforming::write(stream, address, bytes);
    stream.faults.writes.clear();
  });
}

std::span<const FaultOverride> rdmap_overrides() { return rdmap_rows; }

}  // namespace rdmawire::endpoint
