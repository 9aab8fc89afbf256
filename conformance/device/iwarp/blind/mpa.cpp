/// Blind faults of the MPA negotiation and of FPDUs.

#include <bit>

#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::FpduArrival;

constexpr std::string_view mpa_area = "MPA";

void replace_crc(std::vector<std::uint8_t>& fpdu, std::size_t covered) {
  store_be(fpdu.data() + fpdu.size() - mpa::crc_bytes, mpa::crc_bytes, compute_mpa_crc(Bytes(fpdu).first(covered)));
}

FpduArrival invalid(FpduArrival arrival, machines::IwarpError error) {
  arrival.state = FpduArrival::State::invalid;
  arrival.error = error;
  return arrival;
}

constexpr IwarpBlindFault blind_fpdu_rows[] = {
    {.name = "second-marker-points-to-first",
     .area = mpa_area,
     .sentence = "The FPDUPTR of the second and later markers in an FPDU is always 512.",
     .trigger = "markers, sent FPDU with three or more markers: the FPDUPTR",
     .add_to =
         [](Decisions& d) {
           d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
             const std::uint64_t position = stream.sender->position();
             std::vector<std::uint8_t> fpdu = next(stream, ulpdu);
             if (!stream.agreement.send_markers || fpdu.empty()) return fpdu;
             for (std::size_t at = MarkerGrid::to_next(position) + std::size_t{mpa::marker_interval}; at < fpdu.size();
                  at += mpa::marker_interval)
               store_be(fpdu.data() + at + 2, 2, mpa::marker_interval);
             if (stream.agreement.crc) replace_crc(fpdu, fpdu.size() - mpa::crc_bytes);
             return fpdu;
           });
         }},
    {.name = "marker-before-fpdu-rejected",
     .area = mpa_area,
     .sentence = "The receiver rejects an FPDU that a marker precedes, except the first one.",
     .trigger = "markers, received FPDU at a multiple of 512 of the stream: a Terminate",
     .add_to =
         [](Decisions& d) {
           d.fpdus.judge.override_with(
               [](const auto& next, Bytes bytes, std::uint64_t position, machines::FpduModes modes) {
                 const FpduArrival arrival = next(bytes, position, modes);
                 const bool preceded = modes.markers && position != 0 && MarkerGrid::inside(position);
                 return arrival.state == FpduArrival::State::whole && preceded
                            ? invalid(arrival, machines::iwarp_error::marker)
                            : arrival;
               });
         }},
    {.name = "crc-omits-three-pad-bytes",
     .area = mpa_area,
     .sentence = "The CRC of a sent FPDU does not cover the padding if it has three bytes.",
     .trigger = "CRC, sent FPDU with three bytes of padding: the CRC is wrong",
     .add_to =
         [](Decisions& d) {
           d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
             std::vector<std::uint8_t> fpdu = next(stream, ulpdu);
             if (stream.agreement.crc && !stream.agreement.send_markers &&
                 fpdu.size() == Fpdu::size + ulpdu.size() + 3 + mpa::crc_bytes)
               replace_crc(fpdu, Fpdu::size + ulpdu.size());
             return fpdu;
           });
         }},
    {.name = "crc-unchecked-without-payload",
     .area = mpa_area,
     .sentence = "The receiver does not check the CRC of an FPDU that contains only a DDP header.",
     .trigger = "received empty message with a wrong CRC: it is delivered",
     .add_to =
         [](Decisions& d) {
           d.fpdus.judge.override_with(
               [](const auto& next, Bytes bytes, std::uint64_t position, machines::FpduModes modes) {
                 const FpduArrival arrival = next(bytes, position, modes);
                 if (arrival.state != FpduArrival::State::invalid || arrival.ulpdu_length > 18) return arrival;
                 modes.crc = false;
                 return next(bytes, position, modes);
               });
         }},
    {.name = "ulpdu-above-16-kib-rejected",
     .area = mpa_area,
     .sentence = "The receiver rejects FPDUs with more than 16,384 bytes.",
     .trigger = "received FPDU with 16,385 to 64,768 bytes: a Terminate",
     .add_to =
         [](Decisions& d) {
           d.fpdus.judge.override_with(
               [](const auto& next, Bytes bytes, std::uint64_t position, machines::FpduModes modes) {
                 const FpduArrival arrival = next(bytes, position, modes);
                 return arrival.state == FpduArrival::State::whole && arrival.ulpdu_length > 16'384
                            ? invalid(arrival, machines::iwarp_error::ddp_local_catastrophic)
                            : arrival;
               });
         }},
};

constexpr IwarpBlindFault blind_setup_rows[] = {
    {.name = "private-data-cut-to-words",
     .area = mpa_area,
     .sentence = "The application receives private data only up to a multiple of four bytes.",
     .trigger = "received private data with a length that is not a multiple of four: its length",
     .add_to =
         [](Decisions& d) {
           d.setup.private_data.override_with([](const auto& next, Bytes received) {
             return next(received.first(received.size() & ~std::size_t{3}));
           });
         }},
    {.name = "reply-ord-rounded-up",
     .area = mpa_area,
     .sentence = "The responder rounds the ORD of its reply up to a power of two.",
     .trigger = "request with IRD 3, 5, 6 or 7 and a larger ORD of the responder: the ORD of the reply",
     .add_to =
         [](Decisions& d) {
           d.setup.accept_request.override_with(
               [](const auto& next, const machines::MpaSettings& own, const machines::MpaSetupFrame& request) {
                 machines::MpaAnswer answer = next(own, request);
                 machines::MpaEnhancedData& data = answer.reply.data;
                 if (answer.reply.enhanced && data.ord != mpa::no_negotiation) data.ord = std::bit_ceil(data.ord);
                 return answer;
               });
         }},
    {.name = "rtr-write-instead-of-read",
     .area = mpa_area,
     .sentence = "The initiator sends an RDMA Write as RTR indication although the reply permits only an RDMA Read.",
     .trigger = "peer-to-peer model, reply that offers only the RTR by RDMA Read: the first FPDU",
     .add_to =
         [](Decisions& d) {
           d.setup.judge_reply.override_with([](const auto& next, const machines::MpaSettings& own,
                                                const machines::MpaSetupFrame& request,
                                                const machines::MpaSetupFrame& reply) {
             machines::MpaReplyVerdict verdict = next(own, request, reply);
             if (verdict.agreement.rtr == machines::Rtr::read) verdict.agreement.rtr = machines::Rtr::write;
             return verdict;
           });
         }},
    {.name = "setup-split-after-key-refused",
     .area = mpa_area,
     .sentence = "A setup frame whose first TCP segment ends inside the four bytes after the key is improper.",
     .trigger = "MPA Request in two segments, split after byte 16, 17, 18 or 19: the connection is closed",
     .add_to =
         [](Decisions& d) {
           d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
             machines::MpaSetupArrival arrival = next(stream, bytes);
             if (bytes.size() >= mpa::request_key.size() && bytes.size() < MpaFrame::size)
               arrival.state = machines::MpaSetupArrival::State::improper;
             return arrival;
           });
         }},
};

}  // namespace

std::span<const IwarpBlindFault> mpa_blind_faults() {
  static const std::vector<IwarpBlindFault> rows = [] {
    std::vector<IwarpBlindFault> all(std::begin(blind_fpdu_rows), std::end(blind_fpdu_rows));
    all.insert(all.end(), std::begin(blind_setup_rows), std::end(blind_setup_rows));
    return all;
  }();
  return rows;
}

}  // namespace rdmawire::endpoint
