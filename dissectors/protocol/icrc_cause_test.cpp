// Tests with captured frames and injected changes. The ICRC of a faulty sender is computed here byte by byte.

#include "dissectors/protocol/icrc_cause.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using rdmawire::testing::from_hex;
using ByteVector = std::vector<std::uint8_t>;
using Kind = IcrcCause::Kind;
using Address = std::array<std::uint8_t, 16>;

// Frames of captures/samples: rping.pcap frame 18, rc-send.pcap.gz frame 31 (two pad bytes), rc-atomic.pcap frame 40,
// rc-write-ipv6.pcap frame 44. `over_grh` is a RoCEv1 acknowledgement.
const ByteVector send = from_hex(
    "52540000000252540000000308004500003ceeb34000401137f90a0000030a000002f87012b7002800000400ffff0000001180806831000055"
    "b3"
    "24a0a4700000050e00000fa0dd7d5e78");
const ByteVector padded = from_hex(
    "525400000002525400000003080045000030497b40004011dd3d0a0000030a000002e1f912b7001c00000420ffff00000011803b20ff330000"
    "00"
    "ea706642");
const ByteVector atomic = from_hex(
    "52540000000252540000000308004500004872ff40004011b3a10a0000030a000002c12112b7003400001400ffff0000001180c2283400005"
    "5aca2683080000002f000000000000000010000000000000000644c89a0");
const ByteVector over_ipv6 = from_hex(
    "52540000000352540000000286dd60000000001c1140fd000000000000000000000000000002fd000000000000000000000000000003c12112"
    "b7"
    "001c00001100ffff0000001100e382391f000001c9be4504");
const ByteVector over_grh = from_hex(
    "7cfe90753cd87cfe90753cd889156020000000141b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000021140ff"
    "ff"
    "0000010900a788c00000000525f0c038");

constexpr std::uint32_t ip = 14, udp = 34, bth = 42;  // offsets in the IPv4 frames
constexpr std::uint32_t udp6 = 54;

IcrcCause explain(const ByteVector& frame, std::span<const Address> addresses = {}) {
  const HeaderStack stack = decode(frame);
  EXPECT_TRUE(stack.findings().empty());
  return explain_icrc(stack, addresses);
}

Address ipv4(std::uint32_t address) {
  Address a{};
  a[10] = a[11] = 0xff;
  store_be(a.data() + 12, 4, address);
  return a;
}

// Reverts the reported change, and expects that the ICRC is then valid.
void expect_restored(ByteVector frame, const IcrcCause& cause) {
  for (std::size_t i = 0; i < 4 && cause.offset + i < frame.size(); ++i) frame[cause.offset + i] ^= cause.change[i];
  EXPECT_EQ(check_icrc(decode(frame)).status, CrcCheck::Status::good) << to_string(cause.kind);
}

TEST(IcrcCause, ValidIcrcHasNoCause) {
  for (const ByteVector& frame : {send, padded, atomic, over_ipv6, over_grh})
    EXPECT_EQ(explain(frame).kind, Kind::none);
}

TEST(IcrcCause, ZeroAndByteSwapped) {
  ByteVector frame = send;
  std::fill(frame.end() - 4, frame.end(), std::uint8_t{0});
  EXPECT_EQ(explain(frame).kind, Kind::zero);
  frame = send;
  std::reverse(frame.end() - 4, frame.end());
  EXPECT_EQ(explain(frame).kind, Kind::byte_order);
}

TEST(IcrcCause, EverySourcePort) {
  for (const auto& [original, at] : {std::pair{send, udp}, std::pair{over_ipv6, udp6}})
    for (std::uint32_t port = 0; port < 65536; port += 97) {
      ByteVector frame = original;
      const auto before = static_cast<std::uint32_t>(load_be(frame.data() + at, 2));
      if (port == before) continue;
      store_be(frame.data() + at, 2, port);
      const IcrcCause cause = explain(frame);
      ASSERT_EQ(cause.kind, Kind::source_port) << port;
      EXPECT_EQ(cause.original, before);
      EXPECT_EQ(cause.accidents, 15259U);
      expect_restored(frame, cause);
    }
}

// A capture of a real middlebox: dc-small.pcap of magnate3/linux-riscv-dev.
TEST(IcrcCause, CapturedOverwrittenSourcePort) {
  const ByteVector frame = from_hex(
      "e8ebd358a0bc00b20037c52c0800456a0058108340 00ff116cc20a1674dc0a1674dd12b712b7004400004a40ffff00807fff800440fc"
      "1100903600715001 0061e24e0000c0dc00000000 00007fb235d09a0000053829000000081e6f083b846c13c4dbfabbe5");
  const IcrcCause cause = explain(frame);
  EXPECT_EQ(cause.kind, Kind::source_port);
  EXPECT_EQ(cause.original, 63484U);
  EXPECT_EQ(describe(cause), "the ICRC is valid with UDP source port 63484: a device on the path modified it");
}

TEST(IcrcCause, IpIdentification) {
  for (std::uint32_t id = 1; id < 65536; id += 127) {
    ByteVector frame = send;
    store_be(frame.data() + ip + 4, 2, id);
    const IcrcCause cause = explain(frame);
    ASSERT_EQ(cause.kind, Kind::ip_identification) << id;
    EXPECT_EQ(cause.original, 0xeeb3U);
    expect_restored(frame, cause);
  }
}

TEST(IcrcCause, KnownAddresses) {
  const std::vector<Address> known{ipv4(0xc0a80001), ipv4(0x0a000003), ipv4(0x0a000002), ipv4(0xc0a80002)};
  ByteVector frame = send;
  store_be(frame.data() + ip + 12, 4, 0x64400102);
  EXPECT_EQ(explain(frame).kind, Kind::unknown) << "the original address is unknown";
  IcrcCause cause = explain(frame, known);
  ASSERT_EQ(cause.kind, Kind::address);
  EXPECT_TRUE(cause.source_changed);
  EXPECT_FALSE(cause.destination_changed);
  EXPECT_EQ(cause.source, ipv4(0x0a000003));
  expect_restored(frame, cause);
  EXPECT_EQ(describe(cause), "the ICRC is valid with source address 10.0.0.3: a device on the path modified it");

  frame = send;
  store_be(frame.data() + ip + 16, 4, 0x64400102);
  cause = explain(frame, known);
  ASSERT_EQ(cause.kind, Kind::address);
  EXPECT_TRUE(cause.destination_changed);
  EXPECT_EQ(cause.destination, ipv4(0x0a000002));
  expect_restored(frame, cause);

  store_be(frame.data() + ip + 12, 4, 0x64400103);
  cause = explain(frame, known);
  ASSERT_EQ(cause.kind, Kind::address);
  EXPECT_TRUE(cause.source_changed && cause.destination_changed);
  EXPECT_EQ(cause.source, ipv4(0x0a000003));
  EXPECT_EQ(cause.destination, ipv4(0x0a000002));

  // Here, the translator also changes the source port.
  frame = send;
  store_be(frame.data() + ip + 12, 4, 0x64400102);
  store_be(frame.data() + udp, 2, 1027);
  cause = explain(frame, known);
  ASSERT_EQ(cause.kind, Kind::address_and_port);
  EXPECT_EQ(cause.source, ipv4(0x0a000003));
  EXPECT_EQ(cause.original, 0xf870U);
}

TEST(IcrcCause, LastByteOfAnAddressIsRestoredWithoutCandidates) {
  ByteVector frame = send;
  frame[ip + 19] = 77;
  const IcrcCause cause = explain(frame);
  ASSERT_EQ(cause.kind, Kind::address);
  EXPECT_EQ(cause.destination, ipv4(0x0a000002));
  expect_restored(frame, cause);
}

TEST(IcrcCause, AddressesOfIpv6AndGrh) {
  for (const auto& [original, at] : {std::pair{over_ipv6, 14U + 8}, std::pair{over_grh, 14U + 8}}) {
    Address before{};
    std::copy_n(original.begin() + at, 16, before.begin());
    ByteVector frame = original;
    std::mt19937 random(5);
    for (int i = 0; i < 16; ++i) frame[at + static_cast<std::uint32_t>(i)] = static_cast<std::uint8_t>(random());
    const std::vector<Address> known{ipv4(1), before, ipv4(2)};
    const IcrcCause cause = explain(frame, known);
    ASSERT_EQ(cause.kind, Kind::address);
    EXPECT_EQ(cause.source, before);
    EXPECT_NE(explain(frame).kind, Kind::address);
  }
}

// ---- Senders that do not mask fields. Returns the ICRC of an IPv4 frame with all variant fields masked except
// `plain`.
std::uint32_t icrc_without_masking(const ByteVector& frame, std::uint8_t plain) {
  namespace m = icrc_mask;
  ByteVector seen(8, 0xff);
  seen.insert(seen.end(), frame.begin() + ip, frame.end() - 4);
  const auto mask = [&](std::uint8_t field, std::uint32_t at) {
    if (!(plain & field)) seen[at - ip + 8] = 0xff;
  };
  mask(m::traffic_class, ip + 1);
  mask(m::time_to_live, ip + 8);
  mask(m::ip_checksum, ip + 10);
  mask(m::ip_checksum, ip + 11);
  mask(m::udp_checksum, udp + 6);
  mask(m::udp_checksum, udp + 7);
  mask(m::bth_reserved, bth + 4);
  return __builtin_bswap32(plain::crc32(seen));
}

// Does what a router does: decrements the time to live and updates the checksum.
void forward(ByteVector& frame, unsigned hops) {
  frame[ip + 8] = static_cast<std::uint8_t>(frame[ip + 8] - hops);
  frame[ip + 10] = frame[ip + 11] = 0;
  store_be(frame.data() + ip + 10, 2, internet_checksum(Bytes(frame).subspan(ip, 20)));
}

TEST(IcrcCause, EveryCombinationOfUnmaskedFields) {
  EXPECT_EQ(icrc_without_masking(send, 0), 0xdd7d5e78U) << "the captured ICRC";
  for (std::uint8_t plain = 1; plain < 64; ++plain) {
    if (plain & icrc_mask::flow_label) continue;
    for (unsigned hops : {0U, 1U, 3U, 40U})
      for (const std::uint8_t tos : {0x00, 0x68, 0x6a}) {
        ByteVector frame = send;
        frame[ip + 1] = tos;
        frame[udp + 6] = 0x12;
        forward(frame, 0);
        store_be(frame.data() + frame.size() - 4, 4, icrc_without_masking(frame, plain));
        // The frame changes in transit: routers forward it, and a switch ECN-marks it if it is ECN-capable.
        if (tos == 0x6a) frame[ip + 1] = 0x6b;
        forward(frame, hops);
        const IcrcCause cause = explain(frame);
        ASSERT_EQ(cause.kind, Kind::not_masked) << int{plain} << " " << hops << " " << int{tos};
        EXPECT_EQ(cause.not_masked, plain) << hops << " " << int{tos};
        if (plain & icrc_mask::time_to_live) {
          EXPECT_EQ(cause.original, 64U);
        }
        EXPECT_LE(cause.accidents, 15259U);
      }
  }
}

// The stated probability counts every compared combination: of the BTH and the UDP checksum, and, for each time to live
// of at least 64, of traffic class, time to live and IPv4 checksum. Combinations with only the traffic class do not
// depend on the time to live, and count once.
TEST(IcrcCause, AccidentsOfUnmaskedFields) {
  ByteVector frame = send;
  store_be(frame.data() + frame.size() - 4, 4, icrc_without_masking(frame, icrc_mask::traffic_class));
  const IcrcCause cause = explain(frame);
  ASSERT_EQ(cause.kind, Kind::not_masked);
  constexpr double combinations = 3 + 4 * 7 + 4 * 6 * (255 - 64);
  EXPECT_EQ(cause.accidents, std::ceil(combinations / (1ULL << 32) * 1e9));
}

TEST(IcrcCause, UnmaskedFieldsOfIpv6AndGrh) {
  for (const auto& [original, v6] : {std::pair{over_ipv6, true}, std::pair{over_grh, false}})
    for (unsigned plain = 1; plain < 64; ++plain) {
      namespace m = icrc_mask;
      if (plain & m::ip_checksum || (!v6 && plain & m::udp_checksum)) continue;
      ByteVector frame = original;
      const std::uint32_t header = 14, transport = v6 ? udp6 + 8 : 54;
      frame[header] = 0x6a;  // traffic class 0xa1, flow label 0x23456
      frame[header + 1] = 0x12;
      frame[header + 2] = 0x34;
      frame[header + 3] = 0x56;
      if (v6) frame[udp6 + 7] = 0x99;
      frame[transport + 4] = 0x40;
      ByteVector seen(8, 0xff);
      seen.insert(seen.end(), frame.begin() + header, frame.end() - 4);
      const auto mask = [&](unsigned field, std::uint32_t at, std::uint8_t bits = 0xff) {
        if (!(plain & field)) seen[at - header + 8] |= bits;
      };
      mask(m::traffic_class, header, 0x0f);
      mask(m::traffic_class, header + 1, 0xf0);
      mask(m::flow_label, header + 1, 0x0f);
      mask(m::flow_label, header + 2);
      mask(m::flow_label, header + 3);
      mask(m::time_to_live, header + 7);
      if (v6) mask(m::udp_checksum, udp6 + 6);
      if (v6) mask(m::udp_checksum, udp6 + 7);
      mask(m::bth_reserved, transport + 4);
      store_be(frame.data() + frame.size() - 4, 4, __builtin_bswap32(plain::crc32(seen)));
      frame[header + 7] = static_cast<std::uint8_t>(frame[header + 7] - 2);
      const IcrcCause cause = explain(frame);
      ASSERT_EQ(cause.kind, Kind::not_masked) << plain << (v6 ? " IPv6" : " GRH");
      EXPECT_EQ(cause.not_masked, plain);
    }
}

TEST(IcrcCause, NativeInfiniBandLrh) {
  for (const bool with_grh : {false, true}) {
    Frame made;
    made /= Value<Lrh>().set<"slid">(4).set<"dlid">(1).set<"vl">(3);
    if (with_grh) made /= Value<Grh>();
    made /= Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(17);
    made.payload = {1, 2, 3, 4, 5, 6, 7, 8};
    ByteVector frame = made.encode();
    HeaderStack stack = decode(frame, LinkType::infiniband);
    ASSERT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
    // Masks all variant fields except those of the LRH.
    ByteVector seen(frame.begin(), frame.begin() + stack.icrc.offset);
    if (with_grh) {
      seen[8] |= 0x0f;
      seen[9] = seen[10] = seen[11] = seen[15] = 0xff;
    }
    seen[(with_grh ? 48U : 8U) + 4] = 0xff;
    store_be(frame.data() + stack.icrc.offset, 4, __builtin_bswap32(plain::crc32(seen)));
    const IcrcCause cause = explain_icrc(stack);
    ASSERT_EQ(cause.kind, Kind::not_masked) << with_grh;
    EXPECT_EQ(cause.not_masked, icrc_mask::lrh);
  }
}

// The ICRC of a packet with GRH does not cover the LRH, so an error of the LRH cannot be the cause.
TEST(IcrcCause, HeaderErrorsOfNativeInfiniBand) {
  for (const bool with_grh : {false, true}) {
    Frame made;
    made /= Value<Lrh>().set<"slid">(4).set<"dlid">(1);
    if (with_grh) made /= Value<Grh>();
    made /= Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(17);
    made.payload = {1, 2, 3, 4, 5, 6, 7, 8};
    ByteVector frame = made.encode();
    const HeaderStack stack = decode(frame, LinkType::infiniband);
    frame[stack.layers()[stack.transport].offset + 11] ^= 0x10;  // the last byte of the PSN
    const IcrcCause cause = explain_icrc(stack);
    ASSERT_EQ(cause.kind, Kind::header) << with_grh;
    const double candidates = 8.0 * (with_grh ? Grh::size + Bth::size : Lrh::size + Bth::size);
    EXPECT_EQ(cause.accidents, std::ceil(candidates / (1ULL << 32) * 1e9)) << with_grh;
  }
}

TEST(IcrcCause, Pad) {
  // The sender computed the ICRC over arbitrary padding and sent zeros, or vice versa.
  for (const std::uint32_t wrong : {0x0001U, 0xffffU, 0xbeefU}) {
    ByteVector frame = padded;
    store_be(frame.data() + frame.size() - 6, 2, wrong);
    const IcrcCause cause = explain(frame);
    ASSERT_EQ(cause.kind, Kind::pad) << wrong;
    EXPECT_EQ(cause.original, 0U);
    expect_restored(frame, cause);
  }
}

TEST(IcrcCause, PadOfEveryLength) {
  for (std::size_t bytes = 1; bytes <= 3; ++bytes) {
    Frame made = Frame::of(decode(send));
    made.forget_computed();
    made.payload.resize(16 - bytes);
    ByteVector frame = made.encode();
    ASSERT_EQ(check_icrc(decode(frame)).status, CrcCheck::Status::good);
    for (std::size_t i = 0; i < bytes; ++i) frame[frame.size() - 5 - i] = static_cast<std::uint8_t>(0xa0 + i);
    EXPECT_EQ(explain(frame).kind, Kind::pad) << bytes;
  }
}

TEST(IcrcCause, SingleBitErrorsAreFound) {
  for (const ByteVector& original : {send, atomic, over_ipv6, over_grh}) {
    const HeaderStack stack = decode(original);
    const std::uint32_t transport = stack.layers()[stack.transport].offset;
    std::map<Kind, int> kinds;
    for (std::uint32_t bit = (transport + 5) * 8; bit < original.size() * 8; ++bit) {
      ByteVector frame = original;
      frame[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      const IcrcCause cause = explain_icrc(decode(frame));
      kinds[cause.kind]++;
      ASSERT_TRUE(cause.kind == Kind::header || cause.kind == Kind::payload || cause.kind == Kind::icrc) << bit;
      EXPECT_EQ(cause.bits, 1U) << bit;
      EXPECT_EQ(cause.offset, bit / 8) << bit;
      expect_restored(frame, cause);
    }
    EXPECT_EQ(kinds[Kind::icrc], 32);
    EXPECT_EQ(kinds[Kind::payload], static_cast<int>(stack.payload.length * 8));
  }
}

ByteVector with_payload(std::size_t bytes) {
  std::mt19937 random(11);
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000003).set<"dst">(0x0a000002) /
                Value<Udp>().set<"src_port">(0xc123) / Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(0x11);
  for (std::size_t i = 0; i < bytes; ++i) frame.payload.push_back(static_cast<std::uint8_t>(random()));
  return frame.encode();
}

TEST(IcrcCause, ByteErrorsInThePayload) {
  for (std::size_t bytes : {16U, 256U, 1024U, 4096U}) {
    const ByteVector original = with_payload(bytes);
    const HeaderStack stack = decode(original);
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
      ByteVector frame = original;
      const std::size_t at = stack.payload.offset + random() % bytes;
      frame[at] ^= static_cast<std::uint8_t>(1 + random() % 15);  // at most four bits
      const IcrcCause cause = explain(frame);
      ASSERT_EQ(cause.kind, Kind::payload) << bytes << " at " << at;
      EXPECT_EQ(cause.offset, at);
      expect_restored(frame, cause);
    }
  }
}

// Damage in several places must not get a wrong cause, except "payload".
TEST(IcrcCause, DamageInSeveralPlacesIsNotExplained) {
  std::mt19937 random(20261121);
  std::vector<Address> known;
  for (std::uint32_t i = 0; i < 64; ++i) known.push_back(ipv4(0x0a000000 + i));
  std::map<Kind, int> kinds;
  const ByteVector originals[] = {with_payload(64), with_payload(512), with_payload(2048)};
  for (int i = 0; i < 10000; ++i) {
    ByteVector frame = originals[i % 3];
    const HeaderStack before = decode(frame);
    for (unsigned n = 3 + random() % 6; n > 0; --n)
      frame[before.payload.offset + random() % before.payload.length] ^= static_cast<std::uint8_t>(1 + random() % 255);
    const IcrcCause cause = explain_icrc(decode(frame), known);
    kinds[cause.kind]++;
    if (cause.kind != Kind::unknown && cause.kind != Kind::payload && cause.kind != Kind::none)
      ADD_FAILURE() << i << ": " << describe(cause);
  }
  EXPECT_GE(kinds[Kind::unknown], 9900);
  std::printf("of 10000: unknown %d, payload %d\n", kinds[Kind::unknown], kinds[Kind::payload]);
}

// The headers may be damaged too, so explain_icrc() must accept any decoded packet.
TEST(IcrcCause, ArbitraryBytes) {
  std::mt19937 random(77);
  const ByteVector originals[] = {send, padded, atomic, over_ipv6, over_grh};
  std::map<Kind, int> kinds;
  for (int i = 0; i < 20000; ++i) {
    ByteVector frame = originals[random() % 5];
    const LinkType link = random() % 4 ? LinkType::ethernet : LinkType::infiniband;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      frame[random() % frame.size()] = static_cast<std::uint8_t>(random());
    if (random() % 4 == 0) frame.resize(frame.size() - random() % 20);
    const IcrcCause cause = explain_icrc(decode(frame, link));
    EXPECT_FALSE(describe(cause).empty());
    kinds[cause.kind]++;
  }
  EXPECT_GT(kinds[Kind::unknown], 100);
}

// Each cause explains random ICRCs at most as often as the stated probability.
TEST(IcrcCause, AccidentsMatchTheStatedProbability) {
  std::mt19937_64 random(1);
  ByteVector frame = with_payload(64);
  const HeaderStack stack = decode(frame);
  constexpr int tries = 20000;
  std::map<Kind, int> kinds;
  for (int i = 0; i < tries; ++i) {
    store_be(frame.data() + stack.icrc.offset, 4, random());
    kinds[explain_icrc(stack).kind]++;
  }
  // The expected value is 20,000 / 65,536, about a third. More than five have a probability below one in 100,000.
  EXPECT_LE(kinds[Kind::source_port], 5);
  EXPECT_LE(kinds[Kind::ip_identification], 5);
  EXPECT_LE(kinds[Kind::not_masked], 5);
  EXPECT_LE(kinds[Kind::header], 5);
  EXPECT_LE(kinds[Kind::icrc], 5);
  EXPECT_LE(kinds[Kind::payload], 90);
  std::printf("of %d: port %d, identification %d, not masked %d, header %d, payload %d, icrc %d\n", tries,
              kinds[Kind::source_port], kinds[Kind::ip_identification], kinds[Kind::not_masked], kinds[Kind::header],
              kinds[Kind::payload], kinds[Kind::icrc]);
}

}  // namespace
}  // namespace rdmawire
