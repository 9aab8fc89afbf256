#include "conformance/monitors/watched_for_test.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::conformance::testing {
namespace {

using Change = std::function<void(std::uint8_t*)>;

/// Offsets in the frame: IPv4 at 0, UDP at 20, BTH at 28.
constexpr std::size_t ip = 0, udp = 20, bth = 28;

struct HeaderExample {
  const char* alias;
  RdmaFrame frame;
  Change change;
};
void PrintTo(const HeaderExample& example, std::ostream* out) { *out << example.alias; }

RdmaFrame a_send() { return {.opcode = rc::send, .psn = 100, .payload = 8}; }
RdmaFrame a_datagram() { return {.opcode = ud + rc::send, .qp = 0x12, .payload = 8, .source_qp = 0x11}; }
RdmaFrame a_mad(std::uint32_t bytes) {
  return {.opcode = ud + rc::send, .qp = 1, .payload = bytes, .source_qp = 1, .qkey = 0x80010000};
}
RdmaFrame a_notification() { return {.opcode = congestion_notification, .qp = 0x12}; }

const auto examples = std::vector<HeaderExample>{
    {"HDR-005", a_send(), [](std::uint8_t* p) { p[ip + 6] = 0; }},
    {"HDR-012", a_send(), [](std::uint8_t* p) { p[udp + 5] -= 4; }},
    {"HDR-013", a_send(), [](std::uint8_t* p) { p[udp + 7] = 1; }},
    {"HDR-034", a_send(), [](std::uint8_t* p) { p[bth + 8] |= 0x01; }},
    {"bth.sender.version.zero", a_send(), [](std::uint8_t* p) { p[bth + 1] |= 1; }},
    {"bth.sender.headers.reserved-zero",
     {.opcode = rc::acknowledge, .psn = 100},
     [](std::uint8_t* p) { p[bth + 12] |= 0x80; }},
    {"HDR-035", a_send(),
     [](std::uint8_t* p) {
       p[ip + 3] += 2;
       p[udp + 5] += 2;
     }},
    {"HDR-037",
     {.opcode = rc::acknowledge, .psn = 100},
     [](std::uint8_t* p) {
       p[ip + 3] += 4;
       p[udp + 5] += 4;
     }},
    {"REQ-004", a_datagram(), [](std::uint8_t* p) { p[bth + 8] = 0x80; }},
    {"UD-013", a_datagram(), [](std::uint8_t* p) { p[bth + 8] = 0x80; }},
    {"UD-014", a_mad(256),
     [](std::uint8_t* p) {
       p[ip + 3] -= 4;
       p[udp + 5] -= 4;
     }},
    {"CNP-002", a_notification(), [](std::uint8_t* p) { p[bth + 11] = 1; }},
};

class Header : public ::testing::TestWithParam<HeaderExample> {};
TEST_P(Header, ReportsViolationUnlessPacketIsDamaged) {
  const HeaderExample& example = GetParam();
  const auto counts = [&](bool broken, CrcCheck::Status status) {
    Watched link({.paired = false});
    link.migrated = example.frame.opcode != congestion_notification;
    link.status = status;
    link.change = [&](std::uint8_t* bytes, std::size_t size) {
      if (broken) example.change(bytes);
      return std::max(size, static_cast<std::size_t>(load_be<2>(bytes + 2)));
    };
    link.a(example.frame);
    return link.counts(example.alias);
  };
  EXPECT_EQ(counts(true, CrcCheck::Status::good).violated, 1U);
  EXPECT_EQ(counts(false, CrcCheck::Status::good).passed, 1U);
  const ResultCounters damaged = counts(true, CrcCheck::Status::bad);
  EXPECT_EQ(damaged.violated, 0U) << "the damage may have changed the header";
  EXPECT_EQ(damaged.inconclusive_by_reason[static_cast<std::size_t>(Reason::damaged)], 1U);
}
INSTANTIATE_TEST_SUITE_P(Rules, Header, ::testing::ValuesIn(examples), [](const auto& parameter) {
  std::string name = parameter.param.alias;
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

/// Returns the results of a rule for one packet. `before` changes the packet before its ICRC is computed, `after`
/// changes it afterwards.
ResultCounters icrc(std::string_view rule, const Change& before, const Change& after) {
  Watched link({.paired = false});
  link.status = CrcCheck::Status::bad;  // makes the monitor compute the ICRC
  link.change = [&](std::uint8_t* bytes, std::size_t size) {
    if (before) before(bytes);
    HeaderStack stack = decode(Bytes(bytes, size), LinkType::raw_ip);
    store_be(bytes + size - 4, 4, __builtin_bswap32(compute_icrc(stack)));  // little-endian on the wire
    if (after) after(bytes);
    return size;
  };
  link.a(a_send());
  return link.counts(rule);
}

TEST(HeaderMonitor, ReservedBitsOfManufacturersAreNotChecked) {
  for (const std::uint8_t opcode : {0x18, 0xc0}) {
    Watched link({.paired = false});
    link.change = [&](std::uint8_t* bytes, std::size_t size) {
      bytes[bth] = opcode;
      bytes[bth + 8] |= 0x30;
      return size;
    };
    link.a(a_send());
    EXPECT_EQ(link.counts("HDR-034").violated, opcode < 0xc0 ? 1U : 0U) << int{opcode};
  }
}

TEST(HeaderMonitor, ValidIcrcPasses) { EXPECT_EQ(icrc("HDR-014", nullptr, nullptr).passed, 1U); }

TEST(HeaderMonitor, IcrcInWrongByteOrderIsAViolation) {
  Watched link({.paired = false});
  link.status = CrcCheck::Status::bad;
  link.change = [&](std::uint8_t* bytes, std::size_t size) {
    store_be(bytes + size - 4, 4, compute_icrc(decode(Bytes(bytes, size), LinkType::raw_ip)));
    return size;
  };
  link.a(a_send());
  EXPECT_EQ(link.counts("HDR-014").violated, 1U) << "damage in transit cannot cause this";
}

TEST(HeaderMonitor, ChangeInTransitIsInconclusive) {
  const ResultCounters counts = icrc("HDR-014", nullptr, [](std::uint8_t* bytes) { bytes[udp + 1] ^= 0x55; });
  EXPECT_EQ(counts.violated, 0U);
  EXPECT_EQ(counts.inconclusive_by_reason[static_cast<std::size_t>(Reason::modified_in_transit)], 1U);
}

TEST(HeaderMonitor, ReservedBitsOutsideTheIcrcAreInconclusive) {
  Watched link({.paired = false});
  link.change = [](std::uint8_t* bytes, std::size_t size) {
    bytes[bth + 4] = 0x02;
    return size;
  };
  link.a(a_send());
  const ResultCounters counts = link.counts("HDR-034");
  EXPECT_EQ(counts.violated, 0U);
  EXPECT_EQ(counts.inconclusive_by_reason[static_cast<std::size_t>(Reason::modified_in_transit)], 1U);
}

/// Returns the results of a rule for one packet. `right`: IPv4 and UDP checksums are valid. `set`: the UDP checksum is
/// not 0. `bench`: the capture contains packets as sent.
ResultCounters checksum(std::string_view rule, bool bench, bool right, bool set = true) {
  Watched link({.paired = false, .bench = bench});
  link.change = [&](std::uint8_t* bytes, std::size_t size) {
    store_be(bytes + ip + 10, 2, 0);
    store_be(bytes + ip + 10, 2, internet_checksum(Bytes(bytes, 20)) ^ (right ? 0U : 1U));
    std::uint32_t pseudo = 17 + static_cast<std::uint32_t>(size) - 20;
    for (std::size_t at = 12; at < 20; at += 2) pseudo += static_cast<std::uint32_t>(load_be<2>(bytes + at));
    store_be(bytes + udp + 6, 2, 0);
    if (set) store_be(bytes + udp + 6, 2, internet_checksum(Bytes(bytes + udp, size - 20), pseudo) ^ (right ? 0U : 1U));
    return size;
  };
  link.a(a_send());
  return link.counts(rule);
}

TEST(HeaderMonitor, WrongChecksumIsAViolationOnlyIfPacketIsUntouched) {
  for (const char* rule : {"roce.sender.ipv4.header-checksum", "roce.sender.udp.checksum-right-if-set"}) {
    for (const bool bench : {false, true}) EXPECT_EQ(checksum(rule, bench, true).passed, 1U) << rule;
    EXPECT_EQ(checksum(rule, true, false).violated, 1U) << rule;
    const ResultCounters captured = checksum(rule, false, false);
    EXPECT_EQ(captured.violated, 0U) << rule << ": the adapter writes checksums after the capture";
    EXPECT_EQ(captured.inconclusive_by_reason[static_cast<std::size_t>(Reason::modified_in_transit)], 1U) << rule;
  }
  EXPECT_EQ(checksum("roce.sender.udp.checksum-right-if-set", true, true, false).passed, 1U) << "0 means no checksum";
}

TEST(HeaderMonitor, TruncatedIcrcIsInconclusive) {
  Watched link({.paired = false});
  link.status = CrcCheck::Status::unverifiable;
  link.kept = 60;
  link.a({.opcode = rc::send, .psn = 100, .payload = 64});
  EXPECT_EQ(link.counts("HDR-014").inconclusive_by_reason[static_cast<std::size_t>(Reason::truncated)], 1U);
  EXPECT_EQ(link.counts("HDR-042").passed, 1U);
}

TEST(HeaderMonitor, FrameTruncatedInTransitIsInconclusive) {
  Watched link({.paired = false});
  link.change = [](std::uint8_t*, std::size_t size) { return size - 20; };
  link.a({.opcode = rc::send, .psn = 100, .payload = 64});
  EXPECT_EQ(link.counts("HDR-004").violated, 0U);
  EXPECT_EQ(link.counts("HDR-004").inconclusive(), 1U);
}

TEST(UnreliableMonitor, RetransmissionsAndResponsesAreViolations) {
  Watched link({.service = tracking::Service::uc});
  for (std::uint32_t i = 0; i < 4; ++i) link.a({.opcode = uc + rc::send, .psn = 100 + i, .payload = 8});
  link.a({.opcode = uc + rc::send, .psn = 101, .payload = 8});
  link.b({.opcode = rc::acknowledge, .psn = 101, .msn = 1});
  EXPECT_EQ(link.violated(), (std::vector<std::string>{"UC-012 a 6", "UC-001 b 7"}));
  EXPECT_EQ(link.counts("UC-013").passed, 4U);
}

TEST(UnreliableMonitor, GapsAndLatePacketsAreInconclusive) {
  Watched link({.service = tracking::Service::uc});
  for (const std::uint32_t psn : {100U, 101U, 103U, 102U, 104U})
    link.a({.opcode = uc + rc::send, .psn = psn, .payload = 8});
  EXPECT_THAT(link.violated(), ::testing::IsEmpty());
  Watched bench({.bench = true, .service = tracking::Service::uc});
  for (const std::uint32_t psn : {100U, 102U}) bench.a({.opcode = uc + rc::send, .psn = psn, .payload = 8});
  EXPECT_EQ(bench.violated(), std::vector<std::string>{"UC-013 a 3"});
}

TEST(CongestionMonitor, CnpFollowsEcnMark) {
  Watched link({.at = {tracking::PortAddress::of_ipv4(host_b)}});
  link.a({.opcode = rc::send, .psn = 100, .payload = 8, .traffic_class = 3});
  link.migrated = false;
  link.b({.opcode = congestion_notification});
  EXPECT_EQ(link.counts("CNP-001").passed, 1U);
  EXPECT_EQ(link.counts("CNP-004").passed, 1U);
  EXPECT_THAT(link.violated(), ::testing::IsEmpty());
}

TEST(CongestionMonitor, MoreCnpsThanMarksViolateOnlyInCompleteCapture) {
  for (const bool bench : {true, false}) {
    Watched link({.bench = bench});
    link.a({.opcode = rc::send, .psn = 100, .payload = 8, .traffic_class = 3});
    link.migrated = false;
    link.b({.opcode = congestion_notification});
    link.b({.opcode = congestion_notification});
    EXPECT_EQ(link.counts("CNP-004").violated, bench ? 1U : 0U);
  }
}

TEST(CongestionMonitor, CnpWithoutMarkIsInconclusive) {
  Watched link;
  link.sends(0);
  link.migrated = false;
  link.b({.opcode = congestion_notification});
  EXPECT_EQ(link.counts("CNP-001").inconclusive(), 1U);
}

}  // namespace
}  // namespace rdmawire::conformance::testing
