#include "replay/wires/packet.hpp"

#include <gmock/gmock.h>
#include <linux/errqueue.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <vector>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/wires/clock.hpp"
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

// The interface has a carrier when the wire is opened, and loses it before the kernel reports the loss.
TEST_F(PacketWireTest, FramesThatTheKernelDiscardsDoNotCountAsSent) {
  for (const char* name : {"packet:near,noreceive", "xdp:near,noreceive"}) {
    auto opened = open_wire(name);
    if (!opened && opened.error().kind == WireError::Kind::unsupported) continue;
    ASSERT_TRUE(opened) << opened.error().message;
    const auto near = std::move(*opened);
    ASSERT_TRUE(near->send(frame_of(60, 1)));
    ASSERT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
    ASSERT_TRUE(spaces_->run("ip link set far down"));
    std::uint64_t accepted = 1;
    std::optional<WireError> error;
    for (const std::int64_t deadline = near->now() + 60 * second; !error && near->now() < deadline;) {
      if (const auto sent = near->send(frame_of(60, 1)); sent)
        ++accepted;
      else if (sent.error().kind != WireError::Kind::full)
        error = sent.error();
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, WireError::Kind::down);
    const auto flushed = near->flush(near->now() + 5 * second);
    EXPECT_EQ(near->counters().sent, 1U) << name << ": " << accepted << " frames were accepted";
    if (accepted > 1) {
      ASSERT_FALSE(flushed) << name;
      EXPECT_THAT(flushed.error().message, HasSubstr("because the carrier was lost"));
      EXPECT_EQ(near->counters().sent_bytes, 60U);
    }
    ASSERT_TRUE(spaces_->run("ip link set far up") && spaces_->run(testing::Namespaces::until_up("near")));
  }
}

// The discards of other programs are those of a second wire on the same interface.
TEST_F(PacketWireTest, FramesThatTheKernelDiscardsForOthersCountAsSent) {
  const auto near = open("packet:near,noreceive"), other = open("packet:near,noreceive");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(near->send(frame_of(60, 1)));
  ASSERT_TRUE(spaces_->run("ip link set far down"));
  std::uint64_t accepted = 0;
  for (const std::int64_t deadline = near->now() + 60 * second; near->now() < deadline;) {
    const auto sent = other->send(frame_of(60, 2));
    if (sent) ++accepted;
    if (!sent && sent.error().kind != WireError::Kind::full) break;
  }
  ASSERT_TRUE(spaces_->run("ip link set far up") && spaces_->run(testing::Namespaces::until_up("near")));
  EXPECT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
  EXPECT_EQ(near->counters().sent, 5U);
  EXPECT_EQ(near->counters().sent_bytes, 300U);
  if (accepted > 5) {
    EXPECT_FALSE(other->flush(other->now() + 5 * second)) << accepted << " frames were accepted";
    EXPECT_LE(other->counters().sent, 5U);
  }
}

// A queueing discipline discards a frame that it accepted, and the kernel reports no error.
TEST_F(PacketWireTest, FramesThatTheQueueingDisciplineDiscardsDoNotCountAsSent) {
  if (!spaces_->run("tc qdisc replace dev near root handle 1: tbf rate 1mbit burst 3k limit 200k && "
                    "tc qdisc replace dev near parent 1:1 handle 2: pfifo_head_drop limit 10"))
    GTEST_SKIP() << "requires the kernel modules sch_tbf and sch_fifo";
  const auto near = open("packet:near,noreceive");
  const auto frame = frame_of(1000, 1);
  std::uint64_t accepted = 0;
  for (const std::int64_t end = near->now() + 20 * second; accepted < 100 && near->now() < end;)
    accepted += near->send(std::vector<Outgoing>(20, Outgoing{frame, 0})).value();
  ASSERT_GE(accepted, 100U);
  WireResult<bool> flushed = false;
  for (const std::int64_t end = near->now() + 30 * second; flushed && !*flushed && near->now() < end;)
    flushed = near->flush(near->now() + second / 10);
  ASSERT_FALSE(flushed);
  EXPECT_THAT(flushed.error().message, HasSubstr("accepted frames did not leave the interface"));
  const std::uint64_t sent = near->counters().sent;
  EXPECT_LT(sent, accepted - 20);
  EXPECT_GT(sent, 5U);
  // Later frames are not affected by the loss.
  ASSERT_TRUE(near->send(frame));
  EXPECT_TRUE(near->flush(near->now() + 30 * second).value_or(false));
  EXPECT_EQ(near->counters().sent, sent + 1);
}

TEST_F(PacketWireTest, QueuedFramesCountAsSentOnceTheyLeft) {
  if (!spaces_->run("tc qdisc replace dev near root tbf rate 1mbit burst 3k limit 400k"))
    GTEST_SKIP() << "requires the kernel module sch_tbf";
  const std::vector<std::uint8_t> frame = frame_of(1000, 1);
  for (const char* options : {"", ",launch=fq"}) {
    const auto near = open(std::string("packet:near,noreceive") + options);
    std::uint64_t accepted = 0;
    for (const std::int64_t end = near->now() + 20 * second; accepted < 100 && near->now() < end;)
      accepted += near->send(std::vector<Outgoing>(20, Outgoing{frame, 0})).value();
    ASSERT_GE(accepted, 100U);
    const auto early = near->flush(near->now() + second / 10);
    ASSERT_TRUE(early) << early.error().message;
    EXPECT_FALSE(*early);
    EXPECT_LT(near->counters().sent, accepted);
    EXPECT_LT(near->counters().sent_bytes, accepted * frame.size());
    const auto late = near->flush(near->now() + 30 * second);
    ASSERT_TRUE(late) << late.error().message;
    EXPECT_TRUE(*late);
    EXPECT_EQ(near->counters().sent, accepted);
  }
}

TEST_F(PacketWireTest, QueuedFramesOfARemovedInterfaceDoNotCountAsSent) {
  if (!spaces_->run("tc qdisc replace dev near root tbf rate 100kbit burst 3k limit 400k"))
    GTEST_SKIP() << "requires the kernel module sch_tbf";
  const auto near = open("packet:near,noreceive");
  EXPECT_EQ(near->send(std::vector<Outgoing>(20, Outgoing{frame_of(1000, 1), 0})).value(), 20U);
  ASSERT_TRUE(spaces_->run("ip link del near"));
  const auto flushed = near->flush(near->now() + 5 * second);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().kind, WireError::Kind::missing);
  EXPECT_EQ(near->counters().sent, 0U) << "the interface and its counters are gone, so this is unknown";
}

TEST_F(PacketWireTest, ReceiveKeepsItsDeadlineWhileTheErrorQueueFills) {
  // Timestamps of sent frames are messages of the error queue, for which poll(2) returns.
  PacketWireOptions options;
  options.interface = "near";
  options.incoming = true;
  options.stamps = Transmission::Stamps::kernel;
  const auto near = open_packet_wire(options).value();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(near->send(frame_of(60, 1)));
  const std::int64_t begin = near->now(), wait = 50'000'000;
  for (;;) {
    const auto got = near->receive(begin + wait).value();
    if (!got) break;  // other frames of the interface
  }
  EXPECT_GE(near->now(), begin + wait);
  EXPECT_LT(near->now(), begin + 5 * second);
  EXPECT_FALSE(near->receive(0).value_or(std::nullopt)) << "a past deadline does not wait";
  std::vector<Departure> departures;
  dynamic_cast<DepartureTimes&>(*near).read_departures(departures);
  EXPECT_EQ(departures.size(), 20U) << "receive() keeps the timestamps";
}

TEST(Transmission, MissedLaunchTimesAreCounted) {
  struct alignas(cmsghdr) Control {
    std::array<char, CMSG_SPACE(sizeof(sock_extended_err))> bytes{};
  } control;
  msghdr message{};
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_PACKET;
  header->cmsg_type = PACKET_TX_TIMESTAMP;
  sock_extended_err error{};
  header->cmsg_len = CMSG_LEN(sizeof error);
  Transmission transmission;
  const auto take = [&](std::uint8_t origin, std::uint8_t code) {
    error.ee_origin = origin;
    error.ee_code = code;
    std::memcpy(CMSG_DATA(header), &error, sizeof error);
    transmission.take(message, 100);
  };
  take(SO_EE_ORIGIN_TXTIME, SO_EE_CODE_TXTIME_MISSED);
  take(SO_EE_ORIGIN_TXTIME, SO_EE_CODE_TXTIME_MISSED);
  take(SO_EE_ORIGIN_LOCAL, SO_EE_CODE_TXTIME_MISSED);
  EXPECT_EQ(transmission.rejecting_since(), 0);
  // sendmmsg(2) also returns an error, and the caller retries the frame.
  take(SO_EE_ORIGIN_TXTIME, SO_EE_CODE_TXTIME_INVALID_PARAM);
  EXPECT_NE(transmission.rejecting_since(), 0);
  EXPECT_EQ(transmission.missed(), 2U);
  EXPECT_EQ(transmission.missed_bytes(), 200U);
  transmission.accepted();
  EXPECT_EQ(transmission.rejecting_since(), 0);
  EXPECT_TRUE(transmission.departures().empty());
}

TEST_F(PacketWireTest, LaunchTimesDoNotDecrease) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Transmission transmission;
  const auto near = Interface::find("packet:near", "near").value();
  ASSERT_TRUE(transmission.set_up(socket, near, Transmission::Launch::fq, Transmission::Stamps::none));
  std::uint64_t last = 0;
  const std::int64_t time = wire_clock::now() + second;
  for (int i = 0; i < 10'000; ++i) {
    if (i % 7 == 0) transmission.begin_batch();
    msghdr message{};
    Transmission::Control control;
    transmission.set_time(message, control, i % 2 == 0 ? time : 0);
    std::uint64_t launch = 0;
    std::memcpy(&launch, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof launch);
    ASSERT_GE(launch, last) << i;
    last = launch;
  }
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_NEAR(static_cast<double>(last), static_cast<double>(now.tv_sec) * 1e9 + 1e9, 2e9);
  ::close(socket);
}

TEST_F(PacketWireTest, TransmitTimestampsOfTheKernel) {
  const auto near = open("packet:near,noreceive,txtimes=kernel"), far = open("packet:far");
  auto* times = dynamic_cast<DepartureTimes*>(near.get());
  ASSERT_TRUE(times);
  EXPECT_STREQ(times->departure_source(), "kernel");
  const std::int64_t before = near->now();
  const auto frame = frame_of(60, 1);
  std::vector<Outgoing> frames;
  for (std::int64_t i = 0; i < 20; ++i) frames.push_back({frame, before + i * 1'000'000});
  for (std::size_t sent = 0; sent < frames.size();) {
    const auto taken = near->send(std::span(frames).subspan(sent));
    ASSERT_TRUE(taken) << taken.error().message;
    sent += *taken;
  }
  ASSERT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
  std::vector<Departure> departures;
  times->read_departures(departures);
  ASSERT_EQ(departures.size(), frames.size());
  for (std::size_t i = 0; i < departures.size(); ++i) {
    EXPECT_EQ(departures[i].index, i);
    EXPECT_GE(departures[i].time, frames[i].time - 1'000'000);
    EXPECT_LE(departures[i].time, near->now() + 1'000'000);
    const auto got = next(*far);
    ASSERT_TRUE(got);
    EXPECT_NEAR(static_cast<double>(got->time - departures[i].time), 0, 2e8);
  }
  departures.clear();
  times->read_departures(departures);
  EXPECT_TRUE(departures.empty());
  EXPECT_EQ(dynamic_cast<DepartureTimes*>(far.get())->departure_source(), nullptr);
  EXPECT_THAT(error_of("packet:near,noreceive,txtimes=device").message, HasSubstr("txtimes=kernel uses those of"));
}

TEST_F(PacketWireTest, SendingOptionsAreChecked) {
  for (const char* options : {"launch=soon", "launch", "txtimes=wire,noreceive", "txtimes=kernel", "priority=-1",
                              "priority=65536", "launch=fq,bypass"})
    EXPECT_EQ(error_of(std::string("packet:near,") + options).kind, WireError::Kind::specification) << options;
  const auto near = open("packet:near,noreceive,priority=6"), far = open("packet:far");
  ASSERT_TRUE(near->send(frame_of(60, 1)));
  EXPECT_TRUE(next(*far));
}

// Without a queueing discipline that supports them, launch times have no effect, except that frames are accepted early.
TEST_F(PacketWireTest, LaunchTimesArePassedToTheKernel) {
  for (const char* launch : {"fq", "etf"}) {
    const auto near = open(std::string("packet:near,noreceive,launch=") + launch), far = open("packet:far");
    EXPECT_TRUE(near->capabilities().paces);
    const auto frame = frame_of(60, 1);
    const std::vector<Outgoing> frames(5, Outgoing{frame, near->now() + 60 * second});
    EXPECT_EQ(near->send(frames).value(), 5U);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(next(*far));
    EXPECT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
  }
}

TEST_F(PacketWireTest, QueueingDisciplineHoldsFramesUntilTheirLaunchTimes) {
  int tried = 0;
  for (const auto& [launch, discipline] :
       {std::pair{"fq", "fq"}, std::pair{"etf", "etf clockid CLOCK_TAI delta 300000"}}) {
    if (!spaces_->run(std::string("tc qdisc replace dev near root ") + discipline)) continue;
    ++tried;
    const auto near = open(std::string("packet:near,noreceive,txtimes=kernel,launch=") + launch),
               far = open("packet:far");
    const auto frame = frame_of(60, 1);
    std::vector<Outgoing> frames;
    // On a slow host, passing the frames to the kernel takes seconds.
    const std::int64_t begin = near->now() + 6 * second;
    for (std::int64_t i = 0; i < 20; ++i) frames.push_back({frame, begin + i * 2'000'000});
    std::size_t sent = 0;
    while (sent < frames.size() && near->now() < begin) sent += near->send(std::span(frames).subspan(sent)).value();
    ASSERT_EQ(sent, frames.size()) << launch << ": the queueing discipline rejects frames";
    EXPECT_LT(near->now(), begin) << "frames are accepted before their times";
    ASSERT_TRUE(near->flush(near->now() + 30 * second).value_or(false));
    std::vector<Departure> departures;
    dynamic_cast<DepartureTimes&>(*near).read_departures(departures);
    ASSERT_EQ(departures.size(), frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_GE(departures[i].time, frames[i].time - 400'000) << launch << " " << i;
      EXPECT_TRUE(next(*far));
    }
  }
  if (tried == 0) GTEST_SKIP() << "requires the kernel modules sch_fq or sch_etf";
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
