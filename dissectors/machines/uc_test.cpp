#include "dissectors/machines/uc.hpp"

#include <gtest/gtest.h>

#include "dissectors/machines/ud.hpp"

namespace rdmawire::machines {
namespace {

/// A receiver that expects PSN 100, with MTU 256 and receive buffers of 1000 bytes.
struct Receiver {
  UcResponder at = UcResponder::expecting(Psn(100));
  RcKnowledge knowledge{.receive = true, .receive_bytes = 1000, .access = Access::granted};

  UcDecision takes(std::uint8_t code, std::uint32_t psn, std::uint32_t payload, std::uint32_t length = 0) {
    const RcRequest request{.op = &opcode(code), .psn = Psn(psn), .payload = payload, .va = 0x1000, .length = length};
    const UcDecision decision = judge(at, request, 256, [&](const RcRequest&) { return knowledge; });
    at = decision.reaction == UcReaction::execute ? executed(at, request) : dropped(at, request);
    return decision;
  }
};
constexpr UcDecision taken{UcReaction::execute, false}, dropped_alone{UcReaction::drop, false},
    lost{UcReaction::drop, true}, restarted{UcReaction::execute, true};
constexpr std::uint8_t send_first = 0x20, send_middle = 0x21, send_last = 0x22, send_only = 0x24, write_only = 0x2a;

TEST(UcResponder, AcceptsMessagesInOrder) {
  Receiver receiver;
  EXPECT_EQ(receiver.takes(send_first, 100, 256), taken);
  EXPECT_EQ(receiver.takes(send_middle, 101, 256), taken);
  EXPECT_EQ(receiver.takes(send_last, 102, 7), taken);
  EXPECT_EQ(receiver.takes(send_only, 103, 0), taken);
}

TEST(UcResponder, GapDropsTheMessageAndTheNextHasItsOwnPsn) {
  Receiver receiver;
  EXPECT_EQ(receiver.takes(send_first, 100, 256), taken);
  EXPECT_EQ(receiver.takes(send_last, 102, 7), lost);
  EXPECT_EQ(receiver.takes(send_only, 150, 7), taken);
  EXPECT_EQ(receiver.at.window.expected.value(), 151U);
}

TEST(UcResponder, RejectsMiddleWithoutFirst) {
  Receiver receiver;
  EXPECT_EQ(receiver.takes(send_middle, 100, 256), dropped_alone);
  EXPECT_EQ(receiver.takes(send_last, 101, 7), dropped_alone);
}

TEST(UcResponder, NewMessageAbandonsTheOpenOne) {
  Receiver receiver;
  EXPECT_EQ(receiver.takes(send_first, 100, 256), taken);
  EXPECT_EQ(receiver.takes(send_only, 101, 7), restarted);
}

TEST(UcResponder, DropsOnMemoryOrReceiveErrors) {
  Receiver receiver;
  receiver.knowledge.access = Access::refused;
  EXPECT_EQ(receiver.takes(write_only, 100, 8, 8), dropped_alone);
  EXPECT_EQ(receiver.takes(write_only, 101, 0, 0), taken);  // the key is ignored in a WRITE of 0 bytes
  receiver.knowledge.receive = false;
  EXPECT_EQ(receiver.takes(send_only, 102, 8), dropped_alone);
  receiver.knowledge = {.receive = true, .receive_bytes = 4, .access = Access::granted};
  EXPECT_EQ(receiver.takes(send_only, 103, 5), (UcDecision{.too_long = true}));
  EXPECT_EQ(receiver.takes(send_only, 104, 4), taken);
}

TEST(UcResponder, RejectsReads) {
  Receiver receiver;
  EXPECT_EQ(receiver.takes(0x2c, 100, 0), dropped_alone);
}

TEST(UdReceiver, AcceptsPayloadThatFitsWithItsHeader) {
  const Opcode& send = opcode(0x64);
  EXPECT_EQ(judge_datagram(send, 60, 256, true, 100), UdReaction::deliver);
  EXPECT_EQ(judge_datagram(send, 61, 256, true, 100), UdReaction::drop);
  EXPECT_EQ(judge_datagram(send, 257, 256, true, 1000), UdReaction::drop);
  EXPECT_EQ(judge_datagram(send, 8, 256, false, 0), UdReaction::drop);
  EXPECT_EQ(judge_datagram(opcode(0x04), 8, 256, true, 100), UdReaction::drop);
}

TEST(UdSender, SendsItsOwnKeyForAPrivilegedOne) {
  EXPECT_EQ(sent_qkey(0x11, 0x22), 0x11U);
  EXPECT_EQ(sent_qkey(0x80000000, 0x22), 0x22U);
}

}  // namespace
}  // namespace rdmawire::machines
