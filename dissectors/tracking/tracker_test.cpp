// Tests the tracker with real captures: its counters must match the capture, and clean captures must cause no events.

#include "dissectors/tracking/tracker.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/tracking/captures_for_test.hpp"
#include "dissectors/tracking/frames_for_test.hpp"

namespace rdmawire::tracking {
namespace {

using namespace testing;

/// Returns whether the packet belongs to InfiniBand's transport, but is not a management packet.
bool counts(const Packet& packet) {
  const auto bth = packet.stack.get<Bth>();
  if (!bth) return false;
  const Opcode& op = opcode(bth->get<"opcode">());
  return op.known && !(op.transport == Transport::ud && bth->get<"dest_qp">() <= 1);
}

class Samples : public ::testing::TestWithParam<const char*> {};

TEST_P(Samples, AddUp) {
  for (const std::uint32_t connections : {1U << 18, 1U}) {
    Recorder recorded;
    TrackerOptions options;
    options.packets = true;
    options.connections = connections;
    Tracker tracker(recorded, options);
    std::uint64_t packets = 0, iwarp = 0, frames = 0;
    dissect_capture(sample(GetParam()), [&](const Packet& packet) {
      tracker.add(packet);
      packets += counts(packet);
      frames = packet.number;
    });
    tracker.finish();
    std::uint64_t counted = 0, messages = 0;
    std::map<std::uint64_t, const Connection*> known;
    for (const auto& [c, why] : recorded.farewells) {
      EXPECT_TRUE(known.emplace(c.id, &c).second) << "two connections " << c.id;
      EXPECT_TRUE(why == CloseReason::ended || connections == 1);
      if (c.service == Service::iwarp) {
        ++iwarp;
        continue;
      }
      for (const Sent& s : c.sent) {
        counted += s.packets;
        EXPECT_EQ(s.requests + s.responses + s.cnps, s.packets);
        for (const std::uint32_t n : s.messages) messages += n;
      }
    }
    EXPECT_EQ(counted, packets);
    EXPECT_TRUE(tracker.evicted() == 0 || connections == 1);
    std::uint64_t told_messages = 0;
    for (const Message& m : recorded.messages) {
      const auto of = known.find(m.connection);
      if (of != known.end() && of->second->service == Service::iwarp) continue;
      ++told_messages;
      EXPECT_LE(m.first_frame, m.last_frame);
      EXPECT_LE(m.last_frame, frames);
      EXPECT_LE(m.answer_frame, frames);
      EXPECT_TRUE(connections == 1 || of != known.end()) << "a message of connection " << m.connection;
    }
    EXPECT_EQ(told_messages, messages) << "each message is reported once";
    for (const Event& e : recorded.events) {
      EXPECT_LE(e.frame, e.last_frame) << name_of(e);
      EXPECT_LE(e.last_frame, frames) << name_of(e);
      EXPECT_LE(e.cause_frame, e.last_frame) << name_of(e) << " at " << e.frame;
      EXPECT_TRUE(connections == 1 || e.connection == 0 || known.contains(e.connection))
          << name_of(e) << " of connection " << e.connection;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tracker, Samples,
                         ::testing::Values("linlinw5-cm.pcap", "linlinw5-rc-write.pcap", "linlinw5-uc-pingpong.pcap",
                                           "nvme-over-rdma.pcap.zst", "rc-atomic.pcap", "rc-pingpong-loss.pcap.gz",
                                           "rc-pingpong.pcap.gz", "rc-read-loss.pcap.zst", "rc-read.pcap.gz",
                                           "rc-send.pcap.gz", "rc-write-ipv6.pcap", "rping.pcap", "siw-read.pcap.gz",
                                           "siw-rping.pcap", "srq-pingpong.pcap.gz", "ucmatose.pcap",
                                           "ud-pingpong.pcap"));

// Captures of Linux's rdma_rxe without loss must cause no loss or error events.
TEST(Tracker, CleanCapturesHaveNoEvents) {
  for (const char* name : {"rc-send.pcap.gz", "rc-read.pcap.gz", "rc-write-ipv6.pcap", "rc-atomic.pcap",
                           "srq-pingpong.pcap.gz", "rping.pcap", "ud-pingpong.pcap"}) {
    for (const bool evidence : {true, false}) {
      Recorder recorded;
      TrackerOptions options;
      options.use_connection_manager = options.use_text = evidence;
      Tracker tracker(recorded, options);
      dissect_capture(sample(name), [&](const Packet& packet) { tracker.add(packet); });
      tracker.finish();
      std::multiset<std::string> trouble;
      for (const Event& e : recorded.events)
        if (event_rows[static_cast<std::size_t>(e.kind)].severity >= Severity::warning) trouble.insert(name_of(e));
      EXPECT_TRUE(trouble.empty()) << name << " evidence " << evidence << ": " << *trouble.begin() << " and "
                                   << trouble.size() - 1 << " more";
    }
  }
}

// Requests whose PSN was captured before, according to tshark: bursts of eight packets in frames 287 to 294, 842 to
// 849, and 930 to 942 (with ACKs between them). The first and the last burst follow the ACK of all packets.
TEST(Tracker, RcPingpongHasThreeRetransmissionBursts) {
  Recorder recorded;
  Tracker tracker(recorded);
  dissect_capture(sample("rc-pingpong.pcap.gz"), [&](const Packet& packet) { tracker.add(packet); });
  tracker.finish();
  std::vector<std::uint64_t> frames;
  for (const Event& e : recorded.events) {
    if (e.kind != EventKind::retransmission) continue;
    frames.push_back(e.frame);
    EXPECT_EQ(e.cause, e.frame == 842 ? Cause::timeout : Cause::spurious) << e.frame;
    EXPECT_EQ(e.packets, 8U) << e.frame;
  }
  EXPECT_EQ(frames, (std::vector<std::uint64_t>{287, 842, 930}));
}

}  // namespace
}  // namespace rdmawire::tracking
