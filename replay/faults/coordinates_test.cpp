#include "replay/faults/coordinates.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/decode.hpp"
#include "replay/faults/frames_for_test.hpp"

namespace rdmawire::replay {
namespace {

using namespace testing;
using Kind = FrameCoordinates::Kind;

struct Located {
  Coordinator coordinator;
  FrameCoordinates operator()(const std::vector<std::uint8_t>& frame) { return coordinator.locate(decode(frame)); }
};

TEST(Coordinator, PsnsAreRelativeAndWrap) {
  Located at;
  for (int i = 0; i < 4; ++i) {
    const FrameCoordinates c = at(request(0xfffffe + static_cast<std::uint32_t>(i)));
    EXPECT_EQ(c.kind, Kind::request);
    EXPECT_EQ(c.connection, 1U);
    EXPECT_EQ(c.psn, i);
    EXPECT_EQ(c.transmission, 1U);
  }
  EXPECT_EQ(at(request(0xffffff)).psn, 1);
  EXPECT_EQ(at(request(0xfffffd)).psn, -1);
  EXPECT_EQ(at(request(2)).psn, 4);
}

TEST(Coordinator, TransmissionsAreCountedPerPsn) {
  Located at;
  for (std::uint32_t psn = 100; psn < 110; ++psn) EXPECT_EQ(at(request(psn)).transmission, 1U);
  for (std::uint32_t psn = 103; psn < 110; ++psn) EXPECT_EQ(at(request(psn)).transmission, 2U);
  EXPECT_EQ(at(request(103)).transmission, 3U);
  EXPECT_EQ(at(request(110)).transmission, 1U);
  // The first transmission seen counts as the first, also after a gap.
  EXPECT_EQ(at(request(120)).transmission, 1U);
  EXPECT_EQ(at(request(115)).transmission, 1U);
  EXPECT_EQ(at(request(115)).transmission, 2U);
}

TEST(Coordinator, TransmissionsOutsideWindowAreUnknown) {
  Located at;
  for (std::uint32_t psn = 0; psn < Coordinator::window + 5; ++psn) ASSERT_EQ(at(request(psn)).transmission, 1U);
  EXPECT_EQ(at(request(4)).transmission, 0U);
  EXPECT_EQ(at(request(4)).psn, 4);
  EXPECT_EQ(at(request(5)).transmission, 2U);
  EXPECT_EQ(at(request(5'000'000)).psn, 5'000'000);
  EXPECT_EQ(at(request(5'000'000)).transmission, 2U);
}

TEST(Coordinator, MessagesAndPacketsAreNumbered) {
  Located at;
  const auto place = [&](std::uint8_t opcode, std::uint32_t psn) {
    const FrameCoordinates c = at(packet(true, opcode, psn));
    return std::pair(c.message, c.packet);
  };
  EXPECT_EQ(place(op::send_first, 7), std::pair(1U, 1U));
  EXPECT_EQ(place(op::send_middle, 8), std::pair(1U, 2U));
  EXPECT_EQ(place(op::send_last, 9), std::pair(1U, 3U));
  EXPECT_EQ(place(op::send_only, 10), std::pair(2U, 1U));
  EXPECT_EQ(place(op::send_middle, 8), std::pair(1U, 2U)) << "a retransmission has the same number";
  EXPECT_EQ(place(op::read_request, 11), std::pair(3U, 1U));
  EXPECT_EQ(place(op::send_only, 15), std::pair(4U, 1U));
}

TEST(Coordinator, AnswerPsnIsRelativeToRequests) {
  Located at;
  for (std::uint32_t psn = 500; psn < 506; ++psn) at(request(psn));
  const FrameCoordinates c = at(answer(505));
  EXPECT_EQ(c.kind, Kind::answer);
  EXPECT_EQ(c.connection, 1U);
  EXPECT_EQ(c.psn, 5);
  EXPECT_EQ(c.transmission, 1U);
  EXPECT_EQ(at(answer(505)).transmission, 2U);
  // Requests of the other side belong to the same connection.
  const FrameCoordinates back = at(packet(false, op::send_only, 90'000));
  EXPECT_EQ(back.kind, Kind::request);
  EXPECT_EQ(back.connection, 1U);
  EXPECT_EQ(back.psn, 0);
  EXPECT_EQ(at(packet(true, op::send_only, 33, 0x77)).connection, 2U);
}

TEST(Coordinator, TcpSegmentsHaveNumberAndSequence) {
  Located at;
  EXPECT_EQ(at(tcp(true, 999, 0, true)).connection, 1U);
  FrameCoordinates c = at(tcp(true, 1000, 100));
  EXPECT_EQ(c.kind, Kind::tcp);
  EXPECT_EQ(c.sequence, 0);
  EXPECT_EQ(c.segment, 1U);
  EXPECT_EQ(c.bytes, 100U);
  EXPECT_EQ(at(tcp(false, 77, 0)).connection, 1U);
  EXPECT_EQ(at(tcp(true, 1100, 50)).segment, 2U);
  EXPECT_EQ(at(tcp(true, 1150, 50)).segment, 3U);
  c = at(tcp(true, 1100, 50));
  EXPECT_EQ(c.segment, 2U);
  EXPECT_EQ(c.transmission, 2U);
  EXPECT_EQ(c.sequence, 100);
  EXPECT_EQ(at(tcp(true, 1200, 0)).segment, 0U) << "acknowledgement without data";
  EXPECT_EQ(at(tcp(true, 1200, 10)).segment, 4U);
  // A segment that was lost upstream appears for the first time.
  EXPECT_EQ(at(tcp(true, 1310, 50)).segment, 5U);
  EXPECT_EQ(at(tcp(true, 1210, 100)).segment, 6U);
  EXPECT_EQ(at(tcp(true, 1310, 20)).segment, 5U);
  c = at(tcp(true, 1210, 100));
  EXPECT_EQ(c.segment, 6U);
  EXPECT_EQ(c.transmission, 2U);
  for (std::uint32_t i = 0; i < Coordinator::window + 10; ++i) at(tcp(true, 10'000 + i * 10, 10));
  EXPECT_EQ(at(tcp(true, 1000, 100)).transmission, 0U) << "too old";
}

TEST(Coordinator, ManagementPacketsHaveNoCoordinates) {
  Located at;
  EXPECT_EQ(at(packet(true, 0x64, 1, 1)).kind, Kind::other);
  EXPECT_EQ(at(std::vector<std::uint8_t>(60, 0)).kind, Kind::other);
  EXPECT_EQ(at({}).connection, 0U);
}

TEST(Coordinator, ConnectionsAreBounded) {
  Coordinator coordinator(4);
  for (std::uint32_t qp = 2; qp < 20; ++qp) coordinator.locate(decode(packet(true, op::send_only, 5, qp)));
  EXPECT_EQ(coordinator.forgotten(), 14U);
  EXPECT_EQ(coordinator.locate(decode(packet(true, op::send_only, 6, 19))).psn, 1);
  EXPECT_EQ(coordinator.locate(decode(packet(true, op::send_only, 6, 2))).psn, 0);
}

}  // namespace
}  // namespace rdmawire::replay
