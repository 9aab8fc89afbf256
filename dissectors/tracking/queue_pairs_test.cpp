// Tests the pairing of directions by each kind of evidence, and the eviction of connections.

#include "dissectors/tracking/queue_pairs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "dissectors/tracking/captures_for_test.hpp"
#include "dissectors/tracking/link_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::tracking {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint16_t constant_port = 0xc001;  // a constant port is no evidence

/// Sends `count` messages of a, each of which is acknowledged. Only the responses allow pairing.
void talk(Link& link, std::uint32_t count, std::uint32_t first = 100, std::uint32_t a = Link::qp_a,
          std::uint32_t b = Link::qp_b) {
  for (std::uint32_t i = 0; i < count; ++i) {
    link.send({.opcode = rc::send,
               .from = host_a,
               .to = host_b,
               .qp = b,
               .psn = first + i,
               .payload = 8,
               .source_port = constant_port});
    link.send({.opcode = rc::acknowledge,
               .from = host_b,
               .to = host_a,
               .qp = a,
               .psn = first + i,
               .msn = i + 1,
               .source_port = constant_port});
  }
}

void name_side(PairEvidence::Side& side, std::uint32_t host, std::uint32_t qp, std::uint32_t first_psn) {
  side.address = PortAddress::of_ipv4(host);
  side.qp = qp;
  side.first_psn = first_psn;
}

// ---- Evidence

TEST(QueuePairs, PairedByResponses) {
  Link link({.joined = false});
  talk(link, 5);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.farewells.size(), 1U);
  const Connection& c = recorded.farewells[0].connection;
  EXPECT_EQ(recorded.farewells[0].why, CloseReason::ended);
  EXPECT_EQ(c.paired_by, JoinedBy::answers);
  EXPECT_NE(c.confidence, Confidence::none);
  EXPECT_EQ(c.id, 1U);
  EXPECT_EQ(c.ends[0].qp, Link::qp_a);
  EXPECT_EQ(c.ends[1].qp, Link::qp_b);
  EXPECT_EQ(c.ends[0].address, PortAddress::of_ipv4(host_a));
  EXPECT_EQ(c.sent[0].packets, 5U);
  EXPECT_EQ(c.sent[1].packets, 5U);
  EXPECT_EQ(c.sent[1].acks, 5U);
  EXPECT_EQ(c.last_frame, 10U);
  EXPECT_EQ(recorded.messages.size(), 5U);
  for (const Message& m : recorded.messages) EXPECT_EQ(m.outcome, Outcome::completed);
}

TEST(QueuePairs, PairedBySourcePorts) {
  const std::uint32_t a = 0x1234, b = 0x98765;
  for (const bool per_pair : {true, false}) {
    Link link({.joined = false});
    link.send({.from = host_a,
               .to = host_b,
               .qp = b,
               .psn = 5,
               .source_port = per_pair ? source_port::of_pair(a, b) : source_port::of_sender(a)});
    link.send({.from = host_b,
               .to = host_a,
               .qp = a,
               .psn = 9,
               .source_port = per_pair ? source_port::of_pair(b, a) : source_port::of_sender(b)});
    const Recorder& recorded = link.end();
    ASSERT_EQ(recorded.farewells.size(), 1U) << per_pair;
    EXPECT_EQ(recorded.farewells[0].connection.paired_by, JoinedBy::source_port);
    EXPECT_EQ(recorded.farewells[0].connection.ends[0].qp, a);
  }
}

TEST(QueuePairs, SourcePortsAreUnusedWhenDisabled) {
  TrackerOptions options;
  options.use_source_port = false;
  Link link({.joined = false, .options = options});
  link.send(
      {.from = host_a, .to = host_b, .qp = 0x98765, .psn = 5, .source_port = source_port::of_pair(0x1234, 0x98765)});
  link.send(
      {.from = host_b, .to = host_a, .qp = 0x1234, .psn = 9, .source_port = source_port::of_pair(0x98765, 0x1234)});
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 2U);
  EXPECT_EQ(recorded.farewells[0].connection.paired_by, JoinedBy::nothing);
}

TEST(QueuePairs, PairedByTheCm) {
  Link link;
  link.sends(100);
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 1U);
  const Connection& c = recorded.farewells[0].connection;
  EXPECT_EQ(c.paired_by, JoinedBy::connection_manager);
  EXPECT_EQ(c.confidence, Confidence::certain);
  EXPECT_EQ(c.mtu, 1024U);
  EXPECT_TRUE(c.mtu_negotiated);
  EXPECT_EQ(c.wire, Wire::roce_v2);
}

std::vector<Connection> connections_of(const std::string& path, const TrackerOptions& options = {}) {
  Recorder recorded;
  Tracker tracker(recorded, options);
  dissect_capture(path, [&](const Packet& packet) { tracker.add(packet); });
  tracker.finish();
  std::vector<Connection> all;
  for (const auto& close_reason : recorded.farewells) all.push_back(close_reason.connection);
  return all;
}

// Each kind of evidence must find the same pairs.
TEST(QueuePairs, EvidenceAgreesInRealCaptures) {
  unsigned checked = 0;
  for (const char* name : {"rc-send.pcap.gz", "rc-read.pcap.gz", "rc-atomic.pcap", "rc-write-ipv6.pcap", "rping.pcap",
                           "ucmatose.pcap", "rc-pingpong.pcap.gz", "srq-pingpong.pcap.gz", "linlinw5-rc-write.pcap"}) {
    std::map<std::uint64_t, std::uint64_t> halves;
    for (const unsigned hidden : {0U, 1U, 2U, 4U, 3U, 7U}) {
      TrackerOptions options;
      options.use_connection_manager = !(hidden & 1);
      options.use_text = !(hidden & 2);
      options.use_source_port = !(hidden & 4);
      for (const Connection& c : connections_of(sample(name), options)) {
        if (c.service != Service::rc || c.paired_by == JoinedBy::nothing) continue;
        EXPECT_FALSE((hidden & 1) && c.paired_by == JoinedBy::connection_manager) << name;
        EXPECT_FALSE((hidden & 2) && c.paired_by == JoinedBy::text) << name;
        EXPECT_FALSE((hidden & 4) && c.paired_by == JoinedBy::source_port) << name;
        const std::uint64_t low = std::min(c.ends[0].qp, c.ends[1].qp), high = std::max(c.ends[0].qp, c.ends[1].qp);
        for (const Side end : {Side::a, Side::b}) {
          if (c.by(end).packets == 0) continue;
          const auto [known, first] =
              halves.emplace(c.at(other(end)).address.low << 24 | c.at(other(end)).qp, high << 24 | low);
          EXPECT_EQ(known->second, high << 24 | low) << name << " hidden " << hidden;
          ++checked;
        }
      }
    }
  }
  EXPECT_GE(checked, 60U);
}

// ---- Late pairing

TEST(QueuePairs, OneDirectionFirstAndTheOtherMuchLater) {
  Link link({.joined = false});
  for (std::uint32_t i = 0; i < 400; ++i)
    link.send(
        {.from = host_a, .to = host_b, .qp = Link::qp_b, .psn = 100 + i, .payload = 8, .source_port = constant_port});
  talk(link, 40, 500);
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.paired_by, JoinedBy::answers);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].packets, 440U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].packets, 40U);
  EXPECT_EQ(recorded.messages.size(), 440U);
  std::set<std::uint64_t> numbers;
  for (const Message& m : recorded.messages) numbers.insert(m.number);
  EXPECT_EQ(numbers.size(), 440U) << "each reported once";
}

// Events of packets that wait for pairing are reported for the paired connection.
TEST(QueuePairs, EcnMarksOfTheYoungerDirection) {
  Link link({.joined = false});
  link.send({.from = host_a, .to = host_b, .qp = Link::qp_b, .psn = 100, .payload = 8, .source_port = constant_port});
  link.send({.opcode = rc::acknowledge,
             .from = host_b,
             .to = host_a,
             .qp = Link::qp_a,
             .psn = 100,
             .msn = 1,
             .source_port = constant_port,
             .traffic_class = 3});
  const Recorder& recorded = link.end();
  ASSERT_THAT(recorded.event_texts(), ElementsAre("ecn_marked"));
  EXPECT_EQ(recorded.events[0].connection, 1U);
  EXPECT_EQ(recorded.events[0].end, Side::b);
  EXPECT_EQ(recorded.farewells.size(), 1U);
}

// ---- The same numbers

TEST(QueuePairs, EqualNumberAtBothEndpoints) {
  Link link({.joined = false});
  talk(link, 5, 100, 0x20, 0x20);
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.ends[0].qp, 0x20U);
  EXPECT_EQ(recorded.farewells[0].connection.ends[1].qp, 0x20U);
  EXPECT_EQ(recorded.messages.size(), 5U);
}

TEST(QueuePairs, HostConnectedToItself) {
  Link link({.joined = false});
  for (std::uint32_t i = 0; i < 5; ++i) {
    link.send({.from = host_a, .to = host_a, .qp = 0x12, .psn = 100 + i, .payload = 8});
    link.send({.opcode = rc::acknowledge, .from = host_a, .to = host_a, .qp = 0x11, .psn = 100 + i, .msn = i + 1});
  }
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.paired_by, JoinedBy::answers);
  EXPECT_EQ(recorded.messages.size(), 5U);
  for (const Message& m : recorded.messages) EXPECT_EQ(m.outcome, Outcome::completed);
}

TEST(QueuePairs, QueuePairConnectedToItself) {
  Link link({.joined = false});
  for (std::uint32_t i = 0; i < 5; ++i) {
    link.send({.from = host_a, .to = host_a, .qp = 0x12, .psn = 100 + i, .payload = 8});
    link.send({.opcode = rc::acknowledge, .from = host_a, .to = host_a, .qp = 0x12, .psn = 100 + i, .msn = i + 1});
  }
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].packets + recorded.farewells[0].connection.sent[1].packets, 10U);
}

// ---- Reused QPs

TEST(QueuePairs, ReusedForAnotherConnection) {
  Link link;
  link.sends(100, 3);
  link.acks(102, 3);
  link.sends(0x500000, 3);
  link.acks(0x500002, 3);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::replaced), 1U);
  EXPECT_EQ(recorded.of(EventKind::replaced).frame, 6U);
  EXPECT_EQ(recorded.of(EventKind::replaced).connection, 1U);
  EXPECT_EQ(recorded.count(EventKind::psn_gap) + recorded.count(EventKind::lost_in_capture), 0U);
  ASSERT_EQ(recorded.farewells.size(), 2U);
  const Connection &old = recorded.farewells[0].connection, &young = recorded.farewells[1].connection;
  EXPECT_TRUE(old.replaced);
  EXPECT_FALSE(young.replaced);
  EXPECT_EQ(old.sent[0].packets, 3U);
  EXPECT_EQ(old.last_frame, 5U);
  EXPECT_EQ(young.id, 6U);
  EXPECT_EQ(young.sent[0].packets, 3U) << "each packet is counted for one connection";
  EXPECT_EQ(young.sent[1].packets, 1U);
  EXPECT_EQ(recorded.messages.size(), 6U);
}

// A PSN that is 2^14 or more from the window belongs to another connection, except the farthest duplicate, which is
// 2^23 before the next PSN.
TEST(QueuePairs, DistanceOfAnotherConnection) {
  constexpr std::uint32_t first = 0x100000, far = 1U << 14, half = 1U << 23;
  for (const std::uint32_t outstanding : {0U, 2U}) {
    const std::uint32_t next = first + 4, oldest = next - outstanding;
    struct {
      std::uint32_t psn;
      bool replaced;
    } rows[] = {{next + far - 1, false}, {next + far, true},      {next + half - 3, true},  {next + half - 2, true},
                {next + half, false},    {next + half + 1, true}, {oldest - far - 1, true}, {oldest - far + 1, false}};
    for (const auto& row : rows) {
      Link link({.first_a = first});
      link.sends(first, 4);
      link.acks(oldest - 1, 4 - outstanding);
      link.sends(row.psn & 0xffffff, 2);
      EXPECT_EQ(link.end().count(EventKind::replaced), row.replaced ? 1U : 0U)
          << "PSN " << row.psn << " of " << next << " with " << outstanding << " outstanding";
    }
  }
}

// Only one direction is captured, so its packets wait for pairing.
TEST(QueuePairs, ReusedWhilePacketsWait) {
  Link link({.joined = false});
  link.sends(100, 20);
  link.sends(0x400064, 20);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("replaced"));
  ASSERT_EQ(recorded.farewells.size(), 2U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].packets, 20U);
  EXPECT_EQ(recorded.farewells[1].connection.sent[0].packets, 20U);
}

TEST(QueuePairs, StrayPacketIsIgnored) {
  Link link;
  link.sends(100, 3);
  link.sends(0x500000);
  link.sends(103, 3);
  link.acks(105, 6);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::replaced), 0U);
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].packets, 7U);
  EXPECT_EQ(recorded.messages.size(), 6U);
}

TEST(QueuePairs, CmExchangeReplacesTheConnection) {
  Link link;
  link.sends(100, 3);
  PairEvidence evidence;
  name_side(evidence.sides[0], host_a, Link::qp_a, 7);
  name_side(evidence.sides[1], host_b, Link::qp_b, 8);
  evidence.request_frame = 50;
  evidence.frame = 51;
  link.pairs.pair(evidence);
  for (int i = 0; i < 60; ++i) link.sends(static_cast<std::uint32_t>(7 + i));
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::replaced), 1U);
  ASSERT_EQ(recorded.farewells.size(), 2U);
  EXPECT_EQ(recorded.farewells[0].connection.id, 1U);
  EXPECT_EQ(recorded.farewells[1].connection.id, 50U);
  EXPECT_EQ(recorded.farewells[1].connection.sent[0].packets, 60U);
}

// The capture starts long after the CM exchange, or the applications exchanged these QP numbers for another run.
TEST(QueuePairs, FirstRequestDeterminesTheStartingPsn) {
  Link link({.first_a = 100});
  link.sends(0x600000, 5);
  link.acks(0x600004, 77);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.paired_by, JoinedBy::connection_manager);
  EXPECT_EQ(recorded.messages.size(), 5U);
}

// ---- Services

TEST(QueuePairs, Datagrams) {
  Link link({.joined = false});
  link.send({.opcode = ud + rc::send,
             .from = host_a,
             .to = host_b,
             .qp = 0x12,
             .psn = 5,
             .payload = 30,
             .source_qp = 0x11,
             .qkey = 0x11111111});
  link.send({.opcode = ud + rc::send_immediate,
             .from = host_b,
             .to = host_a,
             .qp = 0x11,
             .psn = 900,
             .payload = 4,
             .immediate = 3,
             .source_qp = 0x12,
             .qkey = 0x22222222});
  link.send({.opcode = ud + rc::send,
             .from = host_a,
             .to = host_b,
             .qp = 0x12,
             .psn = 0x700000,
             .payload = 30,
             .source_qp = 0x11,
             .qkey = 0x33333333});
  link.send({.opcode = ud + rc::send,
             .from = host_a,
             .to = host_b,
             .qp = 1,
             .psn = 1,
             .payload = 256,
             .source_qp = 1,
             .qkey = 0x80010000});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("qkey_mismatch"));
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send sent 1-1", "send sent 2-2", "send sent 3-3"));
  ASSERT_EQ(recorded.farewells.size(), 1U) << "management traffic creates no connection";
  EXPECT_EQ(recorded.farewells[0].connection.service, Service::ud);
  EXPECT_EQ(recorded.farewells[0].connection.paired_by, JoinedBy::datagram);
  EXPECT_EQ(recorded.farewells[0].connection.sent[1].packets, 1U);
}

TEST(QueuePairs, UnreliableConnections) {
  Link link({.joined = false});
  link.send({.opcode = uc + rc::send_first, .from = host_a, .to = host_b, .qp = 0x12, .psn = 5, .payload = 1024});
  link.send({.opcode = uc + rc::send_last, .from = host_a, .to = host_b, .qp = 0x12, .psn = 6, .payload = 1});
  link.send({.opcode = uc + rc::write, .from = host_a, .to = host_b, .qp = 0x12, .psn = 7, .payload = 4, .length = 4});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_THAT(recorded.message_texts(), ElementsAre("send sent 1-2", "write sent 3-3"));
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.service, Service::uc);
}

TEST(QueuePairs, ExtendedReliableConnections) {
  Link link({.joined = false});
  for (std::uint32_t i = 0; i < 4; ++i) {
    link.send({.opcode = xrc + rc::send, .from = host_a, .to = host_b, .qp = 0x12, .psn = 5 + i, .payload = 8});
    link.send({.opcode = xrc + rc::acknowledge, .from = host_b, .to = host_a, .qp = 0x11, .psn = 5 + i, .msn = i + 1});
  }
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.service, Service::xrc);
  EXPECT_EQ(recorded.messages.size(), 4U);
}

// The headers of this transport are not published, so packets are only counted.
TEST(QueuePairs, VendorTransport) {
  Link link({.joined = false});
  for (std::uint32_t i = 0; i < 4; ++i)
    link.send(
        {.opcode = 0x44, .from = host_a, .to = host_b, .qp = 0x12, .psn = i * 5000, .payload = 8, .vendor = true});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_THAT(recorded.message_texts(), IsEmpty());
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.service, Service::vendor);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].packets, 4U);
}

TEST(QueuePairs, CnpOfUnknownConnection) {
  Link link({.joined = false});
  link.send({.opcode = congestion_notification, .from = host_b, .to = host_a, .qp = 0x11});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), ElementsAre("cnp unknown"));
  EXPECT_EQ(recorded.events[0].connection, 0U);
  EXPECT_THAT(recorded.farewells, IsEmpty());
}

// ---- Damaged packets

TEST(QueuePairs, DamagedPacketReportsOnlyItsCrc) {
  Link link;
  link.good_crcs = true;
  link.sends(100, 3);
  link.damaged = true;
  link.sends(0x300000);
  link.acks(0x200000, 9);
  link.damaged = false;
  link.sends(103);
  link.acks(103, 4);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::crc_bad), 2U);
  EXPECT_EQ(recorded.events.size(), 2U);
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].crc_bad, 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].packets, 5U);
  EXPECT_EQ(recorded.messages.size(), 4U);
}

// One bit of the destination QP number is wrong. The PSN is missing in the sequence, but the packet was not lost.
TEST(QueuePairs, DamagedQpNumberBelongsToConnection) {
  Link link;
  link.good_crcs = true;
  link.sends(100, 2);
  link.damaged = true;
  link.send({.opcode = rc::send, .from = host_a, .to = host_b, .qp = Link::qp_b ^ 0x400, .psn = 102, .payload = 64});
  link.damaged = false;
  link.sends(103);
  link.acks(101, 2);
  link.acks(102, 2, nak(0));
  link.sends(102, 2);
  link.acks(103, 4);
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(),
              ElementsAre("crc_bad unknown", "nak psn_sequence_error", "retransmission corrupted"));
  for (const Event& event : recorded.events) EXPECT_EQ(event.connection, 1U);
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_EQ(recorded.farewells[0].connection.sent[0].crc_bad, 1U);
}

// The READ has five PSNs, but its damaged request does not reliably show this number.
TEST(QueuePairs, DamagedReadExplainsGap) {
  Link link;
  link.good_crcs = true;
  link.sends(100, 2);
  link.damaged = true;
  link.a({.opcode = rc::read, .psn = 102, .length = 0x700000});
  link.damaged = false;
  link.sends(107);
  link.acks(101, 2);
  link.acks(102, 2, nak(0));
  link.a({.opcode = rc::read, .psn = 102, .length = 5000});
  link.sends(107);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::lost_in_network), 0U);
  EXPECT_EQ(recorded.of(EventKind::retransmission).cause, Cause::corrupted);
}

TEST(QueuePairs, PacketsAreTrackedIfAllCrcsAreBad) {
  Link link;
  link.damaged = true;
  link.sends(100, 3);
  link.acks(102, 3);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.count(EventKind::crc_bad), 4U);
  EXPECT_EQ(recorded.messages.size(), 3U);
}

// ---- Table limits

TEST(QueuePairs, TooManyConnections) {
  TrackerOptions options;
  options.connections = 4;
  Link link({.joined = false, .options = options});
  for (std::uint32_t i = 0; i < 20; ++i) talk(link, 2, 100, 0x100 + i, 0x200 + i);
  // A new direction can evict its own other direction before they are paired.
  const std::uint64_t went = link.pairs.evicted();
  EXPECT_GE(went, 16U);
  const Recorder& recorded = link.end();
  ASSERT_GE(recorded.farewells.size(), 20U);
  std::set<std::uint64_t> ids;
  std::uint64_t packets = 0, evicted = 0;
  for (const auto& [c, why] : recorded.farewells) {
    ids.insert(c.id);
    packets += c.sent[0].packets + c.sent[1].packets;
    evicted += why == CloseReason::evicted;
  }
  EXPECT_EQ(ids.size(), recorded.farewells.size());
  EXPECT_EQ(packets, 80U) << "every packet is counted";
  EXPECT_EQ(evicted, went);
  EXPECT_EQ(recorded.messages.size(), 40U);
}

TEST(QueuePairs, NoTableSpace) {
  TrackerOptions options;
  options.connections = 0;
  Link link({.joined = false, .options = options});
  talk(link, 3);
  EXPECT_FALSE(link.end().farewells.empty());
}

// A connection that is known only from a text exchange has no ID before its first packet.
TEST(QueuePairs, EvidenceWithoutPackets) {
  TrackerOptions options;
  options.connections = 2;
  Link link({.joined = false, .options = options});
  for (std::uint32_t i = 0; i < 5; ++i) {
    PairEvidence evidence;
    evidence.by = JoinedBy::text;
    name_side(evidence.sides[0], host_a, 0x30 + i, 7);
    name_side(evidence.sides[1], host_b, 0x40 + i, 8);
    link.pairs.pair(evidence);
  }
  talk(link, 1);
  const Recorder& recorded = link.end();
  ASSERT_EQ(recorded.farewells.size(), 1U);
  EXPECT_NE(recorded.farewells[0].connection.id, 0U);
}

TEST(QueuePairs, TooManyPacketsWait) {
  TrackerOptions options;
  options.waiting_packets = 8;
  Link link({.joined = false, .options = options});
  for (std::uint32_t i = 0; i < 50; ++i)
    for (std::uint32_t qp = 0; qp < 10; ++qp)
      link.send({.from = host_a, .to = host_b, .qp = 0x100 + qp, .psn = i, .payload = 8});
  const Recorder& recorded = link.end();
  EXPECT_THAT(recorded.event_texts(), IsEmpty());
  EXPECT_EQ(recorded.messages.size(), 500U);
  EXPECT_EQ(recorded.farewells.size(), 10U);
}

// Two directions match a response. One is evicted, and a connection of other hosts reuses its slot. The PSNs of that
// connection match the next responses.
TEST(QueuePairs, CandidateWhoseSlotIsReused) {
  TrackerOptions options;
  options.connections = 3;
  Link link({.joined = false, .options = options});
  constexpr std::uint32_t host_c = host_a + 100, host_d = host_b + 100;
  for (const std::uint32_t qp : {1U, 2U})
    link.send({.from = host_a, .to = host_b, .qp = qp, .psn = 100, .source_port = constant_port});
  const auto answer = [&](std::uint32_t psn) {
    link.send(
        {.opcode = rc::acknowledge, .from = host_b, .to = host_a, .qp = 9, .psn = psn, .source_port = constant_port});
  };
  answer(100);
  for (const std::uint32_t psn : {101U, 102U, 103U})
    link.send({.from = host_c, .to = host_d, .qp = 3, .psn = psn, .source_port = constant_port});
  EXPECT_EQ(link.pairs.evicted(), 1U);
  for (const std::uint32_t psn : {101U, 102U, 103U}) answer(psn);
  const Recorder& recorded = link.end();
  EXPECT_EQ(recorded.farewells.size(), 4U);
  for (const auto& [c, why] : recorded.farewells) {
    EXPECT_EQ(c.paired_by, JoinedBy::nothing);
    EXPECT_TRUE(c.sent[0].packets == 0 || c.sent[1].packets == 0) << "connection " << c.id;
  }
}

// ---- Interleaved connections

/// Returns the text of an event or message without frame numbers, which depend on the order of packets.
std::string without_frames(const Event& e) {
  return name_of(e) + " " + std::to_string(e.psn) + " x" + std::to_string(e.packets) + " " +
         std::to_string(static_cast<int>(e.end)) + " " + std::to_string(e.bytes);
}

// Connections between different hosts are independent, so the order in which their packets are mixed must not change
// the reports.
TEST(QueuePairs, InterleavingDoesNotChangeReports) {
  constexpr std::size_t connections = 6;
  std::vector<std::vector<RdmaFrame>> scripts(connections);
  for (std::size_t i = 0; i < connections; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    const auto host = static_cast<std::uint32_t>(0x0a000100 + i);
    std::uint32_t psn = 100;
    for (int step = 0; step < 60; ++step) {
      const std::uint32_t what = random() % 10;
      RdmaFrame request{.from = host, .to = host_b, .qp = 0x12, .psn = psn, .payload = 8, .source_port = constant_port};
      RdmaFrame answer{
          .opcode = rc::acknowledge, .from = host_b, .to = host, .qp = 0x11, .psn = psn, .source_port = constant_port};
      if (what == 0) ++request.psn, ++answer.psn, ++psn;  // skips a PSN
      if (what == 1) answer.syndrome = nak(nak_code::psn_sequence_error);
      if (what == 2) answer.syndrome = rnr(1);
      if (what == 3) request.traffic_class = 3;
      scripts[i].push_back(request);
      if (what != 4) scripts[i].push_back(answer);
      if (what == 1 || what == 2 || what == 5) scripts[i].push_back(request);
      ++psn;
    }
    for (std::size_t k = 0; k < scripts[i].size(); ++k)
      scripts[i][k].identification = static_cast<std::uint16_t>(k + 1);
  }
  std::map<std::uint32_t, std::vector<std::string>> expected;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    Link link({.joined = false});
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < connections; ++i) order.insert(order.end(), scripts[i].size(), i);
    if (seed != 0) std::shuffle(order.begin(), order.end(), random);
    // The time of a packet is its position in the script of its connection.
    std::vector<std::size_t> next(connections);
    for (const std::size_t i : order) {
      link.now = 1'000'000'000 + static_cast<std::int64_t>(next[i]) * millisecond;
      link.send(scripts[i][next[i]++]);
    }
    const Recorder& recorded = link.end();
    std::map<std::uint64_t, std::uint32_t> hosts;
    for (const auto& [c, why] : recorded.farewells)
      hosts[c.id] = static_cast<std::uint32_t>(std::min(c.ends[0].address.low, c.ends[1].address.low) ==
                                                       PortAddress::of_ipv4(host_b).low
                                                   ? std::max(c.ends[0].address.low, c.ends[1].address.low)
                                                   : std::min(c.ends[0].address.low, c.ends[1].address.low));
    std::map<std::uint32_t, std::vector<std::string>> found;
    for (const Event& e : recorded.events) found[hosts[e.connection]].push_back(without_frames(e));
    for (const Message& m : recorded.messages)
      found[hosts[m.connection]].push_back(std::string(to_string(m.outcome)) + " " + std::to_string(m.first_psn) + " " +
                                           std::to_string(m.repeated_packets));
    ASSERT_EQ(recorded.farewells.size(), connections) << "seed " << seed;
    if (seed == 0) expected = found;
    ASSERT_EQ(found, expected) << "seed " << seed;
  }
  EXPECT_EQ(expected.size(), connections);
  EXPECT_GT(expected.begin()->second.size(), 60U);
}

}  // namespace
}  // namespace rdmawire::tracking
