/// Faults of DDP.

#include <algorithm>

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::DdpPiece;
using machines::DdpSegment;
using machines::DdpVerdict;
using machines::IwarpError;
namespace errors = machines::iwarp_error;

/// Return the queue of an untagged segment, or nullptr.
const machines::UntaggedQueue* queue_of(const Stream& stream, const DdpSegment& segment) {
  return segment.tagged || segment.qn >= stream.ddp.queues.size() ? nullptr : &stream.ddp.queues[segment.qn];
}

using Reject = decltype(SegmentDecisions::reject)::Next;

/// Silently drop affected segments with an error. The expected MSN and MO do not change.
template <bool (*affected)(const DdpSegment&, IwarpError)>
void drop_silently(const Reject& next, Stream& stream, const DdpSegment& segment, IwarpError error, Bytes ulpdu) {
  if (!affected(segment, error)) next(stream, segment, error, ulpdu);
}

bool is_write_to_invalid_stag(const DdpSegment& segment, IwarpError error) {
  return error == errors::tagged_invalid_stag && machines::operation_of(segment.control) == RdmapOperation::rdma_write;
}
bool is_invalid_queue(const DdpSegment& /*segment*/, IwarpError error) { return error == errors::untagged_invalid_qn; }

using Read = decltype(SegmentDecisions::read)::Next;

/// Ignore the DDP version of tagged or of untagged segments.
template <bool tagged>
std::optional<DdpSegment> ignore_version(const Read& next, const Stream& stream, Bytes ulpdu) {
  auto segment = next(stream, ulpdu);
  if (segment && segment->tagged == tagged) segment->version = stream.ddp.version;
  return segment;
}

/// True if the message in progress is tagged.
bool is_tagged(const Stream& stream) { return rdmap_opcode(stream.outgoing->operation).tagged; }

constexpr FaultOverride ddp_rows[] = {
    // ULPDUs
    {Fault::skips_short_segments,
     [](Decisions& d) {
       d.segments.reject_unreadable.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         if (ulpdu.empty()) next(stream, ulpdu);
       });
     }},
    {Fault::skips_empty_ulpdus,
     [](Decisions& d) {
       d.segments.reject_unreadable.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         if (!ulpdu.empty()) next(stream, ulpdu);
       });
     }},
    // Received headers
    {Fault::minds_reserved_ddp_bits,
     [](Decisions& d) {
       d.segments.read.override_with([](const auto& next, const Stream& stream, Bytes ulpdu) {
         constexpr std::uint8_t reserved = 0x3c;
         auto segment = next(stream, ulpdu);
         if (segment && (ulpdu[0] & reserved) != 0) ++segment->version;
         return segment;
       });
     }},
    {Fault::ignores_tagged_version, [](Decisions& d) { d.segments.read.override_with(ignore_version<true>); }},
    {Fault::ignores_untagged_version, [](Decisions& d) { d.segments.read.override_with(ignore_version<false>); }},
    {Fault::accepts_any_msn,
     [](Decisions& d) {
       d.segments.read.override_with([](const auto& next, const Stream& stream, Bytes ulpdu) {
         auto segment = next(stream, ulpdu);
         if (const auto* queue = segment ? queue_of(stream, *segment) : nullptr) segment->msn = queue->expected.value();
         return segment;
       });
     }},
    {Fault::ignores_mo,
     [](Decisions& d) {
       d.segments.read.override_with([](const auto& next, const Stream& stream, Bytes ulpdu) {
         auto segment = next(stream, ulpdu);
         if (const auto* queue = segment ? queue_of(stream, *segment) : nullptr) segment->mo = queue->placed;
         return segment;
       });
     }},
    {Fault::refuses_interleaving,
     [](Decisions& d) {
       d.segments.judge.override_with(
           [](const auto& next, const Stream& stream, const DdpSegment& segment) -> std::optional<IwarpError> {
             const auto error = next(stream, segment);
             if (!error && segment.tagged && stream.ddp.queues[0].open) return errors::unexpected_opcode;
             return error;
           });
     }},
    // Received tagged segments
    {Fault::checks_empty_stags,
     [](Decisions& d) {
       d.segments.judge_tagged.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         const DdpVerdict verdict = next(stream, segment);
         if (!verdict.valid || segment.bytes != 0) return verdict;
         const auto opened =
             stream.rnic.memory().open(stream.accessor(), segment.stag, segment.to, 1, device::access::remote_write);
         return opened.address ? verdict : machines::ddp_refused(errors::tagged_invalid_stag);
       });
     }},
    {Fault::bounds_as_invalid_stag,
     [](Decisions& d) {
       d.segments.judge_tagged.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         const DdpVerdict verdict = next(stream, segment);
         return verdict.error == errors::tagged_bounds ? machines::ddp_refused(errors::tagged_invalid_stag) : verdict;
       });
     }},
    {Fault::silent_invalid_stag,
     [](Decisions& d) { d.segments.reject.override_with(drop_silently<is_write_to_invalid_stag>); }},
    // Received untagged segments
    {Fault::silent_invalid_queue,
     [](Decisions& d) { d.segments.reject.override_with(drop_silently<is_invalid_queue>); }},
    {Fault::silent_missing_buffer,
     [](Decisions& d) {
       d.segments.reject.override_with(
           [](const auto& next, Stream& stream, const DdpSegment& segment, IwarpError error, Bytes ulpdu) {
             if (error == errors::untagged_no_buffer && segment.qn == 0)
               stream.ddp = machines::placed(stream.ddp, segment);
             else
               next(stream, segment, error, ulpdu);
           });
     }},
    {Fault::truncates_long_messages,
     [](Decisions& d) {
       d.segments.judge_untagged.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         const DdpVerdict verdict = next(stream, segment);
         if (verdict.error == errors::untagged_too_long && segment.qn == 0 && !stream.receives.empty())
           return DdpVerdict{.delivers = segment.last};
         return verdict;
       });
       d.segments.placed_payload.override_with(
           [](const auto& next, const Stream& stream, const DdpSegment& segment, Bytes payload) {
             payload = next(stream, segment, payload);
             if (segment.qn != 0 || stream.receives.empty() ||
                 segment.mo + payload.size() <= stream.decisions().segments.buffer(stream, segment).bytes)
               return payload;
             const std::uint64_t capacity = stream.receives.front().bytes();
             const std::uint64_t left = capacity - std::min<std::uint64_t>(stream.ddp.queues[0].placed, capacity);
             return payload.first(std::min<std::uint64_t>(payload.size(), left));
           });
     }},
    {Fault::checks_empty_mo,
     [](Decisions& d) {
       d.segments.judge_untagged.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         const DdpVerdict verdict = next(stream, segment);
         if (verdict.valid && segment.bytes == 0 && segment.mo != stream.ddp.queues[segment.qn].placed)
           return machines::ddp_refused(errors::untagged_invalid_mo);
         return verdict;
       });
     }},
    {Fault::delivers_at_last_flag,
     [](Decisions& d) {
       d.segments.judge_untagged.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         const DdpVerdict verdict = next(stream, segment);
         return verdict.error == errors::untagged_invalid_mo ? DdpVerdict{.delivers = segment.last} : verdict;
       });
     }},
    // Sent headers
    {Fault::sends_reserved_ddp_bits,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
         std::vector<std::uint8_t> header = next(stream, piece);
         header[0] |= 5 << 2;
         return header;
       });
     }},
    {Fault::changes_version,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
         constexpr std::uint8_t version = 0x03;
         std::vector<std::uint8_t> header = next(stream, piece);
         if (stream.faults.messages_sent != 0) header[0] &= static_cast<std::uint8_t>(~version);
         return header;
       });
       d.transmit.end_message.override_with([](const auto& next, Stream& stream) {
         ++stream.faults.messages_sent;
         next(stream);
       });
     }},
    {Fault::last_flag_everywhere,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
         return next(stream, {piece.offset, piece.bytes, true});
       });
     }},
    {Fault::to_stands,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
         return next(stream, is_tagged(stream) ? DdpPiece{0, piece.bytes, piece.last} : piece);
       });
     }},
    {Fault::mo_stands,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
         return next(stream, is_tagged(stream) ? piece : DdpPiece{0, piece.bytes, piece.last});
       });
     }},
    {Fault::msn_from_zero,
     [](Decisions& d) { d.transmit.first_msn.override_with([](const auto& /*next*/) { return std::uint32_t{0}; }); }},
    {Fault::write_without_end,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
         const bool write = stream.outgoing->operation == RdmapOperation::rdma_write;
         return next(stream, {piece.offset, piece.bytes, piece.last && !write});
       });
     }},
    // Sent segments and messages
    {Fault::empty_message_twice,
     [](Decisions& d) {
       d.transmit.send_piece.override_with([](const auto& next, Stream& stream, const DdpPiece& piece, Bytes payload) {
         if (stream.outgoing->bytes == 0) next(stream, {piece.offset, piece.bytes, false}, payload);
         next(stream, piece, payload);
       });
     }},
    {Fault::sends_newest_first,
     [](Decisions& d) {
       d.requester.next_work.override_with([](const auto& next, const std::deque<Work>& work, std::size_t oldest) {
         return work[oldest].begun == 0 ? work.size() - 1 : next(work, oldest);
       });
     }},
};

}  // namespace

std::span<const FaultOverride> ddp_overrides() { return ddp_rows; }

}  // namespace rdmawire::endpoint
