#include "dissectors/tracking/iwarp_tracker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/tracking/iwarp_stream_for_test.hpp"

namespace rdmawire::tracking {
namespace {

using namespace iwarp_test;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(IwarpTracker, OpensAndCloses) {
  Talk talk;
  talk.open();
  talk.say(Side::a, Talk::mpa(true));
  talk.wait(5'000'000);
  talk.say(Side::b, Talk::mpa(false));
  talk.say(Side::a, send(1, 100));
  talk.ack(Side::b);
  talk.raw(Side::a, talk.next[0]++, {}, {.fin = true});
  talk.raw(Side::b, talk.next[1]++, {}, {.fin = true});
  talk.ack(Side::a);
  const Recording& recorded = talk.finish();
  ASSERT_THAT(recorded.connections, SizeIs(1));
  const Connection& c = recorded.connections[0];
  EXPECT_EQ(c.id, 4U);
  EXPECT_EQ(c.opened_frame, 5U);
  EXPECT_EQ(c.open_duration, 5'001'000);
  EXPECT_EQ(c.closed_frame, 8U);
  EXPECT_EQ(c.service_port, 4210);
  EXPECT_EQ(c.at(Side::a).qp, 40000U);
  EXPECT_EQ(c.at(Side::a).address, PortAddress::of_ipv4(0x0a000003));
  EXPECT_EQ(c.wire, Wire::iwarp);
  EXPECT_THAT(recorded.trouble(), IsEmpty());
  const auto opened = recorded.of(EventKind::opened);
  ASSERT_THAT(opened, SizeIs(1));
  EXPECT_EQ(opened[0].origin_frame, 4U);
  EXPECT_EQ(opened[0].end, Side::a);
  EXPECT_THAT(recorded.of(EventKind::closed), SizeIs(1));
  ASSERT_THAT(recorded.messages, SizeIs(1));
  EXPECT_EQ(recorded.messages[0].outcome, Outcome::completed);
  EXPECT_EQ(recorded.messages[0].answer_frame, 7U);
  EXPECT_EQ(recorded.farewells, std::vector{CloseReason::ended});
}

TEST(IwarpTracker, RejectedConnection) {
  Talk talk;
  talk.open();
  talk.say(Side::a, Talk::mpa(true));
  talk.say(Side::b, Talk::mpa(false, true));
  const auto rejected = talk.finish().of(EventKind::rejected);
  ASSERT_THAT(rejected, SizeIs(1));
  EXPECT_EQ(rejected[0].frame, 5U);
  EXPECT_EQ(rejected[0].origin_frame, 4U);
  EXPECT_EQ(rejected[0].bytes, 3U);
  EXPECT_EQ(rejected[0].value, 1U);
  EXPECT_EQ(rejected[0].end, Side::a);
  EXPECT_THAT(talk.recorded.of(EventKind::opened), IsEmpty());
}

TEST(IwarpTracker, SendVariants) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 0));
  talk.say(Side::a, join({send(2, 1000, 0, false), send(2, 500, 1000)}));
  talk.say(Side::a, send(3, 8, 0, true, RdmapOperation::send_se));
  talk.say(Side::a, send(4, 8, 0, true, RdmapOperation::send_invalidate, 0x1234));
  talk.say(Side::a, send(5, 8, 0, true, RdmapOperation::send_se_invalidate, 0x5678));
  talk.say(Side::a, fpdu(control(RdmapOperation::immediate_data) / Value<DdpUntagged>().set<"msn">(6) /
                         Value<RdmapImmediateData>().set<"data">(0x1122334455667788)));
  const auto& m = talk.finish().messages;
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
  ASSERT_THAT(m, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(m[i].number, i + 1);
    EXPECT_EQ(m[i].first_psn, i + 1);
    EXPECT_EQ(m[i].kind, MessageKind::send);
    EXPECT_EQ(m[i].outcome, Outcome::sent) << "nobody acknowledged";
  }
  EXPECT_EQ(m[1].size, 1500U);
  EXPECT_EQ(m[1].packets, 2U);
  EXPECT_TRUE(m[2].solicited);
  EXPECT_FALSE(m[2].has_invalidate);
  EXPECT_TRUE(m[3].has_invalidate);
  EXPECT_EQ(m[3].invalidated_key, 0x1234U);
  EXPECT_TRUE(m[4].solicited);
  EXPECT_EQ(m[4].invalidated_key, 0x5678U);
  EXPECT_TRUE(m[5].has_immediate);
  EXPECT_EQ(m[5].immediate, 0x1122334455667788U);
  EXPECT_EQ(m[5].size, 0U);
}

TEST(IwarpTracker, MessageOfManyPacketsAndFpduAcrossPackets) {
  Talk talk;
  talk.establish();
  const ByteVector all = join({write(9, 0x1000, 1000, false), write(9, 0x13e8, 1000, false), write(9, 0x17d0, 24)});
  const Bytes bytes(all);
  const std::uint64_t first = talk.say(Side::a, bytes.first(500));
  talk.say(Side::a, bytes.subspan(500, 1200));
  const std::uint64_t last = talk.say(Side::a, bytes.subspan(1700));
  const std::uint64_t ack = talk.ack(Side::b);
  const auto& m = talk.finish().messages;
  ASSERT_THAT(m, SizeIs(1));
  EXPECT_EQ(m[0].kind, MessageKind::write);
  EXPECT_EQ(m[0].size, 2024U);
  EXPECT_EQ(m[0].key, 9U);
  EXPECT_EQ(m[0].remote_address, 0x1000U);
  EXPECT_EQ(m[0].first_frame, first);
  EXPECT_EQ(m[0].last_frame, last);
  EXPECT_EQ(m[0].answer_frame, ack);
  EXPECT_EQ(m[0].packets, 3U);
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
}

TEST(IwarpTracker, ReadResponsesMatchRequestOrder) {
  Talk talk;
  talk.establish();
  // All READs use the same buffer, so that only the order distinguishes their responses.
  const std::uint64_t asked =
      talk.say(Side::a, join({read(1, 5, 0x100, 200), read(2, 5, 0x100, 50), read(3, 6, 0, 0)}));
  const std::uint64_t begins = talk.say(Side::b, response(5, 0x100, 120, false));
  const std::uint64_t ends = talk.say(Side::b, response(5, 0x100 + 120, 80));
  const std::uint64_t rest = talk.say(Side::b, join({response(5, 0x100, 50), response(0, 0, 0)}));
  const auto& m = talk.finish().messages;
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
  ASSERT_THAT(m, SizeIs(3));
  EXPECT_EQ(m[0].kind, MessageKind::read);
  EXPECT_EQ(m[0].outcome, Outcome::completed);
  EXPECT_EQ(m[0].size, 200U);
  EXPECT_EQ(m[0].key, 0x77U);
  EXPECT_EQ(m[0].remote_address, 0x7000U);
  EXPECT_EQ(m[0].first_frame, asked);
  EXPECT_EQ(m[0].first_response_frame, begins);
  EXPECT_EQ(m[0].answer_frame, ends);
  EXPECT_EQ(m[1].answer_frame, rest);
  EXPECT_EQ(m[2].answer_frame, rest);
  EXPECT_EQ(talk.recorded.connections[0].by(Side::a).messages_completed, 3U);
  EXPECT_EQ(talk.recorded.connections[0].by(Side::b).payload_bytes, 250U);
}

TEST(IwarpTracker, UnsolicitedResponse) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, read(1, 5, 0x100, 50));
  const std::uint64_t frame = talk.say(Side::b, response(7, 0x100, 50));
  const auto events = talk.finish().of(EventKind::unsolicited_response);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].end, Side::a);
  EXPECT_EQ(events[0].value, 7U);
}

TEST(IwarpTracker, ReadsWithoutResponse) {
  Talk talk;
  talk.establish();
  const std::uint64_t asked = talk.say(Side::a, join({read(1, 5, 0x100, 50), read(2, 5, 0x200, 60)}));
  talk.wait(400'000'000);
  talk.ack(Side::b);
  const auto events = talk.finish().of(EventKind::unanswered);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, asked);
  EXPECT_EQ(events[0].packets, 2U);
  EXPECT_EQ(events[0].bytes, 110U);
  const auto stalls = talk.recorded.of(EventKind::stall);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].cause, Cause::peer);
  EXPECT_EQ(stalls[0].end, Side::a);
  EXPECT_EQ(stalls[0].duration, 400'001'000);
  EXPECT_EQ(talk.recorded.messages[0].outcome, Outcome::unanswered);
}

TEST(IwarpTracker, AtomicsMatchByRequestIdentifier) {
  Talk talk;
  talk.establish();
  const auto request = [](std::uint32_t msn, unsigned operation, std::uint32_t id) {
    return fpdu(control(RdmapOperation::atomic_request) / Value<DdpUntagged>().set<"qn">(1).set<"msn">(msn) /
                Value<RdmapAtomicRequest>()
                    .set<"operation">(operation)
                    .set<"request_id">(id)
                    .set<"stag">(0x99)
                    .set<"to">(0x8000)
                    .set<"add_swap_data">(7)
                    .set<"compare_data">(3));
  };
  const auto answer = [](std::uint32_t msn, std::uint32_t id, std::uint64_t original) {
    return fpdu(control(RdmapOperation::atomic_response) / Value<DdpUntagged>().set<"qn">(3).set<"msn">(msn) /
                Value<RdmapAtomicResponse>().set<"request_id">(id).set<"original">(original));
  };
  talk.say(Side::a, join({request(1, 0, 0xa), request(2, 2, 0xb), request(3, 1, 0xc)}));
  const std::uint64_t first = talk.say(Side::b, answer(1, 0xb, 1000));
  talk.say(Side::b, join({answer(2, 0xa, 2000), answer(3, 0xc, 3000), answer(4, 0xd, 4000)}));
  const auto& m = talk.finish().messages;
  ASSERT_THAT(m, SizeIs(3));
  EXPECT_EQ(m[0].kind, MessageKind::compare_swap);
  EXPECT_EQ(m[0].atomic_original, 1000U);
  EXPECT_EQ(m[0].atomic_compare, 3U);
  EXPECT_EQ(m[0].answer_frame, first);
  EXPECT_EQ(m[0].size, 8U);
  EXPECT_EQ(m[1].kind, MessageKind::fetch_add);
  EXPECT_EQ(m[1].atomic_operand, 7U);
  EXPECT_EQ(m[1].key, 0x99U);
  EXPECT_EQ(m[2].kind, MessageKind::swap);
  EXPECT_EQ(m[2].remote_address, 0x8000U);
  EXPECT_EQ(talk.recorded.trouble(), (std::map<std::string_view, int>{{"unsolicited_response", 1}}));
}

TEST(IwarpTracker, TerminateFindsTheQuotedFpdu) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, write(9, 0x1000, 100, false));
  const std::uint64_t guilty = talk.say(Side::a, write(9, 0x1064, 100));
  talk.say(Side::a, send(1, 10));
  HeaderValue terminate = Value<Terminate>()
                              .set<"layer">(0)
                              .set<"etype">(1)
                              .set<"error_code">(2)
                              .set<"segment_length_valid">(1)
                              .set<"ddp_header_included">(1);
  ByteVector quoted{0, 114};  // segment length. The DDP header follows
  const ByteVector fpdus = write(9, 0x1064, 100);
  quoted.insert(quoted.end(), fpdus.begin() + 2, fpdus.begin() + 2 + 14);
  terminate.set_tail(quoted);
  Frame frame = control(RdmapOperation::terminate) / Value<DdpUntagged>().set<"qn">(2);
  frame /= terminate;
  const std::uint64_t says = talk.raw(Side::b, talk.next[1], fpdu(frame), {.acknowledged = talk.next[0] - 200});
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(EventKind::terminate);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, says);
  EXPECT_EQ(events[0].value, 0x000102U);
  EXPECT_EQ(events[0].found, 6U);
  EXPECT_EQ(events[0].bytes, 114U);
  EXPECT_EQ(events[0].origin_frame, guilty);
  EXPECT_EQ(events[0].end, Side::a);
  const auto closed = recorded.of(EventKind::closed);
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_EQ(closed[0].cause_frame, says);
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a),
            (std::map<std::string, int>{{"write 200 refused", 1}, {"send 10 sent", 1}}));
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::b),
            (std::map<std::string, int>{{"terminate 0 sent", 1}}));
  EXPECT_EQ(recorded.connections[0].by(Side::a).messages_refused, 1U);
  EXPECT_EQ(recorded.connections[0].closed_frame, says);
}

TEST(IwarpTracker, TerminatedReadRequestIsFoundByItsMsn) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, read(1, 5, 0x100, 50));
  const std::uint64_t guilty = talk.say(Side::a, read(2, 5, 0x100, 50));
  HeaderValue terminate = Value<Terminate>()
                              .set<"layer">(0)
                              .set<"etype">(1)
                              .set<"error_code">(1)
                              .set<"segment_length_valid">(1)
                              .set<"ddp_header_included">(1)
                              .set<"rdma_header_included">(1);
  ByteVector quoted{0, 46};
  const ByteVector request = read(2, 5, 0x100, 50);
  quoted.insert(quoted.end(), request.begin() + 2, request.begin() + 2 + 18 + 28);
  terminate.set_tail(quoted);
  Frame frame = control(RdmapOperation::terminate) / Value<DdpUntagged>().set<"qn">(2);
  frame /= terminate;
  talk.say(Side::b, response(5, 0x100, 50));
  talk.say(Side::b, fpdu(frame));
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(EventKind::terminate);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].origin_frame, guilty);
  EXPECT_EQ(events[0].psn, 2U);
  EXPECT_EQ(events[0].found, 7U);
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a),
            (std::map<std::string, int>{{"read 50 completed", 1}, {"read 50 refused", 1}}));
  EXPECT_THAT(recorded.of(EventKind::unanswered), IsEmpty());
}

// One error in an otherwise valid stream.
struct Fault {
  std::string name;
  std::vector<ByteVector> fpdus;
  EventKind kind;
  std::uint64_t value, found;
};
class Faults : public ::testing::TestWithParam<Fault> {};
TEST_P(Faults, IsReported) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 10));
  std::uint64_t frame = 0;
  for (const ByteVector& f : GetParam().fpdus) frame = talk.say(Side::a, f);
  talk.ack(Side::b);
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(GetParam().kind);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].value, GetParam().value);
  EXPECT_EQ(events[0].found, GetParam().found);
  EXPECT_EQ(events[0].end, Side::a);
  EXPECT_THAT(recorded.trouble(), SizeIs(1));
}
INSTANTIATE_TEST_SUITE_P(
    IwarpTracker, Faults,
    ::testing::Values(
        Fault{"msn_jump", {send(3, 10)}, EventKind::msn_jump, 2, 3},
        Fault{"msn_back", {send(1, 10)}, EventKind::msn_jump, 2, 1},
        Fault{"read_msn", {read(2, 1, 0, 10)}, EventKind::msn_jump, 1, 2},
        Fault{"mo_jump", {send(2, 10, 0, false), send(2, 10, 30)}, EventKind::segmentation, 10, 30},
        Fault{"mo_begins_late", {send(2, 10, 8)}, EventKind::segmentation, 0, 8},
        Fault{"to_jump", {write(4, 100, 10, false), write(4, 120, 10)}, EventKind::segmentation, 110, 120},
        Fault{"stag_changes", {write(4, 100, 10, false), write(5, 110, 10)}, EventKind::segmentation, 110, 110},
        Fault{"not_ended", {send(2, 10, 0, false), send(3, 10)}, EventKind::opcode_sequence, 3, 0},
        Fault{"opcode_changes",
              {send(2, 10, 0, false), send(2, 10, 10, true, RdmapOperation::send_se)},
              EventKind::opcode_sequence,
              5,
              0}),
    [](const auto& p) { return p.param.name; });

TEST(IwarpTracker, OpcodeOnWrongQueue) {
  Talk talk;
  talk.establish();
  // A Send on the queue for Read Requests. Each queue has its own message sequence numbers.
  talk.say(Side::a, fpdu(control(RdmapOperation::send) / Value<DdpUntagged>().set<"qn">(1).set<"msn">(1), 10));
  const auto events = talk.finish().of(EventKind::opcode_sequence);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].value, 3U);
  EXPECT_EQ(events[0].found, 1U);
}

TEST(IwarpTracker, MoreReadsThanNegotiated) {
  Talk talk;
  // Endpoint a may have min(ORD 4, IRD 2) outstanding. Endpoint b has no negotiated limit.
  talk.establish(std::pair{0x3fff, 4}, std::pair{2, 0x3fff});
  EXPECT_EQ(talk.recorded.events.at(0).kind, EventKind::opened);
  EXPECT_EQ(talk.recorded.events[0].value, 2U);
  EXPECT_EQ(talk.recorded.events[0].found, 0U);
  talk.say(Side::a, join({read(1, 5, 0, 8), read(2, 5, 0, 8)}));
  talk.say(Side::b, response(5, 0, 8));
  talk.say(Side::a, read(3, 5, 0, 8));
  EXPECT_THAT(talk.recorded.of(EventKind::read_limit), IsEmpty());
  const std::uint64_t frame = talk.say(Side::a, read(4, 5, 0, 8));
  talk.say(Side::a, read(5, 5, 0, 8));
  const auto events = talk.finish().of(EventKind::read_limit);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].value, 2U);
  EXPECT_EQ(events[0].found, 3U);
}

TEST(IwarpTracker, BadCrc) {
  Talk talk;
  talk.establish();
  ByteVector bad = send(1, 10);
  bad[25] ^= 1;
  const std::uint64_t frame = talk.say(Side::a, bad);
  talk.say(Side::a, send(2, 10));
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(EventKind::crc_bad);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].bytes, 10U);
  EXPECT_EQ(recorded.connections[0].by(Side::a).crc_bad, 1U);
  EXPECT_THAT(recorded.trouble(), SizeIs(1));
  EXPECT_THAT(recorded.messages, SizeIs(1));
}

}  // namespace
}  // namespace rdmawire::tracking
