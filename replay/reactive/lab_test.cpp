// Replays captures of two hosts against a third host in the lab.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/runner/live_target.hpp"
#include "replay/reactive/over_uc_for_test.hpp"
#include "replay/reactive/run.hpp"
#include "source_directory.hpp"

namespace rdmawire::replay::reactive {
namespace {

constexpr std::int64_t second = 1'000'000'000;

class Lab : public ::testing::Test {
 protected:
  /// A guest that is shared by all tests of a device.
  static conformance::Target* guest(const std::string& device) {
    static std::map<std::string, std::unique_ptr<conformance::Target>> guests;
    auto& one = guests[device];
    if (!one) {
      conformance::TargetOptions options;
      options.device = device;
      options.agent = RDMAWIRE_AGENT;
      auto opened = conformance::Target::open(options);
      if (!opened) ADD_FAILURE() << opened.error().message;
      if (opened) one = std::move(*opened);
    }
    return one.get();
  }
  static Report played(const std::string& device, const std::string& name, const ExchangeOptions& which,
                       const std::string& faults = "") {
    return played_file(device, RDMAWIRE_SOURCE_DIR "/captures/samples/" + name, which, faults);
  }
  static Report played_file(const std::string& device, const std::string& file, const ExchangeOptions& which,
                            const std::string& faults = "") {
    const auto exchange = read_exchange(file, which);
    EXPECT_TRUE(exchange) << (exchange ? "" : exchange.error().message);
    conformance::Target* target = guest(device);
    if (!exchange || !target) return {};
    RunOptions how;
    how.machine.retry_after = 5 * second;  // emulated hosts are slow
    how.machine.step_timeout = 60 * second;
    how.faults = FaultProgram::compile(faults).value();
    return play(*exchange, conformance::live_device(*target), how);
  }
  static void is_as_captured(const Report& report) {
    EXPECT_TRUE(report.good()) << text_of(report);
    EXPECT_EQ(report.ours.done, report.ours.all);
    EXPECT_EQ(report.theirs.done, report.theirs.all);
    EXPECT_THAT(report.memory, testing::Not(testing::IsEmpty()));
    EXPECT_THAT(report.error_counters(), testing::IsEmpty()) << text_of(report);
  }
};

using enum tracking::Side;

TEST_F(Lab, RcPingpongMatchesCapturedPeer) {
  for (const auto side : {a, b}) is_as_captured(played("lab:rxe", "rc-pingpong.pcap.gz", {.side = side}));
}

TEST_F(Lab, RpingMatchesCapturedPeer) {
  for (const auto side : {a, b}) is_as_captured(played("lab:rxe", "rping.pcap", {.side = side}));
}

TEST_F(Lab, ReadsAtomicsAndWritesMatchCapturedPeer) {
  for (const auto side : {a, b}) {
    is_as_captured(played("lab:rxe", "rc-read.pcap.gz", {.side = side}));
    is_as_captured(played("lab:rxe", "rc-atomic.pcap", {.side = side}));
    is_as_captured(played("lab:rxe", "rc-write-ipv6.pcap", {.side = side}));
  }
}

TEST_F(Lab, UcMessagesAreReceived) {
  for (const char* name : {"rc-pingpong.pcap.gz", "rc-write-ipv6.pcap"}) {
    const std::string path = over_uc(std::string(RDMAWIRE_SOURCE_DIR "/captures/samples/") + name);
    is_as_captured(played_file("lab:rxe", path, {}));
    std::filesystem::remove(path);
  }
}

TEST_F(Lab, LostRequestCausesNakAndRetransmission) {
  const Report report = played("lab:rxe", "rc-pingpong.pcap.gz", {.side = a}, "drop connection 1 psn +5 try 1 from a");
  EXPECT_TRUE(report.good()) << text_of(report);
  EXPECT_EQ(report.ours.done, 50U);
  EXPECT_EQ(report.faults.size(), 1U);
  EXPECT_EQ(report.counts.again, 3U) << text_of(report);  // PSNs +5, +6 and +7
  ASSERT_EQ(report.divergences.size(), 1U);
  EXPECT_THAT(report.divergences[0].live, testing::StartsWith("NAK PSN sequence error, PSN +5"));
  EXPECT_THAT(report.counters, testing::Contains(testing::Pair("out_of_seq_request", 1)));
}

TEST_F(Lab, LostReadResponsesAreRecovered) {
  for (const auto side : {a, b}) {
    const Report report = played("lab:rxe", "rc-read.pcap.gz", {.side = side}, "drop psn +3 try 1 answers");
    EXPECT_TRUE(report.good()) << text_of(report);
    EXPECT_EQ(report.faults.size(), 1U);
  }
}

TEST_F(Lab, SiwStreamsMatchCapturedPeer) {
  for (const char* name : {"siw-rping.pcap", "siw-send.pcap.gz", "siw-write.pcap.gz", "siw-read.pcap.gz"})
    for (const auto side : {a, b}) is_as_captured(played("lab:siw", name, {.side = side}));
}

}  // namespace
}  // namespace rdmawire::replay::reactive
