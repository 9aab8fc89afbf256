#include "dissectors/tracking/undecided_losses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/requester.hpp"

namespace rdmawire::tracking {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr bool request = false, response = true;
constexpr bool unnumbered = false, numbered = true;
constexpr std::int64_t second_ns = 1'000'000'000, now = 5 * second_ns;

Event loss_of(Cause place, std::uint32_t psn, std::uint64_t packets = 1) {
  Event event;
  event.kind = EventKind::lost_in_network;
  event.cause = place;
  event.frame = event.cause_frame = psn;
  event.time = now;
  event.psn = psn;
  event.packets = packets;
  return event;
}

Event recovery_of(Cause cause, std::uint64_t cause_frame) {
  Event event;
  event.kind = EventKind::retransmission;
  event.cause = cause;
  event.cause_frame = cause_frame;
  return event;
}

class UndecidedLossesTest : public ::testing::Test {
 protected:
  void add_before(std::uint32_t psn, bool direction = request, bool order = unnumbered, std::uint64_t packets = 1) {
    losses.add_before(loss_of(Cause::before_capture, psn, packets), direction, order);
  }
  void add_after(std::uint32_t psn, bool direction = request) {
    losses.add_after(loss_of(Cause::after_capture, psn), direction);
  }
  void add_response_in_capture(std::uint32_t psn) {
    Event loss = loss_of(Cause::none, psn);
    loss.kind = EventKind::lost_in_capture;
    losses.add_in_capture(loss, response);
  }
  std::vector<std::string> settle() {
    losses.settle({connection, recorded});
    std::vector<std::string> lines;
    for (const Event& event : recorded.events)
      lines.push_back(name_of(event) + " " + std::string(to_string(event.certainty)));
    return lines;
  }

  Connection connection;
  Recorder recorded;
  UndecidedLosses losses;
};

// ---- Before the capture point

TEST_F(UndecidedLossesTest, LossOfNumberedSenderIsCertain) {
  add_before(10, request, numbered);
  EXPECT_FALSE(losses.empty());
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture certain"));
  EXPECT_EQ(recorded.events[0].unobserved, Unobserved::nothing);
  EXPECT_EQ(connection.sent[0].lost_in_network, 1U);
  EXPECT_TRUE(losses.empty());
}

TEST_F(UndecidedLossesTest, LossWithoutSendOrderIsLikely) {
  add_before(10);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture likely"));
  EXPECT_EQ(recorded.events[0].unobserved, Unobserved::send_order);
}

TEST_F(UndecidedLossesTest, ResponderCountsLostResponses) {
  add_before(10, response, numbered, 3);
  settle();
  EXPECT_EQ(connection.sent[0].lost_in_network, 0U);
  EXPECT_EQ(connection.sent[1].lost_in_network, 3U);
}

TEST_F(UndecidedLossesTest, LateFirstTransmissionWithdrawsLoss) {
  add_before(10);
  EXPECT_TRUE(losses.attach(recovery_of(Cause::sequence_error_nak, 10)));
  EXPECT_TRUE(losses.arrived_late(10, request));
  EXPECT_FALSE(losses.arrived_late(10, request)) << "it can arrive only once";
  EXPECT_THAT(settle(), ElementsAre("retransmission reordered certain"));
  EXPECT_EQ(connection.sent[0].lost_in_network, 0U);
}

TEST_F(UndecidedLossesTest, LatePacketOfGapReducesLoss) {
  add_before(0xffffff, request, numbered, 3);
  EXPECT_TRUE(losses.arrived_late(0xffffff, request));
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture certain"));
  EXPECT_EQ(recorded.events[0].psn, 0U);
  EXPECT_EQ(recorded.events[0].packets, 2U);
}

TEST_F(UndecidedLossesTest, LatePacketOfOtherDirectionDoesNotMatter) {
  add_before(10);
  EXPECT_FALSE(losses.arrived_late(10, response));
  EXPECT_FALSE(losses.arrived_late(11, request));
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture likely"));
}

TEST_F(UndecidedLossesTest, SomeLatePacketsMakeLossPossible) {
  for (std::uint32_t psn = 10; psn < 15; ++psn) add_before(psn);
  for (int i = 0; i < 4; ++i) losses.note_late(request);
  EXPECT_TRUE(losses.reorders(request));
  EXPECT_FALSE(losses.reorders(response));
  EXPECT_THAT(settle(), ::testing::Each("lost_in_network before_capture possible"));
  EXPECT_EQ(recorded.events.size(), 5U);
}

TEST_F(UndecidedLossesTest, FrequentLatePacketsReplaceLoss) {
  add_before(10);
  losses.attach(recovery_of(Cause::sequence_error_nak, 10));
  for (int i = 0; i < 4; ++i) losses.note_late(request);
  EXPECT_THAT(settle(), ElementsAre("retransmission reordered likely"));
}

TEST_F(UndecidedLossesTest, NumberedSenderNeedsMoreLatePackets) {
  add_before(10, request, numbered);
  for (int i = 0; i < 15; ++i) losses.note_late(request);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture certain"));
  recorded.events.clear();
  losses = {};
  add_before(10, request, numbered);
  for (int i = 0; i < 16; ++i) losses.note_late(request);
  EXPECT_THAT(settle(), IsEmpty());
}

// ---- Responses

TEST_F(UndecidedLossesTest, MoreResponsesThanRetransmissionsShowLateResponse) {
  add_before(10, response, numbered);
  losses.note_repeat(10, 12);
  losses.note_response(10);
  losses.note_response(10);
  EXPECT_THAT(settle(), IsEmpty());
}

TEST_F(UndecidedLossesTest, OneResponsePerRetransmissionConfirmsLoss) {
  add_before(11, response, numbered);
  losses.note_repeat(10, 12);
  losses.note_response(11);
  losses.note_repeat(11, 12);
  losses.note_response(11);
  losses.note_repeat(12, 13);  // a retransmission of another message
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture certain"));
}

TEST_F(UndecidedLossesTest, ImpliedNakBelongsToLostResponse) {
  add_before(10, request);
  EXPECT_FALSE(losses.attach(recovery_of(Cause::implied_nak, 10)));
  add_before(10, response);
  EXPECT_TRUE(losses.attach(recovery_of(Cause::implied_nak, 10)));
  EXPECT_FALSE(losses.attach(recovery_of(Cause::timeout, 10)));
}

// ---- After the capture point

TEST_F(UndecidedLossesTest, LossAfterCaptureIsLikelyWithoutLatePackets) {
  add_after(10);
  losses.attach(recovery_of(Cause::sequence_error_nak, 10));
  EXPECT_THAT(settle(),
              ElementsAre("lost_in_network after_capture likely", "retransmission sequence_error_nak likely"));
  EXPECT_EQ(recorded.events[0].unobserved, Unobserved::arrival);
}

TEST_F(UndecidedLossesTest, LossAfterCaptureIsPossibleIfNetworkReorders) {
  add_after(10);
  for (int i = 0; i < 4; ++i) losses.note_late(response);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network after_capture possible"));
}

TEST_F(UndecidedLossesTest, MissingResponseAfterCaptureIsPossible) {
  add_after(10, response);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network after_capture possible"));
}

TEST_F(UndecidedLossesTest, ResponseMissingTwiceIsLost) {
  losses.add_after(loss_of(Cause::after_capture, 10), response, true);
  losses.attach(recovery_of(Cause::implied_nak, 10));
  EXPECT_THAT(settle(), ElementsAre("lost_in_network after_capture likely", "retransmission implied_nak likely"));
}

TEST_F(UndecidedLossesTest, OneLatePacketOfFourMakesAllLate) {
  for (std::uint32_t psn = 10; psn < 14; ++psn) add_after(psn);
  losses.attach(recovery_of(Cause::sequence_error_nak, 10));
  losses.note_late_after(request);
  EXPECT_THAT(settle(), ElementsAre("out_of_order after_capture likely", "retransmission reordered likely",
                                    "out_of_order after_capture likely", "out_of_order after_capture likely",
                                    "out_of_order after_capture likely"));
  EXPECT_EQ(connection.sent[0].out_of_order, 4U);
  EXPECT_EQ(connection.sent[0].lost_in_network, 0U);
}

// The packet arrived twice: its retransmission, and its late first transmission.
TEST_F(UndecidedLossesTest, SecondAcknowledgementShowsLatePacket) {
  add_after(10);
  losses.note_second_arrival(9, now + 1000);  // acknowledges only earlier packets
  losses.note_second_arrival(10, now + second_ns);
  losses.note_second_arrival(11, now + 1000);
  EXPECT_THAT(settle(), ElementsAre("out_of_order after_capture likely"));
}

TEST_F(UndecidedLossesTest, FurtherRecoveryExplainsSecondAcknowledgement) {
  add_after(10);
  losses.note_recovery();
  losses.note_second_arrival(10, now + 1000);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network after_capture likely"));
}

TEST_F(UndecidedLossesTest, LaterSecondAcknowledgementDoesNotRefuteLoss) {
  add_after(10);
  losses.note_second_arrival(10, now + second_ns);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network after_capture likely"));
}

// ---- In the capture

TEST_F(UndecidedLossesTest, LossInCaptureIsPossibleIfPacketsAreLate) {
  Event loss = loss_of(Cause::none, 10);
  loss.kind = EventKind::lost_in_capture;
  losses.add_in_capture(loss);
  EXPECT_THAT(settle(), ElementsAre("lost_in_capture certain"));
  recorded.events.clear();
  losses.add_in_capture(loss);
  for (int i = 0; i < 4; ++i) losses.note_late(request);
  EXPECT_THAT(settle(), ElementsAre("lost_in_capture possible"));
  EXPECT_EQ(connection.sent[0].lost_in_capture, 2U);
}

TEST_F(UndecidedLossesTest, LateResponseIsNotLostInCapture) {
  Event loss = loss_of(Cause::none, 10);
  loss.kind = EventKind::lost_in_capture;
  losses.add_in_capture(loss, response);
  losses.note_response(10);
  EXPECT_THAT(settle(), IsEmpty());
  losses.add_in_capture(loss, response);
  losses.note_response(11);
  EXPECT_THAT(settle(), ElementsAre("lost_in_capture certain"));
  EXPECT_EQ(connection.sent[1].lost_in_capture, 1U);
}

// ---- Waiting

TEST_F(UndecidedLossesTest, LossWaitsOneSecond) {
  EXPECT_FALSE(losses.due(now + 10 * second_ns)) << "none waits";
  add_before(10);
  EXPECT_FALSE(losses.due(now + second_ns));
  EXPECT_TRUE(losses.due(now + second_ns + 1));
}

// None of them is forgotten.
TEST_F(UndecidedLossesTest, ManyLossesAreDueAtOnce) {
  for (std::uint32_t psn = 0; psn < 63; ++psn) add_before(psn);
  EXPECT_FALSE(losses.due(now));
  add_before(63);
  EXPECT_TRUE(losses.due(now));
  add_before(64);
  EXPECT_EQ(settle().size(), 65U);
}

// ---- Further evidence

TEST_F(UndecidedLossesTest, RepeatedReadShowsThatResponseDidNotArrive) {
  add_response_in_capture(20);
  losses.note_repeat(20, 24);
  EXPECT_THAT(settle(), ElementsAre("lost_in_network before_capture likely"));
  EXPECT_EQ(connection.sent[1].lost_in_network, 1U);
  EXPECT_EQ(connection.sent[1].lost_in_capture, 0U);
}

TEST_F(UndecidedLossesTest, RepeatedLaterReadDoesNotMatter) {
  add_response_in_capture(20);
  losses.note_repeat(21, 24);
  EXPECT_THAT(settle(), ElementsAre("lost_in_capture certain"));
}

TEST_F(UndecidedLossesTest, LatePacketPrecedesDroppedOne) {
  losses.add_after(loss_of(Cause::after_capture, 20), request, false, true);
  losses.note_late_after(request);
  settle();
  ASSERT_EQ(recorded.events.size(), 1U);
  EXPECT_EQ(recorded.events[0].kind, EventKind::out_of_order);
  EXPECT_EQ(recorded.events[0].psn, 19U);
}

TEST_F(UndecidedLossesTest, LostPacketIsTheOneOfTheNak) {
  losses.add_after(loss_of(Cause::after_capture, 20), request, false, true);
  settle();
  ASSERT_EQ(recorded.events.size(), 1U);
  EXPECT_EQ(recorded.events[0].kind, EventKind::lost_in_network);
  EXPECT_EQ(recorded.events[0].psn, 20U);
}

}  // namespace
}  // namespace rdmawire::tracking
