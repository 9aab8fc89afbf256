/// Tests of the iWARP monitors with constructed streams.

#include "conformance/monitors/iwarp_monitor.hpp"

#include <filesystem>
#include <functional>
#include <set>

#include "conformance/monitors/run.hpp"
#include "conformance/monitors/streamed_for_test.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

using testing::ByteVector;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Streamed;

void number(ByteVector& to, std::uint64_t value, unsigned bytes) {
  to.resize(to.size() + bytes);
  store_be(to.data() + to.size() - bytes, bytes, value);
}
/// Returns a negotiation frame. `key`: that of a request or of a reply.
ByteVector setup(std::string_view key, std::uint8_t flags, std::uint8_t revision, const ByteVector& private_data = {}) {
  ByteVector frame(key.begin(), key.end());
  frame.insert(frame.end(), {flags, revision});
  number(frame, private_data.size(), 2);
  frame.insert(frame.end(), private_data.begin(), private_data.end());
  return frame;
}
ByteVector request(std::uint8_t flags = 0x40, std::uint8_t revision = 1, const ByteVector& data = {}) {
  return setup(mpa::request_key, flags, revision, data);
}
ByteVector reply(std::uint8_t flags = 0x40, std::uint8_t revision = 1, const ByteVector& data = {}) {
  return setup(mpa::reply_key, flags, revision, data);
}
struct Control {
  bool last = true;
  std::uint8_t ddp = 0x01, rdmap = 0x40;  ///< DV 1, RV 1
};
ByteVector untagged(std::uint8_t opcode, std::uint32_t queue, std::uint32_t msn, std::uint32_t mo,
                    const ByteVector& payload = {}, Control control = {}, std::uint32_t invalidate = 0) {
  ByteVector segment{static_cast<std::uint8_t>(control.ddp | (control.last ? 0x40 : 0)),
                     static_cast<std::uint8_t>(control.rdmap | opcode)};
  for (const std::uint32_t word : {invalidate, queue, msn, mo}) number(segment, word, 4);
  segment.insert(segment.end(), payload.begin(), payload.end());
  return segment;
}
ByteVector tagged(std::uint8_t opcode, std::uint32_t stag, std::uint64_t to, const ByteVector& payload,
                  Control control = {}) {
  ByteVector segment{static_cast<std::uint8_t>(0x80 | control.ddp | (control.last ? 0x40 : 0)),
                     static_cast<std::uint8_t>(control.rdmap | opcode)};
  number(segment, stag, 4);
  number(segment, to, 8);
  segment.insert(segment.end(), payload.begin(), payload.end());
  return segment;
}
ByteVector some(std::size_t bytes, std::uint8_t value = 0x5a) { return ByteVector(bytes, value); }
ByteVector reads(std::uint32_t size, std::uint32_t sink = 7, std::uint64_t to = 0x1000) {
  ByteVector header;
  number(header, sink, 4);
  number(header, to, 8);
  number(header, size, 4);
  number(header, 9, 4);
  number(header, 0x2000, 8);
  return header;
}

/// A connection in Full Operation Phase, with CRCs. Endpoint a has sent a Send of 5 bytes, so its next MSN is 2.
struct Talk : Streamed {
  explicit Talk(const ByteVector& asks = request(), const ByteVector& answers = reply(), const Options& options = {},
                bool first = true)
      : Streamed(options) {
    const auto flag = [](const ByteVector& frame, std::uint8_t bit) { return (frame[16] & bit) != 0; };
    const bool crc = flag(asks, 0x40) || flag(answers, 0x40);
    for (int end : {0, 1}) sender[end] = MpaSender({.markers = flag(end == 0 ? answers : asks, 0x80), .crc = crc});
    a(asks);
    b(answers);
    if (first) report(Side::a, untagged(3, 0, 1, 0, some(5)));
  }
  ByteVector fpdu(Side end, const ByteVector& ulpdu) {
    ByteVector bytes;
    EXPECT_TRUE(sender[static_cast<int>(end)].send(bytes, ulpdu));
    return bytes;
  }
  std::uint64_t report(Side end, const ByteVector& ulpdu) { return sends(end, fpdu(end, ulpdu)); }
  MpaSender sender[2] = {MpaSender({}), MpaSender({})};
};

/// Segments of endpoint a after its first Send, and the resulting violations.
struct Row {
  const char* name;
  std::vector<ByteVector> segments;
  std::vector<std::string> violated;  ///< aliases
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class IwarpSegments : public ::testing::TestWithParam<Row> {};

TEST_P(IwarpSegments, CauseExpectedViolations) {
  for (const bool crc : {true, false})
    for (const bool markers : {false, true}) {
      SCOPED_TRACE(std::string(crc ? "CRCs" : "no CRCs") + (markers ? ", markers" : ""));
      const auto flags = static_cast<std::uint8_t>((crc ? 0x40 : 0) | (markers ? 0x80 : 0));
      Talk talk(request(flags), reply(flags));
      for (const ByteVector& segment : GetParam().segments) talk.report(Side::a, segment);
      std::set<std::string> aliases;
      for (const std::string& line : talk.violated()) aliases.insert(line.substr(0, 7));
      const auto& expected = GetParam().violated;
      EXPECT_EQ(aliases, std::set<std::string>(expected.begin(), expected.end()));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Iwarp, IwarpSegments,
    ::testing::Values(
        Row{"a Send with three segments",
            {untagged(3, 0, 2, 0, some(100), {.last = false}), untagged(3, 0, 2, 100, some(7), {.last = false}),
             untagged(3, 0, 2, 107, some(1)), untagged(3, 0, 3, 0, some(1))},
            {}},
        Row{"a Write within a Send",
            {untagged(3, 0, 2, 0, some(100), {.last = false}), tagged(0, 7, 99, some(4)),
             untagged(3, 0, 2, 100, some(7))},
            {}},
        Row{"consecutive Writes", {tagged(0, 7, 0, some(4)), tagged(0, 7, 4, some(4)), tagged(0, 8, 0, {})}, {}},
        Row{"reserved bits of DDP", {untagged(3, 0, 2, 0, some(4), {.ddp = 0x05})}, {"DDP-001"}},
        Row{"reserved bits of RDMAP", {untagged(3, 0, 2, 0, some(4), {.rdmap = 0x50})}, {"DDP-001"}},
        Row{"a tagged Send", {tagged(3, 7, 0, some(4))}, {"DDP-001"}},
        Row{"another DDP version", {untagged(3, 0, 2, 0, some(4), {.ddp = 0x02})}, {"DDP-005"}},
        Row{"another RDMAP version", {untagged(3, 0, 2, 0, some(4), {.rdmap = 0x80})}, {"RDM-006"}},
        Row{"a skipped MSN", {untagged(3, 0, 3, 0, some(4))}, {"DDP-009"}},
        Row{"a repeated MSN", {untagged(3, 0, 1, 0, some(4))}, {"DDP-009"}},
        Row{"a last flag too early",
            {untagged(3, 0, 2, 0, some(100)), untagged(3, 0, 2, 100, some(7)), untagged(3, 0, 3, 0, some(7))},
            {"DDP-006"}},
        Row{"no last flag",
            {untagged(3, 0, 2, 0, some(100), {.last = false}), untagged(3, 0, 3, 0, some(7))},
            {"DDP-006"}},
        Row{"another opcode inside",
            {untagged(3, 0, 2, 0, some(100), {.last = false}), untagged(5, 0, 2, 100, some(7))},
            {"DDP-006"}},
        Row{"an MO that skips",
            {untagged(3, 0, 2, 0, some(100), {.last = false}), untagged(3, 0, 2, 104, some(7))},
            {"DDP-008"}},
        Row{"an MO that starts late", {untagged(3, 0, 2, 4, some(100))}, {"DDP-008"}},
        Row{"a constant TO", {tagged(0, 7, 0, some(100), {.last = false}), tagged(0, 7, 0, some(7))}, {"DDP-007"}},
        Row{"a Write within a Write",
            {tagged(0, 7, 0, some(100), {.last = false}), tagged(0, 8, 5, some(7))},
            {"DDP-027"}},
        Row{"two empty segments", {untagged(3, 0, 2, 0, {}, {.last = false}), untagged(3, 0, 2, 0, {})}, {"DDP-011"}},
        Row{"a Send on queue 1", {untagged(3, 1, 1, 0, some(4))}, {"RDM-001"}},
        Row{"a Send with an STag", {untagged(3, 0, 2, 0, some(4), {}, 5)}, {"RDM-001"}},
        Row{"a Send with Invalidate", {untagged(4, 0, 2, 0, some(4), {}, 5)}, {}},
        Row{"a long Read Request", {untagged(1, 1, 1, 0, some(29))}, {"RDM-003"}},
        Row{"a Read Request on queue 0", {untagged(1, 0, 2, 0, reads(4))}, {"RDM-003"}},
        Row{"a Terminate with MSN 2", {untagged(7, 2, 2, 0, {0x20, 0x02, 0, 0})}, {"DDP-009", "RDM-005"}},
        Row{"a Terminate and more",
            {untagged(7, 2, 1, 0, {0x20, 0x02, 0, 0}), untagged(3, 0, 2, 0, some(4))},
            {"RDM-030"}},
        Row{"two Terminates",
            {untagged(7, 2, 1, 0, {0x20, 0x02, 0, 0}), untagged(7, 2, 2, 0, {0x20, 0x02, 0, 0})},
            {"TRM-018"}},
        Row{"reserved bits of a Terminate", {untagged(7, 2, 1, 0, {0x20, 0x02, 0, 1})}, {"TRM-001"}},
        Row{"a Terminate with swapped nibbles", {untagged(7, 2, 1, 0, {0x21, 0x06, 0, 0})}, {"TRM-001"}},
        Row{"an unknown error", {untagged(7, 2, 1, 0, {0x20, 0x0a, 0, 0})}, {"TRM-002"}},
        Row{"an MPA error with a header", {untagged(7, 2, 1, 0, {0x20, 0x02, 0x40, 0})}, {"TRM-011"}},
        Row{"a catastrophic error with a header", {untagged(7, 2, 1, 0, {0x00, 0x00, 0x80, 0, 0, 9})}, {"TRM-007"}},
        Row{"a DDP error without a header", {untagged(7, 2, 1, 0, {0x11, 0x00, 0, 0})}, {"TRM-010"}},
        Row{"a protection error without a header", {untagged(7, 2, 1, 0, {0x01, 0x00, 0, 0})}, {"TRM-008"}},
        Row{"half a header", {untagged(7, 2, 1, 0, {0x11, 0x00, 0xc0, 0, 0, 9, 0x81})}, {"TRM-003"}},
        Row{"Immediate Data", {untagged(8, 0, 2, 0, some(8))}, {}},
        Row{"Immediate Data of 7", {untagged(8, 0, 2, 0, some(7))}, {"EXT-002"}},
        Row{"Immediate Data of version 0", {untagged(8, 0, 2, 0, some(8), {.rdmap = 0})}, {"EXT-018"}},
        Row{"an atomic operation 1",
            {untagged(10, 1, 1, 0,
                      [] {
                        ByteVector o(52);
                        o[3] = 1;
                        return o;
                      }())},
            {"EXT-006"}},
        Row{"an Atomic Response on queue 1", {untagged(11, 1, 1, 0, some(12))}, {"EXT-007", "EXT-008"}},
        Row{"too long for the EMSS", {tagged(0, 7, 0, some(1441))}, {"DDP-010", "FPD-011"}},
        Row{"two in one",
            {[] {
               ByteVector both = untagged(3, 0, 2, 0, some(300), {.last = false});
               const ByteVector second = untagged(3, 0, 2, 300, some(20), {.last = false});
               both.insert(both.end(), second.begin(), second.end());
               return both;
             }(),
             untagged(3, 0, 2, 320, some(4))},
            {"FPD-013"}}));

TEST(IwarpMonitor, ReadResponsesAreComparedWithRequests) {
  const auto answers = [](const std::vector<ByteVector>& segments) {
    Talk talk;
    talk.report(Side::a, untagged(1, 1, 1, 0, reads(8, 7, 0x1000)));
    talk.report(Side::a, untagged(1, 1, 2, 0, reads(4, 8, 0x3000)));
    for (const ByteVector& segment : segments) talk.report(Side::b, segment);
    talk.fin(Side::b);
    return talk.violated();
  };
  const ByteVector first = tagged(2, 7, 0x1000, some(8)), second = tagged(2, 8, 0x3000, some(4));
  EXPECT_THAT(answers({first, second}), IsEmpty());
  EXPECT_THAT(answers({tagged(2, 7, 0x1000, some(5), {.last = false}), tagged(2, 7, 0x1005, some(3)), second}),
              IsEmpty());
  EXPECT_THAT(answers({second, first}), ElementsAre("RDM-016 b 9"));
  EXPECT_THAT(answers({tagged(2, 9, 0x1000, some(8)), second}), ElementsAre("RDM-004 b 9"));
  EXPECT_THAT(answers({tagged(2, 7, 0x1000, some(12)), second}), ElementsAre("RDM-004 b 9"));
  EXPECT_THAT(answers({tagged(2, 7, 0x1000, some(6)), second}), ElementsAre("RDM-004 b 10"))
      << "reported when the next response starts";
  EXPECT_THAT(answers({tagged(2, 7, 0x1000, some(6))}), ElementsAre("RDM-004 b 10")) << "reported at the end";
  EXPECT_THAT(answers({tagged(2, 7, 0x1000, some(6)), tagged(2, 7, 0x1006, some(2)), second}),
              ElementsAre("DDP-006 b 10"));
  EXPECT_THAT(answers({first, second, second}), ElementsAre("RDM-004 b 11")) << "unsolicited";
}

TEST(IwarpMonitor, AtomicResponsesAreComparedWithRequests) {
  const auto atomic = [](std::uint32_t id) {
    ByteVector header(52);
    header[7] = static_cast<std::uint8_t>(id);
    return header;
  };
  const auto response = [](std::uint32_t msn, std::uint32_t id) {
    ByteVector header(12);
    header[3] = static_cast<std::uint8_t>(id);
    return untagged(11, 3, msn, 0, header);
  };
  const auto answers = [&](const std::vector<ByteVector>& segments) {
    Talk talk;
    talk.report(Side::a, untagged(10, 1, 1, 0, atomic(5)));
    talk.report(Side::a, untagged(10, 1, 2, 0, atomic(6)));
    for (const ByteVector& segment : segments) talk.report(Side::b, segment);
    return talk.violated();
  };
  EXPECT_THAT(answers({response(1, 5), response(2, 6)}), IsEmpty());
  EXPECT_THAT(answers({response(1, 9), response(2, 6)}), ElementsAre("EXT-008 b 9"));
  EXPECT_THAT(answers({response(1, 6), response(2, 5)}), ElementsAre("EXT-015 b 9"));
}

TEST(IwarpMonitor, ReadsBeyondDepthAreViolations) {
  // The reply's IRD is 2, so a third outstanding Read is a violation.
  const ByteVector asks = request(0x50, 2, {0, 2, 0, 4}), gives = reply(0x50, 2, {0, 2, 0, 2});
  Talk talk(asks, gives);
  for (std::uint32_t msn = 1; msn <= 2; ++msn) talk.report(Side::a, untagged(1, 1, msn, 0, reads(4)));
  talk.report(Side::b, tagged(2, 7, 0x1000, some(4)));
  talk.report(Side::a, untagged(1, 1, 3, 0, reads(4)));
  EXPECT_THAT(talk.violated(), IsEmpty());
  EXPECT_EQ(talk.counts("RDM-018").passed, 3U);
  Talk more(asks, gives);
  for (std::uint32_t msn = 1; msn <= 3; ++msn) more.report(Side::a, untagged(1, 1, msn, 0, reads(4)));
  EXPECT_THAT(more.violated(), ElementsAre("RDM-018 a 9"));
  // The capture lacks the first response. The acknowledgement of the next packet shows that it was received.
  Talk lossy(asks, gives);
  for (std::uint32_t msn = 1; msn <= 2; ++msn) lossy.report(Side::a, untagged(1, 1, msn, 0, reads(4)));
  lossy.lost(Side::b, 24);
  lossy.report(Side::a, untagged(1, 1, 3, 0, reads(4)));
  EXPECT_THAT(lossy.violated(), IsEmpty());
  EXPECT_EQ(lossy.counts("RDM-018").inconclusive_by_reason[static_cast<std::size_t>(Reason::capture_lost)], 1U);
  // Without negotiated depths.
  Talk plain;
  for (std::uint32_t msn = 1; msn <= 9; ++msn) plain.report(Side::a, untagged(1, 1, msn, 0, reads(4)));
  EXPECT_THAT(plain.violated(), IsEmpty());
  EXPECT_EQ(plain.counts("RDM-018").inconclusive_by_reason[static_cast<std::size_t>(Reason::negotiation_not_seen)], 9U);
}

TEST(IwarpMonitor, InvalidNegotiationFramesAreViolations) {
  EXPECT_THAT(Talk(request(0x41)).violated(), ElementsAre("MPA-001 a 4")) << "a reserved bit";
  EXPECT_THAT(Talk(request(0x60)).violated(), ElementsAre("MPA-001 a 4")) << "R";
  EXPECT_THAT(Talk(request(), request()).violated(), ElementsAre("MPA-002 b 5"));
  const ByteVector asks = request(0x50, 2, {0x80, 4, 0x40, 4});
  EXPECT_THAT(Talk(asks, reply(0x40, 1), {}, false).violated(), ElementsAre("MPA-024 b 5"));
  EXPECT_THAT(Talk(asks, reply(0x60, 1), {}, false).violated(), IsEmpty()) << "a rejection need not be enhanced";
  EXPECT_THAT(Talk(asks, reply(0x50, 2, {0x80, 4, 0x40, 5}), {}, false).violated(), ElementsAre("MPA-028 b 5"));
  // Both frames set the D bit, so the first FPDU must be a zero-length RDMA Read.
  const ByteVector gives = reply(0x50, 2, {0x80, 4, 0x40, 4});
  EXPECT_THAT(Talk(asks, gives).violated(), ElementsAre("MPA-033 a 6"));
  Talk reads_first(asks, gives, {}, false);
  reads_first.report(Side::a, untagged(1, 1, 1, 0, reads(0)));
  EXPECT_THAT(reads_first.violated(), IsEmpty());
  EXPECT_EQ(reads_first.counts("MPA-033").passed, 1U);
  Talk no_crc(request(0), reply(0));
  EXPECT_EQ(no_crc.counts("MPA-019").inconclusive(), 2U) << "an administrator may have disabled CRCs";
}

TEST(IwarpMonitor, ResponderFpduBeforeInitiatorFpduIsAViolation) {
  Talk talk(request(), reply(), {}, false);
  talk.report(Side::b, untagged(3, 0, 1, 0, some(4)));
  EXPECT_THAT(talk.violated(), ElementsAre("MPA-022 b 6"));
  Talk lossy(request(), reply(), {}, false);
  lossy.lost(Side::a, lossy.fpdu(Side::a, untagged(3, 0, 1, 0, some(4))).size());
  lossy.report(Side::b, untagged(3, 0, 1, 0, some(4)));
  EXPECT_THAT(lossy.violated(), IsEmpty()) << "the acknowledged bytes are missing from the capture";
  EXPECT_EQ(lossy.counts("MPA-022").inconclusive(), 1U);
}

TEST(IwarpMonitor, InvalidCrcIsAViolationIfTcpChecksumIsValid) {
  const auto with_bad_crc = [](bool checksum, int times, std::uint8_t value) {
    Talk talk;
    for (int i = 0; i < times; ++i) {
      ByteVector bytes = talk.fpdu(Side::a, untagged(3, 0, 2, 0, some(4)));
      bytes.back() ^= 0x10;
      if (value == 0) std::fill(bytes.end() - 4, bytes.end(), std::uint8_t{0});
      talk.bad_checksum = !checksum;
      talk.a(bytes);
    }
    return talk.violated();
  };
  EXPECT_THAT(with_bad_crc(true, 1, 1), ElementsAre("FPD-003 a 7"));
  EXPECT_THAT(with_bad_crc(true, 1, 0), ElementsAre("MPA-018 a 7")) << "the CRC is missing";
  EXPECT_THAT(with_bad_crc(false, 4, 1), IsEmpty()) << "an earlier CRC was valid, so this is damage";
  Talk never(request(), reply(), {}, false);
  never.bad_checksum = true;
  for (int i = 0; i < 3; ++i) {
    ByteVector bytes = never.fpdu(Side::a, untagged(3, 0, 1, 0, some(4)));
    bytes.back() ^= 0x10;
    never.a(bytes);
  }
  EXPECT_THAT(never.violated(), ElementsAre("FPD-003 a 8")) << "all CRCs are invalid";
}

TEST(IwarpMonitor, InvalidPadAndMarkersAreViolations) {
  Talk pad;
  ByteVector bytes = pad.fpdu(Side::a, untagged(3, 0, 2, 0, some(1)));
  bytes[bytes.size() - 5] = 1;
  store_be(bytes.data() + bytes.size() - 4, 4, compute_mpa_crc(Bytes(bytes).first(bytes.size() - 4)));
  pad.a(bytes);
  EXPECT_THAT(pad.violated(), ElementsAre("FPD-001 a 7"));

  const auto marked = [](const std::function<void(ByteVector&)>& change, std::size_t payload) {
    Talk talk(request(), reply(0xc0), {}, false);
    ByteVector fpdu = talk.fpdu(Side::a, untagged(3, 0, 1, 0, some(payload)));
    change(fpdu);
    store_be(fpdu.data() + fpdu.size() - 4, 4, compute_mpa_crc(Bytes(fpdu).first(fpdu.size() - 4)));
    talk.a(fpdu);
    return talk.violated();
  };
  EXPECT_THAT(marked([](ByteVector&) {}, 1200), IsEmpty());
  EXPECT_THAT(marked([](ByteVector& o) { o[515] += 4; }, 600), ElementsAre("FPD-015 a 6"));
  EXPECT_THAT(marked([](ByteVector& o) { o[512] = 1; }, 600), ElementsAre("FPD-015 a 6")) << "RESERVED";
  EXPECT_THAT(marked([](ByteVector& o) { o[515] |= 1; }, 600), ElementsAre("FPD-015 a 6")) << "the two low bits";
  EXPECT_THAT(marked([](ByteVector& o) { o[1027] += 4; }, 1200), ElementsAre("FPD-016 a 6"));
  // An FPDU that starts with a marker, which its CRC does not cover.
  Talk uncovered(request(), reply(0xc0), {}, false);
  bytes = uncovered.fpdu(Side::a, untagged(3, 0, 1, 0, some(16)));
  store_be(bytes.data() + bytes.size() - 4, 4, compute_mpa_crc(Bytes(bytes).first(bytes.size() - 4).subspan(4)));
  uncovered.a(bytes);
  EXPECT_THAT(uncovered.violated(), ElementsAre("FPD-017 a 6"));
  // The sender omits the negotiated markers.
  Talk unmarked(request(), reply(0xc0), {}, false);
  unmarked.sender[0] = MpaSender({.markers = false});
  for (std::uint32_t msn = 1; msn < 4; ++msn) unmarked.report(Side::a, untagged(3, 0, msn, 0, some(16)));
  EXPECT_THAT(unmarked.violated(), ElementsAre("FPD-014 a 6"));
  Talk unasked(request(), reply(), {}, false);
  unasked.sender[0] = MpaSender({.markers = true});
  for (std::uint32_t msn = 1; msn < 4; ++msn) unasked.report(Side::a, untagged(3, 0, msn, 0, some(900)));
  EXPECT_THAT(unasked.violated(), ElementsAre("MPA-021 a 6"));
}

TEST(IwarpMonitor, MarkersKeepDistanceAcrossSequenceNumberWrap) {
  const auto across = [](bool shifts) {
    Streamed::Options options;
    options.sequence[0] = 0xffffff00;
    Talk talk(request(), reply(0xc0), options, false);
    for (std::uint32_t msn = 1; msn < 8; ++msn) {
      ByteVector bytes = talk.fpdu(Side::a, untagged(3, 0, msn, 0, some(600)));
      if (shifts && msn > 3)
        for (std::size_t at = MarkerGrid::to_next(talk.sender[0].position() - bytes.size()); at + 4 < bytes.size();
             at += 512)
          if (bytes[at + 2] != 0 || bytes[at + 3] != 0) bytes[at + 3] ^= 8;
      store_be(bytes.data() + bytes.size() - 4, 4, compute_mpa_crc(Bytes(bytes).first(bytes.size() - 4)));
      talk.a(bytes);
    }
    return talk.violated();
  };
  EXPECT_THAT(across(false), IsEmpty());
  EXPECT_THAT(across(true).size(), 1U);
}

TEST(IwarpMonitor, TerminateQuotesReceivedHeader) {
  const auto quoting = [](const ByteVector& quoted, std::uint16_t length, ByteVector control) {
    Talk talk;
    talk.report(Side::a, tagged(0, 7, 0x1000, some(10)));
    number(control, length, 2);
    control.insert(control.end(), quoted.begin(), quoted.end());
    talk.report(Side::b, untagged(7, 2, 1, 0, control));
    return talk.violated();
  };
  const ByteVector header = tagged(0, 7, 0x1000, {});
  EXPECT_THAT(quoting(header, 24, {0x11, 0x00, 0xc0, 0}), IsEmpty());
  EXPECT_THAT(quoting(header, 10, {0x11, 0x00, 0xc0, 0}), ElementsAre("TRM-003 b 8")) << "only the payload length";
  EXPECT_THAT(quoting(tagged(0, 7, 0x1004, {}), 24, {0x11, 0x00, 0xc0, 0}), ElementsAre("TRM-005 b 8"));
  EXPECT_THAT(quoting(header, 24, {0x11, 0x00, 0xe0, 0}), ElementsAre("TRM-010 b 8")) << "R for a Write";
  // A partially answered Read.
  const auto in_part = [](std::uint32_t advanced) {
    Talk talk;
    talk.report(Side::a, untagged(1, 1, 1, 0, reads(100)));
    talk.report(Side::b, tagged(2, 7, 0x1000, some(40), {.last = false}));
    ByteVector message{0x01, 0x00, 0xe0, 0, 0, 46};
    for (const ByteVector& part : {untagged(1, 1, 1, 0), reads(100 - advanced, 7, 0x1000 + advanced)})
      message.insert(message.end(), part.begin(), part.end());
    store_be(message.data() + message.size() - 8, 8, 0x2000 + advanced);
    talk.report(Side::b, untagged(7, 2, 1, 0, message));
    return talk.violated();
  };
  EXPECT_THAT(in_part(40), IsEmpty());
  EXPECT_THAT(in_part(0), ElementsAre("TRM-006 b 9"));
}

TEST(IwarpMonitor, ResetAfterTerminateIsAViolation) {
  const ByteVector terminate = untagged(7, 2, 1, 0, {0x20, 0x02, 0, 0});
  Talk graceful;
  graceful.report(Side::b, terminate);
  graceful.fin(Side::b);
  graceful.reset(Side::b);
  EXPECT_THAT(graceful.violated(), IsEmpty());
  EXPECT_EQ(graceful.counts("TRM-016").passed, 1U);
  Talk abrupt;
  abrupt.report(Side::b, terminate);
  abrupt.reset(Side::b);
  EXPECT_THAT(abrupt.violated(), ElementsAre("TRM-016 b 8"));
  Talk unseen;
  unseen.report(Side::b, terminate);
  unseen.lost(Side::b, 1);
  unseen.reset(Side::b);
  EXPECT_THAT(unseen.violated(), IsEmpty()) << "the sequence number shows a FIN before the reset";
}

TEST(IwarpMonitor, TcpRetransmissionsAreIgnored) {
  Talk talk;
  const ByteVector bytes = talk.fpdu(Side::a, untagged(3, 0, 2, 0, some(30)));
  talk.a(bytes);
  talk.again(Side::a, bytes);
  talk.again(Side::a, bytes);
  talk.report(Side::a, untagged(3, 0, 3, 0, some(30)));
  EXPECT_THAT(talk.violated(), IsEmpty());
  EXPECT_EQ(talk.counts("DDP-009").passed, 3U);
}

TEST(IwarpMonitor, MissingBytesMakeResultsInconclusive) {
  Talk talk;
  talk.lost(Side::a, talk.fpdu(Side::a, untagged(3, 0, 2, 0, some(30))).size());
  talk.again(Side::b, {});  // acknowledges the missing bytes
  talk.report(Side::a, untagged(3, 0, 3, 0, some(30)));
  talk.report(Side::a, untagged(3, 0, 4, 0, some(30)));
  EXPECT_THAT(talk.violated(), IsEmpty());
  EXPECT_GE(talk.counts("DDP-009").inconclusive_by_reason[static_cast<std::size_t>(Reason::capture_lost)], 1U);
  EXPECT_EQ(talk.counts("DDP-009").passed, 2U) << "the first message, and a message after a captured one";
}

TEST(IwarpMonitor, StreamWithoutStartIsInconclusive) {
  Talk complete(request(), reply(), {}, false);
  ByteVector stream;
  for (std::uint32_t msn = 1; msn < 20; ++msn) {
    const ByteVector bytes = complete.fpdu(Side::a, untagged(3, 0, msn, 0, some(700)));
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  Streamed::Options options;
  options.syn = false;
  Streamed middle(options);
  for (std::size_t at = 1000; at + 1000 < stream.size(); at += 1000) middle.a(Bytes(stream).subspan(at, 1000));
  EXPECT_THAT(middle.violated(), IsEmpty());
  EXPECT_EQ(middle.counts("FPD-022").passed, 1U);
  EXPECT_GE(middle.counts("DDP-009").inconclusive_by_reason[static_cast<std::size_t>(Reason::start_not_seen)], 1U);
  EXPECT_GE(middle.counts("FPD-011").inconclusive_by_reason[static_cast<std::size_t>(Reason::negotiation_not_seen)], 1U)
      << "the EMSS";
}

TEST(IwarpMonitor, TesterIsNotChecked) {
  Streamed::Options options;
  options.checks[0] = false;
  Talk talk(request(0x41), reply(), options);
  talk.report(Side::a, untagged(3, 0, 9, 4, some(4), {.ddp = 0x05}));
  EXPECT_THAT(talk.violated(), IsEmpty());
  EXPECT_EQ(talk.counts("DDP-009").evaluated(), 0U);
  EXPECT_GT(talk.counts("MPA-002").passed, 0U);
}

// Captures of siw. Each violation was verified byte by byte.
TEST(IwarpMonitor, SiwCapturesHaveKnownViolations) {
  const std::filesystem::path samples = std::filesystem::path(RDMAWIRE_SOURCE_DIR) / "captures" / "samples";
  const auto found = [&](const char* name) {
    CheckOptions options;
    options.files = {(samples / name).string()};
    const CheckResult result = check(options);
    EXPECT_THAT(result.troubles, IsEmpty());
    std::vector<std::string> lines;
    for (const Violation& v : result.violations)
      lines.push_back(std::string(v.of().alias) + " " + std::to_string(v.place.frame) + " " + std::to_string(v.count));
    EXPECT_GT(result.counters[RuleId("ddp.data-source.control.fields").index()].passed, 20U);
    return lines;
  };
  // Frames 30 and 31 have two bytes of payload and a pad of 00 40, stale buffer content. RFC 5044, 4.1.
  EXPECT_THAT(found("siw-read.pcap.gz"), ElementsAre("FPD-001 30 1", "FPD-001 31 1"));
  EXPECT_THAT(found("siw-send.pcap.gz"), ElementsAre("FPD-001 28 1", "FPD-001 29 1"));
  EXPECT_THAT(found("siw-write.pcap.gz"), ElementsAre("FPD-001 29 1", "FPD-001 30 1"));
  EXPECT_THAT(found("siw-write-loss.pcap.gz"), ElementsAre("FPD-001 29 1", "FPD-001 30 1"));
  EXPECT_THAT(found("siw-rping.pcap"), IsEmpty());
  EXPECT_THAT(found("siw-nvme-ipv6.pcapng.zst"), IsEmpty());
}

}  // namespace
}  // namespace rdmawire::conformance
