// Real guests: Linux rxe in virtual machines that are connected by wires.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "captures/analysis/run.hpp"
#include "captures/io/reader.hpp"
#include "conformance/lab/guest.hpp"
#include "conformance/lab/image.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "replay/host/host.hpp"
#include "replay/switch/switch.hpp"
#include "replay/wires/clock.hpp"

namespace rdmawire::replay {
namespace {

namespace fs = std::filesystem;
using lab::Guest;
using ::testing::HasSubstr;

constexpr std::int64_t second = 1'000'000'000;

class Guests : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::system("command -v qemu-system-x86_64 >/dev/null") != 0) GTEST_SKIP() << "requires qemu-system-x86_64";
    if (lab::cached_layers(lab::default_cache()).empty())
      GTEST_SKIP() << "requires the lab image; create it with `rdmawire lab run -- true`";
    std::string pattern = fs::temp_directory_path() / "guestsXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }
  std::optional<Guest> boot(unsigned number) {
    const auto image = lab::provide_image({});
    if (!image) {
      ADD_FAILURE() << image.error().message;
      return std::nullopt;
    }
    lab::GuestOptions options;
    options.number = number;
    options.timeout = std::chrono::seconds(120);
    auto guest = Guest::boot(*image, directory_, options);
    if (!guest) {
      ADD_FAILURE() << guest.error().message;
      return std::nullopt;
    }
    return std::move(*guest);
  }
  static std::string run(Guest& guest, const std::vector<std::string>& words) {
    lab::RunOptions options;
    options.timeout = std::chrono::seconds(60);
    const auto result = guest.run(words, options);
    if (!result) return result.error().message;
    return (result->status == 0 ? "ok\n" : "failed\n") + result->output + result->error;
  }
  fs::path directory_;
};

TEST_F(Guests, GuestPingsHostedWire) {
  auto guest = boot(1);
  ASSERT_TRUE(guest);
  auto opened = open_wire(guest->ports()[0].wire);
  ASSERT_TRUE(opened) << opened.error().message;
  auto wire = HostedWire::make(std::move(*opened),
                               {.mac = 0x020000000064,
                                .addresses = {*IpAddress::parse("10.77.0.100"), *IpAddress::parse("fd77:0::100")}})
                  .value();
  // The guest also answers ARP.
  const auto mac = wire->resolve(*IpAddress::parse("10.77.0.1"));
  ASSERT_TRUE(mac) << mac.error().message;
  EXPECT_EQ(mac_text(*mac), guest->ports()[0].mac);
  for (const char* target : {"10.77.0.100", "fd77:0::100"}) {
    std::atomic<bool> over = false;
    std::string said;
    std::thread ping([&] {
      said = run(*guest, {"ping", "-c", "3", "-W", "10", target});
      over = true;
    });
    while (!over) ASSERT_TRUE(wire->receive(wire->now() + 5'000'000));
    ping.join();
    EXPECT_THAT(said, HasSubstr("3 packets received")) << said;
  }
}

// PSNs that the analysis of a capture reports as lost in the network.
struct Seen final : tracking::Sink {
  void event(const tracking::Connection* /*connection*/, const tracking::Event& event) override {
    if (event.kind != tracking::EventKind::lost_in_network) return;
    for (std::uint64_t i = 0; i < event.packets; ++i) lost.insert((event.psn + i) & 0xffffff);
    causes.insert(std::string(tracking::to_string(event.cause)));
  }
  std::multiset<std::uint64_t> lost;
  std::set<std::string> causes;
};
Seen analyzed(const fs::path& capture) {
  Seen seen;
  captures::analysis::RunOptions options;
  options.files = {capture.string()};
  options.also = &seen;
  const auto result = captures::analysis::run(options);
  EXPECT_THAT(result.errors, ::testing::IsEmpty());
  return seen;
}

TEST_F(Guests, AnalysisReportsFramesDroppedBySwitch) {
  auto first = boot(1);
  ASSERT_TRUE(first);
  auto second_guest = boot(2);
  ASSERT_TRUE(second_guest);
  std::vector<std::unique_ptr<Wire>> wires;
  for (Guest* guest : {&*first, &*second_guest}) {
    auto wire = open_wire(guest->ports()[0].wire);
    ASSERT_TRUE(wire) << wire.error().message;
    wires.push_back(std::move(*wire));
  }
  SwitchOptions options;
  options.arrived = captures::Writer::create((directory_ / "arrived.pcapng").string()).value();
  options.left = captures::Writer::create((directory_ / "left.pcapng").string()).value();
  options.faults = FaultProgram::compile(
                       "drop psn +3 try 1 from a\n"
                       "drop psn +41..+42 try 1 from a\n"
                       "drop psn +17 try 1 from b\n")
                       .value();
  auto fabric = Switch::start(std::move(wires), std::move(options));
  ASSERT_TRUE(fabric);
  const std::vector<std::string> program = {
      "ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-s", "8192", "-m", "1024", "-n", "8"};
  std::string server;
  std::thread listening([&] { server = run(*first, program); });
  std::string client;
  // Wait until the server listens.
  for (const std::int64_t until = wire_clock::now() + 30 * second; wire_clock::now() < until;) {
    auto words = program;
    words.emplace_back("10.77.0.1");
    client = run(*second_guest, words);
    if (client.starts_with("ok")) break;
  }
  listening.join();
  EXPECT_THAT(client, HasSubstr("8 iters")) << client;
  EXPECT_THAT(server, HasSubstr("8 iters")) << server;
  (*fabric)->stop();

  // Frame numbers in the log equal those in the capture of received frames.
  std::set<std::uint64_t> frames;
  for (const FaultLogEntry& entry : (*fabric)->fault_log()) frames.insert(entry.frame);
  EXPECT_EQ(frames.size(), 4U);
  std::multiset<std::uint64_t> dropped;
  auto reader = captures::Reader::open((directory_ / "arrived.pcapng").string()).value();
  captures::Record record;
  while (reader.next(record) == captures::Next::record)
    if (frames.contains(record.number)) dropped.insert(decode(record.bytes).get<Bth>().value().get<"psn">());

  const Seen sent = analyzed(directory_ / "arrived.pcapng"), got = analyzed(directory_ / "left.pcapng");
  EXPECT_EQ(got.lost, dropped);
  EXPECT_EQ(got.causes, std::set<std::string>{"before_capture"});
  // The sender's capture only proves the loss of the first missing packet, which a NAK indicates. Packets after it are
  // retransmitted anyway, so the loss of the second one cannot be inferred.
  std::multiset<std::uint64_t> provable;
  for (const std::uint64_t psn : dropped)
    if (!dropped.contains((psn - 1) & 0xffffff)) provable.insert(psn);
  EXPECT_EQ(provable.size(), 3U);
  EXPECT_EQ(sent.lost, provable);
  EXPECT_EQ(sent.causes, std::set<std::string>{"after_capture"});
}

}  // namespace
}  // namespace rdmawire::replay
