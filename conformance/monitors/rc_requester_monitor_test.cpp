#include "conformance/monitors/watched_for_test.hpp"

namespace rdmawire::conformance::testing {
namespace {

/// For captures that were taken at the requester's port.
const std::vector requesters_port{tracking::PortAddress::of_ipv4(host_a)};

const auto examples = std::vector<Example>{
    {"REQ-001",
     Side::a,
     {.bench = true},
     [](Watched& w) {
       w.sends(0);
       w.sends(2);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(2);
     }},
    {"REQ-002",
     Side::a,
     {},
     [](Watched& w) {
       w.reads(0, 4096);
       w.sends(2);
     },
     [](Watched& w) {
       w.reads(0, 4096);
       w.sends(4);
     },
     [](Watched& w) {
       w.reads(0, 4096);
       w.sends(6);
     }},
    {"REQ-005",
     Side::a,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.sends(1);
     },
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.a({.opcode = rc::send_last, .psn = 101, .payload = 8});
     },
     // The capture lacks the last packet and another message.
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.sends(2);
     }},
    {"REQ-006",
     Side::a,
     {},
     [](Watched& w) { w.a({.opcode = rc::send_first, .psn = 100, .payload = 512}); },
     [](Watched& w) { w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024}); },
     [](Watched& w) { w.a({.opcode = rc::send_middle, .psn = 103, .payload = 1024}); }},
    {"REQ-008",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.sends(0);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.sends(1);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.sends(0);
     }},
    {"REQ-021",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.sends(2);
       w.acks(0, 0, nak(0));
       w.sends(1);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.sends(2);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.sends(1);
       w.sends(2);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.sends(2);
       w.acks(0, 0, nak(0));
       w.sends(1);
     }},
    {"REQ-022",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.sends(2);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.sends(2);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.sends(2);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.sends(1);
       w.sends(2);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.sends(2);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.sends(2);
     }},
    {"REQ-023",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.step = millisecond;
       w.sends(0);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.acks(0, 1);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 0, nak(0));
       w.sends(0);
       w.step = millisecond;
       w.sends(0);
     }},
    {"REQ-024",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.step = millisecond;
       w.sends(0);
       w.sends(0);
     },
     [](Watched& w) {
       w.step = 5 * millisecond;
       w.sends(0);
       w.sends(0);
     },
     [](Watched& w) {
       w.step = millisecond;
       w.sends(0);
       w.sends(0);
     }},
    {"REQ-025",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       for (int i = 0; i < 5; ++i) w.sends(0);
     },
     [](Watched& w) {
       for (int i = 0; i < 4; ++i) w.sends(0);
     },
     [](Watched& w) {
       for (int i = 0; i < 5; ++i) w.sends(0);
     }},
    // RNR timer codes: 14 is 1.28 ms, 28 is 163.84 ms.
    {"REQ-028",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 0, rnr(28));
       w.sends(0);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 0, rnr(28));
       w.wait(150 * millisecond);
       w.sends(0);
     },
     // The second packet may have been in flight when the first NAK arrived. The second NAK may have been lost, so the
     // third packet may be a retransmission after a timeout.
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 0, rnr(28));
       w.step = millisecond;
       w.sends(0);
       w.acks(0, 0, rnr(28));
       w.step = 20 * millisecond;
       w.sends(0);
     }},
    {"REQ-029",
     Side::a,
     {.at = requesters_port},
     [](Watched& w) {
       w.sends(0);
       for (int i = 0; i < 3; ++i) {
         w.acks(0, 0, rnr(1));
         w.sends(0);
       }
     },
     [](Watched& w) {
       w.sends(0);
       for (int i = 0; i < 2; ++i) {
         w.acks(0, 0, rnr(1));
         w.sends(0);
       }
     },
     [](Watched& w) {
       w.sends(0);
       for (int i = 0; i < 3; ++i) {
         w.acks(0, 0, rnr(1));
         w.sends(0);
       }
     }},
    {"REQ-032",
     Side::a,
     {},
     [](Watched& w) {
       for (std::uint32_t i = 0; i < 3; ++i) w.reads(i, 8);
       w.responds(rc::response_only, 0, 8, 1);
     },
     [](Watched& w) {
       for (std::uint32_t i = 0; i < 2; ++i) w.reads(i, 8);
       w.responds(rc::response_only, 0, 8, 1);
     },
     // The capture lacks the first response.
     [](Watched& w) {
       for (std::uint32_t i = 0; i < 3; ++i) w.reads(i, 8);
       w.responds(rc::response_only, 1, 8, 2);
     }},
    {"REQ-035",
     Side::a,
     {},
     [](Watched& w) {
       w.reads(0, 4096);
       w.responds(rc::response_first, 0, 1024, 1);
       w.reads(1, 3072, 0x1000);
     },
     [](Watched& w) {
       w.reads(0, 4096);
       w.responds(rc::response_first, 0, 1024, 1);
       w.reads(1, 3072, 0x1400);
     },
     [](Watched& w) { w.reads(1, 3072, 0x1400); }},
    {"REQ-037",
     Side::a,
     {},
     nullptr,
     [](Watched& w) {
       w.reads(0, 4096);
       w.responds(rc::response_first, 0, 1024, 1);
       w.responds(rc::response_middle, 2, 1024);
       w.reads(1, 3072, 0x1400);
     },
     [](Watched& w) {
       w.reads(0, 4096);
       w.responds(rc::response_first, 0, 1024, 1);
       w.responds(rc::response_middle, 2, 1024);
       w.sends(4);
     }},
    {"REQ-041",
     Side::a,
     {},
     [](Watched& w) {
       w.sends(0, 64);
       w.sends(0, 60);
     },
     [](Watched& w) {
       w.sends(0, 64);
       w.sends(0, 64);
     },
     [](Watched& w) {
       w.sends(0, 64);
       w.kept = 40;
       w.sends(0, 64);
     }},
    {"REQ-042",
     Side::a,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::fetch_add, .psn = 100, .swap = 1});
       w.a({.opcode = rc::fetch_add, .psn = 100, .swap = 2});
     },
     [](Watched& w) {
       w.a({.opcode = rc::fetch_add, .psn = 100, .swap = 1});
       w.a({.opcode = rc::fetch_add, .psn = 100, .swap = 1});
     },
     nullptr},
    {"HDR-010",
     Side::a,
     {},
     [](Watched& w) {
       w.sends(0);
       w.a({.opcode = rc::send, .psn = 101, .source_port = 0xc124});
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
     },
     nullptr},
    {"HDR-039",
     Side::a,
     {},
     [](Watched& w) {
       w.migrated = false;
       w.sends(0);
     },
     [](Watched& w) { w.sends(0); },
     nullptr},
    {"QPS-025",
     Side::a,
     {},
     [](Watched& w) { w.a({.opcode = rc::send, .psn = 99, .payload = 4}); },
     [](Watched& w) { w.sends(0); },
     [](Watched& w) { w.sends(1); }},
};

class Requester : public ::testing::TestWithParam<Example> {};
TEST_P(Requester, ViolationIsReportedUnlessPacketsMayBeMissing) {
  if (GetParam().broken) {
    hold(GetParam());
    return;
  }
  // These rules have no trace with a violation, because a missing packet may be missing only in the capture.
  Watched kept(GetParam().agreed);
  GetParam().kept(kept);
  EXPECT_GT(kept.counts(GetParam().alias).passed, 0U);
  Watched lossy(GetParam().agreed);
  GetParam().lossy(lossy);
  EXPECT_GT(lossy.counts(GetParam().alias).inconclusive(), 0U);
}
INSTANTIATE_TEST_SUITE_P(Rules, Requester, ::testing::ValuesIn(examples), [](const auto& parameter) {
  std::string name = parameter.param.alias;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(RequesterMonitor, SkippedPsnsAreReportedByNumber) {
  Watched link({.bench = true});
  link.sends(0);
  link.sends(4);
  link.finish();
  ASSERT_FALSE(link.monitors.evaluator().violations().empty());
  const Violation& skipped = link.monitors.evaluator().violations().front();
  EXPECT_EQ(skipped.of().alias, "REQ-001");
  EXPECT_EQ(skipped.statement.expected, "relative PSN 1");
  EXPECT_EQ(skipped.statement.actual, "relative PSN 4: 3 PSNs are skipped");
}

TEST(RequesterMonitor, PayloadChangeOnRetransmissionIsInconclusive) {
  Watched link;
  link.sends(0);
  link.change = [](std::uint8_t* bytes, std::size_t size) {
    bytes[45] = 1;
    return size;
  };
  link.sends(0);
  EXPECT_EQ(link.counts("REQ-041").inconclusive_by_reason[static_cast<std::size_t>(Reason::device_internal)], 1U);
  EXPECT_THAT(link.violated(), ::testing::IsEmpty());
}

// If the capture lacks the CM exchange, the path MTU is inferred from the first packet, and may be wrong. Only lengths
// that are invalid with every path MTU are violations.
TEST(RequesterMonitor, LengthsWithoutNegotiatedPathMtu) {
  struct {
    const char* name;
    std::uint8_t second;
    std::uint32_t payload, dma_length;
    std::uint32_t violated, inconclusive;
  } rows[] = {{"a Middle packet of the same length", rc::write_middle, 1024, 4096, 0, 0},
              {"a Middle packet as long as another path MTU", rc::write_middle, 512, 4096, 0, 1},
              {"a Middle packet that no path MTU permits", rc::write_middle, 1000, 4096, 1, 0},
              {"a Last packet longer than the first", rc::write_last, 1028, 1500, 0, 1},
              {"a Last packet that exceeds the DMA length", rc::write_last, 1024, 1500, 1, 0},
              {"a Last packet that ends at the DMA length", rc::write_last, 476, 1500, 0, 0}};
  for (const auto& row : rows) {
    Watched link({.paired = false});
    link.writes(rc::write_first, 0, 1024, row.dma_length);
    link.writes(row.second, 1, row.payload);
    const ResultCounters& counts = link.counts("rc.requester.length.packets-filled");
    EXPECT_EQ(counts.violated, row.violated) << row.name;
    EXPECT_EQ(counts.inconclusive(), row.inconclusive) << row.name;
    EXPECT_EQ(counts.passed, 2 - row.violated - row.inconclusive) << row.name;
  }
}

// Credit code 0 grants no credits, but a requester may always send one message.
TEST(RequesterMonitor, TwoMessagesBeyondCreditsAreAViolation) {
  for (const bool bench : {true, false}) {
    Watched link({.bench = bench});
    link.sends(0);
    link.acks(0, 1, 0);
    link.sends(1);
    EXPECT_EQ(link.monitors.evaluator().violations().size(), 0U);
    link.sends(2);
    EXPECT_EQ(link.counts("rc.requester.credits.kept").violated, bench ? 1U : 0U);
  }
}

TEST(RequesterMonitor, DuplicateFromNetworkIsNoRetransmission) {
  Watched link;
  link.sends(0);
  link.step = 100 * microsecond;
  // The second packet has the same IP identification and ICRC, so it is a duplicate.
  const auto frame = link.sends(1);
  link.sends(1);
  link.acks(1, 2);
  EXPECT_THAT(link.violated(), ::testing::IsEmpty());
  EXPECT_GT(frame, 0U);
}

}  // namespace
}  // namespace rdmawire::conformance::testing
