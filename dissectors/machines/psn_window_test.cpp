#include "dissectors/machines/psn_window.hpp"

#include <gtest/gtest.h>

#include "dissectors/machines/message_sequence.hpp"

namespace rdmawire::machines {
namespace {

TEST(ResponderWindow, ClassifiesPsnsByHalves) {
  const ResponderWindow window{Psn(0)};
  EXPECT_EQ(window.place(Psn(0)), RequestPlace::expected);
  EXPECT_EQ(window.place(Psn(0xffffff)), RequestPlace::duplicate);
  EXPECT_EQ(window.place(Psn(0x800000)), RequestPlace::duplicate);
  EXPECT_EQ(window.place(Psn(0x7fffff)), RequestPlace::ahead);
  EXPECT_EQ(window.place(Psn(1)), RequestPlace::ahead);
}

TEST(ResponderWindow, ContinuesAcrossTheWrap) {
  const ResponderWindow window = ResponderWindow{Psn(0xfffffe)}.after(Psn(0xfffffe), 4);
  EXPECT_EQ(window.expected.value(), 2U);
  EXPECT_EQ(window.place(Psn(0xffffff)), RequestPlace::duplicate);
}

TEST(RequesterWindow, ClassifiesResponses) {
  RequesterWindow window{Psn(0xfffffe), Psn(0xfffffe)};
  EXPECT_EQ(window.outstanding(), 0U);
  EXPECT_EQ(window.place(Psn(0xfffffe)), ResponsePlace::unsent);
  window = window.sent(Psn(0xfffffe), 1).sent(Psn(0xffffff), 1).sent(Psn(0), 16);
  EXPECT_EQ(window.outstanding(), 18U);
  EXPECT_EQ(window.place(Psn(0xffffff)), ResponsePlace::outstanding);
  EXPECT_EQ(window.place(Psn(15)), ResponsePlace::outstanding);
  EXPECT_EQ(window.place(Psn(16)), ResponsePlace::unsent);
  window = window.acknowledged(Psn(0));
  EXPECT_EQ(window.outstanding(), 15U);
  EXPECT_EQ(window.place(Psn(0)), ResponsePlace::acknowledged);
  EXPECT_EQ(window.place(Psn(0xffffff)), ResponsePlace::acknowledged);
}

TEST(RequesterWindow, InvalidAcknowledgementsAreIgnored) {
  const RequesterWindow window{Psn(10), Psn(20)};
  EXPECT_EQ(window.acknowledged(Psn(9)).oldest.value(), 10U);
  EXPECT_EQ(window.acknowledged(Psn(20)).oldest.value(), 10U);
  EXPECT_EQ(window.acknowledged(Psn(19)).outstanding(), 0U);
}

TEST(UcReceiverWindow, AcceptsAMessageAtItsOwnPsn) {
  const UcReceiverWindow window{Psn(5)};
  EXPECT_TRUE(window.accepts(Psn(5), false));
  EXPECT_FALSE(window.accepts(Psn(6), false));
  EXPECT_TRUE(window.accepts(Psn(99), true));
}

TEST(PsnsOfRead, OnePerResponsePacket) {
  EXPECT_EQ(psns_of_read(0, 1024), 1U);
  EXPECT_EQ(psns_of_read(1, 1024), 1U);
  EXPECT_EQ(psns_of_read(1024, 1024), 1U);
  EXPECT_EQ(psns_of_read(1025, 1024), 2U);
  EXPECT_EQ(psns_of_read(0x80000000, 256), 0x800000U);
}

TEST(MessageSequence, FirstMiddleLast) {
  const auto op = [](Operation operation, Position position) {
    return *find_opcode(Transport::rc, operation, position);
  };
  MessageSequence sequence;
  const Opcode first = op(Operation::rdma_write, Position::first), middle = op(Operation::rdma_write, Position::middle),
               last = op(Operation::rdma_write, Position::last), only = op(Operation::send, Position::only),
               other = op(Operation::send, Position::last);
  EXPECT_TRUE(sequence.allows(only));
  EXPECT_FALSE(sequence.allows(middle));
  sequence = sequence.after(first);
  EXPECT_TRUE(sequence.allows(middle));
  EXPECT_TRUE(sequence.allows(last));
  EXPECT_FALSE(sequence.allows(other));
  EXPECT_FALSE(sequence.allows(first));
  EXPECT_FALSE(sequence.allows(only));
  EXPECT_TRUE(sequence.after(last).allows(first));
}

TEST(Fits, PayloadLengthByPosition) {
  const Opcode first = *find_opcode(Transport::rc, Operation::send, Position::first);
  const Opcode last = *find_opcode(Transport::rc, Operation::send, Position::last);
  const Opcode only = *find_opcode(Transport::rc, Operation::send, Position::only);
  EXPECT_TRUE(fits(first, 1024, 1024));
  EXPECT_FALSE(fits(first, 1020, 1024));
  EXPECT_FALSE(fits(last, 0, 1024));
  EXPECT_TRUE(fits(last, 1024, 1024));
  EXPECT_TRUE(fits(only, 0, 1024));
  EXPECT_FALSE(fits(only, 1025, 1024));
}

}  // namespace
}  // namespace rdmawire::machines
