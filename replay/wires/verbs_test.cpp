// Tests with the fake libibverbs, which uses AF_PACKET, is as strict as devices and can inject errors.

#include "replay/wires/verbs.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "replay/wires/departures.hpp"
#include "replay/wires/verbs_queues.hpp"
#include "replay/wires/veth_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::frame_of;
using testing::second;

// IPv4 and UDP headers with the fields that flows match.
std::vector<std::uint8_t> udp_frame(std::uint32_t destination, std::uint16_t port) {
  auto frame = frame_of(100, 0, 0x0800);
  frame[14] = 0x45;
  frame[23] = 17;
  store_be(frame.data() + 30, 4, destination);
  store_be(frame.data() + 36, 2, port);
  return frame;
}

class VerbsWireTest : public testing::VethTest {
 protected:
  void SetUp() override {
    VethTest::SetUp();
    set("DEVICES", "near far");
  }
  void TearDown() override {
    for (const char* name : {"DEVICES", "FAIL", "COMPLETION", "SYSFS", "LINK_LAYER", "PORT", "WITHOUT", "RATE",
                             "L2_INLINE", "LOOPBACK", "NOOP"})
      unsetenv((std::string("FAKE_VERBS_") + name).c_str());
  }
  static void set(const char* name, const std::string& value) {
    setenv((std::string("FAKE_VERBS_") + name).c_str(), value.c_str(), 1);
  }
  // Receives the next frame. Empty: none within `patience`.
  static std::vector<std::uint8_t> next(Wire& wire, std::int64_t patience = 5 * second) {
    const auto got = wire.receive(wire.now() + patience);
    EXPECT_TRUE(got) << got.error().message;
    if (!got || !*got) return {};
    return testing::copy(**got);
  }
};

TEST_F(VerbsWireTest, FramesAreSentInBothDirectionsWithEitherPostingMode) {
  for (const char* how : {"", ",post", ",depth=8,signal=100,receive=300", ",inline=200"}) {
    const auto near = open(std::string("verbs:near") + how), far = open(std::string("verbs:far/1") + how);
    std::vector<std::vector<std::uint8_t>> frames;
    std::vector<Outgoing> outgoing;
    for (std::size_t i = 0; i < 200; ++i) frames.push_back(frame_of(60 + i * 7, static_cast<std::uint8_t>(i)));
    for (const auto& frame : frames) outgoing.push_back({frame, 0});
    std::size_t sent = 0;
    while (sent < frames.size()) {
      const auto taken = near->send(std::span(outgoing).subspan(sent));
      ASSERT_TRUE(taken) << taken.error().message;
      sent += *taken;
      ASSERT_TRUE(near->writable(near->now() + second).value());
    }
    ASSERT_TRUE(near->flush(near->now() + second).value());
    EXPECT_EQ(near->counters().sent, 200U);
    EXPECT_EQ(near->counters().sent_bytes, 200U * 60 + 7 * 199 * 200 / 2);
    for (const auto& frame : frames) ASSERT_EQ(next(*far), frame) << how;
    EXPECT_EQ(far->counters().received, 200U);
    ASSERT_TRUE(far->send(frame_of(1514, 9)));
    EXPECT_EQ(next(*near), frame_of(1514, 9));
  }
  EXPECT_THAT(open("verbs:near")->capabilities().how, HasSubstr("ibv_wr_*"));
  EXPECT_THAT(open("verbs:near,post")->capabilities().how, HasSubstr("ibv_post_send"));
  set("WITHOUT", "wr");
  EXPECT_THAT(open("verbs:near")->capabilities().how, HasSubstr("ibv_post_send"));
}

TEST_F(VerbsWireTest, SeveralQpsKeepTheOrderOfEachFlow) {
  for (const char* how : {",queues=4", ",queues=3,threads", ",queues=2,threads,depth=8", ",queues=2,post,depth=4"}) {
    const auto near = open(std::string("verbs:near,noreceive") + how), far = open("verbs:far");
    EXPECT_THAT(near->capabilities().how, HasSubstr("QPs"));
    std::vector<std::vector<std::uint8_t>> frames;
    std::vector<Outgoing> outgoing;
    for (std::uint32_t i = 0; i < 400; ++i) {
      frames.push_back(udp_frame(0x0a000007 + i % 8, 4791));
      store_be(frames.back().data() + 60, 4, i);
    }
    for (const auto& frame : frames) outgoing.push_back({frame, 0});
    for (std::size_t sent = 0; sent < frames.size();) {
      const auto taken = near->send(std::span(outgoing).subspan(sent));
      ASSERT_TRUE(taken) << taken.error().message;
      sent += *taken;
      ASSERT_TRUE(near->writable(near->now() + 5 * second).value_or(false));
    }
    ASSERT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
    EXPECT_EQ(near->counters().sent, 400U);
    EXPECT_EQ(near->counters().sent_bytes, 40'000U);
    std::array<std::int64_t, 8> last;
    last.fill(-1);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto got = next(*far);
      ASSERT_EQ(got.size(), 100U) << how << ": frame " << i;
      const auto number = static_cast<std::int64_t>(load_be<4>(got.data() + 60));
      EXPECT_GT(number, last[static_cast<std::size_t>(number) % 8]) << how;
      last[static_cast<std::size_t>(number) % 8] = number;
    }
    // An invalid frame is an error of its own, and those after it are sent.
    const auto invalid = frame_of(13, 1);
    const std::vector<Outgoing> mixed{{frames[0], 0}, {invalid, 0}, {frames[1], 0}};
    ASSERT_EQ(near->send(mixed).value(), 1U) << how;
    const auto refused = near->send(std::span(mixed).subspan(1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, WireError::Kind::frame);
    EXPECT_EQ(near->send(std::span(mixed).subspan(2)).value(), 1U);
    ASSERT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
    EXPECT_EQ(near->counters().sent, 402U) << how;
  }
  set("RATE", "1000-100000000");
  EXPECT_THAT(open("verbs:near,queues=4,rate=1G")->capabilities().how, HasSubstr("limited to 250000 kbit/s, 4 QPs"));
  set("COMPLETION", "3=10");
  const auto near = open("verbs:near,noreceive,queues=2");
  const auto frame = frame_of(100, 1);
  ASSERT_TRUE(near->send(std::vector<Outgoing>(5, Outgoing{frame, 0})));
  EXPECT_FALSE(near->flush(near->now() + second));
  EXPECT_EQ(near->counters().sent, 2U);
}

/// Two frames whose hosts use different QPs of two.
std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> frames_of_two_queues() {
  const auto one = udp_frame(0x0a000007, 4791);
  for (std::uint32_t host = 0x0a000008;; ++host)
    if (auto other = udp_frame(host, 4791); hosts_hash(other) % 2 != hosts_hash(one) % 2) return {one, other};
}

TEST_F(VerbsWireTest, BothDirectionsOfAConnectionUseTheSameQp) {
  const auto there = udp_frame(0x0a000007, 4791);
  auto back = there;
  std::swap_ranges(back.begin() + 26, back.begin() + 30, back.begin() + 30);
  std::swap_ranges(back.begin(), back.begin() + 6, back.begin() + 6);
  store_be(back.data() + 34, 2, 5);
  EXPECT_EQ(hosts_hash(there), hosts_hash(back));
  EXPECT_EQ(hosts_hash(frame_of(13, 1)), 0U);
}

TEST_F(VerbsWireTest, FailureOfOneQpKeepsTheFramesOfTheOthers) {
  const auto [one, other] = frames_of_two_queues();
  for (const char* how : {"", ",threads", ",post"}) {
    const auto near = open(std::string("verbs:near,noreceive,queues=2") + how), far = open("verbs:far");
    set("COMPLETION", "3=10");
    // The first QP gets five frames and fails at the third. The second one gets two.
    std::vector<Outgoing> frames{{one, 0}, {other, 0}, {one, 0}, {one, 0}, {one, 0}, {other, 0}, {one, 0}};
    std::size_t accepted = 0;
    std::optional<WireError> error;
    while (accepted < frames.size() && !error) {
      const auto taken = near->send(std::span(frames).subspan(accepted));
      taken ? void(accepted += *taken) : void(error = taken.error());
    }
    const auto flushed = near->flush(near->now() + 5 * second);
    ASSERT_FALSE(flushed) << how;
    EXPECT_NE(flushed.error().kind, WireError::Kind::frame) << "the QP is in the Error state";
    // A frame that is retried after the error would be sent twice.
    const auto again = near->send(frames);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, flushed.error().message);
    EXPECT_EQ(near->counters().sent, 4U) << how;
    EXPECT_EQ(near->counters().sent_bytes, 400U);
    unsetenv("FAKE_VERBS_COMPLETION");
    int of_one = 0, of_other = 0;
    for (auto got = next(*far); !got.empty(); got = next(*far, second / 5)) (got == one ? of_one : of_other) += 1;
    EXPECT_EQ(of_one, 2) << how;
    EXPECT_EQ(of_other, 2) << how;
  }
}

TEST_F(VerbsWireTest, FramesThatADeviceRefusesForNowAreSentOnce) {
  const auto [one, other] = frames_of_two_queues();
  const auto near = open("verbs:near,noreceive,queues=2"), far = open("verbs:far");
  set("FAIL", fmt::format("ibv_post_send={}@1,ibv_wr_complete={}@1", ENOMEM, ENOMEM));
  std::vector<std::vector<std::uint8_t>> bytes;
  for (std::uint32_t i = 0; i < 40; ++i) {
    bytes.push_back(i % 2 ? one : other);
    store_be(bytes.back().data() + 60, 4, i);
  }
  std::vector<Outgoing> frames;
  for (const auto& frame : bytes) frames.push_back({frame, 0});
  for (std::size_t sent = 0; sent < frames.size();) {
    const auto taken = near->send(std::span(frames).subspan(sent));
    ASSERT_TRUE(taken) << taken.error().message;
    sent += *taken;
  }
  ASSERT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
  EXPECT_EQ(near->counters().sent, 40U);
  std::array<std::vector<std::uint32_t>, 2> numbers;
  for (int i = 0; i < 40; ++i) {
    const auto got = next(*far);
    ASSERT_EQ(got.size(), 100U);
    const auto number = static_cast<std::uint32_t>(load_be<4>(got.data() + 60));
    numbers[number % 2].push_back(number);
  }
  for (const auto& list : numbers) {
    EXPECT_EQ(list.size(), 20U);
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  }
  EXPECT_TRUE(next(*far, second / 5).empty());
}

TEST_F(VerbsWireTest, FlushOfSeveralQpsEndsAtItsDeadline) {
  const auto near = open("verbs:near,noreceive,queues=2");
  set("FAIL", fmt::format("ibv_post_send={},ibv_wr_complete={}", ENOMEM, ENOMEM));
  ASSERT_TRUE(near->send(frame_of(100, 1)));
  const std::int64_t begin = near->now();
  EXPECT_FALSE(near->flush(begin + second / 10).value_or(true));
  EXPECT_LT(near->now(), begin + 5 * second);
  EXPECT_EQ(near->counters().sent, 0U);
  unsetenv("FAKE_VERBS_FAIL");
  EXPECT_TRUE(near->flush(near->now() + 5 * second).value_or(false));
  EXPECT_EQ(near->counters().sent, 1U);
}

TEST_F(VerbsWireTest, TransmitTimestampsOfTheDevice) {
  for (const char* without : {"", "wallclock"}) {
    set("WITHOUT", without);
    const auto near = open("verbs:near,noreceive,txtimes");
    auto* times = dynamic_cast<DepartureTimes*>(near.get());
    ASSERT_TRUE(times && times->departure_source());
    const std::int64_t before = near->now();
    const auto frame = frame_of(60, 1);
    ASSERT_EQ(near->send(std::vector<Outgoing>(50, Outgoing{frame, 0})).value(), 50U);
    ASSERT_TRUE(near->flush(near->now() + second).value_or(false));
    std::vector<Departure> departures;
    times->read_departures(departures);
    ASSERT_EQ(departures.size(), 50U);
    for (std::size_t i = 0; i < departures.size(); ++i) {
      EXPECT_EQ(departures[i].index, i);
      EXPECT_GE(departures[i].time, before - 50'000'000);
      EXPECT_LE(departures[i].time, near->now() + 1'000'000);
    }
    EXPECT_EQ(near->counters().sent, 50U);
    set("COMPLETION", "53=10");
    ASSERT_TRUE(near->send(std::vector<Outgoing>(5, Outgoing{frame, 0})));
    const auto flushed = near->flush(near->now() + second);
    ASSERT_FALSE(flushed);
    EXPECT_THAT(flushed.error().message, AllOf(HasSubstr("work request 53 of 55"), HasSubstr("0x5a")));
    unsetenv("FAKE_VERBS_COMPLETION");
  }
  set("WITHOUT", "times");
  EXPECT_THAT(error_of("verbs:near,txtimes").message, HasSubstr("remove txtimes"));
}

TEST_F(VerbsWireTest, DescriptorSignalsArrival) {
  const auto near = open("verbs:near"), far = open("verbs:far");
  pollfd poll{far->descriptor(), POLLIN, 0};
  EXPECT_FALSE(far->receive(0).value());
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  for (std::uint8_t i = 1; i < 4; ++i) {
    ASSERT_TRUE(near->send(frame_of(60, i)));
    ASSERT_EQ(::poll(&poll, 1, 5000), 1);
    ASSERT_EQ(next(*far), frame_of(60, i));
    EXPECT_FALSE(far->receive(0).value());
  }
}

TEST_F(VerbsWireTest, OneThreadSendsWhileAnotherReceives) {
  testing::expect_both_ways_at_once(open("verbs:near"), open("verbs:far"));
}

TEST_F(VerbsWireTest, SteeredFlowsReceiveMatchingFrames) {
  const auto near = open("verbs:near,noreceive"), sniffer = open("verbs:far"), udp = open("verbs:far,udp=4791"),
             ip = open("verbs:far,ip=10.0.0.7"), mac = open("verbs:far,mac=02:00:00:00:00:09"),
             type = open("verbs:far,ethertype=35093"), rest = open("verbs:far,rest");
  auto to_nine = frame_of(60, 3);
  to_nine[5] = 9;
  const std::vector<std::vector<std::uint8_t>> frames{udp_frame(0x0a000007, 53), udp_frame(0x0a000008, 4791),
                                                      frame_of(60, 1, 0x8915), to_nine};
  for (const auto& frame : frames) ASSERT_TRUE(near->send(frame));
  for (const auto& frame : frames) {
    EXPECT_EQ(next(*sniffer), frame);
    EXPECT_EQ(next(*rest), frame);
  }
  EXPECT_EQ(next(*ip), frames[0]);
  EXPECT_EQ(next(*udp), frames[1]);
  EXPECT_EQ(next(*type), frames[2]);
  EXPECT_EQ(next(*mac), frames[3]);
  for (const auto* wire : {&ip, &udp, &type, &mac}) EXPECT_TRUE(next(**wire, 1'000'000).empty());
  EXPECT_EQ(near->receive(Wire::forever).error().kind, WireError::Kind::unsupported);

  set("WITHOUT", "sniffer");
  const WireError error = error_of("verbs:far");
  EXPECT_EQ(error.kind, WireError::Kind::unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("create a sniffer flow"), HasSubstr("rest or mac=")));
}

TEST_F(VerbsWireTest, DeviceTimestamps) {
  for (const char* without : {"", "wallclock"}) {
    set("WITHOUT", without);
    const auto near = open("verbs:near"), far = open("verbs:far,hwtime");
    EXPECT_TRUE(far->capabilities().hardware_times);
    std::int64_t last = near->now() - 10'000'000;
    for (std::uint8_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(near->send(frame_of(60, i)));
      const auto got = far->receive(far->now() + 5 * second);
      ASSERT_TRUE(got && *got);
      EXPECT_GE((*got)->time, last);
      EXPECT_LE((*got)->time, far->now() + 1'000'000);
      last = (*got)->time;
    }
  }
  set("WITHOUT", "times");
  EXPECT_EQ(error_of("verbs:far,hwtime").kind, WireError::Kind::unsupported);
  EXPECT_THAT(error_of("verbs:far,hwtime").message, HasSubstr("remove hwtime"));
}

TEST_F(VerbsWireTest, RateLimitIsAppliedOrRefused) {
  EXPECT_THAT(error_of("verbs:near,rate=1G").message, HasSubstr("does not support rate limits for raw-packet QPs"));
  set("RATE", "1000-100000000");
  EXPECT_THAT(open("verbs:near,rate=1G")->capabilities().how, HasSubstr("limited to 1000000 kbit/s"));
  EXPECT_THAT(open("verbs:near,rate=1G,burst=4096,typical=1082")->capabilities().how, HasSubstr("limited to"));
  const WireError low = error_of("verbs:near,rate=500K");
  EXPECT_EQ(low.kind, WireError::Kind::unsupported);
  EXPECT_THAT(low.message, HasSubstr("supports 1000 to 100000000 kbit/s"));
  set("FAIL", "ibv_modify_qp_rate_limit=" + std::to_string(EOPNOTSUPP));
  EXPECT_THAT(error_of("verbs:near,rate=1G,burst=4096").message, HasSubstr("set the rate limit"));
}

TEST_F(VerbsWireTest, MissingDevicesAndPortsAreReported) {
  const WireError device = error_of("verbs:mlx5_0");
  EXPECT_EQ(device.kind, WireError::Kind::missing);
  EXPECT_THAT(device.message, HasSubstr("available: near, far"));
  EXPECT_THAT(error_of("verbs:near/2").message, HasSubstr("no port 2; near has ports 1 to 1"));
  set("DEVICES", "");
  EXPECT_THAT(error_of("verbs:near").message, HasSubstr("no RDMA device exists"));
  unsetenv("FAKE_VERBS_DEVICES");
  const WireError kernel = error_of("verbs:near");
  EXPECT_EQ(kernel.kind, WireError::Kind::unsupported);
  EXPECT_EQ(kernel.number, ENOSYS);
  EXPECT_THAT(kernel.message, HasSubstr("modprobe ib_uverbs"));
  set("DEVICES", "near");
  set("LINK_LAYER", "infiniband");
  EXPECT_EQ(error_of("verbs:near").kind, WireError::Kind::unsupported);
  EXPECT_THAT(error_of("verbs:near").message,
              HasSubstr("link layer of the port is InfiniBand; raw packets require Ethernet"));
  unsetenv("FAKE_VERBS_LINK_LAYER");
  set("WITHOUT", "raw");
  EXPECT_EQ(error_of("verbs:near").kind, WireError::Kind::unsupported);
  EXPECT_THAT(error_of("verbs:near").message, HasSubstr("does not support raw-packet QPs"));
}

// Each call that can fail while a wire is opened, and the resulting message.
TEST_F(VerbsWireTest, EachFailingStepIsNamed) {
  using Kind = WireError::Kind;
  const struct {
    const char* call;
    int number;
    Kind kind;
    const char* says;
  } steps[] = {
      {"ibv_get_device_list", EACCES, Kind::forbidden, "list the RDMA devices"},
      {"ibv_open_device", EACCES, Kind::forbidden, "open the device"},
      {"ibv_query_device_ex", EIO, Kind::missing, "query the device attributes"},
      {"ibv_query_port", EIO, Kind::missing, "query the port"},
      {"ibv_alloc_pd", ENOMEM, Kind::system, "ulimit -l"},
      {"ibv_create_comp_channel", EMFILE, Kind::system, "a completion channel"},
      {"ibv_create_cq", ENOMEM, Kind::system, "create a completion queue"},
      {"ibv_create_qp", EPERM, Kind::forbidden, "CAP_NET_RAW"},
      {"ibv_create_qp", EINVAL, Kind::unsupported, "does not support raw-packet QPs"},
      {"ibv_reg_mr", ENOMEM, Kind::system, "register memory for frames"},
      {"ibv_modify_qp", EIO, Kind::missing, "change the QP to INIT"},
      {"ibv_modify_qp", EINVAL, Kind::system, "change the QP to INIT"},
      {"ibv_post_recv", EINVAL, Kind::system, "post receive buffers"},
      {"ibv_create_flow", EPERM, Kind::forbidden, "create a sniffer flow"},
      {"ibv_create_flow", EINVAL, Kind::unsupported, "create a sniffer flow"},
  };
  for (const auto& step : steps) {
    set("FAIL", fmt::format("{}={}", step.call, step.number));
    const WireError error = error_of("verbs:near");
    EXPECT_EQ(error.kind, step.kind) << step.call << ": " << error.message;
    EXPECT_EQ(error.number, step.number) << step.call;
    EXPECT_THAT(error.message, AllOf(HasSubstr("verbs:near"), HasSubstr(step.says)));
  }
  // All objects were destroyed. Otherwise the fake libibverbs prints an error and keeps the device open.
  unsetenv("FAKE_VERBS_FAIL");
  ::testing::internal::CaptureStderr();
  open("verbs:near")->close();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(VerbsWireTest, MissingPrivilegeIsNamed) {
  testing::without_rights([] {
    const WireError error = error_of("verbs:near");
    EXPECT_EQ(error.kind, WireError::Kind::forbidden);
    EXPECT_THAT(error.message, HasSubstr("setcap cap_net_raw+ep"));
  });
}

TEST_F(VerbsWireTest, FullQueueAcceptsFewerFrames) {
  const auto near = open("verbs:near,depth=4,noreceive"), far = open("verbs:far");
  ASSERT_TRUE(spaces_->run("ip link set far down; until ip link show near | grep -q NO-CARRIER; do :; done"));
  // The fake device, like a real one, holds posted frames while there is no carrier.
  const auto frame = frame_of(60, 1);
  const std::vector<Outgoing> frames(6, Outgoing{frame, 0});
  const auto first = near->send(frames);
  ASSERT_TRUE(first || first.error().kind == WireError::Kind::down);
  EXPECT_EQ(first.value_or(4), 4U);
  EXPECT_EQ(near->counters().sent, 0U);
  const auto flushed = near->flush(near->now() + 5 * second);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().kind, WireError::Kind::down);
  EXPECT_THAT(flushed.error().message, HasSubstr("port 1 is down"));
  ASSERT_TRUE(spaces_->run("ip link set far up") && spaces_->run(testing::Namespaces::until_up("near")));
  const std::int64_t deadline = near->now() + 5 * second;
  while (!near->flush(deadline).value_or(false)) ASSERT_LT(near->now(), deadline);
  EXPECT_EQ(near->counters().sent, first.value_or(0));
  EXPECT_EQ(near->send(frames).value(), 4U);
}

TEST_F(VerbsWireTest, EnomemOfTheDeviceIsAFullQueue) {
  for (const char* how : {"verbs:near", "verbs:near,post"}) {
    const auto near = open(how);
    set("FAIL", fmt::format("ibv_post_send={},ibv_wr_complete={}", ENOMEM, ENOMEM));
    const auto sent = near->send(frame_of(60, 1));
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().kind, WireError::Kind::full);
    unsetenv("FAKE_VERBS_FAIL");
    EXPECT_TRUE(near->send(frame_of(60, 1)));
  }
}

TEST_F(VerbsWireTest, FailedCompletionEndsWireAndOnlySentFramesCount) {
  for (const char* how : {"verbs:near", "verbs:near,post,signal=200,depth=512"}) {
    const auto near = open(how);
    const auto frame = frame_of(100, 1);
    const std::vector<Outgoing> frames(40, Outgoing{frame, 0});
    set("COMPLETION", "37=10");  // remote access error
    EXPECT_EQ(near->send(frames).value(), 40U);
    const auto flushed = near->flush(near->now() + second);
    ASSERT_FALSE(flushed);
    EXPECT_EQ(flushed.error().kind, WireError::Kind::system);
    EXPECT_THAT(flushed.error().message,
                AllOf(HasSubstr("work request 37 of 40 (100 bytes) failed"), HasSubstr("0x5a")));
    EXPECT_EQ(near->counters().sent, 36U);
    EXPECT_EQ(near->counters().sent_bytes, 3600U);
    EXPECT_EQ(near->send(frames).error().message, flushed.error().message);
    EXPECT_EQ(near->writable(0).value_or(true), true);
    unsetenv("FAKE_VERBS_COMPLETION");
  }
}

// A caller may skip a frame after an error of kind frame, but a failed QP refuses all later frames.
TEST_F(VerbsWireTest, LengthErrorOfCompletionIsNotAnErrorOfOneFrame) {
  const auto near = open("verbs:near");
  set("COMPLETION", "2=1");  // local length error
  const auto frame = frame_of(100, 1);
  ASSERT_TRUE(near->send(std::vector<Outgoing>(3, Outgoing{frame, 0})));
  const auto flushed = near->flush(near->now() + second);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().kind, WireError::Kind::system);
  EXPECT_THAT(flushed.error().message, HasSubstr("set its MTU with mtu=…"));
  EXPECT_EQ(near->send(frame).error().kind, WireError::Kind::system);
}

TEST_F(VerbsWireTest, InvalidFrameLengthsAreRejected) {
  const auto near = open("verbs:near");
  EXPECT_EQ(near->capabilities().max_bytes, 1518U);
  EXPECT_EQ(near->send(frame_of(1519, 1)).error().kind, WireError::Kind::frame);
  EXPECT_EQ(near->send(std::vector<std::uint8_t>(13)).error().kind, WireError::Kind::frame);
  set("L2_INLINE", "18");
  const auto demanded = near->send(frame_of(16, 1));
  ASSERT_FALSE(demanded);
  EXPECT_EQ(demanded.error().kind, WireError::Kind::frame);
  EXPECT_THAT(demanded.error().message, HasSubstr("inline=…"));
  EXPECT_TRUE(near->send(frame_of(60, 1)));
  EXPECT_TRUE(open("verbs:near,inline=60")->send(frame_of(16, 1)));
}

TEST_F(VerbsWireTest, FrameLongerThanBuffersEndsReceiving) {
  const auto near = open("verbs:near"), far = open("verbs:far,mtu=100");
  ASSERT_TRUE(near->send(frame_of(60, 1)));
  ASSERT_TRUE(near->send(frame_of(500, 2)));
  EXPECT_EQ(next(*far), frame_of(60, 1));
  const auto got = far->receive(far->now() + 5 * second);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, WireError::Kind::system);
  EXPECT_THAT(got.error().message, HasSubstr("maximum frame length is 118 bytes"));
}

TEST_F(VerbsWireTest, RemovedDeviceIsAnError) {
  const auto near = open("verbs:near");
  const auto frame = frame_of(60, 1);
  ASSERT_TRUE(near->send(frame));
  ASSERT_TRUE(spaces_->run("ip link del near"));
  std::optional<WireError> error;
  for (const std::int64_t deadline = near->now() + 5 * second; !error && near->now() < deadline;)
    if (const auto sent = near->send(frame); !sent) error = sent.error();
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->kind == WireError::Kind::missing || error->kind == WireError::Kind::down) << error->message;
  EXPECT_EQ(near->counters().sent, 1U);
  // receive() must return although no frame can arrive.
  const auto got = near->receive(Wire::forever);
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().kind == WireError::Kind::missing || got.error().kind == WireError::Kind::down);
}

// RoCE is disabled on a port for raw packets, so its GID table is empty.
TEST_F(VerbsWireTest, InterfaceWithoutGidsIsFoundInSysfs) {
  namespace fs = std::filesystem;
  const fs::path sysfs = fs::path(::testing::TempDir()) / fmt::format("sysfs-{}", ::getpid());
  const auto interface = [&](const char* name, const char* port, const char* role) {
    const fs::path path = sysfs / "near" / "device" / "net" / name;
    fs::create_directories(path);
    std::ofstream(path / "dev_port") << port << "\n";
    std::ofstream(path / "phys_port_name") << role << "\n";
  };
  ASSERT_TRUE(spaces_->run("ip link set near mtu 4000 && ip link set far mtu 4000"));
  set("WITHOUT", "gids");
  set("SYSFS", sysfs.string());
  EXPECT_EQ(open("verbs:near")->capabilities().max_bytes, 9216U + 18) << "no interface is known";
  interface("near", "1", "p1");
  EXPECT_EQ(open("verbs:near")->capabilities().max_bytes, 4018U) << "the only interface";
  EXPECT_EQ(open("verbs:near")->capabilities().bits_per_second, 10'000'000'000U);
  EXPECT_EQ(verbs_ports()->front().interface, "near");
  interface("lo", "0", "p0");
  interface("near0", "0", "pf0vf0");
  EXPECT_EQ(verbs_ports()->front().interface, "lo") << "dev_port of port 1 is 0";
  fs::remove_all(sysfs);
  interface("near", "0", "p0");
  interface("far", "1", "p1");
  EXPECT_EQ(verbs_ports()->front().interface, "near");
  ASSERT_TRUE(spaces_->run("ip link set far down; until ip link show near | grep -q NO-CARRIER; do :; done"));
  EXPECT_EQ(error_of("verbs:near").kind, WireError::Kind::down);
  fs::remove_all(sysfs);
}

TEST_F(VerbsWireTest, PortThatIsDownIsNotOpened) {
  set("PORT", "down");
  const WireError error = error_of("verbs:near");
  EXPECT_EQ(error.kind, WireError::Kind::down);
  EXPECT_THAT(error.message, AllOf(HasSubstr("port 1 is down"), HasSubstr("interface near is up")));
}

TEST_F(VerbsWireTest, InvalidOptionsAreRejected) {
  for (const char* options :
       {"/x", "/256", "/", ",depth=1", ",mac=02:00", ",mac=02:00:00:00:00:01x", ",ip=10.0.0", ",udp=65536",
        ",burst=100", ",queues=0", ",threads", ",queues=2,txtimes", ",rest,udp=1", ",rate=5", ",color=red"})
    EXPECT_EQ(error_of(std::string("verbs:near") + options).kind, WireError::Kind::specification) << options;
}

TEST_F(VerbsWireTest, PortsAreListed) {
  set("RATE", "1000-100000000");
  auto ports = verbs_ports();
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 2U);
  EXPECT_EQ(ports->front().device, "near");
  EXPECT_EQ(ports->front().interface, "near");
  EXPECT_EQ(ports->front().state, "active");
  EXPECT_EQ(ports->front().link_layer, "Ethernet");
  EXPECT_TRUE(ports->front().raw_packets && ports->front().requests && ports->front().hardware_times);
  EXPECT_EQ(ports->front().most_rate, 100'000'000'000U);
  set("WITHOUT", "wr");
  EXPECT_FALSE(verbs_ports()->front().requests);
  set("FAIL", "ibv_create_qp=" + std::to_string(EPERM));
  ports = verbs_ports();
  EXPECT_FALSE(ports->front().raw_packets);
  EXPECT_THAT(ports->front().why_not, HasSubstr("CAP_NET_RAW"));
  unsetenv("FAKE_VERBS_DEVICES");
  EXPECT_EQ(verbs_ports().error().number, ENOSYS);
}

}  // namespace
}  // namespace rdmawire::replay
