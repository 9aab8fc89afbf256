#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "dissectors/protocol/testing.hpp"
#include "replay/host/host.hpp"
#include "replay/wires/embedded.hpp"
#include "replay/wires/namespaces_for_test.hpp"
#include "replay/wires/pair.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t second = 1'000'000'000;

HostOptions host_of(std::uint8_t number) {
  return {.mac = 0x020000000000U + number,
          .addresses = {IpAddress::v4(0x0a090900U + number), *IpAddress::parse("fd09::" + std::to_string(number))}};
}

TEST(HostedWire, TwoHostsResolveEachOther) {
  auto [a, b] = make_wire_pair();
  auto near = HostedWire::make(std::move(a), host_of(1)).value();
  auto far = HostedWire::make(std::move(b), host_of(2)).value();
  std::thread other([&] {
    // The host answers while the caller receives. The caller gets the other frame.
    const auto got = far->receive(far->now() + 10 * second);
    ASSERT_TRUE(got && *got);
    EXPECT_EQ((*got)->frame.size(), 99U);
  });
  EXPECT_EQ(near->resolve(IpAddress::v4(0x0a090902)).value(), 0x020000000002U);
  EXPECT_EQ(near->resolve(*IpAddress::parse("fd09::2")).value(), 0x020000000002U);
  EXPECT_EQ(near->resolve(link_local(0x020000000002)).value(), 0x020000000002U);
  std::vector<std::uint8_t> frame(99, 0x11);
  store_be(frame.data(), 6, 0x020000000002);
  EXPECT_TRUE(near->send(frame));
  other.join();
}

// The three requests use virtual time, and no real time.
TEST(HostedWire, ResolveTimesOutAndKeepsOtherFrames) {
  class Chatter final : public SimulatedHost {
    void arrived(Bytes, std::int64_t time, SimulatedHostOutput& output) override {
      auto frame = rdmawire::testing::from_hex("020000000001 525400000002 88b5");
      frame.push_back(++count_);
      output.send(std::move(frame), time + 10);
    }
    std::uint8_t count_ = 0;
  } chatter;
  auto wire = HostedWire::make(std::make_unique<EmbeddedWire>(chatter), host_of(1)).value();
  while (wire->receive(wire->now() + 100).value()) {
  }
  const std::int64_t begin = wire->now();
  const auto mac = wire->resolve(IpAddress::v4(0x0a090907));
  ASSERT_FALSE(mac);
  EXPECT_EQ(mac.error().kind, WireError::Kind::missing);
  EXPECT_THAT(mac.error().message, HasSubstr("no reply from 10.9.9.7"));
  EXPECT_EQ(wire->now(), begin + 750'000'000);
  for (std::uint8_t i = 4; i <= 6; ++i) {
    const auto kept = wire->receive(0);
    ASSERT_TRUE(kept && *kept);
    EXPECT_EQ((*kept)->frame[14], i);
  }
  EXPECT_FALSE(wire->receive(0).value());
}

// A kernel's stack at the peer interface of a veth pair.
class KernelHost : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    spaces_ = testing::Namespaces::make(why_not);
    if (!spaces_) GTEST_SKIP() << why_not;
    ASSERT_TRUE(spaces_->run_there("ip addr add 10.9.9.2/24 dev there && ip addr add fd09::2/64 dev there nodad"));
  }
  std::unique_ptr<testing::Namespaces> spaces_;
};

TEST_F(KernelHost, KernelAndHostResolveAndPingEachOther) {
  if (!spaces_->run("command -v ping")) GTEST_SKIP() << "requires the command ping";
  auto opened = open_wire("packet:here");
  ASSERT_TRUE(opened) << opened.error().message;
  auto wire = HostedWire::make(std::move(*opened), host_of(1)).value();
  EXPECT_NE(wire->resolve(IpAddress::v4(0x0a090902)).value(), 0U);
  EXPECT_EQ(wire->resolve(*IpAddress::parse("fd09::2")).value(), wire->resolve(IpAddress::v4(0x0a090902)).value());

  for (const std::string target : {"10.9.9.1", "fd09::1", "fe80::ff:fe00:1%there"}) {
    std::atomic<bool> over = false;
    bool answered = false;
    // The kernel must resolve the address itself.
    ASSERT_TRUE(spaces_->run_there("ip neigh flush all"));
    std::thread ping([&] {
      answered = spaces_->run_there("ping -n -c 3 -i 0.01 -W 5 -s 1200 " + target);
      over = true;
    });
    while (!over) ASSERT_TRUE(wire->receive(wire->now() + 2'000'000));
    ping.join();
    EXPECT_TRUE(answered) << target;
  }
}

TEST_F(KernelHost, KernelDetectsDuplicateAddress) {
  auto wire = HostedWire::make(open_wire("packet:here").value(), host_of(1)).value();
  // The kernel uses the host's address. Duplicate address detection receives the defense of the host.
  ASSERT_TRUE(
      spaces_->run_there("sysctl -qw net.ipv6.conf.there.accept_dad=1 net.ipv6.conf.there.dad_transmits=1; "
                         "ip addr add fd09::1/64 dev there"));
  bool failed = false;
  for (const std::int64_t deadline = wire->now() + 10 * second; !failed && wire->now() < deadline;) {
    ASSERT_TRUE(wire->receive(wire->now() + 20'000'000));
    failed = spaces_->run_there("ip -6 addr show dev there dadfailed | grep -q fd09::1");
  }
  EXPECT_TRUE(failed);
}

TEST_F(KernelHost, AddressesOfThisHostAreRefused) {
  ASSERT_TRUE(spaces_->run("ip addr add 10.9.9.1/24 dev here && ip link set here address 02:00:00:00:00:05"));
  auto refused = HostedWire::make(open_wire("packet:here").value(), host_of(1));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the address 10.9.9.1 belongs to here on this host"));
  refused = HostedWire::make(open_wire("packet:here").value(), host_of(5));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the MAC 02:00:00:00:00:05 belongs to here"));
  EXPECT_TRUE(HostedWire::make(open_wire("packet:here").value(), host_of(6)));
  EXPECT_FALSE(check_not_owned("unix:/x", {.mac = 0x010000000000}));
}

}  // namespace
}  // namespace rdmawire::replay
