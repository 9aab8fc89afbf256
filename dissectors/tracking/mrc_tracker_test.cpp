#include "dissectors/tracking/mrc_tracker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

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

std::vector<std::string> titles_of(const MrcFlow& flow) {
  std::vector<std::string> titles;
  for (const MrcFinding& finding : findings_of(flow)) titles.push_back(finding.title);
  return titles;
}

void add_all(MrcTracker& tracker, const std::vector<exchange::CapturedFrame>& frames) {
  Dissector dissector;
  Packet packet;
  for (const exchange::CapturedFrame& frame : frames) {
    ++packet.number;
    packet.time_ns = frame.time;
    dissector.dissect(packet, frame.bytes, static_cast<std::uint32_t>(frame.bytes.size()));
    tracker.add(packet);
  }
}

std::vector<MrcFlow> track(const std::vector<exchange::CapturedFrame>& frames) {
  MrcTracker tracker;
  add_all(tracker, frames);
  return tracker.flows();
}

/// Returns a WRITE Only to a QP.
std::vector<std::uint8_t> write_to(std::uint32_t qp, std::uint32_t psn = 0, std::uint16_t port = 0xc001) {
  Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>().set<"src_port">(port);
  frame /= Value<MrcBth>().set<"opcode">(0xca).set<"dest_qp">(qp).set<"psn">(psn);
  frame /= HeaderValue(info<Meth>);
  frame /= HeaderValue(info<Reth>);
  return frame.encode();
}

/// Returns a SACK from the QP to which write_to() writes.
std::vector<std::uint8_t> sack_of(std::uint32_t psn, std::uint32_t qp = 0x22) {
  Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>().set<"src_port">(0xd000);
  frame /= Value<MrcBth>().set<"opcode">(0xdc).set<"dest_qp">(0x11);
  frame /= Value<Seth>().set<"cack_psn">(psn).set<"spdcid">(qp);
  frame /= HeaderValue(info<CcState>);
  return frame.encode();
}

TEST(MrcTracker, UndisturbedExchangeHasNoRetransmission) {
  const auto flows = track(exchange::run({.messages = 30, .disturbed = false}));
  ASSERT_EQ(flows.size(), 1U);
  const MrcFlow& flow = flows[0];
  EXPECT_EQ(flow.dest_qp, 0x22U);
  EXPECT_EQ(flow.messages, 30U);
  EXPECT_EQ(flow.completed_messages, 30U);
  EXPECT_EQ(flow.retransmissions.count, 0U);
  EXPECT_EQ(flow.trimmed.count, 0U);
  EXPECT_EQ(flow.unmatched_entropy, 0U);
  EXPECT_EQ(flow.paths.size(), 8U);
  EXPECT_GT(flow.late.count, 0U) << "the paths have different delays";
  std::uint64_t packets = 0;
  for (const MrcPath& path : flow.paths) {
    packets += path.packets;
    EXPECT_EQ(path.state, MrcPathState::good);
  }
  EXPECT_EQ(packets, flow.packets);
  EXPECT_TRUE(flow.from_qp_known);
  EXPECT_EQ(flow.from_qp, 0x11U) << "SACKs are sent to it";
  EXPECT_EQ(flow.endpoint_operations[0].responses,
            flow.endpoint_operations[0].status_updates + flow.endpoint_operations[0].probes);
  EXPECT_GT(flow.endpoint_operations[0].probes, 0U);
  for (const std::string& title : titles_of(flow)) EXPECT_THAT(title, HasSubstr("out of order"));
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
  EXPECT_EQ(flow.trimmed.count, trimmed);
  EXPECT_EQ(flow.retransmissions.count, flagged);
  EXPECT_EQ(flow.nacks_of(nack_reason::trimmed), nacks);
  EXPECT_EQ(flow.sacks, sacks);
  EXPECT_EQ(flow.probes, probes);
  EXPECT_EQ(flow.probe_responses, probes) << "the capture point is after the network";
  EXPECT_EQ(flow.messages, 60U);
  EXPECT_EQ(flow.completed_messages, 60U);
  EXPECT_GT(trimmed, 0U);
  EXPECT_GT(flagged, trimmed);
  EXPECT_THAT(titles_of(flow), Contains(HasSubstr("not corruption")));
  EXPECT_THAT(titles_of(flow), Contains(HasSubstr("retransmitted")));
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

// If a packet without SACK or NACK is retransmitted, its path counts as failed, until a probe response shows that it
// works.
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
  frames.push_back({0, sack_of(0)});
  write(1, 0xc002, true);
  auto flows = track(frames);
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].paths[0].state, MrcPathState::failed);
  EXPECT_EQ(flows[0].paths[0].silent, 1U);
  EXPECT_EQ(flows[0].paths[1].state, MrcPathState::good);
  EXPECT_THAT(titles_of(flows[0]),
              Contains(HasSubstr("1 of 2 paths failed: flow label 0x0000, source port 49153 (frame 4)")));

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
  EXPECT_THAT(titles_of(flows[0]), Contains(HasSubstr("failed and recovered")));
}

/// Records the flows that are reported.
class Reports final : public Sink {
 public:
  void mrc_flow(const MrcFlow& flow, CloseReason reason) override {
    flows.push_back(flow);
    evicted += reason == CloseReason::evicted;
  }
  std::vector<MrcFlow> flows;
  std::size_t evicted = 0;
};

TEST(MrcTracker, LeastRecentlyUsedFlowsAreEvictedBeyondTheLimit) {
  std::vector<exchange::CapturedFrame> frames;
  for (std::uint32_t qp = 1; qp <= 10; ++qp) {
    frames.push_back({0, write_to(qp, 1)});
    frames.push_back({0, write_to(1, qp + 1)});  // keeps QP 1 in use
  }
  Reports unlimited;
  MrcTracker large(&unlimited);
  add_all(large, frames);
  const std::size_t all = large.memory();
  EXPECT_EQ(large.level().highest, all);
  EXPECT_TRUE(unlimited.flows.empty()) << "flows are reported once";
  large.finish();
  EXPECT_EQ(unlimited.flows.size(), 10U);
  EXPECT_EQ(unlimited.evicted, 0U);
  EXPECT_EQ(large.memory(), 0U);
  ASSERT_EQ(unlimited.flows.front().packets, 11U) << "in the order of their first packets";

  Reports limited;
  MrcTracker small(&limited, all / 2);
  add_all(small, frames);
  EXPECT_LE(small.memory(), all / 2);
  EXPECT_GT(limited.evicted, 2U);
  EXPECT_EQ(small.evicted(), limited.evicted);
  EXPECT_EQ(limited.flows.front().dest_qp, 2U) << "the flow that was used least recently";
  small.finish();
  std::uint64_t packets = 0;
  for (const MrcFlow& flow : limited.flows) packets += flow.packets;
  EXPECT_EQ(packets, frames.size()) << "no packet is lost";
  EXPECT_EQ(std::ranges::find(limited.flows, 1U, &MrcFlow::dest_qp)->packets, 11U);
}

TEST(MrcTracker, NoteStatesTheRoleOfEachPacket) {
  MrcTracker tracker;
  Dissector dissector;
  Packet packet;
  const auto note_of = [&](const std::vector<std::uint8_t>& bytes) {
    ++packet.number;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    tracker.add(packet);
    return tracker.note();
  };
  MrcNote note = note_of(write_to(1, 10));
  EXPECT_EQ(note.connection, 1U);
  EXPECT_TRUE(note.has_path && !note.retransmission && !note.out_of_order);
  EXPECT_EQ(note.state, MrcPathState::good);
  note = note_of(write_to(1, 9, 0xc002));
  EXPECT_TRUE(note.out_of_order && !note.retransmission);
  note = note_of(write_to(1, 10));
  EXPECT_FALSE(note.retransmission) << "the same packet, captured twice";
  note_of(sack_of(8, 1));
  note = note_of(write_to(1, 10, 0xc002));
  EXPECT_TRUE(note.retransmission && !note.out_of_order);
  EXPECT_EQ(note.connection, 1U);
  note = note_of(write_to(1, 11));
  EXPECT_EQ(note.state, MrcPathState::failed) << "no response to frame 1";
  EXPECT_EQ(note.state_frame, 5U);
  const Frame other = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>();
  EXPECT_EQ(note_of(other.encode()).connection, 0U);
}

// An Acknowledge can be assigned only if there is one flow between the ports.
TEST(MrcTracker, AcknowledgeBelongsToTheOnlyFlowBetweenTwoPorts) {
  const auto acknowledge = [](std::uint32_t psn) {
    Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>();
    frame /= Value<MrcBth>().set<"opcode">(0xd1).set<"dest_qp">(0x11).set<"psn">(psn);
    frame /= HeaderValue(info<Aeth>);
    return frame.encode();
  };
  auto flows = track({{0, write_to(1, 5)}, {0, acknowledge(5)}});
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].acknowledgements, 1U);
  EXPECT_EQ(flows[0].completed_messages, 1U);
  flows = track({{0, write_to(1, 5)}, {0, write_to(2, 5)}, {0, acknowledge(5)}});
  ASSERT_EQ(flows.size(), 2U);
  EXPECT_EQ(flows[0].acknowledgements + flows[1].acknowledgements, 0U);
}

TEST(MrcTracker, PortThatAnEndpointReportsAsDownIsAFinding) {
  const auto update = [](std::uint32_t status) {
    Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>();
    frame /= Value<MrcBth>().set<"opcode">(0xd8).set<"dest_qp">(mrc::endpoint_qp);
    frame /= Value<Erth>().set<"port_status">(status);
    return frame.encode();
  };
  auto flows = track({{0, update(7)}, {0, write_to(1)}, {0, update(7)}});
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].endpoint_operations[0].status_updates, 2U);
  EXPECT_EQ(flows[0].endpoint_operations[0].first_frame, 1U);
  EXPECT_THAT(titles_of(flows[0]), IsEmpty());
  flows = track({{0, update(7)}, {0, write_to(1)}, {0, update(5)}});
  ASSERT_EQ(flows.size(), 1U);
  const std::vector<MrcFinding> findings = findings_of(flows[0]);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, MrcFindingKind::port_down);
  EXPECT_EQ(findings[0].seen.first_frame, 3U);
  EXPECT_THAT(findings[0].unverified, IsEmpty());
}

TEST(MrcTracker, FindingNamesItsUnverifiedFields) {
  const auto flows = track(exchange::run({}));
  ASSERT_EQ(flows.size(), 1U);
  bool sacks = false;
  for (const MrcFinding& finding : findings_of(flows[0])) {
    if (finding.kind == MrcFindingKind::congested) {
      sacks = true;
      EXPECT_THAT(finding.unverified, ::testing::ElementsAre("seth.entropy", "seth.spdcid", "seth.dpdcid"));
    }
    if (finding.kind == MrcFindingKind::trimmed) {
      EXPECT_THAT(finding.unverified, IsEmpty()) << "trimmed packets are captured";
    }
  }
  EXPECT_TRUE(sacks);
}

// Packets of paths beyond the limit count only for the flow.
TEST(MrcTracker, PathsBeyondTheLimitAreCountedOnlyInTotal) {
  std::vector<exchange::CapturedFrame> frames;
  for (std::uint32_t i = 0; i < MrcTracker::most_paths + 2; ++i)
    frames.push_back({0, write_to(1, i, static_cast<std::uint16_t>(1000 + i))});
  frames.push_back(
      {0, write_to(1, MrcTracker::most_paths + 1, 1000)});  // retransmission of a packet whose path has no row
  const auto flows = track(frames);
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_TRUE(flows[0].paths_limited);
  EXPECT_EQ(flows[0].paths.size(), MrcTracker::most_paths);
  EXPECT_EQ(flows[0].packets, frames.size());
  EXPECT_EQ(flows[0].retransmissions.count, 1U);
  EXPECT_EQ(flows[0].paths[0].state, MrcPathState::good);
  EXPECT_EQ(flows[0].silent.count, 0U);
}

// A capture of both directions of a switch contains each packet twice.
TEST(MrcTracker, PacketsThatWereCapturedTwiceAreNoRetransmissions) {
  std::vector<exchange::CapturedFrame> twice;
  for (const exchange::CapturedFrame& frame : exchange::run({.messages = 30, .disturbed = false})) {
    twice.push_back(frame);
    twice.push_back(frame);
  }
  const auto flows = track(twice);
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].retransmissions.count, 0U);
  EXPECT_EQ(flows[0].silent.count, 0U);
  for (const MrcPath& path : flows[0].paths) EXPECT_EQ(path.state, MrcPathState::good);
}

TEST(MrcTracker, CaptureWithoutResponsesAccusesNoPath) {
  std::vector<exchange::CapturedFrame> writes;
  for (const exchange::CapturedFrame& frame : exchange::run({.messages = 60})) {
    const HeaderStack stack = decode(frame.bytes);
    if (mrc_opcode(stack.get<MrcBth>()->get<"opcode">()).operation == MrcOperation::rdma_write) writes.push_back(frame);
  }
  const auto flows = track(writes);
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_GT(flows[0].retransmissions.count, 0U);
  EXPECT_EQ(flows[0].silent.count, 0U);
  for (const MrcPath& path : flows[0].paths) EXPECT_NE(path.state, MrcPathState::failed);
}

// Two PSNs at a distance of 2^23 have no order. A SACK must not search half of all PSNs.
TEST(MrcTracker, SackOfAPsnOutsideTheWindowIsIgnored) {
  MrcTracker tracker;
  Dissector dissector;
  Packet packet;
  const auto add = [&](const std::vector<std::uint8_t>& bytes) {
    ++packet.number;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    tracker.add(packet);
  };
  add(write_to(0x22, 1000));
  const auto begin = std::clock();
  add(sack_of(1000 + 0x800000));
  for (unsigned i = 0; i < 2000; ++i) {
    add(sack_of(1001 + 0x800000));
    add(sack_of(1000));
  }
  // 4,000 searches of half of all PSNs would take minutes.
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 20);
  ASSERT_EQ(tracker.flows().size(), 1U);
  EXPECT_EQ(tracker.flows()[0].sacks, 4001U);
}

TEST(MrcTracker, UndisturbedFlowHasNoFinding) { EXPECT_THAT(findings_of(MrcFlow{}), IsEmpty()); }

}  // namespace
}  // namespace rdmawire::tracking
