#include "replay/wires/xdp.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include "replay/wires/veth_for_test.hpp"

namespace rdmawire::replay {
namespace {

using testing::copy;
using testing::frame_of;
using ::testing::HasSubstr;
using testing::next;
using testing::second;

class XdpWireTest : public testing::VethTest {
 protected:
  void SetUp() override {
    VethTest::SetUp();
    if (IsSkipped()) return;
    const WireError error = error_of("xdp:near,noreceive");
    if (error.kind == WireError::Kind::unsupported) GTEST_SKIP() << error.message;
  }
};

TEST_F(XdpWireTest, FramesAreSentInBothDirectionsInBatches) {
  for (const char* how : {"", ",copy", ",batch=7,frames=64"}) {
    const auto near = open(std::string("xdp:near") + how), far = open(std::string("xdp:far") + how);
    EXPECT_THAT(near->capabilities().how, HasSubstr("copies, queue 0, native XDP program"));
    std::vector<std::vector<std::uint8_t>> frames;
    for (std::size_t i = 0; i < 200; ++i) frames.push_back(frame_of(60 + i * 7, static_cast<std::uint8_t>(i)));
    // The capacity of the smallest ring.
    for (std::size_t from = 0; from < frames.size(); from += 50) {
      std::vector<Outgoing> outgoing;
      for (std::size_t i = from; i < from + 50; ++i) outgoing.push_back({frames[i], 0});
      ASSERT_EQ(near->send(outgoing).value(), 50U);
      for (std::size_t i = from; i < from + 50; ++i) {
        const auto got = next(*far);
        ASSERT_TRUE(got);
        ASSERT_EQ(copy(*got), frames[i]);
      }
      ASSERT_TRUE(near->flush(near->now() + second).value());
    }
    EXPECT_EQ(near->counters().sent, 200U);
    EXPECT_EQ(near->counters().sent_bytes, 200U * 60 + 7 * 199 * 200 / 2);
    EXPECT_EQ(far->counters().received, 200U);
    EXPECT_EQ(far->counters().dropped, 0U);
    ASSERT_TRUE(far->send(frame_of(1514, 3)));
    EXPECT_EQ(copy(next(*near).value()), frame_of(1514, 3));
  }
}

// Frames in several pieces, as with a path MTU of 4096.
TEST_F(XdpWireTest, FramesLongerThanAPage) {
  ASSERT_TRUE(spaces_->run("ip link set near mtu 9000 && ip link set far mtu 9000"));
  const auto near = open("xdp:near,noreceive"), far = open("packet:far");
  if (near->capabilities().max_bytes == 4096) GTEST_SKIP() << "requires Linux 6.6";
  EXPECT_EQ(near->capabilities().max_bytes, 9018U);
  for (const std::size_t bytes : {4096U, 4097U, 4170U, 8192U, 9014U}) {
    ASSERT_TRUE(near->send(frame_of(bytes, 5)));
    const auto got = next(*far);
    ASSERT_TRUE(got) << bytes;
    EXPECT_EQ(copy(*got), frame_of(bytes, 5));
  }
  ASSERT_TRUE(near->flush(near->now() + second).value());
  EXPECT_EQ(near->counters().sent, 5U);
  EXPECT_EQ(near->counters().sent_bytes, 4096U + 4097 + 4170 + 8192 + 9014);
  EXPECT_EQ(near->send(frame_of(9015, 5)).error().kind, WireError::Kind::frame);
  near->close();
  const auto long_ones = open("xdp:near");
  ASSERT_TRUE(far->send(frame_of(4170, 6)));
  const auto got = next(*long_ones);
  ASSERT_TRUE(got);
  EXPECT_EQ(copy(*got), frame_of(4170, 6));
}

TEST_F(XdpWireTest, OneThreadSendsWhileAnotherReceives) {
  testing::expect_both_ways_at_once(open("xdp:near"), open("xdp:far"));
}

TEST_F(XdpWireTest, FrameIsSentAtItsTime) {
  const auto near = open("xdp:near,noreceive"), far = open("packet:far");
  const auto frame = frame_of(60, 1);
  const std::int64_t begin = near->now();
  const std::array<Outgoing, 3> frames{{{frame, 0}, {frame, begin + 20'000'000}, {frame, begin + 40'000'000}}};
  ASSERT_EQ(near->send(frames).value(), 3U);
  EXPECT_GE(near->now(), begin + 40'000'000);
  for (const std::int64_t due : {std::int64_t{0}, begin + 20'000'000, begin + 40'000'000}) {
    const auto got = next(*far);
    ASSERT_TRUE(got);
    EXPECT_GE(got->time, due);
  }
}

TEST_F(XdpWireTest, FullRingAcceptsFewerFrames) {
  const auto near = open("xdp:near,frames=64,batch=4096,noreceive");
  const auto frame = frame_of(60, 1);
  const std::vector<Outgoing> frames(500, Outgoing{frame, 0});
  const auto sent = near->send(frames);
  ASSERT_TRUE(sent);
  EXPECT_GT(*sent, 0U);
  ASSERT_TRUE(near->writable(near->now() + second).value());
  ASSERT_TRUE(near->flush(near->now() + second).value());
  EXPECT_EQ(near->counters().sent, *sent);
}

TEST_F(XdpWireTest, LostCarrierAndRemovedInterfaceAreErrors) {
  const auto near = open("xdp:near");
  ASSERT_TRUE(spaces_->run("ip link set far down"));
  const auto error = testing::until_down(*near);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, WireError::Kind::down) << error->message;
  EXPECT_EQ(error_of("xdp:near").kind, WireError::Kind::down);
  ASSERT_TRUE(spaces_->run("ip link del near"));
  EXPECT_EQ(near->send(frame_of(60, 1)).error().kind, WireError::Kind::missing);
  EXPECT_EQ(near->receive(near->now() + 5 * second).error().kind, WireError::Kind::missing);
}

// Frames are redirected from the kernel until the wire is closed.
TEST_F(XdpWireTest, ProgramIsDetachedWhenWireIsClosed) {
  const auto kernel = open("packet:near,incoming"), far = open("packet:far");
  {
    const auto near = open("xdp:near");
    EXPECT_THAT(error_of("xdp:near").message, HasSubstr("another socket uses the queue"));
    ASSERT_TRUE(far->send(frame_of(60, 1)));
    EXPECT_TRUE(next(*near));
    pollfd poll{near->descriptor(), POLLIN, 0};
    EXPECT_FALSE(near->receive(0).value());
    ASSERT_TRUE(far->send(frame_of(60, 2)));
    EXPECT_EQ(::poll(&poll, 1, 5000), 1);
    near->close();
    EXPECT_EQ(near->send(frame_of(60, 1)).error().kind, WireError::Kind::closed);
  }
  ASSERT_TRUE(far->send(frame_of(60, 3)));
  const auto got = next(*kernel);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->frame[20], 3);
}

TEST_F(XdpWireTest, UnavailableResourcesAreReported) {
  const WireError missing = error_of("xdp:nosuch0");
  EXPECT_EQ(missing.kind, WireError::Kind::missing);
  EXPECT_THAT(missing.message, HasSubstr("near"));
  const WireError zero_copy = error_of("xdp:near,zero-copy");
  EXPECT_EQ(zero_copy.kind, WireError::Kind::unsupported);
  EXPECT_THAT(zero_copy.message, HasSubstr("(veth) does not support zero copy; remove zero-copy"));
  const WireError queue = error_of("xdp:near,queue=99");
  EXPECT_THAT(queue.message, HasSubstr("bind to queue 99"));
  EXPECT_THAT(queue.message, HasSubstr("ethtool -l"));
  for (const char* options : {",copy,zero-copy", ",queue=x", ",batch=0", ",frames=1", ",fast"})
    EXPECT_EQ(error_of(std::string("xdp:near") + options).kind, WireError::Kind::specification) << options;
  testing::without_rights([] {
    EXPECT_EQ(error_of("xdp:near").kind, WireError::Kind::forbidden);
    EXPECT_THAT(error_of("xdp:near").message, HasSubstr("CAP_NET_RAW"));
  });
}

}  // namespace
}  // namespace rdmawire::replay
