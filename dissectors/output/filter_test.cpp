#include "dissectors/output/filter.hpp"

#include <gtest/gtest.h>

#include "dissectors/output/filter_literal.hpp"
#include "dissectors/output/filter_source.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::output {
namespace {

using tracking::Packet;

/// A dissected packet that owns its bytes.
struct Dissected {
  std::vector<std::uint8_t> bytes;
  Packet packet;

  explicit Dissected(const Frame& frame, std::uint64_t number = 7) : bytes(frame.encode()) {
    packet.number = number;
    packet.time_ns = 1'732'163'000'123'456'789;
    tracking::Dissector().dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
  }
};

Value<Ipv4> ip(std::uint32_t src, std::uint32_t dst) { return Value<Ipv4>().set<"src">(src).set<"dst">(dst); }
Frame roce() {
  return Value<Ethernet>().set<"dst">(0x525400000002).set<"src">(0x525400000003) / ip(0x0a000003, 0x0a000002) /
         Value<Udp>().set<"src_port">(49152);
}
/// Returns an RC SEND Only with PSN 100 and five bytes of payload.
Frame send_only() {
  Frame frame = roce() / Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(0x11).set<"psn">(100).set<"ack_request">(1);
  frame.payload = {'h', 'e', 'l', 'l', 'o'};
  return frame;
}
/// Returns an acknowledgement with that syndrome.
Frame acknowledge(std::uint8_t syndrome) {
  return roce() / Value<Bth>().set<"opcode">(0x11).set<"psn">(100) /
         Value<Aeth>().set<"syndrome">(syndrome).set<"msn">(3);
}
/// Returns a mirrored acknowledgement whose outer addresses differ from the inner ones.
Frame mirrored() {
  Frame frame = Value<Ethernet>() / ip(0xc0a80001, 0xc0a80002) / Value<Udp>().set<"dst_port">(4789) / Value<Vxlan>();
  for (const HeaderValue& layer : acknowledge(0x60).layers) frame /= layer;
  return frame;
}

bool matches(const Frame& frame, std::string_view expression) {
  const auto filter = Filter::compile(expression);
  if (!filter) {
    ADD_FAILURE() << to_string(filter.error(), expression);
    return false;
  }
  return filter->matches(Dissected(frame).packet);
}
std::string error_of(std::string_view expression) {
  const auto filter = Filter::compile(expression);
  return filter ? "compiled" : to_string(filter.error(), expression);
}

TEST(Filter, ComparesNumbers) {
  for (const char* holds : {"bth.psn == 100", "bth.psn == 0x64", "bth.psn != 99", "bth.psn < 101", "bth.psn <= 100",
                            "bth.psn > 99", "bth.psn >= 100", "bth.psn in {1, 100}", "bth.psn in {99..101}",
                            "bth.psn eq 100", "bth.psn ge 100", "bth.psn in { 5..9, 100 }"})
    EXPECT_TRUE(matches(send_only(), holds)) << holds;
  for (const char* fails : {"bth.psn == 101", "bth.psn != 100", "bth.psn < 100", "bth.psn < 0", "bth.psn <= 99",
                            "bth.psn > 100", "bth.psn > 0xffffff", "bth.psn in {1, 101}", "bth.psn in {101..200}"})
    EXPECT_FALSE(matches(send_only(), fails)) << fails;
}

TEST(Filter, AbsentFieldsCompareFalse) {
  for (const char* fails : {"aeth.msn == 0", "aeth.msn != 0", "aeth.msn >= 0", "aeth.msn in {0..0xffffff}", "aeth",
                            "aeth.msn", "vcrc.status == good", "vcrc.status != good", "upper != nvme"})
    EXPECT_FALSE(matches(send_only(), fails)) << fails;
  EXPECT_TRUE(matches(send_only(), "not aeth.msn == 0"));
  // Only an RNR NAK has a timer.
  EXPECT_TRUE(matches(acknowledge(0x21), "aeth.syndrome.timer"));
  EXPECT_FALSE(matches(acknowledge(0x60), "aeth.syndrome.timer"));
}

TEST(Filter, OperatorsHaveTheUsualPrecedence) {
  EXPECT_TRUE(matches(send_only(), "bth.psn == 100 or bth.psn == 1 and bth.psn == 2"));
  EXPECT_FALSE(matches(send_only(), "(bth.psn == 100 or bth.psn == 1) and bth.psn == 2"));
  EXPECT_TRUE(matches(send_only(), "not bth.psn == 1 && bth"));
  EXPECT_FALSE(matches(send_only(), "not (bth.psn == 1 || bth)"));
  EXPECT_TRUE(matches(send_only(), "!!bth"));
}

TEST(Filter, NamesOfEnumerationsIgnoreCaseAndSeparators) {
  for (const char* holds :
       {"bth.opcode == \"RC SEND Only\"", "bth.opcode == rc_send_only", "bth.opcode == 'rc-send only'",
        "bth.opcode == RCSendOnly", "bth.opcode in {\"RC SEND First\", rc_send_only}", "wire == roce_v2",
        "wire == \"RoCE v2\"", "opcode.operation == send", "opcode.transport == rc", "opcode.position == only",
        "opcode.direction == request", "icrc.status == good"})
    EXPECT_TRUE(matches(send_only(), holds)) << holds;
  EXPECT_TRUE(
      matches(acknowledge(0x60), "aeth.syndrome.kind == nak and aeth.syndrome.nak_code == \"PSN sequence error\""));
  EXPECT_TRUE(matches(acknowledge(0x60), "opcode.operation == acknowledge and opcode.direction == response"));
}

TEST(Filter, AddressesAndPrefixes) {
  for (const char* holds :
       {"ip.src == 10.0.0.3", "ip.src == 10.0.0.0/24", "ip.src == 10.0.0.3/32", "ip.src == 0.0.0.0/0",
        "ip.src in {10.0.1.0/24, 10.0.0.1..10.0.0.9}", "ip.src != 10.0.1.0/24", "ip.src < 10.0.0.4",
        "eth.src == 52:54:00:00:00:03", "eth.src == 52-54-00-00-00-03", "eth.dst == 52:54:00:00:00:00/24"})
    EXPECT_TRUE(matches(send_only(), holds)) << holds;
  EXPECT_FALSE(matches(send_only(), "ip.src == 10.0.0.0/31"));
  EXPECT_FALSE(matches(send_only(), "ip.src != 10.0.0.0/8"));

  Value<Grh> grh;
  std::uint8_t gid[16] = {0xfe, 0x80};
  gid[15] = 2;
  grh.set<"sgid">(Bytes(gid));
  std::uint8_t mapped[16] = {};
  mapped[10] = mapped[11] = 0xff;
  mapped[12] = 10, mapped[15] = 3;
  grh.set<"dgid">(Bytes(mapped));
  const Frame v1 = Value<Ethernet>() / grh / Value<Bth>().set<"opcode">(0x04);
  for (const char* holds : {"grh.sgid == fe80::2", "grh.sgid == fe80::/64", "grh.sgid > fe80::1", "grh.sgid != fe80::3",
                            "grh.sgid in {fe80::1..fe80::3}", "grh.dgid == 10.0.0.3", "grh.dgid == 10.0.0.0/24",
                            "grh.dgid == ::ffff:10.0.0.3", "wire == roce_v1"})
    EXPECT_TRUE(matches(v1, holds)) << holds;
  EXPECT_FALSE(matches(v1, "grh.dgid == 10.0.1.0/24"));
  EXPECT_FALSE(matches(v1, "grh.sgid == 10.0.0.0/0"));
}

TEST(Filter, TimesAndFlags) {
  // Timer code 14 (0x0e) is 1.28 ms in the table of the specification.
  EXPECT_TRUE(matches(acknowledge(0x2e), "aeth.syndrome.wait == 1.28ms"));
  EXPECT_TRUE(matches(acknowledge(0x2e), "aeth.syndrome.wait == 1280us and aeth.syndrome.wait == \"1.28 ms\""));
  EXPECT_TRUE(matches(acknowledge(0x2e), "aeth.syndrome.wait > 1\u00b5s and aeth.syndrome.wait < 1s"));
  EXPECT_TRUE(matches(send_only(), "bth.ack_request"));
  EXPECT_TRUE(matches(send_only(), "bth.ack_request == true and bth.se == 0 and not bth.se"));
  EXPECT_FALSE(matches(send_only(), "bth.se"));
  EXPECT_TRUE(matches(send_only(), "frame.time == 1732163000.123456789"));
  EXPECT_TRUE(matches(send_only(), "frame.time >= \"2024-11-21 04:23:20\" and frame.time < 2024-11-21T04:24"));
}

TEST(Filter, DerivedFields) {
  for (const char* holds :
       {"frame.number == 7", "frame.len == 66", "frame.cap_len == 66", "payload.length == 5", "payload == \"hello\"",
        "payload contains \"ell\"", "payload contains 65:6c", "frame contains \"hello\"", "icrc", "not vcrc",
        "not finding", "not fpdu.crc", "icrc.status != bad"}) {
    EXPECT_TRUE(matches(send_only(), holds)) << holds;
  }
  Frame wrong = send_only();
  wrong.icrc = 1;
  EXPECT_TRUE(matches(wrong, "icrc.status == bad and icrc.value == 1 and icrc.computed != 1"));
  EXPECT_FALSE(matches(acknowledge(0x60), "payload"));
  EXPECT_TRUE(matches(acknowledge(0x60), "payload.length == 0"));
  Dissected snapped(send_only());
  tracking::Dissector().dissect(snapped.packet, Bytes(snapped.bytes).first(60), 66);
  for (const char* holds : {"finding", "frame.truncated", "icrc.status == unverifiable", "frame.len > 60"})
    EXPECT_EQ(Filter::compile(holds)->matches(snapped.packet), std::string_view(holds) != "finding") << holds;
  Frame lying = send_only();
  lying.layers[1].set(*info<Ipv4>.find("total_length"), 2000);
  EXPECT_TRUE(matches(lying, "finding and finding.kind == truncated and frame.truncated"));
}

TEST(Filter, WireOfTcpSegmentWithPdusIsIwarp) {
  Dissected segment(Frame(Value<Ethernet>() / ip(1, 2)) / Value<Tcp>().set<"data_offset">(5));
  EXPECT_FALSE(Filter::compile("wire")->matches(segment.packet));
  segment.packet.pdus.emplace_back();
  EXPECT_TRUE(Filter::compile("wire == iwarp")->matches(segment.packet));
}

TEST(Filter, AnyOccurrenceMatches) {
  // == is true if any occurrence is equal. != is true if no occurrence is equal.
  EXPECT_TRUE(matches(mirrored(), "ip.src == 10.0.0.3 and ip.src == 192.168.0.1"));
  EXPECT_FALSE(matches(mirrored(), "ip.src != 10.0.0.3"));
  EXPECT_FALSE(matches(mirrored(), "ip.src != 192.168.0.1"));
  EXPECT_TRUE(matches(mirrored(), "ip.src != 10.0.0.4"));
  EXPECT_TRUE(matches(mirrored(), "udp.dst_port == 4789 and udp.dst_port == 4791"));
}

TEST(Filter, VariablePartsAreSearched) {
  HeaderValue tcp = Value<Tcp>().set<"data_offset">(8);
  const std::uint8_t options[] = {2, 4, 0x05, 0xb4, 1, 3, 3, 7, 1, 1, 1, 0};
  tcp.set_tail(options);
  const Frame frame = Frame(Value<Ethernet>() / ip(1, 2)) / tcp;
  EXPECT_TRUE(matches(frame, "tcp_wscale.shift == 7 and tcp_mss"));
  EXPECT_TRUE(matches(frame, "tcp.options.wscale.shift == 7"));
  EXPECT_FALSE(matches(frame, "tcp_timestamps"));
}

TEST(Filter, WiresharkNamesAreAliases) {
  EXPECT_TRUE(matches(send_only(), "infiniband.bth.psn == 100 and infiniband.bth.opcode == 4 and infiniband"));
  EXPECT_TRUE(matches(acknowledge(0x60), "infiniband.aeth and infiniband.aeth.syndrome.opcode == 3"));
  EXPECT_FALSE(matches(send_only(), "infiniband.aeth"));
  // A Wireshark name matches the fields of several headers, even if it is also the name of one field.
  EXPECT_TRUE(matches(send_only(), "ip.addr == 10.0.0.2 and ip.addr == 10.0.0.3 and udp.port == 4791"));
  EXPECT_TRUE(matches(Value<Ethernet>() / Value<Ipv6>() / Value<Udp>(), "ip.version == 6 and ipv6.version == 6"));
  EXPECT_TRUE(matches(send_only(), "infiniband.bth.se and not bth.se")) << "present, but not set";
  EXPECT_TRUE(matches(send_only(), "frame.time_epoch > 1732163000"));
}

TEST(Filter, ErrorsHavePositionAndMessage) {
  EXPECT_EQ(error_of("bth.opcod == 4"), "bth.opcod == 4\n^^^^^^^^^\nunknown field bth.opcod; did you mean bth.opcode?");
  EXPECT_EQ(error_of("bth and ip.src == 5"),
            "bth and ip.src == 5\n                  ^\n"
            "ip.src is compared with an IPv4 address or prefix, not with 5");
  EXPECT_EQ(error_of("aeth.syndrome.kind == nack"),
            "aeth.syndrome.kind == nack\n                      ^^^^\n"
            "aeth.syndrome.kind has no value nack; did you mean \"ACK\" or \"NAK\"?");
  EXPECT_EQ(error_of("bth.psn == 0x1000000"),
            "bth.psn == 0x1000000\n           ^^^^^^^^^\n0x1000000 does not fit in the 24 bits of bth.psn");
  EXPECT_EQ(error_of("(bth.psn == 1"), "(bth.psn == 1\n^\nthe bracket is not closed");
  EXPECT_EQ(error_of("bth.psn = 1"), "bth.psn = 1\n        ^\nthe operator = is not supported; did you mean ==?");
  EXPECT_EQ(error_of("bth.psn =="), "bth.psn ==\n          ^\nthe expression ends; expected a value");
  EXPECT_EQ(error_of(""), "\n^\nthe expression ends; expected a field's or header's name, not, or (");
  EXPECT_EQ(error_of("aeth == 4"),
            "aeth == 4\n^^^^\naeth is a header and has no value; compare one of its fields, such as aeth.syndrome, "
            "aeth.syndrome.kind or aeth.syndrome.credit_count");
  EXPECT_EQ(error_of("bth.opcode == RC SEND Only"),
            "bth.opcode == RC SEND Only\n              ^^^^^^^^^^^^\n"
            "a value of several words needs quotes: \"RC SEND Only\"");
}

TEST(Filter, InputSizeIsLimited) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += '(';
  EXPECT_NE(error_of(deep).find("more than 64 nested brackets"), std::string::npos);
  EXPECT_NE(error_of(std::string(10000, ' ')).find("the maximum is 8192"), std::string::npos);
  std::string many = "infiniband";
  while (many.size() + 20 < Filter::max_length) many += " or infiniband";
  EXPECT_TRUE(Filter::compile(many));
}

TEST(Filter, CanonicalForm) {
  const auto filter = Filter::compile("!(bth.psn==1||bth.psn in{2,3..5})&&(aeth or (bth and not bth.se)) ");
  ASSERT_TRUE(filter);
  EXPECT_EQ(filter->text(), "not (bth.psn == 1 or bth.psn in {2, 3..5}) and (aeth or bth and not bth.se)");
  EXPECT_EQ(Filter::compile(filter->text())->text(), filter->text());
}

}  // namespace
}  // namespace rdmawire::output
