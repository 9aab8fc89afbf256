// Unit tests of the RoCE state machine with literal exchanges, without a wire and with simulated time.

#include "replay/reactive/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::replay::reactive {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t ms = 1'000'000;
constexpr std::uint8_t ack = 0x1f, nak_sequence = 0x60, nak_access = 0x62;

/// A SEND of `packets` empty packets. The last one requests an acknowledgement.
Message send_of(std::uint32_t first, std::uint32_t packets, std::uint64_t frame) {
  Message message;
  message.first = first;
  message.psns = packets;
  message.first_frame = frame;
  message.last_frame = frame + packets - 1;
  for (std::uint32_t i = 0; i < packets; ++i) {
    const Position position = packets == 1      ? Position::only
                              : i == 0          ? Position::first
                              : i + 1 < packets ? Position::middle
                                                : Position::last;
    CapturedPacket packet;
    packet.t.op = find_opcode(Transport::rc, Operation::send, position);
    packet.t.frame = frame + i;
    packet.t.ack_request = i + 1 == packets;
    message.packets.push_back(packet);
  }
  return message;
}

struct Talk {
  Exchange exchange;
  MemoryPlan plan;
  MachineOptions options;
  tracking::TransportPacket packet;
  std::optional<RoceMachine> machine;

  void ours(std::vector<Message> messages) { set(exchange.ours, std::move(messages)); }
  void theirs(std::vector<Message> messages) { set(exchange.theirs, std::move(messages)); }
  static void set(Requests& requests, std::vector<Message> messages) {
    requests.messages = std::move(messages);
    requests.psns = requests.messages.back().end();
  }
  Actions start() {
    exchange.mtu = 1024;
    machine.emplace(exchange, plan, options);
    return machine->start(0);
  }
  Actions hear_answer(std::uint32_t psn, std::uint8_t syndrome, std::uint32_t msn, std::int64_t now = 0) {
    packet = tracking::TransportPacket();
    packet.op = find_opcode(Transport::rc, Operation::acknowledge);
    packet.has_aeth = true;
    packet.syndrome = syndrome;
    packet.msn = Msn(msn);
    return machine->on_received({&packet, {}, Psn(psn), 100}, now);
  }
  Actions hear_request(std::uint32_t psn, Position position, bool asks, std::int64_t now = 0) {
    packet = tracking::TransportPacket();
    packet.op = find_opcode(Transport::rc, Operation::send, position);
    packet.ack_request = asks;
    return machine->on_received({&packet, {}, Psn(psn), 100}, now);
  }
};

std::vector<std::uint32_t> psns(const Actions& actions) {
  std::vector<std::uint32_t> all;
  for (const OutgoingPacket& next_packet : actions.outgoing) all.push_back(next_packet.psn);
  return all;
}

TEST(RoceMachine, AcknowledgementCoversPrecedingRequests) {
  Talk talk;
  talk.ours({send_of(0, 1, 1), send_of(1, 1, 2), send_of(2, 1, 3)});
  EXPECT_THAT(psns(talk.start()), ElementsAre(0, 1, 2));
  EXPECT_FALSE(talk.machine->done());
  talk.hear_answer(2, ack, 3);
  EXPECT_TRUE(talk.machine->done());
  EXPECT_EQ(talk.machine->counts().ours_done, 3U);
  EXPECT_THAT(talk.machine->divergences(), IsEmpty());
}

TEST(RoceMachine, RequestWaitsForPrecedingPeerSteps) {
  Talk talk;
  std::vector<Message> ours{send_of(0, 2, 1), send_of(2, 1, 10)};
  ours[1].after_messages = 1;
  ours[1].after_psn = 2;
  std::vector<Message> theirs{send_of(0, 2, 4)};
  theirs[0].after_messages = 1;
  talk.ours(ours);
  talk.theirs(theirs);
  const Actions begin = talk.start();
  EXPECT_THAT(psns(begin), ElementsAre(0, 1));
  EXPECT_THAT(begin.posts, IsEmpty()) << "the peer sent its message after it had received the local one";
  const Actions posted = talk.hear_answer(1, ack, 1);
  EXPECT_THAT(posted.posts, ElementsAre(0));
  EXPECT_THAT(posted.outgoing, IsEmpty());
  EXPECT_THAT(talk.hear_request(0, Position::first, false).outgoing, IsEmpty());
  const Actions answered = talk.hear_request(1, Position::last, true);
  ASSERT_THAT(answered.outgoing, SizeIs(2));
  EXPECT_EQ(answered.outgoing[0].kind, OutgoingPacket::Kind::acknowledge);
  EXPECT_EQ(answered.outgoing[0].psn, 1U);
  EXPECT_EQ(answered.outgoing[0].msn, 1U);
  EXPECT_EQ(answered.outgoing[1].kind, OutgoingPacket::Kind::request);
  EXPECT_EQ(answered.outgoing[1].psn, 2U);
}

TEST(RoceMachine, SequenceErrorNakRestartsAtItsPsn) {
  Talk talk;
  talk.ours({send_of(0, 4, 1)});
  talk.start();
  const Actions again = talk.hear_answer(2, nak_sequence, 0);
  EXPECT_THAT(psns(again), ElementsAre(2, 3));
  EXPECT_TRUE(again.outgoing[0].again);
  EXPECT_THAT(talk.hear_answer(2, nak_sequence, 0).outgoing, IsEmpty()) << "duplicate NAK";
  talk.hear_answer(3, ack, 1);
  EXPECT_TRUE(talk.machine->done());
  EXPECT_EQ(talk.machine->counts().again, 2U);
  ASSERT_THAT(talk.machine->divergences(), SizeIs(2)) << "both NAKs are reported";
  EXPECT_TRUE(talk.machine->divergences()[0].note);
}

// Code 12 is 0.64 ms: IBTA vol 1, 9.7.5.2.8.
TEST(RoceMachine, RnrNakDelaysRetransmissionByItsTimer) {
  Talk talk;
  talk.ours({send_of(0, 1, 1)});
  talk.start();
  const Actions waits = talk.hear_answer(0, 0x20 | 12, 0, 10 * ms);
  EXPECT_THAT(waits.outgoing, IsEmpty());
  EXPECT_EQ(waits.wake, 10 * ms + 640'000);
  EXPECT_THAT(talk.machine->on_timer(10 * ms + 639'999).outgoing, IsEmpty());
  EXPECT_THAT(psns(talk.machine->on_timer(10 * ms + 640'000)), ElementsAre(0));
  talk.hear_answer(0, ack, 1, 11 * ms);
  EXPECT_TRUE(talk.machine->done());
  EXPECT_EQ(talk.machine->counts().rnr_waits, 1U);
}

TEST(RoceMachine, TimeoutRetransmitsUntilRetriesAreExhausted) {
  Talk talk;
  talk.options.retry_after = 10 * ms;
  talk.options.retries = 2;
  talk.ours({send_of(0, 2, 1)});
  talk.exchange.ours.answers = {{.frame = 7, .psn = 1, .syndrome = ack, .msn = 5}};
  EXPECT_EQ(talk.start().wake, 10 * ms);
  EXPECT_THAT(talk.machine->on_timer(10 * ms - 1).outgoing, IsEmpty());
  EXPECT_THAT(psns(talk.machine->on_timer(10 * ms)), ElementsAre(0, 1));
  EXPECT_THAT(psns(talk.machine->on_timer(20 * ms)), ElementsAre(0, 1));
  EXPECT_THAT(talk.machine->on_timer(30 * ms).outgoing, IsEmpty());
  EXPECT_EQ(talk.machine->failure(),
            "no response after 3 tries while waiting for the response to local message 1 (SEND of 0 bytes, PSN +0); "
            "captured: "
            "frame 7: ACK, PSN +1, MSN 5");
}

TEST(RoceMachine, MissingPeerMessageFailsAfterStepTimeout) {
  Talk talk;
  talk.options.step_timeout = 100 * ms;
  talk.theirs({send_of(0, 3, 11)});
  EXPECT_THAT(talk.start().posts, ElementsAre(0));
  talk.machine->on_timer(100 * ms);
  EXPECT_EQ(
      talk.machine->failure(),
      "no progress for 100 ms while waiting for the peer's message 1 (SEND of 0 bytes); captured: frames 11 to 13");
}

TEST(RoceMachine, GapCausesOneNak) {
  Talk talk;
  talk.theirs({send_of(0, 4, 1)});
  talk.start();
  talk.hear_request(0, Position::first, false);
  const Actions gap = talk.hear_request(2, Position::middle, false);
  ASSERT_THAT(gap.outgoing, SizeIs(1));
  EXPECT_EQ(gap.outgoing[0].syndrome, nak_sequence);
  EXPECT_EQ(gap.outgoing[0].psn, 1U);
  EXPECT_THAT(talk.hear_request(3, Position::last, true).outgoing, IsEmpty());
  for (const std::uint32_t psn : {1U, 2U}) talk.hear_request(psn, Position::middle, false);
  EXPECT_THAT(psns(talk.hear_request(3, Position::last, true)), ElementsAre(3));
  EXPECT_TRUE(talk.machine->done());
}

TEST(RoceMachine, DuplicateIsAcknowledgedWithNewestPsn) {
  Talk talk;
  talk.theirs({send_of(0, 1, 1), send_of(1, 1, 2)});
  talk.start();
  talk.hear_request(0, Position::only, true);
  talk.hear_request(1, Position::only, true);
  const Actions again = talk.hear_request(0, Position::only, true);
  ASSERT_THAT(again.outgoing, SizeIs(1));
  EXPECT_EQ(again.outgoing[0].psn, 1U);
  EXPECT_EQ(again.outgoing[0].msn, 2U);
}

TEST(RoceMachine, CapturedRnrNakIsSent) {
  Talk talk;
  talk.theirs({send_of(0, 1, 1)});
  talk.exchange.theirs.answers = {{.frame = 2, .psn = 0, .syndrome = 0x2c}, {.frame = 5, .psn = 0, .syndrome = 0x05}};
  talk.start();
  const Actions first = talk.hear_request(0, Position::only, true);
  ASSERT_THAT(first.outgoing, SizeIs(1));
  EXPECT_EQ(first.outgoing[0].syndrome, 0x2c);
  EXPECT_EQ(first.outgoing[0].captured_frame, 2U);
  const Actions second = talk.hear_request(0, Position::only, true);
  ASSERT_THAT(second.outgoing, SizeIs(1));
  EXPECT_EQ(second.outgoing[0].syndrome, 0x05);
  EXPECT_TRUE(talk.machine->done());
}

TEST(RoceMachine, FatalNakEndsReplayOnlyIfCaptured) {
  for (const bool captured : {true, false}) {
    Talk talk;
    talk.ours({send_of(0, 1, 1), send_of(1, 1, 9)});
    talk.exchange.ours.answers = {{.frame = 2, .psn = 0, .syndrome = captured ? nak_access : ack, .msn = 0}};
    talk.start();
    talk.hear_answer(0, nak_access, 0);
    EXPECT_EQ(talk.machine->done(), captured);
    EXPECT_EQ(talk.machine->failure().empty(), captured);
    if (!captured) {
      EXPECT_THAT(to_string(talk.machine->divergences().at(0)),
                  HasSubstr("captured: frame 2: ACK, PSN +0, MSN 0; live: frame 100: NAK remote access error, PSN +0"));
    }
  }
}

TEST(RoceMachine, UnacknowledgedPacketsStayWithinWindow) {
  Talk talk;
  talk.options.window = 2;
  std::vector<Message> ours;
  for (std::uint32_t i = 0; i < 5; ++i) ours.push_back(send_of(i, 1, i + 1));
  talk.ours(ours);
  EXPECT_THAT(psns(talk.start()), ElementsAre(0, 1));
  EXPECT_THAT(psns(talk.hear_answer(0, ack, 1)), ElementsAre(2));
  EXPECT_THAT(psns(talk.hear_answer(2, ack, 3)), ElementsAre(3, 4));
}

TEST(RoceMachine, CnpIsReportedAsNote) {
  Talk talk;
  talk.ours({send_of(0, 1, 1)});
  talk.start();
  talk.packet = tracking::TransportPacket();
  talk.packet.op = find_opcode(Transport::cnp, Operation::congestion_notification);
  ASSERT_NE(talk.packet.op, nullptr);
  talk.machine->on_received({&talk.packet, {}, Psn(0), 3}, 0);
  EXPECT_EQ(talk.machine->counts().cnps, 1U);
  EXPECT_THAT(talk.machine->divergences(), SizeIs(1));
}

}  // namespace
}  // namespace rdmawire::replay::reactive
