#include "dissectors/protocol/mrc.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/registry.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using testing::from_hex;

Frame below(std::uint8_t opcode) {
  Frame frame = Value<Ethernet>() / Value<Ipv6>().set<"flow_label">(0x1234) / Value<Udp>().set<"src_port">(0xc001);
  frame /= Value<MrcBth>().set<"opcode">(opcode).set<"dest_qp">(0x11).set<"psn">(7);
  return frame;
}

Frame packet_of(const MrcOpcode& op, bool stamped) {
  Frame frame = below(op.value);
  for (std::size_t i = 0; i < op.header_count; ++i) {
    frame /= HeaderValue(*op.headers[i]);
    if (op.headers[i] == &info<Meth> && stamped) frame /= Value<Tseth>().set<"timestamp">(9);
  }
  if (op.payload) frame.payload = {1, 2, 3, 4, 5};
  return frame;
}

TEST(Mrc, EveryOpcodeEncodesAndDecodes) {
  int opcodes = 0;
  for (const MrcOpcode& op : mrc_opcodes)
    for (const bool stamped : {false, true}) {
      if (!op.known || (stamped && !op.payload)) continue;
      ++opcodes;
      const auto bytes = packet_of(op, stamped).encode();
      const HeaderStack stack = decode(bytes);
      ASSERT_TRUE(stack.findings().empty()) << op.name << ": " << to_string(stack.findings()[0]);
      ASSERT_TRUE(stack.get<MrcBth>()) << op.name;
      EXPECT_EQ(stack.layers().size(), 4U + op.header_count + stamped) << op.name;
      EXPECT_EQ(stack.get<MrcBth>()->get<"ts">(), stamped) << op.name;
      EXPECT_EQ(stack.payload.length, op.payload ? 5U : 0U) << op.name;
      EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good) << op.name;
      EXPECT_EQ(Frame::of(stack).encode(), bytes) << op.name;
    }
  EXPECT_EQ(opcodes, 18);
}

// Each value is at the byte where two independent sources place it.
TEST(Mrc, LiteralBytesOfASack) {
  auto bytes = from_hex(
      "dc 00 ffff 00 000011 30 000010"                     // BTH with RTX and TS
      "0022 fffe deadbeef 1111 2222 00 000010 0a 02 0005"  // SETH
      "8000000000000001"
      "beef 1234 95 abcdef");  // CC_STATE
  const View<MrcBth> bth(bytes.data());
  EXPECT_TRUE(bth.get<"rtx">());
  EXPECT_TRUE(bth.get<"ts">());
  const View<Seth> seth(bytes.data() + MrcBth::size);
  EXPECT_EQ(seth.get<"path_state">(), 1);
  EXPECT_TRUE(seth.get<"probe_response">());
  EXPECT_EQ(seth.get<"ack_psn_offset">(), 0xfffe);
  EXPECT_EQ(seth.get<"entropy">(), 0xdeadbeefU);
  EXPECT_EQ(seth.get<"spdcid">(), 0x1111);
  EXPECT_EQ(seth.get<"dpdcid">(), 0x2222);
  EXPECT_EQ(seth.get<"cack_psn">(), 0x10U);
  EXPECT_EQ(seth.get<"cc_type">(), 0);
  EXPECT_EQ(seth.get<"cc_flags">(), 10);
  EXPECT_EQ(seth.get<"mpr">(), 2);
  EXPECT_EQ(seth.get<"sack_offset">(), 5);
  EXPECT_EQ(seth.get<"bitmap">(), 0x8000000000000001U);
  const View<CcState> state(seth.data() + Seth::size);
  EXPECT_EQ(state.get<"timestamp">(), 0xbeef);
  EXPECT_EQ(state.get<"ooo_count">(), 0x1234);
  EXPECT_TRUE(state.get<"restore_cwnd">());
  EXPECT_EQ(state.get<"cwnd_penalty">(), 0x15);
  EXPECT_EQ(state.get<"received">(), 0xabcdefU);
}

TEST(Mrc, LiteralBytesOfOtherControlHeaders) {
  const auto nack = from_hex("0000 0b 77 cafef00d 1111 2222 00 123456 23 00 4321");
  const View<Neth> neth(nack.data());
  ASSERT_EQ(nack.size(), Neth::size);
  EXPECT_EQ(neth.get<"reason">(), nack_reason::psn_out_of_window);
  EXPECT_EQ(neth.get<"vendor_info">(), 0x77);
  EXPECT_EQ(neth.get<"entropy">(), 0xcafef00dU);
  EXPECT_EQ(neth.get<"nack_psn">(), 0x123456U);
  EXPECT_EQ(neth.get<"cc_type">(), 2);
  EXPECT_EQ(neth.get<"cc_flags">(), 3);
  EXPECT_EQ(neth.get<"timestamp">(), 0x4321);
  const auto probe = from_hex("0000 00 5a 9999 0000 1111 2222 3333 8001");
  const View<Peth> peth(probe.data());
  ASSERT_EQ(probe.size(), Peth::size);
  EXPECT_EQ(peth.get<"probe_id">(), 0x9999);
  EXPECT_EQ(peth.get<"timestamp">(), 0x3333);
  EXPECT_TRUE(peth.get<"tsr">());
  EXPECT_EQ(peth.get<"format">(), 1);
  const auto request = from_hex("0001 00 42 0000000f 00000000 2222 0001");
  const View<Erth> erth(request.data());
  ASSERT_EQ(request.size(), Erth::size);
  EXPECT_EQ(erth.get<"operation">(), 1);
  EXPECT_EQ(erth.get<"port_status">(), 0xfU);
  EXPECT_EQ(erth.get<"timestamp">(), 0x2222);
}

// Expects that a packet of another manufacturer with the same opcode decodes as a BTH with a reserved opcode.
void expect_manufacturer_opcode(const std::vector<std::uint8_t>& bytes, const char* why) {
  const HeaderStack stack = decode(bytes);
  EXPECT_FALSE(stack.get<MrcBth>()) << why;
  ASSERT_TRUE(stack.get<Bth>()) << why;
  ASSERT_FALSE(stack.findings().empty()) << why;
  EXPECT_EQ(stack.findings()[0].what, "reserved opcode") << why;
}

TEST(Mrc, PacketsWithoutTheHeadersOfMrcKeepTheBthOfIbta) {
  Frame sack = packet_of(mrc_opcode(0xdc), false);
  sack.payload = {1, 2, 3, 4};
  expect_manufacturer_opcode(sack.encode(), "control packet with payload");
  Frame small = below(0xdd);
  small.payload.assign(16, 0);
  expect_manufacturer_opcode(small.encode(), "shorter than a NETH");
  Frame type = packet_of(mrc_opcode(0xde), false);
  type.layers.back().set(*info<Peth>.find("type"), 1);
  expect_manufacturer_opcode(type.encode(), "type is not 0");
  Frame version = packet_of(mrc_opcode(0xca), false);
  version.find(info<MrcBth>)->set(*info<MrcBth>.find("tver"), 1);
  expect_manufacturer_opcode(version.encode(), "version is not 0");
  Frame length = packet_of(mrc_opcode(0xca), false);
  length.find(info<Reth>)->set(*info<Reth>.find("length"), 4);
  expect_manufacturer_opcode(length.encode(), "more payload than the RETH's length");
  Frame other = below(0xc0);
  other.payload.assign(64, 0);
  expect_manufacturer_opcode(other.encode(), "not an opcode of MRC");
}

TEST(Mrc, NativeInfiniBandIsNotMrc) {
  Frame frame = Value<Lrh>() / Value<MrcBth>().set<"opcode">(0xca);
  frame /= HeaderValue(info<Meth>);
  frame /= HeaderValue(info<Reth>);
  const HeaderStack stack = decode(frame.encode(), LinkType::infiniband);
  EXPECT_FALSE(stack.get<MrcBth>());
}

// A trimmed packet contains its headers, whose length fields are those of the whole packet.
TEST(Mrc, TrimmedPacketKeepsItsHeaders) {
  Frame frame = packet_of(mrc_opcode(0xc7), true);
  frame.payload.assign(1024, 9);
  auto bytes = frame.encode();
  const HeaderStack whole = decode(bytes);
  bytes.resize(whole.payload.offset);
  const HeaderStack stack = decode(bytes);
  ASSERT_TRUE(stack.get<MrcBth>());
  EXPECT_TRUE(stack.get<Reth>());
  EXPECT_TRUE(stack.cut);
  EXPECT_EQ(stack.payload.length, 0U);
}

TEST(Mrc, TransposedPortIsNamed) {
  Frame frame = packet_of(mrc_opcode(0xca), false);
  frame.find(info<Udp>)->set(*info<Udp>.find("dst_port"), mrc::transposed_port);
  const HeaderStack stack = decode(frame.encode());
  EXPECT_TRUE(stack.get<MrcBth>());
  ASSERT_EQ(stack.findings().size(), 1U);
  EXPECT_NE(stack.findings()[0].what.find("4971"), std::string_view::npos);
  // Other traffic to this port is not RoCEv2.
  Frame other = Value<Ethernet>() / Value<Ipv6>() / Value<Udp>().set<"dst_port">(mrc::transposed_port);
  other.payload.assign(64, 0xca);
  EXPECT_EQ(decode(other.encode()).wire, Wire::none);
}

TEST(Mrc, SourceRoutedPacketInIpv6) {
  Frame frame = Value<Ethernet>() / Value<Ipv6>() / Value<Ipv6>() / Value<Udp>();
  frame /= Value<MrcBth>().set<"opcode">(0xca);
  frame /= HeaderValue(info<Meth>);
  frame /= HeaderValue(info<Reth>);
  frame.payload = {1, 2, 3, 4};
  const HeaderStack stack = decode(frame.encode());
  ASSERT_TRUE(stack.get<MrcBth>());
  EXPECT_EQ(stack.network, 2);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
}

TEST(Mrc, EveryHeaderAndFieldHasItsCertainty) {
  const HeaderInfo* const headers[] = {&info<MrcBth>, &info<Meth>, &info<Tseth>, &info<Seth>, &info<CcState>,
                                       &info<Neth>,   &info<Peth>, &info<Erth>,  &info<Eeth>};
  for (const HeaderInfo* header : headers) {
    EXPECT_EQ(header->section, mrc::agreed) << header->name;
    for (const Field& f : header->fields)
      EXPECT_TRUE(f.section.empty() || f.section == mrc::agreed || f.section == mrc::one_source ||
                  f.section == mrc::conflicting)
          << header->name << "." << f.name;
  }
}

}  // namespace
}  // namespace rdmawire
