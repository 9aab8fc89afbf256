#include "replay/wires/packet.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/wires/veth_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;

using testing::copy;
using testing::frame_of;
using testing::next;
using testing::second;

class PacketWireTest : public testing::VethTest {};

TEST_F(PacketWireTest, FramesArriveUnchangedInBatches) {
  for (const char* options : {"", ",bypass"}) {
    const auto near = open(std::string("packet:near") + options), far = open("packet:far");
    std::vector<std::vector<std::uint8_t>> frames;
    std::vector<Outgoing> outgoing;
    for (std::size_t i = 0; i < 200; ++i) frames.push_back(frame_of(60 + i * 7, static_cast<std::uint8_t>(i)));
    for (const auto& frame : frames) outgoing.push_back({frame, 0});
    const std::int64_t before = near->now();
    ASSERT_EQ(near->send(outgoing).value(), frames.size());
    std::int64_t last = 0;
    for (const auto& frame : frames) {
      const auto got = next(*far);
      ASSERT_TRUE(got);
      ASSERT_EQ(copy(*got), frame);
      EXPECT_FALSE(got->own);
      EXPECT_GE(got->time, std::max(last, before - 1'000'000));
      last = got->time;
    }
    EXPECT_LE(last, far->now());
    EXPECT_EQ(near->counters().sent, frames.size());
    EXPECT_EQ(far->counters().dropped, 0U);
  }
}

TEST_F(PacketWireTest, SendOnlyWire) {
  const auto near = open("packet:near,noreceive"), far = open("packet:far");
  EXPECT_FALSE(near->capabilities().receives);
  ASSERT_TRUE(far->send(frame_of(60, 1)));
  ASSERT_TRUE(near->send(frame_of(1514, 2)));
  EXPECT_EQ(copy(next(*far).value()), frame_of(1514, 2));
  EXPECT_FALSE(near->receive(near->now() + 1'000'000).value());
  EXPECT_EQ(near->receive(Wire::forever).error().kind, WireError::Kind::unsupported);
  EXPECT_EQ(near->counters().received, 0U);
}

TEST_F(PacketWireTest, MaximumFrameLengthFollowsInterfaceMtu) {
  ASSERT_TRUE(spaces_->run("ip link set near mtu 9000 && ip link set far mtu 9000"));
  const auto near = open("packet:near"), far = open("packet:far");
  EXPECT_EQ(near->capabilities().max_bytes, 9018U);
  EXPECT_EQ(near->capabilities().bits_per_second, 10'000'000'000U);
  ASSERT_TRUE(near->send(frame_of(9014, 1)));
  EXPECT_EQ(next(*far)->frame.size(), 9014U);
  const auto too_long = near->send(frame_of(9015, 1));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().kind, WireError::Kind::frame);
  EXPECT_THAT(too_long.error().message, HasSubstr("the valid range is 14 to 9014"));
  EXPECT_FALSE(near->send(std::vector<std::uint8_t>(13)));
}

TEST_F(PacketWireTest, VlanTagIsRestored) {
  const auto near = open("packet:near"), far = open("packet:far");
  auto frame = frame_of(100, 7);
  store_be(frame.data() + 12, 4, 0x8100'6123);
  store_be(frame.data() + 16, 2, 0x88b5);
  ASSERT_TRUE(near->send(frame));
  auto got = next(*far, 0x8100);
  ASSERT_TRUE(got);
  EXPECT_EQ(copy(*got), frame);
  EXPECT_EQ(got->wire_bytes, 100U);
  store_be(frame.data() + 12, 2, 0x88a8);
  ASSERT_TRUE(near->send(frame));
  got = next(*far, 0x88a8);
  ASSERT_TRUE(got);
  EXPECT_EQ(copy(*got), frame);
}

// Frames that this host's stack sends through the interface.
TEST_F(PacketWireTest, OwnFramesAreFlaggedOrIgnored) {
  const auto other = open("packet:near"), all = open("packet:near"), incoming = open("packet:near,incoming"),
             far = open("packet:far");
  EXPECT_TRUE(all->capabilities().sees_own);
  EXPECT_FALSE(incoming->capabilities().sees_own);
  ASSERT_TRUE(other->send(frame_of(60, 1)));
  ASSERT_TRUE(far->send(frame_of(60, 2)));
  auto got = next(*all);
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->own);
  EXPECT_EQ(got->frame[20], 1);
  got = next(*all);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->own);
  got = next(*incoming);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->frame[20], 2);
}

// The kernel offloads the UDP checksum to the device, and veth does not compute it.
TEST_F(PacketWireTest, OffloadedChecksumsAreRestored) {
  ASSERT_TRUE(
      spaces_->run_there("ip addr add 10.9.9.1/24 dev there && "
                         "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:09 dev there"));
  const auto here = open("packet:here");
  ASSERT_TRUE(
      spaces_->run_there("python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                         "s.sendto(bytes(range(31)), (\\\"10.9.9.2\\\", 4791))\""));
  const auto got = next(*here, 0x0800);
  ASSERT_TRUE(got);
  ASSERT_EQ(got->frame.size(), 14U + 20 + 8 + 31);
  const Bytes udp = got->frame.subspan(34);
  std::uint32_t pseudo = 17 + 39;
  for (std::size_t at = 26; at < 34; at += 2) pseudo += static_cast<std::uint32_t>(load_be<2>(got->frame.data() + at));
  EXPECT_EQ(internet_checksum(udp, pseudo), 0);
}

TEST_F(PacketWireTest, LostCarrierAndRemovedInterfaceAreErrors) {
  const auto near = open("packet:near");
  ASSERT_TRUE(spaces_->run("ip link set far down"));
  const auto error = testing::until_down(*near);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, WireError::Kind::down);
  EXPECT_THAT(error->message, HasSubstr("no carrier"));
  const auto opened = open_wire("packet:near");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, WireError::Kind::down);
  ASSERT_TRUE(spaces_->run("ip link set near down"));
  EXPECT_THAT(open_wire("packet:near").error().message, HasSubstr("ip link set dev near up"));
  EXPECT_EQ(near->receive(near->now() + 5 * second).error().kind, WireError::Kind::down);
  ASSERT_TRUE(spaces_->run("ip link del near"));
  const auto gone = near->send(frame_of(60, 1));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().kind, WireError::Kind::missing);
}

TEST_F(PacketWireTest, NonEthernetAndMissingInterfacesAreRejected) {
  const auto none = open_wire("packet:nosuch0");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, WireError::Kind::missing);
  EXPECT_THAT(none.error().message, HasSubstr("near"));
  if (!spaces_->run("ip tuntap add dev tun7 mode tun && ip link set tun7 up")) GTEST_SKIP() << "requires tun devices";
  const auto tunnel = open_wire("packet:tun7");
  ASSERT_FALSE(tunnel);
  EXPECT_EQ(tunnel.error().kind, WireError::Kind::unsupported);
  EXPECT_THAT(tunnel.error().message, HasSubstr("is not Ethernet"));
}

TEST_F(PacketWireTest, MissingHardwareTimestampsAreReported) {
  const auto wire = open_wire("packet:near,hwtime");
  ASSERT_FALSE(wire);
  EXPECT_EQ(wire.error().kind, WireError::Kind::unsupported);
  EXPECT_THAT(wire.error().message, HasSubstr("remove hwtime"));
}

TEST(PacketWire, MissingPrivilegeIsNamed) {
  testing::without_rights([] {
    const auto wire = open_wire("packet:lo");
    ASSERT_FALSE(wire);
    EXPECT_EQ(wire.error().kind, WireError::Kind::forbidden);
    EXPECT_THAT(wire.error().message, HasSubstr("setcap cap_net_raw+ep"));
  });
}

}  // namespace
}  // namespace rdmawire::replay
