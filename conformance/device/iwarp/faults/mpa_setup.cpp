/// Faults of the MPA negotiation.

#include <algorithm>

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::MpaAnswer;
using machines::MpaRequestVerdict;
using machines::MpaRole;
using machines::MpaSettings;
using machines::MpaSetupArrival;
using machines::MpaSetupFrame;
using Reaction = machines::MpaReplyVerdict::Kind;

// Offsets and flags in an MPA frame.
constexpr std::size_t flags_at = 16, revision_at = 17, length_at = 18;
constexpr std::uint8_t reject_flag = 0x20, enhanced_flag = 0x10, reserved_flags = 0x0f;

std::uint16_t private_length(Bytes frame) { return static_cast<std::uint16_t>(load_be<2>(frame.data() + length_at)); }
void limit_private_length(std::vector<std::uint8_t>& frame, std::size_t most) {
  store_be(frame.data() + length_at, 2, std::min<std::size_t>(private_length(frame), most));
}

void write_expected_key(const Stream& stream, std::vector<std::uint8_t>& frame) {
  std::ranges::copy(stream.role == MpaRole::initiator ? mpa::reply_key : mpa::request_key, frame.begin());
}

/// True if the fixed fields of the frame have arrived.
bool is_readable(Bytes frame) { return frame.size() >= MpaFrame::size; }

/// Return the peer's frame. `change` is applied to it once its fixed fields have arrived.
template <class Change>
std::vector<std::uint8_t> changed(Bytes bytes, const Change& change) {
  std::vector<std::uint8_t> frame(bytes.begin(), bytes.end());
  if (is_readable(frame)) change(frame);
  return frame;
}

constexpr MpaSetupArrival improper{.state = MpaSetupArrival::State::improper};

/// Treat a request that is followed by bytes like one without.
MpaRequestVerdict ignore_more(const decltype(SetupDecisions::judge_request)::Next& next, const MpaSettings& own,
                              const MpaSetupFrame& request, bool /*more_follows*/) {
  return next(own, request, false);
}

using JudgeReply = decltype(SetupDecisions::judge_reply)::Next;

/// Accept a reply that requires a Terminate because of the IRD, or otherwise because of the RTR indication.
template <bool because_of_ird>
machines::MpaReplyVerdict continue_anyway(const JudgeReply& next, const MpaSettings& own, const MpaSetupFrame& request,
                                          const MpaSetupFrame& reply) {
  machines::MpaReplyVerdict verdict = next(own, request, reply);
  if (verdict.kind == Reaction::terminate &&
      (verdict.error == machines::iwarp_error::insufficient_ird) == because_of_ird)
    verdict.kind = Reaction::operate;
  return verdict;
}

constexpr FaultOverride setup_rows[] = {
    // Frames
    {Fault::sends_reserved_setup_bits,
     [](Decisions& d) {
       d.setup.encode.override_with([](const auto& next, const MpaSetupFrame& frame, Bytes private_data) {
         std::vector<std::uint8_t> bytes = next(frame, private_data);
         bytes[flags_at] |= 5;
         return bytes;
       });
     }},
    {Fault::replies_with_request_key,
     [](Decisions& d) {
       d.setup.encode.override_with([](const auto& next, const MpaSetupFrame& frame, Bytes private_data) {
         std::vector<std::uint8_t> bytes = next(frame, private_data);
         std::ranges::copy(mpa::request_key, bytes.begin());
         return bytes;
       });
     }},
    {Fault::accepts_any_key,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream,
                     changed(bytes, [&](std::vector<std::uint8_t>& frame) { write_expected_key(stream, frame); }));
       });
     }},
    {Fault::takes_request_as_reply,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       if (MpaFrame::is_request(frame.data())) write_expected_key(stream, frame);
                     }));
       });
     }},
    {Fault::waits_forever_for_request,
     [](Decisions& d) {
       d.setup.request_deadline.override_with([](const auto& /*next*/, const Stream& /*stream*/) { return never; });
     }},
    {Fault::needs_setup_in_one_piece,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         MpaSetupArrival arrival = next(stream, bytes);
         if (arrival.state == MpaSetupArrival::State::more) arrival.state = MpaSetupArrival::State::improper;
         return arrival;
       });
     }},
    {Fault::waits_forever_for_frame_end,
     [](Decisions& d) {
       d.setup.rest_deadline.override_with([](const auto& /*next*/, const Stream& /*stream*/) { return never; });
     }},
    {Fault::minds_reserved_setup_bits,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes frame) {
         return is_readable(frame) && (frame[flags_at] & reserved_flags) != 0 ? improper : next(stream, frame);
       });
     }},
    {Fault::minds_reject_bit_of_request,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes frame) {
         return is_readable(frame) && MpaFrame::is_request(frame.data()) && (frame[flags_at] & reject_flag) != 0
                    ? improper
                    : next(stream, frame);
       });
     }},
    // Private data
    {Fault::half_the_private_data,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes frame) {
         return is_readable(frame) && private_length(frame) > mpa::max_private_data / 2 ? improper
                                                                                        : next(stream, frame);
       });
     }},
    {Fault::accepts_long_private_data,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       limit_private_length(frame, mpa::max_private_data);
                     }));
       });
       d.setup.judge_request.override_with(ignore_more);
     }},
    {Fault::does_not_wait_for_private_data,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       limit_private_length(frame, frame.size() - MpaFrame::size);
                     }));
       });
       d.setup.judge_request.override_with(ignore_more);
     }},
    {Fault::miscounts_private_data,
     [](Decisions& d) {
       d.setup.private_data.override_with([](const auto& next, Bytes received) {
         std::vector<std::uint8_t> passed = next(received);
         passed.resize(passed.empty() ? 1 : passed.size() - 1);
         return passed;
       });
     }},
    // Revisions
    {Fault::refuses_revision_1,
     [](Decisions& d) {
       d.setup.judge_request.override_with(
           [](const auto& next, const MpaSettings& own, const MpaSetupFrame& request, bool more_follows) {
             return request.revision == 1 ? MpaRequestVerdict::close : next(own, request, more_follows);
           });
     }},
    {Fault::accepts_any_revision,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       frame[revision_at] = std::min(frame[revision_at], stream.options.mpa.revision);
                     }));
       });
       d.setup.judge_reply.override_with(
           [](const auto& next, const MpaSettings& own, const MpaSetupFrame& request, const MpaSetupFrame& reply) {
             machines::MpaReplyVerdict verdict = next(own, request, reply);
             if (verdict.kind == Reaction::close) verdict.kind = Reaction::operate;
             return verdict;
           });
     }},
    {Fault::takes_revision_0_for_1,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       if (frame[revision_at] == 0) frame[revision_at] = 1;
                     }));
       });
     }},
    // Rejection
    {Fault::rejects_by_closing,
     [](Decisions& d) {
       d.setup.reject_request.override_with(
           [](const auto& /*next*/, const MpaSettings& /*own*/,
              const MpaSetupFrame& /*request*/) -> std::optional<MpaSetupFrame> { return std::nullopt; });
     }},
    {Fault::operates_when_rejected,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       frame[flags_at] &= static_cast<std::uint8_t>(~reject_flag);
                     }));
       });
     }},
    // CRCs and markers
    {Fault::ignores_peers_crc_wish,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         answer.agreement.crc = own.crc;
         return answer;
       });
       d.setup.judge_reply.override_with(
           [](const auto& next, const MpaSettings& own, const MpaSetupFrame& request, const MpaSetupFrame& reply) {
             machines::MpaReplyVerdict verdict = next(own, request, reply);
             if (verdict.kind == Reaction::operate) verdict.agreement.crc = own.crc;
             return verdict;
           });
     }},
    {Fault::asks_for_no_crc,
     [](Decisions& d) {
       d.setup.settings.override_with([](const auto& next, const MpaSettings& configured) {
         MpaSettings settings = next(configured);
         settings.crc = false;
         return settings;
       });
     }},
    {Fault::refuses_markers,
     [](Decisions& d) {
       d.setup.asks_application.override_with(
           [](const auto& next, const MpaSetupFrame& request) { return !request.markers && next(request); });
     }},
    {Fault::markers_both_ways,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         machines::MpaAgreement& agreed = answer.agreement;
         agreed.send_markers = agreed.receive_markers = agreed.send_markers || answer.reply.markers;
         return answer;
       });
       d.setup.judge_reply.override_with(
           [](const auto& next, const MpaSettings& own, const MpaSetupFrame& request, const MpaSetupFrame& reply) {
             machines::MpaReplyVerdict verdict = next(own, request, reply);
             machines::MpaAgreement& agreed = verdict.agreement;
             if (verdict.kind == Reaction::operate)
               agreed.send_markers = agreed.receive_markers = agreed.send_markers || agreed.receive_markers;
             return verdict;
           });
     }},
    {Fault::loses_what_follows_setup,
     [](Decisions& d) {
       d.setup.bytes_after_reply.override_with(
           [](const auto& /*next*/, std::vector<std::uint8_t> /*following*/) { return std::vector<std::uint8_t>(); });
     }},
    // Enhanced connection establishment
    {Fault::replies_unenhanced,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         answer.reply.enhanced = false;
         return answer;
       });
     }},
    {Fault::replies_enhanced_unasked,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         MpaSetupFrame& reply = answer.reply;
         if (reply.enhanced) return answer;
         reply.enhanced = true;
         reply.revision = 2;
         reply.data = {.ird = answer.agreement.ird, .ord = answer.agreement.ord};
         return answer;
       });
     }},
    {Fault::accepts_short_enhanced_data,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       if (private_length(frame) < MpaEnhanced::size)
                         frame[flags_at] &= static_cast<std::uint8_t>(~enhanced_flag);
                     }));
       });
     }},
    {Fault::takes_enhanced_for_plain,
     [](Decisions& d) {
       d.setup.read.override_with([](const auto& next, const Stream& stream, Bytes bytes) {
         return next(stream, changed(bytes, [&](std::vector<std::uint8_t>& frame) {
                       if (stream.options.mpa.revision >= 2) return;
                       frame[flags_at] &= static_cast<std::uint8_t>(~enhanced_flag);
                       frame[revision_at] = 1;
                     }));
       });
     }},
    {Fault::ord_above_ird,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         if (answer.reply.enhanced) answer.reply.data.ord = answer.agreement.ord = own.ord;
         return answer;
       });
     }},
    {Fault::replies_lower_ord,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         if (!answer.reply.enhanced) return answer;
         if (answer.reply.data.ord != 0) --answer.reply.data.ord;
         if (answer.reply.data.ird != 0) --answer.reply.data.ird;
         return answer;
       });
     }},
    {Fault::negotiates_all_ones,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaSetupFrame taken = request;
         if (taken.data.ird == mpa::no_negotiation) --taken.data.ird;
         if (taken.data.ord == mpa::no_negotiation) --taken.data.ord;
         return next(own, taken);
       });
     }},
    {Fault::ignores_missing_ird, [](Decisions& d) { d.setup.judge_reply.override_with(continue_anyway<true>); }},
    {Fault::replies_without_rtr,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         answer.reply.data.rtr = {};
         return answer;
       });
     }},
    {Fault::replies_rtr_unasked,
     [](Decisions& d) {
       d.setup.accept_request.override_with([](const auto& next, const MpaSettings& own, const MpaSetupFrame& request) {
         MpaAnswer answer = next(own, request);
         answer.reply.data.rtr = own.rtr;
         return answer;
       });
     }},
    {Fault::sends_no_rtr,
     [](Decisions& d) {
       d.setup.sends_rtr.override_with(
           [](const auto& /*next*/, const machines::MpaAgreement& /*agreement*/) { return false; });
     }},
    {Fault::ignores_missing_rtr, [](Decisions& d) { d.setup.judge_reply.override_with(continue_anyway<false>); }},
};

}  // namespace

std::span<const FaultOverride> setup_overrides() { return setup_rows; }

}  // namespace rdmawire::endpoint
