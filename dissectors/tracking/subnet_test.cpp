// Tests records of subnet administration and performance management.

#include "dissectors/tracking/subnet.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/pm.hpp"
#include "dissectors/protocol/sa.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/captures_for_test.hpp"

namespace rdmawire::tracking {
namespace {

struct Recorder final : ManagementSink {
  void multicast(const MulticastMembership& m) override { memberships.push_back(m); }
  void path(const PathGiven& p) override { paths.push_back(p); }
  void port_counters(const PortCounterReading& c) override { counters.push_back(c); }
  std::vector<MulticastMembership> memberships;
  std::vector<PathGiven> paths;
  std::vector<PortCounterReading> counters;
};

class Wires {
 public:
  explicit Wires(std::uint32_t capacity = Subnet::default_capacity) : subnet(recorder, capacity) {}

  void see(std::uint16_t from, std::uint16_t to, std::uint8_t method, std::uint64_t transaction,
           const std::vector<HeaderValue>& headers, std::uint16_t status = 0) {
    Frame frame;
    frame /= Value<Lrh>().set<"slid">(from).set<"dlid">(to);
    frame /= Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1);
    frame /= Value<Deth>().set<"src_qp">(1);
    frame /= Value<Mad>().set<"method">(method).set<"transaction_id">(transaction).set<"status">(status);
    std::size_t total_bytes = Mad::size;
    for (const HeaderValue& header : headers) {
      total_bytes += header.bytes().size();
      frame /= header;
    }
    frame.payload.resize(Mad::whole - total_bytes);
    const auto bytes = frame.encode();
    packet_.number = ++frames_;
    packet_.time_ns = static_cast<std::int64_t>(frames_) * 1000;
    packet_.link = LinkType::infiniband;
    dissector_.dissect(packet_, bytes, static_cast<std::uint32_t>(bytes.size()));
    subnet.add(packet_);
  }

  Recorder recorder;
  Subnet subnet;

 private:
  Dissector dissector_;
  Packet packet_;
  std::uint64_t frames_ = 0;
};

std::vector<std::uint8_t> gid(std::uint8_t last) {
  std::vector<std::uint8_t> bytes(16, 0);
  bytes[0] = 0xfe;
  bytes[1] = 0x80;
  bytes[15] = last;
  return bytes;
}

std::vector<HeaderValue> member(std::uint16_t mlid) {
  return {Value<Rmpp>().set<"version">(0), Value<Sa>(),
          Value<McMemberRecord>()
              .set<"mgid">(gid(0x10))
              .set<"port_gid">(gid(0x05))
              .set<"mlid">(mlid)
              .set<"qkey">(0x0b1b)
              .set<"pkey">(0xffff)
              .set<"mtu">(4)
              .set<"join_state">(1)};
}

TEST(Subnet, CapturedPath) {
  const std::string file = testing::shared_capture("public/realjimmy__sample-captures__infiniband.pcap");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " does not exist";
  Recorder recorder;
  Subnet subnet(recorder);
  testing::dissect_capture(file, [&](const Packet& packet) { subnet.add(packet); });
  subnet.finish();
  ASSERT_EQ(recorder.paths.size(), 1U);
  const PathGiven& path = recorder.paths[0];
  EXPECT_EQ(path.question.request_frame, 32U);
  EXPECT_EQ(path.question.frame, 33U);
  // Computed from the times of the records. The ERF headers, which tshark uses, give 46909.
  EXPECT_EQ(path.question.time - path.question.request_time, 47000);
  EXPECT_EQ(path.to_lid, 2);
  EXPECT_EQ(path.from_lid, 4);
  EXPECT_EQ(path.pkey, 0xffff);
  EXPECT_EQ(path.mtu, 2048U);
  EXPECT_EQ(path.rate, 3);
  EXPECT_EQ(path.to.low, 0x0002c90300001895U);
  EXPECT_TRUE(recorder.memberships.empty());
  EXPECT_TRUE(recorder.counters.empty());
}

TEST(Subnet, JoinLeaveAndQuery) {
  Wires wires;
  wires.see(5, 1, mad_method::set, 77, member(0));
  wires.see(5, 1, mad_method::set, 77, member(0));
  EXPECT_TRUE(wires.recorder.memberships.empty());
  wires.see(1, 5, mad_method::get_response, 77, member(0xc003));
  ASSERT_EQ(wires.recorder.memberships.size(), 1U);
  const MulticastMembership& join = wires.recorder.memberships[0];
  EXPECT_FALSE(join.leaves);
  EXPECT_EQ(join.question.asker, PortAddress::of_lid(5));
  EXPECT_EQ(join.question.request_frame, 1U);
  EXPECT_EQ(join.question.frame, 3U);
  EXPECT_EQ(join.group.low, 0x10U);
  EXPECT_EQ(join.port.low, 0x05U);
  EXPECT_EQ(join.mlid, 0xc003);
  EXPECT_EQ(join.qkey, 0x0b1bU);
  EXPECT_EQ(join.pkey, 0xffff);
  EXPECT_EQ(join.mtu, 2048U);
  EXPECT_EQ(join.join_state, 1);

  wires.see(5, 1, mad_method::erase, 78, member(0xc003));
  wires.see(1, 5, mad_method::erase_response, 78, member(0xc003));
  ASSERT_EQ(wires.recorder.memberships.size(), 2U);
  EXPECT_TRUE(wires.recorder.memberships[1].leaves);

  wires.see(5, 1, mad_method::get, 79, member(0));
  wires.see(1, 5, mad_method::get_response, 79, member(0xc003));
  wires.subnet.finish();
  EXPECT_EQ(wires.recorder.memberships.size(), 2U) << "a query is not a join";
}

TEST(Subnet, RejectedAndUnansweredJoins) {
  Wires wires;
  wires.see(5, 1, mad_method::set, 77, member(0));
  wires.see(1, 5, mad_method::get_response, 77, member(0), 0x0300);
  wires.see(5, 1, mad_method::set, 78, member(0));
  wires.subnet.finish();
  wires.subnet.finish();
  ASSERT_EQ(wires.recorder.memberships.size(), 2U);
  EXPECT_EQ(wires.recorder.memberships[0].question.status, 0x0300);
  EXPECT_EQ(wires.recorder.memberships[1].question.request_frame, 3U);
  EXPECT_EQ(wires.recorder.memberships[1].question.frame, 0U);
}

TEST(Subnet, BothFormsOfPortCounters) {
  Wires wires;
  wires.see(9, 1, mad_method::get_response, 1,
            {Value<Pm>(), Value<PortCounters>()
                              .set<"port_select">(2)
                              .set<"xmit_data">(0x100)
                              .set<"xmit_pkts">(3)
                              .set<"xmit_discards">(17)
                              .set<"xmit_wait">(5)});
  wires.see(9, 1, mad_method::get_response, 2,
            {Value<Pm>(),
             Value<PortCountersExtended>().set<"port_select">(1).set<"rcv_data">(0x100000000).set<"rcv_pkts">(9)});
  wires.see(1, 9, mad_method::get, 3, {Value<Pm>(), Value<PortCounters>()});
  ASSERT_EQ(wires.recorder.counters.size(), 2U);
  const PortCounterReading &plain = wires.recorder.counters[0], &extended = wires.recorder.counters[1];
  EXPECT_EQ(plain.node, PortAddress::of_lid(9));
  EXPECT_EQ(plain.port, 2);
  EXPECT_EQ(plain.sent_bytes, 0x400U);
  EXPECT_EQ(plain.sent_packets, 3U);
  EXPECT_EQ(plain.transmit_discards, 17U);
  EXPECT_EQ(plain.transmit_wait, 5U);
  EXPECT_TRUE(extended.extended);
  EXPECT_EQ(extended.received_bytes, 0x400000000U);
  EXPECT_EQ(extended.received_packets, 9U);
  EXPECT_EQ(extended.transmit_discards, std::nullopt);
}

TEST(Subnet, RequestsAreBounded) {
  Wires wires(16);
  for (std::uint64_t id = 0; id < 100; ++id) wires.see(5, 1, mad_method::set, id, member(0));
  EXPECT_EQ(wires.subnet.evicted(), 84U);
  wires.subnet.finish();
  EXPECT_EQ(wires.recorder.memberships.size(), 16U);
}

}  // namespace
}  // namespace rdmawire::tracking
