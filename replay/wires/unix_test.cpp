#include "replay/wires/unix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class UnixWireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "wireXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ / "eth0";
  }
  void TearDown() override { fs::remove_all(directory_); }

  // Like qemu: listens at the path and sends to PATH.peer.
  Descriptor machine() {
    Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path_);
    unlink(path_.c_str());
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ADD_FAILURE() << errno;
    return socket;
  }
  static sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }
  long machine_sends(const Descriptor& socket, const std::vector<std::uint8_t>& frame) {
    const sockaddr_un address = address_of(path_ + ".peer");
    return sendto(socket.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                  sizeof address);
  }
  std::unique_ptr<Wire> wire() {
    auto opened = open_wire("unix:" + path_);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  static std::int64_t soon(const Wire& wire) { return wire.now() + 5'000'000'000; }

  fs::path directory_;
  std::string path_;
};

TEST_F(UnixWireTest, FramesAreSentInBothDirections) {
  const Descriptor guest = machine();
  const auto wire = this->wire();
  const std::vector<std::uint8_t> out(60, 0x11), in(70, 0x22);
  ASSERT_TRUE(wire->send(out));
  std::vector<std::uint8_t> buffer(100);
  ASSERT_EQ(recv(guest.get(), buffer.data(), buffer.size(), 0), 60);
  EXPECT_EQ(buffer[59], 0x11);

  const std::int64_t before = wire->now();
  ASSERT_EQ(machine_sends(guest, in), 70);
  const auto got = wire->receive(soon(*wire));
  ASSERT_TRUE(got && *got);
  EXPECT_EQ(std::vector<std::uint8_t>((*got)->frame.begin(), (*got)->frame.end()), in);
  EXPECT_EQ((*got)->wire_bytes, 70U);
  EXPECT_FALSE((*got)->own);
  EXPECT_GE((*got)->time, before - 1'000'000);
  EXPECT_LE((*got)->time, wire->now());
  const WireCounters counters = wire->counters();
  EXPECT_EQ(counters.sent, 1U);
  EXPECT_EQ(counters.sent_bytes, 60U);
  EXPECT_EQ(counters.received_bytes, 70U);
}

TEST_F(UnixWireTest, MaximumAndMinimumFrameLengths) {
  const Descriptor guest = machine();
  const auto wire = this->wire();
  std::vector<std::uint8_t> frame(65'536, 0x5a), buffer(70'000);
  ASSERT_TRUE(wire->send(frame));
  EXPECT_EQ(recv(guest.get(), buffer.data(), buffer.size(), 0), 65'536);
  ASSERT_EQ(machine_sends(guest, frame), 65'536);
  const auto got = wire->receive(soon(*wire));
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->frame.size(), 65'536U);
  frame.push_back(0);
  const auto too_long = wire->send(frame);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().kind, WireError::Kind::frame);
  EXPECT_THAT(too_long.error().message, HasSubstr("65537 bytes; the valid range is 14 to 65536"));
  EXPECT_FALSE(wire->send(Bytes(frame).first(13)));
  EXPECT_TRUE(wire->send(Bytes(frame).first(14)));
}

TEST_F(UnixWireTest, LongFrameIsTruncatedAndReportsItsLength) {
  const Descriptor guest = machine();
  auto opened = open_unix_wire({.path = path_, .local = {}, .mode = 0600, .max_bytes = 100, .name = {}});
  ASSERT_TRUE(opened);
  ASSERT_EQ(machine_sends(guest, std::vector<std::uint8_t>(300, 1)), 300);
  const auto got = (*opened)->receive(soon(**opened));
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->frame.size(), 100U);
  EXPECT_EQ((*got)->wire_bytes, 300U);
}

TEST_F(UnixWireTest, RestartedPeerIsReconnected) {
  const auto wire = this->wire();
  const std::vector<std::uint8_t> frame(60, 1);
  auto sent = wire->send(frame);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, WireError::Kind::down);
  EXPECT_EQ(sent.error().number, ENOENT);
  EXPECT_THAT(sent.error().message, HasSubstr("start the peer"));
  {
    const Descriptor guest = machine();
    EXPECT_TRUE(wire->send(frame));
  }
  sent = wire->send(frame);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, WireError::Kind::down);
  EXPECT_EQ(sent.error().number, ECONNREFUSED);
  const Descriptor again = machine();
  EXPECT_TRUE(wire->send(frame));
  // Frames of the restarted peer are received.
  ASSERT_EQ(machine_sends(again, frame), 60);
  EXPECT_TRUE(wire->receive(soon(*wire)).value());
}

TEST_F(UnixWireTest, FullQueueAcceptsFewerFrames) {
  const Descriptor guest = machine();
  const auto wire = this->wire();
  const std::vector<std::uint8_t> frame(60, 1);
  const std::vector<Outgoing> many(5000, Outgoing{frame, 0});
  const auto sent = wire->send(many);
  ASSERT_TRUE(sent);
  EXPECT_GT(*sent, 0U);
  EXPECT_LT(*sent, many.size());
  EXPECT_EQ(wire->send(frame).error().kind, WireError::Kind::full);
  EXPECT_EQ(wire->writable(wire->now() + 2'000'000).value(), false);
  std::thread reader([&] {
    std::array<std::uint8_t, 100> buffer{};
    for (std::size_t i = 0; i < many.size() + *sent; ++i)
      if (recv(guest.get(), buffer.data(), buffer.size(), 0) != 60) return;
  });
  EXPECT_EQ(send_all(*wire, many, soon(*wire)).value(), many.size());
  reader.join();
}

TEST_F(UnixWireTest, ReceiveReturnsAtDeadline) {
  const auto wire = this->wire();
  const std::int64_t begin = wire->now();
  const auto nothing = wire->receive(begin + 3'000'000);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
  EXPECT_GE(wire->now(), begin + 3'000'000);
  EXPECT_FALSE(wire->receive(0).value());
}

TEST_F(UnixWireTest, FrameIsSentAtItsTime) {
  const Descriptor guest = machine();
  const auto wire = this->wire();
  const std::vector<std::uint8_t> frame(60, 1);
  const std::int64_t at = wire->now() + 4'000'000;
  const std::array outgoing{Outgoing{frame, at}, Outgoing{frame, at + 2'000'000}};
  EXPECT_EQ(wire->send(outgoing).value(), 2U);
  EXPECT_GE(wire->now(), at + 2'000'000);
}

TEST_F(UnixWireTest, SocketModeIsOwnerOnlyByDefault) {
  {
    const auto wire = this->wire();
    struct stat file {};
    ASSERT_EQ(lstat((path_ + ".peer").c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777U, 0600U);
  }
  const auto wire = open_wire("unix:" + path_ + ",mode=0666");
  ASSERT_TRUE(wire);
  struct stat file {};
  ASSERT_EQ(lstat((path_ + ".peer").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0666U);
}

TEST_F(UnixWireTest, StaleSocketFileIsReplacedActiveOneIsKept) {
  { const Descriptor dead = machine(); }
  fs::rename(path_, path_ + ".peer");
  auto first = open_wire("unix:" + path_);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = open_wire("unix:" + path_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another program listens there"));
  (*first)->close();
  EXPECT_FALSE(fs::exists(path_ + ".peer"));
  EXPECT_EQ((*first)->receive(0).error().kind, WireError::Kind::closed);
  std::ofstream(path_ + ".peer") << "a file";
  const auto third = open_wire("unix:" + path_);
  ASSERT_FALSE(third);
  EXPECT_THAT(third.error().message, HasSubstr("is not a socket"));
  EXPECT_TRUE(fs::exists(path_ + ".peer"));
}

TEST_F(UnixWireTest, InvalidPathsAreRejected) {
  const auto too_long = open_wire("unix:" + (directory_ / std::string(120, 'x')).string());
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().message, HasSubstr("is 107"));
  const auto nowhere = open_wire("unix:" + (directory_ / "no/eth0").string());
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, WireError::Kind::missing);
  EXPECT_THAT(nowhere.error().message, HasSubstr("create its directory first"));
  const auto same = open_wire("unix:" + path_ + ",local=" + path_);
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().message, HasSubstr("they must differ"));
}

}  // namespace
}  // namespace rdmawire::replay
