// Tests of recognized stacks and of their harmless deviations.

#include "conformance/monitors/known_stack.hpp"

#include <gtest/gtest.h>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {
namespace {

// Values of captures/samples/rping.pcap (QP 1), and of rc-pingpong.pcap.gz.
TEST(KnownStack, RxeIsRecognizedByItsSourcePort) {
  EXPECT_EQ(recognize({.source_port = 55410, .sender_qp = 1}), Stack::linux_rxe);
  EXPECT_EQ(recognize({.source_port = 57236, .sender_qp = 0x11}), Stack::linux_rxe);
  EXPECT_EQ(recognize({.source_port = 57236, .sender_qp = 0x12}), Stack::unknown) << "the port of another QP";
  EXPECT_EQ(recognize({.source_port = 0, .sender_qp = 1}), Stack::unknown);
  EXPECT_EQ(recognize({.source_port = 55410, .sender_qp = 1, .migrated = true}), Stack::unknown);
}

TEST(KnownStack, AddressKeepsItsStack) {
  KnownStacks stacks;
  const auto one = tracking::PortAddress::of_ipv4(0x0a000001), other = tracking::PortAddress::of_ipv4(0x0a000002);
  stacks.learn(one, {.source_port = 55410, .sender_qp = 1});
  stacks.learn(one, {.source_port = 63600, .sender_qp = 0x11});
  stacks.learn(other, {.source_port = 63600, .sender_qp = 0x11});
  EXPECT_EQ(stacks.of(one), Stack::linux_rxe);
  EXPECT_EQ(stacks.of(other), Stack::unknown);
}

TEST(KnownStack, OnlyListedRulesOfTheStackAreHarmless) {
  const Rule& migration = *find_rule("bth.sender.migration.state-constant");
  EXPECT_FALSE(harmless_deviation(Stack::linux_rxe, migration).empty());
  EXPECT_TRUE(harmless_deviation(Stack::unknown, migration).empty());
  EXPECT_TRUE(harmless_deviation(Stack::linux_rxe, *find_rule("rc.responder.psn.sequence-error")).empty());
}

}  // namespace
}  // namespace rdmawire::conformance
