// Tests the reports about a requester, one behavior per test. Each test uses a connection that the CM pairs. Endpoint a
// sends from PSN 100 on with an MTU of 1024. Its first frame has number 2.

#include "dissectors/tracking/requester.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/tracking/link_for_test.hpp"

namespace rdmawire::tracking {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RdmaFrame read_of(std::uint32_t psn, std::uint32_t length) {
  return {.opcode = rc::read, .psn = psn, .address = 0x7000, .key = 0x55, .length = length};
}
RdmaFrame response(std::uint8_t opcode, std::uint32_t psn, std::uint32_t payload = 1024) {
  return {.opcode = opcode, .psn = psn, .payload = payload};
}

// Returns a SEND of a requester whose IP identification is constant.
RdmaFrame send_without_order(std::uint32_t psn) {
  return {.opcode = rc::send, .psn = psn, .payload = 64, .identification = 7};
}

// ---- First PSN

// 10,000 connections have 20,000 requesters. State that few connections need belongs into LossEpisode, or into a Cold.
TEST(Requester, StateWithoutLossNeedsAtMost384Bytes) { EXPECT_LE(sizeof(Requester), 384U); }

TEST(Requester, FirstPacketBeforeNegotiatedPsnIsNoRetransmission) {
  Link link({.first_a = 5000});
  link.sends(1000, 3);
  link.wait(5 * microsecond);
  link.acks(1002, 3);
  link.sends(1003);
  link.acks(1003, 4);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.messages.size(), 4U);
  EXPECT_EQ(recorded.messages[0].first_psn, 1000U);
  for (const Message& message : recorded.messages) {
    EXPECT_EQ(message.outcome, Outcome::completed);
    EXPECT_EQ(message.repeated_packets, 0U);
  }
}

// ---- Messages

TEST(Requester, MessageOfThreePackets) {
  Link link;
  link.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
  link.a({.opcode = rc::send_middle, .psn = 101, .payload = 1024});
  link.a({.opcode = rc::send_last, .psn = 102, .payload = 10, .ack_request = true, .solicited = true});
  link.wait(5 * microsecond);
  link.acks(102, 1);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.messages.size(), 1U);
  const Message& m = recorded.messages[0];
  EXPECT_EQ(m.kind, MessageKind::send);
  EXPECT_EQ(m.outcome, Outcome::completed);
  EXPECT_EQ(m.end, Side::a);
  EXPECT_EQ(m.number, 1U);
  EXPECT_EQ(m.connection, 1U);
  EXPECT_EQ(m.size, 2058U);
  EXPECT_EQ(m.packets, 3U);
  EXPECT_EQ(m.repeated_packets, 0U);
  EXPECT_EQ(m.first_psn, 100U);
  EXPECT_EQ(m.last_psn, 102U);
  EXPECT_EQ(m.first_frame, 2U);
  EXPECT_EQ(m.last_frame, 4U);
  EXPECT_EQ(m.answer_frame, 5U);
  EXPECT_EQ(m.end_time - m.start, 20 * microsecond);
  EXPECT_EQ(m.answer_time - m.end_time, 15 * microsecond);
  EXPECT_TRUE(m.solicited);
  EXPECT_FALSE(m.has_immediate || m.has_invalidate || m.has_remote);
  ASSERT_EQ(recorded.farewells.size(), 1U);
  const Sent& sent = recorded.farewells[0].connection.sent[0];
  EXPECT_EQ(sent.messages_completed, 1U);
  EXPECT_EQ(sent.message_bytes, 2058U);
  EXPECT_EQ(sent.latency_count, 1U);
  EXPECT_EQ(sent.latency_max, 35 * microsecond);
}

TEST(Requester, ImmediateAndInvalidateAndRemoteAddress) {
  Link link;
  link.a({.opcode = rc::write_first, .psn = 100, .payload = 1024, .address = 0xabc000, .key = 9, .length = 1030});
  link.a({.opcode = rc::write_last_immediate, .psn = 101, .payload = 6, .immediate = 0xcafe});
  link.a({.opcode = rc::send_invalidate, .psn = 102, .payload = 4, .immediate = 0xbeef});
  link.acks(102, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.messages.size(), 2U);
  EXPECT_EQ(recorded.messages[0].kind, MessageKind::write);
  EXPECT_TRUE(recorded.messages[0].has_remote && recorded.messages[0].has_immediate);
  EXPECT_EQ(recorded.messages[0].size, 1030U);
  EXPECT_EQ(recorded.messages[0].remote_address, 0xabc000U);
  EXPECT_EQ(recorded.messages[0].key, 9U);
  EXPECT_EQ(recorded.messages[0].immediate, 0xcafeU);
  EXPECT_TRUE(recorded.messages[1].has_invalidate);
  EXPECT_EQ(recorded.messages[1].invalidated_key, 0xbeefU);
}

// The response to FLUSH and ATOMIC WRITE is an empty READ response. An acknowledgement does not replace it: A19.4.
TEST(Requester, FlushAndAtomicWriteCompleteByEmptyReadResponse) {
  Link link;
  link.a({.opcode = 0x1c, .psn = 100, .ack_request = true, .length = 4096});
  link.a({.opcode = 0x1d, .psn = 101, .payload = 8, .ack_request = true, .length = 8});
  link.b(response(rc::response_only, 100, 0));
  link.b(response(rc::response_only, 101, 0));
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.messages.size(), 2U);
  EXPECT_EQ(recorded.messages[0].kind, MessageKind::flush);
  EXPECT_EQ(recorded.messages[0].outcome, Outcome::completed);
  EXPECT_EQ(recorded.messages[1].kind, MessageKind::atomic_write);
  EXPECT_EQ(recorded.messages[1].outcome, Outcome::completed);
}

TEST(Requester, OneAcknowledgementForSeveralMessages) {
  Link link;
  link.sends(100, 10);
  link.acks(109, 10);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.messages.size(), 10U);
  for (const Message& m : recorded.messages) {
    EXPECT_EQ(m.outcome, Outcome::completed);
    EXPECT_EQ(m.answer_frame, 12U);
  }
}

TEST(Requester, ReadAndItsResponses) {
  Link link;
  link.a(read_of(100, 2500));
  link.b(response(rc::response_first, 100));
  link.b(response(rc::response_middle, 101));
  link.b(response(rc::response_last, 102, 452));
  link.sends(103);
  link.acks(103, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_THAT(recorded.message_texts(), ElementsAre("read completed 2-2", "send completed 6-6"));
  const Message& m = recorded.messages[0];
  EXPECT_EQ(m.size, 2500U);
  EXPECT_EQ(m.first_response_frame, 3U);
  EXPECT_EQ(m.answer_frame, 5U);
  EXPECT_EQ(m.first_psn, 100U);
  EXPECT_EQ(m.last_psn, 102U);
  EXPECT_EQ(m.key, 0x55U);
}

TEST(Requester, Atomics) {
  Link link;
  link.a({.opcode = rc::compare_swap, .psn = 100, .address = 0x40, .key = 3, .swap = 7, .compare = 5});
  link.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1, .swap = 5});
  link.a({.opcode = rc::fetch_add, .psn = 101, .address = 0x48, .key = 3, .swap = 1});
  link.b({.opcode = rc::atomic_acknowledge, .psn = 101, .msn = 2, .swap = 99});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_THAT(recorded.message_texts(), ElementsAre("compare_swap completed 2-2", "fetch_add completed 4-4"));
  EXPECT_EQ(recorded.messages[0].atomic_operand, 7U);
  EXPECT_EQ(recorded.messages[0].atomic_compare, 5U);
  EXPECT_EQ(recorded.messages[0].atomic_original, 5U);
  EXPECT_EQ(recorded.messages[0].size, 8U);
  EXPECT_EQ(recorded.messages[1].atomic_original, 99U);
  EXPECT_EQ(recorded.messages[1].answer_frame, 5U);
}

TEST(Requester, BothEndpointsAreRequesters) {
  Link link;
  link.sends(100, 2);
  link.b({.opcode = rc::send, .psn = 500, .payload = 3});
  link.acks(101, 2);
  link.a({.opcode = rc::acknowledge, .psn = 500, .msn = 1});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send completed 2-2", "send completed 3-3", "send completed 4-4"));
  EXPECT_EQ(recorded.messages[2].end, Side::b);
  EXPECT_EQ(recorded.messages[2].number, 1U);
}

// ---- Retransmissions

TEST(Requester, GoBackNAfterNak) {
  Link link;
  link.sends(100, 5);  // frames 2 to 6
  link.acks(102, 2, nak(0));
  link.wait(80 * microsecond);
  link.sends(102, 3);  // 8 to 10
  link.acks(104, 5);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("nak psn_sequence_error", "lost_in_network after_capture",
                                                  "retransmission sequence_error_nak"));
  const Event& nak = recorded.events[0];
  EXPECT_EQ(nak.frame, 7U);
  EXPECT_EQ(nak.origin_frame, 4U);
  EXPECT_EQ(nak.psn, 102U);
  EXPECT_EQ(nak.end, Side::a);
  const Event& lost = recorded.events[1];
  EXPECT_EQ(lost.origin_frame, 4U);
  EXPECT_EQ(lost.cause_frame, 7U);
  EXPECT_EQ(lost.packets, 1U);
  const Event& again = recorded.events[2];
  EXPECT_EQ(again.frame, 8U);
  EXPECT_EQ(again.last_frame, 10U);
  EXPECT_EQ(again.origin_frame, 4U);
  EXPECT_EQ(again.cause_frame, 7U);
  EXPECT_EQ(again.packets, 3U);
  EXPECT_EQ(again.bytes, 192U);
  EXPECT_EQ(again.psn, 102U);
  EXPECT_EQ(again.duration, 120 * microsecond);
  EXPECT_EQ(recorded.messages.size(), 5U);
  const Sent& sent = recorded.farewells[0].connection.sent[0];
  EXPECT_EQ(sent.rounds, 1U);
  EXPECT_EQ(sent.retransmitted_packets, 3U);
  EXPECT_EQ(sent.lost_in_network, 1U);
  EXPECT_EQ(sent.messages_completed, 5U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].naks[0], 1U);
}

TEST(Requester, GoBackNAcrossPsnWrap) {
  Link link({.first_a = 0xfffffe});
  link.sends(0xfffffe, 4);
  link.acks(0xffffff, 1, nak(0));
  link.sends(0xffffff, 3);
  link.acks(1, 4);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("nak psn_sequence_error", "lost_in_network after_capture",
                                                  "retransmission sequence_error_nak"));
  EXPECT_EQ(recorded.of(EventKind::retransmission).packets, 3U);
  EXPECT_EQ(recorded.messages.size(), 4U);
  EXPECT_EQ(recorded.messages[3].first_psn, 1U);
}

TEST(Requester, Timeout) {
  Link link;
  link.sends(100, 2);
  link.wait(500 * millisecond);
  link.sends(100, 2);
  link.acks(101, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("retransmission timeout"));
  EXPECT_EQ(recorded.events[0].packets, 2U);
  EXPECT_EQ(recorded.events[0].duration, 500 * millisecond + 20 * microsecond);
  EXPECT_EQ(recorded.events[0].origin_frame, 2U);
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send completed 2-2", "send completed 3-3"));
  EXPECT_EQ(recorded.messages[0].repeated_packets, 1U);
  EXPECT_EQ(recorded.messages[0].packets, 1U) << "each packet is counted once";
}

TEST(Requester, ReadsWithTruncatedLength) {
  Link link;
  link.kept = 60;
  link.a(read_of(100, 2500));
  link.a(read_of(103, 2500));
  for (const std::uint32_t first : {100U, 103U}) {
    link.b(response(rc::response_first, first));
    link.b(response(rc::response_middle, first + 1));
    link.b(response(rc::response_last, first + 2, 452));
  }
  link.a(read_of(106, 2048));
  link.b(response(rc::response_first, 106));
  link.b(response(rc::response_last, 107));
  link.a(read_of(108, 8));
  link.b(response(rc::response_only, 108, 8));
  link.sends(109);
  link.acks(109, 5);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.messages.size(), 5U);
  EXPECT_EQ(recorded.messages[0].last_psn, 102U);
  EXPECT_EQ(recorded.messages[1].answer_frame, 9U);
  for (const Message& m : recorded.messages) EXPECT_EQ(m.outcome, Outcome::completed);
}

TEST(Requester, ReceiverNotReady) {
  Link link;
  link.sends(100);
  link.acks(100, 0, rnr(14));
  link.wait(1500 * microsecond);
  link.sends(100);
  link.acks(100, 1);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("rnr_nak", "retransmission rnr"));
  EXPECT_EQ(recorded.events[0].frame, 3U);
  EXPECT_EQ(recorded.events[0].origin_frame, 2U);
  EXPECT_EQ(recorded.events[0].value, 1280U * microsecond);
  EXPECT_EQ(recorded.events[0].found, 1510U * microsecond);
  EXPECT_EQ(recorded.events[0].last_frame, 4U);
  EXPECT_EQ(recorded.events[1].cause_frame, 3U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].rnr_naks, 1U);
}

TEST(Requester, MissingReadResponseImpliesNak) {
  Link link;
  link.a(read_of(100, 4096));
  link.b(response(rc::response_first, 100));
  link.b(response(rc::response_middle, 102));  // response 101 was lost before the capture point
  link.b(response(rc::response_last, 103));
  link.a(read_of(101, 3072));
  link.b(response(rc::response_first, 101));
  link.b(response(rc::response_middle, 102));
  link.b(response(rc::response_last, 103));
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("lost_in_network before_capture", "retransmission implied_nak"));
  EXPECT_EQ(recorded.events[0].packets, 1U);
  EXPECT_EQ(recorded.events[1].frame, 6U);
  EXPECT_EQ(recorded.events[1].cause_frame, 4U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].lost_in_network, 1U) << "b sent the packet";
  ASSERT_THAT(recorded.message_texts(), ElementsAre("read completed 2-2"));
  EXPECT_EQ(recorded.messages[0].answer_frame, 9U);
  EXPECT_EQ(recorded.messages[0].repeated_packets, 1U);
}

TEST(Requester, ReadResponseLostAfterTheCapturePoint) {
  Link link;
  link.a(read_of(100, 4096));
  link.b(response(rc::response_first, 100));
  for (std::uint32_t psn : {101, 102}) link.b(response(rc::response_middle, psn));
  link.b(response(rc::response_last, 103));
  link.wait(300 * microsecond);
  link.a(read_of(101, 3072));
  link.b(response(rc::response_first, 101));
  link.b(response(rc::response_middle, 102));
  link.b(response(rc::response_last, 103));
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::retransmission), 1U);
  EXPECT_EQ(recorded.count(EventKind::unsolicited_response), 0U);
  EXPECT_THAT(recorded.message_texts(), ElementsAre("read completed 2-2"));
}

TEST(Requester, SpuriousRetransmission) {
  Link link;
  link.sends(100);
  const std::uint64_t acknowledged = link.acks(100, 1);
  link.wait(millisecond);
  link.sends(100);
  link.acks(100, 1);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("retransmission spurious"));
  EXPECT_EQ(recorded.events[0].cause_frame, acknowledged);
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send completed 2-2"));
}

TEST(Requester, DuplicatesFromAnotherInterface) {
  Link link;
  for (int burst = 0; burst < 3; ++burst) {
    const auto first = static_cast<std::uint32_t>(100 + 8 * burst);
    for (int time = 0; time < 2; ++time) {
      for (std::uint32_t psn = first; psn < first + 8; ++psn)
        link.a({.opcode = rc::send, .psn = psn, .payload = 8, .identification = static_cast<std::uint16_t>(psn)});
      link.wait(300 * microsecond);
    }
    link.acks(first + 7, first + 8 - 100);
  }
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("duplicate", "duplicate", "duplicate"));
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].duplicates, 24U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].retransmitted_packets, 0U);
}

TEST(Requester, RetransmissionWithoutIpIdentification) {
  Link link;
  for (int time = 0; time < 2; ++time) {
    for (std::uint32_t psn = 100; psn < 108; ++psn)
      link.a({.opcode = rc::send, .psn = psn, .payload = 8, .identification = 7});
    link.wait(300 * microsecond);
  }
  link.acks(107, 8);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("retransmission timeout"));
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].duplicates, 0U);
}

TEST(Requester, DuplicateFromTheNetwork) {
  Link link;
  link.a({.opcode = rc::send, .psn = 100, .payload = 8, .identification = 7});
  link.a({.opcode = rc::send, .psn = 100, .payload = 8, .identification = 7});
  link.sends(101);
  link.acks(101, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("duplicate"));
  EXPECT_EQ(recorded.events[0].frame, 3U);
  EXPECT_EQ(recorded.events[0].origin_frame, 2U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].duplicates, 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].retransmitted_packets, 0U);
}

// A READ continues from a response that was captured before. This response was dropped because of its order, but it
// passed the capture point.
TEST(Requester, CapturedResponseIsNotLostBeforeCapture) {
  Link link;
  link.a(read_of(100, 6 * 1024));
  link.b(response(rc::response_first, 100));
  link.b(response(rc::response_middle, 101));
  link.b(response(rc::response_middle, 102));
  link.a(read_of(100, 6 * 1024));  // response 100 is delayed after the capture point
  link.b(response(rc::response_middle, 103));
  link.a(read_of(101, 5 * 1024));  // response 100 arrived, and response 101 is missing
  const Recorder& recorded = link.end();
  for (const Event& event : recorded.events) EXPECT_NE(event.cause, Cause::before_capture) << event.frame;
  EXPECT_EQ(recorded.count(EventKind::retransmission), 2U);
}

// The first transmission of PSN 101 arrives after its retransmission, so the responder acknowledges it a second time.
TEST(Requester, SecondAcknowledgementShowsLatePacketAfterCapture) {
  Link link;
  link.sends(100, 3);
  link.acks(100, 1);
  link.acks(101, 1, nak(0));
  link.sends(101, 2);
  link.acks(102, 3);
  link.acks(102, 3);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::lost_in_network), 0U);
  EXPECT_EQ(recorded.of(EventKind::out_of_order).cause, Cause::after_capture);
  EXPECT_EQ(recorded.of(EventKind::retransmission).cause, Cause::reordered);
}

// If there are more losses than the tracker keeps undecided, they are reported earlier, and none is forgotten.
TEST(Requester, ManyLossesWithinOneSecondAreReported) {
  Link link;
  constexpr std::uint32_t losses = 100;
  for (std::uint32_t i = 0; i < losses; ++i) {
    const std::uint32_t psn = 100 + 3 * i;
    link.sends(psn);
    link.sends(psn + 2);
    link.acks(psn, 3 * i + 1);
    link.acks(psn + 1, 3 * i + 1, nak(0));
    link.sends(psn + 1, 2);
    link.acks(psn + 2, 3 * i + 3);
  }
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::lost_in_network), losses);
  EXPECT_EQ(recorded.count(EventKind::retransmission), losses);
}

// The response to the retransmitted FLUSH is not the missing response.
TEST(Requester, LostFlushResponseIsReported) {
  Link link;
  link.a({.opcode = 0x1c, .psn = 100, .ack_request = true, .length = 4096});
  link.sends(101);
  link.acks(101, 2);
  link.a({.opcode = 0x1c, .psn = 100, .ack_request = true, .length = 4096});
  link.sends(101);
  link.b(response(rc::response_only, 100, 0));
  link.acks(101, 2);
  EXPECT_THAT(link.end().event_texts(), ElementsAre("lost_in_network before_capture", "retransmission implied_nak"));
}

// ---- Gaps

TEST(Requester, OutOfOrder) {
  Link link;
  link.sends(100);
  link.sends(102);
  link.sends(101);
  link.sends(103);
  link.acks(103, 4);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("out_of_order"));
  EXPECT_EQ(recorded.events[0].frame, 4U);
  EXPECT_EQ(recorded.events[0].duration, 10 * microsecond);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].out_of_order, 1U);
  EXPECT_EQ(recorded.messages.size(), 4U);
}

TEST(Requester, ReorderedPacketsOfOneMessage) {
  Link link;
  link.a({.opcode = rc::send_middle, .psn = 101, .payload = 1024});
  link.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
  link.a({.opcode = rc::send_last, .psn = 102, .payload = 1});
  link.acks(102, 1);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("out_of_order"));
  ASSERT_THAT(recorded.message_texts(), ElementsAre("send completed 2-4"));
  EXPECT_EQ(recorded.messages[0].size, 2049U);
  EXPECT_EQ(recorded.messages[0].end_time - recorded.messages[0].start, 20 * microsecond);
}

TEST(Requester, LostBeforeTheCapturePointAndRetransmitted) {
  Link link;
  link.sends(100);
  link.sends(102, 2);
  const std::uint64_t asked = link.acks(101, 1, nak(0));
  link.sends(101, 3);
  link.acks(103, 4);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("nak psn_sequence_error", "lost_in_network before_capture",
                                                  "retransmission sequence_error_nak"));
  EXPECT_EQ(recorded.events[1].packets, 1U);
  EXPECT_EQ(recorded.events[1].psn, 101U);
  EXPECT_EQ(recorded.events[1].origin_frame, 2U) << "the packet before the gap";
  EXPECT_EQ(recorded.events[1].cause_frame, asked);
  EXPECT_EQ(recorded.events[2].packets, 3U);
  EXPECT_EQ(recorded.messages.size(), 4U);
}

// The IP identifications prove that PSN 110 was late and not retransmitted.
TEST(Requester, LatePacketCausesNaksWithoutLoss) {
  Link link;
  link.sends(100, 10);  // frames 2 to 11
  link.acks(109, 10);
  link.a({.opcode = rc::send, .psn = 111, .payload = 64, .identification = 14});
  link.a({.opcode = rc::send, .psn = 110, .payload = 64, .identification = 13});
  link.acks(110, 10, nak(0));
  link.acks(110, 11);
  const std::uint64_t asked = link.acks(111, 11, nak(0));
  link.sends(111);
  link.acks(111, 12);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("out_of_order", "nak psn_sequence_error", "nak psn_sequence_error",
                                                  "retransmission reordered"));
  EXPECT_EQ(recorded.events[3].cause_frame, asked);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].lost_in_network, 0U);
}

TEST(Requester, PacketAcknowledgedBeforeItsRetransmissionWasReordered) {
  Link link;
  link.sends(100, 3);
  link.acks(101, 1, nak(0));
  link.acks(101, 2);
  link.acks(102, 2, nak(0));
  link.sends(102);
  link.acks(102, 3);
  EXPECT_THAT(link.end().event_texts(), ElementsAre("nak psn_sequence_error", "out_of_order after_capture",
                                                    "nak psn_sequence_error", "retransmission reordered"));
}

// The responder drops all packets after the RNR NAK, so the order of the retransmissions decides.
TEST(Requester, LateRetransmissionAfterRnrNakExplainsNak) {
  Link link;
  link.sends(100, 8);  // frames 2 to 9
  link.acks(103, 3, rnr(1));
  link.wait(100 * microsecond);
  link.sends(103, 2);                                                              // 11, 12
  link.a({.opcode = rc::send, .psn = 106, .payload = 64, .identification = 101});  // 13
  link.a({.opcode = rc::send, .psn = 105, .payload = 64, .identification = 100});  // 14: late
  link.acks(105, 5, nak(0));
  link.a({.opcode = rc::send, .psn = 105, .payload = 64, .identification = 102});
  link.a({.opcode = rc::send, .psn = 106, .payload = 64, .identification = 103});
  link.a({.opcode = rc::send, .psn = 107, .payload = 64, .identification = 104});
  link.acks(107, 8);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("rnr_nak", "out_of_order", "nak psn_sequence_error",
                                                  "retransmission rnr", "retransmission reordered"));
  EXPECT_EQ(recorded.of(EventKind::out_of_order).frame, 14U);
}

// The sequence of the burst shows the late packet, although the IP identifications do not.
TEST(Requester, RetransmissionSkippedByItsBurstIsLate) {
  Link link;
  for (std::uint32_t psn = 100; psn < 106; ++psn) link.a(send_without_order(psn));  // frames 2 to 7
  link.acks(101, 1, nak(0));
  for (const std::uint32_t psn : {101U, 102U, 104U, 105U, 103U}) link.a(send_without_order(psn));  // 9 to 13
  link.acks(103, 3, nak(0));
  for (const std::uint32_t psn : {103U, 104U, 105U}) link.a(send_without_order(psn));  // 15 to 17
  link.acks(105, 6);
  const Recorder& recorded = link.end();
  const Event& late = recorded.of(EventKind::out_of_order);
  EXPECT_EQ(recorded.count(EventKind::out_of_order), 1U);
  EXPECT_EQ(late.cause, Cause::none);
  EXPECT_EQ(late.frame, 13U);
  EXPECT_EQ(late.psn, 103U);
  EXPECT_EQ(late.certainty, Certainty::likely);
  EXPECT_EQ(recorded.count(EventKind::retransmission), 2U);
  EXPECT_EQ(recorded.count(EventKind::duplicate), 0U);
}

TEST(Requester, LatePacketOfOneBurstDoesNotEndTheNext) {
  Link link;
  for (std::uint32_t psn = 100; psn < 112; ++psn) link.a(send_without_order(psn));
  link.acks(101, 1, nak(0));
  for (const std::uint32_t psn : {101U, 102U, 103U, 104U, 105U, 106U, 107U, 108U, 109U, 111U})
    link.a(send_without_order(psn));
  link.acks(101, 1, nak(0));
  link.wait(200 * microsecond);
  for (const std::uint32_t psn : {101U, 102U, 110U, 103U, 104U, 105U, 106U, 107U, 108U, 109U, 110U, 111U})
    link.a(send_without_order(psn));
  link.acks(111, 12);
  EXPECT_EQ(link.end().count(EventKind::out_of_order), 0U);
}

// The responder acknowledges a duplicate at once, but no other packet within a message.
TEST(Requester, AcknowledgementWithinMessageShowsSecondArrival) {
  for (const bool known : {true, false}) {
    Link link;
    const std::uint32_t messages = known ? 8 : 1;  // number of messages that the responder acknowledges on request
    for (std::uint32_t i = 0; i < messages; ++i) {
      link.a({.opcode = rc::send, .psn = 100 + i, .payload = 8, .ack_request = true});
      link.acks(100 + i, i + 1);
    }
    const std::uint32_t psn = 100 + messages;
    link.a({.opcode = rc::write_first, .psn = psn, .payload = 1024, .length = 3072});
    link.a({.opcode = rc::write_middle, .psn = psn + 1, .payload = 1024});
    link.a({.opcode = rc::write_last, .psn = psn + 2, .payload = 1024, .ack_request = true});
    link.acks(psn + 1, messages, nak(0));
    link.a({.opcode = rc::write_middle, .psn = psn + 1, .payload = 1024});
    link.a({.opcode = rc::write_last, .psn = psn + 2, .payload = 1024, .ack_request = true});
    link.acks(psn + 1, messages);
    link.acks(psn + 2, messages + 1);
    const Recorder& recorded = link.end();
    EXPECT_EQ(recorded.count(EventKind::lost_in_network), known ? 0U : 1U);
    EXPECT_EQ(recorded.of(EventKind::retransmission).cause, known ? Cause::reordered : Cause::sequence_error_nak);
  }
}

TEST(Requester, ResponderThatAcknowledgesEachPacketShowsNoSecondArrival) {
  Link link;
  link.a({.opcode = rc::write_first, .psn = 100, .payload = 1024, .length = 4096});
  link.acks(100, 0);
  link.a({.opcode = rc::write_middle, .psn = 101, .payload = 1024});
  link.a({.opcode = rc::write_middle, .psn = 102, .payload = 1024});
  link.acks(101, 0, nak(0));
  link.a({.opcode = rc::write_middle, .psn = 101, .payload = 1024});
  link.a({.opcode = rc::write_middle, .psn = 102, .payload = 1024});
  link.acks(101, 0);
  link.a({.opcode = rc::write_last, .psn = 103, .payload = 1024, .ack_request = true});
  link.acks(103, 1);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.of(EventKind::lost_in_network).cause, Cause::after_capture);
  EXPECT_EQ(recorded.count(EventKind::out_of_order), 0U);
}

// The requester drops the responses after a missing one, and also the late response.
TEST(Requester, LateReadResponseExplainsItsRetransmission) {
  Link link;
  link.a(read_of(100, 4096));
  link.b(response(rc::response_first, 100));
  link.b(response(rc::response_middle, 102));
  link.b(response(rc::response_middle, 101));
  link.b(response(rc::response_last, 103));
  link.a(read_of(101, 3072));
  link.b(response(rc::response_first, 101));
  link.b(response(rc::response_middle, 102));
  link.b(response(rc::response_last, 103));
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("out_of_order", "retransmission reordered"));
}

TEST(Requester, DuplicateReadResponse) {
  for (const bool repeated : {false, true}) {
    Link link;
    for (std::uint32_t i = 0; i < 8; ++i) {
      link.sends(100 + i);
      link.acks(100 + i, i + 1);
    }
    link.a(read_of(108, 3072));
    link.b(response(rc::response_first, 108));
    RdmaFrame middle = response(rc::response_middle, 109);
    middle.identification = static_cast<std::uint16_t>(link.frame() + 1);
    link.b(middle);
    if (repeated) middle.identification = static_cast<std::uint16_t>(link.frame() + 1);
    link.b(middle);
    link.b(response(rc::response_last, 110));
    const Recorder& recorded = link.end();
    EXPECT_EQ(recorded.count(EventKind::duplicate), repeated ? 0U : 1U);
    EXPECT_EQ(recorded.farewells[0].connection.sent[1].duplicates, repeated ? 0U : 1U);
  }
}

TEST(Requester, ResponseAfterJumpOfIdentificationsIsNotLate) {
  Link link;
  std::uint16_t identification = 5000;
  const auto answer = [&](RdmaFrame frame) {
    frame.identification = identification++;
    link.b(frame);
  };
  std::uint32_t psn = 100;
  const auto read = [&] {
    link.a(read_of(psn, 3072));
    answer(response(rc::response_first, psn));
    answer(response(rc::response_middle, psn + 1));
    answer(response(rc::response_last, psn + 2));
    psn += 3;
  };
  for (int i = 0; i < 6; ++i) read();
  link.wait(1000 * millisecond);
  identification = 2000;  // in the meantime, other connections used 62,000 identifications
  for (int i = 0; i < 6; ++i) read();
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::out_of_order), 0U);
  EXPECT_EQ(recorded.messages.size(), 12U);
}

// The retransmitted READ is missing in the capture.
TEST(Requester, ResponseThatTheRequesterMissesIsNoDuplicate) {
  Link link;
  const auto constant = [](RdmaFrame frame) {
    frame.identification = 9;
    return frame;
  };
  link.a(read_of(100, 4096));
  for (const std::uint32_t psn : {100U, 102U, 103U, 101U, 102U, 103U})
    link.b(constant(response(psn == 100   ? rc::response_first
                             : psn == 103 ? rc::response_last
                                          : rc::response_middle,
                             psn)));
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::duplicate), 0U);
  ASSERT_EQ(recorded.messages.size(), 1U);
  EXPECT_EQ(recorded.messages[0].answer_frame, 8U);
}

TEST(Requester, ResponseToLateRetransmissionIsNoDuplicate) {
  constexpr std::uint16_t constant = 7;
  Link link;
  const auto read = [&](std::uint32_t psn) {
    RdmaFrame frame = read_of(psn, 2048);
    frame.identification = constant;
    link.a(frame);
  };
  const auto answers = [&] {
    for (const std::uint32_t psn : {100U, 102U, 104U})
      for (const bool last : {false, true}) {
        RdmaFrame frame = response(last ? rc::response_last : rc::response_first, psn + (last ? 1 : 0));
        frame.identification = constant;
        link.b(frame);
      }
  };
  for (const std::uint32_t psn : {100U, 102U, 104U}) read(psn);
  answers();
  link.wait(50 * millisecond);
  for (const std::uint32_t psn : {100U, 104U, 102U}) read(psn);
  answers();
  EXPECT_EQ(link.end().count(EventKind::duplicate), 0U);
}

// A bit error can also change the PSN.
TEST(Requester, DamagedRetransmissionWithOtherPsnIsNotLost) {
  Link link;
  link.good_crcs = true;
  link.sends(100, 5);
  link.acks(101, 1, nak(0));
  link.sends(101, 1);
  link.damaged = true;
  link.sends(102 ^ 0x10, 1);
  link.damaged = false;
  link.sends(103, 2);
  link.acks(102, 2, nak(0));
  link.sends(102, 3);
  link.acks(104, 5);
  const Recorder& recorded = link.end();
  for (const Event& event : recorded.events) EXPECT_FALSE(event.kind == EventKind::lost_in_network && event.psn != 101);
}

TEST(Requester, DamagedPacketIsNotLost) {
  Link link;
  link.good_crcs = true;
  link.sends(100, 2);
  link.damaged = true;
  link.sends(102);
  link.damaged = false;
  link.sends(103);
  link.acks(102, 2, nak(0));
  link.sends(102, 2);
  link.acks(103, 4);
  EXPECT_THAT(link.end().event_texts(),
              ElementsAre("crc_bad unknown", "nak psn_sequence_error", "retransmission corrupted"));
}

TEST(Requester, LateAcknowledgementIsOutOfOrder) {
  Link link;
  for (std::uint32_t i = 0; i < 10; ++i) {
    link.sends(100 + i);
    link.acks(100 + i, i + 1);
  }
  link.sends(110, 2);
  const std::uint64_t newer = link.acks(111, 12);
  link.wait(50 * millisecond);
  link.b({.opcode = rc::acknowledge,
          .psn = 110,
          .syndrome = ack,
          .msn = 11,
          .identification = static_cast<std::uint16_t>(newer - 1)});
  EXPECT_THAT(link.end().event_texts(), ElementsAre("out_of_order"));
}

TEST(Requester, RetransmissionLostBeforeTheCapturePoint) {
  Link link;
  link.sends(100, 6);  // frames 2 to 7
  link.acks(101, 1, nak(0));
  link.sends(101, 2);
  link.sends(104, 2);  // 103 is missing
  const std::uint64_t asked = link.acks(103, 3, nak(0));
  link.sends(103, 3);
  link.acks(105, 6);
  const Recorder& recorded = link.end();
  std::vector<const Event*> lost;
  for (const Event& event : recorded.events)
    if (event.kind == EventKind::lost_in_network) lost.push_back(&event);
  ASSERT_EQ(lost.size(), 2U);
  EXPECT_EQ(lost[0]->cause, Cause::after_capture);
  EXPECT_EQ(lost[0]->psn, 101U);
  EXPECT_EQ(lost[1]->cause, Cause::before_capture);
  EXPECT_EQ(lost[1]->psn, 103U);
  EXPECT_EQ(lost[1]->origin_frame, 5U) << "its first transmission";
  EXPECT_EQ(lost[1]->cause_frame, asked);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].rounds, 2U);
}

TEST(Requester, CaptureLoss) {
  Link link;
  link.sends(100);
  link.sends(103);
  const std::uint64_t acknowledged = link.acks(103, 4);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("lost_in_capture"));
  EXPECT_EQ(recorded.events[0].packets, 2U);
  EXPECT_EQ(recorded.events[0].psn, 101U);
  EXPECT_EQ(recorded.events[0].frame, 3U);
  EXPECT_EQ(recorded.events[0].cause_frame, acknowledged);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].lost_in_capture, 2U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].lost_in_network, 0U);
}

TEST(Requester, MessageWithoutItsMiddle) {
  Link link;
  link.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
  link.a({.opcode = rc::send_last, .psn = 102, .payload = 1});
  link.sends(103);
  link.acks(103, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("lost_in_capture"));
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send partial 2-3", "send completed 4-4"));
}

TEST(Requester, UnexplainedGap) {
  Link link;
  link.sends(100);
  link.sends(103);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("psn_gap"));
  EXPECT_EQ(recorded.events[0].packets, 2U);
  EXPECT_EQ(recorded.events[0].frame, 3U);
}

TEST(Requester, FirstPacketsAreMissing) {
  Link link;
  link.sends(104, 2);
  link.acks(105, 6);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("lost_in_capture"));
  EXPECT_EQ(recorded.events[0].packets, 4U);
}

// ---- The MTU

TEST(Requester, NextPsnDeterminesTheMtu) {
  Link link({.mtu = 0});
  link.a(read_of(100, 4096));
  link.sends(104);
  for (std::uint32_t i = 0; i < 4; ++i)
    link.b(response(i == 0 ? rc::response_first : i == 3 ? rc::response_last : rc::response_middle, 100 + i));
  link.acks(104, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_EQ(recorded.farewells[0].connection.mtu, 1024U);
  EXPECT_FALSE(recorded.farewells[0].connection.mtu_negotiated);
  EXPECT_THAT(recorded.message_texts(), ElementsAre("read completed 2-2", "send completed 3-3"));
  EXPECT_EQ(recorded.messages[0].last_psn, 103U);
}

TEST(Requester, ResponseDeterminesTheMtu) {
  Link link({.mtu = 0});
  link.a(read_of(100, 1024));
  for (std::uint32_t i = 0; i < 4; ++i)
    link.b(response(i == 0 ? rc::response_first : i == 3 ? rc::response_last : rc::response_middle, 100 + i, 256));
  link.sends(104);
  link.acks(104, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_EQ(recorded.farewells[0].connection.mtu, 256U);
  EXPECT_THAT(recorded.message_texts(), ElementsAre("read completed 2-2", "send completed 7-7"));
}

TEST(Requester, PayloadLengthsThatDoNotMatchTheMtu) {
  Link link;
  link.a({.opcode = rc::send_first, .psn = 100, .payload = 1000});
  link.a({.opcode = rc::send_last, .psn = 101, .payload = 0});
  link.a({.opcode = rc::send, .psn = 102, .payload = 1025});
  link.acks(102, 2);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("segmentation", "segmentation", "segmentation"));
  EXPECT_EQ(recorded.events[0].value, 1024U);
  EXPECT_EQ(recorded.events[0].found, 1000U);
}

// ---- Unexpected responses

TEST(Requester, GhostAcknowledgement) {
  Link link;
  link.sends(100, 2);
  const std::uint64_t good = link.acks(101, 2);
  link.wait(10 * millisecond);
  link.acks(100, 1);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("ghost_acknowledgement"));
  EXPECT_EQ(recorded.events[0].origin_frame, good);
}

TEST(Requester, AcknowledgementsOfRequestsBeforeTheCapture) {
  Link link;
  link.sends(100, 3);
  link.acks(96, 7);
  link.acks(99, 8);
  link.acks(102, 11);
  EXPECT_THAT(link.end().event_texts(), IsEmpty());
}

TEST(Requester, DuplicateAcknowledgement) {
  Link link;
  link.sends(100);
  for (int i = 0; i < 2; ++i) link.b({.opcode = rc::acknowledge, .psn = 100, .msn = 1, .identification = 9});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("duplicate"));
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].duplicates, 1U);
}

TEST(Requester, RepeatedAcknowledgementUpdatesCredits) {
  Link link;
  link.sends(100);
  link.acks(100, 1, 0x00);
  link.acks(100, 1, 0x04);
  EXPECT_THAT(link.end().event_texts(), IsEmpty());
}

TEST(Requester, MsnJump) {
  Link link;
  link.sends(100);
  link.acks(100, 1);
  link.sends(101);
  link.acks(101, 5);
  link.sends(102);
  link.acks(102, 6);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("msn_jump"));
  EXPECT_EQ(recorded.events[0].value, 2U);
  EXPECT_EQ(recorded.events[0].found, 5U);
}

TEST(Requester, UnsolicitedResponse) {
  Link link;
  link.sends(100);
  link.acks(100, 1);
  link.acks(107, 8);
  link.wait(10 * millisecond);
  link.sends(101);
  link.acks(101, 2);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::unsolicited_response), 1U);
  EXPECT_EQ(recorded.of(EventKind::unsolicited_response).frame, 4U);
  EXPECT_GE(recorded.farewells[0].connection.contradicting, 1U);
}

// An acknowledgement and its request can be captured out of order.
TEST(Requester, ResponseCapturedBeforeItsRequest) {
  Link link;
  link.sends(100);
  link.acks(101, 2);
  link.sends(101);
  link.sends(102);
  link.acks(102, 3);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send completed 2-2", "send completed 4-4", "send completed 5-5"));
  EXPECT_GE(recorded.farewells[0].connection.sent[0].latency_sum, 0);
}

TEST(Requester, RemoteAccessErrorHasKeyAndAddress) {
  Link link;
  link.a({.opcode = rc::write, .psn = 100, .payload = 100, .address = 0xdead000, .key = 0x1234, .length = 100});
  const std::uint64_t refusal = link.acks(100, 0, nak(nak_code::remote_access_error));
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("nak remote_access_error"));
  EXPECT_EQ(recorded.events[0].origin_frame, 2U);
  EXPECT_EQ(recorded.events[0].value, 0x1234U);
  EXPECT_EQ(recorded.events[0].found, 0xdead000U);
  ASSERT_THAT(recorded.message_texts(), ElementsAre("write refused 2-2"));
  EXPECT_EQ(recorded.messages[0].nak_code, nak_code::remote_access_error);
  EXPECT_EQ(recorded.messages[0].answer_frame, refusal);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].messages_refused, 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].naks[nak_code::remote_access_error], 1U);
}

TEST(Requester, Unanswered) {
  Link link;
  link.sends(100);
  for (int i = 0; i < 3; ++i) {
    link.wait(500 * millisecond);
    link.sends(100);
  }
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::retransmission), 3U);
  EXPECT_EQ(recorded.count(EventKind::unanswered), 1U);
  EXPECT_EQ(recorded.of(EventKind::unanswered).frame, 2U);
  EXPECT_EQ(recorded.of(EventKind::unanswered).psn, 100U);
  ASSERT_THAT(recorded.message_texts(), ElementsAre("send unanswered 2-2"));
  EXPECT_EQ(recorded.messages[0].repeated_packets, 3U);
}

// An old acknowledgement of packets that are no longer kept does not affect later requests.
TEST(Requester, OldAcknowledgementDoesNotCompleteNewRequests) {
  std::vector<std::string> recorded[2];
  for (const bool ghost : {false, true}) {
    Link link;
    link.sends(100, 60);
    link.acks(159, 60);
    link.a(read_of(160, 10));
    link.b(response(rc::response_only, 160, 10));
    link.wait(millisecond);
    if (ghost) link.acks(101, 2);
    link.a(read_of(160, 10));
    link.b(response(rc::response_only, 160, 10));
    recorded[ghost] = link.end().event_texts();
    std::erase(recorded[ghost], "ghost_acknowledgement");
  }
  EXPECT_EQ(recorded[0], recorded[1]);
}

TEST(Requester, ReadWithoutItsMiddleResponses) {
  Link link;
  link.a(read_of(100, 3072));
  link.b(response(rc::response_first, 100));
  link.b(response(rc::response_last, 102));
  for (int i = 0; i < 3; ++i) {
    link.wait(500 * millisecond);
    link.a(read_of(101, 2048));
  }
  const Recorder& recorded = link.end();
  ASSERT_THAT(recorded.message_texts(), ElementsAre("read unanswered 2-2"));
  EXPECT_EQ(recorded.messages[0].answer_frame, 0U);
  EXPECT_EQ(recorded.messages[0].answer_time, 0);
  EXPECT_EQ(recorded.messages[0].first_response_frame, 3U);
}

// ---- Order

TEST(Requester, InvalidOpcodeSequence) {
  Link link;
  link.sends(100);
  link.a({.opcode = rc::send_middle, .psn = 101, .payload = 1024});
  link.a({.opcode = rc::write_last, .psn = 102, .payload = 4});
  link.acks(102, 2);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::opcode_sequence), 2U);
  EXPECT_EQ(recorded.of(EventKind::opcode_sequence).frame, 3U);
  EXPECT_EQ(recorded.of(EventKind::opcode_sequence).value, rc::send_middle);
}

TEST(Requester, MoreReadsThanNegotiated) {
  Link link({.reads = 2});
  link.a(read_of(100, 10));
  link.a(read_of(101, 10));
  link.a(read_of(102, 10));
  for (std::uint32_t psn : {100, 101, 102}) link.b(response(rc::response_only, psn, 10));
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("read_limit"));
  EXPECT_EQ(recorded.events[0].frame, 4U);
  EXPECT_EQ(recorded.events[0].value, 2U);
  EXPECT_EQ(recorded.events[0].found, 3U);
}

// ---- Stalls

TEST(Requester, StallCauses) {
  {
    Link link;
    link.sends(100);
    link.wait(150 * millisecond);
    link.acks(100, 1);
    const Recorder& recorded = link.end();
    EXPECT_THAT(recorded.event_texts(), ElementsAre("stall peer"));
    EXPECT_EQ(recorded.events[0].duration, 150 * millisecond + 10 * microsecond);
    EXPECT_EQ(recorded.events[0].origin_frame, 2U);
    EXPECT_EQ(recorded.events[0].frame, 3U);
  }
  {
    Link link;
    link.sends(100);
    link.acks(100, 1);
    link.wait(150 * millisecond);
    link.sends(101);
    link.acks(101, 2);
    EXPECT_THAT(link.end().event_texts(), ElementsAre("stall nothing_outstanding"));
  }
  {
    Link link;
    link.sends(100);
    link.acks(100, 1, 0x02);
    link.sends(101);
    link.acks(101, 2, 0x00);
    link.wait(150 * millisecond);
    link.acks(101, 2, 0x04);
    link.sends(102);
    link.acks(102, 3, 0x04);
    EXPECT_THAT(link.end().event_texts(), ElementsAre("stall credit"));
  }
  {
    Link link;
    link.sends(100, 4);
    link.wait(150 * millisecond);
    link.sends(104);
    link.acks(104, 5);
    EXPECT_THAT(link.end().event_texts(), ElementsAre("stall window"));
  }
  {
    Link link;
    link.sends(100);
    link.acks(100, 0, rnr(0));
    link.wait(655 * millisecond);
    link.sends(100);
    link.acks(100, 1);
    EXPECT_THAT(link.end().event_texts(), ElementsAre("stall rnr", "rnr_nak", "retransmission rnr"));
  }
}

// Sends a packet every 10 µs. After the CNP, sends one every `then` nanoseconds.
std::vector<std::string> notified(std::int64_t then, std::uint32_t after, Event& event) {
  Link link;
  link.sends(100, 20);
  link.b({.opcode = congestion_notification});
  for (std::uint32_t i = 0; i < after; ++i) {
    link.wait(then - 10 * microsecond);
    link.sends(120 + i);
  }
  link.acks(120 + after - 1, 20 + after);
  const Recorder& recorded = link.end();
  event = recorded.of(EventKind::cnp);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].cnps, 1U);
  return recorded.event_texts();
}

TEST(Requester, ReactionToCongestionNotification) {
  Event event;
  EXPECT_THAT(notified(100 * microsecond, 20, event), ElementsAre("cnp rate_fell"));
  EXPECT_EQ(event.frame, 22U);
  EXPECT_EQ(event.end, Side::a);
  EXPECT_GT(event.value, 9 * event.found);
  EXPECT_THAT(notified(10 * microsecond, 20, event), ElementsAre("cnp rate_unchanged"));
  EXPECT_THAT(notified(10 * microsecond, 3, event), ElementsAre("cnp unknown"));
}

// The rate counts as reduced if it is less than 0.8 of the rate before.
TEST(Requester, SmallDecreaseAfterCongestionNotificationIsNoReaction) {
  Event event;
  EXPECT_THAT(notified(12 * microsecond, 20, event), ElementsAre("cnp rate_unchanged"));
  EXPECT_NEAR(static_cast<double>(event.found) / static_cast<double>(event.value), 10.0 / 12, 0.001);
  EXPECT_THAT(notified(13 * microsecond, 20, event), ElementsAre("cnp rate_fell"));
  EXPECT_NEAR(static_cast<double>(event.found) / static_cast<double>(event.value), 10.0 / 13, 0.001);
}

// ---- The end of the capture

TEST(Requester, ResponsesWithoutRequestAtTheEndOfTheCapture) {
  for (const std::uint32_t missing : {1U, 2U, 64U, 65U}) {
    Link link;
    link.sends(100);
    link.acks(100, 1);
    const std::uint64_t frame = link.acks(100 + missing, 1 + missing);
    const Recorder& recorded = link.end();
    const std::uint32_t lost = recorded.farewells[0].connection.sent[0].lost_in_capture;
    if (missing > 64) {
      EXPECT_THAT(recorded.event_texts(), ElementsAre("unsolicited_response")) << missing;
      EXPECT_EQ(lost, 0U) << missing;
      continue;
    }
    EXPECT_THAT(recorded.event_texts(), ElementsAre("lost_in_capture")) << missing;
    EXPECT_EQ(recorded.events[0].packets, missing);
    EXPECT_EQ(recorded.events[0].psn, 101U) << missing;
    EXPECT_EQ(recorded.events[0].cause_frame, frame) << missing;
    EXPECT_EQ(lost, missing);
  }
}

// ---- Packet notes

/// Returns the classes of these frames, as determined when they arrived.
std::vector<Arrival> arrivals(const Recorder& recorded, std::initializer_list<std::size_t> frames) {
  std::vector<Arrival> found;
  for (const std::size_t frame : frames) found.push_back(recorded.notes.at(frame).arrival);
  return found;
}

TEST(Requester, NoteContainsTheClassAtArrivalOfARetransmission) {
  Link link({.options = {.packets = true}});
  link.sends(100, 5);  // frames 2 to 6
  const std::uint64_t refused = link.acks(102, 2, nak(0));
  link.sends(102, 3);  // 8 to 10
  const Recorder& recorded = link.recorded;
  EXPECT_THAT(arrivals(recorded, {6, 8, 9, 10}), ElementsAre(Arrival::in_order, Arrival::retransmission,
                                                             Arrival::retransmission, Arrival::retransmission));
  EXPECT_EQ(recorded.notes[8].cause, Cause::sequence_error_nak);
  EXPECT_EQ(recorded.notes[8].cause_frame, refused);
  for (const std::size_t frame : {8, 9, 10}) EXPECT_EQ(recorded.notes.at(frame).burst_frame, 8U) << frame;
  EXPECT_EQ(recorded.count(EventKind::retransmission), 0U) << "reported when the burst ends";
}

TEST(Requester, NoteContainsTheCauseAtArrivalAfterATimeout) {
  Link link({.options = {.packets = true}});
  link.sends(100, 2);
  link.wait(500 * millisecond);
  link.sends(100, 2);
  EXPECT_THAT(arrivals(link.recorded, {4, 5}), ElementsAre(Arrival::retransmission, Arrival::retransmission));
  for (const std::size_t frame : {4, 5}) EXPECT_EQ(link.recorded.notes.at(frame).burst_frame, 4U) << frame;
  EXPECT_EQ(link.recorded.notes[4].cause, Cause::timeout);
  EXPECT_EQ(link.recorded.notes[4].cause_frame, 0U);
}

TEST(Requester, NoteContainsTheClassAtArrivalOfDuplicatesAndGaps) {
  Link link({.options = {.packets = true}});
  link.a({.opcode = rc::send, .psn = 100, .payload = 8, .identification = 7});
  link.a({.opcode = rc::send, .psn = 100, .payload = 8, .identification = 7});
  link.sends(102);
  link.sends(101);
  link.sends(103);
  EXPECT_THAT(
      arrivals(link.recorded, {2, 3, 4, 5, 6}),
      ElementsAre(Arrival::in_order, Arrival::duplicate, Arrival::after_gap, Arrival::out_of_order, Arrival::in_order));
}

TEST(Requester, GapFilledAfterANakIsARetransmission) {
  Link link({.options = {.packets = true}});
  link.sends(100);
  link.sends(102, 2);  // frames 3 and 4
  const std::uint64_t refused = link.acks(101, 1, nak(0));
  link.sends(101);
  EXPECT_THAT(arrivals(link.recorded, {3, 6}), ElementsAre(Arrival::after_gap, Arrival::retransmission));
  EXPECT_EQ(link.recorded.notes[6].cause, Cause::sequence_error_nak);
  EXPECT_EQ(link.recorded.notes[6].cause_frame, refused);
}

TEST(Requester, Notes) {
  Link link({.options = {.packets = true}});
  link.sends(100, 2);  // 2, 3
  link.acks(101, 2);   // 4
  link.wait(5 * millisecond);
  link.sends(100);  // 5
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.packets, 4U);
  EXPECT_EQ(recorded.notes[3].message, 2U);
  EXPECT_EQ(recorded.notes[3].relative_psn, 1U);
  EXPECT_EQ(recorded.notes[3].outstanding, 2U);
  EXPECT_EQ(recorded.notes[4].end, Side::b);
  EXPECT_EQ(recorded.notes[4].requester, Side::a);
  EXPECT_EQ(recorded.notes[4].related_frame, 3U);
  EXPECT_EQ(recorded.notes[4].related_delay, 10 * microsecond);
  EXPECT_EQ(recorded.notes[4].outstanding, 0U);
  EXPECT_TRUE(recorded.notes[5].again);
  EXPECT_EQ(recorded.notes[5].related_frame, 2U);
}

}  // namespace
}  // namespace rdmawire::tracking
