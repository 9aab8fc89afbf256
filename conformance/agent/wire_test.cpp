// A RoCE device with a test peer on the wire: the agent creates a QP, and the test builds the packets of its peer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "conformance/agent/device_fixture_for_test.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/host/host.hpp"

namespace rdmawire::peer {
namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t rdma_write_only = 0x0a, acknowledge = 0x11;
constexpr std::uint64_t our_mac = 0x02000077000a;

class OnTheWire : public testing::DeviceTest {
 protected:
  void SetUp() override {
    begin("ib");
    if (IsSkipped() || HasFatalFailure()) return;
    if (guest == nullptr) GTEST_SKIP() << "requires a lab guest with a wire";
  }
};

/// Receives the next InfiniBand transport packet. Empty after ten seconds.
std::vector<std::uint8_t> next_packet(replay::Wire& wire) {
  const std::int64_t deadline = wire.now() + 10'000'000'000;
  for (;;) {
    const auto received = wire.receive(deadline);
    if (!received || !*received) return {};
    if (decode((*received)->frame).get<Bth>()) return {(*received)->frame.begin(), (*received)->frame.end()};
  }
}

TEST_F(OnTheWire, HandmadeWriteIsAcknowledgedAndExecuted) {
  const auto us = replay::IpAddress::parse("10.77.1.200").value(), it = replay::IpAddress::parse(where).value();
  auto wire = replay::HostedWire::make(replay::open_wire(guest->ports().at(0).wire).value(),
                                       {.mac = our_mac, .addresses = {us}})
                  .value();
  const std::uint64_t its_mac = wire->resolve(it).value();

  const auto qp = rc();
  ASSERT_TRUE(qp.connect({.qp_num = 0x11, .address = "10.77.1.200", .psn = 100, .own_psn = 200}));
  Frame frame =
      Value<Ethernet>().set<"dst">(its_mac).set<"src">(our_mac) /
      Value<Ipv4>().set<"src">(load_be<4>(us.storage.data())).set<"dst">(load_be<4>(it.storage.data())) / Value<Udp>() /
      Value<Bth>().set<"opcode">(rdma_write_only).set<"dest_qp">(qp.qp_num()).set<"ack_request">(1).set<"psn">(100) /
      Value<Reth>().set<"va">(memory.addr() + 64).set<"rkey">(memory.rkey());
  frame.payload = {'b', 'y', ' ', 'h', 'a', 'n', 'd', '!'};
  ASSERT_TRUE(wire->send(frame.encode()));

  const auto packet = next_packet(*wire);
  const HeaderStack answer = decode(packet);
  const auto bth = answer.get<Bth>();
  const auto aeth = answer.get<Aeth>();
  ASSERT_TRUE(bth && aeth);
  EXPECT_EQ(bth->get<"opcode">(), acknowledge);
  EXPECT_EQ(bth->get<"dest_qp">(), 0x11);
  EXPECT_EQ(bth->get<"psn">(), 100);
  EXPECT_EQ(aeth->get<"syndrome.kind">(), 0);  // an ACK
  EXPECT_EQ(check_icrc(answer).status, CrcCheck::Status::good);
  EXPECT_EQ(memory.read(64, 8).value(), frame.payload);
}

}  // namespace
}  // namespace rdmawire::peer
