#include "dissectors/protocol/decode.hpp"

#include <gtest/gtest.h>

#include <random>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mac_control.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire {
namespace {

using rdmawire::testing::from_hex;

Frame roce(Frame below) {
  below /= Value<Udp>().set<"src_port">(50000);
  below /= Value<Bth>().set<"opcode">(0x0a).set<"dest_qp">(0x11).set<"psn">(7);
  below /= Value<Reth>().set<"va">(0x1000).set<"rkey">(5);
  below.payload = {1, 2, 3, 4, 5, 6, 7};
  return below;
}
HeaderValue ipv4() { return Value<Ipv4>().set<"src">(0x0a000002).set<"dst">(0x0a000003); }

void expect_whole(const HeaderStack& stack, const char* what) {
  ASSERT_TRUE(stack.findings().empty()) << what << ": " << to_string(stack.findings()[0]);
  ASSERT_TRUE(stack.get<Bth>()) << what;
  EXPECT_EQ(stack.get<Bth>()->get<"psn">(), 7U) << what;
  EXPECT_EQ(stack.payload.length, 7U) << what;
  EXPECT_EQ(stack.pad.length, 1U) << what;
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good) << what;
  EXPECT_FALSE(stack.cut) << what;
}

TEST(Decode, RoceOverEveryLinkType) {
  const HeaderValue ether = Value<Ethernet>();
  const HeaderValue outer_udp = Value<Udp>().set<"src_port">(1).set<"dst_port">(4789);
  struct Case {
    const char* name;
    Frame frame;
    LinkType link;
  };
  Frame cooked;
  cooked /= Value<LinuxSll>().set<"protocol">(ethertype::ipv4);
  cooked /= ipv4();
  Frame cooked2;
  cooked2 /= Value<LinuxSll2>().set<"protocol">(ethertype::ipv4);
  cooked2 /= ipv4();
  Frame loopback;
  loopback /= Value<NullLoopback>().set<"family">(0x02000000);
  loopback /= ipv4();
  Frame raw;
  raw /= ipv4();
  Frame raw6;
  raw6 /= Value<Ipv6>();
  HeaderValue extension = Value<Ipv6Extension>();
  extension.set_tail(std::vector<std::uint8_t>(8, 0));
  HeaderValue gre_sequence = Value<Gre>();
  gre_sequence.set_tail(std::vector<std::uint8_t>(4, 0));
  HeaderValue options = ipv4();
  options.set_tail(from_hex("0101 8304 0000 0000"));
  const Case cases[] = {
      {"Ethernet", roce(ether / ipv4()), LinkType::ethernet},
      {"802.1Q", roce(ether / Value<Vlan>().set<"id">(5) / ipv4()), LinkType::ethernet},
      {"802.1ad",
       roce(Value<Ethernet>().set<"type">(ethertype::provider_vlan) / Value<Vlan>() / Value<Vlan>() / ipv4()),
       LinkType::ethernet},
      {"IPv4 options", roce(ether / options), LinkType::ethernet},
      {"IPv6", roce(ether / Value<Ipv6>()), LinkType::ethernet},
      {"IPv6 hop-by-hop", roce(ether / Value<Ipv6>() / extension), LinkType::ethernet},
      {"VXLAN", roce(ether / ipv4() / outer_udp / Value<Vxlan>() / ether / ipv4()), LinkType::ethernet},
      {"GRE", roce(ether / ipv4() / Value<Gre>() / ipv4()), LinkType::ethernet},
      {"ERSPAN II", roce(ether / ipv4() / gre_sequence / Value<Erspan2>() / ether / ipv4()), LinkType::ethernet},
      {"ERSPAN III", roce(ether / ipv4() / Value<Gre>() / Value<Erspan3>() / ether / ipv4()), LinkType::ethernet},
      {"SLL", roce(cooked), LinkType::linux_sll},
      {"SLL2", roce(cooked2), LinkType::linux_sll2},
      {"BSD loopback", roce(loopback), LinkType::null_loopback},
      {"raw IPv4", roce(raw), LinkType::raw_ip},
      {"raw IPv6", roce(raw6), LinkType::raw_ip},
  };
  for (const Case& c : cases) {
    const auto bytes = c.frame.encode();
    expect_whole(decode(bytes, c.link), c.name);
  }
}

TEST(Decode, NativeInfiniBandAndRoceV1) {
  const HeaderValue bth = Value<Bth>().set<"opcode">(0x0a).set<"dest_qp">(0x11).set<"psn">(7);
  const HeaderValue reth = Value<Reth>();
  for (const bool with_grh : {false, true}) {
    Frame frame;
    frame /= Value<Lrh>().set<"slid">(1).set<"dlid">(2).set<"vl">(3);
    if (with_grh) frame /= Value<Grh>();
    frame /= bth;
    frame /= reth;
    frame.payload = {1, 2, 3, 4, 5, 6, 7};
    auto bytes = frame.encode();
    const HeaderStack stack = decode(bytes, LinkType::infiniband);
    expect_whole(stack, with_grh ? "global" : "local");
    EXPECT_EQ(check_vcrc(stack).status, CrcCheck::Status::good);
    // A switch changes the virtual lane, and a router changes the whole LRH. The ICRC remains valid, and the VCRC
    // becomes invalid.
    bytes[0] ^= 0x10;
    EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
    EXPECT_EQ(check_vcrc(stack).status, CrcCheck::Status::bad);
    bytes[3] ^= 0x10;
    EXPECT_EQ(check_icrc(stack).status, with_grh ? CrcCheck::Status::good : CrcCheck::Status::bad);
  }
  Frame roce_v1 = Value<Ethernet>() / Value<Grh>() / bth / reth;
  roce_v1.payload = {1, 2, 3, 4, 5, 6, 7};
  const auto bytes = roce_v1.encode();
  EXPECT_EQ(load_be<2>(bytes.data() + 12), ethertype::roce_v1);
  expect_whole(decode(bytes), "RoCEv1");
}

TEST(Decode, RawInfiniBandPackets) {
  Frame frame;
  frame /= Value<Lrh>();
  frame /= Value<Rwh>().set<"type">(ethertype::ipv4);
  frame /= ipv4();
  frame /= Value<Udp>().set<"dst_port">(9);
  frame.payload = {1, 2, 3, 4};
  const auto bytes = frame.encode();
  const HeaderStack stack = decode(bytes, LinkType::infiniband);
  EXPECT_TRUE(stack.get<Ipv4>());
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::absent);
  EXPECT_EQ(check_vcrc(stack).status, CrcCheck::Status::good);
}

// A RoCEv2 sender may use any source port, including one registered for another protocol.
TEST(Decode, RegisteredSourcePortIsStillRoce) {
  for (const unsigned port : {53U, 69U, 4789U, 4791U}) {
    Frame frame = roce(Value<Ethernet>() / ipv4());
    frame.find(info<Udp>)->set(*info<Udp>.find("src_port"), port);
    const auto bytes = frame.encode();
    expect_whole(decode(bytes), "low source port");
  }
}

TEST(Decode, ConfiguredPortIsRoce) {
  Frame frame = roce(Value<Ethernet>() / ipv4());
  frame.find(info<Udp>)->set(*info<Udp>.find("dst_port"), 9999);
  const auto bytes = frame.encode();
  EXPECT_FALSE(decode(bytes).get<Bth>());
  expect_whole(decode(bytes, LinkType::ethernet, {.extra_roce_v2_port = 9999}), "port 9999");
}

TEST(Decode, TruncationAtEveryByteIsNotMalformed) {
  const auto bytes = roce(Value<Ethernet>() / Value<Vlan>() / Value<Ipv6>()).encode();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    HeaderStack stack;
    decode(stack, Bytes(bytes).first(n), LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
    EXPECT_TRUE(stack.cut) << n;
    for (const ParseError& finding : stack.findings()) {
      EXPECT_EQ(finding.kind, ParseError::Kind::truncated) << n << " " << to_string(finding);
      EXPECT_LE(finding.offset, n);
      EXPECT_GT(finding.needed, finding.had);
    }
    EXPECT_NE(check_icrc(stack).status, CrcCheck::Status::bad) << n;
  }
}

// Some tools write the truncated length as the wire length, which contradicts the IP length.
TEST(Decode, TruncatedPacketWithWrongWireLength) {
  const auto bytes = roce(Value<Ethernet>() / ipv4()).encode();
  const HeaderStack stack = decode(Bytes(bytes).first(bytes.size() - 6));
  EXPECT_TRUE(stack.cut);
  ASSERT_FALSE(stack.findings().empty());
  EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::truncated);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::unverifiable);
}

TEST(Decode, InvalidLengthFields) {
  struct {
    const char* name;
    const HeaderInfo& header;
    const char* field;
    std::uint64_t value;
    ParseError::Kind kind;
  } lies[] = {
      {"IPv4 header length 0", info<Ipv4>, "header_length", 0, ParseError::Kind::malformed},
      {"IPv4 header length 60", info<Ipv4>, "header_length", 15, ParseError::Kind::malformed},
      {"IPv4 version", info<Ipv4>, "version", 5, ParseError::Kind::malformed},
      {"IPv4 total length 19", info<Ipv4>, "total_length", 19, ParseError::Kind::malformed},
      {"IPv4 total length 65535", info<Ipv4>, "total_length", 65535, ParseError::Kind::truncated},
      {"IPv4 total length too short for BTH", info<Ipv4>, "total_length", 30, ParseError::Kind::malformed},
      {"UDP length 7", info<Udp>, "length", 7, ParseError::Kind::malformed},
      {"UDP length 65535", info<Udp>, "length", 65535, ParseError::Kind::malformed},
      {"UDP length too short for the ICRC", info<Udp>, "length", 22, ParseError::Kind::malformed},
      {"reserved opcode", info<Bth>, "opcode", 0x1f, ParseError::Kind::unknown},
  };
  for (const auto& lie : lies) {
    Frame frame = roce(Value<Ethernet>() / ipv4());
    frame.find(lie.header)->set(*lie.header.find(lie.field), lie.value);
    const auto bytes = frame.encode();
    const HeaderStack stack = decode(bytes);
    ASSERT_FALSE(stack.findings().empty()) << lie.name;
    EXPECT_EQ(stack.findings()[0].kind, lie.kind) << lie.name << " " << to_string(stack.findings()[0]);
    EXPECT_FALSE(decode_strict(bytes)) << lie.name;
  }
}

TEST(Decode, PadExceedsThePayload) {
  Frame frame = roce(Value<Ethernet>() / ipv4());
  frame.payload = {1};
  frame.pad.emplace();
  frame.find(info<Bth>)->set(*info<Bth>.find("pad"), 3);
  const auto bytes = frame.encode();
  const HeaderStack stack = decode(bytes);
  ASSERT_EQ(stack.findings().size(), 1U);
  EXPECT_EQ(to_string(stack.findings()[0]), "bth at offset 42: the pad count exceeds the payload");
  EXPECT_EQ(stack.payload.length, 1U);
}

TEST(Decode, EndlessNestingIsReported) {
  std::vector<std::uint8_t> vlans(12, 0);
  for (int i = 0; i < 1000; ++i) vlans.insert(vlans.end(), {0x81, 0x00, 0x00, 0x01});
  std::vector<std::uint8_t> extensions = Frame(Value<Ethernet>() / Value<Ipv6>().set<"next_header">(0)).encode();
  for (int i = 0; i < 1000; ++i) extensions.insert(extensions.end(), {0, 0, 0, 0, 0, 0, 0, 0});
  std::vector<std::uint8_t> tunnels;
  const auto one =
      Frame(Value<Ethernet>() / ipv4() / Value<Udp>().set<"dst_port">(4789).set<"length">(0) / Value<Vxlan>()).encode();
  for (int i = 0; i < 100; ++i) {
    tunnels.insert(tunnels.end(), one.begin(), one.end());
    store_be(&tunnels[tunnels.size() - one.size() + 16], 2, 0);
  }
  for (const auto& bytes : {vlans, extensions, tunnels}) {
    const HeaderStack stack = decode(bytes);
    ASSERT_FALSE(stack.findings().empty());
    EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::limit);
    EXPECT_EQ(stack.layers().size(), HeaderStack::max_layers);
  }
}

TEST(Decode, TcpOptions) {
  const auto frame = from_hex(
      "525400000002 525400000003 0800 4500003c1c4640004006b1e6 0a000003 0a000002"
      "d431 4755 00000001 00000000 a002 faf0 0000 0000 020405b4 0402 080a 0000000a 00000000 01 030307");
  const HeaderStack stack = decode(frame);
  const Layer* tcp = stack.find(info<Tcp>);
  ASSERT_TRUE(tcp);
  const Parts parts = Tcp::parts(stack.bytes_of(*tcp));
  ASSERT_EQ(parts.count, 5U);
  EXPECT_EQ(parts.layers[0].header, &info<TcpMss>);
  EXPECT_EQ(parts.layers[1].header, &info<TcpOption>);
  EXPECT_EQ(parts.layers[2].header, &info<TcpTimestamps>);
  EXPECT_EQ(parts.layers[3].header, &info<TcpOptionByte>);
  EXPECT_EQ(parts.layers[4].header, &info<TcpWindowScale>);
  EXPECT_FALSE(parts.error);

  auto endless = frame;
  endless[54 + 1] = 0;  // length 0 of the first option
  const HeaderStack damaged = decode(endless);
  const Parts stopped = Tcp::parts(damaged.bytes_of(*damaged.find(info<Tcp>)));
  EXPECT_EQ(stopped.count, 0U);
  ASSERT_TRUE(stopped.error);
}

// The ICRC and the pad are at the end of the datagram, which is not in the first fragment.
TEST(Decode, FirstFragmentHasNeitherPadNorIcrc) {
  Frame frame = roce(Value<Ethernet>() / ipv4());
  frame.find(info<Ipv4>)->set(*info<Ipv4>.find("mf"), 1);
  const auto bytes = frame.encode();
  const HeaderStack stack = decode(bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_TRUE(stack.get<Reth>());
  EXPECT_EQ(stack.pad.length, 0U);
  EXPECT_EQ(stack.icrc.length, 0U);
  EXPECT_EQ(stack.payload.end(), bytes.size());
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::unverifiable);
  EXPECT_EQ(Frame::of(stack).encode(), bytes);
}

TEST(Decode, Ipv6Fragments) {
  struct {
    std::uint16_t offset;
    bool more, fragment;
  } rows[] = {{0, false, false}, {0, true, true}, {8, false, true}, {8, true, true}};
  for (const auto& row : rows) {
    Frame frame =
        roce(Value<Ethernet>() / Value<Ipv6>() / Value<Ipv6Fragment>().set<"offset">(row.offset).set<"more">(row.more));
    const auto bytes = frame.encode();
    const HeaderStack stack = decode(bytes);
    EXPECT_TRUE(stack.findings().empty());
    EXPECT_EQ(stack.fragment, row.fragment) << row.offset << row.more;
    EXPECT_EQ(stack.find(info<Bth>) != nullptr, row.offset == 0) << row.offset << row.more;
    EXPECT_EQ(stack.icrc.length, row.fragment ? 0U : 4U) << row.offset << row.more;
  }
}

// RFC 826: ARP addresses are decoded for IPv4 over Ethernet or InfiniBand if their lengths match.
TEST(Decode, ArpAddresses) {
  struct {
    std::uint16_t hardware, protocol;
    std::uint8_t hardware_length, protocol_length;
    const HeaderInfo* addresses;
  } rows[] = {{1, 0x0800, 6, 4, &info<ArpEthernet>},
              {32, 0x0800, 20, 4, &info<ArpInfiniband>},
              {1, 0x86dd, 6, 4, nullptr},
              {1, 0x0800, 6, 16, nullptr},
              {1, 0x0800, 20, 4, nullptr},
              {6, 0x0800, 6, 4, nullptr},
              {32, 0x86dd, 20, 4, nullptr},
              {32, 0x0800, 6, 4, nullptr},
              {6, 0x0800, 20, 4, nullptr}};
  for (const auto& row : rows) {
    Frame frame = Value<Ethernet>().set<"type">(ethertype::arp) / Value<Arp>()
                                                                      .set<"hardware">(row.hardware)
                                                                      .set<"protocol">(row.protocol)
                                                                      .set<"hardware_length">(row.hardware_length)
                                                                      .set<"protocol_length">(row.protocol_length);
    frame.payload.assign(48, 0);
    const auto bytes = frame.encode();
    const HeaderStack stack = decode(bytes);
    const HeaderInfo* last = stack.layers().back().header;
    EXPECT_EQ(last, row.addresses ? row.addresses : &info<Arp>) << row.hardware << " " << int{row.hardware_length};
    EXPECT_EQ(stack.payload.end(), bytes.size());
  }
}

TEST(Decode, PauseFramesArePadded) {
  for (const bool by_priority : {false, true}) {
    Frame frame = Value<Ethernet>() / Value<MacControl>() /
                  (by_priority ? HeaderValue(Value<PriorityPause>()) : HeaderValue(Value<Pause>()));
    frame.payload.assign(by_priority ? 26 : 42, 0);
    const auto bytes = frame.encode();
    ASSERT_EQ(bytes.size(), 60U);
    const HeaderStack stack = decode(bytes);
    EXPECT_TRUE(stack.findings().empty());
    EXPECT_EQ(stack.layers().size(), 3U);
    EXPECT_EQ(stack.payload.length, by_priority ? 26U : 42U);
  }
}

// The outer packet is native InfiniBand, but `wire` is the format of the inner packet: RoCEv1.
TEST(Decode, RoceInTunnelOverInfiniBand) {
  Frame mirrored = Value<Lrh>().set<"length">(32) / Value<Ipv6>() / Value<Gre>() / Value<Ethernet>() / Value<Grh>();
  mirrored /= Value<Bth>().set<"opcode">(0x04).set<"psn">(7);
  mirrored.payload = {1, 2, 3, 4};
  const auto bytes = mirrored.encode();
  const HeaderStack stack = decode(bytes, LinkType::infiniband);
  EXPECT_EQ(stack.wire, Wire::roce_v1);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
}

// Mellanox's DC uses the opcodes of RD. The decoder recognizes DC and finds the payload, and adds no RD or management
// headers.
TEST(Decode, DynamicallyConnectedTransport) {
  const auto frame = from_hex(
      "e8ebd358a0bc00b20037c52c0800456a0058108340 00ff116cc20a1674dc0a1674dd12b712b7004400004a40ffff00807fff800440fc"
      "1100903600715001 0061e24e0000c0dc00000000 00007fb235d09a0000053829000000081e6f083b846c13c4dbfabbe5");
  const HeaderStack stack = decode(frame);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_TRUE(stack.find(info<DcEth>));
  EXPECT_FALSE(stack.find(info<Deth>));
  ASSERT_TRUE(stack.get<Reth>());
  EXPECT_EQ(stack.get<Reth>()->get<"length">(), 8U);
  EXPECT_EQ(stack.payload.length, 8U);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::bad);
  EXPECT_EQ(source_port_for_icrc(stack), 63484);
}

void expect_same(const HeaderStack& a, const HeaderStack& b) {
  ASSERT_EQ(a.layers().size(), b.layers().size());
  for (std::size_t i = 0; i < a.layers().size(); ++i) {
    EXPECT_EQ(a.layers()[i].header, b.layers()[i].header);
    EXPECT_EQ(a.layers()[i].offset, b.layers()[i].offset);
    EXPECT_EQ(a.layers()[i].length, b.layers()[i].length);
  }
  ASSERT_EQ(a.findings().size(), b.findings().size());
  auto same = [](Range x, Range y) { return x.length == y.length && (x.length == 0 || x.offset == y.offset); };
  EXPECT_TRUE(same(a.payload, b.payload));
  EXPECT_TRUE(same(a.pad, b.pad));
  EXPECT_TRUE(same(a.icrc, b.icrc));
  EXPECT_EQ(a.wire, b.wire);
  EXPECT_EQ(a.network, b.network);
  EXPECT_EQ(a.transport, b.transport);
  EXPECT_EQ(a.cut, b.cut);
  EXPECT_EQ(a.fragment, b.fragment);
}

// Compares the fast paths of decode() and of the ICRC with the reference, for randomly damaged packets of every opcode.
TEST(Decode, FastPathsMatchReference) {
  std::mt19937 random(3);
  for (int round = 0; round < 60000; ++round) {
    const auto& op = opcodes[random() % 256];
    Frame below;
    LinkType link = LinkType::ethernet;
    switch (random() % 5) {
      case 0: below = Value<Ethernet>() / Value<Ipv6>(); break;
      case 1: below = Value<Ethernet>() / Value<Grh>(); break;
      case 2:
        below /= Value<Lrh>();
        if (random() % 2) below /= Value<Grh>();
        link = LinkType::infiniband;
        break;
      default: below = Value<Ethernet>() / ipv4(); break;
    }
    const HeaderInfo& last = below.layers.back().header();
    if (&last == &info<Ipv4> || &last == &info<Ipv6>) below /= Value<Udp>().set<"src_port">(random());
    below /= Value<Bth>().set<"opcode">(op.value).set<"dest_qp">(random() % 4).set<"psn">(random());
    for (const HeaderInfo* header : op.extension_headers()) below /= HeaderValue(*header);
    if (op.payload) below.payload.resize(random() % (round % 100 == 0 ? 9000 : 40));
    for (auto& b : below.payload) b = static_cast<std::uint8_t>(random());
    auto bytes = below.encode();
    const unsigned damage = random() % 4;
    for (unsigned i = 0; i < damage; ++i)
      bytes[random() % std::min<std::size_t>(bytes.size(), 60)] ^= 1 << random() % 8;
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    if (random() % 8 == 0) bytes.resize(bytes.size() + random() % 20);
    const auto wire_length = static_cast<std::uint32_t>(bytes.size() + (random() % 4 == 0 ? random() % 50 : 0));

    HeaderStack quick, steps;
    decode(quick, bytes, link, wire_length);
    plain::decode(steps, bytes, link, wire_length);
    expect_same(quick, steps);
    ASSERT_FALSE(HasFailure()) << "round " << round << " opcode " << op.name;
    if (quick.icrc.length) {
      ASSERT_EQ(compute_icrc(quick), plain::compute_icrc(quick)) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace rdmawire
