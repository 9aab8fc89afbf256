#include "conformance/monitors/watched_for_test.hpp"

namespace rdmawire::conformance::testing {
namespace {

/// Two WRITEs of two packets. The second packet has `last` bytes.
void write_of_two(Watched& w, std::uint32_t last) {
  w.writes(rc::write_first, 0, 1024, 1100);
  w.writes(rc::write_last, 1, last);
}

const auto examples = std::vector<Example>{
    {"RSP-003",
     Side::b,
     {.bench = true},
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.acks(0, 1);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.sends(1);
       w.acks(1, 2);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.acks(0, 1);
     }},
    {"RSP-005",
     Side::b,
     {},
     [](Watched& w) {
       write_of_two(w, 76);
       w.acks(1, 2);
       w.sends(2);
     },
     [](Watched& w) {
       write_of_two(w, 76);
       w.acks(1, 1);
       w.sends(2);
       w.acks(2, 2);
     },
     // The capture may lack the message that the MSN counts.
     [](Watched& w) {
       write_of_two(w, 76);
       w.acks(1, 2);
       w.sends(3);
     }},
    {"RSP-006",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.reads(2, 8);
       w.responds(rc::response_only, 2, 8, 2);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.reads(2, 8);
       w.responds(rc::response_only, 2, 8, 3);
     },
     nullptr},
    {"RSP-009",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0);
       w.sends(2);
       w.acks(1, 1, nak(0));
       w.acks(1, 1, nak(0));
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(2);
       w.acks(1, 1, nak(0));
       w.sends(1);
       w.sends(2);
       w.acks(2, 3);
     },
     // The second NAK follows so soon that the network may have duplicated the first.
     [](Watched& w) {
       w.sends(0);
       w.sends(2);
       w.acks(1, 1, nak(0));
       w.step = millisecond;
       w.acks(1, 1, nak(0));
     }},
    {"RSP-014",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.acks(1, 2);
       w.sends(0);
       w.acks(0, 2);
     },
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.acks(1, 2);
       w.sends(0);
       w.acks(1, 2);
     },
     // The network may have reordered the two ACKs.
     [](Watched& w) {
       w.sends(0);
       w.sends(1);
       w.acks(1, 2);
       w.step = millisecond;
       w.acks(0, 1);
     }},
    {"RSP-019",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::fetch_add, .psn = 100});
       w.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1, .swap = 5});
       w.a({.opcode = rc::fetch_add, .psn = 100});
       w.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1, .swap = 6});
     },
     [](Watched& w) {
       w.a({.opcode = rc::fetch_add, .psn = 100});
       w.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1, .swap = 5});
       w.a({.opcode = rc::fetch_add, .psn = 100});
       w.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1, .swap = 5});
     },
     nullptr},
    {"RSP-022",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0);
       w.a({.opcode = rc::send_middle, .psn = 101, .payload = 1024});
       w.acks(1, 1);
     },
     nullptr,
     [](Watched& w) {
       w.sends(0);
       w.a({.opcode = rc::send_middle, .psn = 102, .payload = 1024});
       w.acks(2, 2);
     }},
    {"RSP-023",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.sends(1);
       w.acks(1, 1);
     },
     nullptr,
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.sends(2);
       w.acks(2, 2);
     }},
    {"RSP-024",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.a({.opcode = rc::write_last, .psn = 101, .payload = 8});
       w.acks(1, 1);
     },
     nullptr,
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.a({.opcode = rc::write_last, .psn = 102, .payload = 8});
       w.acks(2, 1);
     }},
    {"RSP-025",
     Side::b,
     {},
     [](Watched& w) {
       w.writes(rc::write_first, 0, 1024, 2048);
       w.reads(1, 8);
       w.responds(rc::response_only, 1, 8, 1);
     },
     nullptr,
     [](Watched& w) {
       w.writes(rc::write_first, 0, 1024, 2048);
       w.reads(2, 8);
       w.responds(rc::response_only, 2, 8, 2);
     }},
    {"RSP-026",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 512});
       w.acks(0, 0);
     },
     nullptr,
     nullptr},
    {"RSP-027",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0, 1025);
       w.acks(0, 1);
     },
     nullptr,
     nullptr},
    {"RSP-028",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = rc::send_first, .psn = 100, .payload = 1024});
       w.a({.opcode = rc::send_last, .psn = 101, .payload = 0});
       w.acks(1, 1);
     },
     nullptr,
     nullptr},
    {"RSP-029",
     Side::b,
     {},
     [](Watched& w) {
       write_of_two(w, 75);
       w.acks(1, 1);
     },
     nullptr,
     [](Watched& w) {
       w.writes(rc::write_last, 1, 75);
       w.acks(1, 1);
     }},
    {"RSP-042",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0);
       w.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1});
     },
     [](Watched& w) {
       w.a({.opcode = rc::fetch_add, .psn = 100});
       w.b({.opcode = rc::atomic_acknowledge, .psn = 100, .msn = 1});
     },
     [](Watched& w) {
       w.sends(0);
       w.b({.opcode = rc::atomic_acknowledge, .psn = 101, .msn = 2});
     }},
    {"RSP-053",
     Side::b,
     {},
     [](Watched& w) {
       w.reads(0, 2048);
       w.responds(rc::response_middle, 0, 1024);
     },
     [](Watched& w) {
       w.reads(0, 2048);
       w.responds(rc::response_first, 0, 1024, 1);
       w.responds(rc::response_last, 1, 1024, 1);
     },
     // The capture may lack a retry of the missing part.
     [](Watched& w) {
       w.reads(0, 2048);
       w.responds(rc::response_only, 1, 1024, 1);
     }},
    {"RSP-054",
     Side::b,
     {},
     [](Watched& w) {
       w.reads(0, 2048);
       w.responds(rc::response_first, 0, 512, 1);
     },
     [](Watched& w) {
       w.reads(0, 2048);
       w.responds(rc::response_first, 0, 1024, 1);
       w.responds(rc::response_last, 1, 1024, 1);
     },
     [](Watched& w) { w.responds(rc::response_middle, 1, 512); }},
    {"RSP-055",
     Side::b,
     {.bench = true},
     [](Watched& w) {
       w.reads(0, 8);
       w.sends(1);
       w.acks(1, 2);
       w.responds(rc::response_only, 0, 8, 2);
     },
     [](Watched& w) {
       w.reads(0, 8);
       w.sends(1);
       w.responds(rc::response_only, 0, 8, 1);
       w.acks(1, 2);
     },
     [](Watched& w) {
       w.reads(0, 8);
       w.sends(1);
       w.acks(1, 2);
       w.responds(rc::response_only, 0, 8, 2);
     }},
    {"RSP-057",
     Side::b,
     {},
     [](Watched& w) {
       w.reads(0, 8);
       w.b({.opcode = rc::response_only, .psn = 100, .payload = 8, .syndrome = nak(2)});
     },
     [](Watched& w) {
       w.reads(0, 8);
       w.acks(0, 0, nak(2));
     },
     nullptr},
    {"RSP-061",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = 0x1d, .psn = 100, .payload = 8, .length = 8});
       w.responds(rc::response_only, 0, 8, 1);
     },
     [](Watched& w) {
       w.a({.opcode = 0x1d, .psn = 100, .payload = 8, .length = 8});
       w.responds(rc::response_only, 0, 0, 1);
     },
     nullptr},
    {"RSP-065",
     Side::b,
     {},
     [](Watched& w) {
       w.a({.opcode = 0x1c, .psn = 100});
       w.responds(rc::response_only, 0, 8, 1);
     },
     [](Watched& w) {
       w.a({.opcode = 0x1c, .psn = 100});
       w.responds(rc::response_only, 0, 0, 1);
     },
     nullptr},
    {"QPS-009",
     Side::b,
     {},
     [](Watched& w) {
       w.reads(0, 8);
       w.acks(0, 0, nak(2));
       w.responds(rc::response_only, 0, 8, 1);
     },
     [](Watched& w) {
       w.reads(0, 8);
       w.acks(0, 0, nak(2));
     },
     [](Watched& w) {
       w.reads(0, 8);
       w.acks(0, 0, nak(2));
       w.step = millisecond;
       w.responds(rc::response_only, 0, 8, 1);
     }},
    {"QPS-026",
     Side::b,
     {},
     [](Watched& w) {
       w.sends(0);
       w.closes(Side::a);
       w.acks(0, 1);
     },
     [](Watched& w) {
       w.sends(0);
       w.acks(0, 1);
       w.closes(Side::a);
     },
     [](Watched& w) {
       w.sends(0);
       w.closes(Side::a);
       w.step = millisecond;
       w.acks(0, 1);
     }},
    {"XRC-006",
     Side::b,
     {.service = tracking::Service::xrc},
     nullptr,
     [](Watched& w) {
       w.a({.opcode = xrc + rc::read, .psn = 100, .length = 8});
       w.b({.opcode = xrc + rc::response_only, .psn = 100, .payload = 8, .msn = 1});
     },
     nullptr},
};

class Responder : public ::testing::TestWithParam<Example> {};
TEST_P(Responder, ViolationIsReportedUnlessPacketsMayBeMissing) {
  const Example& example = GetParam();
  if (example.broken && example.kept) {
    hold(example);
    return;
  }
  if (example.kept) {
    Watched link(example.agreed);
    example.kept(link);
    EXPECT_GT(link.counts(example.alias).passed, 0U);
    EXPECT_THAT(link.violated(), ::testing::IsEmpty());
    return;
  }
  // Both traces contain the invalid request. The responder rejects it only in the second one.
  Watched broken(example.agreed);
  example.broken(broken);
  EXPECT_GT(broken.counts(example.alias).violated, 0U);
  if (example.lossy) {
    Watched lossy(example.agreed);
    example.lossy(lossy);
    EXPECT_EQ(lossy.counts(example.alias).violated, 0U);
  }
}
INSTANTIATE_TEST_SUITE_P(Rules, Responder, ::testing::ValuesIn(examples), [](const auto& parameter) {
  std::string name = parameter.param.alias;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ResponderMonitor, ResponseAfterGapViolatesOnlyInCompleteCapture) {
  for (const bool bench : {true, false}) {
    Watched link({.bench = bench});
    link.sends(0);
    link.sends(2);
    link.acks(2, 2);
    EXPECT_EQ(link.counts("RSP-009").violated, bench ? 1U : 0U);
  }
}

TEST(ResponderMonitor, ReadResponseRevealsPathMtuAndPsns) {
  // The response reveals the path MTU, before or after further requests. The READ uses two PSNs in both cases.
  for (const bool at_once : {true, false}) {
    Watched link({.bench = true, .mtu = 0});
    link.sends(0);
    link.acks(0, 1);
    link.reads(1, 257);
    if (!at_once) link.sends(3);
    link.responds(rc::response_first, 1, 256, 2);
    link.responds(rc::response_last, 2, 1, 2);
    if (at_once) link.sends(3);
    link.acks(3, 3);
    EXPECT_EQ(link.violated(), std::vector<std::string>{}) << at_once;
  }
  // A gap after the READ is still detected.
  Watched link({.bench = true, .mtu = 0});
  link.sends(0);
  link.acks(0, 1);
  link.reads(1, 257);
  link.responds(rc::response_first, 1, 256, 2);
  link.responds(rc::response_last, 2, 1, 2);
  link.sends(4);
  link.acks(4, 4);
  EXPECT_EQ(link.counts("RSP-009").violated, 1U);
}

TEST(ResponderMonitor, RequestAfterFatalNakIsAViolation) {
  Watched link({.bench = true});
  link.reads(0, 8);
  link.acks(0, 0, nak(2));
  link.sends(1);
  EXPECT_EQ(link.violated(), std::vector<std::string>{"QPS-009 a 4"});
}

TEST(ResponderMonitor, RejectedRequestViolatesOnlyRequesterRule) {
  Watched link;
  link.sends(0);
  link.a({.opcode = rc::send_middle, .psn = 101, .payload = 1024});
  link.acks(1, 1, nak(1));
  EXPECT_EQ(link.counts("RSP-022").passed, 1U);
  EXPECT_EQ(link.violated(), std::vector<std::string>{"REQ-005 a 3"});
}

TEST(ResponderMonitor, PairingByInferenceIsInconclusive) {
  Watched link({.paired = false});
  link.sends(0);
  link.acks(0, 1);
  link.sends(1);
  link.acks(1, 2);
  link.sends(0);
  link.acks(0, 2);
  EXPECT_EQ(link.counts("RSP-014").violated, 0U);
}

// The IP identification shows that the ACK was sent earlier, although it was captured long after a later one.
TEST(ResponderMonitor, OvertakenAcknowledgementIsNoViolation) {
  Watched link({.paired = true});
  for (std::uint32_t i = 0; i < 10; ++i) {
    link.sends(i);
    link.acks(i, i + 1);
  }
  link.sends(10);
  link.sends(11);
  const std::uint64_t newer = link.acks(11, 12);
  link.wait(50 * millisecond);
  link.change = [&](std::uint8_t* bytes, std::size_t size) {
    store_be(bytes + 4, 2, newer - 1);
    return size;
  };
  link.acks(10, 11);
  EXPECT_THAT(link.violated(), ::testing::IsEmpty());
  EXPECT_EQ(link.counts("RSP-014").inconclusive_by_reason[static_cast<std::size_t>(Reason::order_unknown)], 1U);
}

TEST(ResponderMonitor, MsnWrapsAround) {
  Watched link({.paired = true});
  for (std::uint32_t i = 0; i < 300; ++i) {
    link.sends(i);
    link.acks(i, i + 1);
  }
  EXPECT_THAT(link.violated(), ::testing::IsEmpty());
  EXPECT_GT(link.counts("RSP-005").passed, 290U);
}

}  // namespace
}  // namespace rdmawire::conformance::testing
