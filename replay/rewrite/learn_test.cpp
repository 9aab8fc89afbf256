#include "replay/rewrite/learn.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/rewrite/maps_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::ElementsAre;
using tracking::testing::sample;
constexpr auto ipv4 = &PortAddress::of_ipv4;

TEST(FlowLearner, ConnectionWithCmExchange) {
  const Learnt learnt = testing::learn(sample("rping.pcap"));
  EXPECT_EQ(learnt.frames, 379U);
  EXPECT_EQ(learnt.snapped, 0U);
  ASSERT_EQ(learnt.map.connections.size(), 1U);
  const MappedConnection& c = learnt.map.connections[0];
  EXPECT_EQ(c.name, "connection 1");
  EXPECT_EQ(who(c), "10.0.0.3 QP 0x11 ↔ 10.0.0.2 QP 0x11");
  EXPECT_EQ(c.mtu.captured, 1024U);
  EXPECT_EQ(c.pkey.captured, 0xffff);
  EXPECT_EQ(c.vlan.id.captured, MappedVlan::untagged);
  const MappedEnd &client = c.at(Side::a), &server = c.at(Side::b);
  EXPECT_EQ(client.address.captured, ipv4(0x0a000003));
  EXPECT_EQ(client.mac.captured, 0x525400000003U);
  // The requester starts with the starting PSN of the REP (frame 16), the responder with that of the REQ (frame 15).
  EXPECT_EQ(client.psn.captured, 0x806831U);
  EXPECT_EQ(server.psn.captured, 0x9d7fd1U);
  EXPECT_EQ(client.comm_id.captured, 0xa09f7c2dU);
  EXPECT_EQ(server.comm_id.captured, 0x60380aaaU);
  EXPECT_EQ(client.source_port.captured, 63600);
  ASSERT_EQ(client.regions.size(), 2U) << "the rping server reads and writes the client's memory";
  EXPECT_EQ(client.regions[0].key.captured, 0x4bcU);
  EXPECT_EQ(client.regions[0].base.captured, 0x55b324a094c0U);
  EXPECT_EQ(client.regions[0].length, 4000U);
  EXPECT_TRUE(server.regions.empty());
  EXPECT_FALSE(client.qp.live);
}

TEST(FlowLearner, DatagramQKeys) {
  const Learnt learnt = testing::learn(sample("ud-pingpong.pcap"));
  ASSERT_EQ(learnt.map.connections.size(), 1U);
  EXPECT_EQ(learnt.map.connections[0].service, tracking::Service::ud);
  for (const MappedEnd& end : learnt.map.connections[0].ends) EXPECT_EQ(end.qkey.captured, 0x11111111U);
}

TEST(FlowLearner, IwarpStagsAndTcpSequence) {
  const Learnt learnt = testing::learn(sample("siw-rping.pcap"));
  ASSERT_EQ(learnt.map.connections.size(), 1U);
  const MappedConnection& c = learnt.map.connections[0];
  EXPECT_EQ(c.service, tracking::Service::iwarp);
  EXPECT_EQ(who(c), "10.0.0.3 port 32770 ↔ 10.0.0.2 port 7174");
  EXPECT_EQ(c.at(Side::a).psn.captured, 0xd75226f3U);
  ASSERT_EQ(c.at(Side::a).regions.size(), 2U);
  EXPECT_EQ(c.at(Side::a).regions[0].key.captured, 0x55ebfd00U);
  ASSERT_EQ(c.at(Side::b).regions.size(), 1U) << "sink of the server's READs";
}

TEST(FlowLearner, PsnsUsedByEachEndpoint) {
  const Learnt learnt = testing::learn(sample("ud-pingpong.pcap"));
  ASSERT_EQ(learnt.psns.size(), 1U);
  EXPECT_THAT(learnt.psns[0], ElementsAre(50, 50));
}

TEST(FlowLearner, VlanAndJumboFrames) {
  const Learnt learnt = testing::learn(sample("rc-write-jumbo.pcapng.zst"));
  ASSERT_EQ(learnt.map.connections.size(), 1U);
  EXPECT_EQ(learnt.map.connections[0].vlan.id.captured, 7);
  EXPECT_EQ(learnt.map.connections[0].mtu.captured, 4096U);
}

}  // namespace
}  // namespace rdmawire::replay
