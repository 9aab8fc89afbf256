/// Tests the iWARP tracker with loss, reordering, windows and resets of TCP.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/tracking/iwarp_stream_for_test.hpp"

namespace rdmawire::tracking {
namespace {

using namespace iwarp_test;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(IwarpTcp, LossAfterTheCapturePointIsRetransmitted) {
  Talk talk;
  talk.establish();
  const std::uint32_t first = talk.next[0];
  talk.say(Side::a, send(1, 100));
  const std::uint32_t lost = talk.next[0];
  const ByteVector again = send(2, 100);
  const std::uint64_t sending = talk.say(Side::a, again, {.identification = 10});
  talk.say(Side::a, send(3, 100), {.identification = 11});
  talk.raw(Side::b, talk.next[1], {}, {.acknowledged = lost});
  for (int i = 0; i < 2; ++i) talk.raw(Side::b, talk.next[1], {}, {.acknowledged = lost});
  const std::uint64_t third = talk.raw(Side::b, talk.next[1], {}, {.acknowledged = lost});
  talk.wait(999'000);
  const std::uint64_t resent = talk.raw(Side::a, lost, again, {.identification = 12});
  const std::uint64_t done = talk.ack(Side::b);
  const Recording& recorded = talk.finish();
  const auto rounds = recorded.of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].cause, Cause::fast_retransmit);
  EXPECT_EQ(rounds[0].frame, resent);
  EXPECT_EQ(rounds[0].origin_frame, sending);
  EXPECT_EQ(rounds[0].cause_frame, third);
  EXPECT_EQ(rounds[0].psn, lost);
  EXPECT_EQ(rounds[0].bytes, again.size());
  EXPECT_EQ(rounds[0].found, 2U);
  EXPECT_EQ(rounds[0].duration, 999'000 + 6 * 1000);
  const auto losses = recorded.of(EventKind::lost_in_network);
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_EQ(losses[0].cause, Cause::after_capture);
  EXPECT_THAT(recorded.trouble(), SizeIs(2));
  ASSERT_THAT(recorded.messages, SizeIs(3));
  EXPECT_EQ(recorded.messages[0].repeated_packets, 0U);
  EXPECT_EQ(recorded.messages[1].repeated_packets, 1U);
  EXPECT_EQ(recorded.messages[1].answer_frame, done);
  EXPECT_EQ(recorded.connections[0].by(Side::a).retransmitted_packets, 1U);
  EXPECT_NE(first, lost);
}

TEST(IwarpTcp, LossBeforeTheCapturePointWithinAMessage) {
  Talk talk;
  talk.establish();
  const ByteVector all = join({write(9, 0, 1000, false), write(9, 1000, 1000, false), write(9, 2000, 1000)});
  const Bytes bytes(all);
  const std::uint32_t base = talk.next[0];
  const std::uint64_t before = talk.say(Side::a, bytes.first(1020), {.timestamp = 7});
  const std::uint64_t behind = talk.raw(Side::a, base + 2040, bytes.subspan(2040), {.timestamp = 7});
  talk.next[0] = base + 1020;
  const std::uint64_t asks =
      talk.raw(Side::b, talk.next[1], {}, {.sack = {base + 2040, base + static_cast<std::uint32_t>(bytes.size())}});
  const std::uint64_t fills = talk.raw(Side::a, base + 1020, bytes.subspan(1020, 1020), {.timestamp = 9});
  talk.next[0] = base + static_cast<std::uint32_t>(bytes.size());
  talk.ack(Side::b);
  const Recording& recorded = talk.finish();
  const auto rounds = recorded.of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].frame, fills);
  EXPECT_EQ(rounds[0].cause, Cause::fast_retransmit);
  EXPECT_EQ(rounds[0].cause_frame, asks);
  EXPECT_EQ(rounds[0].origin_frame, before);
  EXPECT_EQ(rounds[0].found, 1U);
  EXPECT_EQ(recorded.of(EventKind::lost_in_network).at(0).cause, Cause::before_capture);
  ASSERT_THAT(recorded.messages, SizeIs(1));
  EXPECT_EQ(recorded.messages[0].outcome, Outcome::completed);
  EXPECT_EQ(recorded.messages[0].size, 3000U);
  EXPECT_EQ(recorded.messages[0].first_frame, before);
  EXPECT_EQ(recorded.messages[0].last_frame, fills);
  EXPECT_LT(behind, fills);
  EXPECT_EQ(recorded.messages[0].repeated_packets, 1U);
}

TEST(IwarpTcp, TimeoutDuringReadResponseRefersToTheRead) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, read(1, 5, 0, 100));
  const std::uint32_t seq = talk.next[1];
  const ByteVector bytes = response(5, 0, 100);
  talk.say(Side::b, bytes);
  talk.wait(300'000'000);
  talk.raw(Side::b, seq, bytes, {});
  talk.ack(Side::a);
  talk.say(Side::a, send(1, 1));
  const auto rounds = talk.finish().of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].cause, Cause::timeout);
  EXPECT_EQ(rounds[0].end, Side::b);
  EXPECT_EQ(rounds[0].found, 1U);
  EXPECT_EQ(rounds[0].value, 0U) << "a is the requester of the read";
  EXPECT_EQ(rounds[0].duration, 300'001'000);
  EXPECT_THAT(talk.recorded.of(EventKind::stall), IsEmpty()) << "the retransmission reports it";
}

TEST(IwarpTcp, AcknowledgedBytesAreSpuriousRetransmission) {
  Talk talk;
  talk.establish();
  const std::uint32_t seq = talk.next[0];
  talk.say(Side::a, send(1, 100), {.identification = 5});
  talk.ack(Side::b);
  talk.raw(Side::a, seq, send(1, 100), {.identification = 6});
  const auto rounds = talk.finish().of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].cause, Cause::spurious);
  EXPECT_THAT(talk.recorded.of(EventKind::lost_in_network), IsEmpty());
}

TEST(IwarpTcp, ReorderedSegmentIsNoRetransmission) {
  for (const bool by_timestamp : {false, true}) {
    Talk talk;
    talk.establish();
    const std::uint32_t base = talk.next[0];
    const ByteVector one = send(1, 100), two = send(2, 100);
    const auto with = [&](std::uint32_t n) {
      Talk::With w;
      if (by_timestamp)
        w.timestamp = n;
      else
        w.identification = static_cast<std::uint16_t>(n);
      return w;
    };
    const std::uint64_t ahead = talk.raw(Side::a, base + static_cast<std::uint32_t>(one.size()), two, with(21));
    talk.wait(2'000'000);
    const std::uint64_t late = talk.raw(Side::a, base, one, with(20));
    talk.next[0] += static_cast<std::uint32_t>(one.size() + two.size());
    talk.ack(Side::b);
    const auto events = talk.finish().of(EventKind::out_of_order);
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_EQ(events[0].frame, late);
    EXPECT_EQ(events[0].cause_frame, ahead);
    EXPECT_EQ(events[0].duration, 2'001'000);
    EXPECT_THAT(talk.recorded.trouble(), SizeIs(1));
    ASSERT_THAT(talk.recorded.messages, SizeIs(2));
    EXPECT_EQ(talk.recorded.messages[0].first_frame, late);
    EXPECT_EQ(talk.recorded.messages[1].first_frame, ahead);
  }
}

TEST(IwarpTcp, IdenticalPacketIsADuplicate) {
  Talk talk;
  talk.establish();
  const std::uint32_t seq = talk.next[0];
  const std::uint64_t first = talk.say(Side::a, send(1, 100), {.identification = 5});
  talk.raw(Side::a, seq, send(1, 100), {.identification = 5});
  const auto events = talk.finish().of(EventKind::duplicate);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].origin_frame, first);
  EXPECT_THAT(talk.recorded.trouble(), SizeIs(1));
  EXPECT_EQ(talk.recorded.connections[0].by(Side::a).duplicates, 1U);
}

TEST(IwarpTcp, KeepAliveIsIgnored) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.ack(Side::b);
  const std::uint8_t byte = 0;
  talk.raw(Side::a, talk.next[0] - 1, Bytes(&byte, 1), {});
  talk.raw(Side::a, talk.next[0] - 1, {}, {});
  talk.ack(Side::b);
  talk.say(Side::a, send(2, 100));
  EXPECT_THAT(talk.finish().trouble(), IsEmpty());
  EXPECT_THAT(talk.recorded.messages, SizeIs(2));
}

TEST(IwarpTcp, AcknowledgedButNotCaptured) {
  Talk talk;
  talk.establish();
  const std::uint64_t before = talk.say(Side::a, send(1, 100));
  const std::uint32_t seq = talk.next[0];
  talk.next[0] += 3 * 124;  // Sends 2 to 4, which are missing in the capture
  const std::uint64_t behind = talk.say(Side::a, send(5, 100));
  const std::uint64_t ack = talk.ack(Side::b);
  talk.wait(20'000'000);
  talk.say(Side::a, send(6, 100));
  talk.ack(Side::b);
  const auto events = talk.finish().of(EventKind::lost_in_capture);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, behind);
  EXPECT_EQ(events[0].cause_frame, ack);
  EXPECT_EQ(events[0].origin_frame, before);
  EXPECT_EQ(events[0].bytes, 372U);
  EXPECT_EQ(events[0].packets, 3U);
  EXPECT_EQ(events[0].psn, seq);
  EXPECT_THAT(talk.recorded.trouble(), SizeIs(1)) << "no MSN jump, because the capture is missing packets";
  EXPECT_THAT(talk.recorded.messages, SizeIs(3));
  for (const Message& m : talk.recorded.messages) EXPECT_EQ(m.outcome, Outcome::completed);
}

TEST(IwarpTcp, AcknowledgementsCapturedBeforeTheirBytes) {
  Talk talk;
  talk.establish();
  const ByteVector one = send(1, 100), two = send(2, 100);
  const std::uint32_t base = talk.next[0];
  talk.raw(Side::a, base + static_cast<std::uint32_t>(one.size()), two, {});
  talk.next[0] += static_cast<std::uint32_t>(one.size() + two.size());
  talk.ack(Side::b);
  talk.raw(Side::a, base, one, {});
  EXPECT_EQ(talk.finish().trouble(), (std::map<std::string_view, int>{{"out_of_order", 1}}));
}

TEST(IwarpTcp, ClosedWindow) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  const std::uint64_t closes = talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  talk.wait(1'000'000'000);
  talk.raw(Side::a, talk.next[0] - 1, {}, {});  // a window probe
  talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  talk.wait(500'000'000);
  const std::uint64_t opens = talk.raw(Side::b, talk.next[1], {}, {.window = 500});
  talk.say(Side::a, send(2, 100));
  const auto stalls = talk.finish().of(EventKind::stall);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].cause, Cause::window);
  EXPECT_EQ(stalls[0].end, Side::a);
  EXPECT_EQ(stalls[0].frame, closes);
  EXPECT_EQ(stalls[0].last_frame, opens);
  EXPECT_EQ(stalls[0].duration, 1'500'003'000);
  EXPECT_THAT(talk.recorded.trouble(), SizeIs(1));
}

TEST(IwarpTracker, IdleConnectionStalls) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  const std::uint64_t before = talk.ack(Side::b);
  talk.wait(250'000'000);
  const std::uint64_t after = talk.say(Side::b, send(1, 100));
  talk.ack(Side::a);
  talk.wait(150'000'000);
  talk.say(Side::b, send(2, 100));
  const auto stalls = talk.finish().of(EventKind::stall);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].cause, Cause::nothing_outstanding);
  EXPECT_EQ(stalls[0].frame, before);
  EXPECT_EQ(stalls[0].last_frame, after);
  EXPECT_EQ(stalls[0].duration, 250'001'000);
}

TEST(IwarpTcp, WindowProbeIsNoRetransmission) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  const ByteVector two = send(2, 100);
  for (int i = 0; i < 3; ++i) {
    talk.raw(Side::a, talk.next[0], Bytes(two).first(1), {});
    talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  }
  talk.raw(Side::b, talk.next[1], {}, {.window = 500});
  talk.say(Side::a, two);
  talk.ack(Side::b);
  const std::uint64_t closes = talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  EXPECT_EQ(talk.finish().trouble(), (std::map<std::string_view, int>{{"stall", 2}}));
  EXPECT_EQ(talk.recorded.of(EventKind::stall)[1].frame, closes) << "the window did not open again";
  EXPECT_THAT(talk.recorded.messages, SizeIs(2));
}

TEST(IwarpTcp, ResetIsOnlyValidInsideTheWindow) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.ack(Side::b);
  // One reset is before the acknowledged bytes, and one is after the window of 1000 bytes.
  talk.raw(Side::a, talk.next[0] - 1, {}, {.rst = true});
  talk.raw(Side::a, talk.next[0] + 1001, {}, {.rst = true});
  talk.raw(Side::a, talk.next[0] + 0x70000000, {}, {.rst = true});
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
  talk.say(Side::a, send(2, 100));
  EXPECT_EQ(talk.packet.pdus.size(), 1U);
  talk.ack(Side::b);
  EXPECT_EQ(talk.recorded.messages.size(), 2U);
  const std::uint64_t frame = talk.raw(Side::a, talk.next[0] + 1000, {}, {.rst = true});
  const Recording& recorded = talk.finish();
  ASSERT_THAT(recorded.of(EventKind::tcp_reset), SizeIs(1));
  EXPECT_EQ(recorded.of(EventKind::tcp_reset)[0].frame, frame);
  EXPECT_EQ(recorded.connections[0].closed_frame, frame);
  EXPECT_THAT(recorded.of(EventKind::closed), SizeIs(1));
}

TEST(IwarpTracker, StartInTheMiddle) {
  Talk talk;
  talk.say(Side::a, send(70, 100, 200));  // the end of a message
  talk.say(Side::a, send(71, 100));
  talk.say(Side::a, join({send(72, 100), read(33, 5, 0, 10)}));
  talk.say(Side::b, response(4, 100, 10));  // response to an earlier request
  talk.say(Side::b, response(5, 0, 10));
  talk.say(Side::b, response(5, 0, 10));
  const Recording& recorded = talk.finish();
  EXPECT_THAT(recorded.trouble(), IsEmpty());
  ASSERT_THAT(recorded.connections, SizeIs(1));
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a),
            (std::map<std::string, int>{{"send 100 partial", 1}, {"send 100 completed", 2}, {"read 10 completed", 1}}));
}

TEST(IwarpTracker, ReusedPortIsAnotherConnection) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.next[0] = 77;
  talk.next[1] = 88;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  const Recording& recorded = talk.finish();
  ASSERT_THAT(recorded.connections, SizeIs(2));
  EXPECT_TRUE(recorded.connections[0].replaced);
  EXPECT_FALSE(recorded.connections[1].replaced);
  EXPECT_EQ(recorded.trouble(), (std::map<std::string_view, int>{{"replaced", 1}}));
}

TEST(IwarpTracker, MemoryIsBounded) {
  Talk talk({.connections = 4, .messages = 8});
  for (int i = 0; i < 100; ++i) {
    talk.port = static_cast<std::uint16_t>(20000 + i);
    talk.establish();
    for (std::uint32_t msn = 1; msn <= 20; ++msn) {
      talk.raw(Side::a, talk.next[0], join({send(msn, 10), read(msn, 5, 0, 10)}), {});
      talk.next[0] += static_cast<std::uint32_t>(send(msn, 10).size() + read(msn, 5, 0, 10).size());
    }
    EXPECT_LE(talk.tracker.size(), 4U);
    EXPECT_LT(talk.tracker.memory(), 200'000U);
  }
  EXPECT_EQ(talk.tracker.evicted(), 96U + 100 * 2 * 12);
  talk.finish();
  EXPECT_EQ(talk.recorded.connections.size(), 100U);
  EXPECT_EQ(std::count(talk.recorded.farewells.begin(), talk.recorded.farewells.end(), CloseReason::evicted), 96);
  EXPECT_EQ(talk.recorded.messages.size(), 100U * 40);
}

TEST(IwarpTracker, PacketsHaveTheirNotes) {
  Talk talk({.packets = true});
  talk.establish();
  const std::uint32_t seq = talk.next[0];
  talk.say(Side::a, read(1, 5, 0, 100));
  talk.say(Side::b, response(5, 0, 100));
  talk.raw(Side::a, seq, read(1, 5, 0, 100), {});
  const auto& notes = talk.finish().notes;
  ASSERT_THAT(notes, SizeIs(5));
  EXPECT_EQ(notes[2].message, 1U);
  EXPECT_EQ(notes[2].relative_psn, Talk::mpa(true).size());
  EXPECT_EQ(notes[2].outstanding, 1U);
  EXPECT_EQ(notes[3].message, 1U);
  EXPECT_EQ(notes[3].requester, Side::a);
  EXPECT_EQ(notes[3].related_frame, 6U);
  EXPECT_EQ(notes[3].related_delay, 1000);
  EXPECT_TRUE(notes[4].again);
  EXPECT_EQ(notes[4].related_frame, 6U);
}

}  // namespace
}  // namespace rdmawire::tracking
