/// Blind faults of DDP: segmentation, placement and untagged queues.

#include <algorithm>

#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::DdpPiece;
using machines::DdpSegment;

constexpr std::string_view ddp = "DDP";

bool sends_tagged(const Stream& stream) { return rdmap_opcode(stream.outgoing->operation).tagged; }

constexpr IwarpBlindFault blind_ddp_rows[] = {
    {.name = "message-offset-of-16-bits",
     .area = ddp,
     .sentence = "The sender writes only the low 16 bits of the MO.",
     .trigger = "sent Send of more than 65,536 bytes: the MO of its last segments",
     .add_to =
         [](Decisions& d) {
           d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
             DdpPiece changed = piece;
             if (!sends_tagged(stream)) changed.offset &= 0xffff;
             return next(stream, changed);
           });
         }},
    {.name = "tagged-offset-of-32-bits",
     .area = ddp,
     .sentence = "The sender computes the TO of the second and later segments with 32 bits.",
     .trigger = "RDMA Write of several segments across a multiple of 4 GiB of the TO: the TO",
     .add_to =
         [](Decisions& d) {
           d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
             constexpr std::uint64_t low = 0xffffffff;
             DdpPiece changed = piece;
             const std::uint64_t to = stream.outgoing->to;
             if (sends_tagged(stream)) changed.offset = ((to & ~low) | ((to + piece.offset) & low)) - to;
             return next(stream, changed);
           });
         }},
    {.name = "msn-of-open-message-unchecked",
     .area = ddp,
     .sentence = "The receiver checks the MSN only in the first segment of a message.",
     .trigger = "second segment of a Send with another MSN: no Terminate",
     .add_to =
         [](Decisions& d) {
           d.segments.judge_untagged.override_with(
               [](const auto& next, const Stream& stream, const DdpSegment& segment) {
                 DdpSegment changed = segment;
                 if (segment.qn < stream.ddp.queue_count && stream.ddp.queues[segment.qn].open)
                   changed.msn = stream.ddp.queues[segment.qn].expected.value();
                 return next(stream, changed);
               });
         }},
    {.name = "offset-of-last-segment-unchecked",
     .area = ddp,
     .sentence = "The receiver does not check the MO of the last of several segments.",
     .trigger = "Send of two segments, MO of the second leaves a gap: no Terminate",
     .add_to =
         [](Decisions& d) {
           d.segments.judge_untagged.override_with(
               [](const auto& next, const Stream& stream, const DdpSegment& segment) {
                 DdpSegment changed = segment;
                 if (segment.qn < stream.ddp.queue_count && stream.ddp.queues[segment.qn].open && segment.last)
                   changed.mo = stream.ddp.queues[segment.qn].placed;
                 return next(stream, changed);
               });
         }},
    {.name = "split-receive-one-byte-short",
     .area = ddp,
     .sentence = "The last byte of a receive with two or more elements is not used.",
     .trigger = "Send that fills a receive with two elements: a Terminate",
     .add_to =
         [](Decisions& d) {
           d.segments.buffer.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
             machines::UntaggedBuffer buffer = next(stream, segment);
             const bool split = segment.qn == 0 && !stream.receives.empty() && stream.receives.front().sges.size() >= 2;
             if (split && buffer.bytes != 0) --buffer.bytes;
             return buffer;
           });
         }},
    {.name = "bytes-after-page-boundary-lost",
     .area = ddp,
     .sentence = "The last 1 to 3 bytes of a tagged segment are not stored if they are in another page.",
     .trigger = "RDMA Write segment that ends 1 to 3 bytes after a multiple of 4,096: bytes are missing",
     .add_to =
         [](Decisions& d) {
           d.responder.write.override_with([](const auto& next, Stream& stream, std::uint64_t address, Bytes bytes) {
             const std::uint64_t beyond = (address + bytes.size()) % device::Memory::page;
             const bool lost = beyond >= 1 && beyond <= 3 && beyond < bytes.size();
             next(stream, address, lost ? bytes.first(bytes.size() - beyond) : bytes);
           });
         }},
    {.name = "untagged-msn-of-8-bits",
     .area = ddp,
     .sentence = "The sender writes only the low 8 bits of the MSN.",
     .trigger = "256 or more sent Sends: the MSN wraps to 0",
     .add_to =
         [](Decisions& d) {
           d.transmit.header.override_with([](const auto& next, const Stream& stream, const DdpPiece& piece) {
             constexpr std::size_t msn_at = 10;  // in the header of an untagged segment
             std::vector<std::uint8_t> header = next(stream, piece);
             if (!sends_tagged(stream)) std::fill_n(header.begin() + msn_at, 3, std::uint8_t{0});
             return header;
           });
         }},
};

}  // namespace

std::span<const IwarpBlindFault> ddp_blind_faults() { return blind_ddp_rows; }

}  // namespace rdmawire::endpoint
