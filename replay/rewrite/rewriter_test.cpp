#include "replay/rewrite/rewriter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "replay/faults/frames_for_test.hpp"
#include "replay/faults/recompute_checksums.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace rdmawire::replay::testing;

constexpr auto ipv4 = &PortAddress::of_ipv4;

// The hosts of frames_for_test.hpp: a is 10.0.0.2 with QP 0x12, b is 10.0.0.3 with QP 0x11.
MappedConnection connection() {
  MappedConnection c;
  c.name = "connection 1";
  MappedEnd& a = c.at(Side::a);
  a.address = {ipv4(0x0a000002), ipv4(0xc0a80102)};
  a.mac = {std::nullopt, 0x0200000000aa};
  a.qp = {0x12, 0x777};
  a.psn = {1000, 5};
  a.source_port = {std::nullopt, 50'000};
  MappedEnd& b = c.at(Side::b);
  b.address = {ipv4(0x0a000003), ipv4(0xc0a80103)};
  b.mac = {std::nullopt, 0x0200000000bb};
  b.qp = {0x11, 0x888};
  b.psn = {2000, 0xfffff0};
  b.msn = {0, 7};
  b.regions = {{{0x1234, 0xabcd}, {0x7f0000001000, 0x1000}, 0x100}};
  return c;
}
FlowMap map_of(MappedConnection c) { return {{std::move(c)}, {}}; }

struct Result {
  Rewritten rewritten;
  std::vector<std::uint8_t> before, frame;
  [[nodiscard]] HeaderStack stack() const { return decode(frame); }
  [[nodiscard]] std::vector<std::string> changes() const {
    std::vector<std::string> out;
    for (const FieldChange& change : differences(decode(before), stack())) out.push_back(to_string(change));
    return out;
  }
};
Result rewrite(const Rewriter& rewriter, std::vector<std::uint8_t> frame, std::uint64_t number = 1) {
  Result result;
  result.before = frame;
  std::vector<std::uint8_t> room(frame.size() + Rewriter::growth, 0xa5);
  const HeaderStack stack = decode(frame);
  result.rewritten = rewriter.rewrite(stack, room, number);
  result.frame.assign(result.rewritten.frame.begin(), result.rewritten.frame.end());
  return result;
}

TEST(Rewriter, RequestGetsSendersPsnAndReceiversQpNumber) {
  const Rewriter rewriter(map_of(connection()));
  const Result r = rewrite(rewriter, request(1003));
  EXPECT_EQ(r.rewritten.outcome, Rewritten::Outcome::rewritten);
  EXPECT_EQ(r.rewritten.connection, 0U);
  EXPECT_EQ(r.rewritten.from, Side::a);
  const HeaderStack stack = r.stack();
  EXPECT_EQ(stack.get<Bth>()->get<"psn">(), 8U);
  EXPECT_EQ(stack.get<Bth>()->get<"dest_qp">(), 0x888U);
  EXPECT_EQ(stack.get<Ipv4>()->get<"src">(), 0xc0a80102U);
  EXPECT_EQ(stack.get<Ipv4>()->get<"dst">(), 0xc0a80103U);
  EXPECT_EQ(stack.get<Ethernet>()->get<"src">(), 0x0200000000aaU);
  EXPECT_EQ(stack.get<Ethernet>()->get<"dst">(), 0x0200000000bbU);
  EXPECT_EQ(stack.get<Udp>()->get<"src_port">(), 50'000U);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
  EXPECT_EQ(internet_checksum(stack.bytes_of(*stack.find(info<Ipv4>))), 0) << "valid checksum";
}

TEST(Rewriter, AcknowledgementGetsRequestersPsnAndOwnMsn) {
  const Rewriter rewriter(map_of(connection()));
  const Result r = rewrite(rewriter, answer(1003));
  EXPECT_EQ(r.rewritten.from, Side::b);
  EXPECT_EQ(r.stack().get<Bth>()->get<"psn">(), 8U) << "1003 - 1000 + 5: response to requests of a";
  EXPECT_EQ(r.stack().get<Bth>()->get<"dest_qp">(), 0x777U);
  EXPECT_EQ(r.stack().get<Aeth>()->get<"msn">(), 7U);
  EXPECT_EQ(check_icrc(r.stack()).status, CrcCheck::Status::good);
}

TEST(Rewriter, PsnsWrapAt24Bits) {
  const Rewriter rewriter(map_of(connection()));
  EXPECT_EQ(rewrite(rewriter, packet(false, op::send_only, 2000 + 0x20, 0x12)).stack().get<Bth>()->get<"psn">(), 0x10U);
  EXPECT_EQ(rewrite(rewriter, request(998)).stack().get<Bth>()->get<"psn">(), 3U);
  EXPECT_EQ(rewrite(rewriter, request(990)).stack().get<Bth>()->get<"psn">(), 0xfffffbU);
}

std::vector<std::uint8_t> write_request(std::uint32_t rkey, std::uint64_t va) {
  Frame frame = between(true) / Value<Udp>() / Value<Bth>().set<"opcode">(0x0a).set<"psn">(1000).set<"dest_qp">(0x11) /
                Value<Reth>().set<"rkey">(rkey).set<"va">(va).set<"length">(4);
  frame.payload = {1, 2, 3, 4};
  return frame.encode();
}

TEST(Rewriter, AccessIsMovedToLiveRegion) {
  const Rewriter rewriter(map_of(connection()));
  const auto reth = [&](std::uint32_t rkey, std::uint64_t va) {
    const Result r = rewrite(rewriter, write_request(rkey, va));
    EXPECT_EQ(check_icrc(r.stack()).status, CrcCheck::Status::good);
    const auto view = *r.stack().get<Reth>();
    return std::pair<std::uint32_t, std::uint64_t>(view.get<"rkey">(), view.get<"va">());
  };
  EXPECT_EQ(reth(0x1234, 0x7f0000001010), std::pair(0xabcdU, std::uint64_t{0x1010}));
  EXPECT_EQ(reth(0x1234, 0x7f0000002000), std::pair(0xabcdU, std::uint64_t{0x2000})) << "same offset beyond the region";
  EXPECT_EQ(reth(0x1235, 0x7f0000001010), std::pair(0x1235U, std::uint64_t{0x7f0000001010})) << "unknown key";
}

TEST(Rewriter, RegionWithAddressIsPreferredAmongEqualKeys) {
  MappedConnection c = connection();
  c.at(Side::b).regions.push_back({{0x1234, 0xbbbb}, {0x7f0000009000, 0x5000}, 0x100});
  const Rewriter rewriter(map_of(c));
  EXPECT_EQ(rewrite(rewriter, write_request(0x1234, 0x7f0000009008)).stack().get<Reth>()->get<"va">(), 0x5008U);
  EXPECT_EQ(rewrite(rewriter, write_request(0x1234, 0x7f0000009008)).stack().get<Reth>()->get<"rkey">(), 0xbbbbU);
}

TEST(Rewriter, UnknownLiveValuesAreKept) {
  MappedConnection c;
  c.at(Side::a).address.captured = ipv4(0x0a000002);
  c.at(Side::b).address.captured = ipv4(0x0a000003);
  c.at(Side::a).qp.captured = 0x12;
  c.at(Side::b).qp.captured = 0x11;
  c.at(Side::a).psn.captured = 1000;
  const Result r = rewrite(Rewriter(map_of(c)), request(1003));
  EXPECT_EQ(r.rewritten.outcome, Rewritten::Outcome::rewritten);
  EXPECT_EQ(r.frame, request(1003));
  EXPECT_THAT(r.changes(), IsEmpty());
}

TEST(Rewriter, DifferencesNameFieldsAndValues) {
  MappedConnection c = connection();
  c.at(Side::a).mac.live.reset();
  c.at(Side::b).mac.live.reset();
  const Result r = rewrite(Rewriter(map_of(c)), request(1003));
  const auto changes = r.changes();
  ASSERT_EQ(changes.size(), 7U);
  EXPECT_THAT(changes[0], ::testing::StartsWith("ip.checksum 0x"));
  EXPECT_EQ(changes[1], "ip.src 10.0.0.2 → 192.168.1.2");
  EXPECT_EQ(changes[2], "ip.dst 10.0.0.3 → 192.168.1.3");
  EXPECT_THAT(changes[3], ::testing::MatchesRegex("udp.src_port [0-9]+ → 50000"));
  EXPECT_EQ(changes[4], "bth.dest_qp 0x11 → 0x888");
  EXPECT_EQ(changes[5], "bth.psn 1003 → 8");
  EXPECT_THAT(changes[6], ::testing::StartsWith("icrc 0x"));
}

TEST(Rewriter, UnmappedConnectionIsRefusedKeptOrDropped) {
  const auto stray = packet(true, op::send_only, 5, 0x99);
  RewriteOptions options;
  EXPECT_EQ(rewrite(Rewriter(map_of(connection()), options), stray).rewritten.outcome, Rewritten::Outcome::refused);
  EXPECT_EQ(rewrite(Rewriter(map_of(connection()), options), stray).rewritten.why, "the connection has no mapping");
  options.unmapped = Unmapped::drop;
  EXPECT_EQ(rewrite(Rewriter(map_of(connection()), options), stray).rewritten.outcome, Rewritten::Outcome::dropped);
  options.unmapped = Unmapped::keep;
  const Result kept = rewrite(Rewriter(map_of(connection()), options), stray);
  EXPECT_EQ(kept.rewritten.outcome, Rewritten::Outcome::kept);
  EXPECT_EQ(kept.frame, stray);
}

TEST(Rewriter, EmptyMapChangesNoBytes) {
  const Result r = rewrite(Rewriter(FlowMap{}), request(3));
  EXPECT_EQ(r.rewritten.outcome, Rewritten::Outcome::rewritten);
  EXPECT_EQ(r.frame, request(3));
}

TEST(Rewriter, ReusedQpNumbersAreDistinguishedByFrame) {
  MappedConnection first = connection(), second = connection();
  first.last_frame = 100;
  second.first_frame = 101;
  second.at(Side::b).qp.live = 0x999;
  const Rewriter rewriter(FlowMap{{first, second}, {}});
  EXPECT_EQ(rewrite(rewriter, request(1000), 100).stack().get<Bth>()->get<"dest_qp">(), 0x888U);
  EXPECT_EQ(rewrite(rewriter, request(1000), 101).stack().get<Bth>()->get<"dest_qp">(), 0x999U);
}

TEST(Rewriter, InvalidIcrcKeepsErrorBitsUnlessRecomputed) {
  auto frame = request(1003);
  frame.back() ^= 0x10;
  RewriteOptions options;
  const Result followed = rewrite(Rewriter(map_of(connection()), options), frame);
  const CrcCheck check = check_icrc(followed.stack());
  EXPECT_EQ(check.status, CrcCheck::Status::bad);
  EXPECT_EQ(check.value ^ check.computed, 0x10U);
  options.crc = CrcPolicy::recompute;
  EXPECT_EQ(check_icrc(rewrite(Rewriter(map_of(connection()), options), frame).stack()).status, CrcCheck::Status::good);
  options.crc = CrcPolicy::keep;
  EXPECT_EQ(check_icrc(rewrite(Rewriter(map_of(connection()), options), frame).stack()).value,
            check_icrc(decode(frame)).value);
}

TEST(Rewriter, MaskIsXoredIntoIcrc) {
  RewriteOptions options;
  options.icrc_mask = 0x80000001;
  const CrcCheck check = check_icrc(rewrite(Rewriter(map_of(connection()), options), request(1003)).stack());
  EXPECT_EQ(check.value ^ check.computed, 0x80000001U);
}

TEST(Rewriter, UdpChecksumIsUpdatedAndZeroIsKept) {
  Frame frame =
      between(true) / Value<Udp>() / Value<Bth>().set<"opcode">(op::send_only).set<"psn">(1000).set<"dest_qp">(0x11);
  frame.payload = {1, 2, 3, 4};
  auto raw = frame.encode();
  EXPECT_EQ(rewrite(Rewriter(map_of(connection())), raw).stack().get<Udp>()->get<"checksum">(), 0U);

  // A valid checksum, then an invalid one. RFC 768.
  constexpr std::size_t udp = 34, checksum = udp + 6;
  const auto right = [&](Bytes bytes) {
    std::uint32_t sum = 17 + static_cast<std::uint32_t>(bytes.size() - udp);
    for (std::size_t i = 26; i < 34; i += 2) sum += static_cast<std::uint32_t>(load_be<2>(bytes.data() + i));
    return internet_checksum(bytes.subspan(udp), sum) == 0;
  };
  for (std::uint32_t value = 1; value < 0x10000 && !right(raw); ++value) store_be(raw.data() + checksum, 2, value);
  ASSERT_TRUE(right(raw));
  EXPECT_TRUE(right(rewrite(Rewriter(map_of(connection())), raw).frame));
  store_be(raw.data() + checksum, 2, load_be<2>(raw.data() + checksum) ^ 1);
  EXPECT_FALSE(right(rewrite(Rewriter(map_of(connection())), raw).frame));
  RewriteOptions options;
  options.crc = CrcPolicy::recompute;
  EXPECT_TRUE(right(rewrite(Rewriter(map_of(connection()), options), raw).frame));
}

/// Returns whether the transport checksum of an IPv4 packet without options is valid. RFC 768, RFC 9293, 3.1.
bool transport_checksum_is_valid(Bytes frame) {
  constexpr std::size_t ip = 14, transport = 34;
  std::uint32_t sum = frame[ip + 9] + static_cast<std::uint32_t>(frame.size() - transport);
  for (std::size_t i = ip + 12; i < transport; i += 2) sum += static_cast<std::uint32_t>(load_be<2>(frame.data() + i));
  return internet_checksum(frame.subspan(transport), sum) == 0;
}

// With every live source port: the sums of some updates carry twice.
TEST(Rewriter, UdpChecksumIsUpdatedForEverySourcePort) {
  Frame built = between(true) / Value<Udp>().set<"checksum">(1) /
                Value<Bth>().set<"opcode">(op::send_only).set<"psn">(1000).set<"dest_qp">(0x11);
  built.payload = {1, 2, 3, 4};
  auto frame = built.encode();
  for (std::uint32_t value = 1; value < 0x10000 && !transport_checksum_is_valid(frame); ++value)
    store_be(frame.data() + 40, 2, value);
  ASSERT_TRUE(transport_checksum_is_valid(frame));
  std::size_t wrong = 0;
  for (std::uint32_t psn = 0; psn < 4; ++psn) {
    Rewriter rewriter(map_of(connection()));
    MappedEnd& sender = rewriter.map().connections[0].at(Side::a);
    sender.psn.live = psn;
    for (std::uint32_t port = 0; port < 0x10000; ++port) {
      sender.source_port.live = static_cast<std::uint16_t>(port);
      wrong += !transport_checksum_is_valid(rewrite(rewriter, frame).frame);
    }
  }
  EXPECT_EQ(wrong, 0U);
}

// ---- Fragments

/// Splits an IPv4 packet without options into two fragments. The first one has `bytes` after the IPv4 header.
std::array<std::vector<std::uint8_t>, 2> fragments_of(const std::vector<std::uint8_t>& frame, std::size_t bytes) {
  constexpr std::size_t ip = 14, data = 34;
  std::array<std::vector<std::uint8_t>, 2> parts{frame, frame};
  parts[0].resize(data + bytes);
  parts[1].erase(parts[1].begin() + data, parts[1].begin() + static_cast<std::ptrdiff_t>(data + bytes));
  for (const bool later : {false, true}) {
    auto& part = parts[later];
    store_be(part.data() + ip + 2, 2, part.size() - ip);
    store_be(part.data() + ip + 6, 2, later ? bytes / 8 : 0x2000);  // offset, or more fragments
    store_be(part.data() + ip + 10, 2, 0);
    store_be(part.data() + ip + 10, 2, internet_checksum(Bytes(part).subspan(ip, 20)));
  }
  return parts;
}

TEST(Rewriter, FirstFragmentOfRocePacketHasNoConnection) {
  const auto first = fragments_of(request(1003), 24)[0];
  ASSERT_TRUE(decode(first).fragment);
  RewriteOptions options;
  EXPECT_EQ(rewrite(Rewriter(map_of(connection()), options), first).rewritten.outcome, Rewritten::Outcome::refused);
  options.unmapped = Unmapped::keep;
  const Result kept = rewrite(Rewriter(map_of(connection()), options), first);
  EXPECT_EQ(kept.rewritten.outcome, Rewritten::Outcome::kept);
  EXPECT_EQ(kept.frame, first);
}

TEST(Rewriter, LaterFragmentGetsOnlyLiveAddresses) {
  for (const CrcPolicy policy : {CrcPolicy::follow, CrcPolicy::recompute}) {
    RewriteOptions options;
    options.crc = policy;
    const auto later = fragments_of(request(1003), 16)[1];
    const Result r = rewrite(Rewriter(map_of(connection()), options), later);
    EXPECT_EQ(r.rewritten.outcome, Rewritten::Outcome::rewritten);
    EXPECT_EQ(r.stack().get<Ipv4>()->get<"src">(), 0xc0a80102U);
    EXPECT_EQ(r.stack().get<Ipv4>()->get<"dst">(), 0xc0a80103U);
    EXPECT_EQ(internet_checksum(Bytes(r.frame).subspan(14, 20)), 0);
    EXPECT_TRUE(std::equal(r.frame.begin() + 34, r.frame.end(), later.begin() + 34, later.end()));
  }
}

// The transport checksum in the first fragment covers the addresses and the later fragments.
TEST(Rewriter, ChecksumOfReassembledFragmentsIsValid) {
  Frame datagram = between(true) / Value<Udp>().set<"src_port">(1000).set<"dst_port">(2049).set<"checksum">(1);
  datagram.payload.assign(64, 0x5a);
  for (auto whole : {tcp(true, 5, 64), datagram.encode()}) {
    const std::size_t checksum = whole[23] == ip_protocol::tcp ? 50 : 40;
    for (std::uint32_t value = 1; value < 0x10000 && !transport_checksum_is_valid(whole); ++value)
      store_be(whole.data() + checksum, 2, value);
    ASSERT_TRUE(transport_checksum_is_valid(whole));
    const auto parts = fragments_of(whole, 40);
    for (const CrcPolicy policy : {CrcPolicy::follow, CrcPolicy::recompute}) {
      RewriteOptions options;
      options.crc = policy;
      const Rewriter rewriter(map_of(connection()), options);
      auto reassembled = rewrite(rewriter, parts[0]).frame;
      const auto later = rewrite(rewriter, parts[1]).frame;
      EXPECT_EQ(decode(reassembled).get<Ipv4>()->get<"dst">(), 0xc0a80103U);
      reassembled.insert(reassembled.end(), later.begin() + 34, later.end());
      EXPECT_TRUE(transport_checksum_is_valid(reassembled)) << "protocol " << int{whole[23]};
    }
  }
}

TEST(Rewriter, VlanTagsAreChangedAddedAndRemoved) {
  MappedConnection c = connection();
  c.vlan.id.live = 7;
  const Result put_in = rewrite(Rewriter(map_of(c)), request(1000));
  ASSERT_TRUE(put_in.stack().get<Vlan>());
  EXPECT_EQ(put_in.stack().get<Vlan>()->get<"id">(), 7U);
  EXPECT_EQ(put_in.stack().get<Bth>()->get<"psn">(), 5U);
  EXPECT_EQ(check_icrc(put_in.stack()).status, CrcCheck::Status::good);

  MappedConnection back;
  back.ends = {};
  back.at(Side::a).address.captured = ipv4(0xc0a80102);
  back.at(Side::b).address.captured = ipv4(0xc0a80103);
  back.at(Side::b).qp.captured = 0x888;
  back.vlan.id = {7, 9};
  const Result changed = rewrite(Rewriter(map_of(back)), put_in.frame);
  EXPECT_EQ(changed.stack().get<Vlan>()->get<"id">(), 9U);
  back.vlan.id = {8, 9};
  EXPECT_EQ(rewrite(Rewriter(map_of(back)), put_in.frame).frame, put_in.frame) << "another VLAN";
  back.vlan.id = {7, MappedVlan::untagged};
  const Result taken = rewrite(Rewriter(map_of(back)), put_in.frame);
  EXPECT_FALSE(taken.stack().get<Vlan>());
  EXPECT_EQ(taken.frame.size(), put_in.frame.size() - 4);
  EXPECT_EQ(check_icrc(taken.stack()).status, CrcCheck::Status::good);
}

TEST(Rewriter, VlansOfAllFramesChangeFramesWithoutConnection) {
  const auto other = (Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a7f0009).set<"dst">(0x08080808) /
                      Value<Tcp>().set<"src_port">(22).set<"dst_port">(5000))
                         .encode();
  FlowMap map = map_of(connection());
  map.vlans = {MappedVlan{{MappedVlan::untagged, 7}}};
  const Result tagged = rewrite(Rewriter(map), other);
  EXPECT_EQ(tagged.rewritten.outcome, Rewritten::Outcome::rewritten);
  ASSERT_TRUE(tagged.stack().get<Vlan>());
  EXPECT_EQ(tagged.stack().get<Vlan>()->get<"id">(), 7U);
  EXPECT_EQ(rewrite(Rewriter(map), request(1000)).stack().get<Vlan>()->get<"id">(), 7U);

  map.vlans = {MappedVlan{{7, MappedVlan::untagged}}};
  EXPECT_EQ(rewrite(Rewriter(map), tagged.frame).frame, other);
  map.vlans = {MappedVlan{{8, MappedVlan::untagged}}};
  EXPECT_EQ(rewrite(Rewriter(map), tagged.frame).rewritten.outcome, Rewritten::Outcome::dropped) << "another VLAN";
  map.vlans = {MappedVlan{{std::nullopt, 9}}};
  EXPECT_EQ(rewrite(Rewriter(map), tagged.frame).stack().get<Vlan>()->get<"id">(), 9U);

  map.connections[0].vlan.id = {MappedVlan::untagged, 5};
  EXPECT_EQ(rewrite(Rewriter(map), request(1000)).stack().get<Vlan>()->get<"id">(), 5U) << "its own VLAN";
}

TEST(Rewriter, NetworksMapHostsWithoutOwnAddress) {
  MappedConnection c = connection();
  c.at(Side::b).address.live.reset();
  FlowMap map = map_of(c);
  map.prefixes.push_back({ipv4(0x0a000000), ipv4(0xac100000), 96 + 8, 96 + 12});
  const Rewriter rewriter(map);
  const Result r = rewrite(rewriter, request(1003));
  EXPECT_EQ(r.stack().get<Ipv4>()->get<"src">(), 0xc0a80102U) << "its own address";
  EXPECT_EQ(r.stack().get<Ipv4>()->get<"dst">(), 0xac100003U);
  EXPECT_EQ(check_icrc(r.stack()).status, CrcCheck::Status::good);

  // Hosts without a connection.
  const auto stranger = (Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a7f0009).set<"dst">(0x08080808) /
                         Value<Tcp>().set<"src_port">(22).set<"dst_port">(5000))
                            .encode();
  const Result other = rewrite(rewriter, stranger);
  EXPECT_EQ(other.rewritten.outcome, Rewritten::Outcome::rewritten);
  EXPECT_EQ(other.stack().get<Ipv4>()->get<"src">(), 0xac1f0009U) << "the live network has 12 bits";
  EXPECT_EQ(other.stack().get<Ipv4>()->get<"dst">(), 0x08080808U);
  EXPECT_EQ(internet_checksum(other.stack().bytes_of(*other.stack().find(info<Ipv4>))), 0);
}

TEST(Rewriter, OneWayNetworksMapOnlySourceOrDestination) {
  FlowMap map;
  map.source_prefixes.push_back({ipv4(0x0a000000), ipv4(0xac100000), 96 + 8, 96 + 12});
  map.destination_prefixes.push_back({ipv4(0x0a000002), ipv4(0x01020304), 128, 128});
  const Rewriter rewriter(map);
  const Result there = rewrite(rewriter, request(1003));
  EXPECT_EQ(there.stack().get<Ipv4>()->get<"src">(), 0xac100002U);
  EXPECT_EQ(there.stack().get<Ipv4>()->get<"dst">(), 0x0a000003U) << "it is no source here";
  EXPECT_EQ(check_icrc(there.stack()).status, CrcCheck::Status::good);
  const Result back = rewrite(rewriter, answer(1003));
  EXPECT_EQ(back.stack().get<Ipv4>()->get<"src">(), 0xac100003U);
  EXPECT_EQ(back.stack().get<Ipv4>()->get<"dst">(), 0x01020304U);
  EXPECT_EQ(internet_checksum(back.stack().bytes_of(*back.stack().find(info<Ipv4>))), 0);

  // They take precedence over the addresses of a connection, and apply to captured addresses.
  map.connections.push_back(connection());
  const Result mapped = rewrite(Rewriter(map), request(1003));
  EXPECT_EQ(mapped.stack().get<Ipv4>()->get<"src">(), 0xac100002U);
  EXPECT_EQ(mapped.stack().get<Ipv4>()->get<"dst">(), 0xc0a80103U);
  EXPECT_EQ(check_icrc(mapped.stack()).status, CrcCheck::Status::good);

  std::vector<std::uint8_t> arp(42, 0);
  store_be(arp.data() + 12, 8, 0x0806000108000604);
  store_be(arp.data() + 28, 4, 0x0a000002);
  store_be(arp.data() + 38, 4, 0x0a000002);
  const Result asked = rewrite(rewriter, arp);
  EXPECT_EQ(load_be<4>(asked.frame.data() + 28), 0xac100002U);
  EXPECT_EQ(load_be<4>(asked.frame.data() + 38), 0x01020304U);
}

using Address = std::array<std::uint8_t, 16>;
constexpr Address node_address(std::uint8_t net, std::uint8_t last) {
  return {0x20, 0x01, 0x0d, 0xb8, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, last};
}
constexpr Address solicited_group(std::uint8_t last) {
  return {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0x50, last};
}
// A solicitation of `target` by `source` with the MAC address `mac`, to a multicast group.
std::vector<std::uint8_t> solicitation(const Address& source, std::uint64_t mac, const Address& target,
                                       std::uint64_t group_mac, const Address& group) {
  return (Value<Ethernet>().set<"dst">(group_mac).set<"src">(mac) /
          Value<Ipv6>().set<"src">(Bytes(source)).set<"dst">(Bytes(group)).set<"hop_limit">(255) /
          Value<Icmpv6>().set<"type">(icmpv6_type::neighbor_solicitation) /
          Value<NeighborSolicitation>().set<"target">(Bytes(target)) /
          Value<NdLinkAddress>().set<"type">(nd_option::source).set<"address">(mac))
      .encode();
}

// The live host receives a solicitation only in the group of its own address.
TEST(Rewriter, NeighborSolicitationFollowsTheMap) {
  const Address a = node_address(0, 2), b = node_address(0, 3), live_a = node_address(1, 0xa2),
                live_b = node_address(1, 0xb3);
  FlowMap map;
  map.hosts = {{{PortAddress::of_gid(a.data()), PortAddress::of_gid(live_a.data())}, {std::nullopt, 0x0200000000aa}},
               {{PortAddress::of_gid(b.data()), PortAddress::of_gid(live_b.data())}, {std::nullopt, 0x0200000000bb}}};
  const Result r = rewrite(Rewriter(map), solicitation(a, 0x525400000002, b, 0x3333ff005003, solicited_group(3)));
  EXPECT_EQ(r.frame, solicitation(live_a, 0x0200000000aa, live_b, 0x3333ff0050b3, solicited_group(0xb3)));
}

TEST(Rewriter, GroupOfAllNodesIsKept) {
  const Address a = node_address(0, 2), b = node_address(0, 3), live_b = node_address(1, 0xb3);
  const Address all_nodes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  FlowMap map;
  map.hosts = {{{PortAddress::of_gid(b.data()), PortAddress::of_gid(live_b.data())}, {}}};
  const Result r = rewrite(Rewriter(map), solicitation(a, 0x525400000002, b, 0x333300000001, all_nodes));
  EXPECT_EQ(r.frame, solicitation(a, 0x525400000002, live_b, 0x333300000001, all_nodes));
}

TEST(RecomputeChecksums, Icmpv6) {
  const std::vector<std::uint8_t> valid =
      solicitation(node_address(0, 2), 0x525400000002, node_address(0, 3), 0x3333ff005003, solicited_group(3));
  std::vector<std::uint8_t> frame = valid;
  const HeaderStack stack = decode(valid);
  ASSERT_TRUE(stack.find(info<Icmpv6>));
  frame[stack.find(info<Icmpv6>)->offset + 2] ^= 0x5a;
  EXPECT_TRUE(mend_transport_checksum(frame));
  EXPECT_EQ(frame, valid);
}

TEST(Rewriter, PrefixesOfIpv6AddressesAreReplaced) {
  const std::array<std::uint8_t, 16> net{0xfd, 0, 0, 1}, host{0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  const std::array<std::uint8_t, 16> live{0xfd, 2}, there{0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  const MappedPrefix prefix{PortAddress::of_gid(net.data()), PortAddress::of_gid(live.data()), 32, 64};
  EXPECT_EQ(prefix.of(PortAddress::of_gid(host.data())), PortAddress::of_gid(there.data()));
  EXPECT_FALSE(prefix.of(PortAddress::of_gid(there.data())));
  EXPECT_FALSE(prefix.of(ipv4(5)));
  const MappedPrefix all{{}, PortAddress::of_gid(live.data()), 0, 128};
  EXPECT_EQ(all.of(PortAddress::of_gid(host.data())), PortAddress::of_gid(live.data()));
}

TEST(Rewriter, PortsAreMappedInAllFramesUnlessTheConnectionHasValues) {
  FlowMap map = map_of(connection());
  map.ports = {{4791, 4791, 4800}, {40'000, 60'000, 9}, {5000, 5000, 6000}};
  const Rewriter rewriter(map);
  const Result rdma = rewrite(rewriter, request(1003));
  EXPECT_EQ(rdma.stack().get<Udp>()->get<"dst_port">(), 4800U);
  EXPECT_EQ(rdma.stack().get<Udp>()->get<"src_port">(), 50'000U) << "source port of the endpoint";
  const auto stranger = (Value<Ethernet>() / Value<Ipv4>().set<"src">(1).set<"dst">(2) /
                         Value<Tcp>().set<"src_port">(22).set<"dst_port">(5000))
                            .encode();
  const Result other = rewrite(rewriter, stranger);
  EXPECT_EQ(other.rewritten.outcome, Rewritten::Outcome::rewritten);
  EXPECT_THAT(other.changes(), ::testing::IsSupersetOf({"tcp.dst_port 5000 → 6000"}));
  EXPECT_EQ(other.stack().get<Tcp>()->get<"src_port">(), 22U);
}

TEST(Rewriter, HopLimitIsChangedRelatively) {
  RewriteOptions options;
  for (const auto& [step, expected] :
       {std::pair<std::int16_t, std::uint64_t>{-3, 61}, {5, 69}, {-300, 1}, {255, 255}}) {
    options.hop_limit_step = step;
    EXPECT_TRUE(changes_frames(options));
    const Result r = rewrite(Rewriter({}, options), request(1));
    EXPECT_EQ(r.stack().get<Ipv4>()->get<"ttl">(), expected) << step;
    EXPECT_EQ(internet_checksum(r.stack().bytes_of(*r.stack().find(info<Ipv4>))), 0);
    EXPECT_EQ(check_icrc(r.stack()).status, CrcCheck::Status::good);
  }
}

TEST(Rewriter, VlanPriorityAndTypeOfOutermostTag) {
  MappedConnection c = connection();
  c.vlan.id.live = 7;
  RewriteOptions options;
  options.vlan_priority = 5;
  options.vlan_type = ethertype::provider_vlan;
  const Result added = rewrite(Rewriter(map_of(c), options), request(1000));
  EXPECT_EQ(load_be<2>(added.frame.data() + 12), 0x88a8U);
  EXPECT_EQ(load_be<2>(added.frame.data() + 14), 0xa007U);
  EXPECT_EQ(check_icrc(added.stack()).status, CrcCheck::Status::good);
  options.vlan_type = ethertype::vlan;
  options.vlan_priority = 0;
  const Result changed = rewrite(Rewriter({}, options), added.frame);
  EXPECT_EQ(load_be<4>(changed.frame.data() + 12), 0x81000007U);
  RewriteOptions eligible;
  eligible.vlan_dei = 1;
  const Result dropped_first = rewrite(Rewriter({}, eligible), added.frame);
  EXPECT_EQ(load_be<2>(dropped_first.frame.data() + 14), 0xb007U) << "the priority is kept";
  eligible.vlan_dei = 0;
  EXPECT_EQ(rewrite(Rewriter({}, eligible), dropped_first.frame).frame, added.frame);
  const Result untagged = rewrite(Rewriter({}, options), request(1000));
  EXPECT_EQ(untagged.frame, untagged.before);
}

TEST(Rewriter, LiveAddressOfOtherFamilyIsRefused) {
  MappedConnection c = connection();
  c.at(Side::b).address.live = PortAddress{0xfe80000000000000, 1};
  const Rewritten refused = rewrite(Rewriter(map_of(c)), request(1000)).rewritten;
  EXPECT_EQ(refused.outcome, Rewritten::Outcome::refused);
  EXPECT_EQ(refused.why, "the packet is IPv4, but the live address is not");
}

TEST(Rewriter, CmRequestContainsLiveQpNumberPsnAndAddresses) {
  Frame frame = between(true) / Value<Udp>() / Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1) / Value<Deth>() /
                Value<Mad>() /
                Value<CmReq>()
                    .set<"local_qpn">(0x12)
                    .set<"starting_psn">(2000)
                    .set<"service_id">(0x0000000001064ab4 + 0x100000000)
                    .set<"path_mtu">(3)
                    .set<"primary_local_gid.ipv4">(0x0a000002)
                    .set<"primary_remote_gid.ipv4">(0x0a000003);
  MappedConnection c = connection();
  c.mtu = {1024, 2048};
  const auto raw = frame.encode();
  const Result r = rewrite(Rewriter(map_of(c)), raw);
  ASSERT_EQ(r.rewritten.outcome, Rewritten::Outcome::rewritten);
  const auto req = *r.stack().get<CmReq>();
  EXPECT_EQ(req.get<"local_qpn">(), 0x777U);
  EXPECT_EQ(req.get<"starting_psn">(), 0xfffff0U) << "starting PSN of b";
  EXPECT_EQ(req.get<"path_mtu">(), 4U);
  EXPECT_EQ(check_icrc(r.stack()).status, CrcCheck::Status::good);
  EXPECT_EQ(r.stack().get<Bth>()->get<"dest_qp">(), 1U);
}

// A communication ID of 0 is unknown: a REJ of a REQ that was not understood.
TEST(Rewriter, CommunicationIdZeroIdentifiesNoConnection) {
  MappedConnection zero = connection(), wanted = connection();
  for (const Side side : {Side::a, Side::b}) zero.at(side).comm_id.captured = 0;
  wanted.at(Side::a).comm_id.captured = 5;
  wanted.at(Side::b).comm_id.captured = 6;
  const Rewriter rewriter(FlowMap{{zero, wanted}, {}});
  const auto find = [&](std::uint32_t local, std::uint32_t remote) -> std::optional<std::uint32_t> {
    const auto raw =
        (between(false) / Value<Udp>() / Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1) / Value<Deth>() /
         Value<Mad>() / Value<CmRej>().set<"local_comm_id">(local).set<"remote_comm_id">(remote))
            .encode();
    const auto place = rewriter.find(decode(raw), 1);
    if (!place) return std::nullopt;
    EXPECT_EQ(place->from, Side::b);
    return place->connection;
  };
  EXPECT_EQ(find(6, 5), 1U);
  EXPECT_EQ(find(6, 0), 1U);
  EXPECT_EQ(find(0, 5), 1U);
  EXPECT_EQ(find(9, 0), std::nullopt);
  EXPECT_EQ(find(0, 0), std::nullopt);
}

// Hosts without a mapping stay unknown after the first loop.
TEST(Rewriter, AddressStepMapsNoHost) {
  FlowMap map;
  map.hosts.push_back({{ipv4(0x0a000002), ipv4(0xc0a80102)}, {std::nullopt, 0x0200000000aa}});
  map.hosts.push_back({{ipv4(0x0a000003), ipv4(0xc0a80103)}, {std::nullopt, 0x0200000000bb}});
  RewriteOptions options;
  options.others = Unmapped::drop;
  const auto frame_of = [](std::uint32_t from, std::uint32_t to) {
    return (Value<Ethernet>() / Value<Ipv4>().set<"src">(from).set<"dst">(to) / Value<Udp>().set<"dst_port">(53))
        .encode();
  };
  for (const std::uint32_t step : {0U, 1U}) {
    map.address_step = step;
    const Rewriter rewriter(map, options);
    EXPECT_EQ(rewrite(rewriter, frame_of(0x0b000001, 0x0b000002)).rewritten.outcome, Rewritten::Outcome::dropped)
        << step;
    EXPECT_EQ(rewrite(rewriter, frame_of(0x0a000002, 0x0a000003)).rewritten.outcome, Rewritten::Outcome::rewritten)
        << step;
  }
  // Without other entries, the step applies to all hosts.
  FlowMap all;
  all.address_step = 1;
  const Result stepped = rewrite(Rewriter(all, options), frame_of(0x0b000001, 0x0b000002));
  EXPECT_EQ(stepped.rewritten.outcome, Rewritten::Outcome::rewritten);
  EXPECT_EQ(stepped.stack().get<Ipv4>()->get<"src">(), 0x0b000002U);
}

}  // namespace
}  // namespace rdmawire::replay
