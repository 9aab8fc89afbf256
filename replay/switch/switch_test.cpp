#include "replay/switch/switch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>

#include "captures/io/reader.hpp"
#include "replay/wires/descriptor.hpp"
#include "replay/wires/pair.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::uint64_t broadcast = 0xffffffffffff;

std::vector<std::uint8_t> frame_of(std::uint64_t to, std::uint64_t from, std::uint8_t number, std::size_t bytes = 64) {
  std::vector<std::uint8_t> frame(bytes, number);
  store_be(frame.data(), 6, to);
  store_be(frame.data() + 6, 6, from);
  store_be(frame.data() + 12, 2, 0x88b5);
  return frame;
}

FaultProgram program(std::string_view text) {
  auto compiled = FaultProgram::compile(text);
  if (!compiled) ADD_FAILURE() << to_string(compiled.error(), text);
  return compiled ? std::move(*compiled) : FaultProgram();
}

// A switch and the hosts at its ports.
struct Net {
  explicit Net(std::size_t hosts_count, SwitchOptions options = {}, std::size_t host_queue = 1024) {
    std::vector<std::unique_ptr<Wire>> ports;
    for (std::size_t i = 0; i < hosts_count; ++i) {
      auto [port, host] = make_wire_pair({.name = "p" + std::to_string(i), .frames = host_queue, .max_bytes = 65'536});
      ports.push_back(std::move(port));
      hosts.push_back(std::move(host));
    }
    auto started = Switch::start(std::move(ports), std::move(options));
    EXPECT_TRUE(started);
    fabric = std::move(*started);
  }
  // Byte 20 of the next frame at a host (-1: no frame arrived in time).
  int next(std::size_t host, std::int64_t within = 5 * second) {
    const auto got = hosts[host]->receive(hosts[host]->now() + within);
    return got && *got ? (*got)->frame[20] : -1;
  }
  void send(std::size_t host, const std::vector<std::uint8_t>& frame) { ASSERT_TRUE(hosts[host]->send(frame)); }
  std::vector<std::unique_ptr<Wire>> hosts;
  std::unique_ptr<Switch> fabric;
};

TEST(Switch, UnknownAddressesAreFloodedAndLearned) {
  Net net(3);
  net.send(0, frame_of(broadcast, 0x02, 1));
  EXPECT_EQ(net.next(1), 1);
  EXPECT_EQ(net.next(2), 1);
  net.send(1, frame_of(0x02, 0x04, 2));  // known: only to this port
  EXPECT_EQ(net.next(0), 2);
  net.send(2, frame_of(broadcast, 0x06, 3));
  EXPECT_EQ(net.next(1), 3);
  EXPECT_EQ(net.next(0), 3);
  EXPECT_FALSE(net.hosts[2]->receive(0).value()) << "neither the unicast frame nor its own";
  net.send(0, frame_of(0x08, 0x02, 4));  // unknown: flooded
  EXPECT_EQ(net.next(1), 4);
  EXPECT_EQ(net.next(2), 4);
  net.send(2, frame_of(0x02, 0x04, 5));  // the host moved to another port
  EXPECT_EQ(net.next(0), 5);
  net.send(0, frame_of(0x04, 0x02, 6));
  EXPECT_EQ(net.next(2), 6);
  const SwitchCounters counters = net.fabric->counters();
  EXPECT_EQ(counters.ports[0].received, 3U);
  EXPECT_EQ(counters.ports[0].flooded, 2U);
  EXPECT_EQ(counters.ports[0].sent, 3U);
  EXPECT_EQ(counters.ports[2].sent, 3U);
}

TEST(Switch, FaultsApplyPerDirection) {
  SwitchOptions options;
  options.faults = program("drop from a every 2\nduplicate from b nth 1");
  Net net(2, std::move(options));
  for (std::uint8_t i = 1; i <= 4; ++i) net.send(0, frame_of(broadcast, 0x02, i));
  EXPECT_EQ(net.next(1), 1);
  EXPECT_EQ(net.next(1), 3);
  net.send(1, frame_of(0x02, 0x04, 9));
  EXPECT_EQ(net.next(0), 9);
  EXPECT_EQ(net.next(0), 9);
  const auto log = net.fabric->fault_log();
  ASSERT_EQ(log.size(), 3U);
  EXPECT_EQ(to_string(log[0], net.fabric->faults()),
            "frame 2 from a (no connection): dropped by rule 1: drop from a every 2");
  EXPECT_EQ(net.fabric->fault_counts()[0].picked, 4U);
  EXPECT_EQ(net.fabric->fault_counts()[0].done, 2U);
}

TEST(Switch, DelayedAndHeldFramesAreSentAtTheirTime) {
  SwitchOptions options;
  options.faults = program("delay 20ms nth 1\nhold 5 within 40ms nth 2");
  Net net(2, std::move(options));
  const std::int64_t begin = net.hosts[0]->now();
  for (std::uint8_t i = 1; i <= 3; ++i) net.send(0, frame_of(broadcast, 0x02, i));
  EXPECT_EQ(net.next(1), 3);
  EXPECT_EQ(net.next(1), 1);
  EXPECT_GE(net.hosts[1]->now(), begin + 20'000'000);
  EXPECT_EQ(net.next(1), 2);
  EXPECT_GE(net.hosts[1]->now(), begin + 40'000'000);
}

TEST(Switch, FaultProgramIsReplacedWhileRunning) {
  SwitchOptions options;
  options.faults = program("drop");
  Net net(2, std::move(options));
  net.send(0, frame_of(broadcast, 0x02, 1));
  while (net.fabric->counters().ports[0].received < 1) std::this_thread::yield();
  net.fabric->set_faults({});
  net.send(0, frame_of(broadcast, 0x02, 2));
  EXPECT_EQ(net.next(1), 2);
}

TEST(Switch, FullQueueAndMissingPeerDropFrames) {
  SwitchOptions options;
  options.queue_frames = 64;
  Net net(3, std::move(options), 100);
  net.hosts[2]->close();
  constexpr std::uint64_t count = 1000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto frame = frame_of(broadcast, 0x02, 1);
    const Outgoing outgoing{frame, 0};
    ASSERT_EQ(send_all(*net.hosts[0], std::span(&outgoing, 1), net.hosts[0]->now() + 5 * second).value(), 1U);
  }
  while (net.fabric->counters().ports[0].received < count) std::this_thread::yield();
  net.fabric->stop();
  const SwitchCounters counters = net.fabric->counters();
  // Frames in the host's queue and in the port's queue.
  EXPECT_EQ(counters.ports[1].sent, 100U);
  EXPECT_EQ(counters.ports[1].queue_full, count - 100 - 64);
  EXPECT_GT(counters.ports[2].down, 0U);
  EXPECT_EQ(counters.ports[2].down + counters.ports[2].queue_full, count);
  EXPECT_EQ(counters.ports[2].sent, 0U);
  EXPECT_THAT(counters.ports[2].trouble, HasSubstr("the peer closed the wire"));
}

TEST(Switch, RecordedFramesCanBeRead) {
  std::string pattern = fs::temp_directory_path() / "switchXXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path directory = pattern;
  SwitchOptions options;
  options.arrived = captures::Writer::create((directory / "in.pcapng").string()).value();
  options.left = captures::Writer::create((directory / "out.pcapng").string()).value();
  options.passed = captures::Writer::create((directory / "passed.pcapng").string()).value();
  options.faults = program("drop nth 2\ncorrupt byte 20 mask 0x80 nth 2\nduplicate nth 1");
  Net net(2, std::move(options));
  for (std::uint8_t i = 1; i <= 3; ++i) net.send(0, frame_of(broadcast, 0x02, i));
  EXPECT_EQ(net.next(1), 1);
  EXPECT_EQ(net.next(1), 1);
  EXPECT_EQ(net.next(1), 0x83);
  net.fabric->stop();
  net.fabric->stop();
  const auto read = [&](const char* name) {
    auto reader = captures::Reader::open((directory / name).string()).value();
    std::vector<std::string> seen;
    captures::Record record;
    while (reader.next(record) == captures::Next::record) {
      std::string text = std::to_string(record.interface) + ":" + std::to_string(record.bytes[20]);
      for (const std::string_view comment : record.comments()) text += " " + std::string(comment);
      seen.push_back(text);
    }
    EXPECT_EQ(reader.interfaces()[0].name, "p0:a");
    return seen;
  };
  EXPECT_THAT(read("in.pcapng"), ElementsAre("0:1 sent 2 times by rule 3", "0:2 dropped by rule 1",
                                             "0:3 byte 20 of the frame: bits 0x80 flipped by rule 2"));
  EXPECT_THAT(read("out.pcapng"), ElementsAre("1:1 sent 2 times by rule 3", "1:1 sent 2 times by rule 3",
                                              "1:131 byte 20 of the frame: bits 0x80 flipped by rule 2"));
  EXPECT_THAT(read("passed.pcapng"),
              ElementsAre("0:1 sent 2 times by rule 3", "0:1 sent 2 times by rule 3", "0:2 dropped by rule 1",
                          "0:131 byte 20 of the frame: bits 0x80 flipped by rule 2"));
  fs::remove_all(directory);
}

// A wire that reads many frames at once: poll() does not report the frames that it has buffered.
TEST(Switch, FramesBufferedByWireAreForwarded) {
  class Burst final : public Wire {
   public:
    Burst() { capabilities_.max_bytes = 100; }
    [[nodiscard]] const std::string& name() const override { return name_; }
    [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
    [[nodiscard]] int descriptor() const override { return arrival_.get(); }
    [[nodiscard]] WireCounters counters() const override { return {}; }
    WireResult<std::size_t> send(std::span<const Outgoing> frames) override { return frames.size(); }
    WireResult<std::optional<Received>> receive(std::int64_t /*deadline*/) override {
      std::uint64_t count = 0;
      if (read(arrival_.get(), &count, sizeof count) > 0) left_ = 1000;
      if (left_ == 0) return std::nullopt;
      --left_;
      return Received{frame_, now(), 64, false};
    }
    void close() override {}

   private:
    std::string name_ = "burst";
    WireCapabilities capabilities_;
    Descriptor arrival_{eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::vector<std::uint8_t> frame_ = frame_of(broadcast, 0x02, 1);
    int left_ = 0;
  };
  auto [port, host] = make_wire_pair({.name = "p", .frames = 2000, .max_bytes = 100});
  std::vector<std::unique_ptr<Wire>> wires;
  wires.push_back(std::make_unique<Burst>());
  wires.push_back(std::move(port));
  const auto fabric = Switch::start(std::move(wires), {}).value();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(host->receive(host->now() + 5 * second).value()) << i;
}

TEST(Switch, TooFewWiresAreRejected) {
  const auto started = Switch::start({}, {});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("2 to 26 wires, not 0"));
}

}  // namespace
}  // namespace rdmawire::replay
