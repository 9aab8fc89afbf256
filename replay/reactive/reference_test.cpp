// Replays real captures against the reference device, in process and in virtual time.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "captures/io/reader.hpp"
#include "conformance/runner/live_target.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "replay/reactive/over_uc_for_test.hpp"
#include "replay/reactive/run.hpp"
#include "replay/wires/forwarding.hpp"
#include "source_directory.hpp"

namespace rdmawire::replay::reactive {
namespace {

std::string sample(const std::string& name) { return RDMAWIRE_SOURCE_DIR "/captures/samples/" + name; }

std::unique_ptr<conformance::Target> reference(const std::vector<std::string>& faults = {}, bool iwarp = false) {
  conformance::TargetOptions options;
  if (iwarp) options.family = conformance::Family::iwarp;
  options.faults = faults;
  auto target = conformance::Target::open(options);
  EXPECT_TRUE(target) << (target ? "" : target.error().message);
  return target ? std::move(*target) : nullptr;
}

Report played(const std::string& name, const ExchangeOptions& which = {}, const RunOptions& how = {},
              const std::vector<std::string>& faults = {}) {
  auto exchange = read_exchange(sample(name), which);
  EXPECT_TRUE(exchange) << (exchange ? "" : exchange.error().message);
  if (!exchange) return {};
  const auto target = reference(faults, exchange->is_iwarp());
  if (!target) return {};
  return play(*exchange, conformance::live_device(*target), how);
}

struct Sample {
  const char* name;
  tracking::Side side;
};
std::ostream& operator<<(std::ostream& out, const Sample& one) {
  return out << one.name << " " << (one.side == tracking::Side::a ? "a" : "b");
}

class Captured : public ::testing::TestWithParam<Sample> {};

TEST_P(Captured, ReplayMatchesCapture) {
  const Report report = played(GetParam().name, {.side = GetParam().side});
  EXPECT_TRUE(report.good()) << text_of(report);
  EXPECT_EQ(report.ours.done, report.ours.all);
  EXPECT_EQ(report.theirs.done, report.theirs.all);
  EXPECT_GT(report.ours.all + report.theirs.all, 0U);
  EXPECT_EQ(report.counts.again, 0U);
  EXPECT_FALSE(report.memory.empty());
  EXPECT_THAT(report.error_counters(), testing::IsEmpty());
}

using enum tracking::Side;
INSTANTIATE_TEST_SUITE_P(Samples, Captured,
                         ::testing::Values(Sample{"rc-pingpong.pcap.gz", a}, Sample{"rc-pingpong.pcap.gz", b},
                                           Sample{"rping.pcap", a}, Sample{"rping.pcap", b},
                                           Sample{"rc-read.pcap.gz", a}, Sample{"rc-read.pcap.gz", b},
                                           Sample{"rc-send.pcap.gz", a}, Sample{"rc-send.pcap.gz", b},
                                           Sample{"rc-atomic.pcap", a}, Sample{"rc-atomic.pcap", b},
                                           Sample{"rc-write-ipv6.pcap", a}, Sample{"rc-write-ipv6.pcap", b},
                                           Sample{"ucmatose.pcap", a}, Sample{"nvme-over-rdma.pcap.zst", a},
                                           Sample{"nvme-over-rdma.pcap.zst", b}, Sample{"rc-pingpong-loss.pcap.gz", a},
                                           Sample{"rc-read-loss.pcap.zst", a}, Sample{"srq-pingpong.pcap.gz", a}));
INSTANTIATE_TEST_SUITE_P(Streams, Captured,
                         ::testing::Values(Sample{"siw-rping.pcap", a}, Sample{"siw-rping.pcap", b},
                                           Sample{"siw-send.pcap.gz", a}, Sample{"siw-send.pcap.gz", b},
                                           Sample{"siw-write.pcap.gz", a}, Sample{"siw-write.pcap.gz", b},
                                           Sample{"siw-read.pcap.gz", a}, Sample{"siw-read.pcap.gz", b},
                                           Sample{"siw-write-loss.pcap.gz", a}));

FaultProgram program(const std::string& text) {
  auto compiled = FaultProgram::compile(text);
  EXPECT_TRUE(compiled) << text;
  return compiled ? *compiled : FaultProgram();
}

std::string texts(const std::vector<Divergence>& divergences) {
  std::string text;
  for (const Divergence& one : divergences) text += to_string(one) + "\n";
  return text;
}

TEST(Losses, LostRequestCausesSequenceErrorAndRecovery) {
  RunOptions how;
  how.faults = program("drop connection 1 psn +5 try 1 from a");
  const Report report = played("rc-pingpong.pcap.gz", {.side = a}, how);
  EXPECT_TRUE(report.good()) << text_of(report);
  EXPECT_EQ(report.ours.done, report.ours.all);
  ASSERT_EQ(report.faults.size(), 1U);
  EXPECT_THAT(report.faults[0], testing::HasSubstr("psn +5, try 1"));
  // PSNs +5, +6 and +7, the rest of the first message, are retransmitted.
  EXPECT_EQ(report.counts.again, 3U);
  EXPECT_EQ(report.counts.recoveries, 1U);
  EXPECT_THAT(texts(report.divergences), testing::HasSubstr("NAK PSN sequence error, PSN +5, MSN 0"));
}

// No packet of the message was acknowledged, so all of them are retransmitted.
TEST(Losses, LostLastRequestIsRecoveredAfterTimeout) {
  RunOptions how;
  how.faults = program("drop psn +7 try 1 from a");
  const Report report = played("rc-pingpong.pcap.gz", {.side = a}, how);
  EXPECT_TRUE(report.good()) << text_of(report);
  EXPECT_EQ(report.counts.again, 8U);
  EXPECT_THAT(texts(report.divergences),
              testing::HasSubstr("captured: frame 34: ACK, PSN +7, MSN 1; live: no response"));
}

TEST(Losses, LostAcknowledgementsAreRecovered) {
  for (const char* text :
       {"drop psn +7 try 1 answers from a", "drop psn +2 try 1 from b", "drop psn +7 try 1 answers from b",
        "drop nth 9 from a", "duplicate every 5 from a", "delay 300us every 7 from b"}) {
    RunOptions how;
    how.faults = program(text);
    const Report report = played("rc-pingpong.pcap.gz", {.side = a}, how);
    EXPECT_TRUE(report.good()) << text << "\n" << text_of(report);
    EXPECT_FALSE(report.faults.empty()) << text;
  }
}

TEST(Losses, LostReadResponsesAreRetried) {
  for (const auto side : {a, b})
    for (const char* text : {"drop psn +3 try 1 from a answers", "drop psn +3 try 1 from b answers",
                             "drop psn +20 try 1 from a", "drop psn +32 try 1 from b", "drop every 11"}) {
      RunOptions how;
      how.faults = program(text);
      const Report report = played("rc-read.pcap.gz", {.side = side}, how);
      EXPECT_TRUE(report.good()) << text << "\n" << text_of(report);
    }
}

TEST(Divergence, ReportNamesCapturedAndLiveFrame) {
  const Report wrong_msn = played("rc-pingpong.pcap.gz", {.side = a}, {}, {"msn-starts-at-one"});
  EXPECT_FALSE(wrong_msn.good());
  EXPECT_THAT(texts(wrong_msn.divergences),
              testing::HasSubstr("captured: frame 34: ACK, PSN +7, MSN 1; live: frame 9: ACK, PSN +7, MSN 2"));
}

// The device acknowledges only retransmissions.
TEST(Divergence, MissingAcknowledgementIsReportedAsNoResponse) {
  const Report report = played("rc-pingpong.pcap.gz", {.side = a}, {}, {"never-acknowledges"});
  EXPECT_FALSE(report.good());
  EXPECT_EQ(report.divergences.size(), 50U);
  EXPECT_THAT(texts(report.divergences),
              testing::HasSubstr("captured: frame 34: ACK, PSN +7, MSN 1; live: no response"));
}

TEST(Divergence, WrongAtomicResultIsReported) {
  const Report report = played("rc-atomic.pcap", {.side = a}, {}, {"atomic-returns-new-value"});
  EXPECT_FALSE(report.good());
  ASSERT_FALSE(report.divergences.empty());
  EXPECT_EQ(to_string(report.divergences[0]),
            "captured: frame 37: the atomic finds 0x1e39bd968c1f43ff; live: frame 2: it finds 0x1e39bd968c1f4400");
}

TEST(Divergence, WrongPeerPacketSizeIsReported) {
  const Report report = played("rc-pingpong.pcap.gz", {.side = a}, {}, {"half-filled-packets"});
  EXPECT_FALSE(report.good());
  EXPECT_THAT(texts(report.divergences),
              testing::HasSubstr("RC SEND First PSN +0, 1024 bytes; live: frame 10: RC SEND First PSN +0, 512 bytes"));
}

/// A wire that fails after `frames` sent frames: send() reports an error if `says`, otherwise frames are dropped
/// silently.
class DyingWire final : public ForwardingWire {
 public:
  DyingWire(Wire& next, std::uint64_t frames, bool says) : ForwardingWire(next), left_(frames), says_(says) {}
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (left_ == 0 && !says_) return frames.size();
    if (left_ == 0) return tl::unexpected(WireError{WireError::Kind::down, 0, "the guest ended"});
    auto sent = next().send(frames.first(std::min<std::size_t>(frames.size(), left_)));
    if (sent) left_ -= *sent;
    return sent;
  }

 private:
  std::uint64_t left_;
  bool says_;
};

TEST(Death, OfTheWireIsReportedWithSentFrames) {
  const auto exchange = read_exchange(sample("rc-pingpong.pcap.gz"), {.side = a}).value();
  const auto target = reference();
  LiveDevice device = conformance::live_device(*target);
  DyingWire wire(*device.wire, 19, true);
  device.wire = &wire;
  const Report report = play(exchange, device, {});
  EXPECT_EQ(report.failure, "the guest ended");
  EXPECT_EQ(report.sent_frames, 19U);
  EXPECT_EQ(report.received_frames, 18U /* twice an ACK and eight packets */);
  EXPECT_FALSE(report.good());
}

TEST(Death, OfTheDeviceEndsInTimeout) {
  const auto exchange = read_exchange(sample("rc-pingpong.pcap.gz"), {.side = a}).value();
  const auto target = reference();
  LiveDevice device = conformance::live_device(*target);
  DyingWire wire(*device.wire, 18, false);
  device.wire = &wire;
  const Report report = play(exchange, device, {});
  EXPECT_THAT(report.failure,
              testing::HasSubstr("no response after 8 tries while waiting for the response to local message 3 (SEND "
                                 "of 8192 bytes, PSN +16); captured: frame"));
  EXPECT_EQ(report.ours.begun, 3U);
  EXPECT_EQ(report.ours.done, 2U);
}

TEST(Death, OfTheAgentIsReported) {
  const auto exchange = read_exchange(sample("rc-pingpong.pcap.gz"), {.side = a}).value();
  const auto target = reference();
  const LiveDevice device = conformance::live_device(*target);
  device.peer->close();
  const Report report = play(exchange, device, {});
  EXPECT_THAT(report.failure, testing::HasSubstr("protection domain"));
  EXPECT_EQ(report.sent_frames, 0U);
}

TEST(Death, InterruptIsNoFailure) {
  const auto exchange = read_exchange(sample("rc-pingpong.pcap.gz"), {.side = a}).value();
  const auto target = reference();
  const std::atomic<bool> stop = true;
  RunOptions how;
  how.stop = &stop;
  const Report report = play(exchange, conformance::live_device(*target), how);
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.sent_frames, 8U);  // the first message, before the stop flag is checked
  EXPECT_EQ(report.ours.done, 0U);
}

TEST(Streams, WrongReadResponseOffsetIsReported) {
  const Report report = played("siw-rping.pcap", {.side = b}, {}, {"to-stands"});
  EXPECT_FALSE(report.good()) << text_of(report);
  ASSERT_FALSE(report.divergences.empty());
  EXPECT_THAT(to_string(report.divergences[0]),
              testing::MatchesRegex("captured: frame [0-9]+: the response goes to STag 0x[0-9a-f]+, TO 0x[0-9a-f]+; "
                                    "live: frame [0-9]+: RDMA Read Response, [0-9]+ bytes to STag 0x[0-9a-f]+, TO "
                                    "0x[0-9a-f]+"));
}

// The first local READ contains a key that the device does not know.
TEST(Streams, TerminateOfThePeerIsTheFailure) {
  auto exchange = read_exchange(sample("siw-rping.pcap"), {.side = b}).value();
  const std::uint32_t key = exchange.ours.messages.front().key;
  for (Message& message : exchange.ours.messages) message.refused = message.refused || message.key == key;
  const auto target = reference({}, true);
  const Report report = play(exchange, conformance::live_device(*target), {});
  EXPECT_THAT(report.failure,
              testing::StartsWith("the peer terminated the stream: Terminate, layer 0, type 1, code 0x0"));
  EXPECT_EQ(report.ours.done, 0U);
  EXPECT_EQ(report.theirs.done, 1U);
}

TEST(Streams, DeviceOfOtherTransportIsRejected) {
  const auto stream = read_exchange(sample("siw-rping.pcap"), {}).value(),
             roce = read_exchange(sample("rping.pcap"), {}).value();
  const auto rdma = reference(), iwarp = reference({}, true);
  EXPECT_THAT(play(stream, conformance::live_device(*rdma), {}).failure, testing::HasSubstr("uses iWARP"));
  EXPECT_THAT(play(roce, conformance::live_device(*iwarp), {}).failure, testing::HasSubstr("uses RoCE"));
}

TEST(Streams, FaultsAreRejected) {
  RunOptions how;
  how.faults = program("drop every 5");
  EXPECT_THAT(played("siw-rping.pcap", {.side = a}, how).failure, testing::HasSubstr("faults cannot be injected"));
}

TEST(Recording, ContainsAllFramesWithValidCrcs) {
  RunOptions how;
  how.output = fmt::format("{}/reactive-{}.pcapng", testing::TempDir(), ::getpid());
  how.faults = program("drop psn +5 try 1 from a");
  const Report report = played("rc-pingpong.pcap.gz", {.side = a}, how);
  EXPECT_TRUE(report.good()) << text_of(report);
  auto reader = captures::Reader::open(how.output).value();
  captures::Record record;
  tracking::Dissector dissector;
  tracking::Packet packet;
  std::uint64_t frames = 0;
  while (reader.next(record) == captures::Next::record) {
    packet.number = ++frames;
    packet.time_ns = record.time;
    dissector.dissect(packet, record.bytes, record.wire_length);
    EXPECT_EQ(packet.icrc.status, CrcCheck::Status::good) << frames;
  }
  EXPECT_EQ(frames, report.sent_frames + report.received_frames);
  EXPECT_THAT(report.findings, testing::Contains(testing::HasSubstr("1 NAK recovery: 3 packets")));
  std::filesystem::remove(how.output);
}

Report played_file(const std::string& path, const ExchangeOptions& which, const RunOptions& how = {}) {
  const auto exchange = read_exchange(path, which);
  EXPECT_TRUE(exchange) << (exchange ? "" : exchange.error().message);
  const auto target = reference();
  return exchange && target ? play(*exchange, conformance::live_device(*target), how) : Report();
}

TEST(Unreliable, ReplayMatchesCapturedMemory) {
  for (const char* name : {"rc-pingpong.pcap.gz", "rc-send.pcap.gz", "rc-write-ipv6.pcap"}) {
    const std::string path = over_uc(sample(name));
    for (const auto side : {a, b}) {
      const auto exchange = read_exchange(path, {.side = side});
      if (!exchange && name != std::string("rc-pingpong.pcap.gz")) {
        // No packet contains the QP number of the silent endpoint.
        EXPECT_THAT(exchange.error().message, testing::HasSubstr("the capture contains only one direction"));
        continue;
      }
      const Report report = played_file(path, {.side = side});
      EXPECT_TRUE(report.good()) << name << ": " << text_of(report);
      EXPECT_GT(report.ours.all, 0U) << name;
      EXPECT_EQ(report.ours.done, report.ours.all) << name;
      EXPECT_EQ(report.theirs.done, report.theirs.all) << name;
      EXPECT_FALSE(report.memory.empty()) << name;
      EXPECT_EQ(report.counts.made, 0U) << "nobody acknowledges";
    }
    std::filesystem::remove(path);
  }
}

TEST(Unreliable, LostMessageIsReported) {
  const std::string path = over_uc(sample("rc-pingpong.pcap.gz"));
  auto exchange = read_exchange(path, {.side = a}).value();
  // The first message starts without its First packet, so the device drops the rest.
  exchange.ours.messages.front().packets.front() = exchange.ours.messages.front().packets.at(1);
  const auto target = reference();
  RunOptions how;
  how.machine.step_timeout = 1'000'000'000;
  const Report report = play(exchange, conformance::live_device(*target), how);
  EXPECT_FALSE(report.good());
  EXPECT_THAT(report.failure, testing::HasSubstr("49 of 50 received messages")) << text_of(report);
  std::filesystem::remove(path);
}

TEST(Unreliable, FaultsAreRejected) {
  const std::string path = over_uc(sample("rc-pingpong.pcap.gz"));
  RunOptions how;
  how.faults = program("drop every 5");
  EXPECT_THAT(played_file(path, {.side = a}, how).failure, testing::HasSubstr("does not retransmit"));
  std::filesystem::remove(path);
}

TEST(PathMtu, SmallerLiveMtuResegmentsMessages) {
  for (const char* name : {"rc-pingpong.pcap.gz", "rc-read.pcap.gz", "rping.pcap", "rc-write-jumbo.pcapng.zst"})
    for (const auto side : {a, b})
      for (const std::uint32_t mtu : {256U, 4096U}) {
        const Report report = played(name, {.side = side, .mtu = mtu});
        EXPECT_TRUE(report.good()) << mtu << ": " << text_of(report);
        EXPECT_EQ(report.ours.done, report.ours.all);
        EXPECT_EQ(report.theirs.done, report.theirs.all);
      }
  // 50 times 8192 bytes at 4096, and an ACK for each message of the peer.
  EXPECT_EQ(played("rc-pingpong.pcap.gz", {.side = a, .mtu = 4096}).sent_frames, 150U);
}

// Corrupted captures must return an exchange or an error.
TEST(Hostile, CorruptedCapturesReturnExchangeOrError) {
  for (const char* name : {"rping.pcap", "siw-rping.pcap", "rc-atomic.pcap"}) {
    std::ifstream in(sample(name), std::ios::binary);
    const std::string original{std::istreambuf_iterator<char>(in), {}};
    const std::string path = fmt::format("{}/hostile-{}.pcap", testing::TempDir(), ::getpid());
    std::mt19937 random(7);
    std::size_t good = 0, bad = 0;
    for (int round = 0; round < 60; ++round) {
      std::string changed = original;
      for (int i = 0; i < 40; ++i) {
        // Most bytes are payload, so mutations concentrate on the headers.
        constexpr std::size_t file_header = 24;
        const std::size_t at = file_header + random() % (changed.size() - file_header);
        changed[at] = static_cast<char>(random());
      }
      std::ofstream(path, std::ios::binary) << changed;
      for (const auto side : {a, b}) {
        const auto exchange = read_exchange(path, {.side = side, .mtu = round % 2 == 0 ? 0U : 512U});
        ++(exchange ? good : bad);
        if (!exchange) {
          EXPECT_NE(exchange.error().message, "");
          continue;
        }
        const auto plan = plan_memory(*exchange, 1 << 24);
        if (plan) {
          EXPECT_EQ(plan->outbox.size(), exchange->theirs.messages.size());
        }
        EXPECT_FALSE(steps_of(*exchange).empty());
      }
    }
    EXPECT_GT(good, 0U) << name;
    EXPECT_GT(bad, 0U) << name;
    std::filesystem::remove(path);
  }
}

/// Counts sent frames whose destination MAC address is not `allowed`.
class AddressCheck final : public ForwardingWire {
 public:
  AddressCheck(Wire& next, MacAddress allowed) : ForwardingWire(next), allowed_(allowed) {}
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    for (const Outgoing& one : frames) ++(load_be<6>(one.frame.data()) == allowed_ ? good : bad);
    return next().send(frames);
  }
  std::size_t good = 0, bad = 0;

 private:
  MacAddress allowed_;
};

Report played_with_address_check(const std::string& path, tracking::Side side, const RunOptions& how) {
  const auto exchange = read_exchange(path, {.side = side});
  EXPECT_TRUE(exchange) << (exchange ? "" : exchange.error().message);
  const auto target = reference();
  LiveDevice device = conformance::live_device(*target);
  AddressCheck wire(*device.wire, device.way.device_mac);
  device.wire = &wire;
  const Report report = play(exchange.value(), device, how);
  EXPECT_GT(wire.good, 0U);
  EXPECT_EQ(wire.bad, 0U);
  return report;
}

// The ICRC does not cover the link header. The addresses are damaged in all captured packets, half of them to groups.
TEST(Addresses, DamagedCapturedAddressesAreNeverUsed) {
  const std::string path = fmt::format("{}/addresses-{}.pcapng", testing::TempDir(), ::getpid());
  auto reader = captures::Reader::open(sample("rc-pingpong.pcap.gz")).value();
  auto writer = captures::Writer::create(path).value();
  (void)writer.add_interface({});
  captures::Record record;
  for (std::size_t i = 0; reader.next(record) == captures::Next::record; ++i) {
    ByteVector bytes(record.bytes.begin(), record.bytes.end());
    bytes[i % 2 == 0 ? 0 : 5] ^= 0x41;
    bytes[8] ^= 0x10;
    record.bytes = bytes;
    record.interface = 0;
    record.options = {};
    ASSERT_TRUE(writer.write(record));
  }
  ASSERT_TRUE(writer.close());
  for (const auto side : {a, b}) {
    const Report report = played_with_address_check(path, side, {});
    EXPECT_TRUE(report.good()) << text_of(report);
  }
  std::filesystem::remove(path);
}

TEST(Addresses, FrameWithAddressChangedByFaultIsNotSent) {
  RunOptions how;
  how.faults = program("corrupt eth.dst mask 0x10 psn +5 try 1 from a");
  const Report report = played_with_address_check(sample("rc-pingpong.pcap.gz"), a, how);
  EXPECT_TRUE(report.good()) << text_of(report);
  EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("changed its destination MAC address")));
  EXPECT_EQ(report.counts.recoveries, 1U);
}

TEST(Choice, InvalidConnectionIsRejected) {
  const auto message = [](const char* name, const ExchangeOptions& which) {
    const auto exchange = read_exchange(sample(name), which);
    return exchange ? std::string() : exchange.error().message;
  };
  EXPECT_THAT(message("rc-pingpong.pcap.gz", {.connection = 7}), testing::HasSubstr("no connection 7; available:"));
  EXPECT_THAT(message("ud-pingpong.pcap", {}), testing::HasSubstr("no RC, UC or iWARP connection"));
  EXPECT_THAT(message("nothing.pcap", {}), testing::HasSubstr("nothing.pcap"));
}

}  // namespace
}  // namespace rdmawire::replay::reactive
