// Tests with the REQ, REP and RTU of a real capture. Some bytes are changed.

#include "conformance/monitors/cm_monitor.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "conformance/monitors/connection_monitor.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/tracking/captures_for_test.hpp"

namespace rdmawire::conformance {
namespace {

using ByteVector = std::vector<std::uint8_t>;
using Change = std::function<void(std::uint8_t* mad, std::uint8_t* message)>;

constexpr std::uint8_t mra = 0x11, rej = 0x12;  // attribute IDs

class Cm : public ::testing::Test {
 protected:
  void SetUp() override {
    tracking::testing::dissect_capture(tracking::testing::sample("rping.pcap"), [&](const tracking::Packet& seen) {
      if (seen.number < 15 || seen.number > 17) return;
      frames.emplace_back(seen.stack.bytes.begin(), seen.stack.bytes.end());
      mad_at = seen.stack.find(info<Mad>)->offset;
      link = seen.link;
    });
    ASSERT_EQ(frames.size(), 3U);
  }
  /// Passes a message to the monitor. `which`: 0 REQ, 1 REP, 2 RTU. `now`: time in milliseconds.
  void give(std::size_t which, std::int64_t now, const Change& change = nullptr) {
    ByteVector bytes = frames[which];
    if (change) change(bytes.data() + mad_at, bytes.data() + mad_at + Mad::size);
    packet.number++;
    packet.time_ns = now * 1'000'000;
    packet.link = link;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    packet.icrc.status = CrcCheck::Status::good;  // so that the monitor does not treat the change as damage
    packet.icrc.value = static_cast<std::uint32_t>(packet.number);
    monitor.add(packet);
  }
  const ResultCounters& counts(const char* rule) {
    return evaluator.counters()[static_cast<std::size_t>(find_rule(rule) - rules.data())];
  }

  std::vector<ByteVector> frames;
  std::size_t mad_at = 0;
  LinkType link = LinkType::ethernet;
  Evaluator evaluator;
  CaptureAssumptions assumptions;
  CmMonitor monitor{evaluator, assumptions};
  tracking::Dissector dissector;
  tracking::Packet packet;
};

TEST_F(Cm, UnchangedExchangePasses) {
  for (std::size_t i = 0; i < 3; ++i) give(i, static_cast<std::int64_t>(i));
  EXPECT_EQ(counts("QPS-024").passed, 3U);
  EXPECT_EQ(counts("QPS-027").passed, 1U);
  EXPECT_TRUE(evaluator.violations().empty());
}

TEST_F(Cm, RepHasCommunicationIdOfReq) {
  give(0, 0);
  give(1, 1, [](auto*, std::uint8_t* m) { m[4] ^= 1; });
  ASSERT_EQ(evaluator.violations().size(), 1U);
  const Violation& v = evaluator.violations().front();
  EXPECT_EQ(v.of().alias, "QPS-024");
  EXPECT_EQ(v.place.end, Side::b);
  EXPECT_EQ(v.statement.related, std::vector<std::uint64_t>{1});
  EXPECT_EQ(v.sequence.size(), 2U);
}

TEST_F(Cm, RepWithoutCapturedReqIsInconclusive) {
  give(1, 1, [](auto*, std::uint8_t* m) { m[4] ^= 1; });
  EXPECT_EQ(counts("QPS-024").violated, 0U);
  EXPECT_EQ(counts("QPS-024").inconclusive(), 1U);
}

TEST_F(Cm, RtuHasBothCommunicationIds) {
  give(0, 0);
  give(1, 1);
  give(2, 2, [](auto*, std::uint8_t* m) { m[7] ^= 1; });
  EXPECT_EQ(counts("QPS-024").violated, 1U);
}

TEST_F(Cm, ReqHasValidPathMtu) {
  give(0, 0, [](auto*, std::uint8_t* m) { m[50] = static_cast<std::uint8_t>((m[50] & 0x0f) | 0x70); });
  EXPECT_EQ(counts("QPS-024").violated, 1U);
}

TEST_F(Cm, ReqIsRetriedAtMostMaxCmRetries) {
  const Change once = [](auto*, std::uint8_t* m) { m[51] = static_cast<std::uint8_t>((m[51] & 0x0f) | 0x10); };
  give(0, 0, once);
  give(0, 4000, once);
  EXPECT_EQ(counts("QPS-027").violated, 0U);
  give(0, 8000, once);
  EXPECT_EQ(counts("QPS-027").violated, 1U);
}

TEST_F(Cm, RejForTimeoutHasKnownCommunicationId) {
  const auto as = [](std::uint8_t kind, bool knows) {
    return [=](std::uint8_t* mad, std::uint8_t* m) {
      mad[17] = kind;
      if (kind == rej) {
        m[8] = 0;
        m[10] = 0;
        m[11] = 4;  // timeout
        if (!knows) m[4] = m[5] = m[6] = m[7] = 0;
      }
    };
  };
  give(0, 0);
  give(1, 10, as(mra, true));
  give(2, 9000, as(rej, false));
  EXPECT_EQ(counts("QPS-030").violated, 0U) << "the MRA may have been lost downstream of the capture point";
  EXPECT_EQ(counts("QPS-030").inconclusive(), 1U);
  assumptions.everywhere = true;
  give(2, 9100, as(rej, false));
  EXPECT_EQ(counts("QPS-030").violated, 1U);
  give(2, 9200, as(rej, true));
  EXPECT_EQ(counts("QPS-030").passed, 1U);
}

}  // namespace
}  // namespace rdmawire::conformance
