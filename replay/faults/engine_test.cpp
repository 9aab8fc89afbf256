#include "replay/faults/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "replay/faults/frames_for_test.hpp"

namespace rdmawire::replay {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FaultEngine engine_of(std::string_view text, const FaultEngineOptions& options = {}) {
  auto program = FaultProgram::compile(text);
  if (!program) ADD_FAILURE() << to_string(program.error(), text);
  return FaultEngine(program ? std::move(*program) : FaultProgram(), options);
}

std::uint32_t psn_of(Bytes frame) { return decode(frame).get<Bth>()->get<"psn">(); }
std::vector<std::uint32_t> psns_of(const FaultOutcome& outcome) {
  std::vector<std::uint32_t> psns;
  for (const FaultedFrame& frame : outcome.leaving) psns.push_back(psn_of(frame.bytes));
  return psns;
}

TEST(FaultEngine, EmptyProgramPassesFramesUnchanged) {
  FaultEngine engine = engine_of("");
  const auto frame = request(5);
  const FaultOutcome& out = engine.arrived(frame, 10, 0);
  ASSERT_EQ(out.leaving.size(), 1U);
  EXPECT_EQ(out.leaving[0].bytes.data(), frame.data()) << "not copied";
  EXPECT_EQ(out.leaving[0].time, 10);
  EXPECT_EQ(out.faults, "");
}

TEST(FaultEngine, DropsFirstTransmissionOfRelativePsn) {
  FaultEngine engine = engine_of("drop psn +3 try 1 from a");
  for (std::uint32_t psn = 100; psn < 106; ++psn)
    EXPECT_EQ(engine.arrived(request(psn), psn, 0).leaving.empty(), psn == 103) << psn;
  for (std::uint32_t psn = 103; psn < 106; ++psn)
    EXPECT_FALSE(engine.arrived(request(psn), psn + 100, 0).leaving.empty());
  EXPECT_FALSE(engine.arrived(answer(103), 300, 1).leaving.empty()) << "an answer with the same PSN";
  ASSERT_EQ(engine.log().size(), 1U);
  EXPECT_EQ(to_string(engine.log()[0], engine.program()),
            "frame 4 from a (connection 1, request psn +3, try 1, message 4 packet 1): dropped by rule 1: "
            "drop psn +3 try 1 from a");
  EXPECT_EQ(engine.counts()[0].picked, 1U);
  EXPECT_EQ(engine.counts()[0].done, 1U);
}

TEST(FaultEngine, CallerMayNumberConnections) {
  FaultEngine engine = engine_of("drop connection 7");
  EXPECT_TRUE(engine.arrived(request(100), 1, 0, 7).leaving.empty());
  EXPECT_EQ(engine.arrived(request(101), 2, 0, 1).coordinates.connection, 1U);
  EXPECT_FALSE(engine.arrived(request(102), 3, 0, 0).leaving.empty()) << "no connection";
  ASSERT_EQ(engine.log().size(), 1U);
  EXPECT_EQ(to_string(engine.log()[0], engine.program()),
            "frame 1 from a (connection 7, request psn +0, try 1, message 1 packet 1): dropped by rule 1: "
            "drop connection 7");
  engine = engine_of("drop");
  (void)engine.arrived(request(100), 1, 0, 0);
  EXPECT_EQ(to_string(engine.log()[0], engine.program()),
            "frame 1 from a (request psn +0, try 1, message 1 packet 1): dropped by rule 1: drop");
}

TEST(FaultEngine, UnusedRuleWithAbsolutePsnExplainsPsns) {
  FaultEngine engine = engine_of("drop psn 16212647");
  (void)engine.arrived(request(16212647), 1, 0);
  EXPECT_THAT(engine.why_not(0), HasSubstr("psn (PSNs are relative to the first one of the direction)"));
}

TEST(FaultEngine, AnswersSelectorMatchesOnlyAnswers) {
  FaultEngine engine = engine_of("drop answers psn +1");
  for (std::uint32_t psn = 100; psn < 103; ++psn) EXPECT_EQ(engine.arrived(request(psn), 1, 0).leaving.size(), 1U);
  EXPECT_EQ(engine.arrived(answer(100), 2, 1).leaving.size(), 1U);
  EXPECT_EQ(engine.arrived(answer(101), 2, 1).leaving.size(), 0U);
}

TEST(FaultEngine, SelectsByQpAndRelativePsnAndTransmission) {
  FaultEngine engine = engine_of("drop qp 0x11 psn +2 try 2\ndrop answers qp 18 nth 1");
  for (std::uint32_t psn = 100; psn < 104; ++psn) EXPECT_EQ(engine.arrived(request(psn), 1, 0).leaving.size(), 1U);
  EXPECT_EQ(engine.arrived(request(102), 2, 0).leaving.size(), 0U);
  EXPECT_EQ(engine.arrived(request(102), 3, 0).leaving.size(), 1U) << "third transmission";
  // The responses are sent to QP 0x12, and the directions have separate PSNs.
  EXPECT_EQ(engine.arrived(answer(102), 4, 1).leaving.size(), 0U);
  EXPECT_EQ(engine.arrived(answer(103), 5, 1).leaving.size(), 1U);

  FaultEngine other = engine_of("drop qp 0x13..0x20");
  EXPECT_EQ(other.arrived(request(100), 1, 0).leaving.size(), 1U);
  EXPECT_EQ(other.why_not(0), "no frame matches: the closest ones do not match qp");
}

TEST(FaultEngine, QpAndConnectionCanHaveNumbersOfTheCaller) {
  FaultEngine engine = engine_of("drop connection 4 qp 0x777 psn +1\ndrop connection 1",
                                 {.connection = 4, .qp_numbers = {{0x11, 0x777}}});
  EXPECT_EQ(engine.arrived(request(100), 1, 0).leaving.size(), 1U);
  EXPECT_EQ(engine.arrived(request(101), 1, 0).leaving.size(), 0U);
  EXPECT_EQ(engine.log().at(0).coordinates.connection, 4U);
  EXPECT_THAT(engine.why_not(1), HasSubstr("do not match connection (they belong to connection 4)"));
}

TEST(FaultEngine, UnusedRulesHaveReason) {
  FaultEngine engine = engine_of(
      "drop psn +9\n"
      "drop connection 2 psn +1\n"
      "drop from b\n"
      "drop nth 9\n"
      "drop probability 0\n"
      "truncate 2000\n"
      "drop segment 1\n"
      "mark ce nth 1\n"
      "drop psn +1 try 2");
  EXPECT_EQ(engine.why_not(0), "there was no frame");
  for (std::uint32_t psn = 100; psn < 103; ++psn) engine.arrived(request(psn), 1, 0);
  const std::string closest = "no frame matches: the closest ones do not match ";
  EXPECT_EQ(engine.why_not(0), closest + "psn (PSNs are relative to the first one of the direction)");
  EXPECT_EQ(engine.why_not(1), closest + "connection (they belong to connection 1)");
  EXPECT_EQ(engine.why_not(2), closest + "from");
  EXPECT_EQ(engine.why_not(3), "3 frames match, too few for nth or first");
  EXPECT_EQ(engine.why_not(4), "3 frames match, but probability excluded all of them");
  EXPECT_THAT(engine.why_not(5), HasSubstr("not truncated: "));
  EXPECT_EQ(engine.why_not(6), closest + "segment");
  EXPECT_EQ(engine.why_not(7), "") << "it was applied";
  EXPECT_EQ(engine.why_not(8), closest + "try");
}

TEST(FaultEngine, CountSelectorsAndTimes) {
  FaultEngine engine = engine_of("drop every 3\ndelay 5us nth 2..3\nduplicate after 1us before 2us");
  std::vector<std::string> seen;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::int64_t time = 1000 + i * 400;
    const FaultOutcome& out = engine.arrived(request(i), time, 0);
    std::string text;
    for (const FaultedFrame& f : out.leaving) text += "+" + std::to_string(f.time - time);
    seen.push_back(text);
  }
  // The second rule selects frames that the first did not drop: 1, 2, 4, 5.
  EXPECT_THAT(seen, ElementsAre("+0", "+5000", "", "+5000+5000", "+0+0", ""));
}

TEST(FaultEngine, HeldFramesAreReleasedAfterPassingFrames) {
  FaultEngine engine = engine_of("hold 2 psn +1");
  EXPECT_THAT(psns_of(engine.arrived(request(0), 1, 0)), ElementsAre(0U));
  EXPECT_THAT(psns_of(engine.arrived(request(1), 2, 0)), IsEmpty());
  EXPECT_EQ(engine.wakes(), 1'000'000'002);
  EXPECT_THAT(psns_of(engine.arrived(answer(0), 3, 1)), ElementsAre(0U));
  EXPECT_THAT(psns_of(engine.arrived(request(2), 4, 0)), ElementsAre(2U));
  const auto last = request(3);
  const FaultOutcome& out = engine.arrived(last, 5, 0);
  EXPECT_THAT(psns_of(out), ElementsAre(3U, 1U));
  EXPECT_EQ(out.leaving[1].faults, "held until 2 passed by rule 1");
  EXPECT_EQ(out.leaving[1].frame, 2U);
  EXPECT_EQ(engine.wakes(), FaultEngine::never);
}

TEST(FaultEngine, HeldFramesAreReleasedAtTimeLimit) {
  FaultEngine engine = engine_of("hold 2 within 1us first 2");
  engine.arrived(request(0), 100, 0);
  engine.arrived(request(1), 200, 0);
  EXPECT_THAT(psns_of(engine.due(1099)), IsEmpty());
  EXPECT_EQ(engine.wakes(), 1100);
  EXPECT_THAT(psns_of(engine.due(1100)), ElementsAre(0U));
  EXPECT_THAT(psns_of(engine.finish(1150)), ElementsAre(1U));
  FaultEngine small = engine_of("hold 1000", {.seed = 0, .held_frames = 2, .log_entries = 3, .connections = 8});
  EXPECT_THAT(psns_of(small.arrived(request(0), 1, 0)), IsEmpty());
  EXPECT_THAT(psns_of(small.arrived(request(1), 2, 0)), IsEmpty());
  EXPECT_THAT(psns_of(small.arrived(request(2), 3, 0)), ElementsAre(0U)) << "limit of held frames";
  small.arrived(request(3), 4, 0);
  EXPECT_EQ(small.log().size(), 3U);
  EXPECT_EQ(small.log_forgotten(), 1U);
}

TEST(FaultEngine, CorruptionInvalidatesIcrcUnlessFixed) {
  const auto status = [](std::string_view rule) {
    FaultEngine engine = engine_of(rule);
    const auto frame = request(9);
    const FaultOutcome& out = engine.arrived(frame, 1, 0);
    EXPECT_EQ(out.leaving.size(), 1U);
    EXPECT_NE(std::vector<std::uint8_t>(out.leaving[0].bytes.begin(), out.leaving[0].bytes.end()), frame) << rule;
    return check_icrc(decode(out.leaving[0].bytes)).status;
  };
  EXPECT_EQ(status("corrupt payload"), CrcCheck::Status::bad);
  EXPECT_EQ(status("corrupt payload byte 7 mask 0xff fix icrc"), CrcCheck::Status::good);
  EXPECT_EQ(status("corrupt icrc byte 3"), CrcCheck::Status::bad);
  EXPECT_EQ(status("corrupt header byte 11"), CrcCheck::Status::bad);
  EXPECT_EQ(status("corrupt header byte 11 fix all"), CrcCheck::Status::good);
  EXPECT_EQ(status("corrupt payload random bits 64"), CrcCheck::Status::bad);
  EXPECT_EQ(status("mark ce"), CrcCheck::Status::good);
  EXPECT_EQ(status("mark not-ect"), CrcCheck::Status::good);
}

TEST(FaultEngine, MarkUpdatesIpChecksumIncrementally) {
  FaultEngine engine = engine_of("mark ce");
  auto frame = request(9);
  for (int wrong = 0; wrong < 2; ++wrong) {
    if (wrong) frame[24] ^= 0x40;
    const FaultOutcome& out = engine.arrived(frame, 1, 0);
    const Bytes ip = out.leaving[0].bytes.subspan(14, 20);
    EXPECT_EQ(ip[1], 0x03);
    EXPECT_EQ(internet_checksum(ip) == 0, !wrong);
  }
  const std::vector<std::uint8_t> arp(60, 0);
  EXPECT_EQ(engine.arrived(arp, 2, 0).faults, "not marked: no IP header by rule 1");
  EXPECT_EQ(engine.counts()[0].undoable, 1U);
}

TEST(FaultEngine, TcpSegmentSelectorAndTcpFix) {
  FaultEngine engine = engine_of("drop segment 2 try 1..2 from a\ncorrupt payload fix tcp seq +0");
  const auto first = tcp(true, 1000, 100);
  const FaultOutcome& out = engine.arrived(first, 1, 0);
  ASSERT_EQ(out.leaving.size(), 1U);
  const Bytes segment = out.leaving[0].bytes.subspan(34);
  EXPECT_EQ(segment[20], 0x5b);
  std::uint32_t pseudo = 6 + 120;
  for (std::size_t i = 26; i < 34; i += 2)
    pseudo += static_cast<std::uint32_t>(load_be<2>(out.leaving[0].bytes.data() + i));
  EXPECT_EQ(internet_checksum(segment, pseudo), 0);
  EXPECT_EQ(engine.arrived(tcp(true, 1100, 100), 2, 0).leaving.size(), 0U);
  EXPECT_EQ(engine.arrived(tcp(true, 1200, 100), 2, 0).leaving.size(), 1U);
  EXPECT_EQ(engine.arrived(tcp(true, 1100, 100), 3, 0).leaving.size(), 0U);
  EXPECT_EQ(engine.arrived(tcp(true, 1100, 100), 4, 0).leaving.size(), 1U);
}

TEST(FaultEngine, AddressAndFilterSelectors) {
  FaultEngine engine = engine_of(
      "drop from 10.0.0.3\ndrop where bth.opcode == \"RC SEND Only\" and bth.psn == 7\n"
      "truncate 60 to 52:54:00:00:00:03");
  EXPECT_EQ(engine.arrived(answer(1), 1, 1).leaving.size(), 0U);
  EXPECT_EQ(engine.arrived(request(7), 1, 0).leaving.size(), 0U);
  const auto cut = request(8);
  const FaultOutcome& out = engine.arrived(cut, 1, 0);
  ASSERT_EQ(out.leaving.size(), 1U);
  EXPECT_EQ(out.leaving[0].bytes.size(), 60U);
}

// Several rules for one frame, applied in order.
TEST(FaultEngine, EffectsOfRulesAccumulate) {
  FaultEngine engine = engine_of(
      "corrupt byte 0 mask 0x10\ncorrupt byte 0 mask 0x20\ntruncate 20\n"
      "corrupt byte 20\nduplicate 2\ndelay 1us\ndelay 2us");
  const std::vector<std::uint8_t> frame(60, 0);
  const FaultOutcome& out = engine.arrived(frame, 1, 0);
  ASSERT_EQ(out.leaving.size(), 3U);
  EXPECT_EQ(out.leaving[2].bytes.size(), 20U);
  EXPECT_EQ(out.leaving[2].bytes[0], 0x30);
  EXPECT_EQ(out.leaving[2].time, 3001);
  EXPECT_THAT(out.faults, HasSubstr("not corrupted: the frame has 20 bytes by rule 4"));
}

TEST(FaultEngine, RandomSelectionDependsOnSeed) {
  const auto dropped = [](std::uint64_t seed) {
    FaultEngine engine = engine_of("drop probability 0.1", {.seed = seed});
    std::set<std::uint32_t> gone;
    for (std::uint32_t i = 0; i < 10'000; ++i)
      if (engine.arrived(request(i), i, 0).leaving.empty()) gone.insert(i);
    return gone;
  };
  const auto once = dropped(1);
  EXPECT_EQ(once, dropped(1));
  EXPECT_NE(once, dropped(2));
  EXPECT_GT(once.size(), 850U);
  EXPECT_LT(once.size(), 1150U);
  EXPECT_EQ(engine_of("seed 9\ndrop", {.seed = 3}).seed(), 9U);
}

// Each frame is sent as often as the rules specify, and not before its arrival. finish() releases all held frames.
TEST(FaultEngine, FramesAreSentExactlyAsOftenAsSpecified) {
  FaultEngine engine = engine_of(
      "hold 3 probability 30%\ndelay 2us probability 0.2\nduplicate 2 probability 0.2\n"
      "drop probability 0.1\nseed 4");
  std::size_t left = 0;
  std::int64_t now = 0;
  const auto leave = [&](const FaultOutcome& out) {
    for (const FaultedFrame& f : out.leaving) {
      EXPECT_GE(f.time, now);
      ++left;
    }
  };
  constexpr std::uint32_t count = 20'000;
  for (std::uint32_t i = 0; i < count; ++i) leave(engine.arrived(request(i), now += 100, i % 2));
  leave(engine.finish(now));
  // Dropped frames are not duplicated.
  std::set<std::uint64_t> dropped, duplicated;
  std::size_t entries = 0;
  for (const FaultLogEntry& e : engine.log()) {
    if (e.rule == 3) dropped.insert(e.frame);
    if (e.rule == 2) duplicated.insert(e.frame);
    ++entries;
  }
  ASSERT_EQ(engine.log_forgotten(), 0U) << entries;
  std::size_t copies = 0;
  for (const std::uint64_t frame : duplicated) copies += dropped.contains(frame) ? 0 : 2;
  EXPECT_EQ(left, count - dropped.size() + copies);
}

TEST(FaultEngine, FieldIsCorruptedByName) {
  FaultEngine engine = engine_of(
      "corrupt bth.psn nth 1\ncorrupt bth.dest_qp set 0x77 fix icrc nth 2\n"
      "corrupt infiniband.bth.p_key mask 0x8000 nth 3\ncorrupt aeth.msn nth 1\n"
      "corrupt ip.dst random bits 32 nth 4");
  const auto corrupted = [&](std::uint32_t psn) {
    const auto frame = request(psn);
    const FaultOutcome& out = engine.arrived(frame, 1, 0);
    return std::vector<std::uint8_t>(out.leaving[0].bytes.begin(), out.leaving[0].bytes.end());
  };
  const auto first = corrupted(100);
  EXPECT_EQ(psn_of(first), 101U);
  EXPECT_EQ(check_icrc(decode(first)).status, CrcCheck::Status::bad);
  EXPECT_EQ(engine.log()[0].what, "bth.psn: bits 0x1 flipped");
  EXPECT_EQ(engine.log()[1].what, "not corrupted: no aeth.msn");
  EXPECT_EQ(engine.counts()[3].undoable, 1U);
  const auto second = corrupted(101);
  EXPECT_EQ(decode(second).get<Bth>()->get<"dest_qp">(), 0x77U);
  EXPECT_EQ(check_icrc(decode(second)).status, CrcCheck::Status::good);
  EXPECT_EQ(decode(corrupted(102)).get<Bth>()->get<"pkey">(), 0x7fffU);
  EXPECT_EQ(decode(corrupted(103)).get<Ipv4>()->get<"dst">(), ~0x0a000003U) << "all 32 bits";
}

TEST(FaultEngine, InjectedCnpIsSentToSenderOfSelectedFrame) {
  FaultEngine engine = engine_of("inject cnp psn +1");
  EXPECT_EQ(engine.arrived(request(100), 1, 0).leaving.size(), 1U);
  EXPECT_EQ(engine.arrived(answer(100), 2, 1).leaving.size(), 1U);
  const auto picked = request(101);
  const FaultOutcome& out = engine.arrived(picked, 3, 0);
  ASSERT_EQ(out.leaving.size(), 2U);
  EXPECT_EQ(psn_of(out.leaving[0].bytes), 101U) << "the selected frame is unchanged";
  const HeaderStack cnp = decode(out.leaving[1].bytes);
  EXPECT_EQ(out.leaving[1].side, 1U) << "source is the other side";
  EXPECT_EQ(cnp.get<Bth>()->get<"opcode">(), 0x81U);
  EXPECT_EQ(cnp.get<Bth>()->get<"becn">(), 1U);
  EXPECT_EQ(cnp.get<Bth>()->get<"dest_qp">(), 0x12U);
  EXPECT_EQ(cnp.get<Ipv4>()->get<"src">(), 0x0a000003U);
  EXPECT_EQ(cnp.get<Ipv4>()->get<"dst">(), 0x0a000002U);
  EXPECT_EQ(cnp.get<Ethernet>()->get<"dst">(), 0x525400000002U);
  EXPECT_EQ(check_icrc(cnp).status, CrcCheck::Status::good);
  EXPECT_TRUE(cnp.findings().empty());
}

TEST(FaultEngine, NakIsInjectedOrReplacesAcknowledgement) {
  FaultEngine engine =
      engine_of("inject nak remote-access psn +1\nchange nak 1 answers psn +2\nchange rnr-nak 12 psn +2");
  (void)engine.arrived(request(100), 1, 0);
  (void)engine.arrived(answer(100), 2, 1);
  const auto picked = request(101), acknowledged = answer(102);
  const FaultOutcome& injected = engine.arrived(picked, 3, 0);
  ASSERT_EQ(injected.leaving.size(), 2U);
  const HeaderStack nak = decode(injected.leaving[1].bytes);
  EXPECT_EQ(nak.get<Bth>()->get<"opcode">(), 0x11U);
  EXPECT_EQ(nak.get<Bth>()->get<"psn">(), 101U);
  EXPECT_EQ(nak.get<Aeth>()->get<"syndrome">(), 0x62U);
  EXPECT_EQ(check_icrc(nak).status, CrcCheck::Status::good);
  (void)engine.arrived(request(102), 4, 0);
  EXPECT_EQ(engine.counts()[2].undoable, 1U) << "a request is not an acknowledgement";
  const FaultOutcome& changed = engine.arrived(acknowledged, 5, 1);
  const HeaderStack stack = decode(changed.leaving[0].bytes);
  EXPECT_EQ(stack.get<Aeth>()->get<"syndrome">(), 0x61U);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
}

TEST(FaultEngine, InjectionRequiresKnownQpOfSender) {
  FaultEngine engine = engine_of("inject cnp");
  EXPECT_EQ(engine.arrived(request(100), 1, 0).leaving.size(), 1U);
  EXPECT_EQ(engine.log()[0].what, "not injected: the QP of the sender is unknown");
}

}  // namespace
}  // namespace rdmawire::replay
