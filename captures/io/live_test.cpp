#include "captures/io/live.hpp"

#include <gmock/gmock.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <csignal>
#include <thread>

#include "captures/io/test_support.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

LiveCapture* to_stop = nullptr;

/// Returns an Ethernet frame, by default with the EtherType of RoCEv1.
ByteVector frame(std::uint8_t mark, std::uint16_t type = 0x8915) {
  ByteVector out = hex("ffffffffffff 525400000002");
  out.push_back(static_cast<std::uint8_t>(type >> 8));
  out.push_back(static_cast<std::uint8_t>(type));
  out.resize(60, mark);
  return out;
}

/// Runs `body` in a thread with its own network namespace, which contains only a veth pair. Returns false if the
/// permission is missing.
template <class Body>
bool between_two_ends(Body body) {
  bool permitted = false;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    if (std::system("ip link add rw0 type veth peer name rw1 && "
                    "ip link set rw0 up addrgenmode none && ip link set rw1 up addrgenmode none") != 0)
      return;
    permitted = true;
    body();
  }).join();
  return permitted;
}
constexpr const char* needs_namespace = "skipped: requires root, ip(8) and veth for a network namespace";

class Sender {
 public:
  explicit Sender(const char* device) : socket_(::socket(AF_PACKET, SOCK_RAW, 0)) {
    address_.sll_family = AF_PACKET;
    address_.sll_ifindex = static_cast<int>(::if_nametoindex(device));
  }
  ~Sender() { ::close(socket_); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  void send(const ByteVector& bytes) const {
    EXPECT_EQ(
        ::sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&address_), sizeof address_),
        static_cast<ssize_t>(bytes.size()));
  }

 private:
  int socket_;
  sockaddr_ll address_{};
};

TEST(Live, CapturesFilteredPacketsWithTimesAndCounts) {
  const bool permitted = between_two_ends([] {
    const auto devices = LiveCapture::devices();
    ASSERT_TRUE(devices);
    EXPECT_THAT(*devices, Contains(Field(&Device::name, "rw0")));

    auto live = LiveCapture::open("rw0", {.snap_length = 40, .filter = "ether proto 0x8915", .patience = 50'000'000});
    ASSERT_TRUE(live) << to_string(live.error());
    EXPECT_EQ(live->interface().link, LinkType::ethernet);
    EXPECT_EQ(live->interface().filter, "ether proto 0x8915");
    EXPECT_TRUE(live->nanoseconds());
    const Sender sender("rw1");
    sender.send(frame(1));
    sender.send(frame(2, 0x88b5));
    sender.send(frame(3));
    Record record;
    std::vector<Packet> packets;
    for (int i = 0; i < 40 && packets.size() < 2; ++i)
      if (live->next(record) == Next::record) packets.push_back(copy(record));
    ASSERT_EQ(packets.size(), 2u);
    EXPECT_EQ(packets[0].bytes.size(), 40u);
    EXPECT_EQ(packets[0].wire_length, 60u);
    EXPECT_EQ(packets[0].bytes.back(), 1);
    EXPECT_EQ(packets[1].bytes.back(), 3);
    EXPECT_EQ(packets[1].number, 2u);
    EXPECT_GE(packets[1].time, packets[0].time);
    EXPECT_GT(packets[0].time, 1'700'000'000'000'000'000);
    EXPECT_EQ(live->next(record), Next::timeout);

    const auto statistics = live->statistics();
    ASSERT_TRUE(statistics);
    EXPECT_EQ(statistics->received, 2u);
    EXPECT_EQ(statistics->system_drops, 0u);
    EXPECT_EQ(statistics->interface_drops, 0u);
    EXPECT_EQ(statistics->delivered, 2u);
    live->stop();
    EXPECT_EQ(live->next(record), Next::end);
  });
  if (!permitted) GTEST_SKIP() << needs_namespace;
}
TEST(Live, SignalHandlerStopsWaiting) {
  const bool permitted = between_two_ends([] {
    auto live = LiveCapture::open("rw0", {.patience = 30'000'000'000});
    ASSERT_TRUE(live) << to_string(live.error());
    to_stop = &*live;
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { to_stop->stop(); };
    ::sigaction(SIGUSR1, &action, &before);
    const pthread_t waiting = ::pthread_self();
    std::thread later([waiting] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ::pthread_kill(waiting, SIGUSR1);
    });
    Record record;
    Next next{};
    const auto begin = std::chrono::steady_clock::now();
    while ((next = live->next(record)) == Next::timeout || next == Next::record)
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(120)) break;
    EXPECT_EQ(next, Next::end);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    later.join();
    ::sigaction(SIGUSR1, &before, nullptr);
  });
  if (!permitted) GTEST_SKIP() << needs_namespace;
}
TEST(Live, ReportsErrors) {
  const bool permitted = between_two_ends([] {
    const auto wrong = LiveCapture::open("rw0", {.filter = "udp prot 4791"});
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().kind, CaptureError::Kind::filter);
    EXPECT_THAT(to_string(wrong.error()), HasSubstr("rw0: invalid capture filter \"udp prot 4791\": "));
    const auto none = LiveCapture::open("rw7");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().kind, CaptureError::Kind::device);
    EXPECT_THAT(to_string(none.error()), HasSubstr("rw7: No such device exists"));
  });
  if (!permitted) GTEST_SKIP() << needs_namespace;
}
TEST(Live, ChecksFiltersWithoutDevice) {
  EXPECT_TRUE(LiveCapture::check_filter("udp port 4791 or ether proto 0x8915", LinkType::ethernet));
  const auto wrong = LiveCapture::check_filter("udp port", LinkType::ethernet);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, CaptureError::Kind::filter);
  EXPECT_THAT(to_string(wrong.error()), HasSubstr("invalid capture filter \"udp port\": "));
}

}  // namespace
}  // namespace rdmawire::captures
