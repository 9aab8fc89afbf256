#include "dissectors/tracking/mrc_tracker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/device/mrc/exchange.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::tracking {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace exchange = conformance::mrc;

std::vector<MrcFlow> track(const std::vector<exchange::CapturedFrame>& frames, MrcTracker&& tracker = MrcTracker()) {
  Dissector dissector;
  Packet packet;
  for (const exchange::CapturedFrame& frame : frames) {
    ++packet.number;
    packet.time_ns = frame.time;
    dissector.dissect(packet, frame.bytes, static_cast<std::uint32_t>(frame.bytes.size()));
    tracker.add(packet);
  }
  return tracker.flows();
}

TEST(MrcTracker, UndisturbedExchangeHasNoRetransmission) {
  const auto flows = track(exchange::run({.messages = 30, .disturbed = false}));
  ASSERT_EQ(flows.size(), 1U);
  const MrcFlow& flow = flows[0];
  EXPECT_EQ(flow.dest_qp, 0x22U);
  EXPECT_EQ(flow.messages, 30U);
  EXPECT_EQ(flow.completed_messages, 30U);
  EXPECT_EQ(flow.retransmissions, 0U);
  EXPECT_EQ(flow.trimmed, 0U);
  EXPECT_EQ(flow.unmatched_entropy, 0U);
  EXPECT_EQ(flow.paths.size(), 8U);
  EXPECT_GT(flow.late, 0U) << "the paths have different delays";
  std::uint64_t packets = 0;
  for (const MrcPath& path : flow.paths) {
    packets += path.packets;
    EXPECT_EQ(path.state, MrcPathState::good);
  }
  EXPECT_EQ(packets, flow.packets);
  for (const std::string& finding : findings_of(flow)) EXPECT_THAT(finding, HasSubstr("out of order"));
}

TEST(MrcTracker, CountsMatchTheFrames) {
  const auto frames = exchange::run({.messages = 60});
  std::uint64_t writes = 0, trimmed = 0, flagged = 0, nacks = 0, sacks = 0, probes = 0;
  for (const auto& frame : frames) {
    const HeaderStack stack = decode(frame.bytes);
    const auto bth = stack.get<MrcBth>();
    ASSERT_TRUE(bth);
    const MrcOperation operation = mrc_opcode(bth->get<"opcode">()).operation;
    writes += operation == MrcOperation::rdma_write;
    trimmed += stack.cut;
    flagged += bth->get<"rtx">() != 0;
    nacks += operation == MrcOperation::nack;
    sacks += operation == MrcOperation::sack;
    probes += operation == MrcOperation::probe;
  }
  const auto flows = track(frames);
  ASSERT_EQ(flows.size(), 1U);
  const MrcFlow& flow = flows[0];
  EXPECT_EQ(flow.packets, writes);
  EXPECT_EQ(flow.trimmed, trimmed);
  EXPECT_EQ(flow.retransmissions, flagged);
  EXPECT_EQ(flow.nacks[nack_reason::trimmed], nacks);
  EXPECT_EQ(flow.sacks, sacks);
  EXPECT_EQ(flow.probes, probes);
  EXPECT_EQ(flow.probe_responses, probes) << "the capture point is after the network";
  EXPECT_EQ(flow.messages, 60U);
  EXPECT_EQ(flow.completed_messages, 60U);
  EXPECT_GT(trimmed, 0U);
  EXPECT_GT(flagged, trimmed);
  EXPECT_THAT(findings_of(flow), Contains(HasSubstr("not corruption")));
  EXPECT_THAT(findings_of(flow), Contains(HasSubstr("retransmissions")));
}

TEST(MrcTracker, TrimmedPacketIsCongestionOfItsPath) {
  const auto frames = exchange::run({});
  std::vector<exchange::CapturedFrame> begin;
  for (const auto& frame : frames) {
    begin.push_back(frame);
    if (decode(frame.bytes).cut) break;
  }
  const auto flows = track(begin);
  ASSERT_EQ(flows.size(), 1U);
  const HeaderStack stack = decode(begin.back().bytes);
  const std::uint16_t port = stack.get<Udp>()->get<"src_port">();
  const auto path = std::ranges::find(flows[0].paths, port, &MrcPath::port);
  ASSERT_NE(path, flows[0].paths.end());
  EXPECT_EQ(path->state, MrcPathState::congested);
  EXPECT_EQ(path->state_frame, begin.size());
}

// A packet that is retransmitted without SACK or NACK shows a failed path, until a probe response shows that it works.
TEST(MrcTracker, SilentPathIsFailedUntilAProbeResponse) {
  std::vector<exchange::CapturedFrame> frames;
  const auto write = [&](std::uint32_t psn, std::uint16_t port, bool rtx) {
    Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>().set<"src_port">(port);
    frame /= Value<MrcBth>().set<"opcode">(0xca).set<"dest_qp">(0x22).set<"psn">(psn).set<"rtx">(rtx);
    frame /= HeaderValue(info<Meth>);
    frame /= HeaderValue(info<Reth>);
    frame.payload = {1, 2, 3, 4};
    frames.push_back({0, frame.encode()});
  };
  write(1, 0xc001, false);
  write(2, 0xc002, false);
  write(1, 0xc002, true);
  auto flows = track(frames);
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].paths[0].state, MrcPathState::failed);
  EXPECT_EQ(flows[0].paths[0].silent, 1U);
  EXPECT_EQ(flows[0].paths[1].state, MrcPathState::good);
  EXPECT_THAT(findings_of(flows[0]), Contains(HasSubstr("source port 49153 failed (frame 3)")));

  Frame probe = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>().set<"src_port">(0xc001);
  probe /= Value<MrcBth>().set<"opcode">(0xde).set<"dest_qp">(0x22);
  probe /= Value<Peth>().set<"probe_id">(9);
  frames.push_back({0, probe.encode()});
  Frame response = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>().set<"src_port">(0xd000);
  response /= Value<MrcBth>().set<"opcode">(0xdc).set<"dest_qp">(0x11);
  response /= Value<Seth>().set<"probe_response">(1).set<"ack_psn_offset">(9).set<"spdcid">(0x22).set<"cack_psn">(2);
  response /= HeaderValue(info<CcState>);
  frames.push_back({0, response.encode()});
  flows = track(frames);
  EXPECT_EQ(flows[0].paths[0].state, MrcPathState::good);
  EXPECT_EQ(flows[0].paths[0].probe_responses, 1U);
  EXPECT_EQ(flows[0].completed_messages, 2U);
  EXPECT_THAT(findings_of(flows[0]), Contains(HasSubstr("failed and recovered")));
}

TEST(MrcTracker, NumberOfFlowsIsLimited) {
  std::vector<exchange::CapturedFrame> frames;
  for (std::uint32_t qp = 1; qp <= 10; ++qp) {
    Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>();
    frame /= Value<MrcBth>().set<"opcode">(0xca).set<"dest_qp">(qp);
    frame /= HeaderValue(info<Meth>);
    frame /= HeaderValue(info<Reth>);
    frames.push_back({0, frame.encode()});
  }
  EXPECT_EQ(track(frames, MrcTracker(3)).size(), 3U);
}

TEST(MrcTracker, UndisturbedFlowHasNoFinding) { EXPECT_THAT(findings_of(MrcFlow{}), IsEmpty()); }

}  // namespace
}  // namespace rdmawire::tracking
