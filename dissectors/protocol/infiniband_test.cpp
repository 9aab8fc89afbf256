#include "dissectors/protocol/infiniband.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

TEST(Syndrome, TimersAndCreditsMatchTheSpecification) {
  // IBTA vol 1, table 45 in hundredths of a millisecond.
  const std::uint64_t timers[] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                  48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                  2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (unsigned code = 0; code < 32; ++code) EXPECT_EQ(rnr_timer_ns(code), timers[code] * 10000) << code;
  const std::uint64_t credits[] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                   48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                   2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  for (unsigned code = 0; code < 31; ++code) EXPECT_EQ(credits_of_code(code), credits[code]) << code;
}

TEST(Syndrome, ReservedBitIsIgnored) {
  for (unsigned bits = 0; bits < 128; ++bits) {
    const Syndrome plain(static_cast<std::uint8_t>(bits)), reserved(static_cast<std::uint8_t>(bits | 0x80));
    EXPECT_EQ(reserved.kind(), plain.kind()) << bits;
    EXPECT_EQ(reserved.code(), plain.code()) << bits;
    EXPECT_NE(reserved, plain);
  }
}

TEST(Syndrome, BuildsEachKind) {
  EXPECT_EQ(Syndrome::ack().bits(), 0x1f);
  EXPECT_FALSE(Syndrome::ack().has_credits());
  EXPECT_TRUE(Syndrome::ack(0).has_credits());
  EXPECT_EQ(Syndrome::rnr_nak(14).bits(), 0x2e);
  EXPECT_EQ(Syndrome::rnr_nak(14).wait_ns(), 1'280'000U);
  EXPECT_EQ(Syndrome::nak(nak_code::remote_access_error).bits(), 0x62);
  EXPECT_TRUE(Syndrome(0x60).is_nak(nak_code::psn_sequence_error));
  EXPECT_FALSE(Syndrome(0x40).is_ack() || Syndrome(0x40).is_rnr_nak() || Syndrome(0x40).is_nak());
}

TEST(OpcodeTable, LayoutsOfTheSpecification) {
  struct {
    std::uint8_t opcode;
    const char* name;
    unsigned bytes;
  } rows[] = {{0x04, "RC SEND Only", 0},
              {0x0b, "RC RDMA WRITE Only with Immediate", 20},
              {0x12, "RC ATOMIC Acknowledge", 12},
              {0x17, "RC SEND Only with Invalidate", 4},
              {0x1c, "RC FLUSH", 20},
              {0x1d, "RC ATOMIC WRITE", 16},
              {0x26, "UC RDMA WRITE First", 16},
              {0x4a, "RD RDMA WRITE Only", 28},
              {0x51, "RD Acknowledge", 8},
              {0x55, "RD RESYNC", 12},
              {0x64, "UD SEND Only", 8},
              {0x65, "UD SEND Only with Immediate", 12},
              {0x81, "CNP", 16},
              {0xaa, "XRC RDMA WRITE Only", 20},
              {0xb1, "XRC Acknowledge", 4},
              {0xb7, "XRC SEND Only with Invalidate", 8}};
  for (const auto& row : rows) {
    EXPECT_TRUE(opcode(row.opcode).known);
    EXPECT_EQ(opcode(row.opcode).name, row.name);
    EXPECT_EQ(opcode(row.opcode).header_bytes, row.bytes) << row.name;
  }
  for (std::uint8_t reserved : {0x15, 0x18, 0x2c, 0x60, 0x80, 0x82, 0xb5, 0xff}) EXPECT_FALSE(opcode(reserved).known);
}

// For every wire format, packets of every known opcode are encoded and then decoded completely.
TEST(OpcodeTable, EveryOpcodeEncodesAndDecodes) {
  for (const Opcode& op : opcodes) {
    if (!op.known) continue;
    Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000002).set<"dst">(0x0a000003);
    frame /= Value<Udp>();
    frame /= Value<Bth>().set<"opcode">(op.value).set<"dest_qp">(0x11).set<"psn">(7);
    for (const HeaderInfo* header : op.extension_headers()) frame /= HeaderValue(*header);
    if (op.payload) frame.payload = {1, 2, 3, 4, 5};
    const auto bytes = frame.encode();
    const HeaderStack stack = decode(bytes);
    ASSERT_TRUE(stack.findings().empty()) << op.name << ": " << to_string(stack.findings()[0]);
    EXPECT_EQ(stack.layers().size(), 4U + op.header_count) << op.name;
    EXPECT_EQ(stack.payload.length, frame.payload.size()) << op.name;
    EXPECT_EQ(stack.pad.length, op.payload ? 3U : 0U) << op.name;
  }
}

// The pad count is at most the number of bytes between the last header and the ICRC. IBTA vol 1, 9.2.
TEST(Bth, PadMayFillTheSpaceBeforeTheIcrc) {
  for (std::uint8_t pad = 1; pad <= 3; ++pad)
    for (std::size_t space = 0; space <= 4; ++space) {
      std::vector<std::uint8_t> packet = testing::from_hex("04000000 00000000 00000000");
      packet[1] = static_cast<std::uint8_t>(pad << 4);
      packet.insert(packet.end(), space + 4, 0);
      const HeaderStack stack = decode_transport(packet, true);
      EXPECT_EQ(stack.findings().size(), space < pad ? 1U : 0U) << int{pad} << " of " << space;
      EXPECT_EQ(stack.pad.length, space < pad ? 0U : pad) << int{pad} << " of " << space;
      EXPECT_EQ(stack.payload.length, space < pad ? space : space - pad) << int{pad} << " of " << space;
    }
}

// The packet is too short for its AtomicETH. The bytes between the BTH and the ICRC are kept.
TEST(Frame, KeepsBytesBetweenTheLastHeaderAndTheIcrc) {
  const std::vector<std::uint8_t> packet = testing::from_hex(
      "00020000 00000000"           // LRH without a valid length
      "13000000 00000000 00000000"  // BTH, RC CmpSwap
      "010203"                      // too short for an AtomicETH
      "aabbccdd");                  // ICRC
  const HeaderStack stack = decode(packet, LinkType::infiniband);
  ASSERT_FALSE(stack.findings().empty());
  EXPECT_EQ(stack.icrc.length, 4U);
  EXPECT_EQ(Frame::of(stack).encode(), packet);
}

}  // namespace
}  // namespace rdmawire
