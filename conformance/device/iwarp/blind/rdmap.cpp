/// Blind faults of RDMAP: requests, responses, Terminate messages and the end of a stream.

#include <algorithm>
#include <bit>

#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::DdpSegment;
using machines::IwarpError;
using machines::TerminateCause;

constexpr std::string_view rdmap = "RDMAP", terminate = "Terminate and close";
constexpr std::size_t quoted_length_at = Terminate::size;  ///< the DDP segment length in a Terminate

constexpr IwarpBlindFault blind_rdmap_rows[] = {
    {.name = "read-response-tail-lost",
     .area = rdmap,
     .sentence = "READs of several segments store only a multiple of four bytes.",
     .trigger = "READ whose response has two or more segments and an odd length: wrong bytes in memory",
     .add_to =
         [](Decisions& d) {
           d.requester.place_response.override_with(
               [](const auto& next, Stream& stream, const DdpSegment& segment, Bytes payload) {
                 if (!segment.last || stream.requested.front().sink.received == 0)
                   return next(stream, segment, payload);
                 DdpSegment shorter = segment;
                 shorter.bytes &= ~3U;
                 return next(stream, shorter, payload.first(shorter.bytes));
               });
         }},
    {.name = "second-of-three-reads-first",
     .area = rdmap,
     .sentence = "The responder answers the second of three or more waiting READs first.",
     .trigger = "three READ requests in one TCP segment: the order of the responses",
     .add_to =
         [](Decisions& d) {
           d.responder.next_answer.override_with([](const auto& next, const std::deque<Answer>& answers) {
             return answers.size() >= 3 ? std::size_t{1} : next(answers);
           });
         }},
    {.name = "ird-rounded-up",
     .area = rdmap,
     .sentence = "The responder accepts as many READs as the next power of two of its IRD.",
     .trigger = "IRD 3, 5, 6 or 7 and one READ more at once: no Terminate",
     .add_to =
         [](Decisions& d) {
           d.segments.buffer.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
             machines::UntaggedBuffer buffer = next(stream, segment);
             if (segment.qn == 1 && stream.depth.serving < std::bit_ceil(stream.depth.ird) && !buffer.available)
               buffer = {true, stream.rnic.options().extensions ? RdmapAtomicRequest::size : RdmapReadRequest::size};
             return buffer;
           });
         }},
    {.name = "ord-rounded-up",
     .area = rdmap,
     .sentence = "The requester rounds its ORD up to a power of two.",
     .trigger = "ORD 3, 5, 6 or 7 and more READs: too many outstanding READs",
     .add_to =
         [](Decisions& d) {
           d.requester.may_begin.override_with(
               [](const auto& next, machines::ReadDepth depth, bool counts, bool fenced) {
                 if (depth.ord != 0) depth.ord = std::bit_ceil(depth.ord);
                 return next(depth, counts, fenced);
               });
         }},
    {.name = "invalidate-lost-with-last-receive",
     .area = rdmap,
     .sentence = "A Send with Invalidate that uses the last posted receive invalidates nothing.",
     .trigger = "Send with Invalidate with one posted receive, then an access through the STag: no Terminate",
     .add_to =
         [](Decisions& d) {
           d.responder.invalidate.override_with([](const auto& next, Stream& stream, std::uint32_t stag) {
             return stream.receives.size() == 1 || next(stream, stag);
           });
         }},
    {.name = "immediate-data-not-solicited",
     .area = rdmap,
     .sentence = "Immediate Data with Solicited Event causes no solicited event.",
     .trigger = "Immediate Data with SE, CQ armed for solicited events: no notification",
     .add_to =
         [](Decisions& d) {
           d.responder.is_solicited.override_with([](const auto& next, RdmapOperation operation) {
             return operation != RdmapOperation::immediate_data_se && next(operation);
           });
         }},
    {.name = "fetch-add-ignores-mask-bit-31",
     .area = rdmap,
     .sentence = "FetchAdd ignores the mask bit between the two halves.",
     .trigger = "FetchAdd with mask bit 31 and a carry out of bit 31: the value in memory",
     .add_to =
         [](Decisions& d) {
           d.responder.operate.override_with([](const auto& next, Bytes header, std::uint64_t original) {
             const View<RdmapAtomicRequest> request(header.data());
             const std::uint64_t mask = request.get<"add_swap_mask">();
             if (request.get<"operation">() != machines::atomic_fetch_add) return next(header, original);
             return machines::fetch_add(original, request.get<"add_swap_data">(), mask & ~(1ULL << 31));
           });
         }},
};

constexpr IwarpBlindFault blind_terminate_rows[] = {
    {.name = "terminate-quotes-short-untagged-header",
     .area = terminate,
     .sentence = "A Terminate quotes only 14 of the 18 header bytes of an untagged segment.",
     .trigger = "error of an untagged segment: the length of the Terminate",
     .add_to =
         [](Decisions& d) {
           d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
             std::vector<std::uint8_t> message = next(error, cause);
             const auto segment = machines::read_segment(cause.segment);
             const std::size_t end = quoted_length_at + DdpSegmentLength::size + machines::ddp_header_bytes(false);
             if (segment && !segment->tagged && message.size() == end) message.resize(end - 4);
             return message;
           });
         }},
    {.name = "terminate-length-without-header",
     .area = terminate,
     .sentence = "The segment length in a Terminate for a tagged segment does not include the DDP header.",
     .trigger = "error of a tagged segment: the DDP segment length",
     .add_to =
         [](Decisions& d) {
           d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
             std::vector<std::uint8_t> message = next(error, cause);
             const auto segment = machines::read_segment(cause.segment);
             if (segment && segment->tagged && message.size() > quoted_length_at + DdpSegmentLength::size)
               store_be(message.data() + quoted_length_at, DdpSegmentLength::size, segment->bytes);
             return message;
           });
         }},
    {.name = "terminate-quotes-whole-read",
     .area = terminate,
     .sentence = "A Terminate quotes a partially answered READ request with its first offsets.",
     .trigger = "source of a READ that becomes invalid after the first response segment: the quoted request",
     .add_to =
         [](Decisions& d) {
           d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
             TerminateCause whole = cause;
             whole.answered = 0;
             return next(error, whole);
           });
         }},
    {.name = "terminate-fails-only-single-read",
     .area = terminate,
     .sentence = "A Terminate for a READ flushes the READ if more than one is outstanding.",
     .trigger = "two READs, Terminate with a protection error: the status of the first completion",
     .add_to =
         [](Decisions& d) {
           d.terminate.fail_quoted_read.override_with([](const auto& next, Stream& stream, IwarpError error) {
             if (stream.requested.size() == 1) next(stream, error);
           });
         }},
    {.name = "fin-drops-pending-responses",
     .area = terminate,
     .sentence = "The peer's FIN discards READ requests that wait for their response.",
     .trigger = "READ request and FIN in one TCP segment: no response",
     .add_to =
         [](Decisions& d) {
           d.states.end_by_fin.override_with([](const auto& next, Stream& stream) {
             stream.depth.serving -=
                 static_cast<std::uint32_t>(std::min<std::size_t>(stream.answers.size(), stream.depth.serving));
             stream.answers.clear();
             next(stream);
           });
         }},
};

}  // namespace

std::span<const IwarpBlindFault> rdmap_blind_faults() {
  static const std::vector<IwarpBlindFault> rows = [] {
    std::vector<IwarpBlindFault> all(std::begin(blind_rdmap_rows), std::end(blind_rdmap_rows));
    all.insert(all.end(), std::begin(blind_terminate_rows), std::end(blind_terminate_rows));
    return all;
  }();
  return rows;
}

}  // namespace rdmawire::endpoint
