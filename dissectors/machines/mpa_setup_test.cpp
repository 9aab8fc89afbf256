#include "dissectors/machines/mpa_setup.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dissectors/protocol/testing.hpp"

namespace rdmawire::machines {
namespace {

using rdmawire::testing::from_hex;
using State = MpaSetupArrival::State;
using Kind = MpaReplyVerdict::Kind;

const std::string request_key = "4d504120494420526571204672616d65", reply_key = "4d504120494420526570204672616d65";

// Figures of RFC 5044, 7.1.1 and RFC 6581, 6 and 9.
TEST(MpaSetup, ReadsARequestOfRevision1) {
  const auto bytes = from_hex(request_key + "c0 01 0003 616263");
  const MpaSetupArrival arrival = read_setup(bytes, MpaRole::initiator);
  ASSERT_EQ(arrival.state, State::whole);
  EXPECT_EQ(arrival.bytes, 23U);
  EXPECT_EQ(arrival.private_at, 20U);
  EXPECT_EQ(arrival.frame, (MpaSetupFrame{.sender = MpaRole::initiator, .markers = true, .crc = true, .revision = 1}));
}

TEST(MpaSetup, ReadsAnEnhancedReply) {
  // R 0, S 1. A 1, B 0, IRD 5. C 1, D 1, ORD 0x3fff
  const auto bytes = from_hex(reply_key + "50 02 0004 8005 ffff");
  const MpaSetupArrival arrival = read_setup(bytes, MpaRole::responder);
  ASSERT_EQ(arrival.state, State::whole);
  EXPECT_EQ(arrival.private_at, 24U);
  EXPECT_TRUE(arrival.frame.enhanced);
  EXPECT_EQ(arrival.frame.data,
            (MpaEnhancedData{
                .peer_to_peer = true, .rtr = {.send = false, .write = true, .read = true}, .ird = 5, .ord = 0x3fff}));
}

TEST(MpaSetup, OtherFlagsAreIgnoredWithoutA) {
  const auto bytes = from_hex(request_key + "10 02 0004 4001 c002");
  const MpaSetupArrival arrival = read_setup(bytes, MpaRole::initiator);
  ASSERT_EQ(arrival.state, State::whole);
  EXPECT_EQ(arrival.frame.data, (MpaEnhancedData{.ird = 1, .ord = 2}));
}

TEST(MpaSetup, ParsesAFrameByteByByte) {
  const auto bytes = from_hex(request_key + "40 01 0002 6162");
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_EQ(read_setup(Bytes(bytes).first(n), MpaRole::initiator).state, State::more) << n;
  EXPECT_EQ(read_setup(bytes, MpaRole::initiator).state, State::whole);
}

TEST(MpaSetup, ImproperFramesAreDetectedEarly) {
  // A request in place of a reply. The tenth byte of the key is "q" and not "p".
  const auto request = from_hex(request_key);
  EXPECT_EQ(read_setup(Bytes(request).first(9), MpaRole::responder).state, State::more);
  EXPECT_EQ(read_setup(Bytes(request).first(10), MpaRole::responder).state, State::improper);
  EXPECT_EQ(read_setup(from_hex(request_key + "00 01 0200"), MpaRole::initiator).state, State::more);
  EXPECT_EQ(read_setup(from_hex(request_key + "00 01 0201"), MpaRole::initiator).state, State::improper);
  EXPECT_EQ(read_setup(from_hex(request_key + "10 02 0003 000000"), MpaRole::initiator).state, State::improper);
  // The bit of S is reserved in revision 1. It is ignored, like R and the other reserved bits.
  EXPECT_EQ(read_setup(from_hex(request_key + "3f 01 0003 000000"), MpaRole::initiator).state, State::whole);
  EXPECT_FALSE(read_setup(from_hex(request_key + "3f 01 0003 000000"), MpaRole::initiator).frame.reject);
}

TEST(MpaSetup, EnhancedDataUsesFourOfThePrivateBytes) {
  EXPECT_EQ(most_private_data(false), 512U);
  EXPECT_EQ(most_private_data(true), 508U);
}

constexpr MpaSettings plain{.revision = 1};
constexpr MpaSettings enhanced{.revision = 2, .ird = 4, .ord = 3};
constexpr MpaSettings peers{.revision = 2, .peer_to_peer = true, .ird = 4, .ord = 3};

MpaReplyVerdict between(const MpaSettings& initiator, const MpaSettings& responder) {
  const MpaSetupFrame request = request_of(initiator);
  return judge_reply(initiator, request, accept_request(responder, request).reply);
}

TEST(MpaSetup, RequestsRevision2OnlyForItsEnhancements) {
  EXPECT_EQ(request_of(plain).revision, 1);
  EXPECT_EQ(request_of(enhanced).revision, 2);
  MpaSettings without = enhanced;
  without.enhanced = false;
  EXPECT_EQ(request_of(without).revision, 1);
  EXPECT_FALSE(request_of(without).enhanced);
}

TEST(MpaSetup, ReplyMatchesTheRequestFormat) {
  const MpaSetupFrame old = accept_request(enhanced, request_of(plain)).reply;
  EXPECT_EQ(old.revision, 1);
  EXPECT_FALSE(old.enhanced);
  const MpaSetupFrame same = accept_request(enhanced, request_of(enhanced)).reply;
  EXPECT_EQ(same.revision, 2);
  EXPECT_TRUE(same.enhanced);
}

TEST(MpaSetup, RejectsRevisions) {
  MpaSetupFrame request{.sender = MpaRole::initiator, .revision = 3};
  EXPECT_EQ(judge_request(enhanced, request), MpaRequestVerdict::close);
  request.revision = 2;
  EXPECT_EQ(judge_request(plain, request), MpaRequestVerdict::close);
  EXPECT_EQ(judge_request(enhanced, request), MpaRequestVerdict::ask_consumer);
  EXPECT_EQ(judge_reply(plain, request_of(plain), {.sender = MpaRole::responder, .revision = 2}).kind, Kind::close);
}

// RFC 5044, C.2, figures 15 and 16.
TEST(MpaSetup, InteroperatesWithTheRdmaConsortium) {
  MpaSettings permissive{.revision = 1};
  permissive.rdmac = true;
  const MpaSetupFrame request{.sender = MpaRole::initiator, .markers = true, .crc = true, .revision = 0};
  EXPECT_EQ(judge_request(plain, request), MpaRequestVerdict::answer_and_close);
  EXPECT_EQ(accept_request(plain, request).reply.revision, 0);
  ASSERT_EQ(judge_request(permissive, request), MpaRequestVerdict::ask_consumer);
  const MpaAnswer answer = accept_request(permissive, request);
  EXPECT_EQ(answer.reply.revision, 0);
  EXPECT_TRUE(answer.reply.markers && answer.reply.crc);
  EXPECT_EQ(answer.agreement.version, 0);
  EXPECT_TRUE(answer.agreement.send_markers && answer.agreement.receive_markers && answer.agreement.crc);

  const MpaSetupFrame reply{.sender = MpaRole::responder, .markers = true, .crc = true, .revision = 0};
  EXPECT_EQ(judge_reply(plain, request_of(plain), reply).kind, Kind::close);
  const MpaReplyVerdict verdict = judge_reply(permissive, request_of(permissive), reply);
  ASSERT_EQ(verdict.kind, Kind::operate);
  EXPECT_EQ(verdict.agreement.version, 0);
  EXPECT_TRUE(verdict.agreement.send_markers && verdict.agreement.receive_markers && verdict.agreement.crc);
}

// RFC 5044, 7.1.1: M requests markers in the stream to the sender of the frame. If either side sets C, both directions
// have CRCs.
TEST(MpaSetup, NegotiatesMarkersPerDirectionAndCrcForBoth) {
  for (const bool markers_here : {false, true})
    for (const bool markers_there : {false, true})
      for (const bool crc_here : {false, true})
        for (const bool crc_there : {false, true}) {
          MpaSettings initiator = plain, responder = plain;
          initiator.markers = markers_here;
          responder.markers = markers_there;
          initiator.crc = crc_here;
          responder.crc = crc_there;
          const MpaAgreement there = accept_request(responder, request_of(initiator)).agreement;
          const MpaAgreement here = between(initiator, responder).agreement;
          EXPECT_EQ(here.send_markers, markers_there);
          EXPECT_EQ(here.receive_markers, markers_here);
          EXPECT_EQ(there.send_markers, markers_here);
          EXPECT_EQ(there.receive_markers, markers_there);
          EXPECT_EQ(here.crc, crc_here || crc_there);
          EXPECT_EQ(there.crc, crc_here || crc_there);
        }
}

// RFC 6581, 9.1.
TEST(MpaSetup, NegotiatesDepths) {
  MpaSettings initiator = enhanced, responder = enhanced;
  initiator.ird = 2;
  initiator.ord = 7;
  responder.ird = 4;
  responder.ord = 9;
  const MpaAnswer answer = accept_request(responder, request_of(initiator));
  EXPECT_EQ(answer.reply.data.ird, 7);  // the responder supports the requested depth
  EXPECT_EQ(answer.reply.data.ord, 2);
  EXPECT_EQ(answer.agreement.ird, 7);
  EXPECT_EQ(answer.agreement.ord, 2);
  const MpaAgreement here = between(initiator, responder).agreement;
  EXPECT_EQ(here.ird, 2);
  EXPECT_EQ(here.ord, 7);
  responder.most_ird = 5;
  EXPECT_EQ(between(initiator, responder).agreement.ord, 5);
}

TEST(MpaSetup, LeavesDepthsToTheUlp) {
  MpaSettings initiator = enhanced;
  initiator.ird = initiator.ord = 0x3fff;
  const MpaAnswer answer = accept_request(enhanced, request_of(initiator));
  EXPECT_EQ(answer.reply.data.ird, 0x3fff);
  EXPECT_EQ(answer.reply.data.ord, 0x3fff);
  EXPECT_EQ(answer.agreement.ird, 4);
  EXPECT_EQ(answer.agreement.ord, 3);
}

TEST(MpaSetup, TerminatesIfDepthIsInsufficient) {
  MpaSettings initiator = enhanced;
  initiator.most_ird = 8;
  MpaSetupFrame reply = accept_request(enhanced, request_of(initiator)).reply;
  reply.data.ord = 9;
  const MpaReplyVerdict verdict = judge_reply(initiator, request_of(initiator), reply);
  ASSERT_EQ(verdict.kind, Kind::terminate);
  EXPECT_EQ(verdict.error, (IwarpError{2, 0, 6}));
  reply.data.ord = 8;
  EXPECT_EQ(judge_reply(initiator, request_of(initiator), reply).agreement.ird, 8);
}

// RFC 6581, 9.2.
TEST(MpaSetup, SelectsTheReadyToReceiveIndication) {
  MpaSettings responder = enhanced;
  responder.rtr = {.send = true, .write = false, .read = true};
  const MpaSetupFrame reply = accept_request(responder, request_of(peers)).reply;
  EXPECT_TRUE(reply.data.peer_to_peer);
  EXPECT_EQ(reply.data.rtr, (RtrKinds{.send = true, .write = false, .read = true}));
  EXPECT_EQ(between(peers, responder).agreement.rtr, Rtr::read);
  responder.rtr = {.send = true};
  EXPECT_EQ(between(peers, responder).agreement.rtr, Rtr::send);
  EXPECT_EQ(between(peers, enhanced).agreement.rtr, Rtr::write);
  EXPECT_EQ(between(enhanced, enhanced).agreement.rtr, Rtr::none);
  EXPECT_EQ(accept_request(enhanced, request_of(enhanced)).reply.data.rtr, RtrKinds{});
}

TEST(MpaSetup, SendsItsOptionsWithoutCommonIndication) {
  MpaSettings initiator = peers, responder = enhanced;
  initiator.rtr = {.send = true};
  responder.rtr = {.read = true};
  EXPECT_EQ(accept_request(responder, request_of(initiator)).reply.data.rtr, RtrKinds{.read = true});
  const MpaReplyVerdict verdict = between(initiator, responder);
  ASSERT_EQ(verdict.kind, Kind::terminate);
  EXPECT_EQ(verdict.error, (IwarpError{2, 0, 7}));
}

TEST(MpaSetup, ReservesDepthForAnIndicationByRead) {
  MpaSettings initiator = peers, responder = enhanced;
  initiator.ord = 0;
  responder.ird = 0;
  EXPECT_EQ(accept_request(responder, request_of(initiator)).reply.data.ird, 1);
}

TEST(MpaSetup, RejectsInTheFormatOfTheRequest) {
  MpaSettings responder = enhanced;
  responder.ord = 6;
  MpaSettings initiator = enhanced;
  initiator.ird = 1;
  const MpaSetupFrame reply = reject_request(responder, request_of(initiator));
  EXPECT_TRUE(reply.reject && reply.enhanced);
  EXPECT_EQ(reply.data.ord, 6);  // ORD that the responder requires
  EXPECT_EQ(judge_reply(initiator, request_of(initiator), reply).kind, Kind::rejected);
  EXPECT_FALSE(reject_request(responder, request_of(plain)).enhanced);
}

TEST(MpaSetup, PlainReplyToEnhancedRequestIsInvalid) {
  EXPECT_EQ(judge_reply(enhanced, request_of(enhanced), {.sender = MpaRole::responder, .revision = 1}).kind,
            Kind::close);
}

// RFC 5044, 7.1.2 rules 2 to 4, 8, 10.
TEST(MpaSetup, PhasesAreOrdered) {
  using enum MpaPhase;
  using E = MpaSetupEvent;
  EXPECT_EQ(after(begins(MpaRole::responder), E::request), awaits_consumer);
  EXPECT_EQ(after(awaits_consumer, E::accepted), awaits_first_fpdu);
  EXPECT_TRUE(takes_fpdus(awaits_first_fpdu));
  EXPECT_FALSE(may_send_fpdus(awaits_first_fpdu));
  EXPECT_EQ(after(awaits_first_fpdu, E::first_fpdu), full_operation);
  EXPECT_TRUE(may_send_fpdus(full_operation));
  EXPECT_EQ(after(begins(MpaRole::initiator), E::reply), full_operation);
  EXPECT_EQ(after(awaits_reply, E::request), std::nullopt);
  EXPECT_EQ(after(awaits_request, E::ended), ended);
  EXPECT_TRUE(is_timed(awaits_request) && is_timed(awaits_reply));
  EXPECT_FALSE(is_timed(awaits_consumer) || is_timed(full_operation));
}

}  // namespace
}  // namespace rdmawire::machines
